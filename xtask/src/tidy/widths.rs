//! Widths in format strings are constants.

use super::{Problem, tree::Tree};

/// A width that is computed from data is a panic if it is above 65,535: `rehal_base::padded` and
/// `cli/src/table.rs` pad text to any width. The number of digits of a number with leading zeros
/// (`{:0digits$X}`) is bounded by its type.
pub fn check(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for path in tree.rust() {
        for (number, line) in tree.text(path).lines().enumerate() {
            if placeholders(line).any(has_computed_width) {
                let what = "a width from data, which panics above 65,535: use rehal_base::padded or a table";
                problems.push(Problem::new(path, number + 1, what));
            }
        }
    }
    problems
}

/// What is between braces without braces within, after a colon.
fn placeholders(line: &str) -> impl Iterator<Item = &str> {
    line.split('{').skip(1).filter_map(|rest| rest.split_once('}')?.0.split_once(':')).map(|(_, spec)| spec)
}

/// Whether a format specification has a width that names an argument, and no flag for leading zeros.
fn has_computed_width(spec: &str) -> bool {
    let aligned = spec.char_indices().nth(1).filter(|(_, it)| "<>^".contains(*it));
    let spec = match aligned {
        Some((at, _)) => &spec[at..],
        None => spec,
    };
    let spec = spec.trim_start_matches(['<', '>', '^', '+', '-', '#']);
    let is_zero_padded = spec.starts_with('0') && !spec.starts_with("0$");
    let name = spec.trim_start_matches(|it: char| it.is_alphanumeric() || it == '_');
    !is_zero_padded && name.len() < spec.len() && is_end(name)
}

/// Whether this is the sign that ends the name of a width, with what may follow: a precision and a type.
fn is_end(rest: &str) -> bool {
    rest.strip_prefix('$').is_some_and(|rest| {
        rest.starts_with('.') || rest.chars().all(|it| it.is_ascii_alphabetic() || it == '?')
    })
}

#[cfg(test)]
mod tests {
    use super::super::tree::made_up;
    use super::*;

    #[test]
    fn computed_widths_are_found() {
        for spec in ["width$", ">width$", "<1$", "*^w$", ">0$", "+w$.2", "#w$x", "-<width$?", "é>w$e"] {
            let line = format!("    format!(\"a {{cell:{spec}}} b\");\n");
            let (_directory, tree) = made_up(&[("crates/x/src/a.rs", &line)]);
            assert_eq!(check(&tree).len(), 1, "{spec}");
        }
        for spec in [">10", "0digits$X", ".digits$", ".digits$e", "?", "#x", "<4", ">10.3", "04"] {
            assert!(!has_computed_width(spec), "{spec}");
        }
        let macros = "($($name:ident: $bits:ty { $($flag:ident = $value:expr;)* })*) => { $a: $b }\n";
        let (_directory, tree) = made_up(&[("crates/x/src/a.rs", macros)]);
        assert!(check(&tree).is_empty());
    }
}
