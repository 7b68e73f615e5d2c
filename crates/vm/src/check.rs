//! Programs that test: modules whose exports say by their names how they must end. And what every input must survive.
//!
//! Used by the tests of this crate, by the fuzz targets and by the comparison with the reference.

use parking_lot::Mutex;
use rehal_base::{Error, Result};

use crate::{Call, Context, Export, Flow, Invocation, Module, ModuleFile, NativeModule, Resumed, State};

/// How one export of a test module ended.
#[derive(Debug)]
pub struct Outcome {
    /// The export: `test_*` must succeed, `fail_*` must fail.
    pub name: String,
    /// How it ended.
    pub result: Result<()>,
}

impl Outcome {
    /// Whether it ended as its name says.
    pub fn is_expected(&self) -> bool {
        self.result.is_ok() != self.name.starts_with("fail_")
    }
}

/// Runs each export of `file` that is a test, in a context of its own, with the native module `yieldable_test` beside
/// it. Fails where the module cannot be loaded.
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

/// The native module that tests of yields import: its functions come back after so many yields.
pub struct YieldableTest;

/// What is left to do of the call that yielded last.
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

    /// Both give their sum plus the number of yields that was asked for.
    fn call(&self, state: &State, ordinal: usize, call: &mut Call<'_>) -> Result<Flow> {
        let Some(pending) = state.downcast_ref::<Mutex<Pending>>() else {
            return Err(Error::failed_precondition("the state is that of another module"));
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
