//! The limits of the process's control groups, of version 1 and 2: the CPU quota, and memory.
//!
//! Not from `std::thread::available_parallelism`, which rounds down, finds control groups at the usual mount
//! points only, and includes the affinity mask.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read as _;
use std::path::{Component, Path, PathBuf};

use rehal_base::platform::OsStringExt as _;

/// Maximum size of a file that is read.
const FILE_BYTES: u64 = 4 << 20;

/// How many CPUs the process may keep busy, rounded up; `None` without a quota. `root` is the root of the
/// file system.
pub(super) fn processors(root: &Path) -> Option<usize> {
    limit(root, "cpu", &|group, is_v2| {
        let (quota, period) = if is_v2 { quota_v2(group)? } else { quota_v1(group)? };
        Some(usize::try_from(quota.div_ceil(period)).unwrap_or(usize::MAX).max(1))
    })
}

/// The bytes of memory of the machine, or those that the process may use if these are fewer. `root` is the
/// root of the file system.
pub(super) fn memory_bytes(root: &Path) -> Option<u64> {
    let text = read(&root.join("proc/meminfo"))?;
    let total = str::from_utf8(&text).ok()?.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let total_kib: u64 = total.trim().strip_suffix(" kB")?.parse().ok()?;
    let limit = limit(root, "memory", &|group, is_v2| {
        let file = if is_v2 { "memory.max" } else { "memory.limit_in_bytes" };
        str::from_utf8(&read(&group.join(file))?).ok()?.trim().parse().ok()
    });
    Some(limit.unwrap_or(u64::MAX).min(total_kib.saturating_mul(1024)))
}

/// The smallest limit of the groups of the process that limit what `controller` controls. `read` reads it
/// from the directory of a group.
fn limit<T: Ord>(root: &Path, controller: &str, read_limit: &dyn Fn(&Path, bool) -> Option<T>) -> Option<T> {
    let mounts = read(&root.join("proc/self/mountinfo"))?;
    let mounts = mounts.split(|byte| *byte == b'\n').filter_map(|line| Mount::parse(line, controller));
    let mounts: Vec<_> = mounts.collect();
    let groups = read(&root.join("proc/self/cgroup"))?;
    let groups = groups.split(|byte| *byte == b'\n').filter_map(|line| Group::parse(line, controller));
    let limits = groups.filter_map(|group| {
        let mount = mounts.iter().find(|mount| mount.is_v2 == group.is_v2)?;
        limit_of(root, mount, &group.path, read_limit)
    });
    limits.min()
}

/// A group of the process that may have a quota.
struct Group {
    is_v2: bool,
    path: PathBuf,
}

/// A mounted hierarchy of such groups.
struct Mount {
    is_v2: bool,
    /// The group at the mount point.
    root: PathBuf,
    point: PathBuf,
}

impl Group {
    /// A line `ID:CONTROLLERS:PATH`.
    fn parse(line: &[u8], controller: &str) -> Option<Self> {
        let mut fields = line.splitn(3, |byte| *byte == b':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        let is_v2 = controllers.is_empty();
        (is_v2 || has(controllers, controller)).then(|| Self { is_v2, path: to_path(path) })
    }
}

impl Mount {
    /// A line `ID PARENT DEVICE ROOT POINT OPTIONS... - TYPE SOURCE OPTIONS`.
    fn parse(line: &[u8], controller: &str) -> Option<Self> {
        let fields: Vec<_> = line.split(|byte| *byte == b' ').collect();
        let dash = fields.iter().position(|field| *field == b"-")?;
        let (kind, options) = (*fields.get(dash + 1)?, *fields.get(dash + 3)?);
        let is_v2 = kind == b"cgroup2";
        let is_v1 = kind == b"cgroup" && has(options, controller);
        let (root, point) = (fields.get(3)?, fields.get(4)?);
        (is_v1 || is_v2).then(|| Self { is_v2, root: unescaped(root), point: unescaped(point) })
    }
}

fn has(list: &[u8], controller: &str) -> bool {
    list.split(|byte| *byte == b',').any(|word| word == controller.as_bytes())
}

/// The smallest limit of a group and its ancestors.
fn limit_of<T: Ord>(
    root: &Path,
    mount: &Mount,
    group: &Path,
    read_limit: &dyn Fn(&Path, bool) -> Option<T>,
) -> Option<T> {
    // A group outside of the mounted hierarchy, such as `/../x`, is seen from another namespace: the group at
    // the mount point contains it.
    let is_inside = |below: &&Path| below.components().all(|part| matches!(part, Component::Normal(_)));
    let below = group.strip_prefix(&mount.root).ok().filter(is_inside).unwrap_or(Path::new(""));
    let top = root.join(mount.point.strip_prefix("/").ok()?);
    below.ancestors().filter_map(|group| read_limit(&top.join(group), mount.is_v2)).min()
}

/// Microseconds of CPU time, and the period in which they may be used.
fn quota_v2(group: &Path) -> Option<(u64, u64)> {
    let text = read(&group.join("cpu.max"))?;
    let mut fields = str::from_utf8(&text).ok()?.split_ascii_whitespace();
    checked(fields.next()?.parse().ok()?, fields.next()?.parse().ok()?)
}

fn quota_v1(group: &Path) -> Option<(u64, u64)> {
    let number = |file| str::from_utf8(&read(&group.join(file))?).ok()?.trim().parse().ok();
    // -1 means no quota.
    checked(number("cpu.cfs_quota_us")?, number("cpu.cfs_period_us")?)
}

fn checked(quota: u64, period: u64) -> Option<(u64, u64)> {
    (period > 0).then_some((quota, period))
}

fn read(path: &Path) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(FILE_BYTES).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// A path whose whitespace and backslashes are written as three octal digits.
fn unescaped(text: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, tail)) = rest.split_first() {
        match tail {
            [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', after @ ..] if *first == b'\\' => {
                bytes.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                rest = after;
            }
            _ => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    to_path(&bytes)
}

fn to_path(bytes: &[u8]) -> PathBuf {
    OsString::from_vec(bytes.to_vec()).into()
}
