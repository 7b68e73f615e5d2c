//! `iree-run-replay`: replays a capture once.

use std::collections::HashMap;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::sync::Arc;

use rehal::capture::memory_warning;
use rehal::dialogue::{Answer, Dialogue, Question, ReplayQuestions};
use rehal::work::Replayed;
use rehal_base::{Error, Result};
use rehal_devices::CrashReports;
use rehal_hal::profile::QueueOpKind;
use rehal_jobs::Worker;
use rehal_judge::LedgerWriter;
use rehal_replay::{DEFAULT_BYTES_LIMIT, HostReadLog, Observer, Plan, RecordLocation, Replay};

use super::compiler_flags::{COMPILING, WORKGROUPS};
use super::report_format::{self, Format};
use super::{ledger_flags, replay_flags};
use crate::flags::{Flag, Group, streamed, with_devices};
use crate::kernel_recording::{self, KERNEL_RECORDING};
use crate::output_file::OutputFile;
use crate::profiling::{self, PROFILING};
use crate::progress::Progress;
use crate::report::{FailureError, Subject};
use crate::sandbox::Reach;
use crate::{Invocation, Operands, Tool, captures, devices, output};

/// See the [module](self).
pub const RUN_REPLAY: Tool = Tool {
    name: "iree-run-replay",
    verb: "run",
    summary: "replays a capture of HAL work on devices of this machine",
    about: "Executes an IREE HAL replay file on devices of this machine.\n\n\
            Recreates the buffers, semaphores, command buffers, executables and files of a capture, and \
            submits the captured work in the order of its records. It prints nothing on success, and stops at the \
            first operation that cannot be reproduced, with its record and the reason.\n\n\
            A capture contains machine code, which runs confined (--sandbox) as far as the system can: it cannot access \
            other files, processes or the network. Its numbers and outputs are still its word.",
    operands: Operands::One { what: "capture", form: "CAPTURE.ireereplay" },
    groups: with_devices![&REPLAY, &ledger_flags::LEDGER_GROUP, &COMPILING; &PROFILING, &KERNEL_RECORDING],
    examples: &[
        ("Replay a capture on the CPU", "{tool} --device=local-sync model.ireereplay"),
        (
            "Print the host reads",
            "{tool} --replay_host_reads=- model.ireereplay | jq -r '[.scope, .length, .bytes] | @tsv'",
        ),
        ("Let the work overlap as in the program", "{tool} --replay_order=captured model.ireereplay"),
        (
            "Keep digests of what each dispatch writes, for rehal verify",
            "{tool} --replay_ledger=model.ledger model.ireereplay",
        ),
        (
            "Use parameters in another directory",
            "{tool} --replay_file_remap=/mnt/train=/data/here model.ireereplay",
        ),
        (
            "Replace executable 4 by another kernel",
            "{tool} --replay_executable_substitution=4=kernel.so model.ireereplay",
        ),
        (
            "Select the executable by the name of a function",
            "{tool} --replay_executable_substitution=mlp_dispatch_0=kernel.so model.ireereplay",
        ),
    ],
    guide: include_str!("../guides/run_replay.md"),
    answer: devices::answer,
    run,
};

const HOST_READS: Flag<Option<PathBuf>> = Flag::path(
    "replay_host_reads",
    "Writes the host reads, which are the program's results, to a file (or - for standard output), one JSON object \
     per line: ordinal, scope, buffer_id, offset, length, fnv1a64, blake3, bytes (in hexadecimal), truncated. \
     Without it, host reads are not copied.",
)
.files(streamed);

const HOST_READS_LIMIT: Flag<usize> = Flag::number(
    "replay_host_reads_limit_bytes",
    DEFAULT_BYTES_LIMIT as i64,
    (0, i64::MAX),
    |bytes| bytes as usize,
    "Maximum number of bytes of each read to write; digests always cover all bytes.",
);

const REPLAY: Group = Group {
    title: "Replay",
    flags: &[
        &replay_flags::ORDER,
        &replay_flags::FILE_REMAP,
        &replay_flags::FILE_WRITES,
        &replay_flags::SUBSTITUTION,
        &WORKGROUPS,
        &HOST_READS,
        &HOST_READS_LIMIT,
        &replay_flags::RECOVER,
        &FORMAT,
    ],
};

const FORMAT: Flag<Format> =
    report_format::flag("text: nothing on success. json: an object with the host reads, on a line.");

/// Memory for host reads that are not yet written.
const READS_BUFFER_BYTES: usize = 64 << 10;

