//! Dispatches, over every route.

use rehal_base::Result;
use rehal_hal::{Buffer, BufferRef, CommandBufferMode, CommandCategories, DispatchFlags, WorkgroupSchedule};

use crate::check::{ARGUMENT, RANGE, STATE, equal, refused};
use crate::harness::{Harness, bytes_of};
use crate::live::{Command, Dispatch};
use crate::script::{Call, Route, Script};
use crate::test::List;
use crate::{Capability, Kernel};

type Check = fn(&Harness<'_>, &'static str, Route) -> Result<()>;

const CHECKS: [(&str, Check); 13] = [
    ("constants", constants),
    ("bindings", bindings),
    ("constants_and_bindings", constants_and_bindings),
    ("subranges", subranges),
    ("one_buffer_twice", one_buffer_twice),
    ("entry_points", entry_points),
    ("workgroup_ids_and_counts", workgroup_ids_and_counts),
    ("no_workgroups", no_workgroups),
    ("borrowed_lifetimes", borrowed_lifetimes),
    ("wrong_constants_are_refused", wrong_constants),
    ("wrong_bindings_are_refused", wrong_bindings),
    ("wrong_function_is_refused", wrong_function),
    ("binding_outside_is_refused", binding_outside),
];

pub(super) fn add(list: &mut List, format: &'static str) {
    let needs = &[Capability::Executables];
    for route in Route::ALL {
        for (name, check) in CHECKS {
            let name = format!("dispatch/{format}/{}/{name}", route.name());
            list.add(name, needs, move |harness| check(harness, format, route));
        }
        let name = format!("dispatch/{format}/{}/selected_workgroups", route.name());
        let needs = &[Capability::Executables, Capability::SelectedWorkgroups];
        list.add(name, needs, move |it| selected_workgroups(it, format, route));
    }
    let name = |what: &str| format!("dispatch/{format}/{what}");
    list.add(name("category_is_enforced"), needs, move |it| category_is_enforced(it, format));
    list.add(name("arguments_are_taken_at_submit"), needs, move |it| taken_at_submit(it, format));
    list.add(name("commands_keep_the_executable"), needs, move |it| commands_keep_it(it, format));
    list.add(name("resubmitted_with_other_bindings"), needs, move |it| resubmitted(it, format));
    list.add(name("without_workgroups_waits_and_signals"), needs, move |it| noop_waits(it, format));
    list.add(name("from_several_threads"), needs, move |it| from_several_threads(it, format));
}

/// The numbers 0 to 15 and the result of `affine`.
fn numbers() -> Vec<u32> {
    (0..16).collect()
}

fn affine_of(input: &[u32], factor: u32, term: u32) -> Vec<u32> {
    input.iter().map(|x| x.wrapping_mul(factor).wrapping_add(term)).collect()
}

fn constants(harness: &Harness<'_>, format: &'static str, route: Route) -> Result<()> {
    let executable = harness.prepare(Kernel::Constants, format)?;
    for constants in [[1, 2, 3, 4], [0; 4], [u32::MAX, 0, 0x8000_0000, 0x1234_5678]] {
        let output = harness.words(&[0xdddd_dddd; 4])?;
        Script::new(harness, route)
            .call(Call::new(&executable, 0).constants(&constants).bind(&output))
            .run()?;
        equal("what was written", harness.read_words(&output)?, constants.to_vec())?;
    }
    Ok(())
}

fn bindings(harness: &Harness<'_>, format: &'static str, route: Route) -> Result<()> {
    let executable = harness.prepare(Kernel::EntryPoints, format)?;
    let a = harness.words(&[1, 2, 3, 4])?;
    let b = harness.words(&[10, 20, 30, 40])?;
    let sum = harness.words(&[0; 4])?;
    let call = Call::new(&executable, 2).bind(&a).bind(&b).bind(&sum);
    Script::new(harness, route).call(call).run()?;
    equal("the sum", harness.read_words(&sum)?, vec![11, 22, 33, 44])?;
    equal("an input", harness.read_words(&a)?, vec![1, 2, 3, 4])
}

