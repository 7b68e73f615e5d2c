//! The observations of a catalog on one function, for a kernel that replaces it.

use rehal_base::{Advice, Error, FileKind, Remedy, Result, listed, nearest};
use rehal_build::{ObservedBinding, ObservedKernel, ObservedShape};
use rehal_devices::{drivers, find_format};
use rehal_hal::FunctionInfo;
use rehal_judge::ComparedShape;
use rehal_replay::{ExecutableRecord, Plan};

use super::{Kernel, Kernels};
use crate::kernel_record::words;

impl Kernels {
    /// The function with this name, and its dispatches in this catalog; of the executable with this id only,
    /// if one is given. `plan` is what the catalog is of.
    ///
    /// Fails if there is no such function, or if executables have functions of this name with different
    /// signatures.
    #[doc(hidden)]
    pub fn observed(
        &self,
        plan: &Plan,
        function: &str,
        executable_id: Option<u64>,
    ) -> Result<ObservedKernel> {
        let executables: Vec<_> = plan.executables().collect();
        if let Some(id) = executable_id
            && !executables.iter().any(|it| it.id == id)
        {
            let ids: Vec<_> = executables.iter().map(|it| it.id.to_string()).collect();
            return Err(Error::not_found(format!("the capture has no executable {id}"))
                .advise(format!("its executables are {}", ids.join(", "))));
        }
        let considered = || executables.iter().filter(|it| executable_id.is_none_or(|id| it.id == id));
        let mut found: Vec<(&ExecutableRecord<'_>, FunctionInfo)> = Vec::new();
        for executable in considered() {
            let info = executable.function_infos().into_iter().find(|info| info.name == function);
            found.extend(info.map(|info| (executable, info)));
        }
        let Some((first, info)) = found.first() else {
            let infos = considered().flat_map(ExecutableRecord::function_infos);
            return Err(no_function(function, infos.map(|info| info.name)));
        };
        let is_other = |(it, of): &&(&ExecutableRecord<'_>, FunctionInfo)| {
            of != info || it.constants.len() != first.constants.len()
        };
        if let Some((other, _)) = found.iter().find(is_other) {
            let (name, [id, other]) = (function.escape_debug(), [first.id, other.id]);
            let message =
                format!("function '{name}' has different signatures in executables {id} and {other}");
            return Err(Error::failed_precondition(message));
        }
        let ids: Vec<u64> = found.iter().map(|(it, _)| it.id).collect();
        let mut kernel =
            ObservedKernel::new(ids.clone(), String::from_utf8_lossy(first.format), info.clone());
        kernel.is_selected_by_id = executable_id.is_some();
        let registry = drivers();
        let others = registry.drivers().iter().filter(|it| !it.has_files_of(FileKind::Elf));
        kernel.driver = others.filter(|it| it.has_format(&kernel.format)).map(|it| it.name().into()).next();
        let format = find_format(&registry, &kernel.format);
        kernel.target = format.and_then(|it| (it.target)(&kernel.format, first.data));
        kernel.extensions = format.map_or(&[], |it| it.extensions);
        kernel.specialization_constants = words(first.constants);
        let of = |kernel: &&Kernel| kernel.name == function && ids.contains(&kernel.executable_id);
        let shapes = self.kernels.iter().filter(of);
        kernel.shapes = shapes.map(|it| shape(it, self.sample_count)).collect();
        Ok(kernel)
    }

    /// The dispatches of the function with this name, for a comparison with replacements. Fails as
    /// [`Kernels::observed`].
    pub fn compared(&self, plan: &Plan, function: &str) -> Result<Vec<ComparedShape>> {
        self.observed(plan, function, None)?;
        let compared = |kernel: &Kernel| {
            let mut shape = ComparedShape::default();
            (shape.record, shape.occurrence) = (kernel.location.ordinal, kernel.occurrence);
            shape.count = kernel.count;
            shape
        };
        Ok(self.kernels.iter().filter(|kernel| kernel.name == function).map(compared).collect())
    }
}

fn shape(kernel: &Kernel, sample_count: u64) -> ObservedShape {
    let mut shape = ObservedShape::default();
    shape.count = kernel.count;
    shape.record = kernel.location.ordinal;
    shape.workgroup_count = kernel.workgroup_count;
    shape.dynamic_local_memory = kernel.dynamic_local_memory;
    shape.constants.clone_from(&kernel.constants);
    (shape.time_ns, shape.interval_ns) = (kernel.time_ns, kernel.interval_ns);
    shape.sample_count = sample_count;
    let binding = |(index, it): (usize, &super::KernelBinding)| {
        let mut binding = ObservedBinding::default();
        (binding.length, binding.alias_of, binding.is_written) = (it.length, it.alias_of, it.is_written);
        binding.changed = it.changed;
        binding.changed_ranges = kernel.changed_ranges(index).map(<[_]>::to_vec);
        binding.accessed_ranges = kernel.accessed_ranges(index).map(<[_]>::to_vec);
        binding
    };
    shape.bindings = kernel.bindings.iter().enumerate().map(binding).collect();
    shape
}

/// The error of a name that none of these functions has.
pub(super) fn no_function(function: &str, names: impl Iterator<Item = String>) -> Error {
    let (shown, advice) = alike(function, names);
    let function = function.escape_debug();
    Error::not_found(format!("the capture has no function '{function}'; it has: {shown}")).advise(advice)
}

/// The error of a pattern that none of these kernels matches.
pub(super) fn no_match(pattern: &str, kernels: &[Kernel]) -> Error {
    let (shown, advice) = alike(pattern, kernels.iter().map(|kernel| kernel.name.clone()));
    let message = format!("no dispatched function matches '{}'", pattern.escape_debug());
    Error::not_found(format!("{message}; the capture dispatches: {shown}")).advise(advice)
}

/// The names that are not empty, each once and not too many, and advice about one that is none of them.
pub(super) fn alike(function: &str, all: impl Iterator<Item = String>) -> (String, Advice) {
    let mut names: Vec<String> = Vec::new();
    for name in all {
        if !name.is_empty() && !names.contains(&name) {
            names.push(name);
        }
    }
    let advice = match nearest(function, names.iter().map(String::as_str)) {
        Some(name) => Advice::Text(format!("did you mean '{}'?", name.escape_debug())),
        None if names.is_empty() => Advice::Remedy(Remedy::SurveyCapture),
        None => Advice::Text("name one of them".into()),
    };
    let shown = match names.is_empty() {
        true => "no named functions".into(),
        false => listed(names.iter().map(|it| it.escape_debug())),
    };
    (shown, advice)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without this test, the error of a capture without names may list names, or advise to name one.
    #[test]
    fn names_are_listed_once() {
        let of = |function: &str, names: &[&str]| {
            let (shown, advice) = alike(function, names.iter().map(|name| (*name).to_owned()));
            (shown, advice)
        };
        let text = |text: &str| Advice::Text(text.to_owned());
        assert_eq!(of("sun", &["", "sum", "sum"]), ("sum".to_owned(), text("did you mean 'sum'?")));
        assert_eq!(of("x", &["sum", "product"]), ("sum, product".to_owned(), text("name one of them")));
        assert_eq!(of("x", &[""]), ("no named functions".to_owned(), Advice::Remedy(Remedy::SurveyCapture)));
    }
}
