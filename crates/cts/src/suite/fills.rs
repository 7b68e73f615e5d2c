//! Fills, over every route.

use rehal_base::Result;
use rehal_hal::BufferRef;

use crate::check::{ARGUMENT, RANGE, equal, refused, same_bytes};
use crate::harness::{Harness, noise};
use crate::script::{Route, Script};
use crate::test::List;

/// Patterns of each valid size; no two of their bytes are equal.
const PATTERNS: [&[u8]; 3] = [&[0xa1], &[0xb1, 0xb2], &[0xc1, 0xc2, 0xc3, 0xc4]];

pub(super) fn add(list: &mut List) {
    for route in Route::ALL {
        let name = |what: &str| format!("fill/{}/{what}", route.name());
        list.add(name("every_offset_and_length"), &[], move |it| every_offset_and_length(it, route));
        list.add(name("sizes_around_powers_of_two"), &[], move |it| sizes_around_powers_of_two(it, route));
        list.add(name("patterns_of_equal_bytes"), &[], move |it| patterns_of_equal_bytes(it, route));
        list.add(name("whole_buffer"), &[], move |it| whole_buffer(it, route));
        list.add(name("to_the_end"), &[], move |it| to_the_end(it, route));
        list.add(name("large"), &[], move |it| large(it, route));
        list.add(name("several"), &[], move |it| several(it, route));
        list.add(name("wrong_patterns_are_refused"), &[], move |it| wrong_patterns(it, route));
        list.add(name("unaligned_ranges_are_refused"), &[], move |it| unaligned_ranges(it, route));
        list.add(name("ranges_outside_are_refused"), &[], move |it| ranges_outside(it, route));
    }
    list.add("fill/queue/pattern_is_taken_at_submit", &[], pattern_is_taken_at_submit);
}

fn check_fill(
    harness: &Harness<'_>,
    route: Route,
    size: usize,
    range: (u64, u64),
    pattern: &[u8],
) -> Result<()> {
    let initial = noise(size, 9);
    let buffer = harness.buffer(&initial)?;
    let (offset, length) = range;
    Script::new(harness, route).fill(BufferRef::range(&buffer, offset, length), pattern).run()?;
    let mut expected = initial;
    let filled = &mut expected[offset as usize..(offset + length) as usize];
    filled.chunks_mut(pattern.len()).for_each(|chunk| chunk.copy_from_slice(pattern));
    let what = format!("a fill of {length} bytes at {offset} with {pattern:02x?}");
    same_bytes(&what, &harness.read(&buffer)?, &expected)
}

fn every_offset_and_length(harness: &Harness<'_>, route: Route) -> Result<()> {
    const SIZE: usize = 24;
    for pattern in PATTERNS {
        for offset in (0..=SIZE).step_by(pattern.len()) {
            for length in (0..=SIZE - offset).step_by(pattern.len()) {
                check_fill(harness, route, SIZE, (offset as u64, length as u64), pattern)?;
            }
        }
    }
    Ok(())
}

fn sizes_around_powers_of_two(harness: &Harness<'_>, route: Route) -> Result<()> {
    for power in [64_u64, 256, 4096, 65_536] {
        for pattern in PATTERNS {
            let step = pattern.len() as u64;
            for length in [power - step, power, power + step] {
                let range = (3 * step, length);
                check_fill(harness, route, (length + 8 * step) as usize, range, pattern)?;
            }
        }
    }
    Ok(())
}

fn patterns_of_equal_bytes(harness: &Harness<'_>, route: Route) -> Result<()> {
    for pattern in [&[0][..], &[0, 0], &[0; 4], &[0xff; 4], &[7, 7, 7, 8], &[0, 0, 0, 1], &[1, 0]] {
        check_fill(harness, route, 64, (8, 32), pattern)?;
    }
    Ok(())
}

fn whole_buffer(harness: &Harness<'_>, route: Route) -> Result<()> {
    for pattern in PATTERNS {
        let buffer = harness.buffer(&noise(100, 1))?;
        Script::new(harness, route).fill(&buffer, pattern).run()?;
        same_bytes("the buffer", &harness.read(&buffer)?, &pattern.repeat(100 / pattern.len()))?;
    }
    Ok(())
}

