//! Executables in compiled modules: lists them, and replaces them, in a running program or in the file.

use std::sync::Arc;

use rehal_base::{Context, Error, FileKind, Result, StatusCode, listed};
use rehal_devices::{drivers, executable_functions, find_format, idle_device};
use rehal_hal::{CachingMode, Device, Executable, ExecutableFormat, ExecutableParams, FunctionInfo};
use rehal_kernels::{CodeFunction, ExecutableSource, LoadOptions, LoadedExecutable};
use rehal_local::executable::infer_format;
use rehal_local::executable::link::{ElfLibrary, OtherFunction, OtherImage, loads_alike, replace_functions};
use rehal_modules::hal;
use rehal_replay::{
    DispatchedFunction, ExecutableNames, FileReplacements, ProgramSubstitutes, REPLACE_WHOLE,
    ResolvedSubstitutions, Selector, SubstituteCode, Substitution, check_whole,
};
use rehal_vm::ModuleFile;

use super::counts::{BEFORE_CONSTANTS, DISPATCH, FUNCTION, ModuleCounts};
use super::{ProgramModule, ProgramOptions};

/// The import with which programs create executables.
const CREATE: &str = "hal.executable.create";
/// Positions of its arguments.
const FORMAT: usize = 2;
const DATA: usize = 3;

/// Arguments of a binding of a dispatch.
const BINDING: usize = 5;

/// How the names of formats of ELF images begin: self-contained, and for the system's loader.
const EMBEDDED: &str = "embedded-elf-";
const SYSTEM: &str = "system-elf-";

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

    /// The functions of the executables of a module whose code can be disassembled, or of the executable of
    /// this number. Executables for other machines are left out, unless there are no others.
    pub fn code_functions(module: &ModuleFile, wanted: Option<u64>) -> Result<Vec<CodeFunction>> {
        let (mut all, mut failed) = (Vec::new(), None);
        for executable in Self::list(module)? {
            let (number, code) = (executable.number, executable.code(module));
            let is_code = FileKind::from_head(code).is_some_and(FileKind::is_code);
            if !is_code || wanted.is_some_and(|wanted| wanted != number) {
                continue;
            }
            let format = Some(&*executable.format).filter(|it| !it.is_empty());
            match CodeFunction::list(format, code) {
                Ok(functions) => all.extend(functions),
                Err(error) => failed = failed.or(Some(error.context(format!("executable {number}")))),
            }
        }
        match (all.is_empty(), failed) {
            (true, Some(error)) => Err(error),
            (true, None) => Err(Error::not_found("the module has no such machine code or SPIR-V").advise(
                "its VM program is printed by rehal dump-module, and its executables by rehal executables",
            )),
            _ => Ok(all),
        }
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

    /// Its functions, as its code says, for any machine: it is only read, and nothing of it runs. Fails if no
    /// driver knows the format, and if an ELF image makes its table of functions when it runs.
    pub fn functions(&self, module: &ModuleFile) -> Result<Vec<FunctionInfo>> {
        executable_functions(&self.format, self.code(module))
    }

    /// The library of an ELF image; `None` for other formats.
    fn library(&self, module: &ModuleFile) -> Option<Result<ElfLibrary>> {
        let is_elf = self.format.starts_with(EMBEDDED) || self.format.starts_with(SYSTEM);
        is_elf.then(|| ElfLibrary::read(self.code(module)))
    }

    fn load(&self, module: &ModuleFile) -> Result<LoadedExecutable> {
        self.load_on(&idle_device(&drivers(), &self.format)?, module)
    }

    /// Its functions, as its code says when it is loaded on one of the devices, which runs it; none if no
    /// device here can.
    #[doc(hidden)]
    pub fn functions_on(&self, devices: &[Device], module: &ModuleFile) -> Vec<FunctionInfo> {
        let device = devices.iter().find(|device| device.info().format(&self.format).is_some());
        let loaded = device.and_then(|device| self.load_on(device, module).ok());
        loaded.map_or_else(Vec::new, |executable| executable.functions().to_vec())
    }

    fn load_on(&self, device: &Device, module: &ModuleFile) -> Result<LoadedExecutable> {
        let mut options = LoadOptions::default();
        options.format = Some(self.format.clone());
        let source = ExecutableSource::Bytes(self.code(module).into());
        LoadedExecutable::load(device, &source, &options)
    }
}

