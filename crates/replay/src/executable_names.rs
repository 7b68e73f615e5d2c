//! Names by which users select executables: their own, those of their functions, and those of the files that
//! the compiler dumps of them.

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::{fs, iter};

use rehal_base::{Context, Error, Result, glob, listed, listed_by, nearest};
use rehal_hal::FunctionInfo;

use crate::{Code, ExecutableRecord, Plan, Replacement, Selector, Substitution};

/// The compiler links the executables of a module to one with this in its name.
const LINKED: &str = "_linked";

/// The compiler numbers the dispatches of a function. Executables are named by both.
const DISPATCH: &str = "_dispatch_";

/// Precedes the name of an executable of which the compiler has decided how it is lowered.
const CONFIGURED: &str = "configured_";

/// Extensions of files that replace executables.
const EXTENSIONS: [&str; 14] =
    ["c", "o", "rs", "mlir", "mlirbc", "so", "elf", "vmfb", "spv", "vk1", "cu", "ptx", "cubin", "hsaco"];

/// Names that an error lists.
const MAX_LISTED: usize = 10;

/// The meaning of a name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Named {
    /// Functions of this name.
    Function(String),
    /// The executable with this id.
    Executable(u64),
    /// Executables that call themselves this.
    Own(String),
}

/// The names of executables in a program or a capture.
///
/// An executable is meant by its name, that of a function, or the part of a function's name that names the
/// dispatch (`main_dispatch_3` of `main_dispatch_3_matmul`); and by the names of files that the compiler or
/// `rehal executables` writes, which have the name of the module and others before or behind it.
///
/// ```
/// use rehal_replay::{ExecutableNames, Named};
///
/// let mut names = ExecutableNames::default();
/// names.add(4, "", "embedded-elf-x86_64", ["main_dispatch_3_matmul".to_owned()]);
/// let function = Some(Named::Function("main_dispatch_3_matmul".into()));
/// for name in ["main_dispatch_3_matmul", "main_dispatch_3", "configured_module_main_dispatch_3"] {
///     assert_eq!(names.find(name).unwrap(), function);
/// }
/// assert_eq!(names.find("main_dispatch_4").unwrap(), None);
/// ```
#[derive(Clone, Debug, Default)]
pub struct ExecutableNames {
    /// The names of modules. Captures do not have them: there, any may precede the name of a dispatch.
    modules: Vec<String>,
    functions: Meanings,
    executables: Meanings,
    /// Names of files, and parts of names that name dispatches.
    dumped: Meanings,
    /// Text that follows the number in the name of a file by [`ExecutableNames::file_stem`]: other captures
    /// and modules have other numbers.
    numbered: Meanings,
    ids: BTreeSet<u64>,
    /// The names to list in errors, in order.
    listed: Vec<String>,
}

type Meanings = HashMap<String, BTreeSet<Named>>;

/// Substitutions whose selectors are exact, and without directories.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ResolvedSubstitutions {
    /// The substitutions.
    pub substitutions: Vec<Substitution>,
    /// The files of directories whose names are those of no executable.
    pub unmatched: Vec<PathBuf>,
    /// The dispatches of the program or the capture; empty without a replacement that is a
    /// [dispatch](Replacement::is_dispatch).
    pub dispatched: Vec<DispatchedFunction>,
    /// The functions of the executables, as far as they are known: what a kernel that replaces one is called
    /// with.
    pub functions: Vec<CalledFunction>,
}

/// A function of an executable in a program or a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CalledFunction {
    /// The number or the id of its executable.
    pub executable: u64,
    /// The format of its executable.
    pub format: String,
    /// The interface that callers use.
    pub info: FunctionInfo,
    /// The number of specialization constants of its executable.
    pub specialization_constants: u32,
}

/// Facts known of a dispatch before a program or a capture runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DispatchedFunction {
    /// The name of the function; empty if it is not known.
    pub name: String,
    /// Bytes of its bindings, if they are constant. Of a program, others may precede them.
    pub binding_bytes: Vec<Option<u64>>,
}

