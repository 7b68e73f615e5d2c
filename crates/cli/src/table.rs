//! The tables that reports print: columns, aligned, two spaces apart. And their sentences, which are wrapped
//! on a terminal.
//!
//! In a pipe, cells are printed whole, up to 1000 characters. On a terminal, names leave out the prefix that
//! most of them share. Cells that do not fit its width are shortened, or left out and named above the table.
//! A `*` replaces what is left out of a name, so that the name is still a pattern that `--function` takes; if
//! the width allows it, one that no other name of the table matches. Names and patterns that a shell would
//! change are quoted.

use std::collections::{BTreeSet, HashMap};
use std::io::{IsTerminal, stdout};

use rehal_base::{Align, padded};

/// Maximum number of characters of a cell: a longer one, such as a hostile name, would make all lines that
/// long.
const MAX_CELL: usize = 1000;
/// Shorter prefixes of names are not worth a line of their own.
const MIN_PREFIX: usize = 8;
/// Names, and other cells that may be shortened, keep as many characters if they have them.
const MIN_NAME: usize = 24;
const MIN_CELL: usize = 8;

/// Where text is printed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    /// The width of the terminal in characters; `None` if the text is not for a terminal.
    width: Option<usize>,
}

impl Layout {
    /// A pipe or a file.
    pub(crate) const PIPE: Self = Self { width: None };

    /// A terminal of this width.
    #[cfg(test)]
    pub(crate) fn of_width(width: usize) -> Self {
        Self { width: Some(width) }
    }

    /// The layout of standard output.
    pub(crate) fn for_stdout() -> Self {
        if !stdout().is_terminal() {
            return Self::PIPE;
        }
        let size = rehal_base::platform::terminal_columns().unwrap_or(0);
        // Some terminals do not know their size.
        Self { width: Some(if size == 0 { usize::MAX } else { size }) }
    }

    /// Whether lines are wrapped.
    pub(crate) fn is_terminal(self) -> bool {
        self.width.is_some()
    }

    /// Sentences, one a line, with lines broken at spaces if they do not fit. What follows a break is
    /// indented as the text behind the label of the line, or by two more spaces than the line. In a pipe,
    /// lines are whole.
    pub(crate) fn wrap(self, text: &str) -> String {
        let fits = |line: &str| self.width.is_none_or(|width| line.chars().count() <= width);
        let mut wrapped = String::with_capacity(text.len());
        for line in text.lines() {
            let (mut rest, hang) = (line.to_owned(), hanging_indent(line));
            while !fits(&rest) {
                let width = self.width.unwrap_or(usize::MAX);
                let begin = rest.len() - rest.trim_start().len();
                let spaces =
                    rest.char_indices().enumerate().filter(|(_, (at, it))| *it == ' ' && *at > begin);
                let spaces: Vec<_> = spaces.map(|(column, (at, _))| (column, at)).collect();
                // A word that is too long is left whole.
                let behind = |at: usize| rest[..at].trim_end().chars().count() > hang;
                let last = spaces.iter().rfind(|(column, at)| *column <= width && behind(*at));
                let Some((_, at)) = last.or_else(|| spaces.iter().find(|(_, at)| behind(*at))) else { break };
                wrapped.push_str(rest[..*at].trim_end());
                wrapped.push('\n');
                rest = " ".repeat(hang) + rest[*at..].trim_start();
            }
            wrapped.push_str(&rest);
            wrapped.push('\n');
        }
        wrapped
    }
}

/// The indent of what follows a break of a line.
fn hanging_indent(line: &str) -> usize {
    /// Labels are shorter.
    const MAX_LABEL: usize = 12;
    let text = line.trim_start();
    let indent = line.len() - text.len();
    let label = text.find("  ").filter(|end| *end < MAX_LABEL);
    match label {
        Some(end) => line.len() - text[end..].trim_start().len(),
        None => indent + 2,
    }
}

/// A column of a [`Table`].
#[derive(Clone, Copy)]
pub(crate) struct Column {
    title: &'static str,
    /// The noun for the cells, also without a title.
    noun: &'static str,
    align: Align,
    fit: Fit,
    /// Of the columns that do not fit, the one of the highest rank is left out first; one of rank 0 never is.
    rank: u8,
}

