//! Programs that are compiled here by the pinned release, and those of the corpus: both tools compute the
//! same bytes on the same driver, and replay each other's recordings.

use super::record_by_reference;
use crate::replays::run_with_reads;
use crate::{Outcome, Pair, ensure, fixture};
use libtest_mimic::{Failed, Trial};
use oracle::captures::{Capture, corpus, repository};
use oracle::e2e::{Compiled, ON_VULKAN, Program};
use oracle::reads::HostRead;
use oracle::reference::Reference;
use oracle::tool::{self, Ended};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A call: program or module, function, and inputs.
pub type Call = (&'static str, &'static str, &'static [&'static str]);

/// Calls of programs of the fixtures.
pub const PROGRAMS: [Call; 9] = [
    (
        "models",
        "classifier",
        &["1x34x34x3xf32=0.5", "3x3x3x16xf32=0.01", "3x3x16x32xf32=0.02", "1568x10xf32=0.03"],
    ),
    (
        "models",
        "transformer",
        &[
            "64x64xf32=0.5",
            "64x64xf32=0.01",
            "64x64xf32=0.02",
            "64x64xf32=0.03",
            "64x256xf32=0.04",
            "256x64xf32=0.05",
        ],
    ),
    ("vmvx_speed", "matmul", &["128x128xf32=0.7", "128x128xf32=1.1"]),
    ("vmvx_speed", "reduction", &["512x512xf32=0.3"]),
    ("vmvx_speed", "conv", &["1x34x34x8xf32=0.5", "3x3x8x8xf32=1.5"]),
    ("vmvx_speed", "softmax", &["64x256xf32=0.5"]),
    ("vmvx_speed", "relu", &["256x256xi8=-5"]),
    ("vmvx_speed", "gather", &["1000x64xf32=0.5", "256xi32=7"]),
    ("vmvx_speed", "layer_norm", &["128x256xf32=0.5", "256xf32=1.5", "256xf32=2.5"]),
];

/// Calls of modules of the corpus that are compiled for Vulkan; inputs that start with `@` are its files.
pub const CORPUS: [Call; 6] = [
    ("simple_abs.vulkan", "abs", &["f32=-7.25"]),
    ("add4.vulkan", "add", &["4xf32=1 2 3 4", "4xf32=10 20 30 40"]),
    ("matmul_128.vulkan", "matmul", &["@mm128a.npy", "@mm128b.npy"]),
    ("matmul_static.vulkan", "matmul_static", &["3x5xf32=1", "5x3xf32=2", "3x3xf32=0.5"]),
    ("mlp.vulkan", "mlp", &["@mlpx.npy", "@mlpw0.npy", "@mlpw1.npy", "@mlpw2.npy"]),
    ("dynamic.vulkan", "dyn", &["3x7xf32=2", "3x7xf32=1.5"]),
];

/// The functions that return two tensors; the others return one.
pub const TWO_RESULTS: [&str; 2] = ["mlp", "dyn"];

const ABIS: [&str; 2] = ["descriptors", "bda"];

pub fn add(trials: &mut Vec<Trial>) {
    for (program, function, inputs) in PROGRAMS {
        for abi in ABIS {
            let name = format!("vulkan::computed::{program}.{function}.{abi}");
            trials.push(Trial::test(name, move || {
                let inputs: Vec<_> = inputs.iter().map(ToString::to_string).collect();
                same(&compiled(program, abi)?, function, &inputs)
            }));
        }
    }
    let Some(corpus) = corpus() else { return };
    for (module, function, inputs) in CORPUS {
        let path = corpus.join(format!("modules/{module}.vmfb"));
        let files = format!("@{}/", corpus.join("inputs").display());
        let inputs: Vec<_> = inputs.iter().map(|input| input.replace('@', &files)).collect();
        let name = format!("vulkan::computed::corpus/{module}.{function}");
        trials.push(Trial::test(name, move || same(&path, function, &inputs)));
    }
}

