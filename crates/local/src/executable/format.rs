//! Names of executable formats, and detection of the format of bytes.

use rehal_base::{Ability, Error, FileKind, Remedy, Result};
use rehal_hal::{CompilerTarget, ExecutableFormat, FunctionInfo};

use super::elf;
use super::link::{ElfLibrary, is_same_code};
use super::vmvx::VmvxExecutable;
use crate::platform;

/// Prefix of the names of embedded ELF executables; the architecture follows.
const EMBEDDED: &str = "embedded-elf-";
/// Prefix of the names of system libraries; the architecture follows.
const SYSTEM: &str = "system-elf-";
/// VM programs.
const VMVX: &str = "vmvx-bytecode-fb";
/// A library linked into the process.
const STATIC: &str = "static";

/// The formats of both drivers. Those of the processor are of all architectures.
pub const FORMATS: [ExecutableFormat; 3] = [
    ExecutableFormat {
        prefix: EMBEDDED,
        description: "an ELF image",
        files: &[FileKind::Elf],
        is_host_code: true,
        states_workgroup_sizes: true,
        functions: elf_functions,
        written_bindings: None,
        binds_addresses: None,
        target: architecture,
        images: |_, _| Vec::new(),
        with_image: |_, _, _| None,
        replaces_functions: false,
        check_emulated: None,
        extensions: EXTENSIONS,
        is_same_code: Some(is_same_code),
    },
    ExecutableFormat {
        prefix: SYSTEM,
        description: "a shared library",
        files: &[FileKind::Elf],
        is_host_code: true,
        states_workgroup_sizes: true,
        functions: elf_functions,
        written_bindings: None,
        binds_addresses: None,
        target: architecture,
        images: |_, _| Vec::new(),
        with_image: |_, _, _| None,
        replaces_functions: false,
        check_emulated: None,
        extensions: EXTENSIONS,
        is_same_code: Some(is_same_code),
    },
    ExecutableFormat {
        prefix: "vmvx-",
        description: "VMVX bytecode",
        files: &[FileKind::Module],
        is_host_code: false,
        states_workgroup_sizes: false,
        functions: |_, bytes| VmvxExecutable::describe(bytes),
        written_bindings: None,
        binds_addresses: None,
        target: |_, _| None,
        images: |_, _| Vec::new(),
        with_image: |_, _, _| None,
        replaces_functions: false,
        check_emulated: None,
        extensions: &["vmfb"],
        is_same_code: None,
    },
];

/// The extensions of files with machine code.
const EXTENSIONS: &[&str] = &["so", "elf"];

/// The architecture that ends the name of a format.
fn architecture(format: &str, _: &[u8]) -> Option<String> {
    [EMBEDDED, SYSTEM].iter().find_map(|prefix| format.strip_prefix(prefix)).map(str::to_owned)
}

fn elf_functions(_: &str, bytes: &[u8]) -> Result<Vec<FunctionInfo>> {
    Ok(ElfLibrary::read(elf::own_image(bytes)?)?.functions)
}

/// How programs are compiled for both drivers.
pub const COMPILER_TARGET: CompilerTarget = CompilerTarget {
    name: "cpu",
    device: "local",
    flags: "--iree-hal-local-target-device-backends=llvm-cpu",
    chip_flag: "--iree-llvmcpu-target-cpu",
    own_chip: Some("host"),
    chips: &[],
};

/// How programs are compiled for VMVX.
const VMVX_FLAGS: &str = "--iree-hal-target-device=local --iree-hal-local-target-device-backends=vmvx";

/// A supported format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    EmbeddedElf,
    SystemElf,
    Vmvx,
}

/// Whether executables of the format named `format` can be loaded here; the error says why not.
///
/// As in the reference, a name may have a suffix after the architecture.
pub fn check(format: &str) -> Result<()> {
    Format::from_name(format).map(drop)
}

/// See [`check`].
pub fn is_supported(format: &str) -> bool {
    check(format).is_ok()
}

