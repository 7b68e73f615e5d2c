//! Programs: loading, calls, benchmarks, tests and recording, and their errors.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use rehal::capture::{CaptureFile, CaptureOptions};
use rehal::program::{
    Batch, Calls, Function, ModuleMode, ModuleSource, ModuleTests, ParameterFile, Program, ProgramOptions,
    RecordingOptions, TextSink,
};
use rehal_base::{Result, StatusCode};
use rehal_devices::{
    DeviceOptions, Expected, NamedPath, ValueText, format_value, type_of_value, with_value_bytes,
};
use rehal_replay::{Replay, ReplayOptions};
use rehal_values::{Equality, TensorType};
use rehal_vm::{ElementKind, List, Ref, Value};

use crate::fixture;

fn options(module: &str) -> ProgramOptions {
    let mut options = ProgramOptions::default();
    options.modules.push(ModuleSource::File(fixture(&format!("modules/{module}.vmfb"))));
    options
}

fn texts(values: &[&str]) -> Vec<ValueText> {
    values.iter().map(|text| ValueText::new(text).unwrap()).collect()
}

/// Calls a function; returns its results as text.
fn call(program: &Program, function: &str, inputs: &[&str]) -> Result<Vec<String>> {
    let function = program.function(function)?;
    let mut results = program.call(&function, program.inputs(&function, &texts(inputs))?)?;
    program.to_host(&mut results)?;
    results.iter().map(|result| format_value(result, 1024)).collect()
}

const ADD: [&str; 2] = ["4xf32=1 2 3 4", "4xf32=10 20 30 40"];

#[test]
fn modules_are_read_in_every_mode() {
    let bytes = std::fs::read(fixture("modules/add4.vmfb")).unwrap();
    let mut mapped = options("add4");
    mapped.module_mode = ModuleMode::Mmap;
    let mut in_memory = ProgramOptions::default();
    in_memory.modules.push(ModuleSource::Bytes(bytes.into()));
    for options in [options("add4"), mapped, in_memory] {
        let program = Program::load(&options).unwrap();
        assert_eq!(call(&program, "add", &ADD).unwrap(), ["hal.buffer_view\n4xf32=11 22 33 44"]);
        program.close().unwrap();
    }
}

/// Without it, a device that never ends may be read as a module.
#[test]
fn directories_and_devices_are_not_modules() {
    for (path, what) in [("/", "is a directory"), ("/dev/null", "is a character or block device")] {
        let mut options = ProgramOptions::default();
        options.module_mode = ModuleMode::Preload;
        options.modules.push(ModuleSource::File(path.into()));
        let error = Program::load(&options).err().unwrap();
        assert_eq!(error.message(), format!("'{path}' {what}"));
    }
}

#[test]
fn tensors_go_in_and_out_as_bytes() {
    let program = Program::load(&options("add4")).unwrap();
    let function = program.function("add").unwrap();
    let view = program.inputs(&function, &texts(&ADD[..1])).unwrap().remove(0);
    let tensor_type: TensorType = type_of_value(&view).unwrap();
    let bytes: Vec<u8> = [1.0_f32, 2.0, 3.0, 4.0].into_iter().flat_map(f32::to_le_bytes).collect();
    with_value_bytes(&view, |of_text| assert_eq!(of_text, bytes)).unwrap();
    let tensor = program.tensor(&tensor_type, &bytes).unwrap();
    let mut results = program.call(&function, vec![tensor.clone(), tensor]).unwrap();
    program.to_host(&mut results).unwrap();
    assert_eq!(format_value(&results[0], 1024).unwrap(), "hal.buffer_view\n4xf32=2 4 6 8");
    let error = program.tensor(&tensor_type, &bytes[1..]).unwrap_err();
    assert_eq!(error.code(), StatusCode::InvalidArgument);
    drop((function, results, view));
    program.close().unwrap();
}

#[test]
fn results_are_compared_with_expected_ones() {
    let program = Program::load(&options("add4")).unwrap();
    let function = program.function("add").unwrap();
    let mut results = program.call(&function, program.inputs(&function, &texts(&ADD)).unwrap()).unwrap();
    program.to_host(&mut results).unwrap();
    let difference = |text: &str| {
        let expected = Expected::parse(&texts(&[text]), function.result_kinds()).unwrap();
        assert_eq!((expected.len(), expected.is_empty()), (1, false));
        expected.compare(0, &results[0], &Equality::Exact).unwrap()
    };
    assert_eq!(difference("4xf32=11 22 33 44"), None);
    assert_eq!(difference("(ignored)"), None);
    let text = difference("4xf32=11 22 33 45").unwrap();
    assert!(text.contains("4xf32=11 22 33 45") && text.contains("4xf32=11 22 33 44"), "{text}");
    let error = Expected::parse(&texts(&["1", "2"]), function.result_kinds()).err().unwrap();
    assert_eq!(error.code(), StatusCode::InvalidArgument);
}

