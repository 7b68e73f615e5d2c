//! The ELF loader: all linker options, protections, and hostile images.
#![allow(unsafe_code, reason = "runs the libraries that it compiled")]
#![cfg(all(target_os = "linux", any(target_arch = "aarch64", target_arch = "x86_64")))]

mod support;

use std::ops::Range;

use fastrand::Rng;
use rehal_base::{Fault, FormatError};
use rehal_local::executable::elf::Image;
use rehal_local::executable::{Library, LoadOptions, check};
use support::{EMBEDDED, Link, MACHINES, compile};

const QUERY: &str = "iree_hal_executable_library_query";

fn image() -> Vec<u8> {
    compile("library.c", Link::Embedded, &["-DMUTABLE", "-DCONSTRUCTOR"])
}

fn refused(bytes: &[u8]) -> FormatError {
    Image::parse(bytes).err().expect("an error")
}

/// Protections of the mapped pages in `range`, in order, from `/proc/self/maps`.
fn protections(range: &Range<usize>) -> Vec<(Range<usize>, String)> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let parse = |line: &str| {
        let mut words = line.split(' ');
        let (start, end) = words.next()?.split_once('-')?;
        let number = |text| usize::from_str_radix(text, 16).ok();
        Some((number(start)?..number(end)?, words.next()?[..3].to_string()))
    };
    maps.lines().filter_map(parse).filter(|(at, _)| at.start < range.end && range.start < at.end).collect()
}

#[test]
fn images_of_all_linker_options_load_and_run() {
    let level: &[&str] = if cfg!(target_arch = "x86_64") { &["-Wl,-z,x86-64-v2"] } else { &[] };
    let styles: [&[&str]; 8] = [
        &["-Wl,--hash-style=sysv"],
        &["-Wl,--hash-style=gnu"],
        &["-Wl,--hash-style=both", "-Wl,-z,relro,-z,now"],
        &["-Wl,-z,norelro"],
        &["-Wl,-z,noseparate-code"],
        &["-Wl,-z,pack-relative-relocs"],
        level,
        &["-Wl,-z,max-page-size=65536", "-s"],
    ];
    for style in styles {
        let bytes = compile("library.c", Link::Embedded, style);
        // SAFETY: the test's own code.
        let library = unsafe { Library::load(EMBEDDED, &bytes, &LoadOptions::default()) };
        let library = library.unwrap_or_else(|error| panic!("{style:?}: {error:?}"));
        assert_eq!(library.functions()[0].name, "sum", "{style:?}: names are relocated");
    }
}

#[test]
fn pages_are_never_writable_and_executable() {
    let bytes = image();
    let parsed = Image::parse(&bytes).unwrap();
    let module = parsed.map().unwrap();
    let memory = module.memory();
    let pages = protections(&memory);
    assert!(pages.iter().all(|(_, bits)| !(bits.contains('w') && bits.contains('x'))), "{pages:?}");
    let of = |address: usize| &pages.iter().find(|(range, _)| range.contains(&address)).unwrap().1;
    assert_eq!(of(memory.start), "r--");
    assert_eq!(of(module.address(parsed.function(QUERY).unwrap()) as usize), "r-x");
    // The data after the RELRO pages.
    assert_eq!(of(memory.end - 1), "rw-");
    assert!(!module.is_immutable());
    drop(module);
    assert_ne!(protections(&memory), pages, "unmapped when dropped");
}

#[test]
fn relocated_data_is_read_only() {
    let bytes = compile("library.c", Link::Embedded, &["-Wl,-z,relro,-z,now"]);
    let module = Image::parse(&bytes).unwrap().map().unwrap();
    let pages = protections(&module.memory());
    assert!(pages.iter().all(|(_, bits)| !bits.contains('w')), "{pages:?}");
    assert!(module.is_immutable());
}

