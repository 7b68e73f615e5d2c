use super::Command;
use super::objects;
use super::programs::{Programs, SHARED};
use crate::reference::Reference;
use crate::tool::{self, Ended};
use std::fmt::Write as _;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Timeout of a command: several compilations on a busy machine.
const LIMIT: Duration = Duration::from_secs(600);

/// Maximum length of each quoted text in a message.
const KEPT: usize = 3000;

/// The file for FileCheck's input, in the working directory of a command.
const CHECKED: &str = "filecheck.input";

/// `not`: succeeds if its command fails without being killed by a signal; with `--crash`, if it is killed.
const NOT: &str = r#"#!/usr/bin/env bash
crash=
if [[ $1 == --crash ]]; then crash=yes; shift; fi
"$@"
status=$?
if [[ $crash ]]; then (( status >= 128 )); else (( status > 0 && status < 128 )); fi
"#;

/// `iree-run-mlir`, which the release lacks: compiles, then runs.
const RUN_MLIR: &str = r#"#!/usr/bin/env bash
set -o pipefail
compile=() run=()
for argument; do
  case $argument in
    -Xcompiler,* | --Xcompiler,*) compile+=("--${argument#*-Xcompiler,}") ;;
    - | [!-]*) compile+=("$argument") ;;
    *) run+=("$argument") ;;
  esac
done
iree-compile "${compile[@]}" | iree-run-module --module=- "${run[@]}"
"#;

/// The tools on a command's `PATH`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tools {
    /// The release's.
    Release,
    /// Ours, with the release's compiler.
    Ours,
}

/// The result of a command.
#[derive(Debug)]
pub struct Outcome {
    /// The shell's exit status and output.
    pub ended: Ended,
    /// FileCheck's input.
    pub checked: String,
}

impl Outcome {
    /// Whether the output contains `words`.
    pub fn says(&self, words: &str) -> bool {
        let said = [&self.ended.stdout, &self.ended.stderr]
            .map(|said| String::from_utf8_lossy(said).contains(words));
        said.contains(&true)
    }

    /// Exit status, end of the output, and FileCheck's input, for a message.
    pub fn report(&self) -> String {
        let (stdout, stderr) = (last(&self.ended.stdout), last(&self.ended.stderr));
        let checked: String = self.checked.chars().take(KEPT).collect();
        let how = format!("status {:?}, signal {:?}", self.ended.code, self.ended.signal);
        format!("{how}\n{stdout}{stderr}\n-- FileCheck input --\n{checked}")
    }
}

/// The end of the output: the compiler's warnings come first.
fn last(said: &[u8]) -> String {
    String::from_utf8_lossy(&said[said.len().saturating_sub(KEPT)..]).into_owned()
}

/// A working directory for commands, with the programs on their `PATH`.
#[derive(Debug)]
pub struct Sandbox<'a> {
    reference: &'a Reference,
    source: &'a Path,
    directory: &'a Path,
    programs: PathBuf,
}

impl<'a> Sandbox<'a> {
    /// Creates a sandbox in the empty directory `directory` for tests of the tree `source`.
    pub fn new(
        reference: &'a Reference,
        tools: Tools,
        source: &'a Path,
        directory: &'a Path,
    ) -> io::Result<Self> {
        for path in [source, directory, reference.directory()] {
            plain(path)?;
        }
        let programs = directory.join("programs");
        fs::create_dir_all(&programs)?;
        let link = |name: &str, program: &Path| {
            let found = program.canonicalize();
            let found = found
                .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", program.display())))?;
            symlink(found, programs.join(name))
        };
        for name in SHARED {
            link(name, &reference.tool(name))?;
        }
        let all = Programs::new();
        match tools {
            Tools::Release => all.replaced().try_for_each(|name| link(name, &reference.tool(name)))?,
            Tools::Ours => {
                all.ours().try_for_each(|name| link(name, &tool::ours(name).map_err(io::Error::other)?))?
            }
        }
        let script = |name: &str, text: &str| {
            let path = programs.join(name);
            fs::write(&path, text)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755))
        };
        script("not", NOT)?;
        script("iree-run-mlir", RUN_MLIR)?;
        let checker = program_of(reference, "filecheck")?;
        let check = format!("tee -a {CHECKED} | {} \"$@\"", quoted(&checker));
        script("FileCheck", &format!("#!/usr/bin/env bash\nset -o pipefail\n{check}\n"))?;
        Ok(Self { reference, source, directory, programs })
    }

    /// Runs a command after those it depends on; stops at the first failure. Objects of the samples are
    /// compiled once, into `cache`.
    pub fn run(&self, command: &Command, cache: &Path) -> io::Result<Outcome> {
        let mut script = format!("export PATH={}:\"$PATH\"\nset -o pipefail\n", quoted(&self.programs));
        if command.all().any(|text| text.contains("$IREE_BINARY_DIR")) {
            let objects = objects::build(self.reference, self.source, cache)?;
            writeln!(script, "export IREE_BINARY_DIR={} IREE_DYLIB_EXT=.so", quoted(&objects))
                .map_err(io::Error::other)?;
        }
        let python = program_of(self.reference, "python")?;
        let parts: Vec<String> = command
            .all()
            .map(|text| format!("{{ {}\n}}", substituted(text, &command.file, self.directory, &python)))
            .collect();
        script.push_str(&parts.join(" &&\n"));
        // Kills the whole pipeline of a command that hangs, not only the shell.
        let timeout = ["--signal=KILL", &LIMIT.as_secs().to_string(), "bash", "-c", &script];
        let ended = tool::run_within(LIMIT * 2, Path::new("timeout"), &timeout, self.directory)?;
        let checked = match fs::read(self.directory.join(CHECKED)) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
            Err(error) => return Err(error),
        };
        Ok(Outcome { ended, checked })
    }
}

