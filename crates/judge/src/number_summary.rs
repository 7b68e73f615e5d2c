use rehal_base::{ElementType, number_or_nan};
use rehal_values::Floats;
use serde::{Deserialize, Serialize};

/// Floating-point numbers, summarized.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct NumberSummary {
    /// The smallest finite number; 0 if there is none.
    #[serde(deserialize_with = "number_or_nan")]
    pub minimum: f64,
    /// The largest finite number; 0 if there is none.
    #[serde(deserialize_with = "number_or_nan")]
    pub maximum: f64,
    /// The mean of the finite numbers; 0 if there is none.
    #[serde(deserialize_with = "number_or_nan")]
    pub mean: f64,
    /// Number of finite numbers.
    pub finite_count: u64,
    /// Number of NaN.
    pub nan_count: u64,
    /// Number of infinities.
    pub infinity_count: u64,
}

/// A [`NumberSummary`] in the making.
pub(crate) struct Summing {
    floats: Floats,
    element_bytes: usize,
    minimum: f64,
    maximum: f64,
    sum: f64,
    finite_count: u64,
    nan_count: u64,
    infinity_count: u64,
}

impl Summing {
    /// `None` unless elements are real floating-point numbers.
    pub(crate) fn for_type(element_type: ElementType) -> Option<Self> {
        Some(Self {
            floats: Floats::for_type(element_type)?,
            element_bytes: element_type.whole_bytes()? as usize,
            minimum: f64::INFINITY,
            maximum: f64::NEG_INFINITY,
            sum: 0.0,
            finite_count: 0,
            nan_count: 0,
            infinity_count: 0,
        })
    }

    /// Adds the elements that lie in `bytes` as a whole.
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        for index in 0..bytes.len() / self.element_bytes {
            let Some(number) = self.floats.at(bytes, index) else { return };
            if number.is_finite() {
                self.finite_count += 1;
                self.sum += number;
                self.minimum = self.minimum.min(number);
                self.maximum = self.maximum.max(number);
            } else if number.is_nan() {
                self.nan_count += 1;
            } else {
                self.infinity_count += 1;
            }
        }
    }

    pub(crate) fn finish(self) -> NumberSummary {
        let none = self.finite_count == 0;
        let of_finite = |number: f64| if none { 0.0 } else { number };
        NumberSummary {
            minimum: of_finite(self.minimum),
            maximum: of_finite(self.maximum),
            mean: of_finite(self.sum / self.finite_count as f64),
            finite_count: self.finite_count,
            nan_count: self.nan_count,
            infinity_count: self.infinity_count,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finite_numbers_are_apart_from_others() {
        let mut summing = Summing::for_type("f32".parse().unwrap()).unwrap();
        let numbers = [1.0, -3.0, f32::NAN, f32::INFINITY, 8.0, f32::NEG_INFINITY, f32::NAN, f32::NAN];
        for half in numbers.chunks(4) {
            summing.add(&half.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<_>>());
        }
        summing.add(&[1, 2, 3]);
        assert_eq!(
            summing.finish(),
            NumberSummary {
                minimum: -3.0,
                maximum: 8.0,
                mean: 2.0,
                finite_count: 3,
                nan_count: 3,
                infinity_count: 2
            }
        );
    }

    #[test]
    fn nothing_finite_has_zeros() {
        let mut summing = Summing::for_type("f64".parse().unwrap()).unwrap();
        summing.add(&f64::NAN.to_le_bytes());
        let summary = summing.finish();
        assert_eq!((summary.minimum, summary.maximum, summary.mean), (0.0, 0.0, 0.0));
        assert_eq!((summary.finite_count, summary.nan_count), (0, 1));
        assert!(Summing::for_type("i32".parse().unwrap()).is_none());
    }
}