#[test]
fn a_container_selects_the_image_for_this_machine() {
    let bytes = image();
    let record = |machine: u16, word_size: u8, offset: u64, size: usize| {
        let mut record = machine.to_le_bytes().to_vec();
        record.extend([0, 0, word_size, 1, 0, 0]);
        record.extend(offset.to_le_bytes());
        record.extend((size as u64).to_le_bytes());
        record
    };
    let container = |records: &[Vec<u8>]| {
        let mut fat = vec![0xFA, 0x70, 0x0E, 0x1F, 1, 0, records.len() as u8, 0];
        records.iter().for_each(|record| fat.extend(record));
        fat.extend(&bytes);
        fat
    };
    let [(here, _), (other, other_name)] = MACHINES;
    let ours = record(here.into(), 2, 8 + 2 * 24, bytes.len());
    let fat = container(&[record(other.into(), 2, 56, bytes.len()), ours.clone()]);
    assert!(Image::parse(&fat).unwrap().function(QUERY).is_ok());
    for length in 0..fat.len() {
        assert!(Image::parse(&fat[..length]).is_err(), "truncated at {length}");
    }
    let error =
        refused(&container(&[record(other.into(), 2, 56, bytes.len()), record(3, 1, 56, bytes.len())]));
    assert_eq!((error.field, error.found.as_str()), ("FatELF machine", &*format!("{other_name}, x86_32")));
    let error = refused(&container(&[ours.clone(), record(here.into(), 2, 4, bytes.len())])[..100]);
    assert_eq!((error.fault, error.field), (Fault::Truncated, "FatELF image"));
    // Errors in the image are reported at their offset in the container.
    let mut broken = fat.clone();
    broken[56 + 20] = 9;
    assert_eq!(refused(&broken).offset, 56 + 20);
}

/// Table offset of the first segment of this type, and the entry size.
fn segment(bytes: &[u8], kind: u32) -> usize {
    let count = u16::from_le_bytes([bytes[56], bytes[57]]) as usize;
    (0..count).map(|index| 64 + index * 56).find(|at| bytes[*at..*at + 4] == kind.to_le_bytes()).unwrap()
}

#[test]
fn wrong_fields_are_named() {
    let good = image();
    let with = |at: usize, value: &[u8]| {
        let mut bytes = good.clone();
        bytes[at..at + value.len()].copy_from_slice(value);
        let error = refused(&bytes);
        (error.fault, error.field, error.offset)
    };
    let load = segment(&good, 1);
    let dynamic = segment(&good, 2);
    let huge = u64::MAX.to_le_bytes();
    assert_eq!(with(0, b"x"), (Fault::Corrupt, "e_ident[EI_MAG]", 0));
    assert_eq!(with(4, &[1]), (Fault::Unsupported, "e_ident[EI_CLASS]", 4));
    assert_eq!(with(5, &[2]), (Fault::Unsupported, "e_ident[EI_DATA]", 5));
    assert_eq!(with(16, &[2]), (Fault::Unsupported, "e_type", 16));
    assert_eq!(with(18, &[40]), (Fault::Unsupported, "e_machine", 18));
    assert_eq!(with(32, &huge), (Fault::Truncated, "e_phoff", u64::MAX));
    assert_eq!(with(40, &huge), (Fault::Truncated, "e_shoff", u64::MAX));
    assert_eq!(with(54, &[1]), (Fault::Corrupt, "e_phentsize", 54));
    assert_eq!(with(56, &[0xFF, 0xFF]), (Fault::Truncated, "e_phoff", 64));
    assert_eq!(with(load + 4, &[7]), (Fault::Unsupported, "p_flags", load as u64 + 4));
    assert_eq!(with(load + 8, &huge).1, "p_offset");
    assert_eq!(with(load + 16, &huge).1, "p_vaddr");
    assert_eq!(with(load + 32, &huge).1, "p_offset");
    assert_eq!(with(load + 40, &huge), (Fault::Corrupt, "p_memsz", load as u64 + 40));
    assert_eq!(with(load + 40, &[0; 8]).1, "p_filesz");
    assert_eq!(with(load + 48, &[3]), (Fault::Corrupt, "p_align", load as u64 + 48));
    assert_eq!(with(dynamic + 16, &huge).1, "PT_DYNAMIC");
    assert_eq!(with(dynamic, &[7]).1, "p_type", "thread-local storage");
    assert_eq!(with(dynamic, &[99]), (Fault::Corrupt, "p_type", 64), "no dynamic section");
}

