//! Captures of real programs: planned, or rejected with the right error.

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
