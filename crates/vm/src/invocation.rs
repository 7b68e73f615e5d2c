use rehal_base::{Context as _, Error, Result};

use crate::convention::Argument;
use crate::module::Kind;
use crate::{Call, Convention, Flow, Function, Resumed, Value, Wait};

/// One call of a function from outside, which may stop in the middle and go on later, on any thread.
///
/// It can be started again when it is done; then nothing is allocated.
pub struct Invocation {
    function: Function,
    machine: Machine,
    state: InvocationState,
}

/// What came of running an invocation.
#[derive(Debug, Clone)]
#[must_use]
pub enum Step {
    /// It is done: [`Invocation::results`] has what it returned.
    Done,
    /// It let others run and wants to be resumed.
    Yielded,
    /// It wants to be resumed once this is ready.
    Waiting(Wait),
}

enum InvocationState {
    Idle,
    Yielded,
    Waiting(Wait),
}

/// What a run of a program needs, kept from one invocation to the next.
#[derive(Default)]
pub(crate) struct Machine {
    /// Arguments of the native function that is called, spans flattened.
    arguments: Vec<Value>,
    /// Where each of its arguments starts.
    starts: Vec<u32>,
    results: Vec<Value>,
}

impl Invocation {
    /// An invocation of `function` that is not started.
    pub fn new(function: &Function) -> Self {
        let machine = function.context().take_machine();
        Self { function: function.clone(), machine, state: InvocationState::Idle }
    }

    /// The function that it calls.
    pub fn function(&self) -> &Function {
        &self.function
    }

    /// Starts a call and runs it until it is done or has to stop. Fails when the arguments are not those of
    /// the function, when the one before is not done, and when the program fails.
    pub fn start(&mut self, arguments: impl IntoIterator<Item = Value>) -> Result<Step> {
        self.start_with_spans(arguments, &[])
    }

    /// As [`Invocation::start`], where the convention has spans: `tuples` says for each how many tuples of
    /// `arguments`, which are flattened, it has.
    pub fn start_with_spans(
        &mut self,
        arguments: impl IntoIterator<Item = Value>,
        tuples: &[usize],
    ) -> Result<Step> {
        if !matches!(self.state, InvocationState::Idle) {
            return Err(Error::failed_precondition(
                "the invocation is suspended and cannot be started again",
            ));
        }
        self.machine.results.clear();
        self.machine.arguments.clear();
        self.machine.arguments.extend(arguments);
        let convention = self.function.convention();
        check_arguments(convention, &self.machine.arguments, tuples, &mut self.machine.starts)
            .context(|| format!("calling {:?}", self.function))?;
        self.run(None)
    }

    /// Goes on after [`Step::Yielded`] or [`Step::Waiting`]. What is waited for and not ready is given again.
    pub fn resume(&mut self) -> Result<Step> {
        let resumed = match &self.state {
            InvocationState::Idle => {
                return Err(Error::failed_precondition("the invocation is not suspended"));
            }
            InvocationState::Yielded => Resumed::Ready,
            InvocationState::Waiting(wait) if !wait.is_ready() => return Ok(Step::Waiting(wait.clone())),
            InvocationState::Waiting(wait) => match wait.outcome() {
                Ok(true) => Resumed::Ready,
                Ok(false) => Resumed::DeadlineExceeded,
                Err(error) => Resumed::Failed(error),
            },
        };
        self.state = InvocationState::Idle;
        self.run(Some(resumed))
    }

    /// Calls the function and blocks the calling thread until it is done.
    pub fn call(&mut self, arguments: impl IntoIterator<Item = Value>) -> Result<()> {
        self.start(arguments)?.block(self)
    }

    /// What the function returned; empty until it is done.
    pub fn results(&self) -> &[Value] {
        if matches!(self.state, InvocationState::Idle) { &self.machine.results } else { &[] }
    }

