//! The numbers in the lists of kernels of two captures, compared with golden files.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rehal_base::{Error, Result, StatusCode};
use rehal_devices::{CrashReports, ValueText};
use rehal_hal::{Device, DeviceGroup, transfer};
use rehal_judge::{Clock, JudgeOptions, Side};
use rehal_kernels::{
    DispatchFiles, EntryPoint, ExecutableSource, Kernel, KernelFiles, KernelOptions, KernelRecordOptions,
    KernelRecording, KernelReplay, KernelReplayOptions, Kernels, LaunchArguments, LaunchBinding, LoadOptions,
    LoadedExecutable, check_kernel_records, compare_replays, dispatch_clock, function_costs,
};
use rehal_local::LocalSync;
use rehal_local::executable::Plugins;
use rehal_replay::{
    Plan, PlanOptions, RecordOptions, Recorder, Replacement, Replay, ReplayOptions, Selector, Slice,
    SliceOptions, SliceSet, Substitution,
};
use serde_json::json;

fn plan(name: &str) -> Arc<Plan> {
    let path = testing::fixtures().join(format!("captures/{name}.ireereplay"));
    Arc::new(Plan::compile(std::fs::read(path).unwrap(), PlanOptions::default()).unwrap())
}

fn replay(plan: &Arc<Plan>) -> Replay {
    replay_with(plan, Vec::new())
}

fn device() -> Device {
    LocalSync::create(Plugins::default())
}

fn replay_with(plan: &Arc<Plan>, substitutions: Vec<Substitution>) -> Replay {
    let devices = DeviceGroup::new((0..plan.device_count()).map(|_| device()).collect()).unwrap();
    let options = ReplayOptions::default().substitutions(substitutions);
    Replay::new(plan.clone(), &devices, &options).unwrap()
}

/// A line for each kernel, without its times, in the order of the first dispatches.
fn lines(list: &str, mut of: Kernels) -> String {
    of.kernels.sort_by_key(|it| (it.location.ordinal, it.occurrence));
    let mut text = json!({ "list": list, "dispatch_count": of.dispatch_count }).to_string() + "\n";
    for kernel in &mut of.kernels {
        (kernel.time_ns, kernel.interval_ns, kernel.processor) = (None, None, None);
        let changed = (0..kernel.bindings.len()).map(|binding| {
            let ranges = kernel.changed_ranges(binding)?;
            Some(ranges.iter().map(|it| (it.offset, it.length)).collect())
        });
        let changed: Vec<Option<Vec<(u64, u64)>>> = changed.collect();
        let accessed = (0..kernel.bindings.len()).map(|binding| {
            let ranges = kernel.accessed_ranges(binding)?;
            Some(ranges.iter().map(|it| (it.offset, it.length)).collect())
        });
        let accessed: Vec<Option<Vec<(u64, u64)>>> = accessed.collect();
        let bytes = [kernel.bytes_bound(), kernel.bytes_read(), kernel.bytes_written()];
        let line = json!({
            "kernel": kernel,
            "bound_read_written": bytes,
            "changed_ranges": changed,
            "accessed_bytes": kernel.bytes_accessed(),
            "accessed_ranges": accessed,
        });
        text += &(line.to_string() + "\n");
    }
    text
}

/// Without this test, dispatches, shapes and bytes may be counted for another kernel than their own.
#[test]
fn lists_of_kernels_have_the_numbers_of_golden_files() {
    // Pages that are accessed are seen by signals.
    CrashReports::install();
    for name in ["chain.chain.local-sync", "control.collatz.local-sync"] {
        let plan = plan(name);
        let options = KernelOptions::default();
        let planned = lines("planned", Kernels::from_plan(&plan, &options).unwrap());
        let replayed = lines("replayed", Kernels::from_replay(&replay(&plan), &options).unwrap());
        let costs = function_costs(&plan).unwrap();
        let costs: String = costs.iter().map(|it| serde_json::to_string(it).unwrap() + "\n").collect();
        let path = format!("{}/tests/data/{name}.kernels.jsonl", env!("CARGO_MANIFEST_DIR"));
        testing::assert_golden(path.as_ref(), &(planned + &replayed + &costs));
    }
}

