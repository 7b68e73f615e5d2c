use std::fmt;

use crate::Ref;

/// A value of a program.
///
/// Functions take and return the kinds in [`ValueKind`]; lists can also hold the narrow integers.
#[derive(Clone)]
pub enum Value {
    /// An 8-bit integer, in lists only.
    I8(i8),
    /// A 16-bit integer, in lists only.
    I16(i16),
    /// A 32-bit integer, signed or unsigned as the program uses it.
    I32(i32),
    /// A 64-bit integer, signed or unsigned as the program uses it.
    I64(i64),
    /// An f32.
    F32(f32),
    /// An f64.
    F64(f64),
    /// A reference; unset elements of a list of variants are null.
    Ref(Ref),
}

/// The kind of a function's argument or result; a calling convention has a letter for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ValueKind {
    /// `i`
    I32,
    /// `I`
    I64,
    /// `f`
    F32,
    /// `F`
    F64,
    /// `r`
    Ref,
}

impl ValueKind {
    /// The letter of calling conventions.
    pub const fn letter(self) -> char {
        match self {
            Self::I32 => 'i',
            Self::I64 => 'I',
            Self::F32 => 'f',
            Self::F64 => 'F',
            Self::Ref => 'r',
        }
    }

    /// The kind of a calling convention letter.
    pub const fn from_letter(letter: u8) -> Option<Self> {
        Some(match letter {
            b'i' => Self::I32,
            b'I' => Self::I64,
            b'f' => Self::F32,
            b'F' => Self::F64,
            b'r' => Self::Ref,
            _ => return None,
        })
    }

    /// Its name in text.
    pub const fn name(self) -> &'static str {
        match self {
            Self::I32 => "i32",
            Self::I64 => "i64",
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::Ref => "ref",
        }
    }
}

impl Value {
    /// The null reference.
    pub const NULL: Self = Self::Ref(Ref::NULL);

    /// Its kind as an argument; `None` for the narrow integers.
    pub const fn kind(&self) -> Option<ValueKind> {
        Some(match self {
            Self::I8(_) | Self::I16(_) => return None,
            Self::I32(_) => ValueKind::I32,
            Self::I64(_) => ValueKind::I64,
            Self::F32(_) => ValueKind::F32,
            Self::F64(_) => ValueKind::F64,
            Self::Ref(_) => ValueKind::Ref,
        })
    }

    /// The name of its type ("i32", "hal.fence", "null").
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::I8(_) => "i8",
            Self::I16(_) => "i16",
            Self::I32(_) => "i32",
            Self::I64(_) => "i64",
            Self::F32(_) => "f32",
            Self::F64(_) => "f64",
            Self::Ref(object) => object.type_name().unwrap_or("null"),
        }
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::I8(value) => write!(f, "{value}i8"),
            Self::I16(value) => write!(f, "{value}i16"),
            Self::I32(value) => write!(f, "{value}i32"),
            Self::I64(value) => write!(f, "{value}i64"),
            Self::F32(value) => write!(f, "{value}f32"),
            Self::F64(value) => write!(f, "{value}f64"),
            Self::Ref(object) => object.fmt(f),
        }
    }
}

impl From<i32> for Value {
    fn from(value: i32) -> Self {
        Self::I32(value)
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::I32(value.into())
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::I64(value)
    }
}

impl From<f32> for Value {
    fn from(value: f32) -> Self {
        Self::F32(value)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::F64(value)
    }
}

impl From<Ref> for Value {
    fn from(value: Ref) -> Self {
        Self::Ref(value)
    }
}