fn constants_and_bindings(harness: &Harness<'_>, format: &'static str, route: Route) -> Result<()> {
    let executable = harness.prepare(Kernel::Affine, format)?;
    let input = harness.words(&numbers())?;
    let output = harness.words(&[0; 16])?;
    for (factor, term) in [(3, 10), (1, 0), (0, 7), (u32::MAX, 5)] {
        let call = Call::new(&executable, 0).constants(&[factor, term]).bind(&input).bind(&output);
        Script::new(harness, route).call(call).run()?;
        equal("the numbers", harness.read_words(&output)?, affine_of(&numbers(), factor, term))?;
    }
    Ok(())
}

fn subranges(harness: &Harness<'_>, format: &'static str, route: Route) -> Result<()> {
    let executable = harness.prepare(Kernel::Affine, format)?;
    // Kernels may assume 64-byte alignment, so ranges start at multiples of that.
    let all: Vec<u32> = (0..64).map(|index| index * 5).collect();
    for (from, to) in [(0, 0), (16, 32), (32, 16), (48, 48)] {
        let input = harness.words(&all)?;
        let output = harness.words(&[0xdddd_dddd; 64])?;
        let read = BufferRef::range(&input, 4 * from as u64, 64);
        let written = BufferRef::range(&output, 4 * to as u64, 64);
        let call = Call::new(&executable, 0).constants(&[2, 1]).bind(read).bind(written);
        Script::new(harness, route).call(call).run()?;
        let mut expected = vec![0xdddd_dddd; 64];
        expected[to..to + 16].copy_from_slice(&affine_of(&all[from..from + 16], 2, 1));
        equal("the output", harness.read_words(&output)?, expected)?;
    }
    Ok(())
}

fn one_buffer_twice(harness: &Harness<'_>, format: &'static str, route: Route) -> Result<()> {
    let executable = harness.prepare(Kernel::Affine, format)?;
    let both = harness.words(&[numbers(), vec![0; 16]].concat())?;
    let (low, high) = (BufferRef::range(&both, 0, 64), BufferRef::range(&both, 64, 64));
    let call = Call::new(&executable, 0).constants(&[2, 0]).bind(low).bind(high);
    Script::new(harness, route).call(call).run()?;
    let expected = [numbers(), affine_of(&numbers(), 2, 0)].concat();
    equal("both halves", harness.read_words(&both)?, expected)
}

fn entry_points(harness: &Harness<'_>, format: &'static str, route: Route) -> Result<()> {
    let executable = harness.prepare(Kernel::EntryPoints, format)?;
    let input = harness.words(&[1, 2, 3, 4])?;
    let outputs = [harness.words(&[0; 4])?, harness.words(&[0; 4])?, harness.words(&[0; 4])?];
    let function = |name| executable.lookup(name);
    Script::new(harness, route)
        .call(Call::new(&executable, function("twice")?).bind(&input).bind(&outputs[1]))
        .call(Call::new(&executable, function("negate")?).bind(&input).bind(&outputs[0]))
        .call(Call::new(&executable, function("sum")?).bind(&input).bind(&outputs[1]).bind(&outputs[2]))
        .run()?;
    let negated = [1_u32, 2, 3, 4].map(u32::wrapping_neg).to_vec();
    equal("negate", harness.read_words(&outputs[0])?, negated)?;
    equal("twice", harness.read_words(&outputs[1])?, vec![2, 4, 6, 8])?;
    equal("sum", harness.read_words(&outputs[2])?, vec![3, 6, 9, 12])
}

/// The result of `write_ids` in its buffer of 64 rows, initialised with `0xdddddddd`.
pub(super) fn expected_ids(count: [u32; 3]) -> Vec<u32> {
    let mut rows = vec![0xdddd_dddd; 64 * 6];
    let [nx, ny, nz] = count;
    for z in 0..nz {
        for y in 0..ny {
            for x in 0..nx {
                let row = ((z * ny + y) * nx + x) as usize * 6;
                rows[row..row + 6].copy_from_slice(&[x, y, z, nx, ny, nz]);
            }
        }
    }
    rows
}

