//! The selection rules, which are the reference's.

use std::collections::VecDeque;
use std::ops::Range;

use rehal_base::{Error, Result};

use super::sysfs::{Cache, Nodes, Sysfs, is_known};
use super::{
    Caches, DEFAULT_CACHES, Distribution, MAX_WORKERS, NodeSelection, Performance, Pin, Sharing, Topology,
    TopologyOptions, Worker, quota,
};
use crate::platform::{self, Processors};

impl TopologyOptions {
    /// The selected topologies, without those that have no workers.
    ///
    /// Fails if the options name a CPU or a node that does not exist, or if the snapshot is invalid.
    pub fn select(&self) -> Result<Vec<Topology>> {
        let mut topologies = self.select_all()?;
        topologies.retain(|topology| !topology.workers.is_empty());
        Ok(topologies)
    }

    /// The topologies of the pools of a device: at least one. Fails in addition if a number of workers is
    /// given for several nodes, or if no CPU is left.
    pub fn select_pools(&self) -> Result<Vec<Topology>> {
        let topologies = self.select_all()?;
        let selected = topologies.len();
        if self.processors.is_empty() && self.worker_count.is_some() && selected > 1 {
            return Err(Error::invalid_argument(format!(
                "a fixed number of workers cannot be spread over {selected} NUMA nodes"
            ))
            .advise("limit the workers per node instead, or select one node"));
        }
        let used: Vec<_> = topologies.into_iter().filter(|it| !it.workers.is_empty()).collect();
        if used.is_empty() {
            return Err(Error::not_found(format!(
                "the selected NUMA nodes ({selected}) have no CPU that matches the options of the topology"
            )));
        }
        Ok(used)
    }

    fn select_all(&self) -> Result<Vec<Topology>> {
        if !self.processors.is_empty() {
            let machine = Machine::new(Sysfs::host())?;
            return self.processors.iter().map(|list| machine.listed(list)).collect();
        }
        let machine = Machine::new(match &self.snapshot {
            Some(path) => Sysfs::snapshot(path)?,
            None => Sysfs::host(),
        })?;
        let nodes = machine.select_nodes(&self.nodes)?;
        if let Some(count) = self.worker_count {
            let topology = machine.unpinned(count);
            return Ok(vec![topology; nodes.len()]);
        }
        let limit = self.max_workers.min(MAX_WORKERS);
        let unlimited: Vec<_> = nodes.iter().map(|node| machine.cores(self, *node, limit)).collect();
        let counts: Vec<_> = unlimited.iter().map(|topology| topology.workers.len()).collect();
        let quota = if machine.sysfs.is_host() { quota::processors("/".as_ref()) } else { None };
        let limits = share(&counts, quota.unwrap_or(usize::MAX));
        let limited = unlimited.into_iter().zip(nodes).zip(limits).map(|((topology, node), limit)| {
            if topology.workers.len() > limit { machine.cores(self, node, limit) } else { topology }
        });
        Ok(limited.collect())
    }
}

/// Limits on the workers of several topologies, so that their sum is at most `total`: the largest ones lose
/// workers first, and each keeps one.
pub(super) fn share(counts: &[usize], total: usize) -> Vec<usize> {
    let mut limits = counts.to_vec();
    let mut excess = counts.iter().sum::<usize>().saturating_sub(total);
    while excess > 0 {
        let largest = limits.iter_mut().max_by_key(|limit| **limit).filter(|limit| **limit > 1);
        let Some(largest) = largest else { break };
        *largest -= 1;
        excess -= 1;
    }
    limits
}

/// Facts that several rules need.
struct Machine {
    sysfs: Sysfs,
    processor_count: Option<u32>,
    nodes: Nodes,
    /// The CPUs on which this process may run; `None` if unknown or if they are those of another machine.
    allowed: Option<Processors>,
}

/// A selected core, represented by one of its logical CPUs.
struct Core {
    processor: u32,
    caches: Vec<Cache>,
}

/// Identifies a core: equal for all of its logical CPUs, and for no others.
#[derive(PartialEq, Eq)]
enum CoreKey {
    FirstSibling(u32),
    Core { package: u32, core: u32 },
}

impl Machine {
    fn new(sysfs: Sysfs) -> Result<Self> {
        let processor_count = sysfs.processor_count()?;
        let nodes = sysfs.nodes()?;
        let allowed = if sysfs.is_host() { platform::allowed_processors() } else { None };
        Ok(Self { sysfs, processor_count, nodes, allowed })
    }

