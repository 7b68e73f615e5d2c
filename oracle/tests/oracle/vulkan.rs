//! Vulkan, on the same driver as the reference: dumps, runs, replays and recordings, host reads bit for bit.

mod benchmarks;
pub mod computed;
mod mixed;
mod parameters;
mod profiles;
mod substitutions;
mod tools;

use crate::dumps::same_dump;
use crate::replays::{holds_what_was_printed, run_with_reads};
use crate::{Outcome, Pair, ensure};
use libtest_mimic::{Failed, Trial};
use oracle::captures::{self, Capture, repository};
use oracle::printed;
use oracle::reference::Reference;
use oracle::tool::{self, Ended};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Adds tests per capture, and tests of single tools.
pub fn add(trials: &mut Vec<Trial>) -> io::Result<()> {
    for capture in captures::on_vulkan()? {
        let name = capture.short_name().to_owned();
        let mut trial = |question: &str, test: fn(&Capture) -> Outcome| {
            let capture = capture.clone();
            trials.push(Trial::test(format!("vulkan::{question}::{name}"), move || test(&capture)));
        };
        trial("dump", |capture| {
            same_dump(capture, "text")?;
            same_dump(capture, "jsonl")
        });
        trial("replay", replays);
        if capture.printed.is_some() {
            trial("run", runs);
        }
        tools::add_for(&capture, trials);
    }
    benchmarks::add(trials);
    computed::add(trials);
    mixed::add(trials);
    parameters::add(trials);
    profiles::add(trials);
    substitutions::add(trials);
    tools::add(trials);
    trials.push(Trial::test("vulkan::beyond_limits", runs_beyond_limits));
    trials.push(Trial::test("vulkan::devices", lists_devices));
    trials.push(Trial::test("vulkan::dump_devices", dumps_devices));
    Ok(())
}

/// The capture with this name.
fn find(name: &str) -> Result<Capture, Failed> {
    let mut captures = captures::on_vulkan()?.into_iter();
    Ok(captures.find(|it| it.short_name() == name).ok_or_else(|| format!("no capture {name} on Vulkan"))?)
}

/// The module of the only dispatch of a program, in SPIR-V, as the compiler dumps it to `scratch`.
fn compile_executable(program: &str, scratch: &Path) -> Result<PathBuf, Failed> {
    let (source, dumped) = (scratch.join("program.mlir"), scratch.join("dumped"));
    fs::write(&source, program)?;
    let arguments = [
        "--iree-hal-target-device=vulkan".to_owned(),
        format!("--iree-hal-dump-executable-binaries-to={}", dumped.display()),
        source.display().to_string(),
        "-o".to_owned(),
        scratch.join("program.vmfb").display().to_string(),
    ];
    let compiler = Reference::find(&repository())?.tool("iree-compile");
    let compiled = tool::run(&compiler, &arguments, scratch)?;
    ensure(compiled.succeeded(), || compiled.summary())?;
    let mut files = fs::read_dir(&dumped)?.map(|entry| entry.map(|entry| entry.path()));
    let is_spirv = |file: &PathBuf| file.extension().is_some_and(|end| end == "spv");
    Ok(files.find(|file| file.as_ref().is_ok_and(is_spirv)).ok_or("nothing was dumped")??)
}

/// Records a program with the reference, which crashes when it ends, after it has closed the file.
fn record_by_reference(pair: &Pair, call: &[String], path: &Path) -> Outcome {
    let arguments = [call, &[format!("--device_replay_output={}", path.display())]].concat();
    let ended = tool::run(&pair.theirs, &arguments, path.parent().unwrap_or(path))?;
    ensure(ended.succeeded() || ended.signal == Some(11), || format!("their recording: {}", ended.summary()))
}

/// The arguments of the program that was recorded, without those of the recorder.
pub fn program(capture: &Capture) -> Result<Vec<String>, Failed> {
    let printed = fs::read_to_string(capture.printed.as_ref().ok_or("no output of the program")?)?;
    let line = printed.lines().next().and_then(|line| line.strip_prefix("$ iree-run-module --"));
    let words = line.ok_or("no command")?.replace(" '--", " --");
    let words = words.split(" --").map(|word| format!("--{}", word.trim_end().trim_end_matches('\'')));
    Ok(words.filter(|word| !word.starts_with("--device_replay_output=")).collect())
}

