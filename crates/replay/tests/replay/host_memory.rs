//! Host writes are repeated, and host reads are observed.

use rehal_base::StatusCode;
use rehal_capture::OperationCode as Op;
use zerocopy::little_endian::{U16, U32};

use crate::common::{CaptureBuilder, Read, range, run, whole};

#[test]
fn bytes_of_an_unmap_and_of_a_flush_are_written() {
    for operation in [Op::BUFFER_UNMAP_RANGE, Op::BUFFER_FLUSH_RANGE] {
        let mut capture = CaptureBuilder::new();
        let buffer = capture.buffer(8);
        capture.range(Op::BUFFER_MAP_RANGE, buffer, 2, 4, 1, 6);
        capture.written(operation, buffer, 2, 4, b"abcd");
        capture.read(buffer, 0, 8);
        assert_eq!(run(&capture.finish()).unwrap().bytes(), [b"\0\0abcd\0\0"], "{operation}");
    }
}

#[test]
fn a_partial_write_leaves_the_rest_of_the_range() {
    let mut capture = CaptureBuilder::new();
    let buffer = capture.buffer(6);
    capture.write(buffer, 0, b"before");
    capture.written(Op::BUFFER_UNMAP_RANGE, buffer, 1, 5, b"XY");
    capture.written(Op::BUFFER_FLUSH_RANGE, buffer, 5, 1, b"Z");
    capture.read(buffer, 0, 6);
    // An empty write to a read-only buffer is valid.
    let mut read_only = crate::common::allocation(6);
    read_only.access = U16::new(1);
    let other = capture.buffer_with(read_only);
    capture.written(Op::BUFFER_UNMAP_RANGE, other, 0, 6, b"");
    assert_eq!(run(&capture.finish()).unwrap().bytes(), [b"bXYorZ"]);
}

#[test]
fn an_unmap_without_bytes_writes_nothing() {
    let mut capture = CaptureBuilder::new();
    let buffer = capture.buffer(4);
    capture.write(buffer, 0, b"kept");
    capture.range(Op::BUFFER_MAP_RANGE, buffer, 0, 4, 1, 2);
    capture.range(Op::BUFFER_FLUSH_RANGE, buffer, 0, 4, 0, 2);
    capture.range(Op::BUFFER_UNMAP_RANGE, buffer, 0, 4, 0, 2);
    capture.read(buffer, 0, 4);
    assert_eq!(run(&capture.finish()).unwrap().bytes(), [b"kept"]);
}

#[test]
fn read_mappings_and_invalidations_are_observed() {
    let mut capture = CaptureBuilder::new();
    let buffer = capture.buffer(8);
    capture.write(buffer, 0, b"01234567");
    let mut expected = Vec::new();
    for (operation, offset, length, mode, access) in [
        (Op::BUFFER_MAP_RANGE, 2, 3, 1, 1),
        (Op::BUFFER_MAP_RANGE, 0, 8, 1, 3),
        // A persistent mapping for reading: each invalidation is a host read.
        (Op::BUFFER_MAP_RANGE, 4, 4, 2, 1),
        (Op::BUFFER_INVALIDATE_RANGE, 5, 2, 0, 1),
        (Op::BUFFER_MAP_RANGE, 8, 0, 1, 1),
        (Op::BUFFER_MAP_RANGE, 6, u64::MAX, 1, 1),
    ] {
        capture.range(operation, buffer, offset, length, mode, access);
        let end = offset.saturating_add(length).min(8) as usize;
        expected.push(Read {
            ordinal: capture.place().ordinal,
            scope: None,
            buffer_id: buffer,
            offset,
            bytes: b"01234567"[offset as usize..end].to_vec(),
        });
    }
    // A mapping for writing is not a host read.
    capture.range(Op::BUFFER_MAP_RANGE, buffer, 0, 8, 1, 2);
    assert_eq!(run(&capture.finish()).unwrap().reads, expected);
}

#[test]
fn imported_host_memory_has_the_captured_bytes() {
    let mut capture = CaptureBuilder::new();
    let imported = capture.import_buffer(1, 8, b"imported");
    let short = capture.import_buffer(1, 8, b"abc");
    let target = capture.buffer(8);
    capture.copy(whole(imported), whole(target));
    capture.read(target, 0, 8);
    capture.read(short, 0, 8);
    assert_eq!(run(&capture.finish()).unwrap().bytes(), [b"imported", b"abc\0\0\0\0\0"]);
}

#[test]
fn imported_memory_is_filled_whatever_its_usage() {
    let mut capture = CaptureBuilder::new();
    let imported = capture.import_buffer(1, 4, b"data");
    let mut header = crate::common::allocation(4);
    (header.usage, header.memory_type, header.access) = (U32::new(1), U32::new(0x10), U16::new(1));
    capture.last_payload()[..size_of_val(&header)].copy_from_slice(zerocopy::IntoBytes::as_bytes(&header));
    let target = capture.buffer(4);
    capture.copy(range(imported, 0, 4), range(target, 0, 4));
    capture.read(target, 0, 4);
    assert_eq!(run(&capture.finish()).unwrap().bytes(), [b"data"]);
}

#[test]
fn an_out_of_range_host_access_is_an_error_with_its_record() {
    for add in [
        |it: &mut CaptureBuilder, buffer| it.range(Op::BUFFER_MAP_RANGE, buffer, 2, 3, 1, 1),
        |it: &mut CaptureBuilder, buffer| it.written(Op::BUFFER_UNMAP_RANGE, buffer, u64::MAX, 1, b"x"),
        |it: &mut CaptureBuilder, buffer| it.written(Op::BUFFER_FLUSH_RANGE, buffer, 1, u64::MAX - 1, b"x"),
    ] {
        let mut capture = CaptureBuilder::new();
        let buffer = capture.buffer(4);
        add(&mut capture, buffer);
        let error = run(&capture.finish()).unwrap_err();
        assert_eq!(error.code(), StatusCode::OutOfRange);
        let at = format!("record #{}, offset {}: ", capture.place().ordinal, capture.place().offset);
        assert!(error.report().contains(&at) && error.report().contains("object 4"), "{error:?}");
    }
}

#[test]
fn a_failed_allocation_is_an_error_with_its_record() {
    let mut capture = CaptureBuilder::new();
    capture.buffer(u64::MAX);
    let error = run(&capture.finish()).unwrap_err();
    assert_eq!(error.code(), StatusCode::ResourceExhausted);
    assert!(error.report().contains("allocator.allocate_buffer(102), device 1, object 2, related object 4"));
}
