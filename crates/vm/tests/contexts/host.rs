use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use parking_lot::{Condvar, Mutex};
use rehal_base::{Error, MappedFile, StatusCode};
use rehal_vm::{
    Call, Context, Export, Flow, Module, NamedObject, NativeModule, Notification, Object, Ref, Result,
    Resumed, State, Value, Wait, WaitSource,
};

/// The native module `host` that the programs import, and its log for tests.
#[derive(Clone, Default)]
pub struct Host {
    /// Numbers that programs logged, in order.
    notes: Arc<Mutex<Vec<i32>>>,
    /// Live tokens.
    alive: Arc<AtomicUsize>,
    /// Live states of contexts.
    states: Arc<AtomicUsize>,
    /// The wait source of `host.wait`.
    event: Arc<Event>,
}

/// An object that counts its live instances.
pub struct Token {
    pub number: i32,
    alive: Arc<AtomicUsize>,
}

/// A one-shot event.
#[derive(Default)]
pub struct Event {
    has_happened: Mutex<bool>,
    changed: Condvar,
}

struct HostState(Arc<AtomicUsize>);

impl Host {
    /// A context with this module and the programs with these names in `fixtures/vm`.
    pub fn context(&self, programs: &[&str]) -> Result<Context> {
        Context::new(&self.modules(programs))
    }

    /// This module, followed by the programs with these names.
    pub fn modules(&self, programs: &[&str]) -> Vec<Module> {
        let mut modules = vec![Module::native(self.clone()).unwrap()];
        modules.extend(programs.iter().map(|name| program(name)));
        modules
    }

    pub fn notes(&self) -> Vec<i32> {
        self.notes.lock().clone()
    }

    /// Number of live tokens.
    pub fn alive(&self) -> usize {
        self.alive.load(Ordering::Acquire)
    }

    /// Number of contexts with a state of this module.
    pub fn states(&self) -> usize {
        self.states.load(Ordering::Acquire)
    }

    pub fn event(&self) -> &Event {
        &self.event
    }

    /// A new token to pass to a program.
    pub fn token(&self, number: i32) -> Value {
        self.alive.fetch_add(1, Ordering::AcqRel);
        Value::Ref(Ref::new(Token { number, alive: self.alive.clone() }))
    }
}

/// A program of `fixtures/vm`.
pub fn program(name: &str) -> Module {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../fixtures/vm/{name}.vmfb"));
    Module::map(Arc::new(MappedFile::open(&path).unwrap())).unwrap()
}

/// The number of the token that a value refers to, 0 for null.
pub fn number(value: &Value) -> i32 {
    let Value::Ref(object) = value else { panic!("{value:?} is not a reference") };
    object.optional::<Token>().unwrap().map_or(0, |token| token.number)
}

/// References to a token besides the call's own.
fn shares(object: &Ref) -> Result<i32> {
    Ok(Arc::strong_count(&object.share::<Token>()?) as i32 - 1)
}

const EXPORTS: &[Export] = &[
    Export::new("note", "0i_v"),
    Export::new("make", "0i_r"),
    Export::new("shares", "0r_i"),
    Export::new("same", "0rr_i"),
    Export::new("pick", "0rri_r"),
    Export::new("both", "0rr_rr"),
    Export::new("slowly", "0ri_r"),
    Export::new("wait", "0rr_r"),
    Export::new("fail", "0ri_v"),
    Export::new("wrong", "0r_r"),
    Export::new("sum", "0rCrD_i"),
    Export::new("slow_sum", "0CrirDr_i"),
];

impl NativeModule for Host {
    fn name(&self) -> &str {
        "host"
    }

    fn version(&self) -> u32 {
        0
    }

    fn exports(&self) -> &[Export] {
        EXPORTS
    }

    fn new_state(&self) -> Result<State> {
        self.states.fetch_add(1, Ordering::AcqRel);
        Ok(Box::new(HostState(self.states.clone())))
    }

    fn call(&self, _state: &State, ordinal: usize, call: &mut Call<'_>) -> Result<Flow> {
        match EXPORTS[ordinal].name {
            "note" => self.notes.lock().push(call.i32(0)?),
            "make" => call.push(self.token(call.i32(0)?)),
            "shares" => call.push(shares(call.reference(0)?)?),
            "same" => call.push(i32::from(call.reference(0)?.is_same(call.reference(1)?))),
            "pick" => call.push(call.reference(call.i32(2)? as usize)?.clone()),
            "both" => {
                for index in 0..2 {
                    call.push(call.reference(index)?.clone());
                }
            }
            "slowly" => {
                // Results pushed before a yield are discarded.
                call.push(call.reference(0)?.clone());
                if let Some(flow) = yields(call, 1)? {
                    return Ok(flow);
                }
            }
            "wait" => match call.resumed() {
                None => return Ok(Flow::Wait(Wait::new(self.event.clone(), None))),
                Some(Resumed::Ready) => call.push(call.reference(1)?.clone()),
                Some(other) => {
                    return Err(Error::failed_precondition(format!("unexpected outcome {other:?}")));
                }
            },
            "fail" => {
                if let Some(flow) = yields(call, 1)? {
                    return Ok(flow);
                }
                let number = call.object::<Token>(0)?.number;
                return Err(Error::new(StatusCode::DataLoss, format!("token {number} is refused")));
            }
            "wrong" => {
                call.push(call.reference(0)?.clone());
                call.push(call.reference(0)?.clone());
            }
            "sum" => {
                let mut sum = call.object::<Token>(0)?.number;
                for tuple in call.span(1)?.tuples() {
                    sum = sum * 10 + tuple.object::<Token>(0)?.number;
                }
                call.push(sum);
            }
            _ => {
                if call.resumed().is_none() {
                    return Ok(Flow::Yield);
                }
                let mut sum = call.object::<Token>(1)?.number;
                for tuple in call.span(0)?.tuples() {
                    for column in [0, 2] {
                        let token = tuple.optional::<Token>(column)?;
                        sum += tuple.i32(1)? * token.map_or(0, |token| token.number);
                    }
                }
                call.push(sum);
            }
        }
        Ok(Flow::Return)
    }
}

/// Yields on the first call if the argument at `index` is nonzero.
fn yields(call: &mut Call<'_>, index: usize) -> Result<Option<Flow>> {
    Ok(match call.resumed() {
        None if call.i32(index)? != 0 => Some(Flow::Yield),
        _ => None,
    })
}

impl Object for Token {
    fn type_name(&self) -> &'static str {
        Self::TYPE_NAME
    }
}

impl NamedObject for Token {
    const TYPE_NAME: &'static str = "host.token";
}

impl Drop for Token {
    fn drop(&mut self) {
        self.alive.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Drop for HostState {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Event {
    pub fn happen(&self) {
        *self.has_happened.lock() = true;
        self.changed.notify_all();
    }
}

impl WaitSource for Event {
    fn is_ready(&self) -> bool {
        *self.has_happened.lock()
    }

    fn block(&self, deadline: Option<Instant>) -> Result<bool> {
        let mut has_happened = self.has_happened.lock();
        while !*has_happened {
            match deadline {
                None => self.changed.wait(&mut has_happened),
                Some(deadline) if self.changed.wait_until(&mut has_happened, deadline).timed_out() => break,
                Some(_) => {}
            }
        }
        Ok(*has_happened)
    }

    fn notify(&self, wake: Box<dyn FnOnce() + Send>) -> Notification {
        wake();
        Notification::done()
    }
}
