//! `cargo xtask bench --instructions`: instructions, system calls and page faults of short workloads,
//! compared with the counts in `xtask/instructions.txt`.
//!
//! Load and clock rates do not affect counts, so that a small increase is an increase of the code. Each count
//! is the difference of two runs that differ in their number of iterations: start-up cancels out.
//!
//! Instructions are counted by callgrind, within `rehal_judge`'s measuring loop if the workload has one,
//! because the statistics of its times depend on these. System calls are traced by Valgrind, those of the
//! main thread, and page faults are counted by the system in runs without Valgrind. Valgrind presents one
//! processor to all programs, so the counts are the same on all processors with AVX2. They differ with the
//! profile, and between versions of the compiler and of the C library, which the file names: with others, the
//! counts are not comparable, unless `--any-versions` says that they are close enough. CI says so, since
//! `rust-toolchain.toml` pins the compiler, and a C library changes few of our counts. Two kinds of workloads
//! vary by a few percent: work on `local-task` runs on its caller once measurements say that it is short, and
//! other threads write captures and profiles.

use super::prepare::Workplace;
use crate::{NotRun, Outcome, root, run};
use oracle::reference::Reference;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;

/// The profile of the tools: CI builds it for the tests of the oracle.
const PROFILE: &str = "dev-release";
/// The counts to compare with.
const FILE: &str = "xtask/instructions.txt";
/// How much a count of instructions may grow.
const TOLERANCE: f64 = 0.03;
/// How much a count of system calls or page faults may grow: a busy machine adds up to 0.15, a call in each
/// iteration adds one.
const SLACK: f64 = 0.5;
/// How often a workload is counted until it has not grown. Threads that write captures and profiles take work
/// over from the thread that is counted at times that vary by a few percent.
const TRIES: u32 = 4;
/// Factor of the iterations of runs without Valgrind, in which a few page faults come at any time.
const FASTER: u32 = 10;
/// The function whose instructions are counted, if a workload is a benchmark.
const LOOP: &str = "rehal_judge::job::Job::run_once*";
/// System calls that programs make without the kernel when valgrind does not run them.
const WITHOUT_KERNEL: [&str; 4] = ["sys_clock_gettime", "sys_getcpu", "sys_gettimeofday", "sys_time"];

const HEAD: &str = "\
# Instructions, system calls and page faults per iteration of short workloads, and the reason of each count.
# `cargo xtask test --only instructions` fails if instructions grow by more than 3 %, or system calls or page
# faults by more than 0.5; `cargo xtask bench --instructions --write REASON` replaces the rows that changed.
# xtask/src/bench/instructions.rs says how they are counted.
";
/// How the line of the file begins that has the versions.
const WITH: &str = "counted with ";

/// A workload that is run twice.
struct Workload {
    name: String,
    arguments: Vec<String>,
    repeated: Repeated,
}

/// The unit of which the two runs of a workload have different numbers.
#[derive(Clone, Copy)]
enum Repeated {
    /// Iterations of a benchmark: multiples of 100, so that each run divides its time into as many samples.
    Iterations([u32; 2]),
    /// Calls in the capture that is the last argument.
    Calls([u32; 2]),
}

/// The cost of an iteration.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Counts {
    instructions: f64,
    system_calls: f64,
    page_faults: f64,
}

/// A line of the file.
#[derive(Clone, Debug, PartialEq)]
struct Row {
    name: String,
    counts: Counts,
    reason: String,
}

/// The contents of the file.
#[derive(Debug, Default, PartialEq)]
struct Counted {
    /// Versions of the compiler and of the C library.
    with: String,
    rows: Vec<Row>,
}

