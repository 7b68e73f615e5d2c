//! Copies, over every route.

use rehal_base::Result;
use rehal_hal::BufferRef;

use crate::check::{ARGUMENT, RANGE, refused, same_bytes};
use crate::harness::{Harness, noise};
use crate::script::{Route, Script};
use crate::test::List;

pub(super) fn add(list: &mut List) {
    for route in Route::ALL {
        let name = |what: &str| format!("copy/{}/{what}", route.name());
        list.add(name("whole_buffer"), &[], move |it| whole_buffer(it, route));
        list.add(name("every_offset_and_length"), &[], move |it| every_offset_and_length(it, route));
        list.add(name("inside_of_one_buffer"), &[], move |it| inside_of_one_buffer(it, route));
        list.add(name("large"), &[], move |it| large(it, route));
        list.add(name("chain"), &[], move |it| chain(it, route));
        list.add(name("overlap"), &[], move |it| overlap(it, route));
        list.add(name("large_overlap"), &[], move |it| large_overlap(it, route));
        list.add(name("overlaps_in_a_chain"), &[], move |it| overlaps_in_a_chain(it, route));
        list.add(name("different_lengths_are_refused"), &[], move |it| different_lengths(it, route));
        list.add(name("ranges_outside_are_refused"), &[], move |it| ranges_outside(it, route));
    }
}

fn whole_buffer(harness: &Harness<'_>, route: Route) -> Result<()> {
    let bytes = noise(501, 6);
    let source = harness.buffer(&bytes)?;
    let target = harness.buffer(&[0; 501])?;
    Script::new(harness, route).copy(&source, &target).run()?;
    same_bytes("the target", &harness.read(&target)?, &bytes)?;
    same_bytes("the source", &harness.read(&source)?, &bytes)
}

fn every_offset_and_length(harness: &Harness<'_>, route: Route) -> Result<()> {
    const SIZE: usize = 9;
    let (from, to) = (noise(SIZE, 1), noise(SIZE, 2));
    for source_offset in 0..=SIZE {
        for target_offset in 0..=SIZE {
            for length in 0..=SIZE - source_offset.max(target_offset) {
                let source = harness.buffer(&from)?;
                let target = harness.buffer(&to)?;
                let read = BufferRef::range(&source, source_offset as u64, length as u64);
                let written = BufferRef::range(&target, target_offset as u64, length as u64);
                Script::new(harness, route).copy(read, written).run()?;
                let mut expected = to.clone();
                expected[target_offset..target_offset + length]
                    .copy_from_slice(&from[source_offset..source_offset + length]);
                let what = format!("{length} bytes from {source_offset} to {target_offset}");
                same_bytes(&what, &harness.read(&target)?, &expected)?;
            }
        }
    }
    Ok(())
}

fn inside_of_one_buffer(harness: &Harness<'_>, route: Route) -> Result<()> {
    for at in [[0, 16, 16], [16, 0, 16], [3, 20, 9], [20, 11, 9], [4, 4, 0]] {
        moves_within(harness, route, 32, at)?;
    }
    Ok(())
}

fn large(harness: &Harness<'_>, route: Route) -> Result<()> {
    const SIZE: usize = (6 << 20) + 5;
    let bytes = noise(SIZE, 6);
    let source = harness.buffer(&bytes)?;
    let target = harness.buffer(&vec![0; SIZE])?;
    let length = SIZE as u64 - 5;
    Script::new(harness, route)
        .copy(BufferRef::range(&source, 5, length), BufferRef::range(&target, 2, length))
        .run()?;
    let found = harness.read(&target)?;
    same_bytes("copied bytes", &found[2..SIZE - 3], &bytes[5..])?;
    same_bytes("other bytes", &[&found[..2], &found[SIZE - 3..]].concat(), &[0; 5])
}

fn chain(harness: &Harness<'_>, route: Route) -> Result<()> {
    let buffers: Vec<_> = (0..8).map(|_| harness.buffer(&[0; 64])).collect::<Result<_>>()?;
    let mut script = Script::new(harness, route).fill(&buffers[0], &[1, 2, 3, 4]);
    for pair in buffers.windows(2) {
        script = script.copy(&pair[0], &pair[1]);
    }
    script.fill(&buffers[0], &[0]).run()?;
    same_bytes("the last", &harness.read(&buffers[7])?, &[1, 2, 3, 4].repeat(16))?;
    same_bytes("the first", &harness.read(&buffers[0])?, &[0; 64])
}

