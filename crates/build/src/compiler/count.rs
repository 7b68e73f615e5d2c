//! The workgroup counts of a variant, as the compiler prints them once they are decided: a region computes
//! them from the workload, and the function computes the workload from its constants.
//!
//! Both are straight lines of operations on integers. What is not one of these is not known.

use std::collections::HashMap;
use std::sync::Arc;

use rehal_base::terms::{Formula, Operator, Term, Terms};
use rehal_hal::NeededWorkgroups;

use super::affine::AffineMap;
use super::text::{Operation, argument, operations};

/// The deepest chain of operations that are not in order.
const MAX_DEPTH: usize = 16;

/// The workgroups that functions of a variant need, of its text before and after the pass that decides it.
pub(super) fn needed_workgroups(before: &str, after: &str) -> Vec<(String, NeededWorkgroups)> {
    let of = |export: Operation<'_>| {
        let mut bodies = operations(before, "func.func").filter(|it| it.name == export.name);
        let formula = match (bodies.next(), bodies.next()) {
            (_, Some(_)) => Err("the source defines the function for several targets".into()),
            (body, None) => formula(&export, body.map_or("", |it| it.body)),
        };
        let needed = match formula {
            Ok(formula) => NeededWorkgroups::Computed(Arc::new(formula)),
            Err(why) => NeededWorkgroups::Unknown(why.into()),
        };
        (export.name, needed)
    };
    operations(after, "hal.executable.export").map(of).collect()
}

fn formula(export: &Operation<'_>, body: &str) -> Result<Formula, String> {
    let Some(parameters) = argument(export.head, " count(") else {
        return Err("the source does not say it".into());
    };
    // The first parameter is the device.
    let parameters = parameters.split(',').skip(1).filter_map(|it| it.split(':').next()).map(str::trim);
    let mut terms = Terms::default();
    let mut body = Scope::new(body);
    let mut region = Scope::new(export.body);
    for (index, name) in parameters.enumerate() {
        region.workload.insert(name, index as u32);
    }
    body.compute(&mut terms, None);
    region.compute(&mut terms, Some(&mut body));
    let mut returns = export.body.lines().filter_map(|line| line.trim().strip_prefix("hal.return "));
    let returned = returns.next();
    if returns.next().is_some() || export.body.lines().any(|line| line.trim().starts_with("^bb")) {
        return Err("the source decides between several counts by branches".into());
    }
    let names: Vec<_> = returned.and_then(|it| it.split(" : ").next()).unwrap_or("").split(", ").collect();
    if names.len() != 3 {
        return Err("the source does not compute three numbers".into());
    }
    let results = names.into_iter().map(|name| Ok(region.value(name, &mut terms, Some(&mut body), 0)?.term));
    let results = results.collect::<Result<Vec<_>, String>>()?;
    Formula::new(&terms, &results).ok_or_else(|| "it depends on unknown values".into())
}

/// An integer and its bits.
#[derive(Clone, Copy)]
struct Value {
    term: Term,
    bits: u8,
}

/// The values of a region.
struct Scope<'t> {
    text: &'t str,
    /// Where each name is defined; `None` if it is in several places.
    definitions: HashMap<&'t str, Option<usize>>,
    /// Parameters that are values of the workload.
    workload: HashMap<&'t str, u32>,
    known: HashMap<String, Result<Value, String>>,
}

impl<'t> Scope<'t> {
    fn new(text: &'t str) -> Self {
        let mut definitions = HashMap::new();
        let mut offset = 0;
        for line in text.split_inclusive('\n') {
            if let Some((name, _)) = line.trim_start().split_once(" = ").filter(|it| it.0.starts_with('%')) {
                let name = name.split(':').next().unwrap_or(name);
                definitions.entry(name).and_modify(|it| *it = None).or_insert(Some(offset));
            }
            offset += line.len();
        }
        Self { text, definitions, workload: HashMap::new(), known: HashMap::new() }
    }

