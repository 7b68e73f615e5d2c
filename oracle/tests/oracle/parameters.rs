//! Parameter files: our tools' output and files match the reference's byte for byte.

use crate::{Outcome, Pair, ensure, fixture};
use libtest_mimic::{Failed, Trial};
use oracle::tool::{self, Ended};
use rehal_params::irpa::Archive;
use rehal_params::sample::{self, GgufTensor, Value};
use rehal_params::{Format, Pattern};
use std::fs;
use std::path::Path;

const DUMP: &str = "iree-dump-parameters";
const CREATE: &str = "iree-create-parameters";
const CONVERT: &str = "iree-convert-parameters";

/// A test's name, the tool, and its arguments except for the output.
type Case = (&'static str, &'static str, &'static [&'static str]);

/// Both succeed, with the same output and files.
const SAME: [Case; 27] = [
    ("dump_nothing", DUMP, &[]),
    ("dump_archive", DUMP, &["--parameters=plain.irpa"]),
    ("dump_model", DUMP, &["--parameters=model.irpa"]),
    ("dump_gguf", DUMP, &["--parameters=a.gguf"]),
    ("dump_gguf_2", DUMP, &["--parameters=types.gguf"]),
    ("dump_gguf_empty", DUMP, &["--parameters=empty.gguf"]),
    ("dump_safetensors", DUMP, &["--parameters=a.safetensors"]),
    ("dump_ending_in_capitals", DUMP, &["--parameters=b.GGUF"]),
    ("dump_preloaded", DUMP, &["--parameters=a.gguf", "--parameter_mode=preload"]),
    (
        "dump_scopes",
        DUMP,
        &[
            "--parameters=m=a.gguf",
            "--parameters=plain.irpa",
            "--parameters=m=model.irpa",
            "--parameters=o=a.gguf",
        ],
    ),
    ("create_nothing", CREATE, &[]),
    (
        "create_data",
        CREATE,
        &["--data=a=4096xf32", "--data=b=2x3xi16", "--data=c=8xi8=7", "--data=d=3xui8=255"],
    ),
    (
        "create_splats",
        CREATE,
        &[
            "--splat=a=9xf32=4.1",
            "--splat=b=2x3xi16=-5",
            "--splat=c=i64=12",
            "--splat=d=2xf64=1e300",
            "--splat=e=5xi8",
        ],
    ),
    (
        "create_small_floats",
        CREATE,
        &["--splat=a=2xbf16=1.5", "--splat=b=2xf16=0.1", "--splat=c=2xf8E4M3FN=1.5"],
    ),
    ("create_raw", CREATE, &["--splat=a=2x*32=CAFEF00D", "--splat=b=*128=000102030405060708090a0b0c0d0e0f"]),
    ("create_both", CREATE, &["--data=b=3xf32", "--splat=a=4xf32=1", "--alignment=256", "--data=c=5xi8=1"]),
    ("create_without_bytes", CREATE, &["--data=a=0xf32", "--data=b=4xi8", "--data==2xi8"]),
    ("create_quiet", CREATE, &["--data=a=4xf32", "--quiet"]),
    ("convert_nothing", CONVERT, &[]),
    ("convert_archive", CONVERT, &["--parameters=plain.irpa"]),
    ("convert_model", CONVERT, &["--parameters=m=model.irpa", "--parameter_mode=preload"]),
    ("convert_gguf", CONVERT, &["--parameters=a.gguf"]),
    ("convert_safetensors", CONVERT, &["--parameters=a.safetensors"]),
    (
        "convert_several",
        CONVERT,
        &["--parameters=x=a.gguf", "--parameters=model.irpa", "--parameters=x=a.safetensors"],
    ),
    ("convert_strip", CONVERT, &["--parameters=model.irpa", "--strip", "--splat=v=f32=1.5", "--quiet"]),
    (
        "convert_changes",
        CONVERT,
        &[
            "--parameters=plain.irpa",
            "--exclude=w",
            "--rename=b=c",
            "--rename=splat=s",
            "--splat=long=x32=CAFEF00D",
        ],
    ),
    (
        "convert_splats",
        CONVERT,
        &["--parameters=model.irpa", "--splat=w", "--splat=bias=i16=7", "--splat=v=f64=0.1"],
    ),
];

