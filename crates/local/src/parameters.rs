//! The parameters of `local-task` and `local-sync`, with names, values and defaults of the pinned release.

use std::path::Path;
use std::time::Duration;

use rehal_hal::{DeviceParameter, OptionSet, ParameterGroup, ParameterScope, ParameterValue};

use crate::options::{LOCAL_TASK, LocalSyncOptions, LocalTaskOptions};
use crate::topology::{
    Distribution, MAX_WORKERS, NodeSelection, PRESETS, Performance, TopologyOptions, parse_ids,
};

/// The parameters of the CPU drivers.
pub const PARAMETERS: ParameterGroup = ParameterGroup { title: "CPU threads", parameters: &TASK_PARAMETERS };

const MAX_COUNT: i128 = i32::MAX as i128;
const TASK: ParameterScope = ParameterScope::Device(LOCAL_TASK);

/// The stack of kernels.
const STACK_SIZE: DeviceParameter = DeviceParameter {
    keys: &["task_worker_stack_size"],
    scope: ParameterScope::Devices,
    value: ParameterValue::Integer {
        min: 0,
        max: MAX_COUNT,
        set: |options, bytes| {
            options.update(|it: &mut LocalSyncOptions| it.stack_bytes = bytes as usize);
            set(options, |it| {
                it.workers = None;
                it.worker.stack_bytes = bytes as usize;
            });
        },
    },
    default: "131072",
    help: "Size of the stack of kernels in bytes, also on local-sync, and the least of each worker. Less than \
           2 MiB has no effect.",
};

/// The parameters of `local-sync`.
pub(crate) const SYNC_PARAMETERS: [DeviceParameter; 1] = [STACK_SIZE];

