//! Hostile kernels: they can do nothing beyond their process, which ends with the tool.

use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::parameters::external_archive;
use crate::common::{Ran, Scratch, capture, command, fixture, path_of, ran, record_add, run, write_kernel};

const FUNCTION: &str = "add_dispatch_0_elementwise_4_f32";

/// The loop of a kernel that adds, and before that returns the number of what it can do and should not.
pub const PROBE: &str = include_str!("confinement/probe.c");

/// Defines a call of the system with three arguments.
const CALL: &str = "#define CALL(n, a, b, c) ({ long r; __asm__ volatile(\"syscall\" : \"=a\"(r) : \"a\"((long)(n)), \
    \"D\"((long)(a)), \"S\"((long)(b)), \"d\"((long)(c)) : \"rcx\", \"r11\", \"memory\"); r; })\n";

/// Has all other threads loop, among them those of the time limit, waits until the tool has seen the kernel,
/// and erases the memory by which the tool knows that it runs. Then only the tool's own clock ends it.
const ERASE: &str = r#"
    if (CALL(39, 0, 0, 0) == 0) { spin: for (;;) __asm__ volatile("pause"); }
    long action[4] = {(long)&&spin, 0x04000000, (long)&&spin, -1}, own = CALL(186, 0, 0, 0), time[2] = {0, 700000000};
    register long size __asm__("r10") = 8; long r;
    __asm__ volatile("syscall" : "=a"(r) : "a"(13L), "D"(10L), "S"(action), "d"(0L), "r"(size) : "rcx", "r11", "memory");
    for (long thread = own - 20; thread < own + 20; ++thread)
        if (thread != own) CALL(234, CALL(39, 0, 0, 0), thread, 10);
    CALL(35, time, 0, 0);
    long maps = CALL(2, "/proc/self/maps", 0, 0);
    unsigned long range[2] = {0, 0};
    char c, shared = 0;
    for (int field = 0, letter = 0; CALL(0, maps, &c, 1) == 1;) {
        if (c == '\n') field = letter = range[0] = range[1] = 0;
        else if (field < 2 && (c == '-' || c == ' ')) ++field;
        else if (field < 2) range[field] = range[field] * 16 + (c <= '9' ? c - '0' : c - 'a' + 10);
        else if (field == 2 && ++letter == 4 && (field = 3, c == 's') && shared == 'w' && range[1] - range[0] < 1 << 20)
            for (volatile char *p = (char *)range[0]; p < (char *)range[1]; ++p) *p = 0;
        else if (letter == 2) shared = c;
    }
"#;

/// A directory with the source of a kernel with this body, and the flag that replaces the captured one by it.
fn kernel(body: &str) -> (Scratch, String, String) {
    let scratch = Scratch::new();
    let path = scratch.path("kernel.c");
    write_kernel(&path, &capture("add4.add.local-sync"), FUNCTION, body);
    let path = path.to_str().unwrap().to_owned();
    (scratch, format!("--replay_executable_substitution={FUNCTION}={path}"), path)
}

/// Defines the file for the probe.
pub fn victim(scratch: &Scratch) -> String {
    format!("\n#define VICTIM {:?}\n", scratch.file("victim", "of the user"))
}

fn confined(words: &[&str], device: &str) -> Ran {
    run(&[words, &["--sandbox=require", &format!("--device={device}")]].concat())
}

