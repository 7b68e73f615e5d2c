use crate::{Advice, Error, FileKind, Remedy};

/// Errors of files that are not of the expected kind.
impl FileKind {
    /// The error for a file that should be of this kind, if its first bytes identify another.
    pub fn refuse_other(self, head: &[u8], file: &str) -> Option<Error> {
        let is_other = |kind: &Self| *kind != self && !(kind.is_parameters() && self.is_parameters());
        let kind = Self::from_head(head).filter(is_other)?;
        Some(kind.refuse(file, self.plain_name()).advise(kind.advice(self)))
    }

    /// The error for a file of this kind if `wanted`, such as `an executable`, is expected. Its advice names
    /// what accepts the file.
    pub fn refuse_as(self, file: &str, wanted: &str) -> Error {
        self.used_by().into_iter().fold(self.refuse(file, wanted), Error::advise)
    }

    fn refuse(self, file: &str, wanted: &str) -> Error {
        Error::invalid_argument(match self {
            Self::Empty => format!("{file} is empty, not {wanted}"),
            kind => format!("{file} is {}, not {wanted}", kind.name()),
        })
    }

    /// The advice on a file of this kind if one of the kind `wanted` is expected.
    fn advice(self, wanted: Self) -> Advice {
        match (self.used_by(), wanted) {
            (Some(used_by), _) => used_by.into(),
            (None, Self::Module) => "name a module, as iree-compile writes it".into(),
            (None, Self::Capture) => Remedy::NameCapture.into(),
            (None, _) if wanted.is_parameters() => {
                "name a parameter file: .irpa, .gguf or .safetensors".into()
            }
            (None, _) => "name another file".into(),
        }
    }

    /// The remedy that names what accepts it, if anything.
    fn used_by(self) -> Option<Remedy> {
        match self {
            Self::Empty | Self::Zip | Self::Text => None,
            _ => Some(Remedy::UseFile(self)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_name_both_kinds_and_what_takes_the_file() {
        let report = |wanted: FileKind, head: &[u8]| {
            wanted.refuse_other(head, "'x'").map_or(String::new(), |error| error.report())
        };
        assert!(report(FileKind::Capture, b"\x7FELF").starts_with(
            "INVALID_ARGUMENT; 'x' is an ELF image (machine code), not a capture\n  try: it can replace "
        ));
        assert_eq!(
            report(FileKind::Module, b""),
            "INVALID_ARGUMENT; 'x' is empty, not a compiled module\n  try: name a module, as iree-compile writes it"
        );
        assert_eq!(
            report(FileKind::Irpa, b"text"),
            "INVALID_ARGUMENT; 'x' is a text file, not a parameter file\n  \
             try: name a parameter file: .irpa, .gguf or .safetensors"
        );
        assert_eq!(report(FileKind::Irpa, b"GGUF"), "");
        assert_eq!(report(FileKind::Capture, b"IRRP"), "");
        assert_eq!(report(FileKind::Capture, b"\x01\x02"), "");
        assert!(
            FileKind::Module
                .refuse_as("'x'", "an executable")
                .report()
                .contains("(.vmfb), not an executable\n  try: ")
        );
    }
}
