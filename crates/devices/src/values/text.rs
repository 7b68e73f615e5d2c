//! The text of values.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::path::Path;

use rehal_base::{Error, Result};
use rehal_values::{Input, ScalarType, Source, npy};

/// The text of an input or of an expected result, such as `2x2xf32=1 2 3 4`. Its syntax is valid for some
/// argument type; the function's signature determines the type it is parsed as.
#[derive(Clone, Debug)]
pub struct ValueText(OsString);

impl ValueText {
    /// Fails if the text is not valid for any argument type.
    pub fn new(text: impl AsRef<OsStr>) -> Result<Self> {
        const SCALARS: [ScalarType; 4] = [ScalarType::I32, ScalarType::I64, ScalarType::F32, ScalarType::F64];
        let text = text.as_ref();
        let checked = Input::parse(text, None).map(drop);
        let checked = checked.or_else(|error: Error| {
            let is_scalar = SCALARS.iter().any(|scalar| Input::parse(text, Some(*scalar)).is_ok());
            if is_scalar { Ok(()) } else { Err(error) }
        });
        checked.map(|()| Self(text.to_os_string()))
    }

    /// The text.
    pub fn text(&self) -> &OsStr {
        &self.0
    }

    /// The file whose bytes are read as elements, if it begins like an `.npy` file: its header would be read
    /// as elements, too.
    pub fn array_read_as_bytes(&self) -> Option<&Path> {
        let Input::Tensor { source: Source::File { path, .. }, .. } = Input::parse(&self.0, None).ok()?
        else {
            return None;
        };
        let mut head = [0; 6];
        // What is read of a pipe is lost.
        let is_array = std::fs::metadata(path).ok()?.is_file()
            && File::open(path).and_then(|mut file| file.read_exact(&mut head)).is_ok()
            && npy::is_array(&head);
        is_array.then_some(path)
    }

    /// The file that the value is read from, if any.
    pub fn path(&self) -> Option<&Path> {
        match Input::parse(&self.0, None).ok()? {
            Input::Npy { path, .. } | Input::Tensor { source: Source::File { path, .. }, .. } => Some(path),
            _ => None,
        }
    }
}
