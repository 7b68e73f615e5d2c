//! Call sites: the registers of arguments and results.

use crate::ValueKind;
use crate::code::{Argument, Callee, Insn, Site};
use crate::convention::{Argument as Declared, Convention};
use crate::instruction::{Instruction, List};
use crate::registers::MOVE_BIT;
use crate::verify::{IMPORT_BIT, argument_registers};

use super::Lowering;

impl Lowering<'_> {
    /// `call`
    pub(super) fn plain_call(&mut self, from: &Instruction<'_>) {
        self.call(from.ordinal(0), None, from.list(1), from.list(2));
    }

    /// `call.variadic`
    pub(super) fn variadic_call(&mut self, from: &Instruction<'_>) {
        self.call(from.ordinal(0), Some(from.list(1)), from.list(2), from.list(3));
    }

    /// `call.yieldable`: every call may yield; this one ends its block.
    pub(super) fn yieldable_call(&mut self, from: &Instruction<'_>) {
        self.call(from.ordinal(0), None, from.list(1), from.list(3));
        self.jump(from.ordinal(2));
    }

    /// `call.variadic.yieldable`
    pub(super) fn variadic_yieldable_call(&mut self, from: &Instruction<'_>) {
        self.call(from.ordinal(0), Some(from.list(1)), from.list(2), from.list(4));
        self.jump(from.ordinal(3));
    }

    fn call(&mut self, callee: u32, segments: Option<List<'_>>, operands: List<'_>, results: List<'_>) {
        let (callee, convention) = if callee & IMPORT_BIT == 0 {
            (Callee::Function(callee), &self.tables.functions[callee as usize].convention)
        } else {
            let import = callee & !IMPORT_BIT;
            (Callee::Import(import), &self.tables.imports[import as usize].convention)
        };
        let (arguments, starts): (Box<[Argument]>, _) = match segments {
            Some(segments) => {
                let (arguments, starts) = variadic_arguments(convention, segments, operands);
                (arguments, Some(starts))
            }
            None => {
                let places = argument_registers(convention).zip(operands.iter());
                let argument = |((kind, target), source)| Argument { kind, source, target };
                (places.map(argument).collect(), None)
            }
        };
        let results = results.iter().map(|register| self.coalesced.result(self.offset as usize, register));
        let results: Box<[_]> = convention.results().iter().copied().zip(results).collect();
        for argument in &arguments {
            self.used(argument.source, argument.kind);
        }
        for (kind, register) in &results {
            self.used(*register, *kind);
        }
        let site = self.sites.len() as u32;
        self.sites.push(Site { callee, moved: moved(&arguments), arguments, starts, results });
        self.emit(Insn::Call { site });
    }
}

/// The arguments of a call with spans, flattened, and the start index of each argument of the convention.
fn variadic_arguments(
    convention: &Convention,
    segments: List<'_>,
    operands: List<'_>,
) -> (Box<[Argument]>, Box<[u32]>) {
    let mut starts = vec![0];
    let mut arguments = Vec::new();
    let mut sources = operands.iter();
    for (argument, count) in convention.arguments().iter().zip(segments.iter()) {
        let (kinds, count) = match argument {
            Declared::One(kind) => (std::slice::from_ref(kind), 1),
            Declared::Span(kinds) => (&**kinds, count),
        };
        // The verifier has checked the operand count.
        let values = std::iter::repeat_n(kinds, count.into()).flatten().zip(sources.by_ref());
        arguments.extend(values.map(|(kind, source)| Argument { kind: *kind, source, target: 0 }));
        starts.push(arguments.len() as u32);
    }
    (arguments.into(), starts.into())
}

/// The registers from which references are moved into a call.
fn moved(arguments: &[Argument]) -> Box<[u16]> {
    let references = arguments.iter().filter(|argument| argument.kind == ValueKind::Ref);
    references.map(|argument| argument.source).filter(|source| source & MOVE_BIT != 0).collect()
}
