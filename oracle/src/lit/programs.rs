use super::{Command, Verdict};
use std::collections::BTreeSet;
use std::env;

#[path = "../../../crates/cli/src/names.rs"]
mod names;

/// Programs that the sandbox provides.
const PROVIDED: [&str; 4] = ["FileCheck", "iree-run-mlir", "not", "%PYTHON"];

/// Programs of the release that both sides use.
pub const SHARED: [&str; 4] = ["iree-as-module", "iree-compile", "iree-link", "iree-opt"];

/// Our tools without a counterpart in the release.
const OURS_ALONE: [&str; 2] = ["iree-check-module", "rehal"];

/// Builtins of the shell.
const BUILTINS: [&str; 8] = ["[", "[[", "cd", "echo", "export", "false", "test", "true"];

/// The drivers whose commands run.
const DRIVERS: [&str; 3] = ["local-sync", "local-task", "vulkan"];

/// The available programs.
pub struct Programs {
    ours: BTreeSet<&'static str>,
}

impl Programs {
    /// `rehal`, and the names by which it is called.
    pub fn new() -> Self {
        Self { ours: names::IREE_NAMES.into_iter().chain(["rehal"]).collect() }
    }

    /// The names of our tools.
    pub fn ours(&self) -> impl Iterator<Item = &'static str> {
        self.ours.iter().copied()
    }

    /// The names of our tools with a counterpart in the release.
    pub fn replaced(&self) -> impl Iterator<Item = &'static str> {
        self.ours().filter(|name| !OURS_ALONE.contains(name))
    }

    /// How to test a command.
    pub fn verdict(&self, command: &Command) -> Verdict {
        let mut uses_ours = false;
        let mut by_release = true;
        for program in command.programs() {
            let name = program.as_str();
            if self.ours.contains(name) {
                uses_ours = true;
                by_release &= !OURS_ALONE.contains(&name);
            } else if name == "iree-run-mlir" {
                uses_ours = true;
            } else if !SHARED.contains(&name) && !PROVIDED.contains(&name) && !is_system_command(name) {
                return Verdict::Ignored(format!("without_{}", name.replace('/', "_")));
            }
        }
        if command.all().any(|text| text.contains("$IREE_DYLIB_EXT@")) {
            return Verdict::Ignored("without_native_modules".to_owned());
        }
        if !uses_ours {
            return Verdict::Ignored("compiler_only".to_owned());
        }
        let mut drivers = command
            .devices()
            .into_iter()
            .map(|device| device.split(':').next().unwrap_or_default().to_owned());
        match drivers.find(|driver| !DRIVERS.contains(&driver.as_str())) {
            Some(driver) => Verdict::Ignored(format!("without_{driver}")),
            None => Verdict::Run { by_release },
        }
    }
}

/// Whether `name` is a shell builtin or a system command. Other installations of the reference's tools do not
/// count: their version is unknown.
fn is_system_command(name: &str) -> bool {
    let is_tool = name.starts_with("iree-");
    let directories = env::var_os("PATH").unwrap_or_default();
    let is_there = || env::split_paths(&directories).any(|directory| directory.join(name).is_file());
    BUILTINS.contains(&name) || !is_tool && is_there()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lit::test_file::TestFile;
    use std::path::Path;

    #[test]
    fn commands_are_classified_by_their_requirements() {
        let programs = Programs::new();
        let verdict = |text: &str| {
            let file = TestFile::parse(&format!("RUN: {text}\n")).unwrap();
            programs.verdict(&Command::new("f", Path::new("/f"), &file, 0))
        };
        let run = |by_release| Verdict::Run { by_release };
        let ignored = |reason: &str| Verdict::Ignored(reason.to_owned());
        assert_eq!(verdict("iree-compile %s | iree-run-module --module=- | FileCheck %s"), run(true));
        assert_eq!(verdict("iree-run-module --device=local-task | FileCheck %s"), run(true));
        assert_eq!(verdict("iree-check-module --device=local-task"), run(false));
        assert_eq!(verdict("iree-run-mlir %s | FileCheck %s"), run(true));
        assert_eq!(verdict("iree-compile %s | FileCheck %s"), ignored("compiler_only"));
        assert_eq!(verdict("iree-run-module --device=vulkan://0"), run(true));
        assert_eq!(verdict("iree-run-module --device=cuda"), ignored("without_cuda"));
        assert_eq!(verdict("iree-run-module | iree-cpuinfo"), ignored("without_iree-cpuinfo"));
        assert_eq!(
            verdict("iree-run-module --module=x$IREE_DYLIB_EXT@make"),
            ignored("without_native_modules")
        );
        assert_eq!(verdict("( iree-run-module || [[ $? == 1 ]] ) | cat"), run(true));
    }
}
