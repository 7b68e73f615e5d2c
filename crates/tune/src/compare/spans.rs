use std::sync::Arc;

use parking_lot::Mutex;
use rehal_base::{Result, StatusCode};
use rehal_hal::profile::{
    ClockSample, CommandRegion, DeviceQueueEvent, DispatchEvent, HostExecution, MemoryEvent, ProfileData,
    ProfileFilter, ProfileRequest, ProfileSink, ProfiledCommand, ProfiledOperation, QueueEvent, WorkerSpan,
};
use rehal_hal::{CommandBufferParams, Device, DeviceGroup, FunctionInfo};

/// The begins and ends of dispatches, as devices report them. Devices are profiled until it is dropped.
pub struct DispatchSpans {
    spans: Arc<Spans>,
    profiled: Vec<Device>,
}

impl DispatchSpans {
    /// Begins to profile the devices that can report spans.
    pub fn begin(devices: &DeviceGroup) -> Self {
        let spans = Arc::new(Spans::default());
        let request = ProfileRequest {
            data: ProfileData::HOST_EXECUTION,
            filter: ProfileFilter::default(),
            counters: Vec::new(),
            sink: spans.clone(),
        };
        let all = devices.devices().iter();
        let profiled = all.filter(|device| device.begin_profiling(&request).is_ok()).cloned().collect();
        Self { spans, profiled }
    }

    /// The spans since the last call, in nanoseconds, by their begin.
    pub fn take(&self) -> Vec<(i64, i64)> {
        let mut spans = std::mem::take(&mut *self.spans.0.lock());
        spans.sort_unstable();
        spans
    }

    /// Ends the profiles; returns the spans since the last call of [`DispatchSpans::take`].
    pub fn end(mut self) -> Result<Vec<(i64, i64)>> {
        let mut outcome = Ok(());
        for device in std::mem::take(&mut self.profiled) {
            outcome = outcome.and(device.end_profiling());
        }
        outcome.map(|()| self.take())
    }
}

impl Drop for DispatchSpans {
    fn drop(&mut self) {
        for device in &self.profiled {
            // What failed is reported by what is being done.
            let _ = device.end_profiling();
        }
    }
}

#[derive(Default)]
struct Spans(Mutex<Vec<(i64, i64)>>);

impl ProfileSink for Spans {
    fn executable(&self, _id: u64, _functions: &[FunctionInfo]) {}

    fn command_buffer(
        &self,
        _id: u64,
        _params: &CommandBufferParams,
        _commands: &[ProfiledCommand],
        _records: &[(u32, u64)],
    ) {
    }

    fn replayed(&self, _operation: &ProfiledOperation, _record: u64) {}

    fn queue_event(&self, _event: &QueueEvent<'_>) {}

    fn host_execution(&self, event: &HostExecution) {
        if event.dispatch.is_some() && event.status == StatusCode::Ok {
            self.0.lock().push((event.start_ns, event.end_ns));
        }
    }

    fn memory_event(&self, _event: &MemoryEvent) {}

    fn command_region(&self, _event: &CommandRegion) {}

    fn worker_span(&self, _span: &WorkerSpan) {}

    fn device_queue_event(&self, _event: &DeviceQueueEvent) {}

    fn dispatch_event(&self, _event: &DispatchEvent) {}

    fn clock_sample(&self, _sample: &ClockSample) {}
}
