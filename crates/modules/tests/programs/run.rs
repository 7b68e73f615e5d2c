//! Runs a program with the flags of a command.

use std::sync::Arc;

use rehal_base::{Error, MappedFile, Result};
use rehal_hal::{
    Buffer, BufferParams, BufferView, Device, DeviceGroup, Encoding, Fence, QUEUE_AFFINITY_ANY,
    SemaphoreFlags,
};
use rehal_local::LocalSync;
use rehal_modules::hal::{HalModule, Handle};
use rehal_modules::io_parameters::IoParameters;
use rehal_params::{FileMode, Scopes};
use rehal_values::{Input, Scalar, ScalarType, Source, TensorType, format_tensor, npy};
use rehal_vm::{Argument, Context, Convention, Module, Value, ValueKind};

use crate::printed::Printed;

/// Elements of a result that the reference prints.
const MAX_ELEMENTS: u64 = 1024;

pub fn check(printed: &Printed) -> Result<(), String> {
    match (run(printed), &printed.failure) {
        (Ok(lines), None) if lines == printed.results => Ok(()),
        (Ok(lines), None) => {
            Err(format!("found\n  {}\nexpected\n  {}", lines.join("\n  "), printed.results.join("\n  ")))
        }
        (Ok(_), Some(failure)) => Err(format!("succeeded, expected failure: {failure}")),
        (Err(error), Some(failure)) if error.message().starts_with(failure) => Ok(()),
        (Err(error), _) => Err(error.report()),
    }
}

/// Whether the results are bitwise equal to the arrays in these `.npy` files.
pub fn check_bytes(printed: &Printed, expected: &[String]) -> Result<(), String> {
    let results = results(printed).map_err(|error| error.report())?;
    if results.len() != expected.len() {
        return Err(format!("found {} results, expected {}", results.len(), expected.len()));
    }
    for (result, path) in results.iter().zip(expected) {
        let Value::Ref(reference) = result else { return Err(format!("{result:?} is not an array")) };
        let array = read_npy(path).and_then(|array| Ok((array, read_view(Handle::of(reference)?)?)));
        let (expected, found) = array.map_err(|error| error.report())?;
        if expected != found {
            return Err(format!("differs from {path}"));
        }
    }
    Ok(())
}

fn run(printed: &Printed) -> Result<Vec<String>> {
    let mut lines = Vec::new();
    for (index, result) in results(printed)?.iter().enumerate() {
        show(index, result, &mut lines)?;
    }
    Ok(lines)
}

fn results(printed: &Printed) -> Result<Vec<Value>> {
    let devices: Vec<Device> =
        printed.devices.iter().map(|_| LocalSync::create(Default::default())).collect();
    let device = devices[0].clone();
    let mut modules = vec![Module::native(HalModule::new(DeviceGroup::new(devices)?))?];
    if !printed.parameters.is_empty() {
        let mut scopes = Scopes::new();
        for scope in &printed.parameters {
            scopes.add(scope, FileMode::Mmap)?;
        }
        modules.push(Module::native(IoParameters::new(scopes))?);
    }
    modules.push(Module::map(Arc::new(MappedFile::open(&printed.module)?))?);
    let context = Context::new(&modules)?;
    let function = context.function(&format!("module.{}", printed.function))?;
    let kinds = kinds_of(function.convention());
    let mut arguments = Vec::new();
    for (text, kind) in printed.inputs.iter().zip(&kinds) {
        arguments.push(input(&device, text, *kind)?);
    }
    // Asynchronous functions take a wait fence and a signal fence.
    let done = match kinds.len() - arguments.len() {
        0 => None,
        _ => {
            let semaphore = device.create_semaphore(QUEUE_AFFINITY_ANY, 0, SemaphoreFlags::empty())?;
            let done = Fence::at(semaphore, 1);
            arguments.extend([Value::NULL, Handle::reference(done.clone()).into()]);
            Some(done)
        }
    };
    let results = function.call(&arguments)?;
    if let Some(done) = done {
        done.wait(None)?;
    }
    Ok(results)
}

