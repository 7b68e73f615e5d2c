use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::Path,
};

use crate::{Options, number::general};

/// The machine and the program, as printed before the first run.
#[derive(Clone, Debug, PartialEq)]
pub struct Context {
    /// Local date and time with its offset, RFC 3339.
    pub date: String,
    /// The machine's name.
    pub host_name: String,
    /// `argv[0]`.
    pub executable: Option<String>,
    /// Number of online CPUs.
    pub num_cpus: u64,
    /// CPU clock in MHz; 0 if unknown.
    pub mhz_per_cpu: f64,
    /// Whether CPU frequency scaling is enabled; `None` if unknown.
    pub cpu_scaling_enabled: Option<bool>,
    /// Whether ASLR is enabled; `None` if unknown.
    pub aslr_enabled: Option<bool>,
    /// The caches of the first CPU.
    pub caches: Vec<Cache>,
    /// Load averages over 1, 5 and 15 minutes; empty if unknown.
    pub load_avg: Vec<f64>,
    /// Whether this program was built without optimization.
    pub debug_build: bool,
    /// Key-value pairs added by the user.
    pub extra: BTreeMap<String, String>,
    /// Width of the console's name column.
    pub name_width: usize,
    /// Counters of runs that are already known: a CSV report has columns for them.
    pub counters: BTreeSet<String>,
}

/// A cache of a CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    /// `Data`, `Instruction` or `Unified`.
    pub kind: String,
    /// Level: 1, 2, 3 …
    pub level: u64,
    /// Its size.
    pub size_bytes: u64,
    /// Number of CPUs that share it.
    pub num_sharing: u64,
}

/// The library and its version in JSON reports.
pub(crate) const LIBRARY_VERSION: &str = concat!("rehal-", env!("CARGO_PKG_VERSION"));

impl Context {
    /// Queries the system; unknown values are omitted.
    pub fn gather(options: &Options, name_width: usize) -> Self {
        let cpus = Path::new(system::CPUS);
        let num_cpus = system::num_cpus();
        let cpu_scaling_enabled = system::cpu_scaling(cpus, num_cpus);
        let mut extra = options.context.clone();
        if options.dry_run {
            extra.entry("dry_run".into()).or_insert_with(|| "true".into());
        }
        Self {
            date: jiff::Zoned::now().strftime("%Y-%m-%dT%H:%M:%S%:z").to_string(),
            host_name: system::host_name(),
            executable: options.executable.clone(),
            num_cpus,
            mhz_per_cpu: system::mhz_per_cpu(cpus, cpu_scaling_enabled).unwrap_or(0.0),
            cpu_scaling_enabled,
            aslr_enabled: system::aslr(),
            caches: system::caches(&cpus.join("cpu0/cache")),
            load_avg: rehal_base::load_average().map_or_else(Vec::new, Vec::from),
            debug_build: cfg!(debug_assertions),
            extra,
            name_width,
            counters: BTreeSet::new(),
        }
    }

    /// Writes the head of console and CSV reports.
    pub(crate) fn write(&self, out: &mut dyn io::Write) -> io::Result<()> {
        writeln!(out, "{}", self.date)?;
        if let Some(executable) = &self.executable {
            writeln!(out, "Running {executable}")?;
        }
        // The space before the plural "s" is in all reports of Google Benchmark, so scripts may expect it.
        let plural = if self.num_cpus > 1 { "s" } else { "" };
        writeln!(out, "Run on ({} X {} MHz CPU {plural})", self.num_cpus, general(self.mhz_per_cpu))?;
        if !self.caches.is_empty() {
            writeln!(out, "CPU Caches:")?;
        }
        for Cache { kind, level, size_bytes, num_sharing } in &self.caches {
            write!(out, "  L{level} {kind} {} KiB", size_bytes / 1024)?;
            match self.num_cpus.checked_div(*num_sharing) {
                Some(count) => writeln!(out, " (x{count})")?,
                None => writeln!(out)?,
            }
        }
        if !self.load_avg.is_empty() {
            let loads: Vec<String> = self.load_avg.iter().map(|load| format!("{load:.2}")).collect();
            writeln!(out, "Load Average: {}", loads.join(", "))?;
        }
        for (key, value) in &self.extra {
            writeln!(out, "{key}: {value}")?;
        }
        for warning in self.warnings() {
            writeln!(out, "***WARNING*** {warning}")?;
        }
        Ok(())
    }

    /// Conditions that may distort the results, in Google Benchmark's words, which scripts may expect.
    fn warnings(&self) -> impl Iterator<Item = &'static str> {
        let scaling = "CPU scaling is enabled, the benchmark real time measurements may be noisy and will incur \
                       extra overhead.";
        let aslr = "ASLR is enabled, the results may have unreproducible noise in them.";
        let debug = "Library was built as DEBUG. Timings may be affected.";
        [
            (self.cpu_scaling_enabled == Some(true), scaling),
            (self.aslr_enabled == Some(true), aslr),
            (self.debug_build, debug),
        ]
        .into_iter()
        .filter_map(|(applies, words)| applies.then_some(words))
    }
}

