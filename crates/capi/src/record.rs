//! Recorders.
#![allow(unsafe_code, reason = "takes pointers from C, which the header says are valid")]

use std::ffi::c_void;
use std::io::{self, Seek, SeekFrom, Write};

use rehal::platform::duplicate_descriptor;
use rehal::record::{FilePolicy, FileValidation, RecordOptions, Recorder};
use rehal::{Error, Result};

use crate::device::rehal_devices_t;
use crate::error::{from_callback, guard, quietly, rehal_error_t};
use crate::fork::threads_start;
use crate::handle::{self, handle};
use crate::structs::{options, out, rehal_bytes_t, rehal_release_t, rehal_string_t, sized_struct};

handle!(rehal_recorder_t, Recorder, "recorder", b"recorde\0");

pub type rehal_file_policy_t = u32;
pub const REHAL_FILE_POLICY_REFERENCE: rehal_file_policy_t = 0;
pub const REHAL_FILE_POLICY_CAPTURE_RANGES: rehal_file_policy_t = 1;
pub const REHAL_FILE_POLICY_CAPTURE_ALL: rehal_file_policy_t = 2;
pub const REHAL_FILE_POLICY_FAIL: rehal_file_policy_t = 3;

pub type rehal_file_validation_t = u32;
pub const REHAL_FILE_VALIDATION_IDENTITY: rehal_file_validation_t = 0;
pub const REHAL_FILE_VALIDATION_DIGEST: rehal_file_validation_t = 1;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct rehal_record_options_t {
    pub size: usize,
    pub file_policy: rehal_file_policy_t,
    pub file_validation: rehal_file_validation_t,
    pub flush_submissions: bool,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct rehal_sink_t {
    pub size: usize,
    pub user: *mut c_void,
    pub write: rehal_sink_write_t,
    pub release: rehal_release_t,
}

pub type rehal_sink_write_t = Option<
    unsafe extern "C-unwind" fn(user: *mut c_void, offset: u64, bytes: rehal_bytes_t) -> *mut rehal_error_t,
>;

sized_struct!(rehal_record_options_t, rehal_sink_t);

/// A sink that is functions of the program. They are called by one thread at a time: the recorder's.
struct Sink {
    functions: rehal_sink_t,
    at: u64,
    end: u64,
}

// SAFETY: the header says that the functions are called on a thread of the recorder.
unsafe impl Send for Sink {}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(write) = self.functions.write else { return Ok(bytes.len()) };
        // SAFETY: the caller's function takes these; the bytes live until it returns.
        let written =
            unsafe { from_callback(write(self.functions.user, self.at, rehal_bytes_t::lend(bytes))) };
        written.map_err(|error| io::Error::other(error.message().to_owned()))?;
        self.at += bytes.len() as u64;
        self.end = self.end.max(self.at);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for Sink {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
            SeekFrom::End(by) => self.end.checked_add_signed(by),
        };
        self.at = at.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        Ok(self.at)
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        if let Some(release) = self.functions.release {
            // SAFETY: the caller's function takes this argument, and is called once.
            quietly(|| unsafe { release(self.functions.user) });
        }
    }
}

/// # Safety
/// As the header says of the options.
pub unsafe fn record_options(given: *const rehal_record_options_t) -> Result<RecordOptions> {
    // SAFETY: the caller guarantees it.
    let given = unsafe { options(given) }?;
    let file_policy = match given.file_policy {
        REHAL_FILE_POLICY_REFERENCE => FilePolicy::Reference,
        REHAL_FILE_POLICY_CAPTURE_RANGES => FilePolicy::CaptureRanges,
        REHAL_FILE_POLICY_CAPTURE_ALL => FilePolicy::CaptureAll,
        REHAL_FILE_POLICY_FAIL => FilePolicy::Fail,
        other => return Err(Error::invalid_argument(format!("{other} is not a policy of files"))),
    };
    let file_validation = match given.file_validation {
        REHAL_FILE_VALIDATION_IDENTITY => FileValidation::Identity,
        REHAL_FILE_VALIDATION_DIGEST => FileValidation::Digest,
        other => return Err(Error::invalid_argument(format!("{other} is not a validation of files"))),
    };
    Ok(RecordOptions::default()
        .file_policy(file_policy)
        .file_validation(file_validation)
        .flushes_submissions(given.flush_submissions))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_recorder_create(
    path: rehal_string_t,
    options: *const rehal_record_options_t,
    recorder: *mut *mut rehal_recorder_t,
) -> *mut rehal_error_t {
    // SAFETY: what the caller gives is valid, as the header says.
    guard(|| unsafe {
        let out = out(recorder)?;
        threads_start();
        *out = handle::new(Recorder::create(&path.path()?, record_options(options)?)?);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_recorder_create_fd(
    descriptor: i32,
    options: *const rehal_record_options_t,
    recorder: *mut *mut rehal_recorder_t,
) -> *mut rehal_error_t {
    // SAFETY: as above; the descriptor is open, and duplicated here.
    guard(|| unsafe {
        let out = out(recorder)?;
        if descriptor < 0 {
            return Err(Error::invalid_argument(format!("{descriptor} is not a descriptor")));
        }
        let duplicate = duplicate_descriptor(descriptor);
        let (mut file, is_appended) =
            duplicate.map_err(|error| Error::io("duplicating a descriptor", &error))?;
        file.stream_position()
            .map_err(|_| Error::invalid_argument("a capture needs a descriptor that can seek"))?;
        if is_appended {
            return Err(Error::invalid_argument(
                "a capture cannot be appended: its header is written at the end",
            )
            .advise("open the file without O_APPEND"));
        }
        threads_start();
        *out = handle::new(Recorder::to(file, record_options(options)?)?);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_recorder_create_sink(
    sink: *const rehal_sink_t,
    options: *const rehal_record_options_t,
    recorder: *mut *mut rehal_recorder_t,
) -> *mut rehal_error_t {
    // SAFETY: as above.
    guard(|| unsafe {
        let out = out(recorder)?;
        let functions = crate::structs::options(sink)?;
        if functions.write.is_none() {
            return Err(Error::invalid_argument("the sink has no function to write"));
        }
        let options = record_options(options)?;
        threads_start();
        *out = handle::new(Recorder::to(Sink { functions, at: 0, end: 0 }, options)?);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_recorder_wrap(
    recorder: *const rehal_recorder_t,
    devices: *const rehal_devices_t,
    wrapped: *mut *mut rehal_devices_t,
) -> *mut rehal_error_t {
    // SAFETY: as above.
    guard(|| unsafe {
        let out = out(wrapped)?;
        let devices = handle::get(devices)?;
        *out = handle::new(handle::using(recorder, |recorder| recorder.wrap(devices))?);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_recorder_scope_begin(
    recorder: *const rehal_recorder_t,
    name: rehal_string_t,
) -> *mut rehal_error_t {
    // SAFETY: as above.
    guard(|| unsafe {
        let name = name.text()?;
        handle::using(recorder, |recorder| recorder.scope_begin(name))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_recorder_scope_end(
    recorder: *const rehal_recorder_t,
    name: rehal_string_t,
) -> *mut rehal_error_t {
    // SAFETY: as above.
    guard(|| unsafe {
        let name = name.text()?;
        handle::using(recorder, |recorder| recorder.scope_end(name))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_recorder_close(recorder: *const rehal_recorder_t) -> *mut rehal_error_t {
    // SAFETY: as above.
    guard(|| unsafe { handle::using(recorder, Recorder::close) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_recorder_free(recorder: *mut rehal_recorder_t) {
    // SAFETY: as above.
    quietly(|| unsafe { handle::free(recorder) });
}
