//! Programs: modules with their imports, on devices, optionally recorded.
//!
//! A [`Program`] is loaded from [`ProgramOptions`], its [`Function`]s are called, and it is closed. The
//! submodules handle inputs and results.

mod calls;
mod counts;
mod dispatch_statistics;
mod executables;
mod instruments;
mod listing;
mod modules;
mod options;
mod pending;
mod recording;
mod target;
mod tests;

use std::sync::Arc;

use executables::RunningSubstitutes;
use rehal_base::{Context as _, Error, HostMemory, Result, plural};
use rehal_devices::values::inputs::{self, Parsed};
use rehal_devices::values::{tensors, to_host};
use rehal_devices::{CrashReports, ValueText};
use rehal_hal::{BufferView, Device, DeviceGroup, Fence};
use rehal_modules::hal::{HalModule, Handle};
use rehal_modules::io_parameters::{IoParameters, Provider};
use rehal_replay::Recorder;
use rehal_values::{Scalar, TensorType};
use rehal_vm::{Argument, Context, Module, Value, ValueKind};

pub use calls::{Batch, Calls, PreparedBatch};
pub use dispatch_statistics::DispatchStatistics;
pub use executables::{
    LoadFunctions, ModuleExecutable, SubstitutedExecutable, replaced_functions, resolve_substitutions,
    substitute_executables,
};
pub use listing::{ListedExecutable, ListedFunction};
pub use modules::ProgramModule;
pub use options::{
    ModuleMode, ModuleSource, ParameterFile, ParameterOptions, ProgramOptions, RecordingOptions,
    SubstituteBuilder, TextSink,
};
pub use pending::PendingCall;
pub use tests::{ModuleTest, ModuleTests, TestOutcome};

/// Provides built-in modules by name; `None` for unknown names.
pub type Offer<'o> = &'o mut dyn FnMut(&str) -> Result<Option<Module>>;

/// A loaded program: its modules' initializers have run.
pub struct Program(Arc<Inner>);

/// The state shared by a program and its functions.
struct Inner {
    /// In the order of the options; functions are looked up in the last one.
    modules: Vec<ProgramModule>,
    context: Context,
    devices: Option<DeviceGroup>,
    /// Index of the lead device.
    lead: usize,
    recorder: Option<Recorder>,
    /// Its parameters, if it imports them.
    parameters: Option<Arc<Provider>>,
}

/// An exported function of a program. It shares ownership of the program, so it can be stored next to it,
/// sent to other threads and passed to another language; see [`Program::close`].
pub struct Function {
    /// Dropped before the program, which another thread may end afterwards.
    function: rehal_vm::Function,
    program: Arc<Inner>,
    /// Whether it takes a wait fence and a signal fence after its inputs.
    is_async: bool,
    /// Its declaration in the module, such as `sync func @f(...)`.
    declaration: Option<String>,
}

impl Program {
    /// Loads the modules of the options with their dependencies: devices, parameters, a recorder. Runs the
    /// modules' initializers.
    pub fn load(options: &ProgramOptions) -> Result<Self> {
        Self::with_modules(options, modules::load(options)?, &mut |_| Ok(None))
    }

    /// As [`Program::load`], with modules that have already been read instead of those of the options.
    /// `offer` provides further modules that they may import.
    #[doc(hidden)]
    pub fn with_modules(
        options: &ProgramOptions,
        modules: Vec<ProgramModule>,
        offer: Offer<'_>,
    ) -> Result<Self> {
        if modules.is_empty() {
            return Err(modules::no_module());
        }
        let mut loader = Loader {
            options,
            loaded: Vec::new(),
            devices: None,
            recorder: None,
            substitutes: None,
            parameters: None,
        };
        let context = loader.resolve(&modules, offer).and_then(|()| new_context(options, &loader.loaded));
        let context = context.and_then(|context| match &loader.substitutes {
            Some(substitutes) => substitutes.check_used().map(|()| context),
            None if options.substitutions.is_empty() => Ok(context),
            None => Err(Error::not_found("the program creates no executables, and some are to be replaced")
                .advise("leave out the substitutions")),
        });
        let Loader { devices, recorder, parameters, .. } = loader;
        let context = context.map_err(|error| target::explain(error, devices.as_ref()));
        match context {
            Ok(context) => {
                let lead = options.lead;
                Ok(Self(Arc::new(Inner { modules, context, devices, lead, recorder, parameters })))
            }
            Err(error) => closed(Err(error), recorder.as_ref()),
        }
    }

