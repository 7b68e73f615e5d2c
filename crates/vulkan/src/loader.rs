//! Opens the Vulkan loader, a shared library, when it is first needed.
#![allow(unsafe_code, reason = "loads a shared library")]

use std::ffi::{OsStr, OsString};
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};

use rehal_base::{Error, Result, StatusCode};

/// The names of the loader, in order of preference.
#[cfg(not(target_vendor = "apple"))]
const NAMES: &[&str] = &["libvulkan.so.1", "libvulkan.so"];
/// The names of the loader, and of the driver over Metal, which is its own loader, in order of preference.
#[cfg(target_vendor = "apple")]
const NAMES: &[&str] = &["libvulkan.1.dylib", "libvulkan.dylib", "libMoltenVK.dylib"];

/// Opens the loader: in `search_paths` (directories, or files), and then by the system's rules.
pub(crate) fn load(search_paths: &[PathBuf]) -> Result<ash::Entry> {
    let mut failures = Vec::new();
    for candidate in candidates(search_paths) {
        match open(&candidate) {
            Ok(entry) => return Ok(entry),
            Err(error) => failures.push(format!("{}: {}", Path::new(&candidate).display(), reason(&error))),
        }
    }
    let message = format!("cannot open the Vulkan loader ({})", failures.join("; "));
    Err(Error::new(StatusCode::Unavailable, message))
}

/// Opens a library, which stays open: drivers that it loads may not bear to be unloaded.
fn open(path: &OsStr) -> std::result::Result<ash::Entry, libloading::Error> {
    // SAFETY: the user or the system names the Vulkan loader; running its initialisers is what was asked for.
    // A Vulkan loader exports this function with this type, and the library is never closed.
    unsafe {
        let library = ManuallyDrop::new(libloading::Library::new(path)?);
        let get_instance_proc_addr = *library.get(c"vkGetInstanceProcAddr")?;
        Ok(ash::Entry::from_static_fn(ash::StaticFn { get_instance_proc_addr }))
    }
}

fn candidates(search_paths: &[PathBuf]) -> Vec<OsString> {
    let mut found = Vec::new();
    for path in search_paths {
        if path.is_dir() {
            found.extend(NAMES.iter().map(|name| path.join(name).into_os_string()));
        } else {
            found.push(path.clone().into_os_string());
        }
    }
    found.extend(NAMES.iter().map(OsString::from));
    found
}

/// The loader's words, which may repeat the path.
fn reason(error: &libloading::Error) -> String {
    match std::error::Error::source(error) {
        Some(source) => source.to_string(),
        None => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_and_files_come_before_the_system() {
        let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
        let found = candidates(&[directory.clone(), PathBuf::from("/no/such/file.so")]);
        let expected: Vec<_> = NAMES
            .iter()
            .map(|name| directory.join(name))
            .chain([PathBuf::from("/no/such/file.so")])
            .chain(NAMES.iter().map(PathBuf::from))
            .collect();
        assert_eq!(found.iter().map(PathBuf::from).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_file_that_is_not_a_library_is_passed_over_or_reported() {
        let manifest = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        if let Err(error) = load(std::slice::from_ref(&manifest)) {
            assert_eq!(error.code(), StatusCode::Unavailable);
            assert!(error.message().contains("Cargo.toml"), "{error}");
        }
    }
}