/// A program of the fixtures, compiled for Vulkan.
fn compiled(name: &str, abi: &str) -> Result<PathBuf, Failed> {
    let program = Program {
        name: format!("vulkan/{name}.{abi}"),
        source: fixture(&format!("programs/{name}.mlir")),
        flags: vec![
            ON_VULKAN.to_owned(),
            "--iree-vulkan-target=turing".to_owned(),
            format!("--iree-vulkan-dispatch-abi={abi}"),
        ],
    };
    match program.compile(&Reference::find(&repository())?, &repository().join("target/e2e"))? {
        Compiled::Module(module) => Ok(module),
        Compiled::Refused(said) => Err(said.into()),
    }
}

fn same(module: &Path, function: &str, inputs: &[String]) -> Outcome {
    let scratch = tempfile::tempdir()?;
    let mut call = vec![
        "--device=vulkan".to_owned(),
        format!("--module={}", module.display()),
        format!("--function={function}"),
    ];
    call.extend(inputs.iter().map(|input| format!("--input={input}")));
    let pair = Pair::find("iree-run-module")?;
    let count = if TWO_RESULTS.contains(&function) { 2 } else { 1 };
    let run = |program: &Path, whose: &str| -> Result<Vec<Vec<u8>>, Failed> {
        let files: Vec<_> =
            (0..count).map(|index| scratch.path().join(format!("{whose}.{index}.bin"))).collect();
        let outputs: Vec<_> = files.iter().map(|file| format!("--output=+{}", file.display())).collect();
        let ended = tool::run(program, &[&call[..], &outputs].concat(), scratch.path())?;
        ensure(ended.succeeded(), || format!("{}: {}", program.display(), ended.summary()))?;
        Ok(files.iter().map(fs::read).collect::<io::Result<_>>()?)
    };
    let (mine, wanted) = (run(&pair.ours, "ours")?, run(&pair.theirs, "theirs")?);
    ensure(!wanted[0].is_empty() && mine == wanted, || "the bytes of the results differ".to_owned())?;

    // Their recording, here and there.
    let theirs = scratch.path().join("theirs.ireereplay");
    record_by_reference(&pair, &call, &theirs)?;
    let replay = Pair::find("iree-run-replay")?;
    for order in ["serialized", "captured"] {
        let (ours, reads) = replayed(&replay, &theirs, order)?;
        ensure(ours.succeeded(), || format!("{order}: {}", ours.summary()))?;
        // Buffers end with padding.
        let is_read = |bytes: &Vec<u8>| reads.iter().any(|read| read.bytes.starts_with(bytes));
        ensure(wanted.iter().all(is_read), || format!("{order}: the results are not in the reads"))?;
    }

    // Ours, there and here.
    let ours = scratch.path().join("ours.ireereplay");
    let arguments = [&call[..], &[format!("--device_replay_output={}", ours.display())]].concat();
    let recorded = tool::run(&pair.ours, &arguments, scratch.path())?;
    ensure(recorded.succeeded(), || format!("our recording: {}", recorded.summary()))?;
    let (here, _) = replayed(&replay, &ours, "serialized")?;
    ensure(here.succeeded(), || format!("our replay of ours: {}", here.summary()))?;
    let there = ["--device=vulkan".to_owned(), ours.display().to_string()];
    let there = tool::run(&replay.theirs, &there, scratch.path())?;
    ensure(there.succeeded(), || format!("their replay of ours: {}", there.summary()))
}

fn replayed(pair: &Pair, path: &Path, order: &str) -> Result<(Ended, Vec<HostRead>), Failed> {
    let capture = Capture {
        name: "vulkan/recorded".to_owned(),
        path: path.to_owned(),
        directory: path.parent().unwrap_or(path).to_owned(),
        printed: None,
        remaps: Vec::new(),
    };
    let arguments = vec![
        "--device=vulkan".to_owned(),
        format!("--replay_order={order}"),
        "--replay_host_reads_limit_bytes=1048576".to_owned(),
        path.display().to_string(),
    ];
    run_with_reads(pair, &capture, arguments)
}
