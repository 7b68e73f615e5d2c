//! From flags as given to values, checked against a tool's table.

use std::ffi::OsString;

use clap::builder::{OsStr, ValueParser};
use clap::error::{ContextKind, ErrorKind};
use clap::{Arg, ArgAction, ArgMatches, Command};
use rehal_base::{Error, Result};

use super::expand::{self, Given};
use super::flag::{Flag, Group, Kind, Support, parse_benchmark_switch, parse_switch};

/// The values of a tool's flags, and the other arguments.
///
/// Asking for a flag that the tool does not have, or as another kind, is a mistake of the tool and
/// panics; the tests of the tools ask for all of them.
#[derive(Debug)]
pub struct Flags {
    matches: ArgMatches,
    /// Of all flags that the tool has.
    names: Vec<&'static str>,
    positionals: Vec<OsString>,
    first_query: Option<String>,
}

impl Flags {
    /// Reads the arguments that follow the program's name.
    ///
    /// Fails on a flag that the table does not have (with the one that was perhaps meant), on a value
    /// of the wrong kind, and on a flag that is set to what is not built yet.
    pub fn parse(groups: &[&Group], arguments: impl IntoIterator<Item = OsString>) -> Result<Self> {
        let expanded = expand::expand(arguments)?;
        let matches = command(groups)
            .try_get_matches_from(expanded.flags.iter().map(Given::text))
            .map_err(|error| explain(&error, &expanded.flags))?;
        let flag = |given: &Given| all(groups).find(|flag| flag.name == given.name);
        let mut first_query = None;
        for given in &expanded.flags {
            match flag(given) {
                Some(Flag { kind: Kind::Query { .. }, support: Support::Works, .. }) => {
                    first_query.get_or_insert(given.name.clone());
                }
                Some(flag) => check_support(flag, given, &expanded.flags)?,
                None => {}
            }
        }
        let names = all(groups).map(|flag| flag.name).collect();
        Ok(Self { matches, names, positionals: expanded.positionals, first_query })
    }

    /// The value of a switch.
    pub fn switch(&self, name: &'static str) -> bool {
        *self.value(name)
    }

    /// The value of a whole number.
    pub fn integer(&self, name: &'static str) -> i64 {
        *self.value(name)
    }

    /// The value of a text.
    pub fn text(&self, name: &'static str) -> &str {
        self.value::<String>(name)
    }

    /// The value of a text that was given and is not empty.
    pub fn given_text(&self, name: &'static str) -> Option<&str> {
        Some(self.text(name)).filter(|text| !text.is_empty())
    }

    /// The values of a flag that may be repeated, in order.
    pub fn list(&self, name: &'static str) -> impl Iterator<Item = &str> {
        self.matches.get_many::<String>(name).into_iter().flatten().map(String::as_str)
    }

    /// Whether the tool has this flag.
    pub fn has(&self, name: &str) -> bool {
        // The matches tell unknown names only where debug assertions are on.
        self.names.contains(&name)
    }

    /// The query that was given first: it is answered, and the tool ends.
    pub fn first_query(&self) -> Option<&str> {
        self.first_query.as_deref()
    }

    /// The value of a query; empty where it has none.
    pub fn query(&self, name: &str) -> &str {
        self.matches.get_one::<String>(name).map_or("", String::as_str)
    }

    /// Whether the flag was given, with whatever value.
    pub fn is_given(&self, name: &'static str) -> bool {
        self.matches.value_source(name) == Some(clap::parser::ValueSource::CommandLine)
    }

    /// The arguments that are no flags.
    pub fn positionals(&self) -> &[OsString] {
        &self.positionals
    }

    fn value<T: Clone + Send + Sync + 'static>(&self, name: &'static str) -> &T {
        self.matches.get_one(name).unwrap_or_else(|| panic!("flag '{name}' has a default"))
    }
}

impl Given {
    fn text(&self) -> String {
        match &self.value {
            Some(value) => format!("--{}={value}", self.name),
            None => format!("--{}", self.name),
        }
    }
}

fn all<'g>(groups: &'g [&Group]) -> impl Iterator<Item = &'g Flag> {
    groups.iter().flat_map(|group| group.flags)
}

fn command(groups: &[&Group]) -> Command {
    Command::new("")
        .no_binary_name(true)
        .disable_help_flag(true)
        .disable_version_flag(true)
        .args_override_self(true)
        .args(all(groups).map(arg))
}

