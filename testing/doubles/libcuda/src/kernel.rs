//! Modules, their kernels, and how these are launched.
#![allow(unsafe_code, reason = "reads what callers point to")]

use std::ffi::{CStr, c_char, c_void};
use std::sync::Arc;

use rehal_base::StatusCode;
use rehal_simt::{
    Cause, Checks, Dispatch, FindingKind, Image, Launch, Limits, MAX_SHARED_BYTES, Module, Parameter,
};

use crate::device::STANDARD_SHARED_BYTES;
use crate::interface::{Code, Handle, Out, Outcome, put};
use crate::state::{State, find, remove, with};
use crate::stream::Work;

/// The options of `cuModuleLoadDataEx` that name a buffer for errors.
const ERROR_LOG: u32 = 5;
const ERROR_LOG_BYTES: u32 = 6;
/// The attribute of a function that allows more memory of a block than the standard.
const MAX_DYNAMIC_SHARED_BYTES: u32 = 8;

/// A kernel of a module.
pub struct Function {
    module: Handle,
    index: usize,
    /// Bytes that a launch may add to the memory of a block.
    max_dynamic_bytes: u32,
}

/// A launch: what a stream or a graph has of it.
#[derive(Clone)]
pub struct Call {
    image: Arc<Image>,
    index: usize,
    grid: [u32; 3],
    block: [u32; 3],
    dynamic_bytes: u32,
    arguments: Vec<u8>,
}

impl State {
    /// Loads a module.
    pub fn load(&mut self, text: &[u8]) -> Result<Handle, (Code, String)> {
        let module = Module::parse_ptx(text, &Limits::default());
        let module = module.map_err(|error| (Code::INVALID_PTX, error.to_string()))?;
        let image = Image::load(Arc::new(module));
        let image = image.map_err(|error| (Code::OUT_OF_MEMORY, error.to_string()))?;
        let handle = self.handle();
        self.modules.insert(handle, Arc::new(image));
        Ok(handle)
    }

    /// A kernel by its name.
    pub fn function(&mut self, module: Handle, name: &str) -> Outcome<Handle> {
        let image = find(&self.modules, module)?;
        let index = image.function(name).map_err(|_| Code::NOT_FOUND)?;
        let own = image.module().functions()[index].shared_bytes;
        let max_dynamic_bytes = STANDARD_SHARED_BYTES.saturating_sub(own);
        let handle = self.handle();
        self.functions.insert(handle, Function { module, index, max_dynamic_bytes });
        Ok(handle)
    }

    /// A launch, with its arguments read.
    ///
    /// # Safety
    /// `values` is null, or points to one pointer for each parameter, to a value of its size.
    pub unsafe fn call(
        &self,
        function: Handle,
        sizes: [[u32; 3]; 2],
        dynamic_bytes: u32,
        values: *const *const u8,
    ) -> Outcome<Call> {
        let Function { module, index, max_dynamic_bytes } = find(&self.functions, function)?;
        let image = find(&self.modules, *module)?.clone();
        if dynamic_bytes > *max_dynamic_bytes {
            return Err(Code::INVALID_VALUE);
        }
        let kernel = &image.module().functions()[*index];
        let mut arguments = vec![0; kernel.argument_bytes as usize];
        if values.is_null() && !kernel.parameters.is_empty() {
            return Err(Code::INVALID_VALUE);
        }
        for (at, Parameter { offset, bytes, .. }) in kernel.parameters.iter().enumerate() {
            // SAFETY: the caller passes a pointer for each parameter.
            let value = unsafe { values.add(at).read() };
            let place = arguments.get_mut(*offset as usize..).and_then(|it| it.get_mut(..*bytes as usize));
            match place {
                // SAFETY: the caller passes a value of this size.
                Some(place) if !value.is_null() => unsafe {
                    value.copy_to_nonoverlapping(place.as_mut_ptr(), place.len());
                },
                _ => return Err(Code::INVALID_VALUE),
            }
        }
        let [grid, block] = sizes;
        Ok(Call { image, index: *index, grid, block, dynamic_bytes, arguments })
    }

    /// Runs a launch. Fails if it cannot be launched; what the kernel does wrong fails later calls.
    pub fn launch(&mut self, call: &Call) -> Outcome {
        let regions: Vec<_> = self.allocations.iter().map(|(address, it)| it.region(*address)).collect();
        let launch = Launch {
            function: call.index,
            grid: call.grid,
            block: call.block,
            dynamic_shared_bytes: call.dynamic_bytes,
            arguments: &call.arguments,
            regions: &regions,
            checks: Checks::default(),
            budget: None,
        };
        let dispatch = Dispatch::new(&call.image, &launch).map_err(|error| match error.code() {
            StatusCode::ResourceExhausted => Code::LAUNCH_OUT_OF_RESOURCES,
            _ => Code::INVALID_VALUE,
        })?;
        let mut all = Some(0..dispatch.blocks());
        let ended = dispatch.run(&mut || all.take(), &|| false);
        let found = dispatch.report().findings.into_iter().find(|it| !it.kind.is_note());
        let failed = match (ended, found) {
            (Err(fault), _) => match fault.cause {
                Cause::Deadlock | Cause::Barrier(_) | Cause::Trap | Cause::Invalid(_) => {
                    Some((Code::LAUNCH_FAILED, fault.to_string()))
                }
                // Nothing stops it, and it has no budget.
                Cause::Stopped | Cause::Budget | Cause::ShadowMemory => None,
            },
            (Ok(()), Some(found)) => match found.kind {
                FindingKind::Misaligned => Some((Code::MISALIGNED_ADDRESS, found.to_string())),
                _ => Some((Code::ILLEGAL_ADDRESS, found.to_string())),
            },
            (Ok(()), None) => None,
        };
        if let Some((code, what)) = failed {
            self.fail(code, &what);
        }
        Ok(())
    }
}

