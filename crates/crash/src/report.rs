//! The guard's report. Everything here runs in a signal handler: no allocation, no locks, no panics, only the
//! functions of signal-safety(7), and `nanosleep` (a system call)
//! (<https://man7.org/linux/man-pages/man7/signal-safety.7.html>).

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::context::{aborts, known_record};
use crate::guard::OPTIONS;
use crate::platform::{self, EXIT, Fault};
use crate::running::with_current;
use crate::{
    BackgroundWriter, BlackBox, CrashNote, DriverWork, EXIT_STATUS, Running, TIMEOUT_STATUS,
    TRUNCATED_STATUS, Text, WRONG_MACHINE_STATUS,
};

/// Reports a fault of a kernel, or of a file that was truncated while it was mapped, and ends the process;
/// returns if it is neither, and whether something was said about it.
pub(crate) fn report(fault: &Fault<'_>) -> bool {
    report_truncation(fault);
    let described = with_current(|kernel| {
        let mut text = Text::new();
        describe(&mut text, kernel, fault);
        (text, missing_feature(kernel, fault).is_some())
    });
    let Some((text, is_wrong_machine)) = described else { return report_note(fault) };
    end_process_alone();
    platform::write_stderr(text.bytes());
    let status = if is_wrong_machine { WRONG_MACHINE_STATUS } else { EXIT_STATUS };
    BackgroundWriter::await_all();
    platform::flush_after_crash(status);
    if aborts() {
        platform::abort_now();
    }
    platform::exit_now(status);
}

/// Why a thread is asked what it runs.
pub(crate) enum Interruption {
    /// A dispatch runs for longer than this.
    Timeout(Duration),
    /// A signal ends the process.
    Signal,
}

/// The text of the kernel that this thread runs, for an interruption at an instruction; `None` without one.
pub(crate) fn interrupted(interruption: &Interruption, instruction: usize) -> Option<Text> {
    let mut text = Text::new();
    match interruption {
        Interruption::Timeout(limit) => {
            text.push("DEADLINE_EXCEEDED; a dispatch has not completed within ").duration(*limit).push(": ");
        }
        Interruption::Signal => {
            text.push("note: interrupted in ");
        }
    }
    let is_kernel = with_current(|kernel| {
        describe_kernel(&mut text, kernel);
        place(&mut text, kernel.code(), Some(instruction));
    });
    if is_kernel.is_none() {
        CrashNote::with_current(|what, _| {
            text.visible(what);
        })?;
        place(&mut text, 0..0, Some(instruction));
    }
    advise_after(&mut text, interruption);
    Some(text)
}

/// Ends the process with a report of what the calling thread runs; returns if it runs no kernel.
pub(crate) fn end_interrupted(interruption: &Interruption, instruction: usize) {
    if let Some(text) = interrupted(interruption, instruction) {
        end_process_alone();
        end_after_timeout(&text);
    }
}

/// The same if that is not known. Not in a signal handler.
pub(crate) fn end_unknown(interruption: &Interruption) -> ! {
    let mut text = Text::new();
    if let Interruption::Timeout(limit) = interruption {
        text.push("DEADLINE_EXCEEDED; a dispatch has not completed within ").duration(*limit);
    }
    // A thread that blocks signals does not say what it runs, but has said so before.
    for thread in BlackBox::of_process().map_or_else(Vec::new, BlackBox::running) {
        text.push(": function '").push(&thread.function).push("'");
    }
    advise_after(&mut text, interruption);
    end_process_alone();
    end_after_timeout(&text)
}