impl CalledFunction {
    /// The functions of all executables of a capture.
    pub fn in_plan(plan: &Plan) -> Vec<Self> {
        let of = |it: ExecutableRecord<'_>| {
            let (format, constants) = (String::from_utf8_lossy(it.format), it.constants.len() / 4);
            Self::of(it.id, &format, &it.function_infos(), constants as u32)
        };
        plan.executables().flat_map(of).collect()
    }

    /// The functions that a selector may mean.
    pub fn selected(selector: &Selector, functions: &[Self]) -> Vec<Self> {
        let is_selected = |it: &&Self| match selector {
            Selector::All => true,
            Selector::Id(id) => it.executable == *id,
            Selector::Name(name) => it.info.name == *name,
        };
        let selected: Vec<_> = functions.iter().filter(is_selected).cloned().collect();
        // The name may be that of an executable.
        if selected.is_empty() { functions.to_vec() } else { selected }
    }

    fn of(executable: u64, format: &str, functions: &[FunctionInfo], constants: u32) -> Vec<Self> {
        let called = |info: &FunctionInfo| Self {
            executable,
            format: format.to_owned(),
            info: info.clone(),
            specialization_constants: constants,
        };
        functions.iter().map(called).collect()
    }
}

impl ExecutableNames {
    /// The names in a program of modules with these names.
    pub fn for_modules(modules: impl IntoIterator<Item = String>) -> Self {
        Self { modules: modules.into_iter().collect(), ..Self::default() }
    }

    /// The names in a capture.
    pub fn from_plan(plan: &Plan) -> Self {
        let mut this = Self::default();
        for record in plan.executables() {
            let functions = record.function_names().map(|name| String::from_utf8_lossy(name).into_owned());
            this.add(record.id, "", &String::from_utf8_lossy(record.format), functions);
        }
        this
    }

    /// Adds the names by which executables of a capture call themselves, in order.
    pub(crate) fn add_own(&mut self, plan: &Plan, own_names: &[String]) {
        for (record, name) in plan.executables().zip(own_names).filter(|(_, name)| !name.is_empty()) {
            let own = Named::Own(name.clone());
            let format = String::from_utf8_lossy(record.format).replace('-', "_");
            insert(&mut self.executables, name, &own);
            for dumped in [name.clone(), format!("{name}_{format}")] {
                // What already means the function of such an executable is not ambiguous.
                self.dumped.entry(dumped).or_insert_with(|| BTreeSet::from([own.clone()]));
            }
            self.list(name);
        }
    }

    /// Adds an executable: its id, its name and its format, which may be empty, and its functions.
    pub fn add(&mut self, id: u64, name: &str, format: &str, functions: impl IntoIterator<Item = String>) {
        let own = Named::Executable(id);
        self.ids.insert(id);
        let format = format.replace('-', "_");
        if !name.is_empty() {
            insert(&mut self.executables, name, &own);
            insert(&mut self.dumped, &format!("{name}_{format}"), &own);
            self.list(name);
        }
        let functions: Vec<_> = functions.into_iter().filter(|it| !it.is_empty()).collect();
        for function in &functions {
            let meant = Named::Function(function.clone());
            insert(&mut self.functions, function, &meant);
            if !name.is_empty() {
                insert(&mut self.dumped, &format!("{name}_{function}"), &meant);
            }
            let dispatch = dispatch_of(function);
            if function != name && (name.is_empty() || dispatch != Some(name)) {
                self.list(function);
            }
            if let Some(dispatch) = dispatch.filter(|it| *it != name) {
                let parts = [dispatch, &format!("{dispatch}_{function}"), &format!("{dispatch}_{format}")];
                parts.into_iter().for_each(|it| insert(&mut self.dumped, it, &meant));
                insert(&mut self.dumped, function, &meant);
            }
        }
        let first = functions.first().map(String::as_str);
        for name in first.into_iter().chain([name]).filter(|it| !it.is_empty()) {
            insert(&mut self.executables, &Self::file_stem(id, name), &own);
            insert(&mut self.numbered, &plain(name), &own);
        }
    }

