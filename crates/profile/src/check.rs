//! The fuzz target: every operation of the reader, every report, the timeline and the events, on arbitrary
//! bytes.

use rehal_base::FormatError;

use crate::report::{Format, Report, ReportOptions};
use crate::{Bundle, OpenOptions, activity, timeline, times};

/// Few enough to leave some out.
const MAX_EVENTS: usize = 16;

/// Opens `bytes` strictly and for recovery, walks every record and row, prints every report, writes the
/// timeline and arranges the events.
///
/// Returns the number of rows read in all walks; the point is that it returns.
pub fn exercise(bytes: &[u8]) -> u64 {
    if let Ok(bundle) = Bundle::open(bytes, OpenOptions { recover: true }) {
        print_all(&bundle);
        let _ = timeline::write(&bundle, &mut std::io::sink());
        let _ = times::of(&bundle);
        if let Ok(activity) = activity::of_bundle(&bundle, MAX_EVENTS) {
            assert!(activity.events.len() <= MAX_EVENTS);
        }
    }
    [false, true].into_iter().filter_map(|recover| walk(bytes, OpenOptions { recover }).ok()).sum()
}

fn walk(bytes: &[u8], options: OpenOptions) -> Result<u64, FormatError> {
    let bundle = Bundle::open(bytes, options)?;
    let mut rows = 0;
    for record in bundle.records() {
        let Ok(record) = record else { break };
        let mut read_bytes = 0;
        let walked = record.with_rows(|parts| {
            rows += 1;
            read_bytes += parts.iter().map(|part| part.len()).sum::<usize>();
        });
        if walked.is_ok() {
            assert_eq!(read_bytes, record.payload.len(), "the rows cover the whole payload");
        }
    }
    Ok(rows)
}

fn print_all(bundle: &Bundle<'_>) {
    for report in Report::ALL {
        for format in report.formats() {
            print(bundle, &ReportOptions { report: *report, format: *format, ..ReportOptions::default() });
        }
    }
    let format = Format::Jsonl;
    for options in [
        ReportOptions { report: Report::Dispatch, format, dispatch_events: true, ..ReportOptions::default() },
        ReportOptions { report: Report::Counter, format, counter_samples: true, ..ReportOptions::default() },
    ] {
        print(bundle, &options);
    }
}

/// Errors are those of malformed bundles; the output may end anywhere.
fn print(bundle: &Bundle<'_>, options: &ReportOptions) {
    let _ = crate::report::print(bundle, options, &mut std::io::sink());
}
