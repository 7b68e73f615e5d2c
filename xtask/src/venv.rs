//! Environments of Python for tests and packages, below `target/python`.

use crate::run::{self, succeed};
use crate::{NotRun, root, setup};
use std::error::Error;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// The crate with the sources of the Python package.
pub const CRATE: &str = "crates/python";

/// The interpreter of an environment with packages, which is made again if these change.
pub fn environment(name: &str, packages: impl Fn(&mut Command)) -> Result<PathBuf> {
    let directory = run::target().join("python").join(name);
    let python = directory.join("bin/python");
    let mut pip = Command::new(&python);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    packages(&mut pip);
    let requirements = fs::read_to_string(root().join(CRATE).join("requirements.txt"))?;
    let wanted = format!("{pip:?}\n{requirements}");
    let stamp = directory.join("installed");
    if fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
        return Ok(python);
    }
    // The pinned versions need it; the package itself needs 3.10.
    let found = setup::find_python("((3, 11) <= v <= (3, 13) and __import__('venv'))");
    let found = found.ok_or_else(|| NotRun("no Python from 3.11 to 3.13 with venv is installed".into()))?;
    println!("python: making {}", directory.display());
    succeed(Command::new(found).args(["-m", "venv", "--clear"]).arg(&directory))?;
    succeed(&mut pip)?;
    fs::write(stamp, wanted)?;
    Ok(python)
}
