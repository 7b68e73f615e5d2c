//! Forbidden acts of kernels: they write outside of their bindings, use more than their stack, never end,
//! or end the process.

use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;

use crate::common::{Ran, Scratch, capture, command, ran, run, write_kernel};

const FUNCTION: &str = "add_dispatch_0_elementwise_4_f32";

/// A replacement of the function of a capture.
struct Kernel {
    scratch: Scratch,
    capture: String,
}

impl Kernel {
    fn new(body: &str) -> Self {
        let (scratch, capture) = (Scratch::new(), capture("add4.add.local-sync"));
        write_kernel(&scratch.path("kernel.c"), &capture, FUNCTION, body);
        Self { scratch, capture }
    }

    fn source(&self) -> String {
        self.scratch.path("kernel.c").display().to_string()
    }

    /// The arguments of a verb with it.
    fn words(&self, verb: &str, device: &str) -> Vec<String> {
        let mut words = vec![format!("--device={device}"), self.capture.clone()];
        match verb {
            "compare" => words.extend([
                format!("--function={FUNCTION}"),
                format!("--with={}", self.source()),
                "--max_time=1s".into(),
            ]),
            _ => words.push(format!("--replay_executable_substitution={FUNCTION}={}", self.source())),
        }
        match verb {
            "benchmark" => words.push("--benchmark_min_time=2x".into()),
            "kernel record" => words.extend([
                format!("--directory={}", self.scratch.path("kernels").display()),
                "--force".into(),
            ]),
            "reduce" => words.extend([
                "--check=crash".into(),
                format!("-o{}", self.scratch.path("reduced.ireereplay").display()),
            ]),
            _ => {}
        }
        words
    }

    fn run(&self, verb: &str, device: &str, more: &[&str]) -> Ran {
        let words = self.words(verb, device);
        let all = ["rehal"].into_iter().chain(verb.split(' ')).chain(words.iter().map(String::as_str));
        run(&all.chain(more.iter().copied()).collect::<Vec<_>>())
    }
}

/// The error names the function and the binding, and nothing of the tool is overwritten.
#[test]
fn writes_outside_of_buffers_are_named() {
    for (body, place) in [
        ("for (int q = 0; q < 4 + 64; q++) binding_2[q] = 7.25f;", "after the end of binding 2"),
        ("for (int q = 0; q < 5; q++) binding_2[q] = 7.25f;", "after the end of binding 2"),
        ("for (int q = 0; q < 1 << 24; q++) binding_2[q] = 7.25f;", "after the end of binding 2"),
        ("((char *)binding_2)[16] = 1;", "after the end of binding 2"),
        ("binding_2[500000] = 7.25f;", "after the end of binding 2"),
        ("binding_2[-1] = 7.25f;", "before "),
        ("for (int q = -1; q > -5000; q--) binding_2[q] = 7.25f;", "before "),
        ("binding_0[4] = 7.25f;", "after the end of binding 0"),
    ] {
        let kernel = Kernel::new(body);
        for device in ["local-sync", "local-task"] {
            for verb in ["run", "benchmark", "kernel record"] {
                let ran = kernel.run(verb, device, &[]);
                assert!(matches!(ran.status, Some(1 | 86)), "{verb} {device} {body}: {ran:?}");
                let named = format!("function '{FUNCTION}'");
                for part in [&named, place, "binding "] {
                    assert!(ran.stderr.contains(part), "{verb} {device} {body}: {part}: {ran:?}");
                }
            }
        }
        let ran = kernel.run("verify", "local-sync", &[]);
        let text = ran.stdout.clone() + &ran.stderr;
        assert!(ran.status != Some(0) && ran.status.is_some() && text.contains(FUNCTION), "{body}: {ran:?}");
        assert!(text.contains("binding "), "{body}: {ran:?}");
    }
    let kernel =
        Kernel::new("binding_2[i] = binding_0[i] + binding_1[i]; if (i == 3) binding_2[4 + 64] = 7.25f;");
    let ran = kernel.run("compare", "local-sync", &[]);
    assert!(ran.status != Some(0) && ran.status.is_some(), "{ran:?}");
    let ran = kernel.run("verify", "local-sync", &["--tolerance=*:f32:abs=1"]);
    assert_eq!(ran.status, Some(2), "{ran:?}");
    assert!(ran.stdout.contains("1 dispatch wrote outside of the bindings"), "{ran:?}");
}

#[test]
fn correct_replacements_are_still_correct() {
    let kernel = Kernel::new("binding_2[i] = binding_0[i] + binding_1[i];");
    for device in ["local-sync", "local-task"] {
        for verb in ["run", "verify", "benchmark", "kernel record"] {
            let ran = kernel.run(verb, device, &[]);
            assert_eq!(ran.status, Some(0), "{verb} {device}: {ran:?}");
        }
    }
}

