//! Substitution of executables.

use std::ffi::OsStr;
use std::fmt::{self, Display, Formatter};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rehal_base::{Context, Error, MappedFile, Result, listed, listed_by};
use rehal_hal::{Device, Executable, ExecutableParams, FunctionInfo, NeededWorkgroups, ReplacedFunction};

use crate::prepare::functions;
use crate::{ExecutableNames, ExecutableRecord, Plan, origin, prepare};

/// Which executables to replace, and with what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Substitution {
    /// The executables to replace.
    pub selector: Selector,
    /// The replacement.
    pub replacement: Replacement,
}

/// Code that runs in place of an executable.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Replacement {
    /// The location of its bytes.
    pub code: Code,
    /// Its format, such as `embedded-elf-x86_64`; `None` lets the device infer it from the bytes.
    pub format: Option<String>,
    /// Whether the functions that it lacks stay captured; otherwise it must have them all. A replacement
    /// selected by the name of a function replaces only that one.
    pub keeps_missing: bool,
    /// Its name in errors, such as that of its source; `None` for the path.
    pub name: Option<String>,
    /// The workgroups that functions of it need, by their names in its code, or without a name all others:
    /// each workgroup may compute another part of the result. The first that is known counts. If nothing is
    /// said of a function, the code tells what made it: hand-written code, or the captured code itself, needs
    /// the captured workgroups, and of other compiled code it is not known.
    pub workgroups: Vec<(Option<String>, NeededWorkgroups)>,
}

/// The location of a replacement's bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Code {
    /// A file, which is mapped.
    File(PathBuf),
    /// Memory.
    Bytes(Arc<[u8]>),
}

/// Called for each executable of a capture, in capture order; returns its replacement, or `None` to keep it.
pub type Substitute = Arc<dyn Fn(&Candidate<'_>) -> Result<Option<Replacement>> + Send + Sync>;

/// An executable offered for substitution.
pub struct Candidate<'a> {
    /// The executable: id, format, functions, bytes.
    pub record: ExecutableRecord<'a>,
    own_name: &'a dyn Fn() -> Result<String>,
}

impl Candidate<'_> {
    /// The executable's own name. Reading it prepares the executable on its captured device, so this fails if
    /// it cannot be loaded here.
    pub fn own_name(&self) -> Result<String> {
        (self.own_name)()
    }
}

impl Replacement {
    /// Code from a file.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self::new(Code::File(path.into()))
    }

    /// Code from memory.
    pub fn bytes(bytes: impl Into<Arc<[u8]>>) -> Self {
        Self::new(Code::Bytes(bytes.into()))
    }

    fn new(code: Code) -> Self {
        Self { code, format: None, keeps_missing: false, name: None, workgroups: Vec::new() }
    }

    /// The same code with an explicit format.
    pub fn of_format(self, format: impl Into<String>) -> Self {
        Self { format: Some(format.into()), ..self }
    }

    /// The same code, which replaces only the functions that it has.
    pub fn keep_missing(self) -> Self {
        Self { keeps_missing: true, ..self }
    }

    /// Whether it is a dispatch as the compiler of programs dumps it, by the extension of the file.
    pub fn is_dispatch(&self) -> bool {
        let Code::File(path) = &self.code else { return false };
        path.extension().is_some_and(|it| it == "mlir" || it == "mlirbc")
    }

    /// Whether it is the source or the object of a kernel, by the extension of the file.
    pub fn is_kernel_source(&self) -> bool {
        let Code::File(path) = &self.code else { return false };
        path.extension().is_some_and(|it| it == "c" || it == "rs" || it == "o")
    }

    /// The same code with the workgroups that a function of it needs, or without a name those of all others.
    pub fn with_workgroups(mut self, function: Option<&str>, needed: NeededWorkgroups) -> Self {
        self.workgroups.push((function.map(str::to_owned), needed));
        self
    }

    /// The same code with a name for errors.
    pub fn named(self, name: impl Into<String>) -> Self {
        Self { name: Some(name.into()), ..self }
    }

    /// The same replacement, whose code `own` has been put into a container of the executable's format. The
    /// container hides what made the code, so its workgroups are stated, in place of `replaced`.
    #[doc(hidden)]
    pub fn in_container(mut self, container: impl Into<Arc<[u8]>>, own: &[u8], replaced: &[u8]) -> Self {
        let name = match &self.code {
            Code::File(path) => Some(path.display().to_string()),
            Code::Bytes(_) => None,
        };
        self.name = self.name.or(name);
        self.code = Code::Bytes(container.into());
        self.with_workgroups(None, origin::workgroups(own, replaced))
    }

    fn open(&self) -> Result<OpenReplacement> {
        let bytes = match &self.code {
            Code::File(path) => Bytes::Mapped(MappedFile::open(path).advise(|| NO_EXECUTABLE)?),
            Code::Bytes(bytes) => Bytes::Memory(bytes.clone()),
        };
        let (bytes, format) = (Arc::new(bytes), self.format.clone());
        Ok(OpenReplacement {
            bytes,
            place: self.place(),
            format,
            keeps_missing: self.keeps_missing,
            workgroups: self.workgroups.clone(),
        })
    }

    /// What errors call it.
    fn place(&self) -> String {
        match (&self.name, &self.code) {
            (Some(name), _) => format!("'{name}'"),
            (None, Code::File(path)) => format!("'{}'", path.display()),
            (None, Code::Bytes(bytes)) => format!("{} bytes of memory", bytes.len()),
        }
    }
}

