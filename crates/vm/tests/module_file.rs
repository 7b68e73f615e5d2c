//! Module files written by the compiler: fixture modules are read, and every prefix of one is rejected.

#![allow(clippy::result_large_err, reason = "errors of a format carry what was expected and found")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rehal_base::terms::{Terms, same};
use rehal_base::{Fault, FormatError, HostMemory, MappedFile};
use rehal_vm::ModuleFile;
use rehal_vm::module_file::{BytecodeVersion, Features, KnownArguments, Location};

fn modules() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/modules")
}

fn read(name: &str) -> ModuleFile {
    let file = MappedFile::open(&modules().join(name)).unwrap();
    ModuleFile::map(Arc::new(file)).unwrap()
}

fn read_bytes(bytes: &[u8]) -> Result<ModuleFile, FormatError> {
    ModuleFile::read(Arc::new(HostMemory::constant(bytes).unwrap()))
}

#[test]
fn reads_the_fields_of_a_module() {
    let file = read("simple_abs.vmfb");
    assert_eq!((file.name(), file.version()), ("module", 0));
    assert_eq!(file.bytecode_version(), BytecodeVersion { major: 17, minor: 0 });
    assert!(file.requirements().contains(Features::UNWIND));
    assert!(file.types().any(|name| name == "!hal.buffer_view"));
    let dependency = file.dependencies().next().unwrap();
    assert_eq!((dependency.name, dependency.optional), ("hal", false));
    let import = file.imports().find(|import| import.full_name == "hal.fence.await").unwrap();
    assert_eq!((import.signature.calling_convention, import.optional), (Some("0iICrD_i"), false));

    let export = file.exports().find(|export| export.local_name == "abs").unwrap();
    let signature = file.signature(export.function).unwrap();
    assert_eq!(signature.calling_convention, Some("0r_r"));
    assert!(signature.attribute("iree.abi.declaration").unwrap().starts_with("sync func @abs("));
    let function = file.function(export.function).unwrap();
    assert_eq!(file.function_bytecode(export.function).unwrap().len(), function.bytecode.len());
    assert!(function.block_count >= 1 && function.ref_register_count >= 1);
    assert!(file.global_ref_count() > 0);
}

#[test]
fn rodata_is_in_bounds_of_the_file() {
    let file = read("simple_abs.vmfb");
    let bytes = file.bytes();
    let segments: Vec<_> = file.rodata_segments().collect();
    assert!(segments.iter().any(|s| &bytes[s.range.clone()] == b"embedded-elf-x86_64" && !s.external));
    let executable = segments.iter().find(|s| s.external).unwrap();
    assert_eq!(executable.range.start % 16, 0);
    assert!(executable.range.start >= file.flatbuffer_range().end);
    assert!(executable.range.end <= bytes.len());
}

#[test]
fn source_locations_are_read() {
    let file = read("control.vmfb");
    let database = file.debug_database().unwrap();
    let map = database.function(0).unwrap();
    let (offset, location) = map.entry(map.len() - 1).unwrap();
    assert_eq!(map.location_at(offset), Some(location));
    assert_eq!(map.location_at(offset + 1000), Some(location));
    let named_file = (0..database.location_count()).any(|index| {
        matches!(database.location(index), Some(Location::FileLineColumn { filename, line, .. })
            if filename.ends_with(".mlir") && line > 0)
    });
    assert!(named_file);
}

#[test]
fn every_prefix_is_rejected_as_truncated_or_corrupt() {
    let whole = std::fs::read(modules().join("simple_abs.vmfb")).unwrap();
    let external_end = read_bytes(&whole).unwrap();
    let external_end = external_end.rodata_segments().map(|s| s.range.end).max().unwrap();
    for length in 0..external_end {
        let error = read_bytes(&whole[..length]).unwrap_err();
        assert!(matches!(error.fault, Fault::Truncated | Fault::Corrupt), "{length}: {error}");
    }
    for length in external_end..whole.len() {
        // Only the ZIP directory is missing, which is never read.
        assert!(read_bytes(&whole[..length]).is_ok());
    }
}

