//! CUDA: our emulated device, beside the reference's driver on the double of `libcuda.so`.
//!
//! Both interpret kernels by `rehal-simt`, so that the comparison is of all else: arguments and launches,
//! transfers, the order of work, memory, recordings. The reference runs by streams and by graphs.
//!
//! The reference reports no reads. The double writes the bytes of each allocation when it is freed; these
//! have to hold what our replay reads and, by its ledger, what the dispatches wrote.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use libtest_mimic::{Failed, Trial};
use oracle::captures::{self, Capture, corpus, repository};
use oracle::e2e::{Compiled, Program};
use oracle::reference::Reference;
use oracle::tool::{self, Ended};
use rehal_judge::Ledger;

use crate::replays::run_with_reads;
use crate::vulkan::{computed, printed_results, program};
use crate::{Outcome, Pair, ensure, fixture};

/// How the reference's driver submits command buffers.
const MODES: [&str; 2] = ["--cuda_use_streams=true", "--cuda_use_streams=false"];
/// How programs are compiled so that the reference makes graphs of their command buffers: without tables of
/// bindings.
const DIRECT: &str = "--iree-hal-indirect-command-buffers=false";
/// Our device.
const OURS: &str = "--device=cuda://emulator";
/// That of the reference.
const THEIRS: &str = "--device=cuda";

/// Programs with copies within a buffer that overlap, which the reference refuses on GPUs.
const REFUSED: [&str; 2] = ["overlap.delay", "overlap.roll"];

pub fn add(trials: &mut Vec<Trial>) -> io::Result<()> {
    let mut directories = vec![("fixtures", repository().join("crates/cli/tests/gpu"))];
    directories.extend(corpus().map(|corpus| ("corpus", corpus.join("cuda"))));
    for (set, directory) in directories {
        for entry in fs::read_dir(directory)? {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str()?.strip_suffix(".cuda.ireereplay"));
            if let Some(name) = name {
                let name = format!("cuda::replay::{set}/{name}");
                trials.push(Trial::test(name, move || replay_alike(&path)));
            }
        }
    }
    for (name, call) in calls()? {
        trials.push(Trial::test(format!("cuda::run::{name}"), move || runs_alike(&call)));
    }
    trials.push(Trial::test("cuda::benchmarks", benchmarks));
    trials.push(Trial::test("cuda::out_of_bounds", out_of_bounds));
    trials.push(Trial::test("cuda::cuda_c_is_compiled", cuda_c_is_compiled));
    Ok(())
}

/// Runs a tool of the reference on the double, which writes what is freed to a file.
fn on_double(program: &Path, arguments: &[String], directory: &Path, freed: &Path) -> Result<Ended, Failed> {
    let double = tool::ours("libcuda.so").map_err(|error| error.replace("rehal-cli", "libcuda-double"))?;
    let libraries = double.parent().unwrap_or(&double).display();
    let variables =
        [format!("LD_LIBRARY_PATH={libraries}"), format!("LIBCUDA_DOUBLE_FREED={}", freed.display())];
    let program = program.display().to_string();
    let line = [&variables[..], &[program], arguments].concat();
    Ok(tool::run(Path::new("/usr/bin/env"), &line, directory)?)
}

/// The same, of a program whose submission fails: then a worker of the reference sometimes crashes while its
/// device is destroyed, before the error is printed.
fn failing_on_double(
    program: &Path,
    arguments: &[String],
    directory: &Path,
    freed: &Path,
) -> Result<Ended, Failed> {
    for _ in 0..4 {
        let ended = on_double(program, arguments, directory, freed)?;
        if ended.signal != Some(11) {
            return Ok(ended);
        }
    }
    on_double(program, arguments, directory, freed)
}

/// The allocations that a replay by the reference freed.
fn freed_by_replay(capture: &Path, mode: &str) -> Result<Vec<Vec<u8>>, Failed> {
    let scratch = tempfile::tempdir()?;
    let freed = scratch.path().join("freed");
    let arguments = [THEIRS, mode, &capture.display().to_string()].map(ToOwned::to_owned);
    let replay = Pair::find("iree-run-replay")?.theirs;
    let ended = on_double(&replay, &arguments, scratch.path(), &freed)?;
    ensure(ended.succeeded(), || format!("their replay, {mode}: {}", ended.summary()))?;
    let decoded: Result<Vec<_>, _> = fs::read_to_string(freed)?.lines().map(hex::decode).collect();
    let mut freed = decoded?;
    freed.sort();
    Ok(freed)
}