/// Without this test, a command buffer that is executed several times with the same buffers, as no fixture
/// does, may count once.
#[test]
fn each_execution_of_a_command_buffer_counts() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("executions.ireereplay");
    let recorder = Recorder::create(&path, RecordOptions::default()).unwrap();
    let group = DeviceGroup::new(vec![LocalSync::create(Plugins::default())]).unwrap();
    let group = recorder.wrap(&group).unwrap();
    let source = ExecutableSource::File(testing::fixtures().join("cts/affine.embedded.elf"));
    let affine = LoadedExecutable::load(&group.devices()[0], &source, &LoadOptions::default()).unwrap();
    let mut arguments = LaunchArguments::for_function(0);
    arguments.constants = vec![3, 4];
    let values = ["16xi32=5", "16xi32"].map(|value| ValueText::new(value).unwrap());
    arguments.bindings = affine.bindings(&values).unwrap();
    let mut launches = affine.launches(&arguments, 2).unwrap();
    (0..3).for_each(|_| launches.run().unwrap());
    drop((launches, arguments, affine, group));
    recorder.close().unwrap();

    let plan = Arc::new(Plan::compile(std::fs::read(&path).unwrap(), PlanOptions::default()).unwrap());
    let options = KernelOptions::default();
    for listed in [Kernels::from_plan(&plan, &options), Kernels::from_replay(&replay(&plan), &options)] {
        let listed = listed.unwrap();
        let counts: Vec<u64> = listed.kernels.iter().map(|it| it.count).collect();
        assert_eq!((listed.dispatch_count, counts), (6, vec![6]));
    }
    let costs = function_costs(&plan).unwrap();
    let costs: Vec<_> = costs.iter().map(|it| (&*it.name, it.dispatches, it.bound_bytes)).collect();
    assert_eq!(costs, [("affine", 6, 6 * 128)]);
}

/// Without this test, the time of a first dispatch may be that of another kernel, and a total not the sum.
#[test]
fn times_are_those_of_each_kernel() {
    let replay = replay(&plan("chain.chain.local-sync"));
    let mut options = KernelOptions::default();
    options.max_time = Duration::from_secs(3600);
    for repetitions in [1, 13] {
        options.repetitions = Some(repetitions);
        let timed = Kernels::timed(&replay, &options).unwrap();
        let times: Vec<u64> = timed.kernels.iter().map(|it| it.time_ns.unwrap()).collect();
        // Two of the five are dispatched once, and a loop of 576 additions takes longer than a step of the
        // clock.
        assert!(times.len() == 5 && times.iter().all(|ns| *ns > 0), "{times:?}");
        assert!(times.is_sorted_by(|longer, shorter| longer >= shorter), "{times:?}");
        assert_eq!((timed.total_ns, timed.sample_count), (Some(times.iter().sum()), repetitions));
        let has_intervals = timed.kernels.iter().map(|it| it.interval_ns.is_some());
        assert!(has_intervals.clone().all(|it| it == (repetitions >= 13)), "{:?}", has_intervals);
        assert_eq!(timed.kernels.iter().map(|it| it.count).sum::<u64>(), timed.dispatch_count);
    }
}

/// Without this test, the time of one kernel may become that of another, or times of one process replace
/// those of several.
#[test]
fn times_of_several_processes_are_their_medians() {
    let plan = plan("control.collatz.local-sync");
    let mut kernels = Kernels::from_plan(&plan, &KernelOptions::default()).unwrap();
    assert!(kernels.measured().is_empty());
    for (kernel, time_ns) in kernels.kernels.iter_mut().zip([30, 20, 10]) {
        kernel.time_ns = Some(time_ns);
    }
    kernels.kernels[1].occurrence = 2;
    // 40 are of kernels that are not listed.
    kernels.total_ns = Some(100);
    let mut measured = kernels.measured();
    let names: Vec<_> = measured.iter().map(|it| (&*it.name, it.median_ns)).collect();
    assert_eq!(
        names,
        [
            ("collatz_dispatch_2_elementwise (record #21)", 30.0),
            ("collatz_dispatch_1_elementwise (record #39, occurrence 2)", 20.0),
            ("collatz_dispatch_0_elementwise (record #30)", 10.0),
        ]
    );
    // The first one has one process, the last one six.
    measured[1].add_process(50.4);
    [11.0, 60.0, 61.0, 62.0, 63.0].into_iter().for_each(|ns| measured[2].add_process(ns));
    kernels.set_times(&measured);
    let times: Vec<_> = kernels.kernels.iter().map(|it| (it.function, it.time_ns.unwrap())).collect();
    assert_eq!((times, kernels.total_ns), (vec![(0, 61), (1, 35), (2, 30)], Some(40 + 126)));
    let intervals: Vec<_> =
        kernels.kernels.iter().map(|it| it.interval_ns.map(|it| (it.low, it.high))).collect();
    assert_eq!(intervals, [Some((10.0, 63.0)), None, None]);
}