/// On the main thread, on workers, and on threads that help them.
#[test]
fn the_stack_of_kernels_is_the_same_on_each_device() {
    const USE: &str = "volatile char a[SIZE << 10]; for (unsigned q = 0; q < sizeof(a); q += 512) a[q] = 1; \
                       binding_2[i] = binding_0[i] + binding_1[i] + a[512] - 1;";
    let (within, beyond) =
        (Kernel::new(&USE.replace("SIZE", "1900")), Kernel::new(&USE.replace("SIZE", "3000")));
    for device in ["local-sync", "local-task"] {
        assert_eq!(within.run("run", device, &[]).status, Some(0), "{device}");
        let ran = beyond.run("run", device, &[]);
        assert_eq!(ran.status, Some(86), "{device}: {ran:?}");
        assert!(ran.stderr.contains(", a stack overflow: function 'add_dispatch_0"), "{device}: {ran:?}");
        let advice = "more than its stack of 2097152 bytes: ";
        assert!(ran.stderr.contains(advice), "{device}: {ran:?}");
        assert!(ran.stderr.contains(": --task_worker_stack_size=BYTES\n"), "{device}: {ran:?}");
        let ran = beyond.run("run", device, &["--task_worker_stack_size=4194304"]);
        assert_eq!((ran.status, ran.stderr.as_str()), (Some(0), ""), "{device}");
    }
}

#[test]
fn a_kernel_that_never_ends_is_named() {
    let kernel = Kernel::new("binding_2[i] = 0; for (volatile int q = 0;; ++q) {}");
    for (verb, device) in
        [("run", "local-sync"), ("run", "local-task"), ("benchmark", "local-sync"), ("verify", "local-task")]
    {
        let ran = kernel.run(verb, device, &["--device_timeout=100ms"]);
        assert_eq!(ran.status, Some(1), "{verb} {device}: {ran:?}");
        let expected =
            "DEADLINE_EXCEEDED; a dispatch has not completed within 100 ms: function 'add_dispatch_0";
        assert!(ran.stderr.contains(expected), "{verb} {device}: {ran:?}");
        assert!(ran.stderr.contains(": --device_timeout=TIME\n"), "{verb} {device}: {ran:?}");
    }
}

#[test]
fn an_interrupt_says_which_kernel_runs() {
    for (device, signal) in
        [("local-sync", libc::SIGINT), ("local-task", libc::SIGINT), ("local-sync", libc::SIGTERM)]
    {
        let kernel = Kernel::new(
            "extern long write(int, const void *, unsigned long); write(1, \"b\", 1); binding_2[i] = 0; \
             for (volatile int q = 0;; ++q) {}",
        );
        let mut tool = command("rehal");
        tool.arg("run").args(kernel.words("run", device));
        let mut tool = tool.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        std::io::Read::read_exact(tool.stdout.as_mut().unwrap(), &mut [0]).expect("it begins");
        let kill = ["-s", if signal == libc::SIGINT { "INT" } else { "TERM" }, &tool.id().to_string()];
        assert!(std::process::Command::new("kill").args(kill).status().unwrap().success());
        let output = tool.wait_with_output().unwrap();
        assert_eq!(output.status.signal(), Some(signal), "{output:?}");
        let ran = ran(output);
        let expected = "note: interrupted in function 'add_dispatch_0_elementwise_4_f32' (0) of ";
        assert!(ran.stderr.contains(expected), "{ran:?}");
    }
}

/// Through the C library, and by a system call of its own.
#[test]
fn a_kernel_that_ends_the_process_does_not_succeed() {
    for body in [
        "extern void _exit(int); _exit(0); binding_2[i] = 0;",
        "__asm__ volatile(\"syscall\" :: \"a\"(231), \"D\"(0)); binding_2[i] = 0;",
    ] {
        let kernel = Kernel::new(body);
        for device in ["local-sync", "local-task"] {
            for verb in ["run", "benchmark", "kernel record", "verify"] {
                let ran = kernel.run(verb, device, &[]);
                assert_eq!(ran.status, Some(1), "{verb} {device} {body}: {ran:?}");
                let expected = "ABORTED; the process ended with status 0 before its work was done, in function 'add_dispatch_0";
                assert!(ran.stderr.contains(expected), "{verb} {device} {body}: {ran:?}");
            }
        }
        let ran = kernel.run("compare", "local-sync", &[]);
        assert!(ran.status != Some(0) && ran.status.is_some(), "{body}: {ran:?}");
        let ran = kernel.run("reduce", "local-sync", &[]);
        assert!(matches!(ran.status, Some(0 | 2)), "{body}: {ran:?}");
        assert!(ran.stdout.contains("a crash with exit status 0"), "{body}: {ran:?}");
    }
}

