//! Generated inputs of the cases: captures that are too large or machine-specific to be checked in.

use std::error::Error;
use std::fs;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use oracle::reference::Reference;

use super::measure::Invocation;
use crate::run;

/// Paths of inputs and generated files.
pub struct Workplace {
    fixtures: PathBuf,
    corpus: Option<PathBuf>,
    scratch: PathBuf,
    reference: Reference,
    tools: PathBuf,
}

/// A 1 GiB parameter, read whole: one tensor, one row of which is returned.
const BIG_PARAMETER: &str = include_str!("programs/big_parameter.mlir");

/// An addition that is bound by memory, of buffers that are larger than what allocators keep.
const LARGE_ADD: &str = include_str!("programs/large_add.mlir");

/// Calls in the long capture; nine records each make 1.8 million.
const LONG_CALLS: u32 = 200_000;

/// The result of generating a file.
pub type Made = Result<PathBuf, Box<dyn Error>>;

impl Workplace {
    /// Uses `target/bench` under `root` for generated files, and for a copy of the tools in `tools`: that is
    /// what users start. A file that a linker has written starts up to a fifth slower than a copy of it.
    pub fn new(root: &Path, reference: Reference, tools: &Path) -> Result<Self, Box<dyn Error>> {
        let scratch = root.join("target/bench");
        let copies = scratch.join("tools");
        fs::create_dir_all(&copies)?;
        for entry in fs::read_dir(tools)? {
            let entry = entry?;
            let (name, copy) = (entry.file_name(), copies.join(entry.file_name()));
            if name != "rehal" && !entry.file_type()?.is_symlink() {
                continue;
            }
            if copy.symlink_metadata().is_ok() {
                fs::remove_file(&copy)?;
            }
            match name == "rehal" {
                true => fs::copy(entry.path(), copy).map(drop)?,
                false => symlink("rehal", copy)?,
            }
        }
        Ok(Self {
            fixtures: root.join("fixtures"),
            corpus: oracle::captures::corpus(),
            scratch,
            reference,
            tools: copies,
        })
    }

    /// The reference's and our program with this name.
    pub fn pair(&self, name: &str) -> (PathBuf, PathBuf) {
        (self.reference.tool(name), self.tools.join(name))
    }

    /// A run of `rehal`.
    pub fn ours(&self, arguments: &[&str]) -> Invocation {
        Invocation { program: self.tools.join("rehal"), arguments: words(arguments) }
    }

    /// The output of a program, which must succeed.
    pub fn done(&self, invocation: &Invocation) -> Result<Vec<u8>, Box<dyn Error>> {
        let Invocation { program, arguments } = invocation;
        let ended = run::collect(program, arguments, &self.scratch)?;
        if ended.how == "status 0" {
            return Ok(ended.stdout);
        }
        let said = String::from_utf8_lossy(&ended.stderr);
        Err(format!("{} {}: {}: {said}", program.display(), arguments.join(" "), ended.how).into())
    }

    /// A capture from the corpus, else from the fixtures.
    pub fn capture(&self, name: &str) -> PathBuf {
        let file = format!("captures/{name}.ireereplay");
        let corpus = self.corpus.as_ref().map(|corpus| corpus.join(&file));
        corpus.filter(|path| path.is_file()).unwrap_or_else(|| self.fixtures.join(file))
    }

    /// A capture of the fixtures on Vulkan.
    pub fn vulkan_capture(&self, name: &str) -> PathBuf {
        self.fixtures.join(format!("vulkan/captures/{name}.ireereplay"))
    }

    pub fn has_corpus(&self) -> bool {
        self.corpus.is_some()
    }

    /// Captures a model on this machine, so that the identity of its parameter file matches.
    pub fn model_capture(&self, name: &str) -> Made {
        let path = self.scratch.join(format!("model.{name}.ireereplay"));
        let mut arguments = self.call_of(name)?;
        arguments.push("--device=local-sync".to_owned());
        self.record("iree-run-module", arguments, &path)?;
        Ok(path)
    }