fn kinds_of(convention: &Convention) -> Vec<ValueKind> {
    let one = |argument: &Argument| match argument {
        Argument::One(kind) => *kind,
        Argument::Span(_) => panic!("compiled functions have no spans"),
    };
    convention.arguments().iter().map(one).collect()
}

fn input(device: &Device, text: &str, kind: ValueKind) -> Result<Value> {
    let scalar = match kind {
        ValueKind::I32 => Some(ScalarType::I32),
        ValueKind::I64 => Some(ScalarType::I64),
        ValueKind::F32 => Some(ScalarType::F32),
        ValueKind::F64 => Some(ScalarType::F64),
        ValueKind::Ref => None,
    };
    match Input::parse(text, scalar)? {
        Input::Scalar(Scalar::I32(value)) => Ok(Value::I32(value)),
        Input::Scalar(Scalar::I64(value)) => Ok(Value::I64(value)),
        Input::Scalar(Scalar::F32(value)) => Ok(Value::F32(value)),
        Input::Scalar(Scalar::F64(value)) => Ok(Value::F64(value)),
        Input::Tensor { tensor_type, source: Source::Text(contents), .. } => {
            let mut bytes = vec![0; tensor_type.size_bytes()? as usize];
            contents.fill(&mut bytes);
            view(device, &tensor_type, &bytes)
        }
        Input::Npy { path, .. } => {
            let (tensor_type, bytes) = read_npy(path.to_str().expect("paths of fixtures are UTF-8"))?;
            view(device, &tensor_type, &bytes)
        }
        other => panic!("unexpected input {other:?}"),
    }
}

fn view(device: &Device, tensor_type: &TensorType, bytes: &[u8]) -> Result<Value> {
    let params = BufferParams::default().mappable();
    let buffer: Buffer = device.allocate_buffer(params, bytes.len() as u64)?;
    buffer.write(0, bytes)?;
    let TensorType { shape, element_type } = tensor_type;
    let view = BufferView::new(buffer, shape, *element_type, Encoding::DENSE_ROW_MAJOR)?;
    Ok(Handle::reference(view).into())
}

fn read_npy(path: &str) -> Result<(TensorType, Vec<u8>)> {
    let mut file = std::fs::File::open(path).map_err(|error| Error::io(path, &error))?;
    let (tensor_type, _) = npy::read_header(&mut file)?;
    let mut bytes = vec![0; tensor_type.size_bytes()? as usize];
    std::io::Read::read_exact(&mut file, &mut bytes).map_err(|error| Error::io(path, &error))?;
    Ok((tensor_type, bytes))
}

fn read_view(view: &BufferView) -> Result<(TensorType, Vec<u8>)> {
    let tensor_type = TensorType { shape: view.shape().to_vec(), element_type: view.element_type() };
    let mut bytes = vec![0; tensor_type.size_bytes()? as usize];
    view.buffer().read(0, &mut bytes)?;
    Ok((tensor_type, bytes))
}

fn show(index: usize, result: &Value, lines: &mut Vec<String>) -> Result<()> {
    let Value::Ref(reference) = result else {
        let text = match result {
            Value::I32(value) => format!("i32={value}"),
            Value::I64(value) => format!("i64={value}"),
            Value::F32(value) => format!("f32={}", Scalar::F32(*value).number()),
            Value::F64(value) => format!("f64={}", Scalar::F64(*value).number()),
            other => panic!("unexpected result {other:?}"),
        };
        lines.push(format!("result[{index}]: {text}"));
        return Ok(());
    };
    lines.push(format!("result[{index}]: {}", reference.type_name().unwrap_or("null")));
    let (tensor_type, bytes) = read_view(Handle::of(reference)?)?;
    lines.push(format_tensor(&tensor_type, &bytes, MAX_ELEMENTS)?);
    Ok(())
}
