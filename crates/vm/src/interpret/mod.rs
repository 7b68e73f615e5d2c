//! The interpreter: frames, calls, and the dispatch loop over a frame's instructions.

mod activation;
mod buffers;
mod dispatch;
pub(crate) mod elements;
mod globals;
mod lists;
mod native;
mod out_of_line;
pub(crate) mod refs;
mod stack;

use rehal_base::{Error, Result};

use crate::budget::{Budget, Meter, Unlimited};
use crate::code::{Callee, Code, Site};
use crate::program::Program;
use crate::registers::{Number, REF_MASK, WINDOW_BYTES, Window, put, take};
use crate::trace::{TraceSink, Traced};
use crate::verify::argument_registers;
use crate::{Module, NativeModule, Ref, Resumed, State, Value, ValueKind, Wait};

use activation::{Environment, broken};
pub(crate) use activation::{Instance, Target};
use dispatch::Exit;

/// Depth limit of the call stack.
const FRAME_LIMIT: usize = 1 << 16;
/// Limit on the 32-bit registers of all frames of an invocation.
const WORD_LIMIT: usize = 1 << 22;
/// Limit on the reference registers of all frames of an invocation.
const REF_LIMIT: usize = 1 << 20;
/// High-water mark in bytes of registers and frames above which a machine is freed instead of pooled.
const KEPT_BYTES: usize = 1 << 20;

/// A context as the interpreter sees it.
pub(crate) trait Modules {
    /// The module that [`Target::module`] indexes.
    fn module(&self, index: u32) -> ModuleView<'_>;
}

/// A module of a context, as the interpreter executes it.
#[derive(Clone, Copy)]
pub(crate) enum ModuleView<'a> {
    Native { module: &'a Module, native: &'a dyn NativeModule, state: &'a State },
    Bytecode { program: &'a Program, instance: &'a Instance },
}

/// How a run ended.
pub(crate) enum Outcome {
    /// Returned: the results are in the machine.
    Done,
    Yielded,
    Waiting(Wait),
}

/// The state of one invocation: register file and call stack, pooled so that invocations do not allocate.
#[derive(Default)]
pub(crate) struct Machine {
    /// The register file: the registers of all frames, followed by a window's worth of padding.
    words: Vec<u8>,
    /// The reference registers of all frames; null beyond the last.
    refs: Vec<Ref>,
    /// The innermost frame, if a bytecode function has been called.
    frame: Option<Frame>,
    /// The frames of its callers, outermost first.
    callers: Vec<Caller>,
    /// The native function that is about to be called or resumed, or that failed.
    pending: Option<Pending>,
    /// Arguments of a native function called from the host, spans flattened.
    arguments: Vec<Value>,
    /// Start index of each of these arguments, if the function takes spans.
    starts: Vec<u32>,
    /// The results of the function called from the host.
    pub(crate) results: Vec<Value>,
    /// The budget of each invocation, if limited.
    budget: Option<Budget>,
    /// The remaining budget of the current invocation.
    left: Option<Budget>,
    /// Receives the trace of executed instructions.
    trace: Option<TraceSink>,
}

/// The frame of a bytecode function.
#[derive(Debug, Clone, Copy)]
struct Frame {
    target: Target,
    /// The next instruction.
    pc: u32,
    /// The call site of the native function that it waits for, if any.
    site: u32,
    /// The base of its registers in the register file.
    words: u32,
    refs: u32,
}

/// The frame of a caller; the registers of its callee follow its own.
///
/// Two 64-bit fields rather than four: they are stored and soon loaded at the same width, which store-to-load
/// forwarding needs.
#[derive(Debug, Clone, Copy)]
struct Caller {
    /// Module in the upper half, ordinal in the lower.
    target: u64,
    /// Next instruction in the upper half, call site in the lower.
    at: u64,
}

impl Caller {
    #[inline(always)]
    fn new(target: Target, pc: u32, site: u32) -> Self {
        let pair = |high: u32, low: u32| u64::from(high) << 32 | u64::from(low);
        Self { target: pair(target.module, target.ordinal), at: pair(pc, site) }
    }

