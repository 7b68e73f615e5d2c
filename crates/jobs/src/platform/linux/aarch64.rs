//! System calls of 64-bit ARM, which has no older ones.

use libc::c_long;

pub(super) const ALLOWED: &[c_long] = &[];
pub(super) const NAMES: &[c_long] = &[];
pub(super) const OLD_OPENS: &[c_long] = &[];
pub(super) const OLD_COPIES: &[c_long] = &[];

/// `AUDIT_ARCH_AARCH64` (linux/audit.h).
pub(super) const AUDIT_NUMBER: u32 = 0xc000_00b7;
