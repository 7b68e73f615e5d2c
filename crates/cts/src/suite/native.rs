//! Behaviour that only kernels written in C can observe: local memory, failures, the dispatch state.

use rehal_base::{Result, StatusCode};
use rehal_hal::{BufferRef, CachingMode, Executable, ExecutableParams};

use crate::check::{equal, holds, refused};
use crate::harness::Harness;
use crate::script::{Call, Route, Script};
use crate::test::List;
use crate::{Capability, Kernel};

pub(super) fn add(list: &mut List, format: &'static str) {
    let needs = &[Capability::Executables, Capability::NativeKernels];
    for route in Route::ALL {
        let name = |what: &str| format!("native/{format}/{}/{what}", route.name());
        list.add(name("local_memory"), needs, move |it| local_memory(it, format, route));
        list.add(name("more_local_memory"), needs, move |it| more_local_memory(it, format, route));
        list.add(name("failing_kernel"), needs, move |it| failing_kernel(it, format, route));
        list.add(name("nothing_runs_after_a_failure"), needs, move |it| after_a_failure(it, format, route));
        list.add(name("surroundings"), needs, move |it| surroundings(it, format, route));
    }
    let name = format!("native/{format}/wrong_executable_constants_are_refused");
    list.add(name, needs, move |it| wrong_executable_constants(it, format));
}

const EXECUTABLE_CONSTANTS: [u32; 2] = [71, 72];

fn prepare(harness: &Harness<'_>, format: &str, constants: &[u32]) -> Result<Executable> {
    let data = harness.subject().kernel(Kernel::Native, format)?;
    harness.subject().prepare(
        &harness.device,
        &ExecutableParams {
            caching_mode: CachingMode::ALLOW_OPTIMIZATION,
            constants,
            ..ExecutableParams::new(format, &data)
        },
    )
}

/// The function requests two pages of 4096 bytes.
const LOCAL_MEMORY: u32 = 2 * 4096;

fn check_local_memory(harness: &Harness<'_>, format: &str, route: Route, more: u32) -> Result<()> {
    const COUNT: u32 = 9;
    let executable = prepare(harness, format, &EXECUTABLE_CONSTANTS)?;
    let output = harness.words(&[0; 2 * COUNT as usize])?;
    let function = executable.lookup("local_memory")?;
    let call = Call::new(&executable, function).count([COUNT, 1, 1]).local_memory(more).bind(&output);
    Script::new(harness, route).call(call).run()?;
    let found = harness.read_words(&output)?;
    let (sums, sizes) = found.split_at(COUNT as usize);
    for (workgroup, (sum, size)) in (0..).zip(sums.iter().zip(sizes)) {
        holds("the requested local memory is available", *size >= LOCAL_MEMORY + more)?;
        equal("the sum over a workgroup's own memory", *sum, workgroup * (size / 4))?;
    }
    Ok(())
}

fn local_memory(harness: &Harness<'_>, format: &'static str, route: Route) -> Result<()> {
    check_local_memory(harness, format, route, 0)
}

fn more_local_memory(harness: &Harness<'_>, format: &'static str, route: Route) -> Result<()> {
    for more in [4, 1000, 4096, 100_000] {
        check_local_memory(harness, format, route, more)?;
    }
    Ok(())
}

fn failing_kernel(harness: &Harness<'_>, format: &'static str, route: Route) -> Result<()> {
    let executable = prepare(harness, format, &EXECUTABLE_CONSTANTS)?;
    let function = executable.lookup("fails")?;
    for code in [StatusCode::DataLoss, StatusCode::Aborted, StatusCode::InvalidArgument] {
        for workgroup in [0, 3, 4] {
            let call = Call::new(&executable, function).count([5, 1, 1]).constants(&[code as u32, workgroup]);
            let outcome = Script::new(harness, route).call(call).run();
            refused("a kernel that fails", outcome, &[StatusCode::Internal])?;
        }
    }
    // No workgroup has this number, so none fails.
    let call = Call::new(&executable, function).count([5, 1, 1]).constants(&[StatusCode::DataLoss as u32, 5]);
    Script::new(harness, route).call(call).run()
}

fn after_a_failure(harness: &Harness<'_>, format: &'static str, route: Route) -> Result<()> {
    let executable = prepare(harness, format, &EXECUTABLE_CONSTANTS)?;
    let buffer = harness.buffer(&[0; 8])?;
    let call =
        Call::new(&executable, executable.lookup("fails")?).constants(&[StatusCode::Aborted as u32, 0]);
    let outcome = Script::new(harness, route)
        .fill(BufferRef::range(&buffer, 0, 4), &[1])
        .call(call)
        .fill(BufferRef::range(&buffer, 4, 4), &[2])
        .run();
    refused("a failure in the middle", outcome, &[StatusCode::Internal])?;
    equal("only the work before the failure", harness.read(&buffer)?, vec![1, 1, 1, 1, 0, 0, 0, 0])
}

fn surroundings(harness: &Harness<'_>, format: &'static str, route: Route) -> Result<()> {
    let executable = prepare(harness, format, &EXECUTABLE_CONSTANTS)?;
    let output = harness.words(&[0xdddd_dddd; 16])?;
    let call = Call::new(&executable, executable.lookup("surroundings")?)
        .count([2, 3, 1])
        .size([4, 2, 1])
        .constants(&[1, 2, 3])
        .bind(BufferRef::range(&output, 0, 48));
    Script::new(harness, route).call(call).run()?;
    let mut expected = vec![4, 2, 1, 2, 3, 1, 3, 1, 48];
    expected.extend(EXECUTABLE_CONSTANTS);
    // The optional import is unresolved.
    expected.push(0);
    expected.extend([0xdddd_dddd; 4]);
    equal("the dispatch state", harness.read_words(&output)?, expected)
}

fn wrong_executable_constants(harness: &Harness<'_>, format: &'static str) -> Result<()> {
    prepare(harness, format, &EXECUTABLE_CONSTANTS)?;
    for constants in [&[][..], &[1], &[1, 2, 3]] {
        let outcome = prepare(harness, format, constants);
        holds(&format!("{} constants for 2 are rejected", constants.len()), outcome.is_err())?;
    }
    Ok(())
}
