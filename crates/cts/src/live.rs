//! Operations of a running program. Their lists and bytes are slices, whose types the compiler can infer only
//! once the names are known to be live.

use rehal_hal::Live;

pub(crate) type QueueOp<'a> = rehal_hal::QueueOp<Live<'a>>;
pub(crate) type Command<'a> = rehal_hal::Command<Live<'a>>;
pub(crate) type Dispatch<'a> = rehal_hal::Dispatch<Live<'a>>;
