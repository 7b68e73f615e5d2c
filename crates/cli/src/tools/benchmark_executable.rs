//! `iree-benchmark-executable`: benchmarks a function of an executable, without a program.

mod arguments;

use std::cell::RefCell;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::rc::Rc;

use rehal::program::RecordingOptions;
use rehal_base::{Context, Error, Result};
use rehal_devices::{DeviceOptions, NamedPath, ValueText};
use rehal_hal::DeviceGroup;
use rehal_judge::{Benchmark, State, TimeUnit};
use rehal_kernels::{
    EntryPoint, ExecutableSource, LaunchArguments, Launches, LoadOptions, LoadedExecutable, MAX_LAUNCHES,
};
use rehal_replay::Recorder;

use super::benchmark_flags::{self, BENCHMARK};
use crate::flags::{DEVICE, Flag, Flags, Group, List, read_if, recorded, with_devices};
use crate::kernel_recording::{KERNEL_RECORDING, ProgramRecording};
use crate::profiling::{self, PROFILING};
use crate::program::flags::values;
use crate::report::{self, Origin};
use crate::sandbox::Reach;
use crate::tools::processes::{self, OtherTimes};
use crate::{Invocation, Operands, Tool, devices, output};

/// See the [module](self).
pub const BENCHMARK_EXECUTABLE: Tool = Tool {
    name: "iree-benchmark-executable",
    verb: "benchmark-executable",
    summary: "benchmarks a function of an executable",
    about: "Dispatches a function of an executable repeatedly, with the bindings, constants and workgroup counts that flags give, \
            and reports in Google Benchmark's formats. BM_dispatch_XxYxZ is the time per dispatch, and items_per_second counts \
            workgroups. rehal kernels --export writes the command line for each dispatch of a capture.\n\n\
            An executable is machine code, which runs confined (--sandbox) as far as the system can: it cannot access \
            other files, processes or the network. Its numbers and outputs are still its word.",
    operands: Operands::None { usage: "--executable_file=FILE --workgroup_count=X,Y,Z" },
    groups: with_devices![&RUN, &BENCHMARK, &RECORDING; &PROFILING, &KERNEL_RECORDING],
    examples: &[
        (
            "Measure a function",
            "{tool} --device=local-sync --executable_format=embedded-elf-x86_64 --executable_file=mul.so \\\n    \
             --entry_point=0 --binding=4xf32=1,2,3,4 --binding=4xf32=100,200,300,400 --binding=4xf32 \\\n    \
             --workgroup_count=1,1,1",
        ),
        (
            "Compare workgroup counts",
            "{tool} --executable_file=mul.so --binding=4096xf32 --binding=4096xf32 --binding=4096xf32 \\\n    \
             --workgroup_count=16,1,1 --workgroup_count=64,1,1",
        ),
        (
            "Measure a dispatch of a capture",
            "rehal kernels --export=kernels model.ireereplay\n\
             cd kernels && sh -c \"$(jq -r .kernels[0].command index.json)\"",
        ),
    ],
    guide: include_str!("../guides/benchmark_executable.md"),
    answer: devices::answer,
    run,
};

const EXECUTABLE_FILE: Flag<Option<PathBuf>> =
    Flag::path("executable_file", "The executable, or - for standard input.")
        .files(|path, _| read_if(path.as_deref().filter(|path| path.as_os_str() != "-")));

const EXECUTABLE_FORMAT: Flag<Option<String>> = Flag::text(
    "executable_format",
    "FORMAT",
    "Format of the executable, such as embedded-elf-x86_64, system-elf-x86_64 or vmvx-bytecode-fb. Default: the one that the \
     device recognizes.",
);

const ENTRY_POINT: Flag<EntryPoint> = Flag::parsed(
    "entry_point",
    "ORDINAL|NAME",
    "0",
    "an ordinal, 0 or more, or the name of a function",
    arguments::entry_point,
    "The function to measure: its ordinal, or its name.",
)
.unquoted();

const WORKGROUP_COUNT: List<[u32; 3]> = List::parsed(
    "workgroup_count",
    "X,Y,Z",
    "three numbers from 0 to 4294967295, separated by commas, such as 16,1,1",
    arguments::workgroup_count,
    "Number of workgroups of each dispatch, in x, y and z. Repeat it to measure several.",
);

const CONSTANT: List<u32> = List::parsed(
    "constant",
    "NUMBER",
    arguments::NUMBER,
    arguments::number,
    "A constant of the dispatch: a 32-bit number, also negative, or hexadecimal with 0x. Once for each, in order.",
);

const EXECUTABLE_CONSTANT: List<u32> = List::parsed(
    "executable_constant",
    "NUMBER",
    arguments::NUMBER,
    arguments::number,
    "A specialization constant of the executable, written as for --constant. Once for each, in order.",
);

