//! How processes end, by what other programs see of it. This program is also what the tests start: without
//! the usual harness, it has one thread, as `supervise` requires.

use std::env;
use std::io::Write;
use std::ops::ControlFlow;
use std::process::exit;
use std::time::Duration;

use libtest_mimic::{Arguments, Trial};
use rehal_base::{Error, Result, StatusCode};
use rehal_crash::HeldSignals;
use rehal_jobs::{Caller, CopyEnd, Job, JobEnd, JobLimits, JobOutcome, Work, Worker, end_by, supervise};
use rustix::process::Signal;
use serde_json::json;

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match &arguments[..] {
        [verb, way] if verb == "supervised" => supervised(way),
        // A worker that reads nothing.
        [verb] if verb == Worker::VERB => std::thread::sleep(Duration::from_secs(600)),
        _ => {}
    }
    let tests: [(&str, fn()); 7] = [
        ("a_request_that_is_not_read_ends_by_the_limit", a_request_that_is_not_read_ends_by_the_limit),
        ("a_supervised_process_ends_as_its_copy", a_supervised_process_ends_as_its_copy),
        ("a_copy_without_progress_is_ended", a_copy_without_progress_is_ended),
        ("a_copy_with_progress_is_not_ended", a_copy_with_progress_is_not_ended),
        (
            "only_a_process_that_ended_well_has_done_its_work",
            only_a_process_that_ended_well_has_done_its_work,
        ),
        ("a_process_says_its_end_if_that_is_wanted", a_process_says_its_end_if_that_is_wanted),
        ("ends_have_their_words", ends_have_their_words),
    ];
    let tests = tests.map(|(name, test)| {
        Trial::test(name, move || {
            test();
            Ok(())
        })
    });
    libtest_mimic::run(&Arguments::from_args(), tests.into()).exit();
}

fn run(job: &Job) -> JobOutcome {
    job.run(&mut |_| ControlFlow::Continue(())).unwrap()
}

fn outcome_of(way: &str) -> Result<u8> {
    match way {
        "error" => Err(Error::not_found("nothing to do")),
        "exit" => exit(0),
        // None of these says to the process that watches it that it runs anything.
        "sleep" => {
            std::thread::sleep(Duration::from_secs(600));
            Ok(0)
        }
        "spin" => loop {
            std::hint::spin_loop();
        },
        "stop" => {
            rustix::process::kill_process(rustix::process::getpid(), Signal::STOP).unwrap();
            Ok(0)
        }
        // These take longer than the limit.
        "step" | "read" => {
            for _ in 0..60 {
                std::thread::sleep(Duration::from_millis(50));
                if way == "step" { rehal_crash::note_step() } else { drop(std::fs::read("/proc/self/comm")) }
            }
            Ok(0)
        }
        "print" => {
            std::io::stdout().write_all(&[b'x'; 1 << 20]).unwrap();
            Ok(0)
        }
        way => Ok(way.parse().unwrap()),
    }
}

/// The longest time without progress.
const LIMIT: Duration = Duration::from_secs(1);

fn report(error: &Error) {
    eprintln!("{}", error.report());
}

fn supervised(way: &str) {
    exit(match supervise(HeldSignals::hold(), || outcome_of(way), LIMIT, report) {
        Ok(CopyEnd::Done(value)) => value.into(),
        Ok(CopyEnd::Exited(status)) => 200 + i32::from(status),
        Ok(CopyEnd::Signaled(signal)) => end_by(signal).into(),
        Err(error) => {
            report(&error);
            100 + error.code() as i32
        }
    });
}

/// Without it, a kernel that ends its process by `exit(0)` may seem to have succeeded, or a tool may end with
/// another status than its work.
fn a_supervised_process_ends_as_its_copy() {
    for (way, status, printed) in [
        ("0", 0, ""),
        ("7", 7, ""),
        ("error", 100 + StatusCode::NotFound as i32, "NOT_FOUND; nothing to do"),
        ("exit", 100 + StatusCode::Aborted as i32, "ABORTED; "),
    ] {
        let mut job = Job::for_program(env::current_exe().unwrap());
        job.arguments = vec!["supervised".into(), way.into()];
        let ended = run(&job);
        let stderr = String::from_utf8(ended.stderr.bytes).unwrap();
        assert_eq!(ended.end, JobEnd::Exited(status), "{way}");
        assert!(stderr.starts_with(printed) && stderr.is_empty() == printed.is_empty(), "{way}: {stderr}");
    }
}