/// The functions that [`substitute_executables`] has replaced in an ELF image: ordinals, and the names of the
/// files that they are from.
pub fn replaced_functions(code: &[u8]) -> Vec<(u32, String)> {
    let is_elf = FileKind::from_head(code) == Some(FileKind::Elf);
    let library = is_elf.then(|| ElfLibrary::read(code).ok()).flatten();
    let replaced = library.map_or_else(Vec::new, |it| it.replaced);
    replaced.into_iter().map(|it| (it.function, it.source)).collect()
}

impl ModuleExecutable {
    /// Adds its names, with those of its functions if they are known.
    fn name_in(&self, names: &mut ExecutableNames, functions: &[FunctionInfo]) {
        names.add(self.number, &self.name(), &self.format, functions.iter().map(|it| it.name.clone()));
        if let Some(file_name) = &self.file_name {
            names.add_alias(self.number, file_name);
        }
    }
}

/// An executable whose functions are known: from its file, or since it is loaded.
enum Known {
    File(ElfLibrary),
    Loaded(LoadedExecutable),
}

impl Known {
    fn of(executable: &ModuleExecutable, module: &ModuleFile) -> Result<Self> {
        match executable.library(module) {
            // To load one runs its code.
            Some(library) => library.map(Self::File),
            None => executable.load(module).map(Self::Loaded),
        }
    }

    fn functions(&self) -> &[FunctionInfo] {
        match self {
            Self::File(library) => &library.functions,
            Self::Loaded(loaded) => loaded.functions(),
        }
    }
}

