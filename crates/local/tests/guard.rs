//! The crash guard, in child processes: this binary runs itself.
#![allow(unsafe_code, reason = "runs the libraries that it compiled, and crashes on purpose")]
#![cfg(all(target_os = "linux", any(target_arch = "aarch64", target_arch = "x86_64")))]

mod support;

use std::os::unix::process::ExitStatusExt;
use std::process::Output;
use std::time::Duration;

use rehal_base::StatusCode;
use rehal_local::executable::{Dispatch, Library, LoadOptions, MemorySpan};
use rehal_local::{LocalSync, LocalSyncOptions, LocalTask, LocalTaskOptions};
use support::{EMBEDDED, Link, compile, own_program};

const CASE: &str = "REHAL_TEST_GUARD_CASE";

/// Not a test: the child process of the other tests.
#[test]
fn child() {
    let Ok(case) = std::env::var(CASE) else { return };
    rehal_crash::install();
    match case.as_str() {
        // SAFETY: crashes on purpose, outside of kernels.
        "host" => unsafe { std::ptr::without_provenance::<u32>(16).read_volatile() },
        "host breakpoint" => {
            // SAFETY: changes nothing; outside of kernels.
            unsafe {
                #[cfg(target_arch = "aarch64")]
                std::arch::asm!("brk #0xf000");
                #[cfg(target_arch = "x86_64")]
                std::arch::asm!("int3");
            }
            0
        }
        "corrupted" => {
            rehal_crash::set_context(31, 7536);
            std::process::abort()
        }
        // As a user would end the process. Rust's own handler lets the first one pass.
        "sent" => (0..2).fold(0, |_, _| {
            // SAFETY: sends a signal to this thread and touches no memory.
            unsafe { libc::raise(libc::SIGSEGV) as u32 }
        }),
        // A thread with a small stack of its own, which arms itself.
        thread if thread.starts_with("thread ") => {
            let kernel = thread["thread ".len()..].to_owned();
            let builder = std::thread::Builder::new().stack_size(256 << 10);
            builder.spawn(move || run(&kernel)).unwrap().join().unwrap();
            0
        }
        "endless" => {
            rehal_crash::end_after(Duration::from_secs(3600)).unwrap();
            rehal_crash::end_after(Duration::from_millis(30)).unwrap();
            run("endless")
        }
        // As a software driver would crash, in a thread of its own.
        "driver" | "idle driver" => {
            let work = rehal_crash::DriverWork::new(&["dispatch of '", "f\u{1b}", "'"]);
            let _work = (case == "driver").then_some(work);
            rehal_crash::set_context(31, 7536);
            // SAFETY: the function has the type of a thread's, and takes no argument.
            unsafe {
                let mut thread = std::mem::zeroed();
                libc::pthread_create(&mut thread, std::ptr::null(), crash_thread, std::ptr::null_mut());
                libc::pthread_join(thread, std::ptr::null_mut());
            }
            0
        }
        "noted" => {
            rehal_crash::set_context(31, 7536);
            let _note = rehal_crash::CrashNote::new(&["compiling function 'f\u{1b}'"], "compile another");
            // SAFETY: crashes on purpose, as a driver would.
            unsafe { std::ptr::without_provenance::<u32>(16).read_volatile() }
        }
        "noted abort" => {
            let _note = rehal_crash::CrashNote::new(&["compiling function 'g'"], "compile another");
            std::process::abort()
        }
        // The query function crashes.
        "load" => {
            let bytes = compile("library.c", Link::Embedded, &["-DCRASHES_AT_LOAD"]);
            let options = LoadOptions { label: "executable 4", ..LoadOptions::default() };
            // SAFETY: crashes on purpose.
            unsafe { Library::load(EMBEDDED, &bytes, &options) }.map_or(0, |_| 1)
        }
        kernel => run(kernel),
    };
    panic!("'{case}' did not end the process");
}

/// A thread of a library in C: without a signal stack.
extern "C" fn crash_thread(_: *mut libc::c_void) -> *mut libc::c_void {
    // SAFETY: the name ends in a zero byte. Crashes on purpose.
    unsafe {
        libc::prctl(libc::PR_SET_NAME, c"a driver".as_ptr());
        std::ptr::without_provenance::<*mut libc::c_void>(16).read_volatile()
    }
}

