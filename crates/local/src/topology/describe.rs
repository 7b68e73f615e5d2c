//! The workers that options select, as text in the reference's form.

use std::fmt::Write as _;

use rehal_base::Result;

use super::{MAX_WORKERS, Sharing, Topology, TopologyOptions, Worker};

const RULE: &str = "# ===------------------------------------------------------------------------===\n";

impl TopologyOptions {
    /// The topologies that the options select.
    pub(crate) fn describe(&self) -> Result<String> {
        let mut text = String::new();
        for (index, topology) in self.select()?.iter().enumerate() {
            write_topology(&mut text, index, topology).expect("a string takes any text");
        }
        Ok(text)
    }
}

fn write_topology(text: &mut String, index: usize, topology: &Topology) -> std::fmt::Result {
    let node = topology.node.map_or("any".into(), |node| node.to_string());
    let count = topology.workers.len();
    write!(text, "{RULE}# topology[{index}]: {count} worker groups, numa node: {node}\n{RULE}#\n")?;
    topology.workers.iter().enumerate().try_for_each(|(index, worker)| write_worker(text, index, worker))
}

fn write_worker(text: &mut String, index: usize, worker: &Worker) -> std::fmt::Result {
    writeln!(text, "# group[{index}]: '{}'", Topology::thread_name(index))?;
    writeln!(text, "#      processor: {}", worker.processor)?;
    if worker.cluster.is_some() || worker.package.is_some() {
        let id = |id: Option<u32>| id.map_or("n/a".into(), |id| id.to_string());
        let (cluster, package) = (id(worker.cluster), id(worker.package));
        writeln!(text, "#     hardware ids: cluster_id={cluster}, physical_package_id={package}")?;
    }
    match worker.pinned {
        Some(pin) => writeln!(text, "#       affinity: group={}, id={}, smt=0", pin.node, pin.processor)?,
        None => writeln!(text, "#       affinity: (unspecified)")?,
    }
    writeln!(text, "#  caches: l1d={}, l2d={}", worker.caches.l1_data, worker.caches.l2_data)?;
    let sharing = match &worker.sharing {
        Sharing::Workers(workers) if workers.is_empty() => "(none)".into(),
        Sharing::Workers(workers) if workers.len() < MAX_WORKERS => {
            let list: Vec<_> = workers.iter().map(usize::to_string).collect();
            format!("{} group(s): {}", workers.len(), list.join(", "))
        }
        // The reference's set of all workers of a full topology is its set of any workers.
        Sharing::Unknown | Sharing::Workers(_) => "(all/undefined)".into(),
    };
    writeln!(text, "#  last level cache sharing: {sharing}\n#")
}
