//! The filter of system calls: those that are not listed fail, as if the kernel did not have them.

use std::collections::BTreeMap;

use libc::c_long;
use rehal_base::Result;
use seccompiler::{BpfProgram, apply_filter_all_threads, sock_filter};

use super::processor;
use crate::platform::cannot;

/// Calls without an effect beyond the process, and those that Landlock decides about.
#[rustfmt::skip]
const ALLOWED: &[c_long] = &[
    // Memory.
    libc::SYS_brk, libc::SYS_munmap, libc::SYS_mremap, libc::SYS_mprotect,
    libc::SYS_madvise, libc::SYS_mincore, libc::SYS_msync, libc::SYS_mlock, libc::SYS_munlock,
    libc::SYS_membarrier, libc::SYS_memfd_create, libc::SYS_mbind, libc::SYS_get_mempolicy,
    libc::SYS_set_mempolicy,
    // Files.
    libc::SYS_close, libc::SYS_close_range, libc::SYS_read, libc::SYS_readv,
    libc::SYS_pread64, libc::SYS_preadv, libc::SYS_preadv2, libc::SYS_write, libc::SYS_writev, libc::SYS_fstat,
    libc::SYS_newfstatat, libc::SYS_statx, libc::SYS_fstatfs, libc::SYS_faccessat, libc::SYS_faccessat2,
    libc::SYS_readlinkat, libc::SYS_getdents64, libc::SYS_getcwd, libc::SYS_fsync, libc::SYS_fdatasync, libc::SYS_sync_file_range,
    libc::SYS_fadvise64, libc::SYS_sendfile, libc::SYS_flock, libc::SYS_pipe2, libc::SYS_ppoll, libc::SYS_pselect6, libc::SYS_epoll_create1,
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
    libc::SYS_rt_sigsuspend, libc::SYS_rt_sigtimedwait, libc::SYS_sigaltstack, libc::SYS_restart_syscall,
    // What the process knows of itself and the machine.
    libc::SYS_getpid, libc::SYS_getppid, libc::SYS_gettid, libc::SYS_getuid, libc::SYS_geteuid,
    libc::SYS_getgid, libc::SYS_getegid, libc::SYS_getpgid, libc::SYS_getsid, libc::SYS_getpriority,
    libc::SYS_getrandom, libc::SYS_uname, libc::SYS_sysinfo,
];

/// Changes of names of files, where Landlock decides about directories that are written.
const NAMES: &[c_long] = &[libc::SYS_mkdirat, libc::SYS_unlinkat, libc::SYS_renameat2, libc::SYS_linkat];

/// Calls that change what a file has, or make a descriptor by which that can be done, and which of their
/// arguments is the file. They are not allowed for standard output and error, which may be a file that has
/// the output of others: a process can only add to it.
const CHANGES: [(c_long, u8); 9] = [
    (libc::SYS_ftruncate, 0),
    (libc::SYS_fallocate, 0),
    (libc::SYS_pwrite64, 0),
    (libc::SYS_pwritev, 0),
    (libc::SYS_pwritev2, 0),
    (libc::SYS_copy_file_range, 2),
    (libc::SYS_mmap, 4),
    (libc::SYS_dup, 0),
    (libc::SYS_dup3, 0),
];

/// Calls that wait for who reads or writes a file, such as a pager.
#[rustfmt::skip]
pub(crate) const CALLS_ON_FILES: [i64; 12] = [
    libc::SYS_read, libc::SYS_pread64, libc::SYS_readv, libc::SYS_write, libc::SYS_pwrite64,
    libc::SYS_writev, libc::SYS_openat, libc::SYS_fsync, libc::SYS_fdatasync, libc::SYS_flock,
    libc::SYS_copy_file_range, libc::SYS_sendfile,
];

