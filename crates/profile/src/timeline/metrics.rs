//! Device metrics over time, such as temperatures, as counters.

use std::collections::HashMap;

use rehal_base::Result;

use super::trace::{Trace, Track, Value};
use crate::model::Model;
use crate::rows;
use crate::{MetricUnit, MetricValueKind};

/// Where the counters are among the tracks of a device: below those of memory.
const RANK: i32 = 1 << 21;

/// The counters of metrics, by device, source and metric.
#[derive(Debug, Default)]
pub struct Metrics {
    counters: HashMap<(u32, u64, u64), Track>,
}

impl Metrics {
    /// Adds the values of a sample whose metrics are described, as far as they are finite. `device_track` is
    /// the track of its device.
    pub fn add(
        &mut self,
        sample: &rows::MetricSample<'_>,
        model: &Model<'_>,
        device_track: Track,
        trace: &mut Trace<'_>,
    ) -> Result<()> {
        let Ok(time_ns) = u64::try_from(sample.host_time_begin_ns.get()) else { return Ok(()) };
        for value in sample.values {
            let (source, metric) = (sample.source_id.get(), value.metric_id.get());
            let Some(descriptor) = model.metrics.get(&(source, metric)) else { continue };
            let bits = value.value_bits.get();
            let number = match MetricValueKind(descriptor.value_kind.get()) {
                MetricValueKind::I64 => Value::Signed(bits as i64),
                MetricValueKind::U64 => Value::Unsigned(bits),
                MetricValueKind::F64 if f64::from_bits(bits).is_finite() => {
                    Value::Float(f64::from_bits(bits))
                }
                _ => continue,
            };
            let key = (sample.physical_device_ordinal.get(), source, metric);
            let track = match self.counters.get(&key) {
                Some(track) => *track,
                None => {
                    let name = String::from_utf8_lossy(descriptor.name);
                    let unit = MetricUnit(descriptor.unit.get()).name();
                    let track = trace.counter_track(device_track, &name, RANK, Some(unit))?;
                    self.counters.insert(key, track);
                    track
                }
            };
            trace.count(track, time_ns, number)?;
        }
        Ok(())
    }
}
