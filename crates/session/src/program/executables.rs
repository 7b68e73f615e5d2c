//! Executables in compiled modules: lists them, and replaces them, in a running program or in the file.

use std::sync::Arc;

use rehal_base::{Context, Error, FileKind, Result, StatusCode};
use rehal_hal::{CachingMode, Device, Executable, ExecutableParams, FunctionInfo};
use rehal_modules::hal;
use rehal_replay::{
    DispatchedFunction, ExecutableNames, ProgramSubstitutes, REPLACE_WHOLE, ResolvedSubstitutions, Selector,
    Substitution, check_whole,
};
use rehal_vm::ModuleFile;

use super::{ProgramModule, ProgramOptions};
use crate::{
    DeviceOptions, DeviceSpec, ExecutableSource, LoadOptions, LoadedExecutable, driver_of_format, drivers,
};

/// The import with which programs create executables.
const CREATE: &str = "hal.executable.create";
/// Positions of its arguments.
const FORMAT: usize = 2;
const DATA: usize = 3;

/// The import with which they dispatch functions, and positions of its arguments.
const DISPATCH: &str = "hal.command_buffer.dispatch";
const FUNCTION: usize = 2;
const WORKGROUPS: [usize; 3] = [3, 4, 5];
/// Constants follow, then bindings, each of several arguments.
const BEFORE_CONSTANTS: usize = 7;
const BINDING: usize = 5;

/// An executable of a compiled module.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ModuleExecutable {
    /// Its number in the module, from 1, in the order in which the module's code creates executables.
    pub number: u64,
    /// The rodata segment with its code.
    pub segment: usize,
    /// Its format, such as `embedded-elf-x86_64`; empty if the module does not name it by a constant.
    pub format: String,
    /// The file name that the module lists for it, such as `abs_dispatch_0_embedded_elf_x86_64.so`.
    pub file_name: Option<String>,
}

impl ModuleExecutable {
    /// The executables of a module, each once.
    pub fn list(module: &ModuleFile) -> Result<Vec<Self>> {
        let names = module.rodata_names();
        let mut executables: Vec<Self> = Vec::new();
        for call in module.calls_with_constants(CREATE)? {
            let segment = |argument: usize| call.get(argument)?.rodata;
            let Some(data) = segment(DATA) else { continue };
            if executables.iter().any(|it| it.segment == data) {
                continue;
            }
            let format = segment(FORMAT).and_then(|segment| module.rodata(segment));
            let format = format.and_then(|segment| module.bytes().get(segment.range)).unwrap_or_default();
            executables.push(Self {
                number: executables.len() as u64 + 1,
                segment: data,
                format: String::from_utf8_lossy(format).into_owned(),
                file_name: names.get(data).cloned().flatten(),
            });
        }
        Ok(executables)
    }

    /// Its code.
    pub fn code<'m>(&self, module: &'m ModuleFile) -> &'m [u8] {
        let segment = module.rodata(self.segment);
        segment.and_then(|segment| module.bytes().get(segment.range)).unwrap_or_default()
    }

    /// Its name: that of its file without the format and the extension, such as `abs_dispatch_0`; otherwise
    /// `executable_N`.
    pub fn name(&self) -> String {
        let Some(file_name) = &self.file_name else { return format!("executable_{}", self.number) };
        let stem = file_name.rsplit_once('.').map_or(file_name.as_str(), |(stem, _)| stem);
        let suffix = format!("_{}", self.format.replace('-', "_"));
        stem.strip_suffix(&suffix).unwrap_or(stem).to_owned()
    }

    /// The extension of a file with its code.
    pub fn extension(&self, module: &ModuleFile) -> &'static str {
        FileKind::from_head(self.code(module)).map_or("bin", FileKind::extension)
    }

    /// Its functions, which it is loaded to find: that runs its initializers and its query function, with the
    /// privileges of the process, but no kernel. Fails if no device of this machine loads it.
    pub fn functions(&self, module: &ModuleFile) -> Result<Vec<FunctionInfo>> {
        Ok(self.load(module)?.functions().to_vec())
    }

    fn load(&self, module: &ModuleFile) -> Result<LoadedExecutable> {
        let registry = drivers();
        let driver = driver_of_format(&registry, &self.format)?.ok_or_else(|| {
            Error::unimplemented(format!("no driver is known for format '{}'", self.format))
        })?;
        let devices = DeviceOptions::for_devices(vec![DeviceSpec::find(driver)?]).open()?;
        let device = devices.devices().first().ok_or_else(|| Error::not_found("no device"))?;
        self.load_on(device, module)
    }

    fn load_on(&self, device: &Device, module: &ModuleFile) -> Result<LoadedExecutable> {
        let options = LoadOptions { format: Some(self.format.clone()), ..LoadOptions::default() };
        let source = ExecutableSource::Bytes(self.code(module).into());
        LoadedExecutable::load(device, &source, &options)
    }
}

