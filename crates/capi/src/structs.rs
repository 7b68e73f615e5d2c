//! Types that C passes by value: strings, bytes, lists, and structs that begin with their size.
#![allow(unsafe_code, reason = "takes pointers from C, which the header says are valid")]

use std::ffi::OsStr;
use std::mem::MaybeUninit;
use std::path::PathBuf;
use std::ptr;

use rehal::platform::OsStrExt;

use rehal::{Error, Result};

pub type rehal_release_t = Option<unsafe extern "C-unwind" fn(user: *mut std::ffi::c_void)>;

/// Text or a path.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct rehal_string_t {
    /// Not terminated; may be null if the size is 0.
    pub data: *const std::ffi::c_char,
    /// Number of bytes.
    pub size: usize,
}

/// Bytes.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct rehal_bytes_t {
    /// May be null if the size is 0.
    pub data: *const u8,
    /// Number of bytes.
    pub size: usize,
}

/// A struct that begins with a `usize`, its size in bytes, and in which zeros are defaults.
///
/// # Safety
/// It is `repr(C)`, its first field is a `usize`, and it is valid if all of its bytes are zero.
pub unsafe trait SizedStruct: Copy {
    /// Its name in C.
    const NAME: &'static str;
}

macro_rules! sized_struct {
    ($($name:ident),*) => {$(
        // SAFETY: it is `repr(C)` and begins with `size`; its other fields are numbers, pointers, nullable
        // functions and structs of these.
        unsafe impl $crate::structs::SizedStruct for $name {
            const NAME: &'static str = stringify!($name);
        }
    )*};
}
pub(crate) use sized_struct;

/// Limit on the size of a struct: one of a later version is not that large, and a field that was never set
/// may be.
const MAX_STRUCT_BYTES: usize = 4096;

/// The options at `pointer`; the defaults for null. Fields that the caller does not know are defaults.
///
/// # Safety
/// Null, or valid for reads of as many bytes as its first field says.
pub unsafe fn options<T: SizedStruct>(pointer: *const T) -> Result<T> {
    let mut options = MaybeUninit::<T>::zeroed();
    if !pointer.is_null() {
        // SAFETY: the caller's struct begins with its size.
        let size = unsafe { pointer.cast::<usize>().read_unaligned() };
        let known = size_of::<T>();
        if !(size_of::<usize>()..=MAX_STRUCT_BYTES).contains(&size) {
            return Err(no_size::<T>(size));
        }
        // SAFETY: the caller guarantees `size` bytes, and `T` has `known`.
        unsafe {
            ptr::copy_nonoverlapping(pointer.cast::<u8>(), options.as_mut_ptr().cast(), size.min(known))
        };
        for at in known..size {
            // SAFETY: `at` is below the size.
            if unsafe { pointer.cast::<u8>().add(at).read() } != 0 {
                let message = format!("{} has an option that this library does not know", T::NAME);
                return Err(Error::unimplemented(message).advise("use a library of a later version"));
            }
        }
    }
    // SAFETY: zeros are valid, and so is what the caller wrote.
    Ok(unsafe { options.assume_init() })
}

/// Writes `value` to the struct at `pointer`, as far as the caller knows its fields; others are set to zero.
///
/// # Safety
/// Null, or valid for reads and writes of as many bytes as its first field says.
pub unsafe fn fill<T: SizedStruct>(pointer: *mut T, value: &T) -> Result<()> {
    if pointer.is_null() {
        return Err(Error::invalid_argument(format!("the {} is NULL", T::NAME)));
    }
    // SAFETY: the caller's struct begins with its size.
    let size = unsafe { pointer.cast::<usize>().read_unaligned() };
    if !(size_of::<usize>()..=MAX_STRUCT_BYTES).contains(&size) {
        return Err(no_size::<T>(size));
    }
    let written = size.min(size_of::<T>());
    let skipped = size_of::<usize>();
    // SAFETY: both have at least `written` bytes, and what is beyond is within the caller's size.
    unsafe {
        let from = ptr::from_ref(value).cast::<u8>().add(skipped);
        ptr::copy_nonoverlapping(from, pointer.cast::<u8>().add(skipped), written - skipped);
        pointer.cast::<u8>().add(written).write_bytes(0, size - written);
    }
    Ok(())
}