/// Without this test, a replacement may be for another shape than the one that is dispatched, and a slice of
/// another kernel than its index says.
#[test]
fn kernels_are_observed_and_sliced_by_their_index() {
    struct Slices(Vec<tempfile::NamedTempFile>, Vec<(usize, String, u32)>);
    impl SliceSet for Slices {
        type Sink = std::fs::File;

        fn sink(&mut self, index: usize, _: &str) -> Result<Self::Sink> {
            Ok(self.0[index].reopen().unwrap())
        }

        fn finished(&mut self, index: usize, slice: Slice) -> Result<()> {
            self.1.push((index, slice.name, slice.location.ordinal));
            Ok(())
        }
    }
    let plan = plan("chain.chain.local-sync");
    let replay = replay(&plan);
    let options = KernelOptions::default();
    let mut slices = Slices((0..5).map(|_| tempfile::NamedTempFile::new().unwrap()).collect(), Vec::new());
    let slicing = SliceOptions::default();
    let mut kernels = Kernels::from_replay_with_slices(&replay, &options, &slicing, &mut slices).unwrap();
    slices.1.sort();
    let of = |(index, kernel): (usize, &Kernel)| (index, kernel.name.clone(), kernel.location.ordinal);
    assert_eq!(slices.1, kernels.kernels.iter().enumerate().map(of).collect::<Vec<_>>());
    for (file, kernel) in slices.0.iter().zip(&kernels.kernels) {
        let slice = Plan::compile(std::fs::read(file.path()).unwrap(), PlanOptions::default()).unwrap();
        let found = function_costs(&slice).unwrap();
        let found: Vec<_> = found.iter().map(|it| (&*it.name, it.dispatches, it.bound_bytes)).collect();
        assert_eq!(found, [(&*kernel.name, 1, kernel.bytes_bound().unwrap())]);
    }
    kernels.add_scaling(&replay, 3, &options).unwrap();
    for kernel in &kernels.kernels {
        let [scaling] = kernel.scaling[..] else { panic!("{:?}", kernel.scaling) };
        assert!(scaling.threads == 3 && scaling.time_ns > 0, "{scaling:?}");
    }
    let name = "chain_dispatch_1_matmul_24x24x24_f32";
    let observed = kernels.observed(&plan, name, None).unwrap();
    let mut shapes: Vec<_> =
        observed.shapes.iter().map(|it| (it.record, it.count, &it.constants[..])).collect();
    shapes.sort();
    assert_eq!(shapes, [(20, 4, &[0, 2304][..]), (22, 5, &[2304, 0]), (28, 2, &[0, 0])]);
    let of = |record| observed.shapes.iter().find(|it| it.record == record).unwrap();
    assert_eq!((of(28).workgroup_count, of(28).sample_count), (Some([3, 1, 1]), 1));
    let bindings = of(20).bindings.iter().map(|it| (it.length, it.alias_of, it.is_written));
    let expected = [(4608, None, None), (2304, None, Some(false)), (4608, Some(0), None)];
    assert_eq!(bindings.collect::<Vec<_>>(), expected);
    assert_eq!((&observed.executable_ids[..], observed.is_selected_by_id), (&[4][..], false));
    assert_eq!((&*observed.format, observed.driver), ("embedded-elf-x86_64", None));
    assert!(kernels.observed(&plan, name, Some(4)).unwrap().is_selected_by_id);
    let refused = |name, id| kernels.observed(&plan, name, id).err().unwrap().message().to_owned();
    assert_eq!(refused(name, Some(5)), "the capture has no executable 5");
    assert!(refused("x", None).starts_with("the capture has no function 'x'; it has: chain_dispatch_0_"));
    let mut compared: Vec<_> = kernels
        .compared(&plan, name)
        .unwrap()
        .iter()
        .map(|it| (it.record, it.occurrence, it.count))
        .collect();
    compared.sort();
    assert_eq!(compared, [(20, 0, 4), (22, 0, 5), (28, 0, 2)]);
}

