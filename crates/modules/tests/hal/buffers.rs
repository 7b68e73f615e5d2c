use rehal_base::StatusCode;
use rehal_cts::discrete::DiscreteDevice;
use rehal_hal::{Buffer, DeviceGroup, MemoryAccess};
use rehal_modules::hal::HalModule;
use rehal_vm::Value::{I32, I64};
use rehal_vm::{Ref, Value};

use crate::program::{
    ANY_QUEUE, ANY_USAGE, DEVICE_LOCAL, Program, bytes, devices, handle, i32_of, i64_of, words_of,
};

/// Usage of data that is never written, as compiled programs request it: dispatches, transfers, immutable.
const CONSTANT_USAGE: i32 = 0x0008_0c03;
/// Usage of immutable data: read by dispatches and transfers.
const READ_ONLY_USAGE: i32 = 0x0008_0401;

#[test]
fn devices_are_counted_and_indexed() {
    let program = Program::over(HalModule::new(devices(2)));
    assert_eq!(i32_of(&program.one("devices.count", &[])), 2);
    let second = program.one("devices.get", &[I32(1)]);
    let (Value::Ref(first), Value::Ref(second)) = (&program.device, &second) else { panic!() };
    assert!(!first.is_same(second));
    let Value::Ref(again) = program.one("devices.get", &[I32(0)]) else { panic!() };
    assert!(first.is_same(&again));
    for beyond in [2, -1, i32::MAX] {
        assert!(matches!(program.one("devices.get", &[I32(beyond)]), Value::Ref(none) if none.is_null()));
    }
}

#[test]
fn devices_answer_queries() {
    let program = Program::new();
    let query = |category: &str, key: &str| {
        let results =
            program.call("device.query.i64", &[program.device.clone(), bytes(category), bytes(key)]).unwrap();
        (i32_of(&results[0]), i64_of(&results[1]))
    };
    assert_eq!(query("hal.device.id", "local*"), (1, 1));
    assert_eq!(query("hal.device.id", "gpu*"), (1, 0));
    assert_eq!(query("hal.executable.format", "vulkan-spirv-fb"), (1, 0));
    #[cfg(target_arch = "x86_64")]
    assert_eq!(query("hal.executable.format", "embedded-elf-x86_64"), (1, 1));
    assert_eq!(query("no.such", "thing"), (0, 0));
    let error = program.refused("device.query.i64", &[program.device.clone(), bytes([0xff]), bytes("")]);
    assert_eq!(error.code(), StatusCode::InvalidArgument);
}

#[test]
fn partial_loads_and_stores() {
    let program = Program::new();
    let buffer = program.buffer(6);
    assert_eq!(i64_of(&program.one("buffer.length", std::slice::from_ref(&buffer))), 6);
    let store = |value, offset, length| {
        program.call("buffer.store", &[I32(value), buffer.clone(), I64(offset), I32(length)]).map(drop)
    };
    let load = |offset, length| program.call("buffer.load", &[buffer.clone(), I64(offset), I32(length)]);
    store(0x0403_0201, 0, 4).unwrap();
    store(-1, 4, 2).unwrap();
    store(7, 6, 0).unwrap();
    let loaded = |offset, length| i32_of(&load(offset, length).unwrap()[0]);
    assert_eq!(
        (loaded(0, 4), loaded(1, 2), loaded(2, 4), loaded(5, 1), loaded(0, 0)),
        (0x0403_0201, 0x0302, -0xfbfd, 255, 0)
    );
    assert_eq!(store(0, 0, 5).unwrap_err().message(), "store length byte count 5 exceeds max");
    assert_eq!(load(0, -1).unwrap_err().message(), "load length byte count -1 exceeds max");
    assert_eq!(
        store(0, 4, 3).unwrap_err().message(),
        "store out of bounds (target_offset=4, length=3 into max 6)"
    );
    assert_eq!(store(0, -1, 4).unwrap_err().code(), StatusCode::OutOfRange);
    assert_eq!(load(3, 4).unwrap_err().code(), StatusCode::OutOfRange);
    assert_eq!(load(i64::MAX, 1).unwrap_err().code(), StatusCode::OutOfRange);
}

