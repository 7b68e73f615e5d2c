//! Names the target that a module is compiled for, in the error of its initializer without such a device.

use rehal_base::{Error, Remedy};
use rehal_hal::{DeviceGroup, DeviceInfo};

/// How the messages of the compiler begin, which name the global that holds the device.
const HEAD: &str = "HAL device `";
const TARGET: &str = "#hal.device.target<";
const EXECUTABLE: &str = "#hal.executable.target<";

/// The error of a program's initializer: if it lists the attributes of a device that is missing, what matters
/// of them.
pub(super) fn explain(error: Error, devices: Option<&DeviceGroup>) -> Error {
    let Some(targets) = targets(error.message()) else { return error };
    let devices: Vec<_> = devices.map_or(&[][..], DeviceGroup::devices).iter().map(|it| it.info()).collect();
    let shown: Vec<_> = targets.iter().map(Target::shown).collect();
    let message = format!("compiled for {}; here: {}", shown.join(" or "), machine(&devices));
    let format = targets.iter().find_map(|target| target.foreign_format(&devices));
    let explained = error
        .context_lines()
        .iter()
        .fold(Error::new(error.code(), message), |error, line| error.context(line));
    explained.advise(match format {
        Some(format) => Remedy::UseDeviceForFormat { format: format.to_owned() },
        None => match targets.iter().find(|target| target.is_for_processor(&devices)) {
            Some(target) => Remedy::compile_for_processor(target.device),
            None => Remedy::CompileProgram,
        },
    })
}

/// The drivers of the devices that are used; of those of CPUs, with the architecture.
fn machine(devices: &[&DeviceInfo]) -> String {
    let mut here: Vec<String> = Vec::new();
    for device in devices {
        let shown = match device.formats.iter().any(|format| format.is_host_code) {
            true => format!("{} ({})", device.driver, std::env::consts::ARCH),
            false => device.driver.clone(),
        };
        if !here.contains(&shown) {
            here.push(shown);
        }
    }
    if here.is_empty() { "no device".into() } else { here.join(", ") }
}

/// A device for which a module is compiled.
#[derive(Debug, PartialEq, Eq)]
struct Target<'t> {
    /// The identifier of the device, such as `local` or `vulkan`.
    device: &'t str,
    /// The formats of its executables.
    formats: Vec<&'t str>,
    /// The architecture of a GPU.
    arch: Option<&'t str>,
}

impl Target<'_> {
    /// `vulkan (vulkan-spirv-fb, rdna3)`.
    fn shown(&self) -> String {
        let details: Vec<_> = self.formats.iter().copied().chain(self.arch).collect();
        if details.is_empty() {
            self.device.to_string()
        } else {
            format!("{} ({})", self.device, details.join(", "))
        }
    }

    /// Whether it has a format of host code that one of these devices would run, for another processor.
    fn is_for_processor(&self, devices: &[&DeviceInfo]) -> bool {
        let is_host_code = |device: &&DeviceInfo| {
            self.formats.iter().any(|format| device.format(format).is_some_and(|it| it.is_host_code))
        };
        devices.iter().any(is_host_code)
    }

    /// The first of its formats that is not of the drivers of these devices.
    fn foreign_format(&self, devices: &[&DeviceInfo]) -> Option<&str> {
        let is_foreign = |format: &&&str| devices.iter().all(|device| device.format(format).is_none());
        self.formats.iter().find(is_foreign).copied()
    }
}

/// The targets that a message lists; `None` for another message.
fn targets(message: &str) -> Option<Vec<Target<'_>>> {
    let (_, attributes) = message.strip_prefix(HEAD)?.split_once(" not found or unavailable: ")?;
    let targets: Vec<_> = attributes.split(TARGET).skip(1).filter_map(target).collect();
    (!targets.is_empty()).then_some(targets)
}