/// The treatment of cells that do not fit.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fit {
    Whole,
    Shortened,
    /// They are patterns of names.
    Name,
}

impl Column {
    pub(crate) const fn left(title: &'static str) -> Self {
        Self { title, noun: title, align: Align::Left, fit: Fit::Whole, rank: 0 }
    }

    pub(crate) const fn right(title: &'static str) -> Self {
        Self { align: Align::Right, ..Self::left(title) }
    }

    /// A column of names, such as those of functions.
    pub(crate) const fn names(noun: &'static str) -> Self {
        Self { fit: Fit::Name, ..Self::left(noun) }
    }

    /// A column of a table without titles.
    pub(crate) const fn untitled(self) -> Self {
        Self { title: "", ..self }
    }

    /// Its cells may lose their middle.
    pub(crate) const fn shortened(self) -> Self {
        Self { fit: Fit::Shortened, ..self }
    }

    /// It may be left out.
    pub(crate) const fn optional(self, rank: u8) -> Self {
        Self { rank, ..self }
    }

    fn min_width(&self, natural: usize) -> usize {
        let least = match self.fit {
            Fit::Whole => natural,
            Fit::Shortened => MIN_CELL,
            Fit::Name => MIN_NAME,
        };
        least.max(self.title.chars().count()).min(natural)
    }
}

/// Rows of cells, each after an indent. No line ends in spaces.
pub(crate) struct Table {
    indent: &'static str,
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(indent: &'static str, columns: impl Into<Vec<Column>>) -> Self {
        Self { indent, columns: columns.into(), rows: Vec::new() }
    }

    pub(crate) fn row(&mut self, cells: impl Into<Vec<String>>) {
        self.rows.push(cells.into());
    }

    /// The titles, if there are any, and the rows, after notes about what is left out.
    pub(crate) fn text(mut self, layout: Layout) -> String {
        let mut notes = String::new();
        if layout.width.is_some() {
            self.strip_prefixes(&mut notes);
            self.quote_names();
        }
        if self.columns.iter().any(|column| !column.title.is_empty()) {
            self.rows.insert(0, self.columns.iter().map(|column| column.title.to_owned()).collect());
        }
        for cell in self.rows.iter_mut().flatten() {
            if let Some(short) = elided(cell) {
                *cell = short;
            }
        }
        let natural: Vec<usize> = (0..self.columns.len()).map(|column| self.width(column)).collect();
        let widths = match layout.width {
            None => natural,
            Some(width) => self.fit(natural, width, &mut notes),
        };
        layout.wrap(&notes) + &self.lines(&widths)
    }

    fn width(&self, column: usize) -> usize {
        let widths = self.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        widths.max().unwrap_or(0)
    }

    /// Replaces the prefix that most names of a column share. A name keeps it if `*` in its place would make
    /// a pattern that matches another name, too.
    fn strip_prefixes(&mut self, notes: &mut String) {
        for (index, column) in self.columns.iter().enumerate().filter(|(_, column)| column.fit == Fit::Name) {
            let names = self.rows.iter().filter_map(|row| Some(row.get(index)?.as_str())).collect();
            let Some(prefix) = shared_prefix(names).map(str::to_owned) else { continue };
            let backwards = |name: &str| name.chars().rev().collect::<String>();
            let column_names = self.rows.iter().filter_map(|row| Some(backwards(row.get(index)?)));
            let by_end: BTreeSet<String> = column_names.collect();
            let is_alone = |end: &str| {
                let end = backwards(end);
                by_end.range(end.clone()..).take_while(|name| name.starts_with(&end)).nth(1).is_none()
            };
            let cells = self.rows.iter_mut().filter_map(|row| row.get_mut(index));
            let (with, others): (Vec<_>, Vec<_>) =
                cells.partition(|cell| cell.strip_prefix(&prefix).is_some_and(is_alone));
            if with.is_empty() {
                continue;
            }
            let most = if others.is_empty() { "" } else { "most " };
            notes.push_str(&format!("{}{most}{}s begin with {prefix}, here *\n", self.indent, column.noun));
            with.into_iter().for_each(|cell| cell.replace_range(..prefix.len(), "*"));
        }
    }

