//! Loading and running libraries of the CPU ABI, through our loader and the system's.
#![allow(unsafe_code, reason = "runs the libraries that it compiled")]
#![cfg(all(target_os = "linux", any(target_arch = "aarch64", target_arch = "x86_64")))]

mod support;

use rehal_base::{Result, StatusCode};
use rehal_local::executable::{Dispatch, Library, LoadOptions, MemorySpan, infer_format, processor};
use support::{EMBEDDED, Link, MACHINES, SYSTEM, compile};

fn load(format: &str, bytes: &[u8]) -> Result<Library> {
    load_with(format, bytes, &[])
}

fn load_with(format: &str, bytes: &[u8], constants: &[u32]) -> Result<Library> {
    // SAFETY: the tests' own code.
    unsafe { Library::load(format, bytes, &LoadOptions { constants, ..LoadOptions::default() }) }
}

fn span<T>(values: &mut [T]) -> MemorySpan {
    MemorySpan { pointer: values.as_mut_ptr().cast(), length_bytes: size_of_val(values) }
}

fn run(library: &Library, name: &str, dispatch: Dispatch<'_>) -> Result<()> {
    let ordinal = library.lookup(name)?;
    // SAFETY: the callers pass bindings of their own that are large enough.
    unsafe { library.dispatch(ordinal, dispatch) }
}

fn both(options: &[&str]) -> [(&'static str, Vec<u8>); 2] {
    [
        (EMBEDDED, compile("library.c", Link::Embedded, options)),
        (SYSTEM, compile("library.c", Link::System, options)),
    ]
}

#[test]
fn functions_are_described() {
    for (format, bytes) in both(&[]) {
        let library = load(format, &bytes).unwrap();
        assert_eq!(library.name(), "test_library");
        assert_eq!(library.function_count(), 12);
        let sum = library.function(0).unwrap();
        assert_eq!((sum.name.as_str(), sum.flags, sum.workgroup_size), ("sum", 2, [4, 2, 1]));
        assert_eq!((sum.constant_count, sum.binding_count, sum.parameter_count), (1, 3, 2));
        let bias = &sum.parameters[0];
        assert_eq!((bias.kind, bias.size, bias.offset, bias.name.as_str()), (0, 4, 0, "bias"));
        let out = &sum.parameters[1];
        assert_eq!((out.kind, out.size, out.offset, out.name.as_str()), (1, 0, 2, ""));
        let trace = library.function(1).unwrap();
        assert_eq!((library.local_memory_bytes(1).unwrap(), trace.parameters.len()), (8192, 0));
        assert_eq!(library.lookup("trace").unwrap(), 1);
        let error = library.lookup("trac").unwrap_err();
        assert!(error.to_string().contains("no function 'trac'; it has: sum, trace,"), "{error}");
        assert_eq!(library.function(12).unwrap_err().code(), StatusCode::OutOfRange);
        assert_eq!(library.local_memory_bytes(12).unwrap_err().code(), StatusCode::OutOfRange);
    }
}

#[test]
fn workgroups_run_x_first_and_see_their_dispatch() {
    let [(format, bytes), _] = both(&[]);
    let library = load(format, &bytes).unwrap();
    let mut words = vec![0u32; 1 + 11 * 24];
    let mut scratch = vec![0u8; 8192 + 64];
    let dispatch = Dispatch {
        workgroup_count: [2, 3, 4],
        workgroup_size: [7, 0, 9],
        bindings: &[span(&mut words)],
        local_memory: &mut scratch,
        ..Dispatch::default()
    };
    run(&library, "trace", dispatch).unwrap();
    assert_eq!(words[0], 11 * 24);
    let mut records = words[1..].chunks_exact(11);
    for z in 0..4 {
        for y in 0..3 {
            for x in 0..2 {
                assert_eq!(records.next().unwrap(), [x, y, z, 2, 3, 4, 7, 1, 9, 8256, 1]);
            }
        }
    }
    assert!(scratch.iter().all(|byte| *byte == 1), "the kernel can write all of the local memory");
}

#[test]
fn the_first_failure_ends_a_dispatch() {
    let [(format, bytes), _] = both(&[]);
    let library = load(format, &bytes).unwrap();
    let mut count = [0u32];
    let bindings = [span(&mut count)];
    let dispatch = Dispatch { workgroup_count: [3, 2, 2], bindings: &bindings, ..Dispatch::default() };
    let error = run(&library, "fails", dispatch).unwrap_err();
    assert_eq!(error.to_string(), "INTERNAL; function 'fails' failed in workgroup [1, 0, 0]: it returned 7");
    assert_eq!(count, [2]);
}

#[test]
fn mismatched_arguments_are_rejected() {
    let [(format, bytes), _] = both(&[]);
    let library = load(format, &bytes).unwrap();
    let mut word = [0u32; 16];
    let one = [span(&mut word)];
    let refused = |name: &str, dispatch: Dispatch<'_>| {
        let error = run(&library, name, dispatch).unwrap_err();
        (error.code(), error.message().to_string())
    };
    let (code, message) = refused("sum", Dispatch { bindings: &one, ..Dispatch::default() });
    assert_eq!(
        (code, message.as_str()),
        (StatusCode::InvalidArgument, "function 'sum' takes 1 constants, 0 were provided")
    );
    let (_, message) = refused("sum", Dispatch { bindings: &one, constants: &[1], ..Dispatch::default() });
    assert_eq!(message, "function 'sum' takes 3 bindings, 1 were provided");
    let (_, message) = refused("trace", Dispatch { bindings: &one, ..Dispatch::default() });
    assert_eq!(message, "function 'trace' takes 8192 bytes of local memory, 0 were provided");
    let deep = Dispatch { workgroup_count: [1, 1, 65536], bindings: &one, ..Dispatch::default() };
    assert_eq!(refused("fails", deep).0, StatusCode::OutOfRange);
}

