//! Short names of what programs are compiled for.

use std::ffi::OsString;

use rehal_base::{Error, Result, nearest};
use rehal_devices::compiler_targets;
use rehal_hal::CompilerTarget;

/// The flags of the compiler for a target, such as `cpu`, `vulkan:rdna3` or `cuda:sm_80`: the short name of a
/// driver's programs, and perhaps a processor as the compiler names it.
///
/// ```
/// use rehal_build::target_flags;
///
/// let flags = target_flags("cuda:sm_80").unwrap();
/// assert_eq!(flags, ["--iree-hal-target-device=cuda", "--iree-cuda-target=sm_80"]);
/// assert!(target_flags("gpu").is_err());
/// ```
pub fn target_flags(text: &str) -> Result<Vec<String>> {
    let (name, chip) = match text.split_once(':') {
        Some((name, chip)) => (name, Some(chip)),
        None => (text, None),
    };
    let targets = compiler_targets();
    let names: Vec<_> = targets.iter().map(|it| it.name).collect();
    let Some(target) = targets.iter().find(|it| it.name == name) else {
        let error = Error::invalid_argument(format!("'{name}' is not a target of programs"));
        let listed = format!("name one of {}, each with :CHIP behind it or without", names.join(", "));
        return Err(error.advise(match nearest(name, names.iter().copied()) {
            Some(meant) => format!("did you mean {meant}? {listed}"),
            None => listed,
        }));
    };
    if chip.is_some_and(|it| it.split('/').any(str::is_empty)) {
        return Err(Error::invalid_argument(format!("target '{text}' has an empty name after ':'"))
            .advise("name one as the compiler does, such as cuda:sm_80 or cpu:znver4, or leave out ':'"));
    }
    Ok(flags_of(target, chip))
}

/// Fails if these flags of the compiler name a target that needs a processor, and no processor.
pub(super) fn check_chip(flags: &[OsString]) -> Result<()> {
    let value_of = |name: &str| {
        let of = |it: &OsString| {
            it.to_str()?.replace('_', "-").strip_prefix(name)?.strip_prefix('=').map(str::to_owned)
        };
        flags.iter().rev().find_map(of)
    };
    let device = value_of("--iree-hal-target-device");
    let is_meant = |it: &CompilerTarget| device.as_deref() == Some(it.device) && !it.chips.is_empty();
    let Some(target) = compiler_targets().into_iter().find(is_meant) else { return Ok(()) };
    if value_of(target.chip_flag).is_some() {
        return Ok(());
    }
    let (name, first) = (target.name, target.chips[0]);
    Err(Error::invalid_argument(format!("programs for {name} need a processor"))
        .advise(format!("name one, as in {name}:{first}: {}", target.chips.join(", "))))
}

/// The flags for a target and one of its processors, such as `znver4`, or `aarch64/generic` of another
/// machine.
pub(super) fn flags_of(target: &CompilerTarget, chip: Option<&str>) -> Vec<String> {
    let mut flags = vec![format!("--iree-hal-target-device={}", target.device)];
    flags.extend(target.flags.split_whitespace().map(str::to_owned));
    if let Some(mut chip) = chip.or(target.own_chip) {
        if let Some((architecture, of_it)) = chip.split_once('/')
            && target.own_chip.is_some()
        {
            flags.push(format!("--iree-llvmcpu-target-triple={architecture}-linux-gnu"));
            chip = of_it;
        }
        flags.push(format!("{}={chip}", target.chip_flag));
    }
    flags
}

#[cfg(test)]
mod tests {
    use super::{check_chip, target_flags};

    #[test]
    fn a_target_without_a_default_processor_needs_one() {
        let check = |flags: &[&str]| check_chip(&flags.iter().map(Into::into).collect::<Vec<_>>());
        let flags = |target| target_flags(target).unwrap();
        let given = |target| check(&flags(target).iter().map(String::as_str).collect::<Vec<_>>());
        let error = given("hip").unwrap_err().report();
        assert!(
            error.contains("programs for hip need a processor\n  try: name one, as in hip:gfx908: "),
            "{error}"
        );
        assert!(error.contains(", gfx942, ") && error.contains(", mi300x, "), "{error}");
        for target in ["hip:gfx942", "cpu", "cuda", "vulkan"] {
            given(target).unwrap();
        }
        check(&["--iree-hal-target-device=hip", "--iree_rocm_target=gfx90a"]).unwrap();
    }

    #[test]
    fn targets_are_short_for_flags() {
        let cpu = "--iree-hal-target-device=local --iree-hal-local-target-device-backends=llvm-cpu";
        for (target, flags) in [
            ("cpu", format!("{cpu} --iree-llvmcpu-target-cpu=host")),
            ("cpu:generic", format!("{cpu} --iree-llvmcpu-target-cpu=generic")),
            (
                "cpu:aarch64/neoverse-n1",
                format!(
                    "{cpu} --iree-llvmcpu-target-triple=aarch64-linux-gnu --iree-llvmcpu-target-cpu=neoverse-n1"
                ),
            ),
            ("vulkan", "--iree-hal-target-device=vulkan".into()),
            ("vulkan:rdna3", "--iree-hal-target-device=vulkan --iree-vulkan-target=rdna3".into()),
            ("hip:gfx942", "--iree-hal-target-device=hip --iree-rocm-target=gfx942".into()),
        ] {
            assert_eq!(target_flags(target).unwrap().join(" "), flags);
        }
        let error = target_flags("vulcan").unwrap_err().report();
        assert!(error.contains("did you mean vulkan? name one of cpu, vulkan, cuda, hip"), "{error}");
        assert!(["cuda:", "cpu:/generic", "cpu:aarch64/"].iter().all(|it| target_flags(it).is_err()));
    }
}
