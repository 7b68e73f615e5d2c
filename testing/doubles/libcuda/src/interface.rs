//! Types of the interface, and its errors.
//!
//! Pointers to results are [`Out`], which needs no unsafe code: callers pass null or memory for the result,
//! as the interface demands of them.

use std::ffi::{CStr, CString, c_char};
use std::mem::MaybeUninit;
use std::sync::OnceLock;

/// A stream, an event, and so on: a number in place of a pointer. None is 0.
pub type Handle = u64;

/// Where a function writes a result.
pub type Out<'a, T> = Option<&'a mut MaybeUninit<T>>;

/// The result of a function.
pub type Outcome<T = ()> = Result<T, Code>;

/// An error of the interface (`CUresult`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code(pub u32);

macro_rules! codes {
    ($($name:ident = $value:literal, $text:literal, $says:literal;)*) => {
        impl Code {
            $(pub const $name: Self = Self($value);)*

            fn texts(self) -> Option<(&'static CStr, &'static CStr)> {
                match self.0 {
                    0 => Some((c"CUDA_SUCCESS", c"no error")),
                    $($value => Some(($text, $says)),)*
                    _ => None,
                }
            }
        }
    };
}

codes! {
    INVALID_VALUE = 1, c"CUDA_ERROR_INVALID_VALUE", c"invalid argument";
    OUT_OF_MEMORY = 2, c"CUDA_ERROR_OUT_OF_MEMORY", c"out of memory";
    INVALID_DEVICE = 101, c"CUDA_ERROR_INVALID_DEVICE", c"invalid device ordinal";
    INVALID_CONTEXT = 201, c"CUDA_ERROR_INVALID_CONTEXT", c"invalid device context";
    NO_BINARY_FOR_GPU = 209, c"CUDA_ERROR_NO_BINARY_FOR_GPU", c"machine code cannot be interpreted";
    INVALID_PTX = 218, c"CUDA_ERROR_INVALID_PTX", c"a PTX JIT compilation failed";
    INVALID_HANDLE = 400, c"CUDA_ERROR_INVALID_HANDLE", c"invalid resource handle";
    NOT_FOUND = 500, c"CUDA_ERROR_NOT_FOUND", c"named symbol not found";
    ILLEGAL_ADDRESS = 700, c"CUDA_ERROR_ILLEGAL_ADDRESS", c"an illegal memory access was encountered";
    LAUNCH_OUT_OF_RESOURCES = 701, c"CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", c"too many resources requested";
    ALREADY_REGISTERED = 712, c"CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED", c"memory is already registered";
    NOT_REGISTERED = 713, c"CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED", c"memory is not registered";
    MISALIGNED_ADDRESS = 716, c"CUDA_ERROR_MISALIGNED_ADDRESS", c"misaligned address";
    LAUNCH_FAILED = 719, c"CUDA_ERROR_LAUNCH_FAILED", c"unspecified launch failure";
    NOT_SUPPORTED = 801, c"CUDA_ERROR_NOT_SUPPORTED", c"operation not supported";
}

/// The error of a kernel that stays, and what it was.
static STAYING: OnceLock<(Code, CString)> = OnceLock::new();

/// Makes `cuGetErrorString` say more about an error that stays.
pub fn explain(code: Code, what: &str) {
    // Text of kernels has no NUL: it ended there.
    let _ = STAYING.set((code, CString::new(what).unwrap_or_default()));
}

/// The status of an outcome.
pub fn answer(outcome: Outcome) -> u32 {
    outcome.err().map_or(0, |code| code.0)
}

/// Writes a result.
pub fn put<T>(out: Out<'_, T>, value: T) -> Outcome {
    out.ok_or(Code::INVALID_VALUE)?.write(value);
    Ok(())
}

pub extern "C" fn cuGetErrorName(code: u32, name: Out<'_, *const c_char>) -> u32 {
    let texts = Code(code).texts().ok_or(Code::INVALID_VALUE);
    answer(texts.and_then(|(found, _)| put(name, found.as_ptr())))
}

pub extern "C" fn cuGetErrorString(code: u32, text: Out<'_, *const c_char>) -> u32 {
    let explained = STAYING.get().filter(|(staying, _)| staying.0 == code).map(|(_, what)| what.as_c_str());
    let texts = Code(code).texts().ok_or(Code::INVALID_VALUE);
    answer(texts.and_then(|(_, found)| put(text, explained.unwrap_or(found).as_ptr())))
}
