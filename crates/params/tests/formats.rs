//! Round trips of the writers, and files that other programs wrote.

use std::path::Path;

use rehal_base::{Fault, FormatError, Remedy};
use rehal_params::irpa::Archive;
use rehal_params::sample::{self, GgufTensor, Value, gguf, safetensors};
use rehal_params::{FileMode, Format, Index, Location, Parsed, Pattern, Scopes};

fn names(parsed: &[Parsed]) -> Vec<&str> {
    parsed.iter().map(|it| it.name.as_str()).collect()
}

/// Each parameter's name and bytes, if they are in the file itself.
fn contents<'a>(parsed: &'a [Parsed], bytes: &'a [u8]) -> Vec<(&'a str, &'a [u8])> {
    let here = parsed.iter().filter_map(|it| match it.location {
        Location::Here(offset) => Some((it.name.as_str(), &bytes[offset as usize..][..it.length as usize])),
        _ => None,
    });
    here.collect()
}

fn refusal(format: Format, bytes: &[u8]) -> FormatError {
    format.parse(bytes).expect_err("must be rejected")
}

/// The files in `tests/data`: seeds for fuzzing that also pin the writers' output.
#[test]
fn samples_match_the_files() {
    let samples = [
        ("archive.irpa", sample::archive_sample()),
        ("linked.irpa", sample::linked_sample()),
        ("sample.gguf", sample::gguf_sample()),
        ("sample.safetensors", sample::safetensors_sample()),
    ];
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    for (name, bytes) in samples {
        let path = directory.join(name);
        if std::env::var_os("REHAL_WRITE_SAMPLES").is_some() {
            std::fs::write(&path, &bytes).unwrap();
        }
        assert!(std::fs::read(&path).unwrap() == bytes, "{name}: set REHAL_WRITE_SAMPLES=1 to regenerate it");
    }
}

#[test]
fn an_archive_round_trips() {
    let bytes = sample::archive_sample();
    assert_eq!(bytes.len(), 4096);
    let parsed = Format::Irpa.parse(&bytes).unwrap();
    assert_eq!(names(&parsed), ["splat", "w", "far", "b", "empty"]);
    assert_eq!(parsed[0].location, Location::Splat(Pattern::new(&[1, 2, 3, 4]).unwrap()));
    assert_eq!((parsed[0].length, parsed[0].metadata.as_slice()), (64, b"meta".as_slice()));
    assert_eq!(parsed[2].location, Location::External { path: "other.bin".into(), offset: 16 });
    assert_eq!((parsed[3].minimum_alignment, parsed[3].metadata.as_slice()), (64, b"about b".as_slice()));
    let expected: [(&str, &[u8]); 3] = [("w", &[0xaa; 100]), ("b", &[0xbb; 7]), ("empty", &[])];
    assert_eq!(contents(&parsed, &bytes), expected);
}

#[test]
fn linked_archives_are_read_as_one() {
    let bytes = sample::linked_sample();
    let parsed = Format::Irpa.parse(&bytes).unwrap();
    assert_eq!(names(&parsed), ["splat", "w", "far", "b", "empty", "second"]);
    assert_eq!(contents(&parsed, &bytes)[3], ("second", [0xcc; 3].as_slice()));
}

#[test]
fn erased_entries_are_skipped() {
    let mut bytes = sample::archive_sample();
    bytes[96 + 8] = 0;
    assert_eq!(names(&Format::Irpa.parse(&bytes).unwrap()), ["w", "far", "b", "empty"]);
}

#[test]
fn an_empty_archive_is_valid() {
    let mut bytes = Vec::new();
    Archive::new().write_header(&mut bytes).unwrap();
    assert_eq!(bytes.len(), 96);
    assert_eq!(Format::Irpa.parse(&bytes).unwrap(), []);
    assert_eq!(Archive::new().file_bytes(), 4096);
}

