//! Assertions of programs about their arguments. The messages are the reference's: scripts match them.

use std::fmt::{Display, Write};

use rehal_base::{ElementType, Error, Numerical, Result, StatusCode};
use rehal_hal::{Buffer, BufferUsage, BufferView, Encoding, MemoryType};
use rehal_vm::Call;

use super::HalState;
use super::arguments::{handle, text};
use super::buffer_view::shape;
use super::handle::Allocator;

/// `(buffer, message, allocator, least size, memory types, usage)`
pub(super) fn buffer(_state: &HalState, call: &mut Call<'_>) -> Result<()> {
    let buffer: &Buffer = handle(call, 0)?;
    // Any allocator is accepted, not only the buffer's: a program may receive buffers of other devices.
    handle::<Allocator>(call, 2)?;
    check_buffer(
        buffer,
        call.u64(3)?,
        MemoryType::from_bits_retain(call.u32(4)?),
        BufferUsage::from_bits_retain(call.u32(5)?),
    )
    .or_else(|wrong| wrong.into_error(call))
}

/// `(view, message, element type, encoding, [dim])`
pub(super) fn buffer_view(_state: &HalState, call: &mut Call<'_>) -> Result<()> {
    let view: &BufferView = handle(call, 0)?;
    let element_type = ElementType(call.u32(2)?);
    let encoding = Encoding(call.u32(3)?);
    check_view(view, element_type, encoding, &shape(call, 4)?).or_else(|wrong| wrong.into_error(call))
}

/// The failure of an argument; prefixed with the program's message.
struct Wrong(StatusCode, String);

impl Wrong {
    fn argument(what: String) -> Self {
        Self(StatusCode::InvalidArgument, what)
    }

    #[cold]
    fn into_error(self, call: &Call<'_>) -> Result<()> {
        let message = text(call, 1)?;
        Err(Error::new(self.0, format!("{message} {}", self.1)))
    }
}

fn check_buffer(
    buffer: &Buffer,
    least_size: u64,
    memory_type: MemoryType,
    usage: BufferUsage,
) -> Result<(), Wrong> {
    if buffer.size() < least_size {
        return Err(Wrong::argument(format!(
            "buffer byte length {} less than expected minimum {least_size}",
            buffer.size()
        )));
    }
    let has = buffer.params();
    if !has.memory_type.contains(memory_type) {
        return Err(Wrong(
            StatusCode::PermissionDenied,
            format!(
                "buffer memory type is not compatible; buffer has {}, operation requires {}",
                memory_type_text(has.memory_type),
                memory_type_text(memory_type)
            ),
        ));
    }
    if !has.usage.contains(usage) {
        return Err(Wrong(
            StatusCode::PermissionDenied,
            format!(
                "requested usage was not specified when the buffer was allocated; buffer allows {}, operation requires {}",
                usage_text(has.usage),
                usage_text(usage)
            ),
        ));
    }
    Ok(())
}

fn check_view(
    view: &BufferView,
    element_type: ElementType,
    encoding: Encoding,
    shape: &[u64],
) -> Result<(), Wrong> {
    if view.encoding() != Encoding::OPAQUE && view.encoding() != encoding {
        return Err(Wrong::argument(format!(
            "encoding mismatch; expected {:08X} but have {:08X}",
            encoding.0,
            view.encoding().0
        )));
    }
    if !is_compatible(view.element_type(), element_type) {
        return Err(Wrong::argument(format!(
            "element type mismatch; expected {element_type} ({:08X}) but have {} ({:08X})",
            element_type.0,
            view.element_type(),
            view.element_type().0
        )));
    }
    if let Some(mismatch) = shape_mismatch(view.shape(), shape) {
        return Err(Wrong::argument(format!(
            "{mismatch}; expected shape `{}`, actual shape `{}`",
            shape_text(shape),
            shape_text(view.shape())
        )));
    }
    Ok(())
}

