//! Runs test programs: modules whose export names say whether they must succeed.
//!
//! Used by the tests of this crate and the differential tests against the reference.

use parking_lot::Mutex;
use rehal_base::{Error, Result};

use crate::{Call, Context, Export, Flow, Invocation, Module, ModuleFile, NativeModule, Resumed, State};

/// The outcome of one export of a test module.
#[derive(Debug)]
pub struct Outcome {
    /// The export: `test_*` must succeed, `fail_*` must fail.
    pub name: String,
    /// Its result.
    pub result: Result<()>,
}

impl Outcome {
    /// Whether the result is the one that the name requires.
    pub fn is_expected(&self) -> bool {
        self.result.is_ok() != self.name.starts_with("fail_")
    }
}

/// Runs each test export of `file` in a context of its own, together with the native module `yieldable_test`.
/// Fails if the module cannot be loaded.
pub fn run_tests(file: ModuleFile) -> Result<Vec<Outcome>> {
    let module = Module::bytecode(file)?;
    let names = module.exports().iter().map(|export| export.name.to_string());
    let tests = names.filter(|name| name.starts_with("test_") || name.starts_with("fail_"));
    tests.map(|name| Ok(Outcome { result: run_test(&module, &name), name })).collect()
}

fn run_test(module: &Module, name: &str) -> Result<()> {
    let context = Context::new(&[Module::native(YieldableTest)?, module.clone()])?;
    let function = context.function(&format!("{}.{name}", module.name()))?;
    Invocation::new(&function).call([])
}

/// The native module that yield tests import: its functions return after a given number of yields.
pub struct YieldableTest;

/// The state of the last call that yielded.
#[derive(Default)]
struct Pending {
    yields: i32,
}

impl NativeModule for YieldableTest {
    fn name(&self) -> &str {
        "yieldable_test"
    }

    fn version(&self) -> u32 {
        0
    }

    fn exports(&self) -> &[Export] {
        const { &[Export::new("yield_n", "0ii_i"), Export::new("yield_variadic_sum", "0CiDi_i")] }
    }

    fn new_state(&self) -> Result<State> {
        Ok(Box::new(Mutex::new(Pending::default())))
    }

    /// Both return their sum plus the requested number of yields.
    fn call(&self, state: &State, ordinal: usize, call: &mut Call<'_>) -> Result<Flow> {
        let Some(pending) = state.downcast_ref::<Mutex<Pending>>() else {
            return Err(Error::failed_precondition("the state belongs to another module"));
        };
        let count = call.i32(1)?;
        let mut pending = pending.lock();
        pending.yields = match call.resumed() {
            None => count,
            Some(Resumed::Ready) => pending.yields - 1,
            Some(Resumed::DeadlineExceeded) => {
                return Err(Error::failed_precondition("a yield has no deadline"));
            }
            Some(Resumed::Failed(error)) => return Err(error),
        };
        if pending.yields > 0 {
            return Ok(Flow::Yield);
        }
        let mut sum = count;
        if ordinal == 0 {
            sum = sum.wrapping_add(call.i32(0)?);
        } else {
            for tuple in call.span(0)?.tuples() {
                sum = sum.wrapping_add(tuple.i32(0)?);
            }
        }
        call.push(sum);
        Ok(Flow::Return)
    }
}
