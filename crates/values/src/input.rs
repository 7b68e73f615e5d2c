use std::ffi::OsStr;
use std::path::Path;

use rehal_base::platform::OsStrExt;
use rehal_base::{Context, Error, Result, shortened};

use crate::text::{parse_elements, split_tensor, trim};
use crate::{Contents, Scalar, ScalarType, TensorType};

/// The value of an `--input` or `--expected_output`; no file is opened yet.
#[derive(Clone, Debug, PartialEq)]
pub enum Input<'a> {
    /// `(null)` or `(ignored)`: a null object, or the number 0.
    Null,
    /// A number, for a scalar argument.
    Scalar(Scalar),
    /// A tensor.
    Tensor {
        /// Its shape and type.
        tensor_type: TensorType,
        /// The source of its bytes.
        source: Source<'a>,
        /// `&4xf32`: pass only the storage, as for results written in place.
        is_storage: bool,
    },
    /// Arrays of an `.npy` file, which contains their types.
    Npy {
        /// The file.
        path: &'a Path,
        /// Which arrays.
        take: Take,
    },
}

/// The source of a tensor's bytes.
#[derive(Clone, Debug, PartialEq)]
pub enum Source<'a> {
    /// Written out in the input.
    Text(Contents),
    /// Raw bytes of a file.
    File {
        /// The file.
        path: &'a Path,
        /// Where in the file.
        start: Start,
    },
}

/// Where to start reading in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// `@file`: at its beginning.
    Beginning,
    /// `+file`: where the previous input from the same file ended.
    Continue,
}

/// Which arrays of an `.npy` file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Take {
    /// `@file.npy`, `+file.npy`: one.
    One(Start),
    /// `*file.npy`: all remaining, each a separate input.
    Rest,
}

impl<'a> Input<'a> {
    /// Parses an input for an argument that is a number of this type, or an object for `None`. Only the path
    /// of a file may be non-UTF-8.
    pub fn parse(text: &'a (impl AsRef<OsStr> + ?Sized), scalar: Option<ScalarType>) -> Result<Self> {
        let text = text.as_ref();
        Self::parse_trimmed(trimmed(text), scalar).context(|| Self::place(text))
    }

    /// How errors identify an input: by a prefix of its text.
    pub fn place(text: &(impl AsRef<OsStr> + ?Sized)) -> String {
        format!("input '{}'", shortened(trim(&text.as_ref().to_string_lossy())))
    }

    fn parse_trimmed(text: &'a [u8], scalar: Option<ScalarType>) -> Result<Self> {
        let Some((first, rest)) = text.split_first() else {
            return Err(Error::invalid_argument("the input is empty"));
        };
        if matches!(text, b"(null)" | b"(ignored)") {
            return Ok(Self::Null);
        }
        let input = match first {
            b'@' => Self::npy(rest, Take::One(Start::Beginning))?,
            // A number may have a leading plus, which a file of arrays may not.
            b'+' if scalar.is_none() => Self::npy(rest, Take::One(Start::Continue))?,
            b'*' => Self::npy(rest, Take::Rest)?,
            b'&' => Self::tensor(rest, true)?,
            _ => match scalar {
                Some(scalar) => return Ok(Self::Scalar(scalar.parse(utf8(text)?)?)),
                None => Self::tensor(text, false)?,
            },
        };
        match scalar {
            Some(scalar) => Err(Error::invalid_argument(format!("expected an {scalar}, found a tensor"))),
            None => Ok(input),
        }
    }

    fn npy(path: &'a [u8], take: Take) -> Result<Self> {
        if !path.ends_with(b".npy") {
            let path = String::from_utf8_lossy(path);
            let error = Error::unimplemented(format!(
                "'{path}' is not an .npy file, so its shape and type are unknown"
            ));
            return Err(error.advise(format!("prefix the path with them, such as 2x3xf32=@{path}")));
        }
        Ok(Self::Npy { path: Path::new(OsStr::from_bytes(path)), take })
    }

    fn tensor(text: &'a [u8], is_storage: bool) -> Result<Self> {
        if let Some((tensor_type, source)) = of_file(text)? {
            return Ok(Self::Tensor { tensor_type, source, is_storage });
        }
        let text = utf8(text)?;
        if !text.contains(['=', 'x']) {
            let error =
                Error::invalid_argument(format!("invalid tensor '{}': the type is missing", shortened(text)));
            return Err(error.advise("write shape and type, such as 4x2xf32=..., or f32=... for a scalar"));
        }
        let (tensor_type, elements) = split_tensor(text)?;
        let source = Source::Text(parse_elements(elements, &tensor_type)?);
        Ok(Self::Tensor { tensor_type, source, is_storage })
    }
}

/// `2x3xf32=@file` or `2x3xf32=+file`, quoted or not; `None` for anything else.
fn of_file(text: &[u8]) -> Result<Option<(TensorType, Source<'_>)>> {
    let text = text.trim_ascii();
    let text = text.strip_prefix(b"\"").unwrap_or(text);
    let text = text.strip_suffix(b"\"").unwrap_or(text);
    let Some(at) = text.iter().position(|&byte| byte == b'=') else { return Ok(None) };
    let (path, start) = match &text[at + 1..] {
        [b'@', path @ ..] => (path, Start::Beginning),
        // Checked before numbers: file names may start with digits and dots too.
        [b'+', path @ ..] => (path, Start::Continue),
        _ => return Ok(None),
    };
    let tensor_type = TensorType::parse(trim(utf8(&text[..at])?))?;
    Ok(Some((tensor_type, Source::File { path: Path::new(OsStr::from_bytes(path)), start })))
}

