//! The drivers that the tools can create devices of, and how they are listed.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use rehal_base::{Context, Error, Result};
use rehal_hal::{Device, DeviceGroup};
use rehal_local::LocalSync;
use rehal_local::executable::Plugins;

use crate::flags::{self, DEVICE, EXECUTABLE_PLUGIN, Flags, Refusal};

/// A driver: its name, its description, and how its only device is created.
struct Driver {
    name: &'static str,
    description: &'static str,
    create: fn(&[PathBuf]) -> Result<Device>,
}

/// Sorted by name, as the listings are.
const DRIVERS: &[Driver] = &[Driver {
    name: "local-sync",
    description: "The CPU, on the thread that makes work ready",
    create: create_local_sync,
}];

/// Drivers of the reference that are not in this build.
const ABSENT: &[&str] = &["cuda", "hip", "local-task", "vulkan"];

/// The driver that is used when no device is named. The reference uses `local-task`.
const DEFAULT_DEVICE: &str = "local-sync";

/// Which devices to create.
#[derive(Clone)]
pub(crate) struct DeviceOptions {
    /// At least one, in the order of the program or capture.
    pub uris: Vec<DeviceUri>,
    /// Libraries that executables import from; later ones take precedence.
    pub plugins: Vec<PathBuf>,
}

/// A device by the name of its driver.
#[derive(Clone)]
pub(crate) struct DeviceUri {
    text: String,
    driver: &'static Driver,
}

impl DeviceOptions {
    /// What the flags say.
    pub(crate) fn from_flags(flags: &Flags) -> Self {
        let mut uris = flags.list(&DEVICE);
        if uris.is_empty() {
            let driver = DRIVERS.iter().find(|driver| driver.name == DEFAULT_DEVICE);
            let driver = driver.expect("the default driver is in the table");
            uris.push(DeviceUri { text: DEFAULT_DEVICE.into(), driver });
        }
        Self { uris, plugins: flags.list(&EXECUTABLE_PLUGIN) }
    }

    /// Creates the devices, in order.
    pub(crate) fn create(&self) -> Result<DeviceGroup> {
        let create =
            |uri: &DeviceUri| (uri.driver.create)(&self.plugins).context(|| format!("device '{}'", uri.text));
        DeviceGroup::new(self.uris.iter().map(create).collect::<Result<_>>()?)
    }
}

/// Parses `DRIVER` or `DRIVER://`.
pub(crate) fn parse_uri(value: &OsStr) -> Result<DeviceUri, Refusal> {
    let uri = value.to_str().ok_or(Refusal::Unexpected)?;
    let (driver, path) = uri.split_once("://").unwrap_or((uri, ""));
    let (path, parameters) = path.split_once('?').unwrap_or((path, ""));
    let driver = find(driver)?;
    let name = driver.name;
    if !path.is_empty() {
        return Err(Error::not_found(format!("driver '{name}' has one device and no '{path}'"))
            .advise(format!("name it as --device={name}"))
            .into());
    }
    if !parameters.is_empty() {
        return Err(Error::invalid_argument(format!("driver '{name}' takes no parameters: '{parameters}'"))
            .advise(format!("name it as --device={name}"))
            .into());
    }
    Ok(DeviceUri { text: uri.into(), driver })
}

fn create_local_sync(plugins: &[PathBuf]) -> Result<Device> {
    let mut loaded = Plugins::default();
    for path in plugins {
        load_plugin(&mut loaded, path).context(|| format!("--executable_plugin={}", path.display()))?;
    }
    Ok(LocalSync::create(loaded))
}

#[allow(unsafe_code, reason = "the trust boundary of native code: the user names a library to run")]
fn load_plugin(plugins: &mut Plugins, path: &Path) -> Result<()> {
    // SAFETY: the user names this library on the command line so that its code is run in this
    // process, as docs/unsafe.md and the flag's help say; nothing else names libraries.
    unsafe { plugins.load(path.as_os_str()) }
}

fn find(name: &str) -> Result<&'static Driver> {
    #[cfg(test)]
    if name == tests::DISCRETE.name {
        return Ok(&tests::DISCRETE);
    }
    if let Some(driver) = DRIVERS.iter().find(|driver| driver.name == name) {
        return Ok(driver);
    }
    let what = if ABSENT.contains(&name) { "is not in this build" } else { "does not exist" };
    let names = || DRIVERS.iter().map(|driver| driver.name);
    let meant = flags::nearest(name, names());
    let meant = meant.map(|driver| format!("did you mean '{driver}'? ")).unwrap_or_default();
    Err(Error::not_found(format!("driver '{name}' {what}"))
        .advise(format!("{meant}the drivers are: {}", names().collect::<Vec<_>>().join(", "))))
}

/// Answers `--list_drivers`, `--list_devices` and `--dump_devices` in the reference's shape; `None`
/// for anything else.
pub(crate) fn answer(query: &str, value: &str) -> Option<Result<String>> {
    let answer = match query {
        "list_drivers" => Ok(list_drivers()),
        "list_devices" => of_drivers(value, |driver| format!("{}://\n", driver.name)),
        "dump_devices" => of_drivers(value, dump_device),
        _ => return None,
    };
    Some(answer)
}

fn of_drivers(name: &str, text: impl Fn(&Driver) -> String) -> Result<String> {
    match name {
        "" => Ok(DRIVERS.iter().map(text).collect()),
        name => find(name).map(text),
    }
}

const RULE: &str = "# ============================================================================";
const LIGHT_RULE: &str = "# ===----------------------------------------------------------------------===";

fn list_drivers() -> String {
    let mut text = format!("{RULE}\n# Available HAL drivers\n{RULE}\n");
    text.push_str("# Use --list_devices={driver name} to enumerate available devices.\n\n");
    for driver in DRIVERS {
        text.push_str(&format!("{:>16}: {}\n", driver.name, driver.description));
    }
    text
}

fn dump_device(driver: &Driver) -> String {
    let name = driver.name;
    format!(
        "{RULE}\n# Enumerated devices for driver '{name}'\n{RULE}\n\n\
         {LIGHT_RULE}\n# --device={name}://\n#   default\n{LIGHT_RULE}\n\n"
    )
}

#[cfg(test)]
mod tests {
    use rehal_cts::discrete::DiscreteDevice;

    use super::*;

    /// A device whose memory is apart from the host's, for the tests of this crate alone.
    pub(super) static DISCRETE: Driver = Driver {
        name: "discrete",
        description: "The CPU behind memory of its own",
        create: |plugins| create_local_sync(plugins).map(DiscreteDevice::over),
    };
}
