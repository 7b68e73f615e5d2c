//! The filter of system calls: those that are not listed fail, as if the kernel did not have them.

use std::collections::BTreeMap;
use std::env::consts::ARCH;

use libc::c_long;
use rehal_base::Result;
use seccompiler::SeccompCmpArgLen::{Dword, Qword};
use seccompiler::SeccompCmpOp::{Eq, MaskedEq};
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCondition, SeccompFilter, SeccompRule,
    apply_filter_all_threads,
};

use super::cannot;

/// Calls without an effect beyond the process, and those that Landlock decides about.
#[rustfmt::skip]
const ALLOWED: &[c_long] = &[
    // Memory.
    libc::SYS_brk, libc::SYS_mmap, libc::SYS_munmap, libc::SYS_mremap, libc::SYS_mprotect,
    libc::SYS_madvise, libc::SYS_mincore, libc::SYS_msync, libc::SYS_mlock, libc::SYS_munlock,
    libc::SYS_membarrier, libc::SYS_memfd_create, libc::SYS_mbind, libc::SYS_get_mempolicy,
    libc::SYS_set_mempolicy,
    // Files.
    libc::SYS_openat, libc::SYS_close, libc::SYS_close_range, libc::SYS_read, libc::SYS_readv,
    libc::SYS_pread64, libc::SYS_preadv, libc::SYS_preadv2, libc::SYS_write, libc::SYS_writev,
    libc::SYS_pwrite64, libc::SYS_pwritev, libc::SYS_pwritev2, libc::SYS_lseek, libc::SYS_fstat,
    libc::SYS_newfstatat, libc::SYS_statx, libc::SYS_fstatfs, libc::SYS_faccessat, libc::SYS_faccessat2,
    libc::SYS_readlinkat, libc::SYS_getdents64, libc::SYS_getcwd, libc::SYS_ftruncate,
    libc::SYS_fallocate, libc::SYS_fsync, libc::SYS_fdatasync, libc::SYS_sync_file_range,
    libc::SYS_fadvise64, libc::SYS_copy_file_range, libc::SYS_sendfile, libc::SYS_flock, libc::SYS_dup,
    libc::SYS_dup3, libc::SYS_pipe2, libc::SYS_ppoll, libc::SYS_pselect6, libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl, libc::SYS_epoll_pwait, libc::SYS_eventfd2, libc::SYS_timerfd_create,
    libc::SYS_timerfd_settime, libc::SYS_umask,
    // Time.
    libc::SYS_nanosleep, libc::SYS_clock_nanosleep, libc::SYS_clock_gettime, libc::SYS_clock_getres,
    libc::SYS_gettimeofday, libc::SYS_times, libc::SYS_getrusage,
    // Threads, and signals to this process.
    libc::SYS_futex, libc::SYS_set_robust_list, libc::SYS_get_robust_list, libc::SYS_set_tid_address,
    libc::SYS_rseq, libc::SYS_exit, libc::SYS_exit_group, libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity, libc::SYS_sched_getparam, libc::SYS_sched_getscheduler,
    libc::SYS_sched_get_priority_max, libc::SYS_sched_get_priority_min, libc::SYS_getcpu,
    libc::SYS_rt_sigaction, libc::SYS_rt_sigprocmask, libc::SYS_rt_sigreturn, libc::SYS_rt_sigpending,
    libc::SYS_setitimer, libc::SYS_getitimer, libc::SYS_rt_sigsuspend, libc::SYS_rt_sigtimedwait, libc::SYS_sigaltstack, libc::SYS_restart_syscall,
    // What the process knows of itself and the machine.
    libc::SYS_getpid, libc::SYS_getppid, libc::SYS_gettid, libc::SYS_getuid, libc::SYS_geteuid,
    libc::SYS_getgid, libc::SYS_getegid, libc::SYS_getpgid, libc::SYS_getsid, libc::SYS_getpriority,
    libc::SYS_getrandom, libc::SYS_uname, libc::SYS_sysinfo,
];

/// The same, of processors that have older calls beside the newer ones.
#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
const OF_PROCESSOR: &[c_long] = &[
    libc::SYS_open, libc::SYS_stat, libc::SYS_lstat, libc::SYS_access, libc::SYS_readlink,
    libc::SYS_getdents, libc::SYS_dup2, libc::SYS_pipe, libc::SYS_poll, libc::SYS_select,
    libc::SYS_epoll_create, libc::SYS_epoll_wait, libc::SYS_time, libc::SYS_getpgrp, libc::SYS_getrlimit,
    libc::SYS_arch_prctl, libc::SYS_pause, libc::SYS_alarm,
];
#[cfg(not(target_arch = "x86_64"))]
const OF_PROCESSOR: &[c_long] = &[];

/// Changes of names of files, where Landlock decides about directories that are written.
const NAMES: &[c_long] = &[libc::SYS_mkdirat, libc::SYS_unlinkat, libc::SYS_renameat2, libc::SYS_linkat];
#[cfg(target_arch = "x86_64")]
const OLD_NAMES: &[c_long] = &[
    libc::SYS_mkdir,
    libc::SYS_rmdir,
    libc::SYS_unlink,
    libc::SYS_rename,
    libc::SYS_renameat,
    libc::SYS_link,
];
#[cfg(not(target_arch = "x86_64"))]
const OLD_NAMES: &[c_long] = &[];