/// Counts the workloads whose name contains one of `only`, or all, and compares them with the file, or writes
/// them to it with the reason in `write`. Does not run if the file was counted with other versions, unless
/// `any_versions` says that they do not matter.
pub fn main(only: &[String], tools: Option<&Path>, write: Option<&str>, any_versions: bool) -> Outcome {
    let root = root();
    let path = root.join(FILE);
    let Counted { with, rows: expected } = match fs::read_to_string(&path) {
        Ok(text) => parse(&text)?,
        Err(_) if write.is_some() => Counted::default(),
        Err(error) => return Err(format!("{FILE}: {error}").into()),
    };
    let here = versions(&root)?;
    if with != here && write.is_none() {
        let why = format!("{FILE} was counted with {with}, and this machine has {here}");
        match any_versions {
            true => println!("{why}: small differences are of the versions"),
            false => return Err(NotRun(format!("{why}: the counts are not comparable")).into()),
        }
    }
    let tools = match tools {
        Some(directory) => directory.to_owned(),
        None => run::build_rehal(PROFILE)?,
    };
    let rehal = tools.join("rehal");
    let workplace = Workplace::new(&root, Reference::find(&root)?, &tools)?;
    let mut workloads = workloads(&workplace)?;
    workloads.retain(|it| only.is_empty() || only.iter().any(|part| it.name.contains(part.as_str())));
    let counted = count_all(&workloads, &rehal, &workplace, &expected)?;
    println!("{:<34} {:>12} {:>8} {:>7}", "per iteration", "instructions", "calls", "faults");
    let mut grown = Vec::new();
    let mut rows = Vec::new();
    for (workload, counts) in workloads.iter().zip(counted) {
        let before = expected.iter().find(|row| row.name == workload.name);
        let change = before.map_or(Change::New, |row| row.counts.change(&counts));
        println!("{:<34} {}  {}", workload.name, counts.cells(), change.describe(before));
        let mut row =
            Row { name: workload.name.clone(), counts, reason: write.unwrap_or_default().to_owned() };
        match (change, before) {
            (Change::Within, Some(before)) => row = before.clone(),
            (Change::Shrunk, _) => {}
            _ => grown.push(workload.name.as_str()),
        }
        rows.push(row);
    }
    if write.is_some() {
        fs::write(&path, render(&Counted { with: here, rows }))?;
        return Ok(());
    }
    if grown.is_empty() {
        return Ok(());
    }
    let names = grown.join(", ");
    Err(format!(
        "more than {FILE} has: {names}; find out why, or accept it with `cargo xtask bench --instructions --write REASON`"
    )
    .into())
}

/// The versions of the compiler and of the C library here, such as `rustc 1.95.0, glibc 2.36`.
fn versions(root: &Path) -> Result<String, Box<dyn Error>> {
    let first_words = |program: &str, argument: &str| -> Result<String, Box<dyn Error>> {
        let output = Command::new(program).arg(argument).current_dir(root).output();
        let output = output.map_err(|error| format!("{program}: {error}"))?;
        let text = String::from_utf8_lossy(&output.stdout);
        Ok(text.split_whitespace().take(2).collect::<Vec<_>>().join(" "))
    };
    Ok(format!("{}, {}", first_words("rustc", "--version")?, first_words("getconf", "GNU_LIBC_VERSION")?))
}

/// How counts compare with those of the file.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Change {
    New,
    Grown,
    Within,
    Shrunk,
}

impl Change {
    fn describe(self, before: Option<&Row>) -> String {
        let before = || {
            before.map_or(String::new(), |row| {
                row.counts.cells().split_whitespace().collect::<Vec<_>>().join(" ")
            })
        };
        match self {
            Self::New => "NEW".to_owned(),
            Self::Grown => format!("GROWN, was {}", before()),
            Self::Within => String::new(),
            Self::Shrunk => format!("less, was {}: keep it with --write REASON", before()),
        }
    }
}

impl Counts {
    fn change(&self, now: &Self) -> Change {
        let grows = |from: &Self, to: &Self| {
            to.instructions > from.instructions * (1.0 + TOLERANCE)
                || to.system_calls > from.system_calls + SLACK
                || to.page_faults > from.page_faults + SLACK
        };
        match (grows(self, now), grows(now, self)) {
            (true, _) => Change::Grown,
            (false, true) => Change::Shrunk,
            (false, false) => Change::Within,
        }
    }

    fn min(self, other: Self) -> Self {
        Self {
            instructions: self.instructions.min(other.instructions),
            system_calls: self.system_calls.min(other.system_calls),
            page_faults: self.page_faults.min(other.page_faults),
        }
    }