#[test]
fn deeply_nested_lists_are_formatted() {
    let list = |element: Value| {
        let list = List::new(ElementKind::Variant, 0).unwrap();
        list.push(element).unwrap();
        Ref::new(list)
    };
    let nested = |depth| (1..depth).fold(list(7.into()), |inner, _| list(inner.into()));
    for depth in [1, 2, 1000, 100_000] {
        let text = format_value(&nested(depth).into(), 16).unwrap();
        let expected = "vm.list\nchild_list[0]: ".repeat(depth) + "i32=7" + &"\n".repeat(depth);
        assert!(text == expected, "{depth}: {}", &text[..text.len().min(200)]);
    }
    let itself = Ref::new(List::new(ElementKind::Variant, 0).unwrap());
    itself.object::<List>().unwrap().push(itself.clone().into()).unwrap();
    let error = format_value(&itself.clone().into(), 16).unwrap_err();
    assert_eq!(error.code(), StatusCode::ResourceExhausted);
    assert!(error.message().contains("contains itself"), "{}", error.report());
    itself.object::<List>().unwrap().resize(0).unwrap();
}

#[test]
fn calls_are_repeated_without_new_inputs() {
    for (module, name, inputs, batch) in [
        ("add4", "add", &ADD[..], Batch::default()),
        (
            "mlp.async",
            "mlp",
            &["8x32xf32=0.5", "32x48xf32=0.25", "48x48xf32=0.5", "48x10xf32=2"],
            Batch { size: 5, concurrency: 2 },
        ),
    ] {
        let program = Program::load(&options(module)).unwrap();
        let function = program.function(name).unwrap();
        let is_async = function.is_async();
        assert_eq!(is_async, module == "mlp.async");
        let inputs = program.inputs(&function, &texts(inputs)).unwrap();
        let mut calls = program.calls(function, inputs, batch).unwrap();
        assert_eq!((calls.needs_preparation(), calls.batch_size()), (is_async, if is_async { 6 } else { 1 }));
        let mut texts = Vec::new();
        for _ in 0..3 {
            let mut prepared = calls.prepare().unwrap();
            calls.run(&mut prepared).unwrap();
            let mut results = prepared.take_last_results().unwrap();
            program.to_host(&mut results).unwrap();
            texts.push(format_value(&results[0], 1024).unwrap());
        }
        assert!(texts[0].contains("f32=") && texts.iter().all(|text| *text == texts[0]), "{texts:?}");
        drop(calls);
        program.close().unwrap();
    }
}

/// Records a call, with checksums.
pub fn record_add(path: &std::path::Path) {
    let mut options = options("add4");
    options.recording = Some(RecordingOptions::new(path));
    let program = Program::load(&options).unwrap();
    program.scope("execute", || call(&program, "add", &ADD)).unwrap();
    program.close().unwrap();
}

#[test]
fn recorded_programs_replay_and_have_their_scopes() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("add4.ireereplay");
    record_add(&path);
    let capture = CaptureFile::open(&path, &CaptureOptions::default()).unwrap();
    let plan = capture.plan().unwrap();
    let scopes: Vec<_> = plan.scopes().map(|(name, count)| (name.to_vec(), count)).collect();
    assert_eq!(scopes, [(b"init".to_vec(), 1), (b"execute".to_vec(), 1), (b"deinit".to_vec(), 1)]);
    let devices = DeviceOptions::default().open().unwrap();
    Replay::new(plan, &devices, &ReplayOptions::default()).unwrap().run(&mut []).unwrap();
}

/// The state of a language binding, which borrows nothing.
struct Handles {
    function: Function,
    calls: Calls,
    program: Program,
}

const fn is_send_and_static<T: Send + 'static>() {}
const _: () = is_send_and_static::<Handles>();

