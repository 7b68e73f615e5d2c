//! `iree-run-module`: the output and the exit status match.
//!
//! Ours intentionally differs where the reference is incorrect or incomplete:
//!
//! - Scalar results can be compared with `--expected_output`; in the reference every comparison of a scalar
//!   fails.
//! - Inputs may be booleans as words, complex numbers, `i4` and other packed integers, and `i64` up to
//!   2^64-1. Packed integers are printed as numbers; the reference cannot print two or more of them, and
//!   prints one in hexadecimal.
//! - Trailing characters in numbers are rejected (`4.5xf32`, `1.5` for an `i32`), and integers do not wrap.
//! - Floats of 8 and 16 bits are rounded to nearest, also below half of the smallest subnormal.
//! - A capture may not be written to a pipe, an input file, a result file, or the file that standard output
//!   goes to.
//! - Arguments after the flags are rejected, and a file that cannot be written as `.npy` stays unchanged.
//!
//! Eleven cases have another status code (`OTHER_STATUS`); a kernel that crashes ends our tool with 86.

use crate::{Outcome, Pair, ensure, fixture};
use libtest_mimic::{Failed, Trial};
use oracle::captures::{self, Capture};
use oracle::tool::{self, Ended};
use std::fs;
use std::path::{Path, PathBuf};

/// Commands that we accept and the reference rejects: booleans as words.
const WIDER: [&str; 1] = ["corpus/dtypes.i1.local-sync"];

/// Our exit status for a crashed kernel, where the reference is killed by a signal.
const CRASHED: i32 = 86;

/// Failures with different status codes: the case, ours, theirs.
///
/// Ours reports `OUT_OF_RANGE` for a number that its type cannot represent, while the reference reports every
/// malformed input as invalid. Ours reports `NOT_FOUND` for a missing file, while the reference drops the
/// system's reason; and `INVALID_ARGUMENT` for a meaningless flag value.
const OTHER_STATUS: [(&str, &str, &str); 11] = [
    ("echo_i8 1xi8=256", "OUT_OF_RANGE", "INVALID_ARGUMENT"),
    ("echo_i8 1xi8=-129", "OUT_OF_RANGE", "INVALID_ARGUMENT"),
    ("echo_ui8 1xui8=-1", "OUT_OF_RANGE", "INVALID_ARGUMENT"),
    ("echo_f32 1xf32=1e-50", "OUT_OF_RANGE", "INVALID_ARGUMENT"),
    ("echo_f32 4xf0=1", "OUT_OF_RANGE", "INVALID_ARGUMENT"),
    ("echo_f32 4xf32=+7", "NOT_FOUND", "UNKNOWN"),
    ("echo_f32 4xf32=+../nothing.bin", "NOT_FOUND", "UNKNOWN"),
    ("echo_f32 4xf32=@nothing.bin", "NOT_FOUND", "UNKNOWN"),
    ("echo_f32 @nothing.npy", "NOT_FOUND", "UNKNOWN"),
    ("matrix --output=out.npy", "INVALID_ARGUMENT", "UNIMPLEMENTED"),
    ("matrix --output=@/nonexistent/out.npy", "NOT_FOUND", "UNKNOWN"),
];

/// Functions of `overlap.vmfb` and their inputs.
const OVERLAPS: [(&str, [&str; 2]); 2] =
    [("roll", ["1x3xf32=1 2 3", "1x3xf32=4 5 6"]), ("delay", ["1xf32=1", "1xf32=2"])];