/// Without this test, functions may not be timed at all, or the sides be exchanged: the replacement of one
/// function uses no vectors, and takes many times as long.
#[test]
fn functions_of_two_replays_are_compared() {
    let plan = plan("chain.chain.local-sync");
    let functions = [
        ("chain_dispatch_0_matmul_24x24x24_f32", 1, false),
        ("chain_dispatch_1_matmul_24x24x24_f32", 11, true),
        ("chain_dispatch_6_elementwise_576_f32", 1, true),
    ];
    let code = std::fs::read(testing::fixtures().join("cts/chain.so")).unwrap();
    let prepare = |side| {
        let replacement = Replacement::bytes(code.clone());
        let substitution = Substitution::new(Selector::Name(functions[0].0.to_owned()), replacement);
        Ok(replay_with(&plan, if side == Side::Replaced { vec![substitution] } else { Vec::new() }))
    };
    let mut options = JudgeOptions::default();
    options.max_time = Duration::from_millis(500);
    let mut found = compare_replays(&prepare, None, &options).unwrap();
    assert_eq!(found.times, Some(Clock::Processor));
    assert_eq!(dispatch_clock(&DeviceGroup::new(vec![device()]).unwrap()), Clock::Processor);
    found.functions.sort_by(|one, other| one.name.cmp(&other.name));
    let told: Vec<_> =
        found.functions.iter().map(|it| (&*it.name, it.dispatch_count, it.has_same_code)).collect();
    assert_eq!(told, functions);
    let ratio = found.functions[0].timing.ratio;
    assert!(ratio > 3.0 && found.whole.ratio > 1.0, "{ratio} {found:?}");
    assert!(found.functions.iter().all(|it| it.timing.captured.ns > 0.0), "{found:?}");
}

/// The bytes of the memory of a kernel.
fn memory(replay: &KernelReplay) -> Vec<u8> {
    let mut bytes = Vec::new();
    replay.write_memory(&mut bytes).unwrap();
    bytes
}

