//! Runs the tools as a user does.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The command lines of all tools for captures.
pub const TOOLS: [&[&str]; 4] =
    [&["iree-run-replay"], &["iree-dump-replay"], &["iree-benchmark-replay"], &["rehal", "info"]];

/// The outcome of a tool.
#[derive(Debug)]
pub struct Ran {
    pub status: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

/// A command for a tool, without the environment variables that it reads.
pub fn command(tool: &str) -> Command {
    let mut command = Command::new(path_of(tool));
    for (name, _) in std::env::vars()
        .filter(|(name, _)| ["BENCHMARK_", "GTEST_", "REHAL_"].iter().any(|it| name.starts_with(it)))
    {
        command.env_remove(name);
    }
    // What a developer has measured of this machine changes reports.
    command.env("REHAL_CACHE_DIR", concat!(env!("CARGO_TARGET_TMPDIR"), "/cache"));
    command.stdin(Stdio::null());
    command
}

/// The path of a tool. Those with IREE's names are links beside the program.
pub fn path_of(tool: &str) -> PathBuf {
    Path::new(env!("CARGO_BIN_EXE_rehal")).with_file_name(tool)
}

/// Runs a tool; the first word is its name.
pub fn run(words: &[&str]) -> Ran {
    ran(command(words[0]).args(&words[1..]).output().expect("tools can be started"))
}

/// Runs a tool that must succeed; returns its standard output.
pub fn print(words: &[&str]) -> String {
    let ran = run(words);
    assert_eq!(ran.status, Some(0), "{words:?}: {ran:?}");
    ran.stdout
}

/// Runs a tool that must exit with status 1, print nothing on standard output, and print an error with
/// advice; returns its standard error.
pub fn fail(words: &[&str]) -> String {
    let ran = run(words);
    assert_eq!((ran.status, ran.stdout.as_str()), (Some(1), ""), "{words:?}: {}", ran.stderr);
    let first = ran.stderr.lines().next().unwrap_or_default();
    let (code, message) = first.split_once("; ").unwrap_or_else(|| panic!("{words:?}: {}", ran.stderr));
    assert!(code.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_'), "{words:?}: {first}");
    assert!(!message.is_empty(), "{words:?}");
    assert!(ran.stderr.contains("\n  try: "), "{words:?} gives no advice: {}", ran.stderr);
    ran.stderr
}

pub fn ran(output: Output) -> Ran {
    Ran {
        status: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// The path of a fixture.
pub fn fixture(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
    let path = root.join(path);
    assert!(path.exists(), "{} is missing", path.display());
    path.to_str().expect("the checkout's path is UTF-8").to_string()
}

/// The path of a fixture's capture.
pub fn capture(name: &str) -> String {
    fixture(&format!("captures/{name}.ireereplay"))
}

/// Writes the source of a kernel: the stub of a function of a capture, with `body` in the place of its own.
pub fn write_kernel(path: &Path, capture: &str, function: &str, body: &str) {
    const PLACE: &str = "// Compute item i here.";
    let function = format!("--function={function}");
    // A stub does not overwrite a source, and one that is watched is replaced at once.
    let stub = path.with_extension("stub.c");
    print(&["rehal", "kernel", "stub", "--no_run", &function, capture, "-o", stub.to_str().unwrap()]);
    let text = std::fs::read_to_string(&stub).unwrap();
    std::fs::remove_file(&stub).unwrap();
    assert!(text.contains(PLACE) && text.contains("return 1;"), "{text}");
    std::fs::write(path, text.replacen(PLACE, body, 1).replacen("return 1;", "return 0;", 1)).unwrap();
}

/// Records a dispatch of the kernel of `add4.add` with this body over buffers of `count` elements; returns
/// the path of the capture.
pub fn record_add(scratch: &Scratch, body: &str, count: u32) -> String {
    record_bound(scratch, body, [1, 2, 7].map(|value| format!("{count}xf32={value}")))
}

/// The same with these bindings.
pub fn record_bound(scratch: &Scratch, body: &str, bindings: [String; 3]) -> String {
    let [source, library, recorded] =
        ["recorded.c", "recorded.so", "recorded.ireereplay"].map(|name| scratch.path(name));
    write_kernel(&source, &capture("add4.add.local-sync"), "add_dispatch_0_elementwise_4_f32", body);
    print(&["rehal", "kernel", "build", source.to_str().unwrap(), "-o", library.to_str().unwrap()]);
    let file = format!("--executable_file={}", library.display());
    let recording = format!("--device_replay_output={}", recorded.display());
    let bindings = bindings.map(|it| format!("--binding={it}"));
    let [first, second, third] = bindings.each_ref().map(String::as_str);
    let once = ["--workgroup_count=1,1,1", "--batch_size=1", "--benchmark_min_time=1x"];
    let tool = ["iree-benchmark-executable", "--device=local-sync", &file, &recording, first, second, third];
    print(&[&tool[..], &once].concat());
    recorded.to_str().expect("scratch paths are UTF-8").to_string()
}

/// A temporary directory.
pub struct Scratch(tempfile::TempDir);

impl Scratch {
    pub fn new() -> Self {
        Self(tempfile::tempdir().expect("scratch directories can be created"))
    }

    /// Writes a file; returns its path.
    pub fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> String {
        let path = self.path(name);
        std::fs::write(&path, bytes).expect("scratch files can be written");
        path.to_str().expect("scratch paths are UTF-8").to_string()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

/// `bytes` with each `from` replaced by `to` of the same length; there must be at least one.
pub fn patched(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    let mut patched = bytes.to_vec();
    let mut count = 0;
    for at in 0..=patched.len() - from.len() {
        if &patched[at..at + from.len()] == from {
            patched[at..at + from.len()].copy_from_slice(to);
            count += 1;
        }
    }
    assert!(count > 0, "nothing to patch");
    patched
}

/// Writes the kernels of the chain with fault `number` of `fixtures/cts/chain.c`; returns the path.
pub fn faulty_chain(scratch: &Scratch, number: u8) -> String {
    const MARK: &[u8] = b"REHAL-FAULT\0";
    let mut bytes = std::fs::read(fixture("cts/chain.so")).expect("fixtures can be read");
    let mark = bytes.windows(MARK.len()).position(|bytes| bytes == MARK).expect("the library has the mark");
    bytes[mark + MARK.len()] = number;
    scratch.file(&format!("{number}.so"), bytes)
}
