use std::any::Any;
use std::sync::Arc;

use rehal_base::Result;

/// Which group of devices a channel is for, and which of its participants this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelParams<'a> {
    /// Flags (source: `iree_hal_channel_flags_t`).
    pub flags: u64,
    /// What all participants were given to find each other by; empty for the driver's default.
    pub id: &'a [u8],
    /// The name of the group, or empty.
    pub group: &'a [u8],
    /// This participant's rank, or -1 for the driver's default.
    pub rank: i32,
    /// How many participants there are, or -1 for the driver's default.
    pub count: i32,
}

/// What a driver does for a channel.
pub trait ChannelBackend: Send + Sync {
    /// A channel of those participants that name the same `color`, in the order of their keys.
    fn split(&self, color: i32, key: i32, flags: u64) -> Result<Channel>;

    /// The rank of this participant and how many there are.
    fn rank_and_count(&self) -> (i32, i32);

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