fn workgroup_ids_and_counts(harness: &Harness<'_>, format: &'static str, route: Route) -> Result<()> {
    let executable = harness.prepare(Kernel::Workgroups, format)?;
    for count in [[1, 1, 1], [64, 1, 1], [1, 64, 1], [1, 1, 64], [4, 4, 4], [5, 3, 2], [2, 3, 7]] {
        let output = harness.words(&[0xdddd_dddd; 64 * 6])?;
        Script::new(harness, route).call(Call::new(&executable, 0).count(count).bind(&output)).run()?;
        let what = format!("ids of {count:?} workgroups");
        equal(&what, harness.read_words(&output)?, expected_ids(count))?;
    }
    Ok(())
}

fn selected_workgroups(harness: &Harness<'_>, format: &'static str, route: Route) -> Result<()> {
    let all = [(0, false), (0, true), (1, true), (2, false), (5, true), (63, false), (63, true)];
    let selected = all.map(|(bit, is_set)| WorkgroupSchedule::Where { bit, is_set });
    for workgroups in selected.into_iter().chain([WorkgroupSchedule::Reversed]) {
        let executable = harness.prepare_scheduled(Kernel::Workgroups, format, workgroups)?;
        for count in [[1, 1, 1], [64, 1, 1], [1, 1, 64], [5, 3, 2], [2, 3, 7]] {
            let output = harness.words(&[0xdddd_dddd; 64 * 6])?;
            Script::new(harness, route).call(Call::new(&executable, 0).count(count).bind(&output)).run()?;
            let mut expected = expected_ids(count);
            for (number, row) in (0_u64..).zip(expected.chunks_exact_mut(6)) {
                if let WorkgroupSchedule::Where { bit, is_set } = workgroups
                    && (number >> bit & 1 == 1) != is_set
                {
                    row.fill(0xdddd_dddd);
                }
            }
            let what = format!("{workgroups:?} of {count:?} workgroups");
            equal(&what, harness.read_words(&output)?, expected)?;
        }
    }
    Ok(())
}

fn no_workgroups(harness: &Harness<'_>, format: &'static str, route: Route) -> Result<()> {
    let executable = harness.prepare(Kernel::Workgroups, format)?;
    let output = harness.words(&[0xdddd_dddd; 64 * 6])?;
    for count in [[0, 1, 1], [1, 0, 1], [1, 1, 0], [0, 0, 0], [0, 60_000, 60_000]] {
        Script::new(harness, route).call(Call::new(&executable, 0).count(count).bind(&output)).run()?;
        equal("nothing written", harness.read_words(&output)?, expected_ids([0; 3]))?;
    }
    Ok(())
}

fn borrowed_lifetimes(harness: &Harness<'_>, format: &'static str, route: Route) -> Result<()> {
    let executable = harness.prepare(Kernel::Constants, format)?;
    let output = harness.words(&[0; 4])?;
    let flags = DispatchFlags::BORROW_RESOURCE_LIFETIMES | DispatchFlags::ALLOW_INLINE_EXECUTION;
    let call = Call::new(&executable, 0).constants(&[5, 6, 7, 8]).bind(&output).flags(flags);
    Script::new(harness, route).call(call).run()?;
    equal("what was written", harness.read_words(&output)?, vec![5, 6, 7, 8])
}

fn wrong_constants(harness: &Harness<'_>, format: &'static str, route: Route) -> Result<()> {
    let executable = harness.prepare(Kernel::Constants, format)?;
    let output = harness.words(&[9; 4])?;
    for constants in [&[][..], &[1, 2, 3], &[1, 2, 3, 4, 5]] {
        let call = Call::new(&executable, 0).constants(constants).bind(&output);
        let outcome = Script::new(harness, route).call(call).run();
        refused(&format!("{} constants for 4", constants.len()), outcome, ARGUMENT)?;
    }
    equal("nothing written", harness.read_words(&output)?, vec![9; 4])
}

