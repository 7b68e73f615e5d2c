//! Plugins: libraries that provide imports of executables (`--executable_plugin=`).

use std::ffi::{OsStr, c_void};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rehal_base::{Context, Error, MappedFile, Result, StatusCode};

use super::dylib::Dylib;
use super::elf;
use super::imports::{ImportProvider, ImportRequest};
use super::plugin_abi::{
    self, Allocator, AllocatorCommand, AllocatorParams, PluginEnvironment, PluginTable, QueryFn,
    ResolveParams, STATUS_CODE_MASK, Status,
};
use super::query::text;

/// A loaded plugin; unloaded with the last user of its functions.
pub struct Plugin {
    table: *const PluginTable,
    /// The instance returned by the plugin's load function.
    state: *mut c_void,
    name: String,
    /// Declared after the table, which points into it.
    _code: Code,
}

/// Plugins in the order of registration: the last has precedence.
#[derive(Clone, Default)]
pub struct Plugins(Vec<Arc<dyn ImportProvider>>);

enum Code {
    Embedded(#[expect(dead_code, reason = "kept for its drop")] elf::Module),
    System(#[expect(dead_code, reason = "kept for its drop")] Dylib),
}

// SAFETY: the ABI requires plugins to support loading and resolving on several threads concurrently, and the
// table is read-only.
unsafe impl Send for Plugin {}
// SAFETY: as above.
unsafe impl Sync for Plugin {}

/// In a set of options, for all devices of this crate.
impl rehal_hal::DeviceOptions for Plugins {}

impl Plugins {
    /// Loads the plugin named by a flag's value, with precedence over those already registered.
    ///
    /// # Safety
    /// As for [`Plugin::load`].
    pub unsafe fn load(&mut self, spec: &OsStr) -> Result<()> {
        // SAFETY: guaranteed by the caller.
        let plugin = unsafe { Plugin::load(spec) }?;
        self.register(Arc::new(plugin));
        Ok(())
    }

    /// Registers a provider with precedence over those already registered.
    pub fn register(&mut self, provider: Arc<dyn ImportProvider>) {
        self.0.push(provider);
    }

    /// Registers those of `others`, which have precedence.
    pub(crate) fn append(&mut self, others: Self) {
        self.0.extend(others.0);
    }

    /// The providers, in the order of registration.
    pub fn providers(&self) -> &[Arc<dyn ImportProvider>] {
        &self.0
    }
}

impl Plugin {
    /// Loads the plugin named by the value of `--executable_plugin=`: the path of a library for the system's
    /// loader, or, with the prefix `embedded:` or the extension `.sos`, of an ELF image for our own.
    ///
    /// # Safety
    /// Runs the plugin's code: the caller trusts the file as it trusts its own code.
    pub unsafe fn load(spec: &OsStr) -> Result<Self> {
        let place = || format!("loading executable plugin '{}'", spec.display());
        let loaded = match embedded_path(spec) {
            // SAFETY: the caller trusts the file.
            Some(path) => unsafe { load_embedded(&path) },
            // SAFETY: the caller trusts the file.
            None => unsafe { load_system(spec) },
        };
        // SAFETY: the address is of the query symbol of the code loaded with it.
        loaded.and_then(|(query, code)| unsafe { Self::query(query, code) }).context(place)
    }

    /// The plugin's own name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// # Safety
    /// `query` is the query function of `code`, which the caller trusts.
    unsafe fn query(query: *const c_void, code: Code) -> Result<Self> {
        // SAFETY: the ABI defines this type of the symbol; the table is null or valid while loaded.
        unsafe {
            let query = std::mem::transmute::<*const c_void, QueryFn>(query);
            let table = query(plugin_abi::VERSION, std::ptr::null_mut());
            let name = check(table)?;
            let mut this = Self { table, state: std::ptr::null_mut(), name, _code: code };
            if let Err(error) = this.call_load() {
                // A plugin that did not load is not unloaded.
                this.table = std::ptr::null();
                return Err(error);
            }
            Ok(this)
        }
    }

    /// # Safety
    /// The table is valid.
    unsafe fn call_load(&mut self) -> Result<()> {
        let allocator = Allocator { this: std::ptr::null_mut(), ctl: Some(allocate) };
        let environment = PluginEnvironment { host_allocator: allocator };
        // SAFETY: valid per the caller; `check` found the function non-null.
        let status = unsafe {
            match (*self.table).load {
                Some(load) => load(&environment, 0, std::ptr::null(), &mut self.state),
                None => 0,
            }
        };
        self.status(status, "load")
    }

    fn status(&self, status: Status, what: &str) -> Result<()> {
        if status == 0 {
            return Ok(());
        }
        let code = StatusCode::from_u32((status & STATUS_CODE_MASK) as u32).unwrap_or(StatusCode::Unknown);
        // An error status must have a nonzero code.
        let code = if code == StatusCode::Ok { StatusCode::Unknown } else { code };
        Err(Error::new(code, format!("executable plugin '{}' failed to {what}", self.name)))
    }
}

impl ImportProvider for Plugin {
    fn resolve(&self, request: &mut ImportRequest) -> Result<()> {
        let (symbol_names, out_fn_ptrs, out_fn_contexts) = request.as_raw();
        let params = ResolveParams { count: request.count(), symbol_names, out_fn_ptrs, out_fn_contexts };
        let mut resolution = 0;
        // SAFETY: the table is valid while the plugin is loaded, `check` found the function non-null, and the
        // arrays have `count` entries.
        let status = unsafe {
            match (*self.table).resolve {
                Some(resolve) => resolve(self.state, &params, &mut resolution),
                None => 0,
            }
        };
        match self.status(status, "resolve imports") {
            // It may provide only some of the required imports; other plugins may provide the rest.
            Err(error) if error.code() == StatusCode::NotFound => Ok(()),
            result => result,
        }
    }
}

impl Drop for Plugin {
    fn drop(&mut self) {
        // SAFETY: null if loading failed, otherwise valid; the plugin's functions have no more users:
        // executables keep their providers alive.
        unsafe {
            if let Some(table) = self.table.as_ref()
                && let Some(unload) = table.unload
            {
                unload(self.state);
            }
        }
    }
}

/// The path of an ELF image for our own loader, or `None` for the system's.
fn embedded_path(spec: &OsStr) -> Option<PathBuf> {
    let bytes = spec.as_encoded_bytes();
    let path = bytes.strip_prefix(b"embedded:").or(bytes.ends_with(b".sos").then_some(bytes))?;
    // SAFETY: the text after an ASCII prefix is valid in the platform's encoding.
    Some(PathBuf::from(unsafe { OsStr::from_encoded_bytes_unchecked(path) }))
}

/// # Safety
/// The caller trusts the library's code.
unsafe fn load_system(spec: &OsStr) -> Result<(*const c_void, Code)> {
    // SAFETY: guaranteed by the caller.
    let dylib = unsafe { Dylib::open(spec) }?;
    Ok((dylib.symbol(plugin_abi::QUERY_SYMBOL)?, Code::System(dylib)))
}

/// # Safety
/// The caller trusts the file's code.
unsafe fn load_embedded(path: &Path) -> Result<(*const c_void, Code)> {
    let file = MappedFile::open(path)?;
    let image = elf::Image::parse(file.bytes())?;
    let query = image.function(plugin_abi::QUERY_SYMBOL)?;
    // SAFETY: guaranteed by the caller.
    let module = unsafe { image.load() }?;
    Ok((module.address(query), Code::Embedded(module)))
}

/// Checks the table and returns the plugin's name.
///
/// # Safety
/// `table` is null or was returned by a plugin's query function.
unsafe fn check(table: *const PluginTable) -> Result<String> {
    // SAFETY: null or valid, per the caller.
    let table = unsafe { table.as_ref() };
    // SAFETY: null or valid, per the caller.
    let header = unsafe { table.and_then(|table| table.header.as_ref()) };
    let (Some(header), Some(table)) = (header, table) else {
        return Err(Error::failed_precondition(format!(
            "the plugin has no interface of version {} or below",
            plugin_abi::VERSION
        )));
    };
    if header.version != plugin_abi::VERSION {
        return Err(Error::incompatible(format!(
            "the plugin's interface has version {}, supported is {}",
            header.version,
            plugin_abi::VERSION
        )));
    }
    if header.sanitizer != 0 {
        return Err(Error::new(
            StatusCode::Unavailable,
            format!("the plugin is built with a sanitizer ({}), this process is not", header.sanitizer),
        ));
    }
    if table.load.is_none() || table.resolve.is_none() {
        return Err(Error::failed_precondition("the plugin lacks the functions to load and to resolve"));
    }
    // SAFETY: null or NUL-terminated, per the caller.
    Ok(unsafe { text(header.name) }.unwrap_or_default())
}

/// The allocator passed to plugins: that of the C library.
unsafe extern "C" fn allocate(
    _this: *mut c_void,
    command: u32,
    params: *const c_void,
    inout_ptr: *mut *mut c_void,
) -> Status {
    // SAFETY: per the ABI, `inout_ptr` is valid, `params` has the length for all commands except the one that
    // frees, and a pointer to grow or free was allocated here.
    unsafe {
        if command == AllocatorCommand::Free as u32 {
            libc::free(*inout_ptr);
            *inout_ptr = std::ptr::null_mut();
            return 0;
        }
        let length = (*params.cast::<AllocatorParams>()).byte_length;
        if length == 0 {
            return StatusCode::InvalidArgument as Status;
        }
        let memory = match command {
            _ if command == AllocatorCommand::Malloc as u32 => libc::malloc(length),
            _ if command == AllocatorCommand::Calloc as u32 => libc::calloc(1, length),
            _ if command == AllocatorCommand::Realloc as u32 => libc::realloc(*inout_ptr, length),
            _ => return StatusCode::Unimplemented as Status,
        };
        if memory.is_null() {
            return StatusCode::ResourceExhausted as Status;
        }
        *inout_ptr = memory;
    }
    0
}