impl Format {
    /// The format named `name`, or an error with the reason why it cannot be loaded here.
    pub(super) fn from_name(name: &str) -> Result<Self> {
        let here = platform::ARCHITECTURE;
        for (prefix, format) in [(EMBEDDED, Self::EmbeddedElf), (SYSTEM, Self::SystemElf)] {
            let Some(architecture) = name.strip_prefix(prefix) else { continue };
            if architecture.starts_with(here) {
                let ability =
                    if format == Self::SystemElf { Ability::SystemLibraries } else { Ability::NativeCode };
                let vmvx = "VMVX, which needs no native code";
                return ability.require().map(|()| format).map_err(|error| {
                    error.advise(Remedy::CompileWith { purpose: vmvx.into(), flags: VMVX_FLAGS.into() })
                });
            }
            return Err(Error::incompatible(format!(
                "the executable is compiled for '{name}' ({architecture}); here: {here}"
            ))
            .advise(Remedy::compile_for_processor(COMPILER_TARGET.device)));
        }
        match name {
            VMVX => Ok(Self::Vmvx),
            STATIC => Err(Error::unimplemented(format!(
                "executable format '{STATIC}' names libraries linked into the program that captured it"
            ))),
            _ => Err(Error::not_found(format!(
                "the executable is compiled for '{name}'; here: {EMBEDDED}{here}, {SYSTEM}{here}, {VMVX}"
            ))),
        }
    }
}

/// The name of the format of `bytes`, or `None` if unknown.
///
/// Self-contained ELF images are `embedded-elf-…` and other ELF images `system-elf-…` (the reference treats
/// both as system libraries); archives of VM bytecode are `vmvx-bytecode-fb`.
pub fn infer(bytes: &[u8]) -> Option<&'static str> {
    if bytes.starts_with(&elf::FAT_MAGIC) {
        return elf_names(platform::ARCHITECTURE).map(|(embedded, _)| embedded);
    }
    if bytes.starts_with(&elf::MAGIC) {
        let (embedded, system) = elf_names(&elf::architecture(bytes))?;
        return Some(if elf::needs_system_loader(bytes) { system } else { embedded });
    }
    // A ZIP archive, as written by the compiler, or the bare length-prefixed FlatBuffer with its identifier.
    let is_archive = bytes.starts_with(b"PK\x03\x04");
    let is_flatbuffer = bytes.get(8..12) == Some(b"IREE".as_slice());
    (is_archive || is_flatbuffer).then_some(VMVX)
}

/// The formats of ELF images for an architecture: self-contained, and for the system's loader.
fn elf_names(architecture: &str) -> Option<(&'static str, &'static str)> {
    Some(match architecture {
        "x86_64" => ("embedded-elf-x86_64", "system-elf-x86_64"),
        "x86_32" => ("embedded-elf-x86_32", "system-elf-x86_32"),
        "arm_64" => ("embedded-elf-arm_64", "system-elf-arm_64"),
        "arm_32" => ("embedded-elf-arm_32", "system-elf-arm_32"),
        "riscv_64" => ("embedded-elf-riscv_64", "system-elf-riscv_64"),
        "riscv_32" => ("embedded-elf-riscv_32", "system-elf-riscv_32"),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_supported_as_in_the_reference() {
        let here = platform::ARCHITECTURE;
        assert!(is_supported(&format!("embedded-elf-{here}")));
        assert!(is_supported(&format!("embedded-elf-{here}-anything")));
        assert!(is_supported(&format!("system-elf-{here}")));
        assert!(is_supported("vmvx-bytecode-fb"));
        for format in ["embedded-elf-arm_32", "vmvx-bytecode-fb-2", "static", "", "cuda-nvptx-fb", "elf"] {
            assert!(!is_supported(format), "{format}");
        }
    }

    #[test]
    fn unsupported_formats_are_rejected_with_the_reason() {
        let why = |name: &str| Format::from_name(name).err().map(|error| error.report()).unwrap_or_default();
        let here = platform::ARCHITECTURE;
        let theirs = if here == "riscv_32" { "arm_32" } else { "riscv_32" };
        assert!(
            why(&format!("embedded-elf-{theirs}"))
                .contains(&format!("compiled for 'embedded-elf-{theirs}' ({theirs}); here: {here}"))
        );
        assert!(why("rocm-hsaco-fb").contains("compiled for 'rocm-hsaco-fb'; here: embedded-elf-"));
    }
}