/// The capture to replay, and the output of host reads.
struct Options<'i> {
    /// To print JSON.
    reporting: Option<&'i Invocation>,
    replay: replay_flags::Options,
    host_reads: Option<OutputFile>,
    host_reads_limit_bytes: usize,
    ledger: Option<ledger_flags::Options>,
    profiling: Option<profiling::Options>,
    kernels: Option<kernel_recording::Recording>,
    /// For devices that use the memory of the machine.
    memory_warning: Option<String>,
}

fn run(invocation: &Invocation) -> Result<()> {
    run_with(invocation, None)
}

/// In a worker's process, the request is what the replay asks about: see [`Dialogue`]. The answer is the
/// error, if there is one.
pub(super) fn serve(invocation: &Invocation, worker: &Worker) -> Result<()> {
    let io = |error| Error::io("asking about a replay", &error);
    let mut asker = worker.asker().map_err(io)?;
    let reply = move |question: &Question| asker.ask::<Answer>(question).map_err(io);
    let dialogue = Dialogue::new(worker.request::<ReplayQuestions>().map_err(io)?, reply);
    run_with(invocation, Some(dialogue)).inspect_err(|error| {
        // If no process listens, the exit status tells.
        if !invocation.has_ended() {
            let _ = worker.answer(&FailureError::new(error));
        }
    })
}

fn run_with(invocation: &Invocation, dialogue: Option<Dialogue>) -> Result<()> {
    let flags = &invocation.flags;
    let format = report_format::beside_files(flags, &FORMAT)?;
    let host_reads = flags.get(&HOST_READS);
    let host_reads = host_reads.map(|path| OutputFile::new(HOST_READS.name(), path)).transpose()?;
    let mut options = Options {
        // What is asked of a worker is its answer.
        reporting: Some(invocation).filter(|_| matches!(format, Format::Json) && dialogue.is_none()),
        replay: replay_flags::Options::from_invocation(invocation)?,
        host_reads_limit_bytes: flags.get(&HOST_READS_LIMIT),
        ledger: ledger_flags::Options::from_flags(flags)?,
        host_reads,
        profiling: profiling::Options::from_flags(flags)?,
        kernels: kernel_recording::Recording::checked(flags)?,
        memory_warning: None,
    };
    options.replay.replay.substitute = dialogue.as_ref().and_then(Dialogue::substitute);
    // Before any file is created, which is as private as the capture.
    let capture = captures::open(&options.replay.path, &options.replay.capture)?;
    let plan = replay_flags::compile(&capture)?;
    // Before the process is confined, which may then not see its limits.
    options.memory_warning = memory_warning(&plan.memory());
    replay_flags::resolve(&mut options.replay, invocation, &plan)?;
    let mut reach = Reach::of_replay(&plan, &options.replay.devices);
    reach.directories.extend(options.kernels.as_ref().map(kernel_recording::Recording::directory));
    invocation.confined(&reach, || replay(&options, &plan, dialogue))
}

fn replay(options: &Options<'_>, plan: &Arc<Plan>, dialogue: Option<Dialogue>) -> Result<()> {
    let Some(ledger) = &options.ledger else { return observe(plan, options, None, dialogue) };
    // Complete or absent: a replay that fails leaves no ledger.
    ledger.output.write(|sink| observe(plan, options, Some((ledger, sink)), dialogue))
}

