//! Flags of the tools that compile programs, and the compiler that they select.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rehal::program::ModuleSource;
use rehal_base::{Error, Result};
use rehal_build::{
    Compilation, Compiled, Compiler, CompilerOptions, CompilerSetup, build_substitutes, compile_dispatches,
    is_program_source, target_flags,
};
use rehal_devices::drivers;
use rehal_hal::NeededWorkgroups;
use rehal_replay::{Code, DispatchedFunction, Plan, ResolvedSubstitutions, Selector, Substitution};

use crate::flags::{DEVICE, Flag, Flags, Group, List, Refusal, read, size, text, time};
use crate::{interrupts, output};

/// The compiler.
pub(crate) const COMPILER: Flag<Option<PathBuf>> = Flag::path(
    "compiler",
    "The compiler: an iree-compile, or a virtual environment that has it. Default: REHAL_COMPILER in the environment, the \
     package iree-base-compiler of the active Python, PATH.",
)
.files(read);

/// Whether output is kept.
pub(crate) const NO_CACHE: Flag<bool> = Flag::switch(
    "no_cache",
    false,
    "Compiles again what was compiled before. By default, output is kept in REHAL_CACHE_DIR, or in rehal of the user's \
     directory of caches, up to 4 GiB.",
);

/// The longest time of a compilation.
pub(crate) const COMPILER_TIMEOUT: Flag<Option<Duration>> = Flag::parsed(
    "compiler_timeout",
    "TIME",
    "",
    "a time from 1ms to 24h, such as 500ms, 60s or 2m",
    |value| if value.is_empty() { Ok(None) } else { time(value).map(Some) },
    "The longest time of a compilation. Default: no limit.",
);

/// The memory of a compilation.
pub(crate) const COMPILER_MEMORY: Flag<Option<u64>> = Flag::parsed(
    CompilerSetup::MEMORY_LIMIT,
    "SIZE",
    "0",
    "bytes, or a size such as 512MiB, 1.5GiB or 2GB",
    |value| Ok(Some(size(value)?).filter(|it| *it != 0)),
    "The memory that a compilation may allocate: bytes, or a size such as 4GiB. 0: no limit.",
)
.unquoted();

/// The target that a program is compiled for.
pub(crate) const TARGET: Flag<Vec<String>> = Flag::parsed(
    "target",
    "NAME[:CHIP]",
    "",
    "cpu, vulkan, cuda or hip, each with :CHIP behind it or without",
    |value| match value.to_str() {
        Some("") => Ok(Vec::new()),
        Some(text) => Ok(target_flags(text)?),
        None => Err(Refusal::Unexpected),
    },
    "What the program is compiled for, short for flags of the compiler: cpu is this machine's processor, cpu:generic any \
     of its architecture, cpu:aarch64/generic any of another one; vulkan:rdna3, cuda:sm_80 and hip:gfx942 name GPUs as the compiler does.",
);

/// Arguments of the compiler.
pub(crate) const COMPILER_FLAG: List<OsString> = List::parsed(
    "compiler_flag",
    "FLAG",
    "an argument of the compiler",
    |value| Ok(value.to_owned()),
    "Passes an argument to the compiler of sources: programs, and dispatches that replace executables. May be repeated. By \
     default, programs are compiled for the first --device of tools that run them.",
);

/// States the workgroups of replacements that do not say what they need.
pub(crate) const WORKGROUPS: List<StatedWorkgroups> = List::parsed(
    "workgroup_count",
    "[FUNCTION=]X,Y,Z",
    "[FUNCTION=]X,Y,Z, or [FUNCTION=]same",
    StatedWorkgroups::parse,
    "The workgroups that a replacement needs for FUNCTION, or for all its functions, if it is not a source of the compiler, which \
     says it: X,Y,Z, or same for those of the replaced function. Kernels in C and Rust, and other code whose compiler is not that \
     of programs, need the same by default. May be repeated.",
);

/// The workgroups of a function as a flag states them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StatedWorkgroups {
    /// The name of the function; `None` for all.
    function: Option<String>,
    needed: NeededWorkgroups,
}

