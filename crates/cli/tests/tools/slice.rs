//! `rehal slice`: what a slice replays to, and what it refuses.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::Value;

use crate::common::{Scratch, capture, fail, print, record_add, run};

/// The host reads of a capture, by length and digest.
fn reads(path: &str) -> Vec<(u64, String)> {
    let lines = print(&["iree-run-replay", "--device=local-sync", "--replay_host_reads=-", path]);
    let of = |line: &str| {
        let read: Value = serde_json::from_str(line).unwrap();
        (read["length"].as_u64().unwrap(), read["blake3"].as_str().unwrap().to_string())
    };
    lines.lines().map(of).collect()
}

/// The ordinal of the first dispatch of a capture.
fn dispatch(path: &str) -> String {
    let dump = print(&["iree-dump-replay", "--format=jsonl", path]);
    let records = dump.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut dispatches = records.filter(|it| it["payload_type"] == "dispatch");
    dispatches.next().unwrap()["sequence_ordinal"].to_string()
}

fn slice<'a>(words: &[&'a str], path: &'a str, output: &'a str) -> Vec<&'a str> {
    [&["rehal", "slice", "--device=local-sync"], words, &[path, "-o", output]].concat()
}

#[test]
fn a_slice_reads_what_the_program_reads() {
    let scratch = Scratch::new();
    let path = capture("add4.add.local-sync");
    let whole = reads(&path);
    let record = format!("--dispatch={}", dispatch(&path));
    for (index, words) in
        [&[record.as_str()][..], &["--function=add*"], &["--scope=execute", "--occurrence=0"]]
            .iter()
            .enumerate()
    {
        let output = scratch.path(&format!("{index}.ireereplay"));
        let output = output.to_str().unwrap();
        print(&slice(words, &path, output));
        let reads = reads(output);
        assert!(!reads.is_empty() && reads.iter().all(|read| whole.contains(read)), "{words:?}: {reads:?}");
        print(&["iree-dump-replay", output]);
        print(&["rehal", "info", output]);
    }
}

/// Each is made by a process of its own, with other ids of threads, at other times.
#[test]
fn what_is_made_of_a_capture_twice_is_the_same() {
    let scratch = Scratch::new();
    let path = capture("chain.chain.local-sync");
    let check = "--check=rehal_in_path info {}".replace("rehal_in_path", env!("CARGO_BIN_EXE_rehal"));
    for words in [
        &["slice", "--device=local-sync", "--function=*_6_*"][..],
        &["slice", "--device=local-task", "--scope=execute"],
        &["redact"],
        &["redact", "--names=hash"],
        &["reduce", "--max_checks=10", &check],
    ] {
        let made = [1, 2].map(|number| {
            let output = scratch.path(&format!("{}-{number}.ireereplay", words[0]));
            let output = output.to_str().unwrap();
            let ran = run(&[&["rehal"], words, &[&path, "-o", output]].concat());
            assert!(matches!(ran.status, Some(0 | 2)), "{ran:?}");
            let made = std::fs::read(output).unwrap();
            std::fs::remove_file(output).unwrap();
            made
        });
        assert!(made[0] == made[1], "{words:?}");
    }
}

#[test]
fn parameters_stay_in_their_file_on_request() {
    let scratch = Scratch::new();
    let path = capture("params.reference.digest.local-sync");
    let remap =
        format!("--replay_file_remap=/tmp/rehal-fixtures/params={}", crate::common::fixture("params"));
    let mut sizes = Vec::new();
    let mut digests = Vec::new();
    for (index, words) in [
        &["--scope=execute"][..],
        &["--scope=execute", "--keep_references"],
        &["--scope=execute", "--keep-references", "--check=always"],
        &["--scope=execute", "--keep_references", "--check=never"],
    ]
    .iter()
    .enumerate()
    {
        let output = scratch.path(&format!("{index}.ireereplay"));
        let output = output.to_str().unwrap();
        print(&slice(&[words, &[remap.as_str()][..]].concat(), &path, output));
        let files: Value = serde_json::from_str(&print(&["rehal", "info", "--format=json", output])).unwrap();
        sizes.push((
            std::fs::metadata(output).unwrap().len(),
            files["external_files"].as_array().unwrap().len(),
        ));
        digests.push(reads(output));
    }
    assert!(digests.iter().all(|it| !it.is_empty() && *it == digests[0]), "{digests:?}");
    let files: Vec<usize> = sizes.iter().map(|(_, files)| *files).collect();
    assert_eq!(files, [0, 1, 1, 1]);
    assert!(sizes[1..].iter().all(|(bytes, _)| *bytes < sizes[0].0), "{sizes:?}");
    let stderr = fail(&slice(&["--scope=execute"], &path, scratch.path("none").to_str().unwrap()));
    assert!(stderr.contains("No such file"), "{stderr}");
    let stderr = fail(&["rehal", "kernels", "--keep_references", &path]);
    assert!(stderr.contains("--keep_references needs --export"), "{stderr}");
}

