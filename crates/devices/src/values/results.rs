//! Formats values as text and bytes, and compares them with expected values.

use std::fmt::Write as _;
use std::sync::Arc;

use rehal_base::{Context, ElementType, Error, HostMemory, Numerical, Range, Result};
use rehal_hal::{Buffer, BufferView, Mapping, MemoryAccess};
use rehal_modules::hal::Handle;
use rehal_values::{Equality, Scalar, TensorType, format_head, format_tensor, general_lower, shown_bytes};
use rehal_vm::{List, Ref, Value, ValueKind};

use super::inputs::{Parsed, parse};
use super::tensors::{self, HostTensor, type_of};
use super::text::ValueText;

/// Formats a value. Objects have their type and, on the next lines, their contents.
pub fn format_value(value: &Value, max_elements: u64) -> Result<String> {
    let reference = match value {
        Value::I8(value) => return Ok(format!("i8={value}")),
        Value::I16(value) => return Ok(format!("i16={value}")),
        Value::I32(value) => return Ok(Scalar::I32(*value).to_string()),
        Value::I64(value) => return Ok(Scalar::I64(*value).to_string()),
        Value::F32(value) => return Ok(format!("f32={}", general_lower((*value).into()))),
        Value::F64(value) => return Ok(format!("f64={}", general_lower(*value))),
        Value::Ref(reference) => reference,
    };
    let Some(type_name) = reference.type_name() else { return Ok("(null)".to_string()) };
    let held = if reference.downcast_ref::<List>().is_some() {
        format_list(reference, max_elements)?
    } else if let Some(Handle(view)) = reference.downcast_ref::<Handle<BufferView>>() {
        format_view(view, max_elements)?
    } else {
        "(no printer)".to_string()
    };
    Ok(format!("{type_name}\n{held}"))
}

/// Formats the elements of a list, one per line, including nested lists. Not recursive: a program can nest
/// lists deep enough to overflow the stack.
fn format_list(list: &Ref, max_elements: u64) -> Result<String> {
    const MAX_TEXT_BYTES: usize = 64 << 20;
    let mut text = String::new();
    // The stack of nested lists being printed, with the index of their next element.
    let mut open = vec![(list.clone(), 0)];
    while let Some((list, next)) = open.last_mut() {
        let list = list.object::<List>()?;
        if *next == list.len() {
            open.pop();
            // The end of a nested list ends the line of its element.
            if !open.is_empty() {
                text.push('\n');
            }
            continue;
        }
        let (index, value) = (*next, list.get(*next)?);
        *next += 1;
        let _ = write!(text, "child_list[{index}]: ");
        match value {
            Value::Ref(child) if child.downcast_ref::<List>().is_some() => {
                text.push_str("vm.list\n");
                open.push((child, 0));
            }
            value => {
                let _ = writeln!(text, "{}", format_value(&value, max_elements)?);
            }
        }
        if text.len() > MAX_TEXT_BYTES {
            return Err(Error::resource_exhausted(format!(
                "a list is too long to print, or contains itself: its text has more than {MAX_TEXT_BYTES} bytes"
            )));
        }
    }
    Ok(text)
}

/// Formats a tensor, such as `2xf32=1 2`.
pub fn format_view(view: &BufferView, max_elements: u64) -> Result<String> {
    // The reference maps twice, first to compute the length of the text; captures must be identical.
    tensors::view(view.buffer(), |_| Ok(()))?;
    tensors::view(view.buffer(), |memory| {
        let tensor_type = type_of(view);
        let length = shown_bytes(&tensor_type, max_elements)?.min(memory.length());
        let head = memory.bytes(Range { offset: 0, length })?;
        format_head(&tensor_type, &head, memory.length(), max_elements)
    })
}

