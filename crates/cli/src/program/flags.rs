//! The flags of the tools that run programs, and the options derived from them.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::Arc;

use rehal::program::{ModuleMode, ModuleSource, ProgramOptions, RecordingOptions, TextSink};
use rehal_base::platform::OsStrExt;
use rehal_base::{Error, Result};
use rehal_devices::{NamedPath, ValueText};
use rehal_params::FileMode;
use rehal_replay::{Code, FilePolicy, FileValidation, LedgerRecording, Substitution};
use rehal_values::Equality;

use super::{Options, OutputTarget, ResultOptions};
use crate::devices::Expectations;
use crate::flags::{Access, Flag, Flags, Group, List, Refusal, invalid, read_if, recorded};
use crate::kernel_recording::ProgramRecording;
use crate::tools::compiler_flags::{self, SubstituteCompiler};
use crate::tools::ledger_flags::ELEMENT_TYPE;
use crate::{devices, output, parameters};

const MODULE: List<ModuleSource> = List::parsed(
    "module",
    "PATH",
    "a path",
    parse_module,
    "A compiled module (.vmfb), a program that is compiled first (.mlir, .mlirbc, .onnx), or - for standard input. Repeat it for modules that import from each other, \
     each after its dependencies; functions are looked up in the last one. The modules of rehal itself (hal, \
     io_parameters) need not be named.",
)
.files(|module, _| read_if(module.path()))
.endings(&["vmfb", "mlir", "mlirbc", "onnx"]);

const MODULE_MODE: Flag<ModuleMode> = Flag::choice(
    "module_mode",
    "preload",
    &[("preload", ModuleMode::Preload), ("mmap", ModuleMode::Mmap)],
    "How modules are read. preload: into memory at the start. mmap: mapped, so that pages are read on demand.",
);

const LEAD_ALLOCATOR: Flag<usize> = Flag::number(
    "device_lead_allocator",
    0,
    (0, i64::MAX),
    |index| index as usize,
    "Index of the device, in the order of --device, that allocates inputs and memory that several devices share.",
);

const TRACE_EXECUTION: Flag<bool> =
    Flag::switch("trace_execution", false, "Prints each executed instruction on standard error.");

const EXECUTABLE_SUBSTITUTION: List<Substitution> = List::parsed(
    "executable_substitution",
    "WHICH[@FORMAT]=PATH",
    "WHICH[@FORMAT]=PATH",
    |value| Ok(Substitution::parse(value)?),
    "Replaces an executable of the modules by a compiled file or a source, as --replay_executable_substitution does in a \
     replay. WHICH is the number of an executable, its name, the name of one of its functions (rehal executables prints them), \
     with or without the prefixes of dumped files, or all; all=DIRECTORY takes each file for the executable of its name. With \
     the name of a function, only that function is replaced. The signatures must match.",
)
.files(|substitution, _| match &substitution.replacement.code {
    Code::File(path) => vec![Access::Read.to(path)],
    Code::Bytes(_) => Vec::new(),
});

/// The modules, and how they are run.
pub(crate) const MODULES: Group = Group {
    title: "Modules",
    flags: &[
        &MODULE,
        &MODULE_MODE,
        &LEAD_ALLOCATOR,
        &TRACE_EXECUTION,
        &EXECUTABLE_SUBSTITUTION,
        &compiler_flags::WORKGROUPS,
    ],
};

const REPLAY_OUTPUT: Flag<Option<PathBuf>> = Flag::path(
    "device_replay_output",
    "Records all device work to a capture, which iree-run-replay replays. The scopes init, execute and deinit \
     mark the parts of the run.",
)
.files(recorded)
.endings(&["ireereplay"]);

