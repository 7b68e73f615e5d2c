//! Updates, over every route.

use rehal_base::Result;
use rehal_hal::{BufferRef, CommandBufferMode};

use crate::check::{ARGUMENT, RANGE, refused, same_bytes};
use crate::harness::{Harness, noise};
use crate::script::{Route, Script};
use crate::test::List;

pub(super) fn add(list: &mut List) {
    for route in Route::ALL {
        let name = |what: &str| format!("update/{}/{what}", route.name());
        list.add(name("every_offset_and_length"), &[], move |it| every_offset_and_length(it, route));
        list.add(name("whole_buffer"), &[], move |it| whole_buffer(it, route));
        list.add(name("part_of_the_source"), &[], move |it| part_of_the_source(it, route));
        list.add(name("large"), &[], move |it| large(it, route));
        list.add(name("several"), &[], move |it| several(it, route));
        list.add(name("wrong_lengths_are_refused"), &[], move |it| wrong_lengths(it, route));
        list.add(name("ranges_outside_are_refused"), &[], move |it| ranges_outside(it, route));
    }
    list.add("update/queue/source_is_taken_at_submit", &[], source_is_taken_at_submit);
    list.add("update/direct/source_is_taken_at_record", &[], source_is_taken_at_record);
}

fn every_offset_and_length(harness: &Harness<'_>, route: Route) -> Result<()> {
    const SIZE: usize = 20;
    let initial = noise(SIZE, 1);
    for offset in 0..=SIZE {
        for length in 0..=SIZE - offset {
            let source = noise(length, 2);
            let buffer = harness.buffer(&initial)?;
            let target = BufferRef::range(&buffer, offset as u64, length as u64);
            Script::new(harness, route).update(&source, target).run()?;
            let mut expected = initial.clone();
            expected[offset..offset + length].copy_from_slice(&source);
            let what = format!("an update of {length} bytes at {offset}");
            same_bytes(&what, &harness.read(&buffer)?, &expected)?;
        }
    }
    Ok(())
}

fn whole_buffer(harness: &Harness<'_>, route: Route) -> Result<()> {
    let source = noise(333, 7);
    let buffer = harness.buffer(&[0; 333])?;
    Script::new(harness, route).update(&source, &buffer).run()?;
    same_bytes("the buffer", &harness.read(&buffer)?, &source)
}

fn part_of_the_source(harness: &Harness<'_>, route: Route) -> Result<()> {
    let source = noise(64, 7);
    let buffer = harness.buffer(&[0; 16])?;
    Script::new(harness, route).update(&source[33..43], BufferRef::range(&buffer, 3, 10)).run()?;
    let expected = [&[0; 3], &source[33..43], &[0; 3]].concat();
    same_bytes("the buffer", &harness.read(&buffer)?, &expected)
}

fn large(harness: &Harness<'_>, route: Route) -> Result<()> {
    // Beyond 64 KiB, where some devices need another method.
    for length in [65_535, 65_536, 65_537, 1 << 20] {
        let source = noise(length, 3);
        let buffer = harness.buffer(&vec![0; length])?;
        Script::new(harness, route).update(&source, &buffer).run()?;
        same_bytes("the buffer", &harness.read(&buffer)?, &source)?;
    }
    Ok(())
}

fn several(harness: &Harness<'_>, route: Route) -> Result<()> {
    let buffer = harness.buffer(&[0; 8])?;
    Script::new(harness, route)
        .update(&[1, 2, 3, 4, 5, 6, 7, 8], &buffer)
        .update(&[11, 12, 13], BufferRef::range(&buffer, 1, 3))
        .update(&[21], BufferRef::range(&buffer, 3, 1))
        .run()?;
    same_bytes("in order", &harness.read(&buffer)?, &[1, 11, 12, 21, 5, 6, 7, 8])
}

fn wrong_lengths(harness: &Harness<'_>, route: Route) -> Result<()> {
    let buffer = harness.buffer(&[5; 16])?;
    let source = [1; 32];
    for (source_length, length) in [(4, 8), (8, 4), (0, 1), (1, 0), (15, u64::MAX), (17, u64::MAX)] {
        let part = BufferRef::range(&buffer, 0, length);
        let outcome = Script::new(harness, route).update(&source[..source_length], part).run();
        refused(&format!("{source_length} bytes for {length}"), outcome, ARGUMENT)?;
    }
    same_bytes("nothing changed", &harness.read(&buffer)?, &[5; 16])
}

fn ranges_outside(harness: &Harness<'_>, route: Route) -> Result<()> {
    let buffer = harness.buffer(&[5; 16])?;
    for offset in [13, 16, 17, 1 << 40, u64::MAX - 3, u64::MAX] {
        let part = BufferRef::range(&buffer, offset, 4);
        let outcome = Script::new(harness, route).update(&[1; 4], part).run();
        refused(&format!("4 bytes at {offset}"), outcome, RANGE)?;
    }
    same_bytes("nothing changed", &harness.read(&buffer)?, &[5; 16])
}

fn source_is_taken_at_submit(harness: &Harness<'_>) -> Result<()> {
    let buffer = harness.buffer(&[0; 4])?;
    let (gate, done) = harness.two_semaphores()?;
    let mut source = vec![1, 2, 3, 4];
    harness.queue().wait(&[gate.at(1)]).signal(&[done.at(1)]).update(&source, &buffer, 0)?;
    source.fill(9);
    gate.signal(1)?;
    harness.wait(&done, 1)?;
    same_bytes("the bytes of the submission", &harness.read(&buffer)?, &[1, 2, 3, 4])
}

fn source_is_taken_at_record(harness: &Harness<'_>) -> Result<()> {
    let buffer = harness.buffer(&[0; 4])?;
    let commands = harness.begin(CommandBufferMode::empty(), 0)?;
    let mut source = vec![1, 2, 3, 4];
    commands.update(&source, &buffer)?;
    source.fill(9);
    commands.end()?;
    for _ in 0..2 {
        harness.run(|queue| queue.fill(&buffer, &[0], 0))?;
        harness.execute(&commands, &[])?;
        same_bytes("the bytes of the recording", &harness.read(&buffer)?, &[1, 2, 3, 4])?;
    }
    Ok(())
}