impl ModuleExecutable {
    /// Adds its names, with those of its functions if it is loaded.
    fn name_in(&self, names: &mut ExecutableNames, loaded: Option<&LoadedExecutable>) {
        let functions = loaded.map_or(&[][..], LoadedExecutable::functions).iter();
        names.add(self.number, &self.name(), &self.format, functions.map(|it| it.name.clone()));
        if let Some(file_name) = &self.file_name {
            names.add_alias(self.number, file_name);
        }
    }
}

/// The dispatches of a module.
fn dispatched(module: &ModuleFile) -> Result<Vec<DispatchedFunction>> {
    let calls = module.calls_with_constants(DISPATCH)?;
    let dispatched = calls.iter().filter_map(|call| {
        let name = call.get(FUNCTION)?.rodata.and_then(|it| module.bytes().get(module.rodata(it)?.range));
        let name = String::from_utf8_lossy(name.unwrap_or_default()).into_owned();
        let [x, y, z] = WORKGROUPS.map(|it| u32::try_from(call.get(it)?.integer?).ok());
        let bindings = call.get(BEFORE_CONSTANTS..)?.rchunks_exact(BINDING).rev();
        Some(DispatchedFunction {
            name,
            workgroups: x.zip(y).zip(z).map(|((x, y), z)| [x, y, z]),
            // Length, the last argument of each; -1 is all of a buffer.
            binding_bytes: bindings.map(|it| it.last()?.integer.filter(|it| *it != u64::MAX)).collect(),
        })
    });
    Ok(dispatched.collect())
}

/// An executable that [`substitute_executables`] has considered.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SubstitutedExecutable {
    /// The executable.
    pub executable: ModuleExecutable,
    /// Bytes of its code before and after.
    pub bytes: (u64, u64),
}

