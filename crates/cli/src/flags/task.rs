//! Flags of the multithreaded CPU driver, with the names and defaults of the pinned release.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::time::Duration;

use rehal_crash::OptionNames;
use rehal_session::topology::{
    Distribution, MAX_WORKERS, NodeSelection, PRESETS, Performance, TopologyOptions, parse_ids,
};
use rehal_session::{LocalSyncOptions, LocalTaskOptions};

use super::catalog::DEVICE_TIMEOUT;
use super::files;
use super::flag::{Effect, Flag, Group, List, Query};
use super::parse::Flags;
use super::value_type::{Refusal, text};

const TASK_DRIVER: Effect = Effect::OfDriver("local-task");
const MAX_COUNT: i64 = i32::MAX as i64;

const ABORT_ON_FAILURE: Flag<bool> =
    Flag::switch("task_abort_on_failure", false, "Aborts the process if queue work fails or crashes.")
        .effect(TASK_DRIVER);

const WORKER_SPIN: Flag<Duration> = Flag::number(
    "task_worker_spin_us",
    0,
    (0, MAX_COUNT),
    |microseconds| Duration::from_micros(microseconds as u64),
    "Microseconds that an idle worker spins before it sleeps.",
)
.effect(TASK_DRIVER);

const WORKER_STACK_SIZE: Flag<usize> = Flag::number(
    "task_worker_stack_size",
    131_072,
    (0, MAX_COUNT),
    count,
    "Size of the stack of kernels in bytes, also on local-sync, and the least of each worker. Less than 2 MiB has no effect.",
);

const WORKER_LOCAL_MEMORY: Flag<Option<u64>> = Flag::number(
    "task_worker_local_memory",
    0,
    (0, MAX_COUNT),
    |bytes| if bytes == 0 { None } else { Some(bytes as u64) },
    "Local memory of each worker in bytes, beyond which a dispatch fails; 0 for the size of its L2 cache.",
)
.effect(TASK_DRIVER);

const MODE: Flag<()> = Flag::choice(
    "task_topology_mode",
    "physical_cores",
    &[("physical_cores", ())],
    "How workers are mapped to CPUs, unless --task_topology_cpu_ids or --task_topology_group_count do: \
     physical_cores pins one worker to each physical core on which this process may run, of the NUMA nodes that \
     --task_topology_nodes selects.",
)
.effect(TASK_DRIVER);

const GROUP_COUNT: Flag<usize> = Flag::number(
    "task_topology_group_count",
    0,
    (-1, MAX_COUNT),
    worker_count,
    "Number of workers, at most 256, which are not pinned; 0 for what --task_topology_mode selects, -1 for 256.",
)
.effect(TASK_DRIVER);

const CPU_IDS: List<Vec<u32>> = List::parsed(
    "task_topology_cpu_ids",
    "CPU,CPU",
    "numbers of logical CPUs, such as 0,2 or 0-3",
    cpu_ids,
    "Logical CPUs, such as 0,2 or 0-3, one worker on each. Repeat it for several topologies, whose workers are one pool. It overrides all \
     other flags of the topology, including --task_topology_snapshot.",
)
.effect(TASK_DRIVER);

const NODES: Flag<NodeSelection> = Flag::parsed(
    "task_topology_nodes",
    "NODES",
    "current",
    "current, numa, all, or ids of NUMA nodes such as 0,2 or 0-3",
    nodes,
    "NUMA nodes whose cores become workers. current: that of the calling thread. numa: each node, with a topology of \
     its own. 0,2: these nodes, each with a topology of its own. all: one topology of the whole machine. The workers of \
     several topologies are one pool, in which an idle worker takes work from those that share its cache first.",
)
.effect(TASK_DRIVER);

const MAX_GROUP_COUNT: Flag<usize> = Flag::number(
    "task_topology_max_group_count",
    64,
    (-1, MAX_COUNT),
    worker_count,
    "Maximum number of workers per topology, at most 256, unless their number or their CPUs are given; -1 for 256. A CPU quota \
     of the process's control group limits them, too.",
)
.effect(TASK_DRIVER);

