//! The limits of GPUs, measured with kernels of our own.
//!
//! The kernels are SPIR-V modules in `gpu/`, assembled by the test of this file (`REHAL_WRITE=1`). Each has
//! storage buffers of powers of two. Times are those that the device reports.

use std::sync::Arc;

use rehal_base::{Context, Error, Result};
use rehal_hal::{BufferParams, Device, DeviceGroup};
use rehal_judge::DispatchSpans;
use rehal_roof::{Bandwidth, Peak, Rate};

use crate::{ExecutableSource, LaunchArguments, LaunchBinding, LoadOptions, LoadedExecutable};

/// Invocations of a workgroup.
const SIZE: u64 = 64;
/// Multiplications and additions of an invocation, and how often it repeats them.
const CHAINS: u64 = 8;
const ROUNDS: u64 = 256;
/// Elements of 16 bytes that an invocation reads, or copies.
const ELEMENTS: u64 = 16;
/// Operations of a workgroup of [`PRODUCTS`], and bytes that one of the others reads.
const OPERATIONS: u64 = 2 * CHAINS * ROUNDS * SIZE;
const BYTES: u64 = 16 * ELEMENTS * SIZE;
/// Bytes of the buffers of [`PRODUCTS`], of which each invocation reads a few.
const OPERANDS: u64 = 4096;
/// Working sets whose bandwidth is measured. The last one is more than the caches of most GPUs, and every
/// device binds as much.
const WORKING_SETS: [(&str, Option<u64>, u64); 3] =
    [("1 MiB", Some(1 << 20), 1 << 20), ("16 MiB", Some(16 << 20), 16 << 20), ("memory", None, 128 << 20)];
/// Time of a dispatch at least, so that its begin and end do not count.
const MIN_NS: i64 = 2_000_000;
/// Workgroups of a dispatch at most: every device has so many.
const MAX_WORKGROUPS: u32 = 65_535;
const REPETITIONS: usize = 5;

const PRODUCTS: [(&str, &[u8]); 3] = [
    ("f32", include_bytes!("gpu/f32.spv")),
    ("f64", include_bytes!("gpu/f64.spv")),
    ("f16", include_bytes!("gpu/f16.spv")),
];
const READ: &[u8] = include_bytes!("gpu/read.spv");
const COPY: &[u8] = include_bytes!("gpu/copy.spv");

/// The peaks of the types that the device has, and its bandwidths. Fails for a device that does not run
/// SPIR-V, or does not report times.
pub(super) fn measure(device: &Device) -> Result<(Vec<Peak>, Vec<Bandwidth>)> {
    let mut peaks = Vec::new();
    for (element, module) in PRODUCTS {
        let kernel = match Kernel::load(device, module) {
            Ok(kernel) => kernel,
            // Every device has f32.
            Err(error) if element == "f32" => return Err(error),
            Err(_) => continue,
        };
        let rate = kernel.best(&[OPERANDS], OPERATIONS)?;
        peaks.push(Peak {
            element: element.into(),
            instructions: "vector arithmetic".into(),
            vector_bits: 0,
            rate,
        });
    }
    let (read, copy) = (Kernel::load(device, READ)?, Kernel::load(device, COPY)?);
    let of = |(name, capacity_bytes, working_set): (&str, _, u64)| {
        Ok(Bandwidth {
            name: name.into(),
            capacity_bytes,
            read: read.best(&[working_set], BYTES)?,
            copy: copy.best(&[working_set / 2; 2], 2 * BYTES)?,
        })
    };
    Ok((peaks, WORKING_SETS.into_iter().map(of).collect::<Result<_>>()?))
}

struct Kernel {
    device: Device,
    executable: LoadedExecutable,
}

impl Kernel {
    fn load(device: &Device, module: &[u8]) -> Result<Self> {
        let (source, mut options) = (ExecutableSource::Bytes(Arc::from(module)), LoadOptions::default());
        options.format = Some("vulkan-spirv-raw".into());
        let executable = LoadedExecutable::load(device, &source, &options)
            .context(|| format!("measuring device '{}'", device.info().name))?;
        Ok(Self { device: device.clone(), executable })
    }

    /// The best rate of dispatches, each of whose workgroups does `amount`, with buffers of these lengths.
    fn best(&self, lengths: &[u64], amount: u64) -> Result<Rate> {
        let mut arguments = LaunchArguments::for_function(0);
        for length in lengths {
            let buffer = self.device.allocate_buffer(BufferParams::default(), *length)?;
            arguments.bindings.push(LaunchBinding::whole(buffer));
        }
        let spans = DispatchSpans::begin(&DeviceGroup::new(vec![self.device.clone()])?);
        let mut workgroups = first_workgroups(lengths);
        let mut best = 0.0;
        let mut repetitions = 0;
        while repetitions < REPETITIONS {
            arguments.workgroup_count = [workgroups, 1, 1];
            self.executable.launches(&arguments, 1)?.run()?;
            let ns: i64 = spans.take().iter().map(|it| it.end_ns - it.start_ns).sum();
            if ns <= 0 {
                return Err(Error::unimplemented("the device does not report the times of dispatches")
                    .advise("a roof is known of devices that do"));
            }
            if ns < MIN_NS && workgroups < MAX_WORKGROUPS {
                workgroups = workgroups.saturating_mul(2).min(MAX_WORKGROUPS);
                continue;
            }
            best = f64::max(best, per_second(amount, workgroups, ns));
            repetitions += 1;
        }
        spans.end()?;
        Ok(Rate { threads: 1, per_second: best, is_concurrent: true })
    }
}

/// All of what is bound is accessed by the first dispatch, which initializes caches.
fn first_workgroups(lengths: &[u64]) -> u32 {
    let bytes: u64 = lengths.iter().sum();
    bytes.div_ceil(BYTES).clamp(64, MAX_WORKGROUPS.into()) as u32
}

fn per_second(amount: u64, workgroups: u32, ns: i64) -> f64 {
    amount as f64 * f64::from(workgroups) * 1e9 / ns as f64
}

#[cfg(test)]
#[path = "gpu/tests.rs"]
mod tests;
