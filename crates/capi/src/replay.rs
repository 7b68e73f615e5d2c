//! Replays, with observers and substitution by callbacks.
#![allow(unsafe_code, reason = "takes pointers from C, which the header says are valid")]

use std::ffi::{OsStr, c_void};
use std::ops::ControlFlow;
use std::sync::Arc;

use rehal::platform::OsStrExt;

use rehal::device::transfer;
use rehal::replay::{
    AccessedRange, Candidate, FileRemap, FileWrites, HostRead, NeededWorkgroups, Observer, Operation,
    RecordLocation, Replacement, Replay, ReplayOptions, ReplayOrder, Scope,
};
use rehal::{Error, Result};

use crate::capture::{rehal_executable_info_t, rehal_plan_t};
use crate::device::rehal_devices_t;
use crate::error::{from_callback, guard, quietly, rehal_error_t};
use crate::handle::{self, handle};
use crate::profile::rehal_profiling_t;
use crate::structs::{fill, list, options, out, rehal_bytes_t, rehal_string_t, sized_struct};

handle!(rehal_replay_t, Arc<Replay>, "replay", b"replay\0\0");

pub type rehal_replay_order_t = u32;
pub const REHAL_REPLAY_ORDER_SERIALIZED: rehal_replay_order_t = 0;
pub const REHAL_REPLAY_ORDER_CAPTURED: rehal_replay_order_t = 1;