#[test]
fn constants_and_the_processor_reach_the_library() {
    for (format, bytes) in both(&["-DCONSTANT_COUNT=2"]) {
        let error = load_with(format, &bytes, &[1]).err().unwrap();
        assert!(error.to_string().contains("requires 2 constants, 1 were provided"), "{error}");
        let library = load_with(format, &bytes, &[11, 22]).unwrap();
        let mut out = [u64::MAX; 10];
        let bindings = [span(&mut out)];
        run(&library, "environment", Dispatch { bindings: &bindings, ..Dispatch::default() }).unwrap();
        assert_eq!(out[..2], [11, 22]);
        assert_eq!(out[2..], processor::data());
    }
}

#[test]
fn libraries_loaded_together_are_independent() {
    for link in [Link::Embedded, Link::System] {
        let format = if link == Link::Embedded { EMBEDDED } else { SYSTEM };
        let none = load(format, &compile("library.c", link, &[])).unwrap();
        let bytes = compile("library.c", link, &["-DCONSTANT_COUNT=1"]);
        let [one, other] = [5, 6].map(|constant| load_with(format, &bytes, &[constant]).unwrap());
        for (library, constants) in [(&none, vec![]), (&one, vec![5]), (&other, vec![6])] {
            let mut out = [u64::MAX; 10];
            let bindings = [span(&mut out)];
            run(library, "environment", Dispatch { bindings: &bindings, ..Dispatch::default() }).unwrap();
            assert_eq!(out[..constants.len()], constants);
            assert_eq!(out[constants.len()], processor::data()[0]);
        }
    }
}

#[test]
fn denormals_are_flushed_on_request() {
    let [(format, bytes), _] = both(&[]);
    let library = load(format, &bytes).unwrap();
    for (flush_denormals, expected) in [(true, 0), (false, 2)] {
        let mut value = [f32::from_bits(2)];
        let bindings = [span(&mut value)];
        run(&library, "denormal", Dispatch { bindings: &bindings, flush_denormals, ..Dispatch::default() })
            .unwrap();
        assert_eq!(value[0].to_bits(), expected);
    }
}

#[test]
fn invalid_tables_are_rejected_with_the_reason() {
    let cases = [
        ("-DVERSION=5", StatusCode::Incompatible, "has ABI version 5, supported is 6"),
        ("-DSANITIZER=1", StatusCode::Unavailable, "built with AddressSanitizer"),
        ("-DNO_NAME", StatusCode::FailedPrecondition, "function 0 of the executable has no name"),
        ("-DBINDING_COUNT=65", StatusCode::OutOfRange, "requires 65 bindings, the limit is 64"),
    ];
    for (option, code, words) in cases {
        for (format, bytes) in both(&[option]) {
            let error = load(format, &bytes).err().unwrap();
            assert!(error.code() == code && error.message().contains(words), "{option}: {error}");
        }
    }
}

