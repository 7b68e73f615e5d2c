//! The one device, and its contexts.
#![allow(unsafe_code, reason = "writes a string of C")]

use std::ffi::c_char;

use rehal_simt::{MAX_BLOCK_THREADS, MAX_SHARED_BYTES};

use crate::interface::{Code, Handle, Out, Outcome, answer, put};
use crate::state::{CURRENT, State, without_context};

/// Version 12.4.
const DRIVER_VERSION: i32 = 12_040;
const NAME: &[u8] = b"Double of an sm_90 GPU (interpreted)";
const UUID: [u8; 16] = *b"rehal-libcuda-0\0";
/// Shared memory of a block that needs no attribute of its function, in bytes.
pub const STANDARD_SHARED_BYTES: u32 = 48 << 10;

/// The value of an attribute, by its number. 0 is right for those without a row: what is absent or off.
fn attribute(number: u32) -> i32 {
    let threads = MAX_BLOCK_THREADS as i32;
    match number {
        // Threads of a block, together and by dimension; blocks of a grid by dimension.
        1..=3 => threads,
        4 => 64,
        5 => i32::MAX,
        6 | 7 => 65_535,
        8 => STANDARD_SHARED_BYTES as i32,
        // Constant memory, lanes of a warp, pitch, registers of a block and of a multiprocessor.
        9 => 65_536,
        10 => 32,
        11 => i32::MAX,
        12 | 82 => 65_536,
        // Clocks in kHz; alignment of textures; multiprocessors.
        13 | 36 => 1_000_000,
        14 => 512,
        16 => 1,
        // It maps host memory, addresses are unified, memory can be managed, also while kernels run.
        19 | 41 | 83 | 89 => 1,
        37 => 512,
        38 => 1 << 20,
        // Threads, blocks and shared memory of a multiprocessor.
        39 => 2048,
        106 => 32,
        81 => (MAX_SHARED_BYTES + 1024) as i32,
        // Compute capability 9.0.
        75 => 9,
        76 => 0,
        97 => MAX_SHARED_BYTES as i32,
        // Memory that is only read can be registered; there are memory pools.
        113 | 115 => 1,
        _ => 0,
    }
}

/// The last attribute that the interface of this version has.
const LAST_ATTRIBUTE: u32 = 135;

fn check(device: i32) -> Outcome {
    if device == 0 { Ok(()) } else { Err(Code::INVALID_DEVICE) }
}

pub extern "C" fn cuInit(flags: u32) -> u32 {
    answer(if flags == 0 { Ok(()) } else { Err(Code::INVALID_VALUE) })
}

pub extern "C" fn cuDriverGetVersion(version: Out<'_, i32>) -> u32 {
    answer(put(version, DRIVER_VERSION))
}

pub extern "C" fn cuDeviceGetCount(count: Out<'_, i32>) -> u32 {
    answer(put(count, 1))
}

pub extern "C" fn cuDeviceGet(device: Out<'_, i32>, ordinal: i32) -> u32 {
    answer(check(ordinal).and_then(|()| put(device, 0)))
}

/// # Safety
/// `name` is null, or has room for `length` bytes.
pub unsafe extern "C" fn cuDeviceGetName(name: *mut c_char, length: i32, device: i32) -> u32 {
    let length = usize::try_from(length).unwrap_or(0);
    if name.is_null() || length == 0 || device != 0 {
        return Code::INVALID_VALUE.0;
    }
    let shown = NAME.len().min(length - 1);
    // SAFETY: the caller has room for `length` bytes, which is more than what is shown, and NUL.
    unsafe {
        name.cast::<u8>().copy_from_nonoverlapping(NAME.as_ptr(), shown);
        name.add(shown).write(0);
    }
    0
}

pub extern "C" fn cuDeviceGetUuid(uuid: Out<'_, [u8; 16]>, device: i32) -> u32 {
    answer(check(device).and_then(|()| put(uuid, UUID)))
}

pub extern "C" fn cuDeviceGetAttribute(value: Out<'_, i32>, number: u32, device: i32) -> u32 {
    answer(check(device).and_then(|()| match number {
        1..=LAST_ATTRIBUTE => put(value, attribute(number)),
        _ => Err(Code::INVALID_VALUE),
    }))
}

fn create_context(state: &mut State) -> Handle {
    let context = state.handle();
    state.contexts.insert(context);
    context
}

pub extern "C" fn cuCtxCreate(context: Out<'_, Handle>, _flags: u32, device: i32) -> u32 {
    without_context(|state| {
        check(device)?;
        let created = create_context(state);
        CURRENT.with_borrow_mut(|all| all.push(created));
        put(context, created)
    })
}

pub extern "C" fn cuCtxDestroy(context: Handle) -> u32 {
    without_context(|state| {
        CURRENT.with_borrow_mut(|all| all.pop_if(|it| *it == context));
        if state.contexts.remove(&context) { Ok(()) } else { Err(Code::INVALID_CONTEXT) }
    })
}

pub extern "C" fn cuDevicePrimaryCtxRetain(context: Out<'_, Handle>, device: i32) -> u32 {
    without_context(|state| {
        check(device)?;
        let primary = match state.primary_context {
            Some(primary) => primary,
            None => create_context(state),
        };
        state.primary_context = Some(primary);
        put(context, primary)
    })
}

pub extern "C" fn cuDevicePrimaryCtxRelease(device: i32) -> u32 {
    without_context(|state| check(device).and(state.primary_context.map(|_| ()).ok_or(Code::INVALID_CONTEXT)))
}

pub extern "C" fn cuCtxSetCurrent(context: Handle) -> u32 {
    without_context(|state| {
        if context != 0 && !state.contexts.contains(&context) {
            return Err(Code::INVALID_CONTEXT);
        }
        CURRENT.with_borrow_mut(|all| {
            all.pop();
            all.extend((context != 0).then_some(context));
        });
        Ok(())
    })
}

pub extern "C" fn cuCtxPushCurrent(context: Handle) -> u32 {
    without_context(|state| {
        if !state.contexts.contains(&context) {
            return Err(Code::INVALID_CONTEXT);
        }
        CURRENT.with_borrow_mut(|all| all.push(context));
        Ok(())
    })
}

pub extern "C" fn cuCtxPopCurrent(context: Out<'_, Handle>) -> u32 {
    without_context(|_| {
        let popped = CURRENT.with_borrow_mut(Vec::pop).ok_or(Code::INVALID_CONTEXT)?;
        // The result may be ignored.
        context.map_or(Ok(()), |context| put(Some(context), popped))
    })
}
