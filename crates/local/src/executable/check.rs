//! The entry point for fuzzing: all code that reads untrusted bytes. Machine code in them is not run; VM
//! programs are, because they are verified.

use std::sync::Arc;

use rehal_base::HostMemory;
use rehal_hal::{CachingMode, ExecutableParams, FunctionInfo};
use rehal_vm::Budget;

use super::dispatch::{DispatchArguments, Share};
use super::vmvx::VmvxExecutable;
use super::{abi, elf, format};
use crate::place::Place;

/// Reads `bytes` as an executable in all supported ways, and maps images that parse. Runs VM programs, but no
/// machine code.
pub fn exercise(bytes: &[u8]) {
    let inferred = format::infer(bytes);
    let reached = exercise_program(bytes);
    assert!(reached == Reached::Nothing || inferred.is_some(), "a program that loads has a format");
    let Ok(image) = elf::Image::parse(bytes) else { return };
    // Only an image that parses can be inferred to be embedded or, with imports, a system library.
    assert!(inferred.is_some(), "an image that parses has a format");
    let query = image.function(abi::QUERY_SYMBOL);
    let names = image.symbol_names().count();
    assert!(query.is_err() || names > 0, "a function that is found is among the symbols");
    // Larger images cost time and reach no additional code.
    if image.memory_bytes() <= 1 << 20
        && let Ok(module) = image.map()
        && let Ok(query) = query
    {
        assert!(module.memory().contains(&(module.address(query) as usize)));
    }
}

/// How far a VM program got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reached {
    /// Rejected as an executable.
    Nothing,
    /// Loaded, and that many of its functions ran to completion.
    Loaded {
        /// Functions that succeeded; the others failed.
        completed: usize,
    },
}

/// Resource limits of each workgroup, in addition to microkernels, which are bounded by the bindings.
const BUDGET: Budget = Budget { instructions: 20_000, bytes: 64 << 10 };
/// Bytes of each binding.
const BINDING_BYTES: u64 = 1024;
/// Maximum number of functions to call.
const CALLS: usize = 64;

/// Loads `bytes` as a VM executable and runs its functions. This must return without a panic, soon, and with
/// memory bounded by the size of the input.
pub fn exercise_program(bytes: &[u8]) -> Reached {
    let params = ExecutableParams {
        caching_mode: CachingMode::ALLOW_OPTIMIZATION,
        ..ExecutableParams::new("vmvx-bytecode-fb", bytes)
    };
    // If it requires constants, some are provided.
    let load = |constants| VmvxExecutable::load(&ExecutableParams { constants, ..params }, Some(BUDGET));
    let Ok(executable) = load(&[]).or_else(|_| load(&[71, 72])) else { return Reached::Nothing };
    let functions = (0..).zip(executable.functions()).take(CALLS);
    let completed =
        functions.filter(|(ordinal, function)| call(&executable, *ordinal, function).is_ok()).count();
    Reached::Loaded { completed }
}

fn call(executable: &VmvxExecutable, ordinal: u32, function: &FunctionInfo) -> rehal_base::Result<()> {
    let memory: Vec<_> = (0..function.binding_count)
        .map(|_| HostMemory::allocate(BINDING_BYTES).map(Arc::new))
        .collect::<rehal_base::Result<_>>()?;
    let bindings: Vec<_> = memory.iter().map(Place::whole).collect();
    let constants: Vec<u32> = (0..u32::from(function.constant_count)).map(|index| index % 5).collect();
    let arguments = DispatchArguments {
        workgroup_count: [2, 1, 1],
        workgroup_size: [1; 3],
        constants: &constants,
        bindings: &bindings,
        dynamic_local_memory: 64,
    };
    let mut all = Some(0..2);
    let share = Share { concurrency: 1, next: &mut || all.take() };
    executable.run_share(ordinal, &arguments, None, share).map_err(|failure| failure.error)
}
