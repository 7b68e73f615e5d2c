//! Programs: modules with their imports, on devices, optionally recorded.
//!
//! A [`Program`] is loaded from [`ProgramOptions`], its [`Function`]s are called, and it is closed. Inputs
//! and results are in the modules below.

mod calls;
mod input_files;
mod inputs;
mod instruments;
mod modules;
mod options;
mod recording;
mod results;
mod tensors;
mod tests;
mod transfer;

use std::sync::Arc;

use rehal_base::{Context as _, Error, Result};
use rehal_hal::{BufferView, Device, DeviceGroup, Fence};
use rehal_modules::hal::{HalModule, Handle};
use rehal_modules::io_parameters::IoParameters;
use rehal_replay::Recorder;
use rehal_values::{Scalar, TensorType};
use rehal_vm::{Argument, Context, Module, Value, ValueKind};

use crate::CrashReports;

pub use calls::{Batch, Calls, PreparedBatch};
pub use modules::ProgramModule;
pub use options::{
    ModuleMode, ModuleSource, ParameterFile, ParameterOptions, ProgramOptions, RecordingOptions, TextSink,
    ValueText,
};
pub use results::{Expected, format_value, type_of_value, with_value_bytes, with_value_memory};
pub use tests::{ModuleTest, ModuleTests, TestOutcome};

use inputs::Parsed;

/// A module that a program may import, other than a file, by its name; `None` for an unknown name.
pub type Offer<'o> = &'o mut dyn FnMut(&str) -> Result<Option<Module>>;

/// A loaded program, whose modules are initialized.
///
/// ```
/// # fn main() -> rehal_session::Result<()> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/modules/simple_abs.vmfb");
/// use rehal_session::{ModuleSource, Program, ProgramOptions, ValueText, format_value};
///
/// let mut options = ProgramOptions::default();
/// options.modules.push(ModuleSource::File(path.into()));
/// let program = Program::load(&options)?;
/// let function = program.function("abs")?;
/// let inputs = program.inputs(&function, &[ValueText::new("f32=-2")?])?;
/// let mut results = program.call(&function, inputs)?;
/// program.to_host(&mut results)?;
/// assert_eq!(format_value(&results[0], 16)?, "hal.buffer_view\nf32=2");
/// // Functions keep the program's globals: they go first.
/// drop(function);
/// program.close()
/// # }
/// ```
pub struct Program(Arc<Inner>);

/// The state shared by a program and its functions.
struct Inner {
    /// In the order of the options; functions are looked up in the last one.
    modules: Vec<ProgramModule>,
    context: Context,
    devices: Option<DeviceGroup>,
    /// The index of the lead device.
    lead: usize,
    recorder: Option<Recorder>,
}

/// A function of a program, callable by the host. It shares the program, so it can be stored beside it, sent
/// to other threads and wrapped for another language; see [`Program::close`].
pub struct Function {
    /// Dropped before the program, which may end on another thread afterwards.
    function: rehal_vm::Function,
    program: Arc<Inner>,
    /// Whether it takes two fences after its inputs: one to wait for, one to signal.
    is_async: bool,
    /// The declaration in the module, such as `sync func @f(...)`.
    declaration: Option<String>,
}

impl Program {
    /// Loads the modules of the options with everything they need: devices, parameters, a recorder.
    /// Initializes the modules.
    pub fn load(options: &ProgramOptions) -> Result<Self> {
        Self::with_modules(options, modules::load(options)?, &mut |_| Ok(None))
    }

    /// Like [`Program::load`], with modules that are already read instead of those of the options. `offer`
    /// provides further modules that they may import.
    pub fn with_modules(
        options: &ProgramOptions,
        modules: Vec<ProgramModule>,
        offer: Offer<'_>,
    ) -> Result<Self> {
        if modules.is_empty() {
            return Err(modules::no_module());
        }
        let mut loader = Loader { options, loaded: Vec::new(), devices: None, recorder: None };
        let context = loader.resolve(&modules, offer).and_then(|()| new_context(options, &loader.loaded));
        let Loader { devices, recorder, .. } = loader;
        match context {
            Ok(context) => {
                Ok(Self(Arc::new(Inner { modules, context, devices, lead: options.lead, recorder })))
            }
            Err(error) => closed(Err(error), recorder.as_ref()),
        }
    }

