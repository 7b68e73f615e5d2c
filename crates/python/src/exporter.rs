//! A class whose objects export the buffer of what their method `_exported` returns.
//!
//! The buffer protocol is in the stable ABI from Python 3.11 on; Python 3.10 has its slots, but not their
//! names. The structure of a buffer is passed on as it comes.
#![allow(unsafe_code, reason = "fills a slot of a class; see docs/unsafe.md")]

use std::ffi::{c_int, c_uint, c_void};

use pyo3::ffi;
use pyo3::prelude::*;

/// The number of the slot `Py_bf_getbuffer`.
const GET_BUFFER_SLOT: c_int = 1;

unsafe extern "C" {
    fn PyObject_GetBuffer(object: *mut ffi::PyObject, view: *mut c_void, flags: c_int) -> c_int;
}

/// The class, which others inherit from.
pub fn class(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    let get_buffer: unsafe extern "C" fn(*mut ffi::PyObject, *mut c_void, c_int) -> c_int = get_buffer;
    let mut slots = [
        ffi::PyType_Slot { slot: GET_BUFFER_SLOT, pfunc: get_buffer as *mut c_void },
        ffi::PyType_Slot::default(),
    ];
    let mut spec = ffi::PyType_Spec {
        name: c"rehal._rehal.Exporter".as_ptr(),
        // Those of its base, `object`.
        basicsize: 0,
        itemsize: 0,
        flags: (ffi::Py_TPFLAGS_DEFAULT | ffi::Py_TPFLAGS_BASETYPE) as c_uint,
        slots: slots.as_mut_ptr(),
    };
    // SAFETY: the interpreter copies the slots; the name, which it keeps, is static. The function has the
    // type of its slot.
    unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyType_FromSpec(&raw mut spec)) }
}

/// Exports the buffer of another object, which the view then owns and releases.
///
/// # Safety
///
/// The interpreter calls it as `bf_getbuffer`, with its lock and a view that can be written.
unsafe extern "C" fn get_buffer(this: *mut ffi::PyObject, view: *mut c_void, flags: c_int) -> c_int {
    // SAFETY: `this` is an object; each owned reference is released once.
    unsafe {
        let method = ffi::PyObject_GetAttrString(this, c"_exported".as_ptr());
        let exported = match method.is_null() {
            true => method,
            false => ffi::PyObject_CallNoArgs(method),
        };
        ffi::Py_XDECREF(method);
        if exported.is_null() {
            // A view without an owner, its second field, is none that has to be released.
            view.cast::<*mut c_void>().add(1).write(std::ptr::null_mut());
            return -1;
        }
        let outcome = PyObject_GetBuffer(exported, view, flags);
        ffi::Py_DECREF(exported);
        outcome
    }
}
