//! The parts that a redacted capture has, and those that it does not have.

use std::io::Cursor;
use std::sync::Arc;

use rehal_base::StatusCode;
use rehal_capture::layout::{AllocateBuffer, BufferRangeData, BufferRef};
use rehal_capture::payload::{self, View};
use rehal_capture::{
    Capture, ObjectType, OpenOptions, OperationCode, Payload, PayloadType, RecordFields, RecordType, Writer,
    layout,
};
use rehal_edit::{
    RedactDecision, RedactOptions, RedactRule, RedactedContent, RedactedNames, Redaction, UnknownType,
    WorkgroupCounts, check_redacted, redact, workgroup_count_functions,
};
use rehal_hal::DeviceGroup;
use rehal_local::LocalSync;
use rehal_local::executable::Plugins;
use rehal_replay::{DataKind, Observer, Plan, PlanOptions, Replay, ReplayOptions};
use zerocopy::little_endian::{U32, U64};

fn bytes(name: &str) -> Vec<u8> {
    std::fs::read(testing::fixtures().join(format!("captures/{name}.ireereplay"))).unwrap()
}

fn plan(bytes: &[u8]) -> Plan {
    Plan::compile(bytes.to_vec(), PlanOptions { recover: true, ..PlanOptions::default() }).unwrap()
}

fn redacted(original: &[u8], edit: impl FnOnce(&mut RedactOptions)) -> (Vec<u8>, Redaction) {
    let mut options = RedactOptions::default();
    edit(&mut options);
    let mut sink = Vec::new();
    let plan = plan(original);
    let redaction = redact(&plan, Cursor::new(&mut sink), &options).unwrap();
    check_redacted(&plan, &self::plan(&sink)).unwrap();
    (sink, redaction)
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|it| it == part)
}

#[test]
fn a_seed_has_one_result() {
    let original = bytes("mlp.mlp.local-sync");
    let of = |seed| redacted(&original, |it| it.seed = seed).0;
    assert!(of(1) == of(1) && of(1) != of(2) && of(1) != original);
    assert_eq!(of(1).len(), of(2).len());
}

#[test]
fn equal_contents_stay_equal() {
    // What the program writes is flushed first.
    let original = edited(&bytes("mlp.mlp.local-sync"), |writer, record| {
        if let Ok(Payload::BufferRangeData(it)) = record.payload() {
            let operation = OperationCode::BUFFER_FLUSH_RANGE;
            let fields = RecordFields { operation, ..RecordFields::from(record.header) };
            writer.append_view(&fields, &it).unwrap();
        }
        true
    });
    let writes = |bytes: &[u8]| {
        let capture = Capture::open(bytes, OpenOptions::default()).unwrap();
        let of = |payload: Payload<'_>| match payload {
            Payload::BufferRangeData(it) => Some(it.data.to_vec()),
            _ => None,
        };
        capture.records().filter_map(|record| of(record.unwrap().payload().unwrap())).collect::<Vec<_>>()
    };
    let (was, is) = (writes(&original), writes(&redacted(&original, |_| {}).0));
    assert!(is.len() == 8 && is.len() == was.len());
    assert!(is.chunks(2).all(|pair| pair[0] == pair[1]));
    assert!(is.iter().zip(&was).all(|(is, was)| is.len() == was.len() && is != was));
    let distinct: std::collections::HashSet<_> = is.iter().collect();
    assert_eq!(distinct.len(), was.iter().collect::<std::collections::HashSet<_>>().len());
}

#[test]
fn names_are_hashed_with_the_seed() {
    let original = bytes("params.capture-ranges.digest.local-sync");
    let path = b"/tmp/rehal-fixtures/params/model.irpa";
    assert!(contains(&original, path) && contains(&original, b"execute"));
    let (kept, redaction) = redacted(&original, |_| {});
    assert!(contains(&kept, path) && contains(&kept, b"execute"));
    assert!(redaction.kept.name_count > 1 && redaction.hashed_names.is_empty());
    let of = |seed| {
        redacted(&original, |it| {
            it.names = RedactedNames::Hash;
            it.seed = seed;
        })
    };
    let ((first, redaction), (second, _)) = (of(1), of(2));
    assert!(!contains(&first, b"model.irpa") && !contains(&first, b"execute"));
    assert!(redaction.kept.name_count == 0 && redaction.hashed_names.len() > 1);
    let scopes = |bytes: &[u8]| plan(bytes).scopes().map(|(name, _)| name.to_vec()).collect::<Vec<_>>();
    assert_eq!(scopes(&first), scopes(&of(1).0));
    assert!(scopes(&first).len() == scopes(&original).len() && scopes(&first) != scopes(&second));
}

