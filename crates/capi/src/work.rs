//! Work of the program on devices: buffers, semaphores, executables, and what queues are given.
#![allow(unsafe_code, reason = "takes pointers from C, which the header says are valid")]

use std::ffi::c_void;

use rehal::device::{
    Buffer, BufferParams, BufferRef, CommandBuffer, Dispatch, QUEUE_AFFINITY_ANY, Queue, Semaphore,
    Timepoint, WHOLE_BUFFER, transfer,
};
use rehal::kernel::{EntryPoint, ExecutableSource, LoadOptions, LoadedExecutable};
use rehal::{Error, Result};

use crate::call::timeout;
use crate::device::{device, rehal_devices_t};
use crate::error::{guard, quietly, rehal_error_t};
use crate::file::rehal_file_t;
use crate::handle::{self, handle};
use crate::structs::{list, options, out, put, rehal_bytes_t, rehal_string_t, sized_struct, target};

handle!(rehal_buffer_t, Buffer, "buffer", b"buffer\0\0");
handle!(rehal_semaphore_t, Semaphore, "semaphore", b"semapho\0");
handle!(rehal_executable_t, LoadedExecutable, "executable", b"executa\0");

pub const REHAL_WHOLE_BUFFER: u64 = u64::MAX;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct rehal_timepoint_t {
    pub semaphore: *const rehal_semaphore_t,
    pub value: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct rehal_submission_t {
    pub size: usize,
    pub devices: *const rehal_devices_t,
    pub device: usize,
    pub queue_affinity: u64,
    pub waits: *const rehal_timepoint_t,
    pub wait_count: usize,
    pub signals: *const rehal_timepoint_t,
    pub signal_count: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct rehal_range_t {
    pub buffer: *const rehal_buffer_t,
    pub offset: u64,
    pub length: u64,
    pub slot: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct rehal_launch_t {
    pub size: usize,
    pub executable: *const rehal_executable_t,
    pub function: u32,
    pub workgroup_count: [u32; 3],
    pub workgroup_size: [u32; 3],
    pub dynamic_local_memory: u32,
    pub constants: *const u32,
    pub constant_count: usize,
    pub bindings: *const rehal_range_t,
    pub binding_count: usize,
}

sized_struct!(rehal_submission_t, rehal_launch_t);

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_buffer_allocate(
    devices: *const rehal_devices_t,
    index: usize,
    size_bytes: u64,
    buffer: *mut *mut rehal_buffer_t,
) -> *mut rehal_error_t {
    // SAFETY: what the caller gives is valid, as the header says.
    guard(|| unsafe {
        let out = out(buffer)?;
        *out = handle::new(
            device(devices, index)?.allocate_buffer(BufferParams::default().mappable(), size_bytes)?,
        );
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_buffer_write(
    buffer: *const rehal_buffer_t,
    offset: u64,
    bytes: rehal_bytes_t,
) -> *mut rehal_error_t {
    // SAFETY: as above.
    guard(|| unsafe { transfer::write(handle::get(buffer)?, offset, bytes.bytes()?) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_buffer_read(
    buffer: *const rehal_buffer_t,
    offset: u64,
    data: *mut c_void,
    size: usize,
) -> *mut rehal_error_t {
    // SAFETY: as above.
    guard(|| unsafe { transfer::read(handle::get(buffer)?, offset, target(data, size)?) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_buffer_free(buffer: *mut rehal_buffer_t) {
    // SAFETY: as above.
    quietly(|| unsafe { handle::free(buffer) });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_semaphore_create(
    devices: *const rehal_devices_t,
    index: usize,
    initial_value: u64,
    semaphore: *mut *mut rehal_semaphore_t,
) -> *mut rehal_error_t {
    // SAFETY: as above.
    guard(|| unsafe {
        let out = out(semaphore)?;
        let device = device(devices, index)?;
        let made = device.create_semaphore(QUEUE_AFFINITY_ANY, initial_value, Default::default());
        *out = handle::new(made?);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_semaphore_query(
    semaphore: *const rehal_semaphore_t,
    value: *mut u64,
) -> *mut rehal_error_t {
    // SAFETY: as above.
    guard(|| unsafe { put(value, handle::get(semaphore)?.query()?) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_semaphore_signal(
    semaphore: *const rehal_semaphore_t,
    value: u64,
) -> *mut rehal_error_t {
    // SAFETY: as above.
    guard(|| unsafe { handle::get(semaphore)?.signal(value) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_semaphore_wait(
    semaphore: *const rehal_semaphore_t,
    value: u64,
    timeout_ns: u64,
) -> *mut rehal_error_t {
    // SAFETY: as above.
    guard(|| unsafe { handle::get(semaphore)?.wait(value, timeout(timeout_ns)) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_semaphore_free(semaphore: *mut rehal_semaphore_t) {
    // SAFETY: as above.
    quietly(|| unsafe { handle::free(semaphore) });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_executable_load(
    devices: *const rehal_devices_t,
    index: usize,
    path: rehal_string_t,
    format: rehal_string_t,
    executable: *mut *mut rehal_executable_t,
) -> *mut rehal_error_t {
    // SAFETY: as above.
    guard(|| unsafe { load(devices, index, ExecutableSource::File(path.path()?), format, executable) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_executable_load_bytes(
    devices: *const rehal_devices_t,
    index: usize,
    bytes: rehal_bytes_t,
    format: rehal_string_t,
    executable: *mut *mut rehal_executable_t,
) -> *mut rehal_error_t {
    // SAFETY: as above.
    guard(|| unsafe {
        load(devices, index, ExecutableSource::Bytes(bytes.bytes()?.into()), format, executable)
    })
}

/// # Safety
/// As the header says of the arguments.
unsafe fn load(
    devices: *const rehal_devices_t,
    index: usize,
    source: ExecutableSource,
    format: rehal_string_t,
    executable: *mut *mut rehal_executable_t,
) -> Result<()> {
    // SAFETY: the caller guarantees it.
    unsafe {
        let out = out(executable)?;
        let mut options = LoadOptions::default();
        options.format = format.given().map(|format| format.text()).transpose()?.map(ToOwned::to_owned);
        *out = handle::new(LoadedExecutable::load(device(devices, index)?, &source, &options)?);
    }
    Ok(())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_executable_function(
    executable: *const rehal_executable_t,
    name: rehal_string_t,
    function: *mut u32,
) -> *mut rehal_error_t {
    // SAFETY: as above.
    guard(|| unsafe {
        let name = EntryPoint::Name(name.text()?.to_owned());
        put(function, handle::get(executable)?.function(&name)?)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_executable_free(executable: *mut rehal_executable_t) {
    // SAFETY: as above.
    quietly(|| unsafe { handle::free(executable) });
}

/// Calls `submit` with the queue of a submission.
///
/// # Safety
/// As the header says of submissions.
pub unsafe fn with_queue(
    submission: *const rehal_submission_t,
    submit: impl FnOnce(Queue<'_>) -> Result<()>,
) -> Result<()> {
    // SAFETY: the caller guarantees it.
    unsafe {
        let given = options(submission)?;
        let device = device(given.devices, given.device)?;
        let affinity = if given.queue_affinity == 0 { QUEUE_AFFINITY_ANY } else { given.queue_affinity };
        let waits = timepoints(given.waits, given.wait_count, "waits")?;
        let signals = timepoints(given.signals, given.signal_count, "signals")?;
        submit(device.queue(affinity).wait(&waits).signal(&signals))
    }
}

/// # Safety
/// As the header says of timepoints.
unsafe fn timepoints<'a>(
    given: *const rehal_timepoint_t,
    count: usize,
    name: &str,
) -> Result<Vec<Timepoint<&'a Semaphore>>> {
    // SAFETY: the caller guarantees it.
    unsafe {
        list(given, count, name)?.iter().map(|it| Ok(handle::get(it.semaphore)?.at(it.value))).collect()
    }
}

/// The range of a buffer.
///
/// # Safety
/// As the header says of ranges.
pub unsafe fn range<'a>(given: &rehal_range_t) -> Result<BufferRef<&'a Buffer>> {
    // SAFETY: the caller guarantees it.
    let buffer = unsafe { handle::get(given.buffer) }?;
    if given.slot != 0 {
        return Err(Error::invalid_argument(format!("a range has a buffer and slot {}", given.slot)));
    }
    Ok(BufferRef::range(buffer, given.offset, length(given)))
}

/// The range of a buffer or a slot.
///
/// # Safety
/// As the header says of ranges.
pub unsafe fn command_range<'a>(given: &rehal_range_t) -> Result<BufferRef<&'a Buffer>> {
    match given.buffer.is_null() {
        true => Ok(BufferRef::slot(given.slot, given.offset, length(given))),
        // SAFETY: the caller guarantees it.
        false => unsafe { range(given) },
    }
}

fn length(given: &rehal_range_t) -> u64 {
    if given.length == REHAL_WHOLE_BUFFER { WHOLE_BUFFER } else { given.length }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_queue_allocate(
    submission: *const rehal_submission_t,
    size_bytes: u64,
    buffer: *mut *mut rehal_buffer_t,
) -> *mut rehal_error_t {
    // SAFETY: as above.
    guard(|| unsafe {
        let out = out(buffer)?;
        with_queue(submission, |queue| {
            *out = handle::new(queue.alloca(BufferParams::default().mappable(), size_bytes, 0)?);
            Ok(())
        })
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_queue_deallocate(
    submission: *const rehal_submission_t,
    buffer: *const rehal_buffer_t,
) -> *mut rehal_error_t {
    // SAFETY: as above.
    guard(|| unsafe { with_queue(submission, |queue| queue.dealloca(handle::get(buffer)?, 0)) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_queue_fill(
    submission: *const rehal_submission_t,
    target: rehal_range_t,
    pattern: rehal_bytes_t,
) -> *mut rehal_error_t {
    // SAFETY: as above.
    guard(|| unsafe { with_queue(submission, |queue| queue.fill(range(&target)?, pattern.bytes()?, 0)) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_queue_update(
    submission: *const rehal_submission_t,
    target: rehal_range_t,
    bytes: rehal_bytes_t,
) -> *mut rehal_error_t {
    // SAFETY: as above.
    guard(|| unsafe { with_queue(submission, |queue| queue.update(bytes.bytes()?, range(&target)?, 0)) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_queue_copy(
    submission: *const rehal_submission_t,
    source: rehal_range_t,
    target: rehal_range_t,
) -> *mut rehal_error_t {
    // SAFETY: as above.
    guard(|| unsafe { with_queue(submission, |queue| queue.copy(range(&source)?, range(&target)?, 0)) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_queue_barrier(submission: *const rehal_submission_t) -> *mut rehal_error_t {
    // SAFETY: as above.
    guard(|| unsafe { with_queue(submission, |queue| queue.barrier(0)) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_queue_dispatch(
    submission: *const rehal_submission_t,
    launch: *const rehal_launch_t,
) -> *mut rehal_error_t {
    // SAFETY: as above.
    guard(|| unsafe { with_queue(submission, |queue| dispatch(launch, DispatchInto::Queue(queue))) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_queue_read(
    submission: *const rehal_submission_t,
    file: *const rehal_file_t,
    file_offset: u64,
    target: rehal_range_t,
) -> *mut rehal_error_t {
    // SAFETY: as above.
    guard(|| unsafe {
        let (file, target) = (handle::get(file)?, range(&target)?);
        with_queue(submission, |queue| queue.read(file, file_offset, target, 0))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_queue_write(
    submission: *const rehal_submission_t,
    source: rehal_range_t,
    file: *const rehal_file_t,
    file_offset: u64,
) -> *mut rehal_error_t {
    // SAFETY: as above.
    guard(|| unsafe {
        let (file, source) = (handle::get(file)?, range(&source)?);
        with_queue(submission, |queue| queue.write(source, file, file_offset, 0))
    })
}

/// The receiver of a dispatch.
pub enum DispatchInto<'a> {
    /// A queue.
    Queue(Queue<'a>),
    /// A command buffer, whose ranges may be slots.
    Commands(&'a CommandBuffer),
}

/// Dispatches a function.
///
/// # Safety
/// As the header says of launches.
pub unsafe fn dispatch(launch: *const rehal_launch_t, into: DispatchInto<'_>) -> Result<()> {
    // SAFETY: the caller guarantees it.
    unsafe {
        let launch = options(launch)?;
        let executable = handle::get(launch.executable)?.executable();
        let info = executable.function(launch.function)?;
        let constants = list(launch.constants, launch.constant_count, "constants")?;
        let bindings = list(launch.bindings, launch.binding_count, "bindings")?;
        check_count("constant", info.constant_count.into(), constants.len())?;
        check_count("binding", info.binding_count.into(), bindings.len())?;
        let constants: Vec<u8> = constants.iter().flat_map(|it| it.to_le_bytes()).collect();
        let bindings = bindings.iter().map(|it| match into {
            DispatchInto::Queue(_) => range(it),
            DispatchInto::Commands(_) => command_range(it),
        });
        let bindings = bindings.collect::<Result<Vec<_>>>()?;
        let dispatch = Dispatch::new(executable, launch.function, launch.workgroup_count)
            .workgroup_size(launch.workgroup_size)
            .dynamic_local_memory(launch.dynamic_local_memory)
            .constants(&constants)
            .bindings(&bindings);
        match into {
            DispatchInto::Queue(queue) => queue.dispatch(&dispatch),
            DispatchInto::Commands(commands) => commands.dispatch(&dispatch),
        }
    }
}

fn check_count(what: &str, expected: usize, found: usize) -> Result<()> {
    match expected == found {
        true => Ok(()),
        false => {
            Err(Error::invalid_argument(format!("the function takes {expected} {what}s, found {found}")))
        }
    }
}
