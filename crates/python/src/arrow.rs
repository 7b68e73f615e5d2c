//! Columns as a stream of Arrow's C data interface, of one batch.
//!
//! The crates of Arrow would bring a second version of crates that we have, and clocks and time zones, for
//! three structures. Each structure that is passed on owns what it points to, and its `release` frees it: the
//! only places of `unsafe` are these functions, and the reading of a structure whose owner is the caller.
#![allow(unsafe_code, reason = "structures of a C interface; see docs/unsafe.md")]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::{null, null_mut};
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use rehal_base::{Error, Result};

/// The name by which consumers find the stream in a capsule.
const STREAM_NAME: &CStr = c"arrow_array_stream";

/// The numbers of a column.
pub enum Numbers {
    U32(Vec<u32>),
    U64(Vec<u64>),
}

/// A column: numbers, or texts as numbers of a dictionary. It does not change.
pub struct Data {
    pub name: &'static str,
    pub numbers: Numbers,
    pub texts: Option<Vec<String>>,
}

impl Data {
    pub fn row_count(&self) -> usize {
        match &self.numbers {
            Numbers::U32(numbers) => numbers.len(),
            Numbers::U64(numbers) => numbers.len(),
        }
    }
}

#[repr(C)]
struct ArrowSchema {
    format: *const c_char,
    name: *const c_char,
    metadata: *const c_char,
    flags: i64,
    child_count: i64,
    children: *mut *mut ArrowSchema,
    dictionary: *mut ArrowSchema,
    release: Option<unsafe extern "C" fn(*mut ArrowSchema)>,
    private_data: *mut c_void,
}

#[repr(C)]
struct ArrowArray {
    length: i64,
    null_count: i64,
    offset: i64,
    buffer_count: i64,
    child_count: i64,
    buffers: *mut *const c_void,
    children: *mut *mut ArrowArray,
    dictionary: *mut ArrowArray,
    release: Option<unsafe extern "C" fn(*mut ArrowArray)>,
    private_data: *mut c_void,
}

#[repr(C)]
struct ArrowArrayStream {
    get_schema: Option<unsafe extern "C" fn(*mut Self, *mut ArrowSchema) -> c_int>,
    get_next: Option<unsafe extern "C" fn(*mut Self, *mut ArrowArray) -> c_int>,
    get_last_error: Option<unsafe extern "C" fn(*mut Self) -> *const c_char>,
    release: Option<unsafe extern "C" fn(*mut Self)>,
    private_data: *mut c_void,
}

/// The array after the last one.
const ENDED: ArrowArray = ArrowArray {
    length: 0,
    null_count: 0,
    offset: 0,
    buffer_count: 0,
    child_count: 0,
    buffers: null_mut(),
    children: null_mut(),
    dictionary: null_mut(),
    release: None,
    private_data: null_mut(),
};

const _: () = assert!(size_of::<ArrowSchema>() == 72 && size_of::<ArrowArray>() == 80);
const _: () = assert!(size_of::<ArrowArrayStream>() == 40);

// SAFETY: its private data is a `Stream`, which may be sent, and is reached only through it.
unsafe impl Send for ArrowArrayStream {}

impl Drop for ArrowArrayStream {
    /// A consumer that has moved it has left no `release`.
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: it is ours, and has not been released.
            unsafe { release(self) }
        }
    }
}

/// The contents of a stream.
struct Stream {
    columns: Vec<Arc<Data>>,
    row_count: usize,
    has_ended: bool,
}

/// The memory that a schema owns.
struct SchemaParts {
    _texts: [CString; 2],
    children: Vec<*mut ArrowSchema>,
}

/// The memory that an array owns.
struct ArrayParts {
    _numbers: Option<Arc<Data>>,
    _texts: Option<(Vec<i64>, Vec<u8>)>,
    buffers: Vec<*const c_void>,
    children: Vec<*mut ArrowArray>,
}

/// A capsule with a stream of columns.
pub fn stream<'py>(
    py: Python<'py>,
    columns: &[Arc<Data>],
    row_count: usize,
) -> Result<PyResult<Bound<'py, PyCapsule>>> {
    i64::try_from(row_count).map_err(|_| Error::out_of_range("too many rows for a batch"))?;
    let stream = Box::new(Stream { columns: columns.to_vec(), row_count, has_ended: false });
    let stream = ArrowArrayStream {
        get_schema: Some(get_schema),
        get_next: Some(get_next),
        get_last_error: Some(get_last_error),
        release: Some(release_stream),
        private_data: Box::into_raw(stream).cast(),
    };
    Ok(PyCapsule::new_with_value(py, stream, STREAM_NAME))
}

/// # Safety
///
/// The stream is one of [`stream`] that has not been released, and `out` can be written.
unsafe extern "C" fn get_schema(stream: *mut ArrowArrayStream, out: *mut ArrowSchema) -> c_int {
    // SAFETY: as the caller promises; a consumer calls from one thread at a time.
    let this = unsafe { &*(*stream).private_data.cast::<Stream>() };
    let children = this.columns.iter().map(|column| Box::into_raw(Box::new(schema_of(column))));
    let schema = schema("+s", "", children.collect(), null_mut());
    // SAFETY: as the caller promises; what it holds has no owner yet.
    unsafe { out.write(schema) };
    0
}