#[test]
fn a_huge_segment_is_rejected_before_mapping() {
    let good = image();
    for size in [1u64 << 30, 1 << 40, 1 << 62] {
        let mut bytes = good.clone();
        let load = segment(&bytes, 1);
        bytes[load + 40..load + 48].copy_from_slice(&size.to_le_bytes());
        assert_eq!(refused(&bytes).field, "p_memsz");
    }
}

#[test]
fn an_image_truncated_anywhere_is_an_error() {
    let bytes = image();
    for length in 0..bytes.len() {
        assert!(Image::parse(&bytes[..length]).is_err(), "truncated at {length} of {}", bytes.len());
        check::exercise(&bytes[..length]);
    }
    check::exercise(&bytes);
}

#[test]
fn mutated_images_are_relocated_or_rejected() {
    let originals = [
        image(),
        compile("library.c", Link::Embedded, &["-Wl,-z,pack-relative-relocs,--hash-style=gnu", "-s"]),
    ];
    let mut random = Rng::with_seed(0x9E37_79B9_7F4A_7C15);
    let mut mapped = 0;
    for round in 0..6000 {
        let mut bytes = originals[round % 2].clone();
        // Half of the changes affect the header, the program header table and the tables after it.
        let reach = if round % 4 < 2 { bytes.len() } else { 2048.min(bytes.len()) };
        for _ in 0..=random.usize(..4) {
            let at = random.usize(..reach);
            match random.usize(..3) {
                0 => bytes[at] ^= 1 << random.usize(..8),
                1 => bytes[at] = random.u8(..),
                _ => {
                    let interesting = [0, 1, u64::MAX, u64::MAX - 7, 1 << 63, 1 << 32, bytes.len() as u64];
                    let value = interesting[random.usize(..interesting.len())].to_le_bytes();
                    let end = (at + 8).min(bytes.len());
                    bytes[at..end].copy_from_slice(&value[..end - at]);
                }
            }
        }
        check::exercise(&bytes);
        mapped += u32::from(Image::parse(&bytes).is_ok());
    }
    assert!(mapped > 500, "only {mapped} of 6000 mutations reached the loader");
}

#[test]
fn mutated_relocations_stay_in_the_image() {
    let good = image();
    let table = relocations(&good);
    let mut random = Rng::with_seed(7);
    for _ in 0..4000 {
        let mut bytes = good.clone();
        for _ in 0..3 {
            let at = table.start + random.usize(..table.len());
            bytes[at] = random.u8(..);
        }
        check::exercise(&bytes);
    }
    // A target out of bounds, and one that starts in bounds and ends out of bounds.
    for target in [u64::MAX, u64::MAX - 3, 1 << 40] {
        let mut bytes = good.clone();
        bytes[table.start..table.start + 8].copy_from_slice(&target.to_le_bytes());
        assert_eq!(refused(&bytes).field, "r_offset");
    }
    let mut bytes = good.clone();
    bytes[table.start + 8..table.start + 12].copy_from_slice(&37u32.to_le_bytes());
    assert_eq!((refused(&bytes).fault, refused(&bytes).field), (Fault::Unsupported, "r_info"));
    let mut bytes = good;
    // A 64-bit address has the number 1, or 257.
    let is_arm = u8::from(cfg!(target_arch = "aarch64"));
    bytes[table.start + 8..table.start + 16].copy_from_slice(&[1, is_arm, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF]);
    assert_eq!((refused(&bytes).fault, refused(&bytes).field), (Fault::Corrupt, "r_info"));
}

/// File range of the relocations with addends; addresses equal offsets in the first segment.
fn relocations(bytes: &[u8]) -> Range<usize> {
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize;
    let dynamic = segment(bytes, 2);
    let entries: Vec<_> = (0..word(dynamic + 32) / 16)
        .map(|index| word(dynamic + 8) + index * 16)
        .map(|at| (word(at), word(at + 8)))
        .collect();
    let find = |tag| entries.iter().find(|entry| entry.0 == tag).unwrap().1;
    find(7)..find(7) + find(8)
}
