//! The drivers that the tools can create devices of, and how they are listed.

use rehal_base::{Context, Error, Result};
use rehal_hal::{Device, DeviceGroup};
use rehal_local::LocalSync;
use rehal_local::executable::Plugins;

use crate::flags::Flags;

/// A driver: its name, what it is, and how its one device is made.
struct Driver {
    name: &'static str,
    description: &'static str,
    create: fn(&[&str]) -> Result<Device>,
}

/// Sorted by name, as the listings are.
const DRIVERS: &[Driver] = &[Driver {
    name: "local-sync",
    description: "The CPU, on the thread that makes work ready",
    create: create_local_sync,
}];

/// Drivers of the reference that are not built yet.
const ABSENT: &[&str] = &["cuda", "hip", "local-task", "vulkan"];

/// The driver that is used when no device is named. The reference uses `local-task`.
const DEFAULT_DEVICE: &str = "local-sync";

/// The devices that the flags name, in order.
pub(crate) fn from_flags(flags: &Flags) -> Result<DeviceGroup> {
    let plugins: Vec<_> = flags.list("executable_plugin").collect();
    let mut uris: Vec<_> = flags.list("device").collect();
    if uris.is_empty() {
        uris.push(DEFAULT_DEVICE);
    }
    DeviceGroup::new(uris.into_iter().map(|uri| create(uri, &plugins)).collect::<Result<_>>()?)
}

fn create(uri: &str, plugins: &[&str]) -> Result<Device> {
    let (driver, path) = uri.split_once("://").unwrap_or((uri, ""));
    let (path, parameters) = path.split_once('?').unwrap_or((path, ""));
    let driver = find(driver)?;
    if !path.is_empty() {
        return Err(Error::not_found(format!("driver '{}' has one device and no '{path}'", driver.name))
            .advise(format!("name it as --device={}", driver.name)));
    }
    if !parameters.is_empty() {
        return Err(Error::invalid_argument(format!(
            "driver '{}' takes no parameters: '{parameters}'",
            driver.name
        ))
        .advise(format!("name it as --device={}", driver.name)));
    }
    (driver.create)(plugins).context(|| format!("device '{uri}'"))
}

fn create_local_sync(plugins: &[&str]) -> Result<Device> {
    let mut loaded = Plugins::default();
    for path in plugins {
        load_plugin(&mut loaded, path).context(|| format!("--executable_plugin={path}"))?;
    }
    Ok(LocalSync::create(loaded))
}

#[allow(unsafe_code, reason = "the trust boundary of native code: the user names a library to run")]
fn load_plugin(plugins: &mut Plugins, path: &str) -> Result<()> {
    // SAFETY: the user names this library on the command line so that its code is run in this
    // process, as docs/unsafe.md and the flag's help say; nothing else names libraries.
    unsafe { plugins.load(path.as_ref()) }
}

fn find(name: &str) -> Result<&'static Driver> {
    if let Some(driver) = DRIVERS.iter().find(|driver| driver.name == name) {
        return Ok(driver);
    }
    let what = if ABSENT.contains(&name) { "is not built yet" } else { "does not exist" };
    let meant = DRIVERS.iter().find(|driver| crate::tools::is_alike(driver.name, name));
    let meant = meant.map(|driver| format!("did you mean '{}'? ", driver.name)).unwrap_or_default();
    let drivers: Vec<_> = DRIVERS.iter().map(|driver| driver.name).collect();
    Err(Error::not_found(format!("driver '{name}' {what}"))
        .advise(format!("{meant}the drivers are: {}", drivers.join(", "))))
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
