//! Captures and plans.
#![allow(unsafe_code, reason = "takes pointers from C, which the header says are valid")]

use std::ffi::c_void;
use std::io::{self, Write};
use std::sync::{Arc, OnceLock};

use rehal::capture::{CaptureFile, CaptureOptions, Format, Survey};
use rehal::replay::Plan;
use rehal::{Error, Result};

use crate::error::{from_callback, guard, quietly, rehal_error_t};
use crate::handle::{self, handle};
use crate::structs::{fill, options, out, rehal_bytes_t, rehal_string_t, sized_struct};

/// A capture, and what it contains once that is asked for.
pub struct Capture {
    file: CaptureFile,
    survey: OnceLock<Survey>,
}

handle!(rehal_capture_t, Capture, "capture", b"capture\0");
handle!(rehal_plan_t, Arc<Plan>, "plan", b"plan\0\0\0\0");

#[repr(C)]
#[derive(Clone, Copy)]
pub struct rehal_capture_options_t {
    pub size: usize,
    pub recover: bool,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct rehal_capture_info_t {
    pub size: usize,
    pub version_major: u32,
    pub version_minor: u32,
    pub is_closed: bool,
    pub is_truncated: bool,
    pub length_bytes: u64,
    pub record_count: u64,
    pub operation_count: u64,
    pub failed_count: u64,
    pub unsupported_count: u64,
    pub device_count: u64,
    pub submission_count: u64,
    pub dispatch_count: u64,
    pub scope_count: usize,
    pub executable_count: usize,
    pub file_count: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct rehal_scope_info_t {
    pub size: usize,
    pub name: rehal_string_t,
    pub count: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct rehal_executable_info_t {
    pub size: usize,
    pub id: u64,
    pub format: rehal_string_t,
    pub code_bytes: u64,
    pub function_count: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct rehal_function_info_t {
    pub size: usize,
    pub name: rehal_string_t,
    pub constant_count: u32,
    pub binding_count: u32,
    pub dispatch_count: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct rehal_file_info_t {
    pub size: usize,
    pub id: u64,
    pub path: rehal_string_t,
    pub length_bytes: u64,
    pub validation: rehal_string_t,
    pub is_written: bool,
}

pub type rehal_dump_format_t = u32;
pub const REHAL_DUMP_TEXT: rehal_dump_format_t = 0;
pub const REHAL_DUMP_JSONL: rehal_dump_format_t = 1;

pub type rehal_write_t =
    Option<unsafe extern "C-unwind" fn(user: *mut c_void, bytes: rehal_bytes_t) -> *mut rehal_error_t>;

sized_struct!(
    rehal_capture_options_t,
    rehal_capture_info_t,
    rehal_scope_info_t,
    rehal_executable_info_t,
    rehal_function_info_t,
    rehal_file_info_t
);

impl Capture {
    /// The open file.
    pub fn file(&self) -> &CaptureFile {
        &self.file
    }

    fn survey(&self) -> Result<&Survey> {
        if let Some(survey) = self.survey.get() {
            return Ok(survey);
        }
        let survey = self.file.survey()?;
        Ok(self.survey.get_or_init(|| survey))
    }
}

/// An element of a list of the capture.
fn at<'a, T>(list: &'a [T], index: usize, what: &str) -> Result<&'a T> {
    list.get(index).ok_or_else(|| {
        Error::out_of_range(format!("{what} {index} does not exist: the capture has {}", list.len()))
    })
}

/// # Safety
/// As for [`options`].
unsafe fn capture_options(given: *const rehal_capture_options_t) -> Result<CaptureOptions> {
    // SAFETY: the caller guarantees it.
    let given = unsafe { options(given) }?;
    let mut options = CaptureOptions::default();
    options.recover = given.recover;
    Ok(options)
}

fn opened(file: CaptureFile) -> *mut rehal_capture_t {
    handle::new(Capture { file, survey: OnceLock::new() })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_capture_open(
    path: rehal_string_t,
    options: *const rehal_capture_options_t,
    capture: *mut *mut rehal_capture_t,
) -> *mut rehal_error_t {
    // SAFETY: what the caller gives is valid, as the header says.
    guard(|| unsafe {
        let out = out(capture)?;
        *out = opened(CaptureFile::open(&path.path()?, &capture_options(options)?)?);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_capture_open_bytes(
    bytes: rehal_bytes_t,
    options: *const rehal_capture_options_t,
    capture: *mut *mut rehal_capture_t,
) -> *mut rehal_error_t {
    // SAFETY: as above.
    guard(|| unsafe {
        let out = out(capture)?;
        *out = opened(CaptureFile::from_bytes(bytes.bytes()?.to_vec(), &capture_options(options)?)?);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_capture_free(capture: *mut rehal_capture_t) {
    // SAFETY: as above.
    quietly(|| unsafe { handle::free(capture) });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_capture_info(
    capture: *const rehal_capture_t,
    info: *mut rehal_capture_info_t,
) -> *mut rehal_error_t {
    // SAFETY: as above.
    guard(|| unsafe {
        let capture = handle::get(capture)?;
        let (file, survey) = (&capture.file, capture.survey()?);
        let filled = rehal_capture_info_t {
            size: 0,
            version_major: file.version().major.into(),
            version_minor: file.version().minor.into(),
            is_closed: file.is_closed(),
            is_truncated: file.tear().is_some(),
            length_bytes: file.length_bytes(),
            record_count: survey.record_count,
            operation_count: survey.operation_count,
            failed_count: survey.failed_count,
            unsupported_count: survey.unsupported_count,
            device_count: survey.device_count,
            submission_count: survey.submission_count,
            dispatch_count: survey.dispatch_count,
            scope_count: survey.scopes.len(),
            executable_count: survey.executables.len(),
            file_count: survey.external_files.len(),
        };
        fill(info, &filled)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_capture_scope(
    capture: *const rehal_capture_t,
    index: usize,
    info: *mut rehal_scope_info_t,
) -> *mut rehal_error_t {
    // SAFETY: as above.
    guard(|| unsafe {
        let scope = at(&handle::get(capture)?.survey()?.scopes, index, "scope")?;
        let name = rehal_string_t::lend(&scope.name);
        fill(info, &rehal_scope_info_t { size: 0, name, count: scope.count })
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_capture_executable(
    capture: *const rehal_capture_t,
    index: usize,
    info: *mut rehal_executable_info_t,
) -> *mut rehal_error_t {
    // SAFETY: as above.
    guard(|| unsafe {
        let it = at(&handle::get(capture)?.survey()?.executables, index, "executable")?;
        let filled = rehal_executable_info_t {
            size: 0,
            id: it.id,
            format: rehal_string_t::lend(&it.format),
            code_bytes: it.code_bytes,
            function_count: it.functions.len(),
        };
        fill(info, &filled)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_capture_function(
    capture: *const rehal_capture_t,
    executable: usize,
    function: usize,
    info: *mut rehal_function_info_t,
) -> *mut rehal_error_t {
    // SAFETY: as above.
    guard(|| unsafe {
        let executable = at(&handle::get(capture)?.survey()?.executables, executable, "executable")?;
        let it = at(&executable.functions, function, "function")?;
        let filled = rehal_function_info_t {
            size: 0,
            name: rehal_string_t::lend(&it.name),
            constant_count: it.constant_count.into(),
            binding_count: it.binding_count.into(),
            dispatch_count: it.dispatch_count,
        };
        fill(info, &filled)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_capture_executable_code(
    capture: *const rehal_capture_t,
    index: usize,
    code: *mut rehal_bytes_t,
) -> *mut rehal_error_t {
    // SAFETY: as above.
    guard(|| unsafe {
        let capture = handle::get(capture)?;
        let id = at(&capture.survey()?.executables, index, "executable")?.id;
        crate::structs::put(code, rehal_bytes_t::lend(capture.file.executable_code(id)?))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_capture_file(
    capture: *const rehal_capture_t,
    index: usize,
    info: *mut rehal_file_info_t,
) -> *mut rehal_error_t {
    // SAFETY: as above.
    guard(|| unsafe {
        let it = at(&handle::get(capture)?.survey()?.external_files, index, "file")?;
        let filled = rehal_file_info_t {
            size: 0,
            id: it.id,
            path: rehal_string_t::lend(&it.path),
            length_bytes: it.length_bytes,
            validation: rehal_string_t::lend(it.validation.as_bytes()),
            is_written: it.is_written,
        };
        fill(info, &filled)
    })
}

/// A writer that is a function of the program. Its error is kept, since that of a dump has no place for it.
struct Output {
    write: unsafe extern "C-unwind" fn(*mut c_void, rehal_bytes_t) -> *mut rehal_error_t,
    user: *mut c_void,
    error: Option<Error>,
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // SAFETY: the caller's function takes these; the bytes live until it returns.
        match unsafe { from_callback((self.write)(self.user, rehal_bytes_t::lend(bytes))) } {
            Ok(()) => Ok(bytes.len()),
            Err(error) => {
                self.error = Some(error);
                Err(io::Error::other("the function of the program failed"))
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_capture_dump(
    capture: *const rehal_capture_t,
    format: rehal_dump_format_t,
    write: rehal_write_t,
    user: *mut c_void,
) -> *mut rehal_error_t {
    // SAFETY: as above.
    guard(|| unsafe {
        let format = match format {
            REHAL_DUMP_TEXT => Format::Text,
            REHAL_DUMP_JSONL => Format::Jsonl,
            other => return Err(Error::invalid_argument(format!("{other} is not a format of dumps"))),
        };
        let write = write.ok_or_else(|| Error::invalid_argument("the function to write is NULL"))?;
        let mut output = Output { write, user, error: None };
        handle::using(capture, |capture| {
            let outcome = capture.file.dump(format, &mut output, &mut |_| {});
            outcome.map_err(|error| output.error.take().unwrap_or_else(|| error.into()))
        })
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_plan_create(
    capture: *const rehal_capture_t,
    plan: *mut *mut rehal_plan_t,
) -> *mut rehal_error_t {
    // SAFETY: as above.
    guard(|| unsafe {
        let out = out(plan)?;
        *out = handle::new(handle::get(capture)?.file.plan()?);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_plan_free(plan: *mut rehal_plan_t) {
    // SAFETY: as above.
    quietly(|| unsafe { handle::free(plan) });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_plan_device_count(
    plan: *const rehal_plan_t,
    count: *mut usize,
) -> *mut rehal_error_t {
    // SAFETY: as above.
    guard(|| unsafe { crate::structs::put(count, handle::get(plan)?.device_count()) })
}
