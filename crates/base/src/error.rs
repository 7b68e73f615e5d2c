use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Advice, FormatError, Remedy, StatusCode, escaped, escaped_lines};

/// The result type of all crates from `hal` up.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A boxed error, one word in size: an IREE status code, what failed, the context (outermost first), and
/// advice for the user.
///
/// `Display` prints only the message; [`Error::report`] prints the lines that a tool shows.
#[derive(Clone, Serialize, Deserialize)]
pub struct Error(Box<Inner>);

#[derive(Clone, Serialize, Deserialize)]
struct Inner {
    code: StatusCode,
    message: String,
    context: Vec<String>,
    advice: Option<Advice>,
}

const _: () = assert!(size_of::<Error>() == size_of::<usize>());

impl Error {
    /// An error with `code` (never `Ok`); `message` says what failed.
    pub fn new(code: StatusCode, message: impl Into<String>) -> Self {
        debug_assert!(code != StatusCode::Ok, "an error must not have the code OK");
        Self(Box::new(Inner { code, message: message.into(), context: Vec::new(), advice: None }))
    }

    /// An argument is invalid regardless of the state of the system.
    pub fn invalid_argument(message: impl Into<String>) -> Self {
        Self::new(StatusCode::InvalidArgument, message)
    }

    /// A named thing does not exist.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NotFound, message)
    }

    /// The system is not in the state that the operation requires.
    pub fn failed_precondition(message: impl Into<String>) -> Self {
        Self::new(StatusCode::FailedPrecondition, message)
    }

    /// A range or an index is out of bounds.
    pub fn out_of_range(message: impl Into<String>) -> Self {
        Self::new(StatusCode::OutOfRange, message)
    }

    /// Not implemented, or not supported by this device.
    pub fn unimplemented(message: impl Into<String>) -> Self {
        Self::new(StatusCode::Unimplemented, message)
    }

    /// Data is lost or corrupt.
    pub fn data_loss(message: impl Into<String>) -> Self {
        Self::new(StatusCode::DataLoss, message)
    }

    /// Memory or another resource ran out.
    pub fn resource_exhausted(message: impl Into<String>) -> Self {
        Self::new(StatusCode::ResourceExhausted, message)
    }

    /// The data or code was made for another machine or another release.
    pub fn incompatible(message: impl Into<String>) -> Self {
        Self::new(StatusCode::Incompatible, message)
    }

    /// A system call failed: `what` names it, with the path if any.
    pub fn io(what: impl fmt::Display, error: &std::io::Error) -> Self {
        use std::io::ErrorKind as Kind;
        let code = match error.kind() {
            Kind::NotFound => StatusCode::NotFound,
            Kind::PermissionDenied => StatusCode::PermissionDenied,
            Kind::AlreadyExists => StatusCode::AlreadyExists,
            // The last is a limit of the process: `ulimit -f`.
            Kind::OutOfMemory | Kind::StorageFull | Kind::QuotaExceeded | Kind::FileTooLarge => {
                StatusCode::ResourceExhausted
            }
            Kind::IsADirectory | Kind::NotADirectory | Kind::InvalidInput => StatusCode::InvalidArgument,
            Kind::UnexpectedEof => StatusCode::DataLoss,
            _ => StatusCode::Unavailable,
        };
        Self::new(code, format!("{what}: {}", os_words(error)))
    }

    /// The status code.
    pub fn code(&self) -> StatusCode {
        self.0.code
    }

    /// The message without context or advice.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The context, innermost first.
    pub fn context_lines(&self) -> &[String] {
        &self.0.context
    }

    /// Advice for the user, if any.
    pub fn advice(&self) -> Option<&Advice> {
        self.0.advice.as_ref()
    }

    /// Adds an outer context.
    pub fn context(mut self, place: impl Into<String>) -> Self {
        self.0.context.push(place.into());
        self
    }

    /// Adds advice for the user; the innermost advice wins, being the most specific.
    pub fn advise(mut self, advice: impl Into<Advice>) -> Self {
        self.0.advice.get_or_insert_with(|| advice.into());
        self
    }

    /// Replaces the advice, by an interface that knows better what to do.
    pub fn replace_advice(mut self, advice: impl Into<Advice>) -> Self {
        self.0.advice = Some(advice.into());
        self
    }

    /// The message, where it failed, what to do: the lines that a program prints on standard error.
    pub fn report(&self) -> String {
        self.report_with(Remedy::to_string)
    }

    /// As [`Error::report`], with `words` for what to do: an interface names its own means, such as flags.
    pub fn report_with(&self, words: impl FnOnce(&Remedy) -> String) -> String {
        let mut text = self.to_string();
        if !self.0.context.is_empty() {
            text.push_str("\n  at: ");
            text.push_str(&escaped(&self.0.context.join(", ")));
        }
        if let Some(advice) = &self.0.advice {
            text.push_str("\n  try: ");
            text.push_str(&match advice {
                Advice::Text(advice) => escaped_lines(advice),
                Advice::Remedy(remedy) => escaped_lines(&words(remedy)),
            });
        }
        text
    }
}