    /// Moves out what the function returned.
    pub fn take_results(&mut self) -> Vec<Value> {
        if matches!(self.state, InvocationState::Idle) {
            std::mem::take(&mut self.machine.results)
        } else {
            Vec::new()
        }
    }

    fn run(&mut self, resumed: Option<Resumed>) -> Result<Step> {
        let instance = self.function.instance();
        let ordinal = self.function.ordinal();
        let export = &instance.module.exports()[ordinal];
        let Machine { arguments, starts, results } = &mut self.machine;
        let starts =
            if export.convention.is_variadic() { &**starts } else { export.convention.fixed_starts() };
        let mut call = Call::new(&export.convention, arguments, starts, results, resumed);
        let flow = match instance.module.kind() {
            Kind::Native(native) => native.call(&instance.state, ordinal, &mut call),
        };
        let flow = flow.context(|| format!("native function {:?}", self.function));
        match flow {
            Ok(Flow::Return) => {
                self.machine.arguments.clear();
                check_results(&export.convention, &self.machine.results)
                    .context(|| format!("{:?}", self.function))?;
                Ok(Step::Done)
            }
            Ok(Flow::Yield) => {
                self.state = InvocationState::Yielded;
                Ok(Step::Yielded)
            }
            Ok(Flow::Wait(wait)) => {
                self.state = InvocationState::Waiting(wait.clone());
                Ok(Step::Waiting(wait))
            }
            Err(error) => {
                self.machine.arguments.clear();
                self.machine.results.clear();
                Err(error)
            }
        }
    }
}

impl Drop for Invocation {
    fn drop(&mut self) {
        let mut machine = std::mem::take(&mut self.machine);
        machine.arguments.clear();
        machine.results.clear();
        self.function.context().give_machine(machine);
    }
}

impl Step {
    /// Waits and resumes `invocation`, whose step this is, until it is done.
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

/// Checks that `values` are what the convention takes, and finds where each argument starts.
fn check_arguments(
    convention: &Convention,
    values: &[Value],
    tuples: &[usize],
    starts: &mut Vec<u32>,
) -> Result<()> {
    starts.clear();
    starts.push(0);
    let mut rest = values;
    let mut tuples = tuples.iter();
    let mut check = |kinds: &[crate::ValueKind], index: usize| -> Result<()> {
        for kind in kinds {
            let Some((value, others)) = rest.split_first() else {
                return Err(Error::invalid_argument(format!("argument {index} is missing")));
            };
            if value.kind() != Some(*kind) {
                return Err(Error::invalid_argument(format!(
                    "argument {index} is a {}, not a {}",
                    value.type_name(),
                    kind.name()
                )));
            }
            rest = others;
        }
        Ok(())
    };
    let mut end = 0;
    for (index, argument) in convention.arguments().iter().enumerate() {
        match argument {
            Argument::One(kind) => {
                check(&[*kind], index)?;
                end += 1;
            }
            Argument::Span(kinds) => {
                let count = *tuples.next().ok_or_else(|| {
                    Error::invalid_argument(format!("argument {index} is a span, and its count is missing"))
                })?;
                for _ in 0..count {
                    check(kinds, index)?;
                    end += kinds.len();
                }
            }
        }
        starts.push(end as u32);
    }
    if !rest.is_empty() || tuples.next().is_some() {
        return Err(Error::invalid_argument(format!(
            "there are {} values for the {} arguments",
            values.len(),
            convention.arguments().len()
        )));
    }
    Ok(())
}

/// Checks that `results` are what the convention returns.
fn check_results(convention: &Convention, results: &[Value]) -> Result<()> {
    let kinds = convention.results();
    if results.len() == kinds.len()
        && results.iter().zip(kinds).all(|(value, kind)| value.kind() == Some(*kind))
    {
        return Ok(());
    }
    Err(Error::new(
        rehal_base::StatusCode::Internal,
        format!("the native function returned {results:?}, which its convention {convention} does not say"),
    ))
}
