//! `rehal compile`: its own flags beside those of the compiler. `rehal executables`: files that exist.

use std::fs;

use crate::common::ran;
use crate::compile::{Work, names};

#[test]
fn output_goes_where_the_compiler_writes_it() {
    let work = Work::new();
    work.compile(&[]);
    let ran = ran(work.command(&["rehal", "compile", "--target=cpu", "p.mlir"]).output().unwrap());
    assert!(ran.status == Some(0) && ran.stderr.contains("compiled by "), "{}", ran.stderr);
    let output = work.command(&["rehal", "compile", "--target=cpu", "p.mlir"]).output().unwrap();
    assert_eq!(output.stdout, fs::read(work.path("p.vmfb")).unwrap());
}

#[test]
fn values_of_the_compilers_flags_follow_a_space() {
    let work = Work::new();
    let flags = ["--iree-hal-target-device", "local", "--iree-hal-local-target-device-backends", "llvm-cpu"];
    let target = ["--iree-llvmcpu-target-cpu=host", "--iree-opt-level", "O2", "p.mlir"];
    let switch = ["--iree-vm-bytecode-module-strip-debug-ops", "-o", "p.vmfb"];
    let ran = work.run(&[&["rehal", "compile"], &flags[..], &target, &switch].concat());
    assert_eq!(ran.status, Some(0), "{}", ran.stderr);
    assert_eq!(work.results("p.vmfb"), ["2", "3xf32=3 3 3"]);
    // A switch takes no value, and two programs are one too many.
    let strip = "--iree-vm-bytecode-module-strip-debug-ops";
    for words in [&[strip, "p.mlir", "q.mlir"][..], &["p.mlir", "q.mlir"]] {
        let ran = work.run(&[&["rehal", "compile", "--target=cpu"], words].concat());
        assert!(ran.status == Some(1) && ran.stderr.contains("takes one program"), "{}", ran.stderr);
    }
    let ran = work.run(&["rehal", "compile", "--target=cpu", strip, "p.mlir"]);
    assert_eq!(ran.status, Some(0), "{}", ran.stderr);
}

#[test]
fn a_target_without_a_processor_lists_them() {
    let work = Work::new();
    let ran = work.run(&["rehal", "compile", "--target=hip", "p.mlir", "-o", "none.vmfb"]);
    assert_eq!(ran.status, Some(1));
    let lists =
        "programs for hip need a processor\n  try: name one, as in hip:gfx908: gfx908, gfx90a, gfx942";
    assert!(ran.stderr.contains(lists), "{}", ran.stderr);
    let words = ["rehal", "compile", "--target=hip", "--iree-rocm-target=gfx942", "p.mlir", "-o", "p.mlir2"];
    let ran = work.run(&[&words[..], &["--compile-to=executable-sources"]].concat());
    assert_eq!(ran.status, Some(0), "{}", ran.stderr);
}

#[test]
fn edited_sources_are_not_overwritten() {
    let work = Work::new();
    let dump = |words: &[&str]| {
        work.run(&[&["rehal", "executables", "p.mlir", "--sources_to=kept"], words].concat())
    };
    assert_eq!(dump(&[]).status, Some(0));
    let files: Vec<_> = names(&work.path("kept")).into_iter().filter(|it| it.ends_with(".mlir")).collect();
    assert!(files.len() > 1, "{files:?}");
    let edited = work.path("kept").join(&files[0]);
    let text = fs::read_to_string(&edited).unwrap();
    fs::write(&edited, format!("{text}// edited\n")).unwrap();
    fs::remove_file(work.path("kept").join(&files[1])).unwrap();
    let ran = dump(&[]);
    assert_eq!(ran.status, Some(1), "{}", ran.stderr);
    let why = format!("ALREADY_EXISTS; files that exist have other contents: 'kept/{}'\n", files[0]);
    assert!(ran.stderr.starts_with(&why) && ran.stderr.contains("--force"), "{}", ran.stderr);
    assert!(fs::read_to_string(&edited).unwrap().ends_with("// edited\n"));
    assert!(!work.path("kept").join(&files[1]).exists(), "nothing is written");
    assert_eq!(dump(&["--force"]).status, Some(0));
    assert_eq!(fs::read_to_string(&edited).unwrap(), text);
    // The same files again lose nothing.
    assert_eq!(dump(&[]).status, Some(0));
}

/// The compiler writes over the sources that it has dumped before.
#[test]
fn edits_of_dumped_sources_are_kept() {
    let work = Work::new();
    let dump = "--iree-hal-dump-executable-sources-to=d";
    assert!(!work.compile(&[dump]).contains("note:"));
    assert!(!work.compile(&[dump]).contains("note:"), "what is not edited is not kept");
    let file =
        work.path("d").join(names(&work.path("d")).into_iter().find(|it| it.ends_with(".mlir")).unwrap());
    let dumped = fs::read(&file).unwrap();
    fs::write(&file, "edited").unwrap();
    let said = work.compile(&[dump]);
    assert!(said.contains(" had other contents, which are now in 'd/"), "{said}");
    let kept = file.with_extension("mlir.before");
    assert_eq!((fs::read(&file).unwrap(), fs::read_to_string(kept).unwrap()), (dumped, "edited".to_owned()));
}