/// Without it, a kernel has all time if it erases what it runs from the memory that its process shares.
fn a_copy_without_progress_is_ended() {
    for (way, code, printed) in [
        ("sleep", StatusCode::DeadlineExceeded, "captured code made no progress within 1 seconds"),
        ("spin", StatusCode::DeadlineExceeded, "captured code made no progress within 1 seconds"),
        ("stop", StatusCode::Aborted, "a kernel stopped its process"),
    ] {
        let mut job = Job::for_program(env::current_exe().unwrap());
        job.arguments = vec!["supervised".into(), way.into()];
        let ended = run(&job);
        let stderr = String::from_utf8(ended.stderr.bytes).unwrap();
        assert_eq!(ended.end, JobEnd::Exited(100 + code as i32), "{way}: {stderr}");
        assert!(stderr.contains(printed), "{way}: {stderr}");
    }
}

/// Without it, a tool that works, or that waits for who reads what it prints, may be ended.
fn a_copy_with_progress_is_not_ended() {
    for way in ["step", "read", "print"] {
        let mut job = Job::for_program("bash");
        let script = r#"set -o pipefail; "$0" supervised "$1" | { sleep 3; cat; }"#;
        job.arguments = vec!["-c".into(), script.into(), env::current_exe().unwrap().into(), way.into()];
        let ended = run(&job);
        assert_eq!((ended.end, ended.stderr.bytes), (JobEnd::Exited(0), Vec::new()), "{way}");
    }
}

/// Without it, a worker that does not read its request may be reported as one that cannot be started.
fn a_request_that_is_not_read_ends_by_the_limit() {
    let request = json!("x".repeat(4 << 20));
    let mut job = Job::for_worker_of(env::current_exe().unwrap(), Vec::new(), request);
    job.limits = JobLimits::for_time(Duration::from_millis(300));
    assert_eq!(run(&job).end, JobEnd::TimedOut { is_past_milestone: false });
}

/// The sum of numbers.
#[derive(serde::Serialize, serde::Deserialize)]
struct Sum(Vec<u32>);

impl Work for Sum {
    const NAME: &'static str = "sum";
    type Outcome = u32;

    fn perform(&self, _caller: &Caller<'_>) -> Result<u32> {
        Ok(self.0.iter().sum())
    }
}

/// Without it, the answer of a process that did not end well may be taken for the result of the work.
fn only_a_process_that_ended_well_has_done_its_work() {
    let mut message = serde_json::to_value(run(&Job::for_program("true"))).unwrap();
    let mut of = |announced, end: JobEnd, answer| {
        message["announced"] = json!(announced);
        message["end"] = json!(end);
        message["answer"] = answer;
        let outcome: JobOutcome = serde_json::from_value(message.clone()).unwrap();
        outcome.of_work::<Sum>().map(|it| it.map_err(|error| error.code()))
    };
    let well = JobEnd::Exited(0);
    assert_eq!(of(Some(0), well, json!({"Ok": 6})), Some(Ok(6)));
    assert_eq!(of(Some(0), well, json!({"Ok": "x"})), Some(Err(StatusCode::Internal)));
    for (announced, end) in
        [(None, well), (Some(1), well), (Some(0), JobEnd::Exited(1)), (Some(0), JobEnd::Signaled(9))]
    {
        assert_eq!(of(announced, end, json!({"Ok": 6})), None, "{announced:?} {end:?}");
    }
    assert_eq!(of(Some(0), well, json!(null)), None);
}

/// Without it, a limit may end a process before it says which kernel runs.
fn a_process_says_its_end_if_that_is_wanted() {
    for (says_its_end, printed) in [(false, ""), (true, "in f\n")] {
        let directory = tempfile::tempdir().unwrap();
        let input = directory.path().join("input");
        std::fs::write(&input, "in f").unwrap();
        let mut job = Job::for_program("sh");
        let script = "read -r place; trap 'echo $place; exit' TERM; while :; do sleep 0.01; done";
        job.arguments = vec!["-c".into(), script.into()];
        (job.input, job.says_its_end) = (Some(input), says_its_end);
        job.limits = JobLimits::for_time(Duration::from_secs(1));
        let ended = run(&job);
        assert_eq!(ended.end, JobEnd::TimedOut { is_past_milestone: false });
        assert_eq!(String::from_utf8(ended.stdout.bytes).unwrap(), printed);
    }
}

/// Without it, a kernel may be blamed for a signal of the user.
fn ends_have_their_words() {
    let late = JobEnd::TimedOut { is_past_milestone: true };
    for (end, text, is_killed) in [
        (JobEnd::Exited(3), "with status 3", false),
        (JobEnd::Signaled(9), "by signal 9, as when the machine has no memory left", true),
        (JobEnd::Signaled(15), "by signal 15", true),
        (JobEnd::Signaled(2), "by signal 2", true),
        (JobEnd::Signaled(1), "by signal 1", true),
        (JobEnd::Signaled(11), "by signal 11", false),
        (late, "by the limit of its time", false),
        (JobEnd::Interrupted, "by an interrupt", false),
    ] {
        assert_eq!((end.to_string().as_str(), end.is_killed()), (text, is_killed));
    }
}