    fn cells(&self) -> String {
        let Self { instructions, system_calls, page_faults } = self;
        // No negative zero.
        let few = |count: f64| if count < 0.005 { 0.0 } else { (count * 100.0).round() / 100.0 };
        format!("{instructions:>12.0} {:>8} {:>7}", few(*system_calls), few(*page_faults))
    }
}

fn workloads(workplace: &Workplace) -> Result<Vec<Workload>, Box<dyn Error>> {
    let words = |text: &str| text.split_whitespace().map(ToOwned::to_owned).collect::<Vec<_>>();
    let capture =
        |name: &str| workplace.fixture(&format!("captures/{name}.ireereplay")).display().to_string();
    let module =
        |name: &str| format!("--module={}", workplace.fixture(&format!("modules/{name}.vmfb")).display());
    let sync = "--device=local-sync";
    let task = "--device=local-task --task_topology_group_count=1";
    let mut all = Vec::new();
    let mut add = |name: &str, counts, flags: String, last: String| {
        let mut arguments = words(&flags);
        arguments.push(last);
        all.push(Workload { name: name.to_owned(), arguments, repeated: Repeated::Iterations(counts) });
    };
    const MANY: [u32; 2] = [100, 300];
    const FEW: [u32; 2] = [10, 20];
    for (name, file) in [
        ("simple_abs", "simple_abs.abs.local-sync"),
        ("mlp", "mlp.mlp.local-sync"),
        ("control", "control.collatz.local-sync"),
        ("transfers", "transfers.poke.local-sync"),
        ("vmvx", "simple_abs.vmvx.local-sync"),
    ] {
        add(&format!("iteration.{name}"), MANY, format!("benchmark {sync}"), capture(file));
    }
    let captured = format!("benchmark {sync} --replay_order=captured");
    add("iteration.captured.async", MANY, captured, capture("mlp.async.local-sync"));
    let task_benchmark = format!("benchmark {task}");
    add("iteration.task.simple_abs", MANY, task_benchmark, capture("simple_abs.abs.local-task"));
    for name in ["abs.20", "add4.200", "mlp.5"] {
        let flags = format!("benchmark {sync} --replay_scope=execute --replay_fast_forward");
        add(&format!("scope.{name}"), MANY, flags, capture(&format!("bench.{name}.local-sync")));
    }
    for family in ["queue-events", "host-execution"] {
        let path = workplace.scratch(&format!("instructions.{family}.ireeprof"));
        let output = path.display();
        let flags =
            format!("benchmark {sync} --device_profiling_mode={family} --device_profiling_output={output}");
        add(&format!("profile.{family}"), MANY, flags, capture("bench.abs.20.local-sync"));
    }
    let abs = "benchmark-module --function=abs --input=f32=-7.25";
    add("call.simple_abs", MANY, format!("{abs} {sync}"), module("simple_abs"));
    add("call.task.simple_abs", MANY, format!("{abs} {task}"), module("simple_abs"));
    for ledger in ["off", "reads", "dispatches"] {
        let path = workplace.scratch(&format!("instructions.{ledger}.ireereplay"));
        let output = path.display();
        let flags = format!("{abs} {sync} --device_replay_ledger={ledger} --device_replay_output={output}");
        add(&format!("record.{ledger}"), MANY, flags, module("simple_abs"));
    }
    let host = format!("--module={}", workplace.program("host_speed")?.display());
    for function in ["nothing", "fib", "sum", "floats", "calls"] {
        let counts = if function == "nothing" { MANY } else { FEW };
        add(
            &format!("vm.{function}"),
            counts,
            format!("benchmark-module --function={function}"),
            host.clone(),
        );
    }
    for (name, verb) in [
        ("dump.text", "dump --format=text".to_owned()),
        ("dump.jsonl", "dump --format=jsonl".to_owned()),
        ("plan", format!("benchmark {sync} --benchmark_list_tests")),
        ("run", format!("run {sync}")),
    ] {
        all.push(Workload {
            name: format!("{name}.call"),
            arguments: words(&verb),
            repeated: Repeated::Calls([100, 300]),
        });
    }
    Ok(all)
}

