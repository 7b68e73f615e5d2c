//! The verbs of `rehal` on captures of Vulkan: what they compute and write is what the reference replays.

use super::{compile_executable, find};
use crate::replays::run_with_reads;
use crate::{Outcome, Pair, ensure, fixture};
use libtest_mimic::{Failed, Trial};
use oracle::captures::Capture;
use oracle::tool::{self, Ended};
use serde_json::Value;
use std::fs;
use std::path::Path;

/// Adds the tests of a capture.
pub fn add_for(capture: &Capture, trials: &mut Vec<Trial>) {
    let mut trial = |question: &str, test: fn(&Capture) -> Outcome| {
        let (capture, name) = (capture.clone(), capture.short_name());
        trials.push(Trial::test(format!("vulkan::{question}::{name}"), move || test(&capture)));
    };
    trial("kernels", kernels);
    trial("verify", verifies);
    trial("records", records);
    trial("redact", redacts);
    trial("diff", differs);
}

/// Adds the tests of single captures.
pub fn add(trials: &mut Vec<Trial>) {
    trials.push(Trial::test("vulkan::verify::fault", finds_fault));
    trials.push(Trial::test("vulkan::verify::on_cpu", on_cpu));
    for (name, same) in [
        ("add4.add", "1 dispatch and 2 host reads"),
        ("chain.chain", "13 dispatches and 3 host reads"),
        ("dynamic.rows", "2 dispatches and 4 host reads"),
        ("mlp.mlp", "5 dispatches and 4 host reads"),
    ] {
        let test = move || against_cpu(name, same);
        trials.push(Trial::test(format!("vulkan::verify::against_cpu::{name}"), test));
    }
    trials.push(Trial::test("vulkan::verify::against_another", against_another));
    trials.push(Trial::test("vulkan::verify::padding", || padding(&["reads", "dispatches"])));
    trials.push(Trial::test("vulkan::verify::subgroups", subgroups));
    trials.push(Trial::test("vulkan::compare::right", || compares("add4.add", "captured", 0, "right ")));
    trials.push(Trial::test("vulkan::compare::wrong", || compares("add4.add", "add4_swapped", 2, "wrong ")));
    trials.push(Trial::test("vulkan::compare::directory", compares_a_directory));
    trials.push(Trial::test("vulkan::compare::slower", slower));
    trials.push(Trial::test("vulkan::reduce", reduces));
}

/// Runs `rehal` in the directory of a capture.
fn rehal(words: &[&str]) -> Result<Ended, Failed> {
    Ok(tool::run(&tool::ours("rehal")?, words, &fixture(""))?)
}

fn stdout(ended: &Ended) -> String {
    String::from_utf8_lossy(&ended.stdout).into_owned()
}

fn path(path: &Path) -> String {
    path.display().to_string()
}

/// The catalog of a capture.
fn catalog(capture: &Capture) -> Result<Value, Failed> {
    let ended = rehal(&["kernels", "--device=vulkan", "--format=json", &path(&capture.path)])?;
    ensure(ended.succeeded(), || ended.summary())?;
    Ok(serde_json::from_slice(&ended.stdout).map_err(|error| error.to_string())?)
}