fn to_the_end(harness: &Harness<'_>, route: Route) -> Result<()> {
    let buffer = harness.buffer(&[0; 16])?;
    Script::new(harness, route).fill(BufferRef::range(&buffer, 4, u64::MAX), &[1, 2, 3, 4]).run()?;
    let expected = [[0; 4], [1, 2, 3, 4], [1, 2, 3, 4], [1, 2, 3, 4]].concat();
    same_bytes("the buffer", &harness.read(&buffer)?, &expected)
}

fn large(harness: &Harness<'_>, route: Route) -> Result<()> {
    const SIZE: usize = 4 << 20;
    for pattern in PATTERNS {
        let buffer = harness.buffer(&vec![0x11; SIZE])?;
        let script = Script::new(harness, route);
        script.fill(BufferRef::range(&buffer, 4, SIZE as u64 - 8), pattern).run()?;
        let mut expected = pattern.repeat(SIZE / pattern.len());
        expected[..4].fill(0x11);
        expected[SIZE - 4..].fill(0x11);
        same_bytes("the buffer", &harness.read(&buffer)?, &expected)?;
    }
    Ok(())
}

fn several(harness: &Harness<'_>, route: Route) -> Result<()> {
    let buffer = harness.buffer(&[0; 16])?;
    Script::new(harness, route)
        .fill(&buffer, &[1])
        .fill(BufferRef::range(&buffer, 4, 8), &[2, 3])
        .fill(BufferRef::range(&buffer, 8, 8), &[4, 5, 6, 7])
        .fill(BufferRef::range(&buffer, 15, 1), &[9])
        .run()?;
    let expected = [1, 1, 1, 1, 2, 3, 2, 3, 4, 5, 6, 7, 4, 5, 6, 9];
    same_bytes("in order", &harness.read(&buffer)?, &expected)
}

fn wrong_patterns(harness: &Harness<'_>, route: Route) -> Result<()> {
    let buffer = harness.buffer(&[5; 48])?;
    for length in [0, 3, 5, 8, 16] {
        let pattern = vec![1; length];
        let outcome = Script::new(harness, route).fill(&buffer, &pattern).run();
        refused(&format!("a pattern of {length} bytes"), outcome, ARGUMENT)?;
    }
    same_bytes("nothing changed", &harness.read(&buffer)?, &[5; 48])
}

fn unaligned_ranges(harness: &Harness<'_>, route: Route) -> Result<()> {
    let buffer = harness.buffer(&[5; 47])?;
    // The last one fills a whole buffer whose size no pattern divides.
    let ranges = [(1, 8), (2, 8), (0, 6), (4, 3), (3, 4), (0, u64::MAX)];
    for (offset, length) in ranges {
        let part = BufferRef::range(&buffer, offset, length);
        let outcome = Script::new(harness, route).fill(part, &[1, 2, 3, 4]).run();
        refused(&format!("a fill of {length} bytes at {offset}"), outcome, ARGUMENT)?;
    }
    for (offset, length) in [(1, 2), (0, 1), (2, 3)] {
        let outcome =
            Script::new(harness, route).fill(BufferRef::range(&buffer, offset, length), &[1, 2]).run();
        refused(&format!("a fill of {length} bytes at {offset}"), outcome, ARGUMENT)?;
    }
    same_bytes("nothing changed", &harness.read(&buffer)?, &[5; 47])
}

fn ranges_outside(harness: &Harness<'_>, route: Route) -> Result<()> {
    let buffer = harness.buffer(&[5; 32])?;
    for (offset, length) in [(0, 36), (32, 4), (36, 4), (28, 8), (u64::MAX - 3, 4), (4, u64::MAX - 7)] {
        let part = BufferRef::range(&buffer, offset, length);
        let outcome = Script::new(harness, route).fill(part, &[1, 2, 3, 4]).run();
        refused(&format!("a fill of {length} bytes at {offset}"), outcome, RANGE)?;
    }
    same_bytes("nothing changed", &harness.read(&buffer)?, &[5; 32])
}

fn pattern_is_taken_at_submit(harness: &Harness<'_>) -> Result<()> {
    let buffer = harness.buffer(&[0; 8])?;
    let (gate, done) = harness.two_semaphores()?;
    let mut pattern = [1, 2];
    harness.queue().wait(&[gate.at(1)]).signal(&[done.at(1)]).fill(&buffer, &pattern, 0)?;
    pattern.fill(9);
    gate.signal(1)?;
    harness.wait(&done, 1)?;
    equal("the overwritten pattern", pattern, [9, 9])?;
    same_bytes("the pattern of the submission", &harness.read(&buffer)?, &[1, 2, 1, 2, 1, 2, 1, 2])
}
