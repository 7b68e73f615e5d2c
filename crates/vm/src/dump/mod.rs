//! Module files as text: the output of `iree-dump-module`, byte for byte as in release 3.13.0.
//!
//! All output streams: at most a line of text is buffered. Errors are those of the writer or, if the module
//! contains something without a text form, [`Error::Module`].

mod aliases;
mod assembly;
mod convention;
mod instruction;
mod json;
mod metadata;

use std::fmt;
use std::io;

pub use assembly::{AssemblyOptions, assembly};
pub(crate) use instruction::InstructionText;
pub use json::json;
pub use metadata::metadata;

/// Why a dump ended early.
#[derive(Debug)]
pub enum Error {
    /// Writing the output failed.
    Write(io::Error),
    /// The module contains something without a text form.
    Module(rehal_base::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Write(error) => error.fmt(f),
            Self::Module(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::Write(error)
    }
}

/// Text up to its first NUL, as the reference prints it.
fn shown(text: &str) -> &str {
    text.split('\0').next().unwrap_or_default()
}

/// Names of all instructions, without the leading `vm.`.
pub fn mnemonics() -> impl Iterator<Item = &'static str> {
    let instructions = crate::operation::OPERATIONS.iter();
    instructions
        .filter(|operation| operation.op != crate::operation::Op::Block)
        .map(|operation| operation.mnemonic)
}
