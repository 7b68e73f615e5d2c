use std::path::Path;

use super::super::elf::Image;
use super::super::library::{Library, LoadOptions};
use super::view::{MAX_ADDRESS, View};
use super::*;

fn fixture(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(name);
    std::fs::read(path).unwrap()
}

fn replace(original: &[u8], image: &[u8], functions: &[(u32, u32)]) -> rehal_base::Result<Vec<u8>> {
    let replaced =
        |(function, other): &(u32, u32)| OtherFunction { function: *function, image: 0, other: *other };
    let functions: Vec<_> = functions.iter().map(replaced).collect();
    replace_functions(original, true, &[OtherImage { bytes: image, name: "dir/other.so" }], &functions)
}

/// Files say what loading them tells.
#[test]
fn libraries_are_read_from_files() {
    let embedded = ["affine", "constants", "entry_points", "indirect", "workgroups"];
    for (name, format) in embedded
        .iter()
        .flat_map(|it| {
            [
                (format!("{it}.embedded.elf"), "embedded-elf-x86_64"),
                (format!("{it}.system.so"), "system-elf-x86_64"),
            ]
        })
        .chain(
            ["native.so", "imports.so", "prints.so", "chain.so"]
                .map(|it| (it.to_owned(), "system-elf-x86_64")),
        )
    {
        let bytes = fixture(&format!("cts/{name}"));
        let read = ElfLibrary::read(&bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
        let constants = vec![0; read.constant_count as usize];
        let options = LoadOptions { constants: &constants, ..LoadOptions::default() };
        if !read.imports.is_empty() {
            continue;
        }
        // SAFETY: our fixtures.
        let loaded = unsafe { Library::load(format, &bytes, &options) }.unwrap();
        assert_eq!(
            (read.functions.as_slice(), read.name.as_str()),
            (loaded.functions(), loaded.name()),
            "{name}"
        );
        for (ordinal, pages) in (0..).zip(&read.local_memory_pages) {
            assert_eq!(loaded.local_memory_bytes(ordinal).unwrap(), u32::from(*pages) * 4096);
        }
    }
    assert_eq!(ElfLibrary::read(&fixture("cts/imports.so")).unwrap().imports.len(), 1);
}

#[test]
fn functions_of_other_machines_are_replaced() {
    let image = fixture("modules/add4_swapped.aarch64.elf");
    let own = ElfLibrary::read(&image).unwrap();
    let rewritten = replace(&image, &image, &[(0, 1)]).unwrap();
    let read = ElfLibrary::read(&rewritten).unwrap();
    assert_eq!((read.functions, read.addresses[1]), (own.functions, own.addresses[1]));
    // At the same place of a page, in a segment of its own, with the same instructions.
    let delta = read.addresses[0] - own.addresses[1];
    assert!(delta > 0 && delta.is_multiple_of(64 << 10), "{delta:#x}");
    let (before, after) = (View::read(&image).unwrap(), View::read(&rewritten).unwrap());
    assert_eq!(before.memory(own.addresses[1], 64), after.memory(read.addresses[0], 64));
    assert!(after.loads().all(|it| it.offset % it.align == it.vaddr % it.align));
    assert_eq!(read.replaced, [ReplacedBy { function: 0, source: "other.so".into() }]);
    let other = replace(&fixture("modules/add4_swapped.elf"), &image, &[(0, 1)]).unwrap_err();
    assert!(other.message().contains("it is for arm_64, and the executable for x86_64"), "{other}");
}

/// Adapters are at the end of an image, so that their code is all of its segment.
#[test]
fn imports_are_found_by_their_names() {
    let image = fixture("cts/imports.so");
    let own = ElfLibrary::read(&image).unwrap();
    let same = replace_functions(
        &image,
        false,
        &[OtherImage { bytes: &image, name: "a" }],
        &[OtherFunction { function: 0, image: 0, other: 0 }],
    );
    let read = ElfLibrary::read(&same.unwrap()).unwrap();
    assert_eq!((&read.imports, read.addresses[0] % 4096), (&own.imports, own.addresses[0] % 4096));
    let code = adapter::code(view::X86_64, 0x1000, 0x2000, &[2, 0]);
    // The call is relative to its end.
    let call = code.iter().rposition(|it| *it == 0xE8).unwrap();
    let distance = i32::from_le_bytes(code[call + 1..call + 5].try_into().unwrap());
    assert_eq!(0x1000 + call as i64 + 5 + i64::from(distance), 0x2000);
    assert!(code.ends_with(&[0xC9, 0xC3]));
    let code = adapter::code(view::ARM_64, 0x1000, 0x2000, &[2, 0]);
    let words: Vec<_> = code.as_chunks::<4>().0.iter().map(|it| u32::from_le_bytes(*it)).collect();
    let call = words.iter().position(|it| it >> 26 == 0x25).unwrap();
    assert_eq!(0x1000 + call as u64 * 4 + u64::from(words[call] & 0x3FF_FFFF) * 4, 0x2000);
}

#[test]
fn what_is_named_twice_or_overlaps_is_refused() {
    let image = fixture("modules/add4_swapped.elf");
    let count = ElfLibrary::read(&image).unwrap().functions.len() as u32;
    let refused = |functions: &[(u32, u32)], text: &str| {
        let error = replace(&image, &image, functions).map(|it| it.len()).unwrap_err();
        assert!(error.message().contains(text), "{error}");
    };
    refused(&[(0, 0), (0, 1)], "is replaced twice");
    refused(&[(count, 0)], &format!("has {count} functions"));
    refused(&[(0, count)], "fewer functions");
    // The second segment begins in the first.
    let mut overlapping = image.clone();
    let loads: Vec<_> = (0..6).map(|it| 64 + it * 56).filter(|at| overlapping[*at] == 1).collect();
    overlapping[loads[1] + 16..loads[1] + 24].copy_from_slice(&16u64.to_le_bytes());
    let error = replace(&overlapping, &image, &[(0, 0)]).unwrap_err();
    assert!(error.message().contains("its segments overlap at 0x10"), "{error}");
    let error = replace(b"\x7fELF", &image, &[(0, 0)]).unwrap_err();
    assert!(error.message().contains("not an ELF image"), "{error}");
}

/// Headers are at the end of the file, so that any number fits.
#[test]
fn functions_are_replaced_many_times() {
    let image = fixture("modules/add4_swapped.elf");
    let own = ElfLibrary::read(&image).unwrap();
    let mut rewritten = image.clone();
    for _ in 0..5 {
        rewritten = replace(&rewritten, &image, &[(0, 1), (1, 0)]).unwrap();
    }
    let read = ElfLibrary::read(&rewritten).unwrap();
    assert_eq!((&read.functions, read.replaced.len()), (&own.functions, 2));
    assert!(read.addresses.iter().zip(&own.addresses).take(2).all(|(is, was)| is > was));
    assert!(Image::parse(&rewritten).is_ok());
}

/// No bytes of a file lead to a panic or an address without end.
#[test]
fn damaged_files_are_errors() {
    let image = fixture("modules/add4_swapped.elf");
    for length in (0..image.len()).step_by(61) {
        let _ = replace(&image[..length], &image, &[(0, 0)]);
        let _ = replace(&image, &image[..length], &[(0, 0)]);
    }
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..4000 {
        let mut damaged = image.clone();
        for _ in 0..random.usize(1..4) {
            // Mostly of headers and tables.
            let end = if random.bool() { 0x700.min(image.len()) } else { image.len() };
            let at = random.usize(0..end);
            damaged[at] = if random.bool() { random.u8(..) } else { damaged[at] ^ (1 << random.u8(0..8)) };
        }
        for (original, other) in [(&damaged, &image), (&image, &damaged)] {
            if let Ok(bytes) = replace(original, other, &[(0, 0)]) {
                let view = View::read(&bytes).unwrap();
                assert!(view.loads().all(|it| it.end() < MAX_ADDRESS));
                assert!(bytes.len() < 64 * image.len(), "{}", bytes.len());
            }
        }
    }
}