/// A dispatch that takes almost all of a replay is not repeated, so what it does not read is unknown.
#[test]
fn a_slice_that_is_not_checked_says_what_it_contains() {
    let scratch = Scratch::new();
    let function = "add_dispatch_0_elementwise_4_f32";
    let output = scratch.path("slice.ireereplay").to_str().unwrap().to_owned();
    let body = "extern int usleep(unsigned); if (i == 0) usleep(150000); \
                binding_2[i] = binding_0[i] + binding_1[i];";
    let recorded = record_add(&scratch, body, 65536);
    let selected = format!("--function={function}");
    let cut = |words: &[&str]| {
        let ran = run(&slice(&[&[selected.as_str()], words].concat(), &recorded, &output));
        assert_eq!(ran.status, Some(0), "{ran:?}");
        (std::fs::metadata(&output).unwrap().len(), reads(&output), ran.stderr)
    };
    let (whole, whole_reads, note) = cut(&["--check=auto"]);
    assert!(whole > 3 << 18, "{whole}");
    assert!(
        note.starts_with("note: the slice is not checked, and has 786432 bytes, all that is bound"),
        "{note}"
    );
    assert!(
        note.contains(", and pages that it does not access. ")
            && note.contains(" and is not repeated. --check=always "),
        "{note}"
    );
    assert!(!cut(&["--check=auto", "--keep=bound"]).2.contains("pages"));
    let (part, part_reads, note) = cut(&[]);
    let expected = format!("note: rehal benchmark --replay_scope={function} times the work of the slice\n");
    assert_eq!((note, &part_reads), (expected, &whole_reads));
    assert_eq!(cut(&["--check=always"]).0, part);
    // All but the last: it overwrites that without reading it.
    assert!(part + (1 << 18) <= whole, "{part} of {whole}");
}

#[test]
fn a_slice_can_be_a_pipe() {
    let scratch = Scratch::new();
    let (path, output) = (capture("add4.add.local-sync"), scratch.path("slice.ireereplay"));
    let words = slice(&["--function=*"], &path, "-");
    let ran = crate::common::command(words[0]).args(&words[1..]).output().unwrap();
    assert!(ran.status.success(), "{ran:?}");
    std::fs::write(&output, ran.stdout).unwrap();
    assert!(!reads(output.to_str().unwrap()).is_empty());
}

#[test]
fn work_that_does_not_exist_is_an_error_and_writes_nothing() {
    let scratch = Scratch::new();
    let path = capture("add4.add.local-sync");
    let output = scratch.path("slice.ireereplay");
    let output = output.to_str().unwrap();
    let record = format!("--dispatch={}", dispatch(&path));
    for (words, reason) in [
        (&["--dispatch=0"][..], "record #0 is not a dispatch"),
        (&["--dispatch=4000000000"], "record #4000000000 is not a dispatch"),
        (&[&record, "--occurrence=7"], "so it has no occurrence 7"),
        (&["--function=nothing"], "no dispatched function matches 'nothing'"),
        (&["--function=*", "--occurrence=99"], "so there is no occurrence 99"),
        (&["--scope=nothing"], "has no scope 'nothing'"),
        (&["--scope=execute", "--occurrence=9"], "so it has no occurrence 9"),
        (&["--function=*", "--scope=execute"], "more than one of"),
    ] {
        let stderr = fail(&slice(words, &path, output));
        assert!(stderr.contains(reason), "{words:?}: {stderr}");
        assert!(!Path::new(output).exists(), "{words:?}");
    }
    let stderr = fail(&slice(&[], &capture("mlp.mlp.local-sync"), output));
    assert!(stderr.contains("the capture dispatches 5 functions, and none is named"), "{stderr}");
    let stderr = fail(&["rehal", "slice", "--function=*", &path]);
    assert!(stderr.contains("--output is missing"), "{stderr}");
    let stderr = fail(&slice(&["--function=*"], &path, &path));
    assert!(!run(&["rehal", "info", &path]).stdout.is_empty(), "{stderr}");
}

