//! The short help: a line for each flag, and one for the groups that few calls need.

use std::fmt::Write;

use rehal_base::{Align, padded};

use super::flag::{Effect, Entry, Group};
use super::{DEVICES, DRIVERS, LOCAL};
use crate::shells::first_sentence;

/// Characters of a line.
const WIDTH: usize = 110;
/// Longer flags have their help on the next line.
const NAME_WIDTH: usize = 38;
/// Names that the line of a folded group shows.
const SHOWN: usize = 3;

/// Titles of groups of which only names are shown, or their first words.
const FOLDED: [&str; 4] = ["Profiling", "Kernel records", "Tests", "General"];

/// The flags that have an effect.
pub fn help_short(groups: &[&Group]) -> String {
    let mut text = String::new();
    let mut folded: Vec<(&str, Vec<&str>)> = Vec::new();
    for group in groups {
        let flags: Vec<_> = group.flags.iter().filter(|flag| has_effect(**flag)).collect();
        let Some(title) = folded_title(group) else {
            flags.iter().for_each(|flag| line(&mut text, **flag));
            continue;
        };
        let names = flags.iter().map(|flag| flag.spec().name);
        match folded.iter_mut().find(|(known, _)| *known == title) {
            Some((_, known)) => known.extend(names),
            None => folded.push((title, names.collect())),
        }
    }
    if !text.is_empty() {
        text.push('\n');
    }
    for (title, names) in folded {
        let shown: Vec<_> = names.iter().take(SHOWN).map(|name| format!("--{name}")).collect();
        let _ = write!(text, "  {title}: {}", shown.join(", "));
        let _ = match names.len().saturating_sub(SHOWN) {
            0 => writeln!(text),
            more => writeln!(text, " and {more} more"),
        };
    }
    text
}

fn has_effect(flag: &dyn Entry) -> bool {
    matches!(flag.spec().effect, Effect::Full | Effect::OfDriver(_))
}

/// The name under which a group is folded, if it is: all that configure devices have one.
fn folded_title(group: &Group) -> Option<&'static str> {
    let of_devices = [&DEVICES, &LOCAL, &super::OTHER_DRIVERS].into_iter().chain(&DRIVERS);
    if of_devices.into_iter().any(|it| it.title == group.title) {
        return Some(DEVICES.title);
    }
    FOLDED.into_iter().find(|title| group.title.starts_with(title))
}

/// A flag with the first sentence of its help, as far as it fits.
fn line(text: &mut String, flag: &dyn Entry) {
    let spec = flag.spec();
    let mut name = spec.short.map_or_else(String::new, |letter| format!("-{letter}, "));
    let _ = write!(name, "--{}", spec.name);
    let form = flag.form();
    if !form.is_empty() && form != "true|false" {
        let _ = write!(name, "={form}");
    }
    if name.chars().count() > NAME_WIDTH {
        let _ = writeln!(text, "  {name}");
        name.clear();
    }
    let summary = shortened(&first_sentence(spec.help), WIDTH - NAME_WIDTH - 4);
    let _ = writeln!(text, "  {}  {summary}", padded(&name, NAME_WIDTH, Align::Left));
}

/// The first words of a text, with `...` for the others.
fn shortened(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let mut short = String::new();
    for word in text.split(' ') {
        if short.chars().count() + word.chars().count() + 4 > width {
            break;
        }
        short.push_str(word);
        short.push(' ');
    }
    format!("{}...", short.trim_end().trim_end_matches([',', ':', ';']))
}
