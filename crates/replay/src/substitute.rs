//! Substitution of executables.

use std::ffi::OsStr;
use std::fmt::{self, Display, Formatter};
use std::path::PathBuf;
use std::sync::Arc;

use rehal_base::platform::OsStrExt;
use rehal_base::{Context, Error, MappedFile, Result};
use rehal_formats::Replaced;
use rehal_hal::{ExecutableFormat, NeededWorkgroups};
use serde::{Deserialize, Serialize};

use crate::{ExecutableRecord, message, origin};

/// Which executables to replace, and with what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Substitution {
    /// The executables to replace.
    pub selector: Selector,
    /// The replacement.
    pub replacement: Replacement,
}

/// Code that runs in place of an executable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Code {
    /// A file, which is mapped.
    #[serde(with = "message::path")]
    File(PathBuf),
    /// Memory.
    #[serde(with = "message::bytes")]
    Bytes(Arc<[u8]>),
}

/// Called for each executable of a capture, in capture order; returns its replacement, or `None` to keep it.
pub type Substitute = Arc<dyn Fn(&Candidate<'_>) -> Result<Option<Replacement>> + Send + Sync>;

/// An executable offered for substitution.
pub struct Candidate<'a> {
    /// The executable: id, format, functions, bytes.
    pub record: ExecutableRecord<'a>,
    pub(crate) own_name: &'a dyn Fn() -> Result<String>,
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
        path.extension().is_some_and(|it| it == "c" || it == "rs" || it == "cu" || it == "o")
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

    pub(crate) fn open(&self) -> Result<OpenReplacement> {
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

    /// Its name in errors.
    pub(crate) fn place(&self) -> String {
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

impl Layer<'_> {
    /// The executable `container` of a format with this code in it, if it is an image by itself.
    pub(crate) fn in_container(
        &self,
        format: &ExecutableFormat,
        container: &[u8],
    ) -> Option<Result<Vec<u8>>> {
        let which = match self.function.map(str::from_utf8) {
            Some(name) => Replaced::Function(name.unwrap_or_default()),
            None if self.replacement.keeps_missing => Replaced::Present,
            None => Replaced::Module,
        };
        (format.with_image)(container, self.replacement.data(), which)
    }
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

    pub(crate) fn substitute_code(&self, is_whole: bool) -> SubstituteCode<'_> {
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
    /// Code in memory.
    pub(crate) fn of(bytes: Vec<u8>, format: &str) -> Self {
        Self { bytes: Arc::new(Bytes::Memory(bytes.into())), format: format.to_string() }
    }

    pub(crate) fn data(&self) -> &[u8] {
        self.bytes.data()
    }
}

/// Selects executables of a capture.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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

/// Code that replaces an executable of a program.
#[derive(Clone, Copy, Debug)]
pub struct SubstituteCode<'s> {
    /// Its bytes.
    pub data: &'s [u8],
    /// Its format, if it is stated.
    pub format: Option<&'s str>,
    /// Its name in errors.
    pub place: &'s str,
    /// Whether it replaces the executable as a whole, and not one of its functions.
    pub is_whole: bool,
}

impl Substitution {
    pub(crate) fn selects_by_capture(&self, record: &ExecutableRecord<'_>) -> bool {
        self.selects(record.id, record.function_names())
    }

    /// Whether it selects the executable with this id, or with a function of one of these names.
    pub(crate) fn selects<'n>(&self, executable: u64, mut functions: impl Iterator<Item = &'n [u8]>) -> bool {
        match &self.selector {
            Selector::All => true,
            Selector::Id(id) => *id == executable,
            Selector::Name(name) => functions.any(|function| function == name.as_bytes()),
        }
    }

    /// The part of an executable that it replaces, if it selects it.
    pub(crate) fn layer<'r, 'n>(
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

    pub(crate) fn selects_by_own_name(&self, own_name: &str) -> bool {
        matches!(&self.selector, Selector::Name(name) if name == own_name && !own_name.is_empty())
    }
}

impl Selector {
    pub(crate) fn text(&self) -> String {
        match self {
            Self::All => "every executable".into(),
            _ => self.to_string(),
        }
    }
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