    /// The node of each topology; `None` for the whole machine.
    fn select_nodes(&self, selection: &NodeSelection) -> Result<Vec<Option<u32>>> {
        let ids = match selection {
            NodeSelection::All => return Ok(vec![None]),
            NodeSelection::Current => vec![self.nodes.of(self.current_processor()).unwrap_or(0)],
            NodeSelection::Each => self.nodes.ids()?,
            NodeSelection::Ids(ids) => {
                let known = self.nodes.ids()?;
                if let Some(missing) = ids.iter().find(|id| !known.contains(id)) {
                    let known: Vec<_> = known.iter().map(u32::to_string).collect();
                    return Err(Error::invalid_argument(format!(
                        "NUMA node {missing} does not exist or has no CPUs (nodes with CPUs: {})",
                        known.join(", ")
                    )));
                }
                ids.clone()
            }
        };
        Ok(ids.into_iter().map(Some).collect())
    }

    /// The CPU of the calling thread; the first one of another machine.
    fn current_processor(&self) -> u32 {
        if self.sysfs.is_host() { platform::processor_id() } else { 0 }
    }

    fn unpinned(&self, count: usize) -> Topology {
        // Workers may run anywhere: the current CPU is as representative as any.
        let processor = self.current_processor();
        let mut caches = Core { processor, caches: self.sysfs.caches(processor) }.cache_sizes();
        if caches.l1_data == 0 {
            caches.l1_data = DEFAULT_CACHES.l1_data;
        }
        if caches.l2_data == 0 {
            caches.l2_data = DEFAULT_CACHES.l2_data;
        }
        let worker = Worker {
            cluster: self.sysfs.cluster(0),
            package: self.sysfs.package(0),
            ..Worker::anywhere(caches)
        };
        Topology { node: None, workers: vec![worker; count.min(MAX_WORKERS)] }
    }

    /// One worker on each of these CPUs.
    fn listed(&self, processors: &[u32]) -> Result<Topology> {
        if processors.len() > MAX_WORKERS {
            return Err(Error::resource_exhausted(format!(
                "{} CPUs are listed for one pool of workers; at most {MAX_WORKERS} are supported",
                processors.len()
            )));
        }
        let Some(count) = self.processor_count else { return Ok(self.unpinned(1)) };
        if let Some(missing) = processors.iter().find(|processor| **processor >= count) {
            return Err(Error::out_of_range(format!(
                "CPU {missing} does not exist: this machine has {count} logical CPUs, numbered from 0"
            )));
        }
        Ok(Topology { node: None, workers: self.pinned(&self.with_caches(processors)) })
    }

    /// One worker per physical core of a node, or of the whole machine.
    fn cores(&self, options: &TopologyOptions, node: Option<u32>, limit: usize) -> Topology {
        let Some(count) = self.processor_count else { return self.unpinned(1) };
        let is_fast_enough = self.performance_filter(count, options.performance);
        let (mut keys, mut cores) = (Vec::new(), Vec::new());
        for processor in 0..count {
            if cores.len() >= limit {
                break;
            }
            if self.allowed.is_some_and(|allowed| !allowed.contains(processor)) {
                continue;
            }
            let Some(key) = self.core_key(processor) else { continue };
            // A CPU whose node is unknown belongs to every node.
            let is_elsewhere =
                matches!((node, self.nodes.of(processor)), (Some(node), Some(its)) if node != its);
            if is_elsewhere || !is_fast_enough(processor) || keys.contains(&key) {
                continue;
            }
            keys.push(key);
            cores.push(processor);
        }
        let mut cores = self.with_caches(&cores);
        if options.distribution == Distribution::Scatter {
            cores = scattered(cores);
        }
        let nodes: Vec<_> = cores.iter().map(|core| self.nodes.of(core.processor)).collect();
        let common = nodes.first().copied().flatten().filter(|_| nodes.iter().all(|node| *node == nodes[0]));
        Topology { node: common, workers: self.pinned(&cores) }
    }

    fn core_key(&self, processor: u32) -> Option<CoreKey> {
        if let Some(first) = self.sysfs.first_sibling(processor) {
            return Some(CoreKey::FirstSibling(first));
        }
        let core = self.sysfs.core(processor)?;
        // Core ids are unique within a package only.
        let package = self.sysfs.package(processor).filter(is_known).unwrap_or(0);
        Some(CoreKey::Core { package, core })
    }

