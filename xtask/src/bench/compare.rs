//! From an edited kernel to the verdict: `rehal compare` of a kernel of about a millisecond, with a source
//! that it compiles; and a known slowdown.

use super::cases::{Figure, Plan};
use super::measure::{Invocation, Metric};
use super::prepare::Workplace;
use super::report::Target;
use crate::run;
use std::error::Error;
use std::fs;
use std::path::PathBuf;

/// Runs of the model in the reference's column.
const RUNS: u32 = 320;

/// The model that is run.
const MODEL: &str = "basic_pitch";

/// What is measured.
pub enum Compared {
    /// The time to a verdict, compared with runs of a real model.
    Verdict,
    /// The time until a slowdown of 2 % is found, in seconds.
    Slowdown,
}

impl Compared {
    pub fn prepare(&self, name: &str, workplace: &Workplace) -> Result<Plan, Box<dyn Error>> {
        let figure =
            |ratio| Figure { name: name.to_owned(), metric: Metric::Wall, target: Target::Ratio(ratio) };
        match self {
            Self::Verdict => verdict(workplace, figure(0.4)),
            Self::Slowdown => slowdown(workplace, figure(60.0)),
        }
    }
}

/// A capture with a kernel of 2^18 elements, and how to write replacements of it.
pub struct Subject {
    pub rehal: PathBuf,
    pub capture: String,
    pub kernel: String,
}

impl Subject {
    pub fn new(workplace: &Workplace) -> Result<Self, Box<dyn Error>> {
        let capture = workplace.scratch("compare.ireereplay");
        let arguments = workplace.call("vmvx_speed.vmvx", "add", &["512x512xf32=0.5", "512x512xf32=1.5"]);
        let arguments = arguments.into_iter().chain(["--device=local-sync".to_owned()]).collect();
        workplace.record("iree-run-module", arguments, &capture)?;
        let (_, rehal) = workplace.pair("rehal");
        let mut subject = Self { rehal, capture: capture.display().to_string(), kernel: String::new() };
        let listed = subject.ours(workplace, &["kernels", "--no_run", "--format=json", &subject.capture])?;
        let listed: serde_json::Value = serde_json::from_slice(&listed)?;
        let name = listed["kernels"][0]["function"].as_str().ok_or("the capture has no kernel")?;
        subject.kernel = format!("--function={name}");
        Ok(subject)
    }

    fn ours(&self, workplace: &Workplace, arguments: &[&str]) -> Result<Vec<u8>, Box<dyn Error>> {
        let ended = run::collect(&self.rehal, &words(arguments), workplace.made_directory())?;
        match ended.how.as_str() {
            "status 0" => Ok(ended.stdout),
            how => {
                let said = String::from_utf8_lossy(&ended.stderr);
                Err(format!("{arguments:?} ended with {how}: {said}").into())
            }
        }
    }

    /// The count of [`work`] with which a dispatch takes a millisecond.
    pub fn millisecond(&self, workplace: &Workplace) -> Result<u32, Box<dyn Error>> {
        const COUNT: u32 = 150;
        let source = self.source(workplace, "compare_calibration.c", &work(COUNT))?;
        let (baseline, with) = (format!("--baseline={source}"), format!("--with={source}"));
        let words = ["compare", "--device=local-sync", "--cache=warm", "--precision=10%", "--format=json"];
        let words = [&words[..], &["--fail_if_slower=1000%"]].concat();
        let report = [&words[..], &[&self.kernel, &baseline, &with, &self.capture]].concat();
        let report: serde_json::Value = serde_json::from_slice(&self.ours(workplace, &report)?)?;
        let time_ns = report["candidates"][0]["timings"][0]["shapes"][0]["captured_ns"].as_f64();
        Ok((f64::from(COUNT) * 1e6 / time_ns.ok_or("the kernel has no time")?) as u32)
    }

    /// Writes a source that adds, after `extra` for each element.
    pub fn source(&self, workplace: &Workplace, name: &str, extra: &str) -> Result<String, Box<dyn Error>> {
        let path = workplace.scratch(name);
        if path.exists() {
            fs::remove_file(&path)?;
        }
        let path = path.display().to_string();
        self.ours(workplace, &["kernel", "stub", "--no_run", &self.kernel, &self.capture, "-o", &path])?;
        let text = fs::read_to_string(&path)?;
        let body = format!("{extra} binding_2[i] = binding_0[i] + binding_1[i];");
        fs::write(
            &path,
            text.replacen("// Compute item i here.", &body, 1).replacen("return 1;", "return 0;", 1),
        )?;
        Ok(path)
    }
}

pub fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(ToString::to_string).collect()
}

/// Work for each element. A volatile counter takes the same time whatever else the compiler does.
pub fn work(count: u32) -> String {
    format!("if (i % 64 == 0) for (volatile int j = 0; j < {count}; ++j) {{}}")
}

/// From an edited source to the verdict. The edit makes the kernel a tenth faster: a slower one would have
/// exit status 3.
fn verdict(workplace: &Workplace, figure: Figure) -> Result<Plan, Box<dyn Error>> {
    let models = workplace.models();
    let (_, function) = models.iter().find(|(name, _)| *name == MODEL).ok_or("the corpus is missing")?;
    let subject = Subject::new(workplace)?;
    let count = subject.millisecond(workplace)?;
    let before = format!("--baseline={}", subject.source(workplace, "compare_before.c", &work(count))?);
    let with = format!("--with={}", subject.source(workplace, "compare_after.c", &work(count - count / 10))?);
    let compare = words(&[
        "compare",
        "--device=local-sync",
        "--cache=warm",
        "--precision=1%",
        &subject.kernel,
        &before,
        &with,
        &subject.capture,
    ]);
    let (program, _) = workplace.pair("iree-benchmark-module");
    let mut model = words(&["--device=local-sync", &format!("--function={function}")]);
    model.push(format!("--benchmark_min_time={RUNS}x"));
    model.extend(workplace.model_base_arguments(MODEL)?);
    let theirs = Invocation { program, arguments: model };
    Ok(Plan::new(theirs, Invocation { program: subject.rehal, arguments: compare }, vec![figure]))
}

/// A kernel that takes 2 % longer than its baseline of about a millisecond. The other column is a second.
fn slowdown(workplace: &Workplace, figure: Figure) -> Result<Plan, Box<dyn Error>> {
    let subject = Subject::new(workplace)?;
    let count = subject.millisecond(workplace)?;
    let baseline = subject.source(workplace, "compare_baseline.c", &work(count))?;
    let slower = subject.source(workplace, "compare_slower.c", &work(count + count / 50))?;
    let Subject { rehal, capture, kernel } = subject;
    // Status 3 is slower.
    let script = r#""$@"; test $? -eq 3"#;
    let mut arguments = words(&["-c", script, "sh", &rehal.display().to_string(), "compare"]);
    arguments.extend(words(&[
        "--device=local-sync",
        "--cache=warm",
        "--fail_if_slower=0%",
        &kernel,
        &capture,
    ]));
    arguments.extend([format!("--baseline={baseline}"), format!("--with={slower}")]);
    let theirs = Invocation { program: "/bin/sleep".into(), arguments: words(&["1"]) };
    Ok(Plan::new(theirs, Invocation { program: "/bin/sh".into(), arguments }, vec![figure]))
}
