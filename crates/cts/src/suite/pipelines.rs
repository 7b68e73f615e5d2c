//! Dispatches and transfers that read the result of the previous one, over every route.

use rehal_base::Result;
use rehal_hal::{BufferParams, BufferRef, CommandBufferMode};

use crate::check::equal;
use crate::harness::{Harness, bytes_of};
use crate::script::{Call, Route, Script};
use crate::test::List;
use crate::{Capability, Kernel};

type Check = fn(&Harness<'_>, &'static str, Route) -> Result<()>;

const CHECKS: [(&str, Check); 8] = [
    ("update_then_dispatch", update_then_dispatch),
    ("dispatch_then_copy", dispatch_then_copy),
    ("fill_dispatch_dispatch", fill_dispatch_dispatch),
    ("chain_of_dispatches", chain_of_dispatches),
    ("in_place", in_place),
    ("two_executables", two_executables),
    ("through_device_local_memory", through_device_local_memory),
    ("transfers_between_dispatches", transfers_between_dispatches),
];

pub(super) fn add(list: &mut List, format: &'static str) {
    let needs = &[Capability::Executables];
    for route in Route::ALL {
        for (name, check) in CHECKS {
            let name = format!("pipeline/{format}/{}/{name}", route.name());
            list.add(name, needs, move |harness| check(harness, format, route));
        }
    }
    let name = |what: &str| format!("pipeline/{format}/{what}");
    list.add(name("reused_with_other_inputs"), needs, move |it| reused(it, format));
    list.add(name("transient_lives_overlap"), needs, move |it| transient_lives(it, format));
    list.add(name("large_command_buffer"), needs, move |it| large_command_buffer(it, format));
}

const ONES: [u32; 16] = [1; 16];

fn update_then_dispatch(harness: &Harness<'_>, format: &'static str, route: Route) -> Result<()> {
    let executable = harness.prepare(Kernel::Affine, format)?;
    let (input, output) = (harness.words(&[0; 16])?, harness.words(&[0; 16])?);
    Script::new(harness, route)
        .update(&bytes_of(&[5; 16]), &input)
        .call(Call::new(&executable, 0).constants(&[3, 1]).bind(&input).bind(&output))
        .run()?;
    equal("the output", harness.read_words(&output)?, vec![16; 16])
}

fn dispatch_then_copy(harness: &Harness<'_>, format: &'static str, route: Route) -> Result<()> {
    let executable = harness.prepare(Kernel::Affine, format)?;
    let input = harness.words(&ONES)?;
    let (middle, output) = (harness.words(&[0; 16])?, harness.words(&[0; 16])?);
    Script::new(harness, route)
        .call(Call::new(&executable, 0).constants(&[2, 2]).bind(&input).bind(&middle))
        .copy(&middle, &output)
        .fill(&middle, &[0])
        .run()?;
    equal("the output", harness.read_words(&output)?, vec![4; 16])?;
    equal("the buffer overwritten later", harness.read_words(&middle)?, vec![0; 16])
}

fn fill_dispatch_dispatch(harness: &Harness<'_>, format: &'static str, route: Route) -> Result<()> {
    let executable = harness.prepare(Kernel::Affine, format)?;
    let buffers = [harness.words(&[0; 16])?, harness.words(&[0; 16])?, harness.words(&[0; 16])?];
    Script::new(harness, route)
        .fill(&buffers[0], &[7, 0, 0, 0])
        .call(Call::new(&executable, 0).constants(&[2, 0]).bind(&buffers[0]).bind(&buffers[1]))
        .call(Call::new(&executable, 0).constants(&[10, 3]).bind(&buffers[1]).bind(&buffers[2]))
        .run()?;
    equal("in the middle", harness.read_words(&buffers[1])?, vec![14; 16])?;
    equal("at the end", harness.read_words(&buffers[2])?, vec![143; 16])
}

fn chain_of_dispatches(harness: &Harness<'_>, format: &'static str, route: Route) -> Result<()> {
    let executable = harness.prepare(Kernel::Affine, format)?;
    let (a, b) = (harness.words(&ONES)?, harness.words(&[0; 16])?);
    let mut script = Script::new(harness, route);
    let mut expected = 1_u32;
    for step in 0..20 {
        let (from, to) = if step % 2 == 0 { (&a, &b) } else { (&b, &a) };
        let constants = [3, step];
        script = script.call(Call::new(&executable, 0).constants(&constants).bind(from).bind(to));
        expected = expected.wrapping_mul(3).wrapping_add(step);
    }
    script.run()?;
    equal("after twenty", harness.read_words(&a)?, vec![expected; 16])
}

fn in_place(harness: &Harness<'_>, format: &'static str, route: Route) -> Result<()> {
    let executable = harness.prepare(Kernel::Affine, format)?;
    let buffer = harness.words(&ONES)?;
    let call = |term| Call::new(&executable, 0).constants(&[2, term]).bind(&buffer).bind(&buffer);
    Script::new(harness, route).call(call(1)).call(call(0)).call(call(5)).run()?;
    equal("the buffer", harness.read_words(&buffer)?, vec![17; 16])
}

fn two_executables(harness: &Harness<'_>, format: &'static str, route: Route) -> Result<()> {
    let functions = harness.prepare(Kernel::EntryPoints, format)?;
    let constants = harness.prepare(Kernel::Constants, format)?;
    let buffers = [harness.words(&[0; 4])?, harness.words(&[0; 4])?, harness.words(&[0; 4])?];
    Script::new(harness, route)
        .call(Call::new(&constants, 0).constants(&[1, 2, 3, 4]).bind(&buffers[0]))
        .call(Call::new(&functions, 1).bind(&buffers[0]).bind(&buffers[1]))
        .call(Call::new(&functions, 2).bind(&buffers[0]).bind(&buffers[1]).bind(&buffers[2]))
        .run()?;
    equal("the sum", harness.read_words(&buffers[2])?, vec![3, 6, 9, 12])
}