#[test]
fn invalid_parameters_are_rejected_before_writing() {
    let mut archive = Archive::new();
    let wide = Pattern::new(&[1, 2]).unwrap();
    archive.add_splat("a", b"", wide, 4).unwrap();
    assert!(archive.add_splat("a", b"", wide, 4).unwrap_err().message().contains("duplicate parameter 'a'"));
    assert!(archive.add_splat("b", b"", wide, 3).unwrap_err().message().contains("cannot repeat"));
    assert!(archive.add_data("c", b"", 48, 3).unwrap_err().message().contains("power of two"));
    assert!(archive.add_data("d", b"", 64, u64::MAX).unwrap_err().message().contains("maximum file size"));
    assert!(archive.add_external("e", b"", "", 0, 0).is_err());
    assert!(archive.add_external("f", b"", "x", u64::MAX, 1).is_err());
}

#[test]
fn other_archive_versions_are_named_in_the_error() {
    for (at, found) in [(4, "1.0"), (6, "0.1")] {
        let mut bytes = sample::archive_sample();
        bytes[at] = 1;
        let error = refusal(Format::Irpa, &bytes);
        assert_eq!(error.fault, Fault::Unsupported);
        assert_eq!((error.field, error.expected.as_str(), error.found.as_str()), ("version", "0.0", found));
    }
    let mut bytes = sample::archive_sample();
    bytes[96 + 8] = 9;
    assert_eq!(refusal(Format::Irpa, &bytes).fault, Fault::Unsupported);
}

#[test]
fn overlapping_archives_do_not_amplify_memory() {
    // One entry, which the header counts a million times.
    let mut bytes = sample::archive_sample();
    bytes[32..40].copy_from_slice(&1_000_000u64.to_le_bytes());
    assert_eq!(refusal(Format::Irpa, &bytes).field, "entry_count");
    // Sixty entries with the same long name, in a file that is not much longer than the name.
    let mut archive = Archive::new();
    let long = "n".repeat(40_000);
    archive.add_splat(&long, b"", Pattern::ZERO, 1).unwrap();
    for index in 0..60 {
        archive.add_splat(&format!("{index}"), b"", Pattern::ZERO, 1).unwrap();
    }
    let mut bytes = Vec::new();
    archive.write_header(&mut bytes).unwrap();
    for index in 1..=60 {
        let name = 96 + index * 96 + 20;
        bytes.copy_within(96 + 20..96 + 36, name);
    }
    assert_eq!(refusal(Format::Irpa, &bytes).field, "name");
}

#[test]
fn a_gguf_file_is_read_with_its_own_alignment() {
    let bytes = sample::gguf_sample();
    let parsed = Format::Gguf.parse(&bytes).unwrap();
    let expected: [(&str, &[u8]); 3] = [("w", &[7; 24]), ("q", &[9; 36]), ("scalar", &[3])];
    assert_eq!(contents(&parsed, &bytes), expected);
}

/// Number, elements per block, bytes per block: as in published files.
const GGUF_TYPES: [(u32, u64, usize); 34] = [
    (0, 1, 4),
    (1, 1, 2),
    (2, 32, 18),
    (3, 32, 20),
    (6, 32, 22),
    (7, 32, 24),
    (8, 32, 34),
    (9, 32, 40),
    (10, 256, 84),
    (11, 256, 110),
    (12, 256, 144),
    (13, 256, 176),
    (14, 256, 210),
    (15, 256, 292),
    (16, 256, 66),
    (17, 256, 74),
    (18, 256, 98),
    (19, 256, 50),
    (20, 32, 18),
    (21, 256, 110),
    (22, 256, 82),
    (23, 256, 136),
    (24, 1, 1),
    (25, 1, 2),
    (26, 1, 4),
    (27, 1, 8),
    (28, 1, 8),
    (29, 256, 56),
    (30, 1, 2),
    (34, 256, 54),
    (35, 256, 66),
    (39, 32, 17),
    (40, 64, 36),
    (41, 128, 18),
];