/// Operations of fcntl(2): those on a descriptor, without signals.
#[rustfmt::skip]
const CONTROLS: [i32; 15] = [
    libc::F_DUPFD, libc::F_DUPFD_CLOEXEC, libc::F_GETFD, libc::F_SETFD, libc::F_GETFL, libc::F_SETFL,
    libc::F_GETLK, libc::F_SETLK, libc::F_SETLKW, libc::F_OFD_GETLK, libc::F_OFD_SETLK,
    libc::F_OFD_SETLKW, libc::F_ADD_SEALS, libc::F_GET_SEALS, libc::F_GETPIPE_SZ,
];

/// Operations of ioctl(2): questions. Others put words into the terminal of the user.
const QUESTIONS: [u64; 4] = [libc::TCGETS, libc::TIOCGWINSZ, libc::FIONREAD, libc::FIOCLEX];

/// Operations of prctl(2): names.
const NAMINGS: [i32; 3] = [libc::PR_SET_NAME, libc::PR_GET_NAME, libc::PR_SET_VMA];

/// Applies the filter to this process. `controls_devices` says that a driver calls ioctl(2) on its device
/// files, and `changes_names` that files may be created.
pub(super) fn apply(controls_devices: bool, changes_names: bool) -> Result<()> {
    let making = |error| cannot("making a filter of system calls", error);
    // The last one denies to apply more.
    let programs = [traps(rehal_crash::answer_metadata()), program(controls_devices, changes_names)];
    for program in programs {
        let program = program.map_err(making)?;
        // Without rules, there is none.
        if !program.is_empty() {
            apply_filter_all_threads(&program)
                .map_err(|error| cannot("applying a filter of system calls", error))?;
        }
    }
    Ok(())
}

/// The filter that traps some of the calls that the other one allows.
fn traps(calls: &[c_long]) -> Result<BpfProgram, BackendError> {
    if calls.is_empty() {
        return Ok(BpfProgram::new());
    }
    let rules = calls.iter().map(|call| (*call, Vec::new())).collect();
    SeccompFilter::new(rules, SeccompAction::Allow, SeccompAction::Trap, ARCH.try_into()?)?.try_into()
}

fn program(controls_devices: bool, changes_names: bool) -> Result<BpfProgram, BackendError> {
    let condition =
        |index, length, operator, value: u64| SeccompCondition::new(index, length, operator, value);
    let one_of = |index, values: &mut dyn Iterator<Item = u64>| {
        values
            .map(|value| SeccompRule::new(vec![condition(index, Dword, Eq, value)?]))
            .collect::<Result<Vec<_>, BackendError>>()
    };
    let is = |index, value: u64| {
        Ok::<_, BackendError>(vec![SeccompRule::new(vec![condition(index, Dword, Eq, value)?])?])
    };
    let own = u64::from(std::process::id());
    let mut rules: BTreeMap<c_long, Vec<SeccompRule>> = BTreeMap::new();
    rules.extend(ALLOWED.iter().chain(OF_PROCESSOR).map(|call| (*call, Vec::new())));
    if changes_names {
        rules.extend(NAMES.iter().chain(OLD_NAMES).map(|call| (*call, Vec::new())));
    }
    rules.insert(libc::SYS_fcntl, one_of(1, &mut CONTROLS.iter().map(|it| *it as u64))?);
    rules.insert(libc::SYS_prctl, one_of(0, &mut NAMINGS.iter().map(|it| *it as u64))?);
    match controls_devices {
        true => rules.insert(libc::SYS_ioctl, Vec::new()),
        false => rules.insert(libc::SYS_ioctl, one_of(1, &mut QUESTIONS.into_iter())?),
    };
    // A thread, and not a process; the flags of clone3(2) are in memory, where a filter does not see them.
    let thread = libc::CLONE_THREAD as u64;
    let thread = SeccompRule::new(vec![condition(0, Qword, MaskedEq(thread), thread)?])?;
    rules.insert(libc::SYS_clone, vec![thread]);
    for call in [libc::SYS_kill, libc::SYS_tgkill] {
        rules.insert(call, is(0, own)?);
    }
    rules.insert(libc::SYS_sched_setaffinity, is(0, 0)?);
    // Without new limits, and without a destination: sockets that are open are connected.
    let null = |index| Ok::<_, BackendError>(vec![SeccompRule::new(vec![condition(index, Qword, Eq, 0)?])?]);
    rules.insert(libc::SYS_prlimit64, null(2)?);
    rules.insert(libc::SYS_sendto, null(4)?);
    rules.insert(libc::SYS_recvfrom, Vec::new());
    let pair = vec![
        condition(0, Dword, Eq, libc::AF_UNIX as u64)?,
        condition(1, Dword, MaskedEq(0xf), libc::SOCK_STREAM as u64)?,
    ];
    rules.insert(libc::SYS_socketpair, vec![SeccompRule::new(pair)?]);
    let missing = SeccompAction::Errno(libc::ENOSYS as u32);
    SeccompFilter::new(rules, missing, SeccompAction::Allow, ARCH.try_into()?)?.try_into()
}

/// Whether the system has filters, which containers may deny.
pub(super) fn is_available() -> bool {
    std::fs::read_to_string("/proc/sys/kernel/seccomp/actions_avail")
        .is_ok_and(|actions| actions.contains("errno"))
}