    /// Another name of an executable, such as that of its file.
    pub fn add_alias(&mut self, id: u64, alias: &str) {
        insert(&mut self.executables, alias, &Named::Executable(id));
    }

    fn list(&mut self, name: &str) {
        if !self.listed.iter().any(|it| it == name) {
            self.listed.push(name.to_owned());
        }
    }

    /// The name of a file for an executable, without an extension: unique, and of characters that all file
    /// systems take. In a capture, `name` is that of the first function.
    pub fn file_stem(id: u64, name: &str) -> String {
        format!("{id}_{}", plain(name))
    }

    /// The meaning of a name; `None` if nothing has it. Fails if it may mean several things.
    pub fn find(&self, name: &str) -> Result<Option<Named>> {
        let plain = name.strip_prefix(CONFIGURED).unwrap_or(name);
        let of_module = |module: &String| plain.strip_prefix(module.as_str())?.strip_prefix('_');
        let spellings = [name, plain].into_iter().chain(self.modules.iter().filter_map(of_module));
        let known = |spelling: &str| {
            let all = [&self.functions, &self.executables, &self.dumped];
            all.into_iter().find_map(|meanings| meanings.get(spelling))
        };
        if let Some(found) = spellings.into_iter().find_map(known) {
            return one(name, found).map(Some);
        }
        let numbered = name.split_once('_').filter(|(number, _)| number.parse::<u64>().is_ok());
        if let Some((_, rest)) = numbered {
            let of_file = self.numbered.get(rest).filter(|it| it.len() == 1);
            if let Some(found) = of_file.or_else(|| known(rest)) {
                return one(name, found).map(Some);
            }
        }
        if !self.modules.is_empty() {
            return Ok(None);
        }
        // The longest name that ends it.
        let suffixes = plain.match_indices('_').map(|(at, _)| &plain[at + 1..]);
        let suffixes = suffixes.filter(|it| it.contains(DISPATCH) || it.contains(LINKED));
        let mut found = suffixes.filter_map(|it| self.dumped.get(it));
        found.next().map(|it| one(name, it)).transpose()
    }

    /// Advice about a name that means nothing.
    pub fn advice(&self, name: &str) -> String {
        let all = || self.listed.iter().map(String::as_str);
        let functions = || self.functions.keys().map(String::as_str);
        let has = match self.listed.is_empty() {
            true => "it has no executables with names".to_owned(),
            false => format!("it has {}", listed(all().map(str::escape_debug))),
        };
        // In order, so that of equally similar ones it is always the same.
        let similar: BTreeSet<_> =
            all().chain(functions()).chain(functions().filter_map(dispatch_of)).collect();
        let calling = |name: &str| Some(name.split_once(DISPATCH)?.0.to_owned());
        let callers: BTreeSet<_> = similar.iter().copied().filter_map(calling).collect();
        // Without what dumps have before the name of a dispatch.
        let plain = name.strip_prefix(CONFIGURED).unwrap_or(name);
        let suffixes = plain.match_indices('_').map(|(at, _)| &plain[at + 1..]);
        let is_dispatch = |name: &&str| calling(name).is_some_and(|caller| callers.contains(&caller));
        let plain = iter::once(plain).chain(suffixes).find(is_dispatch).unwrap_or(plain);
        match nearest(plain, similar.into_iter()) {
            Some(meant) => format!("did you mean {}? {has}", meant.escape_debug()),
            None => has,
        }
    }

    /// Selects by exact names and ids, and takes each file of a directory for the executable of its name.
    /// Names that mean nothing stay as they are.
    pub fn resolve(&self, substitutions: &[Substitution]) -> Result<ResolvedSubstitutions> {
        let mut resolved = ResolvedSubstitutions::default();
        for it in substitutions {
            let directory = match (&it.selector, &it.replacement.code) {
                (Selector::All, Code::File(path)) if path.is_dir() => Some(path),
                _ => None,
            };
            match directory {
                Some(path) => self.resolve_directory(path, &it.replacement, &mut resolved)?,
                None => {
                    let selector = match &it.selector {
                        Selector::Name(name) => self.find(name)?.map_or_else(|| it.selector.clone(), select),
                        other => other.clone(),
                    };
                    resolved.substitutions.push(Substitution { selector, ..it.clone() });
                }
            }
        }
        Ok(resolved)
    }