/// Both replay a capture, and what ours reads and what its dispatches write is in the memory of the
/// reference's.
fn replay_alike(path: &Path) -> Outcome {
    let freed = freed_by_replay(path, MODES[0])?;
    ensure(freed == freed_by_replay(path, MODES[1])?, || "by streams and by graphs, memory differs".into())?;
    let scratch = tempfile::tempdir()?;
    let ledger = scratch.path().join("ledger");
    let capture = Capture {
        name: "cuda".to_owned(),
        path: path.to_owned(),
        directory: scratch.path().to_owned(),
        printed: None,
        remaps: Vec::new(),
    };
    let arguments = vec![
        OURS.to_owned(),
        "--replay_host_reads_limit_bytes=1048576".to_owned(),
        "--replay_ledger_kept_bytes=1048576".to_owned(),
        format!("--replay_ledger={}", ledger.display()),
        path.display().to_string(),
    ];
    let (ours, reads) = run_with_reads(&Pair::find("iree-run-replay")?, &capture, arguments)?;
    ensure(ours.succeeded(), || format!("our replay: {}", ours.summary()))?;
    for read in &reads {
        let holds = |it: &Vec<u8>| it.windows(read.bytes.len()).any(|bytes| bytes == read.bytes);
        ensure(read.bytes.len() as u64 == read.length && freed.iter().any(holds), || {
            format!("the reference has not what record #{} reads: {:?}", read.ordinal, read.bytes)
        })?;
    }
    let written = written(&Ledger::open(&ledger)?)?;
    for (buffer, bytes) in &written {
        let holds = |it: &Vec<u8>| bytes.iter().all(|(at, byte)| it.get(*at as usize) == Some(byte));
        ensure(freed.iter().any(holds), || {
            format!("the reference has not what dispatches write to buffer {buffer}: {bytes:?}")
        })?;
    }
    ensure(!written.is_empty() || !reads.is_empty(), || "nothing was compared".into())
}

/// The last value of each byte that dispatches wrote, by buffer and offset.
fn written(ledger: &Ledger) -> Result<BTreeMap<u64, BTreeMap<u64, u8>>, Failed> {
    let mut written: BTreeMap<u64, BTreeMap<u64, u8>> = BTreeMap::new();
    for entry in ledger.entries() {
        for range in entry?.ranges.into_iter().filter(|it| it.binding.is_some()) {
            let buffer = written.entry(range.buffer_id).or_default();
            for piece in &range.pieces {
                ensure(piece.kept.len() as u64 == piece.range.length, || "a piece is not complete".into())?;
                let start = range.range.offset + piece.range.offset;
                buffer.extend((start..).zip(piece.kept.iter().copied()));
            }
        }
    }
    Ok(written)
}

/// A call of a program.
struct Call {
    module: Module,
    /// Function and inputs.
    arguments: Vec<String>,
    directory: PathBuf,
    results: usize,
    /// Whether the reference refuses it.
    is_refused: bool,
}

enum Module {
    /// A program of the fixtures.
    Program(String),
    /// A compiled one.
    Compiled(PathBuf),
}

/// The calls that there are for Vulkan, by name.
fn calls() -> io::Result<Vec<(String, Call)>> {
    let mut calls = Vec::new();
    // Those with more words in their names are the same programs, compiled with flags for Vulkan.
    let other = [".addresses", ".direct", ".async"];
    let is_own = |it: &Capture| it.printed.is_some() && !other.iter().any(|end| it.name.ends_with(end));
    let unread = |failed: Failed| io::Error::other(failed.message().unwrap_or_default().to_owned());
    for capture in captures::on_vulkan()?.into_iter().filter(is_own) {
        let mut arguments = program(&capture).map_err(unread)?;
        let results = printed_results(&capture).map_err(unread)?;
        let name = capture.short_name();
        let program = name.split('.').next().unwrap_or(name).to_owned();
        arguments.retain(|it| !it.starts_with("--device=") && !it.starts_with("--module="));
        let (directory, is_refused) = (capture.directory.clone(), REFUSED.contains(&name));
        let call = Call { module: Module::Program(program), arguments, directory, results, is_refused };
        calls.push((name.to_owned(), call));
    }
    let mut add = |name: String, module: Module, (_, function, inputs): computed::Call, files: &str| {
        let inputs = inputs.iter().map(|it| format!("--input={}", it.replace('@', files)));
        let arguments = [format!("--function={function}")].into_iter().chain(inputs).collect();
        let results = if computed::TWO_RESULTS.contains(&function) { 2 } else { 1 };
        let call = Call { module, arguments, directory: fixture(""), results, is_refused: false };
        calls.push((name, call));
    };
    for call in computed::PROGRAMS {
        add(format!("{}.{}", call.0, call.1), Module::Program(call.0.to_owned()), call, "@");
    }
    for call in corpus().iter().flat_map(|_| computed::CORPUS) {
        let corpus = corpus().unwrap_or_default();
        let module = corpus.join(format!("modules/{}.vmfb", call.0.replace("vulkan", "cuda80")));
        let files = format!("@{}/", corpus.join("inputs").display());
        add(format!("corpus/{}", call.1), Module::Compiled(module), call, &files);
    }
    Ok(calls)
}

