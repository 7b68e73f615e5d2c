//! Executables as libraries of functions.

use std::ffi::{c_int, c_void};
use std::sync::{Arc, OnceLock};

use rehal_base::{Context, Error, Result, StatusCode, listed};
use rehal_crash::{CrashNote, Timed};
use rehal_hal::{FunctionInfo, PerfMap};

use super::abi::{self, Environment, ImportFn, LibraryTable};
use super::cost::{Cost, Costs};
use super::dylib::Dylib;
use super::format::Format;
use super::imports::{self, ImportProvider, Imports};
use super::running::Label;
use super::{elf, image_cache, perf, processor, query};
use crate::platform::executable_fn;

/// A loaded executable: its functions, its environment, and its code, unloaded on drop.
///
/// Shared between threads: dispatching takes `&self` and does not allocate.
pub struct Library {
    pub(super) table: *const LibraryTable,
    pub(super) environment: Box<Environment>,
    functions: Box<[FunctionInfo]>,
    /// Bytes of workgroup local memory that each function needs.
    local_memory_bytes: Box<[u32]>,
    pub(super) label: Box<Label>,
    /// Shared by the libraries of one cached image.
    costs: Arc<OnceLock<Costs>>,
    /// Referenced by the environment.
    _constants: Box<[u32]>,
    _imports: Imports,
    /// After everything that points into it: fields drop in declaration order.
    code: Code,
    /// Providers of imports stay loaded while these can be called.
    _providers: Vec<Arc<dyn ImportProvider>>,
}

/// The options with which a library is loaded.
#[derive(Clone, Copy, Default)]
pub struct LoadOptions<'a> {
    /// The executable's name in messages, such as `executable 4`; may be empty.
    pub label: &'a str,
    /// Specialization constants, exactly as many as the library declares.
    pub constants: &'a [u32],
    /// Providers of imports, in the order of registration: the last has precedence.
    pub providers: &'a [Arc<dyn ImportProvider>],
    /// The files that describe the code to profilers: see [`CommonOptions::perf_map`]. They are open.
    ///
    /// [`CommonOptions::perf_map`]: rehal_hal::CommonOptions::perf_map
    pub perf_map: Option<PerfMap>,
}

/// Advice after a crash of initializers, or of the query function.
const AFTER_A_CRASH: &str = "the executable's own code crashed while it was loaded: it may be corrupt, or compiled for another machine";

/// Keeps the machine code mapped.
pub(super) enum Code {
    Embedded(Arc<elf::Module>),
    System(#[expect(dead_code, reason = "keeps the library loaded")] Dylib),
}

// SAFETY: the table and its referents are read-only or managed by the library (the ABI requires it to
// synchronize itself); the environment is immutable after loading; import contexts are passed to their
// provider, which must support any thread; dropping is allowed on any thread.
unsafe impl Send for Library {}
// SAFETY: as above; several threads may call functions of an executable concurrently.
unsafe impl Sync for Library {}

/// Advice about a library without [`abi::QUERY_SYMBOL`].
const NO_QUERY: &str = "name an executable that the compiler wrote, or begin with a stub of the kernel: a driver calls this function to \
     find those of an executable";

impl Library {
    /// Loads a native executable of a format supported by [`format::is_supported`].
    ///
    /// # Safety
    /// Runs the executable's code (initializers and its query function): the caller trusts `bytes`
    /// as it trusts its own code.
    pub unsafe fn load(format: &str, bytes: &[u8], options: &LoadOptions<'_>) -> Result<Self> {
        let name = if options.label.is_empty() { "an executable" } else { options.label };
        let _note = CrashNote::new(&["loading ", name], AFTER_A_CRASH);
        let _timed = Timed::begin();
        let (query, code, costs) = match Format::from_name(format)? {
            Format::EmbeddedElf => {
                // SAFETY: the caller trusts the bytes.
                let image = unsafe { image_cache::load(bytes) }?;
                (image.query, Code::Embedded(image.module), image.costs)
            }
            Format::SystemElf => {
                // SAFETY: the caller trusts the bytes.
                let dylib = unsafe { Dylib::from_bytes(bytes) }?;
                let query = dylib.symbol(abi::QUERY_SYMBOL).advise(|| NO_QUERY)?;
                (query, Code::System(dylib), image_cache::library_costs(bytes))
            }
            Format::Vmvx => {
                return Err(Error::unimplemented(format!(
                    "executables of format '{format}' are VM programs, not native libraries"
                )));
            }
        };
        // What a function costs may depend on the constants.
        let costs = if options.constants.is_empty() { costs } else { Arc::default() };
        // SAFETY: the address is of the query symbol of code that the caller trusts.
        let this = unsafe { Self::query(query, code, costs, options) }?;
        if let (Some(files), Code::Embedded(module)) = (options.perf_map, &this.code)
            && module.is_first_description()
        {
            perf::describe(files, &this, module, bytes)?;
        }
        Ok(this)
    }

