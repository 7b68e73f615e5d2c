use crate::Pattern;

/// A parameter as described by its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parsed {
    /// The name.
    pub name: String,
    /// Its metadata; empty if the format has none.
    pub metadata: Vec<u8>,
    /// Length in bytes.
    pub length: u64,
    /// Requested alignment in bytes; 0 if unspecified.
    pub minimum_alignment: u64,
    /// The location of its bytes.
    pub location: Location,
}

/// The location of a parameter's bytes, as described by its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// A splat.
    Splat(Pattern),
    /// At this offset of the same file.
    Here(u64),
    /// In another file.
    External {
        /// Its path: absolute, or relative to the archive's directory.
        path: String,
        /// Offset in it.
        offset: u64,
    },
}
