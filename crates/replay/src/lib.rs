//! See ARCHITECTURE.md.

pub mod dump;
