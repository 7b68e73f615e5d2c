//! The roofs of single dispatches of a replay.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use rehal_base::Result;
use rehal_devices::CrashReports;
use rehal_local::watch_buffer;
use rehal_replay::{Observer, Operation, RecordLocation, Replay, distinct_bytes};

use super::{BytesSource, KernelRoof, Roofs};

impl Roofs {
    /// The roofs of dispatches, named by record and occurrence, in a replay that also sees what they access.
    /// `None` if the roof of the device is unknown.
    pub fn dispatches(&self, replay: &Replay, dispatches: &[(u32, u64)]) -> Result<Vec<Option<KernelRoof>>> {
        if !self.is_measured() || dispatches.is_empty() {
            return Ok(vec![None; dispatches.len()]);
        }
        let mut dispatched = DispatchSites { sites: dispatches.iter().map(|site| (*site, None)).collect() };
        let observers: &mut [&mut dyn Observer] = &mut [&mut CrashReports::records(), &mut dispatched];
        let accessed = replay.accessed_pages(dispatches, Arc::new(watch_buffer), observers)?;
        let roof = |(site, accessed): (&(u32, u64), Option<Vec<_>>)| {
            let it = dispatched.sites.get(site)?.as_ref()?;
            let bytes = match accessed {
                Some(pages) => (distinct_bytes(pages).min(it.bound), BytesSource::Accessed),
                None => (it.bound, BytesSource::Bound),
            };
            self.dispatch(it.device, &it.name, Some(it.workgroups), bytes)
        };
        Ok(dispatches.iter().zip(accessed).map(roof).collect())
    }
}

/// A dispatch of a replay.
struct Dispatched {
    device: usize,
    name: String,
    workgroups: u64,
    /// The bytes that are bound, each counted once.
    bound: u64,
}

struct DispatchSites {
    sites: HashMap<(u32, u64), Option<Dispatched>>,
}

impl Observer for DispatchSites {
    fn wants_operations(&self) -> bool {
        true
    }

    fn wants_command(&mut self, location: RecordLocation, occurrence: u64) -> bool {
        self.sites.contains_key(&(location.ordinal, occurrence))
    }

    fn before_operation(&mut self, operation: &Operation<'_>) -> Result<ControlFlow<()>> {
        let site = self.sites.get_mut(&(operation.location.ordinal, operation.occurrence));
        if let (Some(site), Some(dispatch)) = (site, &operation.dispatch) {
            let count = dispatch.workgroup_count.map(u64::from);
            *site = Some(Dispatched {
                device: operation.device,
                name: dispatch.name.to_owned(),
                workgroups: count.into_iter().fold(1, u64::saturating_mul),
                bound: distinct_bytes(operation.bindings().iter().map(|it| (it.buffer_id, it.range()))),
            });
        }
        Ok(ControlFlow::Continue(()))
    }
}