/// The type of a value when written to a file; a buffer is a vector of bytes.
pub fn type_of_value(value: &Value) -> Result<TensorType> {
    let of = |shape: &[u64], numerical, bits| TensorType {
        shape: shape.to_vec(),
        element_type: ElementType::from_parts(numerical, bits),
    };
    let row = |length| of(&[length], Numerical::INTEGER, 8);
    Ok(match value {
        Value::I8(_) => of(&[], Numerical::INTEGER, 8),
        Value::I16(_) => of(&[], Numerical::INTEGER, 16),
        Value::I32(_) => of(&[], Numerical::INTEGER, 32),
        Value::I64(_) => of(&[], Numerical::INTEGER, 64),
        Value::F32(_) => of(&[], Numerical::FLOAT_IEEE, 32),
        Value::F64(_) => of(&[], Numerical::FLOAT_IEEE, 64),
        Value::Ref(reference) => match object_of(reference)? {
            // An empty array preserves the order of arrays in the file.
            Object::Null => row(0),
            Object::View(view) => type_of(view),
            Object::Buffer(buffer) => row(buffer.size()),
            Object::Bytes(bytes) => row(bytes.length()),
        },
    })
}

/// Passes the first `length` bytes of a number, tensor or buffer to `look`, as the whole of the memory; all
/// if it has fewer, and none for a null reference. The buffer of a tensor can be longer than the tensor; what
/// follows is not read unless `length` says so.
pub fn with_value_memory<R>(
    value: &Value,
    length: u64,
    look: impl FnOnce(&HostMemory) -> Result<R>,
) -> Result<R> {
    let of = |bytes: &[u8]| HostMemory::constant(bytes);
    let own = match value {
        Value::I8(value) => of(&value.to_le_bytes()),
        Value::I16(value) => of(&value.to_le_bytes()),
        Value::I32(value) => of(&value.to_le_bytes()),
        Value::I64(value) => of(&value.to_le_bytes()),
        Value::F32(value) => of(&value.to_le_bytes()),
        Value::F64(value) => of(&value.to_le_bytes()),
        Value::Ref(reference) => match object_of(reference)? {
            Object::Null => of(&[]),
            Object::View(view) => return tensors::view_part(view.buffer(), length, look),
            Object::Buffer(buffer) => return tensors::view_part(buffer, length, look),
            Object::Bytes(bytes) => return look(bytes.memory()),
        },
    };
    look(&own?)
}

/// Passes the bytes of a number, tensor or buffer to `look`, as a copy unless they are constant.
pub fn with_value_bytes<R>(value: &Value, look: impl FnOnce(&[u8]) -> R) -> Result<R> {
    let length = type_of_value(value)?.size_bytes()?;
    with_value_memory(value, length, |memory| Ok(look(&memory.bytes(memory.whole())?)))
}

/// The bytes of a number, tensor or buffer, for as long as this lives. A number is a copy; of others, these
/// are the bytes where they are.
pub struct MappedValue(Mapped);

enum Mapped {
    Mapping(Mapping),
    Own(HostMemory),
    Shared(Arc<HostMemory>),
}

impl MappedValue {
    /// Maps a value. Fails with `FAILED_PRECONDITION` if only the device can access its memory: see
    /// [`Program::to_host`](rehal::Program::to_host).
    ///
    /// A program that uses the tensor again may write the bytes meanwhile, which the memory allows.
    pub fn map(value: &Value) -> Result<Self> {
        let length = type_of_value(value)?.size_bytes()?;
        let mapped = |buffer: &Buffer| {
            let mapping = buffer.map(MemoryAccess::READ, 0, length.min(buffer.size()));
            mapping.map(Mapped::Mapping).advise(|| "copy it to memory of the host first")
        };
        Ok(Self(match value {
            Value::Ref(reference) => match object_of(reference)? {
                Object::Null => Mapped::Own(HostMemory::allocate(0)?),
                Object::View(view) => mapped(view.buffer())?,
                Object::Buffer(buffer) => mapped(buffer)?,
                Object::Bytes(bytes) => Mapped::Shared(bytes.memory().clone()),
            },
            _ => Mapped::Own(with_value_bytes(value, HostMemory::constant)??),
        }))
    }

    /// The bytes.
    pub fn memory(&self) -> Result<&HostMemory> {
        match &self.0 {
            Mapped::Mapping(mapping) => mapping.source(),
            Mapped::Own(memory) => Ok(memory),
            Mapped::Shared(memory) => Ok(memory),
        }
    }
}

