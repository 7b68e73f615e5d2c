use super::*;
use rehal_base::ElementType;
use rehal_cts::discrete::DiscreteDevice;
use rehal_hal::{BufferParams, BufferUsage, Encoding, MemoryAccess, MemoryType, QUEUE_AFFINITY_ANY};
use rehal_local::LocalSync;
use rehal_values::parse_tensor;
use rehal_vm::{Context, Module, Ref, Value};

/// A context with the check module, its failures, and a device for operands.
struct Bench {
    context: Context,
    failures: Failures,
    device: Device,
}

impl Bench {
    fn new() -> Self {
        Self::on(LocalSync::create(rehal_local::executable::Plugins::default()))
    }

    fn on(device: Device) -> Self {
        let failures = Failures::default();
        let module = Module::native(CheckModule::new(failures.clone())).unwrap();
        Self { context: Context::new(&[module]).unwrap(), failures, device }
    }

    fn view(&self, text: &str) -> Value {
        let memory_type = MemoryType::HOST_LOCAL | MemoryType::DEVICE_VISIBLE;
        self.view_in(memory_type, text)
    }

    fn view_in(&self, memory_type: MemoryType, text: &str) -> Value {
        let (tensor_type, contents) = parse_tensor(text).unwrap();
        let size_bytes = tensor_type.size_bytes().unwrap();
        let params = BufferParams {
            usage: BufferUsage::MAPPING_SCOPED | BufferUsage::TRANSFER_SOURCE | BufferUsage::TRANSFER_TARGET,
            access: MemoryAccess::ANY,
            memory_type,
            affinity: QUEUE_AFFINITY_ANY,
            min_alignment: 0,
            file_offset: None,
        };
        let buffer = self.device.allocate_buffer(params, size_bytes).unwrap();
        transfer::write(&buffer, 0, &contents.to_bytes(size_bytes)).unwrap();
        let ElementType(_) = tensor_type.element_type;
        let view =
            BufferView::new(buffer, &tensor_type.shape, tensor_type.element_type, Encoding::DENSE_ROW_MAJOR);
        Value::Ref(Handle::reference(view.unwrap()))
    }

    fn device(&self) -> Value {
        Value::Ref(Handle::reference(self.device.clone()))
    }

    fn call(&self, name: &str, arguments: &[Value]) -> Result<Vec<String>> {
        self.context.function(name)?.call(arguments)?;
        Ok(self.failures.take())
    }
}

#[test]
fn passing_expectations_report_nothing() {
    let bench = Bench::new();
    let (device, four) = (bench.device(), bench.view("2x2xf32=1 2 3 4"));
    assert_eq!(bench.call("check.expect_true", &[Value::I32(-1)]).unwrap(), [""; 0]);
    assert_eq!(bench.call("check.expect_false", &[Value::I32(0)]).unwrap(), [""; 0]);
    assert_eq!(bench.call("check.expect_all_true", &[device.clone(), four.clone()]).unwrap(), [""; 0]);
    let same = [device.clone(), four.clone(), bench.view("2x2xf32=1 2 3 4")];
    assert_eq!(bench.call("check.expect_eq", &same).unwrap(), [""; 0]);
    let close = [device, four, bench.view("2x2xf32=1 2 3 4.01"), Value::F32(0.0), Value::F32(0.01)];
    assert_eq!(bench.call("check.expect_almost_eq", &close).unwrap(), [""; 0]);
}

#[test]
fn operands_that_cannot_be_mapped_are_staged() {
    let local_sync = LocalSync::create(rehal_local::executable::Plugins::default());
    let bench = Bench::on(DiscreteDevice::over(local_sync));
    let hidden = |text| bench.view_in(MemoryType::DEVICE_LOCAL, text);
    let (device, four) = (bench.device(), hidden("4xi32=1 2 3 4"));
    assert_eq!(bench.call("check.expect_all_true", &[device.clone(), four.clone()]).unwrap(), [""; 0]);
    let mixed = [device.clone(), four.clone(), bench.view("4xi32=1 2 3 4")];
    assert_eq!(bench.call("check.expect_eq", &mixed).unwrap(), [""; 0]);
    let failures = bench.call("check.expect_eq", &[device, four, hidden("4xi32=1 2 9 4")]).unwrap();
    assert!(failures[0].contains("[2] lhs 3 rhs 9"), "{failures:?}");
}

#[test]
fn failed_expectations_are_stored_and_the_program_continues() {
    let bench = Bench::new();
    let failures = bench.call("check.expect_true", &[Value::I32(0)]).unwrap();
    assert_eq!(failures, ["check.expect_true: Failure\nExpected 0 to be nonzero."]);
    let operands = [bench.device(), bench.view("3xi8=1 2 3"), bench.view("3xi8=1 2 4")];
    let failures = bench.call("check.expect_eq", &operands).unwrap();
    assert!(failures[0].starts_with("check.expect_eq: Failure\nExpected equality of these values."));
    assert!(failures[0].contains("[2] lhs 3 rhs 4"));
}

#[test]
fn excess_failures_are_counted() {
    let bench = Bench::new();
    let function = bench.context.function("check.expect_false").unwrap();
    for _ in 0..1000 {
        function.call(&[Value::I32(1)]).unwrap();
    }
    let failures = bench.failures.take();
    assert_eq!(failures.len(), KEPT_LIMIT + 1);
    assert_eq!(failures[KEPT_LIMIT], "900 more expectations failed.");
    assert!(bench.failures.take().is_empty());
}

#[test]
fn invalid_operands_are_errors() {
    let bench = Bench::new();
    let null = Value::Ref(Ref::NULL);
    let error = bench.call("check.expect_all_true", &[bench.device(), null.clone()]).unwrap_err();
    assert!(error.message().contains("hal.buffer_view"), "{error}");
    let view = bench.view("i8=1");
    let error = bench.call("check.expect_eq", &[null, view.clone(), view]).unwrap_err();
    assert!(error.message().contains("hal.device"), "{error}");
}
