//! Help that is a flag file too: what is no flag is a comment, and flags stand at their defaults.

use std::fmt::Write;

use super::flag::{Flag, Group, Kind};

const WIDTH: usize = 92;

/// The lines of a group's help.
pub fn help(groups: &[&Group]) -> String {
    let mut text = String::new();
    for group in groups {
        let _ = writeln!(text, "\n# ---- {} {}\n", group.title, "-".repeat(WIDTH - 8 - group.title.len()));
        for flag in group.flags {
            text.push_str(&comment(flag.help));
            let _ = writeln!(text, "{}\n", line(flag));
        }
        text.pop();
    }
    text
}

/// Text as comments; paragraphs are filled, and lines that are indented stay as they are.
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

/// A flag at its default; one that has none is a comment that shows its form.
fn line(flag: &Flag) -> String {
    let name = flag.name;
    match flag.kind {
        Kind::Switch(default) | Kind::BenchmarkSwitch(default) => format!("--{name}={default}"),
        Kind::Integer(default) => format!("--{name}={default}"),
        Kind::Text { default: "", form } => format!("# --{name}={form}\n--{name}=\"\""),
        Kind::Text { default, .. } => format!("--{name}=\"{default}\""),
        Kind::List { form, .. } => format!("# --{name}={form}"),
        Kind::Query { form: "" } => format!("# --{name}"),
        Kind::Query { form } => format!("# --{name}[={form}]"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paragraphs_are_filled_and_indented_lines_kept() {
        let long = "word ".repeat(40);
        let text = comment(&format!("{}\n\n    code  here", long.trim()));
        assert!(text.lines().all(|line| line.starts_with('#') && line.len() <= WIDTH));
        assert!(text.ends_with("#\n#     code  here\n"));
        assert_eq!(text.matches("word").count(), 40);
    }
}