#[test]
fn functions_own_their_program_and_are_dropped_before_it_is_closed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ends.ireereplay");
    // A module that uses its device when its globals are freed.
    let mut options = options("ends");
    options.recording = Some(RecordingOptions::new(&path));
    let program = Program::load(&options).unwrap();
    let function = program.function("nothing").unwrap();
    let calls = program.calls(program.function("nothing").unwrap(), Vec::new(), Batch::default()).unwrap();
    let handles = Handles { function, calls, program };
    // Used on another thread, and dropped in any order before the program.
    let used = std::thread::spawn(move || {
        let Handles { function, mut calls, program } = handles;
        program.call(&function, Vec::new()).unwrap();
        calls.call().unwrap();
        assert_eq!(program.function_count(), 2);
        drop(function);
        drop(calls);
        program
    });
    let program = used.join().unwrap();
    assert_eq!(program.function_count(), 0);
    program.close().unwrap();
    let capture = CaptureFile::open(&path, &CaptureOptions::default()).unwrap();
    assert!(capture.is_closed());
    let mut dump = Vec::new();
    capture.dump(rehal_replay::dump::Format::Text, &mut dump, &mut |_| {}).unwrap();
    let dump = String::from_utf8(dump).unwrap();
    let last: Vec<_> = dump
        .lines()
        .filter_map(|line| {
            let operation =
                ["scope_begin", "scope_end", "allocate_buffer"].into_iter().find(|it| line.contains(it))?;
            Some((operation, line.contains("deinit")))
        })
        .collect();
    let expected = [("scope_begin", true), ("allocate_buffer", false), ("scope_end", true)];
    assert!(last.ends_with(&expected), "{dump}");
}

#[test]
fn closing_a_program_whose_functions_are_alive_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("add4.ireereplay");
    let mut options = options("add4");
    options.recording = Some(RecordingOptions::new(&path));
    let program = Program::load(&options).unwrap();
    let function = program.function("add").unwrap();
    let error = program.close().unwrap_err();
    assert_eq!(error.code(), StatusCode::FailedPrecondition);
    assert_eq!(error.message(), "1 function(s) of the program are alive");
    // The program ends with the function; its capture was never closed.
    assert_eq!(function.name(), "add");
    drop(function);
    let error = CaptureFile::open(&path, &CaptureOptions::default()).err().unwrap();
    assert!(error.report().contains("never closed"), "{}", error.report());
}

#[test]
fn functions_of_another_program_are_refused() {
    let (one, other) = (Program::load(&options("add4")).unwrap(), Program::load(&options("add4")).unwrap());
    let function = one.function("add").unwrap();
    let inputs = one.inputs(&function, &texts(&ADD)).unwrap();
    let error = other.call(&function, inputs).unwrap_err();
    assert_eq!(
        (error.code(), error.message()),
        (StatusCode::InvalidArgument, "the function belongs to another program")
    );
    assert!(other.calls(function, Vec::new(), Batch::default()).is_err());
}

#[test]
fn a_capture_is_closed_by_a_program_that_ends_without_a_scope() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("add4.ireereplay");
    let mut options = options("add4");
    options.recording = Some(RecordingOptions::new(&path));
    Program::load(&options).unwrap().close_unscoped().unwrap();
    let plan = CaptureFile::open(&path, &CaptureOptions::default()).unwrap().plan().unwrap();
    assert_eq!(plan.scopes().map(|(name, _)| name).collect::<Vec<_>>(), [b"init"]);
}

#[test]
fn a_capture_does_not_overwrite_what_the_program_reads() {
    let directory = tempfile::tempdir().unwrap();
    let module = directory.path().join("module.vmfb");
    std::fs::copy(fixture("modules/add4.vmfb"), &module).unwrap();
    let before = std::fs::read(&module).unwrap();
    let mut options = ProgramOptions::default();
    options.modules.push(ModuleSource::File(module.clone()));
    options.recording = Some(RecordingOptions::new(NamedPath::from(&module).named("the capture")));
    let error = Program::load(&options).err().unwrap();
    assert_eq!(error.code(), StatusCode::InvalidArgument);
    assert!(error.context_lines().contains(&"the capture".to_string()), "{}", error.report());
    assert_eq!(std::fs::read(&module).unwrap(), before);
}

#[test]
fn parameters_are_found_in_their_scope() {
    let mut with = options("params");
    with.parameters.files = vec![ParameterFile::new("model", fixture("params/model.irpa"))];
    let missing = {
        let mut options = options("params");
        let path = NamedPath::from("/no/such.irpa").named("weights");
        options.parameters.files = vec![ParameterFile::new("model", path)];
        options
    };
    let error = Program::load(&missing).err().unwrap();
    assert_eq!(error.code(), StatusCode::NotFound);
    assert!(error.context_lines().contains(&"weights".to_string()), "{}", error.report());
    let program = Program::load(&with).unwrap();
    let input = format!("@{}", fixture("inputs/params_x.npy").display());
    assert!(call(&program, "forward", &[&input]).unwrap()[0].starts_with("hal.buffer_view\n"));
    program.close().unwrap();
}

#[test]
fn executed_instructions_are_traced() {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let sink: TextSink = {
        let lines = lines.clone();
        Arc::new(move |line| lines.lock().unwrap().push(line.to_string()))
    };
    let mut options = options("control");
    options.trace_execution = Some(sink);
    let program = Program::load(&options).unwrap();
    call(&program, "collatz", &["i32=27"]).unwrap();
    program.close().unwrap();
    assert!(lines.lock().unwrap().len() > 100);
}

