//! A program that calls exports of the `hal` module.

use rehal_base::{Error, Result};
use rehal_hal::{Buffer, DeviceGroup, Fence};
use rehal_local::LocalSync;
use rehal_modules::hal::{HalModule, Handle, HandleType};
use rehal_vm::{Context, Module, Ref, Signal, Value};

/// Device-local memory, as compiled programs request it.
pub const DEVICE_LOCAL: i32 = 0x30;
/// Usage for transfers, dispatches, indirect parameters and mappings.
pub const ANY_USAGE: i32 = 0x0b00_0d03;
/// Any queue.
pub const ANY_QUEUE: i64 = -1;

pub struct Program {
    context: Context,
    pub device: Value,
    pub allocator: Value,
}

impl Program {
    /// A program on one CPU.
    pub fn new() -> Self {
        Self::over(HalModule::new(devices(1)))
    }

    pub fn over(module: HalModule) -> Self {
        let context = Context::new(&[Module::native(module).unwrap()]).unwrap();
        let program = Self { context, device: Value::NULL, allocator: Value::NULL };
        let device = program.one("devices.get", &[Value::I32(0)]);
        let allocator = program.one("device.allocator", std::slice::from_ref(&device));
        Self { device, allocator, ..program }
    }

    pub fn notify(&self, signal: Signal) {
        self.context.notify(signal).unwrap();
    }

    pub fn call(&self, name: &str, arguments: &[Value]) -> Result<Vec<Value>> {
        self.call_with_spans(name, arguments, &[])
    }

    pub fn call_with_spans(&self, name: &str, arguments: &[Value], tuples: &[usize]) -> Result<Vec<Value>> {
        self.context.function(&format!("hal.{name}"))?.call_with_spans(arguments, tuples)
    }

    /// The single result of a successful call.
    #[track_caller]
    pub fn one(&self, name: &str, arguments: &[Value]) -> Value {
        match self.call(name, arguments).unwrap().as_slice() {
            [result] => result.clone(),
            other => panic!("{name} returned {other:?}"),
        }
    }

    /// The error of a failing call.
    #[track_caller]
    pub fn refused(&self, name: &str, arguments: &[Value]) -> Error {
        self.call(name, arguments).unwrap_err()
    }

    /// A buffer of `size` bytes accessible by host and device.
    pub fn buffer(&self, size: i64) -> Value {
        let usage = Value::I32(ANY_USAGE);
        self.one(
            "allocator.allocate",
            &[
                self.allocator.clone(),
                Value::I64(ANY_QUEUE),
                Value::I32(DEVICE_LOCAL),
                usage,
                Value::I64(size),
            ],
        )
    }

    /// A buffer with these words.
    pub fn words(&self, words: &[u32]) -> Value {
        let value = self.buffer(words.len() as i64 * 4);
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        handle::<Buffer>(&value).write(0, &bytes).unwrap();
        value
    }

    /// An unsignalled fence.
    pub fn fence(&self) -> Value {
        self.one("fence.create", &[self.device.clone(), Value::I64(0)])
    }
}

pub fn devices(count: usize) -> DeviceGroup {
    DeviceGroup::new((0..count).map(|_| LocalSync::create(Default::default())).collect()).unwrap()
}

/// The handle behind a value.
#[track_caller]
pub fn handle<T: HandleType>(value: &Value) -> &T {
    match value {
        Value::Ref(reference) => Handle::of(reference).unwrap(),
        other => panic!("expected a reference, found {other:?}"),
    }
}

/// A value that references a handle.
pub fn value<T: HandleType>(handle: T) -> Value {
    Handle::reference(handle).into()
}

/// A constant byte buffer.
pub fn bytes(bytes: impl AsRef<[u8]>) -> Value {
    Ref::new(rehal_vm::Buffer::from_bytes(bytes.as_ref()).unwrap()).into()
}

/// The words of a buffer.
#[track_caller]
pub fn words_of(value: &Value) -> Vec<u32> {
    let buffer: &Buffer = handle(value);
    let mut bytes = vec![0; buffer.size() as usize];
    buffer.read(0, &mut bytes).unwrap();
    bytes.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).collect()
}

#[track_caller]
pub fn i32_of(value: &Value) -> i32 {
    match value {
        Value::I32(value) => *value,
        other => panic!("expected an i32, found {other:?}"),
    }
}

#[track_caller]
pub fn i64_of(value: &Value) -> i64 {
    match value {
        Value::I64(value) => *value,
        other => panic!("expected an i64, found {other:?}"),
    }
}

/// Whether a fence is reached.
#[track_caller]
pub fn is_reached(fence: &Value) -> bool {
    handle::<Fence>(fence).query().unwrap()
}