/// Copies a capture, with `add` called before each record.
fn edited(
    original: &[u8],
    mut add: impl FnMut(&mut Writer<&mut Cursor<Vec<u8>>>, &rehal_capture::Record<'_>) -> bool,
) -> Vec<u8> {
    let capture = Capture::open(original, OpenOptions::default()).unwrap();
    let mut sink = Cursor::new(Vec::new());
    let mut writer = Writer::new(&mut sink).unwrap();
    for record in capture.records() {
        let record = record.unwrap();
        if add(&mut writer, &record) {
            writer.append(&RecordFields::from(record.header), &[record.payload]).unwrap();
        }
    }
    writer.close().unwrap();
    sink.into_inner()
}

const SECRET: &[u8] = b"0123456789 secret 9876543210 secret !?&%";

#[test]
fn what_is_not_understood_is_left_out() {
    let mut is_first = true;
    let original = edited(&bytes("add4.add.local-sync"), |writer, record| {
        let is_map = record.operation() == OperationCode::BUFFER_MAP_RANGE;
        if std::mem::take(&mut is_first) {
            let session = |payload_type| RecordFields {
                record_type: RecordType::SESSION,
                payload_type,
                ..RecordFields::default()
            };
            writer.append(&session(PayloadType(0x1234)), &[SECRET]).unwrap();
            writer.append(&session(PayloadType::READ_DIGEST), &[SECRET]).unwrap();
            let optional = RecordFields {
                record_type: RecordType(77),
                optional: true,
                payload_type: PayloadType(1000),
                ..RecordFields::default()
            };
            writer.append(&optional, &[SECRET]).unwrap();
        }
        if record.operation() == OperationCode::BUFFER_UNMAP_RANGE && !record.payload.is_empty() {
            // The same call, which failed before.
            let fields = RecordFields { status_code: 13, ..RecordFields::from(record.header) };
            let header = BufferRangeData { data_length: U64::new(SECRET.len() as u64), ..Default::default() };
            let view = payload::BufferRangeData { header: &header, data: SECRET };
            writer.append_view(&fields, &view).unwrap();
        }
        !is_map || record.header.status_code.get() == 0
    });
    let (result, redaction) = redacted(&original, |_| {});
    assert!(contains(&original, SECRET) && !contains(&result, &SECRET[..6]));
    let rewritten = redaction.rewritten;
    assert_eq!((rewritten.digest_count, rewritten.unknown_count), (1, 2));
    assert_eq!(rewritten.unknown_bytes, 2 * SECRET.len() as u64);
    assert!(rewritten.failed_count > 0);
    let failed = |bytes: &[u8]| {
        let capture = Capture::open(bytes, OpenOptions::default()).unwrap();
        capture.records().filter(|it| it.as_ref().unwrap().header.status_code.get() != 0).count()
    };
    assert_eq!(failed(&result), failed(&original));
}

/// `SELECTOR=zero`, `SELECTOR=keep` or `SELECTOR=TYPE`.
fn rule(text: &str) -> RedactRule {
    let (selector, decision) = text.split_once('=').unwrap();
    let decision = match decision {
        "zero" => RedactDecision::Zero,
        "keep" => RedactDecision::Keep,
        element_type => RedactDecision::Elements(element_type.parse().unwrap()),
    };
    RedactRule::parse(selector, decision).unwrap()
}

fn with_rules(original: &[u8], rules: &[&str]) -> rehal_base::Result<(Vec<u8>, Redaction)> {
    let mut options = RedactOptions::default();
    options.rules = rules.iter().map(|it| rule(it)).collect();
    let mut sink = Vec::new();
    let redaction = redact(&plan(original), Cursor::new(&mut sink), &options)?;
    Ok((sink, redaction))
}

#[test]
fn rules_precede_types_in_names() {
    let original = bytes("mlp.mlp.local-sync");
    let types = |rules: &[&str]| {
        let types = with_rules(&original, rules).unwrap().1.types();
        types.into_keys().collect::<Vec<_>>().join(" ")
    };
    let record = with_rules(&original, &[]).unwrap().1.ranges[0].place;
    assert_eq!(types(&[]), "f32");
    assert_eq!(types(&["all=i8"]), "f32");
    assert_eq!(types(&["all=i8", "*=bf16"]), "bf16");
    assert_eq!(types(&["*=bf16", &format!("{record}=f8E4M3FN")]), "bf16 f8E4M3FN");
    assert_eq!(types(&["*=zero"]), "");
}

#[test]
fn a_range_of_unknown_type_needs_a_decision() {
    let original = bytes("simple_abs.abs.local-sync");
    let (result, redaction) = with_rules(&original, &[]).unwrap();
    let [(range, UnknownType::Unnamed)] = redaction.undecided().collect::<Vec<_>>()[..] else {
        panic!("{:?}", redaction.ranges)
    };
    assert_eq!(range.function.as_deref(), Some("abs_dispatch_0_elementwise"));
    let value = |bytes: &[u8]| {
        let capture = Capture::open(bytes, OpenOptions::default()).unwrap();
        capture.records().find_map(|record| match record.unwrap().payload().unwrap() {
            Payload::BufferRangeData(it) => Some(it.data.to_vec()),
            _ => None,
        })
    };
    let was = value(&original);
    assert_eq!(value(&result), Some(vec![0; 4]), "nothing is written of it");
    let exact = format!("{}=f32", range.place);
    // A redacted capture is redacted like others; its records have other ordinals.
    for (selector, again, content, is) in [
        ("all=zero", "all=zero", RedactedContent::Zeroed, Some(vec![0; 4])),
        ("abs*=keep", "abs*=keep", RedactedContent::Kept, was.clone()),
        // Its range has no other number.
        (&exact, "all=f32", RedactedContent::Elements("f32".parse().unwrap()), was.clone()),
    ] {
        let (result, redaction) = with_rules(&original, &[selector]).unwrap();
        assert_eq!((redaction.undecided().count(), value(&result)), (0, is), "{selector}");
        assert!(redaction.ranges.iter().any(|it| it.content == content));
        assert!(with_rules(&result, &[again]).unwrap().0 == result, "{selector}");
    }
}

#[test]
fn rules_that_are_wrong_are_errors() {
    let original = bytes("mlp.mlp.local-sync");
    let place = with_rules(&original, &[]).unwrap().1.ranges[0].place;
    let (record, length) = (place.record, place.range.length);
    for (rules, reason) in [
        (vec!["nothing*=zero".to_owned()], "'nothing*'"),
        (vec!["#1@0+4=zero".to_owned()], "no data at #1@0+4"),
        (vec![format!("#{record}@{length}+4=zero")], "is not in it"),
        (vec![format!("#{record}@0+6=f32")], "not a multiple"),
        (vec!["*=zero".to_owned(), "mlp*=keep".to_owned()], "different things"),
        (vec![format!("#{record}@0+8=zero"), format!("#{record}@4+8=keep")], "#{record}@4+4"),
    ] {
        let rules: Vec<_> = rules.iter().map(String::as_str).collect();
        let error = with_rules(&original, &rules).unwrap_err();
        let reason = reason.replace("{record}", &record.to_string());
        assert_eq!(error.code(), StatusCode::InvalidArgument, "{rules:?}");
        assert!(error.to_string().contains(&reason), "{rules:?}: {error}");
    }
    let part = format!("#{record}@4+8=keep");
    let kept = with_rules(&original, &[&part]).unwrap().1.kept;
    assert_eq!(kept.stated_bytes, 8);
}

/// The numbers of a slice of f32 once became i64.
#[test]
fn numbers_stay_within_their_limits() {
    let original = bytes("mlp.mlp.local-sync");
    let floats = |bytes: &[u8]| {
        let capture = Capture::open(bytes, OpenOptions::default()).unwrap();
        let of = |payload: Payload<'_>| match payload {
            Payload::BufferRangeData(it) => Some(it.data.to_vec()),
            _ => None,
        };
        let data = capture.records().filter_map(|record| of(record.unwrap().payload().unwrap()));
        data.map(|it| it.as_chunks().0.iter().map(|it| f32::from_le_bytes(*it)).collect::<Vec<_>>())
            .collect::<Vec<_>>()
    };
    let ((result, _), was) = (redacted(&original, |_| {}), floats(&original));
    let limits =
        |it: &[f32]| it.iter().fold((f32::MAX, f32::MIN), |(low, high), it| (low.min(*it), high.max(*it)));
    assert!(!was.is_empty());
    for (was, is) in was.iter().zip(floats(&result)) {
        let ((low, high), (new_low, new_high)) = (limits(was), limits(&is));
        assert!(low <= new_low && new_high <= high);
        assert!(was.iter().zip(&is).all(|(was, is)| (*was == 0.0) == (*is == 0.0)));
    }
}