    #[inline(always)]
    fn target(&self) -> Target {
        Target { module: (self.target >> 32) as u32, ordinal: self.target as u32 }
    }

    #[inline(always)]
    fn pc(&self) -> u32 {
        (self.at >> 32) as u32
    }

    #[inline(always)]
    fn site(&self) -> u32 {
        self.at as u32
    }
}

/// A native function that was called and has not returned.
#[derive(Debug, Clone, Copy)]
struct Pending {
    target: Target,
}

/// A native function of a context.
struct NativeFunction<'a> {
    module: &'a Module,
    native: &'a dyn NativeModule,
    state: &'a State,
    target: Target,
}

/// The outcome of a call of an import.
enum Called {
    /// Returned.
    Done,
    /// A bytecode function of another module, whose frame is now the innermost.
    Elsewhere,
    /// Suspended before it returned.
    Stopped(Outcome),
}

impl Machine {
    /// An idle machine with a budget for each invocation.
    pub(crate) fn new(budget: Option<Budget>, trace: Option<TraceSink>) -> Self {
        Self { budget, trace, ..Self::default() }
    }

    /// Starts a call of `target` with `arguments`, checked and flattened; `starts` has the start
    /// index of each.
    pub(crate) fn begin<M: Modules>(
        &mut self,
        modules: &M,
        target: Target,
        arguments: impl IntoIterator<Item = Value>,
        starts: impl IntoIterator<Item = u32>,
    ) -> Result<Outcome> {
        self.reset();
        self.results.clear();
        self.left = self.budget;
        match modules.module(target.module) {
            ModuleView::Native { .. } => {
                self.arguments.extend(arguments);
                self.starts.extend(starts);
                self.pending = Some(Pending { target });
            }
            ModuleView::Bytecode { program, instance } => {
                let code = &instance.codes[target.ordinal as usize];
                self.make_room(code, 0, 0)?;
                self.frame = Some(Frame { target, pc: 0, site: 0, words: 0, refs: 0 });
                let window = window_at(&mut self.words, 0)?;
                let convention = &program.tables.functions[target.ordinal as usize].convention;
                let places = argument_registers(convention);
                for ((_, register), value) in places.zip(arguments) {
                    place(window, &mut self.refs, register, value);
                }
            }
        }
        self.run(modules, None)
    }

    /// As [`Machine::begin`], with arguments that are not checked yet, for bytecode without spans; `None` if
    /// they do not match, before anything runs. References that the function does not use are not passed.
    /// Numbers are copied into the registers one by one: a copied [`Value`] would be stored in two parts and
    /// loaded as a whole, without store-to-load forwarding.
    #[inline]
    pub(crate) fn begin_from<M: Modules>(
        &mut self,
        modules: &M,
        target: Target,
        arguments: &[Value],
    ) -> Option<Result<Outcome>> {
        let ModuleView::Bytecode { program, instance } = modules.module(target.module) else { return None };
        let code = &instance.codes[target.ordinal as usize];
        let convention = &program.tables.functions[target.ordinal as usize].convention;
        if convention.is_variadic() || convention.arguments().len() != arguments.len() {
            return None;
        }
        self.reset();
        self.results.clear();
        self.left = self.budget;
        if let Err(error) = self.make_room(code, 0, 0) {
            return Some(Err(error));
        }
        let window = match window_at(&mut self.words, 0) {
            Ok(window) => window,
            Err(error) => return Some(Err(error)),
        };
        self.frame = Some(Frame { target, pc: 0, site: 0, words: 0, refs: 0 });
        let mut placed = argument_registers(convention).zip(arguments);
        let is_match = placed.all(|((kind, register), value)| {
            match (kind, value) {
                (ValueKind::I32, Value::I32(value)) => value.put(window, register),
                (ValueKind::I64, Value::I64(value)) => value.put(window, register),
                (ValueKind::F32, Value::F32(value)) => value.put(window, register),
                (ValueKind::F64, Value::F64(value)) => value.put(window, register),
                (ValueKind::Ref, Value::Ref(object)) if !code.is_unused(register) => {
                    if let Some(slot) = self.refs.get_mut(usize::from(register)) {
                        object.clone_to(slot);
                    }
                }
                (ValueKind::Ref, Value::Ref(_)) => {}
                _ => return false,
            }
            true
        });
        if !is_match {
            self.reset();
            return None;
        }
        Some(self.run(modules, None))
    }