impl StatedWorkgroups {
    fn parse(value: &OsStr) -> Result<Self, Refusal> {
        let value = &*text(value)?;
        let (function, count) = match value.rsplit_once('=') {
            Some(("", _)) => return Err(Refusal::Unexpected),
            Some((function, count)) => (Some(function.to_owned()), count),
            None => (None, value),
        };
        let numbers: Option<Vec<u32>> = count.split(',').map(|it| it.trim().parse().ok()).collect();
        let needed = match numbers.as_deref() {
            Some(&[x, y, z]) => NeededWorkgroups::Count([x, y, z]),
            _ if count == "same" => NeededWorkgroups::Same,
            _ => return Err(Refusal::Unexpected),
        };
        Ok(Self { function, needed })
    }
}

/// The flags of tools that compile sources.
pub(crate) const COMPILING: Group = Group {
    title: "Compilation of sources",
    flags: &[&COMPILER, &COMPILER_FLAG, &NO_CACHE, &COMPILER_TIMEOUT, &COMPILER_MEMORY],
};

/// How the compiler is found and run.
fn setup(flags: &Flags) -> CompilerSetup {
    let mut setup = CompilerSetup::default();
    setup.path = flags.get(&COMPILER);
    setup.caches = !flags.get(&NO_CACHE);
    setup.time = flags.get(&COMPILER_TIMEOUT);
    setup.memory_bytes = flags.get(&COMPILER_MEMORY);
    setup
}

/// The compiler that the flags of a tool select. Warns if it is of another release than the tools.
pub(crate) fn compiler(flags: &Flags) -> Result<Compiler> {
    checked(&setup(flags))
}

fn checked(setup: &CompilerSetup) -> Result<Compiler> {
    interrupts::handle();
    let compiler = Compiler::find(setup)?;
    if let Some(why) = compiler.refused_cache() {
        output::note(&format!(
            "warning: {why}; make it this user's alone (chmod go-w), or name another directory: REHAL_CACHE_DIR=PATH"
        ));
    }
    if compiler.version().is_other() {
        let (version, path) = (compiler.version(), compiler.path().display());
        output::note(&format!(
            "warning: '{path}' is of release {version}, and rehal follows 3.13: other releases write modules that may not run here"
        ));
    }
    Ok(compiler)
}

/// How sources that replace executables are compiled.
#[derive(Clone, Debug)]
pub(crate) struct SubstituteCompiler {
    setup: CompilerSetup,
    arguments: Vec<OsString>,
    pub workgroups: Vec<StatedWorkgroups>,
}

impl SubstituteCompiler {
    pub(crate) fn from_flags(flags: &Flags) -> Self {
        Self { workgroups: flags.list(&WORKGROUPS), ..Self::for_sources(flags) }
    }

    /// For a tool to which workgroups do not matter.
    pub(crate) fn for_sources(flags: &Flags) -> Self {
        Self { arguments: flags.list(&COMPILER_FLAG), ..Self::for_kernels(flags) }
    }

    /// For a tool without arguments of the compiler of dispatches.
    pub(crate) fn for_kernels(flags: &Flags) -> Self {
        Self { setup: setup(flags), arguments: Vec::new(), workgroups: Vec::new() }
    }

    /// The substitutions in a plan, with exact selectors. Their sources are compiled. `own_names` is that of
    /// [`ResolvedSubstitutions::in_capture`].
    pub(crate) fn resolve(
        &self,
        substitutions: &[Substitution],
        plan: &Plan,
        own_names: &dyn Fn() -> Result<Vec<String>>,
    ) -> Result<Vec<Substitution>> {
        let [resolved] = self.resolve_each([substitutions], plan, own_names)?;
        Ok(resolved)
    }

    /// The same of several lists. Flags state the workgroups of all together.
    pub(crate) fn resolve_each<const N: usize>(
        &self,
        lists: [&[Substitution]; N],
        plan: &Plan,
        own_names: &dyn Fn() -> Result<Vec<String>>,
    ) -> Result<[Vec<Substitution>; N]> {
        let mut resolved = self.resolve_lists(&lists, plan, own_names)?.into_iter();
        Ok(std::array::from_fn(|_| resolved.next().unwrap_or_default()))
    }

    fn resolve_lists(
        &self,
        lists: &[&[Substitution]],
        plan: &Plan,
        own_names: &dyn Fn() -> Result<Vec<String>>,
    ) -> Result<Vec<Vec<Substitution>>> {
        let (mut all, mut counts) = (Vec::new(), vec![0; lists.len()]);
        for (list, count) in lists.iter().zip(&mut counts).filter(|(list, _)| !list.is_empty()) {
            let mut resolved = ResolvedSubstitutions::in_capture(plan, list, own_names)?;
            self.build_unstated(&mut resolved, false)?;
            *count = resolved.substitutions.len();
            all.append(&mut resolved.substitutions);
        }
        state_workgroups(&self.workgroups, &mut all)?;
        let mut all = all.into_iter();
        Ok(counts.into_iter().map(|count| all.by_ref().take(count).collect()).collect())
    }

