use rehal_capture::layout::{BufferRef, SemaphoreTimepoint};
use zerocopy::little_endian::U32;

/// The name of a field in each format, with its delimiters. An empty name omits the field from that format.
#[derive(Clone, Copy)]
pub struct Name {
    pub text: &'static str,
    pub json: &'static str,
}

/// `name!("x")` for a field with one name, `name!("x", "y")` for one that text calls `x` and JSON
/// calls `y`, `name!(json "y")` for one that text leaves out.
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

/// Takes the fields of a payload, one after another, and puts them into a format.
///
/// A range is of file offsets. Text puts references to buffers behind the ranges, wherever they
/// come; JSON keeps the order it is given.
pub trait Fields {
    /// Whether this is text, for the few payloads whose fields come in another order there.
    const TEXT: bool;

    fn number(&mut self, name: Name, value: u64);

    /// A bit field of as many hexadecimal digits in text; JSON has it decimal.
    fn bits<const DIGITS: usize>(&mut self, name: Name, value: u64);

    fn triple(&mut self, name: Name, values: &[U32; 3]);

    fn range(&mut self, name: Name, offset: u64, length: u64);

    /// A number with what it means. JSON has the meaning under `meaning_name`.
    fn code(&mut self, name: Name, value: u32, meaning_name: Name, meaning: &'static str);

    /// A digest of 64 bits, hexadecimal in both formats.
    fn digest(&mut self, name: Name, value: u64);

    /// A name from the capture, whatever bytes it is made of.
    fn string(&mut self, name: Name, bytes: &[u8]);

    fn reference(&mut self, name: Name, reference: &BufferRef);

    fn timepoints(&mut self, name: Name, timepoints: &[SemaphoreTimepoint]);

    fn references(&mut self, name: Name, references: &[BufferRef]);
}
