use std::sync::Arc;

use rehal_hal::{Event, EventBackend};

use super::names::RecordedObject;
use super::stream::Stream;

/// An event used by recorded command buffers.
pub(super) struct RecordedEvent {
    pub base: Event,
    pub id: u64,
    stream: Arc<Stream>,
}

impl RecordedEvent {
    /// Wraps `base` as event `id`.
    pub fn wrap(base: Event, id: u64, stream: &Arc<Stream>) -> Event {
        Event::new(Self { base, id, stream: stream.clone() })
    }
}

impl EventBackend for RecordedEvent {}

impl RecordedObject for RecordedEvent {
    const NAME: &'static str = "an event";

    fn stream(&self) -> &Arc<Stream> {
        &self.stream
    }
}