impl Call {
    /// The arguments, with the module compiled with these flags.
    fn line(&self, flags: &[&str]) -> Result<Vec<String>, Failed> {
        let module = match &self.module {
            Module::Program(name) => compile(name, flags)?,
            Module::Compiled(path) => path.clone(),
        };
        let module = format!("--module={}", module.display());
        Ok([module].into_iter().chain(self.arguments.iter().cloned()).collect())
    }
}

/// A program computes the same on both, and each side replays the recording of the other.
fn runs_alike(call: &Call) -> Outcome {
    let scratch = tempfile::tempdir()?;
    let place = |name: &str| scratch.path().join(name);
    let pair = Pair::find("iree-run-module")?;
    let files = |whose: &str| (0..call.results).map(|it| place(&format!("{whose}.{it}"))).collect::<Vec<_>>();
    let with = |device: &[&str], flags: &[&str], name: &str| -> Result<Vec<String>, Failed> {
        let device = device.iter().map(ToString::to_string);
        let recording = format!("--device_replay_output={}", place(name).display());
        let outputs = files(name).into_iter().map(|file| format!("--output=+{}", file.display()));
        Ok(device.chain(call.line(flags)?).chain([recording]).chain(outputs).collect())
    };
    let read = |whose: &str| files(whose).iter().map(fs::read).collect::<io::Result<Vec<_>>>();

    let ours = pair.run_ours(&with(&[OURS], &[], "ours")?, &call.directory)?;
    ensure(ours.succeeded(), || format!("ours: {}", ours.summary()))?;
    let results = read("ours")?;
    for (mode, flags, name) in [(MODES[0], &[][..], "streams"), (MODES[1], &[DIRECT], "graphs")] {
        let line = with(&[THEIRS, mode], flags, name)?;
        let run = if call.is_refused { failing_on_double } else { on_double };
        let theirs = run(&pair.theirs, &line, &call.directory, &place("freed"))?;
        if call.is_refused {
            let status = theirs.status_name();
            return ensure(status.as_deref() == Some("INVALID_ARGUMENT"), || theirs.summary());
        }
        ensure(theirs.succeeded(), || format!("theirs, {name}: {}", theirs.summary()))?;
        ensure(read(name)? == results, || format!("the bytes of the results differ: {name}"))?;
    }
    for recording in ["ours", "streams", "graphs"] {
        let alike = replay_alike(&place(recording));
        alike.map_err(|failed| format!("recording {recording}: {}", failed.message().unwrap_or_default()))?;
    }
    Ok(())
}

/// The benchmarks of the reference run on the double.
fn benchmarks() -> Outcome {
    let scratch = tempfile::tempdir()?;
    let module = format!("--module={}", compile("add4", &[DIRECT])?.display());
    let call = ["--function=add", "--input=4xf32=1", "--input=4xf32=2", module.as_str()];
    let capture = repository().join("crates/cli/tests/gpu/dynamic_matmul.cuda.ireereplay");
    let capture = [capture.display().to_string()];
    for mode in MODES {
        for (tool, arguments) in [
            ("iree-benchmark-module", call.map(ToOwned::to_owned).to_vec()),
            ("iree-benchmark-replay", capture.to_vec()),
        ] {
            let flags = [THEIRS, mode, "--benchmark_min_time=3x"].map(ToOwned::to_owned);
            let line = [&flags[..], &arguments].concat();
            let program = Pair::find(tool)?.theirs;
            let ended = on_double(&program, &line, scratch.path(), &scratch.path().join("freed"))?;
            ensure(ended.succeeded() && !ended.stdout.is_empty(), || {
                format!("{tool} {mode}: {}", ended.summary())
            })?;
        }
    }
    Ok(())
}

