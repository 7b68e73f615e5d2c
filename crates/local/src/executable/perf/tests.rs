use std::fs;

use rehal_base::StatusCode;

use super::super::library::LoadOptions;
use super::super::{abi, image_cache};
use super::*;

/// An executable with call frame information and line tables.
fn fixture() -> Vec<u8> {
    fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/modules/add4_swapped.elf")).unwrap()
}

fn u32_at(bytes: &[u8], at: usize) -> usize {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

/// The text before a zero.
fn text_at(bytes: &[u8], at: usize) -> &str {
    let length = bytes[at..].iter().position(|byte| *byte == 0).unwrap();
    str::from_utf8(&bytes[at..at + length]).unwrap()
}

#[test]
#[cfg_attr(not(target_arch = "x86_64"), ignore = "the executable is for x86-64")]
fn files_have_the_functions_that_are_loaded() {
    let directory = tempfile::tempdir().unwrap();
    let bytes = fixture();
    // SAFETY: our fixture.
    let (library, image) = unsafe {
        let library = Library::load("embedded-elf-x86_64", &bytes, &LoadOptions::default());
        (library.unwrap(), image_cache::load(&bytes).unwrap())
    };
    let parsed = Image::parse(&bytes).unwrap();
    let info = DebugInfo::read(parsed.bytes());
    let code = functions(&library, &image.module, &parsed, &info);
    let mut files = Files::default();
    files.open(PerfMap::Code, directory.path(), directory.path()).unwrap();
    files.write(PerfMap::Code, &code, &info).unwrap();

    let process = std::process::id();
    let map = fs::read_to_string(directory.path().join(format!("perf-{process}.map"))).unwrap();
    let rows: Vec<_> = map
        .lines()
        .map(|line| {
            let mut words = line.splitn(3, ' ');
            let mut number = || u64::from_str_radix(words.next().unwrap(), 16).unwrap();
            let (address, size) = (number(), number());
            (address, size, words.next().unwrap().to_string())
        })
        .collect();
    for (function, address) in library.functions().iter().zip(library.function_addresses()) {
        let row = rows.iter().find(|it| it.2 == function.name).unwrap();
        assert_eq!(row.0, address as u64);
        assert_eq!(
            info.end_of(address as u64 - image.module.bias()),
            Some(row.0 + row.1 - image.module.bias())
        );
    }
    let query = library.functions().len();
    assert!(rows.len() > query && rows.iter().any(|it| it.2.contains("!0x")), "{map}");
    assert!(rows.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0), "{map}");
    let memory = image.module.memory();
    assert!(rows.iter().all(|it| memory.contains(&(it.0 as usize)) && it.1 > 0));

    let dump = fs::read(directory.path().join(format!("jit-{process}.dump"))).unwrap();
    assert_eq!(&dump[..4], b"DTiJ");
    assert_eq!((u32_at(&dump, 8), u32_at(&dump, 20)), (40, process as usize));
    let (mut at, mut loaded, mut lines) = (40, Vec::new(), 0);
    while at < dump.len() {
        let (kind, size) = (u32_at(&dump, at), u32_at(&dump, at + 4));
        let body = &dump[at + 16..at + size];
        match kind {
            0 => {
                let name = text_at(body, 40);
                let code = &body[40 + name.len() + 1..];
                assert_eq!((u64_at(body, 8), u64_at(body, 32)), (u64_at(body, 16), loaded.len() as u64));
                let vaddr = u64_at(body, 16) - image.module.bias();
                assert_eq!(parsed.file_bytes(vaddr, code.len() as u64), Some(code));
                loaded.push((u64_at(body, 16), u64_at(body, 24), name.to_string()));
            }
            2 => {
                let (function, count) = (u64_at(body, 0), u64_at(body, 8));
                let mut entry = 16;
                for _ in 0..count {
                    let address = u64_at(body, entry);
                    assert!(rows.iter().any(|it| it.0 == function && (it.0..it.0 + it.1).contains(&address)));
                    entry += 16 + text_at(body, entry + 16).len() + 1;
                }
                assert_eq!(entry, body.len());
                lines += count;
            }
            other => panic!("record {other}"),
        }
        at += size;
    }
    assert_eq!(loaded, rows);
    assert!(lines > 0);
}

#[test]
fn a_file_of_an_earlier_process_is_replaced_and_a_missing_directory_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let target = directory.path().join("target");
    fs::write(&target, "kept").unwrap();
    let link = directory.path().join("link");
    std::os::unix::fs::symlink(&target, &link).unwrap();
    Output::create(link.clone()).unwrap().write(b"new").unwrap();
    assert_eq!((fs::read(&target).unwrap(), fs::read(&link).unwrap()), (b"kept".to_vec(), b"new".to_vec()));
    let error = Output::create(directory.path().join("none/perf-1.map")).err().unwrap();
    assert_eq!(error.code(), StatusCode::NotFound);
    assert!(error.report().contains("none/perf-1.map for perf"), "{}", error.report());
}

#[test]
#[cfg_attr(not(target_arch = "x86_64"), ignore = "the executable is for x86-64")]
fn damaged_debug_information_is_left_out() {
    let bytes = fixture();
    let whole = Image::parse(&bytes).unwrap().function(abi::QUERY_SYMBOL).unwrap();
    let is_read = |bytes: &[u8]| {
        let info = DebugInfo::read(bytes);
        (info.end_of(whole).is_some(), info.lines(std::slice::from_ref(&(0..u64::MAX))).len())
    };
    let (has_query, lines) = is_read(&bytes);
    assert!(has_query && lines > 0);
    assert_eq!(is_read(&bytes[..bytes.len() / 2]), (false, 0));
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..2000 {
        let mut damaged = bytes.clone();
        for _ in 0..4 {
            let at = random.usize(..damaged.len());
            damaged[at] = random.u8(..);
        }
        assert!(is_read(&damaged).1 <= bytes.len());
    }
}
