//! A slice of the dispatch that takes the most time, out of the capture of the largest model.

use super::cases::{Figure, Plan};
use super::measure::Invocation;
use super::prepare::Workplace;
use std::error::Error;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// Finds the capture and its dispatch. The reference's column is our replay of the whole capture.
pub fn prepare(workplace: &Workplace, figure: Figure) -> Result<Plan, Box<dyn Error>> {
    let mut largest: Option<(u64, PathBuf)> = None;
    for (name, function) in workplace.models() {
        let path = workplace.model_capture(name, function)?;
        let bytes = fs::metadata(&path)?.len();
        if largest.as_ref().is_none_or(|(most, _)| bytes > *most) {
            largest = Some((bytes, path));
        }
    }
    let (_, path) = largest.ok_or("a slice needs the models of the corpus, which is missing")?;
    let capture = path.display().to_string();
    let (_, program) = workplace.pair("rehal");
    let listed = Command::new(&program)
        .args(["kernels", "--device=local-sync", "--format=json", &capture])
        .output()
        .map_err(|error| format!("{}: {error}", program.display()))?;
    if !listed.status.success() {
        return Err(String::from_utf8_lossy(&listed.stderr).into_owned().into());
    }
    let report: serde_json::Value = serde_json::from_slice(&listed.stdout)?;
    let longest = &report["kernels"][0];
    let slice = workplace.scratch("slice.ireereplay").display().to_string();
    let words = |words: &[&str]| -> Vec<String> { words.iter().map(ToString::to_string).collect() };
    let (dispatch, occurrence) =
        (format!("--dispatch={}", longest["record"]), format!("--occurrence={}", longest["occurrence"]));
    let replay = words(&["run", "--device=local-sync", &capture]);
    let cut = words(&["slice", "--device=local-sync", &dispatch, &occurrence, &capture, "-o", &slice]);
    let theirs = Invocation { program: program.clone(), arguments: replay };
    Ok(Plan::new(theirs, Invocation { program, arguments: cut }, vec![figure]))
}
