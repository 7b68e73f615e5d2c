//! Programs as the tools run them: modules with what they import, on devices, recorded where that is asked for.
//!
//! A [`Program`] is loaded from [`ProgramOptions`], its [`Entry`]s are called, and it is closed. Inputs and results are in the
//! files below.

mod files;
pub(crate) mod flags;
mod inputs;
mod instruments;
mod modules;
mod options;
mod paths;
mod recording;
mod results;
mod tensors;
mod transfer;

use std::marker::PhantomData;
use std::sync::Arc;

use rehal_base::{Context as _, Error, Result};
use rehal_hal::{BufferView, Device, DeviceGroup, Fence, HeapStatistics};
use rehal_local::executable::guard;
use rehal_modules::hal::{HalModule, Handle};
use rehal_modules::io_parameters::IoParameters;
use rehal_replay::Recorder;
use rehal_values::Scalar;
use rehal_vm::{Argument, Context, Function, Module, Value, ValueKind};

use crate::output;

pub(crate) use inputs::Parsed;
pub(crate) use modules::{UserModule, load as load_modules};
pub(crate) use options::{
    ModuleMode, ModuleSource, OutputTarget, ProgramOptions, RecordingOptions, ResultOptions, ValueText,
};
pub(crate) use results::{compare_all, print_all, write_all};

/// A program that is loaded: its modules' initialisers have run.
pub(crate) struct Program {
    /// In the order of the options; functions are looked up in the last one.
    modules: Vec<UserModule>,
    context: Context,
    devices: Option<DeviceGroup>,
    /// Which of them leads.
    lead: usize,
    recorder: Option<Recorder>,
}

/// A function of a program that can be called from outside. It keeps the program's globals, so it has to be gone when
/// the program is closed: that is what the borrow is for.
pub(crate) struct Entry<'p> {
    function: Function,
    program: PhantomData<&'p Program>,
    /// Whether it takes two fences behind its inputs: one that it waits for, one that it signals.
    is_async: bool,
    /// What the module says of it, such as `sync func @f(...)`.
    declaration: Option<String>,
}

impl Program {
    /// Loads the modules that the options name, with all that they need: devices, parameters, a recorder.
    ///
    /// `offer` gives further modules that programs may need, by name; `None` for one that it does not know.
    pub(crate) fn load(
        options: &ProgramOptions,
        offer: &mut dyn FnMut(&str) -> Result<Option<Module>>,
    ) -> Result<Self> {
        Self::with_modules(options, modules::load(options)?, offer)
    }

    /// As [`Program::load`], of modules that are read already.
    pub(crate) fn with_modules(
        options: &ProgramOptions,
        modules: Vec<UserModule>,
        offer: &mut dyn FnMut(&str) -> Result<Option<Module>>,
    ) -> Result<Self> {
        options.check_written()?;
        let mut loader = Loader { options, loaded: Vec::new(), devices: None, recorder: None };
        let context = loader.resolve(&modules, offer).and_then(|()| new_context(options, &loader.loaded));
        let Loader { devices, recorder, .. } = loader;
        match context {
            Ok(context) => Ok(Self { modules, context, devices, lead: options.lead, recorder }),
            Err(error) => closed(Err(error), recorder),
        }
    }

    /// The module whose functions are called.
    pub(crate) fn main_module(&self) -> &UserModule {
        self.modules.last().expect("a program has a module, or loading fails")
    }

    /// The device that inputs go to, where the program uses devices.
    pub(crate) fn device(&self) -> Option<&Device> {
        self.devices.as_ref().and_then(|devices| devices.devices().get(self.lead))
    }

    /// What records the program, where that is asked for.
    pub(crate) fn recorder(&self) -> Option<&Recorder> {
        self.recorder.as_ref()
    }

