//! The tools for parameter files.

use std::path::Path;

use crate::common::{Scratch, fail, fixture, print, run};
use rehal_params::irpa::Archive;
use rehal_params::{FileMode, Index, Storage};

/// The rows of a table: start, end, length and key.
fn rows(table: &str) -> Vec<String> {
    let rows = table.lines().filter(|line| !line.starts_with("//") && !line.is_empty());
    rows.map(|line| line.split_whitespace().collect()).collect()
}

#[test]
fn archives_are_created_listed_extracted_and_converted() {
    let scratch = Scratch::new();
    let path = |name: &str| scratch.path(name).display().to_string();
    let output = format!("--output={}", path("a.irpa"));
    let data = ["--data=a=4xf32=2.5", "--data=b=3xi16=1,-2,3", "--data=c=5xi8", "--splat=s=8xf64=-0.5"];
    let made = print(&[&["iree-create-parameters", &output], &data[..]].concat());
    assert_eq!(rows(&made), ["-|-|64|`s`", "448|464|16|`a`", "512|518|6|`b`", "576|581|5|`c`"]);
    let from = format!("--parameters=m={}", path("a.irpa"));
    for mode in ["file", "mmap", "preload"] {
        let mode = format!("--parameter_mode={mode}");
        let extracts = ["a", "b", "c", "s"].map(|key| format!("--extract=m::{key}={}", path(key)));
        let [a, b, c, s] = &extracts;
        let said = print(&["iree-dump-parameters", &mode, &from, a, b, c, s]);
        assert!(said.contains("// Parameter scope `m` (4 entries, 91 total bytes)\n"), "{said}");
        assert!(
            said.contains(&format!("Extracting parameter `m::s` (64b) to `{}`...\n", path("s"))),
            "{said}"
        );
        let file = |name: &str| std::fs::read(scratch.path(name)).unwrap();
        assert_eq!(file("a"), 2.5f32.to_le_bytes().repeat(4));
        assert_eq!(file("b"), [1i16, -2, 3].map(i16::to_le_bytes).concat());
        assert_eq!(file("c"), [0; 5]);
        assert_eq!(file("s"), (-0.5f64).to_le_bytes().repeat(8));
    }
    let output = format!("--output={}", path("b.irpa"));
    let changes = ["--exclude=c", "--rename=a=z", "--splat=b=i16=7", "--splat=missing=i8=1"];
    let ran = run(&[&["iree-convert-parameters", &from, &output], &changes[..]].concat());
    assert_eq!(rows(&ran.stdout), ["-|-|64|`s`", "384|400|16|`z`", "-|-|6|`b`"]);
    assert_eq!(ran.stderr, "note: --splat=missing matches no parameter of these files\n");
}

#[test]
fn errors_have_a_location_and_advice() {
    let scratch = Scratch::new();
    let out = format!("--output={}", scratch.path("out.irpa").display());
    let model = fixture("params/model.irpa");
    let from = format!("--parameters=model={model}");
    let over = scratch.file("over.irpa", std::fs::read(&model).unwrap());
    let (read, write) = (format!("--parameters={over}"), format!("--output={over}"));
    let cases: [(&[&str], &str); 14] = [
        (&["iree-dump-parameters", "file.irpa"], "takes only flags"),
        (&["iree-dump-parameters", "--parameters=x.bin"], "unsupported file format `bin`"),
        (&["iree-dump-parameters", &from, "--extract=model::biass=x"], "'bias'"),
        (&["iree-dump-parameters", &from, "--extract=modl::w=x"], "'model'"),
        (&["iree-dump-parameters", &from, "--extract=w=x"], "'model'"),
        (&["iree-create-parameters", "--data=a=4xf32"], "--output is missing"),
        (&["iree-create-parameters", &out, "--data=a=4xq3"], "not an element type"),
        (&["iree-create-parameters", &out, "--splat=a=2xi8=1,2"], "a splat has one value"),
        (&["iree-create-parameters", &out, "--splat=a=2xi4=1"], "do not fill whole bytes"),
        (&["iree-create-parameters", &out, "--splat=a=2xi24=010203"], "1, 2, 4, 8 or 16 bytes"),
        (&["iree-create-parameters", &out, "--data=a=i8", "--splat=a=i8"], "duplicate parameter 'a'"),
        (&["iree-create-parameters", &out, "--data=a=i8", "--alignment=48"], "(expected a power of two)"),
        (&["iree-convert-parameters", &out, &from, &from], "--exclude=NAME"),
        (&["iree-convert-parameters", &read, &write], "which is read"),
    ];
    for (words, expected) in cases {
        let said = fail_after_output(words);
        assert!(said.contains(expected), "{words:?}: {said}");
    }
    assert_eq!(std::fs::read(over).unwrap(), std::fs::read(model).unwrap(), "what is read stays");
    assert!(!scratch.path("out.irpa").exists(), "nothing is written before everything is clear");
}

