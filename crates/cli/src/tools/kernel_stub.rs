//! `rehal kernel stub`: writes the source of a kernel that replaces a function of a capture.

use std::path::Path;
use std::time::Duration;

use rehal_base::{Context, Error, Result, StatusCode};
use rehal_build::{GpuLanguage, KernelLanguage, ObservedKernel, ObservedShape};
use rehal_devices::CrashReports;
use rehal_kernels::{KernelOptions, Kernels};
use rehal_replay::Replay;
use serde::Serialize;

use super::report_format::{self, Format};
use super::{function_flags, replay_flags};
use crate::flags::{Flag, Group, with_devices};
use crate::kernel_recording::{KERNEL_RECORDING, Recording};
use crate::output_file::{OUTPUT, OutputFile};
use crate::report::Subject;
use crate::sandbox::Reach;
use crate::{Invocation, Operands, Tool, captures, devices, output};

/// See the [module](self).
pub const KERNEL_STUB: Tool = Tool {
    name: "rehal kernel stub",
    verb: "kernel stub",
    summary: "writes the source of a kernel that replaces a captured one",
    about: "Writes a C, Rust, CUDA, HIP or PTX file with everything that a kernel needs to replace a function of a capture except its body: \
            bindings, constants, the loop over a workgroup's share of the result, and the library around it, without any \
            other file. A comment says what was observed: workgroup counts, constants, lengths, overlaps, times.\n\n\
            The capture is replayed up to 34 times to see how long it takes, what it writes and what it accesses; --no_run \
            leaves that out. Until it has a body, a dispatch of the kernel fails.",
    operands: Operands::One { what: "capture", form: "CAPTURE.ireereplay --function=NAME -o KERNEL.c" },
    groups: with_devices![&STUB, &KERNEL_RECORDING],
    examples: &[
        ("Write a stub in C", "{tool} --function=main_dispatch_0 model.ireereplay -o kernel.c"),
        ("Write a stub in Rust", "{tool} --function=main_dispatch_0 model.ireereplay -o kernel.rs"),
        (
            "Replay with it, and compare with the captured kernel",
            "rehal verify --replay_executable_substitution=main_dispatch_0=kernel.c model.ireereplay",
        ),
    ],
    guide: include_str!("../guides/kernel_stub.md"),
    answer: devices::answer,
    run,
};

const FUNCTION: Flag<Option<String>> = function_flags::one_flag(
    "The function to replace: its name, as rehal kernels prints it, a part that no other name has, or a pattern with * and ? \
     that no other name matches. By default the only one that is dispatched.",
);

const EXECUTABLE: Flag<Option<u64>> = function_flags::executable_flag(
    "The executable that has the function, if several have one of this name with other signatures.",
);

const NO_RUN: Flag<bool> = Flag::switch(
    "no_run",
    false,
    "Does not replay the capture: times, the directions of bindings and indirect workgroup counts are left out.",
);

/// A language of kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Language {
    Cpu(KernelLanguage),
    Gpu(GpuLanguage),
}

impl Language {
    fn from_path(path: &Path) -> Option<Self> {
        let cpu = KernelLanguage::from_path(path).map(Self::Cpu);
        cpu.or_else(|| GpuLanguage::from_path(path).map(Self::Gpu))
    }

    fn extension(self) -> &'static str {
        match self {
            Self::Cpu(language) => language.extension(),
            Self::Gpu(language) => language.extension(),
        }
    }
}

const LANGUAGE: Flag<Option<Language>> = Flag::choice(
    "language",
    "auto",
    &[
        ("auto", None),
        ("c", Some(Language::Cpu(KernelLanguage::C))),
        ("rust", Some(Language::Cpu(KernelLanguage::Rust))),
        ("cu", Some(Language::Gpu(GpuLanguage::Cuda))),
        ("hip", Some(Language::Gpu(GpuLanguage::Hip))),
        ("ptx", Some(Language::Gpu(GpuLanguage::Ptx))),
    ],
    "The language of the stub. auto: by the extension of --output; on standard output, that of the captured kernel: cu (CUDA) \
     or hip for a GPU of NVIDIA or AMD, otherwise c.",
);

const FORCE: Flag<bool> =
    Flag::switch("force", false, "Replaces an existing file, which may be a source that was edited.");

const STUB: Group = Group {
    title: "Stub",
    flags: &[
        &FUNCTION,
        &function_flags::DISPATCH,
        &EXECUTABLE,
        &LANGUAGE,
        &OUTPUT,
        &FORCE,
        &NO_RUN,
        &replay_flags::FILE_REMAP,
        &replay_flags::FILE_WRITES,
        &replay_flags::RECOVER,
        &FORMAT,
    ],
};

const FORMAT: Flag<Format> = report_format::flag(
    "text: nothing but the file. json: an object with what was observed, as the file's comment has it.",
);

/// How many replays are timed, unless they take longer.
const REPLAYS: u64 = 32;
const MAX_TIME: Duration = Duration::from_secs(1);

