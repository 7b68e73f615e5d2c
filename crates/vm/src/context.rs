use std::sync::Arc;

use parking_lot::Mutex;
use rehal_base::{Error, Result};

use crate::budget::Budget;
use crate::interpret::{Machine, ModuleView, Modules, Target};
use crate::link::{self, Linked};
use crate::{Convention, Module, Signal, State, TraceSink, Value};

/// Modules that are linked together, each with its own state.
///
/// Cheap to clone, and usable from any thread. Invocations of one context run concurrently: each access to a
/// global, a list or a buffer is atomic if it is of at most 8 aligned bytes; there is no other ordering
/// between invocations. A program that keeps state across calls and needs them serialized relies on its
/// caller to finish one invocation before starting the next.
#[derive(Clone)]
pub struct Context(Arc<Inner>);

struct Inner {
    modules: Vec<Linked>,
    /// A pool of the machines of ended invocations.
    machines: Mutex<Vec<Machine>>,
    /// The budget of each invocation.
    budget: Option<Budget>,
    /// The sink that traces what invocations execute.
    trace: Option<TraceSink>,
}

/// A callable function of a context.
#[derive(Clone)]
pub struct Function {
    context: Context,
    module: usize,
    export: usize,
}

impl Context {
    /// Loads `modules` in order, each after those that it imports from, and runs their initialisers, which
    /// may block the calling thread. If several share a name, imports bind to the last one before the
    /// importer.
    ///
    /// Fails if a module depends on another that is missing or too old, imports a function that is missing or
    /// has another signature, or fails to initialise; the modules before it are then deinitialised.
    pub fn new(modules: &[Module]) -> Result<Self> {
        Self::with(modules, None, None)
    }

    /// Like [`Context::new`], and traces each instruction of invocations and initialisers to `sink` before it
    /// is executed.
    pub fn traced(modules: &[Module], sink: TraceSink) -> Result<Self> {
        Self::with(modules, None, Some(sink))
    }

    /// Like [`Context::new`], for untrusted programs: each invocation, including initialisers, fails once it
    /// has exhausted `budget`. Native modules among `modules` must limit themselves.
    pub fn limited(modules: &[Module], budget: Budget) -> Result<Self> {
        Self::with(modules, Some(budget), None)
    }

    fn with(modules: &[Module], budget: Option<Budget>, trace: Option<TraceSink>) -> Result<Self> {
        let mut inner =
            Inner { modules: Vec::with_capacity(modules.len()), machines: Mutex::default(), budget, trace };
        for module in modules {
            let linked = link::link(&inner.modules, module, inner.trace.is_some())?;
            inner.modules.push(linked);
            // If this fails, dropping `inner` deinitialises this module and those before it, like the
            // reference.
            inner.run_if_exported(inner.modules.len() - 1, "__init", &[])?;
        }
        Ok(Self(Arc::new(inner)))
    }

    /// The modules in order.
    pub fn modules(&self) -> impl ExactSizeIterator<Item = &Module> {
        self.0.modules.iter().map(Linked::module)
    }

    /// The exported function "module.name".
    pub fn function(&self, name: &str) -> Result<Function> {
        // Function names may contain dots, module names may not.
        let (module, function) = name.split_once('.').ok_or_else(|| {
            Error::invalid_argument(format!("invalid function name '{name}' (expected module.function)"))
        })?;
        let found = self.0.modules.iter().rposition(|linked| linked.module().name() == module);
        let Some(index) = found else {
            return Err(Error::not_found(format!("module '{module}' not found, needed for '{name}'")));
        };
        self.export(index, function)
    }

    /// The function `name` that the module at `index` exports.
    pub fn export(&self, index: usize, name: &str) -> Result<Function> {
        let module = self.0.modules.get(index).map(Linked::module);
        let module =
            module.ok_or_else(|| Error::out_of_range(format!("module index {index} is out of bounds")))?;
        let export = module.export(name).ok_or_else(|| {
            Error::not_found(format!("function '{name}' not found in module '{}'", module.name()))
        })?;
        Ok(Function { context: self.clone(), module: index, export })
    }

    /// The state of the native module `name` in this context.
    pub fn native_state(&self, name: &str) -> Option<&State> {
        self.0.modules.iter().rev().find(|linked| linked.module().name() == name)?.native_state()
    }