    /// The process address of each function, by ordinal.
    pub(super) fn function_addresses(&self) -> Vec<usize> {
        // SAFETY: `query::read` found the table of functions, which the library keeps while it is loaded.
        let address =
            |ordinal| unsafe { (*(*self.table).exports.ptrs.add(ordinal)).map_or(0, |it| it as usize) };
        (0..self.functions.len()).map(address).collect()
    }

    /// # Safety
    /// `query` is the query function of `code`, which the caller trusts.
    unsafe fn query(
        query: *const c_void,
        code: Code,
        costs: Arc<OnceLock<Costs>>,
        options: &LoadOptions<'_>,
    ) -> Result<Self> {
        let constants: Box<[u32]> = options.constants.into();
        let mut environment = Box::new(Environment {
            constants: if constants.is_empty() { std::ptr::null() } else { constants.as_ptr() },
            import_thunk: None,
            import_funcs: std::ptr::null(),
            import_contexts: std::ptr::null(),
            processor: processor::data(),
        });
        // SAFETY: the ABI defines this type of the symbol, and the environment outlives the library.
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
            costs,
            _constants: constants,
            _imports: imports,
            code,
            _providers: if imports_any { options.providers.to_vec() } else { Vec::new() },
        })
    }

    /// The library's own name; may be empty.
    pub fn name(&self) -> &str {
        self.label.name()
    }

    /// Number of functions.
    pub fn function_count(&self) -> usize {
        self.functions.len()
    }

    /// All functions, by ordinal, as the reference reports and captures record them.
    pub fn functions(&self) -> &[FunctionInfo] {
        &self.functions
    }

    /// The costs of the functions, for callers that run them to measure.
    pub(super) fn costs(&self) -> Costs {
        let unknown = || self.functions.iter().map(|_| Cost::default()).collect();
        self.costs.get_or_init(unknown).clone()
    }

    /// The function with this ordinal, or an error with the number of functions.
    pub fn function(&self, ordinal: u32) -> Result<&FunctionInfo> {
        self.functions.get(ordinal as usize).ok_or_else(|| self.no_function(ordinal))
    }

    /// Bytes of workgroup local memory that this function needs, or an error with the number of functions.
    pub fn local_memory_bytes(&self, ordinal: u32) -> Result<u32> {
        self.local_memory_bytes.get(ordinal as usize).copied().ok_or_else(|| self.no_function(ordinal))
    }

    /// The ordinal of the first function with this name.
    pub fn lookup(&self, name: &str) -> Result<u32> {
        match self.functions.iter().position(|function| function.name == name) {
            Some(ordinal) => Ok(ordinal as u32),
            None => {
                let names = listed(self.functions.iter().map(|it| it.name.escape_debug()));
                let name = name.escape_debug();
                Err(Error::not_found(format!("the executable has no function '{name}'; it has: {names}")))
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

// The thunk through which executables call imports: a direct call, since the calling conventions are the
// same.
executable_fn! {
    fn call_import(
    function: Option<ImportFn>,
    params: *mut c_void,
    context: *mut c_void,
    reserved: *mut c_void,
) -> c_int {
    match function {
        // SAFETY: the executable passes an entry of its import table and arguments for it.
        Some(function) => unsafe { function(params, context, reserved) },
        // A missing optional import was called: the ABI defines this as a fatal error.
        None => StatusCode::Unavailable as c_int,
    }
}
}
