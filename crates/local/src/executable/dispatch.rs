//! Runs a function of an executable over all of its workgroups.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::ops::Range;

use rehal_base::{Error, Result, StatusCode};
use rehal_hal::FunctionInfo;

use super::abi::{self, DispatchState, WorkgroupState};
use super::library::Library;
use super::processor;
use super::running::RunningKernel;
use crate::place::{MemorySpan, Place};
use crate::platform::{KernelMode, KernelStack};

/// The arguments of a dispatch.
pub struct Dispatch<'a> {
    /// Number of workgroups in x, y and z; if any is 0, nothing runs. The ABI has 16 bits for z.
    pub workgroup_count: [u32; 3],
    /// Workgroup size in x, y and z; a zero means 1.
    pub workgroup_size: [u32; 3],
    /// As many 32-bit constants as the function declares.
    pub constants: &'a [u32],
    /// As many bindings as the function declares.
    pub bindings: &'a [MemorySpan],
    /// Scratch memory, at least [`Library::local_memory_bytes`], with arbitrary contents.
    pub local_memory: &'a mut [u8],
    /// Whether denormals are flushed to zero, as the reference does for command buffers.
    pub flush_denormals: bool,
    /// The size of the stack that workgroups run on, of which each thread has its own.
    pub stack_bytes: usize,
}

/// The size of the stack of kernels unless a program says more: that of the threads of `std`.
pub const STACK_BYTES: usize = 2 << 20;

impl Default for Dispatch<'_> {
    fn default() -> Self {
        Self {
            workgroup_count: [1; 3],
            workgroup_size: [0; 3],
            constants: &[],
            bindings: &[],
            local_memory: &mut [],
            flush_denormals: true,
            stack_bytes: STACK_BYTES,
        }
    }
}

/// The arguments with which a driver runs a function.
pub(crate) struct DispatchArguments<'a> {
    pub(crate) workgroup_count: [u32; 3],
    pub(crate) workgroup_size: [u32; 3],
    pub(crate) constants: &'a [u32],
    pub(crate) bindings: &'a [Place<'a>],
    /// Bytes of local memory in addition to the function's own requirement.
    pub(crate) dynamic_local_memory: u32,
}

/// Part of the workgroups of a dispatch, for one of the threads that run it.
///
/// Workgroups are numbered with x fastest, then y, then z.
pub struct Share<'a> {
    /// The number of threads that may run workgroups of the dispatch.
    pub concurrency: usize,
    /// The next workgroups to run, until there are none. They are below [`workgroup_total`].
    pub next: &'a mut dyn FnMut() -> Option<Range<u64>>,
}

/// A workgroup that failed, and why. Invalid arguments are a failure of the first workgroup.
pub struct WorkgroupFailure {
    /// Its number, as in [`Share`].
    pub workgroup: u64,
    /// The error, which names the function and the workgroup.
    pub error: Error,
}

impl From<Error> for WorkgroupFailure {
    fn from(error: Error) -> Self {
        Self { workgroup: 0, error }
    }
}

/// The number of workgroups, saturated: so many would not finish in a lifetime, even if empty.
pub fn workgroup_total(count: [u32; 3]) -> u64 {
    let [x, y, z] = count.map(u64::from);
    (x * y).saturating_mul(z)
}

/// Fails if a workgroup needs more local memory than a thread has.
#[inline]
pub(super) fn check_local_memory(function: &FunctionInfo, length: u64, limit: Option<u64>) -> Result<()> {
    match limit {
        Some(limit) if length > limit => Err(exceeds_local_memory(function, length, limit)),
        _ => Ok(()),
    }
}

#[cold]
fn exceeds_local_memory(function: &FunctionInfo, length: u64, limit: u64) -> Error {
    let name = function.name.escape_debug();
    Error::resource_exhausted(format!(
        "function '{name}' needs {length} bytes of local memory per workgroup, a worker has {limit}"
    ))
}

/// The workgroups of a range in order.
pub(super) struct Workgroups {
    next: [u32; 3],
    count: [u32; 3],
    left: u64,
}