    /// The module whose functions are called.
    pub fn main_module(&self) -> &ProgramModule {
        self.0.modules.last().expect("a program has a module, or loading fails")
    }

    /// The devices, if the program uses any; the recorder's if it is recorded.
    pub fn devices(&self) -> Option<&DeviceGroup> {
        self.0.devices.as_ref()
    }

    /// The device for inputs, if the program uses devices.
    pub fn device(&self) -> Option<&Device> {
        self.0.device()
    }

    /// The recorder, if the program is recorded.
    pub fn recorder(&self) -> Option<&Recorder> {
        self.0.recorder.as_ref()
    }

    /// The function `name` of the main module.
    pub fn function(&self, name: &str) -> Result<Function> {
        let module = self.main_module();
        let function = self.0.context.function(&format!("{}.{name}", module.name())).map_err(|error| {
            let names: Vec<_> = module.runnable_functions().collect();
            error.advise(format!("the module has: {}", names.join(", ")))
        })?;
        Ok(Function {
            function,
            program: self.0.clone(),
            is_async: module.is_async(name),
            declaration: module.attribute(name, "iree.abi.declaration").map(str::to_string),
        })
    }

    /// Reads the inputs of a function, onto the program's device.
    pub fn inputs(&self, function: &Function, inputs: &[ValueText]) -> Result<Vec<Value>> {
        let device = self.device();
        let parsed = inputs::parse(inputs, &function.argument_kinds(), &mut |tensor_type, bytes| {
            tensors::upload(device, tensor_type, bytes)
        })?;
        Ok(parsed.into_iter().map(value).collect())
    }

    /// A tensor argument with these element bytes, which are copied to the program's device.
    pub fn tensor(&self, tensor_type: &TensorType, bytes: &[u8]) -> Result<Value> {
        let size = tensor_type.size_bytes()?;
        if size != bytes.len() as u64 {
            return Err(Error::invalid_argument(format!(
                "{} bytes are given for a tensor of {size}",
                bytes.len()
            )));
        }
        let view = tensors::upload(self.device(), tensor_type, inputs::TensorBytes::Bytes(bytes))?;
        Ok(Handle::reference(view).into())
    }

    /// Calls a function and waits for it. Results may be buffers that are not host-visible; see
    /// [`Program::to_host`].
    pub fn call(&self, function: &Function, mut inputs: Vec<Value>) -> Result<Vec<Value>> {
        let place = || format!("function '{}'", function.name());
        self.check_own(function).context(place)?;
        function.check_count(inputs.len()).context(place)?;
        let finished = self.append_fences(function, &mut inputs)?;
        let results = function.function.call(&inputs).context(place)?;
        drop(inputs);
        if let Some(finished) = finished {
            finished.wait(None).context(place)?;
        }
        Ok(results)
    }

    /// Calls of a function with these inputs, for measurements. Each call of a batch is one call of the function.
    pub fn calls(&self, function: Function, inputs: Vec<Value>, batch: Batch) -> Result<Calls> {
        self.check_own(&function).context(|| format!("function '{}'", function.name()))?;
        Calls::new(function, inputs, batch)
    }

    /// Calls of a function that the compiler generated for measurements (`iree.benchmark` is `dispatch`): it
    /// takes the number of repetitions of its dispatches, the batch size: at most [`i32::MAX`].
    pub fn repeating_calls(&self, function: Function, batch: Batch) -> Result<Calls> {
        self.check_own(&function).context(|| format!("function '{}'", function.name()))?;
        Calls::repeating(function, batch)
    }

    /// Fails for a function of another program, which would receive fences of the wrong devices.
    fn check_own(&self, function: &Function) -> Result<()> {
        match Arc::ptr_eq(&self.0, &function.program) {
            true => Ok(()),
            false => Err(Error::invalid_argument("the function belongs to another program")
                .advise("look it up in the program that calls it")),
        }
    }

    /// Adds the fences that an asynchronous function takes after its inputs. Returns the one to wait for.
    fn append_fences(&self, function: &Function, inputs: &mut Vec<Value>) -> Result<Option<Fence>> {
        if !function.is_async {
            return Ok(None);
        }
        let device = self.device().ok_or_else(calls::no_device)?;
        let finished = Fence::create(device)?;
        inputs.push(Value::NULL);
        inputs.push(Handle::reference(finished.clone()).into());
        Ok(Some(finished))
    }

