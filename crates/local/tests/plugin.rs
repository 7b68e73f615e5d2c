//! Plugins, and the executables that import from them.
#![allow(unsafe_code, reason = "runs the libraries that it compiled")]
#![cfg(all(target_os = "linux", any(target_arch = "aarch64", target_arch = "x86_64")))]

mod support;

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use rehal_base::{Remedy, Result, StatusCode};
use rehal_local::executable::{Dispatch, Library, LoadOptions, MemorySpan, Plugin, Plugins};
use support::{EMBEDDED, Link, SYSTEM, compile, compile_to};

/// A compiled plugin, removed when dropped.
struct File(PathBuf);

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn plugin(extension: &str, link: Link, options: &[&str]) -> File {
    File(compile_to(extension, "plugin.c", link, options))
}

fn load(spec: impl AsRef<OsStr>) -> Result<Plugin> {
    // SAFETY: the tests' own code.
    unsafe { Plugin::load(spec.as_ref()) }
}

fn plugins(specs: &[&File]) -> Plugins {
    let mut plugins = Plugins::default();
    for spec in specs {
        // SAFETY: the tests' own code.
        unsafe { plugins.load(spec.0.as_os_str()) }.unwrap();
    }
    plugins
}

fn library(format: &str, bytes: &[u8], plugins: &Plugins) -> Result<Library> {
    let options = LoadOptions { providers: plugins.providers(), ..LoadOptions::default() };
    // SAFETY: the tests' own code.
    unsafe { Library::load(format, bytes, &options) }
}

/// The result of the library's import for 3 and 4, and whether the optional import is resolved.
fn add(library: &Library) -> (i32, bool) {
    let mut values = [3i32, 4, 0, -1];
    let bindings = [MemorySpan { pointer: values.as_mut_ptr().cast(), length_bytes: 16 }];
    let function = library.lookup("calls").unwrap();
    // SAFETY: the binding has the four values that the function accesses.
    unsafe { library.dispatch(function, Dispatch { bindings: &bindings, ..Dispatch::default() }) }.unwrap();
    (values[2], values[3] != 0)
}

fn executables() -> [(&'static str, Vec<u8>); 2] {
    [
        (EMBEDDED, compile("library.c", Link::Embedded, &["-DIMPORTS"])),
        (SYSTEM, compile("library.c", Link::System, &["-DIMPORTS"])),
    ]
}

#[test]
fn imports_come_from_plugins_of_both_kinds() {
    let files = [plugin("so", Link::System, &["-DBIAS=100"]), plugin("sos", Link::Embedded, &["-DBIAS=100"])];
    for file in &files {
        let plugins = plugins(&[file]);
        for (format, bytes) in executables() {
            let library = library(format, &bytes, &plugins).unwrap();
            assert_eq!(add(&library), (107, false));
        }
    }
}

#[test]
fn the_prefix_chooses_our_loader() {
    let file = plugin("so", Link::Embedded, &[]);
    let mut spec = OsString::from("embedded:");
    spec.push(&file.0);
    assert_eq!(load(&spec).unwrap().name(), "test_plugin");
}

#[test]
fn the_last_plugin_has_precedence() {
    let first = plugin("so", Link::System, &["-DBIAS=100"]);
    let second = plugin("sos", Link::Embedded, &["-DBIAS=200"]);
    let nothing = plugin("sos", Link::Embedded, &["-DPROVIDES_NOTHING"]);
    let [(format, bytes), _] = executables();
    for (order, sum) in [([&first, &second, &nothing], 207), ([&nothing, &second, &first], 107)] {
        assert_eq!(add(&library(format, &bytes, &plugins(&order)).unwrap()).0, sum);
    }
}

#[test]
fn an_executable_keeps_its_plugin_loaded() {
    let file = plugin("sos", Link::Embedded, &["-DBIAS=1"]);
    let [(format, bytes), _] = executables();
    let library = {
        let plugins = plugins(&[&file]);
        library(format, &bytes, &plugins).unwrap()
    };
    assert_eq!(add(&library).0, 8);
}

#[test]
fn a_missing_import_is_named() {
    let nothing = plugin("so", Link::System, &["-DPROVIDES_NOTHING"]);
    for (format, bytes) in executables() {
        for plugins in [Plugins::default(), plugins(&[&nothing])] {
            let error = library(format, &bytes, &plugins).err().unwrap();
            assert_eq!(error.to_string(), "NOT_FOUND; missing 1 required executable imports: [test_add]");
            assert_eq!(error.advice(), Some(&Remedy::LoadPlugin.into()), "{error:?}");
        }
    }
}

#[test]
fn unusable_plugins_are_rejected_with_the_reason() {
    let cases = [
        ("-DVERSION=2", StatusCode::Incompatible, "interface has version 2, supported is 1"),
        ("-DREFUSES=8", StatusCode::ResourceExhausted, "executable plugin 'test_plugin' failed to load"),
        ("-DREFUSES=32", StatusCode::Unknown, "executable plugin 'test_plugin' failed to load"),
    ];
    for (option, code, words) in cases {
        for (extension, link) in [("so", Link::System), ("sos", Link::Embedded)] {
            let file = plugin(extension, link, &[option]);
            let error = load(&file.0).err().unwrap();
            assert!(error.code() == code && error.message().contains(words), "{error:?}");
            assert!(error.report().contains(&*file.0.to_string_lossy()), "{error:?}");
        }
    }
    for spec in ["/no/such/plugin.so", "/no/such/plugin.sos", "embedded:/no/such/plugin.so"] {
        assert_eq!(load(spec).err().unwrap().code(), StatusCode::NotFound, "{spec}");
    }
    let library = File(compile_to("so", "library.c", Link::System, &[]));
    let error = load(&library.0).err().unwrap();
    assert!(error.message().contains("iree_hal_executable_plugin_query"), "{error}");
}
