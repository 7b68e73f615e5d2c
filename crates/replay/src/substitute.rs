//! Executables of a capture that are replaced by others.

use std::ffi::OsStr;
use std::fmt::{self, Display, Formatter};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rehal_base::{Context, Error, MappedFile, Result};

use crate::{ExecutableRecord, Plan};

/// Which executables are replaced, and by what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Substitution {
    /// Which.
    pub selector: Selector,
    /// The format of the replacement; `None` lets the device tell it from the bytes.
    pub format: Option<String>,
    /// The file that holds the replacement.
    pub path: PathBuf,
}

/// Which executables of a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selector {
    /// All.
    All,
    /// The one with this id.
    Id(u64),
    /// Those that have a function of this name, or are named so themselves.
    Name(String),
}

impl Display for Selector {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => out.write_str("all executables"),
            Self::Id(id) => write!(out, "executable {id}"),
            Self::Name(name) => write!(out, "executable '{name}'"),
        }
    }
}

const FORMS: &str = "ID=PATH, ID@FORMAT=PATH, NAME=PATH, NAME@FORMAT=PATH, all=PATH or all@FORMAT=PATH";

impl Substitution {
    /// Reads `SELECTOR[@FORMAT]=PATH`, in which the selector is `all`, a number or a name.
    pub fn parse(text: &(impl AsRef<OsStr> + ?Sized)) -> Result<Self> {
        let text = text.as_ref().as_bytes();
        let wrong = |what: &str| {
            let text = String::from_utf8_lossy(text);
            Err(Error::invalid_argument(format!("executable substitution '{text}' {what}"))
                .advise(format!("give {FORMS}")))
        };
        let Some(at) = text.iter().position(|&byte| byte == b'=') else { return wrong("has no '='") };
        let path = OsStr::from_bytes(&text[at + 1..]);
        let Ok(selector) = str::from_utf8(&text[..at]) else { return wrong("names no executable") };
        let (selector, format) = match selector.split_once('@') {
            Some((selector, format)) => (selector, Some(format)),
            None => (selector, None),
        };
        if selector.is_empty() || format.is_some_and(str::is_empty) || path.is_empty() {
            return wrong("lacks a part");
        }
        let selector = match selector.parse::<u64>() {
            Ok(0) => return wrong("names id 0, which no executable has"),
            Ok(id) => Selector::Id(id),
            Err(_) if selector == "all" => Selector::All,
            Err(_) => Selector::Name(selector.to_string()),
        };
        Ok(Self { selector, format: format.map(str::to_string), path: path.into() })
    }
}

/// The replacements of a replay, their files opened and each found to be of use.
pub(crate) struct Replacements(Vec<(Substitution, MappedFile)>);

impl Replacements {
    /// Opens the files. Fails when two selectors contradict each other or one selects nothing.
    pub(crate) fn open(substitutions: &[Substitution], plan: &Plan) -> Result<Self> {
        for (index, substitution) in substitutions.iter().enumerate() {
            let others = &substitutions[..index];
            if substitution.selector == Selector::All && substitutions.len() > 1 {
                return Err(Error::invalid_argument(
                    "a substitution of all executables leaves nothing for another one",
                ));
            }
            if others.iter().any(|other| other.selector == substitution.selector) {
                return Err(Error::invalid_argument(format!(
                    "{} is substituted twice",
                    substitution.selector.text()
                )));
            }
            if !plan.executables().any(|record| substitution.selects_by_capture(&record))
                && !matches!(substitution.selector, Selector::Name(_))
            {
                return Err(nothing_selected(&substitution.selector, plan));
            }
        }
        let open = |it: &Substitution| {
            let file = MappedFile::open(&it.path);
            Ok((it.clone(), file.context(|| format!("the substitute for {}", it.selector))?))
        };
        Ok(Self(substitutions.iter().map(open).collect::<Result<_>>()?))
    }

    /// Whether a name has to be compared with what executables call themselves, which is known
    /// only after they are prepared.
    pub(crate) fn need_own_names(&self, plan: &Plan) -> bool {
        self.0.iter().any(|(it, _)| !plan.executables().any(|record| it.selects_by_capture(&record)))
    }

    /// The replacement for an executable, where there is one: an id before a name before all.
    pub(crate) fn find(&self, record: &ExecutableRecord<'_>, own_name: &str) -> Option<Replacement<'_>> {
        let rank = |selector: &Selector| match selector {
            Selector::Id(_) => 0,
            Selector::Name(_) => 1,
            Selector::All => 2,
        };
        self.0
            .iter()
            .filter(|(it, _)| it.selects_by_capture(record) || it.selects_by_own_name(own_name))
            .min_by_key(|(it, _)| rank(&it.selector))
            .map(|(it, file)| Replacement {
                path: &it.path,
                format: it.format.as_deref(),
                data: file.bytes(),
            })
    }

    /// Fails when a name turned out to select nothing, given what executables call themselves.
    pub(crate) fn check_names(&self, plan: &Plan, own_names: &[String]) -> Result<()> {
        for (it, _) in &self.0 {
            let by_capture = plan.executables().any(|record| it.selects_by_capture(&record));
            if !by_capture && !own_names.iter().any(|name| it.selects_by_own_name(name)) {
                return Err(nothing_selected(&it.selector, plan)).advise(|| match own_names {
                    [] => "name a function or an id".into(),
                    names => format!("the executables call themselves: {}", names.join(", ")),
                });
            }
        }
        Ok(())
    }
}

/// One replacement.
#[derive(Clone, Copy)]
pub(crate) struct Replacement<'a> {
    pub path: &'a Path,
    pub format: Option<&'a str>,
    pub data: &'a [u8],
}

impl Substitution {
    fn selects_by_capture(&self, record: &ExecutableRecord<'_>) -> bool {
        match &self.selector {
            Selector::All => true,
            Selector::Id(id) => *id == record.id,
            Selector::Name(name) => record.function_names().any(|function| function == name.as_bytes()),
        }
    }

    fn selects_by_own_name(&self, own_name: &str) -> bool {
        matches!(&self.selector, Selector::Name(name) if name == own_name && !own_name.is_empty())
    }
}

impl Selector {
    fn text(&self) -> String {
        match self {
            Self::All => "every executable".into(),
            Self::Id(id) => format!("executable {id}"),
            Self::Name(name) => format!("executable '{name}'"),
        }
    }
}

fn nothing_selected(selector: &Selector, plan: &Plan) -> Error {
    let list: Vec<_> = plan
        .executables()
        .map(|record| {
            let names: Vec<_> = record.function_names().map(|name| name.escape_ascii().to_string()).collect();
            format!("{} ({})", record.id, names.join(", "))
        })
        .collect();
    let has = if list.is_empty() { "no executables".to_string() } else { list.join("; ") };
    Error::not_found(format!("{} is not in the capture, which has: {has}", selector.text()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Option<(Selector, Option<String>, String)> {
        let it = Substitution::parse(text).ok()?;
        Some((it.selector, it.format, it.path.display().to_string()))
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
            ("0=x", None),
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
