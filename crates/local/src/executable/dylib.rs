//! System shared libraries (`system-elf-x86_64`), loaded by the system's dynamic loader.

use std::ffi::{OsStr, c_void};

use rehal_base::{Context, Error, Result, StatusCode};

use super::elf;
use crate::platform::{LibraryFile, open_library};

/// The footer that the compiler appends to a library with a debug database.
const FOOTER_MAGIC: &[u8; 8] = b"IREEDBG\0";
const FOOTER_BYTES: usize = 48;

/// A loaded shared library; unloaded when dropped.
pub struct Dylib {
    library: libloading::Library,
    /// The dynamic loader identifies libraries by path, so the path of the in-memory file must stay in use
    /// while the library is loaded. Declared after the library, to be dropped after it.
    _file: Option<LibraryFile>,
}

impl Dylib {
    /// Loads a library from memory.
    ///
    /// # Safety
    /// Runs the library's initializers: the caller trusts its code as it trusts its own.
    pub unsafe fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let place = || "loading a system library executable".to_string();
        let library = without_footer(bytes).context(place)?;
        elf::check_whole(library).context(place)?;
        let mut file = LibraryFile::new(library)
            .map_err(|error| Error::io("writing the library for the dynamic loader", &error))
            .context(place)?;
        // SAFETY: the caller trusts the bytes, and the file has exactly these contents.
        let opened = unsafe { Self::open(file.path().as_os_str()) };
        // The message names a temporary file, which the caller does not know.
        let shown = file.path().display().to_string();
        let rename = |error: Error| Error::new(error.code(), error.message().replace(&shown, "the library"));
        let mut this = opened.map_err(rename).context(place)?;
        file.remove_from_disk();
        this._file = Some(file);
        Ok(this)
    }

    /// Loads the library at `path`, which the system searches for if it has no `/`.
    ///
    /// # Safety
    /// Runs the library's initializers: the caller trusts its code as it trusts its own.
    pub unsafe fn open(path: &OsStr) -> Result<Self> {
        // SAFETY: the caller trusts the library.
        let library = unsafe { open_library(path) };
        match library {
            Ok(library) => Ok(Self { library, _file: None }),
            Err(error) => Err(Error::new(StatusCode::NotFound, words(&error))),
        }
    }

    /// The address of the symbol `name`.
    pub fn symbol(&self, name: &str) -> Result<*const c_void> {
        // SAFETY: only takes the address; its user determines the type.
        let symbol = unsafe { self.library.get::<*const c_void>(name.as_bytes()) };
        match symbol {
            Ok(symbol) => Ok(*symbol),
            // The loader's message names a temporary file, which the caller does not know.
            Err(_) => Err(Error::not_found(format!("the library does not define '{name}'"))),
        }
    }
}

/// The message of the dynamic loader: the error and its source.
fn words(error: &libloading::Error) -> String {
    let text = error.to_string();
    match std::error::Error::source(error) {
        Some(cause) if !text.contains(&cause.to_string()) => format!("{text}: {cause}"),
        _ => text,
    }
}

/// The library without an appended debug database.
fn without_footer(bytes: &[u8]) -> Result<&[u8]> {
    let Some(start) = bytes.len().checked_sub(FOOTER_BYTES) else { return Ok(bytes) };
    let footer = &bytes[start..];
    if !footer.starts_with(FOOTER_MAGIC) {
        return Ok(bytes);
    }
    let mut size = [0; 8];
    size.copy_from_slice(&footer[24..32]);
    let size = u64::from_le_bytes(size);
    if size > start as u64 {
        return Err(Error::out_of_range(format!(
            "the debug footer claims a library of {size} bytes, found {start}"
        )));
    }
    Ok(&bytes[..size as usize])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_footer_is_checked_and_removed() {
        let mut bytes = b"library and debug".to_vec();
        assert_eq!(without_footer(&bytes).unwrap(), bytes);
        bytes.extend(FOOTER_MAGIC);
        bytes.extend([0; 16]);
        bytes.extend(7u64.to_le_bytes());
        bytes.extend([0; 16]);
        assert_eq!(without_footer(&bytes).unwrap(), b"library");
        let at = bytes.len() - 24;
        bytes[at] = 18;
        assert!(without_footer(&bytes).is_err());
    }

    #[test]
    fn a_failed_open_has_the_loaders_message() {
        // SAFETY: the library does not exist, so none of its code can run.
        let error = unsafe { Dylib::open(OsStr::new("/no/such/library.so")) }.err().unwrap();
        assert!(error.to_string().contains("cannot open shared object file"), "{error}");
    }

    /// The path that the loader receives exists only while the library is loaded.
    #[test]
    #[cfg_attr(not(target_arch = "x86_64"), ignore = "the executable is for x86-64")]
    fn errors_of_the_loader_do_not_name_its_temporary_path() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/cts/affine.system.so");
        let mut library = std::fs::read(path).unwrap();
        // For another operating system.
        library[7] = 0xff;
        // SAFETY: our fixture, which the loader rejects before any of its code runs.
        let error = unsafe { Dylib::from_bytes(&library) }.err().unwrap();
        assert!(error.message().ends_with("the library: ELF file OS ABI invalid"), "{error}");
        assert!(!error.report().contains("/proc/"), "{error:?}");
    }

    #[test]
    fn a_truncated_library_never_reaches_the_loader() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/cts/affine.system.so");
        let library = std::fs::read(path).unwrap();
        for length in (0..library.len()).step_by(97) {
            // SAFETY: our fixture, truncated; none of its code can run.
            let error = unsafe { Dylib::from_bytes(&library[..length]) }.err();
            let error = error.unwrap_or_else(|| panic!("{length} bytes were accepted"));
            assert!(!error.message().is_empty());
        }
    }
}
