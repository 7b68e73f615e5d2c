//! Helpers shared by replay tests: hand-built captures, a device that logs its work, and an observer that
//! records its notifications.

mod builder;
mod device;
mod everything;
mod observed;
mod payloads;
mod stepped;

pub use builder::CaptureBuilder;
pub use device::{Bound, FAKE_FORMAT, FAKE_RAW_FORMAT, FLUSHED, FakeCode, Ran, TestDevice, code, function};
pub use everything::everything;
pub use observed::{Observed, Read, refusal, replay, run, run_with};
pub use payloads::{FileSpec, allocation, range, slot, whole};
pub use stepped::{ObservedOperation, Stepped, stepped};

/// An id of a capture.
pub type Id = u64;