const FILE_POLICY: Flag<FilePolicy> = Flag::choice(
    "device_replay_file_policy",
    "reference",
    &[
        ("reference", FilePolicy::Reference),
        ("capture-ranges", FilePolicy::CaptureRanges),
        ("capture-all", FilePolicy::CaptureAll),
        ("fail", FilePolicy::Fail),
    ],
    "How the capture stores files that the program reads, such as parameter files. reference: their paths. \
     capture-ranges: the byte ranges that are read. capture-all: all bytes. fail: importing a file is an error.",
);

const FILE_VALIDATION: Flag<FileValidation> = Flag::choice(
    "device_replay_file_validation",
    "identity",
    &[("identity", FileValidation::Identity), ("digest", FileValidation::Digest)],
    "How a replay verifies files that are stored by reference. identity: length, device, inode and modification \
     time. digest: a digest of the contents, which survives a copy but reads the whole file.",
);

const REPLAY_LEDGER: Flag<LedgerRecording> = Flag::choice(
    "device_replay_ledger",
    "off",
    &[
        ("off", LedgerRecording::Off),
        ("reads", LedgerRecording::Reads),
        ("dispatches", LedgerRecording::Dispatches),
    ],
    "What the capture says about the results, in records that other tools skip; rehal verify compares a replay with it. off: \
     nothing. reads: a digest of the bytes of each host read. dispatches: also digests of what each dispatch writes; the \
     program's work is then performed one operation at a time.",
);

/// Recording to a capture.
pub(crate) const RECORDING: Group = Group {
    title: "Recording",
    flags: &[&REPLAY_OUTPUT, &FILE_POLICY, &FILE_VALIDATION, &REPLAY_LEDGER, &ELEMENT_TYPE],
};

const OUTPUT: List<OutputTarget> = List::parsed(
    "output",
    "TARGET",
    "@PATH to write a file, +PATH to append to one, - to print, or an empty value to discard the result",
    parse_output,
    "What to do with a result, once for each in order; without it all results are printed.\n\
     \x20  (empty)       discard it\n\
     \x20  -             print it\n\
     \x20  @file.npy     write it as an .npy file; +file.npy appends to one\n\
     \x20  @file         write its bytes; +file appends them",
)
.may_be_empty()
.files(|target, _| target.file().into_iter().collect());

const EXPECTED_OUTPUT: List<ValueText> = List::parsed(
    "expected_output",
    "VALUE",
    "a number, a tensor such as 2x2xf32=1 2 3 4, @FILE.npy, or (ignored)",
    parse_value,
    "An expected result, written as for --input, once for each in order, or (ignored). Results are then \
     compared instead of printed, and the exit status is 1 if one differs.",
)
.files(|value, _| read_if(value.path()));

const MAX_ELEMENT_COUNT: Flag<u64> = Flag::number(
    "output_max_element_count",
    1024,
    (i64::MIN, i64::MAX),
    |count| if count < 0 { u64::MAX } else { count as u64 },
    "Maximum number of elements of a result to print; the rest is elided. Negative for all.",
);

#[derive(Clone, Copy)]
enum EqualityMode {
    Approximate,
    Exact,
}

const EQUALITY_MODE: Flag<EqualityMode> = Flag::choice(
    "equality_mode",
    "approximate",
    &[("approximate", EqualityMode::Approximate), ("exact", EqualityMode::Exact)],
    "How results are compared. approximate: floats may differ by the absolute tolerance of their type plus \
     expected_rtol times the expected value; NaNs are equal. exact: all bytes must be equal.",
);

/// The absolute tolerance of a type.
const fn threshold(name: &'static str, default: &'static str, help: &'static str) -> Flag<f64> {
    Flag::parsed(name, "NUMBER", default, "a number, 0 or more", parse_tolerance, help).unquoted()
}

const F16_THRESHOLD: Flag<f64> = threshold("expected_f16_threshold", "0.001", "Absolute tolerance of f16.");
const F32_THRESHOLD: Flag<f64> = threshold("expected_f32_threshold", "0.0001", "Absolute tolerance of f32.");
const F64_THRESHOLD: Flag<f64> = threshold("expected_f64_threshold", "0.0001", "Absolute tolerance of f64.");
const BF16_THRESHOLD: Flag<f64> = threshold("expected_bf16_threshold", "0.01", "Absolute tolerance of bf16.");
const RTOL: Flag<f64> =
    threshold("expected_rtol", "1e-05", "Relative tolerance of floats, as a factor of the expected value.");