    /// The value of a name such as `%4` or `%14#1`. Values of the workload are those of `function`.
    fn value(
        &mut self,
        name: &str,
        terms: &mut Terms,
        function: Option<&mut Scope<'_>>,
        depth: usize,
    ) -> Result<Value, String> {
        if let Some(known) = self.known.get(name) {
            return known.clone();
        }
        if depth > MAX_DEPTH {
            return Err("an operand is defined after its use".into());
        }
        let value = match (self.workload.get(name), function) {
            (Some(index), Some(function)) => function.workload_value(*index, terms),
            (_, function) => self.computed(name, terms, function, depth + 1),
        };
        self.known.insert(name.to_owned(), value.clone());
        value
    }

    /// Computes all values in their order, so that each has its operands.
    fn compute(&mut self, terms: &mut Terms, mut function: Option<&mut Scope<'_>>) {
        let mut defined: Vec<_> =
            self.definitions.iter().filter_map(|(name, offset)| Some(((*offset)?, *name))).collect();
        defined.sort_unstable();
        for (_, name) in defined {
            // What fails matters only if something needs it.
            let _ = self.value(name, terms, function.as_deref_mut(), 0);
        }
    }

    /// A value of the workload, as the function gets it.
    fn workload_value(&mut self, index: u32, terms: &mut Terms) -> Result<Value, String> {
        const ORDINAL: &str = "dispatch.workload.ordinal ";
        let mut found: Option<Value> = None;
        for line in self.text.lines() {
            let Some((_, operands)) = line.split_once(ORDINAL) else { continue };
            let operands = operands.split(" : ").next().unwrap_or_default();
            let Some((name, ordinal)) = operands.split_once(", ") else { continue };
            if ordinal.trim().parse() != Ok(index) {
                continue;
            }
            let value = self.value(name, terms, None, 0)?;
            if found.is_some_and(|it| it.term != value.term) {
                return Err(format!("value {index} of its workload has two definitions"));
            }
            found = Some(value);
        }
        found.ok_or_else(|| {
            format!("it depends on value {index} of the workload, which is not among the constants of the dispatch")
        })
    }

    fn computed(
        &mut self,
        name: &str,
        terms: &mut Terms,
        mut function: Option<&mut Scope<'_>>,
        depth: usize,
    ) -> Result<Value, String> {
        let (defined, result) = match name.split_once('#') {
            Some((defined, result)) => (defined, result.parse().unwrap_or(0)),
            None => (name, 0),
        };
        let Some(Some(offset)) = self.definitions.get(defined) else {
            return Err(format!("it depends on {name}, which is not one value"));
        };
        let text: &'t str = self.text;
        let rest = text[*offset..].split_once(" = ").map_or("", |it| it.1);
        let line = rest.lines().next().unwrap_or_default();
        let operation = line.split([' ', '(']).next().unwrap_or_default();
        let unknown = || format!("it is computed by '{}'", operation.escape_debug());
        let mut operand = |this: &mut Self, name: &str, terms: &mut Terms| {
            this.value(name, terms, function.as_deref_mut(), depth)
        };
        match operation {
            "arith.constant" => {
                let (value, bits) = constant(line).ok_or_else(unknown)?;
                return Ok(Value { term: terms.constant(value), bits });
            }
            "hal.interface.constant.load" => {
                let ordinal = argument(line, " ordinal(").and_then(|it| it.parse().ok());
                let ordinal = ordinal.filter(|_| line.trim_end().ends_with(": i32")).ok_or_else(unknown)?;
                return Ok(Value { term: terms.input(ordinal), bits: 32 });
            }
            "iree_tensor_ext.dispatch.workload.ordinal" => {
                let name = operands(line).next().ok_or_else(unknown)?;
                return operand(self, name, terms);
            }
            "util.assume.int" => {
                let (name, low, high) = assumed(rest, result).ok_or_else(unknown)?;
                let value = operand(self, name, terms)?;
                // What it also says, that a value is a multiple, is not needed.
                return Ok(match low.zip(high).filter(|_| value.bits == 64) {
                    Some((low, high)) => Value { term: terms.bounded(value.term, low, high), bits: 64 },
                    None => value,
                });
            }
            "affine.apply" | "affine.min" | "affine.max" => {
                let (map, arguments) = line
                    .split_once("affine_map<")
                    .and_then(|it| AffineMap::parse(it.1))
                    .ok_or_else(unknown)?;
                let arguments = operands(arguments).map(|name| Ok(operand(self, name, terms)?.term));
                let arguments = arguments.collect::<Result<Vec<_>, String>>()?;
                let results = map.apply(&arguments, terms).ok_or_else(unknown)?;
                let operator = match operation {
                    "affine.min" => Operator::MinS,
                    "affine.max" => Operator::MaxS,
                    _ if results.len() != 1 => return Err(unknown()),
                    _ => Operator::MaxS,
                };
                let term = results.into_iter().reduce(|left, right| terms.binary(operator, left, right));
                return Ok(Value { term: term.ok_or_else(unknown)?, bits: 64 });
            }
            _ => {}
        }
        let operands = operands(line).map(|name| operand(self, name, terms));
        let operands = operands.collect::<Result<Vec<_>, String>>()?;
        arithmetic(operation, line, &operands, terms).ok_or_else(unknown)
    }
}