/// # Safety
/// `image` is null, a string that ends with NUL, or machine code with a header. `options` and `values` have
/// `count` elements each; among the latter are a buffer for errors and its size, if the former name them.
pub unsafe extern "C" fn cuModuleLoadDataEx(
    module: Out<'_, Handle>,
    image: *const c_char,
    count: u32,
    options: *const u32,
    values: *const usize,
) -> u32 {
    with(|state| {
        if image.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: it has a header, or ends with NUL. The headers of ELF files and of fatbins have no NUL in
        // their first four bytes.
        let text = unsafe { CStr::from_ptr(image) }.to_bytes();
        if text.starts_with(b"\x7fELF") || text.starts_with(&[0x50, 0xED, 0x55, 0xBA]) {
            return Err(Code::NO_BINARY_FOR_GPU);
        }
        let (code, what) = match state.load(text) {
            Ok(handle) => return put(module, handle),
            Err(error) => error,
        };
        let option = |wanted: u32| {
            let at = |index: usize| {
                // SAFETY: the caller has as many of both.
                unsafe { (options.add(index).read(), values.add(index).read()) }
            };
            (0..count as usize).map(at).find(|(option, _)| *option == wanted).map(|(_, value)| value)
        };
        // The size is an integer of 32 bits in a pointer.
        if let (Some(log), Some(size @ 1..)) =
            (option(ERROR_LOG), option(ERROR_LOG_BYTES).map(|it| it as u32))
            && log != 0
        {
            let shown = what.len().min(size as usize - 1);
            let log = std::ptr::with_exposed_provenance_mut::<u8>(log);
            // SAFETY: the caller's buffer has `size` bytes, which is more than what is shown, and NUL.
            unsafe {
                log.copy_from_nonoverlapping(what.as_ptr(), shown);
                log.add(shown).write(0);
            }
        }
        Err(code)
    })
}

pub extern "C" fn cuModuleUnload(module: Handle) -> u32 {
    with(|state| {
        let image = remove(&mut state.modules, module)?;
        state.functions.retain(|_, it| it.module != module);
        state.allocations.remove(&(image.variables().as_ptr().addr() as u64));
        Ok(())
    })
}

/// # Safety
/// `name` is null, or a string that ends with NUL.
pub unsafe extern "C" fn cuModuleGetFunction(
    function: Out<'_, Handle>,
    module: Handle,
    name: *const c_char,
) -> u32 {
    with(|state| {
        // SAFETY: the same contract.
        let name = unsafe { text(name) }?;
        put(function, state.function(module, name)?)
    })
}

/// # Safety
/// `name` is null, or a string that ends with NUL.
pub unsafe extern "C" fn cuModuleGetGlobal(
    address: Out<'_, u64>,
    bytes: Out<'_, u64>,
    module: Handle,
    name: *const c_char,
) -> u32 {
    with(|state| {
        // SAFETY: the same contract.
        let name = unsafe { text(name) }?;
        let image = find(&state.modules, module)?.clone();
        let symbol = image.module().symbols().iter().find(|it| it.name == name).ok_or(Code::NOT_FOUND)?;
        let start = state.allocate_variables(&image);
        // Each of the two results may be left out.
        if let Some(address) = address {
            address.write(start + u64::from(symbol.offset));
        }
        if let Some(bytes) = bytes {
            bytes.write(symbol.bytes.into());
        }
        Ok(())
    })
}

/// # Safety
/// `text` is null, or a string that ends with NUL, which lives as long as the caller needs it.
unsafe fn text<'a>(text: *const c_char) -> Outcome<&'a str> {
    if text.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    // SAFETY: it is not null, and the caller passes a string.
    unsafe { CStr::from_ptr(text) }.to_str().map_err(|_| Code::NOT_FOUND)
}

pub extern "C" fn cuFuncSetAttribute(function: Handle, attribute: u32, value: i32) -> u32 {
    with(|state| {
        let function = state.functions.get_mut(&function).ok_or(Code::INVALID_HANDLE)?;
        let own = find(&state.modules, function.module)?.module().functions()[function.index].shared_bytes;
        let value = u32::try_from(value).map_err(|_| Code::INVALID_VALUE)?;
        match attribute {
            MAX_DYNAMIC_SHARED_BYTES if value <= MAX_SHARED_BYTES.saturating_sub(own) => {
                function.max_dynamic_bytes = value.max(STANDARD_SHARED_BYTES.saturating_sub(own));
                Ok(())
            }
            _ => Err(Code::INVALID_VALUE),
        }
    })
}

/// # Safety
/// `values` is null, or points to one pointer for each parameter, to a value of its size.
pub unsafe extern "C" fn cuLaunchKernel(
    function: Handle,
    grid_x: u32,
    grid_y: u32,
    grid_z: u32,
    block_x: u32,
    block_y: u32,
    block_z: u32,
    dynamic_bytes: u32,
    stream: Handle,
    values: *const *const u8,
    extra: *const c_void,
) -> u32 {
    with(|state| {
        if !extra.is_null() {
            return Err(Code::NOT_SUPPORTED);
        }
        let sizes = [[grid_x, grid_y, grid_z], [block_x, block_y, block_z]];
        // SAFETY: the same contract.
        let call = unsafe { state.call(function, sizes, dynamic_bytes, values) }?;
        // SAFETY: a launch has no memory of the host.
        unsafe { state.run(stream, &Work::Launch(call)) }
    })
}