    /// Resumes after a yield or a wait.
    pub(crate) fn resume<M: Modules>(&mut self, modules: &M, resumed: Resumed) -> Result<Outcome> {
        self.run(modules, Some(resumed))
    }

    /// Blocks on waits and resumes until the call, which is at `outcome`, is done.
    pub(crate) fn block<M: Modules>(&mut self, modules: &M, mut outcome: Result<Outcome>) -> Result<()> {
        loop {
            let resumed = match outcome? {
                Outcome::Done => return Ok(()),
                Outcome::Yielded => Resumed::Ready,
                Outcome::Waiting(wait) => {
                    wait.block();
                    Resumed::after(&wait)
                }
            };
            outcome = self.resume(modules, resumed);
        }
    }

    /// Unwinds the call stack and releases all references.
    pub(crate) fn reset(&mut self) {
        if let Some(frame) = self.frame.take() {
            // References beyond the last frame are null already.
            let end = (frame.refs as usize + usize::from(REF_MASK) + 1).min(self.refs.len());
            self.refs[..end].fill(Ref::NULL);
        }
        self.callers.clear();
        self.pending = None;
        self.arguments.clear();
        self.starts.clear();
    }

    /// Whether its registers and frames exceed [`KEPT_BYTES`], as after a deep recursion.
    pub(crate) fn is_large(&self) -> bool {
        let callers = self.callers.capacity() * size_of::<Caller>();
        self.words.capacity() + self.refs.capacity() * size_of::<Ref>() + callers > KEPT_BYTES
    }

    fn run<M: Modules>(&mut self, modules: &M, resumed: Option<Resumed>) -> Result<Outcome> {
        let _begun = rehal_crash::Bytecode::change();
        match self.advance(modules, resumed) {
            Ok(Outcome::Done) => Ok(Outcome::Done),
            Ok(stopped) => Ok(stopped),
            Err(error) => Err(self.fail(modules, error)),
        }
    }

    /// Unwinds the call stack after an error and adds it to the error's context.
    #[cold]
    fn fail<M: Modules>(&mut self, modules: &M, error: Error) -> Error {
        let error = self.with_stack(modules, error);
        self.reset();
        self.results.clear();
        error
    }

    /// Runs until it returns or stops. `Done` is matched by itself, here and in [`Machine::run`]: it has no
    /// payload, which the path of a short call would otherwise copy at another width than it was stored,
    /// without store-to-load forwarding.
    fn advance<M: Modules>(&mut self, modules: &M, mut resumed: Option<Resumed>) -> Result<Outcome> {
        if let Some(pending) = self.pending
            && let Some(outcome) = self.call_pending(modules, pending.target, resumed.take())?
        {
            return Ok(outcome);
        }
        loop {
            if self.frame.is_none() {
                return Ok(Outcome::Done);
            }
            let outcome = match (self.trace.clone(), self.left) {
                (None, None) => self.execute(modules, &mut Unlimited),
                (None, Some(mut left)) => {
                    let outcome = self.execute(modules, &mut left);
                    self.left = Some(left);
                    outcome
                }
                (Some(sink), mut left) => {
                    let outcome = self.execute(modules, &mut Traced { sink: &sink, left: &mut left });
                    self.left = left;
                    outcome
                }
            };
            match outcome {
                Ok(None) => {}
                Ok(Some(Outcome::Done)) => return Ok(Outcome::Done),
                Ok(Some(stopped)) => return Ok(stopped),
                Err(error) => return Err(error),
            }
        }
    }

