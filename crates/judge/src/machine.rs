//! Other users of the machine while a benchmark ran, from `/proc/stat`
//! (<https://man7.org/linux/man-pages/man5/proc_stat.5.html>) and `cpu.stat` of the control group
//! (<https://docs.kernel.org/admin-guide/cgroup-v2.html>).

use std::fs;
use std::path::{Path, PathBuf};

use rehal_base::platform::clock_ticks_per_second;

/// A snapshot of the system's counters, which are monotonic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Snapshot {
    /// Wall-clock time.
    pub(crate) real_ns: u64,
    /// CPU time of this process.
    pub(crate) own_ns: u64,
    /// CPU time of all processes and the kernel.
    pub(crate) busy_ns: u64,
    /// CPU time that the hypervisor gave to others while a process here was ready to run.
    pub(crate) steal_ns: u64,
    /// Time for which the control group's CPU quota stopped threads.
    pub(crate) throttled_ns: u64,
    /// How often a core lowered its clock because of heat.
    pub(crate) overheated: u64,
}

/// Where the counters of this system are.
pub(crate) struct Machine {
    stat: PathBuf,
    /// `cpu.stat` of the process's control group (version 2).
    cgroup: Option<PathBuf>,
    thermal: Vec<PathBuf>,
    ticks_per_second: u64,
}

impl Machine {
    pub(crate) fn here() -> Self {
        Self::at(Path::new("/"), clock_ticks_per_second())
    }

    fn at(root: &Path, ticks_per_second: u64) -> Self {
        let group = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
        let group = group.lines().find_map(|line| line.strip_prefix("0::/"));
        let cpus = fs::read_dir(root.join("sys/devices/system/cpu")).into_iter().flatten().flatten();
        let counts = cpus.map(|cpu| cpu.path().join("thermal_throttle/core_throttle_count"));
        Self {
            stat: root.join("proc/stat"),
            cgroup: group.map(|group| root.join("sys/fs/cgroup").join(group).join("cpu.stat")),
            thermal: counts.filter(|path| path.exists()).collect(),
            ticks_per_second: ticks_per_second.max(1),
        }
    }

    /// `None` if the system does not say how its CPUs were used, as outside of Linux.
    pub(crate) fn snapshot(&self, real_ns: u64, own_ns: u64) -> Option<Snapshot> {
        let stat = fs::read_to_string(&self.stat).ok()?;
        // user nice system idle iowait irq softirq steal; user includes guests.
        let ticks: Vec<u64> = stat
            .lines()
            .next()?
            .strip_prefix("cpu ")?
            .split_whitespace()
            .map_while(|it| it.parse().ok())
            .collect();
        let &[user, nice, system, _idle, _iowait, irq, softirq, steal, ..] = ticks.as_slice() else {
            return None;
        };
        let ns = |ticks: u64| (u128::from(ticks) * 1_000_000_000 / u128::from(self.ticks_per_second)) as u64;
        let throttled_us = self.cgroup.as_ref().and_then(|path| field(path, "throttled_usec")).unwrap_or(0);
        let counts =
            self.thermal.iter().filter_map(|path| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok());
        Some(Snapshot {
            real_ns,
            own_ns,
            busy_ns: ns(user
                .saturating_add(nice)
                .saturating_add(system)
                .saturating_add(irq)
                .saturating_add(softirq)),
            steal_ns: ns(steal),
            throttled_ns: throttled_us.saturating_mul(1000),
            overheated: counts.fold(0, u64::saturating_add),
        })
    }
}

/// The number after `name` in a file of lines `name number`.
fn field(path: &Path, name: &str) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}

/// The changes between snapshots, summed over the measured runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Interference {
    total: Snapshot,
}

impl Interference {
    /// Adds what happened between two snapshots.
    pub(crate) fn add(&mut self, before: Snapshot, after: Snapshot) {
        let add = |total: &mut u64, of: fn(&Snapshot) -> u64| {
            *total = total.saturating_add(of(&after).saturating_sub(of(&before)));
        };
        add(&mut self.total.real_ns, |it| it.real_ns);
        add(&mut self.total.own_ns, |it| it.own_ns);
        add(&mut self.total.busy_ns, |it| it.busy_ns);
        add(&mut self.total.steal_ns, |it| it.steal_ns);
        add(&mut self.total.throttled_ns, |it| it.throttled_ns);
        add(&mut self.total.overheated, |it| it.overheated);
    }