#[test]
fn a_replacement_can_do_nothing_but_compute() {
    let file = Scratch::new();
    let probe = format!("{}\n#ifndef N\n#define N 1\n#endif\n(void)N;\n{PROBE}", victim(&file));
    let (scratch, replacement, source) = kernel(&probe);
    let path = capture("add4.add.local-sync");
    let free = run(&["rehal", "run", "--sandbox=off", "--device=local-sync", &replacement, &path]);
    assert!(free.status == Some(1) && free.stderr.contains(": it returned 1\n"), "{free:?}");
    let (function, with) = (format!("--function={FUNCTION}"), format!("--with={source}"));
    let axis = "base = \"kernel.c\"\n[[axis]]\nmacro = \"N\"\nvalues = [1, 2]\n";
    let space = scratch.file("space.toml", axis);
    let space = format!("--space={space}");
    let module = format!("--module={}", fixture("modules/add4.vmfb"));
    let substitution = format!("--executable_substitution={FUNCTION}={source}");
    let expected = "--expected_output=4xf32=3 3 3 3";
    let added = [&*module, "--function=add", "--input=4xf32=1", "--input=4xf32=2", &substitution];
    let records = format!("--directory={}", scratch.path("records").display());
    for device in ["local-sync", "local-task"] {
        for (words, expected) in [
            (&["rehal", "run", &replacement, &path][..], ""),
            (&["rehal", "benchmark", "--benchmark_min_time=2x", &replacement, &path], "BM_replay"),
            (&["rehal", "verify", &replacement, &path], "the same: 1 dispatch"),
            (&["rehal", "compare", &function, &with, "--max_time=1s", &path], "\nright "),
            (&["rehal", "tune", &function, &space, "--trial_time=20ms", &path], "2 "),
            (&["rehal", "kernel", "record", &records, "--force", &replacement, &path], ""),
            (&[&["iree-run-module"], &added[..], &[expected]].concat(), "[SUCCESS]"),
            (&[&["iree-benchmark-module", "--benchmark_min_time=2x"], &added[..]].concat(), "BM_add"),
        ] {
            let ran = confined(words, device);
            let told = format!("{device} {words:?}: {ran:?}");
            assert!(matches!(ran.status, Some(0 | 3 | 4)) && ran.stdout.contains(expected), "{told}");
            assert!(!ran.stdout.contains("it returned") && !ran.stderr.contains("it returned"), "{told}");
        }
    }
}

#[test]
fn a_captured_kernel_can_do_nothing_but_compute() {
    let scratch = Scratch::new();
    let file = Scratch::new();
    let path = record_add(&scratch, &format!("{}{PROBE}", victim(&file)), 4);
    let place = |name: &str| format!("-o{}", scratch.path(name).display());
    let (slice, redacted, records) =
        (place("slice.ireereplay"), place("redacted.ireereplay"), place("records"));
    for device in ["local-sync", "local-task"] {
        for words in [
            &["run"][..],
            &["benchmark", "--benchmark_min_time=2x"],
            &["kernels", "--repetitions=2"],
            &["slice", "--function=*", &slice],
            &["redact", &redacted],
            &["verify", "--other_device=local-sync"],
            &["kernel", "record", "--force", &records],
            &["info", "--load_executables"],
        ] {
            let ran = confined(&[&["rehal"], words, &[&path]].concat(), device);
            assert!(
                ran.status == Some(0) && !ran.stderr.contains("it returned"),
                "{device} {words:?}: {ran:?}"
            );
        }
        let records = std::fs::read_dir(scratch.path("records")).unwrap().map(|entry| entry.unwrap().path());
        let record =
            records.into_iter().find(|path| path.extension().is_some_and(|it| it == "json")).unwrap();
        let ran = confined(&["rehal", "kernel", "replay", "--verify", record.to_str().unwrap()], device);
        assert!(ran.status == Some(0), "{device}: {ran:?}");
    }
}

