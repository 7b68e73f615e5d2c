//! A trim is forwarded, recorded like the reference's, and replayed.

use rehal_base::Result;
use rehal_capture::{Capture, ObjectType, OpenOptions, OperationCode as Code, PayloadType};
use rehal_hal::DeviceGroup;
use rehal_replay::{Plan, PlanOptions, RecordOptions, Recorder, Replay, ReplayOptions};

use crate::counting::{self, Calls};
use crate::program::{Program, Reads, operations, replay};

#[test]
fn a_trim_is_recorded_on_its_device_without_a_payload() {
    let program = Program::new(RecordOptions::default());
    program.device().trim().unwrap();
    let bytes = program.capture();
    let capture = Capture::open(&bytes, OpenOptions::default()).unwrap();
    let records: Vec<_> = capture.records().collect::<Result<_, _>>().unwrap();
    let trim = records.iter().find(|record| record.operation() == Code::DEVICE_TRIM).unwrap();
    let device = trim.header.device_id.get();
    assert_eq!((trim.header.object_id.get(), trim.header.related_object_id.get()), (device, 0));
    assert_eq!((trim.object_type(), trim.payload_type()), (ObjectType::DEVICE, PayloadType::NONE));
    assert_eq!(operations(&bytes), [(Code::DEVICE_TRIM, 0)]);
    replay(&bytes, &mut Reads::default()).unwrap();
}

#[test]
fn a_failed_trim_is_recorded_and_not_replayed() {
    let calls = Calls::default();
    let base = DeviceGroup::new(vec![counting::device(&calls)]).unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    let recorder = Recorder::create(file.path(), RecordOptions::default()).unwrap();
    let failed = recorder.wrap(&base).unwrap().devices()[0].trim().unwrap_err();
    recorder.close().unwrap();
    let bytes = std::fs::read(file.path()).unwrap();
    assert_eq!(operations(&bytes), [(Code::DEVICE_TRIM, failed.code() as u32)]);
    assert_eq!(calls.of("DeviceBackend::trim"), 1);
    let plan = Plan::compile(bytes, PlanOptions::default()).unwrap();
    Replay::new(plan, &base, &ReplayOptions::default()).unwrap().run(&mut []).unwrap();
    assert_eq!(calls.of("DeviceBackend::trim"), 1);
}
