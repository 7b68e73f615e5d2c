//! Splits arguments into flags and operands: expands flag files in place and normalizes names to underscores.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io::Read;
use std::path::{Path, PathBuf};

use rehal_base::platform::OsStrExt;
use rehal_base::{Context, Error, FileId, Result};

use super::value_type::split_once;

/// Larger than any real flag file; stops the reading of endless devices such as /dev/zero.
const MAX_FLAGFILE_BYTES: u64 = 64 << 20;

/// Bounds the exponential growth of files that each include another one twice.
const MAX_FLAGS: usize = 100_000;

/// Arguments, parsed into flags and operands.
#[derive(Debug, Default)]
pub(super) struct Expanded {
    pub flags: Vec<Given>,
    pub operands: Vec<OsString>,
    /// Flags without a value that an operand follows: the indices of both.
    pub followed: Vec<(usize, usize)>,
    /// The flag files that were read, each once.
    pub files: Vec<PathBuf>,
}

/// A flag as given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Given {
    /// With underscores, without the leading dashes.
    pub name: String,
    /// The name as it was typed, if that is another.
    pub typed: Option<String>,
    /// Text after the first `=`, without the whitespace around it.
    pub value: Option<OsString>,
    /// `PATH:LINE` for a flag from a file.
    pub place: Option<String>,
}

impl Given {
    /// The flag as a user would type it.
    pub fn shown(&self) -> String {
        match &self.value {
            Some(value) => format!("--{}={}", self.name, super::value_type::shown(value)),
            None => format!("--{}", self.name),
        }
    }

    /// The argument as it was typed.
    pub fn argument(&self) -> OsString {
        let mut argument = OsString::from(format!("--{}", self.typed.as_ref().unwrap_or(&self.name)));
        if let Some(value) = &self.value {
            argument.push("=");
            argument.push(value);
        }
        argument
    }
}

/// Parses the arguments that follow the program's name; `letters` has the short forms of flags, and their
/// names.
pub(super) fn expand(
    arguments: impl IntoIterator<Item = OsString>,
    letters: &[(char, &str)],
) -> Result<Expanded> {
    let mut expanded = Expanded::default();
    let mut arguments = arguments.into_iter();
    let mut last = None;
    while let Some(argument) = arguments.next() {
        let text = trim(&argument);
        let before = last.take();
        if argument == "--" {
            expanded.operands.extend(arguments);
            break;
        } else if let Some(flag) = text.as_bytes().strip_prefix(b"--") {
            expanded.add(OsStr::from_bytes(flag), None, &mut Vec::new())?;
            last = expanded.flags.last().filter(|it| it.value.is_none()).map(|_| expanded.flags.len() - 1);
        } else if text == "-h" {
            expanded.flags.push(Given {
                name: "help".into(),
                typed: None,
                value: Some("short".into()),
                place: None,
            });
        } else if let Some((name, rest)) = short_form(text, letters) {
            let value = if rest.is_empty() { arguments.next() } else { Some(rest.to_os_string()) };
            expanded.flags.push(Given { name: name.into(), typed: None, value, place: None });
        } else {
            check_single_dash(text)?;
            expanded.followed.extend(before.map(|flag| (flag, expanded.operands.len())));
            expanded.operands.push(argument);
        }
    }
    Ok(expanded)
}

/// The name of the flag whose short form `text` is, and the value that follows the letter without a space.
fn short_form<'t, 'n>(text: &'t OsStr, letters: &[(char, &'n str)]) -> Option<(&'n str, &'t OsStr)> {
    let rest = text.as_bytes().strip_prefix(b"-")?;
    let (&letter, rest) = rest.split_first()?;
    let (_, name) = letters.iter().find(|(it, _)| *it == char::from(letter))?;
    Some((name, OsStr::from_bytes(rest.strip_prefix(b"=").unwrap_or(rest))))
}

/// A file may be called `-x`; anything else with one dash was meant as a flag.
fn check_single_dash(text: &OsStr) -> Result<()> {
    if !text.as_bytes().starts_with(b"-") || text == "-" || Path::new(text).exists() {
        return Ok(());
    }
    let text = text.to_string_lossy();
    Err(Error::invalid_argument(format!("'{text}' is neither a flag nor a file"))
        .advise(format!("flags start with two dashes: -{text}")))
}

/// A flag file that is being read.
struct Open {
    path: PathBuf,
    /// Identifies the file, whatever the path.
    identity: FileId,
}

impl Expanded {
    /// Adds the flag `text`, or the flags of the flag file that it names. `open` has the files that are being
    /// read.
    fn add(&mut self, text: &OsStr, place: Option<String>, open: &mut Vec<Open>) -> Result<()> {
        let (name, value) = match split_once(text, b'=') {
            Some((name, value)) => (trim(name), Some(trim(value))),
            None => (trim(text), None),
        };
        let Some(name) = name.to_str() else {
            return Err(Error::invalid_argument(format!("unknown flag '--{}'", name.to_string_lossy()))
                .advise("names of flags are ASCII; --help lists them"));
        };
        let typed = name;
        let name = name.replace('-', "_");
        if name == "flagfile" {
            let Some(path) = value.filter(|path| !path.is_empty()) else {
                return Err(Error::invalid_argument("--flagfile needs a value (expected a path)")
                    .advise("write --flagfile=PATH, with '=' and no space"));
            };
            return self.add_file(Path::new(path), open);
        }
        if self.flags.len() == MAX_FLAGS {
            return Err(Error::resource_exhausted(format!("more than {MAX_FLAGS} flags"))
                .advise("check the flag files that --flagfile names"));
        }
        let typed = (typed != name).then(|| typed.to_owned());
        self.flags.push(Given { name, typed, value: value.map(OsStr::to_os_string), place });
        Ok(())
    }

