use std::any::Any;
use std::cell::Cell;
use std::time::Instant;

use rehal_base::{Context, Error, Overrun, Result};
use rehal_hal::{
    Executable, ExecutableBackend, ExecutableParams, FunctionInfo, HostMemory, PerfMap, WorkgroupSchedule,
};
use smallvec::SmallVec;

use super::cost::{Cost, Costs};
use super::dispatch::{
    Dispatch, DispatchArguments, Share, WorkgroupFailure, check_local_memory, workgroup_total,
};
use super::format::Format;
use super::library::{Library, LoadOptions};
use super::plugin::Plugins;
use super::schedule::Scheduled;
use super::vmvx::VmvxExecutable;
use crate::emulator::{EmulatedExecutable, Emulation};
use crate::place::{MemorySpan, Place};
use crate::profile::WorkgroupClock;

/// A loaded executable of a CPU driver.
pub(crate) struct LocalExecutable {
    code: Code,
    /// The costs of the workgroups of each function, if measured.
    costs: Option<Costs>,
    options: ExecutableOptions,
    workgroups: WorkgroupSchedule,
}

enum Code {
    /// Machine code.
    Native(Library),
    /// A VM program.
    Vmvx(VmvxExecutable),
    /// Code for a GPU, which is emulated.
    Emulated(EmulatedExecutable),
    /// Functions whose dispatches do nothing.
    Described(Vec<FunctionInfo>),
}

/// How a device runs its executables.
#[derive(Clone, Copy)]
pub(crate) struct ExecutableOptions {
    /// Whether dispatches are measured.
    pub(crate) measures: bool,
    /// The bytes of local memory that a thread has; `None` for as many as it takes.
    pub(crate) local_memory_limit: Option<u64>,
    /// The size of the stack that kernels run on.
    pub(crate) stack_bytes: usize,
    /// Whether what is next to the buffers of a dispatch is looked at afterwards.
    pub(crate) checks_overruns: bool,
    /// The files that describe the code, which are open.
    pub(crate) perf_map: Option<PerfMap>,
}

impl LocalExecutable {
    /// Loads the executable; `plugins` resolve the imports of native code.
    ///
    /// # Safety
    /// Runs the executable's code now and in [`LocalExecutable::run`]. If it is native, the caller trusts it
    /// as its own code, with any arguments it is dispatched with.
    pub(crate) unsafe fn prepare(
        params: &ExecutableParams<'_>,
        plugins: &Plugins,
        options: ExecutableOptions,
    ) -> Result<Self> {
        let in_format = || format!("executable of format '{}'", params.format);
        if let Format::Vmvx = Format::from_name(params.format).context(in_format)? {
            let executable = VmvxExecutable::load(params, None).context(in_format)?;
            return Ok(Self::new(Code::Vmvx(executable), params.workgroups, options));
        }
        let load = LoadOptions {
            label: params.label,
            constants: params.constants,
            providers: plugins.providers(),
            perf_map: options.perf_map,
        };
        // SAFETY: the caller trusts the executable.
        let library = unsafe { Library::load(params.format, params.data, &load) }.context(in_format)?;
        Ok(Self::new(Code::Native(library), params.workgroups, options))
    }

    /// Code for a GPU.
    pub(crate) fn emulated(
        params: &ExecutableParams<'_>,
        emulation: Emulation,
        options: ExecutableOptions,
    ) -> Result<Self> {
        let executable = EmulatedExecutable::load(params, emulation);
        let executable = executable.context(|| format!("executable of format '{}'", params.format))?;
        Ok(Self::new(Code::Emulated(executable), params.workgroups, options))
    }

    /// An executable as data.
    pub(crate) fn described(functions: Vec<FunctionInfo>, options: ExecutableOptions) -> Self {
        Self::new(Code::Described(functions), WorkgroupSchedule::All, options)
    }

    fn new(code: Code, workgroups: WorkgroupSchedule, options: ExecutableOptions) -> Self {
        let costs = options.measures.then(|| match &code {
            Code::Native(library) => library.costs(),
            Code::Vmvx(executable) => executable.functions().iter().map(|_| Cost::default()).collect(),
            Code::Emulated(executable) => executable.functions().iter().map(|_| Cost::default()).collect(),
            Code::Described(functions) => functions.iter().map(|_| Cost::default()).collect(),
        });
        Self { code, costs, options, workgroups }
    }

    /// The backend of an executable created by this driver.
    #[inline]
    pub(crate) fn of(executable: &Executable) -> Result<&Self> {
        (executable.backend() as &dyn Any).downcast_ref().ok_or_else(of_another_driver)
    }

    /// Its machine code.
    pub(super) fn library(&self) -> Option<&Library> {
        match &self.code {
            Code::Native(library) => Some(library),
            Code::Vmvx(_) | Code::Emulated(_) | Code::Described(_) => None,
        }
    }

