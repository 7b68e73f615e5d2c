//! The guard's report. Everything here runs in a signal handler: no allocation, no locks, no panics, only the functions
//! of signal-safety(7), and `nanosleep` (a system call) (<https://man7.org/linux/man-pages/man7/signal-safety.7.html>).

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rehal_base::{BackgroundWriter, CrashNote, DriverWork, is_shown};

use super::super::abi::DispatchState;
use super::super::library::Library;
use super::instruction::Feature;
use super::{
    ABORTS, CURRENT, Current, EXIT_STATUS, NO_RECORD, OFFSET, OPTIONS, RECORD, TIMEOUT_STATUS,
    TRUNCATED_STATUS, WRONG_MACHINE_STATUS,
};
use crate::platform::{self, EXIT, Fault};

/// Reports a fault of a kernel, or of a file that was truncated while it was mapped, and ends the process; returns if it
/// is neither.
pub(super) fn report(fault: &Fault<'_>) {
    report_truncation(fault);
    let current = CURRENT.get();
    if current.is_null() {
        return report_note(fault);
    }
    let mut text = Text::new();
    // SAFETY: a non-null pointer is to the `Current` that a live `Watch` of this thread borrows, and its
    // referents (library, dispatch, workgroup) are borrowed or owned by `Library::run`, whose frame is below
    // this handler's.
    unsafe { describe(&mut text, &*current, fault) };
    end_process_alone();
    platform::write_stderr(text.bytes());
    let status = if missing_feature(fault).is_some() { WRONG_MACHINE_STATUS } else { EXIT_STATUS };
    BackgroundWriter::await_all();
    platform::flush_after_crash(status);
    if ABORTS.get() {
        platform::abort_now();
    }
    platform::exit_now(status);
}

/// Why a thread is asked what it runs.
pub(super) enum Interruption {
    /// A dispatch runs for longer than this.
    Timeout(Duration),
    /// A signal ends the process.
    Signal,
}

/// What the calling thread runs, for an interruption at an instruction; `None` if it runs no kernel.
pub(super) fn interrupted(interruption: &Interruption, instruction: usize) -> Option<Text> {
    let current = CURRENT.get();
    let mut text = Text::new();
    match interruption {
        Interruption::Timeout(limit) => {
            text.push("DEADLINE_EXCEEDED; a dispatch has not completed within ").duration(*limit).push(": ");
        }
        Interruption::Signal => {
            text.push("note: interrupted in ");
        }
    }
    if current.is_null() {
        CrashNote::with_current(|what, _| {
            text.visible(what);
        })?;
        place(&mut text, None, Some(instruction));
    } else {
        // SAFETY: as in `report`.
        unsafe {
            function(&mut text, &*current);
            place(&mut text, Some(&*(*current).library), Some(instruction));
        }
    }
    advise_after(&mut text, interruption);
    Some(text)
}

/// Ends the process with a report of what the calling thread runs; returns if it runs no kernel.
pub(super) fn end_interrupted(interruption: &Interruption, instruction: usize) {
    if let Some(text) = interrupted(interruption, instruction) {
        end_process_alone();
        end_after_timeout(&text);
    }
}

/// The same if that is not known.
pub(super) fn end_unknown(interruption: &Interruption) -> ! {
    let mut text = Text::new();
    if let Interruption::Timeout(limit) = interruption {
        text.push("DEADLINE_EXCEEDED; a dispatch has not completed within ").duration(*limit);
    }
    advise_after(&mut text, interruption);
    end_process_alone();
    end_after_timeout(&text)
}

fn end_after_timeout(text: &Text) -> ! {
    platform::write_stderr(text.bytes());
    BackgroundWriter::await_all();
    platform::flush_after_crash(TIMEOUT_STATUS);
    if ABORTS.get() {
        platform::abort_now();
    }
    platform::exit_now(TIMEOUT_STATUS)
}

fn advise_after(text: &mut Text, interruption: &Interruption) {
    if let Interruption::Timeout(_) = interruption {
        text.push("\n  try: if the kernel never ends, correct it; otherwise allow it more time");
        if let Some(options) = OPTIONS.get() {
            text.push(": ").push(options.timeout);
        }
    }
    text.push("\n");
}

/// Whether a thread has reported a fault and is about to end the process.
static IS_ENDING: AtomicBool = AtomicBool::new(false);

/// The calling thread ends the process after its report; others that crash meanwhile, maybe as a consequence, wait for that in silence.
fn end_process_alone() {
    if IS_ENDING.swap(true, Ordering::AcqRel) {
        wait_for_end();
    }
}

