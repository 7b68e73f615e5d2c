//! Comparison of elements: which differ, by how much.

use rehal_base::{ElementType, Numerical};
use rehal_values::Floats;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{
    Tolerance,
    verify::{Rounding, RoundingError},
};

/// How the elements of two byte strings differ.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ElementDifferences {
    /// Number of elements that were compared.
    pub compared_count: u64,
    /// Number of elements that differ.
    pub different_count: u64,
    /// Number of elements that differ within the tolerance, or by what rounding explains; not part of
    /// `different_count`.
    pub tolerated_count: u64,
    /// How the largest difference compares with what rounding explains, if that was measured.
    pub rounding: Option<RoundingError>,
    /// The first that differ.
    pub first: Vec<ElementDifference>,
    /// The errors of all that differ.
    pub histogram: Histogram,
}

/// An element that differs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ElementDifference {
    /// Its index in the binding or host read.
    pub index: u64,
    /// The expected element, as text.
    pub expected: String,
    /// The actual element, as text.
    pub actual: String,
    /// Number of representable numbers from one to the other; `None` for NaN, and unless elements are real
    /// floating-point numbers.
    pub ulps: Option<u64>,
    /// The absolute error; `None` for NaN, and unless elements are numbers.
    pub absolute: Option<f64>,
    /// The error relative to the expected number; `None` if there is no absolute one or zero is expected.
    pub relative: Option<f64>,
}

/// Numbers of elements by error: in ULPs for floating-point numbers, absolute for integers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Histogram {
    /// Whether errors are in ULPs.
    #[serde(rename = "unit", serialize_with = "unit", deserialize_with = "is_ulp")]
    pub is_in_ulps: bool,
    /// The bins that are not empty, from small to large errors.
    pub bins: Vec<HistogramBin>,
    /// Elements of which one or both are NaN, or that are not numbers.
    pub other_count: u64,
}

fn unit<S: Serializer>(is_in_ulps: &bool, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(if *is_in_ulps { "ulp" } else { "absolute" })
}

fn is_ulp<'d, D: Deserializer<'d>>(from: D) -> Result<bool, D::Error> {
    Ok(String::deserialize(from)? == "ulp")
}

/// A bin of a [`Histogram`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct HistogramBin {
    /// The largest error in it; `None` if it is unbounded.
    pub up_to: Option<u64>,
    /// Number of elements.
    pub count: u64,
}

/// The largest errors of the bins but the last.
const BINS: [u64; 7] = [1, 4, 16, 64, 1 << 10, 1 << 16, 1 << 24];

/// By how much elements may differ.
#[derive(Clone, Copy)]
pub enum Allowed<'t> {
    /// None.
    Nothing,
    /// The elements within a tolerance.
    Tolerance(&'t Tolerance),
    /// The elements that rounding explains.
    Rounding(&'t Rounding),
}

/// Compares elements of one type.
pub struct Comparison<'t> {
    element_type: ElementType,
    kind: Kind,
    size: usize,
    allowed: Allowed<'t>,
    max_first: usize,
    bins: [u64; BINS.len() + 1],
    outcome: ElementDifferences,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Float,
    Signed,
    Unsigned,
    Opaque,
}

/// The distances between two different elements.
#[derive(Clone, Copy, Default)]
struct Error {
    ulps: Option<u64>,
    absolute: Option<f64>,
    relative: Option<f64>,
    /// Neither is a number, although the type has numbers.
    are_both_nan: bool,
}

