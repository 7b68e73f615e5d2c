//! Mappings and imported host memory.

use std::sync::Arc;

use rehal_base::{HostMemory, Range, StatusCode};
use rehal_capture::{OperationCode as Code, Payload};
use rehal_hal::{BufferParams, MemoryAccess, QUEUE_AFFINITY_ANY};
use rehal_replay::RecordOptions;

use crate::program::{Program, Reads, each_operation, mappable, operations, replay};

const OK: u32 = 0;

#[test]
fn writes_are_recorded_when_the_mapping_ends() {
    let program = Program::new(RecordOptions::default());
    let buffer = program.buffer(&[1; 8]);
    let mapping = buffer.map(MemoryAccess::WRITE | MemoryAccess::READ, 2, 4).unwrap();
    mapping.write(0, &[2, 3]).unwrap();
    mapping.write(1, &[4]).unwrap();
    drop(mapping);
    let mut bytes = [0; 8];
    buffer.read(0, &mut bytes).unwrap();
    assert_eq!(bytes, [1, 1, 2, 4, 1, 1, 1, 1]);

    let capture = program.capture();
    let mut written = Vec::new();
    each_operation(&capture, |record| {
        if let Ok(Payload::BufferRangeData(it)) = record.payload() {
            written.push((it.byte_offset.get(), it.data.to_vec()));
        }
    });
    assert_eq!(written, [(0, vec![1; 8]), (2, vec![2, 4, 1, 1])]);
    let mut reads = Reads::default();
    replay(&capture, &mut reads).unwrap();
    assert_eq!(reads.0.last().unwrap(), &bytes);
}

#[test]
fn flushes_are_recorded_with_bytes_and_invalidations_without() {
    let program = Program::new(RecordOptions::default());
    let buffer = program.buffer(&[0; 8]);
    let mapping = buffer.map(MemoryAccess::WRITE | MemoryAccess::READ, 0, 8).unwrap();
    mapping.write(4, &[9, 8]).unwrap();
    mapping.flush(4, 2).unwrap();
    mapping.invalidate(0, 4).unwrap();
    assert_eq!(mapping.flush(7, 2).unwrap_err().code(), StatusCode::OutOfRange);
    drop(mapping);
    let capture = program.capture();
    let mut flushed = None;
    each_operation(&capture, |record| match (record.operation(), record.payload().unwrap()) {
        (Code::BUFFER_FLUSH_RANGE, Payload::BufferRangeData(it)) => {
            flushed = Some((it.byte_offset.get(), it.data.to_vec()));
        }
        (Code::BUFFER_INVALIDATE_RANGE, Payload::BufferRange(it)) => {
            assert_eq!((it.byte_offset.get(), it.byte_length.get()), (0, 4));
        }
        _ => {}
    });
    assert_eq!(flushed, Some((4, vec![9, 8])));
    replay(&capture, &mut Reads::default()).unwrap();
}

#[test]
fn persistent_mappings_are_read_only() {
    let program = Program::new(RecordOptions::default());
    let buffer = program.buffer(&[0; 8]);
    drop(buffer.map_persistent(MemoryAccess::READ, 0, 8).unwrap());
    let refused = buffer.map_persistent(MemoryAccess::WRITE, 0, 8).map(drop).unwrap_err();
    assert_eq!(refused.code(), StatusCode::Unimplemented);
    let capture = program.capture();
    let maps: Vec<_> =
        operations(&capture).into_iter().filter(|(code, _)| *code == Code::BUFFER_MAP_RANGE).collect();
    let refused = StatusCode::Unimplemented as u32;
    assert_eq!(maps.iter().map(|(_, status)| *status).collect::<Vec<_>>(), [OK, OK, refused]);
    // The rejected call is recorded, and a replay skips it.
    replay(&capture, &mut Reads::default()).unwrap();
}

#[test]
fn only_the_imported_range_is_recorded() {
    let program = Program::new(RecordOptions::default());
    let memory = Arc::new(HostMemory::constant(&(0..=255).collect::<Vec<u8>>()).unwrap());
    let params = BufferParams { access: MemoryAccess::READ, ..mappable() };
    let range = Range { offset: 64, length: 100 };
    let imported = program.device().import_buffer(params, &memory, range).unwrap();
    // Unaligned, so the import fails; its bytes are not recorded.
    let unaligned = Range { offset: 63, length: 100 };
    assert!(program.device().import_buffer(params, &memory, unaligned).is_err());
    let target = program.buffer(&[0; 100]);
    program.device().queue(QUEUE_AFFINITY_ANY).copy(&imported, &target, 0).unwrap();
    let mut bytes = [0; 100];
    target.read(0, &mut bytes).unwrap();

    let capture = program.capture();
    let mut imports = Vec::new();
    each_operation(&capture, |record| {
        if let Ok(Payload::ImportBuffer(it)) = record.payload() {
            imports.push((record.header.status_code.get(), it.data.to_vec()));
        }
    });
    let expected: Vec<u8> = (64..164).collect();
    assert_eq!(imports, [(OK, expected.clone()), (StatusCode::OutOfRange as u32, Vec::new())]);
    assert_eq!(bytes.to_vec(), expected);
    let mut reads = Reads::default();
    replay(&capture, &mut reads).unwrap();
    assert_eq!(reads.0.last().unwrap(), &expected);
}

/// Subspans are recorded as ranges of their allocation.
#[test]
fn subspans_are_ranges_of_their_allocation() {
    let program = Program::new(RecordOptions::default());
    let whole = program.buffer(&[0; 16]);
    let part = whole.subspan(4, 8).unwrap();
    program.device().queue(QUEUE_AFFINITY_ANY).fill(&part, &[7], 0).unwrap();
    part.subspan(2, 2).unwrap().write(0, &[1, 2]).unwrap();
    let mut bytes = [0; 16];
    whole.read(0, &mut bytes).unwrap();
    assert_eq!(bytes, [0, 0, 0, 0, 7, 7, 1, 2, 7, 7, 7, 7, 0, 0, 0, 0]);
    let mut reads = Reads::default();
    replay(&program.capture(), &mut reads).unwrap();
    assert_eq!(reads.0.last().unwrap(), &bytes);
}
