//! The parameters of the URIs of `local-task`, with the names and values of its flags.

use std::time::Duration;

use rehal_base::{Error, Result};
use rehal_hal::{DeviceParameter, OptionSet};

use crate::LocalTaskOptions;
use crate::topology::{
    Distribution, MAX_WORKERS, NodeSelection, PRESETS, Performance, TopologyOptions, parse_ids,
};

/// How the workers of the device are selected, how they are started, and what it does with them.
///
/// Parameters override options one by one. One that selects workers by their cores also overrides a list of
/// CPUs or a number of workers of the flags, which would leave it without effect. Of parameters of one URI, a
/// list of CPUs overrides a number, a number the rest, and a preset what it consists of, as of flags:
/// therefore they are set in this order.
pub(crate) const TASK_PARAMETERS: [DeviceParameter; 12] = [
    DeviceParameter {
        keys: &["task_topology_mode"],
        set: |options, value| select_cores(options, |_| choice(value, &[("physical_cores", ())])),
    },
    DeviceParameter {
        keys: &["task_topology_nodes"],
        set: |options, value| {
            select_cores(options, |selection| {
                let nodes = NodeSelection::parse(value);
                selection.nodes =
                    nodes.ok_or_else(|| wrong(value, "current, numa, all, or ids such as 0,2 or 0-3"))?;
                Ok(())
            })
        },
    },
    DeviceParameter {
        keys: &["task_topology_max_group_count"],
        set: |options, value| {
            select_cores(options, |selection| {
                selection.max_workers = worker_count(value)?;
                Ok(())
            })
        },
    },
    DeviceParameter {
        keys: &["task_topology_performance_level"],
        set: |options, value| {
            select_cores(options, |selection| {
                selection.performance = choice(value, &Performance::NAMES)?;
                Ok(())
            })
        },
    },
    DeviceParameter {
        keys: &["task_topology_distribution"],
        set: |options, value| {
            select_cores(options, |selection| {
                selection.distribution = choice(value, &Distribution::NAMES)?;
                Ok(())
            })
        },
    },
    DeviceParameter {
        keys: &["task_topology_favor"],
        set: |options, value| {
            select_cores(options, |selection| {
                if let Some(preset) = choice(value, &PRESETS)? {
                    (selection.performance, selection.distribution) = preset;
                }
                Ok(())
            })
        },
    },
    DeviceParameter {
        keys: &["task_topology_group_count"],
        set: |options, value| {
            select(options, |selection| {
                selection.processors.clear();
                selection.worker_count = Some(worker_count(value)?).filter(|count| *count > 0);
                Ok(())
            })
        },
    },
    DeviceParameter {
        keys: &["task_topology_cpu_ids"],
        set: |options, value| {
            select(options, |selection| {
                let processors = parse_ids(value).ok_or_else(|| wrong(value, "CPUs such as 0,2 or 0-3"))?;
                selection.processors = vec![processors];
                Ok(())
            })
        },
    },
    DeviceParameter {
        keys: &["task_worker_spin_us"],
        set: |options, value| {
            set(options, |it| {
                it.workers = None;
                it.worker.spin = Duration::from_micros(number(value)? as u64);
                Ok(())
            })
        },
    },
    DeviceParameter {
        keys: &["task_worker_stack_size"],
        set: |options, value| {
            set(options, |it| {
                it.workers = None;
                it.worker.stack_bytes = number(value)?;
                Ok(())
            })
        },
    },
    DeviceParameter {
        keys: &["task_worker_local_memory"],
        set: |options, value| {
            set(options, |it| {
                it.worker_local_memory = Some(number(value)? as u64).filter(|bytes| *bytes > 0);
                Ok(())
            })
        },
    },
    DeviceParameter {
        keys: &["task_abort_on_failure"],
        set: |options, value| {
            set(options, |it| {
                it.abort_on_failure = choice(value, &[("true", true), ("false", false)])?;
                Ok(())
            })
        },
    },
];

/// Sets an option to the value of a parameter.
fn set(options: OptionSet, set: impl FnOnce(&mut LocalTaskOptions) -> Result<()>) -> Result<OptionSet> {
    let mut of_driver: LocalTaskOptions = options.get();
    set(&mut of_driver)?;
    Ok(options.with(of_driver))
}

/// The same for an option of the selection: the device has workers of its own.
fn select(options: OptionSet, select: impl FnOnce(&mut TopologyOptions) -> Result<()>) -> Result<OptionSet> {
    set(options, |it| {
        (it.workers, it.topology) = (None, None);
        select(&mut it.selection)
    })
}

/// The same for one that selects cores.
fn select_cores(
    options: OptionSet,
    set: impl FnOnce(&mut TopologyOptions) -> Result<()>,
) -> Result<OptionSet> {
    select(options, |selection| {
        selection.processors.clear();
        selection.worker_count = None;
        set(selection)
    })
}

/// A number of workers; -1 is the maximum, as of flags.
fn worker_count(value: &str) -> Result<usize> {
    let expected = || wrong(value, &format!("-1 or a number up to {}", i32::MAX));
    if value == "-1" { Ok(MAX_WORKERS) } else { number(value).map_err(|_| expected()) }
}

/// A number in the range of the flags.
fn number(value: &str) -> Result<usize> {
    let number = value.parse::<i32>().ok().and_then(|number| usize::try_from(number).ok());
    number.ok_or_else(|| wrong(value, &format!("a number up to {}", i32::MAX)))
}

fn choice<T: Copy>(value: &str, choices: &[(&str, T)]) -> Result<T> {
    let found = choices.iter().find(|(name, _)| *name == value);
    found.map(|(_, choice)| *choice).ok_or_else(|| {
        let names: Vec<_> = choices.iter().map(|(name, _)| *name).filter(|name| !name.is_empty()).collect();
        wrong(value, &names.join(", "))
    })
}

fn wrong(value: &str, expected: &str) -> Error {
    Error::invalid_argument(format!("unexpected value '{value}' (expected {expected})"))
}

#[cfg(test)]
mod tests {
    use rehal_base::StatusCode;
    use rehal_hal::Driver;

    use super::*;
    use crate::{LocalTaskDriver, Topology};

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
            ("task_topology_cpu_ids", "", "CPUs such as 0,2 or 0-3"),
            ("task_topology_cpu_ids", "1-0", "CPUs such as 0,2 or 0-3"),
            ("task_topology_group_count", "-2", "-1 or a number up to 2147483647"),
            ("task_topology_max_group_count", "2147483648", "-1 or a number up to 2147483647"),
            ("task_topology_mode", "cores", "physical_cores"),
            ("task_topology_nodes", "some", "current, numa, all, or ids such as 0,2 or 0-3"),
            ("task_topology_performance_level", "fast", "any, low, efficiency, high, performance"),
            ("task_topology_distribution", "", "compact, scatter"),
            ("task_topology_favor", "speed", "latency, throughput, efficiency"),
            ("task_worker_spin_us", "1.5", "a number up to 2147483647"),
            ("task_worker_stack_size", "", "a number up to 2147483647"),
            ("task_worker_local_memory", "4KiB", "a number up to 2147483647"),
            ("task_abort_on_failure", "yes", "true, false"),
        ] {
            let error = configured(LocalTaskOptions::default(), &[(key, value)]).err().unwrap();
            assert_eq!(error.code(), StatusCode::InvalidArgument);
            let message = format!("unexpected value '{value}' (expected {expected})");
            assert_eq!(error.message(), message, "{key}");
        }
    }
}