    /// Runs a function over all of its workgroups, timed by `clock`.
    pub(crate) fn run(
        &self,
        ordinal: u32,
        arguments: &DispatchArguments<'_>,
        clock: Option<&WorkgroupClock>,
    ) -> Result<()> {
        let workgroups = workgroup_total(arguments.workgroup_count);
        let mut all = Some(0..workgroups);
        let mut next = || {
            let taken = all.take();
            if let Some(clock) = clock {
                if taken.is_some() { clock.start() } else { clock.stop(workgroups) }
            }
            taken
        };
        let share = Share { concurrency: 1, next: &mut next };
        let measured = self.cost(ordinal).filter(|cost| cost.is_due()).map(|cost| (cost, Instant::now()));
        let outcome = self.run_share(ordinal, arguments, share);
        if let Some((cost, start)) = measured {
            cost.add(workgroups, start.elapsed());
        }
        outcome.map_err(|failure| failure.error)
    }

    /// Runs the workgroups of `share`, as scheduled. Other threads may run other workgroups of the dispatch
    /// meanwhile.
    pub(crate) fn run_share(
        &self,
        ordinal: u32,
        arguments: &DispatchArguments<'_>,
        share: Share<'_>,
    ) -> Result<(), WorkgroupFailure> {
        if self.workgroups == WorkgroupSchedule::All {
            return self.run_all(ordinal, arguments, share);
        }
        let mut scheduled = Scheduled::new(self.workgroups, workgroup_total(arguments.workgroup_count));
        let Share { concurrency, next } = share;
        let share = Share { concurrency, next: &mut || scheduled.next(next) };
        self.run_all(ordinal, arguments, share)
    }

    fn run_all(
        &self,
        ordinal: u32,
        arguments: &DispatchArguments<'_>,
        share: Share<'_>,
    ) -> Result<(), WorkgroupFailure> {
        match &self.code {
            Code::Native(library) => run_native(library, ordinal, arguments, self.options, share),
            Code::Vmvx(executable) => {
                executable.run_share(ordinal, arguments, self.options.local_memory_limit, share)
            }
            Code::Emulated(executable) => executable.run_share(ordinal, arguments, share),
            Code::Described(_) => Ok(()),
        }
    }

    /// The cost of a workgroup of the function, if measured.
    pub(crate) fn cost(&self, ordinal: u32) -> Option<&Cost> {
        self.costs.as_ref()?.get(ordinal as usize)
    }
}

#[cold]
fn of_another_driver() -> Error {
    Error::invalid_argument("the executable belongs to a device of another driver")
}

fn run_native(
    library: &Library,
    ordinal: u32,
    arguments: &DispatchArguments<'_>,
    options: ExecutableOptions,
    share: Share<'_>,
) -> Result<(), WorkgroupFailure> {
    let mut bindings = SmallVec::<[MemorySpan; 8]>::new();
    for place in arguments.bindings {
        bindings.push(place.span());
    }
    let function = library.function(ordinal)?;
    let static_bytes = u64::from(library.local_memory_bytes(ordinal)?);
    let length = static_bytes + u64::from(arguments.dynamic_local_memory);
    check_local_memory(function, length, options.local_memory_limit)?;
    let overrun = with_local_memory(length, options.checks_overruns, |local_memory| {
        let dispatch = Dispatch {
            workgroup_count: arguments.workgroup_count,
            workgroup_size: arguments.workgroup_size,
            constants: arguments.constants,
            bindings: &bindings,
            local_memory,
            flush_denormals: true,
            stack_bytes: options.stack_bytes,
        };
        // SAFETY: the caller of `prepare` vouched for the code; the driver resolved the bindings to ranges of
        // live buffers, ordered by timepoints as the program requires; local memory is this thread's.
        unsafe { library.dispatch_share(ordinal, dispatch, share) }
    })?;
    match overrun {
        _ if !options.checks_overruns => Ok(()),
        Some(Overrun { is_after, .. }) => {
            let side = if is_after { "after the end of" } else { "before the start of" };
            Err(wrote(function, &format!("{side} its {length} bytes of workgroup-local memory")).into())
        }
        None => check_overruns(function, arguments.bindings),
    }
}