pub fn add(captures: &[Capture], trials: &mut Vec<Trial>) {
    for capture in captures {
        let Some(arguments) = command(capture) else { continue };
        let name = capture.name.clone();
        let directory = capture.directory.clone();
        trials.push(Trial::test(format!("run_module::{name}"), move || {
            runs_alike(&name, &arguments, &directory)
        }));
    }
    for (index, words) in FORMS.iter().enumerate() {
        let name = format!("run_module::forms::{index:03}_{}", words[0]);
        trials.push(Trial::test(name, move || form(words)));
    }
    for (function, inputs) in OVERLAPS {
        trials.push(Trial::test(format!("run_module::overlap::{function}"), move || {
            overlap(function, &inputs)
        }));
    }
    trials.push(Trial::test("run_module::listed_cases_exist", || {
        let forms: Vec<_> = FORMS.iter().map(|words| words.join(" ")).collect();
        let stale: Vec<_> =
            OTHER_STATUS.iter().filter(|(case, ..)| !forms.iter().any(|form| form == case)).collect();
        ensure(stale.is_empty(), || format!("no such cases: {stale:?}"))
    }));
    let models = captures::corpus().map(|corpus| corpus.join("models"));
    for model in models.iter().flat_map(fs::read_dir).flatten().flatten() {
        let name = model.file_name().to_string_lossy().into_owned();
        let directory = model.path();
        trials.push(Trial::test(format!("run_module::models::{name}"), move || model_gives(&directory)));
    }
}

/// The arguments of the command that made a capture, if it was `iree-run-module` on a supported device.
pub fn command(capture: &Capture) -> Option<Vec<String>> {
    let printed = fs::read_to_string(capture.printed.as_ref()?).ok()?;
    let line = printed.lines().next()?.strip_prefix("$ iree-run-module --")?;
    let arguments: Vec<String> = line
        // Shell quotes enclose whole arguments, and the corpus has none.
        .replace(" '--", " --")
        .split(" --")
        .map(|argument| located(argument.trim_end().trim_end_matches('\''), &capture.directory))
        .collect();
    let is_ours = |argument: &String| !argument.starts_with("--device=") || argument == "--device=local-sync";
    arguments.iter().all(is_ours).then_some(arguments)
}

/// An argument with its paths resolved in the corpus.
fn located(argument: &str, directory: &Path) -> String {
    let mut argument = format!("--{argument}");
    for (from, to) in [
        ("/models/onnx/", "models/"),
        ("/models/data/", "inputs/"),
        ("=vmfb/", "=modules/"),
        ("=fat/", "=modules/"),
        ("onnx/", "models/"),
    ] {
        argument = argument.replace(from, to);
    }
    if let Some((before, name)) = argument.split_once("data/") {
        let place = ["inputs", "params"].into_iter().find(|place| directory.join(place).join(name).exists());
        argument = format!("{before}{}/{name}", place.unwrap_or("inputs"));
    }
    argument
}

fn runs_alike(name: &str, arguments: &[String], directory: &Path) -> Outcome {
    let pair = Pair::find("iree-run-module")?;
    let scratch = tempfile::tempdir()?;
    let run = |program: &Path, capture: &str| {
        let capture = format!("--device_replay_output={}", scratch.path().join(capture).display());
        let recorded =
            arguments.iter().map(|argument| match argument.starts_with("--device_replay_output=") {
                true => capture.clone(),
                false => argument.clone(),
            });
        tool::run(program, &recorded.collect::<Vec<_>>(), directory)
    };
    let (ours, theirs) = (run(&pair.ours, "ours")?, run(&pair.theirs, "theirs")?);
    if WIDER.contains(&name) {
        return ensure(ours.succeeded() && !theirs.succeeded(), || format!("ours: {}", ours.summary()));
    }
    alike(&ours, &theirs, None)
}

/// Whether a flag was rejected before the function was called. The reference checks the values of `--output`
/// and `--expected_output` only after the function has returned and its name is printed.
fn checked_earlier(ours: &Ended) -> bool {
    let stderr = String::from_utf8_lossy(&ours.stderr);
    let is_of_results =
        [" for --output (", " for --expected_output (", "at: --output", "--expected_output, "];
    ours.code == Some(1) && ours.stdout.is_empty() && is_of_results.iter().any(|part| stderr.contains(part))
}

