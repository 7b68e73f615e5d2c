//! Linux on x86-64.

mod c_stdio;
mod fault;
mod interrupt;
mod metadata;
mod shared;

pub(crate) use c_stdio::{flush_after_crash, flush_c_streams};
pub(crate) use fault::{
    abort_now, allow_accesses, announce, announce_exits, arm_thread, exit_now, handles_faults,
    install_handlers, thread_name, write_stderr,
};
pub(crate) use interrupt::{interrupt_thread, thread_id};
pub(crate) use metadata::{METADATA_CALLS, answer_metadata};
pub(crate) use shared::shared_zeros;