/// Opaque bytes match any type; integers of the same width match regardless of signedness.
fn is_compatible(actual: ElementType, expected: ElementType) -> bool {
    actual.numerical() == Numerical::OPAQUE
        || actual == expected
        || (actual.numerical().is_integer()
            && expected.numerical().is_integer()
            && actual.bits() == expected.bits())
}

fn shape_mismatch(actual: &[u64], expected: &[u64]) -> Option<String> {
    if actual.len() != expected.len() {
        let rank = |shape: &[u64]| match shape.len() {
            0 => "0 (scalar)".to_string(),
            rank => rank.to_string(),
        };
        return Some(format!("shape rank mismatch; expected {} but have {}", rank(expected), rank(actual)));
    }
    let odd = actual.iter().zip(expected).position(|(actual, expected)| actual != expected)?;
    Some(format!(
        "shape dimension {odd} mismatch; expected {} but have {}",
        expected[odd] as i64, actual[odd] as i64
    ))
}

fn shape_text(shape: &[u64]) -> String {
    join(shape.iter().map(|dim| *dim as i64), "x")
}

/// Names of memory types as in the reference: combinations first.
const MEMORY_TYPES: &[(MemoryType, &str)] = &[
    (MemoryType::HOST_LOCAL, "HOST_LOCAL"),
    (MemoryType::DEVICE_LOCAL, "DEVICE_LOCAL"),
    (MemoryType::OPTIMAL, "OPTIMAL"),
    (MemoryType::HOST_VISIBLE, "HOST_VISIBLE"),
    (MemoryType::HOST_COHERENT, "HOST_COHERENT"),
    (MemoryType::HOST_CACHED, "HOST_CACHED"),
    (MemoryType::DEVICE_VISIBLE, "DEVICE_VISIBLE"),
];

const STORAGE: BufferUsage = BufferUsage::DISPATCH_STORAGE_READ.union(BufferUsage::DISPATCH_STORAGE_WRITE);
const IMAGE: BufferUsage = BufferUsage::DISPATCH_IMAGE_READ.union(BufferUsage::DISPATCH_IMAGE_WRITE);
const PARAMETERS: BufferUsage =
    BufferUsage::DISPATCH_INDIRECT_PARAMETERS.union(BufferUsage::DISPATCH_UNIFORM_READ);

/// Names of usages as in the reference: combinations first.
const USAGES: &[(BufferUsage, &str)] = &[
    (BufferUsage::TRANSFER, "TRANSFER"),
    (PARAMETERS.union(STORAGE).union(IMAGE), "DISPATCH"),
    (STORAGE, "DISPATCH_STORAGE"),
    (IMAGE, "DISPATCH_IMAGE"),
    (BufferUsage::MAPPING_SCOPED.union(BufferUsage::MAPPING_ACCESS_RANDOM), "MAPPING"),
];

fn memory_type_text(flags: MemoryType) -> String {
    let names = named(flags.bits(), MEMORY_TYPES.iter().map(|(flags, name)| (flags.bits(), *name)));
    join(names.into_iter(), "|")
}

fn usage_text(flags: BufferUsage) -> String {
    let single = BufferUsage::all().iter_names().map(|(name, flag)| (flag.bits(), name));
    let names = USAGES.iter().map(|(flags, name)| (flags.bits(), *name)).chain(single);
    join(named(flags.bits(), names).into_iter(), "|")
}

/// The names whose bits are all set, each bit named once; unnamed bits as a number.
fn named<'n>(bits: u32, names: impl Iterator<Item = (u32, &'n str)>) -> Vec<String> {
    let mut rest = bits;
    let mut found = Vec::new();
    for (bits, name) in names {
        if rest & bits == bits {
            found.push(name.to_string());
            rest &= !bits;
        }
    }
    if rest != 0 {
        found.push(format!("{rest:X}h"));
    }
    found
}

fn join(parts: impl Iterator<Item = impl Display>, separator: &str) -> String {
    let mut text = String::new();
    for (index, part) in parts.enumerate() {
        let separator = if index == 0 { "" } else { separator };
        // Writing to a string cannot fail.
        let _ = write!(text, "{separator}{part}");
    }
    text
}