const BINDING: List<ValueText> = List::parsed(
    "binding",
    "VALUE",
    "a tensor such as 2x2xf32=1 2 3 4, or @FILE.npy",
    arguments::binding,
    "A buffer of the dispatch and what it contains, once for each in order. Only the bytes matter, not the shape.\n\
     \x20  2x8xi32                  16 elements of 4 bytes, zero\n\
     \x20  10000xi8=123             10000 bytes, all 123\n\
     \x20  2x1xf32=1.4,2.1          two elements\n\
     \x20  2x2xf32=@file            the bytes of a file; +file continues where the last binding ended\n\
     \x20  @file.npy                an array of a file; +file.npy the next one, *file.npy all that follow",
)
.files(|value, _| read_if(value.path()));

const BATCH_SIZE: Flag<u32> = Flag::number(
    "batch_size",
    64,
    (1, MAX_LAUNCHES as i64),
    |size| size as u32,
    "Number of dispatches in a submission, one after another. More of them reduce the part of submission and waiting in the \
     time per dispatch.",
);

const RUN: Group = Group {
    title: "Dispatch",
    flags: &[
        &EXECUTABLE_FILE,
        &EXECUTABLE_FORMAT,
        &ENTRY_POINT,
        &WORKGROUP_COUNT,
        &CONSTANT,
        &BINDING,
        &EXECUTABLE_CONSTANT,
        &BATCH_SIZE,
    ],
};

const REPLAY_OUTPUT: Flag<Option<PathBuf>> = Flag::path(
    "device_replay_output",
    "Records all device work to a capture, with a scope execute for each submission. The reference's tool does not record.",
)
.files(recorded);

const RECORDING: Group = Group { title: "Recording", flags: &[&REPLAY_OUTPUT] };

/// The executable to load and dispatch, and how to measure it.
struct Options {
    devices: DeviceOptions,
    source: ExecutableSource,
    load: LoadOptions,
    entry_point: EntryPoint,
    workgroup_counts: Vec<[u32; 3]>,
    constants: Vec<u32>,
    bindings: Vec<ValueText>,
    batch_size: u32,
    recording: Option<RecordingOptions>,
    kernels: Option<ProgramRecording>,
    profiling: Option<profiling::Options>,
    bench: rehal_judge::Options,
    origin: Rc<Origin>,
}

fn run(invocation: &Invocation) -> Result<()> {
    let options = options(invocation)?;
    let (kernels, devices) = (options.kernels.clone(), options.devices.clone());
    let others = processes::measure(invocation)?;
    let mut reach = Reach::of_devices(&devices);
    reach.directories.extend(kernels.as_ref().map(ProgramRecording::directory));
    invocation.confined(&reach, || {
        ProgramRecording::run(kernels.as_ref(), &devices, || benchmark(invocation, options, &others))
    })
}

fn benchmark(invocation: &Invocation, options: Options, others: &OtherTimes) -> Result<()> {
    let base = options.devices.open()?;
    let recorder = options.recording.as_ref().map(RecordingOptions::create).transpose()?;
    let devices = match &recorder {
        Some(recorder) => recorder.wrap(&base)?,
        None => base,
    };
    let profiling = profiling::Session::begin(options.profiling.as_ref(), Some(&devices));
    let outcome = profiling.and_then(|profiling| {
        let outcome = measure(invocation, &devices, options, recorder.as_ref(), &profiling, others);
        profiling.end(outcome)
    });
    let closed =
        recorder.map_or(Ok(()), |recorder| recorder.close().context(|| "closing the capture".into()));
    outcome.and(closed)
}

fn options(invocation: &Invocation) -> Result<Options> {
    let flags = &invocation.flags;
    let bench = benchmark_flags::options(flags, &invocation.program)?;
    let source = match flags.get(&EXECUTABLE_FILE) {
        None => {
            let error = Error::invalid_argument(format!("--{} is missing", EXECUTABLE_FILE.name()));
            return Err(error.advise("name an executable, or - for standard input"));
        }
        Some(path) if path == OsStr::new("-") => ExecutableSource::StandardInput,
        Some(path) => ExecutableSource::File(path),
    };
    let workgroup_counts = flags.list(&WORKGROUP_COUNT);
    if workgroup_counts.is_empty() {
        let error = Error::invalid_argument("--workgroup_count is missing");
        return Err(error.advise("give the number of workgroups, such as --workgroup_count=1,1,1"));
    }
    let mut load = LoadOptions::default();
    load.format = flags.get(&EXECUTABLE_FORMAT);
    load.constants = flags.list(&EXECUTABLE_CONSTANT);
    let mut recording = flags.get(&REPLAY_OUTPUT).map(|path| {
        let name = format!("--{}={}", REPLAY_OUTPUT.name(), path.display());
        RecordingOptions::new(NamedPath::from(path).named(name))
    });
    let kernels = ProgramRecording::from_flags(flags, &mut recording);
    Ok(Options {
        devices: one_device(flags)?,
        source,
        load,
        entry_point: flags.get(&ENTRY_POINT),
        workgroup_counts,
        constants: flags.list(&CONSTANT),
        bindings: values(flags, &BINDING),
        batch_size: flags.get(&BATCH_SIZE),
        recording,
        kernels,
        profiling: profiling::Options::from_flags(flags)?.map(profiling::Options::measured),
        bench,
        origin: invocation.origin.clone(),
    })
}

