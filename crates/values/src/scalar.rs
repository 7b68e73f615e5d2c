use std::fmt;

use rehal_base::{Error, Result};

use crate::element::parse_bits;
use crate::number::{general_lower, parse_f32, parse_f64};
use crate::representation::Signs;

/// The type of a scalar argument or result of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScalarType {
    /// 32-bit integer, signed or unsigned; also booleans.
    I32,
    /// 64-bit integer, signed or unsigned.
    I64,
    /// f32.
    F32,
    /// f64.
    F64,
}

/// A scalar argument or result of a function.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scalar {
    /// See [`ScalarType::I32`].
    I32(i32),
    /// See [`ScalarType::I64`].
    I64(i64),
    /// See [`ScalarType::F32`].
    F32(f32),
    /// See [`ScalarType::F64`].
    F64(f64),
}

impl ScalarType {
    /// The number 0.
    pub fn zero(self) -> Scalar {
        match self {
            Self::I32 => Scalar::I32(0),
            Self::I64 => Scalar::I64(0),
            Self::F32 => Scalar::F32(0.0),
            Self::F64 => Scalar::F64(0.0),
        }
    }

    /// Parses a number. Integers may also be `true` and `false` (an extension of the reference).
    pub fn parse(self, text: &str) -> Result<Scalar> {
        let whole = |bits| match text {
            "true" => Ok(1),
            "false" => Ok(0),
            _ => parse_bits(text, bits, Signs::Signless),
        };
        let parsed = match self {
            Self::I32 => whole(32).map(|value| Scalar::I32(value as u32 as i32)),
            Self::I64 => whole(64).map(|value| Scalar::I64(value as i64)),
            Self::F32 => parse_f32(text).map(Scalar::F32),
            Self::F64 => parse_f64(text).map(Scalar::F64),
        };
        parsed.map_err(|error| Error::new(error.code(), format!("{} (expected an {self})", error.message())))
    }
}

impl fmt::Display for ScalarType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::I32 => "i32",
            Self::I64 => "i64",
            Self::F32 => "f32",
            Self::F64 => "f64",
        })
    }
}

impl Scalar {
    /// Its type.
    pub fn scalar_type(self) -> ScalarType {
        match self {
            Self::I32(_) => ScalarType::I32,
            Self::I64(_) => ScalarType::I64,
            Self::F32(_) => ScalarType::F32,
            Self::F64(_) => ScalarType::F64,
        }
    }

    /// Its bytes, little-endian.
    pub fn to_bytes(self) -> Vec<u8> {
        match self {
            Self::I32(value) => value.to_le_bytes().to_vec(),
            Self::I64(value) => value.to_le_bytes().to_vec(),
            Self::F32(value) => value.to_le_bytes().to_vec(),
            Self::F64(value) => value.to_le_bytes().to_vec(),
        }
    }

    /// Only the number, floats as C's `%g` prints them.
    pub fn number(self) -> String {
        match self {
            Self::I32(value) => value.to_string(),
            Self::I64(value) => value.to_string(),
            Self::F32(value) => general_lower(value.into()),
            Self::F64(value) => general_lower(value),
        }
    }

    /// Whether both are the same number of the same type; NaNs are equal.
    pub fn is_same(self, other: Self) -> bool {
        match (self, other) {
            (Self::F32(a), Self::F32(b)) => a == b || a.is_nan() && b.is_nan(),
            (Self::F64(a), Self::F64(b)) => a == b || a.is_nan() && b.is_nan(),
            (a, b) => a == b,
        }
    }
}

/// As printed in results: `i32=7`.
impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.scalar_type(), self.number())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_each_type() {
        for (scalar_type, text, expected) in [
            (ScalarType::I32, "-7", "i32=-7"),
            (ScalarType::I32, "0xffffffff", "i32=-1"),
            (ScalarType::I32, "true", "i32=1"),
            (ScalarType::I64, "9223372036854775807", "i64=9223372036854775807"),
            (ScalarType::F32, "2.25", "f32=2.25"),
            (ScalarType::F32, "-inf", "f32=-inf"),
            (ScalarType::F64, "1e-300", "f64=1e-300"),
        ] {
            assert_eq!(scalar_type.parse(text).unwrap().to_string(), expected);
        }
        for (scalar_type, text) in [
            (ScalarType::I32, "1.5"),
            (ScalarType::I32, "4294967296"),
            (ScalarType::F32, "true"),
            (ScalarType::F64, ""),
        ] {
            let error = scalar_type.parse(text).unwrap_err();
            assert!(error.message().ends_with(&format!("(expected an {scalar_type})")), "{error}");
        }
    }
}