/// Every distance in both directions, and the same range.
fn overlap(harness: &Harness<'_>, route: Route) -> Result<()> {
    const SIZE: usize = 9;
    for from in 0..SIZE {
        for to in 0..SIZE {
            for length in 1..=SIZE - from.max(to) {
                moves_within(harness, route, SIZE, [from, to, length])?;
            }
        }
    }
    for [size, apart] in [[65, 1], [100, 3], [257, 16], [1025, 64], [4096, 4], [5003, 1000]] {
        moves_within(harness, route, size, [0, apart, size - apart])?;
        moves_within(harness, route, size, [apart, 0, size - apart])?;
    }
    Ok(())
}

/// Sizes above those that drivers split copies into.
fn large_overlap(harness: &Harness<'_>, route: Route) -> Result<()> {
    const PIECE: usize = 256 << 10;
    const SIZE: usize = 10 * PIECE + 7;
    for apart in [1, 4, 4099, PIECE, PIECE + 1, 4 * PIECE - 1, 4 * PIECE + 1, SIZE - PIECE] {
        moves_within(harness, route, SIZE, [0, apart, SIZE - apart])?;
        moves_within(harness, route, SIZE, [apart, 0, SIZE - apart])?;
    }
    moves_within(harness, route, SIZE, [3, 2, SIZE - 5])
}

/// Overlapping copies that follow one another, each of what the one before has written.
fn overlaps_in_a_chain(harness: &Harness<'_>, route: Route) -> Result<()> {
    let initial = noise(6007, 9);
    let buffer = harness.buffer(&initial)?;
    let mut expected = initial.clone();
    let mut script = Script::new(harness, route);
    for (from, to, length) in
        [(0, 1, 6006), (5, 0, 6000), (0, 3000, 3007), (100, 0, 50), (7, 7, 600), (0, 9, 5998)]
    {
        let range = |at: usize| BufferRef::range(&buffer, at as u64, length as u64);
        script = script.copy(range(from), range(to));
        expected.copy_within(from..from + length, to);
    }
    script.run()?;
    same_bytes("the buffer", &harness.read(&buffer)?, &expected)
}

/// Copies within a buffer of `size` bytes.
fn moves_within(harness: &Harness<'_>, route: Route, size: usize, at: [usize; 3]) -> Result<()> {
    let [from, to, length] = at;
    let initial = noise(size, 4);
    let buffer = harness.buffer(&initial)?;
    let range = |at: usize| BufferRef::range(&buffer, at as u64, length as u64);
    Script::new(harness, route).copy(range(from), range(to)).run()?;
    let mut expected = initial;
    expected.copy_within(from..from + length, to);
    same_bytes(&format!("{length} bytes from {from} to {to}"), &harness.read(&buffer)?, &expected)
}

fn different_lengths(harness: &Harness<'_>, route: Route) -> Result<()> {
    let small = harness.buffer(&[1; 16])?;
    let big = harness.buffer(&[2; 32])?;
    let pairs = [
        (BufferRef::range(&big, 0, 8), BufferRef::range(&small, 0, 4)),
        (BufferRef::range(&big, 0, 4), BufferRef::range(&small, 0, 8)),
        (BufferRef::from(&small), BufferRef::from(&big)),
        (BufferRef::from(&big), BufferRef::from(&small)),
        (BufferRef::range(&big, 20, u64::MAX), BufferRef::range(&small, 5, u64::MAX)),
    ];
    for (read, written) in pairs {
        let outcome = Script::new(harness, route).copy(read, written).run();
        refused("a copy with different lengths", outcome, ARGUMENT)?;
    }
    same_bytes("nothing changed", &harness.read(&small)?, &[1; 16])?;
    same_bytes("nothing changed", &harness.read(&big)?, &[2; 32])
}

fn ranges_outside(harness: &Harness<'_>, route: Route) -> Result<()> {
    let source = harness.buffer(&[1; 16])?;
    let target = harness.buffer(&[2; 16])?;
    for (from, to, length) in [(9, 0, 8), (0, 9, 8), (16, 0, 1), (0, 17, 0), (0, 0, 17), (0, u64::MAX - 3, 8)]
    {
        let read = BufferRef::range(&source, from, length);
        let written = BufferRef::range(&target, to, length);
        let outcome = Script::new(harness, route).copy(read, written).run();
        refused(&format!("{length} bytes from {from} to {to}"), outcome, RANGE)?;
    }
    same_bytes("nothing changed", &harness.read(&target)?, &[2; 16])
}