impl<'t> Comparison<'t> {
    /// Bytes of an unknown type are compared as bytes. At most `max_first` differences are kept.
    pub fn new(element_type: Option<ElementType>, allowed: Allowed<'t>, max_first: usize) -> Self {
        let bytes = ElementType::from_parts(Numerical::OPAQUE, 8);
        let known = element_type.filter(|it| matches!(it.bits(), 8 | 16 | 32 | 64 | 128));
        let element_type = known.unwrap_or(bytes);
        let kind = match element_type.numerical() {
            _ if Floats::for_type(element_type).is_some() => Kind::Float,
            numerical if !numerical.is_integer() || element_type.bits() > 64 => Kind::Opaque,
            Numerical::UNSIGNED | Numerical::BOOLEAN => Kind::Unsigned,
            _ => Kind::Signed,
        };
        let size = (element_type.bits() / 8) as usize;
        let histogram = Histogram { is_in_ulps: kind == Kind::Float, ..Histogram::default() };
        let outcome = ElementDifferences { histogram, ..ElementDifferences::default() };
        Self { element_type, kind, size, allowed, max_first, bins: [0; _], outcome }
    }

    /// Compares bytes that start at `offset` of the binding. The part of an element at the end is compared as
    /// far as it goes.
    pub fn add(&mut self, offset: u64, expected: &[u8], actual: &[u8]) {
        let first = offset / self.size as u64;
        let pairs = expected.chunks(self.size).zip(actual.chunks(self.size));
        for (index, (expected, actual)) in (first..).zip(pairs) {
            self.outcome.compared_count += 1;
            if expected != actual {
                self.differ(index, expected, actual);
            }
        }
    }

    /// The differences of what was added.
    pub fn finish(mut self) -> ElementDifferences {
        let up_to = BINS.iter().map(|bin| Some(*bin)).chain([None]);
        let bins = up_to.zip(self.bins).filter(|(_, count)| *count != 0);
        self.outcome.histogram.bins = bins.map(|(up_to, count)| HistogramBin { up_to, count }).collect();
        self.outcome
    }

    fn differ(&mut self, index: u64, expected: &[u8], actual: &[u8]) {
        let error = match expected.len() == self.size {
            true => self.error(expected, actual),
            false => Error::default(),
        };
        if self.is_tolerated(index, expected, actual, &error) {
            self.outcome.tolerated_count += 1;
            return;
        }
        self.outcome.different_count += 1;
        let amount = match self.kind {
            Kind::Float => error.ulps,
            _ => error.absolute.map(|absolute| absolute as u64),
        };
        match amount {
            Some(amount) => {
                let bin = BINS.iter().position(|bin| amount <= *bin).unwrap_or(BINS.len());
                self.bins[bin] += 1;
            }
            None => self.outcome.histogram.other_count += 1,
        }
        if self.outcome.first.len() < self.max_first {
            self.outcome.first.push(ElementDifference {
                index,
                expected: self.text(expected),
                actual: self.text(actual),
                ulps: error.ulps,
                absolute: error.absolute,
                relative: error.relative,
            });
        }
    }

    fn is_tolerated(&mut self, index: u64, expected: &[u8], actual: &[u8], error: &Error) -> bool {
        let tolerance = match self.allowed {
            Allowed::Nothing => return false,
            Allowed::Tolerance(tolerance) => tolerance,
            Allowed::Rounding(rounding) => {
                let number = |bytes| self.number(bytes).filter(|_| bytes.len() == self.size);
                let Some((expected, actual)) = number(expected).zip(number(actual)) else { return false };
                let found = rounding.error(index, expected, actual);
                let largest = &mut self.outcome.rounding;
                *largest = Some(largest.map_or(found, |it| it.larger(found)));
                return found.multiple.is_some_and(|it| it <= found.limit);
            }
        };
        let is_within = |error: Option<f64>, limit: Option<f64>| {
            error.zip(limit).is_some_and(|(error, limit)| error <= limit)
        };
        error.are_both_nan
            || error.ulps.zip(tolerance.ulps).is_some_and(|(error, limit)| error <= limit)
            || is_within(error.absolute, tolerance.absolute)
            || is_within(error.relative, tolerance.relative)
    }

    fn number(&self, element: &[u8]) -> Option<f64> {
        Floats::for_type(self.element_type).and_then(|floats| floats.at(element, 0))
    }

