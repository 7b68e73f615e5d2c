//! Links the tools' names and the compiler's unwinder, and tells the tools which commit they are of, and how
//! they are built.

#[cfg(unix)]
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

#[cfg(unix)]
#[path = "src/names.rs"]
mod names;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/names.rs");
    println!("cargo::rustc-env=REHAL_COMMIT={}", commit().unwrap_or_else(|| "unknown".into()));
    println!("cargo::rustc-env=REHAL_TARGET={}", env::var("TARGET").unwrap_or_default());
    println!("cargo::rustc-env=REHAL_PROFILE={}", profile().unwrap_or_else(|| "unknown".into()));
    let Some(directory) = env::var_os("OUT_DIR").map(PathBuf::from) else { return };
    #[cfg(unix)]
    link_names(&directory);
    link_for_start(&directory);
}

/// Links IREE's names to `rehal`, beside it.
///
/// Cargo has no step after a build, and a program of its own for each name takes minutes to link. So this
/// script makes the links before there is a program, in a directory that is not its own: that of the profile,
/// which contains `build/PACKAGE/out`. A program there with one of these names is one that an earlier version
/// built.
#[cfg(unix)]
fn link_names(directory: &Path) {
    let Some(build) = directory.ancestors().nth(2).filter(|it| it.ends_with("build")) else { return };
    for name in names::IREE_NAMES {
        let link = build.with_file_name(name);
        if fs::read_link(&link).is_ok_and(|to| to == Path::new("rehal")) {
            continue;
        }
        let _ = fs::remove_file(&link);
        if let Err(error) = symlink("rehal", &link) {
            println!("cargo::warning=cannot link {} to rehal: {error}", link.display());
        }
    }
}

/// The name of the profile, which is that of the directory with `build/PACKAGE/out`: Cargo tells a script
/// only whether it is derived from `release`.
fn profile() -> Option<String> {
    let directory = PathBuf::from(env::var_os("OUT_DIR")?);
    let build = directory.ancestors().nth(2).filter(|it| it.ends_with("build"));
    let name = build.and_then(|build| build.parent()?.file_name()?.to_str().map(ToOwned::to_owned));
    name.or_else(|| env::var("PROFILE").ok())
}

/// The commit of the sources: that of the checkout, or the one that Cargo wrote into a package. `None` for
/// sources without either, maybe within a repository of something else.
fn commit() -> Option<String> {
    let package = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR")?);
    if let Ok(info) = fs::read_to_string(package.join(".cargo_vcs_info.json")) {
        return Some(info.split_once("\"sha1\": \"")?.1.split_once('"')?.0.to_owned());
    }
    let root = package.join("../..").canonicalize().ok()?;
    let git = |arguments: &[&str]| {
        let output = Command::new("git").arg("-C").arg(&root).args(arguments).output().ok()?;
        let text = output.status.success().then(|| String::from_utf8(output.stdout).ok())??;
        Some(text.trim().to_owned())
    };
    if Path::new(&git(&["rev-parse", "--show-toplevel"])?).canonicalize().ok()? != root {
        return None;
    }
    // Commits and checkouts append to it.
    let log = root.join(git(&["rev-parse", "--git-path", "logs/HEAD"])?);
    if log.exists() {
        println!("cargo::rerun-if-changed={}", log.display());
    }
    git(&["rev-parse", "HEAD"])
}

/// Builds a program that starts quickly: without Rust's runtime, at a fixed address, and with the compiler's
/// unwinder instead of `libgcc_s.so`.
///
/// A fixed address needs 4 KB of relocations instead of 233 KB (docs/decisions/057). The library executes
/// CPUID when it is loaded, which takes a tenth of a short tool's time on a virtual machine. The standard
/// library links it by name, so a linker script of that name, found first, replaces it by the static archive.
/// Without a static archive, nothing changes.
fn link_for_start(directory: &Path) {
    let target = |name: &str| env::var(format!("CARGO_CFG_TARGET_{name}")).unwrap_or_default();
    println!("cargo::rustc-check-cfg=cfg(without_runtime)");
    if target("OS") != "linux" || target("ENV") != "gnu" {
        return;
    }
    println!("cargo::rustc-cfg=without_runtime");
    if env::var("HOST") != env::var("TARGET") {
        return;
    }
    println!("cargo::rustc-link-arg-bins=-no-pie");
    // If the compiler has no such archive, it echoes the bare name.
    let found = Command::new("cc").arg("-print-file-name=libgcc_eh.a").output();
    let archive = found.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_string());
    let script = directory.join("libgcc_s.so");
    if archive.is_ok_and(|archive| Path::new(&archive).is_absolute() && Path::new(&archive).exists())
        && fs::write(script, "GROUP ( -lgcc_eh -lgcc )\n").is_ok()
    {
        println!("cargo::rustc-link-search=native={}", directory.display());
    }
}