impl Workgroups {
    /// The range must be within [`workgroup_total`] of `count`.
    pub(super) fn new(range: &Range<u64>, count: [u32; 3]) -> Self {
        let left = range.end.saturating_sub(range.start);
        // Most dispatches have few workgroups, and a division takes as long as a small one.
        if left == 0 || range.start == 0 {
            return Self { next: [0; 3], count, left };
        }
        let [x, y, _] = count.map(u64::from);
        let (row, column) = (range.start / x, range.start % x);
        Self { next: [column as u32, (row % y) as u32, (row / y) as u32], count, left }
    }
}

impl Iterator for Workgroups {
    type Item = [u32; 3];

    #[inline]
    fn next(&mut self) -> Option<[u32; 3]> {
        self.left = self.left.checked_sub(1)?;
        let workgroup = self.next;
        let [x, y, z] = &mut self.next;
        *x += 1;
        if *x == self.count[0] {
            (*x, *y) = (0, *y + 1);
            if *y == self.count[1] {
                (*y, *z) = (0, *z + 1);
            }
        }
        Some(workgroup)
    }
}

/// How workgroups run.
struct Mode<'a> {
    flush_denormals: bool,
    stack: &'a mut KernelStack,
    stack_bytes: usize,
}

/// Bindings in the ABI's layout: separate addresses and lengths. Only the used part is initialized.
struct BindingTable {
    ptrs: [MaybeUninit<*mut c_void>; abi::MAX_BINDING_COUNT],
    lengths: [MaybeUninit<usize>; abi::MAX_BINDING_COUNT],
}

impl Library {
    /// Runs function `ordinal` on the calling thread: workgroups one after another, x fastest, then y, then
    /// z. Stops at the first workgroup that fails.
    ///
    /// Fails with `OutOfRange` if the function does not exist or z exceeds 16 bits, with `InvalidArgument` if
    /// constants, bindings or local memory do not match the function, and with `Internal` if the kernel
    /// returns a non-zero value.
    ///
    /// # Safety
    /// Runs the executable's code, which trusts its arguments: each binding is valid for reads and writes of
    /// its length during the call, no other thread writes to it meanwhile, and it is large enough for the
    /// code with these constants and workgroups.
    pub unsafe fn dispatch(&self, ordinal: u32, dispatch: Dispatch<'_>) -> Result<()> {
        let mut all = Some(0..workgroup_total(dispatch.workgroup_count));
        let share = Share { concurrency: 1, next: &mut || all.take() };
        // SAFETY: guaranteed by the caller; only this thread runs workgroups.
        unsafe { self.dispatch_share(ordinal, dispatch, share) }.map_err(|failure| failure.error)
    }

    /// Like [`Library::dispatch`], for the workgroups of `share` only, in its order.
    ///
    /// # Safety
    /// As for [`Library::dispatch`], except that other threads may run other workgroups of the same dispatch
    /// meanwhile, each with its own local memory: the code accesses memory as workgroups that run
    /// concurrently must.
    pub unsafe fn dispatch_share(
        &self,
        ordinal: u32,
        dispatch: Dispatch<'_>,
        share: Share<'_>,
    ) -> Result<(), WorkgroupFailure> {
        let _timed = rehal_crash::Timed::begin();
        let function = self.function(ordinal)?;
        check(function, self.local_memory_bytes(ordinal)?, &dispatch)?;
        let mut table = BindingTable {
            ptrs: [MaybeUninit::uninit(); abi::MAX_BINDING_COUNT],
            lengths: [MaybeUninit::uninit(); abi::MAX_BINDING_COUNT],
        };
        for ((pointer, length), binding) in
            table.ptrs.iter_mut().zip(&mut table.lengths).zip(dispatch.bindings)
        {
            pointer.write(binding.pointer.cast::<c_void>());
            length.write(binding.length_bytes);
        }
        let [count_x, count_y, count_z] = dispatch.workgroup_count;
        let [size_x, size_y, size_z] = dispatch.workgroup_size.map(|size| size.max(1));
        let state = DispatchState {
            workgroup_size_x: size_x,
            workgroup_size_y: size_y,
            workgroup_size_z: size_z as u16,
            constant_count: function.constant_count,
            workgroup_count_x: count_x,
            workgroup_count_y: count_y,
            workgroup_count_z: count_z as u16,
            max_concurrency: u8::try_from(share.concurrency).unwrap_or(u8::MAX),
            binding_count: function.binding_count as u8,
            constants: dispatch.constants.as_ptr(),
            binding_ptrs: table.ptrs.as_ptr().cast(),
            binding_lengths: table.lengths.as_ptr().cast(),
        };
        let Dispatch { local_memory, flush_denormals, stack_bytes, .. } = dispatch;
        let mut stack = KernelStack::take(stack_bytes)
            .map_err(|error| Error::io("allocating the stack of kernels", &error))?;
        // SAFETY: the state's arrays have the function's counts (`check`) and outlive the call; the rest is
        // guaranteed by the caller.
        let failed = unsafe {
            let mode = Mode { flush_denormals, stack: &mut stack, stack_bytes };
            self.run(ordinal, &state, local_memory, mode, share.next)
        };
        stack.give_back();
        match failed {
            None => Ok(()),
            Some((code, workgroup)) => Err(failure(function, code, workgroup, &state)),
        }
    }