fn run(kernel: &str) -> u32 {
    let bytes = compile("library.c", Link::Embedded, &["-DLIMITS"]);
    let options = LoadOptions { label: "executable 4", ..LoadOptions::default() };
    // SAFETY: the test's own code.
    let library = unsafe { Library::load(EMBEDDED, &bytes, &options) }.unwrap();
    let ordinal = library.lookup(kernel).unwrap();
    let bindings = [MemorySpan { pointer: std::ptr::null_mut(), length_bytes: 4 }];
    let count = usize::from(library.function(ordinal).unwrap().binding_count);
    rehal_crash::set_context(31, 7536);
    let dispatch =
        Dispatch { workgroup_count: [2, 1, 1], bindings: &bindings[..count], ..Dispatch::default() };
    // SAFETY: crashes on purpose.
    unsafe { library.dispatch(ordinal, dispatch) }.unwrap();
    0
}

fn crash(case: &str) -> Output {
    let arguments = ["--exact", "child", "--nocapture", "--test-threads=1"];
    own_program().args(arguments).env(CASE, case).output().unwrap()
}

#[test]
fn a_program_that_does_not_opt_in_keeps_its_signal_handlers() {
    let handlers = || {
        let signals = [
            libc::SIGSEGV,
            libc::SIGILL,
            libc::SIGFPE,
            libc::SIGBUS,
            libc::SIGABRT,
            libc::SIGTRAP,
            libc::SIGURG,
        ];
        // SAFETY: a zeroed `sigaction` is a valid value of the struct; the call only fills it in.
        signals.map(|signal| unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            libc::sigaction(signal, std::ptr::null(), &mut action);
            (action.sa_sigaction, action.sa_flags)
        })
    };
    let before = handlers();
    let timeout = Some(Duration::from_secs(1));
    let sync = LocalSync::create_with(LocalSyncOptions { timeout, ..LocalSyncOptions::default() });
    let mut options = LocalTaskOptions::default();
    options.timeout = timeout;
    let task = LocalTask::create(options);
    for outcome in [sync.map(drop), task.map(drop)] {
        let error = outcome.unwrap_err();
        assert_eq!(error.code(), StatusCode::FailedPrecondition, "{}", error.report());
        assert!(error.report().contains("or create it without a timeout"), "{}", error.report());
    }
    let task = LocalTask::create(LocalTaskOptions::default()).unwrap();
    assert_eq!(run("uses_1900k"), 0);
    drop(task);
    assert_eq!(handlers(), before);
}

#[test]
fn a_kernel_that_faults_is_named() {
    // Other processors have no such addresses, and a division by zero is not a fault.
    let is_x86 = cfg!(target_arch = "x86_64");
    let wild = if is_x86 { "SIGSEGV at a non-canonical address" } else { "SIGSEGV at address 0x" };
    let cases = [
        ("read_null", "SIGSEGV at address 0x0", "function 'read_null' (5)", "out of bounds"),
        ("trap", "SIGILL at address 0x", "function 'trap' (6)", "traps on purpose"),
        ("divide", "SIGFPE at address 0x", "function 'divide' (7)", "divided by zero"),
        ("wild", wild, "function 'wild' (10)", "out of bounds"),
        (
            "overflow",
            ", a stack overflow: ",
            "function 'overflow' (9)",
            "more than its stack of 2097152 bytes",
        ),
        ("thread overflow", ", a stack overflow: ", "function 'overflow' (9)", "stack of 2097152 bytes"),
        ("uses_3000k", ", a stack overflow: ", "function 'uses_3000k' (13)", "stack of 2097152 bytes"),
        ("thread uses_3000k", ", a stack overflow: ", "function 'uses_3000k' (13)", "stack of 2097152 bytes"),
        (
            "breakpoint",
            if is_x86 { "SIGTRAP: " } else { "SIGTRAP at address 0x" },
            "function 'breakpoint' (11)",
            "breakpoint",
        ),
    ];
    for (case, signal, function, advice) in cases.into_iter().filter(|it| is_x86 || it.0 != "divide") {
        let output = crash(case);
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(rehal_crash::EXIT_STATUS), "{case}: {text}");
        let start = text.find("INTERNAL; a kernel crashed with ").unwrap_or_else(|| panic!("{case}: {text}"));
        let lines: Vec<_> = text[start..].lines().collect();
        assert_eq!(lines.len(), 3, "{text}");
        assert!(lines[0].contains(signal) && lines[0].contains(function), "{text}");
        assert!(
            lines[0].ends_with("of executable 4 ('test_library'), workgroup [0, 0, 0] of [2, 1, 1]"),
            "{text}"
        );
        assert!(lines[1].starts_with("  at: record #31, offset 7536, instruction 0x"), "{text}");
        assert!(lines[1].ends_with(" of the executable"), "{text}");
        assert!(lines[2].starts_with("  try: ") && lines[2].contains(advice), "{text}");
    }
}

