use rehal_base::{Context, Error, Result};

use crate::text::{parse_elements, split_tensor, trim};
use crate::{Contents, Scalar, ScalarType, TensorType};

/// What an `--input` or `--expected_output` stands for; no file is opened yet.
#[derive(Clone, Debug, PartialEq)]
pub enum Input<'a> {
    /// `(null)` or `(ignored)`: no object, or the number 0.
    Null,
    /// A number, for an argument that is one.
    Scalar(Scalar),
    /// A tensor.
    Tensor {
        /// Its shape and type.
        tensor_type: TensorType,
        /// Where its bytes are from.
        source: Source<'a>,
        /// `&4xf32`: the argument is the storage alone, as for results that are written in place.
        is_storage: bool,
    },
    /// Arrays of an `.npy` file, which tell their own types.
    Npy {
        /// The file.
        path: &'a str,
        /// Which of its arrays.
        take: Take,
    },
}

/// Where the bytes of a tensor are from.
#[derive(Clone, Debug, PartialEq)]
pub enum Source<'a> {
    /// They were written down.
    Text(Contents),
    /// They are in a file as they are in memory.
    File {
        /// The file.
        path: &'a str,
        /// Where in it.
        start: Start,
    },
}

/// Where to read on in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// `@file`: at its beginning.
    Beginning,
    /// `+file`: where the last input from the same file ended.
    Continue,
}

/// Which arrays of an `.npy` file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Take {
    /// `@file.npy`, `+file.npy`: one.
    One(Start),
    /// `*file.npy`: all that follow, each an input of its own.
    Rest,
}

impl<'a> Input<'a> {
    /// Reads the text of an input for an argument that is a number of this type, or else an object.
    pub fn parse(text: &'a str, scalar: Option<ScalarType>) -> Result<Self> {
        Self::parse_trimmed(trim(text), scalar).context(|| Self::place(text))
    }

    /// How errors call an input: by enough of its text to know it again.
    pub fn place(text: &str) -> String {
        format!("input '{}'", shortened(trim(text)))
    }

    fn parse_trimmed(text: &'a str, scalar: Option<ScalarType>) -> Result<Self> {
        if text.is_empty() {
            return Err(Error::invalid_argument("an input has no value"));
        }
        if matches!(text, "(null)" | "(ignored)") {
            return Ok(Self::Null);
        }
        let input = match text.as_bytes()[0] {
            b'@' => Self::npy(&text[1..], Take::One(Start::Beginning))?,
            // A number may have a plus before it, which no file of arrays begins with.
            b'+' if scalar.is_none() => Self::npy(&text[1..], Take::One(Start::Continue))?,
            b'*' => Self::npy(&text[1..], Take::Rest)?,
            b'&' => Self::tensor(&text[1..], true)?,
            _ => match scalar {
                Some(scalar) => return Ok(Self::Scalar(scalar.parse(text)?)),
                None => Self::tensor(text, false)?,
            },
        };
        match scalar {
            Some(scalar) => {
                Err(Error::invalid_argument(format!("the function takes an {scalar} there, no tensor")))
            }
            None => Ok(input),
        }
    }

    fn npy(path: &'a str, take: Take) -> Result<Self> {
        if !path.ends_with(".npy") {
            let error =
                Error::unimplemented(format!("'{path}' is no .npy file, so its shape and type are unknown"));
            return Err(error.advise(format!("name them before a file of bytes, such as 2x3xf32=@{path}")));
        }
        Ok(Self::Npy { path, take })
    }

    fn tensor(text: &'a str, is_storage: bool) -> Result<Self> {
        if !text.contains(['=', 'x']) {
            let error =
                Error::invalid_argument(format!("'{}' is no tensor: it has no type", shortened(text)));
            return Err(
                error.advise("give its shape and type, such as 4x2xf32=..., or f32=... without a shape")
            );
        }
        let (tensor_type, elements) = split_tensor(text)?;
        let file = |path, start| Source::File { path, start };
        let source = match elements.as_bytes() {
            [b'@', ..] => file(&elements[1..], Start::Beginning),
            // Never a number: names of files begin with digits and dots too.
            [b'+', ..] => file(&elements[1..], Start::Continue),
            _ => Source::Text(parse_elements(elements, &tensor_type)?),
        };
        Ok(Self::Tensor { tensor_type, source, is_storage })
    }
}

/// Enough of an input to know it again.
fn shortened(text: &str) -> String {
    const CHARS: usize = 60;
    match text.char_indices().nth(CHARS) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_string(),
    }
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
    fn all_forms() {
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
            assert_eq!(Input::parse(text, None).unwrap(), Input::Npy { path, take });
        }
        let bytes = Source::Text(Contents::Bytes(vec![7, 8]));
        assert_eq!(tensor("2xi8=7 8"), ("2xi8".into(), bytes.clone(), false));
        assert_eq!(tensor(" 2xi8 = 7 8"), ("2xi8".into(), bytes.clone(), false));
        assert_eq!(tensor("&2xi8=7 8"), ("2xi8".into(), bytes, true));
        assert_eq!(tensor("&2xi8"), ("2xi8".into(), Source::Text(Contents::Zeros), true));
        let file = |path, start| Source::File { path, start };
        assert_eq!(tensor("4xf32=@a.bin").1, file("a.bin", Start::Beginning));
        assert_eq!(tensor("4xf32=+a.bin").1, file("a.bin", Start::Continue));
        assert_eq!(tensor("4xf32=+../1e5").1, file("../1e5", Start::Continue));
        assert_eq!(tensor("4xf32=+7").1, file("7", Start::Continue));
        assert_eq!(tensor("2xi8=7 +8").1, Source::Text(Contents::Bytes(vec![7, 8])));
        assert_eq!(tensor("&4xf32=@a=b.bin"), ("4xf32".into(), file("a=b.bin", Start::Beginning), true));
    }

    #[test]
    fn wrong_inputs() {
        for (text, scalar, expected) in [
            ("", None, "has no value"),
            (" ", Some(ScalarType::I32), "has no value"),
            ("4", None, "'4' is no tensor: it has no type"),
            ("i32", None, "is no tensor"),
            ("@a.txt", None, "'a.txt' is no .npy file"),
            ("4xf32=1", Some(ScalarType::F32), "'4xf32=1' is not a number, where an f32 is taken"),
            ("@a.npy", Some(ScalarType::I64), "takes an i64 there"),
            ("&4xf32", Some(ScalarType::I64), "takes an i64 there"),
            ("4xq32=1", None, "'q32' is no element type"),
            ("&", None, "is no tensor"),
            ("=", None, "no element type"),
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