const SNAPSHOT: Flag<Option<PathBuf>> = Flag::path(
    "task_topology_snapshot",
    "Reads the topology from a copy of another machine's /sys/devices/system. For tests.",
)
.effect(TASK_DRIVER)
.files(files::read);

const PERFORMANCE_LEVEL: Flag<Performance> = Flag::choice(
    "task_topology_performance_level",
    "any",
    &Performance::NAMES,
    "Cores to use on a machine whose cores differ in capacity: any, low (or efficiency), high (or performance). \
     Cores with at least three quarters of the highest capacity are high.",
)
.effect(TASK_DRIVER);

const DISTRIBUTION: Flag<Distribution> = Flag::choice(
    "task_topology_distribution",
    "scatter",
    &Distribution::NAMES,
    "Order of the workers: compact fills one cache domain after another, scatter takes one core of each in turn.",
)
.effect(TASK_DRIVER);

const FAVOR: Flag<Option<(Performance, Distribution)>> = Flag::choice(
    "task_topology_favor",
    "",
    &PRESETS,
    "Overrides performance level and distribution: latency is high and compact, throughput any and scatter, \
     efficiency low and compact.",
)
.effect(TASK_DRIVER);

const DUMP_TASK_TOPOLOGIES: Query = Query::new(
    "dump_task_topologies",
    "Prints the workers that the preceding flags select, and those of each preceding --device=local-task://?KEY=VALUE, with \
     their CPUs and caches, and exits.",
);

/// The flags that crash reports name.
pub(crate) const CRASH_OPTIONS: OptionNames =
    OptionNames { stack: "--task_worker_stack_size=BYTES", timeout: "--device_timeout=TIME" };

/// The multithreaded CPU driver.
pub const TASK: Group = Group {
    title: "CPU threads",
    flags: &[
        &ABORT_ON_FAILURE,
        &WORKER_SPIN,
        &WORKER_STACK_SIZE,
        &WORKER_LOCAL_MEMORY,
        &MODE,
        &GROUP_COUNT,
        &CPU_IDS,
        &NODES,
        &MAX_GROUP_COUNT,
        &SNAPSHOT,
        &PERFORMANCE_LEVEL,
        &DISTRIBUTION,
        &FAVOR,
        &DUMP_TASK_TOPOLOGIES,
    ],
};

/// The topology options set by the flags.
pub(crate) fn topology_options(flags: &Flags) -> TopologyOptions {
    let () = flags.get(&MODE);
    let mut options = TopologyOptions::default();
    options.processors = flags.list(&CPU_IDS);
    options.worker_count = Some(flags.get(&GROUP_COUNT)).filter(|count| *count > 0);
    options.nodes = flags.get(&NODES);
    options.max_workers = flags.get(&MAX_GROUP_COUNT);
    (options.performance, options.distribution) =
        flags.get(&FAVOR).unwrap_or_else(|| (flags.get(&PERFORMANCE_LEVEL), flags.get(&DISTRIBUTION)));
    options.snapshot = flags.get(&SNAPSHOT);
    options
}

/// The options of `local-sync` devices set by the flags.
pub(crate) fn sync_options(flags: &Flags) -> LocalSyncOptions {
    LocalSyncOptions {
        stack_bytes: flags.get(&WORKER_STACK_SIZE),
        timeout: flags.get(&DEVICE_TIMEOUT),
        ..LocalSyncOptions::default()
    }
}

/// The options of `local-task` devices set by the flags.
pub(crate) fn task_options(flags: &Flags) -> LocalTaskOptions {
    let mut options = LocalTaskOptions::default();
    options.selection = topology_options(flags);
    options.worker.spin = flags.get(&WORKER_SPIN);
    options.worker.stack_bytes = flags.get(&WORKER_STACK_SIZE);
    options.worker_local_memory = flags.get(&WORKER_LOCAL_MEMORY);
    options.abort_on_failure = flags.get(&ABORT_ON_FAILURE);
    options.timeout = flags.get(&DEVICE_TIMEOUT);
    options
}

/// Converts a count, whose range the flag has checked.
fn count(value: i64) -> usize {
    value as usize
}