/// Operations of fcntl(2): those on a descriptor, without signals, and without flags of an open file, which
/// the user's shell shares. Those that copy one are among [`COPIES`].
#[rustfmt::skip]
const CONTROLS: [i32; 12] = [
    libc::F_GETFD, libc::F_SETFD, libc::F_GETFL,
    libc::F_GETLK, libc::F_SETLK, libc::F_SETLKW, libc::F_OFD_GETLK, libc::F_OFD_SETLK,
    libc::F_OFD_SETLKW, libc::F_ADD_SEALS, libc::F_GET_SEALS, libc::F_GETPIPE_SZ,
];
const COPIES: [i32; 2] = [libc::F_DUPFD, libc::F_DUPFD_CLOEXEC];

/// Operations of ioctl(2): questions. Others put words into the terminal of the user.
const QUESTIONS: [i32; 4] =
    [libc::TCGETS as i32, libc::TIOCGWINSZ as i32, libc::FIONREAD as i32, libc::FIOCLEX as i32];

/// Operations of prctl(2): names.
const NAMINGS: [i32; 3] = [libc::PR_SET_NAME, libc::PR_GET_NAME, libc::PR_SET_VMA];

/// Applies the filter to this process. `controls_devices` says that a driver calls ioctl(2) on its device
/// files, and `changes_names` that files may be created.
pub(crate) fn apply(controls_devices: bool, changes_names: bool) -> Result<()> {
    let rules = rules(controls_devices, changes_names, rehal_crash::answer_metadata());
    apply_filter_all_threads(&program(&rules))
        .map_err(|error| cannot("applying a filter of system calls", error))
}

/// The decision about a system call that is listed.
enum Rule {
    Allowed,
    /// A handler of this process answers.
    Trapped,
    /// It is allowed if one of these is true of its arguments: all its conditions.
    If(Vec<Vec<Condition>>),
    /// It is not allowed if the lower half of this argument is one of these; else like `If`, or always if
    /// there are no conditions.
    Unless(u8, Vec<u32>, Vec<Vec<Condition>>),
}

/// A condition of an argument, by its index.
#[derive(Clone)]
enum Condition {
    /// Its lower half is this.
    Is(u8, u32),
    /// Of its lower half, the bits of the first number are those of the second.
    Has(u8, u32, u32),
    /// Its lower half is above this.
    Above(u8, u32),
    Null(u8),
}

fn rules(controls_devices: bool, changes_names: bool, trapped: &[c_long]) -> BTreeMap<c_long, Rule> {
    let one_of = |index, values: &[i32]| {
        Rule::If(values.iter().map(|value| vec![Condition::Is(index, *value as u32)]).collect())
    };
    let all = |conditions: Vec<Condition>| Rule::If(vec![conditions]);
    let mut rules: BTreeMap<c_long, Rule> = BTreeMap::new();
    rules.extend(ALLOWED.iter().chain(processor::ALLOWED).map(|call| (*call, Rule::Allowed)));
    if changes_names {
        rules.extend(NAMES.iter().chain(processor::NAMES).map(|call| (*call, Rule::Allowed)));
    }
    rules.extend(trapped.iter().map(|call| (*call, Rule::Trapped)));
    let printed = [libc::STDOUT_FILENO, libc::STDERR_FILENO].map(|it| it as u32);
    let old = processor::OLD_COPIES.iter().map(|call| (*call, 0));
    let changes = CHANGES.into_iter().chain(old);
    rules.extend(changes.map(|(call, file)| (call, Rule::Unless(file, printed.to_vec(), Vec::new()))));
    let others = vec![Condition::Above(0, printed[1])];
    // Where it is at, which C's streams ask.
    let asks = vec![Condition::Is(2, libc::SEEK_CUR as u32), Condition::Null(1)];
    let input = vec![Condition::Is(0, libc::STDIN_FILENO as u32)];
    rules.insert(libc::SYS_lseek, Rule::If(vec![others.clone(), input, asks]));
    let controls = CONTROLS.iter().map(|it| vec![Condition::Is(1, *it as u32)]);
    let copies = COPIES.iter().map(|it| vec![Condition::Is(1, *it as u32), Condition::Above(0, printed[1])]);
    rules.insert(libc::SYS_fcntl, Rule::If(controls.chain(copies).collect()));
    rules.insert(libc::SYS_prctl, one_of(0, &NAMINGS));
    let questions = QUESTIONS.iter().map(|it| vec![Condition::Is(1, *it as u32)]);
    rules.insert(
        libc::SYS_ioctl,
        match controls_devices {
            // A copy of standard input is a terminal: what puts words into it, or makes it another thing.
            true => {
                let denied = [libc::TIOCSTI, libc::TIOCLINUX, libc::TIOCSETD].map(|it| it as u32);
                Rule::Unless(1, denied.to_vec(), questions.chain([others]).collect())
            }
            false => Rule::If(questions.collect()),
        },
    );
    // A thread, and not a process; the flags of clone3(2) are in memory, where a filter does not see them.
    let thread = libc::CLONE_THREAD as u32;
    rules.insert(libc::SYS_clone, all(vec![Condition::Has(0, thread, thread)]));
    let own = std::process::id();
    rules.insert(libc::SYS_kill, all(vec![Condition::Is(0, own)]));
    rules.insert(libc::SYS_tgkill, all(vec![Condition::Is(0, own)]));
    rules.insert(libc::SYS_sched_setaffinity, all(vec![Condition::Is(0, 0)]));
    // Without new limits, and without a destination: sockets that are open are connected.
    rules.insert(libc::SYS_prlimit64, all(vec![Condition::Null(2)]));
    rules.insert(libc::SYS_sendto, all(vec![Condition::Null(4)]));
    // A descriptor of a path is one of any file: Landlock does not decide about it, and fstat(2) takes it.
    let opens = |flags| all(vec![Condition::Has(flags, libc::O_PATH as u32, 0)]);
    rules.insert(libc::SYS_openat, opens(2));
    rules.extend(processor::OLD_OPENS.iter().map(|call| (*call, opens(1))));
    rules.insert(libc::SYS_recvfrom, Rule::Allowed);
    let stream = Condition::Has(1, 0xf, libc::SOCK_STREAM as u32);
    rules.insert(libc::SYS_socketpair, all(vec![Condition::Is(0, libc::AF_UNIX as u32), stream]));
    rules
}