/// As [`fail`], but the table of the inputs may have been printed before.
fn fail_after_output(words: &[&str]) -> String {
    if !words.iter().any(|word| word.starts_with("--extract")) {
        return fail(words);
    }
    let ran = run(words);
    assert_eq!(ran.status, Some(1), "{words:?}: {ran:?}");
    assert!(ran.stderr.contains("\n  at: ") && ran.stderr.contains("\n  try: "), "{words:?}: {}", ran.stderr);
    ran.stderr
}

/// An archive that names the data of `model.irpa` by `path`.
pub fn external_archive(at: &Path, path: &str) -> String {
    let mut index = Index::new();
    index.add_file(fixture("params/model.irpa").as_ref(), FileMode::File).unwrap();
    let mut archive = Archive::new();
    for entry in index.entries() {
        let Storage::File { offset, .. } = entry.storage else { continue };
        archive.add_external(&entry.name, b"", path, offset, entry.length).unwrap();
    }
    let mut header = Vec::new();
    archive.write_header(&mut header).unwrap();
    std::fs::write(at, header).unwrap();
    at.to_str().unwrap().to_owned()
}

/// An archive could otherwise take any file of the user along.
#[test]
fn files_outside_of_the_directory_of_an_archive_are_copied_only_by_a_flag() {
    let scratch = Scratch::new();
    let inner = scratch.path("inner");
    std::fs::create_dir(&inner).unwrap();
    let data = scratch.path("data.bin");
    std::fs::copy(fixture("params/model.irpa"), &data).unwrap();
    std::fs::copy(&data, inner.join("beside.bin")).unwrap();
    std::os::unix::fs::symlink("../data.bin", inner.join("link.bin")).unwrap();
    let paths = [data.to_str().unwrap(), "../data.bin", "./../inner/../data.bin", "link.bin", "beside.bin"];
    let [module, input] = ["modules/params.vmfb", "inputs/params_x.npy"].map(fixture);
    let (module, input) = (format!("--module={module}"), format!("--input=@{input}"));
    let out = |flag: &str, name: &str| format!("--{flag}={}", scratch.path(name).display());
    let capture = out("device_replay_output", "out.ireereplay");
    let run_module = ["iree-run-module", "--output=", &module, &input];
    let (ranges, all) =
        ("--device_replay_file_policy=capture-ranges", "--device_replay_file_policy=capture-all");
    let records = out("rehal_kernel_record_dir", "records");
    let copying: [Vec<&str>; 6] = [
        vec!["iree-convert-parameters", "--output=OUT"],
        vec!["iree-dump-parameters", "--extract=model::w=OUT"],
        [&run_module[..], &[&capture, ranges]].concat(),
        [&run_module[..], &[&capture, all]].concat(),
        [&run_module[..], &[&capture, "--parameter_mode=preload"]].concat(),
        [&run_module[..], &["--rehal_kernel_record", &records, "--rehal_kernel_record_force"]].concat(),
    ];
    for (path, words) in paths.iter().flat_map(|path| copying.iter().map(move |words| (path, words))) {
        let archive = format!("--parameters=model={}", external_archive(&inner.join("a.irpa"), path));
        let output = scratch.path("out.irpa").display().to_string();
        let _ = std::fs::remove_file(&output);
        let words: Vec<_> = words.iter().map(|word| word.replace("OUT", &output)).chain([archive]).collect();
        let mut words: Vec<_> = words.iter().map(String::as_str).collect();
        let ran = run(&words);
        if *path == "beside.bin" {
            assert_eq!(ran.status, Some(0), "{words:?}: {ran:?}");
            continue;
        }
        let named = inner.join(path).display().to_string();
        assert_eq!(ran.status, Some(1), "{words:?}: {ran:?}");
        let is_named =
            ran.stderr.contains(&format!("'{named}'")) && ran.stderr.contains("--allow_external_paths");
        assert!(is_named, "{words:?}: {ran:?}");
        words.push("--allow_external_paths");
        let ran = run(&words);
        assert_eq!(ran.status, Some(0), "{words:?}: {ran:?}");
    }
    // What copies no data lists the paths, and reads the files.
    for path in paths {
        let archive = format!("--parameters=model={}", external_archive(&inner.join("a.irpa"), path));
        let named = inner.join(path).display().to_string();
        assert!(print(&["iree-dump-parameters", &archive]).contains(&format!(" in `{named}`")), "{path}");
        print(&[&run_module[..], &[&archive]].concat());
        print(&[&run_module[..], &[&archive, &capture]].concat());
    }
}