fn one_device(flags: &Flags) -> Result<DeviceOptions> {
    let options = devices::options(flags)?;
    match options.devices.len() {
        1 => Ok(options),
        count => {
            let error = format!("an executable runs on one device, and --{} names {count}", DEVICE.name());
            Err(Error::invalid_argument(error).advise("run the tool once for each device"))
        }
    }
}

fn measure(
    invocation: &Invocation,
    devices: &DeviceGroup,
    mut options: Options,
    recorder: Option<&Recorder>,
    profiling: &profiling::Session,
    others: &OtherTimes,
) -> Result<()> {
    let executable = {
        let _scope = recorder.map(|recorder| recorder.scope("init")).transpose()?;
        LoadedExecutable::load(&devices.devices()[0], &options.source, &options.load)?
    };
    let mut arguments = LaunchArguments::for_function(executable.function(&options.entry_point)?);
    arguments.constants = options.constants;
    arguments.bindings = executable.bindings(&options.bindings)?;
    // After the first error nothing more is measured: what the bindings contain is unknown.
    let failure: RefCell<Option<Error>> = RefCell::default();
    let mut benchmarks: Vec<_> = options
        .workgroup_counts
        .iter()
        .map(|&count| {
            let mut arguments = arguments.clone();
            arguments.workgroup_count = count;
            let [x, y, z] = count;
            let name = format!("BM_dispatch_{x}x{y}x{z}");
            let mut subject = Subject {
                name: name.clone(),
                executable: &executable,
                arguments,
                batch_size: options.batch_size,
                launches: None,
                recorder,
            };
            let failure = &failure;
            Benchmark::new(name, move |state| {
                subject.guarded(state, profiling, failure);
                // The loop has ended, so this is not measured.
                profiling.flush()
            })
            .measure_process_cpu_time()
            .use_real_time()
            .unit(TimeUnit::Nanosecond)
        })
        .collect();
    let subject = report::Subject { capture: None, devices: Some(devices) };
    benchmark_flags::describe(&mut options.bench, &options.origin, subject);
    benchmark_flags::run(invocation, options.bench, &mut benchmarks, &|_| None, others)?;
    drop(benchmarks);
    failure.take().map_or(Ok(()), Err)
}

/// A benchmark.
struct Subject<'a> {
    name: String,
    executable: &'a LoadedExecutable,
    arguments: LaunchArguments,
    batch_size: u32,
    /// Recorded by the first repetition.
    launches: Option<Launches>,
    recorder: Option<&'a Recorder>,
}

impl Subject<'_> {
    /// Runs the benchmark, unless an earlier one failed.
    fn guarded(
        &mut self,
        state: &mut State<'_>,
        profiling: &profiling::Session,
        failure: &RefCell<Option<Error>>,
    ) {
        if failure.borrow().is_some() {
            state.skip_with_error("an earlier benchmark failed");
            return;
        }
        if let Err(error) = self.run(state, profiling) {
            state.skip_with_error(format!("{}; {}", error.code(), error.message()));
            *failure.borrow_mut() = Some(error.context(format!("benchmark {}", self.name)));
        }
    }

    fn run(&mut self, state: &mut State<'_>, profiling: &profiling::Session) -> Result<()> {
        let workgroups = self.arguments.total_workgroups()?;
        let launches = match &mut self.launches {
            Some(launches) => launches,
            None => {
                if workgroups == 0 {
                    output::note(&format!("note: {} has no workgroups: nothing runs", self.name));
                }
                self.launches.insert(self.executable.launches(&self.arguments, self.batch_size)?)
            }
        };
        let mut dispatches = 0u64;
        while state.keep_running_batch(u64::from(self.batch_size)) {
            match self.recorder {
                None => launches.run()?,
                Some(recorder) => {
                    let _scope = recorder.scope("execute")?;
                    launches.run()?;
                }
            }
            dispatches += u64::from(self.batch_size);
            profiling.flush_if_due(state)?;
        }
        state.set_items_processed(dispatches.saturating_mul(workgroups));
        Ok(())
    }
}