#[test]
fn a_bytecode_version_mismatch_names_both() {
    let mut bytes = std::fs::read(modules().join("simple_abs.vmfb")).unwrap();
    let version = (17u32 << 16).to_le_bytes();
    let at = bytes.windows(4).position(|window| window == version).unwrap();
    let mut error = |major: u8| {
        bytes[at + 2] = major;
        let error = read_bytes(&bytes).unwrap_err();
        assert_eq!(error.fault, Fault::Unsupported);
        rehal_base::Error::from(error)
    };
    let newer = error(18);
    let text = newer.to_string();
    assert!(text.contains("17.0") && text.ends_with("18.0"), "{text}");
    // Earlier ones have releases that wrote them, and that run them.
    for (major, releases) in [
        (13, "13.0, which snapshots since 20220927.279 wrote"),
        (14, "14.0, which snapshots since 20230304.448 wrote"),
        (15, "15.0, which the releases 2.9.0 to 3.9.0, and snapshots since 20230307.451, wrote"),
        (16, "16.0, which release 3.10.0 wrote"),
    ] {
        let earlier = error(major);
        assert!(earlier.to_string().contains(releases), "{earlier}");
        let advice = earlier.advice().map(ToString::to_string).unwrap_or_default();
        assert!(advice.starts_with("run the module with the "), "{advice}");
    }
}

#[test]
fn malformed_modules_are_rejected() {
    for bytes in [&b""[..], b"\x7fELF and more than sixteen bytes", &[0; 64], &[0xff; 64], b"PK\x03\x04"] {
        assert!(read_bytes(bytes).is_err());
    }
}

/// A module with only `types` types, all of them one table with a single name of `name_bytes`.
fn types_that_share_a_name(types: u32, name_bytes: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut halves = |values: &[u16]| values.iter().for_each(|value| bytes.extend(value.to_le_bytes()));
    // The root's offset and the identifier; its vtable with fields 0 and 4; padding.
    halves(&[24, 0, u16::from_le_bytes(*b"IR"), u16::from_le_bytes(*b"EE"), 14, 12, 4, 0, 0, 0, 8, 0]);
    let table = 40 + 4 * types;
    let text = table + 16;
    // The root: its vtable is 16 bytes before it, the name and the vector of types after it.
    for word in
        [16, text - 28, 4, types].into_iter().chain((0..types).map(|index| table + 8 - (40 + 4 * index)))
    {
        bytes.extend(word.to_le_bytes());
    }
    // A type's vtable, with field 0, and the type.
    bytes.extend([6, 0, 8, 0, 4, 0, 0, 0, 8, 0, 0, 0, 4, 0, 0, 0]);
    bytes.extend(name_bytes.to_le_bytes());
    bytes.extend(std::iter::repeat_n(b'x', name_bytes as usize).chain([0]));
    [&(bytes.len() as u32).to_le_bytes()[..], &bytes].concat()
}

#[test]
fn shared_tables_do_not_amplify_memory() {
    // It is read to the end: the only error is the missing bytecode version.
    let error = read_bytes(&types_that_share_a_name(3, 10)).unwrap_err();
    assert_eq!((error.fault, error.field), (Fault::Unsupported, "BytecodeModuleDef.bytecode_version"));
    // 400 MB of names in a file of 0.2 MB.
    let error = read_bytes(&types_that_share_a_name(4_000, 100_000)).unwrap_err();
    assert_eq!((error.fault, error.field), (Fault::Corrupt, "TypeDef.full_name"));
    assert!(error.expected.contains("expands"), "{error}");
}

/// The constant data of a module, segment by segment.
fn rodata(file: &ModuleFile) -> Vec<Vec<u8>> {
    file.rodata_segments().map(|segment| file.bytes()[segment.range].to_vec()).collect()
}

#[test]
fn the_compiler_s_archives_are_rewritten_as_they_are() {
    for name in ["simple_abs.vmfb", "bigconst.vmfb", "mlp.syslib.vmfb", "chain.vmfb", "add4.vmvx.vmfb"] {
        let file = read(name);
        assert!(file.with_rodata(&[]).unwrap() == file.bytes(), "{name}");
    }
}

#[test]
fn other_constant_data_takes_the_place_of_each_segment() {
    for name in ["simple_abs.vmfb", "bigconst.vmfb", "mlp.vmfb", "params.vmfb"] {
        let file = read(name);
        let (before, names) = (rodata(&file), file.rodata_names());
        for index in 0..before.len() {
            for length in [0, 1, before[index].len(), before[index].len() + 1, 100_000] {
                let other: Vec<u8> = (0..length).map(|at| at as u8).collect();
                let rewritten = file.with_rodata(&[(index, &other)]).unwrap();
                let rewritten = read_bytes(&rewritten).unwrap();
                let mut wanted = before.clone();
                wanted[index] = other;
                assert_eq!(rodata(&rewritten), wanted, "{name}: {length} bytes of segment {index}");
                assert_eq!(rewritten.rodata_names(), names);
                for (was, is) in file.rodata_segments().zip(rewritten.rodata_segments()) {
                    let alignment = 1 << was.range.start.trailing_zeros().min(6);
                    let is_aligned = is.range.start % alignment == 0 || !was.external;
                    assert!(was.external == is.external && is_aligned, "{name}: {was:?} {is:?}");
                }
                // What was written can be written again.
                let again = rewritten.with_rodata(&[(index, &before[index])]).unwrap();
                assert_eq!(rodata(&read_bytes(&again).unwrap()), before);
            }
        }
    }
}