#[test]
fn gguf_types_have_their_sizes() {
    for (kind, elements, block_bytes) in GGUF_TYPES {
        let data = vec![1; 6 * block_bytes];
        let tensor = GgufTensor { name: "t", dimensions: vec![2 * elements, 3], kind, data };
        let bytes = gguf(2, &[], &[tensor], 32);
        let parsed = Format::Gguf.parse(&bytes).unwrap();
        assert_eq!(contents(&parsed, &bytes), [("t", vec![1; 6 * block_bytes].as_slice())], "type {kind}");
    }
    for kind in [4, 5, 31, 38, 42, u32::MAX] {
        let tensor = GgufTensor { name: "t", dimensions: vec![256], kind, data: vec![] };
        let error = refusal(Format::Gguf, &gguf(3, &[], &[tensor], 32));
        assert_eq!((error.fault, error.field), (Fault::Unsupported, "type"), "type {kind}");
    }
}

#[test]
fn malformed_gguf_files_are_rejected() {
    let of = |dimensions: Vec<u64>, kind, metadata: &[(&str, Value)], alignment| {
        let tensor = GgufTensor { name: "t", dimensions, kind, data: vec![0; 4] };
        refusal(Format::Gguf, &gguf(3, metadata, &[tensor], alignment))
    };
    assert_eq!(of(vec![33], 2, &[], 32).field, "dimensions");
    assert_eq!(of(vec![u64::MAX, 2], 0, &[], 32).field, "dimensions");
    assert_eq!(of(vec![1 << 62, 1 << 62], 0, &[], 32).field, "dimensions");
    assert_eq!(of(vec![2], 0, &[], 32).fault, Fault::Truncated);
    for value in [Value::U32(0), Value::U32(48), Value::Text("64")] {
        assert_eq!(of(vec![1], 0, &[("general.alignment", value)], 32).field, "general.alignment");
    }
    let deep = (0..20).fold(Value::U8(1), |inner, _| Value::Array(vec![inner]));
    assert_eq!(of(vec![1], 0, &[("deep", deep)], 32).field, "metadata value");
    let two = || GgufTensor { name: "t", dimensions: vec![1], kind: 0, data: vec![0; 4] };
    assert_eq!(refusal(Format::Gguf, &gguf(3, &[], &[two(), two()], 4)).field, "offset");
}

#[test]
fn other_gguf_versions_are_named_in_the_error() {
    assert_eq!(refusal(Format::Gguf, &gguf(1, &[], &[], 32)).found, "1");
    let big = refusal(Format::Gguf, &gguf(3u32.swap_bytes(), &[], &[], 32));
    assert!(big.found.contains("big-endian"), "{big}");
    assert_eq!(refusal(Format::Gguf, b"GGML\x03\0\0\0").field, "magic");
}

#[test]
fn safetensors_parameters_keep_their_order() {
    let bytes = sample::safetensors_sample();
    let parsed = Format::Safetensors.parse(&bytes).unwrap();
    let data: Vec<u8> = (0..29).collect();
    let expected = [("b", &data[..24]), ("a\"é", &data[24..27]), ("scalar", &data[27..29])];
    assert_eq!(contents(&parsed, &bytes), expected);
}