fn run(invocation: &Invocation) -> Result<()> {
    let flags = &invocation.flags;
    let path = invocation.operand();
    let format = report_format::beside_files(flags, &FORMAT)?;
    let output = OutputFile::from_flags(flags, "kernel.c")?;
    let file = flags.get(&OUTPUT).filter(|file| file.as_os_str() != "-");
    let named = flags.get(&LANGUAGE).or_else(|| Language::from_path(file.as_ref()?));
    if let (None, Some(file)) = (named, &file) {
        let message = format!("--output={}: the extension names no language of kernels", file.display());
        return Err(Error::invalid_argument(message).advise(
            "use .c for C, .rs for Rust, .cu for CUDA, .hip for HIP or .ptx for PTX, or state --language",
        ));
    }
    let exists = flags.get(&OUTPUT).is_some_and(|it| it.as_os_str() != "-" && it.is_file());
    if exists && !flags.get(&FORCE) {
        let message = format!("--output={}: the file exists", output.path().display());
        return Err(Error::new(StatusCode::AlreadyExists, message)
            .advise("name another file, or replace it with --force"));
    }
    let capture = captures::open(&path, &captures::options(flags.get(&replay_flags::RECOVER)))?;
    let plan = replay_flags::compile(&capture)?;
    // Names are checked before anything runs.
    let function = function_flags::one(flags, &FUNCTION, &plan)?;
    let planned = Kernels::from_plan(&plan, &KernelOptions::default())?;
    let executable = flags.get(&EXECUTABLE);
    let observed = |kernels: &Kernels| {
        // Other errors have advice of their own.
        let observed = kernels.observed(&plan, &function, executable);
        observed.advise(|| "name the executable that is meant: --executable=ID")
    };
    let mut kernel = observed(&planned)?;
    let foreign = devices::foreign(flags, &plan);
    let runs = !flags.get(&NO_RUN) && foreign.is_none();
    if let Some(foreign) = &foreign {
        output::note(&format!("note: times, and what the kernel writes, {}", devices::needed_for(foreign)));
    }
    let recording = Recording::for_run(flags, runs)?;
    let devices = devices::options(flags)?;
    let mut reach = Reach::of_replay(&plan, &devices);
    reach.directories.extend(recording.as_ref().map(Recording::directory));
    let mut write = || {
        let mut replayed = None;
        if runs {
            let _reports = CrashReports::install();
            let replay = Replay::new(plan.clone(), &devices.open()?, &replay_flags::files(flags))?;
            let mut options = KernelOptions::default();
            // No other kernel is watched.
            options.function = Some(function.clone()).filter(|it| !it.contains(['*', '?']));
            (options.repetitions, options.max_time) = (Some(REPLAYS), MAX_TIME);
            let kernels = Kernels::from_replay(&replay, &options)?;
            kernels.warnings.iter().for_each(|it| output::note(&format!("***WARNING*** {it}")));
            kernel = observed(&kernels)?;
            replayed = Some(replay);
        }
        let of_format = || kernel.gpu_language().map(Language::Gpu);
        let language = named.or_else(of_format).unwrap_or(Language::Cpu(KernelLanguage::C));
        let file = file.clone().unwrap_or_else(|| format!("kernel.{}", language.extension()).into());
        let text = match language {
            Language::Cpu(language) => kernel.stub(language, &file, shown(&path))?,
            Language::Gpu(language) => kernel.gpu_stub(language, &file, shown(&path))?,
        };
        output.write(|sink| {
            sink.write_all(text.as_bytes()).map_err(|error| Error::io("writing the stub", &error))
        })?;
        if let Format::Json = format {
            let devices = replayed.as_ref().map(Replay::devices);
            let subject = Subject { capture: Some(capture.bytes()), devices };
            output::print(&invocation.line(
                "rehal.kernel.stub/1",
                &StubReport::new(&kernel, &output),
                subject,
            )?)?;
        }
        match replayed {
            Some(replay) => Recording::of_capture(recording.as_ref(), Some(function.clone()), || Ok(replay)),
            None => Ok(()),
        }
    };
    match runs {
        true => invocation.confined(&reach, write),
        false => write(),
    }
}

/// The written stub, and what was observed for it.
#[derive(Serialize)]
struct StubReport<'k> {
    path: String,
    function: &'k str,
    executables: &'k [u64],
    format: &'k str,
    signature: Signature,
    specialization_constants: &'k [u32],
    /// Dispatches that were observed. Unknown values are null.
    shapes: &'k [ObservedShape],
}

#[derive(Serialize)]
struct Signature {
    constants: u16,
    bindings: u16,
    parameters: u16,
    workgroup_size: [u32; 3],
    flags: u64,
}

impl<'k> StubReport<'k> {
    fn new(kernel: &'k ObservedKernel, output: &OutputFile) -> Self {
        let function = &kernel.function;
        Self {
            path: output.path().display().to_string(),
            function: &function.name,
            executables: &kernel.executable_ids,
            format: &kernel.format,
            signature: Signature {
                constants: function.constant_count,
                bindings: function.binding_count,
                parameters: function.parameter_count,
                workgroup_size: function.workgroup_size,
                flags: function.flags,
            },
            specialization_constants: &kernel.specialization_constants,
            shapes: &kernel.shapes,
        }
    }
}

/// The capture's name for commands in the stub, without the directories of this machine.
fn shown(path: &Path) -> &Path {
    path.file_name().map_or(path, Path::new)
}