/// The same exit status and the same output.
fn alike(ours: &Ended, theirs: &Ended, other: Option<(&str, &str)>) -> Outcome {
    same_status(ours, theirs, other)?;
    ensure(ours.stdout == theirs.stdout, || {
        let text =
            |ended: &Ended| String::from_utf8_lossy(&ended.stdout).chars().take(2000).collect::<String>();
        format!("ours printed:\n{}\ntheirs printed:\n{}", text(ours), text(theirs))
    })
}

/// The same exit status, and the same status code on standard error (or the `other` pair, ours first).
fn same_status(ours: &Ended, theirs: &Ended, other: Option<(&str, &str)>) -> Outcome {
    let summaries = || format!("ours: {}\ntheirs: {}", ours.summary(), theirs.summary());
    let code = theirs.signal.map_or(theirs.code, |_| Some(CRASHED));
    ensure(ours.code == code, summaries)?;
    let (ours_says, theirs_says) = (ours.status_name(), theirs.status_name());
    let expected = match other {
        Some((_, theirs)) if theirs_says.as_deref() != Some(theirs) => return Err(summaries().into()),
        Some((ours, _)) => Some(ours),
        None if theirs.signal.is_some() => Some("INTERNAL"),
        // A failed comparison is not an error there: standard error is empty.
        None if !theirs.succeeded() && theirs.stderr.is_empty() => {
            let printed = String::from_utf8_lossy(&theirs.stdout);
            ensure(printed.contains("[FAILED]"), || {
                format!("theirs failed without a message\n{}", summaries())
            })?;
            Some("FAILED_PRECONDITION")
        }
        None => theirs_says.as_deref(),
    };
    ensure(ours.succeeded() == expected.is_none(), summaries)?;
    ensure(ours_says.as_deref() == expected, || format!("expected {expected:?}\n{}", summaries()))
}

/// Copies within a buffer. On `local-sync`, the reference refuses them.
fn overlap(function: &str, inputs: &[&str]) -> Outcome {
    let pair = Pair::find("iree-run-module")?;
    let module = format!("--module={}", fixture("modules/overlap.vmfb").display());
    let mut arguments = vec!["--device=local-task".to_owned(), module, format!("--function={function}")];
    arguments.extend(inputs.iter().map(|input| format!("--input={input}")));
    let run = |program: &Path| -> Result<_, Failed> { Ok(tool::run(program, &arguments, Path::new("."))?) };
    alike(&run(&pair.ours)?, &run(&pair.theirs)?, None)
}

/// Runs a function of `values.vmfb` in a directory with input files: the output and the written files match.
fn form(words: &[&str]) -> Outcome {
    let pair = Pair::find("iree-run-module")?;
    let module = format!("--module={}", fixture("modules/values.vmfb").display());
    let mut arguments = vec!["--device=local-sync".to_owned(), module, format!("--function={}", words[0])];
    arguments.extend(words[1..].iter().map(|word| match word.starts_with("--") {
        true => (*word).to_owned(),
        false => format!("--input={word}"),
    }));
    let run = |program: &Path| -> Result<_, Failed> {
        let scratch = tempfile::tempdir()?;
        fs::write(scratch.path().join("bytes.bin"), (0..64).collect::<Vec<u8>>())?;
        let array = fs::read(fixture("inputs/mlp_w2.npy"))?;
        fs::write(scratch.path().join("array.npy"), array.repeat(2))?;
        let ended = tool::run(program, &arguments, scratch.path())?;
        let written = ["out.npy", "out.bin"].map(|name| fs::read(scratch.path().join(name)).ok());
        Ok((ended, written))
    };
    let ((ours, ours_written), (theirs, theirs_written)) = (run(&pair.ours)?, run(&pair.theirs)?);
    let case = words.join(" ");
    let other = OTHER_STATUS.iter().find(|(listed, ..)| *listed == case);
    let other = other.map(|(_, ours, theirs)| (*ours, *theirs));
    if checked_earlier(&ours) {
        return same_status(&ours, &theirs, other);
    }
    alike(&ours, &theirs, other)?;
    // Files left by a failure are unspecified.
    let same = !theirs.succeeded() || ours_written == theirs_written;
    ensure(same, || format!("ours wrote {ours_written:02x?}\ntheirs wrote {theirs_written:02x?}"))
}