#[test]
fn common_tools_read_a_rewritten_archive() {
    let file = read("simple_abs.vmfb");
    let index = file.rodata_names().iter().position(Option::is_some).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("module.vmfb");
    std::fs::write(&path, file.with_rodata(&[(index, &[7; 3000])]).unwrap()).unwrap();
    let tested = std::process::Command::new("python3").args(["-m", "zipfile", "-t"]).arg(&path).output();
    let tested = tested.unwrap();
    assert!(tested.status.success() && tested.stderr.is_empty(), "{tested:?}");
}

#[test]
fn names_of_segments_are_those_of_the_archive() {
    let names: Vec<_> = read("bigconst.vmfb").rodata_names().into_iter().flatten().collect();
    assert_eq!(names, ["scale_dispatch_0_embedded_elf_x86_64.so"]);
}

#[test]
fn calls_name_the_segments_that_they_are_passed() {
    let file = read("simple_abs.vmfb");
    let calls = file.calls_with_constants("hal.executable.create").unwrap();
    assert_eq!(calls.len(), 1);
    let data = rodata(&file);
    let segment = |argument: usize| calls[0][argument].rodata.map(|segment| &data[segment][..]);
    assert_eq!(segment(2), Some(&b"embedded-elf-x86_64"[..]));
    assert_eq!(&segment(3).unwrap()[..4], b"\x7fELF");
    assert_eq!((segment(0), segment(1), segment(4)), (None, None, None));
    assert!(file.calls_with_constants("hal.nothing").unwrap().is_empty());
    // The function is the result of a call with its name.
    let [dispatch] = &file.calls_with_constants("hal.command_buffer.dispatch").unwrap()[..] else {
        panic!("one")
    };
    assert!(data[dispatch[2].rodata.unwrap()].starts_with(b"abs_dispatch_0"));
    assert_eq!([3, 4, 5].map(|it| dispatch[it].integer), [Some(1); 3]);
    assert_eq!(dispatch.last().unwrap().integer, Some(4));
}

/// The program passes sizes as pairs of constants, and divides one by the size of a workgroup.
#[test]
fn integers_that_calls_are_passed_are_terms() {
    let file = read("dynamic.vmfb");
    let mut terms = Terms::default();
    let calls = file.calls_with_terms("hal.command_buffer.dispatch", &mut terms).unwrap();
    // (x + by - 1) / by, of the 64 bits of two constants.
    let count = |first: u32, by: u32| {
        let (second, before) = (first + 1, by - 1);
        format!(
            "in:{first} zext:32:0 in:{second} zext:32:2 =32 shl:3:4 or:1:5 within:6:0:9007199254740991 ={before} add:7:8 ={by} \
             divs:9:10 =1 -> 11 12 12"
        )
    };
    let is_same = |call: &KnownArguments, formula: &str| {
        let [inputs, results] =
            [7..11, 3..6].map(|range| range.map(|index| call[index].term.unwrap()).collect::<Vec<_>>());
        same(&terms, &inputs, &results, &formula.parse().unwrap())
    };
    let found = calls.iter().map(|call| {
        let ways = [0, 2].into_iter().flat_map(|first| (0..16).map(move |it| (first, 1 << it)));
        ways.filter(|(first, by)| is_same(call, &count(*first, *by))).collect::<Vec<_>>()
    });
    assert_eq!(found.collect::<Vec<_>>(), [[(0, 4096)], [(2, 32)]]);
}

#[test]
fn a_damaged_archive_is_not_rewritten() {
    let file = read("simple_abs.vmfb");
    let length = file.bytes().len();
    for at in (length - 260)..length {
        let mut bytes = file.bytes().to_vec();
        bytes[at] ^= 0x55;
        let Ok(damaged) = read_bytes(&bytes) else { continue };
        // Whatever it becomes, it is a module with the same data.
        if let Ok(rewritten) = damaged.with_rodata(&[]) {
            assert_eq!(rodata(&read_bytes(&rewritten).unwrap()), rodata(&file), "byte {at}");
        }
    }
    for left in [length - 1, length - 22, length - 100, length - 260] {
        let Ok(torn) = read_bytes(&file.bytes()[..left]) else { continue };
        assert!(torn.with_rodata(&[]).unwrap_err().message().contains("ZIP directory"));
    }
}
