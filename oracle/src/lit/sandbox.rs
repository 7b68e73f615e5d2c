use super::Command;
use super::objects;
use super::programs::{DRIVER, OTHER_DRIVER, Programs, SHARED};
use crate::reference::Reference;
use crate::tool::{self, Ended};
use std::fmt::Write as _;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a command may take: several compilations on a busy machine.
const LIMIT: Duration = Duration::from_secs(600);

/// How much of a text a message holds.
const KEPT: usize = 3000;

/// Where what FileCheck read is kept, in the directory that a command runs in.
const CHECKED: &str = "filecheck.input";

/// Succeeds if the command that follows fails, and fails if a signal ends it.
const NOT: &str = r#"#!/usr/bin/env bash
crash=
if [[ $1 == --crash ]]; then crash=yes; shift; fi
"$@"
status=$?
if [[ $crash ]]; then (( status >= 128 )); else (( status > 0 && status < 128 )); fi
"#;

/// The release has no `iree-run-mlir`: it compiles and runs.
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

/// Which tools a command finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tools {
    /// Those of the release.
    Release,
    /// Ours, and those of the release that are shared.
    Ours,
}

/// What a command left.
#[derive(Debug)]
pub struct Outcome {
    /// How the shell ended, with what FileCheck and the tools said.
    pub ended: Ended,
    /// What FileCheck was given to check.
    pub checked: String,
}

impl Outcome {
    /// Whether the tools or FileCheck said `words`.
    pub fn says(&self, words: &str) -> bool {
        let said = [&self.ended.stdout, &self.ended.stderr]
            .map(|said| String::from_utf8_lossy(said).contains(words));
        said.contains(&true)
    }

    /// How it ended, what was said last, and what was checked, for a message.
    pub fn report(&self) -> String {
        let (stdout, stderr) = (last(&self.ended.stdout), last(&self.ended.stderr));
        let checked: String = self.checked.chars().take(KEPT).collect();
        let how = format!("status {:?}, signal {:?}", self.ended.code, self.ended.signal);
        format!("{how}\n{stdout}{stderr}\n-- what FileCheck read --\n{checked}")
    }
}

/// The end of what was said: warnings of the compiler come first.
fn last(said: &[u8]) -> String {
    String::from_utf8_lossy(&said[said.len().saturating_sub(KEPT)..]).into_owned()
}

/// A directory that commands run in, with programs to find on their path.
#[derive(Debug)]
pub struct Sandbox<'a> {
    reference: &'a Reference,
    source: &'a Path,
    directory: &'a Path,
    programs: PathBuf,
}

impl<'a> Sandbox<'a> {
    /// Makes one in `directory`, which is empty, for tests of the tree at `source`.
    pub fn new(
        reference: &'a Reference,
        tools: Tools,
        source: &'a Path,
        directory: &'a Path,
    ) -> io::Result<Self> {
        for path in [source, directory, reference.folder()] {
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
        let all = Programs::find()?;
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

    /// Runs a command, after those that it depends on, each only if the one before it succeeded; if `replaces_device`,
    /// on the driver that is built in place of the one that is not. What commands link with is compiled once, into `cache`.
    pub fn run(&self, command: &Command, replaces_device: bool, cache: &Path) -> io::Result<Outcome> {
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
        if replaces_device {
            script = script.replace(&format!("--device={OTHER_DRIVER}"), &format!("--device={DRIVER}"));
        }
        // It ends the whole pipeline of a command that hangs, not the shell alone.
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

/// The text with the substitutions made that all tests know.
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
        // What is not known stays.
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

/// What the virtual environment of the release has beside it, wherever the shell is.
fn program_of(reference: &Reference, name: &str) -> io::Result<PathBuf> {
    // Not resolved further: the environment's `python` is a link to one that does not know its packages.
    std::path::absolute(reference.script(name).map_err(io::Error::other)?)
}

/// Refuses a path that would not be one word where a test names it without quotes.
fn plain(path: &Path) -> io::Result<()> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._+-@,".contains(&byte);
    if path.as_os_str().as_encoded_bytes().iter().copied().all(is_plain) {
        return Ok(());
    }
    let what = "RUN lines need a path without whitespace and special characters of the shell";
    Err(io::Error::new(ErrorKind::InvalidInput, format!("{}: {what}", path.display())))
}

/// A path as one word of the shell.
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
    fn not_turns_failure_into_success_and_a_crash_into_failure() {
        let not = |arguments: &[&str]| bash(NOT, arguments, Path::new("/")).succeeded();
        assert!(not(&["false"]));
        assert!(!not(&["true"]));
        assert!(!not(&["bash", "-c", "kill -SEGV $$"]));
        assert!(not(&["--crash", "bash", "-c", "kill -SEGV $$"]));
        assert!(!not(&["--crash", "false"]));
    }

    #[test]
    fn run_mlir_divides_its_flags() {
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
    fn only_plain_paths_are_taken() {
        assert!(plain(Path::new("/a-b/c_d.e")).is_ok());
        assert!(plain(Path::new("/a b")).unwrap_err().to_string().contains("/a b: "));
    }
}