    /// Runs one workgroup of function `ordinal` and returns the kernel's result, 0 for success. For drivers
    /// that distribute workgroups over threads.
    ///
    /// # Safety
    /// `ordinal` is below [`Library::function_count`]; `dispatch` has the function's counts of constants and
    /// bindings; the rest as for [`Library::dispatch`].
    #[inline]
    pub unsafe fn dispatch_workgroup(
        &self,
        ordinal: u32,
        dispatch: &DispatchState,
        workgroup: &WorkgroupState,
    ) -> c_int {
        // SAFETY: the table has code for every function (`query::read`); the ABI allows the library to
        // replace it, so it is read each time; the rest is guaranteed by the caller.
        unsafe {
            match *(*self.table).exports.ptrs.add(ordinal as usize) {
                Some(function) => function(&raw const *self.environment, dispatch, workgroup),
                None => StatusCode::Unavailable as c_int,
            }
        }
    }

    /// Runs the workgroups of `next`; returns the first that fails with its result.
    ///
    /// # Safety
    /// As for [`Library::dispatch_workgroup`].
    unsafe fn run(
        &self,
        ordinal: u32,
        state: &DispatchState,
        local_memory: &mut [u8],
        mode: Mode<'_>,
        next: &mut dyn FnMut() -> Option<Range<u64>>,
    ) -> Option<(c_int, [u32; 3])> {
        let empty = local_memory.is_empty();
        let mut workgroup = WorkgroupState {
            workgroup_id_x: 0,
            workgroup_id_y: 0,
            workgroup_id_z: 0,
            reserved: 0,
            processor_id: processor::id(),
            local_memory: if empty { std::ptr::null_mut() } else { local_memory.as_mut_ptr().cast() },
            local_memory_size: u32::try_from(local_memory.len()).unwrap_or(u32::MAX),
        };
        let workgroup = &raw mut workgroup;
        let Mode { flush_denormals, stack, stack_bytes } = mode;
        // SAFETY: the states, and what that of the dispatch points to, are valid until this returns.
        let kernel = unsafe { RunningKernel::new(self, ordinal, state, workgroup, stack_bytes) };
        let count = [state.workgroup_count_x, state.workgroup_count_y, u32::from(state.workgroup_count_z)];
        while let Some(range) = next() {
            // Only around kernels: a fault in `next` is not the kernel's.
            let _mode = KernelMode::enter(flush_denormals);
            let mut failed = None;
            rehal_crash::run(&kernel, || {
                stack.run(|| {
                    for id @ [x, y, z] in Workgroups::new(&range, count) {
                        // SAFETY: the pointer is to a local variable that only this loop modifies; the kernel
                        // and the crash guard only read it.
                        let code = unsafe {
                            (*workgroup).workgroup_id_x = x;
                            (*workgroup).workgroup_id_y = y;
                            (*workgroup).workgroup_id_z = z as u16;
                            self.dispatch_workgroup(ordinal, state, &*workgroup)
                        };
                        if code != 0 {
                            failed = Some((code, id));
                            return;
                        }
                    }
                });
            });
            if failed.is_some() {
                return failed;
            }
        }
        None
    }
}