/// Without it, a record into a directory, by default the working one, gives the code all files in it.
#[test]
fn files_beside_records_are_not_accessed() {
    let directory = Scratch::new();
    let notes = directory.file("notes", "of the user");
    for (body, status, named) in [
        (
            "CALL(87, VICTIM, 0, 0); if (CALL(2, VICTIM, 0, 0) >= 0 || CALL(2, VICTIM, 01, 0) >= 0) return 9;",
            0,
            "",
        ),
        ("if (CALL(2, \"ours\", 0102, 0600) >= 0) return 9; *(volatile int *)0 = 1;", 86, "SIGSEGV"),
        ("CALL(62, CALL(39, 0, 0, 0), 9, 0);", 1, "by signal 9"),
    ] {
        let (_sources, replacement, _) = kernel(&format!(
            "\n{CALL}\n#define VICTIM {notes:?}\n{body} binding_2[i] = binding_0[i] + binding_1[i];"
        ));
        let mut tool = command("rehal");
        tool.args(["run", "--sandbox=require", "--device=local-sync", "--rehal_kernel_record", &replacement]);
        tool.args(["--rehal_kernel_record_force", &capture("add4.add.local-sync")])
            .current_dir(directory.path(""));
        let ran = ran(tool.output().unwrap());
        assert!(ran.status == Some(status) && ran.stderr.contains(named), "{body}: {ran:?}");
        assert!(!ran.stderr.contains("returned"), "{body}: {ran:?}");
        assert_eq!(std::fs::read_to_string(&notes).unwrap(), "of the user");
        // A kernel that ends the process is recorded, without what it wrote.
        let mut names: Vec<_> =
            std::fs::read_dir(directory.path("")).unwrap().map(|it| it.unwrap().file_name()).collect();
        names.sort();
        let ends: Vec<_> = names.iter().map(|it| it.to_str().unwrap().rsplit('.').next().unwrap()).collect();
        let expected = ["image", "json", "record_input", "record_output", "notes"];
        let expected = expected.iter().filter(|it| status == 0 || **it != "record_output");
        assert_eq!(ends, expected.copied().collect::<Vec<_>>(), "{body}");
        names
            .iter()
            .filter(|it| *it != "notes")
            .for_each(|it| std::fs::remove_file(directory.path(it.to_str().unwrap())).unwrap());
    }
}

/// Without it, an output that Landlock takes no rule for leaves the files of the user open, and one that the
/// user has opened cannot be written.
#[test]
fn outputs_that_are_open_are_written_and_confined() {
    let file = Scratch::new();
    let path = record_add(&file, &format!("{}{PROBE}", victim(&file)), 4);
    for to in ["> >(cat > piped)", "| cat > piped", "> piped"] {
        for name in ["/dev/stdout", "/dev/fd/1", "-"] {
            let scratch = Scratch::new();
            let script = format!(
                "set -o pipefail; {:?} slice --sandbox=require --device=local-sync '--function=*' -o {name} {path} {to}; \
                 code=$?; wait; exit $code",
                path_of("rehal")
            );
            let mut shell = Command::new("bash");
            let ran = ran(shell.args(["-c", &script]).current_dir(scratch.path("")).output().unwrap());
            assert!(ran.status == Some(0) && !ran.stderr.contains("returned"), "{to} {name}: {ran:?}");
            let sliced = scratch.path("piped");
            let replayed = confined(&["rehal", "info", sliced.to_str().unwrap()], "local-sync");
            assert!(replayed.status == Some(0), "{to} {name}: {replayed:?}");
        }
    }
}

/// Without it, the code writes to what a shell has opened, and reads what is piped to the tool.
#[test]
fn inherited_descriptors_are_not_used() {
    let body = "char c; if (CALL(0, 0, &c, 1) > 0) return 7; \
        if (CALL(1, 63, \"x\", 1) >= 0) return 9; binding_2[i] = binding_0[i] + binding_1[i];";
    let file = Scratch::new();
    let path = record_add(&file, &format!("\n{CALL}{body}"), 4);
    for to in ["-o /dev/null", "-o /dev/fd/3"] {
        let scratch = Scratch::new();
        // The slice is written to the descriptor that is named.
        let script = format!(
            "exec 3> opened 63> other; echo piped | {:?} slice --sandbox=SANDBOX --device=local-sync '--function=*' {to} {path}",
            path_of("rehal")
        );
        for (sandbox, expected) in [("off", ": it returned 7"), ("require", "")] {
            let mut shell = Command::new("bash");
            shell.args(["-c", &script.replace("SANDBOX", sandbox)]).current_dir(scratch.path(""));
            let ran = ran(shell.output().unwrap());
            assert!(
                ran.stderr.contains(expected) && (ran.status == Some(0)) == expected.is_empty(),
                "{to}: {ran:?}"
            );
        }
        assert_eq!(std::fs::metadata(scratch.path("other")).unwrap().len(), 0);
        assert_eq!(std::fs::metadata(scratch.path("opened")).unwrap().len() > 0, to.ends_with('3'));
    }
}

