//! Streams and events, and the work that they order. It runs when it is submitted.
#![allow(unsafe_code, reason = "copies memory of programs, and calls their functions")]

use std::ffi::c_void;
use std::thread::JoinHandle;
use std::time::Instant;

use crate::interface::{Code, Handle, Out, Outcome, put};
use crate::kernel::Call;
use crate::state::{State, find, remove, with};

/// The streams that need not be created: 0, and those with numbers in the interface.
const LAST_OWN_STREAM: Handle = 2;

/// A stream.
#[derive(Default)]
pub struct Stream {
    /// The function of the host that it waits for, before it does more.
    host: Option<JoinHandle<()>>,
}

/// An event: when it was recorded.
pub struct Event(Option<Instant>);

/// An operation of a stream or of a graph.
#[derive(Clone)]
pub enum Work {
    Launch(Call),
    Fill { address: u64, pattern: [u8; 4], width: u64, count: u64 },
    Copy { from: Place, to: Place, bytes: u64 },
    Record(Handle),
    Nothing,
}

/// One side of a copy.
#[derive(Clone, Copy)]
pub enum Place {
    /// Memory that kernels can access.
    Device(u64),
    /// The address of memory of the program.
    Host(usize),
}

impl State {
    /// Waits for what a stream has to do.
    pub fn begin(&mut self, stream: Handle) -> Outcome {
        if stream <= LAST_OWN_STREAM {
            return Ok(());
        }
        let stream = self.streams.get_mut(&stream).ok_or(Code::INVALID_HANDLE)?;
        match stream.host.take().map(JoinHandle::join) {
            Some(Err(_)) => Err(Code::LAUNCH_FAILED),
            _ => Ok(()),
        }
    }

    /// Runs an operation, after what the stream had to do.
    ///
    /// # Safety
    /// The memory of the host that a copy names is valid.
    pub unsafe fn run(&mut self, stream: Handle, work: &Work) -> Outcome {
        self.begin(stream)?;
        match work {
            Work::Launch(call) => self.launch(call),
            Work::Fill { address, pattern, width, count } => self.fill(*address, pattern, *width, *count),
            // SAFETY: the same contract.
            Work::Copy { from, to, bytes } => unsafe { self.copy(*from, *to, *bytes) },
            Work::Record(event) => self.record(*event),
            Work::Nothing => Ok(()),
        }
    }

    fn fill(&self, address: u64, pattern: &[u8; 4], width: u64, count: u64) -> Outcome {
        let pattern = pattern.get(..width as usize).ok_or(Code::INVALID_VALUE)?;
        let bytes = count.checked_mul(width).ok_or(Code::INVALID_VALUE)?;
        if !address.is_multiple_of(width) {
            return Err(Code::INVALID_VALUE);
        }
        let (memory, offset) = self.place(address, bytes)?;
        memory.fill(offset, bytes, pattern).map_err(|_| Code::INVALID_VALUE)
    }

    /// # Safety
    /// The memory of the host that is named has as many bytes, and nothing writes it during the copy.
    unsafe fn copy(&self, from: Place, to: Place, bytes: u64) -> Outcome {
        let refused = |_| Code::INVALID_VALUE;
        let length = usize::try_from(bytes).map_err(|_| Code::INVALID_VALUE)?;
        if bytes == 0 {
            return Ok(());
        }
        let host = |address: usize| {
            let pointer = std::ptr::with_exposed_provenance_mut::<u8>(address);
            if pointer.is_null() { Err(Code::INVALID_VALUE) } else { Ok(pointer) }
        };
        match (from, to) {
            (Place::Device(from), Place::Device(to)) => {
                let (source, at) = self.place(from, bytes)?;
                let (target, to) = self.place(to, bytes)?;
                target.copy_from(to, source, at, bytes).map_err(refused)
            }
            (Place::Host(from), Place::Device(to)) => {
                let (target, to) = self.place(to, bytes)?;
                // SAFETY: the caller's memory has as many bytes.
                let source = unsafe { std::slice::from_raw_parts(host(from)?, length) };
                target.write(to, source).map_err(refused)
            }
            (Place::Device(from), Place::Host(to)) => {
                let (source, at) = self.place(from, bytes)?;
                // SAFETY: as above.
                let target = unsafe { std::slice::from_raw_parts_mut(host(to)?, length) };
                source.read(at, target).map_err(refused)
            }
            (Place::Host(from), Place::Host(to)) => {
                // SAFETY: as above.
                unsafe { host(from)?.copy_to(host(to)?, length) };
                Ok(())
            }
        }
    }

    fn record(&mut self, event: Handle) -> Outcome {
        self.events.get_mut(&event).ok_or(Code::INVALID_HANDLE)?.0 = Some(Instant::now());
        Ok(())
    }
}