/// The kernels of a capture are those that the reference's profile of a replay has, as often.
fn kernels(capture: &Capture) -> Outcome {
    let catalog = catalog(capture)?;
    let kernels = catalog["kernels"].as_array().ok_or("no list of kernels")?;
    let mut ours: Vec<(String, u64)> = Vec::new();
    for kernel in kernels {
        let name = kernel["function"].as_str().unwrap_or_default().to_owned();
        let count = kernel["count"].as_u64().unwrap_or_default();
        match ours.iter_mut().find(|(other, _)| *other == name) {
            Some((_, sum)) => *sum += count,
            None => ours.push((name, count)),
        }
        ensure(kernel["time_ns"].as_u64().is_some_and(|time| time > 0), || format!("no time: {kernel}"))?;
    }
    ours.sort();
    let scratch = tempfile::tempdir()?;
    let profile = path(&scratch.path().join("theirs.ireeprof"));
    let arguments = [
        "--device=vulkan".to_owned(),
        "--device_profiling_mode=dispatch-events".to_owned(),
        format!("--device_profiling_output={profile}"),
        path(&capture.path),
    ];
    let theirs = tool::run(&Pair::find("iree-run-replay")?.theirs, &arguments, &capture.directory)?;
    ensure(theirs.succeeded(), || theirs.summary())?;
    let reader = Pair::find("iree-profile")?.theirs;
    let line = ["dispatch", "--format=jsonl", "--dispatch_events", &profile];
    let read = tool::run(&reader, &line, &capture.directory)?;
    let mut theirs: Vec<(String, u64)> = Vec::new();
    for line in stdout(&read).lines() {
        let row: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
        if row["type"] == "dispatch_event" {
            let name = row["key"].as_str().ok_or_else(|| format!("no name: {row}"))?.to_owned();
            match theirs.iter_mut().find(|(other, _)| *other == name) {
                Some((_, sum)) => *sum += 1,
                None => theirs.push((name, 1)),
            }
        }
    }
    theirs.sort();
    ensure(ours == theirs, || format!("ours {ours:?}\ntheirs {theirs:?}"))
}

/// A replay is verified against a ledger of another, in lockstep with another, and has no memory errors.
fn verifies(capture: &Capture) -> Outcome {
    let scratch = tempfile::tempdir()?;
    let ledger = path(&scratch.path().join("ledger"));
    let capture = path(&capture.path);
    let written = rehal(&["run", "--device=vulkan", &format!("--replay_ledger={ledger}"), &capture])?;
    ensure(written.succeeded(), || written.summary())?;
    for against in [&format!("--against={ledger}"), "--other_device=vulkan", "--watch_memory"] {
        let ended = rehal(&["verify", "--device=vulkan", against, &capture])?;
        ensure(ended.succeeded(), || format!("{against}: {}\n{}", ended.summary(), stdout(&ended)))?;
    }
    Ok(())
}

/// Each recorded kernel, run by itself, writes what it wrote in the replay.
fn records(capture: &Capture) -> Outcome {
    let scratch = tempfile::tempdir()?;
    let directory = path(&scratch.path().join("records"));
    let has_kernels = catalog(capture)?["kernels"].as_array().is_some_and(|it| !it.is_empty());
    let flag = format!("--directory={directory}");
    let ended = rehal(&["kernel", "record", "--device=vulkan", &flag, &path(&capture.path)])?;
    if !has_kernels {
        return ensure(ended.status_name().as_deref() == Some("NOT_FOUND"), || ended.summary());
    }
    ensure(ended.succeeded(), || ended.summary())?;
    let mut count = 0;
    for entry in fs::read_dir(&directory)? {
        let file = entry?.path();
        if file.extension().is_some_and(|end| end == "json") {
            let ended =
                rehal(&["kernel", "replay", "--device=vulkan", "--verify", "--repetitions=2", &path(&file)])?;
            ensure(ended.succeeded() && stdout(&ended).contains("memory verified"), || {
                format!("{}: {}\n{}", file.display(), ended.summary(), stdout(&ended))
            })?;
            if count == 0 {
                chooses_device(&path(&file))?;
            }
            count += 1;
        }
    }
    ensure(count > 0, || "nothing is recorded".to_owned())
}

/// A device is chosen for a record if none is named, and one that cannot run it is refused with another.
fn chooses_device(record: &str) -> Outcome {
    let ended = rehal(&["kernel", "replay", "--verify", record])?;
    ensure(ended.succeeded() && stdout(&ended).contains("memory verified"), || ended.summary())?;
    let ended = rehal(&["kernel", "replay", "--device=local-sync", record])?;
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    ensure(ended.code == Some(1) && said.ends_with("try: use --device=vulkan\n"), || said)
}

