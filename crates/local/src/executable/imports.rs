//! Functions that an executable imports, and their providers.

use std::ffi::{CStr, c_char, c_void};
use std::sync::Arc;

use rehal_base::{Error, Remedy, Result, listed};

use super::abi::ImportFn;

/// Resolves imports of executables: a plugin, or functions of the host.
pub trait ImportProvider: Send + Sync {
    /// Resolves those unresolved imports that it provides. Leaving some unresolved is not an error.
    fn resolve(&self, request: &mut ImportRequest) -> Result<()>;
}

/// The imports of an executable while they are being resolved.
pub struct ImportRequest {
    /// The names in the executable, valid while it is loaded; sorted.
    symbols: Vec<*const c_char>,
    functions: Vec<Option<ImportFn>>,
    contexts: Vec<*mut c_void>,
}

/// The imports of an executable, resolved: one entry per import.
pub(super) struct Imports {
    pub(super) functions: Box<[Option<ImportFn>]>,
    pub(super) contexts: Box<[*mut c_void]>,
}

impl ImportRequest {
    /// Number of imports.
    pub fn count(&self) -> usize {
        self.symbols.len()
    }

    /// The name of the import, without the mark of an optional one.
    pub fn name(&self, index: usize) -> &CStr {
        let symbol = self.symbol(index);
        let optional = usize::from(self.is_optional(index));
        CStr::from_bytes_with_nul(&symbol.to_bytes_with_nul()[optional..]).unwrap_or(symbol)
    }

    /// Whether the import is optional.
    pub fn is_optional(&self, index: usize) -> bool {
        self.symbol(index).to_bytes().starts_with(b"?")
    }

    /// Whether it is resolved.
    pub fn is_resolved(&self, index: usize) -> bool {
        self.functions[index].is_some()
    }

    /// Resolves the import; the executable passes `context` to `function`.
    pub fn set(&mut self, index: usize, function: ImportFn, context: *mut c_void) {
        self.functions[index] = Some(function);
        self.contexts[index] = context;
    }

    /// The arrays as the plugin ABI has them: names, functions, contexts.
    pub(super) fn as_raw(&mut self) -> (*const *const c_char, *mut *mut c_void, *mut *mut c_void) {
        (self.symbols.as_ptr(), self.functions.as_mut_ptr().cast(), self.contexts.as_mut_ptr())
    }

    fn symbol(&self, index: usize) -> &CStr {
        // SAFETY: `resolve_all` received non-null, NUL-terminated names that outlive this.
        unsafe { CStr::from_ptr(self.symbols[index]) }
    }
}

/// Resolves `symbols` with the providers, most recently registered first, until none is missing.
///
/// Fails if a provider fails, or if a required import stays unresolved.
///
/// # Safety
/// `symbols` are non-null and NUL-terminated during the call.
pub(super) unsafe fn resolve_all(
    symbols: Vec<*const c_char>,
    providers: &[Arc<dyn ImportProvider>],
) -> Result<Imports> {
    let count = symbols.len();
    let mut request =
        ImportRequest { symbols, functions: vec![None; count], contexts: vec![std::ptr::null_mut(); count] };
    for provider in providers.iter().rev() {
        if (0..count).all(|index| request.is_resolved(index)) {
            break;
        }
        provider.resolve(&mut request)?;
    }
    let missing: Vec<_> = (0..count)
        .filter(|index| !request.is_resolved(*index) && !request.is_optional(*index))
        .map(|index| request.name(index).to_string_lossy().into_owned())
        .collect();
    if !missing.is_empty() {
        let (count, names) = (missing.len(), listed(missing));
        return Err(Error::not_found(format!("missing {count} required executable imports: [{names}]"))
            .advise(Remedy::LoadPlugin));
    }
    Ok(Imports { functions: request.functions.into(), contexts: request.contexts.into() })
}