/// A module whose executables are replaced. The functions of a replacement are compared with those of the
/// executable: names, order, constants, bindings, workgroup sizes. For that, both are loaded, which runs
/// their initializers and query functions with the privileges of the process, but no kernel.
///
/// A selector is a number of [`ModuleExecutable`], a name that [`ExecutableNames`] finds, or all. Fails if
/// one selects nothing, if no device of this machine loads an executable, and if a replacement lacks a
/// function: the program identifies functions by ordinals. `build` compiles the sources among the
/// replacements.
pub fn substitute_executables(
    module: &ModuleFile,
    substitutions: &[Substitution],
    build: &dyn Fn(&mut ResolvedSubstitutions) -> Result<()>,
) -> Result<(Vec<u8>, Vec<SubstitutedExecutable>)> {
    let executables = ModuleExecutable::list(module)?;
    if executables.is_empty() {
        return Err(Error::not_found(format!("module '{}' creates no executables", module.name())));
    }
    let mut names = ExecutableNames::for_modules([module.name().to_owned()]);
    let loaded: Vec<_> = executables.iter().map(|it| it.load(module)).collect();
    for (executable, loaded) in executables.iter().zip(&loaded) {
        executable.name_in(&mut names, loaded.as_ref().ok());
    }
    let place = |it: &ModuleExecutable| format!("executable {} of the module, '{}'", it.number, it.name());
    // The names of what is not loaded are unknown.
    let unloaded = executables.iter().zip(&loaded).find_map(|(executable, loaded)| {
        let error = loaded.as_ref().err()?;
        Some(format!("{} is not loaded: {}", place(executable), error.message()))
    });
    let explained = |error: Error| match &unloaded {
        Some(unloaded) => error.context(unloaded.clone()),
        None => error,
    };
    let mut resolved = names.resolve(substitutions)?;
    if let Some(selector) = names.unknown(&resolved.substitutions) {
        return Err(explained(unused(selector, &names)));
    }
    for (executable, loaded) in executables.iter().zip(&loaded) {
        let Ok(loaded) = loaded else { continue };
        check_whole(&resolved.substitutions, executable.number, loaded.executable())
            .context(|| place(executable))?;
    }
    resolved.dispatched = dispatched(module)?;
    build(&mut resolved)?;
    let substitutes = ProgramSubstitutes::open(&resolved.substitutions)?;
    let mut others = Vec::new();
    for (executable, loaded) in executables.iter().zip(loaded) {
        let place = || place(executable);
        // An executable for another machine matters only if it is selected, and then only its number tells.
        let loaded = match loaded {
            Ok(loaded) => loaded,
            Err(error) if substitutes.may_select(executable.number) => return Err(error.context(place())),
            Err(_) => continue,
        };
        let other = other_code(executable, module, &loaded, &substitutes).context(place)?;
        others.extend(other.map(|code| (executable, code)));
    }
    check_used(&substitutes, &names).map_err(explained)?;
    let segments: Vec<_> = others.iter().map(|(it, code)| (it.segment, &code[..])).collect();
    let rewritten = module.with_rodata(&segments)?;
    // What cannot be read is not to be written.
    ModuleFile::copy(&rewritten).context(|| "the rewritten module".into())?;
    let substituted = others.iter().map(|(executable, code)| SubstitutedExecutable {
        executable: (*executable).clone(),
        bytes: (executable.code(module).len() as u64, code.len() as u64),
    });
    Ok((rewritten, substituted.collect()))
}

/// The code that replaces an executable of a module, if any does.
fn other_code(
    executable: &ModuleExecutable,
    module: &ModuleFile,
    loaded: &LoadedExecutable,
    substitutes: &ProgramSubstitutes,
) -> Result<Option<Vec<u8>>> {
    let params = ExecutableParams {
        caching_mode: CachingMode::ALLOW_OPTIMIZATION,
        ..ExecutableParams::new(&executable.format, executable.code(module))
    };
    let (device, own) = (loaded.device(), loaded.executable());
    let replaced = substitutes.replace(executable.number, device, &params, own, true);
    let replaced = replaced.map_err(|error| match error.code() {
        StatusCode::NotFound => error.replace_advice(REPLACE_WHOLE),
        _ => error,
    })?;
    let Some(replaced) = replaced else { return Ok(None) };
    let Some(code) = substitutes.code_for(executable.number, own) else { return Ok(None) };
    let place = code.place;
    let kept: Vec<_> = (own.functions().iter().zip(&replaced))
        .filter(|(_, it)| it.executable.is_same(own))
        .map(|(function, _)| function.name.as_str())
        .collect();
    let refused = |message: String| Err(Error::failed_precondition(message).advise(REPLACE_WHOLE));
    if !kept.is_empty() {
        return refused(format!("{place} lacks functions of the executable: {}", kept.join(", ")));
    }
    if replaced.iter().enumerate().any(|(ordinal, it)| it.function != ordinal as u32) {
        return refused(format!(
            "{place} has the functions of the executable in another order, and the program identifies them by \
             ordinals"
        ));
    }
    match code.format {
        Some(other) if other != executable.format => {
            let message = format!(
                "the replacement has format '{other}', and the program creates the executable as '{}'",
                executable.format
            );
            Err(Error::incompatible(message).advise("compile it to the format of the program"))
        }
        _ => Ok(Some(code.data.to_vec())),
    }
}

/// Fails if a selector has selected nothing.
fn check_used(substitutes: &ProgramSubstitutes, names: &ExecutableNames) -> Result<()> {
    substitutes.unused().next().map_or(Ok(()), |selector| Err(unused(selector, names)))
}

fn unused(selector: &Selector, names: &ExecutableNames) -> Error {
    let name = if let Selector::Name(name) = selector { name } else { "" };
    Error::not_found(format!("{selector} is not in the program")).advise(names.advice(name))
}

