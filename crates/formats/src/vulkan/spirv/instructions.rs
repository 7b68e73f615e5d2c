use rehal_base::{Fault, FormatError};

/// The name of the format in errors.
pub(in crate::vulkan) const FORMAT: &str = "SPIR-V module";
/// Words before the first instruction.
pub(super) const HEADER_WORDS: usize = 5;

/// The instructions of a module, in order.
#[derive(Clone)]
pub(super) struct Instructions<'a> {
    words: &'a [u32],
    at: usize,
    base: usize,
}

/// An instruction.
#[derive(Clone, Copy)]
pub(super) struct Instruction<'a> {
    /// Its opcode.
    pub(super) opcode: u16,
    /// The words after the first.
    pub(super) operands: &'a [u32],
    /// Its offset in the file, in bytes.
    pub(super) offset: usize,
}

impl<'a> Instructions<'a> {
    /// The instructions after the header; `base` is the module's offset in the file.
    pub(super) fn new(words: &'a [u32], base: usize) -> Self {
        Self { words, at: HEADER_WORDS, base }
    }
}

impl<'a> Iterator for Instructions<'a> {
    type Item = Result<Instruction<'a>, FormatError>;

    fn next(&mut self) -> Option<Self::Item> {
        let first = *self.words.get(self.at)?;
        let (length, opcode) = ((first >> 16) as usize, first as u16);
        let offset = self.base + 4 * self.at;
        let left = self.words.len() - self.at;
        if length == 0 || length > left {
            self.at = self.words.len();
            let found = format!("{length} words");
            return Some(Err(FormatError::new(
                FORMAT,
                if length == 0 { Fault::Corrupt } else { Fault::Truncated },
                offset as u64,
                "instruction",
                format!("1 to {left} words"),
                found,
            )));
        }
        let operands = &self.words[self.at + 1..self.at + length];
        self.at += length;
        Some(Ok(Instruction { opcode, operands, offset }))
    }
}

impl<'a> Instruction<'a> {
    /// Whether its opcode is `op`.
    pub(super) fn is(&self, op: spirv::Op) -> bool {
        self.opcode == op as u16
    }

    /// Operand `index`, or an error if there are fewer.
    pub(super) fn operand(&self, index: usize) -> Result<u32, FormatError> {
        self.operands.get(index).copied().ok_or_else(|| {
            self.error(format!("at least {} operands", index + 1), format!("{}", self.operands.len()))
        })
    }

    /// The index of the operand after the text that begins with operand `index`, which need not be UTF-8:
    /// sources may be split within a character.
    pub(super) fn text_end(&self, index: usize) -> Result<usize, FormatError> {
        let words = self.operands.get(index..).unwrap_or_default();
        match words.iter().position(|word| word.to_le_bytes().contains(&0)) {
            Some(last) => Ok(index + last + 1),
            None => Err(self.error("a NUL-terminated string".to_owned(), "no NUL".to_owned())),
        }
    }

    /// The text from operand `index` on, and the index of the operand after it.
    pub(super) fn text(&self, index: usize) -> Result<(String, usize), FormatError> {
        let end = self.text_end(index)?;
        let bytes = self.operands[index..end].iter().flat_map(|word| word.to_le_bytes());
        match String::from_utf8(bytes.take_while(|byte| *byte != 0).collect()) {
            Ok(text) => Ok((text, end)),
            Err(error) => {
                let byte = error.as_bytes().get(error.utf8_error().valid_up_to()).copied().unwrap_or(0);
                Err(self.error("UTF-8".to_owned(), format!("byte {byte:#04x}")))
            }
        }
    }

    /// An error about this instruction.
    pub(super) fn error(&self, expected: String, found: String) -> FormatError {
        let name = spirv::Op::from_u32(u32::from(self.opcode));
        let found = match name {
            Some(name) => format!("{found} in Op{name:?}"),
            None => format!("{found} in opcode {}", self.opcode),
        };
        FormatError::new(FORMAT, Fault::Corrupt, self.offset as u64, "operands", expected, found)
    }
}