/// The code that loads a word of `seccomp_data` (linux/seccomp.h): 0 is the number of the call, 4 the
/// processor,
/// and arguments of 8 bytes begin at 16.
const LOAD: u16 = 0x20;
const AND: u16 = 0x54;
const EQUAL: u16 = 0x15;
const ABOVE: u16 = 0x25;
const AT_LEAST: u16 = 0x35;
const RETURN: u16 = 0x06;

/// The values that the program returns (linux/seccomp.h).
const KILL: u32 = 0x8000_0000;
const TRAP: u32 = 0x0003_0000;
const MISSING: u32 = 0x0005_0000 | libc::ENOSYS as u32;
const ALLOW: u32 = 0x7fff_0000;

fn instruction(code: u16, k: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter { code, jt, jf, k }
}

/// Loads the lower half of an argument, 0, or the upper one, 1.
fn argument(index: u8, half: u32) -> sock_filter {
    instruction(LOAD, 16 + 8 * u32::from(index) + 4 * half, 0, 0)
}

/// The program, which takes neighbouring calls together. The crate's own is four times as long, and the
/// kernel
/// runs it for each call when it is applied, so that those which are always allowed cost nothing later.
fn program(rules: &BTreeMap<c_long, Rule>) -> BpfProgram {
    let load = |at| instruction(LOAD, at, 0, 0);
    let returned = |value| instruction(RETURN, value, 0, 0);
    let mut program =
        vec![load(4), instruction(EQUAL, processor::AUDIT_NUMBER, 1, 0), returned(KILL), load(0)];
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for (call, rule) in rules {
        let call = *call as u32;
        match rule {
            Rule::Trapped => program.extend([instruction(EQUAL, call, 0, 1), returned(TRAP)]),
            Rule::If(any) => {
                let body: Vec<_> =
                    any.iter().flat_map(|all| checked(all)).chain([returned(MISSING)]).collect();
                program.push(instruction(EQUAL, call, 0, body.len() as u8));
                program.extend(body);
            }
            Rule::Unless(index, values, any) => {
                let denied = values.iter().flat_map(|it| [instruction(EQUAL, *it, 0, 1), returned(MISSING)]);
                let last = returned(if any.is_empty() { ALLOW } else { MISSING });
                let body: Vec<_> = [argument(*index, 0)]
                    .into_iter()
                    .chain(denied)
                    .chain(any.iter().flat_map(|all| checked(all)))
                    .chain([last])
                    .collect();
                program.push(instruction(EQUAL, call, 0, body.len() as u8));
                program.extend(body);
            }
            Rule::Allowed => match ranges.last_mut() {
                Some((_, end)) if *end == call => *end += 1,
                _ => ranges.push((call, call + 1)),
            },
        }
    }
    for (begin, end) in ranges {
        program.extend([
            instruction(AT_LEAST, end, 3, 0),
            instruction(AT_LEAST, begin, 0, 1),
            returned(ALLOW),
            returned(MISSING),
        ]);
    }
    program.push(returned(MISSING));
    program
}

