//! The kernel that a thread runs, as the report of its crash describes it.

use std::ffi::c_void;
use std::ops::Range;

use rehal_crash::{Running, Text};

use super::abi::{DispatchState, WorkgroupState};
use super::library::Library;
use super::processor;
use crate::platform;

/// The description of an executable in messages, built when it is loaded.
pub(super) struct Label {
    name: Box<str>,
    label: Box<str>,
    /// Addresses of its code, empty if known only to the system's loader.
    memory: Range<usize>,
}

impl Label {
    pub(super) fn new(name: &str, label: &str, memory: Range<usize>) -> Self {
        Self { name: name.into(), label: label.into(), memory }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

/// A dispatch that a thread is running, on that thread's stack.
pub(super) struct RunningKernel<'a> {
    library: &'a Library,
    ordinal: u32,
    dispatch: *const DispatchState,
    workgroup: *const WorkgroupState,
    /// The size of the stack that it runs on.
    stack_bytes: usize,
}

impl<'a> RunningKernel<'a> {
    /// # Safety
    /// The states, and the arrays that that of the dispatch points to, are valid as long as the result is
    /// used.
    pub(super) unsafe fn new(
        library: &'a Library,
        ordinal: u32,
        dispatch: *const DispatchState,
        workgroup: *const WorkgroupState,
        stack_bytes: usize,
    ) -> Self {
        Self { library, ordinal, dispatch, workgroup, stack_bytes }
    }
}

// SAFETY: the functions read memory and add to the text, which neither allocates nor locks nor panics. A
// kernel that has changed the states is broken, and the pointers of the dispatch's are read when it has
// crashed already.
unsafe impl Running for RunningKernel<'_> {
    fn describe_function(&self, text: &mut Text) {
        text.push("function '")
            .name(self.function())
            .push("' (")
            .decimal(u64::from(self.ordinal))
            .push(") of ");
        match (&*self.library.label.label, self.library.label.name()) {
            ("", name) => text.push("executable '").name(name).push("'"),
            (label, "") => text.name(label),
            (label, name) => text.name(label).push(" ('").name(name).push("')"),
        };
    }

    fn describe_workgroup(&self, text: &mut Text) {
        // SAFETY: valid per the caller of `new`. Only a broken kernel writes to the workgroup's state, and
        // any bits are valid integers.
        let (dispatch, workgroup) =
            unsafe { (self.dispatch.read_volatile(), self.workgroup.read_volatile()) };
        let id = [workgroup.workgroup_id_x, workgroup.workgroup_id_y, u32::from(workgroup.workgroup_id_z)];
        let count =
            [dispatch.workgroup_count_x, dispatch.workgroup_count_y, u32::from(dispatch.workgroup_count_z)];
        text.push("workgroup ").triple(id).push(" of ").triple(count);
    }

    fn function(&self) -> &str {
        self.library.functions().get(self.ordinal as usize).map_or("", |function| &function.name)
    }

    fn describe_address(&self, text: &mut Text, address: usize) {
        /// How far an address may be: what is further away has little to do with it.
        const NEAR_BYTES: usize = 4 << 20;
        // SAFETY: valid per the caller of `new`.
        let dispatch = unsafe { self.dispatch.read_volatile() };
        let mut nearest: Option<(usize, bool, u64, usize)> = None;
        for binding in 0..usize::from(dispatch.binding_count) {
            // SAFETY: valid per the caller of `new`, for as many bindings.
            let (start, length) = unsafe {
                let start: *mut c_void = dispatch.binding_ptrs.add(binding).cast::<*mut c_void>().read();
                (start.addr(), dispatch.binding_lengths.add(binding).read())
            };
            let end = start.saturating_add(length);
            let is_after = address >= end;
            if start == 0 || (!is_after && address >= start) {
                continue;
            }
            let distance = if is_after { address - end } else { start - address };
            let is_near = distance <= NEAR_BYTES.max(length);
            if is_near && nearest.is_none_or(|it| distance < it.0) {
                nearest = Some((distance, is_after, binding as u64, length));
            }
        }
        if let Some((distance, is_after, binding, length)) = nearest {
            text.push(", ").decimal(distance as u64);
            text.push(if is_after { " bytes after the end of binding " } else { " bytes before binding " });
            text.decimal(binding).push(" (").decimal(length as u64).push(" bytes)");
        }
    }

    fn code(&self) -> Range<usize> {
        self.library.label.memory.clone()
    }

    fn stack_bytes(&self) -> usize {
        self.stack_bytes
    }

    fn is_stack_overflow(&self, address: usize, stack_pointer: usize) -> bool {
        platform::is_stack_overflow(address, stack_pointer)
    }

    fn missing_feature(&self, code: &[u8]) -> Option<&'static str> {
        platform::missing_feature(code, processor::features())
    }
}
