//! Inputs and results of functions.
#![allow(unsafe_code, reason = "takes pointers from C, which the header says are valid")]

use std::any::Any;
use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::sync::{Arc, Mutex, PoisonError};

use rehal::device::HostMemory;
use rehal::program::{ElementType, MappedValue, TensorType, Value, type_of_value};
use rehal::{Error, Result};

use crate::error::{guard, quietly, rehal_error_t};
use crate::handle::{self, handle};
use crate::program::rehal_program_t;
use crate::structs::{fill, list, out, put, rehal_bytes_t, rehal_release_t, rehal_string_t, sized_struct};

/// A value of a program.
pub struct Given {
    pub value: Value,
    /// Its type, from which shapes are lent; for values that have bytes.
    tensor_type: Option<TensorType>,
    mapped: Mutex<Option<MappedValue>>,
}

handle!(rehal_value_t, Given, "value", b"value\0\0\0");

pub type rehal_element_type_t = u32;
pub const REHAL_ELEMENT_BOOL8: rehal_element_type_t = 0x1300_0008;
pub const REHAL_ELEMENT_I8: rehal_element_type_t = 0x1000_0008;
pub const REHAL_ELEMENT_I16: rehal_element_type_t = 0x1000_0010;
pub const REHAL_ELEMENT_I32: rehal_element_type_t = 0x1000_0020;
pub const REHAL_ELEMENT_I64: rehal_element_type_t = 0x1000_0040;
pub const REHAL_ELEMENT_F16: rehal_element_type_t = 0x2100_0010;
pub const REHAL_ELEMENT_BF16: rehal_element_type_t = 0x2200_0010;
pub const REHAL_ELEMENT_F32: rehal_element_type_t = 0x2100_0020;
pub const REHAL_ELEMENT_F64: rehal_element_type_t = 0x2100_0040;

pub type rehal_value_kind_t = u32;
pub const REHAL_VALUE_OBJECT: rehal_value_kind_t = 0;
pub const REHAL_VALUE_I32: rehal_value_kind_t = 1;
pub const REHAL_VALUE_I64: rehal_value_kind_t = 2;
pub const REHAL_VALUE_F32: rehal_value_kind_t = 3;
pub const REHAL_VALUE_F64: rehal_value_kind_t = 4;
pub const REHAL_VALUE_TENSOR: rehal_value_kind_t = 5;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct rehal_value_info_t {
    pub size: usize,
    pub kind: rehal_value_kind_t,
    pub element_type: rehal_element_type_t,
    pub rank: usize,
    pub shape: *const u64,
    pub byte_count: u64,
}

sized_struct!(rehal_value_info_t);

/// A handle of a value.
pub fn new(value: Value) -> *mut rehal_value_t {
    let tensor_type = type_of_value(&value).ok();
    handle::new(Given { value, tensor_type, mapped: Mutex::new(None) })
}

