//! Executables: the formats of the pinned release, SPIR-V and what reflection says about it.

pub mod format;
