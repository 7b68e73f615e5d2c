//! Executables as libraries of functions.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use rehal_base::{Error, Result, StatusCode};
use rehal_hal::FunctionInfo;

use super::abi::{self, Environment, ImportFn, LibraryTable};
use super::dylib::Dylib;
use super::format::{self, Format};
use super::guard::Label;
use super::imports::{self, ImportProvider, Imports};
use super::{elf, image_cache, processor, query};

/// A loaded executable: its functions, its environment, and the code itself, which goes when this is
/// dropped.
///
/// It is shared freely between threads; dispatching takes `&self` and allocates nothing.
pub struct Library {
    pub(super) table: *const LibraryTable,
    pub(super) environment: Box<Environment>,
    functions: Box<[FunctionInfo]>,
    /// Bytes of workgroup local memory that each function needs.
    local_memory_bytes: Box<[u32]>,
    pub(super) label: Box<Label>,
    /// What the environment points to.
    _constants: Box<[u32]>,
    _imports: Imports,
    /// Behind everything that points into it: fields drop in this order.
    _code: Code,
    /// Whoever provided imports stays loaded as long as they can be called.
    _providers: Vec<Arc<dyn ImportProvider>>,
}

/// What a library is loaded with.
#[derive(Clone, Copy, Default)]
pub struct LoadOptions<'a> {
    /// What messages call the executable, such as `executable 4`; may be empty.
    pub label: &'a str,
    /// Specialization constants, exactly as many as the library declares.
    pub constants: &'a [u32],
    /// Who resolves imports, in the order of registration: the last is asked first.
    pub providers: &'a [Arc<dyn ImportProvider>],
}

/// Whatever keeps the machine code mapped.
enum Code {
    Embedded(Arc<elf::Module>),
    System(#[expect(dead_code, reason = "kept for its drop")] Dylib),
}

// SAFETY: the table and what it points to are read-only or the library's own business (the ABI has
// it synchronize itself); the environment is not changed after loading; import contexts are passed
// back to their provider, which must allow any thread; dropping may happen on any thread.
unsafe impl Send for Library {}
// SAFETY: as above; functions of an executable may be called by several threads at once.
unsafe impl Sync for Library {}

impl Library {
    /// Loads an executable of machine code, of a format that [`format::is_supported`] knows.
    ///
    /// # Safety
    /// Runs the executable's code (initializers and its query function): the caller trusts `bytes`
    /// as it trusts its own code.
    pub unsafe fn load(format: &str, bytes: &[u8], options: &LoadOptions<'_>) -> Result<Self> {
        let code = match Format::of(format)? {
            Format::EmbeddedElf => {
                // SAFETY: the caller trusts the bytes.
                let image = unsafe { image_cache::load(bytes) }?;
                (image.query, Code::Embedded(image.module))
            }
            Format::SystemElf => {
                // SAFETY: the caller trusts the bytes.
                let dylib = unsafe { Dylib::from_bytes(bytes) }?;
                (dylib.symbol(abi::QUERY_SYMBOL)?, Code::System(dylib))
            }
            Format::Vmvx => {
                return Err(Error::unimplemented(format!(
                    "executables of format '{format}' are programs of the VM, not libraries of machine code"
                )));
            }
        };
        // SAFETY: the address is of the query symbol of code that the caller trusts.
        unsafe { Self::query(code.0, code.1, options) }
    }

    /// Loads the executable at hand whatever its format, as [`format::infer`] sees it.
    ///
    /// # Safety
    /// As for [`Library::load`].
    pub unsafe fn load_inferred(bytes: &[u8], options: &LoadOptions<'_>) -> Result<Self> {
        let Some(format) = format::infer(bytes) else {
            return Err(Error::incompatible("the bytes are not an executable of a known format"));
        };
        // SAFETY: the caller's.
        unsafe { Self::load(format, bytes, options) }
    }