/// A replacement with its bytes loaded.
pub(crate) struct OpenReplacement {
    bytes: Arc<Bytes>,
    /// Its name in errors.
    pub place: String,
    pub format: Option<String>,
    /// Whether functions that it lacks are not replaced.
    pub keeps_missing: bool,
    /// The workgroups that functions of it need.
    pub workgroups: Vec<(Option<String>, NeededWorkgroups)>,
}

/// A replacement of an executable, or of one of its functions.
#[derive(Clone, Copy)]
pub(crate) struct Layer<'r> {
    pub replacement: &'r OpenReplacement,
    /// The function by whose name it is selected: the only one that it replaces.
    pub function: Option<&'r [u8]>,
    /// Whether the replacement has the format of the executable unless another one is stated; otherwise the
    /// device infers it.
    pub keeps_format: bool,
}

enum Bytes {
    Mapped(MappedFile),
    Memory(Arc<[u8]>),
}

/// The code of a replacement that has been prepared.
#[derive(Clone)]
pub(crate) struct ReplacementCode {
    bytes: Arc<Bytes>,
    pub format: String,
}

impl Bytes {
    fn data(&self) -> &[u8] {
        match self {
            Self::Mapped(file) => file.bytes(),
            Self::Memory(bytes) => bytes,
        }
    }
}

impl OpenReplacement {
    pub(crate) fn data(&self) -> &[u8] {
        self.bytes.data()
    }

    fn substitute_code(&self, is_whole: bool) -> SubstituteCode<'_> {
        SubstituteCode { data: self.data(), format: self.format.as_deref(), place: &self.place, is_whole }
    }

    /// The workgroups that a function of it needs in place of one of `replaced`.
    pub(crate) fn workgroups_of(&self, function: &str, replaced: &[u8]) -> NeededWorkgroups {
        let named = self.workgroups.iter().filter(|it| it.0.as_deref() == Some(function));
        let mut stated = named.chain(self.workgroups.iter().filter(|it| it.0.is_none())).map(|it| &it.1);
        let first = stated.next();
        let is_known = |it: &&NeededWorkgroups| !matches!(it, NeededWorkgroups::Unknown(_));
        let known = first.into_iter().chain(stated).find(is_known).or(first);
        known.cloned().unwrap_or_else(|| origin::workgroups(self.data(), replaced))
    }

    /// Whether it needs the workgroups of what it replaces, whichever function it is.
    pub(crate) fn keeps_workgroups(&self, replaced: &[u8]) -> bool {
        let of_all = |it: &(Option<String>, _)| it.0.is_none();
        self.workgroups.iter().all(|(_, it)| *it == NeededWorkgroups::Same)
            && (self.workgroups.iter().any(of_all)
                || origin::workgroups(self.data(), replaced) == NeededWorkgroups::Same)
    }

    /// Its code, of the format that it is prepared with.
    pub(crate) fn code(&self, format: &str) -> ReplacementCode {
        ReplacementCode { bytes: self.bytes.clone(), format: format.to_string() }
    }
}