/// The handling of results.
pub(crate) const RESULTS: Group = Group {
    title: "Results",
    flags: &[
        &OUTPUT,
        &EXPECTED_OUTPUT,
        &MAX_ELEMENT_COUNT,
        &EQUALITY_MODE,
        &F16_THRESHOLD,
        &F32_THRESHOLD,
        &F64_THRESHOLD,
        &BF16_THRESHOLD,
        &RTOL,
    ],
};

/// The arguments of a function.
pub(crate) const INPUT: List<ValueText> = List::parsed(
    "input",
    "VALUE",
    "a number, a tensor such as 2x2xf32=1 2 3 4, @FILE.npy, or (null)",
    parse_value,
    "An argument, once for each in order.\n\
     \x20  3.14                     a number\n\
     \x20  2x2xi32=1 2 3 4          a tensor: shape and element type, then elements\n\
     \x20  2x2xi32=[[1 2][3 4]]     brackets and commas count as spaces\n\
     \x20  2x2xf32=1                one element is broadcast; no element means zeros\n\
     \x20  4xi1=true false 1 0      booleans\n\
     \x20  2x2xf32=@file            the bytes of a file; +file continues where the last input ended\n\
     \x20  @file.npy                an array of a file; +file.npy the next one, *file.npy all that follow\n\
     \x20  &2x2xf32                 storage only, for results that are written in place\n\
     \x20  (null)                   a null reference",
)
.files(|value, _| value.path().map(|path| Access::ReadFirst.to(path)).into_iter().collect());

impl Options {
    /// The options set by the flags of [`MODULES`] and [`RECORDING`] and those of devices and parameters.
    pub(crate) fn from_flags(flags: &Flags) -> Result<Self> {
        let mut program = ProgramOptions::default();
        program.modules = flags.list(&MODULE);
        if program.modules.is_empty() {
            let error = Error::invalid_argument("--module is missing");
            return Err(error.advise("name a module: --module=FILE.vmfb, or --module=- for standard input"));
        }
        compiler_flags::compile_modules(flags, &mut program.modules)?;
        program.module_mode = flags.get(&MODULE_MODE);
        program.substitutions = flags.list(&EXECUTABLE_SUBSTITUTION);
        let compiler = SubstituteCompiler::from_flags(flags);
        program.build_substitutes = Some(Arc::new(move |resolved| compiler.build(resolved)));
        // What replacements write next to a buffer is not to reach other memory of the process.
        let guards_buffers = !program.substitutions.is_empty();
        let expectations = Expectations { guards_buffers, ..Expectations::default() };
        program.devices = devices::options_expecting(flags, expectations)?;
        program.lead = lead(flags, program.devices.devices.len())?;
        program.parameters = parameters::options(flags);
        program.recording = flags.get(&REPLAY_OUTPUT).map(|path| {
            let name = format!("--{}={}", REPLAY_OUTPUT.name(), path.display());
            let mut recording = RecordingOptions::new(NamedPath::from(path).named(name));
            recording.record.file_policy = flags.get(&FILE_POLICY);
            recording.record.file_validation = flags.get(&FILE_VALIDATION);
            recording.record.ledger = flags.get(&REPLAY_LEDGER);
            recording.element_types = flags.list(&ELEMENT_TYPE);
            recording
        });
        let kernels = ProgramRecording::from_flags(flags, &mut program.recording);
        // What is in memory is stored, and so are the buffers of recorded kernels.
        let stores_files = |it: &RecordingOptions| it.record.file_policy != FilePolicy::Reference;
        let is_read = matches!(program.parameters.mode, FileMode::Map | FileMode::File) && kernels.is_none();
        if program.recording.as_ref().is_some_and(|it| stores_files(it) || !is_read) {
            program.parameters = parameters::copied(flags);
        }
        program.trace_execution = flags.get(&TRACE_EXECUTION).then(note);
        program.trace_values = Some(note());
        program.report_crashes = true;
        Ok(Self { program, inputs: Vec::new(), kernels, modules: Vec::new() })
    }
}

