use std::any::Any;
use std::sync::Arc;

use rehal_base::Result;

/// The group of a channel and this participant's rank in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelParams<'a> {
    /// Flags (source: `iree_hal_channel_flags_t`).
    pub flags: u64,
    /// The identifier shared by all participants; empty for the driver's default.
    pub id: &'a [u8],
    /// The name of the group, or empty.
    pub group: &'a [u8],
    /// This participant's rank, or -1 for the driver's default.
    pub rank: i32,
    /// Number of participants, or -1 for the driver's default.
    pub count: i32,
}

/// A driver's implementation of a channel.
pub trait ChannelBackend: Any + Send + Sync {
    /// A channel of the participants with the same `color`, ordered by their keys.
    fn split(&self, color: i32, key: i32, flags: u64) -> Result<Channel>;

    /// This participant's rank and the number of participants.
    fn rank_and_count(&self) -> (i32, i32);
}

/// A group of devices for collectives: a cheap clone of a shared object.
#[derive(Clone)]
pub struct Channel(Arc<dyn ChannelBackend>);

impl Channel {
    /// A channel over a driver's backend.
    #[doc(hidden)]
    pub fn new(backend: impl ChannelBackend + 'static) -> Self {
        Self(Arc::new(backend))
    }

    /// The backend.
    #[doc(hidden)]
    pub fn backend(&self) -> &dyn ChannelBackend {
        &*self.0
    }

    /// Whether both handles refer to the same channel.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