/// How the device starts its workers, what it does with them, and how they are selected.
///
/// A parameter that selects workers by their cores overrides a number of workers or a list of CPUs, which
/// would leave it without effect; of parameters that are set together, a list of CPUs overrides a number, a
/// number the rest, and a preset the options that it consists of. Hence their order.
pub(crate) const TASK_PARAMETERS: [DeviceParameter; 13] = [
    DeviceParameter {
        keys: &["task_abort_on_failure"],
        scope: TASK,
        value: ParameterValue::Boolean(|options, value| set(options, |it| it.abort_on_failure = value)),
        default: "false",
        help: "Aborts the process if queue work fails or crashes.",
    },
    DeviceParameter {
        keys: &["task_worker_spin_us"],
        scope: TASK,
        value: ParameterValue::Integer {
            min: 0,
            max: MAX_COUNT,
            set: |options, microseconds| {
                set(options, |it| {
                    it.workers = None;
                    it.worker.spin = Duration::from_micros(microseconds as u64);
                });
            },
        },
        default: "0",
        help: "Microseconds that an idle worker spins before it sleeps.",
    },
    STACK_SIZE,
    DeviceParameter {
        keys: &["task_worker_local_memory"],
        scope: TASK,
        value: ParameterValue::Integer {
            min: 0,
            max: MAX_COUNT,
            set: |options, bytes| {
                let bytes = Some(bytes as u64).filter(|bytes| *bytes > 0);
                set(options, |it| it.worker_local_memory = bytes);
            },
        },
        default: "0",
        help: "Local memory of each worker in bytes, beyond which a dispatch fails; 0 for the size of its L2 cache.",
    },
    DeviceParameter {
        keys: &["task_topology_mode"],
        scope: TASK,
        value: ParameterValue::Choice {
            words: &["physical_cores"],
            aliases: &[],
            set: |options, _| select_cores(options, |_| {}),
        },
        default: "physical_cores",
        help: "How workers are mapped to CPUs, unless --task_topology_cpu_ids or --task_topology_group_count do: \
               physical_cores pins one worker to each physical core on which this process may run, of the NUMA \
               nodes that --task_topology_nodes selects.",
    },
    DeviceParameter {
        keys: &["task_topology_nodes"],
        scope: TASK,
        value: ParameterValue::Text {
            form: "NODES",
            expected: "current, numa, all, or ids of NUMA nodes such as 0,2 or 0-3",
            set: |options, value| {
                let nodes = NodeSelection::parse(value)?;
                select_cores(options, |selection| selection.nodes = nodes);
                Some(())
            },
        },
        default: "current",
        help: "NUMA nodes whose cores become workers. current: that of the calling thread. numa: each node, with a \
               topology of its own. 0,2: these nodes, each with a topology of its own. all: one topology of the \
               whole machine. The workers of several topologies are one pool, in which an idle worker takes work \
               from those that share its cache first.",
    },
    DeviceParameter {
        keys: &["task_topology_max_group_count"],
        scope: TASK,
        value: ParameterValue::Integer {
            min: -1,
            max: MAX_COUNT,
            set: |options, count| {
                select_cores(options, |selection| selection.max_workers = worker_count(count));
            },
        },
        default: "64",
        help: "Maximum number of workers per topology, at most 256, unless their number or their CPUs are given; -1 \
               for 256. A CPU quota of the process's control group limits them, too.",
    },
    DeviceParameter {
        keys: &["task_topology_snapshot"],
        scope: TASK,
        value: ParameterValue::Path(|options, path| {
            select(options, |selection| selection.snapshot = path.map(Path::to_owned));
        }),
        default: "",
        help: "Reads the topology from a copy of another machine's /sys/devices/system. For tests.",
    },
    DeviceParameter {
        keys: &["task_topology_performance_level"],
        scope: TASK,
        value: ParameterValue::Choice {
            words: &words(Performance::NAMES),
            aliases: &[],
            set: |options, word| {
                select_cores(options, |selection| selection.performance = named(&Performance::NAMES, word));
            },
        },
        default: "any",
        help: "Cores to use on a machine whose cores differ in capacity: any, low (or efficiency), high (or \
               performance). Cores with at least three quarters of the highest capacity are high.",
    },
    DeviceParameter {
        keys: &["task_topology_distribution"],
        scope: TASK,
        value: ParameterValue::Choice {
            words: &words(Distribution::NAMES),
            aliases: &[],
            set: |options, word| {
                select_cores(options, |selection| selection.distribution = named(&Distribution::NAMES, word));
            },
        },
        default: "scatter",
        help: "Order of the workers: compact fills one cache domain after another, scatter takes one core of each \
               in turn.",
    },
    DeviceParameter {
        keys: &["task_topology_favor"],
        scope: TASK,
        value: ParameterValue::Choice {
            words: &words(PRESETS),
            aliases: &[],
            set: |options, word| {
                select_cores(options, |selection| {
                    if let Some(preset) = named(&PRESETS, word) {
                        (selection.performance, selection.distribution) = preset;
                    }
                });
            },
        },
        default: "",
        help: "Overrides performance level and distribution: latency is high and compact, throughput any and \
               scatter, efficiency low and compact.",
    },
    DeviceParameter {
        keys: &["task_topology_group_count"],
        scope: TASK,
        value: ParameterValue::Integer {
            min: -1,
            max: MAX_COUNT,
            set: |options, count| {
                select_cores(options, |selection| {
                    selection.worker_count = Some(worker_count(count)).filter(|count| *count > 0);
                });
            },
        },
        default: "0",
        help: "Number of workers, at most 256, which are not pinned; 0 for what --task_topology_mode selects, -1 for \
               256.",
    },
    DeviceParameter {
        keys: &["task_topology_cpu_ids"],
        scope: TASK,
        value: ParameterValue::List {
            form: "CPU,CPU",
            expected: "numbers of logical CPUs, such as 0,2 or 0-3",
            set: |options, lists| {
                let lists = lists.iter().map(|list| parse_ids(list).filter(|ids| !ids.is_empty()));
                let processors = lists.collect::<Option<Vec<_>>>()?;
                select(options, |selection| selection.processors = processors);
                Some(())
            },
        },
        default: "",
        help: "Logical CPUs, such as 0,2 or 0-3, one worker on each. Repeat it for several topologies, whose workers \
               are one pool. It overrides all other flags of the topology, including --task_topology_snapshot.",
    },
];

