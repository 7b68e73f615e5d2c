//! The flags declared in a tool's `--help`.
//!
//! The help of each tool is a flag file: paragraphs of comments, each ending with the line that sets the flag
//! to its default (`--name=value`), or with a comment (`# --name=...`) if the flag has no default. Tools
//! based on Google Benchmark end with its usage message, which lists flags in brackets.

use std::collections::BTreeMap;

/// A flag's declaration in a help text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Declared {
    /// A flag with a default value, without the quotes of strings.
    Default(String),
    /// A flag that takes a value, may be repeated, and has no default.
    Repeated,
    /// A flag without a value that changes the tool's action.
    Action,
    /// A flag of Google Benchmark's usage message, which has no defaults.
    Usage,
}

/// Parses a help text. Fails on duplicate declarations.
pub fn parse(help: &str) -> Result<BTreeMap<String, Declared>, String> {
    let mut flags = BTreeMap::new();
    let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
    for (at, line) in lines.iter().enumerate() {
        let ends_paragraph = lines.get(at + 1).is_none_or(|next| next.is_empty());
        let declared = if ends_paragraph { declaration(line).or_else(|| usage(line)) } else { usage(line) };
        if let Some((name, declared)) = declared
            && flags.insert(name.to_owned(), declared).is_some()
        {
            return Err(format!("--{name} is declared twice"));
        }
    }
    Ok(flags)
}

/// `--name=value`, `# --name=...`, `# --name[=...]` or `# --name`.
fn declaration(line: &str) -> Option<(&str, Declared)> {
    if let Some(set) = line.strip_prefix("--") {
        let (name, value) = set.split_once('=')?;
        let unquoted = value.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
        return is_name(name).then(|| (name, Declared::Default(unquoted.unwrap_or(value).to_owned())));
    }
    let flag = line.strip_prefix("# --")?;
    let (name, declared) = match flag.find(['=', '[']) {
        Some(at) if flag[at..].starts_with('=') => (&flag[..at], Declared::Repeated),
        Some(at) => (&flag[..at], Declared::Action),
        None => (flag, Declared::Action),
    };
    is_name(name).then_some((name, declared))
}

/// `[--name=<value>]`, preceded by `benchmark` or spaces.
fn usage(line: &str) -> Option<(&str, Declared)> {
    let flag = line.strip_prefix("benchmark").unwrap_or(line).trim_start().strip_prefix("[--")?;
    let (name, _) = flag.strip_suffix(']')?.split_once('=')?;
    is_name(name).then_some((name, Declared::Usage))
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(help: &str) -> Vec<(String, Declared)> {
        parse(help).unwrap().into_iter().collect()
    }

    #[test]
    fn each_form_is_read() {
        let help = "# tool\n\n# Text that names\n# --other is not a declaration.\n--count=-1\n\n# One\n--name=\"a\"\n\n\
            # --list=...\n\n# --show[=DRIVER]\n\n# --help\n\nbenchmark [--b_x={true|false}]\n          [--v=<level>]\n";
        let default = |value: &str| Declared::Default(value.to_owned());
        let expected = [
            ("b_x", Declared::Usage),
            ("count", default("-1")),
            ("help", Declared::Action),
            ("list", Declared::Repeated),
            ("name", default("a")),
            ("show", Declared::Action),
            ("v", Declared::Usage),
        ];
        assert_eq!(parsed(help), expected.map(|(name, declared)| (name.to_owned(), declared)));
    }

    #[test]
    fn prose_declares_nothing() {
        assert!(
            parsed("# Run it as\n#     tool --flag=1\n\n# -- a line\n\n# ---- Run ----\n\n--no value\n")
                .is_empty()
        );
    }

    #[test]
    fn a_flag_declared_twice_is_an_error() {
        assert!(parse("--a=1\n\n--a=2\n").unwrap_err().contains("--a"));
    }
}