    /// The substitutions with compiled code, for captures that have parts of the plan: a selector stays as it
    /// was given if all that it selects is replaced by the same code.
    pub(crate) fn compiled(
        &self,
        substitutions: &[Substitution],
        plan: &Plan,
        own_names: &dyn Fn() -> Result<Vec<String>>,
    ) -> Result<Vec<Substitution>> {
        let lists: Vec<_> = substitutions.chunks(1).collect();
        let resolved = self.resolve_lists(&lists, plan, own_names)?;
        let compiled = |(given, found): (&Substitution, Vec<Substitution>)| {
            let is_directory = matches!(&given.replacement.code, Code::File(path) if path.is_dir());
            match &found[..] {
                [first, rest @ ..]
                    if !is_directory && rest.iter().all(|it| it.replacement == first.replacement) =>
                {
                    vec![Substitution::new(given.selector.clone(), first.replacement.clone())]
                }
                _ => found,
            }
        };
        Ok(substitutions.iter().zip(resolved).flat_map(compiled).collect())
    }

    /// Compiles the sources, and notes the files that replace nothing.
    pub(crate) fn build(&self, resolved: &mut ResolvedSubstitutions) -> Result<()> {
        self.build_unstated(resolved, false)?;
        state_workgroups(&self.workgroups, &mut resolved.substitutions)
    }

    /// The same for a module that is written, which keeps how often it calls a function.
    pub(crate) fn build_for_module(&self, resolved: &mut ResolvedSubstitutions) -> Result<()> {
        self.build_unstated(resolved, true)?;
        state_workgroups(&self.workgroups, &mut resolved.substitutions)
    }

    fn build_unstated(&self, resolved: &mut ResolvedSubstitutions, is_for_module: bool) -> Result<()> {
        for path in &resolved.unmatched {
            output::note(&format!("note: '{}' has the name of no executable", path.display()));
        }
        let mut options = CompilerOptions::default();
        options.functions.clone_from(&resolved.functions);
        options.is_for_module = is_for_module;
        self.compile_unstated(&mut resolved.substitutions, &resolved.dispatched, &options)
    }

    /// Compiles the sources. The options are those of kernels in C.
    pub(crate) fn compile(
        &self,
        substitutions: &mut [Substitution],
        options: &CompilerOptions,
    ) -> Result<()> {
        self.compile_unstated(substitutions, &[], options)?;
        state_workgroups(&self.workgroups, substitutions)
    }

    /// The same of sources that must be for the bindings of the dispatches.
    fn compile_unstated(
        &self,
        substitutions: &mut [Substitution],
        dispatched: &[DispatchedFunction],
        options: &CompilerOptions,
    ) -> Result<()> {
        if !substitutions.is_empty() {
            interrupts::handle();
        }
        build_substitutes(substitutions, options, |_, messages| output::note(messages))?;
        let mut compiler = || checked(&self.setup);
        compile_dispatches(substitutions, dispatched, &self.arguments, &mut compiler, |_, messages| {
            output::note(messages);
        })
    }
}

/// States the workgroups of replacements: those of a function of the only one, or of the one that it selects.
pub(crate) fn state_workgroups(
    stated: &[StatedWorkgroups],
    substitutions: &mut [Substitution],
) -> Result<()> {
    let is_only = substitutions.len() == 1;
    // What is stated holds, whatever a compiler says.
    let is_restated =
        |name: &Option<String>| stated.iter().any(|it| it.function.is_none() || it.function == *name);
    for Substitution { replacement, .. } in substitutions.iter_mut() {
        replacement.workgroups.retain(|(name, _)| !is_restated(name));
    }
    for StatedWorkgroups { function, needed } in stated {
        // Whether another has the function is not known here.
        let is_of = |it: &Substitution| match (function, &it.selector) {
            (None, _) => true,
            (Some(function), Selector::Name(name)) if name == function => true,
            (Some(_), _) => is_only,
        };
        let mut is_stated = substitutions.is_empty();
        for Substitution { replacement, .. } in substitutions.iter_mut().filter(|it| is_of(it)) {
            replacement.workgroups.push((function.clone(), needed.clone()));
            is_stated = true;
        }
        if !is_stated {
            let name = function.as_deref().unwrap_or_default().escape_debug();
            let advice = format!("give --{} the name by which a function is replaced", WORKGROUPS.name());
            return Err(Error::not_found(format!("no replacement is of function '{name}'")).advise(advice));
        }
    }
    Ok(())
}

