//! `cargo xtask bench --verdicts`: how often `rehal compare` calls planted slowdowns, and equal kernels
//! different, on a quiet machine and beside processes that use all CPUs.

use std::collections::BTreeMap;
use std::error::Error;
use std::process::{Child, Command, Stdio};
use std::thread::available_parallelism;
use std::time::Instant;

use super::compare::{Subject, work};
use super::prepare::{Workplace, words};
use crate::run;

/// The planted slowdowns, in percent.
const SLOWDOWNS: [u32; 4] = [0, 2, 4, 8];

/// The time that a comparison of both states of the caches may take.
const MAX_TIME: [(bool, &str); 2] = [(true, "--max_time=10s"), (false, "--max_time=20s")];

/// Prints the rates of verdicts of `runs` comparisons of each slowdown.
pub fn measure(workplace: &Workplace, runs: u32) -> Result<(), Box<dyn Error>> {
    let subject = Subject::new(workplace)?;
    // A fifth of a millisecond.
    let count = subject.millisecond(workplace)? / 5;
    let baseline = subject.source(workplace, "verdicts_baseline.c", &work(count))?;
    println!("| load | slowdown | runs | seconds | warm | cold | called slower |");
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    for (is_loaded, max_time) in MAX_TIME {
        let _load = is_loaded.then(Load::start).transpose()?;
        for percent in SLOWDOWNS {
            let replaced = count + (f64::from(count * percent) / 100.0).round() as u32;
            let name = format!("verdicts_{percent}.c");
            let with = subject.source(workplace, &name, &work(replaced))?;
            let flags = [format!("--baseline={baseline}"), format!("--with={with}"), max_time.to_owned()];
            let mut rates = Rates::default();
            let begun = Instant::now();
            for seed in 0..runs {
                let mut arguments =
                    words(&["compare", "--device=local-sync", "--format=json", "--fail_if_slower=0%"]);
                arguments.extend([format!("--seed={seed}"), subject.kernel.clone(), subject.capture.clone()]);
                arguments.extend(flags.iter().cloned());
                rates.add(&run::collect(&subject.rehal, &arguments, workplace.made_directory())?.stdout)?;
            }
            let seconds = begun.elapsed().as_secs_f64() / f64::from(runs.max(1));
            let load = if is_loaded { "all CPUs" } else { "none" };
            println!("| {load} | {percent} % | {runs} | {seconds:.1} | {rates}");
        }
    }
    Ok(())
}

/// How often each verdict was given, by state of the caches.
#[derive(Default)]
struct Rates {
    warm: BTreeMap<String, u32>,
    cold: BTreeMap<String, u32>,
    slower: u32,
}

impl Rates {
    fn add(&mut self, report: &[u8]) -> Result<(), Box<dyn Error>> {
        let report: serde_json::Value = serde_json::from_slice(report)?;
        let candidate = &report["candidates"][0];
        let timings = candidate["timings"].as_array().ok_or_else(|| format!("no timings: {candidate}"))?;
        for timing in timings {
            let counts = if timing["cache"] == "warm" { &mut self.warm } else { &mut self.cold };
            *counts.entry(timing["verdict"].as_str().unwrap_or("none").to_owned()).or_default() += 1;
        }
        self.slower += u32::from(candidate["is_slower"] == true);
        Ok(())
    }
}

impl std::fmt::Display for Rates {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for counts in [&self.warm, &self.cold] {
            let counts: Vec<_> = counts.iter().map(|(verdict, count)| format!("{verdict} {count}")).collect();
            write!(formatter, "{} | ", counts.join(", "))?;
        }
        write!(formatter, "{} |", self.slower)
    }
}

/// A process for each CPU that never waits. They end when this is dropped.
struct Load(Vec<Child>);

impl Load {
    fn start() -> std::io::Result<Self> {
        let mut load = Self(Vec::new());
        for _ in 0..available_parallelism()?.get() {
            let mut command = Command::new("/bin/sh");
            command.args(["-c", "while :; do :; done"]).stdin(Stdio::null());
            load.0.push(command.spawn()?);
        }
        Ok(load)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // One that has ended needs no end.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