/// Without this test, a record may describe another dispatch, lack bytes, or be replayed with other memory
/// than it was recorded with.
#[test]
fn records_of_kernels_have_the_numbers_of_golden_files() {
    let captures = [("chain.chain.local-sync", 5), ("control.collatz.local-sync", 3), ("two_devices.ss", 3)];
    for (name, kernel_count) in captures {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("kernels");
        let options = KernelRecordOptions::default();
        let mut recording = KernelRecording::begin(&path, &options).unwrap();
        let replay = replay(&plan(name));
        // The second replay has the same kernels, which are counted again.
        (0..2).for_each(|_| recording.add(&replay, &KernelOptions::default()).unwrap());
        let records = recording.finish();
        assert_eq!((&records.directory, records.kernels.len()), (&path, kernel_count));
        let mut text = String::new();
        for record in &records.kernels {
            let files = KernelFiles::open(&path.join(&record.file)).unwrap();
            let described = files.descriptor().clone();
            let of = |name: &str| path.join(name);
            let names = &described.files;
            let output = of(names.record_output.as_ref().unwrap());
            assert_eq!(files.paths(), [of(&names.image), of(&names.record_input), output.clone()]);
            assert_eq!(files.replay_output(), output.with_extension("replay_output"));
            let bytes = [&of(&names.record_input), &output].map(|path| std::fs::read(path).unwrap());
            let mut replay =
                KernelReplay::prepare(files, &device(), &KernelReplayOptions::default()).unwrap();
            assert_eq!(replay.workgroup_count(), described.workgroup_count);
            replay.restore().unwrap();
            let changed = replay.compare(None).unwrap();
            assert!(memory(&replay) == bytes[0], "{}: the input", record.file);
            let time = replay.run().unwrap();
            assert!(!time.is_zero() && memory(&replay) == bytes[1], "{}: the output", record.file);
            assert!(replay.compare(None).unwrap().is_empty(), "{}", record.file);
            let line = json!({
                "file": record.file,
                "name": record.name,
                "occurrences": record.occurrences,
                "descriptor": described,
                "changed": changed,
            });
            text += &(line.to_string() + "\n");
            assert!(record.time_ns > 0, "{}", record.file);
        }
        let golden = format!("{}/tests/data/{name}.records.jsonl", env!("CARGO_MANIFEST_DIR"));
        testing::assert_golden(golden.as_ref(), &text);

        // The first dispatch in files of its own has the same bytes.
        let first = KernelFiles::open(&path.join(&records.kernels[0].file)).unwrap();
        let described = first.descriptor();
        let files = DispatchFiles::new(directory.path()).write(&replay).unwrap();
        let executable = load_file(&directory.path().join(&files.executable)).unwrap();
        let mut arguments = LaunchArguments::for_function(files.function);
        (arguments.workgroup_count, arguments.constants) = (files.workgroup_count, files.constants);
        for binding in &files.bindings {
            let buffer = executable.allocate(binding.length).unwrap();
            let bytes = match &binding.file {
                Some(file) => std::fs::read(directory.path().join(file)).unwrap(),
                None => vec![0; binding.length as usize],
            };
            transfer::write(&buffer, 0, &bytes).unwrap();
            arguments.bindings.push(LaunchBinding::whole(buffer));
        }
        executable.launches(&arguments, 1).unwrap().run().unwrap();
        let output = std::fs::read(path.join(described.files.record_output.as_ref().unwrap())).unwrap();
        assert_eq!(described.bindings.len(), arguments.bindings.len());
        for (it, binding) in described.bindings.iter().zip(&arguments.bindings) {
            let expected = &output[it.offset as usize..][..it.length as usize];
            assert!(transfer::to_vec(&binding.buffer, 0, it.length).unwrap() == expected, "{name}");
        }
    }
}

/// Without this test, the error of a record may name another file than the one that is damaged, and fewer
/// workgroups than asked may be launched.
#[test]
fn damaged_records_are_named_by_the_file_that_is() {
    let directory = tempfile::tempdir().unwrap();
    let replay = replay(&plan("chain.chain.local-sync"));
    let mut recording = KernelRecording::begin(directory.path(), &KernelRecordOptions::default()).unwrap();
    recording.add(&replay, &KernelOptions::default()).unwrap();
    let records = recording.finish().kernels;
    let descriptor = directory.path().join(&records[0].file);
    let [input, image, output] =
        ["record_input", "image", "record_output"].map(|it| descriptor.with_extension(it));
    let mut text = String::new();
    let mut note = |what: &str, error: Option<Error>| {
        let report = error.unwrap().report().replace(&*directory.path().to_string_lossy(), "DIRECTORY");
        text += &format!("{what}: {}\n", report.replace('\n', "; "));
    };
    let open = |path: &Path| KernelFiles::open(path).err();
    note("directory", open(directory.path()));
    note("missing", open(&descriptor.with_extension("none")));
    note("image in place of the descriptor", open(&image));
    let prepared = |teams: &[u32]| {
        let mut options = KernelReplayOptions::default();
        options.teams = Some(teams.to_vec());
        KernelReplay::prepare(KernelFiles::open(&descriptor).unwrap(), &device(), &options)
    };
    assert_eq!(prepared(&[2]).unwrap().workgroup_count(), [2, 1, 1]);
    note("four of three workgroups", prepared(&[4]).err());
    let files = KernelFiles::open(&descriptor).unwrap();
    std::fs::write(&output, b"short").unwrap();
    note("output", files.output().err());
    let written = std::fs::read_to_string(&descriptor).unwrap();
    let name = format!("\"{}\"", records[0].name);
    std::fs::write(&descriptor, written.replace(&name, "\"other\"")).unwrap();
    note("name", prepared(&[2]).err());
    let output_name = format!("\"{}\"", output.file_name().unwrap().to_str().unwrap());
    std::fs::write(&descriptor, written.replace(&output_name, "null")).unwrap();
    note("no output", KernelFiles::open(&descriptor).unwrap().output().err());
    std::fs::write(&input, b"short").unwrap();
    note("input", open(&descriptor));
    std::fs::remove_file(&image).unwrap();
    note("image", open(&descriptor));
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/damaged_records.txt");
    testing::assert_golden(path.as_ref(), &text);
}

