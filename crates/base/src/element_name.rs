//! The names of element types: `f32`, `i1`, `si8`, `bf16`, `f8E4M3FN`, `cf64`, `*16`, and those that NumPy
//! has for some of them.

use std::fmt;
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{ElementType, Error, Numerical};

/// Types whose names are not just prefix and bit count.
const SPECIAL: [(&str, ElementType); 6] = [
    ("i1", ElementType::from_parts(Numerical::BOOLEAN, 8)),
    ("f8E5M2", ElementType::from_parts(Numerical::FLOAT_8_E5M2, 8)),
    ("f8E4M3FN", ElementType::from_parts(Numerical::FLOAT_8_E4M3FN, 8)),
    ("f8E5M2FNUZ", ElementType::from_parts(Numerical::FLOAT_8_E5M2_FNUZ, 8)),
    ("f8E4M3FNUZ", ElementType::from_parts(Numerical::FLOAT_8_E4M3_FNUZ, 8)),
    ("f8E8M0FNU", ElementType::from_parts(Numerical::FLOAT_8_E8M0_FNU, 8)),
];

/// NumPy's names, and those of the package ml_dtypes. Types of less than a byte are missing: an array of
/// NumPy has a byte for each element, a tensor packs them.
const NUMPY: [(&str, ElementType); 21] = [
    ("bool", ElementType::from_parts(Numerical::BOOLEAN, 8)),
    ("bool_", ElementType::from_parts(Numerical::BOOLEAN, 8)),
    ("int8", ElementType::from_parts(Numerical::SIGNED, 8)),
    ("int16", ElementType::from_parts(Numerical::SIGNED, 16)),
    ("int32", ElementType::from_parts(Numerical::SIGNED, 32)),
    ("int64", ElementType::from_parts(Numerical::SIGNED, 64)),
    ("uint8", ElementType::from_parts(Numerical::UNSIGNED, 8)),
    ("uint16", ElementType::from_parts(Numerical::UNSIGNED, 16)),
    ("uint32", ElementType::from_parts(Numerical::UNSIGNED, 32)),
    ("uint64", ElementType::from_parts(Numerical::UNSIGNED, 64)),
    ("float16", ElementType::from_parts(Numerical::FLOAT_IEEE, 16)),
    ("float32", ElementType::from_parts(Numerical::FLOAT_IEEE, 32)),
    ("float64", ElementType::from_parts(Numerical::FLOAT_IEEE, 64)),
    ("complex64", ElementType::from_parts(Numerical::FLOAT_COMPLEX, 64)),
    ("complex128", ElementType::from_parts(Numerical::FLOAT_COMPLEX, 128)),
    ("bfloat16", ElementType::from_parts(Numerical::FLOAT_BRAIN, 16)),
    ("float8_e5m2", ElementType::from_parts(Numerical::FLOAT_8_E5M2, 8)),
    ("float8_e4m3fn", ElementType::from_parts(Numerical::FLOAT_8_E4M3FN, 8)),
    ("float8_e5m2fnuz", ElementType::from_parts(Numerical::FLOAT_8_E5M2_FNUZ, 8)),
    ("float8_e4m3fnuz", ElementType::from_parts(Numerical::FLOAT_8_E4M3_FNUZ, 8)),
    ("float8_e8m0fnu", ElementType::from_parts(Numerical::FLOAT_8_E8M0_FNU, 8)),
];

impl ElementType {
    /// The type with this name of NumPy or ml_dtypes, such as `float32` or `bfloat16`.
    pub fn from_numpy_name(name: &str) -> Option<Self> {
        NUMPY.iter().find(|(known, _)| *known == name).map(|(_, element_type)| *element_type)
    }

    /// The name of the type in NumPy or ml_dtypes.
    pub fn numpy_name(self) -> Option<&'static str> {
        NUMPY.iter().find(|(_, element_type)| *element_type == self).map(|(name, _)| *name)
    }
}

/// The prefix before the bit count.
const PREFIXES: [(&str, Numerical); 7] = [
    ("si", Numerical::SIGNED),
    ("ui", Numerical::UNSIGNED),
    ("i", Numerical::INTEGER),
    ("bf", Numerical::FLOAT_BRAIN),
    ("cf", Numerical::FLOAT_COMPLEX),
    ("f", Numerical::FLOAT_IEEE),
    ("*", Numerical::OPAQUE),
];

