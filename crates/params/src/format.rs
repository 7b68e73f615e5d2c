use std::path::Path;

use rehal_base::{Error, FormatError, Result};

use crate::{Parsed, gguf, irpa, safetensors};

/// The formats of parameter files, distinguished by file extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// IREE's parameter archive.
    Irpa,
    /// The format of llama.cpp and related projects, versions 2 and 3.
    Gguf,
    /// The format of Hugging Face models.
    Safetensors,
}

impl Format {
    const ALL: [(&'static str, Self); 3] =
        [("irpa", Self::Irpa), ("gguf", Self::Gguf), ("safetensors", Self::Safetensors)];

    /// The format for the extension of `path`, or for `path` itself if it is an extension.
    pub fn from_path(path: &Path) -> Result<Self> {
        let ending = path.extension().or(path.file_name()).unwrap_or_default().to_string_lossy();
        match Self::ALL.iter().find(|(name, _)| ending.eq_ignore_ascii_case(name)) {
            Some((_, format)) => Ok(*format),
            None => Err(Error::unimplemented(format!("unsupported file format `{ending}`"))
                .context(format!("'{}'", path.display()))
                .advise("parameter files end with .irpa, .gguf or .safetensors")),
        }
    }

    /// Parses all parameters of a file of this format, in file order.
    ///
    /// Each offset, size and count is checked against the file's size, which bounds memory and time; the data
    /// itself is not accessed.
    pub fn parse(self, bytes: &[u8]) -> Result<Vec<Parsed>, FormatError> {
        match self {
            Self::Irpa => irpa::parse(bytes),
            Self::Gguf => gguf::parse(bytes),
            Self::Safetensors => safetensors::parse(bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_extension_selects_the_format() {
        let of = |path: &str| Format::from_path(Path::new(path));
        assert_eq!(of("a/b.c.IRPA").unwrap(), Format::Irpa);
        assert_eq!(of("gguf").unwrap(), Format::Gguf);
        assert_eq!(of("x.safetensors").unwrap(), Format::Safetensors);
        let error = of("x.bin").unwrap_err();
        assert!(error.report().starts_with("UNIMPLEMENTED; unsupported file format `bin`"), "{error:?}");
        assert!(of("").is_err());
    }
}