    /// Executes the innermost frame and its callees in the same module until the invocation ends or is
    /// suspended; `None` if the innermost frame now belongs to another module.
    fn execute<M: Modules, T: Meter>(&mut self, modules: &M, meter: &mut T) -> Result<Option<Outcome>> {
        let Some(Frame { target, mut pc, mut words, mut refs, .. }) = self.frame else {
            return Ok(Some(Outcome::Done));
        };
        let Target { module, mut ordinal } = target;
        let ModuleView::Bytecode { program, instance } = modules.module(module) else {
            return Err(broken("a frame of a native module"));
        };
        let codes = &*instance.codes;
        let mut code = &codes[ordinal as usize];
        let mut waits_at = 0;
        let outcome = loop {
            let window = window_at(&mut self.words, words)?;
            let registers = self.refs.get_mut(refs as usize..).unwrap_or_default();
            match dispatch::run(Environment { code, program, instance }, window, registers, &mut pc, meter) {
                Ok(Exit::Call(index)) => {
                    let site = &code.sites[index as usize];
                    let callee_ordinal = match site.callee {
                        Callee::Function(ordinal) => ordinal,
                        Callee::Import(import) => {
                            let frame =
                                Frame { target: Target { module, ordinal }, pc, site: index, words, refs };
                            match self.call_import(modules, (program, instance), import, frame, meter) {
                                Ok(Called::Done) => continue,
                                Ok(Called::Elsewhere) => return Ok(None),
                                Ok(Called::Stopped(outcome)) => {
                                    waits_at = index;
                                    break Ok(outcome);
                                }
                                Err(error) => break Err(error),
                            }
                        }
                    };
                    let callee = &codes[callee_ordinal as usize];
                    if T::LIMITED
                        && let Err(error) = meter.take_bytes(frame_bytes(callee))
                    {
                        break Err(error);
                    }
                    if let Err(error) = self.enter(words, refs, code, site, callee) {
                        break Err(error);
                    }
                    self.callers.push(Caller::new(Target { module, ordinal }, pc, index));
                    words += u32::from(code.words);
                    refs += u32::from(code.refs);
                    (ordinal, code, pc) = (callee_ordinal, callee, 0);
                }
                Ok(Exit::Return(values)) => {
                    let values = &code.registers[values.start as usize..][..values.length as usize];
                    let Some(caller) = self.callers.last() else {
                        self.frame = None;
                        self.leave_outside(program, ordinal, code, values)?;
                        return Ok(Some(Outcome::Done));
                    };
                    let target = caller.target();
                    let (caller_pc, caller_site) = (caller.pc(), caller.site());
                    self.callers.truncate(self.callers.len() - 1);
                    if target.module != module {
                        let frame = Frame { target, pc: caller_pc, site: caller_site, words, refs };
                        self.leave_module(modules, frame, code, values)?;
                        return Ok(None);
                    }
                    let caller = &codes[target.ordinal as usize];
                    words -= u32::from(caller.words);
                    refs -= u32::from(caller.refs);
                    self.leave(words, refs, caller, caller_site, code, values)?;
                    (ordinal, code, pc) = (target.ordinal, caller, caller_pc);
                }
                Ok(Exit::Yield) => break Ok(Outcome::Yielded),
                Err(error) => break Err(error),
            }
        };
        self.frame = Some(Frame { target: Target { module, ordinal }, pc, site: waits_at, words, refs });
        outcome.map(Some)
    }

    /// Calls the import that the call site of `frame` names: executes a native function, pushes a frame for
    /// bytecode.
    #[inline]
    fn call_import<M: Modules, T: Meter>(
        &mut self,
        modules: &M,
        (program, instance): (&Program, &Instance),
        import: u32,
        frame: Frame,
        meter: &mut T,
    ) -> Result<Called> {
        let target = instance.imports[import as usize].ok_or_else(|| no_import(program, import))?;
        let code = &instance.codes[frame.target.ordinal as usize];
        let site = &code.sites[frame.site as usize];
        match modules.module(target.module) {
            ModuleView::Native { module, native, state } => {
                self.call_native(NativeFunction { module, native, state, target }, frame, site)
            }
            ModuleView::Bytecode { instance, .. } => {
                let callee = &instance.codes[target.ordinal as usize];
                if T::LIMITED {
                    meter.take_bytes(frame_bytes(callee))?;
                }
                self.enter(frame.words, frame.refs, code, site, callee)?;
                self.callers.push(Caller::new(frame.target, frame.pc, frame.site));
                let words = frame.words + u32::from(code.words);
                let refs = frame.refs + u32::from(code.refs);
                self.frame = Some(Frame { target, pc: 0, site: 0, words, refs });
                Ok(Called::Elsewhere)
            }
        }
    }

