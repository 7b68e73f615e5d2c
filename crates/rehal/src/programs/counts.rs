//! Whether a module dispatches functions with the workgroup counts that replacements need. Its code computes
//! them, which a rewritten module keeps.

use rehal_base::terms::{Formula, Term, Terms, same};
use rehal_base::{Context, Error, Remedy, Result};
use rehal_hal::{FunctionInfo, NeededWorkgroups};
use rehal_vm::ModuleFile;

/// The import with which programs dispatch functions, and positions of its arguments.
pub(super) const DISPATCH: &str = "hal.command_buffer.dispatch";
pub(super) const FUNCTION: usize = 2;
const WORKGROUPS: [usize; 3] = [3, 4, 5];
/// Constants follow, then bindings, each of several arguments.
pub(super) const BEFORE_CONSTANTS: usize = 7;

/// The import that dispatches functions with a count from a buffer. Its function is the same argument.
const DISPATCH_INDIRECT: &str = "hal.command_buffer.dispatch.indirect";

/// The dispatches of a module, with the integers that they are passed.
pub(super) struct ModuleCounts {
    terms: Terms,
    dispatches: Vec<ModuleDispatch>,
}

struct ModuleDispatch {
    /// The name of the function, if the code has it as a constant.
    function: Option<String>,
    /// The count, unless a buffer has it.
    count: Option<[Term; 3]>,
    /// Constants, then bindings.
    arguments: Vec<Term>,
}

impl ModuleCounts {
    pub(super) fn new(module: &ModuleFile) -> Result<Self> {
        let (mut terms, mut dispatches) = (Terms::default(), Vec::new());
        for (import, is_indirect) in [(DISPATCH, false), (DISPATCH_INDIRECT, true)] {
            for call in module.calls_with_terms(import, &mut terms)? {
                let rodata = call.get(FUNCTION).and_then(|it| it.rodata);
                let name = rodata.and_then(|it| module.bytes().get(module.rodata(it)?.range));
                let [x, y, z] = WORKGROUPS.map(|it| call.get(it)?.term);
                let count = x.zip(y).zip(z).map(|((x, y), z)| [x, y, z]).filter(|_| !is_indirect);
                // Bindings are references and integers.
                let arguments = call.get(BEFORE_CONSTANTS..).unwrap_or_default();
                dispatches.push(ModuleDispatch {
                    function: name.map(|it| String::from_utf8_lossy(it).into_owned()),
                    count,
                    arguments: arguments.iter().map_while(|it| it.term).collect(),
                });
            }
        }
        Ok(Self { terms, dispatches })
    }

    /// Fails unless each dispatch of a function has the count that its replacement, `place` in errors, needs.
    pub(super) fn check(
        &self,
        function: &FunctionInfo,
        needed: &NeededWorkgroups,
        place: &str,
    ) -> Result<()> {
        let name = function.name.escape_debug();
        let formula = match needed {
            NeededWorkgroups::Same => return Ok(()),
            NeededWorkgroups::Unknown(_) => {
                return needed
                    .count(&[], false)
                    .map(drop)
                    .context(|| format!("function '{name}' of {place}"));
            }
            NeededWorkgroups::Count(count) => &constant(*count),
            NeededWorkgroups::Computed(formula) => &**formula,
        };
        let may_be = |it: &&ModuleDispatch| it.function.as_ref().is_none_or(|it| *it == function.name);
        for dispatch in self.dispatches.iter().filter(may_be) {
            let constants =
                dispatch.arguments.get(..usize::from(function.constant_count)).unwrap_or_default();
            let count = dispatch.count;
            if count.is_some_and(|count| same(&self.terms, constants, &count, formula)) {
                continue;
            }
            let [x, y, z] = count.map_or([None; 3], |counts| counts.map(|it| self.terms.value(it)));
            let has = match (dispatch.function.is_some(), count, x.zip(y).zip(z)) {
                (_, None, _) => "reads the count of a dispatch from a buffer".into(),
                (true, _, Some(((x, y), z))) => format!("dispatches {x}x{y}x{z}"),
                (true, _, None) => "computes another count, or in a way that cannot be compared".into(),
                (false, ..) => "dispatches functions whose names are not in its code".into(),
            };
            let needs = match needed.constant() {
                Some([x, y, z]) => format!("{place} needs {x}x{y}x{z} workgroups for '{name}'"),
                None => format!("{place} computes the workgroup count of '{name}'"),
            };
            return Err(Error::failed_precondition(format!("{needs}, and the module {has}"))
                .advise(Remedy::CompileWithSource));
        }
        Ok(())
    }
}

fn constant(count: [u32; 3]) -> Formula {
    let mut terms = Terms::default();
    let results = count.map(|it| terms.constant(it.into()));
    // Constants are known.
    Formula::new(&terms, &results).unwrap_or_default()
}