/// Without this test, records may replace others, or take more memory than is allowed.
#[test]
fn records_keep_to_their_options() {
    let directory = tempfile::tempdir().unwrap();
    let replay = replay(&plan("chain.chain.local-sync"));
    let record = |options: &KernelRecordOptions, function: Option<&str>| {
        let mut recording = KernelRecording::begin(directory.path(), options)?;
        let mut kernels = KernelOptions::default();
        kernels.function = function.map(str::to_owned);
        recording.add(&replay, &kernels)?;
        Ok(recording.finish().kernels.len())
    };
    let mut options = KernelRecordOptions::default();
    // The matrices of the largest kernel have as many bytes.
    options.memory_limit_bytes = 3 * 4 * 24 * 24 - 1;
    let matmul = Some("*dispatch_0_matmul*");
    let error: Error = record(&options, matmul).unwrap_err();
    assert_eq!(error.message(), "its bindings have 6912 bytes, and the memory size is 6911");
    options.memory_limit_bytes += 1;
    options.has_output = false;
    assert_eq!(record(&options, matmul).unwrap(), 1);
    let error: Error = record(&options, matmul).unwrap_err();
    assert_eq!(error.code(), StatusCode::AlreadyExists);
    assert!(check_kernel_records(directory.path(), &options).is_err());
    let listed = || {
        let names = std::fs::read_dir(directory.path()).unwrap().map(|it| it.unwrap().path());
        let extension = |path: std::path::PathBuf| path.extension().unwrap().to_str().unwrap().to_owned();
        let mut extensions: Vec<String> = names.map(extension).collect();
        extensions.sort();
        extensions.join(" ")
    };
    assert_eq!(listed(), "image json record_input");
    (options.force, options.has_output) = (true, true);
    check_kernel_records(directory.path(), &options).unwrap();
    assert_eq!(record(&options, matmul).unwrap(), 1);
    assert_eq!(listed(), "image json record_input record_output");
}

fn load_file(path: &Path) -> Result<LoadedExecutable> {
    LoadedExecutable::load(&device(), &ExecutableSource::File(path.into()), &LoadOptions::default())
}

/// Without this test, the record of a kernel may be replaced by that of an equal one of another executable.
#[test]
fn equal_kernels_of_several_executables_have_records_of_their_own() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("affine.ireereplay");
    let recorder = Recorder::create(&path, RecordOptions::default()).unwrap();
    let devices = recorder.wrap(&DeviceGroup::new(vec![device()]).unwrap()).unwrap();
    let code = ExecutableSource::File(testing::fixtures().join("cts/affine.embedded.elf"));
    for _ in 0..3 {
        let executable =
            LoadedExecutable::load(&devices.devices()[0], &code, &LoadOptions::default()).unwrap();
        let mut arguments = LaunchArguments::for_function(0);
        arguments.constants = vec![3, 4];
        arguments.bindings = executable.bindings(&[ValueText::new("16xi32=5").unwrap()]).unwrap();
        arguments.bindings.push(arguments.bindings[0].clone());
        executable.launches(&arguments, 2).unwrap().run().unwrap();
    }
    drop(devices);
    recorder.close().unwrap();
    let plan = Arc::new(Plan::compile(std::fs::read(&path).unwrap(), PlanOptions::default()).unwrap());
    let mut recording =
        KernelRecording::begin(&directory.path().join("kernels"), &KernelRecordOptions::default()).unwrap();
    recording.add(&replay(&plan), &KernelOptions::default()).unwrap();
    let records = recording.finish();
    let found: Vec<_> = records.kernels.iter().map(|it| (&*it.file, it.occurrences)).collect();
    let stem = found[0].0.strip_suffix(".json").unwrap();
    assert_eq!(found, [(found[0].0, 2), (&*format!("{stem}_2.json"), 2), (&*format!("{stem}_3.json"), 2)]);
}