/// The system's values from `/sys` and `/proc` on Linux. On other systems the files are missing, so the
/// values are unknown.
pub(crate) mod system {
    use super::*;

    pub(super) const CPUS: &str = "/sys/devices/system/cpu";

    pub(crate) fn host_name() -> String {
        rehal_base::platform::host_name()
    }

    pub(crate) fn num_cpus() -> u64 {
        let online = read(&Path::new(CPUS).join("online")).and_then(|list| count_in_list(&list));
        online.or_else(|| Some(std::thread::available_parallelism().ok()?.get() as u64)).unwrap_or(1)
    }

    /// Counts a list of CPUs such as `0-3,8`.
    pub(super) fn count_in_list(list: &str) -> Option<u64> {
        let counts = list.split(',').map(|part| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
            last.checked_sub(first)?.checked_add(1)
        });
        counts.sum::<Option<u64>>().filter(|&count| count > 0)
    }

    /// Any governor but `performance` scales; a machine without governors does not.
    pub(super) fn cpu_scaling(cpus: &Path, num_cpus: u64) -> Option<bool> {
        let governor = |cpu| read(&cpus.join(format!("cpu{cpu}/cpufreq/scaling_governor")));
        cpus.exists().then(|| (0..num_cpus).filter_map(governor).any(|name| name != "performance"))
    }

    /// The most reliable frequency that the kernel reports: that of the time stamp counter, the fixed one,
    /// the highest, and finally that of `/proc/cpuinfo`.
    pub(super) fn mhz_per_cpu(cpus: &Path, scaling: Option<bool>) -> Option<f64> {
        let khz = |name: &str| read(&cpus.join("cpu0").join(name))?.parse::<f64>().ok();
        let fixed = || if scaling == Some(false) { khz("cpufreq/scaling_cur_freq") } else { None };
        khz("tsc_freq_khz")
            .or_else(fixed)
            .or_else(|| khz("cpufreq/cpuinfo_max_freq"))
            .map(|khz| khz / 1000.0)
            .or_else(|| mhz_in_cpuinfo(&read(Path::new("/proc/cpuinfo"))?))
    }

    /// The first `cpu MHz`. Not `BogoMIPS`, which counts something else.
    pub(super) fn mhz_in_cpuinfo(text: &str) -> Option<f64> {
        let mhz = |line: &str| {
            let (name, value) = line.split_once(':')?;
            let mhz = value.trim().parse::<f64>().ok()?;
            (name.trim() == "cpu MHz" && mhz.is_finite() && mhz > 0.0).then_some(mhz)
        };
        text.lines().find_map(mhz)
    }

    /// `ADDR_NO_RANDOMIZE` (0x0040000) in the process's personality disables it.
    pub(super) fn aslr() -> Option<bool> {
        let personality = read(Path::new("/proc/self/personality"))?;
        Some(u32::from_str_radix(&personality, 16).ok()? & 0x004_0000 == 0)
    }

    /// The caches in `cpu0/cache`, up to the first that is missing or malformed.
    pub(super) fn caches(directory: &Path) -> Vec<Cache> {
        // Far above real machines; bounds the work on an unusual file system.
        (0..64).map_while(|index| cache(&directory.join(format!("index{index}")))).collect()
    }

    fn cache(directory: &Path) -> Option<Cache> {
        let size = read(&directory.join("size"))?;
        let size_bytes = match size.strip_suffix('K') {
            Some(kib) => kib.parse::<u64>().ok()?.checked_mul(1024)?,
            None => size.parse().ok()?,
        };
        Some(Cache {
            kind: read(&directory.join("type"))?,
            level: read(&directory.join("level"))?.parse().ok()?,
            size_bytes,
            num_sharing: bits_in_map(&read(&directory.join("shared_cpu_map"))?)?,
        })
    }

    /// Counts the bits of a CPU mask such as `ff,ffffffff`.
    pub(super) fn bits_in_map(map: &str) -> Option<u64> {
        map.split(',').map(|group| Some(u64::from_str_radix(group, 16).ok()?.count_ones() as u64)).sum()
    }

    fn read(path: &Path) -> Option<String> {
        let text = fs::read_to_string(path).ok()?;
        Some(text.trim().to_string()).filter(|text| !text.is_empty())
    }
}

#[cfg(test)]
pub(crate) mod samples {
    use super::*;

