//! The body of the fuzz target: every operation on untrusted text.

use std::sync::Arc;

use rehal_base::HostMemory;

use crate::{Checks, Dispatch, Function, Image, Launch, Limits, Module, Region};

/// Limits that keep one input fast.
const LIMITS: Limits = Limits {
    text_bytes: 64 << 10,
    name_bytes: 1 << 10,
    statements: 4096,
    instructions: 8192,
    parameters: 64,
    registers: 4096,
    nesting: 20,
    local_bytes: 4096,
    shared_bytes: 16 << 10,
    variable_bytes: 64 << 10,
};
/// Thread instructions of a launch.
const BUDGET: u64 = 20_000;
/// Bytes of each region, and the distance between the addresses of two.
const REGION_BYTES: u64 = 256;
const DISTANCE: u64 = 1 << 32;
/// Kernels of a module that are run.
const KERNELS: usize = 4;

/// The last stage that [`exercise`] reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reached {
    /// The text is rejected.
    Nothing,
    /// The module is verified.
    Verified,
    /// Kernels were launched; the given number ended without a fault.
    Run {
        /// Launches that ended.
        ended: usize,
    },
}

/// Parses `bytes` as PTX and runs its kernels, as far as they are valid. Must not panic, must terminate soon,
/// must use memory in proportion to the input, and must change nothing outside of the regions.
pub fn exercise(bytes: &[u8]) -> Reached {
    let Ok(module) = Module::parse_ptx(bytes, &LIMITS) else { return Reached::Nothing };
    let Ok(image) = Image::load(Arc::new(module)) else { return Reached::Verified };
    let functions = image.module().functions().to_vec();
    let launches =
        functions.iter().enumerate().take(KERNELS).filter_map(|(index, it)| run(&image, index, it));
    match launches.fold((0, 0), |(all, ended), it| (all + 1, ended + usize::from(it))) {
        (0, _) => Reached::Verified,
        (_, ended) => Reached::Run { ended },
    }
}

/// Whether a kernel ended; `None` if it cannot be launched.
fn run(image: &Image, function: usize, described: &Function) -> Option<bool> {
    let memories: Vec<_> =
        described.parameters.iter().map(|_| HostMemory::allocate(3 * REGION_BYTES)).collect();
    let memories: Vec<_> = memories.into_iter().collect::<Result<_, _>>().ok()?;
    let mut arguments = vec![0; described.argument_bytes as usize];
    let mut regions = Vec::new();
    for (index, (parameter, memory)) in described.parameters.iter().zip(&memories).enumerate() {
        let address = (index as u64 + 1) * DISTANCE;
        let bytes = (parameter.bytes as usize).min(8);
        arguments[parameter.offset as usize..][..bytes].copy_from_slice(&address.to_le_bytes()[..bytes]);
        let is_writable = index % 3 != 2;
        regions.push(Region {
            address,
            length: REGION_BYTES,
            slack: 32,
            memory,
            offset: REGION_BYTES,
            is_writable,
        });
    }
    let launch = Launch {
        function,
        grid: [2, 1, 1],
        block: described.required_block.unwrap_or([40, 1, 1]),
        dynamic_shared_bytes: 64,
        arguments: &arguments,
        regions: &regions,
        checks: Checks::all(),
        budget: Some(BUDGET),
    };
    let dispatch = Dispatch::new(image, &launch).ok()?;
    let mut all = Some(0..dispatch.blocks());
    let ended = dispatch.run(&mut || all.take(), &|| false);
    if let Err(fault) = &ended {
        assert!(!fault.to_string().is_empty());
    }
    for finding in dispatch.report().findings {
        assert!(finding.count > 0 && !finding.to_string().is_empty());
    }
    for (memory, region) in memories.iter().zip(&regions) {
        let bytes = memory.bytes(memory.whole()).ok()?;
        let (before, after) = (&bytes[..REGION_BYTES as usize], &bytes[2 * REGION_BYTES as usize..]);
        assert!(before.iter().chain(after).all(|it| *it == 0), "bytes beside a region were written");
        assert!(region.is_writable || bytes.iter().all(|it| *it == 0), "read-only memory was written");
    }
    Some(ended.is_ok())
}