/// # Safety
/// As the header says of the shape.
unsafe fn tensor_type(element_type: u32, shape: *const u64, rank: usize) -> Result<TensorType> {
    // SAFETY: the caller guarantees it.
    let shape = unsafe { list(shape, rank, "the shape") }?.to_vec();
    let tensor_type = TensorType { shape, element_type: ElementType(element_type) };
    tensor_type.size_bytes()?;
    Ok(tensor_type)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_element_type_parse(
    name: rehal_string_t,
    element_type: *mut rehal_element_type_t,
) -> *mut rehal_error_t {
    // SAFETY: what the caller gives is valid, as the header says.
    guard(|| unsafe { put(element_type, name.text()?.parse::<ElementType>()?.0) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_value_create_i32(
    number: i32,
    value: *mut *mut rehal_value_t,
) -> *mut rehal_error_t {
    // SAFETY: as above.
    guard(|| unsafe { out(value).map(|out| *out = new(number.into())) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_value_create_i64(
    number: i64,
    value: *mut *mut rehal_value_t,
) -> *mut rehal_error_t {
    // SAFETY: as above.
    guard(|| unsafe { out(value).map(|out| *out = new(number.into())) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_value_create_f32(
    number: f32,
    value: *mut *mut rehal_value_t,
) -> *mut rehal_error_t {
    // SAFETY: as above.
    guard(|| unsafe { out(value).map(|out| *out = new(number.into())) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_value_create_f64(
    number: f64,
    value: *mut *mut rehal_value_t,
) -> *mut rehal_error_t {
    // SAFETY: as above.
    guard(|| unsafe { out(value).map(|out| *out = new(number.into())) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_tensor_create(
    program: *const rehal_program_t,
    element_type: rehal_element_type_t,
    shape: *const u64,
    rank: usize,
    bytes: rehal_bytes_t,
    value: *mut *mut rehal_value_t,
) -> *mut rehal_error_t {
    // SAFETY: as above.
    guard(|| unsafe {
        let out = out(value)?;
        let tensor_type = tensor_type(element_type, shape, rank)?;
        *out = new(handle::get(program)?.program()?.tensor(&tensor_type, bytes.bytes()?)?);
        Ok(())
    })
}

/// Memory that a program lends: its function is called when it is no longer used.
struct Lent {
    release: rehal_release_t,
    user: *mut c_void,
}

// SAFETY: the header says that the function may be called on any thread.
unsafe impl Send for Lent {}
// SAFETY: nothing uses a shared `Lent`.
unsafe impl Sync for Lent {}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: the caller's function takes this argument, and is called once.
            quietly(|| unsafe { release(self.user) });
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_tensor_create_over(
    program: *const rehal_program_t,
    element_type: rehal_element_type_t,
    shape: *const u64,
    rank: usize,
    data: *mut c_void,
    release: rehal_release_t,
    user: *mut c_void,
    value: *mut *mut rehal_value_t,
) -> *mut rehal_error_t {
    // SAFETY: as above; the memory is lent to the tensor, which only programs and devices access.
    guard(|| unsafe {
        let out = out(value)?;
        let tensor_type = tensor_type(element_type, shape, rank)?;
        let program = handle::get(program)?.program()?;
        let data = NonNull::new(data.cast::<u8>())
            .ok_or_else(|| Error::invalid_argument("the memory of the tensor is NULL"))?;
        let size = usize::try_from(tensor_type.size_bytes()?)
            .map_err(|_| Error::out_of_range("the tensor does not fit in memory"))?;
        // Without the function: a failure leaves the memory to the caller.
        let lent = Arc::new(Mutex::new(Lent { release: None, user }));
        let keeper: Box<dyn Any + Send + Sync> = Box::new(lent.clone());
        let memory = Arc::new(HostMemory::foreign(data, size, true, keeper));
        *out = new(program.tensor_over(&tensor_type, &memory)?);
        lent.lock().unwrap_or_else(PoisonError::into_inner).release = release;
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_value_info(
    value: *const rehal_value_t,
    info: *mut rehal_value_info_t,
) -> *mut rehal_error_t {
    // SAFETY: as above.
    guard(|| unsafe {
        let given = handle::get(value)?;
        let kind = match &given.value {
            Value::I32(_) => REHAL_VALUE_I32,
            Value::I64(_) => REHAL_VALUE_I64,
            Value::F32(_) => REHAL_VALUE_F32,
            Value::F64(_) => REHAL_VALUE_F64,
            Value::Ref(reference) if !reference.is_null() && given.tensor_type.is_some() => {
                REHAL_VALUE_TENSOR
            }
            _ => REHAL_VALUE_OBJECT,
        };
        let tensor_type = given.tensor_type.as_ref();
        let shape = tensor_type.map_or(&[][..], |it| &it.shape);
        let filled = rehal_value_info_t {
            size: 0,
            kind,
            element_type: tensor_type.map_or(0, |it| it.element_type.0),
            rank: shape.len(),
            shape: if shape.is_empty() { ptr::null() } else { shape.as_ptr() },
            byte_count: tensor_type.map_or(Ok(0), TensorType::size_bytes)?,
        };
        fill(info, &filled)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_value_map(
    value: *const rehal_value_t,
    bytes: *mut rehal_bytes_t,
) -> *mut rehal_error_t {
    // SAFETY: as above.
    guard(|| unsafe {
        let given = handle::get(value)?;
        let mut mapped = given.mapped.lock().unwrap_or_else(PoisonError::into_inner);
        if mapped.is_none() {
            *mapped = Some(MappedValue::map(&given.value)?);
        }
        let memory = match &*mapped {
            Some(mapped) => mapped.memory()?,
            None => return Err(Error::failed_precondition("the value is not mapped")),
        };
        put(bytes, rehal_bytes_t { data: memory.as_ptr(), size: memory.length() as usize })
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_value_unmap(value: *const rehal_value_t) -> *mut rehal_error_t {
    // SAFETY: as above.
    guard(|| unsafe {
        *handle::get(value)?.mapped.lock().unwrap_or_else(PoisonError::into_inner) = None;
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_value_free(value: *mut rehal_value_t) {
    // SAFETY: as above.
    quietly(|| unsafe { handle::free(value) });
}