fn arg(flag: &Flag) -> Arg {
    let arg = Arg::new(flag.name).long(flag.name).require_equals(true).action(ArgAction::Set);
    let text = ValueParser::string;
    match flag.kind {
        Kind::Switch(default) => switch(arg, parse_switch, default),
        Kind::BenchmarkSwitch(default) => switch(arg, parse_benchmark_switch, default),
        Kind::Integer(default) => {
            arg.num_args(1).default_value(default.to_string()).value_parser(clap::value_parser!(i64))
        }
        Kind::Text { default, .. } => arg.num_args(1).default_value(default).value_parser(text()),
        Kind::List { may_be_empty: true, .. } => {
            arg.num_args(1).action(ArgAction::Append).value_parser(text())
        }
        Kind::List { .. } => arg.num_args(1).action(ArgAction::Append).value_parser(parse_item),
        Kind::Query { .. } => arg.num_args(0..=1).default_missing_value("").value_parser(text()),
    }
}

fn switch(arg: Arg, parse: fn(&str) -> Option<bool>, default: bool) -> Arg {
    let parse = move |value: &str| parse(value).ok_or("expected true or false");
    arg.num_args(0..=1)
        .default_value(OsStr::from(if default { "true" } else { "false" }))
        .default_missing_value("true")
        .value_parser(parse)
}

fn parse_item(value: &str) -> Result<String, &'static str> {
    if value.is_empty() { Err("it is empty") } else { Ok(value.to_string()) }
}

/// Refuses a flag that asks for what is not there.
fn check_support(flag: &Flag, given: &Given, all: &[Given]) -> Result<()> {
    if given.value.as_ref().is_some_and(|value| flag.is_default(value)) {
        return Ok(());
    }
    let shown = given.text();
    let error = match flag.support {
        Support::Works | Support::OtherDriver => return Ok(()),
        Support::DefaultDriver if all.iter().any(|it| it.name == "device") => return Ok(()),
        Support::DefaultDriver => {
            Error::unimplemented(format!("{shown} tunes the local-task driver, which is not built yet"))
                .advise("leave it out, or name another device: --device=local-sync")
        }
        Support::Missing(what) => {
            Error::unimplemented(format!("{shown} asks for {what}, which is not built yet"))
                .advise(format!("leave out --{}", flag.name))
        }
    };
    Err(placed(error, given))
}

fn placed(error: Error, given: &Given) -> Error {
    match &given.place {
        Some(place) => error.context(place.clone()),
        None => error,
    }
}

/// What clap found wrong, in our words.
fn explain(error: &clap::Error, given: &[Given]) -> Error {
    let text = |kind| error.get(kind).map(ToString::to_string).unwrap_or_default();
    let (argument, value) = (text(ContextKind::InvalidArg), text(ContextKind::InvalidValue));
    let name = argument.trim_start_matches('-').split(['=', '[', '<', ' ']).next().unwrap_or_default();
    let found = given.iter().rfind(|it| {
        let whole = error.kind() == ErrorKind::ValueValidation || error.kind() == ErrorKind::InvalidValue;
        it.name == name && (!whole || it.value.as_deref().unwrap_or_default() == value)
    });
    let explained = match error.kind() {
        ErrorKind::UnknownArgument => unknown(name, &text(ContextKind::SuggestedArg)),
        ErrorKind::NoEquals => needs_value(name),
        ErrorKind::ValueValidation | ErrorKind::InvalidValue if value.is_empty() => needs_value(name),
        ErrorKind::ValueValidation | ErrorKind::InvalidValue => {
            let why = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
            let why = if why.is_empty() { "wrong value".to_string() } else { why };
            Error::invalid_argument(format!("--{name}={value}: {why}"))
                .advise(format!("--help tells what --{name} takes"))
        }
        _ => Error::invalid_argument(format!("{argument}: {}", error.kind())),
    };
    match found {
        Some(given) => placed(explained, given),
        None => explained,
    }
}

fn unknown(name: &str, suggested: &str) -> Error {
    let error = Error::invalid_argument(format!("there is no flag '--{name}'"));
    match suggested {
        "" => error.advise("--help lists the flags"),
        meant => error.advise(format!("did you mean {meant}? --help lists the flags")),
    }
}