fn wrong_bindings(harness: &Harness<'_>, format: &'static str, route: Route) -> Result<()> {
    let executable = harness.prepare(Kernel::EntryPoints, format)?;
    let buffers = [harness.words(&[9; 4])?, harness.words(&[9; 4])?, harness.words(&[9; 4])?];
    for count in [0, 1, 3] {
        let call = buffers[..count].iter().fold(Call::new(&executable, 0), Call::bind);
        let outcome = Script::new(harness, route).call(call).run();
        refused(&format!("{count} bindings for 2"), outcome, ARGUMENT)?;
    }
    for buffer in &buffers {
        equal("nothing written", harness.read_words(buffer)?, vec![9; 4])?;
    }
    Ok(())
}

fn wrong_function(harness: &Harness<'_>, format: &'static str, route: Route) -> Result<()> {
    let executable = harness.prepare(Kernel::Workgroups, format)?;
    let output = harness.words(&[0xdddd_dddd; 64 * 6])?;
    for function in [1, 7, u32::MAX] {
        let call = Call::new(&executable, function).bind(&output);
        refused("a function", Script::new(harness, route).call(call).run(), RANGE)?;
    }
    equal("nothing written", harness.read_words(&output)?, expected_ids([0; 3]))
}

fn binding_outside(harness: &Harness<'_>, format: &'static str, route: Route) -> Result<()> {
    let executable = harness.prepare(Kernel::Constants, format)?;
    let output = harness.words(&[9; 4])?;
    for (offset, length) in [(0, 17), (16, 1), (17, u64::MAX), (u64::MAX - 15, 16)] {
        let part = BufferRef::range(&output, offset, length);
        let call = Call::new(&executable, 0).constants(&[1, 2, 3, 4]).bind(part);
        refused("a binding", Script::new(harness, route).call(call).run(), RANGE)?;
    }
    equal("nothing written", harness.read_words(&output)?, vec![9; 4])
}

fn category_is_enforced(harness: &Harness<'_>, format: &'static str) -> Result<()> {
    let executable = harness.prepare(Kernel::Constants, format)?;
    let output = harness.words(&[9; 4])?;
    let commands = harness.unbegun(CommandBufferMode::empty(), CommandCategories::TRANSFER, 0)?;
    commands.begin()?;
    let constants = bytes_of(&[1, 2, 3, 4]);
    let bindings = [BufferRef::whole(&output)];
    let dispatch =
        Command::Dispatch(Dispatch::new(&executable, 0, [1; 3]).constants(&constants).bindings(&bindings));
    refused("a dispatch among transfers", commands.record(&dispatch), STATE)?;
    commands.end()
}

/// Submits `write_constants` and drops all its arguments.
fn submit_and_forget(
    harness: &Harness<'_>,
    format: &'static str,
    output: &Buffer,
    gate: &rehal_hal::Semaphore,
    done: &rehal_hal::Semaphore,
) -> Result<()> {
    let executable = harness.prepare(Kernel::Constants, format)?;
    let mut constants = bytes_of(&[1, 2, 3, 4]);
    {
        let bindings = vec![BufferRef::whole(output)];
        let (waits, signals) = ([gate.at(1)], [done.at(1)]);
        harness
            .queue()
            .wait(&waits)
            .signal(&signals)
            .dispatch(&Dispatch::new(&executable, 0, [1; 3]).constants(&constants).bindings(&bindings))?;
    }
    constants.fill(0xcc);
    Ok(())
}