/// The system's error message without the useless "(os error 2)".
fn os_words(error: &std::io::Error) -> String {
    let text = error.to_string();
    let text = match text.rfind(" (os error ") {
        Some(end) => text[..end].to_string(),
        None => text,
    };
    match error.kind() {
        std::io::ErrorKind::FileTooLarge => {
            format!("{text}, above the limit of the process (ulimit -f) or of the file system")
        }
        _ => text,
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Messages may have several lines, such as those of a compiler; contexts have one.
        write!(f, "{}; {}", self.0.code, escaped_lines(&self.0.message))
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.report())
    }
}

impl std::error::Error for Error {}

#[doc(hidden)]
impl From<FormatError> for Error {
    fn from(error: FormatError) -> Self {
        let place = error.place();
        let mut this = Self::new(error.fault.code(), error.to_string());
        if let Some(advice) = &error.advice {
            this = this.advise(advice.clone());
        }
        this.context(place)
    }
}

/// Adds context to the error of a result; the text is built only on error.
pub trait Context<T> {
    /// See [`Error::context`].
    fn context(self, place: impl FnOnce() -> String) -> Result<T>;
    /// See [`Error::advise`].
    fn advise<A: Into<Advice>>(self, advice: impl FnOnce() -> A) -> Result<T>;
}

impl<T, E: Into<Error>> Context<T> for Result<T, E> {
    fn context(self, place: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|error| error.into().context(place()))
    }

    fn advise<A: Into<Advice>>(self, advice: impl FnOnce() -> A) -> Result<T> {
        self.map_err(|error| error.into().advise(advice()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_has_the_message_the_context_and_the_advice() {
        let error = Error::not_found("no device 'x'")
            .context("record 4")
            .context("capture.ireereplay")
            .advise("inner")
            .advise("outer");
        assert_eq!(
            error.report(),
            "NOT_FOUND; no device 'x'\n  at: record 4, capture.ireereplay\n  try: inner"
        );
        assert_eq!(error.to_string(), "NOT_FOUND; no device 'x'");
    }

    #[test]
    fn names_in_a_report_control_no_terminal_and_begin_no_line() {
        let error = Error::not_found("a\tb\nc\x1b[2J\u{9b}").context("d\ne\t\r\u{202e}");
        let expected = "NOT_FOUND; a\tb\nc\\u{1b}[2J\\u{9b}\n  at: d\\ne\\t\\r\\u{202e}";
        assert_eq!(error.report(), expected);
        assert_eq!(error.report().lines().next(), error.to_string().lines().next());
        assert_eq!(error.message(), "a\tb\nc\x1b[2J\u{9b}");
    }

    #[test]
    fn an_interface_has_its_own_words_for_remedies() {
        let words = |remedy: &Remedy| format!("words for {remedy:?}");
        let error = Error::data_loss("short").advise(Remedy::RecoverTruncated).advise("outer");
        assert_eq!(error.advice(), Some(&Advice::Remedy(Remedy::RecoverTruncated)));
        assert_eq!(error.report_with(words), "DATA_LOSS; short\n  try: words for RecoverTruncated");
        assert_eq!(error.report(), format!("DATA_LOSS; short\n  try: {}", Remedy::RecoverTruncated));
        let text = Error::data_loss("short").advise("a text");
        assert_eq!(text.report_with(words), text.report());
        assert_eq!(error.replace_advice("another").report(), "DATA_LOSS; short\n  try: another");
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri words the system's errors in its own way")]
    fn system_errors_lose_their_number() {
        let error = Error::io("opening 'none'", &std::io::Error::from_raw_os_error(2));
        assert_eq!(error.to_string(), "NOT_FOUND; opening 'none': No such file or directory");
    }
}
