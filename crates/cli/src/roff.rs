//! Manual pages in roff, from the tools' tables of flags.

use std::fmt::Write;

use crate::Tool;
use crate::flags::{Effect, Entry, Group};
use crate::names::IREE_NAMES;

/// The pages by file name: one of the program, then one for each tool.
pub(crate) fn pages(tools: &[&Tool]) -> Vec<(String, String)> {
    let mut pages = vec![("rehal.1".to_owned(), program(tools))];
    pages.extend(tools.iter().map(|tool| (format!("{}.1", page_name(tool)), page(tool))));
    pages
}

/// The name of a tool's page, without section: `rehal-profile-report`.
fn page_name(tool: &Tool) -> String {
    format!("rehal-{}", tool.verb.replace(' ', "-"))
}

fn program(tools: &[&Tool]) -> String {
    let mut text = header("rehal");
    text.push_str(".SH NAME\nrehal \\- records, replays, benchmarks and inspects the work of accelerators\n");
    text.push_str(".SH SYNOPSIS\n.B rehal\n\\fIVERB\\fR [\\fIflags\\fR] [\\fIFILE\\fR]\n.SH VERBS\n");
    for tool in tools {
        let _ = writeln!(text, ".TP\n.BR {} (1)\n{}.", escaped(&page_name(tool)), line(tool.summary));
    }
    text.push_str(".SH NAMES\nCalled by a name of IREE's tools, the program is that tool:\n");
    let twins = tools.iter().filter(|tool| IREE_NAMES.contains(&tool.name));
    for tool in twins {
        let _ = writeln!(text, ".TP\n.B {}\nrehal {}", escaped(tool.name), escaped(tool.verb));
    }
    text.push_str(".PP\n.BR rehal\\-tools (1)\nmakes links of these names.\n");
    text
}

fn page(tool: &Tool) -> String {
    let name = page_name(tool);
    let mut text = header(&name);
    let twin = if IREE_NAMES.contains(&tool.name) { format!(", {}", tool.name) } else { String::new() };
    let command = format!("rehal {}", tool.verb);
    let _ = writeln!(text, ".SH NAME\n{}{} \\- {}", escaped(&name), escaped(&twin), escaped(tool.summary));
    let _ =
        writeln!(text, ".SH SYNOPSIS\n.B {}\n[flags] {}", escaped(&command), escaped(tool.operands.usage()));
    text.push_str(".SH DESCRIPTION\n");
    text.push_str(&paragraphs(tool.about));
    text.push_str(".SH OPTIONS\n");
    for group in tool.all_groups() {
        text.push_str(&section(group));
    }
    text.push_str(".SH EXAMPLES\n");
    let example = |(what, example): &(&str, &str)| {
        let lines: String = example.replace("{tool}", &command).lines().map(|it| line(it) + "\n").collect();
        format!("{}:\n.RS 4\n.nf\n{lines}.fi\n.RE\n", line(what))
    };
    text.push_str(&tool.examples.iter().map(example).collect::<Vec<_>>().join(".PP\n"));
    let _ = writeln!(
        text,
        ".SH EXIT STATUS\n.B {} \\-\\-agents_md\nprints a guide that lists them.\n.SH SEE ALSO\n.BR rehal (1)",
        escaped(&command)
    );
    text
}

/// Pages of one version are the same, whenever they are made: they have no date.
fn header(name: &str) -> String {
    let version = env!("CARGO_PKG_VERSION");
    format!(".TH {} 1 \"\" \"rehal {version}\" \"rehal\"\n.nh\n.ad l\n", escaped(&name.to_ascii_uppercase()))
}

fn section(group: &Group) -> String {
    let mut text = format!(".SS {}\n", escaped(group.title));
    for entry in group.flags {
        let spec = entry.spec();
        text.push_str(".TP\n");
        if let Some(letter) = spec.short {
            let _ = write!(text, "\\fB\\-{letter}\\fR \\fI{}\\fR, ", escaped(&entry.form()));
        }
        let _ = writeln!(text, "\\fB\\-\\-{}\\fR{}", escaped(spec.name), value(*entry));
        text.push_str(&paragraphs(spec.help));
        let effect = match spec.effect {
            Effect::Full => continue,
            Effect::Ignored(why) => format!("No effect in this build: {why}."),
            Effect::OfDriver(driver) => format!("For {driver} devices."),
            Effect::Missing { what, instead } => {
                format!("Refused in this build: it has no {what}; {instead}.")
            }
        };
        text.push_str(&paragraphs(&effect));
    }
    text
}

/// The form of a flag's value, and its default.
fn value(entry: &dyn Entry) -> String {
    let form = escaped(&entry.form());
    let form = match (form.is_empty(), entry.words().is_empty()) {
        (true, _) => String::new(),
        (false, true) => format!("=\\fI{form}\\fR"),
        (false, false) => format!("={form}"),
    };
    let shown = entry.line();
    let default = shown.lines().last().and_then(|line| Some(line.strip_prefix("--")?.split_once('=')?.1));
    match default.map(|it| it.trim_matches('"')).filter(|it| !it.is_empty()) {
        Some(default) => format!("{form} (default: {})", escaped(default)),
        None => form,
    }
}

/// Paragraphs of help: indented lines are kept as they are.
fn paragraphs(text: &str) -> String {
    let mut roff = String::new();
    let mut is_kept = false;
    for it in text.lines() {
        let keeps = it.starts_with(' ');
        if keeps != is_kept {
            roff.push_str(if keeps { ".RS 4\n.nf\n" } else { ".fi\n.RE\n" });
            is_kept = keeps;
        }
        match it.trim() {
            "" => roff.push_str(".sp\n"),
            it => roff.push_str(&(line(it) + "\n")),
        }
    }
    if is_kept {
        roff.push_str(".fi\n.RE\n");
    }
    roff
}

/// A line of text that roff does not take for a request.
fn line(text: &str) -> String {
    let text = escaped(text);
    if text.starts_with(['.', '\'']) { format!("\\&{text}") } else { text }
}

/// Text without meanings of its own in roff.
fn escaped(text: &str) -> String {
    let mut roff = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '\\' => roff.push_str("\\e"),
            '-' => roff.push_str("\\-"),
            '\'' => roff.push_str("\\(aq"),
            '`' => roff.push_str("\\(ga"),
            // Lists of parameters may be broken.
            '&' => roff.push_str("&\\:"),
            '^' => roff.push_str("\\(ha"),
            '~' => roff.push_str("\\(ti"),
            it if it.is_ascii() => roff.push(it),
            it => roff.push_str(&format!("\\[u{:04X}]", u32::from(it))),
        }
    }
    roff
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_has_no_meaning_in_roff() {
        assert_eq!(escaped(r"--a_b=\x 'ä'"), r"\-\-a_b=\ex \(aq\[u00E4]\(aq");
        assert_eq!(line(".vmfb files"), r"\&.vmfb files");
        assert_eq!(paragraphs("One.\n  a  b\nTwo."), "One.\n.RS 4\n.nf\na  b\n.fi\n.RE\nTwo.\n");
    }
}