/// Numbers among which counts would not stay by chance.
fn counts() -> Vec<u8> {
    let numbers: Vec<u32> =
        (0..64).map(|it| if (8..11).contains(&it) { 1 } else { 70_000 + it * 977 }).collect();
    numbers.into_iter().flat_map(u32::to_le_bytes).collect()
}

/// A capture whose dispatch reads its workgroup count from these numbers, at offset 32.
fn with_counts(data: &[u8]) -> Vec<u8> {
    const BUFFER: u64 = 900;
    edited(&bytes("add4.direct.local-sync"), |writer, record| {
        let Ok(Payload::Dispatch(it)) = record.payload() else { return true };
        let device = record.header.device_id.get();
        let capture_allocator = 2;
        let allocation = AllocateBuffer {
            allocation_size: U64::new(256),
            usage: U32::new(u32::MAX >> 4),
            memory_type: U32::new(0x32),
            access: zerocopy::little_endian::U16::new(7),
            ..Default::default()
        };
        let mut call = |operation,
                        object_type,
                        object_id,
                        related_object_id,
                        view: &dyn Fn(&mut Writer<_>, &RecordFields)| {
            let fields = RecordFields {
                record_type: RecordType::OPERATION,
                device_id: device,
                object_id,
                related_object_id,
                object_type,
                operation,
                ..RecordFields::default()
            };
            view(writer, &fields);
        };
        call(
            OperationCode::ALLOCATOR_ALLOCATE_BUFFER,
            ObjectType::ALLOCATOR,
            capture_allocator,
            BUFFER,
            &|writer, fields| {
                writer.append_view(fields, &payload::AllocateBuffer { header: &allocation }).unwrap();
            },
        );
        let header = BufferRangeData {
            byte_length: U64::new(256),
            data_length: U64::new(256),
            memory_access: zerocopy::little_endian::U16::new(2),
            ..Default::default()
        };
        call(OperationCode::BUFFER_FLUSH_RANGE, ObjectType::BUFFER, BUFFER, 0, &|writer, fields| {
            writer.append_view(fields, &payload::BufferRangeData { header: &header, data }).unwrap();
        });
        let header = layout::Dispatch {
            flags: U32::new(1),
            workgroup_count: [U32::ZERO; 3],
            workgroup_count_ref: BufferRef {
                buffer_id: U64::new(BUFFER),
                offset: U64::new(32),
                length: U64::new(12),
                ..Default::default()
            },
            ..*it.header
        };
        let view = payload::Dispatch { header: &header, ..it };
        writer.append_view(&RecordFields::from(record.header), &view).unwrap();
        false
    })
}