/// An access that no allocation contains fails on both, and both name the same thread and instruction.
fn out_of_bounds() -> Outcome {
    let scratch = tempfile::tempdir()?;
    let (module, function) = (format!("--module={}", compile("gather", &[])?.display()), "--function=gather");
    let inputs = ["--input=4xf32=1 2 3 4", "--input=3xi32=1 3000 2"];
    let line = |device: &str| [device, &module, function, inputs[0], inputs[1]].map(ToOwned::to_owned);
    let pair = Pair::find("iree-run-module")?;
    let ours = pair.run_ours(&line(OURS), scratch.path())?;
    let theirs =
        failing_on_double(&pair.theirs, &line(THEIRS), scratch.path(), &scratch.path().join("freed"))?;
    ensure(ours.code == Some(2) && theirs.status_name().as_deref() == Some("ABORTED"), || {
        format!("ours: {}\ntheirs: {}", ours.summary(), theirs.summary())
    })?;
    let place = |ended: &Ended| -> Option<String> {
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        let line = said.split_once(": function '")?.1.lines().next()?.to_owned();
        Some(line.split_once("; while").map_or(line.clone(), |(place, _)| place.to_owned()))
    };
    let (mine, wanted) = (place(&ours), place(&theirs));
    let is_named = mine.as_ref().is_some_and(|it| it.contains("thread (1, 0, 0), line "));
    ensure(mine == wanted && is_named, || format!("ours: {mine:?}\ntheirs: {wanted:?}"))
}

/// A source in CUDA C replaces a kernel: one is right, and one adds where it should multiply. NVRTC is of the
/// environment that has the reference.
fn cuda_c_is_compiled() -> Outcome {
    let scratch = tempfile::tempdir()?;
    let python = Reference::find(&repository())?.script("python3")?;
    let programs = python.parent().unwrap_or(&python).display().to_string();
    let path = format!("PATH={programs}:{}", std::env::var("PATH").unwrap_or_default());
    let capture = repository().join("crates/cli/tests/gpu/dynamic_matmul.cuda.ireereplay");
    let tool = tool::ours("rehal")?.display().to_string();
    for (operation, code, verdict) in [("*", 4, "right  "), ("+", 2, "wrong  ")] {
        let source = format!(
            "extern \"C\" __global__ void __launch_bounds__(1024) f_dispatch_0_matmul_DxDxD_f32(\n\
             const float *a, const float *b, float *c, unsigned k0, unsigned k1, unsigned k2, unsigned k3,\n\
             unsigned m, unsigned m1, unsigned n, unsigned n1) {{\n\
             int i = blockIdx.x / 5, j = blockIdx.x % 5; float sum = 0;\n\
             if (threadIdx.x) return;\n\
             for (int k = 0; k < 7; ++k) sum += a[i * 7 + k] {operation} b[k * 5 + j];\n\
             c[i * 5 + j] = sum;\n}}\n"
        );
        let file = scratch.path().join("k.cu");
        fs::write(&file, source)?;
        let with = format!("--with={}", file.display());
        let line = [&path, &tool, "compare", OURS, &with, &capture.display().to_string()].map(str::to_owned);
        let ended = tool::run(Path::new("/usr/bin/env"), &line, scratch.path())?;
        let said = String::from_utf8_lossy(&ended.stdout).into_owned();
        ensure(ended.code == Some(code) && said.contains(verdict), || {
            format!("{}\n{said}", ended.summary())
        })?;
    }
    Ok(())
}

/// A program of the fixtures, compiled for CUDA with more flags.
fn compile(name: &str, flags: &[&str]) -> Result<PathBuf, Failed> {
    let program = Program {
        name: format!("cuda/{name}"),
        source: fixture(&format!("programs/{name}.mlir")),
        flags: [&["--iree-hal-target-device=cuda", "--iree-cuda-target=sm_80"], flags]
            .concat()
            .into_iter()
            .map(ToOwned::to_owned)
            .collect(),
    };
    match program.compile(&Reference::find(&repository())?, &repository().join("target/e2e"))? {
        Compiled::Module(compiled) => Ok(compiled),
        Compiled::Refused(said) => Err(said.into()),
    }
}