/// Counts the workloads, as many at a time as there are processors: counts do not depend on load.
fn count_all(
    workloads: &[Workload],
    rehal: &Path,
    workplace: &Workplace,
    expected: &[Row],
) -> Result<Vec<Counts>, Box<dyn Error>> {
    let next = Mutex::new(workloads.iter().enumerate());
    let counted = Mutex::new(vec![Err("not counted".to_owned()); workloads.len()]);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    // The guard is dropped before the work begins.
                    let Some((index, workload)) = next.lock().unwrap().next() else { return };
                    let before = expected.iter().find(|row| row.name == workload.name);
                    let counts = workload.count_least(rehal, workplace, before);
                    let counts = counts.map_err(|error| error.to_string());
                    counted.lock().unwrap()[index] = counts;
                }
            });
        }
    });
    let counted = counted.into_inner()?.into_iter().zip(workloads);
    counted
        .map(|(counts, workload)| counts.map_err(|error| format!("{}: {error}", workload.name).into()))
        .collect()
}

impl Workload {
    /// Counts until there are no more than before, and returns the least.
    fn count_least(
        &self,
        rehal: &Path,
        workplace: &Workplace,
        before: Option<&Row>,
    ) -> Result<Counts, Box<dyn Error>> {
        let mut least = self.count(rehal, workplace)?;
        for _ in 1..TRIES {
            if before.is_none_or(|row| row.counts.change(&least) != Change::Grown) {
                break;
            }
            least = least.min(self.count(rehal, workplace)?);
        }
        Ok(least)
    }

    fn count(&self, rehal: &Path, workplace: &Workplace) -> Result<Counts, Box<dyn Error>> {
        let (Repeated::Iterations([few, many]) | Repeated::Calls([few, many])) = self.repeated;
        let less = self.total(few, rehal, workplace)?;
        let more = self.total(many, rehal, workplace)?;
        let per_iteration = |count: fn(&Counts) -> f64| (count(&more) - count(&less)) / f64::from(many - few);
        let counts = Counts {
            instructions: per_iteration(|it| it.instructions),
            system_calls: per_iteration(|it| it.system_calls),
            page_faults: per_iteration(|it| it.page_faults),
        };
        match counts.instructions > 0.0 {
            true => Ok(counts),
            false => Err(format!("no instructions are counted: is {LOOP} inlined?").into()),
        }
    }

    /// Instructions, system calls and page faults of a run.
    fn total(&self, count: u32, rehal: &Path, workplace: &Workplace) -> Result<Counts, Box<dyn Error>> {
        let mut arguments = self.arguments.clone();
        let mut valgrind = vec!["--tool=callgrind".to_owned(), "--trace-syscalls=yes".to_owned()];
        let page_faults = match self.repeated {
            Repeated::Iterations(_) => {
                let iterations = |count: u32| format!("--benchmark_min_time={count}x");
                valgrind.push(format!("--toggle-collect={LOOP}"));
                arguments.push(iterations(count * FASTER));
                let page_faults = page_faults(rehal, &arguments)?;
                arguments.pop();
                arguments.push(iterations(count));
                page_faults as f64 / f64::from(FASTER)
            }
            Repeated::Calls(_) => {
                arguments.push(capture_of(count, rehal, workplace)?.display().to_string());
                page_faults(rehal, &arguments)? as f64
            }
        };
        let directory = workplace.scratch(&format!("instructions.{}.{count}", self.name));
        fs::create_dir_all(&directory)?;
        // Tools may do their work in a copy of their process.
        valgrind.push(format!("--callgrind-out-file={}", directory.join("counts.%p").display()));
        valgrind.push(format!("--log-file={}", directory.join("log.%p").display()));
        valgrind.push(rehal.display().to_string());
        let ended = clean("valgrind").args(&valgrind).args(&arguments).output()?;
        if !ended.status.success() {
            let said = String::from_utf8_lossy(&ended.stderr);
            return Err(format!("{} under valgrind: {}\n{said}", rehal.display(), ended.status).into());
        }
        let (mut instructions, mut system_calls) = (0, 0);
        for entry in fs::read_dir(&directory)? {
            let text = fs::read_to_string(entry?.path())?;
            // A copy of a process begins with the counts of that one.
            instructions = instructions.max(instructions_in(&text));
            system_calls += system_calls_in(&text);
        }
        fs::remove_dir_all(&directory)?;
        Ok(Counts { instructions: instructions as f64, system_calls: system_calls as f64, page_faults })
    }
}