    /// Allocates the registers of a frame for `callee` after those of its caller, whose registers start at
    /// `words` and `refs`, and passes its arguments.
    #[inline(always)]
    fn enter(&mut self, words: u32, refs: u32, code: &Code, site: &Site, callee: &Code) -> Result<()> {
        self.make_room(callee, words + u32::from(code.words), refs + u32::from(code.refs))?;
        // The callee's registers follow the caller's, in the same window.
        let window = window_at(&mut self.words, words)?;
        for argument in &site.arguments {
            let target = code.words.wrapping_add(argument.target);
            match argument.kind {
                ValueKind::I32 | ValueKind::F32 => u32::get(window, argument.source).put(window, target),
                ValueKind::I64 | ValueKind::F64 => u64::get(window, argument.source).put(window, target),
                ValueKind::Ref => {
                    let all_refs = self.refs.get_mut(refs as usize..).unwrap_or_default();
                    let object = take(all_refs, argument.source);
                    if let Some(slot) =
                        all_refs.get_mut(usize::from(code.refs) + usize::from(argument.target))
                    {
                        *slot = object;
                    }
                }
            }
        }
        Ok(())
    }

    /// Allocates zeroed registers for `code` from `words` and `refs` on.
    #[inline(always)]
    fn make_room(&mut self, code: &Code, words: u32, refs: u32) -> Result<()> {
        let words_end = words as usize + usize::from(code.words);
        let refs_end = refs as usize + usize::from(code.refs);
        if self.callers.len() >= FRAME_LIMIT || words_end > WORD_LIMIT || refs_end > REF_LIMIT {
            return Err(self.exhausted());
        }
        if words as usize * 4 + WINDOW_BYTES > self.words.len() || refs_end > self.refs.len() {
            self.grow(words, refs_end);
        }
        let window = window_at(&mut self.words, words)?;
        // Clearing a cache line is faster than clearing the exact size; the bytes beyond the frame are
        // unused.
        window[..64].fill(0);
        if code.words > 32 {
            window[64..usize::from(code.words) * 4].fill(0);
        } else if code.words > 16 {
            window[64..128].fill(0);
        }
        Ok(())
    }

    /// Grows the register file to hold a window at `words`, and the reference registers.
    #[cold]
    fn grow(&mut self, words: u32, refs_end: usize) {
        if refs_end > self.refs.len() {
            self.refs.resize((refs_end * 2).max(16), Ref::NULL);
        }
        let used = words as usize * 4;
        // Reserves capacity for many frames: the system zeroes fresh pages on first touch, so only frames
        // that are reached cost memory.
        let mut grown = vec![0; (used * 2 + WINDOW_BYTES).next_power_of_two()];
        if let (Some(target), Some(source)) = (grown.get_mut(..used), self.words.get(..used)) {
            target.copy_from_slice(source);
        }
        self.words = grown;
    }

    #[cold]
    fn exhausted(&self) -> Error {
        Error::resource_exhausted(format!("call stack overflow: {} frames", self.callers.len() + 1))
    }