/// The target whose attributes begin with its identifier, in quotes.
fn target(attributes: &str) -> Option<Target<'_>> {
    let (device, _) = quoted(attributes)?;
    let mut formats = Vec::new();
    for executable in attributes.split(EXECUTABLE).skip(1) {
        let (_, rest) = quoted(executable)?;
        let (format, _) = quoted(rest)?;
        if !formats.contains(&format) {
            formats.push(format);
        }
    }
    let arch = attributes.split_once("arch = ").and_then(|(_, rest)| quoted(rest)).map(|(arch, _)| arch);
    let arch = arch.filter(|arch| !formats.contains(arch));
    Some(Target { device, formats, arch })
}

/// The next text in quotes, and what follows.
fn quoted(text: &str) -> Option<(&str, &str)> {
    text.split_once('"')?.1.split_once('"')
}

#[cfg(test)]
mod tests {
    use rehal_base::StatusCode;
    use rehal_hal::OptionSet;

    use super::*;

    fn explained(attributes: &str) -> Error {
        let message = format!("HAL device `__device_0` not found or unavailable: {attributes}");
        explain(Error::incompatible(message).context("module.__init"), None)
    }

    #[test]
    fn attributes_of_devices_are_reduced_to_their_targets() {
        for (attributes, expected, format) in [
            (
                r#"#hal.device.target<"cuda", [#hal.executable.target<"cuda", "cuda-nvptx-fb", {x = #iree_gpu.target<arch = "sm_80", f = "+ptx76">}>]>"#,
                "cuda (cuda-nvptx-fb, sm_80)",
                "cuda-nvptx-fb",
            ),
            (
                r#"#hal.device.target<"amdgpu", [#hal.executable.target<"rocm", "gfx1100", {x = <arch = "gfx1100">}>]>"#,
                "amdgpu (gfx1100)",
                "gfx1100",
            ),
            (
                r#"#hal.device.target<"metal", [#hal.executable.target<"metal-spirv", "metal-msl-fb", {}>]>"#,
                "metal (metal-msl-fb)",
                "metal-msl-fb",
            ),
            (
                r#"#hal.device.select<[#hal.device.target<"vulkan", [#hal.executable.target<"v", "vulkan-spirv-fb">, #hal.executable.target<"v", "vulkan-spirv-fb-ptr">]>, #hal.device.target<"webgpu">]>"#,
                "vulkan (vulkan-spirv-fb, vulkan-spirv-fb-ptr) or webgpu",
                "vulkan-spirv-fb",
            ),
        ] {
            let error = explained(attributes);
            assert_eq!(error.message(), format!("compiled for {expected}; here: no device"));
            assert_eq!((error.code(), error.context_lines().len()), (StatusCode::Incompatible, 1));
            let remedy = Remedy::UseDeviceForFormat { format: format.into() };
            assert_eq!(error.advice(), Some(&remedy.into()));
        }
    }

    #[test]
    fn cpus_are_shown_with_their_architecture() {
        let arch = std::env::consts::ARCH;
        let cpu = rehal_devices::drivers()
            .find("local-sync")
            .unwrap()
            .create_device("", &OptionSet::default())
            .unwrap();
        let gpu = DeviceInfo { driver: "vulkan".to_owned(), formats: &[], ..cpu.info().clone() };
        let devices = [cpu.info(), &gpu, cpu.info()];
        assert_eq!(machine(&devices), format!("local-sync ({arch}), vulkan"));
    }

    #[test]
    fn other_messages_are_kept() {
        for message in [
            "",
            "HAL device",
            "HAL device `x` not found or unavailable: ",
            "HAL device `x` not found or unavailable: #hal.device.target<",
            "HAL device `x` not found or unavailable: #hal.device.target<\"a",
            "a #hal.device.target<\"cuda\">",
        ] {
            let error = explain(Error::not_found(message), None);
            assert_eq!((error.message(), error.advice()), (message, None));
        }
    }
}