#[test]
fn errors_of_loading_and_calling() {
    let error = Program::load(&ProgramOptions::default()).err().unwrap();
    assert_eq!((error.code(), error.message()), (StatusCode::InvalidArgument, "no module is given"));

    let mut missing = ProgramOptions::default();
    missing.modules.push(ModuleSource::File("/no/such.vmfb".into()));
    let error = Program::load(&missing).err().unwrap();
    assert_eq!(error.code(), StatusCode::NotFound);
    assert!(error.report().contains("'/no/such.vmfb'"), "{}", error.report());

    let mut no_device = options("add4");
    no_device.devices = DeviceOptions::for_devices(Vec::new());
    assert!(Program::load(&no_device).is_err());

    let mut lead = options("add4");
    lead.lead = 1;
    assert!(Program::load(&lead).is_err());

    let program = Program::load(&options("add4")).unwrap();
    let error = program.function("nothing").err().unwrap();
    assert!(error.advice().unwrap().to_string().starts_with("the module has: "), "{}", error.report());
    let function = program.function("add").unwrap();
    let error = program.call(&function, vec![Value::I32(1)]).err().unwrap();
    assert_eq!(error.message(), "expected 2 inputs, found 1");
    assert_eq!(error.context_lines(), ["function 'add'"]);
    // The program is still usable.
    drop(function);
    assert_eq!(call(&program, "add", &ADD).unwrap().len(), 1);
}

#[test]
fn tests_of_a_module_are_isolated() {
    let tests = ModuleTests::load(&options("checks")).unwrap();
    assert!(tests.tests().len() > 2, "{:?}", tests.tests());
    let outcomes: Vec<_> = tests.tests().iter().map(|test| tests.run(&test.name)).collect();
    assert!(outcomes.iter().any(|outcome| outcome.failures.is_empty() && outcome.error.is_none()));
    assert!(outcomes.iter().any(|outcome| !outcome.failures.is_empty() || outcome.error.is_some()));
    // A failed test does not affect its next run.
    for (test, before) in tests.tests().iter().zip(&outcomes) {
        assert_eq!(tests.run(&test.name).failures, before.failures, "{}", test.name);
    }
    let error = ModuleTests::load(&options("add4")).err().unwrap();
    assert!(error.message().starts_with("expected function with no inputs"), "{}", error.report());
}

/// No capture is overwritten by another test, and a test that runs again keeps its path.
#[test]
fn each_test_of_a_module_has_its_own_capture() {
    let directory = tempfile::tempdir().unwrap();
    let mut options = options("checks");
    options.recording = Some(RecordingOptions::new(directory.path().join("all.ireereplay")));
    let tests = ModuleTests::load(&options).unwrap();
    let names: Vec<_> = tests.tests().iter().map(|test| test.name.as_str()).collect();
    for name in names.iter().chain(&names) {
        tests.run(name);
    }
    let mut expected: Vec<_> = names[1..].iter().map(|name| format!("all.{name}.ireereplay")).collect();
    expected.push("all.ireereplay".to_owned());
    let files = std::fs::read_dir(directory.path()).unwrap();
    let mut found: Vec<_> = files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    expected.sort();
    found.sort();
    assert_eq!(found, expected);
    for file in found {
        let capture = CaptureFile::open(&directory.path().join(file), &CaptureOptions::default()).unwrap();
        capture.plan().unwrap();
    }
}

/// A repeating function takes the repetition count as an i32.
#[test]
fn a_batch_above_the_repetition_limit_is_refused() {
    let program = Program::load(&options("add4")).unwrap();
    for (size, is_refused) in [(i32::MAX as u64, false), (1 << 31, true), (1 << 32, true), (u64::MAX, true)] {
        let batch = Batch { size, ..Batch::default() };
        let calls = program.repeating_calls(program.function("add").unwrap(), batch);
        assert_eq!(calls.err().map(|error| error.code()), is_refused.then_some(StatusCode::OutOfRange));
    }
}

#[test]
fn a_panic_in_a_callback_leaves_the_program_usable() {
    let panics = Arc::new(AtomicBool::new(false));
    let mut options = options("control");
    options.trace_execution = Some({
        let panics = panics.clone();
        Arc::new(move |_| assert!(!panics.load(Ordering::Relaxed), "the sink panics on purpose"))
    });
    let program = Program::load(&options).unwrap();
    let collatz = || call(&program, "collatz", &["i32=27"]);
    let before = collatz().unwrap();
    for _ in 0..3 {
        panics.store(true, Ordering::Relaxed);
        assert!(std::panic::catch_unwind(AssertUnwindSafe(collatz)).is_err());
        panics.store(false, Ordering::Relaxed);
        assert_eq!(collatz().unwrap(), before);
    }
    program.close().unwrap();
}