    /// Quotes names for a shell.
    fn quote_names(&mut self) {
        for row in &mut self.rows {
            for (cell, _) in row.iter_mut().zip(&self.columns).filter(|(_, column)| column.fit == Fit::Name) {
                *cell = quoted(cell);
            }
        }
    }

    /// The widths of the columns in a line of at most `width`; zero for those that are left out.
    fn fit(&mut self, natural: Vec<usize>, width: usize, notes: &mut String) -> Vec<usize> {
        let mut left_out = Vec::new();
        let mut widths = natural.clone();
        loop {
            let excess = self.total(&widths).saturating_sub(width);
            if excess == 0 {
                break;
            }
            let spare = |index: &usize| widths[*index] - self.columns[*index].min_width(widths[*index]);
            let widest = (0..widths.len()).filter(|index| spare(index) > 0).max_by_key(|it| widths[*it]);
            if let Some(index) = widest {
                widths[index] -= 1;
                continue;
            }
            let shown = (0..widths.len()).filter(|index| widths[*index] > 0);
            let Some(last) =
                shown.filter(|it| self.columns[*it].rank > 0).max_by_key(|it| self.columns[*it].rank)
            else {
                break;
            };
            left_out.push(last);
            widths.clone_from(&natural);
            left_out.iter().for_each(|index| widths[*index] = 0);
        }
        if !left_out.is_empty() {
            left_out.sort_unstable();
            let nouns: Vec<_> = left_out.iter().map(|index| self.columns[*index].noun).collect();
            notes.push_str(&format!("{}too narrow for: {}\n", self.indent, nouns.join(", ")));
        }
        for (index, column) in self.columns.iter().enumerate() {
            let cells = self.rows.iter_mut().filter_map(|row| row.get_mut(index));
            match column.fit {
                Fit::Name => shorten_names(cells.collect(), widths[index]),
                _ => cells.for_each(|cell| *cell = shortened(cell, widths[index], '…')),
            }
        }
        widths
    }

    fn total(&self, widths: &[usize]) -> usize {
        let shown = widths.iter().filter(|width| **width > 0);
        self.indent.len() + shown.map(|width| width + 2).sum::<usize>().saturating_sub(2)
    }

    fn lines(&self, widths: &[usize]) -> String {
        let mut text = String::new();
        // A column that is empty in all rows keeps its place, unless it is left out.
        let is_left_out = |index: usize| widths[index] == 0 && self.columns[index].rank > 0;
        for row in &self.rows {
            let columns = row.iter().zip(widths).zip(&self.columns).enumerate();
            let cells: Vec<_> = columns
                .filter(|(index, _)| !is_left_out(*index))
                .map(|(_, ((cell, width), column))| padded(cell, *width, column.align))
                .collect();
            text.push_str(format!("{}{}", self.indent, cells.join("  ")).trim_end());
            text.push('\n');
        }
        text
    }
}

/// The rows of a table without titles, whatever standard output is.
pub(crate) fn table<R: AsRef<[String]>>(indent: &'static str, aligns: &[Align], rows: &[R]) -> String {
    let column = |align: &Align| Column { align: *align, ..Column::left("") };
    let mut table = Table::new(indent, aligns.iter().map(column).collect::<Vec<_>>());
    rows.iter().for_each(|row| table.row(row.as_ref()));
    table.text(Layout::PIPE)
}

/// The prefix of more than half of the names, up to the begin of a word, that saves most if it is left out.
/// It is not short, and the separator after it stays: a pattern `*_1_abs` does not match `x_11_abs`.
fn shared_prefix(names: Vec<&str>) -> Option<&str> {
    let word =
        |text: &str| text.char_indices().skip(1).find(|(_, it)| !it.is_alphanumeric()).map(|(at, _)| at);
    let count = names.len();
    let (mut group, mut end) = (names, 0);
    let mut best = (0, None);
    loop {
        let mut by_word: HashMap<&str, Vec<&str>> = HashMap::new();
        for name in group {
            if let Some(length) = word(&name[end..]) {
                by_word.entry(&name[end..end + length]).or_default().push(name);
            }
        }
        // At most one word is the next of more than half of the names.
        let most = by_word.into_iter().find(|(_, sharing)| 2 * sharing.len() > count.max(2));
        let Some((word, sharing)) = most else { return best.1 };
        (group, end) = (sharing, end + word.len());
        let saved = end * group.len();
        if end >= MIN_PREFIX && saved > best.0 {
            best = (saved, Some(&group[0][..end]));
        }
    }
}