    /// The machine that produced a report of the pinned release.
    pub(crate) fn context() -> Context {
        let cache = |kind: &str, level, size_kib: u64, num_sharing| Cache {
            kind: kind.into(),
            level,
            size_bytes: size_kib * 1024,
            num_sharing,
        };
        Context {
            date: "2026-11-21T11:17:28+00:00".into(),
            host_name: "vm".into(),
            executable: Some("bin/iree-benchmark-replay".into()),
            num_cpus: 2,
            mhz_per_cpu: 2300.0,
            cpu_scaling_enabled: Some(false),
            aslr_enabled: Some(true),
            caches: vec![
                cache("Data", 1, 48, 1),
                cache("Instruction", 1, 32, 1),
                cache("Unified", 2, 2048, 1),
                cache("Unified", 3, 266240, 2),
            ],
            load_avg: vec![0.327148, 0.111328, 0.0449219],
            debug_build: false,
            extra: BTreeMap::new(),
            name_width: "BM_replay/process_time/real_time".len(),
            counters: BTreeSet::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{samples::context, *};

    fn written(context: &Context) -> String {
        let mut out = Vec::new();
        context.write(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn output_matches_the_reference() {
        let want = "\
2026-11-21T11:17:28+00:00
Running bin/iree-benchmark-replay
Run on (2 X 2300 MHz CPU s)
CPU Caches:
  L1 Data 48 KiB (x2)
  L1 Instruction 32 KiB (x2)
  L2 Unified 2048 KiB (x2)
  L3 Unified 266240 KiB (x1)
Load Average: 0.33, 0.11, 0.04
***WARNING*** ASLR is enabled, the results may have unreproducible noise in them.
";
        assert_eq!(written(&context()), want);
    }

    #[test]
    fn unknown_values_are_omitted_and_user_context_is_added() {
        let context = Context {
            executable: None,
            num_cpus: 1,
            mhz_per_cpu: 2899.5,
            cpu_scaling_enabled: Some(true),
            aslr_enabled: None,
            caches: Vec::new(),
            load_avg: Vec::new(),
            debug_build: true,
            extra: BTreeMap::from([("c".into(), "d".into()), ("a".into(), "b".into())]),
            ..context()
        };
        let want = "\
2026-11-21T11:17:28+00:00
Run on (1 X 2899.5 MHz CPU )
a: b
c: d
***WARNING*** CPU scaling is enabled, the benchmark real time measurements may be noisy and will incur extra \
overhead.
***WARNING*** Library was built as DEBUG. Timings may be affected.
";
        assert_eq!(written(&context), want);
    }

    #[test]
    fn gathers_from_this_machine() {
        let mut options = Options { dry_run: true, ..Options::default() };
        options.context.insert("a".into(), "b".into());
        let context = Context::gather(&options, 10);
        assert!(context.num_cpus >= 1);
        assert!(!context.host_name.is_empty());
        assert_eq!(context.date.len(), "2026-11-21T11:17:28+00:00".len(), "{}", context.date);
        assert_eq!(context.extra["dry_run"], "true");
        assert_eq!(context.extra["a"], "b");
    }

    #[test]
    fn reads_what_linux_writes() {
        assert_eq!(system::count_in_list("0-3,8"), Some(5));
        assert_eq!(system::count_in_list("0"), Some(1));
        for wrong in ["", "3-0", "a", "0-18446744073709551615"] {
            assert_eq!(system::count_in_list(wrong), None, "{wrong}");
        }
        assert_eq!(system::bits_in_map("ff,00000003"), Some(10));
        assert_eq!(system::bits_in_map("xyz"), None);
        let cpuinfo = "processor: 0\ncpu MHz\t\t: 2300.000\nbogomips\t: 4600.00\n";
        assert_eq!(system::mhz_in_cpuinfo(cpuinfo), Some(2300.0));
        assert_eq!(system::mhz_in_cpuinfo("cpu MHz : 0\nBogoMIPS : 50.00\n"), None);
        assert_eq!(system::mhz_in_cpuinfo("nothing"), None);
    }

    #[test]
    fn reads_caches_up_to_the_first_that_is_missing() {
        let directory = tempfile::tempdir().unwrap();
        for (index, size) in [(0, "48K"), (1, "100"), (3, "1K")] {
            let path = directory.path().join(format!("index{index}"));
            fs::create_dir(&path).unwrap();
            for (name, text) in [("size", size), ("type", "Data"), ("level", "1"), ("shared_cpu_map", "3")] {
                fs::write(path.join(name), format!("{text}\n")).unwrap();
            }
        }
        let caches = system::caches(directory.path());
        let sizes: Vec<u64> = caches.iter().map(|cache| cache.size_bytes).collect();
        assert_eq!(sizes, [48 * 1024, 100]);
        assert_eq!((caches[0].kind.as_str(), caches[0].level, caches[0].num_sharing), ("Data", 1, 2));
    }
}
