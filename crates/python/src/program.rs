//! Programs that are loaded in this process.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use pyo3::prelude::*;
use pyo3::pybacked::{PyBackedBytes, PyBackedStr};
use pyo3::types::PyByteArray;
use rehal::program::{
    Function, ModuleSource, ParameterFile, Program as Loaded, ProgramOptions, input_of_bytes,
};
use rehal_base::{Context, Error};
use rehal_devices::{DeviceOptions, DeviceSpec, MappedValue, type_of_value};
use rehal_values::TensorType;
use rehal_vm::{Value, ValueKind};

use crate::errors::exception;
use crate::interrupt::{PAUSE, lock};

/// A program in this process, which ends if a kernel crashes.
#[pyclass(frozen, module = "rehal._rehal")]
pub struct Program {
    loaded: Mutex<Option<Arc<Functions>>>,
    /// The process that loaded it: one that is forked lacks the threads of its devices.
    process: u32,
}

/// A program with its functions, which are dropped before it.
struct Functions {
    functions: HashMap<String, Function>,
    program: Loaded,
}

/// A module: its path, or its bytes.
#[derive(FromPyObject)]
pub enum Module {
    Bytes(PyBackedBytes),
    Path(PathBuf),
}

/// The name of a function, its declaration, and the kinds of its inputs and results.
type Declared = (String, Option<String>, Vec<&'static str>, Vec<&'static str>);

/// The type of an input and its bytes; `None` is null.
type Passed = Option<(PyBackedStr, PyBackedBytes)>;

/// The same of a result.
type Returned<'py> = Option<(String, Bound<'py, PyByteArray>)>;

#[pymethods]
impl Program {
    #[new]
    fn load(
        py: Python<'_>,
        modules: Vec<Module>,
        devices: Vec<String>,
        parameters: Vec<(String, PathBuf)>,
    ) -> PyResult<Self> {
        let mut options = ProgramOptions::default();
        options.modules = modules.into_iter().map(Module::source).collect();
        options.parameters.files =
            parameters.into_iter().map(|(scope, path)| ParameterFile::new(scope, path)).collect();
        let loaded = py.detach(move || {
            if !devices.is_empty() {
                let found = devices.iter().map(|uri| DeviceSpec::find(uri)).collect::<Result<_, Error>>()?;
                options.devices = DeviceOptions::for_devices(found);
            }
            let program = Loaded::load(&options)?;
            let names: Vec<_> = program.main_module().runnable_functions().map(str::to_owned).collect();
            let mut functions = HashMap::new();
            for name in names {
                functions.insert(name.clone(), program.function(&name)?);
            }
            Ok(Functions { functions, program })
        });
        let loaded = loaded.map_err(|error: Error| exception(py, &error))?;
        Ok(Self { loaded: Mutex::new(Some(Arc::new(loaded))), process: std::process::id() })
    }

    /// The functions in the order of the module.
    fn functions(&self, py: Python<'_>) -> PyResult<Vec<Declared>> {
        let loaded = self.loaded(py)?;
        let names = |kinds: &[ValueKind]| kinds.iter().map(|kind| kind.name()).collect();
        let declared = |name: &str| {
            let function = loaded.functions.get(name)?;
            let kinds = (names(&function.argument_kinds()), names(function.result_kinds()));
            Some((name.to_owned(), function.declaration().map(str::to_owned), kinds.0, kinds.1))
        };
        Ok(loaded.program.main_module().runnable_functions().filter_map(declared).collect())
    }

    /// Calls a function. Ctrl-C ends the wait for it, and what it has not begun.
    fn call<'py>(
        &self,
        py: Python<'py>,
        function: &str,
        inputs: Vec<Passed>,
    ) -> PyResult<Vec<Returned<'py>>> {
        let loaded = self.loaded(py)?;
        let mut raised = None;
        let results = py.detach(|| call(&loaded, function, inputs, &mut raised));
        if let Some(raised) = raised {
            return Err(raised);
        }
        let results = results.map_err(|error| exception(py, &error))?;
        results.iter().map(|value| pass(py, value)).collect()
    }

    /// Frees the program, unless another thread is calling it: then, that call does.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        if self.process != std::process::id() {
            return Ok(());
        }
        let taken = lock(&self.loaded).take();
        let closed = py.detach(|| match taken.and_then(Arc::into_inner) {
            Some(Functions { functions, program }) => {
                drop(functions);
                program.close()
            }
            None => Ok(()),
        });
        closed.map_err(|error| exception(py, &error))
    }
}

impl Program {
    fn loaded(&self, py: Python<'_>) -> PyResult<Arc<Functions>> {
        if self.process != std::process::id() {
            let error = Error::failed_precondition("it belongs to the process that this one was forked from");
            return Err(exception(py, &error.advise("load it again")));
        }
        let loaded = lock(&self.loaded).clone();
        loaded.ok_or_else(|| {
            let error = Error::failed_precondition("the program has been closed");
            exception(py, &error.advise("load it again"))
        })
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            // Its devices would wait for their threads.
            std::mem::forget(lock(&self.loaded).take());
        }
    }
}

impl Module {
    fn source(self) -> ModuleSource {
        match self {
            Self::Bytes(bytes) => ModuleSource::Bytes(Arc::from(&*bytes)),
            Self::Path(path) => ModuleSource::File(path),
        }
    }
}

fn call(
    loaded: &Functions,
    name: &str,
    inputs: Vec<Passed>,
    raised: &mut Option<PyErr>,
) -> rehal_base::Result<Vec<Value>> {
    let Functions { functions, program } = loaded;
    let function = functions.get(name);
    let function =
        function.ok_or_else(|| Error::not_found(format!("the module has no function '{name}'")))?;
    function.check_count(inputs.len())?;
    let mut values = Vec::new();
    for (index, (kind, input)) in function.argument_kinds().into_iter().zip(inputs).enumerate() {
        let value = |(tensor_type, bytes): (PyBackedStr, PyBackedBytes)| {
            input_of_bytes(program, kind, &TensorType::parse(&tensor_type)?, &bytes)
        };
        values.push(input.map_or(Ok(Value::NULL), value).context(|| format!("input {index}"))?);
    }
    let mut call = program.start(function, values)?;
    while !call.wait(Some(PAUSE))? {
        if let Err(exception) = Python::attach(|py| py.check_signals()) {
            *raised = Some(exception);
            return Ok(Vec::new());
        }
    }
    let mut results = call.results()?;
    program.to_host(&mut results)?;
    Ok(results)
}

fn pass<'py>(py: Python<'py>, value: &Value) -> PyResult<Returned<'py>> {
    if matches!(value, Value::Ref(reference) if reference.is_null()) {
        return Ok(None);
    }
    let mapped = type_of_value(value).and_then(|it| Ok((it.to_string(), it.size_bytes()?)));
    let mapped = mapped.and_then(|(name, length)| Ok((name, length, MappedValue::map(value)?)));
    let (name, length, mapped) = mapped.map_err(|error| exception(py, &error))?;
    let length = usize::try_from(length)?;
    let bytes = PyByteArray::new_with(py, length, |target| {
        let read = mapped.memory().and_then(|memory| memory.read(0, target));
        read.map_err(|error| exception(py, &error))
    })?;
    Ok(Some((name, bytes)))
}
