use rehal_base::{Error, Result};
use smallvec::SmallVec;

use crate::operation::{Field, Operation, Set, lookup};

/// A decoded, unverified instruction.
#[derive(Debug, Clone)]
pub(crate) struct Instruction<'a> {
    /// Its row in the table.
    pub(crate) operation: &'static Operation,
    /// Offset in the function, in bytes.
    pub(crate) offset: usize,
    /// Offset of the next instruction.
    pub(crate) end: usize,
    /// The values of its fields, in order.
    pub(crate) values: SmallVec<[FieldValue<'a>; 6]>,
}

/// The value of a field of an instruction.
#[derive(Debug, Clone)]
pub(crate) enum FieldValue<'a> {
    /// A register.
    Register(u16),
    /// A number, as bits.
    Bits(u64),
    /// An offset, an ordinal or the offset of a block.
    Ordinal(u32),
    /// Bytes of text.
    Text(&'a [u8]),
    /// Registers, or tuple counts.
    List(List<'a>),
    /// Pairs of registers, source first.
    Moves(List<'a>),
    /// Blocks with the moves to them.
    Cases(Vec<(u32, List<'a>)>),
}

/// A list of u16 in the bytecode.
#[derive(Debug, Clone, Copy)]
pub(crate) struct List<'a>(&'a [u8]);

impl<'a> List<'a> {
    pub(crate) fn len(self) -> usize {
        self.0.len() / 2
    }

    pub(crate) fn iter(self) -> impl ExactSizeIterator<Item = u16> + Clone + use<'a> {
        self.0.chunks_exact(2).map(|bytes| u16::from_le_bytes([bytes[0], bytes[1]]))
    }

    /// The list as pairs.
    pub(crate) fn pairs(self) -> impl ExactSizeIterator<Item = (u16, u16)> + Clone + use<'a> {
        self.0
            .chunks_exact(4)
            .map(|bytes| (u16::from_le_bytes([bytes[0], bytes[1]]), u16::from_le_bytes([bytes[2], bytes[3]])))
    }
}

impl<'a> Instruction<'a> {
    /// Decodes the instruction at `offset` of a function's bytes. Fails if they are truncated, and on an
    /// unknown opcode.
    pub(crate) fn read(bytecode: &'a [u8], offset: usize) -> Result<Self> {
        let mut cursor = Cursor { bytecode, at: offset };
        let first = cursor.u8()?;
        let (set, opcode) = match first {
            0xE0 => (Set::F32, cursor.u8()?),
            0xE1 => (Set::F64, cursor.u8()?),
            opcode => (Set::Core, opcode),
        };
        let operation = lookup(set, opcode).ok_or_else(|| unknown(set, opcode))?;
        let mut values = SmallVec::new();
        for field in operation.fields {
            values.push(cursor.field(*field)?);
        }
        Ok(Self { operation, offset, end: cursor.at, values })
    }

    /// The register in field `index`; the table guarantees the field type.
    pub(crate) fn register(&self, index: usize) -> u16 {
        match self.values.get(index) {
            Some(FieldValue::Register(register)) => *register,
            _ => 0,
        }
    }

    /// The ordinal in field `index`.
    pub(crate) fn ordinal(&self, index: usize) -> u32 {
        match self.values.get(index) {
            Some(FieldValue::Ordinal(ordinal)) => *ordinal,
            _ => 0,
        }
    }

    /// The number in field `index`, as bits.
    pub(crate) fn bits(&self, index: usize) -> u64 {
        match self.values.get(index) {
            Some(FieldValue::Bits(bits)) => *bits,
            _ => 0,
        }
    }

    /// The list or the moves in field `index`.
    pub(crate) fn list(&self, index: usize) -> List<'a> {
        match self.values.get(index) {
            Some(FieldValue::List(list) | FieldValue::Moves(list)) => *list,
            _ => List(&[]),
        }
    }

    /// The text in field `index`.
    pub(crate) fn text(&self, index: usize) -> &'a [u8] {
        match self.values.get(index) {
            Some(FieldValue::Text(text)) => text,
            _ => &[],
        }
    }

    /// The cases in field `index`.
    pub(crate) fn cases(&self, index: usize) -> &[(u32, List<'a>)] {
        match self.values.get(index) {
            Some(FieldValue::Cases(cases)) => cases,
            _ => &[],
        }
    }
}

/// Reads a function's bytes in order.
struct Cursor<'a> {
    bytecode: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn field(&mut self, field: Field) -> Result<FieldValue<'a>> {
        use crate::ValueKind::{F32, F64, I32, I64, Ref};
        Ok(match field {
            Field::Read(_) | Field::Write(_) | Field::Take => FieldValue::Register(self.u16()?),
            Field::Const(I32 | F32) => FieldValue::Bits(self.u32()?.into()),
            Field::Const(I64 | F64 | Ref) => FieldValue::Bits(u64::from_le_bytes(self.array()?)),
            Field::GlobalBytes(_)
            | Field::GlobalRef
            | Field::Rodata
            | Field::TypeId
            | Field::Function
            | Field::Import
            | Field::Target => FieldValue::Ordinal(self.u32()?),
            Field::Text => {
                let length = self.u16()?.into();
                FieldValue::Text(self.bytes(length)?)
            }
            Field::Moves => FieldValue::Moves(self.list(4)?),
            Field::Operands | Field::Results | Field::Segments | Field::Many(_) => {
                FieldValue::List(self.list(2)?)
            }
            Field::Cases => {
                let count = self.u16()?;
                let mut cases = Vec::new();
                for _ in 0..count {
                    cases.push((self.u32()?, self.list(4)?));
                }
                FieldValue::Cases(cases)
            }
        })
    }

    /// A counted list of elements of `size` bytes.
    fn list(&mut self, size: usize) -> Result<List<'a>> {
        self.at += self.at % 2;
        let count = usize::from(self.u16()?);
        Ok(List(self.bytes(count * size)?))
    }

    fn bytes(&mut self, length: usize) -> Result<&'a [u8]> {
        let bytes = self.bytecode.get(self.at..).and_then(|rest| rest.get(..length));
        let bytes = bytes.ok_or_else(|| {
            let left = self.bytecode.len().saturating_sub(self.at);
            Error::out_of_range(format!("truncated instruction: expected {length} more bytes, found {left}"))
        })?;
        self.at += length;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        Ok(self.bytes(N)?.first_chunk().copied().unwrap_or([0; N]))
    }

    fn u8(&mut self) -> Result<u8> {
        self.array::<1>().map(|bytes| bytes[0])
    }

    fn u16(&mut self) -> Result<u16> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Result<u32> {
        self.array().map(u32::from_le_bytes)
    }
}

#[cold]
fn unknown(set: Set, opcode: u8) -> Error {
    let prefix = set.prefix().map(|prefix| format!("{prefix:#04x} ")).unwrap_or_default();
    Error::invalid_argument(format!("unknown opcode {prefix}{opcode:#04x}"))
}