/// # Safety
///
/// As for [`get_schema`].
unsafe extern "C" fn get_next(stream: *mut ArrowArrayStream, out: *mut ArrowArray) -> c_int {
    // SAFETY: as the caller promises; a consumer calls from one thread at a time.
    let this = unsafe { &mut *(*stream).private_data.cast::<Stream>() };
    let batch = match std::mem::replace(&mut this.has_ended, true) {
        // The end of a stream is an array that is released.
        true => ENDED,
        false => {
            let children = this.columns.iter().map(|column| Box::into_raw(Box::new(array_of(column))));
            array(this.row_count, vec![null()], children.collect(), null_mut(), None, None)
        }
    };
    // SAFETY: as the caller promises; what it holds has no owner yet.
    unsafe { out.write(batch) };
    0
}

/// No function of a stream fails.
unsafe extern "C" fn get_last_error(_stream: *mut ArrowArrayStream) -> *const c_char {
    null()
}

/// # Safety
///
/// As for [`get_schema`].
unsafe extern "C" fn release_stream(stream: *mut ArrowArrayStream) {
    // SAFETY: it is released once, as it has no `release` afterwards.
    unsafe {
        drop(Box::from_raw((*stream).private_data.cast::<Stream>()));
        (*stream).release = None;
        (*stream).private_data = null_mut();
    }
}

fn schema_of(column: &Data) -> ArrowSchema {
    let format = match &column.numbers {
        Numbers::U32(_) => "I",
        Numbers::U64(_) => "L",
    };
    let dictionary = match &column.texts {
        Some(_) => Box::into_raw(Box::new(schema("U", "", Vec::new(), null_mut()))),
        None => null_mut(),
    };
    schema(format, column.name, Vec::new(), dictionary)
}

fn schema(
    format: &str,
    name: &str,
    children: Vec<*mut ArrowSchema>,
    dictionary: *mut ArrowSchema,
) -> ArrowSchema {
    let text = |text: &str| CString::new(text).unwrap_or_default();
    let texts = [text(format), text(name)];
    let [format, name] = texts.each_ref().map(|it| it.as_ptr());
    let mut parts = Box::new(SchemaParts { _texts: texts, children });
    ArrowSchema {
        format,
        name,
        metadata: null(),
        flags: 0,
        child_count: parts.children.len() as i64,
        children: parts.children.as_mut_ptr(),
        dictionary,
        release: Some(release_schema),
        private_data: Box::into_raw(parts).cast(),
    }
}

/// # Safety
///
/// The schema is one of [`schema`] that has not been released.
unsafe extern "C" fn release_schema(schema: *mut ArrowSchema) {
    // SAFETY: as the caller promises. Children and dictionary are boxes of ours; one that a consumer has
    // moved has no `release`.
    unsafe {
        let parts = Box::from_raw((*schema).private_data.cast::<SchemaParts>());
        for child in parts.children.iter().chain(&[(*schema).dictionary]).filter(|it| !it.is_null()) {
            if let Some(release) = (**child).release {
                release(*child);
            }
            drop(Box::from_raw(*child));
        }
        (*schema).release = None;
    }
}

fn array_of(column: &Arc<Data>) -> ArrowArray {
    let numbers: *const c_void = match &column.numbers {
        Numbers::U32(numbers) => numbers.as_ptr().cast(),
        Numbers::U64(numbers) => numbers.as_ptr().cast(),
    };
    let dictionary = match &column.texts {
        Some(texts) => Box::into_raw(Box::new(texts_array(texts))),
        None => null_mut(),
    };
    // The first buffer is that of nulls, of which there are none.
    let buffers = vec![null(), numbers];
    array(column.row_count(), buffers, Vec::new(), dictionary, Some(column.clone()), None)
}

fn texts_array(texts: &[String]) -> ArrowArray {
    let mut offsets = vec![0_i64];
    let mut bytes = Vec::new();
    for text in texts {
        bytes.extend_from_slice(text.as_bytes());
        offsets.push(bytes.len() as i64);
    }
    let buffers = vec![null(), offsets.as_ptr().cast(), bytes.as_ptr().cast()];
    array(texts.len(), buffers, Vec::new(), null_mut(), None, Some((offsets, bytes)))
}

fn array(
    length: usize,
    buffers: Vec<*const c_void>,
    children: Vec<*mut ArrowArray>,
    dictionary: *mut ArrowArray,
    numbers: Option<Arc<Data>>,
    texts: Option<(Vec<i64>, Vec<u8>)>,
) -> ArrowArray {
    let mut parts = Box::new(ArrayParts { _numbers: numbers, _texts: texts, buffers, children });
    ArrowArray {
        length: length as i64,
        null_count: 0,
        offset: 0,
        buffer_count: parts.buffers.len() as i64,
        child_count: parts.children.len() as i64,
        buffers: parts.buffers.as_mut_ptr(),
        children: parts.children.as_mut_ptr(),
        dictionary,
        release: Some(release_array),
        private_data: Box::into_raw(parts).cast(),
    }
}

/// # Safety
///
/// The array is one of [`array`] that has not been released.
unsafe extern "C" fn release_array(array: *mut ArrowArray) {
    // SAFETY: as for schemas.
    unsafe {
        let parts = Box::from_raw((*array).private_data.cast::<ArrayParts>());
        for child in parts.children.iter().chain(&[(*array).dictionary]).filter(|it| !it.is_null()) {
            if let Some(release) = (**child).release {
                release(*child);
            }
            drop(Box::from_raw(*child));
        }
        (*array).release = None;
    }
}
