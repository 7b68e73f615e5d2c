use serde::{Deserialize, Deserializer};

/// Reads a number of JSON, which has `null` in place of infinities and NaN; of all these, a NaN.
pub fn number_or_nan<'d, D: Deserializer<'d>>(from: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or(f64::NAN))
}
