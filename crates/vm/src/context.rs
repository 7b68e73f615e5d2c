use std::sync::Arc;

use parking_lot::Mutex;
use rehal_base::{Context as _, Error, Result};

use crate::invocation::Machine;
use crate::module::Kind;
use crate::{Convention, Invocation, Module, Signal, State, Value};

/// Modules that run together, each with the state that it has here.
///
/// Cheap to clone, and usable from any number of threads. Invocations of one context run side by side: each
/// single access to a global, a list or a buffer is indivisible where it is of at most 8 bytes, and nothing
/// else is ordered between invocations. A program that keeps state over calls and wants its calls one after
/// another gets that from its caller, who finishes one invocation before it starts the next.
#[derive(Clone)]
pub struct Context(Arc<Inner>);

struct Inner {
    instances: Vec<Instance>,
    /// Machines of ended invocations, for the next ones.
    machines: Mutex<Vec<Machine>>,
}

/// A module in a context.
pub(crate) struct Instance {
    pub(crate) module: Module,
    pub(crate) state: State,
}

/// A function of a context that can be called.
#[derive(Clone)]
pub struct Function {
    context: Context,
    instance: usize,
    export: usize,
}

impl Context {
    /// Loads `modules` in this order, each after those that it imports from, and runs their initialisers.
    pub fn new(modules: &[Module]) -> Result<Self> {
        let mut instances: Vec<Instance> = Vec::with_capacity(modules.len());
        for module in modules {
            if instances.iter().any(|instance| instance.module.name() == module.name()) {
                return Err(Error::invalid_argument(format!(
                    "two modules of the context have the name '{}'",
                    module.name()
                )));
            }
            let state = match module.kind() {
                Kind::Native(native) => {
                    native.new_state().context(|| format!("loading module '{}'", module.name()))?
                }
            };
            instances.push(Instance { module: module.clone(), state });
        }
        Ok(Self(Arc::new(Inner { instances, machines: Mutex::default() })))
    }

    /// The modules in order.
    pub fn modules(&self) -> impl ExactSizeIterator<Item = &Module> {
        self.0.instances.iter().map(|instance| &instance.module)
    }

    /// The exported function "module.name".
    pub fn function(&self, name: &str) -> Result<Function> {
        // Functions may have dots in their names, modules may not.
        let (module, function) = name
            .split_once('.')
            .ok_or_else(|| Error::invalid_argument(format!("'{name}' is not of the form module.function")))?;
        let instance = self.0.instances.iter().position(|instance| instance.module.name() == module);
        let Some(instance) = instance else {
            return Err(Error::not_found(format!("the context has no module '{module}' for '{name}'")));
        };
        let export = self.0.instances[instance]
            .module
            .export(function)
            .ok_or_else(|| Error::not_found(format!("module '{module}' exports no function '{function}'")))?;
        Ok(Function { context: self.clone(), instance, export })
    }

    /// The state that the native module `name` has here.
    pub fn native_state(&self, name: &str) -> Option<&State> {
        let instance = self.0.instances.iter().find(|instance| instance.module.name() == name)?;
        Some(&instance.state)
    }

    /// Tells every module, in the order that the signal has.
    pub fn notify(&self, signal: Signal) -> Result<()> {
        let notify = |instance: &Instance| match instance.module.kind() {
            Kind::Native(native) => native.notify(&instance.state, signal),
        };
        match signal {
            Signal::Resume | Signal::Fork => self.0.instances.iter().try_for_each(notify),
            Signal::Suspend | Signal::LowMemory => self.0.instances.iter().rev().try_for_each(notify),
        }
    }

    pub(crate) fn instance(&self, index: usize) -> &Instance {
        &self.0.instances[index]
    }

    pub(crate) fn take_machine(&self) -> Machine {
        self.0.machines.lock().pop().unwrap_or_default()
    }

    pub(crate) fn give_machine(&self, machine: Machine) {
        self.0.machines.lock().push(machine);
    }
}

impl Function {
    /// The module's name.
    pub fn module_name(&self) -> &str {
        self.context.instance(self.instance).module.name()
    }

    /// The name without the module's.
    pub fn name(&self) -> &str {
        &self.context.instance(self.instance).module.exports()[self.export].name
    }

    /// How it is called.
    pub fn convention(&self) -> &Convention {
        &self.context.instance(self.instance).module.exports()[self.export].convention
    }

    /// The context that it is of.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// Calls it and blocks the calling thread until it is done; gives its results.
    pub fn call(&self, arguments: &[Value]) -> Result<Vec<Value>> {
        self.call_with_spans(arguments, &[])
    }

    /// As [`Function::call`], where the convention has spans: `tuples` says for each how many tuples of
    /// `arguments`, which are flattened, it has.
    pub fn call_with_spans(&self, arguments: &[Value], tuples: &[usize]) -> Result<Vec<Value>> {
        let mut invocation = Invocation::new(self);
        invocation.start_with_spans(arguments.iter().cloned(), tuples)?.block(&mut invocation)?;
        Ok(invocation.take_results())
    }

    pub(crate) fn instance(&self) -> &Instance {
        self.context.instance(self.instance)
    }

    pub(crate) fn ordinal(&self) -> usize {
        self.export
    }
}

impl std::fmt::Debug for Function {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}({})", self.module_name(), self.name(), self.convention())
    }
}