/// The dispatches of a module.
fn dispatched(module: &ModuleFile) -> Result<Vec<DispatchedFunction>> {
    let calls = module.calls_with_constants(DISPATCH)?;
    let dispatched = calls.iter().filter_map(|call| {
        let name = call.get(FUNCTION)?.rodata.and_then(|it| module.bytes().get(module.rodata(it)?.range));
        let name = String::from_utf8_lossy(name.unwrap_or_default()).into_owned();
        let bindings = call.get(BEFORE_CONSTANTS..)?.rchunks_exact(BINDING).rev();
        Some(DispatchedFunction {
            name,
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

/// A module whose executables are replaced, or functions of them. The functions of a replacement are compared
/// with those of the executable: constants, bindings, parameters, workgroup sizes.
///
/// A linked ELF executable, of any machine, is rewritten: code of a replacement is added to it, and its table
/// of functions points there. Both are read, not loaded. An executable of another format is replaced as a
/// whole; its functions are those that its file describes.
///
/// A selector is a number of [`ModuleExecutable`], a name that [`ExecutableNames`] finds, or all. Fails if
/// one selects nothing, or if a replacement lacks a function or what its code needs. `build` compiles the
/// sources among the replacements.
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
    let known: Vec<_> = executables.iter().map(|it| Known::of(it, module)).collect();
    for (executable, known) in executables.iter().zip(&known) {
        executable.name_in(&mut names, known.as_ref().map_or(&[], Known::functions));
    }
    let place = |it: &ModuleExecutable| format!("executable {} of the module, '{}'", it.number, it.name());
    // The names of what is not loaded are unknown.
    let unknown = executables.iter().zip(&known).find_map(|(executable, known)| {
        let error = known.as_ref().err()?;
        Some(format!("{} is not loaded: {}", place(executable), error.message()))
    });
    let explained = |error: Error| match &unknown {
        Some(unknown) => error.context(unknown.clone()),
        None => error,
    };
    let mut resolved = names.resolve(substitutions)?;
    names.resolve_patterns(&mut resolved.substitutions)?;
    if let Some(selector) = names.unknown(&resolved.substitutions) {
        return Err(explained(unused(selector, &names)));
    }
    for (executable, known) in executables.iter().zip(&known) {
        if let Ok(Known::Loaded(loaded)) = known
            && !executable_format(executable).is_some_and(|it| it.replaces_functions)
        {
            check_whole(&resolved.substitutions, executable.number, loaded.executable())
                .context(|| place(executable))?;
        }
        if let Ok(known) = known {
            let constants = if let Known::File(it) = known { it.constant_count } else { 0 };
            resolved.add_functions(executable.number, &executable.format, known.functions(), constants);
        }
    }
    resolved.dispatched = dispatched(module)?;
    build(&mut resolved)?;
    let substitutes = ProgramSubstitutes::open(&resolved.substitutions)?;
    let counts = ModuleCounts::new(module)?;
    let mut others = Vec::new();
    for (executable, known) in executables.iter().zip(known) {
        let place = || place(executable);
        let other = match known {
            Ok(Known::File(library)) => linked(executable, module, &library, &substitutes, &counts),
            Ok(Known::Loaded(loaded)) => other_code(executable, module, &loaded, &substitutes, &counts),
            // An executable for another machine matters only if it is selected, and then only its number
            // tells.
            Err(error) if substitutes.may_select(executable.number) => Err(error),
            Err(_) => continue,
        };
        others.extend(other.context(place)?.map(|code| (executable, code)));
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

/// The format that a program creates an executable with, if it is known.
fn executable_format(executable: &ModuleExecutable) -> Option<&'static ExecutableFormat> {
    find_format(&drivers(), &executable.format)
}

/// The code of an ELF executable in which functions are replaced, if any are: a replacement that has all of
/// them, or the own code with the functions of replacements added.
fn linked(
    executable: &ModuleExecutable,
    module: &ModuleFile,
    library: &ElfLibrary,
    substitutes: &ProgramSubstitutes,
    counts: &ModuleCounts,
) -> Result<Option<Vec<u8>>> {
    let read = |code: &SubstituteCode<'_>| read_replacement(executable, code);
    let own = (&library.functions[..], &*library.name, executable.code(module));
    let found = substitutes.in_file(executable.number, own, &read)?;
    let Some(FileReplacements { code, functions, workgroups }) = found else { return Ok(None) };
    for ((function, replaced), needed) in library.functions.iter().zip(&functions).zip(&workgroups) {
        if let Some((image, _)) = replaced {
            counts.check(function, needed, code[*image].place)?;
        }
    }
    if let [only] = &code[..]
        && is_whole((executable, own.2), library, only, &functions)?
    {
        return Ok(Some(only.data.to_vec()));
    }
    let images: Vec<_> =
        code.iter().map(|it| OtherImage { bytes: it.data, name: it.place.trim_matches('\'') }).collect();
    // One file may have several of the functions, and is added once.
    let first = |image: usize| code.iter().position(|it| it.data == code[image].data).unwrap_or(image);
    let replaced: Vec<_> = (0..)
        .zip(&functions)
        .filter_map(|(function, it)| Some((function, (*it)?)))
        .map(|(function, (image, other))| OtherFunction { function, image: first(image), other })
        .collect();
    let is_embedded = executable.format.starts_with(EMBEDDED);
    let used = |index: &usize| replaced.iter().any(|it| it.image == *index);
    let kept: Vec<_> = (0..images.len()).filter(used).collect();
    let renumbered = |it: &OtherFunction| OtherFunction {
        image: kept.iter().position(|index| *index == it.image).unwrap_or(0),
        ..*it
    };
    let replaced: Vec<_> = replaced.iter().map(renumbered).collect();
    let images: Vec<_> = kept.iter().map(|index| images[*index]).collect();
    replace_functions(executable.code(module), is_embedded, &images, &replaced).map(Some)
}

/// The functions of a file that replaces some of an ELF executable.
fn read_replacement(executable: &ModuleExecutable, code: &SubstituteCode<'_>) -> Result<Vec<FunctionInfo>> {
    if FileKind::from_head(code.data) != Some(FileKind::Elf) {
        let error = match FileKind::from_head(code.data) {
            Some(kind) => kind.refuse_as(code.place, "an executable"),
            None => Error::invalid_argument(format!("{} is not an ELF image", code.place)),
        };
        return Err(
            error.advise("name a source, which is compiled to the format of the module, or a shared library")
        );
    }
    if let Some(stated) = code.format.filter(|it| it.starts_with(EMBEDDED) && *it != executable.format) {
        let message = format!(
            "the replacement has format '{stated}', and the program creates the executable as '{}'",
            executable.format
        );
        return Err(Error::incompatible(message).advise("compile it to the format of the program"));
    }
    Ok(ElfLibrary::read(code.data)?.functions)
}

/// Whether a file takes the place of an executable: it is meant to, has all functions in their order, has the
/// same format, and is for the same machine.
fn is_whole(
    (executable, own): (&ModuleExecutable, &[u8]),
    library: &ElfLibrary,
    code: &SubstituteCode<'_>,
    functions: &[Option<(usize, u32)>],
) -> Result<bool> {
    let other = ElfLibrary::read(code.data)?;
    let is_complete = other.functions.len() == library.functions.len()
        && functions.iter().zip(0..).all(|(it, ordinal)| *it == Some((0, ordinal)))
        && other.constant_count == library.constant_count;
    let format = infer_format(code.data).unwrap_or_default();
    let is_embedded = executable.format.starts_with(EMBEDDED);
    let is_same = (executable.format.starts_with(format) || executable.format.starts_with(SYSTEM))
        && loads_alike(own, is_embedded, code.data);
    Ok((code.is_whole || library.functions.len() == 1) && is_complete && is_same)
}

/// The code that replaces an executable that is loaded, if any does.
fn other_code(
    executable: &ModuleExecutable,
    module: &ModuleFile,
    loaded: &LoadedExecutable,
    substitutes: &ProgramSubstitutes,
    counts: &ModuleCounts,
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
    let format = executable_format(executable);
    let Some(found) = substitutes.code_for(executable.number, own, (format, params.data))? else {
        return Ok(None);
    };
    let (code, place) = (found.code, found.code.place);
    let kept: Vec<_> = (own.functions().iter().zip(&replaced))
        .filter(|(_, it)| it.executable.is_same(own) && !found.is_in_container)
        .map(|(function, _)| function.name.as_str())
        .collect();
    let refused = |message: String| Err(Error::failed_precondition(message).advise(REPLACE_WHOLE));
    if !kept.is_empty() {
        return refused(format!("{place} lacks functions of the executable: {}", listed(kept)));
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
        _ => {
            for (function, replaced) in own.functions().iter().zip(&replaced) {
                counts.check(function, &replaced.workgroups, place)?;
            }
            Ok(Some(found.bytes.into_owned()))
        }
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
        let load =
            |executable: &ModuleExecutable, module: &ModuleFile| Ok(executable.functions_on(devices, module));
        let (resolved, names) = resolve(options, modules, &executables, &load)?;
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

/// The functions of an executable, whose file does not say them; none if it cannot be loaded.
pub type LoadFunctions<'l> = &'l dyn Fn(&ModuleExecutable, &ModuleFile) -> Result<Vec<FunctionInfo>>;

/// The substitutions of the options with exact selectors and compiled sources, for programs of the same
/// modules. `load` runs code of the modules.
#[doc(hidden)]
pub fn resolve_substitutions(
    options: &ProgramOptions,
    modules: &[ProgramModule],
    load: LoadFunctions<'_>,
) -> Result<Vec<Substitution>> {
    Ok(resolve(options, modules, &numbered(modules)?, load)?.0)
}

fn resolve(
    options: &ProgramOptions,
    modules: &[ProgramModule],
    executables: &[(ModuleExecutable, ModuleFile)],
    load: LoadFunctions<'_>,
) -> Result<(Vec<Substitution>, ExecutableNames)> {
    let names = |is_loaded: bool| -> Result<_> {
        let mut names = ExecutableNames::for_modules(modules.iter().map(|it| it.name().to_owned()));
        let mut known = Vec::new();
        for (executable, module) in executables {
            let library = executable.library(module).filter(|_| is_loaded);
            let library = library.and_then(Result::ok);
            let constants = library.as_ref().map_or(0, |it| it.constant_count);
            let functions = match library {
                Some(library) => library.functions,
                None if is_loaded => load(executable, module)?,
                None => Vec::new(),
            };
            executable.name_in(&mut names, &functions);
            known.push((executable.number, executable.format.as_str(), functions, constants));
        }
        Ok((names, known))
    };
    let (mut known, mut functions) = names(false)?;
    let mut resolved = known.resolve(&options.substitutions);
    let is_name = |it: &Substitution| matches!(it.selector, Selector::Name(_));
    let needs_functions = match &resolved {
        Ok(it) => {
            let is_source = |it: &Substitution| it.replacement.is_kernel_source();
            let all = &it.substitutions;
            !it.unmatched.is_empty() || all.iter().any(|it| is_name(it) || is_source(it))
        }
        Err(_) => true,
    };
    if needs_functions {
        (known, functions) = names(true)?;
        resolved = known.resolve(&options.substitutions);
    }
    let mut resolved = resolved?;
    known.resolve_patterns(&mut resolved.substitutions)?;
    if let Some(selector) = known.unknown(&resolved.substitutions) {
        return Err(unused(selector, &known));
    }
    for (number, format, functions, constants) in &functions {
        resolved.add_functions(*number, format, functions, *constants);
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