/// The bytes of a program's results, which both tools write to files: one for each result.
fn results(program: &Path, capture: &Capture, count: usize) -> Result<Vec<Vec<u8>>, Failed> {
    let scratch = tempfile::tempdir()?;
    let files: Vec<_> = (0..count).map(|index| scratch.path().join(format!("{index}.bin"))).collect();
    let mut arguments = self::program(capture)?;
    arguments.extend(files.iter().map(|file| format!("--output=+{}", file.display())));
    let ended = tool::run(program, &arguments, &capture.directory)?;
    ensure(ended.succeeded(), || format!("{}: {}", program.display(), ended.summary()))?;
    Ok(files.iter().map(fs::read).collect::<io::Result<_>>()?)
}

pub fn printed_results(capture: &Capture) -> Result<usize, Failed> {
    let path = capture.printed.as_ref().ok_or("no output of the program")?;
    let text = fs::read_to_string(path)?;
    Ok(text.lines().filter(|line| line.starts_with("result[")).count())
}

/// Ours prints what the reference prints, and writes the same bytes. Recorded by ours, the program prints the
/// same, and both replay the capture.
fn runs(capture: &Capture) -> Outcome {
    let pair = Pair::find("iree-run-module")?;
    let (ours, theirs) = pair.run(&program(capture)?, &capture.directory)?;
    ensure(theirs.succeeded(), || format!("theirs ends with {}", theirs.summary()))?;
    ensure(ours.stdout == theirs.stdout && ours.succeeded(), || {
        format!("ours: {}\n{}\ntheirs: {}", ours.summary(), text(&ours), text(&theirs))
    })?;
    let count = printed_results(capture)?;
    ensure(results(&pair.ours, capture, count)? == results(&pair.theirs, capture, count)?, || {
        "the bytes of the results differ".to_owned()
    })?;

    let scratch = tempfile::tempdir()?;
    let recording = scratch.path().join("ours.ireereplay");
    let mut arguments = program(capture)?;
    arguments.push(format!("--device_replay_output={}", recording.display()));
    let recorded = pair.run_ours(&arguments, &capture.directory)?;
    ensure(recorded.succeeded() && recorded.stdout == ours.stdout, || {
        format!("recorded: {}\n{}", recorded.summary(), text(&recorded))
    })?;
    let replay = ["--device=vulkan".to_owned(), recording.display().to_string()];
    let (ours, theirs) = Pair::find("iree-run-replay")?.run(&replay, &capture.directory)?;
    ensure(ours.succeeded(), || format!("ours does not replay its recording: {}", ours.summary()))?;
    ensure(theirs.succeeded(), || format!("theirs does not replay ours: {}", theirs.summary()))
}

fn text(ended: &Ended) -> String {
    String::from_utf8_lossy(&ended.stdout).into_owned()
}

/// Both replay it, ours in both orders with the same host reads, which contain what the program printed and,
/// bit for bit, what the reference computes.
fn replays(capture: &Capture) -> Outcome {
    let pair = Pair::find("iree-run-replay")?;
    let arguments = vec!["--device=vulkan".to_owned(), capture.path.display().to_string()];
    let theirs = tool::run(&pair.theirs, &arguments, &capture.directory)?;
    ensure(theirs.succeeded(), || format!("theirs ends with {}", theirs.summary()))?;
    let (ours, reads) = run_with_reads(&pair, capture, arguments.clone())?;
    ensure(ours.succeeded(), || format!("ours ends with {}", ours.summary()))?;
    let mut captured = arguments;
    captured.insert(0, "--replay_order=captured".to_owned());
    let (ours, again) = run_with_reads(&pair, capture, captured)?;
    ensure(ours.succeeded() && again == reads, || {
        format!("in captured order: {}; other reads: {}", ours.summary(), again != reads)
    })?;
    let Some(path) = &capture.printed else { return Ok(()) };
    let printed = printed::parse(&fs::read_to_string(path)?).map_err(|error| error.to_string())?;
    holds_what_was_printed(&reads, &printed)?;
    let run = Pair::find("iree-run-module")?;
    for (index, bytes) in results(&run.theirs, capture, printed_results(capture)?)?.iter().enumerate() {
        // Scalars are not in device memory.
        let is_scalar = printed.arrays.len() <= index;
        let is_read = reads.iter().any(|read| {
            read.bytes.len() as u64 == read.length
                && read.bytes.windows(bytes.len().max(1)).any(|it| it == bytes)
                || read.length >= bytes.len() as u64 && read.bytes.len() < bytes.len()
        });
        ensure(is_scalar || is_read, || format!("the bytes of result {index} are not in the reads"))?;
    }
    Ok(())
}

