//! The CPU quota of the process's control groups, of version 1 and 2.
//!
//! Not from `std::thread::available_parallelism`, which rounds down, finds control groups at the usual mount
//! points only, and includes the affinity mask.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Component, Path, PathBuf};

/// Maximum size of a file that is read.
const FILE_BYTES: u64 = 4 << 20;

/// How many CPUs the process may keep busy, rounded up; `None` without a quota. `root` is the root of the
/// file system.
pub(super) fn processors(root: &Path) -> Option<usize> {
    let mounts = read(&root.join("proc/self/mountinfo"))?;
    let mounts: Vec<_> = mounts.split(|byte| *byte == b'\n').filter_map(Mount::parse).collect();
    let groups = read(&root.join("proc/self/cgroup"))?;
    let limits = groups.split(|byte| *byte == b'\n').filter_map(Group::parse).filter_map(|group| {
        let mount = mounts.iter().find(|mount| mount.is_v2 == group.is_v2)?;
        limit(root, mount, &group.path)
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
    fn parse(line: &[u8]) -> Option<Self> {
        let mut fields = line.splitn(3, |byte| *byte == b':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        let is_v2 = controllers.is_empty();
        (is_v2 || has_cpu(controllers)).then(|| Self { is_v2, path: to_path(path) })
    }
}

impl Mount {
    /// A line `ID PARENT DEVICE ROOT POINT OPTIONS... - TYPE SOURCE OPTIONS`.
    fn parse(line: &[u8]) -> Option<Self> {
        let fields: Vec<_> = line.split(|byte| *byte == b' ').collect();
        let dash = fields.iter().position(|field| *field == b"-")?;
        let (kind, options) = (*fields.get(dash + 1)?, *fields.get(dash + 3)?);
        let is_v2 = kind == b"cgroup2";
        let is_v1 = kind == b"cgroup" && has_cpu(options);
        let (root, point) = (fields.get(3)?, fields.get(4)?);
        (is_v1 || is_v2).then(|| Self { is_v2, root: unescaped(root), point: unescaped(point) })
    }
}

fn has_cpu(list: &[u8]) -> bool {
    list.split(|byte| *byte == b',').any(|word| word == b"cpu")
}

/// The smallest quota of a group and its ancestors.
fn limit(root: &Path, mount: &Mount, group: &Path) -> Option<usize> {
    // A group outside of the mounted hierarchy, such as `/../x`, is seen from another namespace: the group at
    // the mount point contains it.
    let is_inside = |below: &&Path| below.components().all(|part| matches!(part, Component::Normal(_)));
    let below = group.strip_prefix(&mount.root).ok().filter(is_inside).unwrap_or(Path::new(""));
    let top = root.join(mount.point.strip_prefix("/").ok()?);
    let quotas = below.ancestors().filter_map(|group| {
        let directory = top.join(group);
        let (quota, period) = if mount.is_v2 { quota_v2(&directory)? } else { quota_v1(&directory)? };
        Some(usize::try_from(quota.div_ceil(period)).unwrap_or(usize::MAX).max(1))
    });
    quotas.min()
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
