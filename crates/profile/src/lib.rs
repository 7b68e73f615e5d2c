//! The `.ireeprof` profile format: its layout, a zero-copy reader, typed views of the rows of its chunks, a
//! writer, the reports that `iree-profile` prints, timelines in Perfetto's format, and the events on one time
//! axis, for programs that draw them.
//!
//! It handles bytes only, and must not depend on devices, tools or captures. `devices` opens bundles with it.
//!
//! Versions 1.x are read, 1.6 is written. Rows say how long they are, so that a newer version may append
//! fields.
//!
//! A [`Bundle`] has a checked envelope. A record is the begin or the end of a session, or a chunk of rows of
//! one [`ContentType`]; `rows.rs` has typed views of the rows, and `event.rs` has all rows that are events as
//! one type. `report/` prints what `iree-profile` prints,
//! `timeline/` writes traces for Perfetto, and `activity/` puts all events on one axis of time, on tracks and
//! lanes. Unlike a report, it accepts events whose metadata is missing.

#![forbid(unsafe_code)]
#![allow(
    clippy::result_large_err,
    reason = "a FormatError is made once per file at most; boxing it would cost its users more"
)]

mod clock;
mod codes;
mod event;
mod model;
mod reader;
mod replayed;
mod table;
mod worker;
mod writer;

pub mod activity;
pub mod check;
pub mod layout;
pub mod report;
pub mod rows;
pub mod timeline;
pub mod times;

pub use codes::{
    CommandOperationType, CounterSampleScope, CounterUnit, DependencyStrategy, DeviceClass, EndpointType,
    MemoryEventType, MetricPlotHint, MetricSemantic, MetricUnit, MetricValueKind, QueueEventType, RecordType,
    RelationshipType, TraceFormat,
};
pub use reader::{Bundle, OpenOptions, Record, Records, Tear};
pub use rows::{ContentType, Row, Rows};
pub use writer::{RecordFields, Writer};