impl ReplacementCode {
    pub(crate) fn data(&self) -> &[u8] {
        self.bytes.data()
    }
}

/// Selects executables of a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selector {
    /// All; with a directory as the replacement, those that have a file of their name.
    All,
    /// The one with this id.
    Id(u64),
    /// The functions of this name; if there are none, the executables with this own name. In a plan, also
    /// what [`ExecutableNames`](crate::ExecutableNames) finds.
    Name(String),
}

impl Display for Selector {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => out.write_str("all executables"),
            Self::Id(id) => write!(out, "executable {id}"),
            Self::Name(name) => write!(out, "function or executable '{}'", name.escape_debug()),
        }
    }
}

const FORMS: &str =
    "ID=PATH, ID@FORMAT=PATH, NAME=PATH, NAME@FORMAT=PATH, all=PATH, all@FORMAT=PATH or all=DIRECTORY";

/// The advice for a file that cannot replace an executable.
pub(crate) const NO_EXECUTABLE: &str =
    "name a compiled executable: an ELF image, a shared library, or SPIR-V for Vulkan";

impl Substitution {
    /// Replaces the executables selected by `selector` with `replacement`.
    pub fn new(selector: Selector, replacement: Replacement) -> Self {
        Self { selector, replacement }
    }

    /// Parses `SELECTOR[@FORMAT]=PATH`; the selector is `all`, an id or a name.
    pub fn parse(text: &(impl AsRef<OsStr> + ?Sized)) -> Result<Self> {
        let text = text.as_ref().as_bytes();
        let wrong = |what: &str| {
            let text = String::from_utf8_lossy(text);
            Err(Error::invalid_argument(format!("executable substitution '{text}' {what}"))
                .advise(format!("use one of {FORMS}")))
        };
        let Some(at) = text.iter().position(|&byte| byte == b'=') else { return wrong("has no '='") };
        let path = OsStr::from_bytes(&text[at + 1..]);
        let Ok(selector) = str::from_utf8(&text[..at]) else {
            return wrong("has a selector that is not UTF-8");
        };
        let (selector, format) = match selector.split_once('@') {
            Some((selector, format)) => (selector, Some(format)),
            None => (selector, None),
        };
        if selector.is_empty() || format.is_some_and(str::is_empty) || path.is_empty() {
            return wrong("has an empty selector, format or path");
        }
        let id = match selector.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16),
            None => selector.parse(),
        };
        let selector = match id {
            Ok(0) => return wrong("has id 0 (ids start at 1)"),
            Ok(id) => Selector::Id(id),
            Err(_) if selector == "all" => Selector::All,
            Err(_) => Selector::Name(selector.to_string()),
        };
        let format = format.map(str::to_string);
        Ok(Self { selector, replacement: Replacement { format, ..Replacement::file(path) } })
    }
}

/// The replacements of executables of a program: files are opened.
pub struct ProgramSubstitutes {
    selected: Vec<(Substitution, OpenReplacement)>,
    /// Whether each has replaced code.
    is_used: Vec<AtomicBool>,
}

impl ProgramSubstitutes {
    /// Opens the files. Fails if selectors conflict. Ids are numbers of the program's executables, from 1.
    pub fn open(substitutions: &[Substitution]) -> Result<Self> {
        check_selectors(substitutions)?;
        let is_used = substitutions.iter().map(|_| AtomicBool::new(false)).collect();
        Ok(Self { selected: open_all(substitutions)?, is_used })
    }

