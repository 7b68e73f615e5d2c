//! How near kernels come to the roofs of their devices.

use rehal_hal::DeviceGroup;
use serde::Serialize;

use super::{MachineRoof, operations};
use crate::Kernel;

/// The kept roofs of devices.
#[derive(Clone, Debug, Default)]
pub struct Roofs {
    /// The roof of each device, if it has been measured, and the number of its threads.
    devices: Vec<(Option<MachineRoof>, usize)>,
}

/// Where the bytes of a [`KernelRoof`] come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BytesSource {
    /// They are those of the accessed pages.
    Accessed,
    /// The accesses are unknown: the bytes are all that is bound, so that the roof may be too long.
    Bound,
}

/// The least time that a dispatch takes, as far as it is known.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct KernelRoof {
    /// Bytes that it accesses, each counted once.
    pub bytes: u64,
    /// Where the bytes come from.
    pub bytes_from: BytesSource,
    /// Arithmetic operations, at least; `None` if unknown.
    pub operations: Option<u64>,
    /// Where the operations come from: `name` or `unknown`.
    pub operations_from: &'static str,
    /// Number of threads that may take part.
    pub threads: usize,
    /// The least time in nanoseconds.
    pub roof_ns: f64,
    /// The limit: `L2`, `memory`, or a type and instructions.
    pub limit: String,
}

impl Roofs {
    /// Reads what is kept of these devices.
    pub fn kept(devices: &DeviceGroup) -> Self {
        let of = |device: &rehal_hal::Device| {
            let roof = MachineRoof::kept(device).map(|it| it.0);
            // A GPU is measured as a whole.
            let is_cpu = roof.as_ref().is_some_and(|it| it.machine.is_cpu());
            let threads = || device.query_i64("hal.dispatch", "concurrency").ok()?.try_into().ok();
            let threads = if is_cpu { threads().unwrap_or(1) } else { 1 };
            (roof, threads)
        };
        Self { devices: devices.devices().iter().map(of).collect() }
    }

    /// Whether a device has been measured.
    pub fn is_measured(&self) -> bool {
        self.devices.iter().any(|it| it.0.is_some())
    }

    /// The same of one thread each, for the time of the processor of all threads together.
    pub fn of_one_thread(mut self) -> Self {
        self.devices.iter_mut().for_each(|it| it.1 = 1);
        self
    }

    /// When the first device was measured.
    pub fn date(&self) -> Option<&str> {
        self.devices.iter().find_map(|it| Some(&*it.0.as_ref()?.conditions.date))
    }

    /// The roof of a dispatch of a kernel; `None` if its device has not been measured, or if its bytes are
    /// unknown.
    pub fn kernel(&self, kernel: &Kernel) -> Option<KernelRoof> {
        let count = kernel
            .workgroup_count
            .map(|it| it.iter().fold(1, |all: u64, it| all.saturating_mul(u64::from(*it))));
        let bound = kernel.bytes_bound()?;
        // Pages are more than what is bound of them.
        let (bytes, bytes_from) = match kernel.bytes_accessed() {
            Some(bytes) => (bytes.min(bound), BytesSource::Accessed),
            None => (bound, BytesSource::Bound),
        };
        self.dispatch(kernel.device?, &kernel.name, count, (bytes, bytes_from))
    }

    /// The roof of a dispatch of a function with this name on a device, with so many workgroups, which
    /// accesses so many bytes.
    pub fn dispatch(
        &self,
        device: usize,
        name: &str,
        workgroups: Option<u64>,
        (bytes, bytes_from): (u64, BytesSource),
    ) -> Option<KernelRoof> {
        let (roof, threads) = self.devices.get(device)?;
        let roof = roof.as_ref()?;
        // A workgroup runs on one thread.
        let threads = workgroups.map_or(*threads, |it| (*threads as u64).min(it.max(1)) as usize);
        let operations = operations::of_name(name);
        let by_bytes = roof
            .bytes_per_second(bytes, threads)
            .map(|(rate, place)| (bytes as f64 * 1e9 / rate, place.to_owned()));
        let by_operations = operations.as_ref().and_then(|it| {
            let (rate, peak) = roof.operations_per_second(it.element.as_deref()?, threads)?;
            Some((it.count as f64 * 1e9 / rate, format!("{} {}", peak.element, peak.instructions)))
        });
        let (roof_ns, limit) =
            by_bytes.into_iter().chain(by_operations).max_by(|one, other| one.0.total_cmp(&other.0))?;
        Some(KernelRoof {
            bytes,
            bytes_from,
            operations_from: if operations.is_some() { "name" } else { "unknown" },
            operations: operations.map(|it| it.count),
            threads,
            roof_ns,
            limit,
        })
    }
}

