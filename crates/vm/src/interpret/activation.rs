//! The state that instructions access.

use std::sync::Arc;

use rehal_base::{Error, StatusCode};

use crate::Ref;
use crate::code::Code;
use crate::globals::Globals;
use crate::list::ElementKind;
use crate::program::Program;
use crate::registers::{Number, Window};

/// A bytecode module instantiated in one context.
pub(crate) struct Instance {
    /// The lowered functions, traceable or not.
    pub(crate) codes: Arc<[Code]>,
    pub(crate) globals: Globals,
    /// The target of each import; `None` for an optional one that no module exports.
    pub(crate) imports: Box<[Option<Target>]>,
}

/// A function in a context.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Target {
    /// Index of the module in the context.
    pub(crate) module: u32,
    /// Ordinal of the export of a native module, or of the function of a bytecode module.
    pub(crate) ordinal: u32,
}

/// The environment that the instructions of a frame refer to.
#[derive(Clone, Copy)]
pub(super) struct Environment<'a> {
    pub(super) code: &'a Code,
    pub(super) program: &'a Program,
    pub(super) instance: &'a Instance,
}

/// The state that an out-of-line instruction accesses.
pub(super) struct Activation<'a> {
    pub(super) code: &'a Code,
    pub(super) program: &'a Program,
    pub(super) instance: &'a Instance,
    pub(super) window: &'a mut Window,
    pub(super) refs: &'a mut [Ref],
}

impl Activation<'_> {
    /// A type of the module.
    pub(super) fn element_kind(&self, type_id: u16) -> &ElementKind {
        self.program.tables.types.get(usize::from(type_id)).unwrap_or(&ElementKind::AnyRef)
    }

    /// The number in a register.
    pub(super) fn get<T: Number>(&self, register: u16) -> T {
        T::get(self.window, register)
    }

    /// Sets a register to a number.
    pub(super) fn put(&mut self, register: u16, value: impl Number) {
        value.put(self.window, register);
    }
}

/// The error of code that verification should have refused.
#[cold]
pub(super) fn broken(what: &str) -> Error {
    Error::new(StatusCode::Internal, format!("the interpreter found {what}"))
}