    /// The function `name` of the main module.
    pub(crate) fn entry(&self, name: &str) -> Result<Entry<'_>> {
        let module = self.main_module();
        let function = self.context.function(&format!("{}.{name}", module.file.name())).map_err(|error| {
            let names: Vec<_> = module.runnable_functions().collect();
            error.advise(format!("the module has: {}", names.join(", ")))
        })?;
        Ok(Entry {
            function,
            program: PhantomData,
            is_async: module.is_async(name),
            declaration: module.attribute(name, "iree.abi.declaration").map(str::to_string),
        })
    }

    /// The only function of the main module that can be called by name.
    pub(crate) fn single_entry(&self) -> Result<Entry<'_>> {
        let names: Vec<_> = self.main_module().runnable_functions().collect();
        match names[..] {
            [name] => self.entry(name),
            [] => {
                Err(Error::invalid_argument("the module exports no function").advise("name another module"))
            }
            _ => Err(Error::invalid_argument(format!("the module exports {} functions", names.len()))
                .advise(format!("name one with --function=, of: {}", names.join(", ")))),
        }
    }

    /// Reads the inputs of a function, onto the program's device.
    pub(crate) fn inputs(&self, entry: &Entry<'_>, inputs: &[ValueText]) -> Result<Vec<Value>> {
        let device = self.device();
        let parsed = inputs::parse(inputs, &entry.argument_kinds(), &mut |tensor_type, bytes| {
            tensors::upload(device, tensor_type, bytes)
        })?;
        Ok(parsed.into_iter().map(value).collect())
    }

    /// Calls a function and waits for it. Results may be buffers that only the device can read; see
    /// [`Program::to_host`].
    pub(crate) fn call(&self, entry: &Entry<'_>, mut inputs: Vec<Value>) -> Result<Vec<Value>> {
        let (wanted, given) = (entry.argument_kinds().len(), inputs.len());
        if wanted != given {
            let error = Error::invalid_argument(format!("the function takes {wanted} and {given} are given"));
            return Err(error
                .context(format!("function '{}'", entry.name()))
                .advise("give --input once for each"));
        }
        let finished = self.append_fences(entry, &mut inputs)?;
        let results = entry.function.call(&inputs).context(|| format!("function '{}'", entry.name()))?;
        drop(inputs);
        if let Some(finished) = finished {
            finished.wait(None).context(|| format!("function '{}'", entry.name()))?;
        }
        Ok(results)
    }

    /// Adds the fences that an asynchronous function takes behind its inputs. Gives the one to wait for.
    pub(crate) fn append_fences(&self, entry: &Entry<'_>, inputs: &mut Vec<Value>) -> Result<Option<Fence>> {
        if !entry.is_async {
            return Ok(None);
        }
        let device = self.device().ok_or_else(|| {
            Error::failed_precondition(
                "the function takes fences, and its module uses no device to make them on",
            )
        })?;
        let finished = Fence::create(device)?;
        inputs.push(Value::NULL);
        inputs.push(Handle::reference(finished.clone()).into());
        Ok(Some(finished))
    }

    /// Replaces results that the host cannot read by copies that it can.
    pub(crate) fn to_host(&self, results: &mut [Value]) -> Result<()> {
        match self.device() {
            Some(device) => transfer::to_host(results, device),
            None => Ok(()),
        }
    }

    /// Runs `body` in a scope of the capture, where the program is recorded.
    pub(crate) fn scope<R>(&self, name: &str, body: impl FnOnce() -> Result<R>) -> Result<R> {
        match &self.recorder {
            None => body(),
            Some(recorder) => {
                let _scope = recorder.scope(name)?;
                body()
            }
        }
    }

    /// Ends the program: its globals go, then the capture is closed. Values of it must be gone before. Gives
    /// `outcome`, or else what went wrong here. What ends is in the scope `deinit` of the capture. With
    /// `print_statistics`, what its devices allocated goes to standard error.
    pub(crate) fn close(self, outcome: Result<()>, print_statistics: bool) -> Result<()> {
        self.end(outcome, print_statistics, true)
    }

    /// As [`Program::close`], without a scope, as the reference's tools that measure and test do it.
    pub(crate) fn close_unscoped(self, outcome: Result<()>, print_statistics: bool) -> Result<()> {
        self.end(outcome, print_statistics, false)
    }

    fn end(self, outcome: Result<()>, print_statistics: bool, scoped: bool) -> Result<()> {
        let Self { modules, context, devices, recorder, .. } = self;
        let deinit =
            recorder.as_ref().filter(|_| scoped).map(|recorder| recorder.scope("deinit")).transpose();
        drop(context);
        drop(modules);
        let outcome = outcome.and(deinit.map(drop));
        let outcome = closed(outcome, recorder);
        if print_statistics && let Some(devices) = &devices {
            devices.devices().iter().for_each(print_memory);
        }
        outcome
    }
}

/// Prints what a device has allocated, in the reference's form.
fn print_memory(device: &Device) {
    let mut text = format!("Device: {}\n", device.info().name);
    if let Some(statistics) = device.memory_statistics() {
        text.push_str("[[ iree_hal_allocator_t memory statistics ]]\n");
        for (name, heap) in [("HOST_LOCAL", statistics.host), ("DEVICE_LOCAL", statistics.device)] {
            let HeapStatistics { peak_bytes, allocated_bytes, freed_bytes } = heap;
            let live_bytes = allocated_bytes.saturating_sub(freed_bytes);
            text.push_str(&format!(
                "{name:>12}: {peak_bytes:12}B peak / {allocated_bytes:12}B allocated / \
                 {freed_bytes:12}B freed / {live_bytes:12}B live\n"
            ));
        }
    }
    output::note(&text);
}

