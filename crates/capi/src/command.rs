//! Command buffers and events.
#![allow(unsafe_code, reason = "takes pointers from C, which the header says are valid")]

use rehal::Result;
use rehal::device::{CommandBuffer, CommandBufferParams, Event, QUEUE_AFFINITY_ANY};

use crate::device::{device, rehal_devices_t};
use crate::error::{guard, quietly, rehal_error_t};
use crate::handle::{self, handle};
use crate::structs::{list, out, rehal_bytes_t, sized_struct};
use crate::work::{
    DispatchInto, command_range, dispatch, range, rehal_launch_t, rehal_range_t, rehal_submission_t,
    with_queue,
};

handle!(rehal_command_buffer_t, CommandBuffer, "command buffer", b"command\0");
handle!(rehal_event_t, Event, "event", b"event\0\0\0");

#[repr(C)]
#[derive(Clone, Copy)]
pub struct rehal_command_buffer_options_t {
    pub size: usize,
    pub is_one_shot: bool,
    pub slot_count: u32,
}

sized_struct!(rehal_command_buffer_options_t);

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_command_buffer_create(
    devices: *const rehal_devices_t,
    index: usize,
    options: *const rehal_command_buffer_options_t,
    command_buffer: *mut *mut rehal_command_buffer_t,
) -> *mut rehal_error_t {
    // SAFETY: what the caller gives is valid, as the header says.
    guard(|| unsafe {
        let out = out(command_buffer)?;
        let given = crate::structs::options(options)?;
        let params = CommandBufferParams::default().one_shot(given.is_one_shot);
        let made = device(devices, index)?.create_command_buffer(params.slots(given.slot_count.into()))?;
        made.begin()?;
        *out = handle::new(made);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_command_fill(
    command_buffer: *const rehal_command_buffer_t,
    target: rehal_range_t,
    pattern: rehal_bytes_t,
) -> *mut rehal_error_t {
    // SAFETY: as above.
    guard(|| unsafe { handle::get(command_buffer)?.fill(command_range(&target)?, pattern.bytes()?) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_command_update(
    command_buffer: *const rehal_command_buffer_t,
    target: rehal_range_t,
    bytes: rehal_bytes_t,
) -> *mut rehal_error_t {
    // SAFETY: as above.
    guard(|| unsafe { handle::get(command_buffer)?.update(bytes.bytes()?, command_range(&target)?) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_command_copy(
    command_buffer: *const rehal_command_buffer_t,
    source: rehal_range_t,
    target: rehal_range_t,
) -> *mut rehal_error_t {
    // SAFETY: as above.
    guard(|| unsafe { handle::get(command_buffer)?.copy(command_range(&source)?, command_range(&target)?) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_command_dispatch(
    command_buffer: *const rehal_command_buffer_t,
    launch: *const rehal_launch_t,
) -> *mut rehal_error_t {
    // SAFETY: as above.
    guard(|| unsafe {
        let command_buffer = handle::get(command_buffer)?;
        dispatch(launch, DispatchInto::Commands(command_buffer))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_command_barrier(
    command_buffer: *const rehal_command_buffer_t,
) -> *mut rehal_error_t {
    // SAFETY: as above.
    guard(|| unsafe { handle::get(command_buffer)?.barrier() })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_command_signal_event(
    command_buffer: *const rehal_command_buffer_t,
    event: *const rehal_event_t,
) -> *mut rehal_error_t {
    // SAFETY: as above.
    guard(|| unsafe { handle::get(command_buffer)?.signal_event(handle::get(event)?) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_command_reset_event(
    command_buffer: *const rehal_command_buffer_t,
    event: *const rehal_event_t,
) -> *mut rehal_error_t {
    // SAFETY: as above.
    guard(|| unsafe { handle::get(command_buffer)?.reset_event(handle::get(event)?) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_command_wait_events(
    command_buffer: *const rehal_command_buffer_t,
    events: *const *const rehal_event_t,
    count: usize,
) -> *mut rehal_error_t {
    // SAFETY: as above.
    guard(|| unsafe {
        let events = list(events, count, "events")?.iter().map(|it| handle::get(*it));
        handle::get(command_buffer)?.wait_events(&events.collect::<Result<Vec<_>>>()?)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_command_buffer_end(
    command_buffer: *const rehal_command_buffer_t,
) -> *mut rehal_error_t {
    // SAFETY: as above.
    guard(|| unsafe { handle::get(command_buffer)?.end() })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_command_buffer_free(command_buffer: *mut rehal_command_buffer_t) {
    // SAFETY: as above.
    quietly(|| unsafe { handle::free(command_buffer) });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_event_create(
    devices: *const rehal_devices_t,
    index: usize,
    event: *mut *mut rehal_event_t,
) -> *mut rehal_error_t {
    // SAFETY: as above.
    guard(|| unsafe {
        let out = out(event)?;
        *out = handle::new(device(devices, index)?.create_event(QUEUE_AFFINITY_ANY, 0)?);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_event_free(event: *mut rehal_event_t) {
    // SAFETY: as above.
    quietly(|| unsafe { handle::free(event) });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_queue_execute(
    submission: *const rehal_submission_t,
    command_buffer: *const rehal_command_buffer_t,
    slots: *const rehal_range_t,
    slot_count: usize,
) -> *mut rehal_error_t {
    // SAFETY: as above.
    guard(|| unsafe {
        let slots = list(slots, slot_count, "slots")?;
        let slots = slots.iter().map(|it| range(it)).collect::<Result<Vec<_>>>()?;
        let command_buffer = handle::get(command_buffer)?;
        with_queue(submission, |queue| queue.execute(command_buffer, &slots, 0))
    })
}
