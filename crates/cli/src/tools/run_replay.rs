//! `iree-run-replay`: replays a capture once.

use std::fs::File;
use std::io::{BufWriter, Write};

use rehal_base::{Context, Error, Result};
use rehal_local::executable::guard;
use rehal_replay::{DEFAULT_BYTES_LIMIT, HostReadLog, Observer, RecordLocation};

use super::replay_flags;
use crate::flags::{DEVICES, Flag, Flags, Group, LOCAL, OTHER_DRIVERS, PROFILING, TASK};
use crate::progress::Progress;
use crate::{Invocation, Tool, devices, input, output};

/// See the [module](self).
pub const RUN_REPLAY: Tool = Tool {
    name: "iree-run-replay",
    verb: "run",
    summary: "replays a capture of HAL work on devices of this machine",
    about: "Rebuilds the buffers, semaphores, command buffers, executables and files of a capture, and \
            issues the captured work in the captured order. It prints nothing when all went well, and \
            stops at the first thing that cannot be reproduced, saying in which record and why.\n\n\
            A capture holds machine code, and replaying it runs that code with your rights: replay what \
            you would also execute.",
    operands: "CAPTURE.ireereplay",
    groups: &[&REPLAY, &DEVICES, &LOCAL, &TASK, &OTHER_DRIVERS, &PROFILING],
    examples: &[
        ("Replay a capture on the CPU", "{tool} --device=local-sync model.ireereplay"),
        (
            "See what the program read back",
            "{tool} --replay_host_reads=- model.ireereplay | jq -r '[.scope, .length, .bytes] | @tsv'",
        ),
        (
            "The parameters are elsewhere here",
            "{tool} --replay_file_remap=/mnt/train=/data/here model.ireereplay",
        ),
        (
            "Try another kernel in the place of executable 4",
            "{tool} --replay_executable_substitution=4=kernel.so model.ireereplay",
        ),
        (
            "Or by the name of a function in it",
            "{tool} --replay_executable_substitution=mlp_dispatch_0=kernel.so model.ireereplay",
        ),
    ],
    guide: include_str!("../guides/run_replay.md"),
    answer: devices::answer,
    run,
};

const REPLAY: Group = Group {
    title: "Replay",
    flags: &[
        replay_flags::FILE_REMAP,
        replay_flags::SUBSTITUTION,
        Flag::text(
            "replay_host_reads",
            "PATH",
            "",
            "Writes what the program read back from the device to a file (or - for standard output), a \
             JSON object per line: ordinal, scope, buffer_id, offset, length, fnv1a64, blake3, bytes (in \
             hexadecimal), truncated. Without it nothing is copied.",
        ),
        Flag::integer(
            "replay_host_reads_limit_bytes",
            DEFAULT_BYTES_LIMIT as i64,
            "How many bytes of each read are written in full; the digests are always of all.",
        ),
        replay_flags::RECOVER,
    ],
};

fn run(invocation: &Invocation) -> Result<()> {
    let flags = &invocation.flags;
    let path = invocation.capture_path()?;
    let options = replay_flags::options(flags)?;
    let limit = reads_limit(flags)?;
    let file = input::map(path)?;
    let plan = replay_flags::compile(&file, flags.switch("recover"))?;
    let step_count = plan.step_count();
    let replay = replay_flags::prepare(flags, &file, plan, &options)?;
    let mut reads = flags
        .given_text("replay_host_reads")
        .map(|path| {
            input::check_output(&file, "replay_host_reads", path)?;
            Ok::<_, Error>(HostReadLog::new(reads_sink(path)?, limit))
        })
        .transpose()?;
    let mut steps = Steps::new(step_count);
    let mut observers: Vec<&mut dyn Observer> = vec![&mut steps];
    if let Some(reads) = &mut reads {
        observers.push(reads);
    }
    let outcome = replay.run(&mut observers).context(|| input::place(&file));
    drop(steps);
    // What was read before a failure is worth having too.
    let written = reads.map_or(Ok(()), |reads| reads.finish().map(drop));
    outcome.and(written)
}

fn reads_limit(flags: &Flags) -> Result<usize> {
    let limit = flags.integer("replay_host_reads_limit_bytes");
    usize::try_from(limit).map_err(|_| {
        Error::invalid_argument(format!("--replay_host_reads_limit_bytes={limit} is negative"))
            .advise("give a number of bytes, 0 for none")
    })
}

fn reads_sink(path: &str) -> Result<Box<dyn Write>> {
    let file = match path {
        "-" => output::stdout()?,
        path => File::create(path)
            .map_err(|error| Error::io(format_args!("creating '{path}'"), &error))
            .context(|| "--replay_host_reads".into())?,
    };
    Ok(Box::new(BufWriter::with_capacity(64 << 10, file)))
}

/// Tells the crash guard which record runs, and a bar how far it is, if anybody watches.
struct Steps {
    progress: Progress,
    done: u64,
    total: u64,
}

impl Steps {
    /// Steps between two looks at the clock.
    const STRIDE: u64 = 256;

    fn new(total: usize) -> Self {
        Self { progress: Progress::new("replaying"), done: 0, total: total as u64 }
    }
}

impl Observer for Steps {
    fn wants_steps(&self) -> bool {
        true
    }

    fn step(&mut self, location: RecordLocation) -> Result<()> {
        guard::set_context(location.ordinal.into(), location.offset);
        self.done += 1;
        if self.done.is_multiple_of(Self::STRIDE) {
            self.progress.set(self.done, self.total);
        }
        Ok(())
    }
}
