//! Our loader for self-contained ELF images (`embedded-elf-x86_64`): shared objects that need no
//! other library, no libc and no dynamic loader.
//!
//! [`Image::parse`] reads and checks everything without running or mapping anything, and is safe for
//! any bytes. [`Image::map`] copies the segments into fresh pages, relocates and protects them, never
//! writable and executable at once; it is safe too, since nothing is executed. [`Image::load`] also
//! runs the image's initializers, and whoever calls a function of a [`Module`] runs its code.
//!
//! Sources: the System V ABI and its x86-64 supplement, the FatELF specification, and what the
//! pinned release accepts (`iree/hal/local/elf/`).

#![allow(clippy::result_large_err, reason = "errors of a format carry what was expected and found")]

mod constants;
mod dynamic;
mod fat;
mod header;
mod image;
mod module;
mod property;
mod reader;
mod relocate;

pub(super) use fat::MAGIC as FAT_MAGIC;
pub(super) use header::{MAGIC, architecture};
pub use image::{Image, Segment};
pub use module::Module;

use rehal_base::{Fault, FormatError};

/// Checks that all that the system's loader will map lies in the file. It maps without asking, and
/// who touches a page beyond the end of a file is killed.
pub(super) fn check_whole(bytes: &[u8]) -> Result<(), FormatError> {
    let file = reader::Reader { bytes, origin: 0 };
    let header = header::read(file)?;
    for entry in header.segments(file) {
        file.take(entry.offset, entry.file_size, "p_filesz")?;
    }
    Ok(())
}

/// Whether an ELF image is whole but asks for more than our loader does: other libraries, symbols of
/// the process, thread-local storage. A damaged image does not.
pub(super) fn needs_system_loader(bytes: &[u8]) -> bool {
    match Image::parse(bytes) {
        Ok(_) => false,
        // A machine that it is not for would not be found by the system's loader either.
        Err(error) => {
            error.fault == Fault::Unsupported && error.field != "e_machine" && error.field != property::FIELD
        }
    }
}
