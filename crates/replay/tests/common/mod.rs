//! What tests of replays share: captures made by hand, a device that keeps a log of what it ran,
//! and an observer that keeps what it was told.

mod builder;
mod device;
mod everything;
mod observed;
mod payloads;

pub use builder::CaptureBuilder;
pub use device::{Bound, FAKE_FORMAT, FAKE_RAW_FORMAT, FLUSHED, FakeCode, Ran, TestDevice, code, function};
pub use everything::everything;
pub use observed::{Observed, Read, refusal, replay, run, run_with};
pub use payloads::{FileSpec, allocation, range, slot, whole};

/// An id of a capture.
pub type Id = u64;