fn no_size<T: SizedStruct>(size: usize) -> Error {
    Error::invalid_argument(format!("the size of a {} is {size}", T::NAME))
        .advise("set its field `size` to the size of the struct")
}

/// The elements of a list of C.
///
/// # Safety
/// Valid for reads of `count` elements, or `count` is 0.
pub unsafe fn list<'a, T>(data: *const T, count: usize, name: &str) -> Result<&'a [T]> {
    match (data.is_null(), count) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(Error::invalid_argument(format!("{name} is NULL, and has {count} elements"))),
        // SAFETY: the caller guarantees it.
        (false, _) => Ok(unsafe { std::slice::from_raw_parts(data, count) }),
    }
}

/// Where a function puts what it makes, set to null.
///
/// # Safety
/// Null, or valid for writes.
pub unsafe fn out<'a, T>(pointer: *mut *mut T) -> Result<&'a mut *mut T> {
    // SAFETY: the caller guarantees it.
    match unsafe { pointer.as_mut() } {
        None => Err(Error::invalid_argument("the place for the result is NULL")),
        Some(place) => {
            *place = ptr::null_mut();
            Ok(place)
        }
    }
}

/// Memory that a function writes.
///
/// # Safety
/// Valid for reads and writes of `size` initialized bytes, which nothing else accesses, or `size` is 0.
pub unsafe fn target<'a>(data: *mut std::ffi::c_void, size: usize) -> Result<&'a mut [u8]> {
    match (data.is_null(), size) {
        (_, 0) => Ok(&mut []),
        (true, _) => Err(Error::invalid_argument(format!("the place for {size} bytes is NULL"))),
        // SAFETY: the caller guarantees it.
        (false, _) => Ok(unsafe { std::slice::from_raw_parts_mut(data.cast(), size) }),
    }
}

/// Writes a result that is not a handle.
///
/// # Safety
/// Null, or valid for writes.
pub unsafe fn put<T>(pointer: *mut T, value: T) -> Result<()> {
    if pointer.is_null() {
        return Err(Error::invalid_argument("the place for the result is NULL"));
    }
    // SAFETY: the caller guarantees it.
    unsafe { pointer.write(value) };
    Ok(())
}

impl rehal_string_t {
    /// Borrows text for as long as its owner says.
    pub fn lend(text: &[u8]) -> Self {
        Self { data: text.as_ptr().cast(), size: text.len() }
    }

    /// Its bytes.
    ///
    /// # Safety
    /// Valid for reads.
    pub unsafe fn bytes<'a>(self) -> Result<&'a [u8]> {
        // SAFETY: the caller guarantees it.
        unsafe { list(self.data.cast(), self.size, "a string") }
    }

    /// Its text.
    ///
    /// # Safety
    /// Valid for reads.
    pub unsafe fn text<'a>(self) -> Result<&'a str> {
        // SAFETY: the caller guarantees it.
        let bytes = unsafe { self.bytes() }?;
        std::str::from_utf8(bytes).map_err(|_| {
            Error::invalid_argument(format!("the string '{}' is not UTF-8", bytes.escape_ascii()))
        })
    }

    /// It as a path.
    ///
    /// # Safety
    /// Valid for reads.
    pub unsafe fn path(self) -> Result<PathBuf> {
        // SAFETY: the caller guarantees it.
        Ok(PathBuf::from(OsStr::from_bytes(unsafe { self.bytes() }?)))
    }

    /// `None` if it is empty.
    pub fn given(self) -> Option<Self> {
        (self.size > 0).then_some(self)
    }
}

impl rehal_bytes_t {
    /// Borrows bytes for as long as their owner says.
    pub fn lend(bytes: &[u8]) -> Self {
        Self { data: bytes.as_ptr(), size: bytes.len() }
    }

    /// The bytes.
    ///
    /// # Safety
    /// Valid for reads.
    pub unsafe fn bytes<'a>(self) -> Result<&'a [u8]> {
        // SAFETY: the caller guarantees it.
        unsafe { list(self.data, self.size, "the bytes") }
    }
}