pub extern "C" fn cuStreamCreate(stream: Out<'_, Handle>, _flags: u32) -> u32 {
    with(|state| {
        let created = state.handle();
        state.streams.insert(created, Stream::default());
        put(stream, created)
    })
}

pub extern "C" fn cuStreamDestroy(stream: Handle) -> u32 {
    with(|state| {
        state.begin(stream)?;
        remove(&mut state.streams, stream).map(|_| ())
    })
}

pub extern "C" fn cuStreamSynchronize(stream: Handle) -> u32 {
    with(|state| state.begin(stream))
}

pub extern "C" fn cuStreamWaitEvent(stream: Handle, event: Handle, _flags: u32) -> u32 {
    with(|state| {
        state.begin(stream)?;
        find(&state.events, event).map(|_| ())
    })
}

/// # Safety
/// `function` can be called with `data` on another thread, and calls no function of this library.
pub unsafe extern "C" fn cuLaunchHostFunc(
    stream: Handle,
    function: Option<unsafe extern "C" fn(*mut c_void)>,
    data: *mut c_void,
) -> u32 {
    with(|state| {
        state.begin(stream)?;
        let function = function.ok_or(Code::INVALID_VALUE)?;
        let data = data.expose_provenance();
        let host = std::thread::spawn(move || {
            // SAFETY: the caller allows this call with this argument.
            unsafe { function(std::ptr::with_exposed_provenance_mut(data)) }
        });
        match state.streams.get_mut(&stream) {
            Some(stream) => stream.host = Some(host),
            // The streams that need not be created are not ordered after it.
            None => host.join().map_err(|_| Code::LAUNCH_FAILED)?,
        }
        Ok(())
    })
}

pub extern "C" fn cuEventCreate(event: Out<'_, Handle>, _flags: u32) -> u32 {
    with(|state| {
        let created = state.handle();
        state.events.insert(created, Event(None));
        put(event, created)
    })
}

pub extern "C" fn cuEventDestroy(event: Handle) -> u32 {
    with(|state| remove(&mut state.events, event).map(|_| ()))
}

pub extern "C" fn cuEventRecord(event: Handle, stream: Handle) -> u32 {
    // SAFETY: it has no memory of the host.
    with(|state| unsafe { state.run(stream, &Work::Record(event)) })
}

pub extern "C" fn cuEventQuery(event: Handle) -> u32 {
    with(|state| find(&state.events, event).map(|_| ()))
}

pub extern "C" fn cuEventSynchronize(event: Handle) -> u32 {
    with(|state| find(&state.events, event).map(|_| ()))
}

pub extern "C" fn cuEventElapsedTime(milliseconds: Out<'_, f32>, from: Handle, to: Handle) -> u32 {
    with(|state| {
        let at = |event| find(&state.events, event)?.0.ok_or(Code::INVALID_HANDLE);
        let (from, to) = (at(from)?, at(to)?);
        let elapsed = to.saturating_duration_since(from).as_secs_f32()
            - from.saturating_duration_since(to).as_secs_f32();
        put(milliseconds, elapsed * 1e3)
    })
}

fn fill(address: u64, pattern: [u8; 4], width: u64, count: u64, stream: Handle) -> u32 {
    // SAFETY: it has no memory of the host.
    with(|state| unsafe { state.run(stream, &Work::Fill { address, pattern, width, count }) })
}

pub extern "C" fn cuMemsetD8Async(address: u64, value: u8, count: u64, stream: Handle) -> u32 {
    fill(address, [value; 4], 1, count, stream)
}

pub extern "C" fn cuMemsetD16Async(address: u64, value: u16, count: u64, stream: Handle) -> u32 {
    fill(address, u32::from(value).to_le_bytes(), 2, count, stream)
}

pub extern "C" fn cuMemsetD32Async(address: u64, value: u32, count: u64, stream: Handle) -> u32 {
    fill(address, value.to_le_bytes(), 4, count, stream)
}

pub extern "C" fn cuMemcpyAsync(to: u64, from: u64, bytes: u64, stream: Handle) -> u32 {
    let work = Work::Copy { from: Place::Device(from), to: Place::Device(to), bytes };
    // SAFETY: it has no memory of the host.
    with(|state| unsafe { state.run(stream, &work) })
}

/// # Safety
/// `from` has as many bytes.
pub unsafe extern "C" fn cuMemcpyHtoDAsync(to: u64, from: *const c_void, bytes: u64, stream: Handle) -> u32 {
    let work = Work::Copy { from: Place::Host(from.expose_provenance()), to: Place::Device(to), bytes };
    // SAFETY: the same contract.
    with(|state| unsafe { state.run(stream, &work) })
}
