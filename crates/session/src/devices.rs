use rehal_base::{Context, Error, Result};
use rehal_hal::{Device, DeviceGroup};
use rehal_local::LocalSync;
use rehal_local::executable::Plugins;

use crate::NamedPath;

/// A driver of this build: what opens devices.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct DriverInfo {
    /// What URIs call it.
    pub name: &'static str,
    /// What it is, in a line.
    pub description: &'static str,
}

/// Sorted by name, as listings are.
const DRIVERS: &[DriverInfo] =
    &[DriverInfo { name: "local-sync", description: "The CPU, on the thread that makes work ready" }];

/// Drivers of the reference that are not in this build.
const ABSENT: &[&str] = &["cuda", "hip", "local-task", "vulkan"];

/// The drivers of this build, by name.
pub fn drivers() -> &'static [DriverInfo] {
    DRIVERS
}

/// The driver of this name.
pub fn find_driver(name: &str) -> Result<&'static DriverInfo> {
    if let Some(driver) = DRIVERS.iter().find(|driver| driver.name == name) {
        return Ok(driver);
    }
    let what = if ABSENT.contains(&name) { "is not in this build" } else { "does not exist" };
    let names: Vec<_> = DRIVERS.iter().map(|driver| driver.name).collect();
    let meant = names.iter().find(|driver| strsim::jaro_winkler(driver, name) > SIMILAR);
    let meant = meant.map(|driver| format!("did you mean '{driver}'? ")).unwrap_or_default();
    Err(Error::not_found(format!("driver '{name}' {what}"))
        .advise(format!("{meant}the drivers are: {}", names.join(", "))))
}

/// From which similarity on a name may have been meant.
const SIMILAR: f64 = 0.75;

/// Which devices are opened.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct DeviceOptions {
    /// The devices by URI, `driver` or `driver://device`, in the order of the program or capture. Default: none,
    /// which stands for one of [`DeviceOptions::DEFAULT`].
    pub uris: Vec<String>,
    plugins: Vec<NamedPath>,
}

impl DeviceOptions {
    /// The device that is opened if none is named. The reference opens `local-task`.
    pub const DEFAULT: &str = "local-sync";

    /// Adds a library that executables resolve imports from; a later one takes precedence.
    ///
    /// # Safety
    ///
    /// The library's code is run in this process, with its rights: the caller trusts it as its own.
    #[allow(unsafe_code, reason = "the trust boundary of native code, passed on to the caller")]
    pub unsafe fn add_plugin(&mut self, path: impl Into<NamedPath>) {
        self.plugins.push(path.into());
    }

    /// Fails unless `uri` names a device that may be opened here. Opens nothing.
    pub fn check_uri(uri: &str) -> Result<()> {
        let (driver, path) = uri.split_once("://").unwrap_or((uri, ""));
        let (path, parameters) = path.split_once('?').unwrap_or((path, ""));
        let name = find_driver(driver)?.name;
        if !path.is_empty() {
            return Err(Error::not_found(format!("driver '{name}' has one device and no '{path}'"))
                .advise(format!("name it as --device={name}")));
        }
        if !parameters.is_empty() {
            return Err(Error::invalid_argument(format!(
                "driver '{name}' takes no parameters: '{parameters}'"
            ))
            .advise(format!("name it as --device={name}")));
        }
        Ok(())
    }

    /// Opens the devices.
    pub fn open(&self) -> Result<DeviceGroup> {
        let default = [Self::DEFAULT.to_string()];
        let uris = if self.uris.is_empty() { &default[..] } else { &self.uris };
        uris.iter().try_for_each(|uri| Self::check_uri(uri))?;
        let open = |uri: &String| self.open_local_sync().context(|| format!("device '{uri}'"));
        DeviceGroup::new(uris.iter().map(open).collect::<Result<_>>()?)
    }

    fn open_local_sync(&self) -> Result<Device> {
        let mut plugins = Plugins::default();
        for path in &self.plugins {
            load_plugin(&mut plugins, path).context(|| path.place())?;
        }
        Ok(LocalSync::create(plugins))
    }
}

#[allow(unsafe_code, reason = "the trust boundary of native code")]
fn load_plugin(plugins: &mut Plugins, path: &NamedPath) -> Result<()> {
    // SAFETY: `add_plugin` is the only way for a path to get here, and its caller vouches for the library.
    unsafe { plugins.load(path.path().as_os_str()) }
}