    /// Passes the results of the function `code` to its caller, whose registers start at `words` and `refs`,
    /// and releases the references in its registers.
    #[inline(always)]
    fn leave(
        &mut self,
        words: u32,
        refs: u32,
        caller: &Code,
        site: u32,
        code: &Code,
        values: &[u16],
    ) -> Result<()> {
        let window = window_at(&mut self.words, words)?;
        let all_refs = self.refs.get_mut(refs as usize..).unwrap_or_default();
        for ((kind, target), source) in caller.sites[site as usize].results.iter().zip(values) {
            let above = caller.words.wrapping_add(*source);
            match kind {
                ValueKind::I32 | ValueKind::F32 => u32::get(window, above).put(window, *target),
                ValueKind::I64 | ValueKind::F64 => u64::get(window, above).put(window, *target),
                ValueKind::Ref => {
                    let object = take(all_refs.get_mut(caller.refs.into()..).unwrap_or_default(), *source);
                    put(all_refs, *target, object);
                }
            }
        }
        if code.refs != 0 {
            release(all_refs.get_mut(caller.refs.into()..).unwrap_or_default(), code);
        }
        Ok(())
    }

    /// As [`Machine::leave`], to a caller in another module: `frame` is the caller's but for its registers,
    /// which are those of the function that returns.
    #[cold]
    fn leave_module<M: Modules>(
        &mut self,
        modules: &M,
        mut frame: Frame,
        code: &Code,
        values: &[u16],
    ) -> Result<()> {
        let ModuleView::Bytecode { instance, .. } = modules.module(frame.target.module) else {
            return Err(broken("a frame of a native module"));
        };
        let caller = &instance.codes[frame.target.ordinal as usize];
        frame.words -= u32::from(caller.words);
        frame.refs -= u32::from(caller.refs);
        self.frame = Some(frame);
        self.leave(frame.words, frame.refs, caller, frame.site, code, values)
    }

    /// Keeps the results of the outermost function for the host.
    fn leave_outside(&mut self, program: &Program, ordinal: u32, code: &Code, values: &[u16]) -> Result<()> {
        let convention = &program.tables.functions[ordinal as usize].convention;
        let window = window_at(&mut self.words, 0)?;
        for (kind, source) in convention.results().iter().zip(values) {
            self.results.push(value_of(window, &mut self.refs, *kind, *source));
        }
        release(&mut self.refs, code);
        Ok(())
    }
}

/// Releases the references in the registers of a function, which are the first of `refs`.
fn release(refs: &mut [Ref], code: &Code) {
    for object in refs.iter_mut().take(code.refs.into()) {
        *object = Ref::NULL;
    }
}

/// Bytes that a frame is charged to a budget.
fn frame_bytes(code: &Code) -> u64 {
    4 * u64::from(code.words) + 8 * u64::from(code.refs)
}

/// The register window from `start` on.
#[inline]
fn window_at(words: &mut [u8], start: u32) -> Result<&mut Window> {
    let window = words.get_mut(start as usize * 4..).and_then(|words| words.first_chunk_mut());
    window.ok_or_else(|| broken("registers out of bounds"))
}

/// Stores an argument from the host in the registers of the first frame.
#[inline]
fn place(window: &mut Window, refs: &mut [Ref], register: u16, value: Value) {
    match value {
        Value::I32(value) => value.put(window, register),
        Value::I64(value) => value.put(window, register),
        Value::F32(value) => value.put(window, register),
        Value::F64(value) => value.put(window, register),
        Value::Ref(object) => put(refs, register, object),
        // Unreachable: no calling convention has them, and the arguments have been checked.
        Value::I8(_) | Value::I16(_) => {}
    }
}

/// The value in a register; a reference is moved out if the move bit is set.
#[inline]
fn value_of(window: &Window, refs: &mut [Ref], kind: ValueKind, register: u16) -> Value {
    match kind {
        ValueKind::I32 => Value::I32(i32::get(window, register)),
        ValueKind::I64 => Value::I64(i64::get(window, register)),
        ValueKind::F32 => Value::F32(f32::get(window, register)),
        ValueKind::F64 => Value::F64(f64::get(window, register)),
        ValueKind::Ref => Value::Ref(take(refs, register)),
    }
}

#[cold]
fn no_import(program: &Program, import: u32) -> Error {
    let name = &program.tables.imports[import as usize].full_name;
    Error::not_found(format!("the program calls the optional import '{name}', which no module exports"))
}