fn observe(
    plan: &Arc<Plan>,
    options: &Options<'_>,
    ledger: Option<(&ledger_flags::Options, &mut dyn Write)>,
    mut dialogue: Option<Dialogue>,
) -> Result<()> {
    let (replay, reports) = replay_flags::prepare(&options.replay, plan.clone())?;
    let uses_machine = replay.devices().devices().iter().any(|it| it.info().uses_host_memory);
    if let Some(warning) = options.memory_warning.as_ref().filter(|_| uses_machine) {
        output::note(&format!("***WARNING*** {warning}"));
    }
    let recorded = kernel_recording::Recording::before(options.kernels.as_ref(), &replay);
    let profiling = replay_flags::begin_profiling(options.profiling.as_ref(), &replay)?;
    let host_reads = options.host_reads.as_ref().map(OutputFile::begin).transpose()?;
    let mut reads = match &host_reads {
        Some(output) => {
            let sink = BufWriter::with_capacity(READS_BUFFER_BYTES, output.sink()?);
            Some(HostReadLog::new(sink, options.host_reads_limit_bytes))
        }
        None => None,
    };
    let mut reported =
        options.reporting.map(|_| HostReadLog::new(Vec::new(), options.host_reads_limit_bytes));
    let mut steps = Steps::new(replay.plan(), reports);
    let mut ledger = ledger
        .map(|(options, sink)| LedgerWriter::new(sink, replay.plan(), options.ledger.clone()))
        .transpose()?;
    let mut records = profiling.records();
    let mut observers: Vec<&mut dyn Observer> = vec![&mut steps, &mut records];
    if let Some(ledger) = &mut ledger {
        observers.push(ledger);
    }
    if let Some(reads) = &mut reads {
        observers.push(reads);
    }
    if let Some(reported) = &mut reported {
        observers.push(reported);
    }
    if let Some(dialogue) = &mut dialogue {
        dialogue.begin(replay.plan())?;
        observers.push(dialogue);
    }
    let outcome = profiling.end(replay.run(&mut observers));
    let outcome = outcome.and_then(|()| dialogue.map_or(Ok(()), |dialogue| dialogue.finish()));
    drop(steps);
    note_skipped(replay.plan().skipped_count());
    // Reads before a failure are useful too, on standard output.
    let written = reads.map_or(Ok(()), |reads| reads.finish().map(drop));
    let outcome = outcome.and_then(|()| ledger.map_or(Ok(()), |ledger| ledger.finish().map(drop)));
    let outcome = outcome.and(written);
    let outcome = match host_reads {
        Some(output) => output.finish(outcome),
        None => outcome,
    };
    recorded.report(outcome)?;
    match options.reporting.zip(reported) {
        Some((invocation, reads)) => report(invocation, &replay, &reads.finish()?),
        None => Ok(()),
    }
}

/// Prints what a replay did.
fn report(invocation: &Invocation, replay: &Replay, reads: &[u8]) -> Result<()> {
    let plan = replay.plan();
    let subject = Subject { capture: Some(plan.capture()), devices: Some(replay.devices()) };
    output::print(&invocation.line(Replayed::SCHEMA, &Replayed::new(plan, reads)?, subject)?)
}

/// Notes operations that had failed at capture, as they are skipped.
fn note_skipped(count: u64) {
    match count {
        0 => {}
        1 => output::note("note: skipped 1 operation that had failed at capture; `rehal info` names it"),
        _ => output::note(&format!(
            "note: skipped {count} operations that had failed at capture; `rehal info` names them"
        )),
    }
}

/// Sets the record for crash reports, and shows progress on a terminal.
struct Steps {
    reports: CrashReports,
    progress: Progress,
    done: u64,
    total: u64,
    /// The bytes that records read from files or the capture, if they are many, by ordinal.
    reads: HashMap<u32, u64>,
    /// How many of them are read, and how many there are.
    read_bytes: [u64; 2],
}

impl Steps {
    /// Number of steps between reads of the clock.
    const STRIDE: u64 = 256;

    /// Progress tells of this many bytes that are read from files.
    const MANY_BYTES: u64 = 1 << 30;

    fn new(plan: &Plan, reports: CrashReports) -> Self {
        let (mut reads, mut all_bytes) = (HashMap::new(), 0_u64);
        if plan.memory().largest_bytes >= Self::MANY_BYTES {
            plan.distinct_transfers(|it| {
                if matches!(it.kind, QueueOpKind::Read | QueueOpKind::Update) {
                    reads.insert(it.location.ordinal, it.target.length);
                }
            });
            all_bytes = reads.values().fold(0, |all, bytes| bytes.saturating_add(all));
            if all_bytes < Self::MANY_BYTES {
                reads.clear();
            }
        }
        let (progress, total) = (Progress::new("replaying"), plan.step_count() as u64);
        Self { reports, progress, done: 0, total, reads, read_bytes: [0, all_bytes] }
    }
}

impl Observer for Steps {
    fn wants_steps(&self) -> bool {
        true
    }

    fn step(&mut self, location: RecordLocation) -> Result<()> {
        self.reports.step(location)?;
        self.done += 1;
        let read_bytes = self.reads.get(&location.ordinal);
        if read_bytes.is_some() || self.done.is_multiple_of(Self::STRIDE) {
            let gib = |bytes: u64| bytes as f64 / (1 << 30) as f64;
            let read = |[done, all]: [u64; 2]| format!(", {:.1}/{:.1} GiB read", gib(done), gib(all));
            let read = || if self.reads.is_empty() { String::new() } else { read(self.read_bytes) };
            self.progress.set_with(self.done, self.total, read);
        }
        self.read_bytes[0] += read_bytes.unwrap_or(&0);
        Ok(())
    }

    fn command_step(&mut self, location: RecordLocation) -> Result<()> {
        self.reports.command_step(location)
    }
}