/// The reference replays a redacted capture, and its operations are those of the capture.
fn redacts(capture: &Capture) -> Outcome {
    let scratch = tempfile::tempdir()?;
    let redacted = path(&scratch.path().join("redacted.ireereplay"));
    let whole = path(&capture.path);
    let ended = rehal(&["redact", "--device=vulkan", "--keep=all", &whole, "-o", &redacted])?;
    ensure(ended.succeeded(), || ended.summary())?;
    let replay = ["--device=vulkan".to_owned(), redacted.clone()];
    let theirs = tool::run(&Pair::find("iree-run-replay")?.theirs, &replay, scratch.path())?;
    ensure(theirs.succeeded(), || format!("their replay ends with {}", theirs.summary()))?;
    let count = |capture: &str| -> Result<usize, Failed> {
        let dump = tool::run(&Pair::find("iree-dump-replay")?.theirs, &[capture], scratch.path())?;
        ensure(dump.succeeded(), || dump.summary())?;
        Ok(stdout(&dump).lines().filter(|line| line.contains(" device.queue_")).count())
    };
    ensure(count(&whole)? == count(&redacted)?, || "it has other submissions".to_owned())
}

/// A capture is the same as itself, and another program's is not.
fn differs(capture: &Capture) -> Outcome {
    let whole = path(&capture.path);
    let same = rehal(&["diff", &whole, &whole])?;
    ensure(same.succeeded(), || format!("{}\n{}", same.summary(), stdout(&same)))?;
    let name = if capture.short_name() == "add4.mul" { "add4.add" } else { "add4.mul" };
    let other = rehal(&["diff", &whole, &path(&find(name)?.path)])?;
    ensure(other.code == Some(2), || format!("{}\n{}", other.summary(), stdout(&other)))
}

/// An executable that computes something else is found at its dispatch, in lockstep and by a ledger.
fn finds_fault() -> Outcome {
    let capture = find("add4.add")?;
    let kernel = &catalog(&capture)?["kernels"][0];
    let record = format!("record #{}: dispatch of add_dispatch_0", kernel["record"]);
    let capture = path(&capture.path);
    let scratch = tempfile::tempdir()?;
    let ledger = path(&scratch.path().join("ledger"));
    let written = rehal(&["run", "--device=vulkan", &format!("--replay_ledger={ledger}"), &capture])?;
    ensure(written.succeeded(), || written.summary())?;
    let substitution = format!("--replay_executable_substitution=4={}", path(&fixture(SWAPPED)));
    let against = format!("--against={ledger}");
    for words in [
        &["verify", "--device=vulkan", &substitution, SAME, &capture][..],
        &["verify", "--device=vulkan", &substitution, SAME, &against, &capture],
    ] {
        let ended = rehal(words)?;
        let said = stdout(&ended);
        ensure(ended.code == Some(2) && said.contains(&record), || format!("{}\n{said}", ended.summary()))?;
        ensure(said.contains(", got 1100.0"), || said.clone())?;
    }
    Ok(())
}

/// States that it needs the workgroups of what it replaces.
const SAME: &str = "--workgroup_count=same";

/// A kernel for `add4.add` that multiplies the sum by 100.
const SWAPPED: &str = "vulkan/executables/add4_swapped.0.spv";

/// A CPU cannot run SPIR-V: the error names the format and the flag of the device that can, which is that of
/// either side.
fn on_cpu() -> Outcome {
    let (capture, cpu) = (path(&find("add4.add")?.path), "captures/add4.add.local-sync.ireereplay");
    let against = [format!("--against_capture={capture}"), format!("--against_capture={cpu}")];
    for (words, flag) in [
        (&["verify", "--device=vulkan", "--other_device=local-task", &capture][..], "--other_device"),
        (&["verify", "--device=local-task", "--other_device=vulkan", &capture], "--device"),
        (&["verify", "--device=local-task", &against[0], cpu], "--other_device"),
        (&["verify", "--device=local-task", &against[1], &capture], "--device"),
    ] {
        let ended = rehal(words)?;
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        let is_right = said.contains("vulkan-spirv-fb") && said.contains(&format!(" use {flag}=vulkan"));
        ensure(ended.code == Some(1) && is_right, || format!("{words:?}: {}", ended.summary()))?;
    }
    Ok(())
}

