use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::clock::{Clock, SystemClock};
use crate::machine::{Interference, Snapshot};

/// The conditions of the machine during a measurement. `None` is what the system does not say.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Conditions {
    /// The lowest and the highest clock frequency seen of the CPU that measured, in hertz.
    pub frequency_hz: Option<(u64, u64)>,
    /// CPU time that the hypervisor gave to other machines, as a fraction of the time of the measurement.
    pub steal: Option<f64>,
    /// CPUs that other processes used, on average.
    pub other_cpus: Option<f64>,
    /// How often the system moved a thread of this process to another CPU.
    pub migrations: Option<u64>,
    /// The possible distortions of the times, as sentences.
    pub warnings: Vec<String>,
}

/// Observes the machine during a measurement.
pub struct Monitor {
    clock: SystemClock,
    begun: Option<Snapshot>,
    system: System,
    frequency_hz: Option<(u64, u64)>,
    migrations: Option<u64>,
}

impl Monitor {
    /// Begins to observe.
    pub fn begin() -> Self {
        let (clock, system) = (SystemClock::new(), System { root: "/".into() });
        let mut this = Self {
            begun: clock.machine(),
            migrations: system.migrations(),
            clock,
            system,
            frequency_hz: None,
        };
        this.sample();
        this
    }

    /// Notes the clock frequency of now. Call it between the parts of a measurement.
    pub fn sample(&mut self) {
        if let Some(now) = self.system.frequency_hz() {
            let (low, high) = self.frequency_hz.unwrap_or((now, now));
            self.frequency_hz = Some((low.min(now), high.max(now)));
        }
    }

    /// Ends to observe.
    pub fn end(mut self) -> Conditions {
        self.sample();
        let mut conditions = Conditions {
            frequency_hz: self.frequency_hz,
            migrations: self
                .migrations
                .zip(self.system.migrations())
                .map(|(before, after)| after.saturating_sub(before)),
            ..Conditions::default()
        };
        if let (Some(before), Some(after)) = (self.begun, self.clock.machine()) {
            let mut interference = Interference::default();
            interference.add(before, after);
            let Snapshot { real_ns, own_ns, busy_ns, steal_ns, .. } = interference.total();
            let share = |ns: u64| (real_ns != 0).then(|| ns as f64 / real_ns as f64);
            conditions.steal = share(steal_ns);
            conditions.other_cpus = share(busy_ns.saturating_sub(own_ns));
            conditions.warnings = interference.warnings();
        }
        conditions
    }
}

/// The figures of Linux for this process and its CPU
/// (<https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html>).
struct System {
    root: PathBuf,
}

impl System {
    fn read(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.root.join(path)).ok()
    }

    /// The clock frequency of the CPU that this thread runs on.
    fn frequency_hz(&self) -> Option<u64> {
        let stat = self.read("proc/thread-self/stat")?;
        // The name, in parentheses, may contain spaces. The CPU is field 39, and the name is field 2.
        let cpu: u32 = stat.rsplit_once(')')?.1.split_whitespace().nth(36)?.parse().ok()?;
        let scaled = self.read(&format!("sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq"));
        match scaled.and_then(|text| text.trim().parse::<u64>().ok()) {
            Some(khz) => khz.checked_mul(1000),
            None => frequency_in(&self.read("proc/cpuinfo")?, cpu),
        }
    }

    /// How often the threads of this process have been moved to other CPUs.
    fn migrations(&self) -> Option<u64> {
        let tasks = fs::read_dir(self.root.join("proc/self/task")).ok()?;
        // A thread may end meanwhile.
        let counts = tasks.flatten().filter_map(|task| migrations_in(&task.path().join("sched")));
        counts.reduce(u64::saturating_add)
    }
}

/// The frequency of a CPU in the text of `cpuinfo`.
fn frequency_in(text: &str, cpu: u32) -> Option<u64> {
    let value = |line: &str, name: &str| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim().to_owned())
    };
    let of_cpu = text.lines().skip_while(|line| value(line, "processor") != Some(cpu.to_string()));
    let mhz: f64 = of_cpu
        .skip(1)
        .map_while(|line| match value(line, "processor") {
            Some(_) => None,
            None => Some(value(line, "cpu MHz")),
        })
        .flatten()
        .next()?
        .parse()
        .ok()?;
    (mhz > 0.0 && mhz < 1e6).then_some((mhz * 1e6) as u64)
}

fn migrations_in(path: &Path) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find(|line| line.starts_with("se.nr_migrations "))?;
    line.rsplit_once(':')?.1.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_linux_says() {
        let root = tempfile::tempdir().unwrap();
        let system = System { root: root.path().into() };
        assert_eq!((system.frequency_hz(), system.migrations()), (None, None));
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let before = "0 ".repeat(36);
        write("proc/thread-self/stat", &format!("77 (a ) name) {before}1 0 0\n"));
        let cpuinfo =
            "processor\t: 0\ncpu MHz\t\t: 1000.5\n\nprocessor\t: 1\nflags : x\ncpu MHz\t\t: 2400.000\n";
        write("proc/cpuinfo", cpuinfo);
        assert_eq!(system.frequency_hz(), Some(2_400_000_000));
        write("sys/devices/system/cpu/cpu1/cpufreq/scaling_cur_freq", "3100000\n");
        assert_eq!(system.frequency_hz(), Some(3_100_000_000));
        write("sys/devices/system/cpu/cpu1/cpufreq/scaling_cur_freq", "<unknown>\n");
        write("proc/cpuinfo", "processor : 0\ncpu MHz : 1\nprocessor : 1\nprocessor : 2\ncpu MHz : 5\n");
        assert_eq!(system.frequency_hz(), None);
        for hostile in ["", "77", "77 (a) 1 2", "77 (a"] {
            write("proc/thread-self/stat", hostile);
            assert_eq!(system.frequency_hz(), None, "{hostile}");
        }
        write("proc/self/task/1/sched", "a (1, #threads: 2)\nse.nr_migrations   :    3\n");
        write("proc/self/task/2/sched", "se.nr_migrations   :    4\nnr_switches : 9\n");
        write("proc/self/task/3/sched", "nothing\n");
        assert_eq!(system.migrations(), Some(7));
    }

    #[test]
    fn a_measurement_has_a_range_of_frequencies() {
        let mut monitor = Monitor::begin();
        monitor.frequency_hz = Some((1, u64::MAX));
        monitor.migrations = None;
        let conditions = monitor.end();
        assert_eq!((conditions.frequency_hz, conditions.migrations), (Some((1, u64::MAX)), None));
    }
}