/// Both fail.
const REFUSED: [Case; 19] = [
    ("no_such_file", DUMP, &["--parameters=nowhere.irpa"]),
    ("no_such_format", DUMP, &["--parameters=model.bin"]),
    ("no_such_mode", DUMP, &["--parameters=model.irpa", "--parameter_mode=nonsense"]),
    ("operand", DUMP, &["model.irpa"]),
    ("empty_file", DUMP, &["--parameters=nothing.irpa"]),
    ("cut_archive", DUMP, &["--parameters=cut.irpa"]),
    ("cut_gguf", DUMP, &["--parameters=cut.gguf"]),
    ("cut_safetensors", DUMP, &["--parameters=cut.safetensors"]),
    ("later_archive", DUMP, &["--parameters=later.irpa"]),
    ("earlier_gguf", DUMP, &["--parameters=earlier.gguf"]),
    ("other_magic", DUMP, &["--parameters=other.gguf"]),
    ("no_json", DUMP, &["--parameters=other.safetensors"]),
    (
        "extract_missing",
        DUMP,
        &["--parameters=model.irpa", "--parameter_mode=preload", "--extract=w7=out.bin"],
    ),
    ("extract_no_scope", DUMP, &["--parameters=model.irpa", "--extract=m::w=out.bin"]),
    ("create_no_type", CREATE, &["--data=a"]),
    ("create_odd_type", CREATE, &["--splat=a=3xi24=010203"]),
    ("create_small_type", CREATE, &["--splat=a=4xi4=1"]),
    ("create_odd_value", CREATE, &["--splat=a=4xi8=300"]),
    ("convert_odd_value", CONVERT, &["--parameters=model.irpa", "--splat=w=i8=300"]),
];

pub fn add(trials: &mut Vec<Trial>) {
    for case in SAME {
        trials.push(Trial::test(format!("parameters::{}", case.0), move || same(case)));
    }
    for case in REFUSED {
        trials.push(Trial::test(format!("parameters::refused::{}", case.0), move || refused(case)));
    }
    trials.push(Trial::test("parameters::extracted", extracted));
    trials.push(Trial::test("parameters::wide_patterns", wide_patterns));
    trials.push(Trial::test("parameters::theirs_are_ours", theirs_are_ours));
}

/// Files of every format, and damaged ones, in a separate directory.
fn files() -> Result<tempfile::TempDir, Failed> {
    let scratch = tempfile::tempdir()?;
    let write = |name: &str, bytes: &[u8]| fs::write(scratch.path().join(name), bytes);
    let archive = plain_archive()?;
    fs::copy(fixture("params/model.irpa"), scratch.path().join("model.irpa"))?;
    fs::copy(fixture("params/model.irpa"), scratch.path().join("model.bin"))?;
    let (gguf, safetensors) = (sample::gguf(3, &metadata(), &tensors(), 64), safetensors());
    write("plain.irpa", &archive)?;
    write("a.gguf", &gguf)?;
    write("b.GGUF", &gguf)?;
    write("types.gguf", &sample::gguf(2, &[], &tensors_of_types(), 32))?;
    write("empty.gguf", &sample::gguf(3, &metadata(), &[], 64))?;
    write("a.safetensors", &safetensors)?;
    write("nothing.irpa", &[])?;
    write("cut.irpa", &archive[..200])?;
    write("cut.gguf", &gguf[..gguf.len() - 40])?;
    write("cut.safetensors", &safetensors[..safetensors.len() - 1])?;
    let mut later = archive.clone();
    later[4] = 1;
    write("later.irpa", &later)?;
    write("earlier.gguf", &sample::gguf(1, &[], &tensors(), 32))?;
    write("other.gguf", &archive)?;
    write("other.safetensors", &sample::safetensors("no", &[]))?;
    Ok(scratch)
}

/// The subset of archives that the reference reads: no external entries and no links.
fn plain_archive() -> Result<Vec<u8>, Failed> {
    let mut archive = Archive::new();
    let pattern = |bytes: &[u8]| Pattern::new(bytes).unwrap_or(Pattern::ZERO);
    archive.add_splat("splat", b"meta", pattern(&[1, 2, 3, 4]), 64)?;
    let w = archive.add_data("w", b"", 64, 100)?;
    let b = archive.add_data("b", b"about b", 64, 7)?;
    archive.add_splat("long", b"", pattern(&[7; 16]), 1 << 40)?;
    archive.add_data("empty", b"x", 64, 0)?;
    let mut bytes = Vec::new();
    archive.write_header(&mut bytes)?;
    bytes.resize(archive.file_bytes() as usize, 0);
    bytes[archive.data_offset(w) as usize..][..100].fill(0xaa);
    bytes[archive.data_offset(b) as usize..][..7].fill(0xbb);
    Ok(bytes)
}