#[test]
fn kernels_have_the_same_stack_on_each_thread() {
    for case in ["uses_1900k", "thread uses_1900k"] {
        let text = String::from_utf8_lossy(&crash(case).stderr).into_owned();
        assert!(text.contains("did not end the process"), "{case}: {text}");
    }
}

#[test]
fn a_dispatch_that_never_ends_is_named() {
    let output = crash("endless");
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(rehal_crash::TIMEOUT_STATUS), "{text}");
    let expected = "DEADLINE_EXCEEDED; a dispatch has not completed within 30 ms: function 'endless' (14) of executable 4 \
                    ('test_library'), workgroup [0, 0, 0] of [2, 1, 1]\n  at: record #31, offset 7536, instruction 0x";
    assert!(text.contains(expected), "{text}");
    assert!(
        text.contains("\n  try: if the kernel never ends, correct it; otherwise allow it more time\n"),
        "{text}"
    );
}

#[test]
fn an_instruction_that_the_cpu_lacks_is_named() {
    // No processor of x86-64 since 2015 has XOP.
    let (feature, name) = if cfg!(target_arch = "aarch64") { ("sve", "sve") } else { ("xop", "XOP") };
    let has = rehal_local::executable::processor::feature(feature);
    assert_ne!(has, Some(true), "this test needs a processor without {name}");
    let output = crash("lacked");
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(rehal_crash::WRONG_MACHINE_STATUS), "{text}");
    assert!(text.contains("INCOMPATIBLE; a kernel crashed with SIGILL"), "{text}");
    let expected = format!("try: this CPU lacks {name}, which the kernel uses");
    assert!(text.contains(&expected), "{text}");
}

#[test]
fn a_crash_of_other_code_is_reported_with_its_note() {
    let expected = [
        (
            "noted",
            "SIGSEGV at address 0x10 while compiling function 'f?'\n  at: record #31, offset 7536, instr",
        ),
        ("noted abort", "SIGABRT while compiling function 'g'\n  at: instruction at 0x"),
    ];
    for (case, expected) in expected {
        let output = crash(case);
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(rehal_crash::EXIT_STATUS), "{case}: {text}");
        assert!(text.contains(&format!("INTERNAL; crashed with {expected}")), "{text}");
        assert!(text.ends_with("\n  try: compile another\n"), "{text}");
    }
}

#[test]
fn a_crash_of_an_executable_that_is_loaded_names_it() {
    let output = crash("load");
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(rehal_crash::EXIT_STATUS), "{text}");
    assert!(text.contains("INTERNAL; crashed with SIGILL at address 0x"), "{text}");
    assert!(text.contains(" while loading executable 4\n  at: instruction at 0x"), "{text}");
    assert!(text.contains("the executable's own code crashed while it was loaded"), "{text}");
}

#[test]
fn faults_outside_kernels_are_not_intercepted() {
    for (case, signal) in
        [("host", libc::SIGSEGV), ("sent", libc::SIGSEGV), ("host breakpoint", libc::SIGTRAP)]
    {
        let output = crash(case);
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.signal(), Some(signal), "{case}: {text}");
        assert!(!text.contains("crashed with"), "{text}");
    }
}

#[test]
fn a_fault_outside_kernels_names_the_last_record() {
    let output = crash("corrupted");
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{text}");
    let expected = "INTERNAL; crashed with SIGABRT outside of kernels\n  at: the last record of this thread is #31, offset 7536\n  try: a kernel";
    assert!(text.contains(expected), "{text}");
}

#[test]
fn a_fault_in_a_thread_of_a_driver_names_its_work() {
    let output = crash("driver");
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.signal(), Some(libc::SIGSEGV), "{text}");
    let expected = "INTERNAL; crashed with SIGSEGV at address 0x10 in thread 'a driver' while a device had work in flight\n  at: submitted last: dispatch of 'f?'\n  try: ";
    assert!(text.contains(expected), "{text}");
    let output = crash("idle driver");
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.signal(), Some(libc::SIGSEGV), "{text}");
    assert!(!text.contains("INTERNAL"), "nothing was in flight: {text}");
}
