//! How near to the roof of the device the captured kernel and a replacement come.

use std::fmt::Write;

use rehal_base::Result;
use rehal_judge::{ShapeTiming, time};
use rehal_kernels::{BytesSource, KernelRoof, MachineRoof, Roofs};
use rehal_replay::Plan;
use serde_json::{Value, json};

use super::report::CandidateReport;
use crate::sandbox::Reach;
use crate::{Invocation, devices};

/// Shapes whose roof is determined: each is performed once more.
const MAX_SHAPES: usize = 10;

/// Adds the roofs of the timed dispatches to the report of a replacement, if `rehal machine` has measured the
/// device: `roofs` of the object, and a line of the text for each.
pub(super) fn add(
    report: &mut CandidateReport,
    invocation: &Invocation,
    plan: &std::sync::Arc<Plan>,
) -> Result<()> {
    let Some(comparison) = report.comparison.take().filter(|it| !it.timings.is_empty()) else {
        return Ok(());
    };
    let site = |it: &ShapeTiming| (it.shape.record, it.shape.occurrence);
    let timed = comparison.timings.iter().flat_map(|timing| {
        let cache = timing.cache.name();
        timing.shapes.iter().map(move |it| (site(it), cache, &it.timing))
    });
    let devices = devices::options(&invocation.flags)?;
    let mut reach = Reach::of_replay(plan, &devices);
    reach.reads.extend(MachineRoof::directory());
    let found = invocation.confined_value(&reach, || {
        let replay = super::captured(invocation, plan.clone())?;
        let roofs = Roofs::kept(replay.devices()).of_one_thread();
        if !roofs.is_measured() {
            return Ok(None);
        }
        let mut text = String::new();
        let mut sites: Vec<_> = timed.clone().map(|(site, ..)| site).collect();
        sites.sort_unstable();
        sites.dedup();
        sites.truncate(MAX_SHAPES);
        let found = roofs.dispatches(&replay, &sites)?;
        let mut rows = Vec::new();
        for (of, cache, timing) in timed {
            let roof = sites.iter().zip(&found).find(|(site, _)| **site == of);
            let Some(roof) = roof.and_then(|(_, roof)| roof.as_ref()) else { continue };
            let which = if sites.len() > 1 { format!("#{}, {cache}", of.0) } else { cache.to_owned() };
            let [captured, replaced] = [timing.captured.ns, timing.replaced.ns].map(|ns| roof.share(ns));
            let _ = writeln!(text, "{:<8} {which}: {}", "roof", described(roof, [captured, replaced]));
            let mut row = serde_json::to_value(roof).unwrap_or_default();
            row["record"] = of.0.into();
            row["occurrence"] = of.1.into();
            row["cache"] = cache.into();
            row["captured_share"] = json!(captured);
            row["replaced_share"] = json!(replaced);
            rows.push(row);
        }
        Ok(Some((text, rows)))
    })?;
    if let Some((text, rows)) = found {
        report.text.push_str(&text);
        report.object["roofs"] = Value::Array(rows);
    }
    Ok(())
}

fn described(roof: &KernelRoof, shares: [Option<f64>; 2]) -> String {
    let at_most = if roof.bytes_from == BytesSource::Bound { "at most " } else { "" };
    let [captured, replaced] =
        shares.map(|it| it.map_or_else(|| "-".into(), |it| format!("{:.1} %", it * 100.0)));
    let operations = match roof.operations {
        Some(count) => format!("{count} operations by the name"),
        None => "operations unknown".into(),
    };
    format!(
        "{at_most}{} ({}; {} bytes, {operations}): {captured} of it before, {replaced} now",
        time(roof.roof_ns),
        roof.limit,
        roof.bytes,
    )
}