/// Compiles the modules that are sources, for the first device of the flags unless flags of the compiler name
/// another.
pub(crate) fn compile_modules(flags: &Flags, modules: &mut [ModuleSource]) -> Result<()> {
    let mut found = None;
    for module in modules {
        let Some(path) = module.path().filter(|it| is_program_source(it)).map(PathBuf::from) else {
            continue;
        };
        let compiler = match &found {
            Some(compiler) => compiler,
            None => found.insert(compiler(flags)?),
        };
        let arguments = arguments(flags, || device_target(flags));
        let compiled = compile(compiler, &Compilation::new(path, arguments))?;
        *module = ModuleSource::Bytes(Arc::from(compiled.bytes()));
    }
    Ok(())
}

/// The arguments of the compiler, with `target` before them unless they name one.
pub(crate) fn arguments(flags: &Flags, target: impl FnOnce() -> Vec<String>) -> Vec<OsString> {
    let mut arguments = flags.list(&COMPILER_FLAG);
    let is_target = |it: &OsString| it.to_string_lossy().replace('_', "-").starts_with("--iree-hal-target-");
    if !arguments.iter().any(is_target) {
        arguments.splice(0..0, target().into_iter().map(OsString::from));
    }
    arguments
}

/// The flags of the compiler for the first device of the flags.
fn device_target(flags: &Flags) -> Vec<String> {
    let device = flags.list(&DEVICE).into_iter().next();
    let driver = device.as_deref().map(|uri| uri.split_once("://").map_or(uri, |(driver, _)| driver));
    let registry = drivers();
    let target = driver.and_then(|name| registry.find(name).ok()?.backend().compiler_target());
    target_flags(target.map_or("cpu", |it| it.name)).unwrap_or_default()
}

/// Compiles, and prints what the compiler prints.
pub(crate) fn compile(compiler: &Compiler, compilation: &Compilation) -> Result<Compiled> {
    let compiled = compiler.compile(compilation)?;
    if !compiled.messages.trim().is_empty() {
        output::note(compiled.messages.trim_end());
    }
    Ok(compiled)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workgroups_are_stated_of_a_function_or_of_all() {
        let parse = |value: &str| {
            let it = StatedWorkgroups::parse(OsStr::new(value)).ok()?;
            Some((it.function, it.needed))
        };
        let count = NeededWorkgroups::Count;
        assert_eq!(parse("1,2,3"), Some((None, count([1, 2, 3]))));
        assert_eq!(parse("a=b=20,1, 1"), Some((Some("a=b".into()), count([20, 1, 1]))));
        assert_eq!(parse("f=same"), Some((Some("f".into()), NeededWorkgroups::Same)));
        for wrong in ["", "1,2", "1,2,3,4", "=1,2,3", "f=", "f", "-1,1,1", "4294967296,1,1"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn workgroups_are_those_of_the_replacement_of_a_function() {
        let named = |name: &str| Substitution::parse(&format!("{name}=x.so")).unwrap();
        let state = |value: &str, mut all: Vec<Substitution>| {
            let stated = [StatedWorkgroups::parse(OsStr::new(value)).ok()?];
            state_workgroups(&stated, &mut all).ok()?;
            Some(all.iter().map(|it| it.replacement.workgroups.len()).collect::<Vec<_>>())
        };
        assert_eq!(state("same", vec![named("a"), named("b")]), Some(vec![1, 1]));
        assert_eq!(state("b=same", vec![named("a"), named("b"), named("4")]), Some(vec![0, 1, 0]));
        assert_eq!(state("f=1,1,1", vec![named("4")]), Some(vec![1]));
        assert_eq!(state("f=1,1,1", vec![named("a"), named("4")]), None);
        assert_eq!(state("f=1,1,1", Vec::new()), Some(Vec::new()));
        let mut compiled = named("a");
        compiled.replacement.workgroups.push((Some("f".into()), NeededWorkgroups::Count([9; 3])));
        for value in ["f=1,1,1", "1,1,1"] {
            assert_eq!(state(value, vec![compiled.clone()]), Some(vec![1]), "{value}");
        }
        assert_eq!(state("g=1,1,1", vec![compiled]), Some(vec![2]));
    }
}