fn end_after_timeout(text: &Text) -> ! {
    platform::write_stderr(text.bytes());
    BackgroundWriter::await_all();
    platform::flush_after_crash(TIMEOUT_STATUS);
    if aborts() {
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

/// The calling thread ends the process after its report; others that crash meanwhile, maybe as a consequence,
/// wait for that in silence.
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
fn report_note(fault: &Fault<'_>) -> bool {
    if fault.name == EXIT {
        return false;
    }
    let mut text = Text::new();
    let is_noted = CrashNote::with_current(|what, advice| {
        text.push("INTERNAL; crashed with ").push(fault.name);
        if let Some(address) = fault.address {
            text.push(" at address ").hex(address as u64);
        }
        text.push(" while ").visible(what).push("\n  at: ");
        record(&mut text);
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
    let is_said = report_outside(fault);
    BackgroundWriter::await_all();
    is_said
}

/// Says what may be the cause of a fault of our own code, or of a library, in a thread that has replayed
/// records; the previous handler then ends the process. Returns whether something was said.
fn report_outside(fault: &Fault<'_>) -> bool {
    if IS_ENDING.load(Ordering::Acquire) {
        wait_for_end();
    }
    let Some([ordinal, offset]) = known_record() else { return report_driver(fault) };
    let mut text = Text::new();
    text.push("INTERNAL; crashed with ").push(fault.name);
    if let Some(address) = fault.address {
        text.push(" at address ").hex(address as u64);
    }
    text.push(" outside of kernels\n  at: the last record of this thread is #")
        .decimal(ordinal)
        .push(", offset ")
        .decimal(offset);
    text.push("\n  try: a kernel that writes outside of its bindings corrupts the memory of the process, and a verification names it; ");
    text.push("otherwise report an error of this tool\n");
    platform::write_stderr(text.bytes());
    true
}

/// Says what a driver executes, if it may be the cause of a fault in a thread that has replayed nothing: see
/// [`DriverWork`]. The previous handler then ends the process. Returns whether something was said.
fn report_driver(fault: &Fault<'_>) -> bool {
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
    is_busy.is_some()
}

/// Reports an access to a mapped page beyond the end of its file, by a kernel or a reader.
fn report_truncation(fault: &Fault<'_>) {
    let Some(address) = fault.address.filter(|_| fault.name == "SIGBUS") else { return };
    let mut text = Text::new();
    let is_mapped = rehal_base::mapped_file_at(address, |path, offset| {
        text.push("DATA_LOSS; '").name_bytes(path);
        text.push("' was truncated while it was mapped, or cannot be read (SIGBUS at offset ");
        text.decimal(offset as u64).push(")");
        if let Some([ordinal, offset]) = known_record() {
            text.push("\n  at: record #").decimal(ordinal).push(", offset ").decimal(offset);
        }
        text.push("\n  try: run it again once nothing writes to the file; ");
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
fn missing_feature(kernel: &dyn Running, fault: &Fault<'_>) -> Option<&'static str> {
    if fault.name == "SIGILL" { kernel.missing_feature(fault.code) } else { None }
}

fn describe(text: &mut Text, kernel: &dyn Running, fault: &Fault<'_>) {
    let is_stack_overflow = is_stack_overflow(kernel, fault);
    let code = if missing_feature(kernel, fault).is_some() { "INCOMPATIBLE" } else { "INTERNAL" };
    text.push(code).push("; a kernel ");
    text.push(if fault.name == EXIT { "called " } else { "crashed with " }).push(fault.name);
    match (fault.address, fault.name) {
        (Some(address), _) => text.push(" at address ").hex(address as u64),
        (None, "SIGABRT" | "SIGTRAP" | EXIT) => text,
        (None, _) => text.push(" at a non-canonical address"),
    };
    if is_stack_overflow {
        text.push(", a stack overflow");
    } else if let Some(address) = fault.address.filter(|_| is_access(fault)) {
        kernel.describe_address(text, address);
    }
    text.push(": ");
    describe_kernel(text, kernel);
    place(text, kernel.code(), fault.instruction);
    text.push("\n  try: ");
    advise(text, kernel, fault);
    text.push("\n");
}

fn describe_kernel(text: &mut Text, kernel: &dyn Running) {
    kernel.describe_function(text);
    text.push(", ");
    kernel.describe_workgroup(text);
}

fn is_access(fault: &Fault<'_>) -> bool {
    matches!(fault.name, "SIGSEGV" | "SIGBUS")
}

fn is_stack_overflow(kernel: &dyn Running, fault: &Fault<'_>) -> bool {
    is_access(fault) && fault.accessed.is_some_and(|it| kernel.is_stack_overflow(it, fault.stack_pointer))
}

/// The record that the thread replays, if it replays one.
fn record(text: &mut Text) {
    if let Some([ordinal, offset]) = known_record() {
        text.push("record #").decimal(ordinal).push(", offset ").decimal(offset).push(", ");
    }
}

/// The record that the thread replays, and the instruction, of an executable if its code has it.
fn place(text: &mut Text, code: Range<usize>, instruction: Option<usize>) {
    text.push("\n  at: ");
    record(text);
    match instruction {
        Some(address) if code.contains(&address) => {
            text.push("instruction ").hex((address - code.start) as u64).push(" of the executable")
        }
        Some(address) => text.push("instruction at ").hex(address as u64),
        None => text.push("exit(3) of the C library"),
    };
}

fn advise(text: &mut Text, kernel: &dyn Running, fault: &Fault<'_>) {
    if is_stack_overflow(kernel, fault) {
        text.push("the kernel needs more than its stack of ").decimal(kernel.stack_bytes() as u64);
        text.push(" bytes: use less, as by smaller local arrays, or give kernels a larger one");
        if let Some(options) = OPTIONS.get() {
            text.push(": ").push(options.stack);
        }
        return;
    }
    match (fault.name, missing_feature(kernel, fault)) {
        ("SIGILL", Some(feature)) => text
            .push("this CPU lacks ")
            .push(feature)
            .push(", which the kernel uses: compile it for this CPU, or run it on one that has it"),
        ("SIGILL", None) => text.push(
            "the kernel reached an instruction that traps on purpose or that this CPU does not have: \
             compile it for this CPU",
        ),
        ("SIGTRAP", _) => text.push("the kernel reached a breakpoint, or traps on purpose: correct the kernel"),
        ("SIGABRT", _) => text.push(
            "the kernel aborted, as a failed assertion or a panic does: check what it prints, and the constants and inputs \
             it was given",
        ),
        (EXIT, _) => text.push("a kernel returns a status instead of ending the process: correct the kernel"),
        ("SIGFPE", _) => text.push("the kernel divided by zero: check the constants and inputs it was given"),
        _ if known_record().is_none() => text.push(
            "the kernel accessed memory out of bounds of its bindings: check the module's inputs and the plugins that \
             it imports from",
        ),
        _ => text.push(
            "the kernel accessed memory out of bounds of its bindings: check that the executable fits the capture \
             (substitutions, sizes of bindings)",
        ),
    };
}