/// Blocks the thread, which another one ends.
fn wait_for_end() -> ! {
    loop {
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// Reports a fault of other code that the thread has called: see [`CrashNote`].
fn report_note(fault: &Fault<'_>) {
    if fault.name == EXIT {
        return;
    }
    let mut text = Text::new();
    let is_noted = CrashNote::with_current(|what, advice| {
        text.push("INTERNAL; crashed with ").push(fault.name);
        if let Some(address) = fault.address {
            text.push(" at address ").hex(address as u64);
        }
        text.push(" while ").visible(what).push("\n  at: ");
        if RECORD.get() != NO_RECORD {
            text.push("record #").decimal(RECORD.get()).push(", offset ").decimal(OFFSET.get()).push(", ");
        }
        match fault.instruction {
            Some(address) => text.push("instruction at ").hex(address as u64),
            None => text.push("an unknown instruction"),
        };
        text.push("\n  try: ").push(advice).push("\n");
    });
    if is_noted.is_some() {
        end_process_alone();
        platform::write_stderr(text.bytes());
        BackgroundWriter::await_all();
        platform::flush_after_crash(EXIT_STATUS);
        platform::exit_now(EXIT_STATUS);
    }
    report_outside(fault);
    BackgroundWriter::await_all();
}

/// Says what may be the cause of a fault of our own code, or of a library, in a thread that has replayed records; the previous handler
/// then ends the process.
fn report_outside(fault: &Fault<'_>) {
    if IS_ENDING.load(Ordering::Acquire) {
        wait_for_end();
    }
    if RECORD.get() == NO_RECORD {
        return report_driver(fault);
    }
    let mut text = Text::new();
    text.push("INTERNAL; crashed with ").push(fault.name);
    if let Some(address) = fault.address {
        text.push(" at address ").hex(address as u64);
    }
    text.push(" outside of kernels\n  at: the last record of this thread is #")
        .decimal(RECORD.get())
        .push(", offset ")
        .decimal(OFFSET.get());
    text.push("\n  try: a kernel that writes outside of its bindings corrupts the memory of the process, and a verification names it; ");
    text.push("otherwise report an error of this tool\n");
    platform::write_stderr(text.bytes());
}

/// Says what a driver executes, if it may be the cause of a fault in a thread that has replayed nothing: see [`DriverWork`]. The previous
/// handler then ends the process.
fn report_driver(fault: &Fault<'_>) {
    let mut text = Text::new();
    let is_busy = DriverWork::with_last(|last| {
        text.push("INTERNAL; crashed with ").push(fault.name);
        if let Some(address) = fault.address {
            text.push(" at address ").hex(address as u64);
        }
        text.push(" in thread '");
        text.name_bytes(&platform::thread_name())
            .push("' while a device had work in flight\n  at: submitted last: ");
        text.visible(last);
        text.push("\n  try: if the thread is the driver's, a kernel has accessed memory outside of its bindings: addresses that kernels ");
        text.push("compute are not checked on a device that is software; run that kernel by itself, or on a CPU device\n");
    });
    if is_busy.is_some() {
        platform::write_stderr(text.bytes());
    }
}

/// Reports an access to a mapped page beyond the end of its file, by a kernel or a reader.
fn report_truncation(fault: &Fault<'_>) {
    let Some(address) = fault.address.filter(|_| fault.name == "SIGBUS") else { return };
    let mut text = Text::new();
    let is_mapped = rehal_base::mapped_file_at(address, |path, offset| {
        text.push("DATA_LOSS; '").name_bytes(path);
        text.push("' was truncated while it was mapped, or cannot be read (SIGBUS at offset ");
        text.decimal(offset as u64).push(")\n  try: run it again once nothing writes to the file; ");
        text.push("to replace a file that is in use, write a new one and rename it over the old\n");
    });
    if is_mapped.is_some() {
        end_process_alone();
        platform::write_stderr(text.bytes());
        BackgroundWriter::await_all();
        platform::exit_now(TRUNCATED_STATUS);
    }
}

/// The feature that the CPU lacks for the faulting instruction, if that is the cause.
fn missing_feature(fault: &Fault<'_>) -> Option<Feature> {
    if fault.name == "SIGILL" { Feature::of(fault.code) } else { None }
}

/// # Safety
/// The pointers of `current` are valid.
unsafe fn describe(text: &mut Text, current: &Current, fault: &Fault<'_>) {
    // SAFETY: valid per the caller.
    let (library, dispatch) = unsafe { (&*current.library, &*current.dispatch) };
    let code = if missing_feature(fault).is_some() { "INCOMPATIBLE" } else { "INTERNAL" };
    text.push(code).push("; a kernel ");
    text.push(if fault.name == EXIT { "called " } else { "crashed with " }).push(fault.name);
    match (fault.address, fault.name) {
        (Some(address), _) => text.push(" at address ").hex(address as u64),
        (None, "SIGABRT" | "SIGTRAP" | EXIT) => text,
        (None, _) => text.push(" at a non-canonical address"),
    };
    let is_access = matches!(fault.name, "SIGSEGV" | "SIGBUS");
    if fault.is_stack_overflow {
        text.push(", a stack overflow");
    } else if let Some(address) = fault.address.filter(|_| is_access) {
        // SAFETY: valid per the caller; a kernel that has changed the bindings has crashed after it.
        unsafe { near_binding(text, dispatch, address) };
    }
    text.push(": ");
    // SAFETY: valid per the caller.
    unsafe { function(text, current) };
    place(text, Some(library), fault.instruction);
    text.push("\n  try: ");
    advise(text, fault, current.stack_bytes);
    text.push("\n");
}

/// Says how far an address is from a binding, if it is near one.
///
/// # Safety
/// The pointers of `dispatch` are valid.
unsafe fn near_binding(text: &mut Text, dispatch: &DispatchState, address: usize) {
    /// How far an address may be: what is further away has little to do with it.
    const NEAR_BYTES: usize = 4 << 20;
    let mut nearest: Option<(usize, bool, u64, usize)> = None;
    for binding in 0..usize::from(dispatch.binding_count) {
        // SAFETY: valid per the caller, for as many bindings.
        let (start, length) = unsafe {
            let start: *mut std::ffi::c_void =
                dispatch.binding_ptrs.add(binding).cast::<*mut std::ffi::c_void>().read();
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

/// The function of a kernel and its workgroup.
///
/// # Safety
/// The pointers of `current` are valid.
unsafe fn function(text: &mut Text, current: &Current) {
    // SAFETY: valid per the caller. Only a broken kernel writes to the workgroup's state, and any bits are
    // valid integers.
    let (library, dispatch, workgroup) =
        unsafe { (&*current.library, &*current.dispatch, current.workgroup.read_volatile()) };
    let name = library.functions().get(current.ordinal as usize).map_or("", |function| &function.name);
    text.push("function '").name(name).push("' (").decimal(u64::from(current.ordinal)).push(") of ");
    match (&*library.label.label, &*library.label.name) {
        ("", name) => text.push("executable '").name(name).push("'"),
        (label, "") => text.name(label),
        (label, name) => text.name(label).push(" ('").name(name).push("')"),
    };
    let id = [workgroup.workgroup_id_x, workgroup.workgroup_id_y, u32::from(workgroup.workgroup_id_z)];
    let count =
        [dispatch.workgroup_count_x, dispatch.workgroup_count_y, u32::from(dispatch.workgroup_count_z)];
    text.push(", workgroup ").triple(id).push(" of ").triple(count);
}

/// The record that the thread replays, and the instruction, of a library if it is of a kernel.
fn place(text: &mut Text, library: Option<&Library>, instruction: Option<usize>) {
    text.push("\n  at: ");
    if RECORD.get() != NO_RECORD {
        text.push("record #").decimal(RECORD.get()).push(", offset ").decimal(OFFSET.get()).push(", ");
    }
    let memory = library.map(|it| it.label.memory.clone()).unwrap_or_default();
    match instruction {
        Some(address) if memory.contains(&address) => {
            text.push("instruction ").hex((address - memory.start) as u64).push(" of the executable")
        }
        Some(address) => text.push("instruction at ").hex(address as u64),
        None => text.push("exit(3) of the C library"),
    };
}

fn advise(text: &mut Text, fault: &Fault<'_>, stack_bytes: usize) {
    if fault.is_stack_overflow {
        text.push("the kernel needs more than its stack of ").decimal(stack_bytes as u64);
        text.push(" bytes: use less, as by smaller local arrays, or give kernels a larger one");
        if let Some(options) = OPTIONS.get() {
            text.push(": ").push(options.stack);
        }
        return;
    }
    match (fault.name, missing_feature(fault)) {
        ("SIGILL", Some(feature)) => text
            .push("this CPU lacks ")
            .push(feature.name())
            .push(", which the kernel uses: compile it for this CPU, or run it on one that has it"),
        ("SIGILL", None) => text.push(
            "the kernel reached an instruction that traps on purpose or that this CPU does not have: \
             compile it for this CPU",
        ),
        ("SIGTRAP", _) => text.push("the kernel reached a breakpoint: correct the kernel"),
        ("SIGABRT", _) => text.push(
            "the kernel aborted, as a failed assertion or a panic does: check what it prints, and the constants and inputs \
             it was given",
        ),
        (EXIT, _) => text.push("a kernel returns a status instead of ending the process: correct the kernel"),
        ("SIGFPE", _) => text.push("the kernel divided by zero: check the constants and inputs it was given"),
        _ if RECORD.get() == NO_RECORD => text.push(
            "the kernel accessed memory out of bounds of its bindings: check the module's inputs and the plugins that \
             it imports from",
        ),
        _ => text.push(
            "the kernel accessed memory out of bounds of its bindings: check that the executable fits the capture \
             (substitutions, sizes of bindings)",
        ),
    };
}

/// Text of limited length; excess bytes are dropped.
pub(super) struct Text {
    bytes: [u8; 2048],
    length: usize,
}

impl Text {
    fn new() -> Self {
        Self { bytes: [0; 2048], length: 0 }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }

    fn byte(&mut self, byte: u8) {
        if let Some(slot) = self.bytes.get_mut(self.length) {
            *slot = byte;
            self.length += 1;
        }
    }

    fn push(&mut self, text: &str) -> &mut Self {
        text.bytes().for_each(|byte| self.byte(byte));
        self
    }

    /// A name from an executable: control characters would reach the terminal.
    fn name(&mut self, name: &str) -> &mut Self {
        self.name_bytes(name.as_bytes())
    }

    fn name_bytes(&mut self, name: &[u8]) -> &mut Self {
        self.visible(&name[..name.len().min(256)])
    }

    fn visible(&mut self, bytes: &[u8]) -> &mut Self {
        for chunk in bytes.utf8_chunks() {
            for character in chunk.valid().chars() {
                let shown = if is_shown(character) { character } else { '?' };
                self.push(shown.encode_utf8(&mut [0; 4]));
            }
            self.push(if chunk.invalid().is_empty() { "" } else { "?" });
        }
        self
    }

    fn decimal(&mut self, value: u64) -> &mut Self {
        let mut divisor = 1;
        while value / divisor >= 10 {
            divisor *= 10;
        }
        while divisor > 0 {
            self.byte(b'0' + (value / divisor % 10) as u8);
            divisor /= 10;
        }
        self
    }

    fn hex(&mut self, value: u64) -> &mut Self {
        self.push("0x");
        let digits = (64 - value.leading_zeros()).div_ceil(4).max(1);
        for digit in (0..digits).rev() {
            let digit = (value >> (digit * 4) & 0xF) as u8;
            self.byte(if digit < 10 { b'0' + digit } else { b'a' + digit - 10 });
        }
        self
    }

    fn duration(&mut self, duration: Duration) -> &mut Self {
        match (duration.as_millis(), duration.subsec_millis()) {
            (_, 0) => self.decimal(duration.as_secs()).push(" s"),
            (milliseconds, _) => self.decimal(milliseconds as u64).push(" ms"),
        }
    }

    fn triple(&mut self, [x, y, z]: [u32; 3]) -> &mut Self {
        self.push("[").decimal(u64::from(x)).push(", ").decimal(u64::from(y)).push(", ");
        self.decimal(u64::from(z)).push("]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_formatted_as_the_standard_library_does() {
        for value in [0, 1, 9, 10, 11, 99, 100, 4095, 4096, u64::from(u32::MAX), u64::MAX] {
            let mut text = Text::new();
            text.decimal(value).push(" ").hex(value);
            assert_eq!(text.bytes(), format!("{value} {value:#x}").as_bytes());
        }
    }

    #[test]
    fn long_names_are_truncated_and_control_characters_replaced() {
        let mut text = Text::new();
        text.name("a\x1b[31m\n\u{9b}\u{202e}é")
            .push(" ")
            .name_bytes(b"\xff")
            .push(" ")
            .name(&"x".repeat(1000));
        assert_eq!(text.bytes(), format!("a?[31m???é ? {}", "x".repeat(256)).as_bytes());
        for _ in 0..100 {
            text.push("a hundred times more than what fits");
        }
        assert_eq!(text.bytes().len(), 2048);
    }
}
