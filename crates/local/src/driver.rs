use std::time::Duration;

use rehal_base::Result;
use rehal_hal::{
    CommonOptions, CompilerTarget, Device, DeviceDescription, DeviceOptions, DeviceParameter, DriverBackend,
    ExecutableFormat, OptionSet, PerfMap,
};

use crate::executable::Plugins;
use crate::executable::format::{self, COMPILER_TARGET, FORMATS};
use crate::parameters::{SYNC_PARAMETERS, TASK_PARAMETERS};
use crate::{LocalSync, LocalTask, Topology, TopologyOptions, WorkerOptions, Workers};

/// The name of the driver, and of its one device.
pub const LOCAL_SYNC: &str = "local-sync";

/// The driver of [`LocalSync`]: one device, on any machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct LocalSyncDriver;

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
    /// See [`CommonOptions::perf_map`]. The files are those of the process, and stay when it ends.
    pub perf_map: Option<PerfMap>,
}

impl DeviceOptions for LocalSyncOptions {}

/// The name of the driver, and of its one device.
pub const LOCAL_TASK: &str = "local-task";

/// The driver of [`LocalTask`]: one device, on any machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct LocalTaskDriver;

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

macro_rules! driver {
    ($driver:ident($name:ident, $description:literal, $parameters:ident, $options:ident) => $create:expr, $workers:expr) => {
        impl DriverBackend for $driver {
            fn name(&self) -> &str {
                $name
            }

            fn description(&self) -> &str {
                $description
            }

            fn availability(&self) -> Result<()> {
                Ok(())
            }

            fn formats(&self) -> &'static [ExecutableFormat] {
                &FORMATS
            }

            fn check_format(&self, name: &str) -> Result<()> {
                format::check(name)
            }

            fn compiler_target(&self) -> Option<CompilerTarget> {
                Some(COMPILER_TARGET)
            }

            fn parameters(&self) -> &'static [DeviceParameter] {
                &$parameters
            }

            fn enumerate(&self) -> Result<Vec<DeviceDescription>> {
                Ok(vec![DeviceDescription { name: "default".into(), ..DeviceDescription::default() }])
            }

            fn create_device(&self, _path: &str, options: &OptionSet, group: &[Device]) -> Result<Device> {
                let common: CommonOptions = options.get();
                let mut own: $options = options.get();
                own.plugins.append(options.get());
                own.timeout = own.timeout.or(common.timeout);
                own.guards_buffers |= common.guards_buffers;
                own.perf_map = own.perf_map.or(common.perf_map);
                ($create)(own, group)
            }

            fn describe_workers(&self, options: &OptionSet) -> Option<Result<String>> {
                ($workers)(options.get::<$options>())
            }
        }
    };
}

driver!(LocalTaskDriver(
    LOCAL_TASK, "CPU; runs work on a pool of threads", TASK_PARAMETERS, LocalTaskOptions
) => LocalTask::create_in, |own: LocalTaskOptions| Some(own.selection.describe()));

driver!(LocalSyncDriver(
    LOCAL_SYNC, "CPU; runs work on the thread that makes it ready", SYNC_PARAMETERS, LocalSyncOptions
) => |own, _: &[Device]| LocalSync::create_with(own), |_| None);

#[cfg(test)]
mod tests {
    use rehal_base::StatusCode;
    use rehal_hal::{Driver, DriverRegistry};

    use super::*;

    #[test]
    fn the_one_device_is_named_by_the_driver_or_by_its_index() {
        let mut registry = DriverRegistry::default();
        registry.register(Driver::new(LocalSyncDriver)).unwrap();
        let driver = registry.find(LOCAL_SYNC).unwrap();
        let uris: Vec<_> = driver.enumerate().unwrap().iter().map(|device| driver.uri(device)).collect();
        assert_eq!(uris, ["local-sync://"]);
        let options = OptionSet::default().with(LocalSyncOptions::default());
        for which in ["", "0"] {
            let device = driver.create_device(which, &options).unwrap();
            assert_eq!(
                (device.info().driver.as_str(), device.info().name.as_str()),
                (LOCAL_SYNC, LOCAL_SYNC)
            );
        }
        let error = driver.create_device("1", &options).err().unwrap();
        assert_eq!(error.code(), StatusCode::NotFound);
    }
}