/// Runs a model of the corpus on its inputs: its results match the reference's byte for byte.
fn model_gives(directory: &Path) -> Outcome {
    let tool = tool::ours("iree-run-module")?;
    let named = |prefix: &str| -> Vec<PathBuf> {
        let files = (0..).map(|index| directory.join(format!("{prefix}{index}.npy")));
        files.take_while(|path| path.exists()).collect()
    };
    let scratch = tempfile::tempdir()?;
    let mut arguments =
        vec!["--device=local-sync".to_owned(), format!("--module={}", directory.join("m.vmfb").display())];
    if directory.join("m.irpa").exists() {
        arguments.push(format!("--parameters=model={}", directory.join("m.irpa").display()));
    }
    arguments.extend(named("in").iter().map(|path| format!("--input=@{}", path.display())));
    let results = named("iree");
    let written: Vec<_> =
        (0..results.len()).map(|index| scratch.path().join(format!("{index}.npy"))).collect();
    arguments.extend(written.iter().map(|path| format!("--output=@{}", path.display())));
    let ended = tool::run(&tool, &arguments, directory)?;
    ensure(ended.succeeded(), || ended.summary())?;
    ensure(!results.is_empty(), || "the model has no results to compare with".to_owned())?;
    for (result, written) in results.iter().zip(&written) {
        ensure(fs::read(result)? == fs::read(written)?, || format!("{} differs", result.display()))?;
    }
    Ok(())
}

