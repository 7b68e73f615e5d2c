//! The origin of a replacement's code, as far as its bytes say it.
//!
//! The compiler of programs divides the work of a dispatch into workgroups, and tells the program how many:
//! the binary does not have their number. A hand-written kernel, in C for example, is for the captured
//! dispatch, or divides the work by the count that it gets (docs/decisions/058).

use object::Endianness;
use object::elf::FileHeader64;
use object::read::elf::{FileHeader, SectionHeader};
use rehal_base::FileKind;
use rehal_hal::NeededWorkgroups;

/// The workgroups that code needs in place of `replaced`, unless something else says it.
pub(crate) fn workgroups(code: &[u8], replaced: &[u8]) -> NeededWorkgroups {
    let is_known = code == replaced
        || match FileKind::from_head(code) {
            Some(FileKind::Elf) => is_hand_written_elf(code),
            // The executable of a program may contain it.
            Some(FileKind::SpirV) => is_hand_written_spirv(code) || contains(replaced, code),
            _ => false,
        };
    match is_known {
        true => NeededWorkgroups::Same,
        false => NeededWorkgroups::Unknown(
            "compiled code does not say into how many workgroups its compiler has divided the work".into(),
        ),
    }
}

/// Whether compilers name themselves, as those of C and Rust do, and none is that of programs. System
/// libraries of the latter have no such section.
fn is_hand_written_elf(code: &[u8]) -> bool {
    let comment = || {
        let header = FileHeader64::<Endianness>::parse(code).ok()?;
        let endian = header.endian().ok()?;
        let (_, section) = header.sections(endian, code).ok()?.section_by_name(endian, b".comment")?;
        section.data(endian, code).ok()
    };
    comment().is_some_and(|it| it.iter().any(|byte| *byte != 0) && !contains(it, b"IREE"))
}

/// Whether a module's generator is not that of the compiler of programs.
fn is_hand_written_spirv(code: &[u8]) -> bool {
    /// MLIR in the registry of generators.
    const MLIR: u16 = 22;
    let words = |at: usize| code.get(at..at + 2).map(|it| [it[0], it[1]]);
    let generator = match code.first() {
        Some(0x03) => words(10).map(u16::from_le_bytes),
        _ => words(8).map(u16::from_be_bytes),
    };
    generator.is_some_and(|it| it != MLIR && it != 0)
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    !part.is_empty() && bytes.windows(part.len()).any(|it| it == part)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fixture(name: &str) -> Vec<u8> {
        std::fs::read(testing::fixtures().join(name)).unwrap()
    }

    #[test]
    fn compilers_of_programs_do_not_say_how_the_work_is_divided() {
        for (file, is_known) in [
            ("cts/native.so", true),
            ("cts/chain.so", true),
            ("cts/workgroups.embedded.elf", false),
            ("cts/workgroups.system.so", false),
            ("cts/workgroups.vmvx.vmfb", false),
            ("vulkan/executables/add4_swapped.0.spv", false),
        ] {
            let code = fixture(file);
            let needed = |replaced: &[u8]| workgroups(&code, replaced) == NeededWorkgroups::Same;
            assert_eq!(needed(&[]), is_known, "{file}");
            assert!(needed(&code), "{file}");
        }
        let spirv = fixture("vulkan/executables/add4_swapped.0.spv");
        let mut hand_written = spirv.clone();
        hand_written[10] = 8;
        assert_eq!(workgroups(&hand_written, &[]), NeededWorkgroups::Same);
        let within = [&[1, 2, 3], &spirv[..], &[4]].concat();
        assert_eq!(workgroups(&spirv, &within), NeededWorkgroups::Same);
    }

    #[test]
    fn damaged_code_is_not_known() {
        let code = fixture("cts/chain.so");
        for end in (0..code.len()).step_by(61) {
            let _ = workgroups(&code[..end], &[]);
        }
        assert!(matches!(workgroups(&[], &[1]), NeededWorkgroups::Unknown(_)));
    }
}