    /// Replaces results that are not host-visible by host-visible copies.
    pub fn to_host(&self, results: &mut [Value]) -> Result<()> {
        match self.device() {
            Some(device) => transfer::to_host(results, device),
            None => Ok(()),
        }
    }

    /// Runs `body` in a scope of the capture, if the program is recorded.
    pub fn scope<R>(&self, name: &str, body: impl FnOnce() -> Result<R>) -> Result<R> {
        match &self.0.recorder {
            None => body(),
            Some(recorder) => {
                let _scope = recorder.scope(name)?;
                body()
            }
        }
    }

    /// Ends the program: its globals are freed, in the scope `deinit` of the capture, then the capture is
    /// closed. Drop the program's values before, or the capture lacks what they free.
    ///
    /// [`Function`]s and [`Calls`] keep the globals alive, so drop them before: while any are alive
    /// ([`Program::function_count`]), this fails with `FAILED_PRECONDITION` and the program ends as if
    /// dropped. A dropped program ends with the last of its functions; its globals are freed outside a scope,
    /// and the capture stays unclosed, since drop cannot report a failure to close it.
    pub fn close(self) -> Result<()> {
        self.end(true)
    }

    /// Like [`Program::close`], without a scope, as the reference's benchmark and test tools do.
    pub fn close_unscoped(self) -> Result<()> {
        self.end(false)
    }

    /// The number of live functions and [`Calls`] of the program.
    pub fn function_count(&self) -> usize {
        Arc::strong_count(&self.0) - 1
    }

    fn end(self, scoped: bool) -> Result<()> {
        let inner = Arc::try_unwrap(self.0).map_err(|inner| {
            let count = Arc::strong_count(&inner) - 1;
            let error = Error::failed_precondition(format!("{count} function(s) of the program are alive"));
            error.context("closing the program").advise("drop its functions and calls first")
        })?;
        // The devices outlive the capture's recorder.
        let Inner { modules, context, devices, recorder, .. } = inner;
        let deinit =
            recorder.as_ref().filter(|_| scoped).map(|recorder| recorder.scope("deinit")).transpose();
        drop(context);
        drop(modules);
        let outcome = closed(deinit.map(drop), recorder.as_ref());
        drop(devices);
        outcome
    }
}

impl Inner {
    fn device(&self) -> Option<&Device> {
        self.devices.as_ref().and_then(|devices| devices.devices().get(self.lead))
    }
}

/// Creates the context of the modules, traced if requested, and initializes them.
fn new_context(options: &ProgramOptions, modules: &[Module]) -> Result<Context> {
    match &options.trace_execution {
        Some(sink) => Context::traced(modules, sink.clone()),
        None => Context::new(modules),
    }
}

/// Closes the capture, regardless of how the program ended.
fn closed<T>(outcome: Result<T>, recorder: Option<&Recorder>) -> Result<T> {
    let closed = recorder.map_or(Ok(()), |recorder| recorder.close());
    let closed = closed.context(|| "closing the capture".into());
    outcome.and_then(|value| closed.map(|()| value))
}

impl Function {
    /// The name without the module's.
    pub fn name(&self) -> &str {
        self.function.name()
    }

    /// The function of the VM.
    pub(crate) fn vm(&self) -> &rehal_vm::Function {
        &self.function
    }

    /// The device of its program, if that uses devices.
    pub(crate) fn device(&self) -> Option<&Device> {
        self.program.device()
    }

    /// The recorder of its program, if it is recorded.
    pub(crate) fn recorder(&self) -> Option<&Recorder> {
        self.program.recorder.as_ref()
    }

    /// Whether it takes two fences after its inputs.
    pub fn is_async(&self) -> bool {
        self.is_async
    }

    /// The declaration in the module, such as `sync func @f(...)`.
    pub fn declaration(&self) -> Option<&str> {
        self.declaration.as_deref()
    }

