//! Where the compiler is.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use rehal_base::{Error, Remedy, Result};

/// The compiler in its package: the native program, which starts 20 times faster than the script of the same
/// name.
const IN_PACKAGE: &str = "iree/compiler/_mlir_libs/iree-compile";

/// The variable that names the compiler.
const VARIABLE: &str = "REHAL_COMPILER";

/// Finds the compiler: the given one, or that of the environment.
pub(super) fn find(given: Option<&Path>, variable: &dyn Fn(&str) -> Option<OsString>) -> Result<PathBuf> {
    let set = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let named = given.map(|path| (path.to_owned(), "the compiler"));
    if let Some((path, what)) = named.or_else(|| Some((set(VARIABLE)?, VARIABLE))) {
        return native(&path).ok_or_else(|| {
            let message = match path.exists() {
                true => {
                    format!("{what} '{}' is neither a program nor an environment that has it", path.display())
                }
                false => format!("{what} '{}' does not exist", path.display()),
            };
            Error::not_found(message).advise(Remedy::InstallCompiler)
        });
    }
    let environments = ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().filter_map(set);
    if let Some(found) = environments.chain(python_prefixes(&set)).find_map(|it| in_prefix(&it)) {
        return Ok(found);
    }
    let directories = set("PATH").map(PathBuf::into_os_string).unwrap_or_default();
    let on_path = std::env::split_paths(&directories).map(|it| it.join("iree-compile"));
    on_path.filter(|it| it.is_file()).find_map(|it| native(&it)).ok_or_else(|| {
        Error::not_found("no compiler (iree-compile) is in the packages of the active Python or on PATH")
            .advise(Remedy::InstallCompiler)
    })
}

/// The native program that a path means: itself, that of the package whose script it is, or that of an
/// environment.
fn native(path: &Path) -> Option<PathBuf> {
    if path.is_dir() {
        let inside = path.join(IN_PACKAGE);
        return if inside.is_file() { Some(inside) } else { in_prefix(path) };
    }
    let mut head = [0; 2];
    let is_script =
        File::open(path).and_then(|mut file| file.read_exact(&mut head)).is_ok() && &head == b"#!";
    match is_script {
        true => in_prefix(path.parent()?.parent()?).or_else(|| Some(path.to_owned())),
        false => path.is_file().then(|| path.to_owned()),
    }
}

/// The environments of the Pythons on PATH.
fn python_prefixes(set: &dyn Fn(&str) -> Option<PathBuf>) -> Vec<PathBuf> {
    let path = set("PATH").map(PathBuf::into_os_string).unwrap_or_default();
    let directories = std::env::split_paths(&path);
    let has_python = |it: &PathBuf| it.join("python3").is_file() || it.join("python").is_file();
    let mut prefixes: Vec<_> =
        directories.filter(has_python).filter_map(|it| Some(it.parent()?.to_owned())).collect();
    if prefixes.iter().any(|it| it == Path::new("/usr")) {
        prefixes.push("/usr/local".into());
    }
    prefixes.extend(set("HOME").map(|home| home.join(".local")));
    prefixes
}

/// The compiler in the packages of an environment; of several versions of Python, the last one that has it.
fn in_prefix(prefix: &Path) -> Option<PathBuf> {
    let mut versions: Vec<_> = fs::read_dir(prefix.join("lib"))
        .ok()?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            path.file_name().and_then(|name| name.to_str()).is_some_and(|it| it.starts_with("python3"))
        })
        .collect();
    versions.sort();
    let packages = versions.iter().rev().flat_map(|it| [it.join("site-packages"), it.join("dist-packages")]);
    packages.map(|it| it.join(IN_PACKAGE)).find(|it| it.is_file())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn write(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn the_native_program_is_found_in_this_order() {
        let scratch = tempfile::tempdir().unwrap();
        let at = |path: &str| scratch.path().join(path);
        let site = "lib/python3.11/site-packages/iree/compiler/_mlir_libs/iree-compile";
        for name in ["named", "active", "other"] {
            write(&at(&format!("{name}/{site}")), "\x7FELF");
            write(&at(&format!("{name}/bin/iree-compile")), "#!/usr/bin/python3\n");
        }
        write(&at("other/bin/python3"), "");
        write(&at("plain/iree-compile"), "\x7FELF");
        let found = |given: Option<&str>, set: &[(&str, &str)]| {
            let set: Vec<_> = set.iter().map(|(name, path)| (*name, OsString::from(at(path)))).collect();
            let variable = |name: &str| set.iter().find(|it| it.0 == name).map(|it| it.1.clone());
            find(given.map(at).as_deref(), &variable)
                .map(|path| path.strip_prefix(scratch.path()).unwrap().display().to_string())
        };
        let all = [("REHAL_COMPILER", "named"), ("VIRTUAL_ENV", "active"), ("PATH", "other/bin")];
        assert_eq!(found(Some("plain/iree-compile"), &all).unwrap(), "plain/iree-compile");
        assert_eq!(found(None, &all).unwrap(), format!("named/{site}"));
        assert_eq!(found(None, &all[1..]).unwrap(), format!("active/{site}"));
        assert_eq!(found(None, &all[2..]).unwrap(), format!("other/{site}"));
        // A script stands for the program of its package.
        assert_eq!(found(Some("named/bin/iree-compile"), &[]).unwrap(), format!("named/{site}"));
        assert_eq!(found(None, &[("PATH", "plain")]).unwrap(), "plain/iree-compile");
        let error = found(None, &[("PATH", "none")]).unwrap_err();
        assert!(error.report().contains("iree-base-compiler"), "{error:?}");
        let error = found(Some("none"), &all).unwrap_err();
        assert!(error.message().ends_with("/none' does not exist"), "{error:?}");
    }
}