#[test]
fn a_subspan_shares_memory_and_owners() {
    let program = Program::new();
    let whole = program.words(&[1, 2, 3, 4]);
    let part = program.one("buffer.subspan", &[whole.clone(), I64(4), I64(8)]);
    assert_eq!(words_of(&part), [2, 3]);
    program.call("buffer.store", &[I32(9), part.clone(), I64(4), I32(4)]).unwrap();
    assert_eq!(words_of(&whole), [1, 2, 9, 4]);
    let rest = program.one("buffer.subspan", &[part.clone(), I64(4), I64(-1)]);
    assert_eq!(words_of(&rest), [9]);
    let error = program.refused("buffer.subspan", &[part.clone(), I64(4), I64(5)]);
    assert_eq!(error.code(), StatusCode::OutOfRange);
    assert!(error.report().contains("invalid subspan of an existing buffer (source_offset=4, length=5)"));

    let of = |name: &str, buffer: &Value| i32_of(&program.one(name, std::slice::from_ref(buffer)));
    assert_eq!(of("buffer.allocation.is_terminal", &whole), 1);
    program.call("buffer.allocation.preserve", std::slice::from_ref(&part)).unwrap();
    assert_eq!(of("buffer.allocation.is_terminal", &whole), 0);
    assert_eq!(of("buffer.allocation.discard", &whole), 0);
    assert_eq!(of("buffer.allocation.discard", &part), 1);
}

#[test]
fn allocations_get_the_requested_parameters() {
    let program = Program::new();
    let buffer = program.buffer(16);
    let params = *handle::<Buffer>(&buffer).params();
    assert_eq!(params.usage.bits(), ANY_USAGE as u32);
    assert_eq!(params.access, MemoryAccess::READ | MemoryAccess::WRITE | MemoryAccess::DISCARD);
    let error = program.refused(
        "allocator.allocate",
        &[program.allocator.clone(), I64(ANY_QUEUE), I32(DEVICE_LOCAL), I32(ANY_USAGE), I64(-1)],
    );
    assert_eq!(error.code(), StatusCode::ResourceExhausted);
    assert!(error.report().contains("failed to allocate buffer of length -1"), "{error:?}");
    let wrong =
        program.refused("allocator.allocate", &[program.device.clone(), I64(0), I32(0), I32(0), I64(0)]);
    assert_eq!(wrong.code(), StatusCode::InvalidArgument);
    assert_eq!(wrong.message(), "expected a reference to hal.allocator, found hal.device");
}

#[test]
fn the_lead_or_the_first_device_is_selected() {
    let program = Program::over(HalModule::new(devices(2)));
    let second = program.one("devices.get", &[I32(1)]);
    let fixed = [I32(DEVICE_LOCAL), I32(ANY_USAGE), I64(0)];
    let from = [second.clone(), I64(5), program.device.clone(), I64(7)];
    let arguments = [&fixed[..], &from[..]].concat();
    let results = program.call_with_spans("allocator.select", &arguments, &[2]).unwrap();
    let (Value::Ref(device), Value::Ref(second)) = (&results[0], &second) else { panic!() };
    assert!(device.is_same(second));
    assert_eq!(i64_of(&results[1]), 5);
    let error = program.call_with_spans("allocator.select", &fixed, &[0]).unwrap_err();
    assert_eq!(error.message(), "at least one device/queue affinity pair must be provided");

    let affinity_with_lead = |lead: usize, ordinals: &[i32]| {
        let program = Program::over(HalModule::new(devices(3)).lead(lead).unwrap());
        let pairs = ordinals
            .iter()
            .enumerate()
            .flat_map(|(at, ordinal)| [program.one("devices.get", &[I32(*ordinal)]), I64(10 + at as i64)]);
        let arguments = fixed.iter().cloned().chain(pairs).collect::<Vec<_>>();
        i64_of(&program.call_with_spans("allocator.select", &arguments, &[ordinals.len()]).unwrap()[1])
    };
    assert_eq!(affinity_with_lead(2, &[0, 1, 2, 2]), 12);
    assert_eq!(affinity_with_lead(0, &[2, 1, 0]), 12);
    assert_eq!(affinity_with_lead(1, &[2, 0]), 10, "the lead is not among them");
    let error = HalModule::new(devices(2)).lead(2).err().unwrap();
    assert_eq!(error.code(), StatusCode::OutOfRange);
}