    /// Selects by patterns with `*` and `?`, which may match several functions, and by parts of names that no
    /// other function has, instead of the names that [`ExecutableNames::resolve`] has left as they are.
    /// Executables count if no function matches. Names that match nothing stay as they are.
    pub fn resolve_patterns(&self, substitutions: &mut Vec<Substitution>) -> Result<()> {
        for it in std::mem::take(substitutions) {
            let matched = match &it.selector {
                Selector::Name(name) if self.unknown(std::slice::from_ref(&it)).is_some() => {
                    self.matching(name)?
                }
                _ => BTreeSet::new(),
            };
            if matched.is_empty() {
                substitutions.push(it);
                continue;
            }
            let selecting = |meant| Substitution { selector: select(meant), ..it.clone() };
            substitutions.extend(matched.into_iter().map(selecting));
        }
        Ok(())
    }

    /// The functions or executables that a pattern matches, or the only one whose name has this part.
    fn matching(&self, wanted: &str) -> Result<BTreeSet<Named>> {
        let is_pattern = wanted.contains(['*', '?']);
        let matches = |name: &str| match is_pattern {
            true => glob::matches(wanted, name),
            false => !wanted.is_empty() && name.contains(wanted),
        };
        let matched = |meanings: &Meanings| -> BTreeSet<Named> {
            meanings.iter().filter(|(name, _)| matches(name)).flat_map(|(_, it)| it.clone()).collect()
        };
        let mut found = matched(&self.functions);
        if found.is_empty() {
            found = matched(&self.executables);
        }
        if !is_pattern && found.len() > 1 {
            one(wanted, &found)?;
        }
        Ok(found)
    }