/// A cell without its middle, if it is long.
fn elided(cell: &str) -> Option<String> {
    // Most cells are short: their bytes are as many as their characters at least.
    if cell.len() <= MAX_CELL {
        return None;
    }
    let count = cell.chars().count();
    let kept = MAX_CELL / 2 - 20;
    (count > MAX_CELL).then(|| {
        let [start, end] = ends(cell, count, kept, kept);
        format!("{start}[... {} characters ...]{end}", count - 2 * kept)
    })
}

/// A cell of at most `width` characters, with `mark` in the place of its middle.
fn shortened(cell: &str, width: usize, mark: char) -> String {
    shortened_after(cell, width.saturating_sub(1) / 2, width, mark)
}

/// The same, with so many characters before the mark.
fn shortened_after(cell: &str, start: usize, width: usize, mark: char) -> String {
    let count = cell.chars().count();
    if count <= width || width == 0 {
        return cell.to_owned();
    }
    let [start, end] = ends(cell, count, start, width - 1 - start);
    format!("{start}{mark}{end}")
}

/// Names, which may be quoted, as patterns of at most `width` characters. Each keeps as much of its start as
/// no other name has, if that fits.
fn shorten_names(cells: Vec<&mut String>, width: usize) {
    let all: BTreeSet<_> = cells.iter().map(|cell| unquoted(cell)).collect();
    let shared = |one: &str, other: Option<&String>| {
        other.map_or(0, |it| one.chars().zip(it.chars()).take_while(|(one, other)| one == other).count())
    };
    for cell in cells {
        let name = unquoted(cell);
        let before = all.range::<String, _>(..&name).next_back();
        let after = all.range::<String, _>(&name..).nth(1);
        *cell = shortened_name(cell, width, shared(&name, before).max(shared(&name, after)) + 1);
    }
}

/// A name, which may be quoted, as a pattern of at most `width` characters that begins with `unique` of it,
/// if that fits.
fn shortened_name(cell: &str, width: usize, unique: usize) -> String {
    if cell.chars().count() <= width || width < MIN_CELL {
        return shortened(cell, width, '*');
    }
    let name = unquoted(cell);
    let pattern = |width: usize| {
        let middle = (width - 1) / 2;
        shortened_after(&name, if unique < width { unique.max(middle) } else { middle }, width, '*')
    };
    // A quote within takes more characters, of which some are left out, too.
    (0..width - 2)
        .find_map(|less| Some(quoted(&pattern(width - 2 - less))).filter(|it| it.chars().count() <= width))
        .unwrap_or_default()
}

