//! Executables as data: those of the pinned release, of other compilers, and malformed ones.

mod assembler;
mod fixtures;
mod hostile;
mod modules;
mod subgroups;
