//! Landlock, which denies files that are not listed, the network, and signals to other processes.

use std::path::PathBuf;

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreatedAttr, Scope,
};
use rehal_base::Result;

use super::can_filter;
use crate::platform::{Reach, cannot};

/// The rules of Landlock that a kernel must have to enforce a confinement in full: files, truncation, TCP,
/// ioctl(2), signals and abstract sockets.
const NEEDED: ABI = ABI::V6;

/// Files that the system's loader, the C library and rehal itself read while kernels run.
const SYSTEM: [&str; 17] = [
    "/lib",
    "/lib64",
    "/usr/lib",
    "/usr/lib64",
    "/usr/local/lib",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/usr/share/zoneinfo",
    "/proc/self",
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/loadavg",
    "/proc/sys/vm",
    "/sys/devices/system",
    "/dev/urandom",
    "/dev/zero",
];

/// Whether the system can enforce all.
pub(crate) fn can_confine() -> bool {
    has_landlock(NEEDED) && can_filter()
}

/// The confinement that this system enforces, in words.
pub(crate) fn describe_confinement() -> String {
    let files = match (has_landlock(NEEDED), has_landlock(ABI::V1)) {
        (true, _) => "Landlock: files, network, signals",
        (_, true) => "Landlock in part: an older kernel",
        _ => "no Landlock: files are not",
    };
    let calls = if can_filter() { "a filter of system calls" } else { "no filter of system calls" };
    format!("{files}; {calls}")
}

/// Denies all files but those that are listed.
pub(crate) fn restrict_files(reach: &Reach<'_>) -> Result<()> {
    let denied = |error: landlock::RulesetError| cannot("confining the process by Landlock", error);
    let ruleset = Ruleset::default()
        .handle_access(AccessFs::from_all(NEEDED))
        .and_then(|it| it.handle_access(AccessNet::from_all(NEEDED)))
        .and_then(|it| it.scope(Scope::from_all(NEEDED)))
        .and_then(Ruleset::create);
    let mut ruleset = ruleset.map_err(denied)?;
    let libraries = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let libraries = std::env::split_paths(&libraries).filter(|path| path.is_absolute());
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    let reads = SYSTEM.iter().map(PathBuf::from).chain(libraries);
    let reads = reads.chain(reach.reads.iter().map(PathBuf::from)).map(|path| (path, read));
    let device = read | AccessFs::WriteFile;
    let null = (PathBuf::from("/dev/null"), device);
    let writes =
        reach.writes.iter().map(|path| (path.into(), AccessFs::from_all(NEEDED) & !AccessFs::Execute));
    let controls = reach.controls.iter().map(|path| (path.into(), device | AccessFs::IoctlDev));
    let all = (!reach.is_complete).then(|| ("/".into(), read));
    let mut added = Ok(());
    for (path, access) in reads.chain([null]).chain(writes).chain(controls).chain(all) {
        // What does not exist is not read either.
        let Ok(file) = PathFd::new(&path) else { continue };
        if is_of_no_directory(&file) {
            continue;
        }
        let access = if path.is_dir() { access } else { access & AccessFs::from_file(NEEDED) };
        let rule = (&mut ruleset).add_rule(PathBeneath::new(file, access));
        added = added.and(rule.map(drop).map_err(denied));
    }
    ruleset.restrict_self().map_err(denied)?;
    added
}

/// Whether a file is a pipe or a socket that no directory has, which Landlock allows and takes no rule for.
fn is_of_no_directory(file: &PathFd) -> bool {
    const PIPES: u64 = 0x5049_5045;
    const SOCKETS: u64 = 0x534f_434b;
    rustix::fs::fstatfs(file).is_ok_and(|system| [PIPES, SOCKETS].contains(&(system.f_type as u64)))
}

/// Whether the system has all that a version of Landlock denies.
fn has_landlock(version: ABI) -> bool {
    let files = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    let files = files.handle_access(AccessFs::from_all(version));
    let all = match version {
        ABI::V1 => files,
        _ => files
            .and_then(|ruleset| ruleset.handle_access(AccessNet::from_all(version)))
            .and_then(|ruleset| ruleset.scope(Scope::from_all(version))),
    };
    all.and_then(Ruleset::create).is_ok()
}
