//! Captures of real programs: planned, or rejected with the right error.

use std::collections::HashMap;
use std::path::Path;

use rehal_base::Result;
use rehal_replay::{Plan, PlanOptions};

/// Captures that cannot be replayed, by name prefix, with the error.
const REFUSED: [(&str, &str); 1] = [("torn.", "truncated capture: file_length")];

fn plan(bytes: &[u8], recover: bool) -> Result<(usize, usize)> {
    let plan = Plan::compile(bytes.to_vec(), PlanOptions { recover, ..PlanOptions::default() })?;
    Ok((plan.device_count(), plan.step_count()))
}

pub fn every_capture_is_planned_or_refused_for_its_reason(set: &Path) {
    for path in testing::captures(set) {
        let name = path.file_stem().unwrap().to_str().unwrap();
        let bytes = std::fs::read(&path).unwrap();
        let planned = plan(&bytes, false);
        let refused = REFUSED.iter().find(|(start, _)| name.starts_with(start));
        match (planned, refused) {
            (Ok((devices, _)), None) => {
                assert_eq!(devices, if name.starts_with("two_devices") { 2 } else { 1 }, "{name}");
            }
            (Err(error), Some((_, reason))) => assert!(error.report().contains(reason), "{name}: {error:?}"),
            (Ok(_), Some(_)) => panic!("{name} is planned"),
            (Err(error), None) => panic!("{name}: {error:?}"),
        }
    }
}

pub fn torn_captures_are_planned_up_to_their_tear(set: &Path) {
    let torn: Vec<_> = testing::captures(set)
        .into_iter()
        .filter(|path| path.file_name().unwrap().as_encoded_bytes().starts_with(b"torn."))
        .collect();
    assert!(!torn.is_empty());
    for path in torn {
        let (devices, steps) = plan(&std::fs::read(&path).unwrap(), true).unwrap();
        assert_eq!(devices, 1);
        assert!(steps > 0, "{}", path.display());
    }
}

/// The dispatches that differ are those that a run performs, in the order of their first execution, as often
/// as it does.
pub fn distinct_dispatches_stand_for_all(set: &Path) {
    for path in testing::captures(set) {
        let recover = PlanOptions { recover: true, ..PlanOptions::default() };
        let plan = Plan::compile(std::fs::read(&path).unwrap(), recover).unwrap();
        let mut order = Vec::new();
        let mut counts: HashMap<_, u64> = HashMap::new();
        plan.dispatches(|it| {
            let names = it.executable.function_names().nth(it.function as usize);
            assert_eq!(it.name, names.unwrap_or_default());
            let key = format!("{} {:?} {:?}", it.location, it.bindings, it.workgroup_count_ref);
            *counts.entry(key.clone()).or_insert_with(|| {
                order.push((key, it.occurrence));
                0
            }) += 1;
            Ok(())
        })
        .unwrap();
        let performed = counts.values().sum::<u64>();
        assert_eq!(plan.dispatch_count(), performed, "{}", path.display());
        let mut found = Vec::new();
        plan.distinct_dispatches(|it, count| {
            let key = format!("{} {:?} {:?}", it.location, it.bindings, it.workgroup_count_ref);
            // Tables that differ may bind the same to one dispatch.
            match counts.get_mut(&key) {
                Some(rest) => *rest -= count,
                None => panic!("{}: {key} is not performed", path.display()),
            }
            if found.iter().all(|(other, _)| *other != key) {
                found.push((key, it.occurrence));
            }
            Ok(())
        })
        .unwrap();
        assert!(counts.values().all(|rest| *rest == 0), "{}", path.display());
        assert_eq!(found, order, "{}", path.display());
    }
}
