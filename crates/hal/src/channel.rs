use std::any::Any;
use std::sync::Arc;

/// What a driver does for a channel.
pub trait ChannelBackend: Send + Sync {
    /// The backend itself, for the driver that made it.
    fn as_any(&self) -> &dyn Any;
}

/// A group of devices that take part in collectives: a cheap clone of a shared object.
#[derive(Clone)]
pub struct Channel(Arc<dyn ChannelBackend>);

impl Channel {
    /// A channel over a driver's backend.
    pub fn new(backend: impl ChannelBackend + 'static) -> Self {
        Self(Arc::new(backend))
    }

    /// The backend.
    pub fn backend(&self) -> &dyn ChannelBackend {
        &*self.0
    }

    /// Whether both handles are of one channel.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
