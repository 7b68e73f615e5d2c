use std::path::PathBuf;

use rehal_base::{Context, Error, Result};
use rehal_hal::DeviceGroup;
use rehal_local::LocalSync;
use rehal_local::executable::Plugins;

/// Which devices are opened.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct DeviceOptions {
    /// The devices by URI, `driver` or `driver://device`, in the order of the program or capture. Default: none,
    /// which stands for one of [`DeviceOptions::DEFAULT`].
    pub uris: Vec<String>,
    plugins: Vec<PathBuf>,
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
    pub unsafe fn add_plugin(&mut self, path: PathBuf) {
        self.plugins.push(path);
    }

    /// Opens the devices.
    pub fn open(&self) -> Result<DeviceGroup> {
        let mut plugins = Plugins::default();
        for path in &self.plugins {
            load_plugin(&mut plugins, path).context(|| format!("plugin '{}'", path.display()))?;
        }
        let default = [Self::DEFAULT.to_string()];
        let uris = if self.uris.is_empty() { &default[..] } else { &self.uris };
        let open = |uri: &String| match uri.trim_end_matches("://") {
            "local-sync" => Ok(LocalSync::create(plugins.clone())),
            _ => Err(Error::not_found(format!("driver '{uri}' does not exist"))),
        };
        DeviceGroup::new(uris.iter().map(open).collect::<Result<_>>()?)
    }
}

#[allow(unsafe_code, reason = "the trust boundary of native code")]
fn load_plugin(plugins: &mut Plugins, path: &PathBuf) -> Result<()> {
    // SAFETY: `add_plugin` is the only way for a path to get here, and its caller vouches for the library.
    unsafe { plugins.load(path.as_os_str()) }
}