/// `rehal verify` of a capture with another of the same program, on a device each.
fn verify_captures(words: &[&str], [device, other]: [&str; 2], against: &str) -> Result<Ended, Failed> {
    let (device, other) = (format!("--device={device}"), format!("--other_device={other}"));
    // An exponential function differs.
    let (against, tolerance) = (format!("--against_capture={against}"), "--tolerance=*:f32:rel=1e-5");
    rehal(&[&["verify", &device, &other, &against, tolerance], words].concat())
}

/// A program computes the same on a CPU as on Vulkan, whichever side is expected.
fn against_cpu(name: &str, same: &str) -> Outcome {
    let (vulkan, cpu) = (path(&find(name)?.path), format!("captures/{name}.local-sync.ireereplay"));
    for ended in [
        verify_captures(&[&vulkan], ["vulkan", "local-sync"], &cpu)?,
        verify_captures(&[&cpu], ["local-sync", "vulkan"], &vulkan)?,
    ] {
        let is_same = ended.succeeded() && stdout(&ended).starts_with(&format!("the same: {same}"));
        ensure(is_same, || format!("{}\n{}", ended.summary(), stdout(&ended)))?;
    }
    Ok(())
}

/// Differences from a capture on a CPU have their place; results that only one of them has, and other
/// programs, do not pass.
fn against_another() -> Outcome {
    let cpu = |name: &str| format!("captures/{name}.local-sync.ireereplay");
    let devices = ["vulkan", "local-sync"];
    let substitution = format!("--replay_executable_substitution=add_dispatch_0_elementwise_4_f32={SWAPPED}");
    let add = path(&find("add4.add")?.path);
    let wrong = verify_captures(&[&substitution, SAME, &add], devices, &cpu("add4.add"))?;
    let said = stdout(&wrong);
    let is_wrong = wrong.code == Some(2) && said.contains("[0] expected 11.0, got 1100.0");
    ensure(is_wrong, || format!("{}\n{said}", wrong.summary()))?;
    let mlp = path(&find("mlp.mlp")?.path);
    let more = verify_captures(&[&mlp], devices, &cpu("bench.mlp.5"))?;
    let said = stdout(&more);
    ensure(more.code == Some(1) && said.contains("only in the other capture: 4 dispatches of mlp_"), || {
        said
    })?;
    let other = verify_captures(&[&mlp], devices, &cpu("chain.chain"))?;
    let is_refused = other.status_name().as_deref() == Some("FAILED_PRECONDITION");
    ensure(other.code == Some(1) && is_refused, || other.summary())
}

/// Results share an allocation. What a program reads of it between them, which nothing wrote, is the same in
/// a replay.
fn padding(ledgers: &[&str]) -> Outcome {
    let scratch = tempfile::tempdir()?;
    let capture = scratch.path().join("pad.ireereplay");
    for ledger in ledgers {
        let words = [
            "run-module",
            "--device=vulkan",
            "--module=vulkan/modules/pad.vmfb",
            "--function=pad",
            "--input=64x33xf32=0.3",
            "--input=33x7xf32=0.02",
            &format!("--device_replay_output={}", capture.display()),
            &format!("--device_replay_ledger={ledger}"),
        ];
        let ended = rehal(&words)?;
        ensure(ended.succeeded(), || ended.summary())?;
        let ended = rehal(&["verify", "--device=vulkan", &path(&capture)])?;
        let is_same = ended.succeeded() && stdout(&ended).starts_with("the same: ");
        ensure(is_same, || format!("{ledger}: {}\n{}", ended.summary(), stdout(&ended)))?;
    }
    let read = || rehal(&["run", "--device=vulkan", "--replay_host_reads=-", &path(&capture)]);
    let (first, second) = (read()?, read()?);
    ensure(first.succeeded() && first.stdout == second.stdout, || "host reads differ".into())
}

