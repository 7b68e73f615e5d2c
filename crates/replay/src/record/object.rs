use std::any::Any;
use std::sync::Arc;

use rehal_base::{Error, Result};
use rehal_hal::{Buffer, Event, EventBackend, Executable, HostOp};

use super::stream::Stream;
use crate::encode;
use crate::ids::Ids;

/// A handle whose calls are recorded.
pub(super) trait Handle: 'static {
    /// Its name in messages.
    const NAME: &'static str;
    /// The recorder's state of each, besides its id.
    type State;
    /// The object behind the handle.
    fn object(&self) -> &dyn Any;
}

macro_rules! handle {
    ($handle:ty, $name:literal, $state:ty) => {
        impl $crate::record::object::Handle for $handle {
            const NAME: &'static str = $name;
            type State = $state;
            fn object(&self) -> &dyn std::any::Any {
                self.backend()
            }
        }
    };
}
pub(super) use handle;

handle!(Buffer, "a buffer", ());
handle!(Event, "an event", ());
handle!(Executable, "an executable", ());

/// The object behind a recording handle.
pub(super) struct Recorded<H: Handle> {
    /// The handle of the base device.
    pub base: H,
    pub id: u64,
    /// Its device, which may be itself.
    pub device: u64,
    /// The capture it is recorded into.
    pub stream: Arc<Stream>,
    pub state: H::State,
}

impl<H: Handle> Recorded<H> {
    pub fn record_host_op(&self, status: u32, op: &HostOp<Ids<'_>>) {
        self.stream.with_log(|log| log.calls(self.device, status, |put| encode::host_op(op, put)));
    }
}

impl EventBackend for Recorded<Event> {}

/// The recorded object behind `handle`; fails for objects of another device or recorder.
#[inline]
pub(super) fn recorded<'a, H: Handle>(stream: &Arc<Stream>, handle: &'a H) -> Result<&'a Recorded<H>> {
    match handle.object().downcast_ref::<Recorded<H>>() {
        Some(object) if Arc::ptr_eq(&object.stream, stream) => Ok(object),
        _ => Err(foreign(H::NAME)),
    }
}

#[cold]
fn foreign(name: &str) -> Error {
    Error::failed_precondition(format!("cannot record {name} that this recorder did not create"))
}