    /// Module, parameters, function and inputs of a real model, as arguments.
    pub fn call_of(&self, name: &str) -> Result<Vec<String>, Box<dyn Error>> {
        let corpus = self.corpus.as_ref().ok_or("real models need the corpus, which is missing")?;
        let info: serde_json::Value =
            serde_json::from_slice(&fs::read(corpus.join(format!("models/{name}/info.json")))?)?;
        let base = info["base"].as_array().ok_or("info.json has no base arguments")?;
        let models = format!("{}/", corpus.join("models").display());
        let function = match name {
            "basic_pitch" | "magika" => "tf2onnx",
            "ppocr_cls" => "paddle-onnx",
            _ => "main_graph",
        };
        let arguments = base.iter().filter_map(|value| value.as_str());
        let arguments = arguments.map(|value| value.replace("onnx/", &models));
        Ok(arguments.chain([format!("--function={function}")]).collect())
    }

    /// A capture of a call whose inputs and result are 16 MiB each.
    pub fn large_capture(&self) -> Made {
        let module = self.compile("large_add", LARGE_ADD)?;
        let path = self.scratch.join("large_add.ireereplay");
        let arguments = vec![
            "--device=local-sync".to_owned(),
            format!("--module={}", module.display()),
            "--function=add".to_owned(),
            "--input=4194304xf32=1".to_owned(),
            "--input=4194304xf32=2".to_owned(),
        ];
        self.record("iree-run-module", arguments, &path)?;
        Ok(path)
    }

    /// A run of ours that must end with one of these statuses, in the shell's words, such as `0|3`.
    pub fn ours_ending(&self, statuses: &str, arguments: &[&str]) -> Invocation {
        let script = format!("\"$@\"; case $? in {statuses}) exit 0;; esac; exit 1");
        let rehal = self.tools.join("rehal").display().to_string();
        let arguments = words(&[&["-c", &script, "sh", &rehal], arguments].concat());
        Invocation { program: "/bin/sh".into(), arguments }
    }

    /// The capture of 1.8 million records.
    pub fn long_capture(&self) -> Made {
        let path = self.scratch.join("long.ireereplay");
        if !path.is_file() {
            let module = self.fixtures.join("modules/simple_abs.vmfb");
            let arguments = vec![
                "--device=local-sync".to_owned(),
                format!("--module={}", module.display()),
                "--function=abs".to_owned(),
                "--input=f32=-7.25".to_owned(),
                format!("--benchmark_min_time={LONG_CALLS}x"),
            ];
            self.record("iree-benchmark-module", arguments, &path)?;
        }
        Ok(path)
    }

    /// A capture made by an example of `rehal`.
    pub fn example_capture(&self, example: &str) -> Made {
        let path = self.scratch.join(format!("{example}.ireereplay"));
        let arguments = ["run", "--release", "--quiet", "--package", "rehal", "--example", example, "--"];
        let arguments = arguments.iter().map(ToString::to_string).chain([path.display().to_string()]);
        let ended = run::collect(Path::new("cargo"), &arguments.collect::<Vec<_>>(), &crate::root())?;
        if ended.how == "status 0" {
            return Ok(path);
        }
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        Err(format!("the example {example} ended with {}: {said}", ended.how).into())
    }

    /// A capture that reads 1 GiB of parameters by reference, validated by `validation`.
    pub fn parameter_capture(&self, validation: &str) -> Made {
        let module = self.compile("big", BIG_PARAMETER)?;
        let parameters = self.scratch.join("big.irpa");
        if !parameters.is_file() {
            // Written to a temporary name and renamed when complete, so that an interrupted run leaves no
            // partial file.
            let unfinished = self.scratch.join("big.irpa.unfinished");
            let output = format!("--output={}", unfinished.display());
            self.tool("iree-create-parameters", vec!["--data=w=16384x16384xf32".to_owned(), output])?;
            fill(&unfinished)?;
            fs::rename(&unfinished, &parameters)?;
        }
        let path = self.scratch.join(format!("big.{validation}.ireereplay"));
        let arguments = vec![
            "--device=local-sync".to_owned(),
            format!("--module={}", module.display()),
            "--function=row".to_owned(),
            "--input=1x16384xf32=2".to_owned(),
            format!("--parameters=big={}", parameters.display()),
            format!("--device_replay_file_validation={validation}"),
        ];
        self.record("iree-run-module", arguments, &path)?;
        Ok(path)
    }