fn metadata() -> [(&'static str, Value); 5] {
    [
        ("general.name", Value::Text("sample")),
        ("general.alignment", Value::U32(64)),
        ("tokens", Value::Array(vec![Value::Text("a"), Value::Text("")])),
        ("scale", Value::F64(0.5)),
        ("flag", Value::Bool(true)),
    ]
}

fn tensors() -> [GgufTensor; 3] {
    [
        GgufTensor { name: "gw", dimensions: vec![2, 3], kind: 0, data: vec![7; 24] },
        GgufTensor { name: "gq", dimensions: vec![32, 2], kind: 2, data: vec![9; 36] },
        GgufTensor { name: "gs", dimensions: vec![], kind: 1, data: vec![3, 4] },
    ]
}

/// Every GGUF type number that the reference supports.
fn tensors_of_types() -> Vec<GgufTensor> {
    let of = |name, kind, elements: u64, block_bytes: usize| GgufTensor {
        name,
        dimensions: vec![2 * elements, 3],
        kind,
        data: vec![kind as u8; 6 * block_bytes],
    };
    vec![
        of("f32", 0, 1, 4),
        of("f16", 1, 1, 2),
        of("q4_0", 2, 32, 18),
        of("q4_1", 3, 32, 20),
        of("q5_0", 6, 32, 22),
        of("q5_1", 7, 32, 24),
        of("q8_0", 8, 32, 34),
        of("q8_1", 9, 32, 40),
        of("q2_k", 10, 256, 84),
        of("q3_k", 11, 256, 110),
        of("q4_k", 12, 256, 144),
        of("q5_k", 13, 256, 176),
        of("q6_k", 14, 256, 210),
        of("q8_k", 15, 256, 292),
    ]
}

fn safetensors() -> Vec<u8> {
    let header = concat!(
        r#"{"__metadata__":{"format":"pt"},"sb":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}, "#,
        r#""sa.x-y":{"shape":[3],"dtype":"I8","data_offsets":[24,27]},"#,
        r#""ss":{"dtype":"BF16","shape":[],"data_offsets":[ 27 , 29 ]}}     "#
    );
    sample::safetensors(header, &(0..29).collect::<Vec<u8>>())
}

/// Runs both tools with the arguments, each with a separate output if the tool has one.
fn run_both(tool: &str, arguments: &[&str], directory: &Path) -> Result<(Ended, Ended), Failed> {
    let pair = Pair::find(tool)?;
    let with = |output: &str| {
        let writes = tool != DUMP;
        let output = writes.then(|| format!("--output={output}"));
        arguments.iter().map(|argument| (*argument).to_owned()).chain(output).collect::<Vec<_>>()
    };
    let ours = tool::run(&pair.ours, &with("ours.irpa"), directory)?;
    Ok((ours, tool::run(&pair.theirs, &with("theirs.irpa"), directory)?))
}

fn same((_, tool, arguments): Case) -> Outcome {
    let scratch = files()?;
    let (ours, theirs) = run_both(tool, arguments, scratch.path())?;
    ensure(theirs.succeeded(), || format!("theirs ended with {}", theirs.summary()))?;
    ensure(ours.succeeded(), || format!("ours ended with {}", ours.summary()))?;
    let text = |ended: &Ended| String::from_utf8_lossy(&ended.stdout).into_owned();
    ensure(ours.stdout == theirs.stdout, || format!("ours:\n{}\ntheirs:\n{}", text(&ours), text(&theirs)))?;
    if tool == DUMP {
        return Ok(());
    }
    let written = |name: &str| fs::read(scratch.path().join(name));
    let (ours, theirs) = (written("ours.irpa")?, written("theirs.irpa")?);
    let first = ours.iter().zip(&theirs).position(|(a, b)| a != b);
    ensure(ours == theirs, || {
        format!("files of {} and {} bytes differ first at {first:?}", ours.len(), theirs.len())
    })?;
    // The written file must be readable.
    Format::Irpa.parse(&theirs).map(drop).map_err(|error| Failed::from(error.to_string()))
}

fn refused((_, tool, arguments): Case) -> Outcome {
    let scratch = files()?;
    let (ours, theirs) = run_both(tool, arguments, scratch.path())?;
    ensure(theirs.code == Some(1), || format!("theirs ended with {}", theirs.summary()))?;
    ensure(ours.code == Some(1), || format!("ours ended with {}", ours.summary()))?;
    let said = String::from_utf8_lossy(&ours.stderr);
    ensure(said.contains("; "), || format!("ours said {said}"))
}

/// Extracts parameters from a file; the reference can do so if the file is in memory.
fn extracted() -> Outcome {
    let scratch = files()?;
    let arguments = |out: &str| {
        [
            "--parameters=m=model.irpa".to_owned(),
            "--parameters=a.safetensors".to_owned(),
            "--parameter_mode=preload".to_owned(),
            format!("--extract=m::bias={out}1"),
            format!("--extract=sa.x-y={out}2"),
        ]
    };
    let pair = Pair::find(DUMP)?;
    let ours = tool::run(&pair.ours, &arguments("x"), scratch.path())?;
    ensure(ours.succeeded(), || ours.summary())?;
    let parts = |part: &str| fs::read(scratch.path().join(part));
    let (first, second) = (parts("x1")?, parts("x2")?);
    let theirs = tool::run(&pair.theirs, &arguments("x"), scratch.path())?;
    ensure(theirs.succeeded(), || theirs.summary())?;
    ensure(ours.stdout == theirs.stdout, || String::from_utf8_lossy(&ours.stdout).into_owned())?;
    ensure(first == parts("x1")? && second == parts("x2")?, || "extracted bytes differ".into())
}

/// Multi-byte splats, which the reference fails to write but can read.
fn wide_patterns() -> Outcome {
    let scratch = files()?;
    let words = ["--data=a=4xf32=2.5", "--data=b=3xi16=513", "--data=c=2xi8=1,2", "--output=ours.irpa"];
    let pair = Pair::find(CREATE)?;
    let ours = tool::run(&pair.ours, &words, scratch.path())?;
    let theirs = tool::run(&pair.theirs, &["--data=a=4xf32=2.5", "--output=theirs.irpa"], scratch.path())?;
    ensure(ours.succeeded(), || ours.summary())?;
    ensure(!theirs.succeeded(), || "the reference can write multi-byte splats now".into())?;
    let dump = Pair::find(DUMP)?;
    for (key, expected) in
        [("a", 2.5f32.to_le_bytes().repeat(4)), ("b", 513i16.to_le_bytes().repeat(3)), ("c", vec![1, 2])]
    {
        let extract = format!("--extract={key}=out");
        let words = ["--parameters=ours.irpa", "--parameter_mode=preload", &extract];
        let read = tool::run(&dump.theirs, &words, scratch.path())?;
        ensure(read.succeeded(), || read.summary())?;
        ensure(fs::read(scratch.path().join("out"))? == expected, || format!("{key}: bytes differ"))?;
    }
    Ok(())
}

/// Files converted by the reference are converted identically by ours, and vice versa.
fn theirs_are_ours() -> Outcome {
    let scratch = files()?;
    let pair = Pair::find(CONVERT)?;
    let convert = |program: &Path, from: &str, to: &str| -> Result<Vec<u8>, Failed> {
        let words = [format!("--parameters={from}"), format!("--output={to}"), "--quiet".to_owned()];
        let ended = tool::run(program, &words, scratch.path())?;
        ensure(ended.succeeded(), || ended.summary())?;
        Ok(fs::read(scratch.path().join(to))?)
    };
    for source in ["a.gguf", "a.safetensors", "model.irpa"] {
        let theirs = convert(&pair.theirs, source, "t.irpa")?;
        ensure(convert(&pair.ours, "t.irpa", "to.irpa")? == theirs, || format!("{source}: ours of theirs"))?;
        let ours = convert(&pair.ours, source, "o.irpa")?;
        ensure(convert(&pair.theirs, "o.irpa", "ot.irpa")? == ours, || format!("{source}: theirs of ours"))?;
    }
    Ok(())
}