/// The replacements in a program that runs.
pub(super) struct RunningSubstitutes {
    substitutes: ProgramSubstitutes,
    /// Executables of all modules, numbered in their order, with their code.
    executables: Vec<(ModuleExecutable, ModuleFile)>,
    names: ExecutableNames,
}

impl RunningSubstitutes {
    /// Opens the files of the options. Executables are loaded on the devices if the names of their functions
    /// are needed. Fails before anything of the program runs if a name is unknown.
    pub(super) fn open(
        options: &ProgramOptions,
        modules: &[ProgramModule],
        devices: &[Device],
    ) -> Result<Arc<Self>> {
        let executables = numbered(modules)?;
        let (resolved, names) = resolve(options, modules, &executables, devices)?;
        let substitutes = ProgramSubstitutes::open(&resolved)?;
        Ok(Arc::new(Self { substitutes, executables, names }))
    }

    /// Replaces executables when a program creates them.
    pub(super) fn hook(self: &Arc<Self>) -> hal::Substitute {
        let this = self.clone();
        Arc::new(move |device: &Device, params: &ExecutableParams<'_>, own: &Executable| {
            // Executables with the same code cannot be told apart: the selector of one selects all.
            let mut same = this.executables.iter().filter(|(it, module)| it.code(module) == params.data);
            let first = same.next().map(|(it, _)| it.number);
            let mut numbers = first.into_iter().chain(same.map(|(it, _)| it.number));
            let selected = numbers.find(|number| this.substitutes.may_select(*number));
            this.substitutes.replace(selected.or(first).unwrap_or(0), device, params, own, false)
        })
    }

    /// Fails if a selector has selected nothing, once the program's initializers have run.
    pub(super) fn check_used(&self) -> Result<()> {
        check_used(&self.substitutes, &self.names)
    }
}

/// The executables of all modules, numbered in their order.
fn numbered(modules: &[ProgramModule]) -> Result<Vec<(ModuleExecutable, ModuleFile)>> {
    let mut executables = Vec::new();
    for module in modules {
        for executable in ModuleExecutable::list(module.file())? {
            let number = executables.len() as u64 + 1;
            executables.push((ModuleExecutable { number, ..executable }, module.file().clone()));
        }
    }
    Ok(executables)
}

/// The substitutions of the options with exact selectors and compiled sources, for programs of the same
/// modules.
pub(super) fn resolved(
    options: &ProgramOptions,
    modules: &[ProgramModule],
    devices: &[Device],
) -> Result<Vec<Substitution>> {
    Ok(resolve(options, modules, &numbered(modules)?, devices)?.0)
}

fn resolve(
    options: &ProgramOptions,
    modules: &[ProgramModule],
    executables: &[(ModuleExecutable, ModuleFile)],
    devices: &[Device],
) -> Result<(Vec<Substitution>, ExecutableNames)> {
    let names = |is_loaded: bool| {
        let mut names = ExecutableNames::for_modules(modules.iter().map(|it| it.name().to_owned()));
        for (executable, module) in executables {
            // One for another machine has no functions here.
            let can_load = |it: &&Device| it.info().format(&executable.format).is_some();
            let device = devices.iter().find(can_load).filter(|_| is_loaded);
            let loaded = device.and_then(|it| executable.load_on(it, module).ok());
            executable.name_in(&mut names, loaded.as_ref());
        }
        names
    };
    let mut known = names(false);
    let mut resolved = known.resolve(&options.substitutions);
    let is_name = |it: &Substitution| matches!(it.selector, Selector::Name(_));
    let needs_functions = match &resolved {
        Ok(it) => !it.unmatched.is_empty() || it.substitutions.iter().any(is_name),
        Err(_) => true,
    };
    if needs_functions {
        known = names(true);
        resolved = known.resolve(&options.substitutions);
    }
    let mut resolved = resolved?;
    if let Some(selector) = known.unknown(&resolved.substitutions) {
        return Err(unused(selector, &known));
    }
    if resolved.has_dispatches() {
        for module in modules {
            resolved.dispatched.extend(dispatched(module.file())?);
        }
    }
    if let Some(build) = &options.build_substitutes {
        build(&mut resolved)?;
    }
    Ok((resolved.substitutions, known))
}
