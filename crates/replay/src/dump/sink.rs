use rehal_capture::layout::{BufferRef, SemaphoreTimepoint};
use zerocopy::little_endian::U32;

/// The name of a field in each format, with its delimiters. An empty name omits the field from that format.
#[derive(Clone, Copy)]
pub struct Name {
    pub text: &'static str,
    pub json: &'static str,
}

/// `name!("x")` for a field with one name, `name!("x", "y")` for `x` in text and `y` in JSON,
/// `name!(json "y")` for a field omitted from text.
macro_rules! name {
    (json $json:literal) => {
        $crate::dump::sink::Name { text: "", json: concat!(",\"", $json, "\":") }
    };
    (text $text:literal) => {
        $crate::dump::sink::Name { text: concat!(" ", $text, "="), json: "" }
    };
    ($text:literal, $json:literal) => {
        $crate::dump::sink::Name { text: concat!(" ", $text, "="), json: concat!(",\"", $json, "\":") }
    };
    ($both:literal) => {
        $crate::dump::sink::name!($both, $both)
    };
}
pub(crate) use name;

/// Receives the fields of a payload in order and formats them.
///
/// Ranges are file offsets. Text prints buffer references after the ranges, whatever their order; JSON
/// preserves the order.
pub trait Fields {
    /// Whether this is text, for the few payloads whose field order differs there.
    const TEXT: bool;

    fn number(&mut self, name: Name, value: u64);

    /// A bit field: hexadecimal with `DIGITS` digits in text, decimal in JSON.
    fn bits<const DIGITS: usize>(&mut self, name: Name, value: u64);

    fn triple(&mut self, name: Name, values: &[U32; 3]);

    fn range(&mut self, name: Name, offset: u64, length: u64);

    /// A number with its meaning, which JSON writes as `meaning_name`.
    fn code(&mut self, name: Name, value: u32, meaning_name: Name, meaning: &'static str);

    /// A 64-bit digest, hexadecimal in both formats.
    fn digest(&mut self, name: Name, value: u64);

    /// A name from the capture, as arbitrary bytes.
    fn string(&mut self, name: Name, bytes: &[u8]);

    fn reference(&mut self, name: Name, reference: &BufferRef);

    fn timepoints(&mut self, name: Name, timepoints: &[SemaphoreTimepoint]);

    fn references(&mut self, name: Name, references: &[BufferRef]);
}