/// Trims surrounding whitespace.
fn trimmed(text: &OsStr) -> &[u8] {
    const SPACES: &[u8] = b" \t\n\x0b\x0c\r";
    let mut text = text.as_bytes();
    while let [first, rest @ ..] = text
        && SPACES.contains(first)
    {
        text = rest;
    }
    while let [rest @ .., last] = text
        && SPACES.contains(last)
    {
        text = rest;
    }
    text
}

fn utf8(text: &[u8]) -> Result<&str> {
    str::from_utf8(text).map_err(|_| Error::invalid_argument("invalid UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor(text: &str) -> (String, Source<'_>, bool) {
        match Input::parse(text, None).unwrap() {
            Input::Tensor { tensor_type, source, is_storage } => {
                (tensor_type.to_string(), source, is_storage)
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn all_forms_are_parsed() {
        for null in ["(null)", " (ignored)\n"] {
            assert_eq!(Input::parse(null, None).unwrap(), Input::Null);
            assert_eq!(Input::parse(null, Some(ScalarType::I32)).unwrap(), Input::Null);
        }
        assert_eq!(Input::parse("+7", Some(ScalarType::I32)).unwrap(), Input::Scalar(Scalar::I32(7)));
        for (text, path, take) in [
            ("@a.npy", "a.npy", Take::One(Start::Beginning)),
            ("+a=b.npy", "a=b.npy", Take::One(Start::Continue)),
            ("*x/a.npy", "x/a.npy", Take::Rest),
        ] {
            assert_eq!(Input::parse(text, None).unwrap(), Input::Npy { path: Path::new(path), take });
        }
        let bytes = Source::Text(Contents::Bytes(vec![7, 8]));
        assert_eq!(tensor("2xi8=7 8"), ("2xi8".into(), bytes.clone(), false));
        assert_eq!(tensor(" 2xi8 = 7 8"), ("2xi8".into(), bytes.clone(), false));
        assert_eq!(tensor("&2xi8=7 8"), ("2xi8".into(), bytes, true));
        assert_eq!(tensor("&2xi8"), ("2xi8".into(), Source::Text(Contents::Zeros), true));
        let file = |path, start| Source::File { path: Path::new(path), start };
        assert_eq!(tensor("4xf32=@a.bin").1, file("a.bin", Start::Beginning));
        assert_eq!(tensor("4xf32=+a.bin").1, file("a.bin", Start::Continue));
        assert_eq!(tensor("4xf32=+../1e5").1, file("../1e5", Start::Continue));
        assert_eq!(tensor("4xf32=+7").1, file("7", Start::Continue));
        assert_eq!(tensor("2xi8=7 +8").1, Source::Text(Contents::Bytes(vec![7, 8])));
        assert_eq!(tensor("&4xf32=@a=b.bin"), ("4xf32".into(), file("a=b.bin", Start::Beginning), true));
    }

    #[test]
    fn only_paths_may_be_non_utf8() {
        let path = Path::new(OsStr::from_bytes(b"\xff.npy"));
        let take = Take::One(Start::Beginning);
        assert_eq!(Input::parse(OsStr::from_bytes(b" @\xff.npy "), None).unwrap(), Input::Npy { path, take });
        match Input::parse(OsStr::from_bytes(b"2xi8=+\xff.npy"), None).unwrap() {
            Input::Tensor { source, .. } => assert_eq!(source, Source::File { path, start: Start::Continue }),
            other => panic!("{other:?}"),
        }
        for text in [b"2xi8=\xff".as_slice(), b"2xi\xff=@a", b"\xff"] {
            let error = Input::parse(OsStr::from_bytes(text), None).unwrap_err();
            assert!(error.message().contains("invalid UTF-8"), "{error}");
        }
    }

    #[test]
    fn malformed_inputs_are_rejected() {
        for (text, scalar, expected) in [
            ("", None, "is empty"),
            (" ", Some(ScalarType::I32), "is empty"),
            ("4", None, "invalid tensor '4': the type is missing"),
            ("i32", None, "invalid tensor"),
            ("@a.txt", None, "'a.txt' is not an .npy file"),
            ("4xf32=1", Some(ScalarType::F32), "'4xf32=1' is not a number (expected an f32)"),
            ("@a.npy", Some(ScalarType::I64), "expected an i64"),
            ("&4xf32", Some(ScalarType::I64), "expected an i64"),
            ("4xq32=1", None, "'q32' is not an element type"),
            ("&", None, "invalid tensor"),
            ("=", None, "not an element type"),
        ] {
            let error = Input::parse(text, scalar).unwrap_err();
            assert!(error.message().contains(expected), "{text}: {error}");
            assert!(error.context_lines().last().unwrap().starts_with("input '"), "{text}");
        }
        let long = format!("9xf32={}", "1,".repeat(100));
        let place = Input::parse(&long, None).unwrap_err();
        assert!(place.context_lines().last().unwrap().len() < 80);
    }
}