    fn add_file(&mut self, path: &Path, open: &mut Vec<Open>) -> Result<()> {
        let shown = path.display();
        let failed = |e: std::io::Error| Error::io(format_args!("opening flag file '{shown}'"), &e);
        let file = File::open(path).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        let identity = FileId::of(&file).map_err(failed)?;
        if open.iter().any(|it| it.identity == identity) {
            let chain: Vec<_> = open.iter().map(|it| it.path.display().to_string()).collect();
            return Err(Error::invalid_argument(format!("flag file '{shown}' includes itself"))
                .context(chain.join(" includes "))
                .advise("remove one of the --flagfile lines"));
        }
        let bytes = read(path, file, &metadata)?;
        if !self.files.iter().any(|it| it == path) {
            self.files.push(path.to_path_buf());
        }
        open.push(Open { path: path.to_path_buf(), identity });
        for (line, number) in bytes.split(|&byte| byte == b'\n').zip(1..) {
            let line = trim(OsStr::from_bytes(line));
            if line.is_empty() || line.as_bytes().starts_with(b"#") || line.as_bytes().starts_with(b"//") {
                continue;
            }
            let place = format!("{shown}:{number}");
            let Some(flag) = line.as_bytes().strip_prefix(b"--").filter(|flag| !flag.is_empty()) else {
                let line = super::value_type::shown(line);
                return Err(Error::invalid_argument(format!("'{line}' is not a flag"))
                    .context(place)
                    .advise("a flag file has one --name=value per line, and comments after '#'"));
            };
            self.add(OsStr::from_bytes(flag), Some(place.clone()), open).context(|| place)?;
        }
        open.pop();
        Ok(())
    }
}

fn read(path: &Path, file: File, metadata: &Metadata) -> Result<Vec<u8>> {
    let shown = path.display();
    if metadata.is_dir() {
        return Err(Error::invalid_argument(format!("flag file '{shown}' is a directory"))
            .advise("name a text file with one --name=value per line"));
    }
    let mut bytes = Vec::new();
    let read = file.take(MAX_FLAGFILE_BYTES + 1).read_to_end(&mut bytes);
    read.map_err(|error| Error::io(format_args!("reading flag file '{shown}'"), &error))?;
    if bytes.len() as u64 > MAX_FLAGFILE_BYTES {
        return Err(Error::invalid_argument(format!(
            "flag file '{shown}' is larger than {MAX_FLAGFILE_BYTES} bytes"
        ))
        .advise("name a text file with one --name=value per line"));
    }
    Ok(bytes)
}

/// Trims ASCII whitespace.
fn trim(text: &OsStr) -> &OsStr {
    OsStr::from_bytes(text.as_bytes().trim_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(arguments: &[&str]) -> Result<Expanded> {
        expand(arguments.iter().map(OsString::from), &[('o', "output")])
    }

    fn given(name: &str, value: Option<&str>) -> Given {
        Given { name: name.into(), typed: None, value: value.map(OsString::from), place: None }
    }

    #[test]
    fn flags_and_operands_may_be_mixed_until_a_double_dash() {
        let it = expanded(&["a", "--x-y=1-2", "b", "--z", "-", "--", "--c", "-d"]).unwrap();
        let typed = Given { typed: Some("x-y".into()), ..given("x_y", Some("1-2")) };
        assert_eq!(it.flags, [typed, given("z", None)]);
        assert_eq!(it.operands, ["a", "b", "-", "--c", "-d"]);
        assert_eq!(it.followed, [(1, 2)]);
    }

    #[test]
    fn names_and_values_are_trimmed() {
        let it = expanded(&[" --a = b c ", "--d=\"\"", "--i=", "-h"]).unwrap();
        let expected = [
            given("a", Some("b c")),
            given("d", Some("\"\"")),
            given("i", Some("")),
            given("help", Some("short")),
        ];
        assert_eq!(it.flags, expected);
    }

    #[test]
    fn values_need_not_be_utf8_but_names_do() {
        let argument = |bytes: &[u8]| OsStr::from_bytes(bytes).to_os_string();
        let it = expand([argument(b"--module=\xff.vmfb")], &[]).unwrap();
        assert_eq!(it.flags[0].value.as_deref(), Some(OsStr::from_bytes(b"\xff.vmfb")));
        let error = expand([argument(b"--\xff=x")], &[]).unwrap_err();
        assert!(error.report().starts_with("INVALID_ARGUMENT; unknown flag '--\u{fffd}'"));
    }

    #[test]
    fn short_forms_take_the_rest_or_the_next_argument() {
        let it = expanded(&["-o", "-x", "-oy", "-o=z", "a", "-o"]).unwrap();
        let expected = [Some("-x"), Some("y"), Some("z"), None].map(|value| given("output", value));
        assert_eq!(it.flags, expected);
        assert_eq!(it.operands, ["a"]);
    }

    #[test]
    fn a_single_dash_is_refused() {
        let error = expanded(&["-device=x"]).unwrap_err();
        assert_eq!(
            error.report(),
            "INVALID_ARGUMENT; '-device=x' is neither a flag nor a file\n  \
             try: flags start with two dashes: --device=x"
        );
    }
}