/// The modules in a context, traced where that is asked for. Runs their initialisers.
fn new_context(options: &ProgramOptions, modules: &[Module]) -> Result<Context> {
    match options.trace_execution {
        true => Context::traced(modules, Arc::new(output::note)),
        false => Context::new(modules),
    }
}

/// Closes the capture, however the program ended.
fn closed<T>(outcome: Result<T>, recorder: Option<Recorder>) -> Result<T> {
    let closed = recorder.map_or(Ok(()), |recorder| recorder.close());
    let closed = closed.context(|| "closing the capture".into());
    outcome.and_then(|value| closed.map(|()| value))
}

/// Nothing to do, but with this the compiler has entries go before their program is closed.
impl Drop for Entry<'_> {
    fn drop(&mut self) {}
}

impl Entry<'_> {
    /// The name without that of the module.
    pub(crate) fn name(&self) -> &str {
        self.function.name()
    }

    /// The function.
    pub(crate) fn function(&self) -> &Function {
        &self.function
    }

    /// Whether it takes two fences behind its inputs.
    pub(crate) fn is_async(&self) -> bool {
        self.is_async
    }

    /// What the module says of the function.
    pub(crate) fn declaration(&self) -> Option<&str> {
        self.declaration.as_deref()
    }

    /// The kinds of its inputs, without the fences of an asynchronous function.
    pub(crate) fn argument_kinds(&self) -> Vec<ValueKind> {
        let kinds = self.function.convention().arguments().iter().map(|argument| match argument {
            Argument::One(kind) => *kind,
            // Bytecode has no such function; what it takes from outside would be refused by the call.
            Argument::Span(_) => ValueKind::Ref,
        });
        let mut kinds: Vec<_> = kinds.collect();
        let fences = if self.is_async { 2 } else { 0 };
        kinds.truncate(kinds.len().saturating_sub(fences));
        kinds
    }

    /// The kinds of its results.
    pub(crate) fn result_kinds(&self) -> &[ValueKind] {
        self.function.convention().results()
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

/// Finds what modules need.
struct Loader<'o> {
    options: &'o ProgramOptions,
    /// In an order in which each stands behind those that it needs.
    loaded: Vec<Module>,
    devices: Option<DeviceGroup>,
    recorder: Option<Recorder>,
}

impl Loader<'_> {
    fn resolve(
        &mut self,
        modules: &[UserModule],
        offer: &mut dyn FnMut(&str) -> Result<Option<Module>>,
    ) -> Result<()> {
        for user in modules {
            for dependency in user.file.dependencies() {
                let name = dependency.name;
                if self.loaded.iter().any(|module| module.name() == name) {
                    continue;
                }
                let place = || format!("module '{}'", user.file.name());
                let provided = match name {
                    // Devices are what the flags name, whichever module needs them first.
                    "hal" => self.hal().map(Some),
                    _ => self.provide(name, offer).context(place),
                };
                match provided? {
                    Some(module) => self.loaded.push(module),
                    None if dependency.optional => {}
                    None => {
                        let error = Error::not_found(format!("module '{name}' is needed and not given"));
                        return Err(error
                            .context(place())
                            .advise("name it with --module before the one that needs it"));
                    }
                }
            }
            self.loaded.push(user.module.clone());
        }
        if self.recorder.is_none() && self.options.recording.is_some() {
            let error =
                Error::invalid_argument("--device_replay_output records devices, and the program uses none");
            return Err(error.advise("leave it out"));
        }
        Ok(())
    }

    fn provide(
        &mut self,
        name: &str,
        offer: &mut dyn FnMut(&str) -> Result<Option<Module>>,
    ) -> Result<Option<Module>> {
        match name {
            "io_parameters" => Module::native(IoParameters::new(self.options.parameters.open()?)).map(Some),
            other => offer(other),
        }
    }

    fn hal(&mut self) -> Result<Module> {
        // From here on a kernel that crashes is reported.
        guard::install();
        let base = self.options.devices.create()?;
        self.recorder = self.options.recorder()?;
        let init = self.recorder.as_ref().map(|recorder| recorder.scope("init")).transpose()?;
        let devices = match &self.recorder {
            Some(recorder) => recorder.wrap(&base)?,
            None => base,
        };
        let module = Module::native(
            HalModule::new(devices.clone()).lead(self.options.lead)?.trace_to(Arc::new(trace)),
        );
        drop(init);
        self.devices = Some(devices);
        module
    }
}

/// What programs trace goes to standard error.
fn trace(key: &str, views: &[&BufferView]) -> Result<()> {
    let mut text = format!("=== {key} ===\n");
    for view in views {
        text.push_str(&results::format_view(view, u64::MAX)?);
        text.push('\n');
    }
    output::note(&text);
    Ok(())
}