impl KernelRoof {
    /// The part of a dispatch's time that the roof is.
    pub fn share(&self, time_ns: f64) -> Option<f64> {
        (time_ns > 0.0).then(|| self.roof_ns / time_ns)
    }

    /// The time above the roof.
    pub fn above_ns(&self, time_ns: f64) -> f64 {
        (time_ns - self.roof_ns).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use rehal_local::LocalSync;
    use rehal_local::executable::Plugins;
    use rehal_replay::{Plan, PlanOptions, Replay, ReplayOptions};

    use super::super::tests::roof;
    use super::*;

    #[test]
    fn the_longer_time_is_the_roof() {
        let roofs = Roofs { devices: vec![(Some(roof()), 2), (None, 1)] };
        let of = |name: &str, workgroups, bytes| {
            let it = roofs.dispatch(0, name, workgroups, (bytes, BytesSource::Accessed)).unwrap();
            (it.roof_ns, it.limit, it.threads, it.operations, it.operations_from)
        };
        // 2000 operations at 4 per nanosecond; 1000 bytes at 100.
        let matmul = "m_dispatch_0_matmul_10x10x10_f32";
        assert_eq!(of(matmul, Some(1), 1000), (500.0, "f32 V512".into(), 1, Some(2000), "name"));
        // Two threads: 7 in a nanosecond.
        let (time_ns, _, threads, ..) = of(matmul, None, 1000);
        assert!((time_ns - 2000.0 / 7.0).abs() < 1e-9 && threads == 2);
        assert_eq!(of(matmul, Some(1), 100_000), (10_000.0, "memory".into(), 1, Some(2000), "name"));
        // Only bytes are known.
        let unknown = of("m_dispatch_0_elementwise_10_f32", Some(1), 1000);
        assert_eq!(unknown, (10.0, "L1".into(), 1, None, "unknown"));
        // The peak of its type is unknown.
        let typed = of("m_dispatch_0_matmul_10x10x10_f64", Some(1), 1000);
        assert_eq!(typed, (10.0, "L1".into(), 1, Some(2000), "name"));
        for device in [1, 2] {
            assert_eq!(roofs.dispatch(device, matmul, None, (1, BytesSource::Bound)), None);
        }
        let it = roofs.dispatch(0, matmul, Some(1), (1000, BytesSource::Bound)).unwrap();
        assert_eq!((it.share(1000.0), it.share(0.0)), (Some(0.5), None));
        assert_eq!((it.above_ns(1000.0), it.above_ns(100.0)), (500.0, 0.0));
    }

    /// Without this test, a dispatch of a replay may have the roof of another one.
    #[test]
    fn dispatches_of_a_replay_have_the_roofs_of_their_bytes_and_operations() {
        let path = testing::fixtures().join("captures/chain.chain.local-sync.ireereplay");
        let plan = Plan::compile(std::fs::read(path).unwrap(), PlanOptions::default()).unwrap();
        let kernels = crate::Kernels::from_plan(&plan, &crate::KernelOptions::default()).unwrap();
        let sites: Vec<_> = kernels.kernels.iter().map(|it| (it.location.ordinal, it.occurrence)).collect();
        let devices = DeviceGroup::new(vec![LocalSync::create(Plugins::default())]).unwrap();
        let replay = Replay::new(plan, &devices, &ReplayOptions::default()).unwrap();
        // Pages that are accessed are seen by signals.
        rehal_devices::CrashReports::install();
        let found = Roofs { devices: vec![(Some(roof()), 2)] }.dispatches(&replay, &sites).unwrap();
        let of = |it: &Option<KernelRoof>| it.as_ref().map(|it| (it.bytes, it.operations, it.threads));
        // Three matrices of 24 times 24 numbers of 4 bytes, or a page in place of two; the sum is of one
        // workgroup.
        let product = |bytes| Some((bytes, Some(2 * 24 * 24 * 24), 2));
        let rows = [product(6400), product(6912), product(6912), product(8704), Some((6912, None, 1))];
        assert_eq!(found.iter().map(of).collect::<Vec<_>>(), rows);
        assert_eq!(Roofs::default().dispatches(&replay, &sites).unwrap(), vec![None; sites.len()]);
    }
}
