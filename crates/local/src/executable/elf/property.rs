//! `.note.gnu.property`: the x86 instruction-set levels that an image requires, as the x86-64 supplement of
//! the System V ABI defines them (<https://gitlab.com/x86-psABIs/x86-64-ABI>).

use object::LittleEndian as LE;
use object::elf::{FileHeader64, GNU_PROPERTY_X86_ISA_1_NEEDED};
use object::read::elf::NoteIterator;
use rehal_base::FormatError;

use super::header::Segment;
use crate::executable::abi::PROCESSOR_DATA_WORDS;
use crate::executable::processor;
use rehal_formats::elf::Reader;

/// The name of the property, for errors.
pub(super) const FIELD: &str = "GNU_PROPERTY_X86_ISA_1_NEEDED";

/// Rejects an image that requires an instruction-set level that this machine lacks.
pub(super) fn check(file: Reader<'_>, entry: &Segment) -> Result<(), FormatError> {
    check_for(file, entry.offset, entry.file_size, processor::data())
}

/// Likewise, for a machine with these feature `words`.
fn check_for(
    file: Reader<'_>,
    offset: u64,
    size: u64,
    words: [u64; PROCESSOR_DATA_WORDS],
) -> Result<(), FormatError> {
    let note = file.take(offset, size, "PT_GNU_PROPERTY")?;
    let Some(needed) = levels_needed(note) else { return Ok(()) };
    let missing = processor::missing_levels(needed, words);
    if missing.is_empty() {
        return Ok(());
    }
    let missing = missing.join(", ");
    let advice = format!("compile the executable for this machine's CPU, or run it on one with {missing}");
    Err(file.unsupported(offset, FIELD, "levels of this machine's CPU", missing).advise(advice))
}

/// The bits of the property in a note, or `None` if the note lacks it. Malformed notes are ignored: nothing
/// depends on them.
fn levels_needed(note: &[u8]) -> Option<u32> {
    let note = NoteIterator::<FileHeader64<LE>>::new(LE, 8, note).ok()?.next().ok()??;
    let mut properties = note.gnu_properties(LE)?.filter_map(Result::ok);
    let needed = properties.find(|it| it.pr_type() == GNU_PROPERTY_X86_ISA_1_NEEDED)?;
    needed.data_u32(LE).ok()
}

#[cfg(test)]
mod tests {
    use object::elf::NT_GNU_PROPERTY_TYPE_0;

    use super::*;

    fn note(properties: &[(u32, u32)]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for word in [4, properties.len() as u32 * 16, NT_GNU_PROPERTY_TYPE_0.0] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(b"GNU\0");
        for (kind, value) in properties {
            for word in [*kind, 4, *value, 0] {
                bytes.extend(word.to_le_bytes());
            }
        }
        bytes
    }

    #[test]
    fn finds_the_property_after_others_and_survives_truncation() {
        let bytes = note(&[(0xC000_0002, 3), (GNU_PROPERTY_X86_ISA_1_NEEDED.0, 0b101)]);
        assert_eq!(levels_needed(&bytes), Some(0b101));
        for length in 0..bytes.len() - 4 {
            assert_eq!(levels_needed(&bytes[..length]), None);
        }
        assert_eq!(levels_needed(&note(&[(0xC000_0002, 3)])), None);
    }

    #[test]
    #[cfg_attr(not(target_arch = "x86_64"), ignore = "no other processor has levels")]
    fn a_level_that_the_machine_lacks_is_named() {
        let bytes = note(&[(GNU_PROPERTY_X86_ISA_1_NEEDED.0, 0b1000)]);
        let file = Reader { bytes: &bytes, origin: 0 };
        let check = |words| check_for(file, 0, bytes.len() as u64, words);
        let error = check([0xFC0F, 0, 0, 0, 0, 0, 0, 0]).unwrap_err();
        assert_eq!((error.field, error.found.as_str()), (FIELD, "x86-64-v4"));
        assert!(error.advice.unwrap().to_string().ends_with("run it on one with x86-64-v4"));
        assert!(check([u64::MAX; 8]).is_ok());
    }
}