fn taken_at_submit(harness: &Harness<'_>, format: &'static str) -> Result<()> {
    let output = harness.words(&[9; 4])?;
    let (gate, done) = harness.two_semaphores()?;
    submit_and_forget(harness, format, &output, &gate, &done)?;
    harness.settle()?;
    equal("before", harness.read_words(&output)?, vec![9; 4])?;
    gate.signal(1)?;
    harness.wait(&done, 1)?;
    equal("after", harness.read_words(&output)?, vec![1, 2, 3, 4])
}

fn commands_keep_it(harness: &Harness<'_>, format: &'static str) -> Result<()> {
    let output = harness.words(&[0; 4])?;
    let (commands, table) = {
        let executable = harness.prepare(Kernel::Constants, format)?;
        let call = Call::new(&executable, 0).constants(&[1, 2, 3, 4]).bind(&output);
        let script = Script::new(harness, Route::Direct).call(call);
        let (commands, table) = script.record(CommandBufferMode::empty())?;
        (commands, table.len())
    };
    equal("binding table entries of commands without slots", table, 0)?;
    for _ in 0..3 {
        output.write(0, &[0; 16])?;
        harness.execute(&commands, &[])?;
        equal("what was written", harness.read_words(&output)?, vec![1, 2, 3, 4])?;
    }
    Ok(())
}

fn resubmitted(harness: &Harness<'_>, format: &'static str) -> Result<()> {
    let executable = harness.prepare(Kernel::Affine, format)?;
    let input = harness.words(&numbers())?;
    let output = harness.words(&[0; 16])?;
    let call = Call::new(&executable, 0).constants(&[2, 1]).bind(&input).bind(&output);
    let script = Script::new(harness, Route::Slots).call(call);
    let (commands, table) = script.record(CommandBufferMode::empty())?;
    equal("slots", table.len(), 2)?;
    for round in 0..6 {
        let numbers: Vec<u32> = numbers().iter().map(|x| x + 100 * round).collect();
        let input = harness.words(&numbers)?;
        let output = harness.words(&[0; 16])?;
        harness.execute(&commands, &[BufferRef::from(&input), BufferRef::from(&output)])?;
        equal("the numbers", harness.read_words(&output)?, affine_of(&numbers, 2, 1))?;
    }
    equal("the first table's output", harness.read_words(&output)?, vec![0; 16])
}

fn noop_waits(harness: &Harness<'_>, format: &'static str) -> Result<()> {
    let executable = harness.prepare(Kernel::Constants, format)?;
    let output = harness.words(&[9; 4])?;
    let (gate, done) = harness.two_semaphores()?;
    {
        let constants = bytes_of(&[1, 2, 3, 4]);
        let bindings = [BufferRef::whole(&output)];
        let (waits, signals) = ([gate.at(1)], [done.at(1)]);
        harness
            .queue()
            .wait(&waits)
            .signal(&signals)
            .dispatch(&Dispatch::new(&executable, 0, [0; 3]).constants(&constants).bindings(&bindings))?;
    }
    harness.settle()?;
    equal("before", done.query()?, 0)?;
    gate.signal(1)?;
    harness.wait(&done, 1)?;
    equal("nothing written", harness.read_words(&output)?, vec![9; 4])
}

fn from_several_threads(harness: &Harness<'_>, format: &'static str) -> Result<()> {
    let executable = harness.prepare(Kernel::Affine, format)?;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4_u32)
            .map(|thread| {
                let executable = &executable;
                scope.spawn(move || {
                    for round in 0..50 {
                        let numbers: Vec<u32> = numbers().iter().map(|x| x * 7 + thread).collect();
                        let input = harness.words(&numbers)?;
                        let output = harness.words(&[0; 16])?;
                        let call =
                            Call::new(executable, 0).constants(&[round, thread]).bind(&input).bind(&output);
                        Script::new(harness, Route::Queue).call(call).run()?;
                        let expected = affine_of(&numbers, round, thread);
                        equal("the numbers", harness.read_words(&output)?, expected)?;
                    }
                    Ok(())
                })
            })
            .collect();
        threads.into_iter().try_for_each(super::semaphores::joined)
    })?;
    harness.settle()
}
