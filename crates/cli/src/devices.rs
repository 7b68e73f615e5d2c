//! The devices that flags name, and how drivers and devices are listed.

use std::ffi::OsStr;

use rehal_base::Result;
use rehal_session::{DeviceOptions, DriverInfo, NamedPath, drivers, find_driver};

use crate::flags::{DEVICE, EXECUTABLE_PLUGIN, Flags, Refusal};

/// What the flags say.
pub(crate) fn options(flags: &Flags) -> DeviceOptions {
    let mut options = DeviceOptions::default();
    options.uris = flags.list(&DEVICE);
    for path in flags.list(&EXECUTABLE_PLUGIN) {
        let name = format!("--executable_plugin={}", path.display());
        add_plugin(&mut options, NamedPath::from(path).named(name));
    }
    options
}

#[allow(unsafe_code, reason = "the trust boundary of native code: the user names a library to run")]
fn add_plugin(options: &mut DeviceOptions, path: NamedPath) {
    // SAFETY: the user names this library on the command line so that its code is run in this
    // process, as docs/unsafe.md and the flag's help say; nothing else names libraries.
    unsafe { options.add_plugin(path) }
}

/// Parses `DRIVER` or `DRIVER://`, of a driver that can be used here.
pub(crate) fn parse_uri(value: &OsStr) -> Result<String, Refusal> {
    let uri = value.to_str().ok_or(Refusal::Unexpected)?;
    DeviceOptions::check_uri(uri)?;
    Ok(uri.to_string())
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

fn of_drivers(name: &str, text: impl Fn(&DriverInfo) -> String) -> Result<String> {
    match name {
        "" => Ok(drivers().iter().map(text).collect()),
        name => find_driver(name).map(text),
    }
}

const RULE: &str = "# ============================================================================";
const LIGHT_RULE: &str = "# ===----------------------------------------------------------------------===";

fn list_drivers() -> String {
    let mut text = format!("{RULE}\n# Available HAL drivers\n{RULE}\n");
    text.push_str("# Use --list_devices={driver name} to enumerate available devices.\n\n");
    for driver in drivers() {
        text.push_str(&format!("{:>16}: {}\n", driver.name, driver.description));
    }
    text
}

fn dump_device(driver: &DriverInfo) -> String {
    let name = driver.name;
    format!(
        "{RULE}\n# Enumerated devices for driver '{name}'\n{RULE}\n\n\
         {LIGHT_RULE}\n# --device={name}://\n#   default\n{LIGHT_RULE}\n\n"
    )
}
