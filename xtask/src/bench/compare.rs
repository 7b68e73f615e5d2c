//! How long `rehal compare` takes to find a known slowdown.

use super::measure::Metric;
use super::plan::{Plan, Prepared};
use super::prepare::Workplace;
use super::report::Target;
use std::error::Error;
use std::fs;
use std::path::PathBuf;

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
        let listed = ["kernels", "--no_run", "--format=json", &subject.capture];
        let listed = workplace.done(&workplace.ours(&listed))?;
        let listed: serde_json::Value = serde_json::from_slice(&listed)?;
        let name = listed["kernels"][0]["function"].as_str().ok_or("the capture has no kernel")?;
        subject.kernel = format!("--function={name}");
        Ok(subject)
    }

    /// The count of [`work`] with which a dispatch takes a millisecond.
    pub fn millisecond(&self, workplace: &Workplace) -> Result<u32, Box<dyn Error>> {
        const COUNT: u32 = 150;
        let source = self.source(workplace, "compare_calibration.c", &work(COUNT))?;
        let (baseline, with) = (format!("--baseline={source}"), format!("--with={source}"));
        let words = ["compare", "--device=local-sync", "--cache=warm", "--precision=10%", "--format=json"];
        let words = [&words[..], &["--fail_if_slower=1000%"]].concat();
        let report = [&words[..], &[&self.kernel, &baseline, &with, &self.capture]].concat();
        let report: serde_json::Value = serde_json::from_slice(&workplace.done(&workplace.ours(&report))?)?;
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
        let stub = ["kernel", "stub", "--no_run", &self.kernel, &self.capture, "-o", &path];
        workplace.done(&workplace.ours(&stub))?;
        let text = fs::read_to_string(&path)?;
        let body = format!("{extra} binding_2[i] = binding_0[i] + binding_1[i];");
        fs::write(
            &path,
            text.replacen("// Compute item i here.", &body, 1).replacen("return 1;", "return 0;", 1),
        )?;
        Ok(path)
    }
}

/// Work for each element. A volatile counter takes the same time whatever else the compiler does.
pub fn work(count: u32) -> String {
    format!("if (i % 64 == 0) for (volatile int j = 0; j < {count}; ++j) {{}}")
}

/// A kernel that takes 2 % longer than its baseline of about a millisecond.
pub fn slowdown(workplace: &Workplace) -> Prepared {
    let subject = Subject::new(workplace)?;
    let count = subject.millisecond(workplace)?;
    let baseline = subject.source(workplace, "compare_baseline.c", &work(count))?;
    let slower = subject.source(workplace, "compare_slower.c", &work(count + count / 50))?;
    let Subject { capture, kernel, .. } = subject;
    let (baseline, with) = (format!("--baseline={baseline}"), format!("--with={slower}"));
    let compare = ["compare", "--device=local-sync", "--cache=warm", "--fail_if_slower=0%"];
    // Status 3 is slower.
    let ours = workplace.ours_ending("3", &[&compare[..], &[&kernel, &capture, &baseline, &with]].concat());
    Ok(Plan::new(None, ours).row(Metric::Wall, Target::Seconds(60.0)))
}