/// A binding and a workgroup count above the limits that the driver states: ours computes what the reference
/// computes, says which limits are exceeded, and foresees that of a capture.
fn runs_beyond_limits() -> Outcome {
    const PROGRAM: &str = r"
func.func @indices(%scale: tensor<f32>) -> tensor<4xf32> {
  %empty = tensor.empty() : tensor<40000000xf32>
  %all = linalg.generic {indexing_maps = [affine_map<(d0) -> ()>, affine_map<(d0) -> (d0)>], iterator_types = ['parallel']}
      ins(%scale : tensor<f32>) outs(%empty : tensor<40000000xf32>) {
  ^bb0(%factor: f32, %_: f32):
    %index = linalg.index 0 : index
    %word = arith.index_cast %index : index to i32
    %value = arith.sitofp %word : i32 to f32
    %scaled = arith.mulf %value, %factor : f32
    linalg.yield %scaled : f32
  } -> tensor<40000000xf32>
  %kept = util.optimization_barrier %all : tensor<40000000xf32>
  %last = tensor.extract_slice %kept[39999996] [4] [1] : tensor<40000000xf32> to tensor<4xf32>
  return %last : tensor<4xf32>
}";
    let scratch = tempfile::tempdir()?;
    compile_executable(&PROGRAM.replace('\'', "\""), scratch.path())?;
    let run = ["--device=vulkan", "--module=program.vmfb", "--function=indices", "--input=f32=2"];
    let run = run.map(str::to_owned).to_vec();
    let record = [&run[..], &["--device_replay_output=c.ireereplay".to_owned()]].concat();
    let pair = Pair::find("iree-run-module")?;
    let (ours, theirs) = pair.run(&run, scratch.path())?;
    let recorded = pair.run_ours(&record, scratch.path())?;
    ensure(theirs.succeeded() && ours.stdout == theirs.stdout && recorded.stdout == ours.stdout, || {
        format!("ours: {}\n{}\ntheirs: {}", ours.summary(), text(&ours), text(&theirs))
    })?;
    let limits =
        ["160000000 bytes; the device states a limit of ", " workgroups are dispatched, the device states"];
    let said = String::from_utf8_lossy(&ours.stderr);
    ensure(limits.iter().all(|it| said.matches(it).count() == 1), || said.to_string())?;
    let capture = ["info", "--device=vulkan", "c.ireereplay"].map(str::to_owned);
    let info = Pair::find("rehal")?.run_ours(&capture, scratch.path())?;
    let foreseen = [
        "on vulkan, with warnings\n",
        "a binding has 160000000 bytes, the device states a limit of ",
        limits[1],
    ];
    ensure(foreseen.iter().all(|it| text(&info).contains(it)), || text(&info))
}

/// Both list the same devices.
fn lists_devices() -> Outcome {
    let pair = Pair::find("iree-run-module")?;
    let (ours, theirs) = pair.run(&["--list_devices=vulkan".to_owned()], Path::new("/"))?;
    ensure(ours.stdout == theirs.stdout && ours.stdout.starts_with(b"vulkan://"), || {
        format!("ours:\n{}\ntheirs:\n{}", text(&ours), text(&theirs))
    })
}

/// All that the reference prints of a device is printed first, line by line.
fn dumps_devices() -> Outcome {
    let pair = Pair::find("iree-run-module")?;
    let (ours, theirs) = pair.run(&["--dump_devices=vulkan".to_owned()], Path::new("/"))?;
    ensure(ours.stdout.starts_with(&theirs.stdout) && text(&theirs).contains("shaderBFloat16Type="), || {
        format!("ours:\n{}\ntheirs:\n{}", text(&ours), text(&theirs))
    })
}