/// Without this test, an executable may be dispatched less often than asked, or with other arguments.
#[test]
fn launches_dispatch_as_often_as_asked() {
    let executable = load_file(&testing::fixtures().join("cts/affine.embedded.elf")).unwrap();
    let function = executable.function(&EntryPoint::Name("affine".into())).unwrap();
    let mut arguments = LaunchArguments::for_function(function);
    // 3 x + 4, of a buffer to itself.
    arguments.constants = vec![3, 4];
    let bindings = executable.bindings(&[ValueText::new("16xi32=5").unwrap()]).unwrap();
    arguments.bindings = vec![bindings[0].clone(), bindings[0].clone()];
    let mut launches = executable.launches(&arguments, 3).unwrap();
    launches.run().unwrap();
    let value = || transfer::to_vec(&bindings[0].buffer, 60, 4).unwrap();
    assert_eq!((launches.count(), value()), (3, 187_u32.to_le_bytes().to_vec()));
    launches.run().unwrap();
    assert_eq!(value(), (27 * 187 + 52_u32).to_le_bytes());
    // The second half, to the first.
    let half = |offset| LaunchBinding::range(bindings[0].buffer.clone(), offset, 32);
    transfer::write(&bindings[0].buffer, 32, &[0; 32]).unwrap();
    arguments.bindings = vec![half(32), half(0)];
    let refused = |arguments: &LaunchArguments, count| {
        executable.launches(arguments, count).err().map(|error| error.message().to_owned())
    };
    assert_eq!(refused(&arguments, 0).unwrap(), "0 dispatches cannot be launched together: 1 to 1048576 can");
    arguments.constants.pop();
    assert_eq!(refused(&arguments, 1).unwrap(), "function 'affine' takes 2 constants, found 1");
    arguments.constants.push(9);
    arguments.workgroup_count = [u32::MAX; 3];
    assert!(refused(&arguments, 1).unwrap().ends_with("workgroups are more than 64 bits count"));
    arguments.workgroup_count = [1, 2, 3];
    assert_eq!(arguments.total_workgroups().unwrap(), 6);
}

/// Without this test, a file that is not an executable of the device may be reported as one that is damaged.
#[test]
fn files_that_are_not_executables_are_named() {
    let fixture = |name: &str| std::fs::read(testing::fixtures().join(name)).unwrap();
    let elf = fixture("cts/affine.embedded.elf");
    let mut text = String::new();
    for (name, bytes, format) in [
        ("empty", Vec::new(), None),
        ("unknown", vec![1; 64], None),
        ("capture", fixture("captures/chain.chain.local-sync.ireereplay"), None),
        ("SPIR-V", b"\x03\x02\x23\x07\0\0\x01\0".to_vec(), None),
        ("text", b"text".to_vec(), None),
        ("text as ELF", b"text".to_vec(), Some("embedded-elf-x86_64")),
        ("unknown as ELF", vec![1; 64], Some("embedded-elf-x86_64")),
        ("capture as ELF", b"IRRP\x02".to_vec(), Some("embedded-elf-x86_64")),
        ("half an ELF", elf[..elf.len() / 2].to_vec(), None),
        ("ELF of another device", elf, Some("vulkan-spirv-raw")),
    ] {
        let mut options = LoadOptions::default();
        options.format = format.map(str::to_owned);
        let source = ExecutableSource::Bytes(bytes.into());
        let error = LoadedExecutable::load(&device(), &source, &options).err().unwrap();
        text += &format!("{name}: {}\n", error.report().replace('\n', "; "));
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/not_executables.txt");
    testing::assert_golden(path.as_ref(), &text);
}
