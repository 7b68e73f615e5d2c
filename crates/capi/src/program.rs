//! Programs and their functions.
#![allow(unsafe_code, reason = "takes pointers from C, which the header says are valid")]

use std::sync::Arc;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rehal::device::DeviceSpec;
use rehal::program::{Function, ModuleSource, ParameterFile, Program, ProgramOptions};
use rehal::record::RecordingOptions;
use rehal::{Error, Result};

use crate::device::options_of;
use crate::error::{guard, quietly, rehal_error_t};
use crate::fork::{note_threads, threads_start};
use crate::handle::{self, handle};
use crate::record::{record_options, rehal_record_options_t};
use crate::structs::{fill, list, options, out, rehal_bytes_t, rehal_string_t, sized_struct};

/// A program, until it is closed.
pub struct Loaded(Arc<Mutex<Option<Arc<Program>>>>);

/// A function with its program.
pub struct Callable {
    pub program: Arc<Program>,
    pub function: Function,
    signature: String,
}

handle!(rehal_program_t, Loaded, "program", b"program\0");
handle!(rehal_function_t, Callable, "function", b"functio\0");

#[repr(C)]
#[derive(Clone, Copy)]
pub struct rehal_parameters_t {
    pub scope: rehal_string_t,
    pub path: rehal_string_t,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct rehal_program_options_t {
    pub size: usize,
    pub module_paths: *const rehal_string_t,
    pub module_path_count: usize,
    pub module_bytes: rehal_bytes_t,
    pub device_uris: *const rehal_string_t,
    pub device_uri_count: usize,
    pub parameters: *const rehal_parameters_t,
    pub parameter_count: usize,
    pub recording_path: rehal_string_t,
    pub recording_options: *const rehal_record_options_t,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct rehal_callable_info_t {
    pub size: usize,
    pub name: rehal_string_t,
    pub signature: rehal_string_t,
    pub input_count: usize,
    pub result_count: usize,
    pub is_async: bool,
}

sized_struct!(rehal_program_options_t, rehal_callable_info_t);

impl Loaded {
    /// The program. Fails if it is closed.
    pub fn program(&self) -> Result<Arc<Program>> {
        self.lock().clone().ok_or_else(|| Error::failed_precondition("the program is closed"))
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<Program>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the program out, if nothing else uses it.
    fn close(&self) -> Result<()> {
        let mut program = self.lock();
        let Some(shared) = program.take() else {
            return Err(Error::failed_precondition("the program is closed"));
        };
        match Arc::try_unwrap(shared) {
            Ok(owned) => owned.close(),
            Err(shared) => {
                *program = Some(shared);
                let error = Error::failed_precondition("functions or calls of the program are alive");
                Err(error.advise("free its functions and calls first"))
            }
        }
    }
}

/// # Safety
/// As the header says of the options.
unsafe fn program_options(given: *const rehal_program_options_t) -> Result<ProgramOptions> {
    let mut made = ProgramOptions::default();
    // SAFETY: the caller guarantees it.
    unsafe {
        let given = options(given)?;
        for path in list(given.module_paths, given.module_path_count, "module_paths")? {
            made.modules.push(ModuleSource::File(path.path()?));
        }
        if given.module_bytes.size > 0 {
            made.modules.push(ModuleSource::Bytes(given.module_bytes.bytes()?.into()));
        }
        let uris = list(given.device_uris, given.device_uri_count, "device_uris")?;
        let specs: Result<Vec<_>> = uris.iter().map(|uri| DeviceSpec::find(uri.text()?)).collect();
        made.devices = options_of(specs?);
        for parameters in list(given.parameters, given.parameter_count, "parameters")? {
            let file = ParameterFile::new(parameters.scope.text()?, parameters.path.path()?);
            made.parameters.files.push(file);
        }
        if let Some(path) = given.recording_path.given() {
            let mut recording = RecordingOptions::new(path.path()?);
            recording.record = record_options(given.recording_options)?;
            made.recording = Some(recording);
        }
    }
    Ok(made)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_program_load(
    options: *const rehal_program_options_t,
    program: *mut *mut rehal_program_t,
) -> *mut rehal_error_t {
    // SAFETY: what the caller gives is valid, as the header says.
    guard(|| unsafe {
        let out = out(program)?;
        let loaded = Program::load(&program_options(options)?)?;
        if loaded.recorder().is_some() {
            threads_start();
        }
        loaded.devices().inspect(|it| note_threads(it));
        *out = handle::new(Loaded(Arc::new(Mutex::new(Some(Arc::new(loaded))))));
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_program_close(program: *const rehal_program_t) -> *mut rehal_error_t {
    // SAFETY: as above.
    guard(|| unsafe { handle::get(program)?.close() })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_program_free(program: *mut rehal_program_t) {
    // SAFETY: as above.
    quietly(|| unsafe { handle::free(program) });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_program_function_count(
    program: *const rehal_program_t,
    count: *mut usize,
) -> *mut rehal_error_t {
    // SAFETY: as above.
    guard(|| unsafe {
        let program = handle::get(program)?.program()?;
        crate::structs::put(count, program.main_module().runnable_functions().count())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_program_function_at(
    program: *const rehal_program_t,
    index: usize,
    function: *mut *mut rehal_function_t,
) -> *mut rehal_error_t {
    // SAFETY: as above.
    guard(|| unsafe {
        let out = out(function)?;
        let program = handle::get(program)?.program()?;
        let name = program.main_module().runnable_functions().nth(index).map(ToOwned::to_owned);
        let name = name.ok_or_else(|| Error::out_of_range(format!("function {index} does not exist")))?;
        *out = callable(program, &name)?;
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_program_function(
    program: *const rehal_program_t,
    name: rehal_string_t,
    function: *mut *mut rehal_function_t,
) -> *mut rehal_error_t {
    // SAFETY: as above.
    guard(|| unsafe {
        let out = out(function)?;
        *out = callable(handle::get(program)?.program()?, name.text()?)?;
        Ok(())
    })
}

fn callable(program: Arc<Program>, name: &str) -> Result<*mut rehal_function_t> {
    let function = program.function(name)?;
    let signature = function.signature();
    Ok(handle::new(Callable { function, signature, program }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_function_info(
    function: *const rehal_function_t,
    info: *mut rehal_callable_info_t,
) -> *mut rehal_error_t {
    // SAFETY: as above.
    guard(|| unsafe {
        let Callable { function, signature, .. } = handle::get(function)?;
        let filled = rehal_callable_info_t {
            size: 0,
            name: rehal_string_t::lend(function.name().as_bytes()),
            signature: rehal_string_t::lend(signature.as_bytes()),
            input_count: function.argument_kinds().len(),
            result_count: function.result_kinds().len(),
            is_async: function.is_async(),
        };
        fill(info, &filled)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_function_free(function: *mut rehal_function_t) {
    // SAFETY: as above.
    quietly(|| unsafe { handle::free(function) });
}