pub type rehal_file_writes_t = u32;
pub const REHAL_FILE_WRITES_COPY: rehal_file_writes_t = 0;
pub const REHAL_FILE_WRITES_IN_PLACE: rehal_file_writes_t = 1;
pub const REHAL_FILE_WRITES_FAIL: rehal_file_writes_t = 2;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct rehal_file_remap_t {
    pub captured: rehal_string_t,
    pub here: rehal_string_t,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct rehal_replacement_t {
    pub size: usize,
    pub code: rehal_bytes_t,
    pub format: rehal_string_t,
    pub keep_missing: bool,
    pub same_workgroups: bool,
    pub workgroup_count: [u32; 3],
}

pub type rehal_substitute_t = Option<
    unsafe extern "C-unwind" fn(
        user: *mut c_void,
        executable: *const rehal_executable_info_t,
        code: rehal_bytes_t,
        replacement: *mut rehal_replacement_t,
    ) -> *mut rehal_error_t,
>;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct rehal_replay_options_t {
    pub size: usize,
    pub order: rehal_replay_order_t,
    pub file_writes: rehal_file_writes_t,
    pub file_remaps: *const rehal_file_remap_t,
    pub file_remap_count: usize,
    pub substitute: rehal_substitute_t,
    pub substitute_user: *mut c_void,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct rehal_record_t {
    pub ordinal: u64,
    pub offset: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct rehal_host_read_t {
    pub size: usize,
    pub record: rehal_record_t,
    pub scope: rehal_string_t,
    pub buffer_id: u64,
    pub offset: u64,
    pub bytes: rehal_bytes_t,
}

/// A dispatch during a callback: opaque to C.
pub struct rehal_dispatch_t {
    info: rehal_dispatch_info_t,
    bindings: *const AccessedRange<'static>,
    binding_count: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct rehal_dispatch_info_t {
    pub size: usize,
    pub record: rehal_record_t,
    pub submission: rehal_record_t,
    pub occurrence: u64,
    pub scope: rehal_string_t,
    pub device: usize,
    pub executable_id: u64,
    pub function: u32,
    pub function_name: rehal_string_t,
    pub workgroup_count: [u32; 3],
    pub workgroup_size: [u32; 3],
    pub constants: rehal_bytes_t,
    pub binding_count: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct rehal_binding_info_t {
    pub size: usize,
    pub buffer_id: u64,
    pub offset: u64,
    pub length: u64,
}

pub type rehal_scope_callback_t = Option<
    unsafe extern "C-unwind" fn(
        user: *mut c_void,
        name: rehal_string_t,
        record: rehal_record_t,
    ) -> *mut rehal_error_t,
>;

pub type rehal_host_read_callback_t = Option<
    unsafe extern "C-unwind" fn(user: *mut c_void, read: *const rehal_host_read_t) -> *mut rehal_error_t,
>;

pub type rehal_dispatch_callback_t = Option<
    unsafe extern "C-unwind" fn(user: *mut c_void, dispatch: *const rehal_dispatch_t) -> *mut rehal_error_t,
>;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct rehal_observer_t {
    pub size: usize,
    pub user: *mut c_void,
    pub scope_begin: rehal_scope_callback_t,
    pub scope_end: rehal_scope_callback_t,
    pub host_read: rehal_host_read_callback_t,
    pub before_dispatch: rehal_dispatch_callback_t,
    pub after_dispatch: rehal_dispatch_callback_t,
    pub profiling: *const rehal_profiling_t,
}

sized_struct!(
    rehal_replacement_t,
    rehal_replay_options_t,
    rehal_host_read_t,
    rehal_dispatch_info_t,
    rehal_binding_info_t,
    rehal_observer_t
);

/// The callback of a program, with its argument. The header says that it is called by the thread that makes
/// the replay.
#[derive(Clone, Copy)]
struct Substituting {
    substitute: unsafe extern "C-unwind" fn(
        *mut c_void,
        *const rehal_executable_info_t,
        rehal_bytes_t,
        *mut rehal_replacement_t,
    ) -> *mut rehal_error_t,
    user: *mut c_void,
}

// SAFETY: it is called by one thread at a time, the one whose call makes the replay.
unsafe impl Send for Substituting {}
// SAFETY: as above.
unsafe impl Sync for Substituting {}

impl Substituting {
    fn replacement(&self, candidate: &Candidate<'_>) -> Result<Option<Replacement>> {
        let record = &candidate.record;
        let info = rehal_executable_info_t {
            size: size_of::<rehal_executable_info_t>(),
            id: record.id,
            format: rehal_string_t::lend(record.format),
            code_bytes: record.data.len() as u64,
            function_count: record.function_names().count(),
        };
        // SAFETY: null stands for the defaults.
        let mut replacement: rehal_replacement_t = unsafe { options(std::ptr::null()) }?;
        replacement.size = size_of::<rehal_replacement_t>();
        let code = rehal_bytes_t::lend(record.data);
        // SAFETY: the caller's function takes these, and gives bytes that it keeps until it is called again.
        unsafe {
            from_callback((self.substitute)(self.user, &raw const info, code, &raw mut replacement))?;
            replacement_of(&replacement)
        }
    }
}

/// `None` without code.
///
/// # Safety
/// As the header says of replacements.
pub unsafe fn replacement_of(given: &rehal_replacement_t) -> Result<Option<Replacement>> {
    // SAFETY: the caller guarantees it.
    unsafe {
        let code = given.code.bytes()?;
        if code.is_empty() {
            return Ok(None);
        }
        let mut made = Replacement::bytes(code);
        if let Some(format) = given.format.given() {
            made = made.of_format(format.text()?);
        }
        made.keeps_missing = given.keep_missing;
        if given.same_workgroups {
            made = made.with_workgroups(None, NeededWorkgroups::Same);
        } else if given.workgroup_count != [0; 3] {
            made = made.with_workgroups(None, NeededWorkgroups::Count(given.workgroup_count));
        }
        Ok(Some(made))
    }
}

/// # Safety
/// As the header says of the options.
pub unsafe fn replay_options(given: *const rehal_replay_options_t) -> Result<ReplayOptions> {
    // SAFETY: the caller guarantees it.
    let given = unsafe { options(given) }?;
    let order = match given.order {
        REHAL_REPLAY_ORDER_SERIALIZED => ReplayOrder::Serialized,
        REHAL_REPLAY_ORDER_CAPTURED => ReplayOrder::Captured,
        other => return Err(Error::invalid_argument(format!("{other} is not an order of replays"))),
    };
    let file_writes = match given.file_writes {
        REHAL_FILE_WRITES_COPY => FileWrites::Copy,
        REHAL_FILE_WRITES_IN_PLACE => FileWrites::InPlace,
        REHAL_FILE_WRITES_FAIL => FileWrites::Fail,
        other => return Err(Error::invalid_argument(format!("{other} does not say what writes change"))),
    };
    let mut remaps = Vec::new();
    // SAFETY: as above.
    for remap in unsafe { list(given.file_remaps, given.file_remap_count, "file_remaps") }? {
        // SAFETY: as above.
        let (captured, here) = unsafe { (remap.captured.bytes()?, remap.here.bytes()?) };
        if captured.is_empty() {
            return Err(Error::invalid_argument("the captured path of a file remap is empty"));
        }
        let [captured, here] = [captured, here].map(|it| OsStr::from_bytes(it).to_owned());
        remaps.push(FileRemap { captured, here });
    }
    let mut made = ReplayOptions::default().order(order).file_writes(file_writes).file_remaps(remaps);
    if let Some(substitute) = given.substitute {
        let substituting = Substituting { substitute, user: given.substitute_user };
        made.substitute = Some(Arc::new(move |candidate| substituting.replacement(candidate)));
    }
    Ok(made)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_replay_create(
    plan: *const rehal_plan_t,
    devices: *const rehal_devices_t,
    options: *const rehal_replay_options_t,
    replay: *mut *mut rehal_replay_t,
) -> *mut rehal_error_t {
    // SAFETY: what the caller gives is valid, as the header says.
    guard(|| unsafe {
        let out = out(replay)?;
        let options = replay_options(options)?;
        let made = handle::using(plan, |plan| {
            handle::using(devices, |devices| Replay::new(plan.clone(), devices, &options))
        })?;
        *out = handle::new(Arc::new(made));
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_replay_free(replay: *mut rehal_replay_t) {
    // SAFETY: as above.
    quietly(|| unsafe { handle::free(replay) });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_replay_run(
    replay: *const rehal_replay_t,
    observer: *const rehal_observer_t,
) -> *mut rehal_error_t {
    // SAFETY: as above.
    guard(|| unsafe {
        handle::using(replay, |replay| {
            replay.check_capture()?;
            observed(observer, |observers| replay.run(observers))
        })
    })
}

/// Calls `run` with the observer of a program, and with that of its profile.
///
/// # Safety
/// As the header says of observers.
pub unsafe fn observed<T>(
    observer: *const rehal_observer_t,
    run: impl FnOnce(&mut [&mut dyn Observer]) -> Result<T>,
) -> Result<T> {
    // SAFETY: the caller guarantees it.
    unsafe {
        let mut observing = Observing(options(observer)?);
        match observing.0.profiling.is_null() {
            true => run(&mut [&mut observing]),
            false => handle::using(observing.0.profiling, |profiling| {
                profiling.with_records(|records| run(&mut [&mut observing, records]))
            }),
        }
    }
}

/// The observer of a program, whose functions are called by the thread that runs the replay.
struct Observing(rehal_observer_t);

fn record(location: RecordLocation) -> rehal_record_t {
    rehal_record_t { ordinal: location.ordinal.into(), offset: location.offset }
}

impl Observing {
    fn scope(&self, callback: rehal_scope_callback_t, scope: &Scope<'_>) -> Result<()> {
        let Some(callback) = callback else { return Ok(()) };
        let name = rehal_string_t::lend(scope.name);
        // SAFETY: the caller's function takes these; the name lives until it returns.
        unsafe { from_callback(callback(self.0.user, name, record(scope.location))) }
    }

    fn dispatch(
        &self,
        callback: rehal_dispatch_callback_t,
        operation: &Operation<'_>,
    ) -> Result<ControlFlow<()>> {
        if let (Some(callback), Some(shown)) = (callback, show(operation)) {
            // SAFETY: the caller's function takes this, which lives until it returns.
            unsafe { from_callback(callback(self.0.user, &raw const shown)) }?;
        }
        Ok(ControlFlow::Continue(()))
    }
}

/// The dispatch that an operation is.
fn show(operation: &Operation<'_>) -> Option<rehal_dispatch_t> {
    let (bindings, dispatch) = (operation.bindings(), operation.dispatch?);
    Some(rehal_dispatch_t {
        info: rehal_dispatch_info_t {
            size: 0,
            record: record(operation.location),
            submission: record(operation.submission),
            occurrence: operation.occurrence,
            scope: rehal_string_t::lend(operation.scope.unwrap_or_default()),
            device: operation.device,
            executable_id: dispatch.executable.id,
            function: dispatch.function,
            function_name: rehal_string_t::lend(dispatch.name.as_bytes()),
            workgroup_count: dispatch.workgroup_count,
            workgroup_size: dispatch.workgroup_size,
            constants: rehal_bytes_t::lend(dispatch.constants),
            binding_count: bindings.len(),
        },
        bindings: bindings.as_ptr().cast(),
        binding_count: bindings.len(),
    })
}

impl Observer for Observing {
    fn scope_begin(&mut self, scope: &Scope<'_>) -> Result<()> {
        self.scope(self.0.scope_begin, scope)
    }

    fn scope_end(&mut self, scope: &Scope<'_>) -> Result<()> {
        self.scope(self.0.scope_end, scope)
    }

    fn times_scope(&self, _scope: &Scope<'_>) -> bool {
        // A program that looks at scopes may measure them.
        self.0.scope_end.is_some()
    }

    fn wants_host_reads(&self) -> bool {
        self.0.host_read.is_some()
    }

    fn host_read(&mut self, read: &HostRead<'_>) -> Result<()> {
        let Some(callback) = self.0.host_read else { return Ok(()) };
        let memory = read.memory;
        let shown = rehal_host_read_t {
            size: size_of::<rehal_host_read_t>(),
            record: record(read.location),
            scope: rehal_string_t::lend(read.scope.unwrap_or_default()),
            buffer_id: read.buffer_id,
            offset: read.offset,
            bytes: rehal_bytes_t { data: memory.as_ptr(), size: memory.length() as usize },
        };
        // SAFETY: the caller's function takes this. The bytes live until it returns, and nothing writes them:
        // the host waits for work that does.
        unsafe { from_callback(callback(self.0.user, &raw const shown)) }
    }

    fn wants_operations(&self) -> bool {
        self.0.before_dispatch.is_some() || self.0.after_dispatch.is_some()
    }

    fn before_operation(&mut self, operation: &Operation<'_>) -> Result<ControlFlow<()>> {
        self.dispatch(self.0.before_dispatch, operation)
    }

    fn after_operation(&mut self, operation: &Operation<'_>) -> Result<ControlFlow<()>> {
        self.dispatch(self.0.after_dispatch, operation)
    }
}

/// # Safety
/// Null, or the dispatch of a callback that has not returned.
unsafe fn shown<'a>(dispatch: *const rehal_dispatch_t) -> Result<&'a rehal_dispatch_t> {
    // SAFETY: the caller guarantees it.
    unsafe { dispatch.as_ref() }.ok_or_else(|| Error::invalid_argument("the dispatch is NULL"))
}

/// # Safety
/// As for [`shown`].
unsafe fn binding<'a>(dispatch: *const rehal_dispatch_t, index: usize) -> Result<&'a AccessedRange<'a>> {
    // SAFETY: the caller guarantees it; the ranges live as long as the callback.
    let bindings = unsafe {
        let dispatch = shown(dispatch)?;
        list(dispatch.bindings.cast::<AccessedRange<'a>>(), dispatch.binding_count, "bindings")?
    };
    bindings.get(index).ok_or_else(|| {
        let count = bindings.len();
        Error::out_of_range(format!("binding {index} does not exist: the dispatch has {count}"))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_dispatch_info(
    dispatch: *const rehal_dispatch_t,
    info: *mut rehal_dispatch_info_t,
) -> *mut rehal_error_t {
    // SAFETY: what the caller gives is valid, as the header says.
    guard(|| unsafe { fill(info, &shown(dispatch)?.info) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_dispatch_binding(
    dispatch: *const rehal_dispatch_t,
    index: usize,
    info: *mut rehal_binding_info_t,
) -> *mut rehal_error_t {
    // SAFETY: as above.
    guard(|| unsafe {
        let it = binding(dispatch, index)?;
        let (buffer_id, offset, length) = (it.buffer_id, it.offset, it.length);
        fill(info, &rehal_binding_info_t { size: 0, buffer_id, offset, length })
    })
}

/// The place of bytes of a binding in its buffer.
fn part(binding: &AccessedRange<'_>, offset: u64, size: usize) -> Result<u64> {
    let fits = offset.checked_add(size as u64).is_some_and(|end| end <= binding.length);
    match fits {
        true => Ok(binding.offset + offset),
        false => Err(Error::out_of_range(format!(
            "{size} bytes at offset {offset} exceed the {} bytes of the binding",
            binding.length
        ))),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_dispatch_read(
    dispatch: *const rehal_dispatch_t,
    index: usize,
    offset: u64,
    target: *mut c_void,
    size: usize,
) -> *mut rehal_error_t {
    // SAFETY: as above.
    guard(|| unsafe {
        let binding = binding(dispatch, index)?;
        let at = part(binding, offset, size)?;
        transfer::read(binding.buffer, at, crate::structs::target(target, size)?)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_dispatch_write(
    dispatch: *const rehal_dispatch_t,
    index: usize,
    offset: u64,
    bytes: rehal_bytes_t,
) -> *mut rehal_error_t {
    // SAFETY: as above.
    guard(|| unsafe {
        let (binding, bytes) = (binding(dispatch, index)?, bytes.bytes()?);
        transfer::write(binding.buffer, part(binding, offset, bytes.len())?, bytes)
    })
}