    /// The first selector that selects nothing, of those that [`ExecutableNames::resolve`] has returned.
    pub fn unknown<'s>(&self, substitutions: &'s [Substitution]) -> Option<&'s Selector> {
        let is_known = |selector: &Selector| match selector {
            Selector::All => true,
            Selector::Id(id) => self.ids.contains(id),
            Selector::Name(name) => self.functions.contains_key(name) || self.executables.contains_key(name),
        };
        substitutions.iter().map(|it| &it.selector).find(|it| !is_known(it))
    }

    /// The error of a selector that selects none of the executables in a capture.
    pub(crate) fn nothing_selected(&self, selector: &Selector, plan: &Plan) -> Error {
        let advice = match selector {
            Selector::Name(name) => self.advice(name),
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

    fn resolve_directory(
        &self,
        directory: &Path,
        replacement: &Replacement,
        resolved: &mut ResolvedSubstitutions,
    ) -> Result<()> {
        let files = files_in(directory)?;
        let mut is_matched = false;
        for path in files {
            let stem = path.file_stem().and_then(OsStr::to_str).unwrap_or_default();
            let meant = self.find(stem).context(|| format!("'{}'", path.display()))?;
            let Some(meant) = meant else {
                resolved.unmatched.push(path);
                continue;
            };
            is_matched = true;
            let replacement = Replacement { code: Code::File(path), ..replacement.clone() };
            resolved.substitutions.push(Substitution::new(select(meant), replacement));
        }
        match (is_matched, resolved.unmatched.last()) {
            (false, Some(file)) => {
                let message = format!("no file of '{}' has the name of an executable", directory.display());
                let stem = file.file_stem().and_then(OsStr::to_str).unwrap_or_default();
                Err(Error::not_found(message).advise(self.advice(stem)))
            }
            _ => Ok(()),
        }
    }
}

impl ResolvedSubstitutions {
    /// Adds the functions of an executable, which has a number of specialization constants.
    pub fn add_functions(
        &mut self,
        executable: u64,
        format: &str,
        functions: &[FunctionInfo],
        constants: u32,
    ) {
        self.functions.extend(CalledFunction::of(executable, format, functions, constants));
    }

    /// Whether a replacement is a [dispatch](Replacement::is_dispatch).
    pub fn has_dispatches(&self) -> bool {
        self.substitutions.iter().any(|it| it.replacement.is_dispatch())
    }

    fn has_kernel_sources(&self) -> bool {
        self.substitutions.iter().any(|it| it.replacement.is_kernel_source())
    }

    /// Resolves substitutions in a capture. Fails if a selector selects nothing, before any replacement is
    /// read. If the names in the capture do not suffice, `own_names` is called for those by which its
    /// executables call themselves: see [`own_names`](crate::own_names).
    pub fn in_capture(
        plan: &Plan,
        substitutions: &[Substitution],
        own_names: &dyn Fn() -> Result<Vec<String>>,
    ) -> Result<Self> {
        let mut names = ExecutableNames::from_plan(plan);
        let mut resolved = names.resolve(substitutions);
        let is_unknown = match &resolved {
            Ok(it) => names.unknown(&it.substitutions).is_some(),
            Err(_) => true,
        };
        if is_unknown || resolved.as_ref().is_ok_and(|it| !it.unmatched.is_empty()) {
            match own_names() {
                Ok(own_names) => {
                    names.add_own(plan, &own_names);
                    resolved = names.resolve(substitutions);
                }
                // A replacement may be there because the captured executable cannot be prepared.
                Err(error) if is_unknown => {
                    let mut known = resolved.as_ref().map(|it| it.substitutions.clone()).unwrap_or_default();
                    names.resolve_patterns(&mut known)?;
                    if known.is_empty() || names.unknown(&known).is_some() {
                        return resolved.and(Err(error));
                    }
                }
                Err(_) => {}
            }
        }
        let mut resolved = resolved?;
        names.resolve_patterns(&mut resolved.substitutions)?;
        if resolved.has_kernel_sources() {
            resolved.functions = CalledFunction::in_plan(plan);
        }
        if resolved.has_dispatches() {
            plan.distinct_dispatches(|dispatch, _| {
                resolved.dispatched.push(DispatchedFunction {
                    name: String::from_utf8_lossy(dispatch.name).into_owned(),
                    binding_bytes: dispatch.bindings.iter().map(|binding| Some(binding.length)).collect(),
                });
                Ok(())
            })?;
        }
        match names.unknown(&resolved.substitutions) {
            Some(selector) => Err(names.nothing_selected(selector, plan)),
            None => Ok(resolved),
        }
    }
}

fn insert(meanings: &mut Meanings, name: &str, meant: &Named) {
    meanings.entry(name.to_owned()).or_default().insert(meant.clone());
}

fn select(meant: Named) -> Selector {
    match meant {
        Named::Function(name) | Named::Own(name) => Selector::Name(name),
        Named::Executable(id) => Selector::Id(id),
    }
}

/// The only meaning.
fn one(name: &str, found: &BTreeSet<Named>) -> Result<Named> {
    if let (Some(only), 1) = (found.first(), found.len()) {
        return Ok(only.clone());
    }
    let shown = |it: &Named| match it {
        Named::Function(name) => format!("function '{}'", name.escape_debug()),
        Named::Executable(id) => format!("executable {id}"),
        Named::Own(name) => format!("executable '{}'", name.escape_debug()),
    };
    let listed: Vec<_> = found.iter().take(MAX_LISTED).map(shown).collect();
    let message = format!("'{}' may be {}", name.escape_debug(), listed.join(" or "));
    Err(Error::invalid_argument(message).advise("name one of them by its whole name or its id"))
}

/// A name in characters that all file systems take, which may be cut.
fn plain(name: &str) -> String {
    /// Characters that are kept of a name.
    const MAX_NAME: usize = 100;
    let is_plain = |it: char| it.is_ascii_alphanumeric() || matches!(it, '_' | '-' | '.');
    name.chars().take(MAX_NAME).map(|it| if is_plain(it) { it } else { '_' }).collect()
}

/// The part of a function's name that names its dispatch.
fn dispatch_of(function: &str) -> Option<&str> {
    let at = function.find(DISPATCH)? + DISPATCH.len();
    let digits = function[at..].bytes().take_while(u8::is_ascii_digit).count();
    let rest = &function[at + digits..];
    (digits != 0 && (rest.is_empty() || rest.starts_with('_'))).then(|| &function[..at + digits])
}

/// The files of a directory that may replace executables, by name.
fn files_in(directory: &Path) -> Result<Vec<PathBuf>> {
    let failed = |error| Error::io(format!("reading '{}'", directory.display()), &error);
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let extension = path.extension().and_then(OsStr::to_str).unwrap_or_default();
        if EXTENSIONS.contains(&extension) && path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    if files.is_empty() {
        let message = format!("the directory '{}' has no replacements", directory.display());
        let advice = format!("their extensions are .{}", EXTENSIONS.join(", ."));
        return Err(Error::not_found(message).advise(advice));
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MATMUL: &str = "main_dispatch_1_matmul_4x8_f32";

    fn capture() -> ExecutableNames {
        let mut names = ExecutableNames::default();
        let functions = [MATMUL, "main_dispatch_10_add", "other_main_dispatch_1_sub", "plain"];
        names.add(4, "", "embedded-elf-x86_64", functions.map(String::from));
        names.add(9, "", "vulkan-spirv-fb", ["two_dispatch_0_a", "two_dispatch_0_b"].map(String::from));
        names
    }

    fn function(name: &str) -> Option<Named> {
        Some(Named::Function(name.into()))
    }

    #[test]
    fn functions_of_captures_are_meant_by_the_names_of_dumps() {
        let names = capture();
        for name in [
            MATMUL,
            "main_dispatch_1",
            "module_main_dispatch_1",
            "configured_my_module_main_dispatch_1",
            "module_main_dispatch_1_embedded_elf_x86_64",
            "m_main_dispatch_1_main_dispatch_1_matmul_4x8_f32",
        ] {
            assert_eq!(names.find(name).unwrap(), function(MATMUL), "{name}");
        }
        // The longer name counts.
        assert_eq!(names.find("m_other_main_dispatch_1").unwrap(), function("other_main_dispatch_1_sub"));
        assert_eq!(names.find("main_dispatch_10").unwrap(), function("main_dispatch_10_add"));
        assert_eq!(names.find("4_main_dispatch_1_matmul_4x8_f32").unwrap(), Some(Named::Executable(4)));
        // The number of another capture.
        let other = names.find("7_main_dispatch_1_matmul_4x8_f32").unwrap();
        assert_eq!(other, Some(Named::Executable(4)));
        assert_eq!(names.find("7_main_dispatch_10_add").unwrap(), function("main_dispatch_10_add"));
        // Without the name of a dispatch, nothing may precede a name.
        for name in ["my_plain", "main_dispatch_1_mat", "main_dispatch", "main_dispatch_2", "", "_", "plai"] {
            assert_eq!(names.find(name).unwrap(), None, "{name}");
        }
        let error = names.find("two_dispatch_0").unwrap_err();
        assert_eq!(
            error.message(),
            "'two_dispatch_0' may be function 'two_dispatch_0_a' or function 'two_dispatch_0_b'"
        );
        for (name, meant) in [
            ("main_dispatch_1_matmul", MATMUL),
            ("module_main_dispatch_9", "main_dispatch_1"),
            ("configured_my_module_main_dispatch_9", "main_dispatch_1"),
        ] {
            let advice = names.advice(name);
            assert!(advice.starts_with(&format!("did you mean {meant}? it has ")), "{advice}");
        }
    }

    #[test]
    fn functions_are_meant_by_patterns_and_by_unique_parts() {
        let names = capture();
        let resolved = |name: &str| {
            let mut all = vec![Substitution::new(Selector::Name(name.into()), Replacement::file("x.so"))];
            names
                .resolve_patterns(&mut all)
                .map(|()| all.into_iter().map(|it| it.selector).collect::<Vec<_>>())
        };
        let named = |names: &[&str]| names.iter().map(|it| Selector::Name((*it).into())).collect::<Vec<_>>();
        for (wanted, meant) in [
            ("*_1_mat*", vec![MATMUL]),
            ("10_add", vec!["main_dispatch_10_add"]),
            ("two_dispatch_?_*", vec!["two_dispatch_0_a", "two_dispatch_0_b"]),
            // Nothing has these.
            ("missing", vec!["missing"]),
            ("x*", vec!["x*"]),
            ("", vec![""]),
            // An exact name selects nothing else.
            ("plain", vec!["plain"]),
        ] {
            assert_eq!(resolved(wanted).unwrap(), named(&meant), "{wanted}");
        }
        // Only the names of executables match.
        assert_eq!(resolved("9_*").unwrap(), [Selector::Id(9)]);
        let error = resolved("two_disp").unwrap_err();
        let expected = "'two_disp' may be function 'two_dispatch_0_a' or function 'two_dispatch_0_b'";
        assert_eq!(error.message(), expected);
    }

    #[test]
    fn executables_of_programs_have_the_names_of_their_modules() {
        let mut names = ExecutableNames::for_modules(["my".to_owned()]);
        names.add(1, "f_dispatch_0", "embedded-elf-x86_64", ["f_dispatch_0_add".to_owned()]);
        names.add(2, "f_dispatch_1", "embedded-elf-x86_64", []);
        names.add_alias(2, "f_dispatch_1.so");
        for name in ["f_dispatch_1", "my_f_dispatch_1", "configured_my_f_dispatch_1", "f_dispatch_1.so"] {
            assert_eq!(names.find(name).unwrap(), Some(Named::Executable(2)), "{name}");
        }
        assert_eq!(names.find("my_f_dispatch_0").unwrap(), Some(Named::Executable(1)));
        for name in ["f_dispatch_0_add", "my_f_dispatch_0_f_dispatch_0_add"] {
            assert_eq!(names.find(name).unwrap(), function("f_dispatch_0_add"), "{name}");
        }
        for (name, id) in [("7_f_dispatch_0_add", 1), ("7_f_dispatch_1", 2)] {
            assert_eq!(names.find(name).unwrap(), Some(Named::Executable(id)), "{name}");
        }
        assert_eq!(names.find("other_f_dispatch_1").unwrap(), None);
        names.add(3, "my_linked", "", ["g_dispatch_0_a", "g_dispatch_1_b"].map(String::from));
        assert_eq!(names.find("8_g_dispatch_1").unwrap(), function("g_dispatch_1_b"));
        assert_eq!(names.find("1_f_dispatch_0").unwrap(), Some(Named::Executable(1)));
    }

    #[test]
    fn files_of_directories_replace_executables_of_their_names() {
        let scratch = tempfile::tempdir().unwrap();
        let at = |name: &str| scratch.path().join(name);
        let all = Substitution::new(Selector::All, Replacement::file(scratch.path()));
        let resolve = || capture().resolve(std::slice::from_ref(&all));
        assert!(resolve().unwrap_err().message().contains("has no replacements"));
        fs::write(at("nothing.so"), "").unwrap();
        assert!(resolve().unwrap_err().message().contains("has the name of an executable"));
        fs::write(at("module_main_dispatch_1.mlir"), "").unwrap();
        fs::write(at("index.json"), "").unwrap();
        let resolved = resolve().unwrap();
        let file = Replacement::file(at("module_main_dispatch_1.mlir"));
        assert_eq!(resolved.substitutions, [Substitution::new(Selector::Name(MATMUL.into()), file)]);
        assert_eq!(resolved.unmatched, [at("nothing.so")]);
        fs::write(at("two_dispatch_0.c"), "").unwrap();
        assert!(resolve().unwrap_err().message().contains("may be function 'two_dispatch_0_a' or "));
    }
}
