use rehal_base::{Error, Result};

use crate::interpret::{Machine, Outcome};
use crate::{Function, Resumed, Value, Wait};

/// A call of a function from the host, which may be suspended and resumed later on any thread.
///
/// It can be restarted once done, without allocating.
pub struct Invocation {
    function: Function,
    machine: Machine,
    state: InvocationState,
    /// Start of each argument; kept as scratch to avoid an allocation per call.
    starts: Vec<u32>,
    arguments: Vec<Value>,
}

/// How a run of an invocation ended.
#[derive(Debug, Clone)]
#[must_use]
pub enum Step {
    /// It returned: [`Invocation::results`] has its results.
    Done,
    /// It yielded and can be resumed.
    Yielded,
    /// It waits: resume it once this is ready.
    Waiting(Wait),
}

enum InvocationState {
    Idle,
    Yielded,
    Waiting(Wait),
}

impl Invocation {
    /// An invocation of `function` that has not been started.
    pub fn new(function: &Function) -> Self {
        let machine = function.context().take_machine();
        Self {
            function: function.clone(),
            machine,
            state: InvocationState::Idle,
            starts: Vec::new(),
            arguments: Vec::new(),
        }
    }

    /// The function it calls.
    pub fn function(&self) -> &Function {
        &self.function
    }

    /// Starts a call and runs it until it returns or is suspended. Fails if the arguments do not match the
    /// signature, if the previous call is not done, or if the program fails.
    pub fn start(&mut self, arguments: impl IntoIterator<Item = Value>) -> Result<Step> {
        self.start_with_spans(arguments, &[])
    }

    /// Like [`Invocation::start`], for conventions with spans: `tuples` has the tuple count of each span;
    /// `arguments` is flattened.
    pub fn start_with_spans(
        &mut self,
        arguments: impl IntoIterator<Item = Value>,
        tuples: &[usize],
    ) -> Result<Step> {
        self.check_idle()?;
        self.arguments.clear();
        // Inlined, which `extend` is not. Most lists are short.
        for argument in arguments {
            self.arguments.push(argument);
        }
        let convention = self.function.convention();
        if let Err(error) = convention.check_arguments(&self.arguments, tuples, &mut self.starts) {
            self.arguments.clear();
            return Err(error.context(format!("calling {:?}", self.function)));
        }
        let modules = self.function.context().inner();
        let target = self.function.target();
        let starts = self.starts.iter().copied();
        let outcome = self.machine.begin(modules, target, self.arguments.drain(..), starts);
        self.step(outcome)
    }

    /// Like [`Invocation::start`], but clones the arguments directly into registers, for repeated calls.
    pub fn start_from(&mut self, arguments: &[Value]) -> Result<Step> {
        self.check_idle()?;
        let modules = self.function.context().inner();
        match self.machine.begin_from(modules, self.function.target(), arguments) {
            Some(outcome) => self.step(outcome),
            // A native function, a span, or a mismatch, which `start` reports.
            None => self.start(arguments.iter().cloned()),
        }
    }

    fn check_idle(&self) -> Result<()> {
        match self.state {
            InvocationState::Idle => Ok(()),
            _ => Err(Error::failed_precondition("cannot start: the invocation is suspended")),
        }
    }

    /// Resumes it after [`Step::Yielded`] or [`Step::Waiting`]. A wait that is not ready is returned again.
    pub fn resume(&mut self) -> Result<Step> {
        let resumed = match &self.state {
            InvocationState::Idle => {
                return Err(Error::failed_precondition("cannot resume: the invocation is not suspended"));
            }
            InvocationState::Yielded => Resumed::Ready,
            InvocationState::Waiting(wait) if !wait.is_ready() => return Ok(Step::Waiting(wait.clone())),
            InvocationState::Waiting(wait) => Resumed::after(wait),
        };
        let outcome = self.machine.resume(self.function.context().inner(), resumed);
        self.step(outcome)
    }

    /// Calls the function and blocks the calling thread until it returns.
    pub fn call(&mut self, arguments: impl IntoIterator<Item = Value>) -> Result<()> {
        self.start(arguments)?.block(self)
    }

    /// The results of the function; empty until it returns.
    pub fn results(&self) -> &[Value] {
        if matches!(self.state, InvocationState::Idle) { &self.machine.results } else { &[] }
    }

    /// Moves the results of the function out.
    pub fn take_results(&mut self) -> Vec<Value> {
        if matches!(self.state, InvocationState::Idle) {
            std::mem::take(&mut self.machine.results)
        } else {
            Vec::new()
        }
    }

    fn step(&mut self, outcome: Result<Outcome>) -> Result<Step> {
        self.state = InvocationState::Idle;
        Ok(match outcome? {
            Outcome::Done => Step::Done,
            Outcome::Yielded => {
                self.state = InvocationState::Yielded;
                Step::Yielded
            }
            Outcome::Waiting(wait) => {
                self.state = InvocationState::Waiting(wait.clone());
                Step::Waiting(wait)
            }
        })
    }
}

impl Function {
    /// Calls it and blocks the calling thread until it returns; returns the results.
    pub fn call(&self, arguments: &[Value]) -> Result<Vec<Value>> {
        self.call_with_spans(arguments, &[])
    }

    /// Like [`Function::call`], for conventions with spans: `tuples` has the tuple count of each span;
    /// `arguments` is flattened.
    pub fn call_with_spans(&self, arguments: &[Value], tuples: &[usize]) -> Result<Vec<Value>> {
        let mut invocation = Invocation::new(self);
        invocation.start_with_spans(arguments.iter().cloned(), tuples)?.block(&mut invocation)?;
        Ok(invocation.take_results())
    }
}

impl Drop for Invocation {
    fn drop(&mut self) {
        let mut machine = std::mem::take(&mut self.machine);
        machine.reset();
        machine.results.clear();
        self.function.context().give_machine(machine);
    }
}

impl Step {
    /// Waits and resumes `invocation`, which returned this step, until it is done.
    pub fn block(mut self, invocation: &mut Invocation) -> Result<()> {
        loop {
            match self {
                Self::Done => return Ok(()),
                Self::Yielded => {}
                Self::Waiting(wait) => wait.block(),
            }
            self = invocation.resume()?;
        }
    }
}