/// The index of the device that allocates shared memory.
fn lead(flags: &Flags, device_count: usize) -> Result<usize> {
    let lead = flags.get(&LEAD_ALLOCATOR);
    if lead < device_count {
        return Ok(lead);
    }
    let expected = format!("an index below {device_count}, the number of devices");
    let subject = format!("--{}", LEAD_ALLOCATOR.name());
    let error = Error::out_of_range(invalid(&subject, lead.to_string().as_ref(), &expected));
    Err(error.advise("indices start at 0, in the order of --device"))
}

/// A sink that prints to standard error.
fn note() -> TextSink {
    Arc::new(output::note)
}

impl ResultOptions {
    /// The options set by the flags of [`RESULTS`]. Fails if a file of results cannot be written.
    pub(crate) fn from_flags(flags: &Flags) -> Result<Self> {
        let equality = match flags.get(&EQUALITY_MODE) {
            EqualityMode::Exact => Equality::Exact,
            EqualityMode::Approximate => Equality::Approximate {
                // The reference stores all tolerances but that of f64 as f32.
                f16: f64::from(flags.get(&F16_THRESHOLD) as f32),
                f32: f64::from(flags.get(&F32_THRESHOLD) as f32),
                f64: flags.get(&F64_THRESHOLD),
                bf16: f64::from(flags.get(&BF16_THRESHOLD) as f32),
                relative: flags.get(&RTOL),
            },
        };
        let outputs = flags.list(&OUTPUT);
        for target in &outputs {
            target.output()?;
        }
        Ok(Self {
            outputs,
            expected: values(flags, &EXPECTED_OUTPUT),
            max_elements: flags.get(&MAX_ELEMENT_COUNT),
            equality,
        })
    }
}

/// The values of a flag. Warns of each file of raw bytes that begins like an `.npy` file.
pub(crate) fn values(flags: &Flags, flag: &List<ValueText>) -> Vec<ValueText> {
    let values = flags.list(flag);
    for value in &values {
        if let Some(path) = value.array_read_as_bytes() {
            let (name, text, path) = (flag.name(), value.text().display(), path.display());
            output::note(&format!(
                "warning: --{name}={text}: the file begins like an .npy file, and its header is read as elements, too; \
                 --{name}=@{path}, in a file whose name ends with .npy, reads the array"
            ));
        }
    }
    values
}

fn parse_module(value: &OsStr) -> Result<ModuleSource, Refusal> {
    Ok(if value == "-" { ModuleSource::StandardInput } else { ModuleSource::File(value.into()) })
}

fn parse_output(value: &OsStr) -> Result<OutputTarget, Refusal> {
    let path = |bytes| PathBuf::from(OsStr::from_bytes(bytes));
    match value.as_bytes() {
        [] => Ok(OutputTarget::Drop),
        b"-" => Ok(OutputTarget::Print),
        [b'@', rest @ ..] if !rest.is_empty() => Ok(OutputTarget::Write(path(rest))),
        [b'+', rest @ ..] if !rest.is_empty() => Ok(OutputTarget::Append(path(rest))),
        _ => Err(Refusal::Unexpected),
    }
}

fn parse_value(value: &OsStr) -> Result<ValueText, Refusal> {
    Ok(ValueText::new(value)?)
}

fn parse_tolerance(value: &OsStr) -> Result<f64, Refusal> {
    let number = value.to_str().and_then(|text| text.parse().ok());
    number.filter(|number| *number >= 0.0).ok_or(Refusal::Unexpected)
}
