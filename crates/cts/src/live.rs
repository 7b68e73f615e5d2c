//! Operations of a running program. The lists and bytes in them are slices, whose types the
//! compiler only finds when it knows that the names are live.

use rehal_hal::Live;

pub(crate) type QueueOp<'a> = rehal_hal::QueueOp<Live<'a>>;
pub(crate) type Command<'a> = rehal_hal::Command<Live<'a>>;
pub(crate) type Dispatch<'a> = rehal_hal::Dispatch<Live<'a>>;
