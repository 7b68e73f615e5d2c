//! Prints the workers that flags select, as the reference does.

use rehal_base::{Context as _, Result};
use rehal_hal::DeviceUri;

use crate::devices;
use crate::flags::{DEVICE, Flags};

const RULE: &str = "# ===------------------------------------------------------------------------===\n";

const ADVICE: &str =
    "lscpu --extended lists the CPUs and NUMA nodes of this machine; --help=all describes --task_topology_*";

/// The workers of devices by the flags before the query, and of those whose URIs select others.
pub(crate) fn dump(flags: &Flags) -> Result<String> {
    let options = devices::driver_options(flags);
    let has_parameters = |uri: &String| DeviceUri::parse(uri).is_ok_and(|uri| !uri.params.is_empty());
    let mut uris: Vec<String> = Vec::new();
    for uri in flags.list(&DEVICE).into_iter().filter(has_parameters) {
        if !uris.contains(&uri) {
            uris.push(uri);
        }
    }
    let mut text = String::new();
    for driver in devices::registry(flags).drivers() {
        if let Some(workers) = driver.backend().describe_workers(&options) {
            text.push_str(&workers.advise(|| ADVICE)?);
        }
    }
    for (device, uri) in devices::find_all(flags, DEVICE.name(), &uris)?.iter().zip(&uris) {
        if let Some(own) =
            device.own_workers(&options).advise(|| ADVICE).context(|| format!("device '{uri}'"))?
        {
            text.push_str(&format!("{RULE}# --device={uri}\n{own}"));
        }
    }
    Ok(text)
}
