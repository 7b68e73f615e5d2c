//! How near to the roof of the device the captured kernel and a replacement come.

use std::fmt::Write;

use rehal_base::Result;
use rehal_judge::time;
use rehal_kernels::{BytesSource, KernelRoof, Roofs};
use rehal_replay::Plan;
use serde_json::{Value, json};

use super::report::CandidateReport;
use crate::Invocation;

/// Shapes whose roof is determined: each is performed once more.
const MAX_SHAPES: usize = 10;

/// Adds the roofs of the timed dispatches to the report of a replacement, if `rehal machine` has measured the
/// device: `roofs` of the object, and a line of the text for each.
pub(super) fn add(
    report: &mut CandidateReport,
    invocation: &Invocation,
    plan: &std::sync::Arc<Plan>,
) -> Result<()> {
    let timed = timed(&report.object);
    if timed.is_empty() {
        return Ok(());
    }
    let replay = super::captured(invocation, plan.clone())?;
    let roofs = Roofs::kept(replay.devices()).of_one_thread();
    if !roofs.is_measured() {
        return Ok(());
    }
    let mut sites: Vec<_> = timed.iter().map(|it| it.site).collect();
    sites.sort_unstable();
    sites.dedup();
    sites.truncate(MAX_SHAPES);
    let found = roofs.dispatches(&replay, &sites)?;
    let mut rows = Vec::new();
    for it in &timed {
        let roof = sites.iter().zip(&found).find(|(site, _)| **site == it.site);
        let Some(roof) = roof.and_then(|(_, roof)| roof.as_ref()) else { continue };
        let which = if sites.len() > 1 { format!("#{}, {}", it.site.0, it.cache) } else { it.cache.clone() };
        let [captured, replaced] = [it.captured_ns, it.replaced_ns].map(|ns| roof.share(ns));
        let _ = writeln!(report.text, "{:<8} {which}: {}", "roof", described(roof, [captured, replaced]));
        let mut row = serde_json::to_value(roof).unwrap_or_default();
        row["record"] = it.site.0.into();
        row["occurrence"] = it.site.1.into();
        row["cache"] = it.cache.clone().into();
        row["captured_share"] = json!(captured);
        row["replaced_share"] = json!(replaced);
        rows.push(row);
    }
    report.object["roofs"] = Value::Array(rows);
    Ok(())
}

/// The times of a dispatch, of the report.
struct Timed {
    site: (u32, u64),
    cache: String,
    captured_ns: f64,
    replaced_ns: f64,
}

fn timed(object: &Value) -> Vec<Timed> {
    let each = |it: &Value| it.as_array().cloned().unwrap_or_default();
    let of = |timing: Value| {
        let cache = timing["cache"].as_str().unwrap_or_default().to_owned();
        let shape = move |it: Value| {
            let record = u32::try_from(it["record"].as_u64()?).ok()?;
            Some(Timed {
                site: (record, it["occurrence"].as_u64()?),
                cache: cache.clone(),
                captured_ns: it["captured_ns"].as_f64()?,
                replaced_ns: it["replaced_ns"].as_f64()?,
            })
        };
        each(&timing["shapes"]).into_iter().filter_map(shape)
    };
    each(&object["timings"]).into_iter().flat_map(of).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_report() {
        let shape = json!({"record": 7, "occurrence": 1, "captured_ns": 10.0, "replaced_ns": 5});
        let object = json!({"timings": [{"cache": "warm", "shapes": [shape, {}]}, {"cache": "cold"}]});
        let found = timed(&object);
        assert_eq!(found.len(), 1);
        let it = &found[0];
        assert_eq!((it.site, &*it.cache, it.captured_ns, it.replaced_ns), ((7, 1), "warm", 10.0, 5.0));
        assert!(timed(&Value::Null).is_empty() && timed(&json!({"timings": null})).is_empty());
    }
}
