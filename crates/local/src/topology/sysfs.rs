//! Facts about CPUs, caches and NUMA nodes, from `/sys/devices/system` or a copy of that directory.
//!
//! Every read is bounded. A file that is missing, too long or malformed is absent: machines differ in which
//! files they have. The limits on the length of files are the reference's, since they decide what it ignores.

use std::io::Read as _;
use std::ops::Range;
use std::path::{Path, PathBuf};

use rehal_base::platform::open_without_waiting;
use rehal_base::{Error, Result};

use super::text::{self, ranges};

/// The directory on Linux.
const HOST_ROOT: &str = "/sys/devices/system";

/// Maximum length of a number, name or size; the reference needs room for two more bytes.
const VALUE_BYTES: usize = 62;
/// Maximum length of a list of CPUs.
const LIST_BYTES: usize = 254;
/// Maximum length of a list of NUMA nodes. Those of the largest machines fit; the reference aborts above 1
/// KiB.
const NODES_BYTES: usize = 4 << 10;
/// Maximum length of the list of CPUs of a NUMA node.
const NODE_CPUS_BYTES: usize = 32 << 10;
/// Largest number of CPUs and of NUMA nodes, far above those that Linux supports.
const MAX_IDS: u32 = 1 << 16;
/// Maximum number of NUMA nodes that can be distinguished.
const MAX_NODES: usize = 64;
/// Maximum number of caches of one CPU.
const MAX_CACHES: u32 = 8;
/// CPUs that the NUMA table of the reference covers.
const MAX_NODE_CPUS: u32 = 4096;

/// The directory to read.
pub(super) struct Sysfs {
    root: PathBuf,
    is_host: bool,
}

/// A data or unified cache of one CPU.
pub(super) struct Cache {
    /// 1, 2, ..., or 0 if unknown.
    pub(super) level: u32,
    /// Size in bytes, or 0 if unknown.
    pub(super) size: u64,
    /// The CPUs that share it.
    pub(super) sharers: Option<Vec<Range<u32>>>,
}

/// The NUMA nodes that have CPUs.
#[derive(Default)]
pub(super) struct Nodes {
    /// The id of each with its CPUs, in the order of `node/online`.
    first: Vec<(u32, Vec<Range<u32>>)>,
    /// Their number, including those that do not fit into `first`.
    count: usize,
}

impl Sysfs {
    pub(super) fn host() -> Self {
        Self { root: HOST_ROOT.into(), is_host: true }
    }

    /// A copy of the directory. Fails if it has no list of CPUs.
    pub(super) fn snapshot(path: &Path) -> Result<Self> {
        let sysfs = Self { root: path.into(), is_host: false };
        match sysfs.read("cpu/present", LIST_BYTES) {
            Some(_) => Ok(sysfs),
            None => Err(Error::not_found(format!(
                "'{}' has no readable file cpu/present: a topology snapshot is a copy of {HOST_ROOT}",
                path.display()
            ))),
        }
    }

    /// Whether this is the machine itself.
    pub(super) fn is_host(&self) -> bool {
        self.is_host
    }

    /// The number of logical CPUs, from 0 to the highest one that is present; `None` if unknown.
    pub(super) fn processor_count(&self) -> Result<Option<u32>> {
        let present = self.read("cpu/present", LIST_BYTES).and_then(|text| ranges(&text));
        let count = match present {
            Some(present) => Some(present.iter().map(|range| range.end).max().unwrap_or(1)),
            None => self.number("cpu/kernel_max").and_then(|highest| highest.checked_add(1)),
        };
        match count {
            Some(count) if count > MAX_IDS => Err(self.too_many("CPUs", count.into())),
            count => Ok(count),
        }
    }

    pub(super) fn core(&self, processor: u32) -> Option<u32> {
        self.number(&format!("cpu/cpu{processor}/topology/core_id"))
    }

    pub(super) fn package(&self, processor: u32) -> Option<u32> {
        self.number(&format!("cpu/cpu{processor}/topology/physical_package_id"))
    }

    pub(super) fn cluster(&self, processor: u32) -> Option<u32> {
        self.number(&format!("cpu/cpu{processor}/topology/cluster_id"))
    }

    /// The speed relative to other CPUs, if this is known.
    pub(super) fn capacity(&self, processor: u32) -> Option<u32> {
        self.number(&format!("cpu/cpu{processor}/cpu_capacity")).filter(|capacity| *capacity > 0)
    }

    /// The lowest of the CPUs of the same core.
    pub(super) fn first_sibling(&self, processor: u32) -> Option<u32> {
        ["core_cpus_list", "thread_siblings_list"].into_iter().find_map(|file| {
            let list = self.read(&format!("cpu/cpu{processor}/topology/{file}"), LIST_BYTES)?;
            ranges(&list)?.iter().map(|range| range.start).min()
        })
    }

