use rehal_base::{Error, Result, StatusCode};

use crate::code::Site;
use crate::registers::Number;
use crate::verify::MOVE_BIT;
use crate::{Call, Convention, Flow, Module, NativeModule, Resumed, State, Value, ValueKind};

use super::refs::put;
use super::{
    Called, Frame, Machine, ModuleView, Modules, Outcome, Pending, Target, broken, value_of, window_at,
};

/// A native function of a context.
pub(super) struct NativeFunction<'a> {
    pub(super) module: &'a Module,
    pub(super) native: &'a dyn NativeModule,
    pub(super) state: &'a State,
    pub(super) target: Target,
}

impl Machine {
    /// Calls a native function with the arguments of a call site of `frame`.
    #[inline]
    pub(super) fn call_native(
        &mut self,
        function: NativeFunction<'_>,
        frame: Frame,
        site: &Site,
    ) -> Result<Called> {
        let window = window_at(&mut self.words, frame.words)?;
        let refs = self.refs.get_mut(frame.refs as usize..).unwrap_or_default();
        self.arguments.clear();
        let values = site.arguments.iter();
        self.arguments.extend(values.map(|argument| {
            let source = if argument.is_lent { argument.source | MOVE_BIT } else { argument.source };
            value_of(window, refs, argument.kind, source)
        }));
        match self.invoke(&function, site.starts.as_deref(), None) {
            Ok(None) => match self.take_results(frame, site) {
                Ok(()) => Ok(Called::Done),
                Err(error) => {
                    self.pending = Some(Pending { target: function.target });
                    Err(error)
                }
            },
            Ok(Some(outcome)) => {
                self.pending = Some(Pending { target: function.target });
                Ok(Called::Stopped(outcome))
            }
            Err(error) => {
                self.pending = Some(Pending { target: function.target });
                Err(error)
            }
        }
    }

    /// Calls or resumes the pending native function. `None` if it returned and its results are in
    /// registers.
    pub(super) fn call_pending<M: Modules>(
        &mut self,
        modules: &M,
        target: Target,
        resumed: Option<Resumed>,
    ) -> Result<Option<Outcome>> {
        let ModuleView::Native { module, native, state } = modules.module(target.module) else {
            return Err(broken("a pending function that is not native"));
        };
        if let Some(left) = &mut self.left {
            left.take_instruction()?;
        }
        let function = NativeFunction { module, native, state, target };
        let Some(frame) = self.frame else {
            let convention = &module.exports()[target.ordinal as usize].convention;
            let starts = std::mem::take(&mut self.starts);
            let outcome = self.invoke(&function, convention.is_variadic().then_some(&*starts), resumed);
            self.starts = starts;
            if outcome.as_ref().is_ok_and(Option::is_none) {
                check_results(convention, &self.results)?;
                self.pending = None;
                self.arguments.clear();
            }
            return outcome;
        };
        let ModuleView::Bytecode { instance, .. } = modules.module(frame.target.module) else {
            return Err(broken("a frame of a native module"));
        };
        let site = &instance.codes[frame.target.ordinal as usize].sites[frame.site as usize];
        let outcome = self.invoke(&function, site.starts.as_deref(), resumed)?;
        if outcome.is_none() {
            self.take_results(frame, site)?;
            self.pending = None;
        }
        Ok(outcome)
    }

    /// Calls a native function with the arguments in the machine; `starts` has their start indices if there are spans
    /// among them. `None` if it returned; its results are not checked yet.
    #[inline]
    fn invoke(
        &mut self,
        function: &NativeFunction<'_>,
        starts: Option<&[u32]>,
        resumed: Option<Resumed>,
    ) -> Result<Option<Outcome>> {
        let NativeFunction { module, native, state, target } = function;
        let convention = &module.exports()[target.ordinal as usize].convention;
        self.results.clear();
        let mut call = Call::new(convention, &mut self.arguments, starts, &mut self.results, resumed);
        match native.call(state, target.ordinal as usize, &mut call)? {
            Flow::Return => Ok(None),
            Flow::Yield => Ok(Some(Outcome::Yielded)),
            Flow::Wait(wait) => Ok(Some(Outcome::Waiting(wait))),
        }
    }

    /// Moves references lent to a native function back into the registers of its caller, then stores the
    /// results.
    #[inline]
    fn take_results(&mut self, frame: Frame, site: &Site) -> Result<()> {
        let window = window_at(&mut self.words, frame.words)?;
        let refs = self.refs.get_mut(frame.refs as usize..).unwrap_or_default();
        // One pass that returns references and drops the rest.
        for argument in site.arguments.iter().rev() {
            if let Some(Value::Ref(object)) = self.arguments.pop()
                && argument.is_lent
            {
                put(refs, argument.source, object);
            }
        }
        let kinds = || site.results.iter().map(|(kind, _)| *kind);
        if !kinds().map(Some).eq(self.results.iter().map(Value::kind)) {
            return Err(wrong_results(&self.results, kinds()));
        }
        for ((_, target), value) in site.results.iter().zip(self.results.drain(..)) {
            match value {
                Value::I32(value) => value.put(window, *target),
                Value::I64(value) => value.put(window, *target),
                Value::F32(value) => value.put(window, *target),
                Value::F64(value) => value.put(window, *target),
                Value::Ref(object) => put(refs, *target, object),
                // Unreachable: no calling convention has them, and the results have been checked.
                Value::I8(_) | Value::I16(_) => {}
            }
        }
        Ok(())
    }
}

/// Checks `results` against the convention.
fn check_results(convention: &Convention, results: &[Value]) -> Result<()> {
    let kinds = convention.results().iter().copied();
    if kinds.clone().map(Some).eq(results.iter().map(Value::kind)) {
        return Ok(());
    }
    Err(wrong_results(results, kinds))
}

#[cold]
fn wrong_results(results: &[Value], kinds: impl Iterator<Item = ValueKind>) -> Error {
    let kinds: Vec<ValueKind> = kinds.collect();
    Error::new(
        StatusCode::Internal,
        format!("the native function returned {results:?}, expected {kinds:?} by its calling convention"),
    )
}