    /// What runs in place of each function of `original`, the executable `id` of a program, which has been
    /// prepared with `params`. `None` if it is not selected.
    ///
    /// A replacement whose format is not stated has that of `params` if `keeps_format`; otherwise the device
    /// infers it.
    ///
    /// Replacements are native code with the privileges of the process: a user who names one asks for it to
    /// run.
    pub fn replace(
        &self,
        id: u64,
        device: &Device,
        params: &ExecutableParams<'_>,
        original: &Executable,
        keeps_format: bool,
    ) -> Result<Option<Vec<ReplacedFunction>>> {
        let names = || original.functions().iter().map(|function| function.name.as_bytes());
        let selecting: Vec<_> = (self.selected.iter().zip(&self.is_used))
            .filter_map(|((it, replacement), is_used)| {
                let layer = it.layer(replacement, id, names(), original.backend().name())?;
                Some((layer, is_used))
            })
            .collect();
        if selecting.is_empty() {
            return Ok(None);
        }
        let selected = self.selected.iter().map(|(it, _)| it);
        check_overlap(selected, id, |it| it.selects(id, names()), original.backend().name())?;
        let layers: Vec<_> = selecting.iter().map(|(layer, _)| Layer { keeps_format, ..*layer }).collect();
        let replaced = prepare::replace(device, params, original, id, &layers)?;
        selecting.iter().for_each(|(_, is_used)| is_used.store(true, Ordering::Relaxed));
        Ok(Some(replaced))
    }

    /// Whether a selector may select the executable with this id, whose functions are not known.
    pub fn may_select(&self, id: u64) -> bool {
        let may = |selector: &Selector| match selector {
            Selector::All => true,
            Selector::Id(selected) => *selected == id,
            // Its name may be that of a function here, which cannot be told.
            Selector::Name(_) => false,
        };
        self.selected.iter().any(|(it, _)| may(&it.selector))
    }

    /// What replaces functions of the executable `id` of a module, of which only the file is read: `own` are
    /// its functions in the code `replaced`, and `read` finds those of a replacement. `None` if it is not
    /// selected.
    pub fn in_file<'s>(
        &'s self,
        id: u64,
        (own, own_name, replaced): (&[FunctionInfo], &str, &[u8]),
        read: &dyn Fn(&SubstituteCode<'s>) -> Result<Vec<FunctionInfo>>,
    ) -> Result<Option<FileReplacements<'s>>> {
        let names = || own.iter().map(|function| function.name.as_bytes());
        let selecting: Vec<_> = (self.selected.iter().zip(&self.is_used))
            .filter_map(|((it, replacement), is_used)| {
                Some((it.layer(replacement, id, names(), own_name)?, is_used))
            })
            .collect();
        if selecting.is_empty() {
            return Ok(None);
        }
        let selected = self.selected.iter().map(|(it, _)| it);
        check_overlap(selected, id, |it| it.selects(id, names()), own_name)?;
        let (mut layers, mut code, mut functions) = (Vec::new(), Vec::new(), Vec::new());
        for (layer, _) in &selecting {
            let it = layer.replacement.substitute_code(layer.function.is_none());
            functions.push(read(&it).context(|| format!("'{}'", it.place.trim_matches('\'')))?);
            prepare::check_stated(layer, &functions[functions.len() - 1])?;
            layers.push(*layer);
            code.push(it);
        }
        let read: Vec<_> = functions.iter().map(Vec::as_slice).collect();
        let found = prepare::match_functions(id, own, &layers, &read)?;
        selecting.iter().for_each(|(_, is_used)| is_used.store(true, Ordering::Relaxed));
        let workgroups = found.iter().map(|it| {
            let Some((layer, ordinal)) = *it else { return NeededWorkgroups::Same };
            let name = functions[layer].get(ordinal as usize).map_or("", |it| &it.name);
            layers[layer].replacement.workgroups_of(name, replaced)
        });
        let workgroups = workgroups.collect();
        Ok(Some(FileReplacements { code, functions: found, workgroups }))
    }

    /// The code that replaces an executable, if something does.
    pub fn code_for(&self, id: u64, original: &Executable) -> Option<SubstituteCode<'_>> {
        let names = || original.functions().iter().map(|function| function.name.as_bytes());
        let own_name = original.backend().name();
        let mut selecting = self.selected.iter();
        let (_, it) =
            selecting.find(|(it, _)| it.selects(id, names()) || it.selects_by_own_name(own_name))?;
        Some(it.substitute_code(true))
    }

    /// The selectors that have selected nothing so far.
    pub fn unused(&self) -> impl Iterator<Item = &Selector> {
        let pairs = self.selected.iter().zip(&self.is_used);
        pairs.filter(|(_, is_used)| !is_used.load(Ordering::Relaxed)).map(|((it, _), _)| &it.selector)
    }
}

