//! From an edited kernel to the verdict: `rehal compare` of a kernel of about a millisecond, with a source that it compiles.

use super::cases::{Figure, Plan};
use super::measure::{Invocation, Output};
use super::prepare::Workplace;
use crate::run;
use std::error::Error;
use std::fs;

/// Runs of the model in the reference's column: a comparison dispatches the kernel at least as often, in 8 batches of 5 pairs.
const RUNS: u32 = 80;

/// The model that is run.
const MODEL: &str = "basic_pitch";

/// Makes the capture and the source. The captured kernel is interpreted, so that the compiled one is not slower: otherwise the
/// exit status would not be 0.
pub fn prepare(workplace: &Workplace, figure: Figure) -> Result<Plan, Box<dyn Error>> {
    let models = workplace.models();
    let (_, function) = models.iter().find(|(name, _)| *name == MODEL).ok_or("the corpus is missing")?;
    let (capture, source) = (workplace.scratch("compare.ireereplay"), workplace.scratch("compare.c"));
    let arguments = workplace.call("vmvx_speed.vmvx", "add", &["512x512xf32=0.5", "512x512xf32=1.5"]);
    let arguments = arguments.into_iter().chain(["--device=local-sync".to_owned()]).collect();
    workplace.record("iree-run-module", arguments, &capture)?;
    let (_, rehal) = workplace.pair("rehal");
    let (capture, path) = (capture.display().to_string(), source.display().to_string());
    let words = |words: &[&str]| -> Vec<String> { words.iter().map(ToString::to_string).collect() };
    let ours = |arguments: &[&str]| -> Result<Vec<u8>, Box<dyn Error>> {
        let ended = run::collect(&rehal, &words(arguments), workplace.made_directory())?;
        match ended.how.as_str() {
            "status 0" => Ok(ended.stdout),
            how => {
                let said = String::from_utf8_lossy(&ended.stderr);
                Err(format!("{arguments:?} ended with {how}: {said}").into())
            }
        }
    };
    let listed = ours(&["kernels", "--no_run", "--format=json", &capture])?;
    let listed: serde_json::Value = serde_json::from_slice(&listed)?;
    let name = listed["kernels"][0]["function"].as_str().ok_or("the capture has no kernel")?;
    let kernel = format!("--function={name}");
    ours(&["kernel", "stub", "--no_run", &kernel, &capture, "-o", &path])?;
    let text = fs::read_to_string(&source)?;
    let body = "binding_2[i] = binding_0[i] + binding_1[i];";
    fs::write(
        &source,
        text.replacen("// Compute item i here.", body, 1).replacen("return 1;", "return 0;", 1),
    )?;
    let with = format!("--with={path}");
    let compare = words(&[
        "compare",
        "--device=local-sync",
        "--cache=warm",
        "--precision=1%",
        &kernel,
        &with,
        &capture,
    ]);
    let (program, _) = workplace.pair("iree-benchmark-module");
    let mut model = words(&["--device=local-sync", &format!("--function={function}")]);
    model.push(format!("--benchmark_min_time={RUNS}x"));
    model.extend(workplace.model_base_arguments(MODEL)?);
    Ok(Plan {
        theirs: Invocation { program, arguments: model },
        ours: Invocation { program: rehal.clone(), arguments: compare },
        without: None,
        output: Output::Discard,
        runs_per_round: 1,
        figures: vec![figure],
    })
}