/// A function of `values.vmfb`, and inputs, or flags if they start with dashes.
///
/// Cases in which ours accepts more or less than the reference are excluded; the first lines of this file
/// list them.
const FORMS: &[&[&str]] = &[
    &["echo_i1", "4xi1=01 00 01 00"],
    &["echo_i1", "4xi1"],
    &["echo_i1", "4xi1=2"],
    &["echo_i8", "5xi8=-128 127 255 0x7f 010"],
    &["echo_i8", "1xi8=256"],
    &["echo_i8", "1xi8=-129"],
    &["echo_ui8", "3xui8=0 255 7"],
    &["echo_ui8", "1xui8=-1"],
    &["echo_i16", "3xi16=-32768 32767 65535"],
    &["echo_si16", "2xsi16=-32768 32767"],
    &["echo_i32", "3xi32=-2147483648 2147483647 4294967295"],
    &["echo_i32", "2xi32=[[1],[2]]"],
    &["echo_i32", "2xi32=1 x"],
    &["echo_ui32", "2xui32=4294967295 -1"],
    &["echo_i64", "2xi64=-9223372036854775808 9223372036854775807"],
    &["echo_f16", "9xf16=1 -2 0.1 65504 65519 65520 6e-8 inf nan"],
    &["echo_bf16", "7xbf16=1 -2 0.1 1e38 3.4e38 -inf nan"],
    &["echo_f32", "12xf32=1 -2 0.1 1e-5 123456 1234567 1e10 -1e-10 inf -inf nan -0"],
    &["echo_f32", "5xf32=.5 5. 0x1.8p3 3.14159265 1e39"],
    &["echo_f32", "1xf32=1e-50"],
    &["echo_f64", "6xf64=1e300 -1e-300 123456.5 999999.5 0.0001 0.00001"],
    &["echo_f8E4M3FN", "9xf8E4M3FN=1 -2 0.3 448 449 464 465 1e9 nan"],
    &["echo_f8E5M2", "6xf8E5M2=1 -2 0.3 57344 1e9 -inf"],
    &["echo_f8E4M3FNUZ", "6xf8E4M3FNUZ=1 -2 0.3 240 250 -0"],
    &["echo_f8E5M2FNUZ", "6xf8E5M2FNUZ=1 -2 0.3 57344 1e9 inf"],
    &["echo_f8E8M0FNU", "6xf8E8M0FNU=1 -2 0.3 3 1e39 0"],
    &["echo_cf64", "2xcf64=0000803f000000c0 00000000FFFFFFFF"],
    &["echo_f32", "0xf32="],
    &["echo_f32", "3xf32"],
    &["echo_f32", "3xf32="],
    &["echo_f32", "\"3xf32=1,2\n3\""],
    &["echo_f32", " 2xf32=7 "],
    &["echo_f32", "2000xf32=1"],
    &["echo_f32", "20xf32=1", "--output_max_element_count=7"],
    &["echo_f32", "20xf32=1", "--output_max_element_count=0"],
    &["echo_f32", "20xf32=1", "--output_max_element_count=-1"],
    &["echo_f32", "3xf32=1 2"],
    &["echo_f32", "3xf32=1 2 3 4"],
    &["echo_f32", "0xf32=1"],
    &["echo_f32", "2x2xf32=1 2 3 4"],
    &["echo_f32", "f32=1"],
    &["echo_f32", "xf32=1"],
    &["echo_f32", "010xf32"],
    &["echo_f32", "-1xf32"],
    &["echo_f32", "4xq32=1"],
    &["echo_f32", "4xf0=1"],
    &["echo_f32", "4xf33=1"],
    &["echo_f32", "1152921504606846976xi8=1"],
    &["echo_f32", "4"],
    &["echo_f32", "(null)"],
    &["echo_f32", "&4xf32=1"],
    &["echo_f32"],
    &["echo_f32", "4xf32", "4xf32"],
    &["echo_f32", "4xf32=@bytes.bin"],
    &["echo_f32", "16xf32=@bytes.bin"],
    &["echo_f32", "17xf32=@bytes.bin"],
    &["echo_f32", "4xf32=+bytes.bin"],
    &["echo_f32", "4xf32=+7"],
    &["echo_f32", "4xf32=+../nothing.bin"],
    &["echo_f32", "4xf32=@nothing.bin"],
    &["echo_f32", "@bytes.bin"],
    &["echo_f32", "@nothing.npy"],
    &["view", "@array.npy"],
    &["view", "+array.npy"],
    &["view", "*array.npy"],
    &["view", "@array.npy", "--output=@out.npy"],
    &["view", "@array.npy", "--output=+out.bin"],
    &["view", "@array.npy", "--expected_output=@array.npy"],
    &["view", "(null)"],
    &["view", "(null)", "--output=-"],
    &["view", "(null)", "--output=@out.npy"],
    &["view", "2x3x4xi8=7"],
    &["view", "2x0x3xi8="],
    &["view", "0x3xi8="],
    &["view", "i8=7"],
    &["view", "4x*16=beef"],
    &["view", "2xi24=010203"],
    &["view", "1xi128=000102030405060708090a0b0c0d0e0f"],
    &["view", "3x2xf32=1", "--output_max_element_count=3"],
    &["view", "2xbf16=1 2", "--output=@out.bin"],
    &["view", "2x*16=0102", "--output=@out.npy"],
    &["view", "2x2xi1=01 00 01 00", "--output=@out.npy"],
    &["view", "5xi8=1 2 3 4 5", "--output=@out.npy"],
    &["view", "1x2x3xui32=1", "--output=@out.npy"],
    &["view", "2xcf64=0000803f000000c0", "--output=@out.npy"],
    &["buffer", "&4xf32=1 2 3 4"],
    &["buffer", "4xf32=1 2 3 4"],
    &["buffer", "&4xf32=1 2 3 4", "--output=@out.npy"],
    &["buffer", "&4xf32=@bytes.bin", "--output=@out.bin"],
    &["scalars", "1", "2", "3.5", "4.5", "1", "-3"],
    &["scalars", "-1", "-2", "1e-7", "1e300", "0", "127"],
    &["scalars", "0x10", "010", "inf", "nan", "1", "200"],
    &["scalars", "1", "2", "123456789", "1234567890.5", "1", "1"],
    &["scalars", "(null)", "(null)", "(null)", "(null)", "(null)", "(null)"],
    &["scalars", "4294967295", "2", "3", "4", "1", "1"],
    &["scalars", "1", "2", "3", "4", "1"],
    &["scalars", "x", "2", "3", "4", "1", "1"],
    &["scalars", "1", "2", "x", "4", "1", "1"],
    &["scalars", "@array.npy", "2", "3", "4", "1", "1"],
    &[
        "scalars",
        "1",
        "2",
        "3.5",
        "4.5",
        "1",
        "-3",
        "--output=@out.npy",
        "--output=+out.npy",
        "--output=+out.npy",
        "--output=+out.npy",
        "--output=",
        "--output=-",
    ],
    &["in_place", "4xf32=1 2 3 4", "&4xf32"],
    &["in_place", "4xf32=1 2 3 4", "&4xf32=9"],
    &["in_place", "4xf32=1 2 3 4", "&3xf32"],
    &["in_place", "4xf32=1 2 3 4", "4xf32"],
    &["in_place", "4xf32=1 2 3 4", "(null)"],
    &["bytes"],
    &["list", "4xf32=1"],
    &["list", "4xf32=1", "--output=-"],
    &["list", "4xf32=1", "--output=@out.npy"],
    &["nested", "4xf32=1"],
    &["fails", "3"],
    &["fails", "30"],
    &["matrix"],
    &["matrix", "--output=@out.npy"],
    &["matrix", "--output=@/nonexistent/out.npy"],
    &["matrix", "--output=out.npy"],
    &["matrix", "--output=-", "--output=-"],
    &["matrix", "--module_mode=mmap"],
    &["nothing"],
    &["view", "4xf32=1 2 3 4", "--expected_output=4xf32=1 2 3 4"],
    &["view", "4xf32=1 2 3 4", "--expected_output=4xf32=1.00005 2 3 4"],
    &["view", "4xf32=1 2 3 4", "--expected_output=4xf32=1.00005 2 3 4", "--equality_mode=exact"],
    &["view", "4xf32=1 2 3 4", "--expected_output=4xf32=1.005 2 3 4"],
    &["view", "4xf32=1 2 3 4", "--expected_output=4xf32=1.005 2 3 4", "--expected_f32_threshold=0.01"],
    &["view", "4xf32=1 2 3 4", "--expected_output=4xf32=1.005 2 3 4", "--expected_rtol=0.01"],
    &["view", "4xf32=1 2 3 4", "--expected_output=2x2xf32=1 2 3 4"],
    &["view", "4xf32=1 2 3 4", "--expected_output=4xi32=1 2 3 4"],
    &["view", "4xf32=1 2 3 4", "--expected_output=4xf32=nan 2 3 4"],
    &["view", "4xf32=1 2 3 4", "--expected_output=&4xf32=1 2 3 4"],
    &["view", "4xf32=1 2 3 4", "--expected_output=(ignored)"],
    &["view", "4xf32=1 2 3 4", "--expected_output=4xf32=x"],
    &["view", "4xf32=1 2 3 4", "--expected_output=4xf32=1", "--expected_output=4xf32=1"],
    &["view", "2xf32=nan inf", "--expected_output=2xf32=nan inf"],
    &["view", "2xf32=1e6 1", "--expected_output=2xf32=1000005 1"],
    &["view", "2xf16=1 2", "--expected_output=2xf16=1.0009 2"],
    &["view", "2xf16=1 2", "--expected_output=2xf16=1.01 2"],
    &["view", "2xbf16=1 2", "--expected_output=2xbf16=1.0078 2"],
    &["view", "2xf64=1 2", "--expected_output=2xf64=1.00009 2"],
    &["view", "2xi8=1 2", "--expected_output=2xi8=1 3"],
    &["view", "2xi1=01 00", "--expected_output=2xi1=01 01"],
    &["view", "(null)", "--expected_output=2xf32=1 1"],
    &["view", "2xf32=1 1", "--expected_output=(null)"],
    &["buffer", "&4xf32=1 2 3 4", "--expected_output=&4xf32=1 2 3 4"],
];
