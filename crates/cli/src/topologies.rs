//! Prints the workers that flags select, as the reference does.

use std::fmt::Write as _;

use rehal_base::{Context as _, Result};
use rehal_session::DeviceOptions;
use rehal_session::LOCAL_TASK;
use rehal_session::hal::DeviceUri;
use rehal_session::topology::{MAX_WORKERS, Sharing, Topology, TopologyOptions, Worker};

use crate::devices;
use crate::flags::{DEVICE, Flags, task_options, topology_options};

const RULE: &str = "# ===------------------------------------------------------------------------===\n";

const ADVICE: &str =
    "lscpu --extended lists the CPUs and NUMA nodes of this machine; --help=all describes --task_topology_*";

/// The topologies that the flags before the query select, and those of devices whose URIs select others.
pub(crate) fn dump(flags: &Flags) -> Result<String> {
    let mut text = topologies(&topology_options(flags))?;
    let has_parameters = |uri: &String| {
        DeviceUri::parse(uri).is_ok_and(|uri| uri.driver == LOCAL_TASK && !uri.params.is_empty())
    };
    let mut uris: Vec<String> = Vec::new();
    for uri in flags.list(&DEVICE).into_iter().filter(has_parameters) {
        if !uris.contains(&uri) {
            uris.push(uri);
        }
    }
    let mut options = DeviceOptions::default();
    options.drivers = options.drivers.with(task_options(flags));
    for (device, uri) in devices::find_all(flags, DEVICE.name(), &uris)?.iter().zip(&uris) {
        if let Some(selection) = device.own_selection(&options)? {
            let own = topologies(&selection).context(|| format!("device '{uri}'"))?;
            text.push_str(&format!("{RULE}# --device={uri}\n{own}"));
        }
    }
    Ok(text)
}

fn topologies(options: &TopologyOptions) -> Result<String> {
    let topologies = options.select().advise(|| ADVICE)?;
    let mut text = String::new();
    for (index, topology) in topologies.iter().enumerate() {
        write_topology(&mut text, index, topology).expect("a string takes any text");
    }
    Ok(text)
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
