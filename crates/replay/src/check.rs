//! What fuzzing runs: everything that is done with a capture before a device is needed.

use rehal_capture::{Capture, OpenOptions};

use crate::{Plan, PlanOptions, dump};

/// Compiles a plan from `bytes` and dumps them in both formats; gives the number of steps that a run would issue.
///
/// Nothing of the capture is run. The point is that it returns, and that what it needs is explained by the length of
/// `bytes`.
pub fn exercise(bytes: &[u8]) -> usize {
    // Errors are what most inputs come to; how they read is tested elsewhere.
    let _ = dump::dump_text(bytes, &mut std::io::sink());
    let _ = dump::dump_jsonl(bytes, &mut std::io::sink());
    let Ok(capture) = Capture::open(bytes, OpenOptions::default()) else { return 0 };
    Plan::compile(&capture, bytes, PlanOptions::default()).map_or(0, |plan| plan.step_count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fixtures_have_steps_and_rubbish_has_none() {
        let path =
            concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/captures/add4.add.local-sync.ireereplay");
        assert!(exercise(&std::fs::read(path).unwrap()) > 10);
        assert_eq!(exercise(b"rubbish"), 0);
    }
}
