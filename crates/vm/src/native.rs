use std::any::Any;

use rehal_base::Result;

use crate::{Call, Flow};

/// A native module: functions in Rust that programs import.
///
/// One module serves any number of contexts from any thread; each context has its own state. A method never
/// blocks on a device: it returns [`Flow::Wait`] and is called again (see [`Call::resumed`]).
///
/// ```
/// use rehal_vm::{Call, Context, Export, Flow, Module, NativeModule, Result, State, Value};
///
/// struct Math;
///
/// impl NativeModule for Math {
///     fn name(&self) -> &str {
///         "math"
///     }
///     fn version(&self) -> u32 {
///         0
///     }
///     fn exports(&self) -> &[Export] {
///         const { &[Export::new("add", "0ii_i"), Export::new("sum", "0CID_I")] }
///     }
///     fn new_state(&self) -> Result<State> {
///         Ok(Box::new(()))
///     }
///     fn call(&self, _state: &State, ordinal: usize, call: &mut Call<'_>) -> Result<Flow> {
///         match ordinal {
///             0 => call.push(call.i32(0)?.wrapping_add(call.i32(1)?)),
///             _ => {
///                 let mut sum = 0_i64;
///                 for tuple in call.span(0)?.tuples() {
///                     sum = sum.wrapping_add(tuple.i64(0)?);
///                 }
///                 call.push(sum);
///             }
///         }
///         Ok(Flow::Return)
///     }
/// }
///
/// let context = Context::new(&[Module::native(Math)?])?;
/// let results = context.function("math.add")?.call(&[Value::I32(2), Value::I32(3)])?;
/// assert!(matches!(results[..], [Value::I32(5)]));
/// # Ok::<(), rehal_base::Error>(())
/// ```
pub trait NativeModule: Send + Sync + 'static {
    /// The name that programs import it by ("hal").
    fn name(&self) -> &str;

    /// Its version; a program names the minimum it needs.
    fn version(&self) -> u32;

    /// The functions, in order of their ordinals.
    fn exports(&self) -> &[Export];

    /// The module's state in one context. Created before the first call of a function of the context, and
    /// dropped after the last.
    fn new_state(&self) -> Result<State>;

    /// Runs the function at `ordinal` of [`NativeModule::exports`].
    ///
    /// The arguments match the function's convention; results are pushed in order and checked against it. An
    /// error ends the invocation.
    fn call(&self, state: &State, ordinal: usize, call: &mut Call<'_>) -> Result<Flow>;

    /// Handles a signal of the host: suspend, resume, low memory, or fork.
    fn notify(&self, _state: &State, _signal: Signal) -> Result<()> {
        Ok(())
    }
}

/// The state of a native module in a context: `state.downcast_ref::<T>()` recovers its type.
pub type State = Box<dyn Any + Send + Sync>;

/// A function of a native module.
#[derive(Debug, Clone, Copy)]
pub struct Export {
    /// The name without the module's.
    pub name: &'static str,
    /// The text of its [`Convention`](crate::Convention).
    pub convention: &'static str,
}

impl Export {
    /// A function `name` with this calling convention.
    pub const fn new(name: &'static str, convention: &'static str) -> Self {
        Self { name, convention }
    }
}

/// Signals from the host to modules; values as in `iree_vm_signal_t`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// The program resumes; modules may allocate again. In order of registration.
    Resume = 0,
    /// The host suspends; modules free what they can recreate. In reverse order.
    Suspend = 1,
    /// Memory is low; modules free whatever they can, even if it is expensive to recreate. In reverse order.
    LowMemory = 2,
    /// The program was forked. In order of registration.
    Fork = 3,
}
