//! Linux.

mod c_stdio;
mod fault;
mod interrupt;
mod metadata;

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "aarch64")]
use aarch64 as processor;
#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
use x86_64 as processor;

pub(crate) use c_stdio::flush_after_crash;
pub(crate) use fault::{allow_accesses, arm_thread, handles_faults, install_handlers, thread_name};
pub(crate) use interrupt::{interrupt_thread, thread_id};
pub(crate) use metadata::answer_metadata;
pub(crate) use processor::METADATA_CALLS;
