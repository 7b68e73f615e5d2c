use rehal_base::{Context as _, Error, Result, StatusCode};

use crate::globals::Globals;
use crate::interpret::{Instance, ModuleView, Target};
use crate::module::ModuleKind;
use crate::operation::Op;
use crate::program::Program;
use crate::tables::Import;
use crate::{Module, ModuleFile, Signal, State};

/// A module in a context: its state, and its imports bound to earlier modules.
pub(crate) struct Linked {
    module: Module,
    state: ModuleState,
}

enum ModuleState {
    Native(State),
    Bytecode(Instance),
}

/// Instantiates a module in a new context, optionally traced, and resolves its imports to the modules in
/// `before`.
pub(crate) fn link(before: &[Linked], module: &Module, is_traced: bool) -> Result<Linked> {
    let state = match module.kind() {
        ModuleKind::Native(native) => {
            ModuleState::Native(native.new_state().context(|| format!("loading module '{}'", module.name()))?)
        }
        ModuleKind::Bytecode { program, .. } => ModuleState::Bytecode(
            instance(before, program, is_traced)
                .context(|| format!("resolving the imports of module '{}'", module.name()))?,
        ),
    };
    Ok(Linked { module: module.clone(), state })
}

impl Linked {
    pub(crate) fn module(&self) -> &Module {
        &self.module
    }

    pub(crate) fn native_state(&self) -> Option<&State> {
        match &self.state {
            ModuleState::Native(state) => Some(state),
            ModuleState::Bytecode(_) => None,
        }
    }

    pub(crate) fn notify(&self, signal: Signal) -> Result<()> {
        match self.view() {
            ModuleView::Native { native, state, .. } => native.notify(state, signal),
            ModuleView::Bytecode { .. } => Ok(()),
        }
    }

    /// The interpreter's reference to the export; `index` is this module's index in its context.
    pub(crate) fn target(&self, index: usize, export: usize) -> Target {
        let ordinal = match self.module.kind() {
            ModuleKind::Native(_) => export as u32,
            ModuleKind::Bytecode { functions, .. } => functions[export],
        };
        Target { module: index as u32, ordinal }
    }

    #[inline]
    pub(crate) fn view(&self) -> ModuleView<'_> {
        match (self.module.kind(), &self.state) {
            (ModuleKind::Native(native), ModuleState::Native(state)) => {
                ModuleView::Native { module: &self.module, native: &**native, state }
            }
            (ModuleKind::Bytecode { program, .. }, ModuleState::Bytecode(instance)) => {
                ModuleView::Bytecode { program, instance }
            }
            _ => unreachable!("`link` gives each module the state of its kind"),
        }
    }
}

fn instance(before: &[Linked], program: &Program, is_traced: bool) -> Result<Instance> {
    check_dependencies(before, &program.file)?;
    let imports = program.tables.imports.iter().map(|import| resolve(before, import));
    let imports = imports.collect::<Result<_>>()?;
    let tables = &program.tables;
    let globals = Globals::new(tables.global_bytes, tables.global_refs, uses_wide_globals(program));
    let codes = if is_traced { program.traceable()? } else { program.codes.clone() };
    Ok(Instance { codes, globals, imports })
}

/// Whether any instruction makes an 8-byte access to globals.
fn uses_wide_globals(program: &Program) -> bool {
    use crate::code::Insn;
    program.codes.iter().flat_map(|code| &code.insns).any(|insn| {
        matches!(
            insn,
            Insn::GlobalLoad64 { .. }
                | Insn::GlobalStore64 { .. }
                | Insn::Routine {
                    op: Op::GlobalLoadIndirectI64
                        | Op::GlobalLoadIndirectF64
                        | Op::GlobalStoreIndirectI64
                        | Op::GlobalStoreIndirectF64,
                    ..
                }
        )
    })
}

/// Checks that dependencies are present and recent enough: a better error than a missing function.
fn check_dependencies(before: &[Linked], file: &ModuleFile) -> Result<()> {
    for dependency in file.dependencies() {
        let (name, minimum) = (dependency.name, dependency.minimum_version);
        match before.iter().rev().find(|linked| linked.module.name() == name) {
            None if dependency.optional => {}
            None => {
                return Err(Error::not_found(format!(
                    "the module needs version {minimum} or later of module '{name}', which is missing"
                )));
            }
            Some(found) if !dependency.optional && found.module.version() < minimum => {
                return Err(Error::new(
                    StatusCode::NotFound,
                    format!(
                        "the module needs version {minimum} or later of module '{name}', found \
                         version {}",
                        found.module.version()
                    ),
                ));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// The target of an import; `None` if it is optional and no module exports it.
fn resolve(before: &[Linked], import: &Import) -> Result<Option<Target>> {
    let full_name = &*import.full_name;
    let Some((module, function)) = full_name.split_once('.') else {
        return Err(Error::invalid_argument(format!(
            "invalid import name '{full_name}' (expected module.function)"
        )));
    };
    let found = before.iter().rposition(|linked| linked.module.name() == module);
    let export = found.and_then(|index| Some((index, before[index].module.export(function)?)));
    let Some((index, export)) = export else {
        if import.is_optional {
            return Ok(None);
        }
        let why = match found {
            Some(index) => {
                format!("module '{module}' version {} does not export it", before[index].module.version())
            }
            None => format!("module '{module}' is missing"),
        };
        return Err(Error::not_found(format!(
            "unresolved import '{full_name}' with calling convention {}: {why}",
            import.convention
        )));
    };
    let provider = &before[index];
    let convention = &provider.module.exports()[export].convention;
    if !convention.is_same_call(&import.convention) {
        return Err(Error::new(
            StatusCode::Internal,
            format!(
                "the import '{full_name}' has calling convention {}, and module '{module}' version {} has {}: \
                 they are of different releases",
                import.convention,
                provider.module.version(),
                convention
            ),
        ));
    }
    Ok(Some(provider.target(index, export)))
}
