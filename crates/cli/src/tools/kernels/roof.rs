//! How near kernels come to the roof of their device: order, columns and fields of the list.

use rehal_judge::time;
use rehal_kernels::{BytesSource, Kernel, KernelRoof, Roofs};
use serde::Serialize;

use crate::table::Column;

/// The key by which kernels are sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Sort {
    /// The time above the roof, if it is known.
    AboveRoof,
    Time,
}

/// The roof of a kernel as far as it is known; null without a measurement of the device.
#[derive(Serialize)]
pub(super) struct RoofFields {
    /// The least time of a dispatch.
    roof_ns: Option<f64>,
    /// The part of the time that the roof is.
    roof_share: Option<f64>,
    /// The time of all dispatches above the roof.
    pub above_roof_ns: Option<f64>,
    roof_limit: Option<String>,
    roof_threads: Option<usize>,
    bytes: Option<u64>,
    bytes_from: Option<BytesSource>,
    operations: Option<u64>,
    operations_from: Option<&'static str>,
}

/// The columns of the table, behind those of times.
pub(super) const COLUMNS: [Column; 3] =
    [Column::right("of roof"), Column::right("above roof").optional(1), Column::left("limit").optional(9)];

pub(super) const LEGEND: &str = "of roof: the least time in which the device passes the bytes once (from a cache, if they fit) and performs the \
     operations, of the time; <=: with all that is bound, since it is unknown what is accessed; operations are known if \
     the name says them\n";

pub(super) const CSV_FIELDS: &str =
    "roof_ns,roof_share,above_roof_ns,roof_limit,roof_threads,bytes,bytes_from,operations,operations_from";

/// The words on the order in the header of the list.
pub(super) fn header(by: Sort, date: Option<&str>) -> String {
    match (by, date) {
        (Sort::AboveRoof, Some(date)) => {
            format!("; sorted by the time above the roof (rehal machine, {})", date.get(..10).unwrap_or(date))
        }
        (_, Some(_)) => String::new(),
        (_, None) => "; roof unknown: see rehal machine".into(),
    }
}

impl RoofFields {
    pub(super) fn new(kernel: &Kernel, roofs: &Roofs) -> Self {
        let roof = roofs.kernel(kernel);
        let time_ns = kernel.time_ns.map(|it| it as f64 / kernel.count.max(1) as f64);
        let of = |part: fn(&KernelRoof, f64) -> Option<f64>| part(roof.as_ref()?, time_ns?);
        let (share, above) = (of(KernelRoof::share), of(|it, time_ns| Some(it.above_ns(time_ns))));
        Self {
            roof_ns: roof.as_ref().map(|it| it.roof_ns),
            roof_share: share,
            above_roof_ns: above.map(|it| it * kernel.count as f64),
            roof_limit: roof.as_ref().map(|it| it.limit.clone()),
            roof_threads: roof.as_ref().map(|it| it.threads),
            bytes: roof.as_ref().map(|it| it.bytes),
            bytes_from: roof.as_ref().map(|it| it.bytes_from),
            operations: roof.as_ref().and_then(|it| it.operations),
            operations_from: roof.as_ref().map(|it| it.operations_from),
        }
    }

    pub(super) fn cells(&self) -> [String; 3] {
        let at_most = if self.bytes_from == Some(BytesSource::Bound) { "<= " } else { "" };
        let share = self.roof_share.map(|it| format!("{at_most}{:.1} %", it * 100.0));
        let above = self.above_roof_ns.map(time);
        [share, above, self.roof_limit.clone()].map(|it| it.unwrap_or_else(|| "-".into()))
    }

    pub(super) fn csv(&self) -> [String; 9] {
        let bytes_from = self.bytes_from.map(|it| match it {
            BytesSource::Accessed => "accessed",
            BytesSource::Bound => "bound",
        });
        [
            optional(self.roof_ns),
            optional(self.roof_share),
            optional(self.above_roof_ns),
            self.roof_limit.clone().unwrap_or_default(),
            optional(self.roof_threads),
            optional(self.bytes),
            optional(bytes_from),
            optional(self.operations),
            optional(self.operations_from),
        ]
    }
}

/// A field of CSV, empty if the value is not known.
pub(super) fn optional<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}