struct Unobserved;

impl Observer for Unobserved {}

#[test]
fn workgroup_counts_stay() {
    let original = with_counts(&counts());
    let (result, redaction) = redacted(&original, |it| it.rules = vec![rule("all=ui32")]);
    assert_eq!(redaction.kept.workgroup_count_bytes, 12);
    let capture = Capture::open(&result, OpenOptions::default()).unwrap();
    let data = capture.records().find_map(|record| match record.unwrap().payload().unwrap() {
        Payload::BufferRangeData(it) if it.data.len() == 256 => Some(it.data),
        _ => None,
    });
    let (is, was) = (data.unwrap(), counts());
    assert_eq!(is[32..44], was[32..44]);
    assert!(is[..32] != was[..32] && is[44..] != was[44..]);
    assert_eq!((redaction.indirect_dispatch_count, redaction.counts_may_change), (1, false));
    assert!(workgroup_count_functions(&plan(&original), &[]).unwrap().is_empty());
    // Otherwise, a capture that performs other workgroups may be called the same.
    let replay = |bytes: &[u8]| {
        let devices = DeviceGroup::new(vec![LocalSync::create(Plugins::default())]).unwrap();
        Replay::new(plan(bytes), &devices, &ReplayOptions::default()).unwrap()
    };
    let counted = WorkgroupCounts::from_replay(&replay(&original), &mut Unobserved).unwrap();
    let compare = |bytes: &[u8]| counted.compare(&replay(bytes), &mut Unobserved);
    assert!(compare(&result).unwrap().is_none());
    let mut other = counts();
    other[36] = 3;
    let changed = compare(&with_counts(&other)).unwrap().unwrap();
    assert_eq!((changed.original, changed.redacted, changed.occurrence), ([1, 1, 1], [1, 3, 1], 0));
    assert_eq!(changed.function, "add_dispatch_0_elementwise_4_f32");
    let error = compare(&bytes("add4.direct.local-sync")).unwrap_err();
    assert_eq!(error.message(), "the redacted capture performs other dispatches");
}