/// Code that replaces an executable of a program.
#[derive(Clone, Copy, Debug)]
pub struct SubstituteCode<'s> {
    /// Its bytes.
    pub data: &'s [u8],
    /// Its format, if it is stated.
    pub format: Option<&'s str>,
    /// What errors call it.
    pub place: &'s str,
    /// Whether it replaces the executable as a whole, and not one of its functions.
    pub is_whole: bool,
}

/// What replaces functions of an executable of a module.
#[derive(Clone, Debug)]
pub struct FileReplacements<'s> {
    /// The replacements.
    pub code: Vec<SubstituteCode<'s>>,
    /// For each function of the executable: the index of what replaces it, and the ordinal of the function
    /// there.
    pub functions: Vec<Option<(usize, u32)>>,
    /// The workgroups that what replaces each function needs.
    pub workgroups: Vec<NeededWorkgroups>,
}

/// Fails if selectors leave functions of an executable of a module as they are: a module has one code for all
/// of them. Replacements are not opened. What they lack is found when they replace it.
pub fn check_whole(substitutions: &[Substitution], id: u64, original: &Executable) -> Result<()> {
    let names = || original.functions().iter().map(|function| function.name.as_bytes());
    let selects =
        |it: &&Substitution| it.selects(id, names()) || it.selects_by_own_name(original.backend().name());
    let selecting: Vec<_> = substitutions.iter().filter(selects).collect();
    let Some(first) = selecting.first() else { return Ok(()) };
    let place = first.replacement.place();
    let refused = |message: String| Err(Error::failed_precondition(message).advise(REPLACE_WHOLE));
    if let Some(second) = selecting.get(1) {
        let second = second.replacement.place();
        return refused(format!("{place} and {second} replace functions of one executable"));
    }
    if let Selector::Name(name) = &first.selector
        && first.selects(id, names())
        && original.functions().len() > 1
    {
        let others = names().filter(|it| *it != name.as_bytes());
        return refused(format!(
            "{place} replaces function '{}' only, and the executable also has {}",
            name.escape_debug(),
            functions(others)
        ));
    }
    Ok(())
}

/// What to do about a replacement of some functions of an executable of a module that is not an ELF image.
pub const REPLACE_WHOLE: &str = "of this format, a file replaces an executable of a module as a whole: name one that has all its functions in \
     their order, or compile the program with --iree-hal-link-executables=false, so that each executable has one";

/// Fails if one substitution excludes another.
fn check_selectors(substitutions: &[Substitution]) -> Result<()> {
    for (index, substitution) in substitutions.iter().enumerate() {
        if substitution.selector == Selector::All && substitutions.len() > 1 {
            return Err(Error::invalid_argument(
                "a substitution of all executables excludes other substitutions",
            ));
        }
        let is_same = |other: &&Substitution| other.selector == substitution.selector;
        if let Some(other) = substitutions[..index].iter().find(is_same) {
            let text = substitution.selector.text();
            let places = [other, substitution].map(|it| it.replacement.place());
            let message = format!("{text} is substituted twice: by {} and by {}", places[0], places[1]);
            return Err(Error::invalid_argument(message).advise("name one replacement for each function"));
        }
    }
    Ok(())
}

fn open_all(substitutions: &[Substitution]) -> Result<Vec<(Substitution, OpenReplacement)>> {
    let open = |it: &Substitution| {
        let opened = it.replacement.open();
        Ok((it.clone(), opened.context(|| format!("the substitute for {}", it.selector))?))
    };
    substitutions.iter().map(open).collect()
}

/// The replacements of a replay: files are opened, and each selector matches an executable.
pub(crate) struct Replacements {
    selected: Vec<(Substitution, OpenReplacement)>,
    /// The results of the program's [`Substitute`], by the executable's index in the plan.
    given: Vec<Option<OpenReplacement>>,
}