/// A capture of this number of calls, made once per run of this program.
fn capture_of(calls: u32, rehal: &Path, workplace: &Workplace) -> Result<PathBuf, Box<dyn Error>> {
    static MADE: Mutex<Vec<u32>> = Mutex::new(Vec::new());
    let path = workplace.scratch(&format!("instructions.{calls}.ireereplay"));
    let mut made = MADE.lock().unwrap();
    if !made.contains(&calls) {
        let module = workplace.fixture("modules/simple_abs.vmfb");
        let arguments = [
            "benchmark-module".to_owned(),
            "--device=local-sync".to_owned(),
            format!("--module={}", module.display()),
            "--function=abs".to_owned(),
            "--input=f32=-7.25".to_owned(),
            format!("--benchmark_min_time={calls}x"),
            format!("--device_replay_output={}", path.display()),
        ];
        page_faults(rehal, &arguments)?;
        made.push(calls);
    }
    Ok(path)
}

/// A program with an environment that is the same everywhere.
fn clean(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(program);
    command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin").env("TZ", "UTC").stdin(Stdio::null());
    command
}

/// Runs a program and returns how many page faults it and its children had.
fn page_faults(program: &Path, arguments: &[String]) -> Result<u64, Box<dyn Error>> {
    let mut child = clean(program).args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    let pid = Pid::from_child(&child);
    waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)?;
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()))?;
    let status = child.wait()?;
    if !status.success() {
        return Err(format!("{} {}: {status}", program.display(), arguments.join(" ")).into());
    }
    page_faults_in(&stat).ok_or_else(|| "the system does not count page faults".into())
}

/// The page faults of a process and of its children, without input or output, from its `stat` in `/proc`.
fn page_faults_in(stat: &str) -> Option<u64> {
    // The second field, a name in parentheses, may contain anything. The tenth and the eleventh are the
    // counts.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(7);
    let own: u64 = fields.next()?.parse().ok()?;
    let of_children: u64 = fields.next()?.parse().ok()?;
    Some(own + of_children)
}

/// The instructions in the output of callgrind for a process.
fn instructions_in(text: &str) -> u64 {
    let totals = text.lines().filter_map(|line| line.strip_prefix("totals: ")?.trim().parse::<u64>().ok());
    totals.sum()
}

/// The system calls of the main thread in the log of valgrind for a process, such as
/// `SYSCALL[7673,1](202) sys_futex ( … )`; the result of one that blocks has a line of its own. Not those by
/// which a process waits for a copy of itself: more if the machine is busy.
fn system_calls_in(text: &str) -> u64 {
    let calls = text
        .lines()
        .take_while(|line| !line.contains("clone(fork)"))
        .filter_map(|line| line.strip_prefix("SYSCALL[")?.split_once(",1]("));
    let names = calls.filter_map(|(_, call)| call.split_once(") ")?.1.split([' ', '(']).next());
    names.filter(|name| name.starts_with("sys_") && !WITHOUT_KERNEL.contains(name)).count() as u64
}

fn parse(text: &str) -> Result<Counted, String> {
    let mut lines = text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    let with = lines.next().and_then(|line| line.strip_prefix(WITH));
    let with = with.ok_or_else(|| format!("{FILE}: expected a first line '{WITH}VERSIONS'"))?.to_owned();
    let row = |line: &str| {
        let mut words = line.split_whitespace();
        let name = words.next()?.to_owned();
        let mut number = || words.next()?.parse::<f64>().ok();
        let counts = Counts { instructions: number()?, system_calls: number()?, page_faults: number()? };
        Some(Row { name, counts, reason: words.collect::<Vec<_>>().join(" ") })
    };
    let rows = lines.map(|line| match row(line) {
        Some(row) if row.reason.is_empty() => Err(format!("{FILE}: '{}' has no reason", row.name)),
        Some(row) => Ok(row),
        None => Err(format!("{FILE}: expected a name, three counts and a reason: {line:?}")),
    });
    let rows = rows.collect::<Result<_, _>>()?;
    Ok(Counted { with, rows })
}

