//! The fuzz targets: every reader, on arbitrary bytes.

use object::elf::{EM_AMDGPU, EM_CUDA};

use crate::elf;
use crate::{Executable, ImageKind, Replaced, read_amdgpu, read_cuda, read_hip, with_image};

/// Reads `bytes` as an executable for each driver, and checks that its parts are consistent. Returns the
/// number of drivers for which they can be read.
pub fn exercise(bytes: &[u8]) -> usize {
    let readers = [read_cuda, read_hip, read_amdgpu].into_iter();
    let read = readers.filter(|read| {
        let Ok(executable) = read(bytes) else { return false };
        // Code in the place of itself, and bytes that may be none.
        let images = executable.images.iter().map(|it| &bytes[it.bytes.clone()]);
        for (image, is_own) in images.map(|it| (it, true)).chain([(&bytes[bytes.len() / 2..], false)]) {
            if let Some(Ok(replaced)) = with_image(bytes, image, Replaced::Present) {
                let replaced = read(&replaced).expect("a replacement can be read");
                let names =
                    |it: &Executable| it.functions.iter().map(|it| it.name.clone()).collect::<Vec<_>>();
                assert!(!is_own || names(&replaced) == names(&executable), "the same functions");
            }
        }
        check(&executable, bytes)
    });
    read.count()
}

/// Reads `bytes` as an image of one kind, whose first bytes they get. Returns whether they can be read.
pub fn exercise_image(kind: ImageKind, bytes: &[u8]) -> bool {
    let mut bytes = bytes.to_vec();
    let (head, machine) = match kind {
        ImageKind::Cubin => (&elf::MAGIC[..], Some(EM_CUDA.0)),
        ImageKind::Hsaco => (&elf::MAGIC[..], Some(EM_AMDGPU.0)),
        ImageKind::Fatbin => (&[0x50, 0xED, 0x55, 0xBA, 1, 0, 16, 0][..], None),
        ImageKind::Ptx | ImageKind::SpirV => (&[][..], None),
    };
    bytes.resize(bytes.len().max(20), 0);
    bytes[..head.len()].copy_from_slice(head);
    if let Some(machine) = machine {
        bytes[18..20].copy_from_slice(&machine.to_le_bytes());
    }
    exercise(&bytes) > 0
}

fn check(executable: &Executable, bytes: &[u8]) -> bool {
    for image in &executable.images {
        let code = &bytes[image.bytes.clone()];
        assert!(image.kind.fits(code), "an image is what it says");
        assert!(image.kind != ImageKind::Ptx || image.target.is_some(), "PTX has a target");
    }
    for function in &executable.functions {
        assert!(function.image < executable.images.len(), "a function is in an image");
        assert!(!function.name.is_empty() && function.name.len() <= bytes.len());
        assert!(function.workgroup_size.is_none_or(|size| !size.contains(&0)));
        let parameters = function.parameters.as_ref().map_or(0, |it| it.len());
        assert!(parameters <= bytes.len(), "a parameter has bytes");
    }
    true
}
