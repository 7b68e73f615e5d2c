//! Help output that is a valid flag file: text in comments, flags at their defaults.

use std::fmt::Write;

use super::flag::{Effect, Entry, Group};

const WIDTH: usize = 92;

/// The help for the flags that work, and one line per group for the others.
pub fn help(groups: &[&Group]) -> String {
    let mut text = String::new();
    for group in groups {
        section(&mut text, group.title, group.flags.iter().copied().filter(|flag| has_effect(*flag)));
    }
    let ignored = names_by_group(groups, |effect| matches!(effect, Effect::Ignored(_)));
    let refused = names_by_group(groups, |effect| matches!(effect, Effect::Missing { .. }));
    if ignored.is_empty() && refused.is_empty() {
        return text;
    }
    title(&mut text, "Not in this build");
    for (what, names) in [
        ("Accepted for compatibility, no effect in this build; --help=all lists them:", ignored),
        ("Refused in this build, unless at their defaults; --help=all lists them:", refused),
    ] {
        if !names.is_empty() {
            let _ = writeln!(text, "# {what}\n{names}");
        }
    }
    text.pop();
    text
}

/// The help for all flags.
pub fn help_all(groups: &[&Group]) -> String {
    let mut text = String::new();
    for group in groups {
        section(&mut text, group.title, group.flags.iter().copied());
    }
    text
}

fn section(text: &mut String, name: &str, flags: impl Iterator<Item = &'static dyn Entry>) {
    let mut flags = flags.peekable();
    if flags.peek().is_none() {
        return;
    }
    title(text, name);
    for flag in flags {
        text.push_str(&comment(flag.spec().help));
        if let Some(letter) = flag.spec().short {
            text.push_str(&comment(&format!("Short form: -{letter} VALUE.")));
        }
        match flag.spec().effect {
            Effect::Full => {}
            Effect::Ignored(why) => text.push_str(&comment(&format!("No effect in this build: {why}."))),
            Effect::OfDriver(driver) => text.push_str(&comment(&format!("For {driver} devices."))),
            Effect::Missing { what, instead } => {
                text.push_str(&comment(&format!("Refused in this build: it has no {what}; {instead}.")));
            }
        }
        let _ = writeln!(text, "{}\n", flag.line());
    }
    text.pop();
}

fn title(text: &mut String, name: &str) {
    let _ = writeln!(text, "\n# ---- {name} {}\n", "-".repeat(WIDTH.saturating_sub(8 + name.len())));
}

fn has_effect(flag: &dyn Entry) -> bool {
    matches!(flag.spec().effect, Effect::Full | Effect::OfDriver(_))
}

/// A line for each group with the names of its flags whose effect is `wanted`; a common prefix becomes
/// `prefix_*`. Lists of names are wider than paragraphs: they are searched rather than read.
const NAMES_WIDTH: usize = 120;

fn names_by_group(groups: &[&Group], wanted: fn(Effect) -> bool) -> String {
    let all: Vec<_> = groups.iter().flat_map(|group| group.flags).map(|flag| flag.spec()).collect();
    // A prefix is usable only if all flags that have it are `wanted` and no flag is named like the prefix
    // itself.
    let is_usable = |prefix: &str| {
        if all.iter().any(|spec| spec.name == prefix.trim_end_matches('_')) {
            return false;
        }
        let mut those = all.iter().filter(|spec| spec.name.starts_with(prefix)).peekable();
        those.clone().count() > 1 && those.all(|spec| wanted(spec.effect))
    };
    let mut text = String::new();
    for group in groups {
        let mut names: Vec<String> = Vec::new();
        for spec in group.flags.iter().map(|flag| flag.spec()).filter(|spec| wanted(spec.effect)) {
            let ends = spec.name.match_indices('_').map(|(at, _)| &spec.name[..=at]).take(2);
            let name = match ends.into_iter().find(|prefix| is_usable(prefix)) {
                Some(prefix) => format!("--{prefix}*"),
                None => format!("--{}", spec.name),
            };
            if !names.contains(&name) {
                names.push(name);
            }
        }
        if !names.is_empty() {
            let mut line = format!("#   {}:", group.title);
            for (index, name) in names.iter().enumerate() {
                let comma = if index + 1 < names.len() { "," } else { "" };
                if line.len() + name.len() + 2 > NAMES_WIDTH {
                    let _ = writeln!(text, "{line}");
                    line = "#    ".to_owned();
                }
                let _ = write!(line, " {name}{comma}");
            }
            let _ = writeln!(text, "{line}");
        }
    }
    text
}

/// Text as comments; paragraphs are filled, indented lines are kept.
pub fn comment(text: &str) -> String {
    let mut lines = String::new();
    for paragraph in text.lines() {
        if paragraph.is_empty() {
            lines.push_str("#\n");
        } else if paragraph.starts_with(' ') {
            let _ = writeln!(lines, "# {paragraph}");
        } else {
            fill(&mut lines, paragraph);
        }
    }
    lines
}

fn fill(lines: &mut String, paragraph: &str) {
    let mut column = 0;
    for word in paragraph.split(' ') {
        if column == 0 || column + 1 + word.len() > WIDTH {
            lines.push_str(if column == 0 { "#" } else { "\n#" });
            column = 1;
        }
        let _ = write!(lines, " {word}");
        column += 1 + word.len();
    }
    lines.push('\n');
}

#[cfg(test)]
mod tests {
    use super::super::flag::Flag;
    use super::*;

    #[test]
    fn paragraphs_are_filled_and_indented_lines_kept() {
        let long = "word ".repeat(40);
        let text = comment(&format!("{}\n\n    code  here", long.trim()));
        assert!(text.lines().all(|line| line.starts_with('#') && line.len() <= WIDTH));
        assert!(text.ends_with("#\n#     code  here\n"));
        assert_eq!(text.matches("word").count(), 40);
    }

    #[test]
    fn prefixes_match_only_flags_without_effect() {
        const GROUP: Group = Group {
            title: "Devices",
            flags: &[
                &Flag::switch("device_a_x", false, "").effect(Effect::Ignored("why")),
                &Flag::switch("device_a_y", false, "").effect(Effect::Ignored("why")),
                &Flag::switch("device_b", false, "Works."),
                &Flag::switch("old_flag", false, "").effect(Effect::Ignored("why")),
                &Flag::switch("gone_a", false, "")
                    .effect(Effect::Missing { what: "it", instead: "use that" }),
                &Flag::switch("gone_b", false, "")
                    .effect(Effect::Missing { what: "it", instead: "use that" }),
            ],
        };
        let text = help(&[&GROUP]);
        assert!(text.contains("lists them:\n#   Devices: --device_a_*, --old_flag\n"), "{text}");
        assert!(text.contains("lists them:\n#   Devices: --gone_*\n"), "{text}");
        assert!(text.contains("# Works.\n--device_b=false\n") && !text.contains("--device_a_x"), "{text}");
        let all = help_all(&[&GROUP]);
        assert!(all.contains("# No effect in this build: why.\n--device_a_x=false\n"), "{all}");
        assert!(all.contains("# Refused in this build: it has no it; use that.\n--gone_b=false\n"), "{all}");
    }
}
