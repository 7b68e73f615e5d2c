//! Programs with parameters: they compute the same as with the reference, and the records up to the first
//! function call match the reference's.

use crate::{Outcome, Pair, ensure, fixture};
use libtest_mimic::{Failed, Trial};
use oracle::captures;
use oracle::reference::Reference;
use oracle::tool;
use std::fs;
use std::path::Path;

const RUN: &str = "iree-run-module";

/// The recorder's file policy.
const POLICIES: [(&str, &str); 3] = [
    ("identity", "--device_replay_file_validation=identity"),
    ("digest", "--device_replay_file_validation=digest"),
    ("ranges", "--device_replay_file_policy=capture-ranges"),
];

/// A constant of each storage kind, and a variable that the program modifies.
const PROGRAM: &str = r#"
util.global private @splat = #flow.parameter.named<"m"::"splat"> : tensor<5xf32>
util.global private mutable @sum = #flow.parameter.named<"m"::"sum"> : tensor<1000xf32>
util.global private @data = #flow.parameter.named<"m"::"data"> : tensor<8xf32>
func.func @add(%x: tensor<1000xf32>) -> (tensor<1000xf32>, tensor<5xf32>, tensor<8xf32>) {
  %splat = util.global.load @splat : tensor<5xf32>
  %sum = util.global.load @sum : tensor<1000xf32>
  %data = util.global.load @data : tensor<8xf32>
  %new = arith.addf %x, %sum : tensor<1000xf32>
  util.global.store %new, @sum : tensor<1000xf32>
  %twice = arith.addf %splat, %splat : tensor<5xf32>
  %square = arith.mulf %data, %data : tensor<8xf32>
  return %new, %twice, %square : tensor<1000xf32>, tensor<5xf32>, tensor<8xf32>
}
"#;

pub fn add(trials: &mut Vec<Trial>) {
    for (name, flag) in POLICIES {
        trials.push(Trial::test(format!("parameters::recorded::{name}"), move || recorded(flag)));
    }
    trials.push(Trial::test("parameters::recorded::preloaded", preloaded));
    trials.push(Trial::test("parameters::every_mode", every_mode));
}

/// The arguments that run the fixture model.
fn model() -> Vec<String> {
    vec![
        "--device=local-sync".to_owned(),
        format!("--module={}", fixture("modules/params.vmfb").display()),
        "--function=forward".to_owned(),
        format!("--input=@{}", fixture("inputs/params_x.npy").display()),
        format!("--parameters=model={}", fixture("params/model.irpa").display()),
    ]
}

/// Runs a tool that must succeed; returns its output.
fn succeed(program: &Path, words: &[String], directory: &Path) -> Result<String, Failed> {
    let ended = tool::run(program, words, directory)?;
    ensure(ended.succeeded(), || format!("{} {words:?}: {}", program.display(), ended.summary()))?;
    Ok(String::from_utf8_lossy(&ended.stdout).into_owned())
}

fn recorded(policy: &str) -> Outcome {
    let scratch = tempfile::tempdir()?;
    let run = Pair::find(RUN)?;
    let dump = Pair::find("iree-dump-replay")?.theirs;
    let record = |program: &Path, name: &str| -> Result<(String, Vec<String>), Failed> {
        let mut words = model();
        words.extend([policy.to_owned(), format!("--device_replay_output={name}")]);
        let printed = succeed(program, &words, scratch.path())?;
        Ok((printed, loading(&succeed(&dump, &[name.to_owned()], scratch.path())?)))
    };
    let (ours, our_records) = record(&run.ours, "ours.ireereplay")?;
    let (theirs, their_records) = record(&run.theirs, "theirs.ireereplay")?;
    ensure(ours == theirs, || format!("ours:\n{ours}\ntheirs:\n{theirs}"))?;
    ensure(their_records.iter().any(|line| line.contains("queue_read")), || "no file was read".into())?;
    let differ = our_records.iter().zip(&their_records).find(|(ours, theirs)| ours != theirs);
    ensure(our_records == their_records, || format!("records differ: {differ:#?}"))
}

/// The records before the first function call, without nondeterministic parts.
fn loading(dump: &str) -> Vec<String> {
    const CHANCE: [&str; 5] = ["@", "thread=", "file_device=", "file_inode=", "file_mtime_ns="];
    // The first record, of the session, announces checksums in ours.
    let records = dump.lines().filter(|line| line.starts_with("  @") && !line.contains(" session  "));
    let loading = records.take_while(|line| !line.contains("name=\"execute\""));
    let words = |line: &str| {
        let kept = line.split_whitespace().filter(|word| !CHANCE.iter().any(|it| word.starts_with(it)));
        // Offsets in the file are nondeterministic.
        let kept = kept.map(|word| word.split_once("range=[").map_or(word, |(name, _)| name));
        kept.collect::<Vec<_>>().join(" ")
    };
    loading.map(words).collect()
}

/// For preloaded files, only the bytes that the program sees are recorded, and the reference can replay them.
fn preloaded() -> Outcome {
    let scratch = tempfile::tempdir()?;
    let mut words = model();
    words.extend(["--parameter_mode=preload", "--device_replay_output=ours.ireereplay"].map(str::to_owned));
    succeed(&Pair::find(RUN)?.ours, &words, scratch.path())?;
    let capture = fs::metadata(scratch.path().join("ours.ireereplay"))?.len();
    let parameters = fs::metadata(fixture("params/model.irpa"))?.len();
    // The reference records at least 64 KiB per parameter, once per parameter plus one.
    ensure(capture < parameters + (40 << 10), || format!("{capture} bytes for {parameters}"))?;
    let words = ["--device=local-sync".to_owned(), "ours.ireereplay".to_owned()];
    succeed(&Pair::find("iree-run-replay")?.theirs, &words, scratch.path()).map(drop)
}

fn every_mode() -> Outcome {
    let scratch = tempfile::tempdir()?;
    let directory = scratch.path();
    fs::write(directory.join("program.mlir"), PROGRAM)?;
    let compile = Reference::find(&captures::repository())?.tool("iree-compile");
    let own = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let target = ["--iree-hal-target-device=local", "--iree-hal-local-target-device-backends=vmvx"];
    succeed(&compile, &own(&[&target[..], &["program.mlir", "-o", "program.vmfb"]].concat()), directory)?;
    let values = ["--splat=splat=5xf32=1.5", "--data=sum=1000xf32=2.25", "--data=data=8xf32=1,2,3,4,5,6,7,8"];
    let create = own(&[&values[..], &["--output=m.irpa", "--quiet"]].concat());
    succeed(&Pair::find("iree-create-parameters")?.ours, &create, directory)?;
    let run = Pair::find(RUN)?;
    let words = ["--device=local-sync", "--module=program.vmfb", "--function=add", "--input=1000xf32=1"];
    let words = own(&[&words[..], &["--parameters=m=m.irpa"]].concat());
    let expected = succeed(&run.theirs, &words, directory)?;
    ensure(expected.contains("3.25") && expected.contains("5xf32=3 3 3"), || expected.clone())?;
    for mode in ["file", "mmap", "preload"] {
        let words = [words.clone(), vec![format!("--parameter_mode={mode}")]].concat();
        let printed = succeed(&run.ours, &words, directory)?;
        ensure(printed == expected, || format!("{mode}: {printed}"))?;
    }
    Ok(())
}
