//! The body of the fuzz targets: exercises every operation of a parameter file reader on arbitrary bytes.

use rehal_base::{FormatError, Range};

use crate::{Format, Location};

/// Reads `bytes` as a file of `format` and checks the invariants of every reader.
///
/// Returns the number of parameters, or why the file is invalid; must terminate without a panic.
pub fn exercise(format: Format, bytes: &[u8]) -> Result<usize, FormatError> {
    let parameters = format.parse(bytes)?;
    for parameter in &parameters {
        let length = parameter.length;
        match &parameter.location {
            Location::Splat(pattern) => assert!(pattern.divides(length), "patterns fill parameters"),
            Location::Here(offset) => {
                let range = Range::new(*offset, length);
                assert!(range.is_some_and(|it| it.fits(bytes.len() as u64)), "data is in the file");
            }
            Location::External { path, offset } => {
                assert!(!path.is_empty() && Range::new(*offset, length).is_some(), "other files have ranges");
            }
        }
    }
    Ok(parameters.len())
}