impl Replacements {
    /// Opens the files. Fails if two selectors conflict or one selects no executable; what depends on own
    /// names is left to [`Replacements::check_names`].
    pub(crate) fn open(substitutions: &[Substitution], plan: &Plan) -> Result<Self> {
        if substitutions.is_empty() {
            return Ok(Self { selected: Vec::new(), given: Vec::new() });
        }
        let names = ExecutableNames::from_plan(plan);
        let substitutions = &names.resolve(substitutions)?.substitutions;
        check_selectors(substitutions)?;
        for substitution in substitutions {
            if !plan.executables().any(|record| substitution.selects_by_capture(&record))
                && !matches!(substitution.selector, Selector::Name(_))
            {
                return Err(nothing_selected(&substitution.selector, plan, &names));
            }
        }
        for record in plan.executables() {
            check_overlap(substitutions.iter(), record.id, |it| it.selects_by_capture(&record), "")?;
        }
        Ok(Self { selected: open_all(substitutions)?, given: Vec::new() })
    }

    /// Calls the substitute for each executable; its results take precedence over selectors. `own_name`
    /// returns the own name of the executable at an index.
    pub(crate) fn ask(
        &mut self,
        substitute: &Substitute,
        plan: &Plan,
        own_name: &dyn Fn(usize) -> Result<String>,
    ) -> Result<()> {
        for (index, record) in plan.executables().enumerate() {
            let (id, location) = (record.id, record.location);
            let own_name = || own_name(index);
            let given = substitute(&Candidate { record, own_name: &own_name });
            let opened = given.and_then(|given| given.map(|given| given.open()).transpose());
            self.given.push(
                opened
                    .context(|| format!("the substitute for executable {id}"))
                    .context(|| location.to_string())?,
            );
        }
        Ok(())
    }

    /// Whether a selector must be matched against own names, which are known only after preparation.
    pub(crate) fn need_own_names(&self, plan: &Plan) -> bool {
        self.selected.iter().any(|(it, _)| !plan.executables().any(|record| it.selects_by_capture(&record)))
    }

    /// The replacements for the executable at `index` of the plan: the callback's, or those of all its
    /// selectors. Several names may select functions of one executable.
    pub(crate) fn layers<'r>(
        &'r self,
        index: usize,
        record: &ExecutableRecord<'_>,
        own_name: &str,
    ) -> Vec<Layer<'r>> {
        if let Some(replacement) = self.given.get(index).and_then(Option::as_ref) {
            return vec![Layer { replacement, function: None, keeps_format: false }];
        }
        let layer = |(it, replacement): &'r (Substitution, OpenReplacement)| {
            it.layer(replacement, record.id, record.function_names(), own_name)
        };
        self.selected.iter().filter_map(layer).collect()
    }

    /// Fails if a name selects no executable, or one that its id selects too, given their own names.
    pub(crate) fn check_names(&self, plan: &Plan, own_names: &[String]) -> Result<()> {
        for (record, own_name) in plan.executables().zip(own_names) {
            let selected = self.selected.iter().map(|(it, _)| it);
            check_overlap(selected, record.id, |it| it.selects_by_capture(&record), own_name)?;
        }
        for (it, _) in &self.selected {
            let by_capture = plan.executables().any(|record| it.selects_by_capture(&record));
            if !by_capture && !own_names.iter().any(|name| it.selects_by_own_name(name)) {
                let mut names = ExecutableNames::from_plan(plan);
                names.add_own(plan, own_names);
                return Err(nothing_selected(&it.selector, plan, &names));
            }
        }
        Ok(())
    }
}

impl Substitution {
    fn selects_by_capture(&self, record: &ExecutableRecord<'_>) -> bool {
        self.selects(record.id, record.function_names())
    }