    /// # Safety
    /// `query` is the query function of `code`, which the caller trusts.
    unsafe fn query(query: *const c_void, code: Code, options: &LoadOptions<'_>) -> Result<Self> {
        let constants: Box<[u32]> = options.constants.into();
        let mut environment = Box::new(Environment {
            constants: if constants.is_empty() { std::ptr::null() } else { constants.as_ptr() },
            import_thunk: None,
            import_funcs: std::ptr::null(),
            import_contexts: std::ptr::null(),
            processor: processor::data(),
        });
        // SAFETY: the symbol has this type by the ABI, and the environment outlives the library.
        let (table, contents) = unsafe {
            let query = std::mem::transmute::<*const c_void, abi::QueryFn>(query);
            let table = query(abi::VERSION, &raw const *environment);
            (table, query::read(table, constants.len())?)
        };
        // SAFETY: `query::read` found the names non-null; the library keeps them while loaded.
        let imports = unsafe { imports::resolve_all(contents.imports, options.providers) }?;
        let imports_any = !imports.functions.is_empty();
        if imports_any {
            environment.import_thunk = Some(call_import);
            environment.import_funcs = imports.functions.as_ptr();
            environment.import_contexts = imports.contexts.as_ptr();
        }
        let memory = match &code {
            Code::Embedded(module) => module.memory(),
            Code::System(_) => 0..0,
        };
        let label = Box::new(Label::new(&contents.name, options.label, memory));
        Ok(Self {
            table,
            environment,
            functions: contents.functions,
            local_memory_bytes: contents.local_memory_bytes,
            label,
            _constants: constants,
            _imports: imports,
            _code: code,
            _providers: if imports_any { options.providers.to_vec() } else { Vec::new() },
        })
    }

    /// The name that the library gives itself; may be empty.
    pub fn name(&self) -> &str {
        self.label.name()
    }

    /// Number of functions.
    pub fn function_count(&self) -> usize {
        self.functions.len()
    }

    /// All functions, by ordinal, as the reference reports them and so as captures hold them.
    pub fn functions(&self) -> &[FunctionInfo] {
        &self.functions
    }

    /// The function with this ordinal, or an error that says how many there are.
    pub fn function(&self, ordinal: u32) -> Result<&FunctionInfo> {
        self.functions.get(ordinal as usize).ok_or_else(|| self.no_function(ordinal))
    }

    /// Bytes of workgroup local memory that this function needs, or an error that says how many
    /// functions there are.
    pub fn local_memory_bytes(&self, ordinal: u32) -> Result<u32> {
        self.local_memory_bytes.get(ordinal as usize).copied().ok_or_else(|| self.no_function(ordinal))
    }

    /// The ordinal of the first function with this name.
    pub fn lookup(&self, name: &str) -> Result<u32> {
        match self.functions.iter().position(|function| function.name == name) {
            Some(ordinal) => Ok(ordinal as u32),
            None => {
                let names: Vec<_> = self.functions.iter().map(|function| function.name.as_str()).collect();
                Err(Error::not_found(format!(
                    "the executable has no function '{name}'; it has: {}",
                    names.join(", ")
                )))
            }
        }
    }

    #[cold]
    pub(super) fn no_function(&self, ordinal: u32) -> Error {
        Error::new(
            StatusCode::OutOfRange,
            format!("function {ordinal} does not exist: the executable has {}", self.functions.len()),
        )
    }
}

/// How executables call imports: directly, they speak the same calling convention.
unsafe extern "C" fn call_import(
    function: Option<ImportFn>,
    params: *mut c_void,
    context: *mut c_void,
    reserved: *mut c_void,
) -> c_int {
    match function {
        // SAFETY: the executable passes an entry of its import table and arguments for it.
        Some(function) => unsafe { function(params, context, reserved) },
        // A missing optional import was called: what the ABI calls a catastrophic failure.
        None => StatusCode::Unavailable as c_int,
    }
}