/// Code for subgroups of 32. Where the device has others, tools that run it say so, and those that judge its
/// results fail.
fn subgroups() -> Outcome {
    let scratch = tempfile::tempdir()?;
    let recorded = scratch.path().join("subgroups.ireereplay");
    let output = format!("--device_replay_output={}", recorded.display());
    let run = |function: &str, input: &str| {
        let (function, input) = (format!("--function={function}"), format!("--input={input}"));
        let module = "--module=vulkan/modules/subgroups.vmfb";
        rehal(&["run-module", "--device=vulkan", module, &function, &input, &output])
    };
    let stderr = |ended: &Ended| String::from_utf8_lossy(&ended.stderr).into_owned();
    let other = run("double", "64xi32=2")?;
    ensure(other.succeeded() && stderr(&other).is_empty(), || other.summary())?;
    let ran = run("softmax", "8x64xf32=0.5")?;
    ensure(ran.succeeded(), || ran.summary())?;
    let is_wrong = !stdout(&ran).contains("8x64xf32=[0.015625 0.015625 ");
    let capture = Capture { path: recorded.clone(), ..find("add4.add")? };
    let (file, function) = captured_kernel(&capture, scratch.path())?;
    let (recorded, with) = (path(&recorded), format!("--with={file}"));
    let function = format!("--function={function}");
    for (words, fails) in [
        (&["run", "--device=vulkan", &recorded][..], false),
        (&["benchmark", "--device=vulkan", "--benchmark_min_time=1x", &recorded], false),
        (&["verify", "--device=vulkan", "--other_device=vulkan", &recorded], true),
        (&["compare", "--device=vulkan", &function, &with, &recorded], true),
    ] {
        let ended = rehal(words)?;
        let says = stderr(&ended).contains("was compiled for subgroups of at least 32 invocations");
        let fails = fails && is_wrong;
        ensure(says == is_wrong, || format!("{words:?}: {}\n{}", ended.summary(), stderr(&ended)))?;
        ensure(!fails || ended.code == Some(1), || format!("{words:?}: {}", ended.summary()))?;
    }
    Ok(())
}

/// A replacement is compared: the captured kernel, cut out of a record, or a file of the fixtures.
fn compares(name: &str, with: &str, status: i32, verdict: &str) -> Outcome {
    let scratch = tempfile::tempdir()?;
    let capture = find(name)?;
    let (file, function) = match with {
        "captured" => captured_kernel(&capture, scratch.path())?,
        _ => (path(&fixture(SWAPPED)), ADD.to_owned()),
    };
    let words = [
        "compare",
        "--device=vulkan",
        &format!("--function={function}"),
        &format!("--with={file}"),
        SAME,
        "--max_time=10s",
        "--precision=10%",
        &path(&capture.path),
    ];
    let ended = rehal(&words)?;
    let said = stdout(&ended);
    ensure(said.lines().any(|line| line.starts_with(verdict)), || format!("{}\n{said}", ended.summary()))?;
    // A busy machine may leave the times inconclusive.
    ensure(ended.code == Some(status) || status == 0 && ended.code != Some(2), || ended.summary())
}

/// A directory stands for the SPIR-V modules and executables in it.
fn compares_a_directory() -> Outcome {
    let (capture, scratch) = (find("add4.add")?, tempfile::tempdir()?);
    for (name, from) in [("a.spv", SWAPPED), ("b.vk1", "vulkan/executables/add4_swapped.0.vk1")] {
        fs::copy(fixture(from), scratch.path().join(name))?;
    }
    let (function, with) = (format!("--function={ADD}"), format!("--with={}", scratch.path().display()));
    let ended = rehal(&["compare", "--device=vulkan", &function, &with, SAME, &path(&capture.path)])?;
    let said = stdout(&ended);
    let is_named = ["a.spv", "b.vk1"].iter().all(|name| said.contains(name));
    ensure(ended.code == Some(2) && is_named, || format!("{}\n{said}", ended.summary()))
}

const ADD: &str = "add_dispatch_0_elementwise_4_f32";