fn needs_value(name: &str) -> Error {
    Error::invalid_argument(format!("--{name} needs a value"))
        .advise(format!("write --{name}=VALUE, with '=' and no blank"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GROUP: Group = Group {
        title: "Test",
        flags: &[
            Flag::switch("a_switch", false, ""),
            Flag::benchmark_switch("b_switch", true, ""),
            Flag::integer("count", 3, ""),
            Flag::text("format", "NAME", "text", ""),
            Flag::list("path", "PATH", ""),
            Flag::list_of_any("output", "SPEC", ""),
            Flag::list("device", "URI", ""),
            Flag::query("show", "WHAT", ""),
            Flag::query("tell", "", ""),
            Flag::text("mode", "MODE", "", "").support(Support::Missing("profiling")),
            Flag::switch("streams", true, "").support(Support::OtherDriver),
            Flag::integer("threads", 0, "").support(Support::DefaultDriver),
        ],
    };

    fn parse(arguments: &[&str]) -> Result<Flags> {
        Flags::parse(&[&GROUP], arguments.iter().map(OsString::from))
    }

    fn error(arguments: &[&str]) -> String {
        parse(arguments).map(drop).unwrap_err().report()
    }

    #[test]
    fn what_is_not_given_has_its_default() {
        let flags = parse(&[]).unwrap();
        assert!(!flags.switch("a_switch"));
        assert!(flags.switch("b_switch"));
        assert_eq!(flags.integer("count"), 3);
        assert_eq!(flags.text("format"), "text");
        assert_eq!(flags.list("path").count(), 0);
        assert!(!flags.is_given("count"));
    }

    #[test]
    fn flags_of_other_tools_are_known_to_be_absent() {
        let flags = parse(&[]).unwrap();
        assert!(flags.has("a_switch") && !flags.has("a_swit") && !flags.has("no_flag_of_this_tool"));
    }

    #[test]
    fn switches_take_words_or_nothing() {
        for (value, expected) in [("", true), ("=", true), ("=true", true), ("=1", true)] {
            assert_eq!(parse(&[&format!("--a-switch{value}")]).unwrap().switch("a_switch"), expected);
        }
        for value in ["false", "0"] {
            assert!(!parse(&[&format!("--a_switch={value}")]).unwrap().switch("a_switch"));
        }
        for value in ["n", "off", "No", "0", "f"] {
            assert!(!parse(&[&format!("--b_switch={value}")]).unwrap().switch("b_switch"));
        }
        for flag in ["--a_switch=yes", "--b_switch=maybe"] {
            let report = error(&[flag]);
            assert!(report.starts_with(&format!("INVALID_ARGUMENT; {flag}: expected true or false\n")));
        }
    }

    #[test]
    fn the_last_one_wins_and_lists_collect() {
        let flags = parse(&["--count=1", "--path=a", "--count=-2", "--path=b=c"]).unwrap();
        assert_eq!(flags.integer("count"), -2);
        assert_eq!(flags.list("path").collect::<Vec<_>>(), ["a", "b=c"]);
        let flags = parse(&["--output=", "--output=-"]).unwrap();
        assert_eq!(flags.list("output").collect::<Vec<_>>(), ["", "-"]);
        assert!(error(&["--output"]).contains("needs a value"));
    }

    #[test]
    fn values_follow_an_equals_sign() {
        for arguments in [&["--format", "text"][..], &["--path"], &["--path="], &["--count"], &["--count="]] {
            let report = error(arguments);
            assert!(report.contains("needs a value\n  try: write --"), "{report}");
        }
        assert_eq!(parse(&["--format="]).unwrap().text("format"), "");
    }

    #[test]
    fn numbers_are_whole_and_fit() {
        for value in ["abc", "1.5", "9223372036854775808", "1x"] {
            let report = error(&[&format!("--count={value}")]);
            assert!(report.starts_with(&format!("INVALID_ARGUMENT; --count={value}: ")), "{report}");
        }
    }

    #[test]
    fn a_misspelt_flag_suggests_the_right_one() {
        assert_eq!(
            error(&["--fromat=text"]),
            "INVALID_ARGUMENT; there is no flag '--fromat'\n  try: did you mean --format? --help lists the flags"
        );
        assert_eq!(
            error(&["--zzz"]),
            "INVALID_ARGUMENT; there is no flag '--zzz'\n  try: --help lists the flags"
        );
    }

    #[test]
    fn the_first_query_is_answered_with_or_without_a_value() {
        let flags = parse(&["--format=a", "--show=x", "--tell"]).unwrap();
        assert_eq!(flags.first_query(), Some("show"));
        assert_eq!(flags.query("show"), "x");
        assert_eq!(parse(&["--show"]).unwrap().query("show"), "");
        assert_eq!(parse(&["--format=a"]).unwrap().first_query(), None);
    }

    #[test]
    fn what_is_not_built_is_taken_at_its_default_alone() {
        assert!(parse(&["--mode=", "--streams=false", "--threads=0"]).is_ok());
        assert!(parse(&["--threads=4", "--device=local-sync"]).is_ok());
        assert_eq!(
            error(&["--mode=x"]),
            "UNIMPLEMENTED; --mode=x asks for profiling, which is not built yet\n  try: leave out --mode"
        );
        assert!(error(&["--threads=4"]).contains("local-task"));
    }
}