    /// Signals every module, in the order of the signal; may block the calling thread. Programs are notified
    /// through their export `__notify`, native modules through
    /// [`NativeModule::notify`](crate::NativeModule::notify).
    pub fn notify(&self, signal: Signal) -> Result<()> {
        let notify = |index: usize| {
            self.0.modules[index].notify(signal)?;
            self.0.run_if_exported(index, "__notify", &[Value::I32(signal as i32)])
        };
        let count = self.0.modules.len();
        match signal {
            Signal::Resume | Signal::Fork => (0..count).try_for_each(notify),
            Signal::Suspend | Signal::LowMemory => (0..count).rev().try_for_each(notify),
        }
    }

    pub(crate) fn inner(&self) -> &impl Modules {
        &*self.0
    }

    pub(crate) fn take_machine(&self) -> Machine {
        self.0.take_machine()
    }

    pub(crate) fn give_machine(&self, machine: Machine) {
        self.0.give_machine(machine);
    }
}

impl Inner {
    fn take_machine(&self) -> Machine {
        let machine = self.machines.lock().pop();
        machine.unwrap_or_else(|| Machine::new(self.budget, self.trace.clone()))
    }

    /// Returns a machine to the pool unless it has grown beyond the working set of most invocations.
    fn give_machine(&self, machine: Machine) {
        if !machine.is_large() {
            self.machines.lock().push(machine);
        }
    }

    /// Calls the export `name` of a module and blocks, if it exists with this signature.
    fn run_if_exported(&self, index: usize, name: &str, arguments: &[Value]) -> Result<()> {
        let module = self.modules[index].module();
        let Some(export) = module.export(name) else { return Ok(()) };
        let convention = &module.exports()[export].convention;
        let mut starts = Vec::new();
        convention
            .check_arguments(arguments, &[], &mut starts)
            .map_err(|error| error.context(format!("calling {}.{name}", module.name())))?;
        let target = self.modules[index].target(index, export);
        let mut machine = self.take_machine();
        let outcome = machine.begin(self, target, arguments.iter().cloned(), starts);
        let result = machine.block(self, outcome);
        machine.reset();
        machine.results.clear();
        self.give_machine(machine);
        result
    }
}

impl Modules for Inner {
    #[inline]
    fn module(&self, index: u32) -> ModuleView<'_> {
        self.modules[index as usize].view()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        for index in (0..self.modules.len()).rev() {
            // Errors are dropped: there is no caller to report them to.
            let _ = self.run_if_exported(index, "__deinit", &[]);
        }
        // States are dropped in reverse order too, after all deinitialisers.
        while self.modules.pop().is_some() {}
    }
}

impl Function {
    /// The module that exports it.
    pub fn module(&self) -> &Module {
        self.context.0.modules[self.module].module()
    }

    /// Its ordinal among the module's exports.
    pub fn ordinal(&self) -> usize {
        self.export
    }

    /// The name without the module's.
    pub fn name(&self) -> &str {
        &self.module().exports()[self.export].name
    }

    /// Its calling convention.
    pub fn convention(&self) -> &Convention {
        &self.module().exports()[self.export].convention
    }

    /// The context it belongs to.
    pub fn context(&self) -> &Context {
        &self.context
    }

    pub(crate) fn target(&self) -> Target {
        self.context.0.modules[self.module].target(self.module, self.export)
    }
}

impl std::fmt::Debug for Function {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}({})", self.module().name(), self.name(), self.convention())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Invocation;
    use std::path::Path;

    #[test]
    fn machines_return_to_the_pool_unless_large() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/vm/calls.vmfb");
        let file = rehal_base::MappedFile::open(&path).unwrap();
        let context = Context::new(&[Module::map(Arc::new(file)).unwrap()]).unwrap();
        let function = |name| context.function(&format!("calls.{name}")).unwrap();
        let kept = || context.0.machines.lock().len();
        let invocations: Vec<_> = (0..3).map(|_| Invocation::new(&function("test_every_kind"))).collect();
        drop(invocations);
        assert_eq!(kept(), 3);
        function("test_every_kind").call(&[]).unwrap();
        assert_eq!(kept(), 3);
        // Recurses up to the limit.
        assert!(function("fail_without_an_end").call(&[]).is_err());
        assert_eq!(kept(), 2);
    }
}