/// The reference reads -1 as an unsigned number, so that it is the maximum.
fn worker_count(value: i64) -> usize {
    usize::try_from(value).unwrap_or(MAX_WORKERS)
}

fn cpu_ids(value: &OsStr) -> Result<Vec<u32>, Refusal> {
    parse_ids(&text(value)?).ok_or(Refusal::Unexpected)
}

fn nodes(value: &OsStr) -> Result<NodeSelection, Refusal> {
    NodeSelection::parse(&text(value)?).ok_or(Refusal::Unexpected)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::super::DEVICES;
    use super::*;

    fn options(given: &[&str]) -> TopologyOptions {
        let arguments = given.iter().map(OsString::from).chain(["--dump_task_topologies".into()]);
        topology_options(&Flags::parse(&[&TASK], arguments).unwrap())
    }

    #[test]
    fn no_flag_is_the_default() {
        assert_eq!(options(&[]), TopologyOptions::default());
    }

    #[test]
    fn each_flag_sets_its_option() {
        let mut expected = TopologyOptions::default();
        expected.processors = vec![vec![0, 2, 3], vec![31]];
        expected.worker_count = Some(3);
        expected.nodes = NodeSelection::Ids(vec![0, 2]);
        expected.max_workers = 5;
        expected.performance = Performance::Low;
        expected.distribution = Distribution::Compact;
        expected.snapshot = Some("copy".into());
        let given = [
            "--task_topology_mode=physical_cores",
            "--task_topology_cpu_ids=0,2-3",
            "--task_topology_cpu_ids=0x1f,",
            "--task_topology_group_count=3",
            "--task_topology_nodes=0, 2",
            "--task_topology_max_group_count=5",
            "--task_topology_performance_level=efficiency",
            "--task_topology_distribution=compact",
            "--task_topology_snapshot=copy",
        ];
        assert_eq!(options(&given), expected);
        for (word, nodes) in
            [("numa", NodeSelection::Each), ("all", NodeSelection::All), ("", NodeSelection::Current)]
        {
            assert_eq!(options(&[&format!("--task_topology_nodes={word}")]).nodes, nodes);
        }
    }

    #[test]
    fn a_number_of_workers_of_minus_one_is_the_maximum() {
        let given = ["--task_topology_group_count=-1", "--task_topology_max_group_count=-1"];
        let set = options(&given);
        assert_eq!((set.worker_count, set.max_workers), (Some(256), 256));
        for wrong in ["--task_topology_group_count=-2", "--task_topology_max_group_count=-2"] {
            let error = Flags::parse(&[&TASK], [OsString::from(wrong)]).err().unwrap().to_string();
            assert!(error.contains("expected an integer from -1 to 2147483647"), "{error}");
        }
    }

    #[test]
    fn each_flag_of_workers_sets_its_option() {
        let given = [
            "--task_worker_spin_us=3",
            "--task_worker_stack_size=4194304",
            "--task_worker_local_memory=8192",
            "--task_abort_on_failure",
        ];
        let set = |given: &[&str]| {
            task_options(&Flags::parse(&[&DEVICES, &TASK], given.iter().map(OsString::from)).unwrap())
        };
        let (set, unset) = (set(&given), set(&[]));
        assert_eq!((set.worker.spin, set.worker.stack_bytes), (Duration::from_micros(3), 4 << 20));
        assert_eq!((set.worker_local_memory, set.abort_on_failure), (Some(8192), true));
        assert_eq!((unset.worker.spin, unset.worker_local_memory), (Duration::ZERO, None));
    }

    #[test]
    fn a_preset_overrides_level_and_distribution() {
        let preset = |name: &str| {
            let favor = format!("--task_topology_favor={name}");
            let set = options(&[
                &favor,
                "--task_topology_performance_level=high",
                "--task_topology_distribution=scatter",
            ]);
            (set.performance, set.distribution)
        };
        assert_eq!(preset("latency"), (Performance::High, Distribution::Compact));
        assert_eq!(preset("throughput"), (Performance::Any, Distribution::Scatter));
        assert_eq!(preset("efficiency"), (Performance::Low, Distribution::Compact));
        assert_eq!(preset(""), (Performance::High, Distribution::Scatter));
    }
}