    /// The module whose functions are called.
    pub fn main_module(&self) -> &ProgramModule {
        self.0.modules.last().expect("a program has a module, or loading fails")
    }

    /// The devices, if the program uses any; the recorder's devices if it is recorded.
    pub fn devices(&self) -> Option<&DeviceGroup> {
        self.0.devices.as_ref()
    }

    /// The device that allocates inputs, if the program uses devices.
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
            error.advise(format!("the module has: {}", rehal_base::listed(names)))
        })?;
        Ok(Function {
            function,
            program: self.0.clone(),
            is_async: module.is_async(name),
            declaration: module.attribute(name, "iree.abi.declaration").map(str::to_string),
        })
    }

    /// Parses the inputs of a function, and creates tensors on the program's device.
    pub fn inputs(&self, function: &Function, inputs: &[ValueText]) -> Result<Vec<Value>> {
        let device = self.device();
        let parsed = inputs::parse(inputs, &function.argument_kinds(), &mut |tensor_type, bytes| {
            tensors::upload(device, tensor_type, bytes)
        })?;
        Ok(parsed.into_iter().map(value).collect())
    }

    /// Creates a tensor from the bytes of its elements, which are copied to the program's device.
    pub fn tensor(&self, tensor_type: &TensorType, bytes: &[u8]) -> Result<Value> {
        tensor_type.check_length(bytes.len() as u64)?;
        let view = tensors::upload(self.device(), tensor_type, inputs::TensorBytes::Bytes(bytes))?;
        Ok(Handle::reference(view).into())
    }

    /// Creates a tensor over memory that holds its elements, without a copy. Kernels read the memory and, if
    /// the program updates the tensor in place, write it; the tensor keeps it alive.
    ///
    /// Fails with `OUT_OF_RANGE` or `UNIMPLEMENTED` if the device cannot use the memory where it is: CPU
    /// devices need an alignment of 64 bytes. [`Program::tensor`] copies instead.
    pub fn tensor_over(&self, tensor_type: &TensorType, memory: &Arc<HostMemory>) -> Result<Value> {
        tensor_type.check_length(memory.length())?;
        let view = tensors::import(self.device(), tensor_type, memory)?;
        Ok(Handle::reference(view).into())
    }

    /// Calls a function and waits for it. Results may be in memory that only the device can read; see
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
        self.0.check_parameters().context(place)?;
        Ok(results)
    }

    /// Prepares repeated calls of a function with these inputs, for benchmarks.
    #[doc(hidden)]
    pub fn calls(&self, function: Function, inputs: Vec<Value>, batch: Batch) -> Result<Calls> {
        self.check_own(&function).context(|| format!("function '{}'", function.name()))?;
        Calls::new(function, inputs, batch)
    }

    /// As [`Program::calls`], for a function that the compiler generated for benchmarks (`iree.benchmark` is
    /// `dispatch`): it takes the repetition count of its dispatches, which is the batch size, at most
    /// [`i32::MAX`].
    #[doc(hidden)]
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

    /// Appends the fences of an asynchronous function to its inputs. Returns the fence to wait for.
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

    /// Replaces results that the host cannot read by readable copies.
    pub fn to_host(&self, results: &mut [Value]) -> Result<()> {
        match self.device() {
            Some(device) => to_host(results, device),
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
    /// closed. Drop the program's values first, or their deallocation is not captured.
    ///
    /// [`Function`]s and [`Calls`] keep the globals alive, so drop them first: while any exist
    /// ([`Program::function_count`]), this fails with `FAILED_PRECONDITION`, and the program ends as if
    /// dropped. A dropped program ends with the last of its functions; its globals are freed outside of a
    /// scope, and its capture is not closed, because a drop cannot report that closing failed.
    pub fn close(self) -> Result<()> {
        self.end(true)
    }

    /// As [`Program::close`], without a scope, like the reference's benchmark and check tools.
    pub fn close_unscoped(self) -> Result<()> {
        self.end(false)
    }

    /// The number of [`Function`]s and [`Calls`] of the program that are alive.
    pub fn function_count(&self) -> usize {
        Arc::strong_count(&self.0) - 1
    }

    fn end(self, scoped: bool) -> Result<()> {
        let inner = Arc::try_unwrap(self.0).map_err(|inner| {
            let count = Arc::strong_count(&inner) - 1;
            let error = Error::failed_precondition(format!("{count} function(s) of the program are alive"));
            error.context("closing the program").advise("drop its functions and calls first")
        })?;
        // The devices must outlive the closing of the capture.
        let unchanged = inner.check_parameters();
        let Inner { modules, context, devices, recorder, .. } = inner;
        let deinit =
            recorder.as_ref().filter(|_| scoped).map(|recorder| recorder.scope("deinit")).transpose();
        drop(context);
        drop(modules);
        let outcome = closed(deinit.map(drop), recorder.as_ref());
        drop(devices);
        outcome.and(unchanged)
    }
}

impl Inner {
    fn device(&self) -> Option<&Device> {
        self.devices.as_ref().and_then(|devices| devices.devices().get(self.lead))
    }

    /// Fails if parameters that kernels read from their file have been changed since they were loaded.
    fn check_parameters(&self) -> Result<()> {
        self.parameters.as_ref().map_or(Ok(()), |it| it.check_unchanged())
    }
}

/// Creates a context with the modules, with tracing if requested. Runs their initializers.
fn new_context(options: &ProgramOptions, modules: &[Module]) -> Result<Context> {
    match &options.trace_execution {
        Some(sink) => Context::traced(modules, sink.clone()),
        None => Context::new(modules),
    }
}

/// Closes the capture, even if the program failed.
fn closed<T>(outcome: Result<T>, recorder: Option<&Recorder>) -> Result<T> {
    let closed = recorder.map_or(Ok(()), |recorder| recorder.close());
    let closed = closed.context(|| "closing the capture".into());
    outcome.and_then(|value| closed.map(|()| value))
}

impl Function {
    /// The name without the module name.
    pub fn name(&self) -> &str {
        self.function.name()
    }

    /// The VM function.
    pub(crate) fn vm(&self) -> &rehal_vm::Function {
        &self.function
    }

    /// The device of its program, if the program uses devices.
    pub(crate) fn device(&self) -> Option<&Device> {
        self.program.device()
    }

    /// The recorder of its program, if it is recorded.
    pub(crate) fn recorder(&self) -> Option<&Recorder> {
        self.program.recorder.as_ref()
    }

    /// Whether it takes fences after its inputs.
    pub fn is_async(&self) -> bool {
        self.is_async
    }

    /// The declaration of the function in the module, such as `sync func @f(...)`.
    pub fn declaration(&self) -> Option<&str> {
        self.declaration.as_deref()
    }

    /// Its declaration if it has one; otherwise its name and the kinds of its inputs and results, such as
    /// `add(i32, ref) -> (ref)`.
    pub fn signature(&self) -> String {
        let kinds = |kinds: &[ValueKind]| kinds.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(", ");
        self.declaration.clone().unwrap_or_else(|| {
            format!("{}({}) -> ({})", self.name(), kinds(&self.argument_kinds()), kinds(self.result_kinds()))
        })
    }

    /// The kinds of its inputs, without the fences of an asynchronous function.
    pub fn argument_kinds(&self) -> Vec<ValueKind> {
        let kinds = self.function.convention().arguments().iter().map(|argument| match argument {
            Argument::One(kind) => *kind,
            // Bytecode has no such function, and the call would refuse its inputs.
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
                let wanted = plural(wanted as u64, "input");
                Err(Error::invalid_argument(format!("expected {wanted}, found {given}")))
            }
        }
    }
}

/// Creates an input of this kind for a program from its bytes, which are copied: a number, little-endian, or
/// a tensor.
pub fn input_of_bytes(
    program: &Program,
    kind: ValueKind,
    tensor_type: &TensorType,
    bytes: &[u8],
) -> Result<Value> {
    Ok(match kind {
        ValueKind::Ref => return program.tensor(tensor_type, bytes),
        ValueKind::I32 => i32::from_le_bytes(number(kind, bytes)?).into(),
        ValueKind::I64 => i64::from_le_bytes(number(kind, bytes)?).into(),
        ValueKind::F32 => f32::from_le_bytes(number(kind, bytes)?).into(),
        ValueKind::F64 => f64::from_le_bytes(number(kind, bytes)?).into(),
    })
}

fn number<const N: usize>(kind: ValueKind, bytes: &[u8]) -> Result<[u8; N]> {
    bytes.try_into().map_err(|_| {
        Error::invalid_argument(format!("expected an {} of {N} bytes, found {}", kind.name(), bytes.len()))
    })
}

/// Converts a parsed value to an argument.
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

/// Resolves the dependencies of modules.
struct Loader<'o> {
    options: &'o ProgramOptions,
    /// In dependency order.
    loaded: Vec<Module>,
    devices: Option<DeviceGroup>,
    recorder: Option<Recorder>,
    substitutes: Option<Arc<RunningSubstitutes>>,
    parameters: Option<Arc<Provider>>,
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
                    // Devices come from the options, not from the module that imports them first.
                    "hal" => self.hal(modules).map(Some),
                    _ => self.provide(name, offer).context(place),
                };
                match provided? {
                    Some(module) => self.loaded.push(module),
                    None if dependency.optional => {}
                    None => {
                        let error = Error::not_found(format!("module '{name}' is missing"));
                        return Err(error
                            .context(place())
                            .advise("load it before the module that imports it"));
                    }
                }
            }
            self.loaded.push(user.module().clone());
        }
        if self.recorder.is_none() && self.options.recording.is_some() {
            let error = Error::invalid_argument("a recording needs devices, and the program uses none");
            return Err(error.advise("run it without a recording"));
        }
        Ok(())
    }

    fn provide(&mut self, name: &str, offer: Offer<'_>) -> Result<Option<Module>> {
        match name {
            "io_parameters" => {
                let module = IoParameters::new(self.options.parameters.open()?);
                self.parameters = Some(module.provider().clone());
                Module::native(module).map(Some)
            }
            other => offer(other),
        }
    }

    fn hal(&mut self, modules: &[ProgramModule]) -> Result<Module> {
        if self.options.report_crashes {
            CrashReports::install();
        }
        let base = self.options.devices.open()?;
        if !self.options.substitutions.is_empty() {
            self.substitutes = Some(RunningSubstitutes::open(self.options, modules, base.devices())?);
        }
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
        if let Some(substitutes) = &self.substitutes {
            module = module.substitute_with(substitutes.hook());
        }
        let module = Module::native(module);
        drop(init);
        self.devices = Some(devices);
        module
    }
}

/// Formats the values that a program traces, for `sink`.
fn trace(sink: &(dyn Fn(&str) + Send + Sync), key: &str, views: &[&BufferView]) -> Result<()> {
    let mut text = format!("=== {key} ===\n");
    for view in views {
        text.push_str(&rehal_devices::values::format_view(view, u64::MAX)?);
        text.push('\n');
    }
    sink(&text);
    Ok(())
}
