//! System calls of x86-64, which has older ones beside the newer ones.

use libc::c_long;

/// Calls that are allowed as the newer ones are.
#[rustfmt::skip]
pub(super) const ALLOWED: &[c_long] = &[
    libc::SYS_stat, libc::SYS_lstat, libc::SYS_access, libc::SYS_readlink,
    libc::SYS_getdents, libc::SYS_pipe, libc::SYS_poll, libc::SYS_select,
    libc::SYS_epoll_create, libc::SYS_epoll_wait, libc::SYS_time, libc::SYS_getpgrp, libc::SYS_getrlimit,
    libc::SYS_arch_prctl, libc::SYS_pause,
];

/// Changes of names of files.
#[rustfmt::skip]
pub(super) const NAMES: &[c_long] = &[
    libc::SYS_mkdir, libc::SYS_rmdir, libc::SYS_unlink, libc::SYS_rename, libc::SYS_renameat, libc::SYS_link,
];

/// Calls that open a file, with flags as the second argument.
pub(super) const OLD_OPENS: &[c_long] = &[libc::SYS_open];

/// Calls that copy a descriptor.
pub(super) const OLD_COPIES: &[c_long] = &[libc::SYS_dup2];

/// `AUDIT_ARCH_X86_64` (linux/audit.h).
pub(super) const AUDIT_NUMBER: u32 = 0xc000_003e;