/// Sets options of the device.
fn set(options: &mut OptionSet, set: impl FnOnce(&mut LocalTaskOptions)) {
    options.update(set);
}

/// The same for an option of the selection: the device has workers of its own.
fn select(options: &mut OptionSet, select: impl FnOnce(&mut TopologyOptions)) {
    set(options, |it| {
        (it.workers, it.topology) = (None, None);
        select(&mut it.selection);
    });
}

/// The same for one that selects cores.
fn select_cores(options: &mut OptionSet, set: impl FnOnce(&mut TopologyOptions)) {
    select(options, |selection| {
        selection.processors.clear();
        selection.worker_count = None;
        set(selection);
    });
}

/// The reference reads -1 as an unsigned number, so that it is the maximum.
fn worker_count(count: i128) -> usize {
    usize::try_from(count).unwrap_or(MAX_WORKERS)
}

const fn words<T: Copy, const N: usize>(names: [(&'static str, T); N]) -> [&'static str; N] {
    let mut words = [""; N];
    let mut index = 0;
    while index < N {
        words[index] = names[index].0;
        index += 1;
    }
    words
}

/// The value of one of these words.
fn named<T: Copy>(names: &[(&str, T)], word: &str) -> T {
    let found = names.iter().find(|(name, _)| *name == word);
    found.expect("a choice sets one of its words").1
}

#[cfg(test)]
mod tests {
    use rehal_base::{Result, StatusCode};
    use rehal_hal::Driver;

    use super::*;
    use crate::{LocalSyncDriver, LocalTaskDriver, Topology};

    fn configured(options: LocalTaskOptions, params: &[(&str, &str)]) -> Result<LocalTaskOptions> {
        Ok(Driver::new(LocalTaskDriver).configure(OptionSet::default().with(options), params)?.get())
    }

    #[test]
    fn each_parameter_sets_its_option() {
        let given = [
            ("task_topology_nodes", "0,0x2"),
            ("task_topology_max_group_count", "5"),
            ("task_topology_performance_level", "efficiency"),
            ("task_topology_distribution", "compact"),
            ("task_topology_group_count", "3"),
            ("task_topology_cpu_ids", "0,2-3"),
            ("task_worker_spin_us", "3"),
            ("task_worker_stack_size", "4194304"),
            ("task_worker_local_memory", "8192"),
            ("task_abort_on_failure", "true"),
        ];
        let set = configured(LocalTaskOptions::default(), &given).unwrap();
        let expected = TopologyOptions {
            processors: vec![vec![0, 2, 3]],
            worker_count: Some(3),
            nodes: NodeSelection::Ids(vec![0, 2]),
            max_workers: 5,
            performance: Performance::Low,
            distribution: Distribution::Compact,
            snapshot: None,
        };
        assert_eq!(set.selection, expected);
        assert_eq!((set.worker.spin, set.worker.stack_bytes), (Duration::from_micros(3), 4 << 20));
        assert_eq!((set.worker_local_memory, set.abort_on_failure), (Some(8192), true));
        let latency = configured(set, &[("task_topology_favor", "latency")]).unwrap().selection;
        assert_eq!((latency.performance, latency.distribution), (Performance::High, Distribution::Compact));
    }

    #[test]
    fn both_devices_have_the_size_of_the_stack() {
        let given = [("task_worker_stack_size", "4194304")];
        let options = Driver::new(LocalSyncDriver).configure(OptionSet::default(), &given).unwrap();
        assert_eq!(options.get::<LocalSyncOptions>().stack_bytes, 4 << 20);
    }

    #[test]
    fn a_parameter_that_selects_cores_overrides_lists_and_numbers() {
        let mut flags = LocalTaskOptions::default();
        flags.selection.processors = vec![vec![1]];
        flags.selection.worker_count = Some(2);
        flags.selection.max_workers = 7;
        for (key, value) in [("task_topology_nodes", "all"), ("task_topology_mode", "physical_cores")] {
            let set = configured(flags.clone(), &[(key, value)]).unwrap().selection;
            assert_eq!((set.processors.len(), set.worker_count, set.max_workers), (0, None, 7), "{key}");
        }
        let set = configured(flags, &[("task_topology_group_count", "0")]).unwrap().selection;
        assert_eq!((set.processors.len(), set.worker_count), (0, None));
    }

    #[test]
    fn a_number_of_workers_of_minus_one_is_the_maximum() {
        let given = [("task_topology_max_group_count", "-1"), ("task_topology_group_count", "-1")];
        let set = configured(LocalTaskOptions::default(), &given).unwrap().selection;
        assert_eq!((set.max_workers, set.worker_count), (MAX_WORKERS, Some(MAX_WORKERS)));
        assert!(configured(LocalTaskOptions::default(), &[("task_topology_group_count", "-2")]).is_err());
    }

    #[test]
    fn the_order_in_the_uri_does_not_matter() {
        let mut given = [
            ("task_topology_cpu_ids", "0,2"),
            ("task_topology_group_count", "3"),
            ("task_topology_nodes", "all"),
            ("task_topology_distribution", "compact"),
            ("task_topology_favor", "throughput"),
        ];
        let first = configured(LocalTaskOptions::default(), &given).unwrap().selection;
        assert_eq!((first.processors.len(), first.worker_count), (1, Some(3)));
        assert_eq!(first.distribution, Distribution::Scatter);
        given.reverse();
        assert_eq!(configured(LocalTaskOptions::default(), &given).unwrap().selection, first);
    }

    #[test]
    fn a_device_with_other_workers_does_not_share() {
        let mut shared = LocalTaskOptions::default();
        shared.topology = Some(Topology::with_workers(1).unwrap());
        shared.workers = Some(shared.start_workers().unwrap());
        let shares = |key, value| configured(shared.clone(), &[(key, value)]).unwrap().workers.is_some();
        assert!(shares("task_worker_local_memory", "4096") && shares("task_abort_on_failure", "false"));
        assert!(!shares("task_topology_cpu_ids", "0") && !shares("task_worker_spin_us", "0"));
        assert!(configured(shared.clone(), &[("task_topology_nodes", "all")]).unwrap().topology.is_none());
    }

    #[test]
    fn wrong_values_are_refused() {
        for (key, value, expected) in [
            ("task_topology_cpu_ids", "", "numbers of logical CPUs, such as 0,2 or 0-3"),
            ("task_topology_cpu_ids", "1-0", "numbers of logical CPUs, such as 0,2 or 0-3"),
            ("task_topology_group_count", "-2", "an integer from -1 to 2147483647"),
            ("task_topology_max_group_count", "2147483648", "an integer from -1 to 2147483647"),
            ("task_topology_mode", "cores", "physical_cores"),
            ("task_topology_nodes", "some", "current, numa, all, or ids of NUMA nodes such as 0,2 or 0-3"),
            ("task_topology_performance_level", "fast", "any, low, efficiency, high or performance"),
            ("task_topology_distribution", "", "compact or scatter"),
            ("task_topology_favor", "speed", "latency, throughput or efficiency"),
            ("task_worker_spin_us", "1.5", "an integer from 0 to 2147483647"),
            ("task_worker_stack_size", "", "an integer from 0 to 2147483647"),
            ("task_worker_local_memory", "4KiB", "an integer from 0 to 2147483647"),
            ("task_abort_on_failure", "yes", "true or false"),
        ] {
            let error = configured(LocalTaskOptions::default(), &[(key, value)]).err().unwrap();
            assert_eq!(error.code(), StatusCode::InvalidArgument);
            let message = format!("unexpected value '{value}' (expected {expected})");
            assert_eq!(error.message(), message, "{key}");
        }
    }
}