fn render(Counted { with, rows }: &Counted) -> String {
    let mut text = format!("{HEAD}{WITH}{with}\n");
    for Row { name, counts, reason } in rows {
        let _ = writeln!(text, "{name:<30} {} {reason}", counts.cells());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(instructions: f64, system_calls: f64, page_faults: f64) -> Row {
        let counts = Counts { instructions, system_calls, page_faults };
        Row { name: "scope.abs".to_owned(), counts, reason: "as measured first".to_owned() }
    }

    #[test]
    fn growth_differs_from_noise() {
        let before = row(1000.0, 0.0, 1.0).counts;
        let change = |instructions, calls, faults| before.change(&row(instructions, calls, faults).counts);
        assert_eq!(change(1029.0, 0.01, 1.04), Change::Within);
        assert_eq!(change(1031.0, 0.0, 1.0), Change::Grown);
        assert_eq!(change(1000.0, 0.6, 1.0), Change::Grown);
        assert_eq!(change(1000.0, 0.0, 1.6), Change::Grown);
        assert_eq!(change(900.0, 0.0, 2.0), Change::Grown);
        assert_eq!(change(900.0, 0.0, 1.0), Change::Shrunk);
        assert_eq!(change(1000.0, 0.0, 0.0), Change::Shrunk);
    }

    #[test]
    fn the_file_is_read_as_it_is_written() {
        let counted = |row| Counted { with: "rustc 1.0.0, glibc 2.0".to_owned(), rows: vec![row] };
        let before = counted(row(1234.0, 0.25, 0.0));
        assert_eq!(parse(&render(&before)), Ok(before));
        assert!(render(&counted(row(1.0, -0.001, -0.0))).contains(" 1        0       0 as"));
        let refusal = |line: &str| parse(&format!("{WITH}rustc\n{line}")).unwrap_err();
        assert!(refusal("scope.abs 1 2").contains("three counts"));
        assert!(refusal("scope.abs 1 2 3 ").contains("no reason"));
        assert!(parse("scope.abs 1 2 3 why").unwrap_err().contains("a first line"));
    }

    #[test]
    fn all_rows_of_the_file_have_a_reason() {
        let Counted { with, rows } = parse(&fs::read_to_string(root().join(FILE)).unwrap()).unwrap();
        assert!(rows.len() >= 20, "{} rows", rows.len());
        // A newer compiler in rust-toolchain.toml needs new counts.
        let here = versions(&root()).unwrap();
        assert_eq!(with.split(',').next(), here.split(',').next());
    }

    #[test]
    fn counts_of_valgrind_are_read() {
        assert_eq!(instructions_in("version: 1\ntotals: 123\nsummary: 124\n"), 123);
        let log = "==7== Callgrind\n\
                   SYSCALL[7,1](202) sys_futex ( 0x1, 129 ) --> [async] ... \n\
                   SYSCALL[7,1](202) ... [async] --> Success(0x1) \n\
                   SYSCALL[7,2](1) sys_write ( 1 ) --> [async] ... \n\
                   SYSCALL[7,1](228) sys_clock_gettime( 1, 0x1 )[sync] --> Success(0x0) \n";
        assert_eq!(system_calls_in(log), 1);
        let copied = "SYSCALL[7,1](56) sys_clone ( 1200011, 0x0 )   clone(fork): process 7 created child 8\n";
        assert_eq!(system_calls_in(&format!("{log}{copied}{log}{log}")), 1);
    }

    #[test]
    fn page_faults_of_children_count() {
        let stat = "12 (a) b) Z 1 12 12 0 -1 4194304 100 23 0 0 1 2";
        assert_eq!(page_faults_in(stat), Some(123));
        assert_eq!(page_faults_in("12 (a"), None);
    }
}