/// Without it, a kernel erases what others have written to the log that a shell has opened, and earlier
/// reports.
#[test]
fn what_a_log_and_a_history_had_stays() {
    let scratch = Scratch::new();
    let path = |name: &str| scratch.path(name).to_str().unwrap().to_owned();
    let (log, history) = (path("log"), path("history"));
    let tries = format!(
        "for (int fd = 1; fd < 64; ++fd) {{ if (fd > 2 && !(CALL(72, fd, 3, 0) > 0 && CALL(72, fd, 3, 0) & 02000)) continue; \
         CALL(77, fd, 0, 0); CALL(77, CALL(32, fd, 0, 0), 0, 0); CALL(33, fd, 90, 0); CALL(77, 90, 0, 0); \
         CALL(77, CALL(72, fd, 0, 0), 0, 0); CALL(77, CALL(72, fd, 1030, 0), 0, 0); }} \
         for (int fd = 1; fd < 3; ++fd) {{ CALL(8, fd, 0, 0); CALL(1, fd, \"x\", 1); CALL(18, fd, \"x\", 1); }} \
         CALL(2, {history:?}, 01001, 0); CALL(2, {log:?}, 01001, 0); binding_2[i] = binding_0[i] + binding_1[i];"
    );
    let (_sources, replacement, _) = kernel(&format!("\n{CALL}{tries}"));
    let add = capture("add4.add.local-sync");
    let benchmark = |more: &[&str]| {
        let history = format!("--history={history}");
        let options = [&history, "--processes=1", "--benchmark_min_time=1x", "--sandbox=require"];
        let words = [&["rehal", "benchmark", "--device=local-sync"], &options[..], more, &[&add]].concat();
        let ran = run(&words);
        assert_eq!(ran.status, Some(0), "{ran:?}");
        std::fs::read_to_string(&history[10..]).unwrap()
    };
    let first = benchmark(&[]);
    let both = benchmark(&[&replacement]);
    assert!(first.ends_with('\n') && both.starts_with(&first), "{both}");
    assert_eq!((first.lines().count(), both.lines().count()), (1, 2));
    for to in ["> log 2>&1", ">> log 2>&1", "1<> log 2>&1"] {
        std::fs::write(&log, "").unwrap();
        let script = format!(
            "{{ echo before; {:?} run --sandbox=require --device=local-sync '{replacement}' {add}; }} {to}",
            path_of("rehal")
        );
        let status = Command::new("bash").args(["-c", &script]).current_dir(scratch.path("")).status();
        let text = std::fs::read_to_string(&log).unwrap();
        assert!(status.unwrap().success() && text.starts_with("before\nx"), "{to}: {text}");
        assert!(text.len() > "before\nxx".len(), "{to}: {text}");
    }
}

/// A parameter archive could name a directory to read all of it.
#[test]
fn a_directory_that_an_archive_names_is_not_read() {
    let file = Scratch::new();
    let probe = format!(
        "{}
{PROBE}",
        victim(&file)
    );
    let (scratch, _, source) = kernel(&probe);
    let archive = external_archive(&scratch.path("a.irpa"), file.path("").to_str().unwrap());
    let ran = confined(
        &[
            "iree-run-module",
            &format!("--module={}", fixture("modules/add4.vmfb")),
            &format!("--parameters=model={archive}"),
            &format!("--executable_substitution={FUNCTION}={source}"),
            "--function=add",
            "--input=4xf32=1",
            "--input=4xf32=2",
            "--expected_output=4xf32=3 3 3 3",
        ],
        "local-sync",
    );
    assert!(ran.status == Some(0) && !ran.stderr.contains("returned"), "{ran:?}");
}