/// The executable of the first kernel, as a file, and the kernel's name.
fn captured_kernel(capture: &Capture, scratch: &Path) -> Result<(String, String), Failed> {
    let directory = scratch.join("records");
    let flag = format!("--directory={}", directory.display());
    let ended = rehal(&["kernel", "record", "--device=vulkan", &flag, &path(&capture.path)])?;
    ensure(ended.succeeded(), || ended.summary())?;
    let function = catalog(capture)?["kernels"][0]["function"].as_str().unwrap_or_default().to_owned();
    let images = fs::read_dir(&directory)?.collect::<Result<Vec<_>, _>>()?;
    let image = images.iter().map(fs::DirEntry::path).find(|path| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with(&function) && name.ends_with(".image")
    });
    Ok((path(&image.ok_or("the executable is not recorded")?), function))
}

/// The sum of `add4`, after a loop that no result depends on, which the compiler cannot know.
const SLOW: &str = "
#each = affine_map<(i) -> (i)>
func.func @add(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {
  %empty = tensor.empty() : tensor<4xf32>
  %r = linalg.generic {indexing_maps = [#each, #each, #each], iterator_types = [\"parallel\"]}
    ins(%a, %b : tensor<4xf32>, tensor<4xf32>) outs(%empty : tensor<4xf32>) {
  ^bb0(%x: f32, %y: f32, %out: f32):
    %from = arith.constant 0 : index
    %to = arith.constant 200000 : index
    %step = arith.constant 1 : index
    %zero = arith.constant 0.0 : f32
    %two = arith.constant 2.0 : f32
    %sine = scf.for %i = %from to %to step %step iter_args(%last = %zero) -> f32 {
      %next = arith.addf %last, %x : f32
      %sine = math.sin %next : f32
      scf.yield %sine : f32
    }
    %never = arith.cmpf ogt, %sine, %two : f32
    %sum = arith.addf %x, %y : f32
    %twice = arith.mulf %sum, %two : f32
    %result = arith.select %never, %twice, %sum : f32
    linalg.yield %result : f32
  } -> tensor<4xf32>
  return %r : tensor<4xf32>
}
";

/// A kernel that computes the same bytes in more time.
fn slower() -> Outcome {
    let capture = find("add4.add")?;
    let scratch = tempfile::tempdir()?;
    let with = compile_executable(SLOW, scratch.path())?;
    let ended = rehal(&[
        "compare",
        "--device=vulkan",
        &format!("--function={ADD}"),
        &format!("--with={}", with.display()),
        SAME,
        "--max_time=20s",
        "--cache=warm",
        &path(&capture.path),
    ])?;
    let said = stdout(&ended);
    ensure(ended.code == Some(3) && said.contains("\nright "), || format!("{}\n{said}", ended.summary()))
}

/// A capture is reduced to the dispatch that a check asks for; the reference replays it.
fn reduces() -> Outcome {
    let capture = find("mlp.mlp")?;
    let scratch = tempfile::tempdir()?;
    let reduced = path(&scratch.path().join("reduced.ireereplay"));
    let check = format!(
        "--check={} kernels --device=vulkan {{}} | grep -q matmul_8x48x48",
        tool::ours("rehal")?.display()
    );
    let ended = rehal(&["reduce", &check, &path(&capture.path), "-o", &reduced])?;
    ensure(ended.succeeded(), || ended.summary())?;
    let replay = vec!["--device=vulkan".to_owned(), reduced.clone()];
    let pair = Pair::find("iree-run-replay")?;
    let theirs = tool::run(&pair.theirs, &replay, scratch.path())?;
    ensure(theirs.succeeded(), || format!("their replay ends with {}", theirs.summary()))?;
    let reduced = Capture { path: reduced.into(), ..capture };
    let (ours, _) = run_with_reads(&pair, &reduced, replay)?;
    ensure(ours.succeeded(), || ours.summary())?;
    let kernels = &catalog(&reduced)?["kernels"];
    ensure(kernels.as_array().is_some_and(|it| it.len() == 1), || kernels.to_string())
}
