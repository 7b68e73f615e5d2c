//! The bytes that operations read, write and change: the only place that answers.
//!
//! - `access.rs` has what is known before an operation runs: the ranges of fills and copies, the access flags
//!   of buffers, and the bindings that an executable's format declares as read-only. Everything else that is
//!   bound to a kernel may be read and written.
//! - `tracker.rs` observes what is not known: it compares what is bound to a dispatch with a copy. A range is
//!   copied once, before the first dispatch that binds it, and is known until the tracker forgets it. A
//!   consumer that sees all operations of a submission pays one comparison for each dispatch. One that knows
//!   what should change, such as a verification, compares the rest once for each submission.
//! - `unknown.rs` follows the results of kernels that are not run through copies and files: which bytes
//!   are unknown then.
//! - `changes.rs` compares bytes, in units of a change or in strides, and `ranges.rs` has sets of ranges.

mod access;
mod changes;
mod ranges;
mod tracker;
mod unknown;

pub(crate) use access::{Access, Effect, Footprint, Footprints, clamp, extent, written_by_kernels};
pub use changes::CHANGE_BYTES;
pub(crate) use changes::{STRIDE_BYTES, changed_strides, changes};
pub(crate) use ranges::{Ranges, overlap};
pub use ranges::{distinct_bytes, merged, without};
pub use tracker::{ChangeTracker, TrackedBinding};
pub(crate) use unknown::Unknown;