impl Serialize for ElementType {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'d> Deserialize<'d> for ElementType {
    fn deserialize<D: Deserializer<'d>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

/// The name in the reference's tools; a type without a name is `*` and its bits.
impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((name, _)) = SPECIAL.iter().find(|(_, special)| special == self) {
            return f.write_str(name);
        }
        if self.numerical() == Numerical::BOOLEAN {
            return f.write_str("i1");
        }
        let prefix = PREFIXES.iter().find(|(_, numerical)| *numerical == self.numerical());
        write!(f, "{}{}", prefix.map_or("*", |(prefix, _)| prefix), self.bits())
    }
}

/// The type with this name, of 1 to 255 bits, or with this name of NumPy, where `int8` is `si8`.
impl FromStr for ElementType {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        if let Some((_, special)) = SPECIAL.iter().find(|(special, _)| *special == name) {
            return Ok(*special);
        }
        if let Some(element_type) = Self::from_numpy_name(name) {
            return Ok(element_type);
        }
        let parts =
            PREFIXES.iter().find_map(|(prefix, numerical)| Some((name.strip_prefix(prefix)?, numerical)));
        let unknown = || {
            Error::invalid_argument(format!("'{name}' is not an element type"))
                .advise("such as f32, f64, f16, bf16, f8E4M3FN, i1, i4, i8, i32, i64, si32, ui8, cf64, *8")
        };
        let (bits, numerical) = parts.ok_or_else(unknown)?;
        if bits.is_empty() || !bits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(unknown());
        }
        match bits.parse::<u8>() {
            Ok(bits @ 1..) => Ok(Self::from_parts(*numerical, bits)),
            _ => Err(Error::out_of_range(format!(
                "element type '{name}' is out of range (expected 1 to 255 bits)"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for (name, value) in [
            ("i1", 0x1300_0008),
            ("i4", 0x1000_0004),
            ("i8", 0x1000_0008),
            ("si8", 0x1100_0008),
            ("ui64", 0x1200_0040),
            ("f16", 0x2100_0010),
            ("f64", 0x2100_0040),
            ("bf16", 0x2200_0010),
            ("cf64", 0x2300_0040),
            ("cf128", 0x2300_0080),
            ("f8E5M2", 0x2400_0008),
            ("f8E4M3FN", 0x2500_0008),
            ("f8E5M2FNUZ", 0x2600_0008),
            ("f8E4M3FNUZ", 0x2700_0008),
            ("f8E8M0FNU", 0x2800_0008),
            ("*8", 8),
            ("*64", 64),
        ] {
            assert_eq!(name.parse::<ElementType>().unwrap(), ElementType(value), "{name}");
            assert_eq!(ElementType(value).to_string(), name);
        }
        assert_eq!(ElementType(0x7f00_0011).to_string(), "*17");
        assert_eq!(ElementType(0x1300_0001).to_string(), "i1");
    }

    #[test]
    fn names_of_numpy_are_other_names() {
        for (numpy, name) in [
            ("bool", "i1"),
            ("int8", "si8"),
            ("uint64", "ui64"),
            ("float16", "f16"),
            ("float32", "f32"),
            ("complex64", "cf64"),
            ("complex128", "cf128"),
            ("bfloat16", "bf16"),
            ("float8_e5m2", "f8E5M2"),
            ("float8_e4m3fn", "f8E4M3FN"),
            ("float8_e5m2fnuz", "f8E5M2FNUZ"),
            ("float8_e4m3fnuz", "f8E4M3FNUZ"),
            ("float8_e8m0fnu", "f8E8M0FNU"),
        ] {
            let element_type: ElementType = numpy.parse().unwrap();
            assert_eq!((element_type.to_string().as_str(), element_type.numpy_name()), (name, Some(numpy)));
        }
        assert_eq!("i8".parse::<ElementType>().unwrap().numpy_name(), None);
        for unknown in ["int4", "int", "float", "float8", "float128", "Float32", "float32 "] {
            assert!(unknown.parse::<ElementType>().is_err(), "{unknown}");
        }
    }

    #[test]
    fn malformed_names_are_rejected() {
        for name in ["", "i", "f", "32", "f-1", "f+8", "i32x", "F32", "f8E4M3", "x8", "i 8", "tensor"] {
            let error = name.parse::<ElementType>().unwrap_err();
            assert!(error.message().contains("not an element type") && error.advice().is_some(), "{name}");
        }
        for name in ["i0", "i256", "f99999999999999999999"] {
            assert!(name.parse::<ElementType>().unwrap_err().message().contains("1 to 255"), "{name}");
        }
    }
}
