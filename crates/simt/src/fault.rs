use std::fmt;

use rehal_base::{Error, StatusCode};

/// Why a block could not be run to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Each warp waits for others.
    Deadlock,
    /// Warps use a barrier in contradictory ways.
    Barrier(String),
    /// The code executed `trap`.
    Trap,
    /// The caller stopped the launch.
    Stopped,
    /// The launch used its budget of instructions.
    Budget,
    /// The check of races needs more memory than [`Checks::shadow_bytes`](crate::Checks).
    ShadowMemory,
    /// The code did something that is undefined, such as a jump by an index beyond a list of targets.
    Invalid(String),
}

/// Where a part of a warp is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WarpAt {
    /// The index of the warp in its block.
    pub warp: u32,
    /// The lanes.
    pub mask: u64,
    /// The state that it is in.
    pub what: String,
    /// The offset of the instruction in the text.
    pub at: u32,
}

/// Parts of warps that a message shows.
const SHOWN_WARPS: usize = 8;

/// A block that could not be run to its end. The launch has stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The reason.
    pub cause: Cause,
    /// The name of the kernel.
    pub function: String,
    /// The block.
    pub block: [u32; 3],
    /// The place of each part of each warp that has not ended, with line and text of the instruction.
    pub warps: Vec<(WarpAt, usize, String)>,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [x, y, z] = self.block;
        write!(f, "function '{}', block ({x}, {y}, {z}): ", self.function)?;
        match &self.cause {
            Cause::Deadlock => write!(f, "deadlock: each warp waits")?,
            Cause::Barrier(what) | Cause::Invalid(what) => write!(f, "{what}")?,
            Cause::Trap => write!(f, "trap")?,
            Cause::Stopped => write!(f, "stopped before its end")?,
            Cause::Budget => write!(f, "the budget of instructions is used up")?,
            Cause::ShadowMemory => {
                write!(f, "it accesses too much memory for the check 'races': turn that check off")?;
            }
        }
        for (index, (at, line, text)) in self.warps.iter().enumerate() {
            if index == SHOWN_WARPS {
                return write!(f, "; and {} more", self.warps.len() - index);
            }
            write!(f, "; warp {} lanes {:#x} {} at line {line}: {text}", at.warp, at.mask, at.what)?;
        }
        Ok(())
    }
}

impl std::error::Error for Fault {}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        let code = match fault.cause {
            Cause::Deadlock | Cause::Barrier(_) => StatusCode::FailedPrecondition,
            Cause::Trap | Cause::Invalid(_) => StatusCode::Aborted,
            Cause::Stopped => StatusCode::Cancelled,
            Cause::Budget | Cause::ShadowMemory => StatusCode::ResourceExhausted,
        };
        Self::new(code, fault.to_string())
    }
}
