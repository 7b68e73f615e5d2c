use std::any::Any;
use std::cell::Cell;

use rehal_base::{Context, Error, Result};
use rehal_hal::{Executable, ExecutableBackend, ExecutableParams, FunctionInfo};

use super::dispatch::{Dispatch, MemorySpan};
use super::library::{Library, LoadOptions};
use super::plugin::Plugins;

/// A loaded executable as the CPU drivers have it.
pub(crate) struct LocalExecutable {
    library: Library,
}

/// What a driver runs a function with.
pub(crate) struct DispatchArguments<'a> {
    pub(crate) workgroup_count: [u32; 3],
    pub(crate) workgroup_size: [u32; 3],
    pub(crate) constants: &'a [u32],
    pub(crate) bindings: &'a [MemorySpan],
}

impl LocalExecutable {
    /// Loads the executable; it asks `plugins` for what it imports.
    ///
    /// # Safety
    /// Runs the executable's code now and in [`LocalExecutable::run`]: the caller trusts it as it
    /// trusts its own, for whatever it will be dispatched with.
    pub(crate) unsafe fn prepare(params: &ExecutableParams<'_>, plugins: &Plugins) -> Result<Self> {
        let options =
            LoadOptions { label: params.label, constants: params.constants, providers: plugins.providers() };
        // SAFETY: the caller trusts the executable.
        let library = unsafe { Library::load(params.format, params.data, &options) }
            .context(|| format!("executable of format '{}'", params.format))?;
        Ok(Self { library })
    }

    /// The backend of an executable that this driver made.
    pub(crate) fn of(executable: &Executable) -> Result<&Self> {
        let backend = executable.backend().as_any().downcast_ref();
        backend.ok_or_else(|| Error::invalid_argument("the executable belongs to a device of another driver"))
    }

    /// Runs a function, with `dynamic_local_memory` bytes of local memory beyond what it asks for.
    pub(crate) fn run(
        &self,
        ordinal: u32,
        arguments: &DispatchArguments<'_>,
        dynamic_local_memory: u32,
    ) -> Result<()> {
        let static_bytes = self.library.local_memory_bytes(ordinal)? as usize;
        with_local_memory(static_bytes + dynamic_local_memory as usize, |local_memory| {
            let dispatch = Dispatch {
                workgroup_count: arguments.workgroup_count,
                workgroup_size: arguments.workgroup_size,
                constants: arguments.constants,
                bindings: arguments.bindings,
                local_memory,
                flush_denormals: true,
            };
            // SAFETY: whoever prepared the executable vouched for its code; the driver resolved the
            // bindings to ranges of live buffers, ordered by timepoints as the program demands.
            unsafe { self.library.dispatch(ordinal, dispatch) }
        })
    }
}

impl ExecutableBackend for LocalExecutable {
    fn name(&self) -> &str {
        self.library.name()
    }

    fn functions(&self) -> &[FunctionInfo] {
        self.library.functions()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// A cache line, which the vectors of kernels want local memory aligned to.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line {
    _bytes: [u8; 64],
}

thread_local! {
    /// Workgroup-local memory of dispatches that run on this thread, grown as they ask for it.
    static LOCAL_MEMORY: Cell<Vec<Line>> = const { Cell::new(Vec::new()) };
}

/// Calls `run` with `length` bytes of this thread's scratch memory, whatever they hold.
fn with_local_memory<T>(length: usize, run: impl FnOnce(&mut [u8]) -> T) -> T {
    if length == 0 {
        return run(&mut []);
    }
    // Taken and not borrowed: what runs may dispatch again.
    let mut lines = LOCAL_MEMORY.take();
    let count = length.div_ceil(size_of::<Line>());
    if lines.len() < count {
        lines.resize(count, Line { _bytes: [0; 64] });
    }
    // SAFETY: `lines` are initialized bytes without padding, `length` of them at least, and borrowed
    // by nobody else.
    let bytes = unsafe { std::slice::from_raw_parts_mut(lines.as_mut_ptr().cast::<u8>(), length) };
    let result = run(bytes);
    LOCAL_MEMORY.set(lines);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_memory_is_aligned_sized_and_nests() {
        with_local_memory(0, |bytes| assert!(bytes.is_empty()));
        with_local_memory(100, |outer| {
            assert_eq!((outer.len(), outer.as_ptr() as usize % 64), (100, 0));
            outer.fill(1);
            with_local_memory(5000, |inner| {
                assert_eq!(inner.len(), 5000);
                inner.fill(2);
            });
            assert!(outer.iter().all(|byte| *byte == 1));
        });
    }
}
