//! Parameters in the URIs of Vulkan devices: what both accept, what both refuse, and that they override
//! flags.

use crate::replays::refuses_well;
use crate::{Outcome, Pair, ensure, fixture};
use libtest_mimic::Trial;
use std::path::Path;

/// Parameters that both tools accept, or both refuse. Our driver lacks the reference's cache of command
/// buffers and does not check its limits.
const ALIKE: [&str; 21] = [
    "dispatch_abi=all",
    "dispatch_abi=bda",
    "dispatch_abi=buffer-device-address",
    "dispatch_abi= bda ",
    "vulkan_dispatch_abi=bda",
    "dispatch_abi=descriptor",
    "dispatch_abi=descriptors",
    "dispatch_abi=descriptor&vulkan_dispatch_abi=bda",
    "dispatch_abi=bda&dispatch_abi=descriptor",
    "dispatch_abi=BDA",
    "dispatch_abi=",
    "dispatch_abi",
    "cached_bda_replay_instances=0",
    "vulkan_cached_bda_replay_publication_bytes=18446744073709551615",
    "cached_bda_replay_publication_bytes=",
    "cached_bda_replay_instances=%2B3",
    "retained_cached_bda_replay_instances=16",
    "retained_cached_bda_replay_instances=17&cached_bda_replay_instances=17",
    "vulkan_retained_cached_bda_replay_instances=17&cached_bda_replay_instances=0",
    "vulkan_vulkan_dispatch_abi=bda",
    "key=value",
];

/// Numbers that only the reference accepts: it converts what C does.
const STRICTER: [&str; 3] = [
    "cached_bda_replay_instances=-1",
    "cached_bda_replay_instances=1x",
    "cached_bda_replay_instances=4294967296",
];

/// Adds a test for each.
pub fn add(trials: &mut Vec<Trial>) {
    let lists = [(&ALIKE[..], false), (&STRICTER, true)];
    for (parameters, is_stricter) in lists {
        for parameters in parameters {
            let name = format!("vulkan::parameters::{parameters:?}");
            trials.push(Trial::test(name, move || accepted_alike(parameters, is_stricter)));
        }
    }
    trials.push(Trial::test("vulkan::parameters::override_flags", override_flags));
}

/// Both replay a capture of kernels that take addresses, or both refuse the device.
fn accepted_alike(parameters: &str, is_stricter: bool) -> Outcome {
    let capture = fixture("vulkan/captures/add4.addresses.ireereplay").display().to_string();
    let arguments = [format!("--device=vulkan://?{parameters}"), capture];
    let (ours, theirs) = Pair::find("iree-run-replay")?.run(&arguments, Path::new("/"))?;
    ensure(!is_stricter || theirs.succeeded(), || format!("theirs: {}", theirs.summary()))?;
    if theirs.succeeded() && !is_stricter {
        return ensure(ours.succeeded(), || format!("ours: {}", ours.summary()));
    }
    refuses_well(&ours)
}

/// A parameter has precedence over the flag of the same name.
fn override_flags() -> Outcome {
    let capture = fixture("vulkan/captures/add4.addresses.ireereplay").display().to_string();
    for (flag, parameter, is_accepted) in [("descriptor", "bda", true), ("bda", "descriptor", false)] {
        let arguments = [
            format!("--vulkan_dispatch_abi={flag}"),
            format!("--device=vulkan://?dispatch_abi={parameter}"),
            capture.clone(),
        ];
        let (ours, theirs) = Pair::find("iree-run-replay")?.run(&arguments, Path::new("/"))?;
        ensure(ours.succeeded() == is_accepted && theirs.succeeded() == is_accepted, || {
            format!("{arguments:?}: ours {}, theirs {}", ours.summary(), theirs.summary())
        })?;
    }
    Ok(())
}