/// Checks what the kernel relies on: its local memory and its arguments.
fn check(function: &FunctionInfo, local_memory_bytes: u32, dispatch: &Dispatch<'_>) -> Result<()> {
    let counts = (dispatch.constants.len(), dispatch.bindings.len());
    check_arguments(function, counts, dispatch.workgroup_count, dispatch.workgroup_size)?;
    if (local_memory_bytes as usize) > dispatch.local_memory.len() {
        let (expected, found) = (local_memory_bytes as usize, dispatch.local_memory.len());
        return Err(mismatch(function, "bytes of local memory", expected, found));
    }
    Ok(())
}

/// Checks the numbers of constants and bindings against the function's, and z against the 16 bits of the ABI.
pub(super) fn check_arguments(
    function: &FunctionInfo,
    (constants, bindings): (usize, usize),
    workgroup_count: [u32; 3],
    workgroup_size: [u32; 3],
) -> Result<()> {
    if constants != usize::from(function.constant_count) {
        return Err(mismatch(function, "constants", function.constant_count.into(), constants));
    }
    if bindings != usize::from(function.binding_count) {
        return Err(mismatch(function, "bindings", function.binding_count.into(), bindings));
    }
    let limit = u32::from(u16::MAX);
    if workgroup_count[2] > limit || workgroup_size[2] > limit {
        return Err(too_deep(function, workgroup_count, workgroup_size));
    }
    Ok(())
}

#[cold]
fn mismatch(function: &FunctionInfo, what: &str, expected: usize, found: usize) -> Error {
    let name = function.name.escape_debug();
    Error::invalid_argument(format!("function '{name}' takes {expected} {what}, {found} were provided"))
}

#[cold]
fn too_deep(function: &FunctionInfo, count: [u32; 3], size: [u32; 3]) -> Error {
    let name = function.name.escape_debug();
    Error::out_of_range(format!(
        "dispatch of '{name}': workgroup count {count:?} of size {size:?} exceeds 65535 in z"
    ))
}

#[cold]
fn failure(
    function: &FunctionInfo,
    code: c_int,
    workgroup: [u32; 3],
    state: &DispatchState,
) -> WorkgroupFailure {
    let name = function.name.escape_debug();
    let error = Error::new(
        StatusCode::Internal,
        format!("function '{name}' failed in workgroup {workgroup:?}: it returned {code}"),
    )
    .advise("a kernel returns 0 on success, and another number if it refuses its inputs; a stub returns 1 until it has a body");
    let count = [state.workgroup_count_x, state.workgroup_count_y, u32::from(state.workgroup_count_z)];
    WorkgroupFailure { workgroup: number_of(workgroup, count), error }
}

/// The number of a workgroup, as in [`Share`].
pub(super) fn number_of(workgroup: [u32; 3], count: [u32; 3]) -> u64 {
    let [x, y, z] = workgroup.map(u64::from);
    (z * u64::from(count[1]) + y) * u64::from(count[0]) + x
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_cover_the_workgroups_with_x_fastest() {
        let count = [3, 2, 4];
        let all: Vec<_> = Workgroups::new(&(0..workgroup_total(count)), count).collect();
        assert_eq!(
            (all.len(), all[0], all[3], all[7], all[23]),
            (24, [0; 3], [0, 1, 0], [1, 0, 1], [2, 1, 3])
        );
        for (number, workgroup) in all.iter().enumerate() {
            assert_eq!(number_of(*workgroup, count), number as u64);
        }
        for (start, end) in [(0, 24), (5, 6), (7, 20), (24, 24), (9, 9)] {
            let part: Vec<_> = Workgroups::new(&(start..end), count).collect();
            assert_eq!(part, all[start as usize..end as usize]);
        }
        assert_eq!(Workgroups::new(&(0..0), [0, 5, u32::MAX]).count(), 0);
        assert_eq!(workgroup_total([0, u32::MAX, u32::MAX]), 0);
        assert_eq!(workgroup_total([u32::MAX; 3]), u64::MAX);
        let last = u64::from(u32::MAX) * u64::from(u32::MAX) - 1;
        let mut end = Workgroups::new(&(last..last + 1), [u32::MAX, u32::MAX, 1]);
        assert_eq!((end.next(), end.next()), (Some([u32::MAX - 1, u32::MAX - 1, 0]), None));
    }
}