/// Instructions that allow a call if all conditions hold, and otherwise continue after them.
fn checked(all: &[Condition]) -> Vec<sock_filter> {
    let equal = |value| instruction(EQUAL, value, 0, 0);
    let mut checked: Vec<_> = all
        .iter()
        .flat_map(|condition| match *condition {
            Condition::Is(index, value) => vec![argument(index, 0), equal(value)],
            Condition::Has(index, mask, value) => {
                vec![argument(index, 0), instruction(AND, mask, 0, 0), equal(value)]
            }
            Condition::Above(index, value) => vec![argument(index, 0), instruction(ABOVE, value, 0, 0)],
            Condition::Null(index) => vec![argument(index, 0), equal(0), argument(index, 1), equal(0)],
        })
        .chain([instruction(RETURN, ALLOW, 0, 0)])
        .collect();
    let count = checked.len();
    for (at, instruction) in checked.iter_mut().enumerate().filter(|(_, it)| matches!(it.code, EQUAL | ABOVE))
    {
        instruction.jf = (count - at - 1) as u8;
    }
    checked
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The value that a program returns for a call with these arguments.
    fn run(program: &[sock_filter], call: u32, arguments: [u64; 6]) -> u32 {
        let mut at = 0;
        let mut value = 0;
        loop {
            let sock_filter { code, jt, jf, k } = program[at];
            at += 1;
            match code {
                LOAD if k == 0 => value = call,
                LOAD if k == 4 => value = processor::AUDIT_NUMBER,
                LOAD => value = (arguments[(k as usize - 16) / 8] >> (8 * (k % 8))) as u32,
                AND => value &= k,
                EQUAL => at += usize::from(if value == k { jt } else { jf }),
                ABOVE => at += usize::from(if value > k { jt } else { jf }),
                AT_LEAST => at += usize::from(if value >= k { jt } else { jf }),
                RETURN => return k,
                _ => panic!("instruction {code:#x}"),
            }
        }
    }

    /// Without it, a call may be decided by the rule of its neighbour, or by another argument.
    #[test]
    fn each_call_has_its_decision() {
        let trapped = [libc::SYS_stat, libc::SYS_newfstatat];
        for (controls, names) in [(false, false), (true, true)] {
            let rules = rules(controls, names, &trapped);
            let program = program(&rules);
            for call in (0..1000).chain([0x4000_0000, u32::MAX]) {
                let decided = run(&program, call, [u64::MAX; 6]);
                let expected = match rules.get(&c_long::from(call as i32)) {
                    Some(Rule::Allowed) => ALLOW,
                    Some(Rule::Trapped) => TRAP,
                    Some(Rule::If(_)) if [libc::SYS_clone, libc::SYS_lseek].contains(&(call as c_long)) => {
                        ALLOW
                    }
                    Some(Rule::Unless(..)) => ALLOW,
                    Some(Rule::If(_)) | None => MISSING,
                };
                assert_eq!(decided, expected, "{call}");
            }
        }
        let devices = program(&rules(true, false, &trapped));
        // `FS_IOC_ZERO_RANGE` (linux/falloc.h), which erases a file.
        const ZERO: u64 = 0x4030_5839;
        for (file, operation, expected) in [
            (0, libc::TIOCSTI, MISSING),
            (9, libc::TIOCSETD, MISSING),
            (0, libc::TCGETS, ALLOW),
            (1, ZERO, MISSING),
            (2, ZERO, MISSING),
            (9, ZERO, ALLOW),
        ] {
            let arguments = [file, operation, 0, 0, 0, 0];
            assert_eq!(run(&devices, libc::SYS_ioctl as u32, arguments), expected, "{arguments:?}");
        }
        let program = program(&rules(false, false, &trapped));
        let run = |call: c_long, arguments: [u64; 6]| run(&program, call as u32, arguments);
        let own = u64::from(std::process::id());
        for (call, arguments, expected) in [
            (libc::SYS_fcntl, [9, libc::F_DUPFD_CLOEXEC as u64, 0, 0, 0, 0], ALLOW),
            (libc::SYS_fcntl, [2, libc::F_DUPFD_CLOEXEC as u64, 0, 0, 0, 0], MISSING),
            (libc::SYS_fcntl, [1, libc::F_GETFL as u64, 0, 0, 0, 0], ALLOW),
            (libc::SYS_fcntl, [1, libc::F_SETFL as u64, 0, 0, 0, 0], MISSING),
            (libc::SYS_ftruncate, [3, 0, 0, 0, 0, 0], ALLOW),
            (libc::SYS_lseek, [9, 5, 0, 0, 0, 0], ALLOW),
            (libc::SYS_lseek, [1, 0, 1, 0, 0, 0], ALLOW),
            (libc::SYS_lseek, [1, 0, 0, 0, 0, 0], MISSING),
            (libc::SYS_lseek, [2, 1 << 32, 1, 0, 0, 0], MISSING),
            (libc::SYS_ftruncate, [1, 0, 0, 0, 0, 0], MISSING),
            (libc::SYS_dup3, [2, 9, 0, 0, 0, 0], MISSING),
            (libc::SYS_copy_file_range, [1, 0, 9, 0, 0, 0], ALLOW),
            (libc::SYS_copy_file_range, [9, 0, 1, 0, 0, 0], MISSING),
            (libc::SYS_mmap, [0, 9, 3, 34, u64::MAX, 0], ALLOW),
            (libc::SYS_mmap, [0, 9, 3, 1, 1, 0], MISSING),
            (libc::SYS_fcntl, [libc::F_DUPFD_CLOEXEC as u64, 8, 0, 0, 0, 0], MISSING),
            (libc::SYS_kill, [own, 9, 0, 0, 0, 0], ALLOW),
            (libc::SYS_kill, [own + 1, 9, 0, 0, 0, 0], MISSING),
            (libc::SYS_clone, [17, 0, 0, 0, 0, 0], MISSING),
            (libc::SYS_prlimit64, [0, 7, 0, 1, 0, 0], ALLOW),
            (libc::SYS_prlimit64, [0, 7, 1 << 32, 0, 0, 0], MISSING),
            (libc::SYS_sendto, [1, 1, 1, 1, 0, 1], ALLOW),
            (libc::SYS_socketpair, [1, libc::SOCK_STREAM as u64 | 0x80000, 0, 0, 0, 0], ALLOW),
            (libc::SYS_socketpair, [1, libc::SOCK_DGRAM as u64, 0, 0, 0, 0], MISSING),
            (libc::SYS_socketpair, [2, libc::SOCK_STREAM as u64, 0, 0, 0, 0], MISSING),
            (libc::SYS_openat, [1, 1, libc::O_CLOEXEC as u64, 0, 0, 0], ALLOW),
            (libc::SYS_openat, [1, 1, libc::O_PATH as u64, 0, 0, 0], MISSING),
            (libc::SYS_ioctl, [0, libc::TIOCGWINSZ, 0, 0, 0, 0], ALLOW),
            (libc::SYS_ioctl, [0, libc::TIOCSTI, 0, 0, 0, 0], MISSING),
        ] {
            assert_eq!(run(call, arguments), expected, "{call} {arguments:?}");
        }
    }
}