fn through_device_local_memory(harness: &Harness<'_>, format: &'static str, route: Route) -> Result<()> {
    let executable = harness.prepare(Kernel::Affine, format)?;
    let local = || harness.device.allocate_buffer(BufferParams::default(), 64);
    let (input, middle, output) = (local()?, local()?, local()?);
    let call = |from, to| Call::new(&executable, 0).constants(&[4, 1]).bind(from).bind(to);
    Script::new(harness, route)
        .update(&bytes_of(&ONES), &input)
        .call(call(&input, &middle))
        .call(call(&middle, &output))
        .run()?;
    equal("the output", harness.read_words(&output)?, vec![21; 16])
}

/// Transfers of all kinds alternate with dispatches: each overwrites what the one before it has read, and
/// reads what it has written.
fn transfers_between_dispatches(harness: &Harness<'_>, format: &'static str, route: Route) -> Result<()> {
    const ROUNDS: u32 = 24;
    let executable = harness.prepare(Kernel::Affine, format)?;
    let local = || harness.device.allocate_buffer(BufferParams::default(), 64);
    let (input, output) = (local()?, local()?);
    let all = harness.words(&[0; 16 * ROUNDS as usize])?;
    let data: Vec<_> = (0..ROUNDS).map(|round| bytes_of(&[100 + round; 16])).collect();
    let mut script = Script::new(harness, route);
    let (mut value, mut expected) = (0_u32, Vec::new());
    for (round, bytes) in (0..ROUNDS).zip(&data) {
        script = match round % 3 {
            0 => script.update(bytes, &input),
            1 => script.fill(&input, &bytes[..4]),
            _ => script.copy(&output, &input),
        };
        let source = if round % 3 == 2 { value } else { 100 + round };
        value = source.wrapping_mul(3).wrapping_add(round);
        expected.extend([value; 16]);
        script = script
            .call(Call::new(&executable, 0).constants(&[3, round]).bind(&input).bind(&output))
            .copy(BufferRef::range(&output, 0, 64), BufferRef::range(&all, 64 * u64::from(round), 64));
    }
    script.run()?;
    equal("the outputs of all rounds", harness.read_words(&all)?, expected)
}

fn reused(harness: &Harness<'_>, format: &'static str) -> Result<()> {
    let executable = harness.prepare(Kernel::Affine, format)?;
    let (input, middle, output) = (harness.words(&ONES)?, harness.words(&ONES)?, harness.words(&ONES)?);
    let call = |from, to| Call::new(&executable, 0).constants(&[2, 1]).bind(from).bind(to);
    let script = Script::new(harness, Route::Direct).call(call(&input, &middle)).call(call(&middle, &output));
    let (commands, _) = script.record(CommandBufferMode::empty())?;
    for round in 0..10 {
        input.write(0, &bytes_of(&[round; 16]))?;
        harness.execute(&commands, &[])?;
        equal("the output", harness.read_words(&output)?, vec![4 * round + 3; 16])?;
    }
    Ok(())
}

/// Alloca, execute and dealloca of several rounds, submitted without waits in between.
fn transient_lives(harness: &Harness<'_>, format: &'static str) -> Result<()> {
    let executable = harness.prepare(Kernel::Affine, format)?;
    let (input, output) = (harness.words(&[0; 16])?, harness.words(&[0; 16])?);
    let middle = harness.words(&[0; 16])?;
    let call = |from, to| Call::new(&executable, 0).constants(&[3, 1]).bind(from).bind(to);
    let script = Script::new(harness, Route::Slots).call(call(&input, &middle)).call(call(&middle, &output));
    let (commands, table) = script.record(CommandBufferMode::empty())?;
    equal("slots", table.len(), 4)?;
    let timeline = harness.semaphore()?;
    let mut rounds = Vec::new();
    for round in 0..8_u32 {
        let start = 3 * u64::from(round);
        let input = harness.words(&[round; 16])?;
        let output = harness.words(&[0; 16])?;
        let points: Vec<_> = (start..=start + 3).map(|value| timeline.at(value)).collect();
        let transient = harness.queue().wait(&points[..1]).signal(&points[1..2]).alloca(
            BufferParams::default(),
            64,
            0,
        )?;
        let bindings = [&input, &transient, &transient, &output].map(BufferRef::from);
        harness.queue().wait(&points[1..2]).signal(&points[2..3]).execute(&commands, &bindings, 0)?;
        harness.queue().wait(&points[2..3]).signal(&points[3..]).dealloca(&transient, 0)?;
        rounds.push(output.clone());
    }
    harness.wait(&timeline, 24)?;
    for (round, output) in (0..).zip(&rounds) {
        equal("a round's output", harness.read_words(output)?, vec![9 * round + 4; 16])?;
    }
    Ok(())
}

fn large_command_buffer(harness: &Harness<'_>, format: &'static str) -> Result<()> {
    const STEPS: u32 = 1000;
    let executable = harness.prepare(Kernel::Affine, format)?;
    let buffer = harness.words(&[0; 16])?;
    let mut script = Script::new(harness, Route::Direct);
    for step in 0..STEPS {
        script = script.call(Call::new(&executable, 0).constants(&[1, step]).bind(&buffer).bind(&buffer));
    }
    script.run()?;
    equal("the sum of all steps", harness.read_words(&buffer)?, vec![STEPS * (STEPS - 1) / 2; 16])
}