/// An object with bytes.
enum Object<'a> {
    Null,
    View(&'a BufferView),
    Buffer(&'a Buffer),
    Bytes(&'a rehal_vm::Buffer),
}

fn object_of(reference: &Ref) -> Result<Object<'_>> {
    if let Some(Handle(view)) = reference.downcast_ref::<Handle<BufferView>>() {
        return Ok(Object::View(view));
    }
    if let Some(Handle(buffer)) = reference.downcast_ref::<Handle<Buffer>>() {
        return Ok(Object::Buffer(buffer));
    }
    if let Some(bytes) = reference.downcast_ref::<rehal_vm::Buffer>() {
        return Ok(Object::Bytes(bytes));
    }
    match reference.type_name() {
        None => Ok(Object::Null),
        Some(other) => Err(Error::invalid_argument(format!(
            "a {other} cannot be written to a file; a hal.buffer_view, hal.buffer, vm.buffer or number can"
        ))),
    }
}

/// Expected results.
pub struct Expected(Vec<Parsed<HostTensor>>);

impl Expected {
    /// Parses the expected values of results of these kinds, reading files.
    pub fn parse(values: &[ValueText], kinds: &[ValueKind]) -> Result<Self> {
        parse(values, kinds, &mut HostTensor::new).map(Self)
    }

    /// The number of expected results.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether no result is expected.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Compares the result at `index` with the expected value; returns the difference as text, if any.
    /// Results after the last expected value are not compared.
    pub fn compare(&self, index: usize, actual: &Value, equality: &Equality) -> Result<Option<String>> {
        match self.0.get(index) {
            Some(expected) => compare(expected, actual, equality),
            None => Ok(None),
        }
    }
}

fn compare(expected: &Parsed<HostTensor>, actual: &Value, equality: &Equality) -> Result<Option<String>> {
    let scalar = match actual {
        Value::I32(value) => Some(Scalar::I32(*value)),
        Value::I64(value) => Some(Scalar::I64(*value)),
        Value::F32(value) => Some(Scalar::F32(*value)),
        Value::F64(value) => Some(Scalar::F64(*value)),
        _ => None,
    };
    let view = match actual {
        Value::Ref(reference) => reference.downcast_ref::<Handle<BufferView>>(),
        _ => None,
    };
    let actual_type = match actual {
        Value::Ref(reference) if reference.is_null() => "empty",
        other => other.type_name(),
    };
    let mismatch = |expected_type: &str| {
        Ok(Some(format!("variant types mismatch; expected {expected_type} but got {actual_type}")))
    };
    match (expected, scalar, view) {
        (Parsed::Null(_), ..) => Ok(None),
        (Parsed::Scalar(expected), Some(actual), _) if expected.is_same(actual) => Ok(None),
        (Parsed::Scalar(expected), Some(actual), _) => Ok(Some(format!(
            "{} values differ\n  expected: {}\n  actual: {}",
            expected.scalar_type(),
            expected.number().to_uppercase(),
            actual.number().to_uppercase()
        ))),
        (Parsed::Scalar(expected), None, _) => mismatch(&expected.scalar_type().to_string()),
        (Parsed::Storage(_), ..) => mismatch("hal.buffer"),
        (Parsed::Tensor(_), _, None) => mismatch("hal.buffer_view"),
        (Parsed::Tensor(expected), _, Some(Handle(actual))) => compare_tensors(expected, actual, equality),
    }
}

fn compare_tensors(
    expected: &HostTensor,
    actual: &BufferView,
    equality: &Equality,
) -> Result<Option<String>> {
    /// Maximum number of elements of each that are printed if they differ.
    const MAX_ELEMENTS: u64 = 1024;
    let actual_type = type_of(actual);
    let mismatch = tensors::view(actual.buffer(), |memory| {
        let bytes = memory.bytes(memory.whole())?;
        Ok(equality.mismatch((&expected.tensor_type, expected.bytes()), (&actual_type, &bytes)))
    })?;
    let Some(mismatch) = mismatch else { return Ok(None) };
    let expected = format_tensor(&expected.tensor_type, expected.bytes(), MAX_ELEMENTS)?;
    let actual = format_view(actual, MAX_ELEMENTS)?;
    Ok(Some(format!("{mismatch}\n  expected:\n{expected}\n  actual:\n{actual}")))
}
