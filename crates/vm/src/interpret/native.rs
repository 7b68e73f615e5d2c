use rehal_base::{Error, Result, StatusCode};
use rehal_crash::Bytecode;

use crate::call::Values;
use crate::code::Site;
use crate::registers::{Number, put};
use crate::{Call, Convention, Flow, Ref, Resumed, Value, ValueKind};

use super::{
    Called, Frame, Machine, ModuleView, Modules, NativeFunction, Outcome, Pending, Target, broken, window_at,
};

impl Machine {
    /// Calls a native function with the arguments of a call site of `frame`, which stay in its registers.
    #[inline]
    pub(super) fn call_native(
        &mut self,
        function: NativeFunction<'_>,
        frame: Frame,
        site: &Site,
    ) -> Result<Called> {
        let outcome = match self.invoke_from(&function, frame, site, None) {
            Ok(None) => match self.take_results(frame, site) {
                Ok(()) => return Ok(Called::Done),
                Err(error) => Err(error),
            },
            Ok(Some(outcome)) => Ok(Called::Stopped(outcome)),
            Err(error) => Err(error),
        };
        self.pending = Some(Pending { target: function.target });
        outcome
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
            let starts = convention.is_variadic().then_some(&*self.starts);
            self.results.clear();
            let values = Values::Host(&self.arguments);
            let call = Call::new(convention, values, starts, &mut self.results, resumed);
            let outcome = function.invoke(call);
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
        let outcome = self.invoke_from(&function, frame, site, resumed)?;
        if outcome.is_none() {
            self.take_results(frame, site)?;
            self.pending = None;
        }
        Ok(outcome)
    }

    /// Calls a native function from a call site of `frame`. `None` if it returned; its results are not
    /// checked yet.
    #[inline(always)]
    fn invoke_from(
        &mut self,
        function: &NativeFunction<'_>,
        frame: Frame,
        site: &Site,
        resumed: Option<Resumed>,
    ) -> Result<Option<Outcome>> {
        let window = window_at(&mut self.words, frame.words)?;
        let refs = self.refs.get(frame.refs as usize..).unwrap_or_default();
        let convention = &function.module.exports()[function.target.ordinal as usize].convention;
        self.results.clear();
        let values = Values::Registers { arguments: &site.arguments, window, refs };
        function.invoke(Call::new(convention, values, site.starts.as_deref(), &mut self.results, resumed))
    }

    /// Releases the references that were moved to a native function, then stores the results.
    #[inline(always)]
    fn take_results(&mut self, frame: Frame, site: &Site) -> Result<()> {
        let refs = self.refs.get_mut(frame.refs as usize..).unwrap_or_default();
        for register in &site.moved {
            put(refs, *register, Ref::NULL);
        }
        if site.results.is_empty() && self.results.is_empty() {
            return Ok(());
        }
        let window = window_at(&mut self.words, frame.words)?;
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

impl NativeFunction<'_> {
    #[inline(always)]
    fn invoke(&self, mut call: Call<'_>) -> Result<Option<Outcome>> {
        let _left = Bytecode::change();
        match self.native.call(self.state, self.target.ordinal as usize, &mut call)? {
            Flow::Return => Ok(None),
            Flow::Yield => Ok(Some(Outcome::Yielded)),
            Flow::Wait(wait) => Ok(Some(Outcome::Waiting(wait))),
        }
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
    // Kinds only: values of references are addresses, and a message is the same in every run.
    let found: Vec<String> = results.iter().map(kind_name).collect();
    let expected: Vec<ValueKind> = kinds.collect();
    Error::new(
        StatusCode::Internal,
        format!(
            "the native function returned [{}], expected {expected:?} by its calling convention",
            found.join(", ")
        ),
    )
}

fn kind_name(value: &Value) -> String {
    match value.kind() {
        Some(kind) => format!("{kind:?}"),
        None => "a value of 8 or 16 bits".to_owned(),
    }
}