    /// Adds what happened in another period.
    pub(crate) fn merge(&mut self, other: Self) {
        self.add(Snapshot::default(), other.total);
    }

    /// The sums of what happened.
    pub(crate) fn total(&self) -> Snapshot {
        self.total
    }

    /// The possible distortions of the times.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let Snapshot { real_ns, own_ns, busy_ns, steal_ns, throttled_ns, overheated } = self.total;
        let mut all = Vec::new();
        // The counters of the kernel have a resolution of 10 ms.
        if real_ns >= MIN_REAL_NS {
            let share = |ns: u64| ns as f64 / real_ns as f64;
            if share(steal_ns) >= STEAL_LIMIT {
                all.push(format!(
                    "the hypervisor gave {:.0} % of a CPU to other machines (steal time) while this ran",
                    100.0 * share(steal_ns)
                ));
            }
            let others = share(busy_ns.saturating_sub(own_ns));
            if others >= LOAD_LIMIT {
                all.push(format!("other processes used {others:.1} CPUs while this ran"));
            }
        }
        if throttled_ns > 0 {
            all.push(format!(
                "the CPU quota of the control group stopped this process for {:.3} s",
                throttled_ns as f64 / 1e9
            ));
        }
        if overheated > 0 {
            all.push(format!("the cores lowered their clock {overheated} times because of heat"));
        }
        all
    }
}

/// Shorter measurements are too noisy to estimate the load.
const MIN_REAL_NS: u64 = 200_000_000;
/// Warning threshold: steal time as a fraction of wall-clock time.
const STEAL_LIMIT: f64 = 0.01;
/// Warning threshold: CPUs used by other processes.
const LOAD_LIMIT: f64 = 0.1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_counters_of_linux() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        assert_eq!(Machine::at(root.path(), 100).snapshot(1, 2), None);
        write("proc/stat", "cpu  100 10 20 5000 30 4 6 7 0 0\ncpu0 1 2 3\n");
        write("proc/self/cgroup", "1:cpu:/old\n0::/a/b\n");
        write("sys/fs/cgroup/a/b/cpu.stat", "usage_usec 5\nthrottled_usec 42\n");
        write("sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count", "3\n");
        write("sys/devices/system/cpu/cpu1/thermal_throttle/core_throttle_count", "4\n");
        let want = Snapshot {
            real_ns: 1,
            own_ns: 2,
            busy_ns: 1_400_000_000,
            steal_ns: 70_000_000,
            throttled_ns: 42_000,
            overheated: 7,
        };
        assert_eq!(Machine::at(root.path(), 100).snapshot(1, 2), Some(want));
        for hostile in ["", "cpu", "cpu  1 2 3", "cpu  18446744073709551615 x", "intr 1"] {
            write("proc/stat", hostile);
            assert_eq!(Machine::at(root.path(), 100).snapshot(1, 2), None, "{hostile}");
        }
        write("proc/stat", "cpu  18446744073709551615 18446744073709551615 1 1 1 1 1 1\n");
        assert!(Machine::at(root.path(), 1).snapshot(1, 2).is_some());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn reads_this_machine() {
        let machine = Machine::here();
        let first = machine.snapshot(0, 0).unwrap();
        let second = machine.snapshot(1, 0).unwrap();
        assert!(first.busy_ns > 0 && second.busy_ns >= first.busy_ns);
    }

    #[test]
    fn warns_of_neighbours_above_the_limits() {
        let second = 1_000_000_000;
        let warnings = |after: Snapshot| {
            let mut interference = Interference::default();
            interference.add(Snapshot::default(), after);
            interference.warnings()
        };
        let quiet = Snapshot {
            real_ns: second,
            own_ns: second,
            busy_ns: second + second / 20,
            ..Snapshot::default()
        };
        assert_eq!(warnings(quiet), [""; 0]);
        let loaded = Snapshot { busy_ns: second + second / 2, steal_ns: second / 50, ..quiet };
        let found = warnings(loaded);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("2 % of a CPU") && found[1].contains("used 0.5 CPUs"), "{found:?}");
        assert_eq!(warnings(Snapshot { real_ns: second / 10, ..loaded }), [""; 0]);
        let found = warnings(Snapshot { throttled_ns: 5_000_000, overheated: 2, ..quiet });
        assert!(found[0].contains("0.005 s") && found[1].contains("2 times"), "{found:?}");
    }
}