#[test]
fn a_truncated_capture_is_redacted_up_to_there() {
    let mut original = bytes("chain.chain.local-sync");
    // The length in the header.
    original[16..24].fill(0);
    original.truncate(original.len() - 500);
    let (result, redaction) = redacted(&original, |_| {});
    assert!(redaction.data[&DataKind::HostWrite].bytes > 0);
    let capture = Capture::open(&result, OpenOptions { recover: true }).unwrap();
    assert!(!capture.is_closed());
}

/// A sink that keeps nothing.
#[derive(Default)]
struct Counted(u64);

impl std::io::Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl std::io::Seek for Counted {
    fn seek(&mut self, _: std::io::SeekFrom) -> std::io::Result<u64> {
        Ok(0)
    }
}

#[test]
fn data_of_megabytes_is_replaced() {
    let numbers: Vec<u8> = (0..800_000_u32).flat_map(|it| (0.5 + it as f32 / 3e6).to_le_bytes()).collect();
    let mut is_done = false;
    let original = edited(&bytes("add4.add.local-sync"), |writer, record| {
        if let Ok(Payload::BufferRangeData(it)) = record.payload()
            && !is_done
        {
            is_done = true;
            let (buffer, on) = (901, RecordFields::from(record.header));
            let allocation = layout::ImportBuffer {
                allocation: AllocateBuffer {
                    allocation_size: U64::new(numbers.len() as u64),
                    usage: U32::new(3),
                    memory_type: U32::new(0x32),
                    access: it.memory_access,
                    ..Default::default()
                },
                external_type: U32::new(1),
                external_flags: U32::ZERO,
                data_length: U64::new(numbers.len() as u64),
            };
            let view = payload::ImportBuffer { header: &allocation, data: &numbers };
            let fields = RecordFields {
                object_id: 2,
                related_object_id: buffer,
                object_type: ObjectType::ALLOCATOR,
                operation: OperationCode::ALLOCATOR_IMPORT_BUFFER,
                payload_type: payload::ImportBuffer::TYPE,
                ..on
            };
            writer.append_view(&fields, &view).unwrap();
        }
        true
    });
    let (result, redaction) = redacted(&original, |it| it.rules = vec![rule("all=f32")]);
    assert_eq!(redaction.data[&DataKind::Import].bytes, numbers.len() as u64);
    let at = result.len() - original.len();
    assert!(at < 1 << 16, "checksums only");
    let floats = result.windows(4).filter(|it| it[..3] != [0; 3]).count();
    assert!(floats > numbers.len() / 2);
    assert!(numbers.chunks(1 << 20).all(|part| !contains(&result, &part[..16])));
    let mut sink = Counted::default();
    redact(&Arc::new(plan(&original)), &mut sink, &RedactOptions::default()).unwrap();
    assert!(sink.0 >= result.len() as u64);
}

#[test]
fn mutated_captures_are_redacted_or_refused() {
    let mut random = fastrand::Rng::with_seed(23);
    let (mut redacted, mut refused) = (0, 0);
    for name in
        ["add4.add.local-sync", "params.capture-ranges.digest.local-sync", "control.collatz.local-task"]
    {
        let seed = bytes(name);
        for _ in 0..400 {
            let mut mutated = seed.clone();
            for _ in 0..random.usize(1..4) {
                let at = random.usize(..mutated.len());
                mutated[at] = random.u8(..);
            }
            if random.u8(..8) == 0 {
                mutated.truncate(random.usize(..mutated.len()));
            }
            match rehal_edit::fuzzing::exercise_redact(&mutated) {
                Ok(_) => redacted += 1,
                Err(_) => refused += 1,
            }
        }
    }
    assert!(redacted > 50 && refused > 50, "{redacted} {refused}");
}