    fn error(&self, expected: &[u8], actual: &[u8]) -> Error {
        let (a, b) = (self.bits(expected), self.bits(actual));
        match self.kind {
            Kind::Opaque => Error::default(),
            Kind::Float => self.float_error(expected, actual),
            Kind::Signed | Kind::Unsigned => {
                let (a, b) = (self.integer(a), self.integer(b));
                let absolute = a.abs_diff(b) as f64;
                let relative = (a != 0).then(|| absolute / a.unsigned_abs() as f64);
                Error { absolute: Some(absolute), relative, ..Error::default() }
            }
        }
    }

    fn float_error(&self, expected: &[u8], actual: &[u8]) -> Error {
        let (Some(a), Some(b)) = (self.number(expected), self.number(actual)) else {
            return Error::default();
        };
        if a.is_nan() || b.is_nan() {
            return Error { are_both_nan: a.is_nan() && b.is_nan(), ..Error::default() };
        }
        let ulps = self.order(self.bits(expected)).abs_diff(self.order(self.bits(actual)));
        let absolute = if a == b { 0.0 } else { (a - b).abs() };
        let relative = (a != 0.0).then(|| absolute / a.abs()).filter(|relative| !relative.is_nan());
        Error { ulps: u64::try_from(ulps).ok(), absolute: Some(absolute), relative, are_both_nan: false }
    }

    fn bits(&self, bytes: &[u8]) -> u64 {
        let mut bits = [0; 8];
        let length = bytes.len().min(8);
        bits[..length].copy_from_slice(&bytes[..length]);
        u64::from_le_bytes(bits)
    }

    /// The bits of a float as a number that grows by 1 from each representable number to the next; both zeros
    /// are 0.
    fn order(&self, bits: u64) -> i128 {
        if self.element_type.numerical() == Numerical::FLOAT_8_E8M0_FNU {
            return bits.into();
        }
        let sign = 1 << (self.element_type.bits() - 1);
        let magnitude = i128::from(bits & (sign - 1));
        if bits & sign == 0 { magnitude } else { -magnitude }
    }

    fn integer(&self, bits: u64) -> i128 {
        let unused = 64 - self.element_type.bits();
        match self.kind {
            Kind::Signed => i128::from(((bits << unused) as i64) >> unused),
            _ => bits.into(),
        }
    }

