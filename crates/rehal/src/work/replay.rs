use rehal_base::{Error, Result};
use rehal_devices::CrashReports;
use rehal_jobs::{Caller, Work};
use rehal_replay::{HostReadLog, Plan};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::setup::ReplaySetup;

/// A replay that returns its host reads.
#[derive(Clone, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ReplayWork {
    /// The replay.
    pub setup: ReplaySetup,
    /// Number of bytes of each host read that are returned; its digests are of all.
    pub bytes_limit: usize,
}

/// The result of a replay.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Replayed {
    /// Number of steps of the plan.
    pub step_count: usize,
    /// Number of operations that had failed at capture, and are skipped.
    pub skipped_count: u64,
    /// The host reads, as [`HostReadLog`] writes them.
    pub host_reads: Vec<Value>,
}

impl Replayed {
    /// Name and version of its JSON.
    pub const SCHEMA: &'static str = "rehal.run/1";

    /// The result of a replay of this plan with these host reads, as [`HostReadLog`] has written them.
    pub fn new(plan: &Plan, host_reads: &[u8]) -> Result<Self> {
        let host_reads =
            serde_json::Deserializer::from_slice(host_reads).into_iter().collect::<Result<_, _>>();
        let host_reads = host_reads.map_err(|error| Error::io("reading host reads", &error.into()))?;
        Ok(Self { step_count: plan.step_count(), skipped_count: plan.skipped_count(), host_reads })
    }
}

impl ReplayWork {
    /// The replay of a setup.
    pub fn new(setup: ReplaySetup) -> Self {
        Self { setup, bytes_limit: rehal_replay::DEFAULT_BYTES_LIMIT }
    }
}

impl Work for ReplayWork {
    const NAME: &'static str = "replay";
    type Outcome = Replayed;

    fn perform(&self, caller: &Caller<'_>) -> Result<Replayed> {
        let plan = self.setup.plan()?;
        caller.confine(|confinement| self.setup.confine(&plan, confinement))?;
        let replay = self.setup.replay(plan)?;
        replay.check_capture()?;
        let mut reads = HostReadLog::new(Vec::new(), self.bytes_limit);
        replay.run(&mut [&mut CrashReports::records(), &mut reads])?;
        Replayed::new(replay.plan(), &reads.finish()?)
    }
}
