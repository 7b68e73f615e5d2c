//! From arguments to flags and positionals: flag files are read in place, names get underscores.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use rehal_base::{Context, Error, Result};

/// A flag file holds flags, not data; anything larger is the wrong file.
const MAX_FLAGFILE_BYTES: u64 = 1 << 20;

/// Files that include files twice each would otherwise grow without end.
const MAX_FLAGS: usize = 100_000;

/// Arguments taken apart.
#[derive(Debug, Default)]
pub(super) struct Expanded {
    pub flags: Vec<Given>,
    pub positionals: Vec<OsString>,
}

/// A flag as it was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Given {
    /// With underscores, without dashes before it.
    pub name: String,
    /// What follows the first `=`, without blanks or a pair of double quotes around it.
    pub value: Option<String>,
    /// `PATH:LINE` for a flag from a file.
    pub place: Option<String>,
}

/// Takes apart the arguments that follow the program's name.
pub(super) fn expand(arguments: impl IntoIterator<Item = OsString>) -> Result<Expanded> {
    let mut expanded = Expanded::default();
    let mut arguments = arguments.into_iter();
    while let Some(argument) = arguments.next() {
        if argument == "--" {
            expanded.positionals.extend(arguments);
            break;
        }
        match flag_text(&argument)? {
            Some(text) => expanded.add(text, None, &mut Vec::new())?,
            None => expanded.positionals.push(argument),
        }
    }
    Ok(expanded)
}

/// What follows the two dashes of a flag; `None` for a positional argument.
fn flag_text(argument: &OsString) -> Result<Option<&str>> {
    match argument.to_str() {
        Some(text) => {
            let text = text.trim();
            if text.starts_with('-') && !text.starts_with("--") && text != "-" {
                check_single_dash(text)?;
            }
            Ok(text.strip_prefix("--"))
        }
        None if argument.as_encoded_bytes().starts_with(b"--") => {
            Err(Error::invalid_argument(format!("flag '{}' is not UTF-8", argument.to_string_lossy())))
        }
        None => Ok(None),
    }
}

/// A file may be called `-x`; anything else with one dash was meant as a flag.
fn check_single_dash(text: &str) -> Result<()> {
    if Path::new(text).exists() {
        return Ok(());
    }
    Err(Error::invalid_argument(format!("'{text}' is neither a flag nor a file"))
        .advise(format!("flags begin with two dashes: -{text}")))
}

impl Expanded {
    /// Adds the flag `text`, or what is in the file that it names. `open` are the files being read.
    fn add(&mut self, text: &str, place: Option<String>, open: &mut Vec<PathBuf>) -> Result<()> {
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name.trim(), Some(unquote(value.trim()))),
            None => (text.trim(), None),
        };
        let name = name.replace('-', "_");
        if name == "flagfile" {
            let Some(path) = value.filter(|path| !path.is_empty()) else {
                return Err(Error::invalid_argument("--flagfile needs a path")
                    .advise("write --flagfile=PATH, with '=' and no blank"));
            };
            return self.add_file(Path::new(path), open);
        }
        if self.flags.len() == MAX_FLAGS {
            return Err(Error::resource_exhausted(format!("more than {MAX_FLAGS} flags")));
        }
        self.flags.push(Given { name, value: value.map(str::to_string), place });
        Ok(())
    }

    fn add_file(&mut self, path: &Path, open: &mut Vec<PathBuf>) -> Result<()> {
        let shown = path.display();
        let real =
            path.canonicalize().map_err(|e| Error::io(format_args!("opening flag file '{shown}'"), &e))?;
        if open.contains(&real) {
            let chain: Vec<_> = open.iter().map(|it| it.display().to_string()).collect();
            return Err(Error::invalid_argument(format!("flag file '{shown}' includes itself"))
                .context(chain.join(" includes ")));
        }
        let text = read(path)?;
        open.push(real);
        for (line, number) in text.lines().zip(1..) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') || line.starts_with("//") {
                continue;
            }
            let place = format!("{shown}:{number}");
            let Some(flag) = line.strip_prefix("--").filter(|flag| !flag.is_empty()) else {
                return Err(Error::invalid_argument(format!("'{line}' is no flag"))
                    .context(place)
                    .advise("a flag file has one --name=value per line, and comments after '#'"));
            };
            self.add(flag, Some(place.clone()), open).context(|| place)?;
        }
        open.pop();
        Ok(())
    }
}

fn read(path: &Path) -> Result<String> {
    let shown = path.display();
    let failed = |e: std::io::Error| Error::io(format_args!("reading flag file '{shown}'"), &e);
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(failed)?;
    file.take(MAX_FLAGFILE_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > MAX_FLAGFILE_BYTES {
        return Err(Error::invalid_argument(format!(
            "flag file '{shown}' is larger than {MAX_FLAGFILE_BYTES} bytes"
        ))
        .advise("name a text file with one --name=value per line"));
    }
    String::from_utf8(bytes)
        .map_err(|_| Error::invalid_argument(format!("flag file '{shown}' is not UTF-8 text")))
}

/// Help prints text in double quotes, so that a help can be a flag file.
fn unquote(value: &str) -> &str {
    value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(arguments: &[&str]) -> Result<Expanded> {
        expand(arguments.iter().map(OsString::from))
    }

    fn given(name: &str, value: Option<&str>) -> Given {
        Given { name: name.into(), value: value.map(String::from), place: None }
    }

    #[test]
    fn flags_and_positionals_may_be_mixed_until_two_dashes() {
        let it = expanded(&["a", "--x-y=1-2", "b", "--z", "-", "--", "--c", "-d"]).unwrap();
        assert_eq!(it.flags, [given("x_y", Some("1-2")), given("z", None)]);
        assert_eq!(it.positionals, ["a", "b", "-", "--c", "-d"]);
    }

    #[test]
    fn blanks_and_one_pair_of_quotes_are_dropped() {
        let it = expanded(&[" --a = b c ", "--d=\"\"", "--e=\"f\"g\"", "--h=\"", "--i="]).unwrap();
        let values: Vec<_> = it.flags.iter().map(|flag| flag.value.as_deref().unwrap()).collect();
        assert_eq!(values, ["b c", "", "f\"g", "\"", ""]);
    }

    #[test]
    fn one_dash_is_no_flag() {
        let error = expanded(&["-device=x"]).unwrap_err();
        assert_eq!(
            error.report(),
            "INVALID_ARGUMENT; '-device=x' is neither a flag nor a file\n  \
             try: flags begin with two dashes: --device=x"
        );
    }
}