#[test]
fn constructors_run_before_the_query_function() {
    for (format, bytes) in both(&["-DCONSTRUCTOR"]) {
        load(format, &bytes).unwrap();
    }
}

#[test]
fn an_image_with_data_is_not_cached() {
    let bytes = compile("library.c", Link::Embedded, &["-DMUTABLE"]);
    let first = load(EMBEDDED, &bytes).unwrap();
    let second = load(EMBEDDED, &bytes).unwrap();
    drop(first);
    load(EMBEDDED, &bytes).unwrap();
    assert_eq!(second.function_count(), 12);
}

#[test]
fn an_image_without_data_is_cached() {
    let bytes = compile("library.c", Link::Embedded, &[]);
    let first = load(EMBEDDED, &bytes).unwrap();
    let second = load(EMBEDDED, &bytes).unwrap();
    drop(first);
    let mut count = [0u32];
    let bindings = [span(&mut count)];
    run(&second, "fails", Dispatch { bindings: &bindings, ..Dispatch::default() }).unwrap();
    assert_eq!(count, [1]);
}

#[test]
fn threads_run_one_library_at_the_same_time() {
    let [(format, bytes), _] = both(&[]);
    let library = load(format, &bytes).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4u32 {
            let library = &library;
            scope.spawn(move || {
                for round in 0..200 {
                    let (mut a, mut b, mut out) = ([1.0f32; 64], [thread as f32; 64], [0.0f32; 64]);
                    let bindings = [span(&mut a), span(&mut b), span(&mut out)];
                    let dispatch = Dispatch {
                        workgroup_count: [64, 1, 1],
                        constants: &[round],
                        bindings: &bindings,
                        ..Dispatch::default()
                    };
                    run(library, "sum", dispatch).unwrap();
                    assert_eq!(out, [1.0 + thread as f32 + round as f32; 64]);
                }
            });
        }
    });
}

#[test]
fn a_system_library_calls_the_hosts_math_library_without_naming_it() {
    // As the compiler links them: without naming libraries, so the process must provide the function.
    let unnamed = |function| {
        let bytes =
            compile("library.c", Link::System, &["-nodefaultlibs", &format!("-DNEEDS_FUNCTION={function}")]);
        load(SYSTEM, &bytes)
    };
    assert_eq!(unnamed("fmodf").unwrap().function_count(), 12);
    let error = unnamed("rehal_has_no_such_function").err().unwrap();
    assert_eq!(error.code(), StatusCode::NotFound);
    assert!(error.message().contains("undefined symbol: rehal_has_no_such_function"), "{error}");
}

#[test]
fn formats_are_inferred_from_what_an_image_needs() {
    let embedded = compile("library.c", Link::Embedded, &[]);
    assert_eq!(infer_format(&embedded), Some(EMBEDDED));
    let system = compile("library.c", Link::System, &["-DNEEDS_SYSTEM"]);
    assert_eq!(infer_format(&system), Some(SYSTEM));
    let error = load(EMBEDDED, &system).err().unwrap();
    assert!(error.report().contains("no symbols from other libraries"), "{}", error.report());
    assert_eq!(load(SYSTEM, &system).unwrap().function_count(), 12);
    let mut other = embedded;
    let [(_, here), (number, name)] = MACHINES;
    other[18] = number;
    assert_eq!(infer_format(&other), Some(&*format!("embedded-elf-{name}")));
    let error = load(EMBEDDED, &other).err().unwrap();
    let expected = format!("the executable is for {name}, this machine is {here}");
    assert!(error.report().contains(&expected), "{error:?}");
    assert_eq!(infer_format(b"something else"), None);
    assert_eq!(infer_format(b""), None);
}

#[test]
fn a_library_without_the_query_function_is_rejected() {
    for link in [Link::Embedded, Link::System] {
        let bytes = compile("plugin.c", link, &[]);
        let format = if link == Link::Embedded { EMBEDDED } else { SYSTEM };
        let error = load(format, &bytes).err().unwrap();
        assert!(error.message().contains("iree_hal_executable_library_query"), "{error}");
    }
}
