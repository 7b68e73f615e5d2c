use std::any::Any;
use std::sync::Arc;

/// A driver's implementation of an event.
pub trait EventBackend: Any + Send + Sync {}

/// A point inside command buffers that later commands wait for: a cheap clone of a shared object.
#[derive(Clone)]
pub struct Event(Arc<dyn EventBackend>);

impl Event {
    /// An event over a driver's backend.
    #[doc(hidden)]
    pub fn new(backend: impl EventBackend + 'static) -> Self {
        Self(Arc::new(backend))
    }

    /// The backend.
    #[doc(hidden)]
    pub fn backend(&self) -> &dyn EventBackend {
        &*self.0
    }

    /// Whether both handles refer to the same event.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
