use rehal_base::{ElementType, StatusCode};
use rehal_hal::{Buffer, BufferParams, BufferUsage, BufferView, Encoding, MemoryType, PlainBuffer};
use rehal_vm::Value;
use rehal_vm::Value::{I32, I64};

use crate::program::{Program, bytes, value};

const I32_TYPE: u32 = 0x1000_0020;
const SI32_TYPE: u32 = 0x1100_0020;
const F32_TYPE: u32 = 0x2100_0020;

fn buffer() -> Buffer {
    let params = BufferParams {
        usage: BufferUsage::TRANSFER_SOURCE | BufferUsage::DISPATCH_STORAGE_READ,
        memory_type: MemoryType::HOST_VISIBLE | MemoryType::DEVICE_VISIBLE,
        ..BufferParams::default()
    };
    Buffer::new(params, 16, PlainBuffer::allocate(16).unwrap())
}

fn view(element_type: u32, encoding: u32, shape: &[u64]) -> Value {
    value(BufferView::new(buffer(), shape, ElementType(element_type), Encoding(encoding)).unwrap())
}

fn check_view(view: Value, element_type: u32, encoding: i32, shape: &[i64]) -> Result<(), String> {
    let mut arguments = vec![view, bytes("input0"), I32(element_type as i32), I32(encoding)];
    arguments.extend(shape.iter().map(|dim| I64(*dim)));
    match Program::new().call_with_spans("buffer_view.assert", &arguments, &[shape.len()]) {
        Ok(_) => Ok(()),
        Err(error) => {
            assert_eq!(error.code(), StatusCode::InvalidArgument);
            Err(error.message().to_string())
        }
    }
}

#[test]
fn matching_views_pass() {
    check_view(view(I32_TYPE, 1, &[2, 2]), I32_TYPE, 1, &[2, 2]).unwrap();
    check_view(view(I32_TYPE, 1, &[]), I32_TYPE, 1, &[]).unwrap();
    // Either signedness, opaque bytes, an opaque encoding.
    check_view(view(SI32_TYPE, 1, &[4]), I32_TYPE, 1, &[4]).unwrap();
    check_view(view(0x20, 1, &[4]), F32_TYPE, 1, &[4]).unwrap();
    check_view(view(I32_TYPE, 0, &[4]), I32_TYPE, 1, &[4]).unwrap();
}

#[test]
fn mismatches_have_the_reference_s_messages() {
    for (view, element_type, encoding, shape, message) in [
        (
            view(I32_TYPE, 1, &[4]),
            I32_TYPE,
            2,
            &[4][..],
            "input0 encoding mismatch; expected 00000002 but have 00000001",
        ),
        (
            view(I32_TYPE, 1, &[4]),
            F32_TYPE,
            1,
            &[4],
            "input0 element type mismatch; expected f32 (21000020) but have i32 (10000020)",
        ),
        (
            view(0x1300_0008, 1, &[4]),
            I32_TYPE,
            1,
            &[4],
            "input0 element type mismatch; expected i32 (10000020) but have i1 (13000008)",
        ),
        (
            view(I32_TYPE, 1, &[]),
            I32_TYPE,
            1,
            &[2, 2],
            "input0 shape rank mismatch; expected 2 but have 0 (scalar); expected shape `2x2`, actual shape ``",
        ),
        (
            view(I32_TYPE, 1, &[2, 2]),
            I32_TYPE,
            1,
            &[2, 3],
            "input0 shape dimension 1 mismatch; expected 3 but have 2; expected shape `2x3`, actual shape `2x2`",
        ),
    ] {
        assert_eq!(check_view(view, element_type, encoding, shape).unwrap_err(), message);
    }
}

#[test]
fn buffers_are_checked_for_size_type_and_usage() {
    let program = Program::new();
    let check = |size, memory_type: MemoryType, usage: BufferUsage| {
        program.call(
            "buffer.assert",
            &[
                value(buffer()),
                bytes("tensor"),
                program.allocator.clone(),
                I64(size),
                I32(memory_type.bits() as i32),
                I32(usage.bits() as i32),
            ],
        )
    };
    check(16, MemoryType::DEVICE_VISIBLE, BufferUsage::TRANSFER_SOURCE).unwrap();
    let small = check(17, MemoryType::empty(), BufferUsage::empty()).unwrap_err();
    assert_eq!(small.message(), "tensor buffer byte length 16 less than expected minimum 17");
    let place =
        check(0, MemoryType::HOST_CACHED | MemoryType::DEVICE_LOCAL, BufferUsage::empty()).unwrap_err();
    assert_eq!(place.code(), StatusCode::PermissionDenied);
    assert_eq!(
        place.message(),
        "tensor buffer memory type is not compatible; buffer has HOST_VISIBLE|DEVICE_VISIBLE, operation requires DEVICE_LOCAL|HOST_CACHED"
    );
    let usage = check(
        0,
        MemoryType::empty(),
        BufferUsage::TRANSFER_SOURCE | BufferUsage::TRANSFER_TARGET | BufferUsage::from_bits_retain(1 << 30),
    )
    .unwrap_err();
    assert_eq!(
        usage.message(),
        "tensor requested usage was not specified when the buffer was allocated; buffer allows TRANSFER_SOURCE|DISPATCH_STORAGE_READ, operation requires TRANSFER|40000000h"
    );
    let other = program.refused(
        "buffer.assert",
        &[value(buffer()), bytes(""), program.device.clone(), I64(0), I32(0), I32(0)],
    );
    assert_eq!(other.code(), StatusCode::InvalidArgument);
}