    /// The kinds of its inputs, without the fences of an asynchronous function.
    pub fn argument_kinds(&self) -> Vec<ValueKind> {
        let kinds = self.function.convention().arguments().iter().map(|argument| match argument {
            Argument::One(kind) => *kind,
            // Verified bytecode has no such function; the call would reject the arguments.
            Argument::Span(_) => ValueKind::Ref,
        });
        let mut kinds: Vec<_> = kinds.collect();
        let fences = if self.is_async { 2 } else { 0 };
        kinds.truncate(kinds.len().saturating_sub(fences));
        kinds
    }

    /// The kinds of its results.
    pub fn result_kinds(&self) -> &[ValueKind] {
        self.function.convention().results()
    }

    /// Fails unless the function takes `given` inputs.
    pub fn check_count(&self, given: usize) -> Result<()> {
        match self.argument_kinds().len() {
            wanted if wanted == given => Ok(()),
            wanted => {
                Err(Error::invalid_argument(format!("the function takes {wanted} and {given} are given")))
            }
        }
    }
}

/// The value that a function takes.
fn value(parsed: Parsed<BufferView>) -> Value {
    match parsed {
        Parsed::Null(None) => Value::NULL,
        Parsed::Scalar(scalar) | Parsed::Null(Some(scalar)) => match scalar {
            Scalar::I32(value) => value.into(),
            Scalar::I64(value) => value.into(),
            Scalar::F32(value) => value.into(),
            Scalar::F64(value) => value.into(),
        },
        Parsed::Tensor(view) => Handle::reference(view).into(),
        Parsed::Storage(view) => Handle::reference(view.buffer().clone()).into(),
    }
}

/// Resolves imports of modules.
struct Loader<'o> {
    options: &'o ProgramOptions,
    /// In topological order: each module is after those it imports.
    loaded: Vec<Module>,
    devices: Option<DeviceGroup>,
    recorder: Option<Recorder>,
}

impl Loader<'_> {
    fn resolve(&mut self, modules: &[ProgramModule], offer: Offer<'_>) -> Result<()> {
        for user in modules {
            for dependency in user.file().dependencies() {
                let name = dependency.name;
                if self.loaded.iter().any(|module| module.name() == name) {
                    continue;
                }
                let place = || format!("module '{}'", user.name());
                let provided = match name {
                    // The devices are those of the options, whichever module requests them first.
                    "hal" => self.hal().map(Some),
                    _ => self.provide(name, offer).context(place),
                };
                match provided? {
                    Some(module) => self.loaded.push(module),
                    None if dependency.optional => {}
                    None => {
                        let error = Error::not_found(format!("module '{name}' is required but missing"));
                        return Err(error.context(place()).advise("load it before the one that needs it"));
                    }
                }
            }
            self.loaded.push(user.module().clone());
        }
        if self.recorder.is_none() && self.options.recording.is_some() {
            let error = Error::invalid_argument("cannot record: the program uses no devices");
            return Err(error.advise("run it without recording"));
        }
        Ok(())
    }

    fn provide(&mut self, name: &str, offer: Offer<'_>) -> Result<Option<Module>> {
        match name {
            "io_parameters" => Module::native(IoParameters::new(self.options.parameters.open()?)).map(Some),
            other => offer(other),
        }
    }

    fn hal(&mut self) -> Result<Module> {
        if self.options.report_crashes {
            CrashReports::install();
        }
        let base = self.options.devices.open()?;
        self.recorder = recording::recorder(self.options)?;
        let init = self.recorder.as_ref().map(|recorder| recorder.scope("init")).transpose()?;
        let devices = match &self.recorder {
            Some(recorder) => recorder.wrap(&base)?,
            None => base,
        };
        let mut module = HalModule::new(devices.clone()).lead(self.options.lead)?;
        if let Some(sink) = self.options.trace_values.clone() {
            module = module.trace_to(Arc::new(move |key, views| trace(&*sink, key, views)));
        }
        let module = Module::native(module);
        drop(init);
        self.devices = Some(devices);
        module
    }
}

/// Passes values that a program traces to `sink`, as text.
fn trace(sink: &(dyn Fn(&str) + Send + Sync), key: &str, views: &[&BufferView]) -> Result<()> {
    let mut text = format!("=== {key} ===\n");
    for view in views {
        text.push_str(&results::format_view(view, u64::MAX)?);
        text.push('\n');
    }
    sink(&text);
    Ok(())
}