/// Without it, who sends a directory with a capture has a link in it read.
#[test]
fn a_link_that_a_capture_or_a_record_names_is_not_followed() {
    let scratch = Scratch::new();
    let (captured, file) = ("/tmp/rehal-fixtures/params", fixture("params/model.irpa"));
    std::os::unix::fs::symlink(&file, scratch.path("model.irpa")).unwrap();
    std::os::unix::fs::symlink(fixture("params"), scratch.path("params")).unwrap();
    let replay = |captured: &str, here: &str| {
        let remap = format!("--replay_file_remap={captured}={}", scratch.path(here).display());
        run(&["rehal", "run", "--device=local-sync", &remap, &capture("params.reference.digest.local-sync")])
    };
    let followed = replay(captured, "");
    let error = "FAILED_PRECONDITION; it is a symbolic link, which captures do not follow";
    assert!(followed.status == Some(1) && followed.stderr.starts_with(error), "{followed:?}");
    // One that a user names is, and one of a directory.
    assert_eq!(replay(&format!("{captured}/model.irpa"), "model.irpa").status, Some(0));
    assert_eq!(replay(captured, "params").status, Some(0));
    let records = format!("--directory={}", scratch.path("records").display());
    run(&["rehal", "kernel", "record", "--device=local-sync", &records, &capture("add4.add.local-sync")]);
    let paths: Vec<_> =
        std::fs::read_dir(scratch.path("records")).unwrap().map(|it| it.unwrap().path()).collect();
    let of =
        |extension: &str| paths.iter().find(|it| it.extension().is_some_and(|it| it == extension)).unwrap();
    std::fs::rename(of("image"), scratch.path("image")).unwrap();
    std::os::unix::fs::symlink(scratch.path("image"), of("image")).unwrap();
    let ran = run(&["rehal", "kernel", "replay", of("json").to_str().unwrap()]);
    assert!(ran.status == Some(1) && ran.stderr.contains("it is a symbolic link"), "{ran:?}");
}

/// The processes whose working directory is this one.
fn processes_in(directory: &Path) -> usize {
    let own = std::fs::canonicalize(directory).unwrap();
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    processes.filter(|it| std::fs::read_link(it.path().join("cwd")).is_ok_and(|cwd| cwd == own)).count()
}

