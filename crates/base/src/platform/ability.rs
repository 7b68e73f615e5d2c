use std::env::consts::{ARCH, OS};
use std::fmt::Write;

use crate::{Error, Result};

/// Something that rehal can do on some systems, or processors, only. Everything else it can do on all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ability {
    /// Machine code of embedded ELF images runs on the devices of the CPU.
    NativeCode,
    /// The same of libraries of the system, and plugins.
    SystemLibraries,
    /// A crash is reported with the kernel, the record and the instruction.
    CrashReports,
    /// Work of a tool runs in a copy of its process, which a kernel may end.
    Copies,
    /// Captured code is confined.
    Confinement,
    /// Threads are pinned to processors, whose topology is known.
    Pinning,
    /// Bytes are evicted from the caches of the CPU.
    Eviction,
    /// Pages next to buffers fault.
    Guards,
    /// Pages of buffers tell whether they are accessed.
    WatchedPages,
    /// Pages of files take the place of memory that is read from them.
    FilePages,
    /// `perf` gets the functions of executables.
    Perf,
}

/// Whether a build has an ability.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Yes,
    No,
    /// It is built in, and has not run anywhere yet: it is off unless [`TRIES_UNPROVEN`] is set to anything.
    Unproven,
}

/// The variable that switches on what is unproven.
const TRIES_UNPROVEN: &str = "REHAL_UNPROVEN";

use State::{No, Unproven, Yes};

/// The words of each ability, and whether it is there on Linux, macOS and Windows.
const TABLE: [(Ability, &str, [State; 3]); 11] = [
    (Ability::NativeCode, "native kernels", [Yes, Unproven, Yes]),
    (Ability::SystemLibraries, "system libraries", [Yes, No, No]),
    (Ability::CrashReports, "crash reports", [Yes, No, No]),
    (Ability::Copies, "kernels in a process of their own", [Yes, Yes, Yes]),
    (Ability::Confinement, "confinement", [Yes, No, No]),
    (Ability::Pinning, "pinning and topology", [Yes, No, No]),
    (Ability::Eviction, "cache eviction", [Yes, No, Yes]),
    (Ability::Guards, "guarded buffers", [Yes, Yes, No]),
    (Ability::WatchedPages, "watched pages", [Yes, No, No]),
    (Ability::FilePages, "pages of files as memory", [Yes, No, No]),
    (Ability::Perf, "perf", [Yes, No, No]),
];

/// The column of this build.
const COLUMN: usize = match () {
    () if cfg!(target_os = "macos") => 1,
    () if cfg!(target_os = "windows") => 2,
    () => 0,
};

impl Ability {
    fn row(self) -> (&'static str, State) {
        let (_, name, states) = TABLE[self as usize];
        (name, if cfg!(miri) { No } else { states[COLUMN] })
    }

    /// Whether this build has it here.
    pub fn is_here(self) -> bool {
        match self.row().1 {
            Yes => true,
            No => false,
            Unproven => std::env::var_os(TRIES_UNPROVEN).is_some_and(|it| !it.is_empty()),
        }
    }

    /// Fails with the reason if it is not here.
    pub fn require(self) -> Result<()> {
        if self.is_here() {
            return Ok(());
        }
        let (name, state) = self.row();
        Err(Error::unimplemented(match state {
            Unproven => format!(
                "{name}: off on {OS} on {ARCH}, where no one has run it yet; testing/machines/prove.sh of the sources does"
            ),
            Yes | No => format!("{name}: this build for {OS} on {ARCH} does not have that"),
        }))
    }
}

/// The abilities of this build, and those that it lacks, as lines.
pub fn describe_abilities() -> String {
    let mut lines = String::new();
    for (title, is_here) in [("runs here", true), ("not here", false)] {
        let names = TABLE.iter().filter(|(it, ..)| it.is_here() == is_here).map(|(_, name, _)| *name);
        let names: Vec<_> = names.collect();
        if !names.is_empty() {
            let _ = writeln!(lines, "{title}: {}", names.join(", "));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_ability_has_its_row() {
        for (index, (ability, name, _)) in TABLE.iter().enumerate() {
            assert_eq!((*ability as usize, ability.row().0), (index, *name));
            let refusal = ability.require().err().map(|error| error.message().to_owned());
            let lines = describe_abilities();
            let line = lines.lines().find(|it| it.contains(name)).unwrap();
            assert!(line.starts_with(if refusal.is_none() { "runs here: " } else { "not here: " }), "{line}");
            assert!(refusal.is_none_or(|it| it.contains(name)));
        }
        #[cfg(all(target_os = "linux", not(miri)))]
        assert_eq!(describe_abilities().lines().count(), 1, "Linux has all");
    }
}