#[test]
fn a_device_whose_memory_all_can_use_is_selected() {
    // The second device cannot use memory of the first.
    let separate = DiscreteDevice::over(devices(1).devices()[0].clone());
    let group = DeviceGroup::new(vec![devices(1).devices()[0].clone(), separate]).unwrap();
    for lead in [None, Some(0)] {
        let module = HalModule::new(group.clone());
        let program = Program::over(match lead {
            Some(lead) => module.lead(lead).unwrap(),
            None => module,
        });
        let [first, second] = [0, 1].map(|ordinal| program.one("devices.get", &[I32(ordinal)]));
        let fixed = [I32(DEVICE_LOCAL), I32(ANY_USAGE), I64(0)];
        let select = |from: &[Value]| {
            let arguments = [&fixed[..], from].concat();
            i64_of(&program.call_with_spans("allocator.select", &arguments, &[from.len() / 2]).unwrap()[1])
        };
        assert_eq!(select(&[first.clone(), I64(5), second.clone(), I64(7)]), 7);
        assert_eq!(select(&[first, I64(5)]), 5, "alone");
    }
}

struct Import<'p> {
    program: &'p Program,
    source: Value,
    is_try: i32,
    usage: i32,
}

impl Import<'_> {
    fn of(&self, offset: i64, length: i64) -> rehal_base::Result<Value> {
        let results = self.program.call(
            "allocator.import",
            &[
                self.program.allocator.clone(),
                I32(self.is_try),
                I64(ANY_QUEUE),
                I32(DEVICE_LOCAL),
                I32(self.usage),
                self.source.clone(),
                I64(offset),
                I64(length),
            ],
        )?;
        Ok(results[0].clone())
    }
}

#[test]
fn constants_are_imported_zero_copy() {
    let program = Program::new();
    let source = bytes([7; 256]);
    let import = Import { program: &program, source, is_try: 0, usage: READ_ONLY_USAGE };
    let imported = import.of(64, 128).unwrap();
    let buffer: &Buffer = handle(&imported);
    assert_eq!((buffer.size(), buffer.params().access), (128, MemoryAccess::READ));
    let Value::Ref(reference) = &import.source else { panic!() };
    let source: &rehal_vm::Buffer = reference.object().unwrap();
    let mapping = buffer.map(MemoryAccess::READ, 0, 128).unwrap();
    let memory = mapping.source().unwrap();
    assert_eq!(memory.as_ptr().addr(), source.memory().as_ptr().addr() + 64);
    assert_eq!(handle::<Buffer>(&import.of(0, -1).unwrap()).size(), 256);
    assert!(program.call("buffer.store", &[I32(0), imported, I64(0), I32(4)]).is_err());

    let import = Import { usage: CONSTANT_USAGE, ..import };
    assert_eq!(handle::<Buffer>(&import.of(64, 64).unwrap()).params().access, MemoryAccess::READ);

    // Bytes that are underaligned for kernels are rejected, or null if `try` is set.
    assert_eq!(import.of(4, 8).unwrap_err().code(), StatusCode::OutOfRange);
    let tried = Import { is_try: 1, source: import.source.clone(), ..import };
    assert!(matches!(tried.of(4, 8).unwrap(), Value::Ref(none) if none.is_null()));
    // Errors of the program itself fail in any case.
    let beyond = tried.of(250, 7).unwrap_err();
    assert_eq!(beyond.message(), "byte range out of bounds (requested 250-256 of available 256)");
    assert_eq!(tried.of(1, -1).unwrap_err().code(), StatusCode::InvalidArgument);
    assert_eq!(tried.of(-1, 2).unwrap_err().code(), StatusCode::InvalidArgument);
    let writable = Import { usage: ANY_USAGE, ..tried };
    assert_eq!(writable.of(0, 64).unwrap_err().code(), StatusCode::PermissionDenied);
}

#[test]
fn writable_bytes_are_imported() {
    let program = Program::new();
    let source: Value = Ref::new(rehal_vm::Buffer::allocate(128, 64).unwrap()).into();
    let import = Import { program: &program, source: source.clone(), is_try: 0, usage: ANY_USAGE };
    let imported = import.of(64, 64).unwrap();
    program.call("buffer.store", &[I32(5), imported, I64(0), I32(4)]).unwrap();
    let Value::Ref(reference) = &source else { panic!() };
    assert_eq!(reference.object::<rehal_vm::Buffer>().unwrap().load::<4>(64).unwrap(), [5, 0, 0, 0]);
    let constant = Import { usage: CONSTANT_USAGE, ..import }.of(0, 64).unwrap();
    assert_eq!(handle::<Buffer>(&constant).params().access, MemoryAccess::READ);
}
