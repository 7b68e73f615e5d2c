//! Emulated GPUs: devices of the CPU whose executables are code for GPUs, which [`rehal_simt`] interprets.
//!
//! Their code is verified instead of trusted: it can access only the bindings and constants of a dispatch,
//! and the variables of its module.

#![deny(unsafe_code)]

mod executable;
mod findings;

use std::time::Duration;

use rehal_base::{Error, Remedy, StatusCode};
use rehal_hal::gpu_formats::CUDA;
use rehal_hal::{
    BufferParams, BufferUsage, DeviceOptions, DeviceParameter, ExecutableFormat, MemoryType, ParameterGroup,
    ParameterScope, ParameterValue,
};
use rehal_simt::Checks;

pub(crate) use executable::EmulatedExecutable;
pub use executable::check_code;
pub use findings::{DispatchFinding, Findings, take_findings};
pub use rehal_simt::{Finding, FindingKind, Target};

/// The name of the driver.
pub const CUDA_DRIVER: &str = "cuda";
/// The format of executables of the compiler.
pub(crate) const PTX_FORMAT: &str = "cuda-nvptx-fb";
/// The path of the emulated device of a driver.
pub const EMULATOR: &str = "emulator";

/// The allocations of GPUs are multiples of this: kernels may read beyond a binding up to it.
pub(crate) const GRANULE_BYTES: u64 = 256;

/// Options of emulated devices.
#[derive(Clone, Copy, Debug, Default)]
pub struct EmulatorOptions {
    /// Which checks there are besides those of bounds and of alignment.
    pub checks: Checks,
    /// Whether what checks find is kept for [`take_findings`], which the caller reports. Otherwise the first
    /// error fails its dispatch.
    pub collects: bool,
}

impl DeviceOptions for EmulatorOptions {}

/// The parameters of emulated devices.
pub const EMULATOR_PARAMETERS: ParameterGroup =
    ParameterGroup { title: "Emulated GPUs", parameters: &[CHECKS] };

pub(crate) const CHECKS: DeviceParameter = DeviceParameter {
    keys: &["emulator_checks"],
    scope: ParameterScope::Device(CUDA_DRIVER),
    value: ParameterValue::Text {
        form: "CHECK,CHECK",
        expected: "names of checks: bounds, alignment, uninitialized, races, barriers or all",
        set: |options, names| {
            let checks = parse_checks(names)?;
            options.update(|it: &mut EmulatorOptions| it.checks = checks);
            Some(())
        },
    },
    default: "",
    help: "What an emulated GPU looks for in kernels, besides accesses out of bounds or misaligned, which it always does: \
           uninitialized reads of workgroup memory and of private memory, data races, barriers that a part of a workgroup does not \
           reach. What is found is reported with thread, instruction and binding, and the exit status is 2. With checks, it runs \
           on one thread.",
};

fn parse_checks(names: &str) -> Option<Checks> {
    let mut checks = Checks::default();
    for name in names.split(',').map(str::trim).filter(|it| !it.is_empty()) {
        match name {
            // These are always on.
            "bounds" | "alignment" => {}
            "uninitialized" => checks.uninitialized = true,
            "races" => checks.races = true,
            "barriers" => checks.barriers = true,
            "all" => checks = Checks::all(),
            _ => return None,
        }
    }
    Some(checks)
}

/// How an emulated device runs its executables.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Emulation {
    pub(crate) checks: Checks,
    /// A dispatch that runs for longer fails.
    pub(crate) timeout: Option<Duration>,
    /// A dispatch in which a check finds an error fails, instead of what it found being kept for
    /// [`take_findings`].
    pub(crate) fails: bool,
}

impl Emulation {
    pub(crate) const FORMATS: [ExecutableFormat; 1] = [CUDA];

    /// As in the reference's driver, memory of the device can be mapped only if that is asked for (source:
    /// `iree_hal_cuda_allocator_query_buffer_compatibility`).
    pub(crate) fn memory_type(params: &BufferParams) -> MemoryType {
        let maps = BufferUsage::MAPPING_PERSISTENT | BufferUsage::MAPPING_SCOPED;
        let granted = params.memory_type - MemoryType::OPTIMAL;
        match granted.contains(MemoryType::DEVICE_LOCAL) && params.usage.intersects(maps) {
            true => granted | MemoryType::HOST_VISIBLE,
            false => granted,
        }
    }

    /// The properties that programs ask for (source: `iree_hal_cuda_device_query_i64`).
    pub(crate) fn query(category: &str, key: &str) -> Option<i64> {
        match (category, key) {
            ("hal.executable.format", name) => Some((name == PTX_FORMAT).into()),
            ("cuda.device", "compute_capability_major") => Some(9),
            ("cuda.device", "compute_capability_minor") => Some(0),
            _ => None,
        }
    }
}

/// Why a device of hardware cannot be opened by a driver that emulates one.
pub fn no_hardware(driver: &str) -> Error {
    Error::new(
        StatusCode::Unavailable,
        format!("driver '{driver}' finds no GPU: this build does not drive the hardware"),
    )
    .advise(Remedy::EmulateDevice { uri: format!("{driver}://{EMULATOR}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_are_named() {
        assert_eq!(parse_checks("bounds,alignment"), Some(Checks::default()));
        assert_eq!(
            parse_checks("races, barriers"),
            Some(Checks { races: true, barriers: true, ..Checks::default() })
        );
        assert_eq!(parse_checks("all"), Some(Checks::all()));
        assert_eq!(parse_checks("race"), None);
    }
}