/// The names among the operands of an operation: those before its types.
fn operands(line: &str) -> impl Iterator<Item = &str> {
    let before = line.rsplit_once(" : ").map_or(line, |it| it.0);
    before
        .split('%')
        .skip(1)
        .map(|rest| {
            let end = rest.find(|it: char| !it.is_ascii_alphanumeric() && !"_$.-#".contains(it));
            &rest[..end.unwrap_or(rest.len())]
        })
        .map(move |name| {
            // With its sign, which precedes it.
            let start = name.as_ptr() as usize - line.as_ptr() as usize - 1;
            &line[start..start + 1 + name.len()]
        })
}

/// The bits of a type; a boolean has one.
fn bits_of(name: &str) -> Option<u8> {
    match name.trim() {
        "index" | "i64" => Some(64),
        "i32" => Some(32),
        "i16" => Some(16),
        "i8" => Some(8),
        "i1" => Some(1),
        _ => None,
    }
}

/// The value and the bits of `arith.constant 4 : index`, `arith.constant true`.
fn constant(line: &str) -> Option<(i64, u8)> {
    match line.strip_prefix("arith.constant ")?.trim() {
        "true" => Some((1, 1)),
        "false" => Some((0, 1)),
        other => {
            let (value, kind) = other.rsplit_once(" : ")?;
            Some((value.trim().parse().ok()?, bits_of(kind)?))
        }
    }
}

/// The assumptions on the operand with an index: its name and its bounds.
fn assumed(text: &str, index: usize) -> Option<(&str, Option<i64>, Option<i64>)> {
    // The types follow the operands, in the same line or a later one.
    let text = &text[..text.find(" : ")?];
    let mut parts = text.split('%').skip(1);
    let part = parts.nth(index)?;
    let end = part.find(|it: char| !it.is_ascii_alphanumeric() && !"_#".contains(it)).unwrap_or(part.len());
    let start = part.as_ptr() as usize - text.as_ptr() as usize - 1;
    let bound = |key: &str| {
        let of = part[end..].split(key).skip(1);
        let values: Option<Vec<i64>> =
            of.map(|it| it.split([',', '>']).next()?.trim().parse().ok()).collect();
        // Each alternative has one.
        values.filter(|it| it.len() == part.matches('<').count())
    };
    let low = bound("umin = ").and_then(|it| it.into_iter().min());
    let high = bound("umax = ").and_then(|it| it.into_iter().max());
    Some((&text[start..start + 1 + end], low.or(high.map(|_| 0)), high))
}