    /// Whether a CPU has the wanted performance, on a machine of `count` CPUs.
    fn performance_filter(&self, count: u32, wanted: Performance) -> impl Fn(u32) -> bool {
        let capacities: Vec<_> = match wanted {
            Performance::Any => Vec::new(),
            _ => (0..count).map(|processor| self.sysfs.capacity(processor)).collect(),
        };
        let known = || capacities.iter().flatten().copied();
        let (lowest, highest) = (known().min().unwrap_or(0), known().max().unwrap_or(0));
        // The product wraps in the reference, too.
        let threshold = highest.wrapping_mul(3) / 4;
        move |processor| {
            let is_high = || capacities[processor as usize].unwrap_or(0) >= threshold;
            match wanted {
                _ if lowest == highest => true,
                Performance::Any => true,
                Performance::High => is_high(),
                Performance::Low => !is_high(),
            }
        }
    }

    fn with_caches(&self, processors: &[u32]) -> Vec<Core> {
        let core = |processor: &u32| Core { processor: *processor, caches: self.sysfs.caches(*processor) };
        processors.iter().map(core).collect()
    }

    /// One worker on each of these CPUs.
    fn pinned(&self, cores: &[Core]) -> Vec<Worker> {
        let worker = |core: &Core| {
            let shared = core.sharers().unwrap_or_default();
            let shares = |other: &Core| shared.iter().any(|range| range.contains(&other.processor));
            let sharing = cores.iter().enumerate().filter(|(_, other)| shares(other));
            let node = self.nodes.of(core.processor);
            Worker {
                processor: core.processor,
                cluster: self.sysfs.cluster(core.processor),
                package: self.sysfs.package(core.processor),
                pinned: Some(Pin {
                    processor: core.processor,
                    node: node.and_then(|node| u8::try_from(node).ok()).unwrap_or(0),
                }),
                caches: core.cache_sizes(),
                sharing: Sharing::Workers(sharing.map(|(index, _)| index).collect()),
            }
        };
        cores.iter().map(worker).collect()
    }
}

/// The cores, round-robin over the cache domains.
fn scattered(cores: Vec<Core>) -> Vec<Core> {
    let mut domains: Vec<(Vec<Range<u32>>, VecDeque<Core>)> = Vec::new();
    if cores.iter().any(|core| core.sharers().is_none()) {
        return cores;
    }
    let count = cores.len();
    // Cores are in ascending order, and so are the domains by their first cores.
    for core in cores {
        let sharers = normalized(core.sharers().unwrap_or_default());
        match domains.iter_mut().find(|(it, _)| *it == sharers) {
            Some((_, members)) => members.push_back(core),
            None => domains.push((sharers, [core].into())),
        }
    }
    let mut order = Vec::with_capacity(count);
    while order.len() < count {
        order.extend(domains.iter_mut().filter_map(|(_, members)| members.pop_front()));
    }
    order
}

/// Canonical form: equal for lists of the same CPUs.
fn normalized(ranges: &[Range<u32>]) -> Vec<Range<u32>> {
    let mut sorted = ranges.to_vec();
    sorted.sort_by_key(|range| range.start);
    let mut merged: Vec<Range<u32>> = Vec::with_capacity(sorted.len());
    for range in sorted {
        match merged.last_mut().filter(|last| range.start <= last.end) {
            Some(last) => last.end = last.end.max(range.end),
            None => merged.push(range),
        }
    }
    merged
}

impl Core {
    /// The CPUs that share the last-level cache: L3, or L2 if there is none.
    fn sharers(&self) -> Option<&[Range<u32>]> {
        let of_level = |level| {
            let caches = self.caches.iter().filter(move |cache| cache.level == level);
            caches.filter_map(|cache| cache.sharers.as_deref())
        };
        of_level(3).next().or_else(|| of_level(2).next_back())
    }

    fn cache_sizes(&self) -> Caches {
        // Larger sizes wrap in the reference, too.
        let of_level =
            |level| self.caches.iter().rfind(|cache| cache.level == level).map_or(0, |it| it.size as u32);
        Caches { l1_data: of_level(1), l2_data: of_level(2), l3_data: of_level(3) }
    }
}