/// A word of a command line, in single quotes if a shell would change it.
pub(crate) fn quoted(word: &str) -> String {
    let is_plain = |it: char| it.is_alphanumeric() || "_-./:+,@%=".contains(it);
    // An `=` in front is a path for zsh.
    match !word.is_empty() && !word.starts_with('=') && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// The word that [`quoted`] has quoted.
fn unquoted(word: &str) -> String {
    let inner = word.strip_prefix('\'').and_then(|it| it.strip_suffix('\''));
    inner.map_or_else(|| word.to_owned(), |it| it.replace(r"'\''", "'"))
}

/// The first and the last characters of a cell.
fn ends(cell: &str, count: usize, first: usize, last: usize) -> [String; 2] {
    [cell.chars().take(first).collect(), cell.chars().skip(count - last).collect()]
}

#[cfg(test)]
mod tests {
    use super::Align::{Left, Right};
    use super::*;

    fn row(cells: [&str; 2]) -> [String; 2] {
        cells.map(String::from)
    }

    fn terminal(width: usize) -> Layout {
        Layout::of_width(width)
    }

    #[test]
    fn columns_are_aligned() {
        assert_eq!(
            table("  ", &[Left, Right], &[row(["a", "10"]), row(["bcd", "1"])]),
            "  a    10\n  bcd   1\n"
        );
        assert_eq!(table("", &[Right, Left], &[row(["a", "é"]), row(["bcd", ""])]), "  a  é\nbcd\n");
        assert_eq!(table::<[String; 2]>("", &[Left, Left], &[]), "");
    }

    #[test]
    fn long_cells_are_elided() {
        let fits = "é".repeat(MAX_CELL);
        assert_eq!(elided(&fits), None);
        let long = format!("first{}last", "é".repeat(70_000));
        let text = table("", &[Left, Left], &[row([&long, "b"]), row(["a", &long])]);
        assert!(text.starts_with("firstéé") && text.contains("éélast  b\na "), "{text}");
        assert_eq!(text.matches("éé[... 69049 characters ...]éé").count(), 2, "{text}");
        let lengths: Vec<_> = text.lines().map(|line| line.chars().count()).collect();
        assert!(lengths.iter().all(|length| *length <= 2 * MAX_CELL + 2), "{lengths:?}");
    }

    fn functions(names: &[&str], layout: Layout) -> String {
        let columns = [
            Column::right("time"),
            Column::right("constants").shortened().optional(2),
            Column::right("record").optional(1),
            Column::names("function"),
        ];
        let mut table = Table::new("", columns);
        for (index, name) in names.iter().enumerate() {
            let cells = ["1.25 us".into(), "1 2 3 4 5 6 7 8".into(), format!("#{index}"), (*name).into()];
            table.row(cells);
        }
        table.text(layout)
    }

    const NAMES: [&str; 2] =
        ["main_graph$async_dispatch_1_matmul_16x16x8_f32", "main_graph$async_dispatch_12_softmax_f32"];

    #[test]
    fn pipes_get_everything() {
        let text = functions(&NAMES, Layout::PIPE);
        let first = "1.25 us  1 2 3 4 5 6 7 8      #0  main_graph$async_dispatch_1_matmul_16x16x8_f32";
        assert_eq!(text.lines().nth(1), Some(first), "{text}");
        assert_eq!(text.lines().count(), 3, "{text}");
    }

    #[test]
    fn terminals_get_patterns_without_the_shared_prefix() {
        let text = functions(&NAMES, terminal(usize::MAX));
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0], "functions begin with main_graph$async_dispatch, here *");
        assert!(
            lines[2].ends_with("  '*_1_matmul_16x16x8_f32'") && lines[3].ends_with("  '*_12_softmax_f32'")
        );
        for (line, name) in lines[2..].iter().zip(NAMES) {
            let pattern = unquoted(line.split(' ').next_back().unwrap());
            assert!(rehal_base::glob::matches(&pattern, name), "{pattern}");
        }
    }

    #[test]
    fn terminals_get_lines_that_fit() {
        for width in 33..=200 {
            let text = functions(&NAMES, terminal(width));
            assert!(text.lines().all(|line| line.chars().count() <= width), "{width}: {text}");
            for (line, name) in text.lines().skip(text.lines().count() - 2).zip(NAMES) {
                let pattern = line.split(' ').next_back().unwrap();
                assert!(pattern.starts_with('\'') && pattern.ends_with('\''), "{width}: {text}");
                assert!(rehal_base::glob::matches(&unquoted(pattern), name), "{width}: {text}");
            }
        }
        let narrow = functions(&NAMES, terminal(33));
        assert!(narrow.contains("\ntoo narrow for: constants, record\n"), "{narrow}");
        let narrower = functions(&NAMES, terminal(30));
        assert!(narrower.contains("\ntoo narrow for: constants,\n  record\n"), "{narrower}");
        let wider = functions(&NAMES, terminal(53));
        assert!(wider.contains("  1 2 …6 7 8      #0  '*_1_matmul"), "{wider}");
    }

    #[test]
    fn sentences_are_wrapped_on_a_terminal() {
        let text =
            "short\n  the first of them, and the others\nlabel   what it is about\n\nunbreakableword x\n";
        assert_eq!(Layout::PIPE.wrap(text), text);
        assert_eq!(
            terminal(16).wrap(text),
            "short\n  the first of\n    them, and\n    the others\nlabel   what it\n        is about\n\n\
             unbreakableword\n  x\n"
        );
        assert_eq!(terminal(4).wrap("abc defgh i\n"), "abc\n  defgh\n  i\n");
        assert_eq!(terminal(3).wrap("  abcdefgh\n"), "  abcdefgh\n");
    }

    #[test]
    fn names_can_be_pasted() {
        let name = "main_graph$async_dispatch_0";
        assert_eq!(
            functions(&[name], terminal(200)).lines().last().unwrap().split(' ').next_back(),
            Some("'main_graph$async_dispatch_0'")
        );
        for word in ["a_1.b-c", "a$b", "a'b", "", "a b", "*x", "it's 'it'", "é", "=a"] {
            assert_eq!(unquoted(&quoted(word)), word);
        }
        assert_eq!([quoted("a_1.b-c"), quoted("a'b"), quoted("")], ["a_1.b-c", r"'a'\''b'", "''"]);
        assert_eq!([quoted("*"), quoted("=a")], ["'*'", "'=a'"]);
        assert_eq!(quoted("--binding=64xi8=@bindings/0a.bin"), "--binding=64xi8=@bindings/0a.bin");
        for width in 8..40 {
            let short = shortened_name(&quoted("it's a 'rather' long name, isn't it"), width, 1);
            assert!(short.chars().count() <= width && short.starts_with('\''), "{width}: {short}");
        }
    }

    #[test]
    fn prefixes_end_before_a_word() {
        let of = |names: &[&'static str]| shared_prefix(names.to_vec());
        assert_eq!(of(&["long_prefix_abc", "long_prefix_abd"]), Some("long_prefix"));
        assert_eq!(of(&["long_prefix_abc", "long_prefix_abc"]), Some("long_prefix"));
        assert_eq!(of(&["long_prefix_", "long_prefix"]), None);
        assert_eq!(of(&["quite_long_prefix_a", "quite_long_prefix"]), Some("quite_long"));
        assert_eq!(of(&["long_prefix_abc"]), None);
        assert_eq!(of(&["ab_c", "ab_d"]), None);
        assert_eq!(of(&["größengrößen_é", "größengrößen_ß"]), Some("größengrößen"));
        assert_eq!(of(&[]), None);
        // More than half of the names have it, and it is worth more than the one of all.
        assert_eq!(of(&["long_prefix_a", "long_prefix_b", "other"]), Some("long_prefix"));
        assert_eq!(of(&["long_prefix_a", "long_prefix_b", "other_1", "other_2"]), None);
        let one_differs = ["main_graph_dispatch_1_x", "main_graph_dispatch_2_x", "main_graph_init_x"];
        assert_eq!(of(&one_differs), Some("main_graph_dispatch"));
    }

    #[test]
    fn a_name_whose_end_is_that_of_another_keeps_its_prefix() {
        let names = [
            "main_graph$async_dispatch_0_elementwise_640_i64",
            "main_graph$async_dispatch_1_matmul_1x128x128_f32",
            "main_graph$async_dispatch_2_matmul_1x128x128_f32",
            "_initializer_0_dispatch_0_elementwise_640_i64",
        ];
        let text = functions(&names, terminal(usize::MAX));
        assert!(text.starts_with("most functions begin with main_graph$async_dispatch, here *\n"), "{text}");
        assert!(text.contains(names[0]) && text.contains("'*_1_matmul") && text.contains(names[3]), "{text}");
    }

    #[test]
    fn shortened_names_match_no_other_if_that_fits() {
        let names = [
            "_initializer_0_dispatch_0_elementwise_640_i64",
            "main_graph$async_dispatch_1_matmul_1x128x128_f32",
            "main_graph$async_dispatch_9_matmul_1x128x128_f32",
            "main_graph$async_dispatch_11_matmul_1x128x128_f32",
            "main_graph$async_dispatch_13_matmul_1x128x128_f32",
        ];
        let text = functions(&names, terminal(34));
        assert!(
            text.starts_with("most functions begin with\n  main_graph$async_dispatch, here\n  *\n"),
            "{text}"
        );
        assert!(text.lines().all(|line| line.chars().count() <= 34), "{text}");
        for (line, name) in text.lines().skip(text.lines().count() - names.len()).zip(names) {
            let pattern = unquoted(line.split(' ').next_back().unwrap());
            let matched: Vec<_> = names.iter().filter(|it| rehal_base::glob::matches(&pattern, it)).collect();
            assert_eq!(matched, [&name], "{text}");
        }
    }
}