fn arithmetic(operation: &str, line: &str, operands: &[Value], terms: &mut Terms) -> Option<Value> {
    let kind = line.rsplit_once(" : ").map(|it| it.1);
    match operation {
        "arith.extui" | "arith.extsi" | "arith.trunci" | "arith.index_cast" | "arith.index_castui" => {
            let [of] = operands else { return None };
            let (from, to) = kind?.split_once(" to ")?;
            let (from, to) = (bits_of(from).filter(|it| *it == of.bits)?, bits_of(to)?);
            let is_unsigned = operation.ends_with("ui");
            let term = match () {
                // A boolean is 0 or 1.
                () if to > from && from == 1 && !is_unsigned => return None,
                () if to > from && is_unsigned => terms.wrap(from, false, of.term),
                () if to > from => of.term,
                () => wrapped(to, of.term, terms),
            };
            Some(Value { term, bits: to })
        }
        "arith.select" => {
            let [condition, left, right] = operands else { return None };
            let is_same = condition.bits == 1 && left.bits == right.bits;
            is_same
                .then(|| Value { term: terms.select(condition.term, left.term, right.term), bits: left.bits })
        }
        "arith.cmpi" => {
            let [left, right] = operands else { return None };
            let predicate = line.strip_prefix("arith.cmpi ")?.split(',').next()?;
            let term = comparison(predicate, *left, *right, terms)?;
            Some(Value { term, bits: 1 })
        }
        _ => {
            let [left, right] = operands else { return None };
            let (operator, is_unsigned) = binary(operation)?;
            (left.bits == right.bits && kind.and_then(bits_of) == Some(left.bits)).then_some(())?;
            let bits = left.bits;
            let (left, right) = match is_unsigned {
                true => (terms.wrap(bits, false, left.term), terms.wrap(bits, false, right.term)),
                false => (left.term, right.term),
            };
            let term = terms.binary(operator, left, right);
            Some(Value { term: wrapped(bits, term, terms), bits })
        }
    }
}

/// A value of fewer than 64 bits is sign-extended, except a boolean.
fn wrapped(bits: u8, of: Term, terms: &mut Terms) -> Term {
    terms.wrap(bits, bits != 1, of)
}

fn comparison(predicate: &str, left: Value, right: Value, terms: &mut Terms) -> Option<Term> {
    let bits = (left.bits == right.bits).then_some(left.bits)?;
    let (mut left, mut right) = (left.term, right.term);
    if predicate.starts_with('u') {
        (left, right) = (terms.wrap(bits, false, left), terms.wrap(bits, false, right));
    }
    // The operator, whether its operands are swapped, whether its result is negated.
    let (operator, swaps, negates) = match predicate {
        "eq" => (Operator::Eq, false, false),
        "ne" => (Operator::Eq, false, true),
        "slt" => (Operator::LtS, false, false),
        "sle" => (Operator::LtS, true, true),
        "sgt" => (Operator::LtS, true, false),
        "sge" => (Operator::LtS, false, true),
        "ult" => (Operator::LtU, false, false),
        "ule" => (Operator::LtU, true, true),
        "ugt" => (Operator::LtU, true, false),
        "uge" => (Operator::LtU, false, true),
        _ => return None,
    };
    let (left, right) = if swaps { (right, left) } else { (left, right) };
    let term = terms.binary(operator, left, right);
    let one = terms.constant(1);
    Some(if negates { terms.binary(Operator::Xor, term, one) } else { term })
}

/// The operator of an operation, and whether its operands are unsigned.
fn binary(operation: &str) -> Option<(Operator, bool)> {
    Some(match operation.strip_prefix("arith.")? {
        "addi" => (Operator::Add, false),
        "subi" => (Operator::Sub, false),
        "muli" => (Operator::Mul, false),
        "divsi" => (Operator::DivS, false),
        "divui" => (Operator::DivU, true),
        "remsi" => (Operator::RemS, false),
        "remui" => (Operator::RemU, true),
        "ceildivsi" => (Operator::CeilDiv, false),
        "ceildivui" => (Operator::CeilDivU, true),
        "floordivsi" => (Operator::FloorDiv, false),
        "minsi" => (Operator::MinS, false),
        "minui" => (Operator::MinU, true),
        "maxsi" => (Operator::MaxS, false),
        "maxui" => (Operator::MaxU, true),
        "andi" => (Operator::And, false),
        "ori" => (Operator::Or, false),
        "xori" => (Operator::Xor, false),
        "shli" => (Operator::Shl, false),
        "shrsi" => (Operator::ShrS, false),
        "shrui" => (Operator::ShrU, true),
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