    /// Compiles a program for every x86-64 processor; results are cached by source text.
    pub fn compile(&self, name: &str, text: &str) -> Made {
        let flags = [
            "--iree-hal-target-device=local",
            "--iree-hal-local-target-device-backends=llvm-cpu",
            "--iree-llvmcpu-target-triple=x86_64-unknown-linux-gnu",
            "--iree-llvmcpu-target-cpu=x86-64",
        ];
        self.compile_with(name, text, &flags)
    }

    /// Compiles a program with these flags; results are cached by name and source text.
    pub fn compile_with(&self, name: &str, text: &str, flags: &[&str]) -> Made {
        let (source, module) =
            (self.scratch.join(format!("{name}.mlir")), self.scratch.join(format!("{name}.vmfb")));
        if module.is_file() && fs::read_to_string(&source).is_ok_and(|there| there == text) {
            return Ok(module);
        }
        let unfinished = self.scratch.join(format!("{name}.vmfb.unfinished"));
        fs::write(&source, text)?;
        let files = [source.display().to_string(), "-o".to_owned(), unfinished.display().to_string()];
        self.tool("iree-compile", flags.iter().map(ToString::to_string).chain(files).collect())?;
        fs::rename(&unfinished, &module)?;
        Ok(module)
    }

    /// A file of the fixtures.
    pub fn fixture(&self, path: &str) -> PathBuf {
        self.fixtures.join(path)
    }

    /// The directory of generated files.
    pub fn made_directory(&self) -> &Path {
        &self.scratch
    }

    /// Runs a tool of the reference that records a capture. On Vulkan, it crashes when it ends, after it has
    /// closed the file.
    pub fn record(&self, tool: &str, mut arguments: Vec<String>, path: &Path) -> Result<(), Box<dyn Error>> {
        let may_crash = arguments.iter().any(|it| it == "--device=vulkan");
        arguments.push(format!("--device_replay_output={}", path.display()));
        self.tool_ending(tool, arguments, if may_crash { &["status 0", "signal 11"] } else { &["status 0"] })
    }

    /// Runs a tool of the reference, which must succeed.
    pub fn tool(&self, name: &str, arguments: Vec<String>) -> Result<(), Box<dyn Error>> {
        self.tool_ending(name, arguments, &["status 0"])
    }

    fn tool_ending(&self, name: &str, arguments: Vec<String>, ends: &[&str]) -> Result<(), Box<dyn Error>> {
        let ended = run::collect(&self.reference.tool(name), &arguments, &self.scratch)?;
        if ends.contains(&ended.how.as_str()) {
            return Ok(());
        }
        Err(format!("{name} ended with {}: {}", ended.how, String::from_utf8_lossy(&ended.stderr)).into())
    }
}

/// Overwrites the archive's only tensor, its last GiB: the reference leaves it sparse, and reading a hole
/// does not read a file.
fn fill(archive: &Path) -> Result<(), Box<dyn Error>> {
    const TENSOR_BYTES: u64 = 1 << 30;
    let mut file = fs::OpenOptions::new().write(true).open(archive)?;
    let start =
        file.metadata()?.len().checked_sub(TENSOR_BYTES).ok_or("the archive is smaller than its tensor")?;
    file.seek(SeekFrom::Start(start))?;
    let block: Vec<u8> = (0..1u32 << 18).flat_map(|n| (n as f32).to_le_bytes()).collect();
    for _ in 0..TENSOR_BYTES / block.len() as u64 {
        file.write_all(&block)?;
    }
    Ok(())
}

pub fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(ToString::to_string).collect()
}