    /// Whether it selects the executable with this id, or with a function of one of these names.
    fn selects<'n>(&self, executable: u64, mut functions: impl Iterator<Item = &'n [u8]>) -> bool {
        match &self.selector {
            Selector::All => true,
            Selector::Id(id) => *id == executable,
            Selector::Name(name) => functions.any(|function| function == name.as_bytes()),
        }
    }

    /// What it replaces of an executable, if it selects it.
    fn layer<'r, 'n>(
        &'r self,
        replacement: &'r OpenReplacement,
        executable: u64,
        functions: impl Iterator<Item = &'n [u8]>,
        own_name: &str,
    ) -> Option<Layer<'r>> {
        let is_selected = self.selects(executable, functions);
        let function = match &self.selector {
            Selector::Name(name) if is_selected => Some(name.as_bytes()),
            _ => None,
        };
        (is_selected || self.selects_by_own_name(own_name)).then_some(Layer {
            replacement,
            function,
            keeps_format: false,
        })
    }

    fn selects_by_own_name(&self, own_name: &str) -> bool {
        matches!(&self.selector, Selector::Name(name) if name == own_name && !own_name.is_empty())
    }
}

impl Selector {
    fn text(&self) -> String {
        match self {
            Self::All => "every executable".into(),
            _ => self.to_string(),
        }
    }
}

/// Fails if an executable is selected by its id and by a name: one of the replacements would have no effect,
/// or only on functions that the other lacks. `selects` tells what its id and its functions are selected by.
fn check_overlap<'s>(
    substitutions: impl Iterator<Item = &'s Substitution> + Clone,
    id: u64,
    selects: impl Fn(&Substitution) -> bool,
    own_name: &str,
) -> Result<()> {
    let is_id = |it: &Substitution| it.selector == Selector::Id(id);
    if !substitutions.clone().any(is_id) {
        return Ok(());
    }
    for it in substitutions {
        let Selector::Name(name) = &it.selector else { continue };
        let what = match (selects(it), it.selects_by_own_name(own_name)) {
            (true, _) => "the name of its function",
            (false, true) => "its own name",
            (false, false) => continue,
        };
        let message =
            format!("executable {id} is selected by its id and by {what} '{}'", name.escape_debug());
        return Err(Error::invalid_argument(message)
            .advise("select each function by name, or select the executable by its id only"));
    }
    Ok(())
}

/// The error of a selector that selects none of the executables in a capture.
pub(crate) fn nothing_selected(selector: &Selector, plan: &Plan, names: &ExecutableNames) -> Error {
    let advice = match selector {
        Selector::Name(name) => names.advice(name),
        _ => {
            let functions =
                |record: &ExecutableRecord<'_>| listed(record.function_names().map(<[u8]>::escape_ascii));
            let shown = |it: ExecutableRecord<'_>| format!("{} ({})", it.id, functions(&it));
            match plan.executables().next() {
                None => "it has no executables".into(),
                Some(_) => format!("it has {}", listed_by("; ", plan.executables().map(shown))),
            }
        }
    };
    Error::not_found(format!("{} is not in the capture", selector.text())).advise(advice)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Option<(Selector, Option<String>, String)> {
        let it = Substitution::parse(text).ok()?;
        let Code::File(path) = it.replacement.code else { panic!("text names files") };
        Some((it.selector, it.replacement.format, path.display().to_string()))
    }

    #[test]
    fn every_form_is_read() {
        let name = |text: &str| Selector::Name(text.into());
        for (text, expected) in [
            ("4=/a=b", Some((Selector::Id(4), None, "/a=b"))),
            ("4@embedded-elf-x86_64=x", Some((Selector::Id(4), Some("embedded-elf-x86_64"), "x"))),
            ("all=x", Some((Selector::All, None, "x"))),
            ("all@f=x", Some((Selector::All, Some("f"), "x"))),
            ("abs_dispatch_0=x", Some((name("abs_dispatch_0"), None, "x"))),
            ("n@f=x", Some((name("n"), Some("f"), "x"))),
            ("0x1f=x", Some((Selector::Id(31), None, "x"))),
            ("0xq=x", Some((name("0xq"), None, "x"))),
            ("0=x", None),
            ("0x0=x", None),
            ("4", None),
            ("=x", None),
            ("4=", None),
            ("4@=x", None),
            ("@f=x", None),
        ] {
            let expected = expected.map(|(s, f, p)| (s, f.map(str::to_string), p.to_string()));
            assert_eq!(parse(text), expected, "{text}");
        }
    }
}
