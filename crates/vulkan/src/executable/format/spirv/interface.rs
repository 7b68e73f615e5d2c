//! The interfaces of entry points: the global variables that they and the functions that they call refer to.

use std::collections::{HashMap, HashSet};

use rehal_base::{Fault, FormatError};
use spirv::{ExecutionModel, Op, StorageClass};

use super::FORMAT;
use super::instructions::{Instruction, Instructions};
use super::reflect::{FULL_INTERFACES, MAX_UNFOLDING};
use super::structure::Definition;

/// What the names of instruction sets without meaning begin with.
const NON_SEMANTIC: &str = "NonSemantic.";

/// Which functions, global variables and constants refer to which.
#[derive(Default)]
pub(super) struct References {
    /// By the id that refers.
    by_id: HashMap<u32, HashSet<u32>>,
    /// What the instruction that is read belongs to, if references in it count.
    current: Option<u32>,
}

impl References {
    /// Begins with an instruction of a function, or of none if that is 0. [`References::note`] is then given its ids.
    pub(super) fn enter(
        &mut self,
        instruction: &Instruction<'_>,
        op: Op,
        function: u32,
        ids: &HashMap<u32, Definition<'_>>,
    ) {
        self.current = match function {
            0 if op == Op::Variable || op.is_constant() => instruction.operands.get(1).copied(),
            0 => None,
            // Debug information does not use what it describes.
            _ if op == Op::ExtInst && is_non_semantic(instruction, ids) => None,
            function => Some(function),
        };
    }

    /// An id that the instruction refers to.
    pub(super) fn note(&mut self, id: u32, definition: &Definition<'_>) {
        let leads_on = match definition.op {
            Op::Variable => is_global(definition),
            Op::Function => true,
            op => op.is_constant() && op != Op::Constant,
        };
        if let Some(current) = self.current.filter(|current| leads_on && *current != id) {
            self.by_id.entry(current).or_default().insert(id);
        }
    }

    /// What a function refers to, directly or not, with the function. `None` if that exceeds the budget.
    fn reached(&self, function: u32, budget: &mut usize) -> Option<HashSet<u32>> {
        let (mut seen, mut left) = (HashSet::from([function]), vec![function]);
        while let Some(id) = left.pop() {
            let Some(references) = self.by_id.get(&id) else { continue };
            *budget = budget.checked_sub(1 + references.len())?;
            left.extend(references.iter().filter(|id| seen.insert(**id)));
        }
        Some(seen)
    }
}

/// Whether an `OpExtInst` is of an instruction set without meaning.
fn is_non_semantic(instruction: &Instruction<'_>, ids: &HashMap<u32, Definition<'_>>) -> bool {
    let set = instruction.operands.get(2).and_then(|set| ids.get(set));
    set.filter(|set| set.op == Op::ExtInstImport).is_some_and(|set| {
        let name = set.operands.iter().skip(1).flat_map(|word| word.to_le_bytes());
        name.take(NON_SEMANTIC.len()).eq(NON_SEMANTIC.bytes())
    })
}

fn class_of(variable: &Definition<'_>) -> Option<StorageClass> {
    StorageClass::from_u32(*variable.operands.get(2)?)
}

/// Whether a variable is outside of functions.
fn is_global(variable: &Definition<'_>) -> bool {
    class_of(variable) != Some(StorageClass::Function)
}

/// Fails unless the interface of each compute entry point consists of global variables, and has those that it refers to: inputs and
/// outputs, and since SPIR-V 1.4 all others. Drivers declare those of the interface alone.
pub(super) fn check(
    ids: &HashMap<u32, Definition<'_>>,
    references: &References,
    words: &[u32],
    base: usize,
) -> Result<(), FormatError> {
    let is_full =
        words.get(1).is_some_and(|version| ((version >> 16) as u8, (version >> 8) as u8) >= FULL_INTERFACES);
    let belongs = |variable: &Definition<'_>| {
        variable.op == Op::Variable
            && is_global(variable)
            && (is_full || matches!(class_of(variable), Some(StorageClass::Input | StorageClass::Output)))
    };
    let mut budget = words.len().saturating_mul(MAX_UNFOLDING);
    for instruction in Instructions::new(words, base) {
        let instruction = instruction?;
        if !instruction.is(Op::EntryPoint) || instruction.operand(0)? != ExecutionModel::GLCompute as u32 {
            continue;
        }
        let (name, end) = instruction.text(2)?;
        let listed: HashSet<_> = instruction.operands[end..].iter().copied().collect();
        let error = |fault, expected: String, found: String| {
            let (at, expected) =
                (instruction.offset as u64, format!("entry point '{}' to {expected}", name.escape_debug()));
            FormatError::new(FORMAT, fault, at, "interface", expected, found)
        };
        let is_variable = |id: &u32| ids.get(id).is_some_and(|it| it.op == Op::Variable && is_global(it));
        if let Some(id) = listed.iter().filter(|id| !is_variable(id)).min() {
            let op = ids.get(id).map_or(Op::Nop, |it| it.op);
            let expected = "list only global variables".to_owned();
            return Err(error(Fault::Corrupt, expected, format!("id {id} (Op{op:?})")));
        }
        let reached = references.reached(instruction.operand(1)?, &mut budget).ok_or_else(|| {
            let expected =
                format!("refer to at most {MAX_UNFOLDING} times the module's words, with the others");
            error(Fault::Unsupported, expected, "more".to_owned())
        })?;
        let mut missing: Vec<_> =
            reached.difference(&listed).filter(|id| ids.get(id).is_some_and(belongs)).collect();
        missing.sort_unstable();
        if let Some(first) = missing.first() {
            let more = match missing.len() - 1 {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let found = format!("no {}{more}", described(**first, ids, words, base)?);
            return Err(error(Fault::Corrupt, "list the variables that it uses".to_owned(), found));
        }
    }
    Ok(())
}

/// A variable, with its name if it has one.
fn described(
    id: u32,
    ids: &HashMap<u32, Definition<'_>>,
    words: &[u32],
    base: usize,
) -> Result<String, FormatError> {
    let class = ids.get(&id).and_then(class_of).map_or(String::new(), |class| format!("{class:?}, "));
    for instruction in Instructions::new(words, base) {
        let instruction = instruction?;
        if instruction.is(Op::Name) && instruction.operand(0)? == id {
            // A name that is not UTF-8 is as good as none.
            if let Ok((name, _)) = instruction.text(1)
                && !name.is_empty()
            {
                return Ok(format!("'{}' ({class}id {id})", name.escape_debug()));
            }
        }
    }
    Ok(format!("variable ({class}id {id})"))
}
