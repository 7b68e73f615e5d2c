//! `iree-dump-module`: output identical to the reference's, and exit statuses.

use crate::common::{Scratch, fail, fixture, patched, print, run};

#[test]
fn dumps_equal_the_reference_output() {
    let mut count = 0;
    for entry in std::fs::read_dir(fixture("vm")).unwrap() {
        let path = entry.unwrap().path();
        let file = path.file_name().unwrap().to_str().unwrap();
        let (name, flags): (_, &[&str]) = match file.split_once(".dump.") {
            Some((name, "txt")) => (name, &["--output=all", "--bytecode_offsets"]),
            Some((name, "json")) => (name, &["--output=flatbuffer-json"]),
            _ => continue,
        };
        let module = fixture(&format!("vm/{name}.vmfb"));
        let dump = print(&[&["rehal", "dump-module"], flags, &[&module]].concat());
        assert!(dump == std::fs::read_to_string(&path).unwrap(), "{file} differs");
        count += 1;
    }
    assert!(count > 10, "only {count} dumps are compared");
}

#[test]
fn the_flatbuffer_is_that_of_the_file() {
    let module = fixture("vm/calls.vmfb");
    let bytes = std::fs::read(&module).unwrap();
    let mut dump = crate::common::command("iree-dump-module");
    let printed = dump.args(["--output=flatbuffer-binary", &module]).output().unwrap().stdout;
    assert_eq!(&printed[4..8], b"IREE");
    assert!(bytes.windows(printed.len()).any(|window| window == printed));
}

#[test]
fn one_function_by_name_or_ordinal() {
    let module = fixture("vm/calls.vmfb");
    let named = print(&["iree-dump-module", "--output=disassembly", "--function=test_recursion", &module]);
    assert_eq!(named.matches("vm.func @").count(), 1);
    assert!(named.contains("vm.export @test_recursion\nvm.func @test_recursion() -> () {\n"), "{named}");
    let first = print(&["iree-dump-module", "--output=disassembly", "--function=0", &module]);
    let octal = print(&["iree-dump-module", "--output=disassembly", "--function=0x0", &module]);
    assert_eq!(first.matches("vm.func @").count(), 1);
    assert_eq!(first, octal);
}

#[test]
fn only_metadata_of_a_module_of_another_version_is_printed() {
    let scratch = Scratch::new();
    let bytes = std::fs::read(fixture("vm/calls.vmfb")).unwrap();
    let other = patched(&bytes, &(17u32 << 16).to_le_bytes(), &(19u32 << 16).to_le_bytes());
    let other = scratch.file("other.vmfb", other);
    assert!(print(&["iree-dump-module", "--output=metadata", &other]).contains("// @calls : version 0"));
    let said = fail(&["iree-dump-module", "--output=disassembly", &other]);
    assert!(said.contains("17.0") && said.contains("19.0"), "{said}");
}

#[test]
fn invalid_input_is_refused_with_advice() {
    let scratch = Scratch::new();
    let module = fixture("vm/calls.vmfb");
    let bytes = std::fs::read(&module).unwrap();
    fail(&["iree-dump-module"]);
    fail(&["iree-dump-module", &module, &module]);
    fail(&["iree-dump-module", "--output=nothing", &module]);
    fail(&["iree-dump-module", "nothing.vmfb"]);
    fail(&["iree-dump-module", &fixture("captures/add4.add.local-sync.ireereplay")]);
    let said = fail(&["iree-dump-module", &scratch.file("truncated.vmfb", &bytes[..bytes.len() / 2])]);
    assert!(said.contains("truncated"), "{said}");
    assert_eq!(run(&["iree-dump-module", &scratch.file("empty.vmfb", [])]).status, Some(1));
}
