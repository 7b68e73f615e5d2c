//! What a device with a clock of its own reports, whose ticks drift from the host's time.

use rehal_base::StatusCode;
use rehal_hal::FunctionInfo;
use rehal_hal::profile::{
    ClockSample, DeviceQueueEvent, DispatchEvent, ProfileSink, ProfiledDispatch, ProfiledOperation,
    QueueOpKind,
};

use super::*;
use crate::ReportFormat;

/// Ticks of a clock of 25 MHz that starts at an arbitrary value and gains 100 ppm.
fn tick_at(host_ns: i64) -> u64 {
    7_000_000 + (i128::from(host_ns) * 10_001 / 10_000 / 40) as u64
}

fn sample(host_ns: i64) -> ClockSample {
    ClockSample { device_tick: tick_at(host_ns), host_before_ns: host_ns - 500, host_after_ns: host_ns + 500 }
}

#[test]
fn ticks_of_a_clock_that_drifts_are_converted_to_the_hosts_time() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("clock.ireeprof");
    let bundle = Arc::new(Bundle::new(File::create(&path).unwrap()).unwrap());
    let sink = DeviceSink::new(&bundle, 0, "clocked");
    sink.begin();
    let function = FunctionInfo {
        name: "kernel".into(),
        flags: 0,
        workgroup_size: [64, 1, 1],
        constant_count: 0,
        binding_count: 2,
        parameter_count: 0,
        parameters: Vec::new(),
    };
    sink.executable(9, &[function]);
    // Two samples 10 s apart, and a dispatch of 3 ms between them.
    let (first, last) = (1_000_000_000, 11_000_000_000);
    sink.clock_sample(&sample(first));
    let operation = ProfiledOperation {
        kind: QueueOpKind::Dispatch,
        queue_ordinal: 0,
        submission_id: 1,
        command_buffer_id: 0,
        allocation_id: 0,
        operation_count: 1,
        payload_bytes: 0,
    };
    let dispatch = ProfiledDispatch {
        executable_id: 9,
        function: 0,
        workgroup_count: [4, 1, 1],
        workgroup_size: [64, 1, 1],
        is_indirect: false,
    };
    let (start_tick, end_tick) = (tick_at(6_000_000_000), tick_at(6_003_000_000));
    sink.dispatch_event(&DispatchEvent { operation, command_index: None, dispatch, start_tick, end_tick });
    sink.device_queue_event(&DeviceQueueEvent { operation, start_tick, end_tick });
    sink.clock_sample(&sample(last));
    sink.end(StatusCode::Ok);
    bundle.check().unwrap();

    let mut text = Vec::new();
    let options =
        ReportOptions { report: Report::Export, format: ReportFormat::IreeperfJsonl, ..Default::default() };
    ProfileFile::open(&path).unwrap().print(&options, &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let number = |kind: &str, field: &str| -> i64 {
        let row =
            text.lines().find(|line| line.contains(&format!("\"record_type\":\"{kind}\""))).expect(kind);
        let value = row.split(&format!("\"{field}\":")).nth(1).unwrap_or_else(|| panic!("{field} in {row}"));
        value.split([',', '}']).next().unwrap().parse().unwrap_or_else(|_| panic!("{field} in {row}"))
    };
    for kind in ["dispatch_event", "queue_device_event"] {
        let duration = number(kind, "duration_ns");
        assert!((duration - 3_000_000).abs() <= 80, "{kind}: {duration} ns");
        // Ticks alone, at 25 MHz, would be off by 300 ns.
        assert_ne!(duration, ((end_tick - start_tick) * 40) as i64, "{kind}");
    }
    assert!(text.contains("\"kernel\""), "{text}");
}
