//! A loader for self-contained ELF images (`embedded-elf-…`): shared objects without other libraries,
//! libc or a dynamic loader.
//!
//! [`Image::parse`] reads and checks everything without mapping or executing, and is safe for any bytes.
//! [`Image::map`] copies the segments into fresh pages, relocates and protects them, never both writable and
//! executable; it is safe too, since nothing is executed. [`Image::load`] also runs the image's initializers,
//! and calling a function of a [`Module`] runs its code.
//!
//! Sources: the [System V ABI], the FatELF specification, and the images that the pinned release accepts
//! (`iree/hal/local/elf/`).
//!
//! [System V ABI]: https://gabi.xinuos.com/elf/

#![allow(clippy::result_large_err, reason = "format errors carry the expected and the found value")]

mod dynamic;
mod fat;
mod header;
mod image;
mod machine;
mod module;
mod property;
mod relocate;

pub(in crate::executable) use dynamic::{Dynamic, RELOCATION_BYTES, SYMBOL_BYTES, Symbol};
pub(super) use fat::MAGIC as FAT_MAGIC;
pub use header::Segment;
pub(super) use header::{MAGIC, architecture};
pub(in crate::executable) use header::{check_segment, file_offset, segments};
pub use image::Image;
pub(in crate::executable) use machine::{ARM_64, Machine, X86_64};
pub use module::Module;
use rehal_base::{Fault, FormatError};
pub(in crate::executable) use rehal_formats::elf::{Reader, u16_at, u32_at, u64_at};

/// The image for this machine if `bytes` are a container, otherwise all of `bytes`.
pub(super) fn own_image(bytes: &[u8]) -> Result<&[u8], FormatError> {
    Ok(fat::select(bytes)?.bytes)
}

/// Checks that everything that the system's loader will map is in bounds of the file. The loader does not
/// check, and an access beyond the end of a file raises SIGBUS.
pub(super) fn check_whole(bytes: &[u8]) -> Result<(), FormatError> {
    let file = Reader { bytes, origin: 0 };
    header::check_machine(file)?;
    for entry in segments(file)?.entries.iter().map(Segment::from) {
        file.take(entry.offset, entry.file_size, "p_filesz")?;
    }
    Ok(())
}

/// Whether an ELF image is valid but requires features that our loader lacks: other libraries, symbols of the
/// process, thread-local storage. False for a corrupt image.
pub(super) fn needs_system_loader(bytes: &[u8]) -> bool {
    match Image::parse(bytes) {
        Ok(_) => false,
        // The system's loader does not support images for other machines either.
        Err(error) => {
            error.fault == Fault::Unsupported && error.field != "e_machine" && error.field != property::FIELD
        }
    }
}
