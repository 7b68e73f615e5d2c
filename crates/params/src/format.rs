use std::path::Path;

use rehal_base::{Error, FormatError, Result};

use crate::{Pattern, gguf, irpa, safetensors};

/// The formats of parameter files, told apart by the ending of their names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// IREE's parameter archive.
    Irpa,
    /// The format of llama.cpp and its kin, versions 2 and 3.
    Gguf,
    /// The format of Hugging Face's models.
    Safetensors,
}

/// What a file says about one parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parsed {
    /// The name.
    pub name: String,
    /// What the file adds to it; empty where the format has nothing of the kind.
    pub metadata: Vec<u8>,
    /// Length in bytes.
    pub length: u64,
    /// Alignment in bytes that the file asks for; 0 where it says nothing.
    pub minimum_alignment: u64,
    /// Where its bytes are.
    pub place: Place,
}

/// Where a parameter's bytes are, as its file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A pattern that repeats.
    Splat(Pattern),
    /// From this offset of the same file on.
    Here(u64),
    /// In another file.
    External {
        /// Its path: absolute, or relative to the folder that the archive is in.
        path: String,
        /// From this offset of it on.
        offset: u64,
    },
}

impl Format {
    const ALL: [(&'static str, Self); 3] =
        [("irpa", Self::Irpa), ("gguf", Self::Gguf), ("safetensors", Self::Safetensors)];

    /// The format that the ending of `path` names, or `path` itself where it is just an ending.
    pub fn of_path(path: &Path) -> Result<Self> {
        let ending = path.extension().or(path.file_name()).unwrap_or_default().to_string_lossy();
        match Self::ALL.iter().find(|(name, _)| ending.eq_ignore_ascii_case(name)) {
            Some((_, format)) => Ok(*format),
            None => Err(Error::unimplemented(format!("unsupported file format `{ending}`"))
                .context(format!("'{}'", path.display()))
                .advise("parameter files end with .irpa, .gguf or .safetensors")),
        }
    }

    /// Everything that a file of this format says about its parameters, in the file's order.
    ///
    /// Each offset, size and count is checked against the file's own size, so that memory and time
    /// are bounded by it; nothing of the data is touched.
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
    fn the_ending_tells_the_format() {
        let of = |path: &str| Format::of_path(Path::new(path));
        assert_eq!(of("a/b.c.IRPA").unwrap(), Format::Irpa);
        assert_eq!(of("gguf").unwrap(), Format::Gguf);
        assert_eq!(of("x.safetensors").unwrap(), Format::Safetensors);
        let error = of("x.bin").unwrap_err();
        assert!(error.report().starts_with("UNIMPLEMENTED; unsupported file format `bin`"), "{error:?}");
        assert!(of("").is_err());
    }
}
