//! Locates the reference release.
//!
//! `cargo xtask setup` installs it into `.venv` at the root of the repository; `REHAL_REFERENCE` names
//! another virtual environment. The tools are native programs inside the Python packages; the scripts with
//! the same names in the environment's `bin` directory add Python's startup time and are not used.

use std::fmt;
use std::path::{Path, PathBuf};

/// The version of the reference release.
pub const VERSION: &str = "3.13.0";

/// An installation of the reference release.
#[derive(Clone, Debug)]
pub struct Reference {
    site_packages: PathBuf,
}

/// Why the reference release is unusable, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing(String);

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}\nrun `cargo xtask setup`, or set REHAL_REFERENCE to a virtual environment with what \
             xtask/requirements.txt names",
            self.0
        )
    }
}

impl std::error::Error for Missing {}

impl Reference {
    /// Finds the release for the repository at `root`: in `REHAL_REFERENCE` if set, else in `.venv`.
    pub fn find(root: &Path) -> Result<Self, Missing> {
        match std::env::var_os("REHAL_REFERENCE") {
            Some(path) if !path.is_empty() => Self::in_environment(Path::new(&path)),
            _ => Self::in_environment(&root.join(".venv")),
        }
    }

    /// Uses the release in a virtual environment; checks its version and that the tools are present.
    pub fn in_environment(environment: &Path) -> Result<Self, Missing> {
        let site_packages = site_packages(environment)?;
        for package in ["iree_base_compiler", "iree_base_runtime"] {
            let info = site_packages.join(format!("{package}-{VERSION}.dist-info"));
            if !info.is_dir() {
                return Err(Missing(format!(
                    "the reference release {VERSION} is incomplete in {}: missing {package}",
                    environment.display()
                )));
            }
        }
        let found = Self { site_packages };
        for tool in [
            "iree-run-replay",
            "iree-dump-replay",
            "iree-benchmark-replay",
            "iree-run-module",
            "iree-compile",
        ] {
            let path = found.tool(tool);
            if !path.is_file() {
                return Err(Missing(format!("the reference release lacks {tool}: {}", path.display())));
            }
        }
        Ok(found)
    }

    /// The directory of the release.
    pub fn directory(&self) -> &Path {
        &self.site_packages
    }

    /// The native program `name`, e.g. `iree-run-replay` or `iree-compile`.
    pub fn tool(&self, name: &str) -> PathBuf {
        let directory = match name {
            "iree-compile" | "iree-opt" | "iree-link" | "iree-lld" => "iree/compiler/_mlir_libs",
            _ => "iree/_runtime_libs",
        };
        self.site_packages.join(directory).join(name)
    }

    /// The program `name` in the `bin` directory of the virtual environment: `python` or `filecheck`.
    pub fn script(&self, name: &str) -> Result<PathBuf, Missing> {
        // ENVIRONMENT/lib/python3.N/site-packages
        let environment = self.site_packages.ancestors().nth(3).unwrap_or(Path::new("/"));
        let path = environment.join("bin").join(name);
        if path.is_file() { Ok(path) } else { Err(Missing(format!("{name} is missing: {}", path.display()))) }
    }

    /// Checks that a Python package is installed beside the release.
    pub fn package(&self, name: &str) -> Result<PathBuf, Missing> {
        let path = self.site_packages.join(name);
        let missing = || Missing(format!("the Python package {name} is missing: {}", path.display()));
        if path.is_dir() { Ok(path) } else { Err(missing()) }
    }
}

/// `ENVIRONMENT/lib/python3.N/site-packages`, for the installed N.
fn site_packages(environment: &Path) -> Result<PathBuf, Missing> {
    let lib = environment.join("lib");
    let versions = std::fs::read_dir(&lib)
        .map_err(|error| Missing(format!("no reference release in {}: {error}", environment.display())))?;
    versions
        .filter_map(Result::ok)
        .map(|entry| entry.path().join("site-packages"))
        .find(|path| path.join("iree").is_dir())
        .ok_or_else(|| Missing(format!("no reference release in {}", environment.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_environment_says_what_to_do() {
        let error = Reference::in_environment(Path::new("/nonexistent/venv")).unwrap_err();
        assert!(error.to_string().contains("cargo xtask setup"), "{error}");
    }
}
