//! The options of the drivers.

use std::time::Duration;

use rehal_base::Result;
use rehal_hal::{DeviceOptions, ExecutableFormat, PerfMap};

use crate::executable::Plugins;
use crate::task::{WorkerOptions, Workers};
use crate::topology::{Topology, TopologyOptions};

/// The name of the driver, and of its one device.
pub const LOCAL_SYNC: &str = "local-sync";

/// The name of the driver, and of its one device.
pub const LOCAL_TASK: &str = "local-task";

/// Options of a `local-sync` device.
#[derive(Clone, Default)]
pub struct LocalSyncOptions {
    /// Libraries that resolve the imports of executables.
    pub plugins: Plugins,
    /// The size of the stack of kernels. Default: 2 MiB, which is also the least.
    pub stack_bytes: usize,
    /// Whether buffers are apart from the memory of the process, between pages that cannot be accessed, and a
    /// dispatch fails that writes next to one: for kernels of which it is not known that they access only
    /// their bindings.
    pub guards_buffers: bool,
    /// The process ends when a dispatch runs for longer: see [`rehal_crash::end_after`].
    pub timeout: Option<Duration>,
    /// See [`rehal_hal::CommonOptions::perf_map`]. The files are those of the process, and stay when it ends.
    pub perf_map: Option<PerfMap>,
    /// The formats of executables that are prepared as data, in place of the driver's own: nothing of them
    /// runs, and their dispatches do nothing. For those who need the memory of a device, but not what its
    /// kernels compute.
    #[doc(hidden)]
    pub described: Option<&'static [ExecutableFormat]>,
}

impl DeviceOptions for LocalSyncOptions {}

/// Options of a `local-task` device.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct LocalTaskOptions {
    /// Libraries that resolve the imports of executables.
    pub plugins: Plugins,
    /// The workers of the device, which several devices may share. Default: the device starts workers of its
    /// own, by `topology`.
    pub workers: Option<Workers>,
    /// Where the workers run. Default: what `selection` selects, as one pool.
    pub topology: Option<Topology>,
    /// How workers are selected without `topology`. Default: one for each physical core of the current NUMA
    /// node.
    pub selection: TopologyOptions,
    /// How the device starts its workers.
    pub worker: WorkerOptions,
    /// The bytes of workgroup-local memory of each worker; a dispatch that needs more fails. Default: the
    /// least of [`crate::topology::Worker::default_local_memory`].
    pub worker_local_memory: Option<u64>,
    /// See [`LocalSyncOptions::guards_buffers`].
    pub guards_buffers: bool,
    /// See [`LocalSyncOptions::timeout`].
    pub timeout: Option<Duration>,
    /// See [`LocalSyncOptions::perf_map`].
    pub perf_map: Option<PerfMap>,
    /// Whether the process aborts, after a message, when work fails or a kernel crashes. Default: the work's
    /// signals fail, and after a crash the process ends with the status of the crash guard.
    pub abort_on_failure: bool,
}

impl DeviceOptions for LocalTaskOptions {}

impl LocalTaskOptions {
    /// Whether both describe the same workers, so that devices may share them.
    pub(crate) fn describes_workers_of(&self, other: &Self) -> bool {
        (&self.topology, &self.selection, &self.worker) == (&other.topology, &other.selection, &other.worker)
    }

    /// Starts the workers that the options describe, or returns those that they have. Fails if none are
    /// selected, or if threads cannot be started.
    pub fn start_workers(&self) -> Result<Workers> {
        match (&self.workers, &self.topology) {
            (Some(workers), _) => Ok(workers.clone()),
            (None, Some(topology)) => Workers::start(topology, &self.worker),
            (None, None) => {
                let topology = Topology::merged(self.selection.select_pools()?)?;
                Workers::start_selected(&topology, &self.worker, self.selection.places_workers())
            }
        }
    }
}