#[test]
fn a_scope_that_does_not_end_is_an_error() {
    use rehal_devices::DeviceOptions;
    use rehal_replay::{RecordOptions, Recorder};
    let scratch = Scratch::new();
    let (path, output) = (scratch.path("open.ireereplay"), scratch.path("slice.ireereplay"));
    let recorder = Recorder::create(&path, RecordOptions::default()).unwrap();
    recorder.wrap(&DeviceOptions::default().open().unwrap()).unwrap();
    recorder.scope_begin("open").unwrap();
    recorder.close().unwrap();
    let stderr = fail(&slice(&["--scope=open"], path.to_str().unwrap(), output.to_str().unwrap()));
    assert!(stderr.contains("scope 'open' does not end"), "{stderr}");
    assert!(!output.exists());
}

#[test]
fn what_is_made_of_a_capture_is_as_private_as_it_is() {
    let scratch = Scratch::new();
    let source = scratch.file("source.ireereplay", std::fs::read(capture("add4.add.local-sync")).unwrap());
    let made = scratch.path("made");
    let path = |name: &str| made.join(name).display().to_string();
    let (cut, output, ledger) =
        (path("slice"), path("reduced"), format!("--replay_ledger={}", path("ledger")));
    let (export, records) =
        (format!("--export={}", path("export")), format!("--directory={}", path("records")));
    let device = "--device=local-sync";
    let commands: [&[&str]; 7] = [
        &["rehal", "slice", device, "--function=add*", "-o", &cut],
        &["rehal", "kernels", device, &export],
        &["rehal", "redact", device, "-o", &path("redacted")],
        &["rehal", "reduce", device, "--check=test -e {}", "--max_checks=1", "-o", &output],
        &["rehal", "run", device, &ledger],
        &["rehal", "kernel", "record", device, &records],
        &["iree-benchmark-replay", device, "--benchmark_min_time=1x", "--rehal_kernel_record"],
    ];
    for (mode, umask, expected) in [
        (0o640, "022", [0o640, 0o750]),
        (0o600, "022", [0o600, 0o700]),
        (0o644, "022", [0o644, 0o755]),
        (0o644, "077", [0o600, 0o700]),
        (0o604, "022", [0o604, 0o705]),
    ] {
        std::fs::create_dir(&made).unwrap();
        std::fs::set_permissions(&source, Permissions::from_mode(mode)).unwrap();
        for words in commands {
            let tool = crate::common::command(words[0]);
            let mut shell = std::process::Command::new("sh");
            shell.args(["-c", &format!("umask {umask}; exec \"$0\" \"$@\"")]).arg(tool.get_program());
            shell.env("REHAL_KERNEL_RECORD_DIR", made.join("records of a benchmark"));
            let ran = crate::common::ran(shell.args(&words[1..]).arg(&source).output().unwrap());
            assert!(ran.status == Some(0) || words[1] == "reduce", "{words:?}: {ran:?}");
        }
        let mut count = 0;
        let mut directories = vec![made.clone()];
        while let Some(directory) = directories.pop() {
            for entry in std::fs::read_dir(directory).unwrap() {
                let (path, metadata) = entry.map(|it| (it.path(), it.metadata().unwrap())).unwrap();
                let [file, directory] = expected;
                let expected = if metadata.is_dir() { directory } else { file };
                assert_eq!(metadata.permissions().mode() & 0o777, expected, "{mode:o}: {}", path.display());
                count += 1;
                directories.extend(metadata.is_dir().then_some(path));
            }
        }
        assert!(count >= 15, "{count}");
        std::fs::remove_dir_all(&made).unwrap();
    }
}
