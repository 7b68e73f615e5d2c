use rehal_base::{Error, Result, StatusCode};

use crate::code::Site;
use crate::registers::Number;
use crate::verify::MOVE_BIT;
use crate::{Call, Convention, Flow, Resumed, Value, ValueKind};

use super::refs::put;
use super::{Frame, Machine, ModuleView, Modules, Outcome, Pending, Target, broken, value_of, window_at};

impl Machine {
    /// Collects the arguments that a site passes to a native function and makes that the pending one.
    pub(super) fn pass_to_native(&mut self, frame: Frame, site: &Site, target: Target) -> Result<()> {
        let window = window_at(&mut self.words, frame.words)?;
        let refs = self.refs.get_mut(frame.refs as usize..).unwrap_or_default();
        self.arguments.clear();
        let values = site.arguments.iter();
        self.arguments.extend(values.map(|argument| {
            let source = if argument.is_lent { argument.source | MOVE_BIT } else { argument.source };
            value_of(window, refs, argument.kind, source)
        }));
        self.starts.clear();
        if let Some(starts) = &site.starts {
            self.starts.extend_from_slice(starts);
        }
        self.pending = Some(Pending { target });
        Ok(())
    }

    /// Calls the pending native function. Nothing where it is done; its results are where they belong then.
    pub(super) fn call_native<M: Modules>(
        &mut self,
        modules: &M,
        target: Target,
        resumed: Option<Resumed>,
    ) -> Result<Option<Outcome>> {
        let ModuleView::Native { module, native, state } = modules.module(target.module) else {
            return Err(broken("a pending function that is not native"));
        };
        let convention = &module.exports()[target.ordinal as usize].convention;
        let starts = if convention.is_variadic() { &*self.starts } else { convention.fixed_starts() };
        self.results.clear();
        if let Some(left) = &mut self.left {
            left.take_instruction()?;
        }
        let mut call = Call::new(convention, &mut self.arguments, starts, &mut self.results, resumed);
        match native.call(state, target.ordinal as usize, &mut call)? {
            Flow::Yield => return Ok(Some(Outcome::Yielded)),
            Flow::Wait(wait) => return Ok(Some(Outcome::Waiting(wait))),
            Flow::Return => {}
        }
        check_results(convention, &self.results)?;
        self.pending = None;
        if let Some(frame) = self.frame {
            self.take_results(modules, frame)?;
        }
        self.arguments.clear();
        Ok(None)
    }

    /// Puts what was lent to a native function back into the registers of the frame that called it, and there what it
    /// returned.
    fn take_results<M: Modules>(&mut self, modules: &M, frame: Frame) -> Result<()> {
        let ModuleView::Bytecode { instance, .. } = modules.module(frame.target.module) else {
            return Err(broken("a frame of a native module"));
        };
        let site = &instance.codes[frame.target.ordinal as usize].sites[frame.site as usize];
        let window = window_at(&mut self.words, frame.words)?;
        let refs = self.refs.get_mut(frame.refs as usize..).unwrap_or_default();
        for (argument, value) in site.arguments.iter().zip(&mut self.arguments) {
            if argument.is_lent
                && let Value::Ref(object) = value
            {
                put(refs, argument.source, object.take());
            }
        }
        for ((_, target), value) in site.results.iter().zip(self.results.drain(..)) {
            match value {
                Value::I32(value) => value.put(window, *target),
                Value::I64(value) => value.put(window, *target),
                Value::F32(value) => value.put(window, *target),
                Value::F64(value) => value.put(window, *target),
                Value::Ref(object) => put(refs, *target, object),
                // Not among the results of any convention, by which these were checked.
                Value::I8(_) | Value::I16(_) => {}
            }
        }
        Ok(())
    }
}

/// Checks that `results` are what the convention returns.
fn check_results(convention: &Convention, results: &[Value]) -> Result<()> {
    let kinds: &[ValueKind] = convention.results();
    if results.len() == kinds.len()
        && results.iter().zip(kinds).all(|(value, kind)| value.kind() == Some(*kind))
    {
        return Ok(());
    }
    Err(Error::new(
        StatusCode::Internal,
        format!("the native function returned {results:?}, which its convention {convention} does not say"),
    ))
}
