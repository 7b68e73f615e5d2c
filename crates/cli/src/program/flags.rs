//! The flags that the tools which run programs share.

use rehal_base::{Error, Result};
use rehal_values::Equality;

use crate::flags::{Flag, Flags, Group};

/// Which modules, and how they are run.
pub(crate) const MODULES: Group = Group {
    title: "Modules",
    flags: &[
        Flag::list(
            "module",
            "PATH",
            "A compiled module (.vmfb), or - for one on standard input. Repeat it for modules that import from \
             each other, each after those that it needs; functions are those of the last one. What modules \
             import of rehal itself (hal, io_parameters) is added without being named.",
        ),
        Flag::text(
            "module_mode",
            "MODE",
            "preload",
            "How modules are read. preload: into memory at the start. mmap: as mapped files, of which pages are \
             read when they are wanted.",
        ),
        Flag::integer(
            "device_lead_allocator",
            0,
            "Number of the device, from 0 in the order of --device=, that inputs are allocated on and what several \
             devices share where the program lets the host choose.",
        ),
        Flag::switch("trace_execution", false, "Prints what the program executes on standard error."),
    ],
};

/// Recording what the program does to a capture.
pub(crate) const RECORDING: Group = Group {
    title: "Recording",
    flags: &[
        Flag::text(
            "device_replay_output",
            "PATH",
            "",
            "Writes all that the program asks of its devices to a capture, which iree-run-replay replays. The \
             scopes init, execute and deinit say which part of the run it belongs to.",
        ),
        Flag::text(
            "device_replay_file_policy",
            "POLICY",
            "reference",
            "What the capture holds of files that the program reads, such as parameters. reference: their paths. \
             capture-ranges: the bytes that are read. capture-all: all their bytes. fail: such files are refused.",
        ),
        Flag::text(
            "device_replay_file_validation",
            "HOW",
            "identity",
            "How a replay knows files by reference again. identity: by length, device, inode and time. digest: by \
             a digest of all their bytes, which survives a copy and reads them all.",
        ),
    ],
};

/// What to do with results.
pub(crate) const RESULTS: Group = Group {
    title: "Results",
    flags: &[
        Flag::list_of_any(
            "output",
            "WHERE",
            "What to do with a result, once for each in order; without it all are printed.\n\
             \x20  (nothing)     drop it\n\
             \x20  -             print it\n\
             \x20  @file.npy     write it as an .npy file; +file.npy appends to one\n\
             \x20  @file         write its bytes; +file appends them",
        ),
        Flag::list(
            "expected_output",
            "VALUE",
            "What a result should be, written as for --input, once for each in order, or (ignored). Results are \
             then compared instead of printed, and the tool ends with 1 if one differs.",
        ),
        Flag::integer(
            "output_max_element_count",
            1024,
            "How many elements of a result are printed; the rest shows as dots. Negative for all.",
        ),
        Flag::text(
            "equality_mode",
            "MODE",
            "approximate",
            "How results are compared. approximate: floats may differ by the tolerance of their type plus \
             expected_rtol times the expected one, and are equal where neither is a number. exact: byte by byte.",
        ),
        Flag::text("expected_f16_threshold", "NUMBER", "0.001", "How much an f16 may differ."),
        Flag::text("expected_f32_threshold", "NUMBER", "0.0001", "How much an f32 may differ."),
        Flag::text("expected_f64_threshold", "NUMBER", "0.0001", "How much an f64 may differ."),
        Flag::text("expected_bf16_threshold", "NUMBER", "0.01", "How much a bf16 may differ."),
        Flag::text(
            "expected_rtol",
            "NUMBER",
            "1e-05",
            "How much floats may differ, relative to what is expected.",
        ),
    ],
};

/// When results count as equal, as the flags of [`RESULTS`] say.
pub(crate) fn equality(flags: &Flags) -> Result<Equality> {
    match flags.text("equality_mode") {
        "approximate" => {}
        "exact" => return Ok(Equality::Exact),
        other => {
            let error = Error::invalid_argument(format!("--equality_mode={other} is no way to compare"));
            return Err(error.advise("approximate or exact"));
        }
    }
    Ok(Equality::Approximate {
        // As the reference holds them: in the precision of what they are for, f64 apart.
        f16: f64::from(tolerance(flags, "expected_f16_threshold")? as f32),
        f32: f64::from(tolerance(flags, "expected_f32_threshold")? as f32),
        f64: tolerance(flags, "expected_f64_threshold")?,
        bf16: f64::from(tolerance(flags, "expected_bf16_threshold")? as f32),
        relative: tolerance(flags, "expected_rtol")?,
    })
}

fn tolerance(flags: &Flags, name: &'static str) -> Result<f64> {
    let text = flags.text(name);
    match text.parse() {
        Ok(number) if number >= 0.0 => Ok(number),
        _ => {
            Err(Error::invalid_argument(format!("--{name}={text} is no tolerance"))
                .advise("a number, 0 or more"))
        }
    }
}

/// How many elements of a result are printed.
pub(crate) fn max_elements(flags: &Flags) -> u64 {
    u64::try_from(flags.integer("output_max_element_count")).unwrap_or(u64::MAX)
}