/// Fails if bytes next to a buffer that is bound were written, which belong to no buffer: see
/// [`HostMemory::allocate_guarded`].
fn check_overruns(function: &FunctionInfo, bindings: &[Place<'_>]) -> Result<(), WorkgroupFailure> {
    for place in bindings {
        let Some(Overrun { is_after, addresses }) = place.take_overrun() else { continue };
        // Other buffers are further away.
        let spans = bindings.iter().map(|it| it.span()).enumerate();
        let end = |it: &MemorySpan| it.pointer.addr() + it.length_bytes;
        let nearest = match is_after {
            true => spans.filter(|(_, it)| end(it) <= addresses.start).max_by_key(|(_, it)| end(it)),
            false => spans
                .filter(|(_, it)| it.pointer.addr() >= addresses.end)
                .min_by_key(|(_, it)| it.pointer.addr()),
        };
        let Some((binding, span)) = nearest else { continue };
        let at = |address: usize| address as i64 - span.pointer.addr() as i64;
        let (first, last) = (at(addresses.start), at(addresses.end - 1));
        let side = if is_after { "after the end of" } else { "before the start of" };
        let written = format!("binding {binding} of {} bytes: bytes {first} to {last}", span.length_bytes);
        return Err(wrote(function, &format!("{side} {written}")).into());
    }
    Ok(())
}

#[cold]
fn wrote(function: &FunctionInfo, place: &str) -> Error {
    let name = function.name.escape_debug();
    Error::out_of_range(format!("function '{name}' wrote {place}"))
        .advise("a kernel may write only its bindings: correct its indices, and the sizes that it assumes")
}

impl ExecutableBackend for LocalExecutable {
    fn name(&self) -> &str {
        match &self.code {
            Code::Native(library) => library.name(),
            Code::Vmvx(executable) => executable.name(),
            Code::Emulated(_) | Code::Described(_) => "",
        }
    }

    fn functions(&self) -> &[FunctionInfo] {
        match &self.code {
            Code::Native(library) => library.functions(),
            Code::Vmvx(executable) => executable.functions(),
            Code::Emulated(executable) => executable.functions(),
            Code::Described(functions) => functions,
        }
    }

    fn lookup(&self, name: &str) -> Option<u32> {
        FunctionInfo::find(self.functions(), name)
    }
}

/// Local memory beyond this size is freed after the dispatch. Compiled kernels require a few pages.
const KEPT_LOCAL_MEMORY_BYTES: u64 = 1 << 20;

thread_local! {
    /// Workgroup-local memory of dispatches on this thread, grown on demand.
    static LOCAL_MEMORY: Cell<Option<HostMemory>> = const { Cell::new(None) };
}

/// Calls `run` with `length` bytes of this thread's scratch memory, with arbitrary contents. Returns what was
/// written next to that memory, if it is to be `guarded`. Fails if the allocation fails.
fn with_local_memory<E: From<Error>>(
    length: u64,
    guarded: bool,
    run: impl FnOnce(&mut [u8]) -> Result<(), E>,
) -> Result<Option<Overrun>, E> {
    if length == 0 {
        return run(&mut []).map(|()| None);
    }
    // Taken instead of borrowed: `run` may dispatch again.
    let mut memory = match LOCAL_MEMORY.take() {
        Some(memory) if !guarded && memory.length() >= length => memory,
        _ => match guarded {
            true => HostMemory::allocate_guarded(length, 0, None),
            false => HostMemory::allocate(length),
        }
        .context(|| "workgroup-local memory".to_owned())?,
    };
    let Some(bytes) = memory.exclusive_bytes().and_then(|bytes| bytes.get_mut(..length as usize)) else {
        return Err(
            Error::new(rehal_base::StatusCode::Internal, "workgroup-local memory has other owners").into()
        );
    };
    let result = run(bytes);
    let overrun = if guarded { memory.take_overrun() } else { None };
    if !guarded && memory.length() <= KEPT_LOCAL_MEMORY_BYTES {
        LOCAL_MEMORY.set(Some(memory));
    }
    result.map(|()| overrun)
}

#[cfg(test)]
mod tests {
    use super::with_local_memory as with_local_memory_or;
    use super::*;

    fn with_local_memory(length: u64, run: impl FnOnce(&mut [u8]) -> Result<()>) -> Result<()> {
        with_local_memory_or(length, false, run).map(|overrun| assert_eq!(overrun, None))
    }

    #[test]
    fn local_memory_is_aligned_sized_and_nests() -> Result<()> {
        with_local_memory(0, |bytes| {
            assert!(bytes.is_empty());
            Ok(())
        })?;
        with_local_memory(100, |outer| {
            assert_eq!((outer.len(), outer.as_ptr() as usize % 64), (100, 0));
            outer.fill(1);
            with_local_memory(5000, |inner| {
                assert_eq!(inner.len(), 5000);
                inner.fill(2);
                Ok(())
            })?;
            assert!(outer.iter().all(|byte| *byte == 1));
            Ok(())
        })
    }

    /// A capture may request 4 GiB (a single bit flip does): untouched memory must cost nothing, a failed
    /// allocation must be an error, and neither may leak.
    #[test]
    fn excessive_local_memory_is_an_error_and_large_scratch_is_freed() {
        let error = with_local_memory(1 << 62, |_| Ok(())).unwrap_err();
        assert_eq!(error.code(), rehal_base::StatusCode::ResourceExhausted);
        with_local_memory(KEPT_LOCAL_MEMORY_BYTES + 1, |_| Ok(())).unwrap();
        assert!(LOCAL_MEMORY.take().is_none());
        with_local_memory(KEPT_LOCAL_MEMORY_BYTES, |_| Ok(())).unwrap();
        assert!(LOCAL_MEMORY.take().is_some());
    }
}
