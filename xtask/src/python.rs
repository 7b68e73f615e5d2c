//! Tests and builds the Python package: `crates/python`.
//!
//! Its tests run with a module and a program of the development profile, beside the Python sources and in an
//! environment of their own, whose packages `crates/python/requirements.txt` pins.

use crate::portable::WINDOWS;
use crate::run::{self, succeed};
use crate::venv::{CRATE, environment};
use crate::zig::{Zig, program_name};
use crate::{Outcome, packages, root};
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// The targets of wheels, and their tags.
const WHEELS: [(&str, &str); 5] = [
    ("x86_64-unknown-linux-gnu", "manylinux_2_28_x86_64"),
    ("aarch64-unknown-linux-gnu", "manylinux_2_28_aarch64"),
    ("x86_64-apple-darwin", "macosx_10_12_x86_64"),
    ("aarch64-apple-darwin", "macosx_11_0_arm64"),
    (WINDOWS, "win_amd64"),
];

/// The most bytes of a wheel.
const MAX_WHEEL_BYTES: u64 = 12_000_000;

/// Runs pytest, and mypy over the package and its tests.
pub fn test() -> Outcome {
    let root = root();
    let python = environment("test", |python| {
        python.args(["--no-deps", "--requirement"]).arg(root.join(CRATE).join("requirements.txt"));
    })?;
    let mut cargo = Command::new("cargo");
    // The whole workspace: its dependencies have the same features as in the tests, which have built most.
    cargo.args(["build", "--quiet", "--workspace", "--lib", "--bin", "rehal"]);
    succeed(cargo.current_dir(&root))?;
    let site = site(&root)?;
    let source = root.join(CRATE);
    let configuration = source.join("pyproject.toml");
    let mut pytest = Command::new(&python);
    pytest.args(["-B", "-m", "pytest", "-c"]).arg(&configuration).arg(source.join("tests"));
    succeed(pytest.env("PYTHONPATH", &site).env("REHAL_BINARY", run::target().join("debug/rehal")))?;
    let mut mypy = Command::new(&python);
    mypy.args(["-m", "mypy", "--config-file"]).arg(&configuration);
    mypy.arg("--cache-dir").arg(run::target().join("python/mypy"));
    mypy.arg(source.join("python/rehal")).arg(source.join("tests"));
    succeed(mypy.env("MYPYPATH", source.join("tests")))
}

/// Builds the program and a wheel that has it for each target, into `to`.
pub fn wheels(to: &Path) -> Outcome {
    let zig = Zig::find()?;
    WHEELS.iter().try_for_each(|(target, tag)| match wheel(&zig, target, tag, to) {
        Err(why) if !target.starts_with(&format!("{}-unknown-linux", std::env::consts::ARCH)) => {
            println!("dist: no wheel for {target}: {why}");
            Ok(())
        }
        built => built,
    })
}

fn wheel(zig: &Zig, target: &str, tag: &str, to: &Path) -> Outcome {
    let (root, name) = (root(), program_name(target));
    let program = zig.build(target, "release", &run::REHAL)?.join(name);
    let scripts = root.join(CRATE).join("data/scripts");
    fs::create_dir_all(&scripts)?;
    fs::copy(&program, scripts.join(name)).map_err(|error| format!("{}: {error}", program.display()))?;
    fs::create_dir_all(to)?;
    let mut maturin = zig.tool("maturin");
    maturin.args(["build", "--quiet", "--locked", "--target", target, "--out"]).arg(to);
    if target != WINDOWS {
        maturin.arg("--zig");
    }
    if tag.starts_with("manylinux") {
        maturin.args(["--compatibility", "manylinux_2_28"]);
    }
    maturin.arg("--manifest-path").arg(root.join(CRATE).join("Cargo.toml"));
    let built = succeed(&mut maturin);
    fs::remove_dir_all(root.join(CRATE).join("data"))?;
    built?;
    let name = format!("rehal-{}-cp310-abi3-{tag}.whl", packages::version(&root)?);
    let wheel = to.join(name);
    let size = fs::metadata(&wheel).map_err(|error| format!("{}: {error}", wheel.display()))?.len();
    if size > MAX_WHEEL_BYTES {
        return Err(format!("{} has {size} bytes, more than {MAX_WHEEL_BYTES}", wheel.display()).into());
    }
    println!("dist: {} ({size} bytes)", wheel.display());
    Ok(())
}

/// A directory that has the package, with the module of the development profile.
fn site(root: &Path) -> Result<PathBuf> {
    let site = run::target().join("python/site");
    let package = site.join("rehal");
    let _ = fs::remove_dir_all(&package);
    fs::create_dir_all(&package)?;
    for file in fs::read_dir(root.join(CRATE).join("python/rehal"))? {
        let file = file?;
        if file.file_type()?.is_file() {
            fs::copy(file.path(), package.join(file.file_name()))?;
        }
    }
    fs::copy(run::target().join("debug/lib_rehal.so"), package.join("_rehal.abi3.so"))?;
    Ok(site)
}