/// Applies lit's substitutions.
fn substituted(text: &str, file: &Path, directory: &Path, python: &Path) -> String {
    let beside = file.parent().unwrap_or(Path::new("/"));
    let temporary = directory.join(file.file_name().unwrap_or_default()).with_added_extension("tmp");
    let percent = Path::new("%");
    let substitutions = [
        ("%PYTHON", python),
        ("%s", file),
        ("%S", beside),
        ("%p", beside),
        ("%t", &*temporary),
        ("%%", percent),
        // An unknown substitution is kept.
        ("%", percent),
    ];
    let mut substituted = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('%') {
        let (before, from) = rest.split_at(at);
        substituted.push_str(before);
        let found =
            substitutions.iter().find_map(|(pattern, value)| Some((from.strip_prefix(pattern)?, value)));
        let (after, value) = found.unwrap_or(("", &percent));
        substituted.push_str(&value.display().to_string());
        rest = after;
    }
    substituted + rest
}

/// The absolute path of a program of the virtual environment.
fn program_of(reference: &Reference, name: &str) -> io::Result<PathBuf> {
    // Symlinks are kept: the target of the environment's `python` does not find its packages.
    std::path::absolute(reference.script(name).map_err(io::Error::other)?)
}

/// Rejects a path that the shell would not parse as one word without quotes.
fn plain(path: &Path) -> io::Result<()> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._+-@,".contains(&byte);
    if path.as_os_str().as_encoded_bytes().iter().copied().all(is_plain) {
        return Ok(());
    }
    let what = "RUN lines need a path without whitespace and shell metacharacters";
    Err(io::Error::new(ErrorKind::InvalidInput, format!("{}: {what}", path.display())))
}

/// A path quoted for the shell.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn substitutions_are_made() {
        let made =
            |text| substituted(text, Path::new("/a/b.mlir"), Path::new("/tmp/x"), Path::new("/bin/py"));
        assert_eq!(
            made("%s -o=@%t.npy %S/%p %% %d \"%PYTHON\" 5%"),
            "/a/b.mlir -o=@/tmp/x/b.mlir.tmp.npy /a//a % %d \"/bin/py\" 5%"
        );
    }

    fn bash(script: &str, arguments: &[&str], path: &Path) -> Ended {
        let script = format!("PATH={}:\"$PATH\"\n{script}", quoted(path));
        tool::run(Path::new("bash"), &[&["-c", &script, "x"], arguments].concat(), path).unwrap()
    }

    #[test]
    fn not_inverts_failures_but_not_crashes() {
        let not = |arguments: &[&str]| bash(NOT, arguments, Path::new("/")).succeeded();
        assert!(not(&["false"]));
        assert!(!not(&["true"]));
        assert!(!not(&["bash", "-c", "kill -SEGV $$"]));
        assert!(not(&["--crash", "bash", "-c", "kill -SEGV $$"]));
        assert!(!not(&["--crash", "false"]));
    }

    #[test]
    fn run_mlir_splits_flags() {
        let directory = tempfile::tempdir().unwrap();
        for (name, text) in [("iree-compile", "echo \"$@\""), ("iree-run-module", "cat; echo \"$@\"")] {
            let path = directory.path().join(name);
            fs::write(&path, format!("#!/usr/bin/env bash\n{text}\n")).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let flags = ["--Xcompiler,a=1", "x.mlir", "-Xcompiler,b", "--input=2 3", "-"];
        let ended = bash(RUN_MLIR, &flags, directory.path());
        assert_eq!(
            String::from_utf8_lossy(&ended.stdout),
            "--a=1 x.mlir --b -\n--module=- --input=2 3\n",
            "{ended:?}"
        );
    }

    #[test]
    fn paths_with_metacharacters_are_rejected() {
        assert!(plain(Path::new("/a-b/c_d.e")).is_ok());
        assert!(plain(Path::new("/a b")).unwrap_err().to_string().contains("/a b: "));
    }
}