    /// The data and unified caches of a CPU, in the order of the directory.
    pub(super) fn caches(&self, processor: u32) -> Vec<Cache> {
        let cache = |index| {
            let directory = format!("cpu/cpu{processor}/cache/index{index}");
            let kind = self.read(&format!("{directory}/type"), VALUE_BYTES)?;
            Some((directory, kind))
        };
        let has_data = |kind: &[u8]| {
            let kind = text::trim(kind);
            kind.starts_with(b"Data") || kind.starts_with(b"Unified")
        };
        let known = (0..MAX_CACHES).map_while(cache).filter(|(_, kind)| has_data(kind));
        let facts = known.map(|(directory, _)| Cache {
            level: self.number(&format!("{directory}/level")).unwrap_or(0),
            size: self
                .read(&format!("{directory}/size"), VALUE_BYTES)
                .and_then(|text| text::size(&text))
                .unwrap_or(0),
            sharers: self
                .read(&format!("{directory}/shared_cpu_list"), LIST_BYTES)
                .and_then(|text| ranges(&text)),
        });
        facts.collect()
    }

    /// The NUMA nodes that have CPUs; none if the kernel was built without NUMA.
    pub(super) fn nodes(&self) -> Result<Nodes> {
        let mut nodes = Nodes::default();
        let online = ranges_until_malformed(&self.read("node/online", NODES_BYTES).unwrap_or_default());
        let listed = online.iter().map(|range| u64::from(range.end - range.start)).sum();
        if listed > u64::from(MAX_IDS) {
            return Err(self.too_many("NUMA nodes", listed));
        }
        for node in online.into_iter().flatten() {
            let list = self.read(&format!("node/node{node}/cpulist"), NODE_CPUS_BYTES);
            let Some(cpus) = list.and_then(|list| ranges(&list)) else { continue };
            // Memory without CPUs is a node too.
            if cpus.iter().any(|range| range.start < MAX_NODE_CPUS) {
                nodes.count += 1;
                if nodes.first.len() < MAX_NODES {
                    nodes.first.push((node, cpus));
                }
            }
        }
        Ok(nodes)
    }

    fn number(&self, file: &str) -> Option<u32> {
        text::number(text::trim(&self.read(file, VALUE_BYTES)?))
    }

    /// The contents of a file of at most `limit` bytes.
    fn read(&self, file: &str, limit: usize) -> Option<Vec<u8>> {
        // A snapshot may have any file type here; opening a FIFO must not block until it has a writer.
        let opened = open_without_waiting(&self.root.join(file)).ok()?;
        let mut bytes = Vec::with_capacity(64);
        let read = opened.take(limit as u64 + 1).read_to_end(&mut bytes).ok()?;
        (read <= limit).then_some(bytes)
    }

    fn too_many(&self, what: &str, count: u64) -> Error {
        Error::out_of_range(format!(
            "'{}' lists {count} {what}; at most {MAX_IDS} are supported",
            self.root.display()
        ))
    }
}

/// The ranges before the first malformed one: the reference reads `node/online` while it parses it.
fn ranges_until_malformed(list: &[u8]) -> Vec<Range<u32>> {
    let parts = text::trim(list).split(|byte| *byte == b',');
    parts.map_while(ranges).flatten().collect()
}

impl Nodes {
    /// Their ids; the whole machine is node 0 if the kernel lists none. Fails if there are more than can be
    /// selected.
    pub(super) fn ids(&self) -> Result<Vec<u32>> {
        match self.count {
            0 => Ok(vec![0]),
            count if count > MAX_NODES => Err(Error::resource_exhausted(format!(
                "this machine has {count} NUMA nodes; workers can be selected by node on up to {MAX_NODES}"
            ))),
            _ => Ok(self.first.iter().map(|(id, _)| *id).collect()),
        }
    }

    /// The node of a CPU. If several list it, the last one counts.
    pub(super) fn of(&self, processor: u32) -> Option<u32> {
        if processor >= MAX_NODE_CPUS {
            return None;
        }
        let lists = |(_, cpus): &&(u32, Vec<Range<u32>>)| cpus.iter().any(|range| range.contains(&processor));
        self.first.iter().rev().find(lists).map(|(id, _)| *id).filter(is_known)
    }
}

/// The kernel writes -1 for an unknown id, which may have been stored in 16 or 32 bits.
pub(super) fn is_known(id: &u32) -> bool {
    *id != u32::from(u16::MAX) && *id != u32::MAX
}