    fn text(&self, bytes: &[u8]) -> String {
        let is_whole = bytes.len() == self.size;
        let number = self.number(bytes);
        match (self.kind, number) {
            (Kind::Float, Some(number)) if is_whole && self.size == 8 => format!("{number:?}"),
            // With as many digits as tell neighbours apart.
            (Kind::Float, Some(number)) if is_whole => format!("{:?}", number as f32),
            (Kind::Signed | Kind::Unsigned, _) if is_whole => self.integer(self.bits(bytes)).to_string(),
            _ => bytes.iter().rev().fold("0x".into(), |text, byte| format!("{text}{byte:02x}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compare(
        element_type: &str,
        tolerance: Option<&str>,
        expected: &[u8],
        actual: &[u8],
    ) -> ElementDifferences {
        let tolerance = tolerance.map(|text| Tolerance::parse(text).unwrap());
        let element_type = element_type.parse().ok();
        let allowed = tolerance.as_ref().map_or(Allowed::Nothing, Allowed::Tolerance);
        let mut comparison = Comparison::new(element_type, allowed, 4);
        comparison.add(16, expected, actual);
        comparison.finish()
    }

    fn floats(numbers: &[f32]) -> Vec<u8> {
        numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
    }

    #[test]
    fn errors_of_floats() {
        let next = f32::from_bits(1.0_f32.to_bits() + 1);
        let expected = floats(&[1.0, 1.0, 0.0, 2.0, f32::NAN, 3.0, f32::INFINITY]);
        let actual = floats(&[1.0, next, -0.0, -2.0, 1.0, f32::NAN, f32::MAX]);
        let found = compare("f32", None, &expected, &actual);
        assert_eq!((found.compared_count, found.different_count, found.tolerated_count), (7, 6, 0));
        let [one, zero, sign, nan] = &found.first[..] else { panic!("{found:?}") };
        assert_eq!((one.index, one.ulps, one.absolute), (5, Some(1), Some(f64::from(f32::EPSILON))));
        assert_eq!(
            (one.expected.as_str(), one.actual.as_str(), one.relative),
            ("1.0", "1.0000001", Some(f64::from(f32::EPSILON)))
        );
        assert_eq!((zero.index, zero.ulps, zero.absolute, zero.relative), (6, Some(0), Some(0.0), None));
        assert_eq!((sign.ulps, sign.absolute, sign.relative), (Some(1 << 31), Some(4.0), Some(2.0)));
        assert_eq!((nan.index, nan.ulps, nan.absolute, nan.relative), (8, None, None, None));
        let bins: Vec<_> = found.histogram.bins.iter().map(|bin| (bin.up_to, bin.count)).collect();
        assert!(found.histogram.is_in_ulps);
        assert_eq!((bins, found.histogram.other_count), (vec![(Some(1), 3), (None, 1)], 2));
    }

    #[test]
    fn tolerances_of_floats() {
        let next = f32::from_bits(1.0_f32.to_bits() + 5);
        let nan = f32::from_bits(f32::NAN.to_bits() + 1);
        let (expected, actual) = (floats(&[1.0, f32::NAN, 100.0]), floats(&[next, nan, 101.0]));
        for (tolerance, tolerated) in [
            ("*:f32:ulp=4", 1),
            ("*:f32:ulp=5", 2),
            ("*:f32:abs=1", 3),
            ("*:f32:rel=0.01", 3),
            ("*:f32:rel=0.009", 2),
        ] {
            let found = compare("f32", Some(tolerance), &expected, &actual);
            assert_eq!(
                (found.tolerated_count, found.different_count),
                (tolerated, 3 - tolerated),
                "{tolerance}"
            );
        }
        let found =
            compare("f32", Some("*:f32:abs=1e30"), &floats(&[f32::INFINITY, 1.0]), &floats(&[1.0, f32::NAN]));
        assert_eq!(found.different_count, 2);
    }

    #[test]
    fn every_kind_of_element() {
        let one = |element_type: &str, expected: &[u8], actual: &[u8]| {
            let found = compare(element_type, None, expected, actual);
            let first = found.first[0].clone();
            (first.index, first.expected, first.actual, first.ulps, first.absolute)
        };
        let text = |text: &str| text.to_string();
        assert_eq!(one("i8", &[0x80], &[0x7f]), (16, text("-128"), text("127"), None, Some(255.0)));
        assert_eq!(one("ui8", &[0x80], &[0x7f]), (16, text("128"), text("127"), None, Some(1.0)));
        assert_eq!(one("i64", &[0xff; 8], &[0; 8]), (2, text("-1"), text("0"), None, Some(1.0)));
        assert_eq!(one("f16", &[0, 0x3c], &[1, 0x3c]).3, Some(1));
        assert_eq!(one("bf16", &[0x80, 0x3f], &[0x80, 0xbf]).4, Some(2.0));
        assert_eq!(one("f8E8M0FNU", &[127], &[130]).3, Some(3));
        assert_eq!(one("unknown", &[1], &[2]), (16, text("0x01"), text("0x02"), None, None));
        assert_eq!(
            one("*32", &[1, 0, 0, 2], &[2, 0, 0, 2]),
            (4, text("0x02000001"), text("0x02000002"), None, None)
        );
        assert_eq!(one("cf64", &[0; 8], &[1; 8]).3, None);
        // The rest of a binding that is not a multiple of the element.
        assert_eq!(one("f32", &[1, 2], &[1, 3]).3, None);
    }

    #[test]
    fn few_differences_are_kept_and_all_are_counted() {
        let (expected, actual) = (vec![0; 1000], vec![3; 1000]);
        let found = compare("ui8", None, &expected, &actual);
        assert_eq!((found.first.len(), found.different_count), (4, 1000));
        assert_eq!(found.histogram.bins, [HistogramBin { up_to: Some(4), count: 1000 }]);
    }
}
