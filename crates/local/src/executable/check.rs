//! The way in for fuzzing: everything that reads untrusted bytes. Machine code among them is not run;
//! programs of the VM are, because they need no trust.

use std::sync::Arc;

use rehal_base::HostMemory;
use rehal_hal::{CachingMode, ExecutableParams, FunctionInfo, QUEUE_AFFINITY_ANY};
use rehal_vm::Budget;

use super::local_executable::DispatchArguments;
use super::vmvx::VmvxExecutable;
use super::{abi, elf, format};
use crate::execute::Place;

/// Reads `bytes` as an executable in every way there is, and maps them where they parse. Runs what is a
/// program of the VM, and no machine code.
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
    // Larger images cost the fuzzer time and no other code.
    if image.memory_bytes() <= 1 << 20
        && let Ok(module) = image.map()
        && let Ok(query) = query
    {
        assert!(module.memory().contains(&(module.address(query) as usize)));
    }
}

/// How far a program of the VM came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reached {
    /// It is not an executable.
    Nothing,
    /// It was loaded, and so many of its functions ran to their end.
    Loaded {
        /// Functions that did; the others failed.
        completed: usize,
    },
}

/// What each workgroup may use. Microkernels work on no more than this and the bindings.
const BUDGET: Budget = Budget { instructions: 20_000, bytes: 64 << 10 };
/// Of each binding.
const BINDING_BYTES: u64 = 1024;
/// How many of its functions are called.
const CALLS: usize = 64;

/// Loads `bytes` as an executable that is a program of the VM, and runs its functions, as far as it is one. The
/// point is that it returns: without a panic, soon, and with memory that the size explains.
pub fn exercise_program(bytes: &[u8]) -> Reached {
    let params = ExecutableParams {
        label: "",
        affinity: QUEUE_AFFINITY_ANY,
        caching_mode: CachingMode::ALLOW_OPTIMIZATION,
        format: "vmvx-bytecode-fb",
        data: bytes,
        constants: &[],
    };
    // What wants constants of its own is tried with some.
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
    executable.run(ordinal, &arguments)
}