#[test]
fn nothing_of_a_hostile_kernel_outlives_its_tool() {
    let named = "add_dispatch_0_elementwise_4_f32";
    let path = capture("add4.add.local-sync");
    let spin = "for (volatile int q = 0;; ++q) ; binding_2[i] = 0;";
    let (idle, stops) =
        (format!("{ERASE}{spin}"), format!("{ERASE}CALL(62, CALL(39, 0, 0, 0), 19, 0); {spin}"));
    let ends = format!("{ERASE}CALL(60, 0, 0, 0); {spin}");
    for (what, body, expected) in [
        ("erases", &*idle, "a kernel has not ended within 6 seconds, in "),
        ("erases and stops", &*stops, "a kernel stopped its process, in "),
        ("erases and ends its thread", &*ends, "a kernel ended its thread, in "),
        ("daemonizes", "CALL(112, 0, 0, 0); if (CALL(57, 0, 0, 0) == 0) for (;;) ; binding_2[i] = 0;", ""),
        (
            "forks",
            "for (int j = 0; j < 1000; ++j) if (CALL(57, 0, 0, 0) == 0) for (;;) ; binding_2[i] = 0;",
            "",
        ),
        ("kills", "CALL(62, CALL(110, 0, 0, 0), 9, 0); CALL(62, -1, 9, 0); binding_2[i] = 0;", ""),
        (
            "writes",
            "for (int fd = 0; fd < 64; ++fd) CALL(77, fd, 1L << 50, 0); long fd = CALL(2, \"out\", 0102, 0600); if (fd >= 0) CALL(77, fd, 1 << 20, 0); binding_2[i] = 0;",
            "",
        ),
        ("stops", "CALL(62, CALL(39, 0, 0, 0), 19, 0); binding_2[i] = 0;", "a kernel stopped its process"),
        ("ends its thread", "CALL(60, 0, 0, 0); binding_2[i] = 0;", "a kernel ended its thread"),
        (
            "blocks",
            "unsigned long all = -1; register long s __asm__(\"r10\") = 8; long r; __asm__ volatile(\"syscall\" : \"=a\"(r) : \"a\"(14L), \"D\"(0L), \"S\"(&all), \"d\"(0L), \"r\"(s) : \"rcx\", \"r11\", \"memory\"); for (volatile int q = 0;; ++q) ; binding_2[i] = 0;",
            "DEADLINE_EXCEEDED",
        ),
        (
            "exhausts",
            "for (;;) { char *p = (char *)CALL(12, 0, 0, 0); if (CALL(12, p + (1 << 20), 0, 0) == (long)p) { *(volatile int *)0 = 1; } }",
            "SIGSEGV",
        ),
    ] {
        let scratch = Scratch::new();
        let (_sources, replacement, _) = kernel(&format!("\n{CALL}{body}"));
        let mut tool = command("rehal");
        tool.args(["run", "--sandbox=require", "--device=local-sync"]);
        tool.args((body.contains("for (volatile")).then_some("--device_timeout=1s"));
        tool.args(["--sandbox_memory=1000000000", &replacement, &path]).current_dir(scratch.path(""));
        let begun = Instant::now();
        let ran = ran(tool.output().unwrap());
        assert!(begun.elapsed() < Duration::from_secs(120), "{what}");
        match expected {
            "" => assert_eq!(ran.status, Some(0), "{what}: {ran:?}"),
            _ => {
                assert!(ran.status != Some(0) && ran.stderr.contains(expected), "{what}: {ran:?}");
                assert!(ran.stderr.contains(named), "{what}: {ran:?}");
            }
        }
        // The process that watches those of the compiler ends after the tool.
        while processes_in(&scratch.path("")) != 0 {
            assert!(begun.elapsed() < Duration::from_secs(120), "{what}");
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(std::fs::read_dir(scratch.path("")).unwrap().count(), 0, "{what}");
    }
}

/// Without it, the code of the library does what the user may do.
#[test]
fn a_plugin_of_info_is_confined() {
    let scratch = Scratch::new();
    let (library, made) = (scratch.path("plugin.so"), scratch.path("made"));
    let text = format!(
        "int creat(const char *, unsigned);\n__attribute__((constructor)) static void begin(void) {{ creat({made:?}, 0600); }}\n"
    );
    let source = scratch.file("plugin.c", text);
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", &source, "-o"]).arg(&library);
    assert!(compiler.status().unwrap().success());
    let plugin = format!("--executable_plugin={}", library.display());
    for (sandbox, is_made) in [("--sandbox=require", false), ("--sandbox=off", true)] {
        let ran = run(&["rehal", "info", sandbox, &plugin, &capture("add4.add.local-sync")]);
        assert!(ran.stderr.contains("plugin.so") && made.exists() == is_made, "{sandbox}: {ran:?}");
    }
}

/// Without it, who reads the first object of `verify` and `compare` reads that of a kernel.
#[test]
fn a_kernel_prints_no_report_in_the_place_of_the_tool() {
    let forged = r#"static const char text[] = "{\"forged\": true}\n"; CALL(1, 1, text, sizeof(text) - 1);"#;
    let (_sources, replacement, source) = kernel(&format!("\n{CALL}{forged} binding_2[i] = 0;"));
    let function = format!("--function={FUNCTION}");
    let with = format!("--with={source}");
    for (words, status) in [
        (vec!["verify", &replacement], 2),
        (vec!["verify", "--watch_memory", &replacement], 0),
        (vec!["compare", &function, &with], 2),
    ] {
        let path = capture("add4.add.local-sync");
        let ran = run(&[&["rehal"], &words[..], &["--format=json", "--device=local-sync", &path]].concat());
        assert_eq!(ran.status, Some(status), "{words:?}: {ran:?}");
        let report: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
        assert!(
            report["forged"].is_null() && ran.stderr.contains("{\"forged\": true}\n"),
            "{words:?}: {ran:?}"
        );
    }
}

/// Without it, only SIGKILL ends the tool.
#[test]
fn one_signal_ends_a_kernel_that_never_ends() {
    let ignores = "for (int s = 1; s < 32; ++s) { long a[4] = {1, 0, 0, 0}; register long n __asm__(\"r10\") = 8; long r; \
        __asm__ volatile(\"syscall\" : \"=a\"(r) : \"a\"(13L), \"D\"((long)s), \"S\"(a), \"d\"(0L), \"r\"(n) : \"rcx\", \"r11\", \"memory\"); }";
    let say = "char x = 'x'; CALL(1, 1, &x, 1);";
    let spin = "for (volatile int q = 0;; ++q) ; binding_2[i] = 0;";
    let sleep = "for (long t[2] = {600, 0};;) CALL(35, t, 0, 0); binding_2[i] = 0;";
    for (verb, body, signal) in [
        ("run", format!("{ignores}{say}{spin}"), Signal::TERM),
        ("run", format!("{ERASE}{ignores}{say}{spin}"), Signal::INT),
        ("verify", format!("{say}{spin}"), Signal::INT),
        ("verify", format!("{say}{sleep}"), Signal::INT),
    ] {
        let (_sources, replacement, _) = kernel(&format!("\n{CALL}{body}"));
        let mut tool = command("rehal");
        tool.args([verb, "--sandbox=require", "--device=local-sync", &replacement]);
        tool.arg(capture("add4.add.local-sync"));
        let mut tool = tool.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // Standard output of `verify` has its report only.
        let said = match verb {
            "verify" => tool.stderr.as_mut().unwrap().read_exact(&mut [0]),
            _ => tool.stdout.as_mut().unwrap().read_exact(&mut [0]),
        };
        said.unwrap();
        kill_process(Pid::from_child(&tool), signal).unwrap();
        let begun = Instant::now();
        let output = tool.wait_with_output().unwrap();
        let ended = output.status.signal();
        let ran = ran(output);
        assert!(begun.elapsed() < Duration::from_secs(30), "{verb}: {ran:?}");
        assert_eq!(ended, Some(signal.as_raw()), "{verb}: {ran:?}");
        assert!(ran.stderr.contains(FUNCTION), "{verb}: {ran:?}");
    }
}

#[test]
fn a_system_that_cannot_confine_in_full_says_so() {
    let (scratch, replacement, _) = kernel("binding_2[i] = binding_0[i] + binding_1[i];");
    let (source, program) = (scratch.path("deny.c"), scratch.path("deny"));
    std::fs::write(&source, include_str!("confinement/deny.c")).unwrap();
    assert!(Command::new("cc").arg(&source).arg("-o").arg(&program).status().unwrap().success());
    let path = capture("add4.add.local-sync");
    for (denied, lacking) in [
        (&[][..], "no Landlock: files are not; a filter of system calls"),
        (&["all"], "no Landlock: files are not; no filter of system calls"),
    ] {
        let mut info = Command::new(&program);
        let info = ran(info.args(denied).arg(path_of("rehal")).arg("--version").output().unwrap());
        assert!(info.stdout.contains(lacking), "{info:?}");
        let start = |sandbox: &str| {
            let mut info = Command::new(&program);
            info.args(denied).arg(path_of("rehal")).args(["info", sandbox, &path]);
            let told = if sandbox == "--sandbox=off" { "not at all" } else { lacking };
            let told = format!("\n  its code is confined: {told}\n");
            let info = ran(info.output().unwrap());
            assert!(info.stdout.contains(&told), "{info:?}");
            let mut tool = Command::new(&program);
            tool.args(denied).arg(path_of("rehal")).args(["run", "--device=local-sync", sandbox]);
            ran(tool.args([&replacement, &path]).output().unwrap())
        };
        let on = start("--sandbox=on");
        let warning = format!("warning: captured code is confined in part: {lacking}");
        assert!(on.status == Some(0) && on.stderr.contains(&warning), "{on:?}");
        let counts = ["warning", "filter"].map(|it| on.stderr.matches(it).count());
        assert_eq!(counts, [1, 1], "{on:?}");
        let required = start("--sandbox=require");
        let error = format!("FAILED_PRECONDITION; captured code cannot be confined in full: {lacking}");
        assert!(required.status == Some(1) && required.stderr.starts_with(&error), "{required:?}");
        let off = start("--sandbox=off");
        assert!(off.status == Some(0) && off.stderr.is_empty(), "{off:?}");
    }
}