/// Whatever handled it before: the process that passes signals on says what has run.
#[test]
fn a_kernel_that_ends_its_process_by_a_signal_is_named() {
    let kernel = Kernel::new(
        "extern void *signal(int, void *); extern int raise(int), atoi(const char *); extern char *getenv(const char *);
        int number = atoi(getenv(\"NUMBER\")); signal(number, (void *)0); raise(number); binding_2[i] = 0;",
    );
    let ignored = [libc::SIGCHLD, libc::SIGCONT, libc::SIGURG, libc::SIGWINCH];
    let stopping = [libc::SIGSTOP, libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];
    let killed = [libc::SIGKILL];
    for number in (1..32).chain([libc::SIGRTMIN(), libc::SIGRTMAX()]).filter(|it| !ignored.contains(it)) {
        let device = if number % 2 == 0 { "local-sync" } else { "local-task" };
        let mut tool = command("rehal");
        tool.arg("run").args(kernel.words("run", device)).env("NUMBER", number.to_string());
        let output = tool.output().unwrap();
        let signal = output.status.signal();
        let ran = ran(output);
        let is_error = stopping.contains(&number) || killed.contains(&number);
        assert_eq!(
            (signal, ran.status),
            if is_error { (None, Some(1)) } else { (Some(number), None) },
            "{ran:?}"
        );
        let first = match stopping.contains(&number) {
            true => "ABORTED; a kernel stopped its process, in function 'add_dispatch_0_elementwise_4_f32'\n"
                .to_owned(),
            false => format!("ABORTED; the process ended by signal {number}"),
        };
        assert!(ran.stderr.starts_with(&first), "{number}: {ran:?}");
        assert_eq!(ran.stderr.matches("ABORTED").count(), 1, "{number}: {ran:?}");
        for part in ["function 'add_dispatch_0_elementwise_4_f32'\n", "at: record #"] {
            assert!(ran.stderr.contains(part), "{number}: {part}: {ran:?}");
        }
    }
}

/// The kernel's damage shows after it has returned, when the handler of the fault writes its report.
#[test]
fn the_last_kernel_of_a_process_that_ends_later_is_named() {
    let kernel = Kernel::new(
        "extern int open(const char *, int, ...); extern long pwrite(int, const void *, unsigned long, long), write();
        static const char trap[16] = {0xcc, 0xcc, 0xcc, 0xcc};
        pwrite(open(\"/proc/self/mem\", 2), trap, 16, (long)write); binding_2[i] = 0;",
    );
    let mut tool = command("rehal");
    // Otherwise it cannot write to its code in this way.
    tool.args(["run", "--sandbox=off"]).args(kernel.words("run", "local-sync"));
    let output = tool.output().unwrap();
    assert_eq!(output.status.signal(), Some(libc::SIGTRAP), "{output:?}");
    let ran = ran(output);
    let first = "ABORTED; the process ended by signal 5 (SIGTRAP) before its work was done, after function 'add_dispatch_0_elementwise_4_f32'\n  at: record #";
    assert!(ran.stderr.starts_with(first), "{ran:?}");
}

/// The system call ends the thread alone: what waits for it would wait forever.
#[test]
fn a_kernel_that_ends_its_thread_is_named() {
    let kernel = Kernel::new("__asm__ volatile(\"syscall\" :: \"a\"(60), \"D\"(0)); binding_2[i] = 0;");
    for device in ["local-sync", "local-task"] {
        let ran = kernel.run("run", device, &[]);
        assert_eq!(ran.status, Some(1), "{device}: {ran:?}");
        let expected = "ABORTED; a kernel ended its thread, in function 'add_dispatch_0_elementwise_4_f32'\n";
        assert!(ran.stderr.contains(expected), "{device}: {ran:?}");
        assert!(ran.stderr.contains("record #"), "{device}: {ran:?}");
    }
}

/// The process that a kernel has started has the descriptors of the tool.
#[test]
fn a_process_that_a_kernel_starts_is_not_waited_for() {
    // It ends when the directory is removed.
    let scratch = Scratch::new();
    let kernel = Kernel::new(&format!(
        "extern int fork(void), access(const char *, int), usleep(unsigned), close(int); extern void _exit(int);
        if (i == 0 && fork() == 0) {{
            close(1); close(2);
            while (!access(\"{}\", 0)) usleep(1000);
            _exit(0);
        }}
        binding_2[i] = 0;",
        scratch.path("").display()
    ));
    let ran = kernel.run("run", "local-sync", &[]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
}