#[test]
fn malformed_safetensors_files_are_rejected() {
    let of = |header: &str| refusal(Format::Safetensors, &safetensors(header, &[0; 8]));
    let tensor = |text: &str| of(&format!(r#"{{"a":{{{text}}}}}"#));
    assert_eq!(tensor(r#""dtype":"F32","shape":[2],"data_offsets":[0,9]"#).fault, Fault::Truncated);
    assert_eq!(tensor(r#""dtype":"F32","shape":[0],"data_offsets":[4,0]"#).fault, Fault::Corrupt);
    assert_eq!(tensor(r#""dtype":"F32","shape":[3],"data_offsets":[0,8]"#).field, "data_offsets");
    assert_eq!(tensor(r#""dtype":"F32","shape":[-1],"data_offsets":[0,8]"#).field, "header");
    assert_eq!(tensor(r#""dtype":"F32","shape":[2]"#).field, "header");
    assert!(of(r#"{"a":1}"#).found.contains("line 1"));
    assert_eq!(of("[]").field, "header");
    assert_eq!(of("").field, "header");
    let twice = r#"{"a":{"dtype":"I8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"I8","shape":[1],"data_offsets":[0,1]}}"#;
    assert!(of(twice).found.contains("duplicate tensor"));
    let deep = format!(r#"{{"a":{{"x":{}}}}}"#, "[".repeat(10_000));
    assert_eq!(of(&deep).field, "header");
    assert_eq!(refusal(Format::Safetensors, &u64::MAX.to_le_bytes()).expected, "at most 100000000");
    assert_eq!(refusal(Format::Safetensors, &1u64.to_le_bytes()).fault, Fault::Truncated);
}

#[test]
fn unknown_safetensors_types_are_accepted() {
    let header = r#"{"a":{"dtype":"X7","shape":[2],"data_offsets":[1,4]}}"#;
    assert_eq!(Format::Safetensors.parse(&safetensors(header, &[0; 8])).unwrap()[0].length, 3);
}

#[test]
fn an_index_finds_names_and_reads_their_bytes_in_every_mode() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.irpa");
    std::fs::write(&path, sample::archive_sample()).unwrap();
    let other: Vec<u8> = (0..64).collect();
    std::fs::write(directory.path().join("other.bin"), &other).unwrap();
    for mode in [FileMode::File, FileMode::Mmap, FileMode::Preload] {
        let mut index = Index::new();
        index.add_file(&path, mode).unwrap();
        let all = |name: &str| {
            let mut bytes = Vec::new();
            index.lookup(name).unwrap().write_to(&mut bytes).unwrap();
            bytes
        };
        assert_eq!(all("w"), [0xaa; 100], "{mode:?}");
        assert_eq!(all("splat"), [1, 2, 3, 4].repeat(16));
        assert_eq!(all("far"), other[16..48]);
        assert!(all("empty").is_empty());
        assert!(index.lookup("b").unwrap().read(5, &mut [0; 3]).is_err());
        let mut part = [0; 3];
        index.lookup("splat").unwrap().read(61, &mut part).unwrap();
        assert_eq!(part, [2, 3, 4]);
    }
}

#[test]
fn external_files_are_opened_on_first_use() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.irpa");
    std::fs::write(&path, sample::archive_sample()).unwrap();
    let mut index = Index::new();
    index.add_file(&path, FileMode::File).unwrap();
    let error = index.lookup("far").unwrap().read(0, &mut [0; 4]).unwrap_err();
    assert!(error.report().contains("other.bin"), "{error:?}");
    std::fs::write(directory.path().join("other.bin"), [0; 20]).unwrap();
    let error = index.lookup("far").unwrap().read(0, &mut [0; 32]).unwrap_err();
    assert!(error.report().contains("ends before"), "{error:?}");
}

#[test]
fn errors_suggest_similar_keys_and_scopes() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.irpa");
    std::fs::write(&path, sample::archive_sample()).unwrap();
    let mut scopes = Scopes::new();
    let flag = format!("model={}", path.display());
    scopes.add(&flag, FileMode::File).unwrap();
    scopes.add(&flag, FileMode::File).unwrap();
    assert_eq!(
        scopes.iter().map(|(scope, index)| (scope, index.entries().len())).next(),
        Some(("model", 10))
    );
    let error = scopes.lookup("modle").unwrap_err();
    assert!(error.advice().unwrap().to_string().contains("'model'"), "{error:?}");
    let error = scopes.lookup("model").unwrap().lookup("splut").unwrap_err();
    assert!(error.advice().unwrap().to_string().contains("nearest keys of 10 are 'splat'"), "{error:?}");
    let error = Scopes::new().lookup("").unwrap_err();
    assert_eq!(error.advice(), Some(&Remedy::AddParameters { scope: String::new() }.into()));
    assert!(scopes.add("model=nowhere.irpa", FileMode::File).is_err());
    assert!(scopes.add(&format!("x={}", directory.path().display()), FileMode::File).is_err());
}

#[test]
fn an_error_names_its_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.irpa");
    std::fs::write(&path, b"IRP\xFF").unwrap();
    let error = Index::new().add_file(Path::new(&path), FileMode::Mmap).unwrap_err();
    assert!(error.report().contains("truncated parameter archive"), "{error:?}");
    assert!(error.report().contains("a.irpa"), "{error:?}");
}
