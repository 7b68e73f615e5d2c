//! Work that runs captured code, as data: a process of the program `rehal` performs it, or this one.

mod check;
mod compare;
mod replay;
mod setup;
mod side;
mod verify;

pub use rehal_jobs::{Caller, Confinement, Isolation, ProcessLimits, Sandbox, Work, WorkOptions, perform};

#[doc(hidden)]
pub use check::{CheckTask, CheckWork, Checked, located};
pub use compare::CompareWork;
#[doc(hidden)]
pub use compare::{CompareEnd, IsolatedComparison, compare_isolated};
pub use replay::{ReplayWork, Replayed};
pub use setup::ReplaySetup;
#[doc(hidden)]
pub use side::{SideReplay, SideWork};
pub use verify::VerifyWork;

use rehal_base::Result;
use rehal_jobs::{WorkKind, Worker, serve};

/// Performs the work that a worker is asked for.
#[doc(hidden)]
pub fn perform_work(worker: &Worker) -> Result<()> {
    serve(
        worker,
        &[
            WorkKind::of::<ReplayWork>(),
            WorkKind::of::<VerifyWork>(),
            WorkKind::of::<CompareWork>(),
            WorkKind::of::<CheckWork>(),
            WorkKind::of::<SideWork>(),
        ],
    )
}
