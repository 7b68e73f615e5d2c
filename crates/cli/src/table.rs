//! The tables that tools print: columns, aligned, two spaces apart.

use rehal_base::{Align, padded};

/// Maximum number of characters of a cell: what is longer, such as a hostile name, would make all lines that long.
const MAX_CELL: usize = 1000;

/// The rows of a table, each after `indent`. Long cells are elided in the middle; no line ends in spaces.
pub(crate) fn table<R: AsRef<[String]>>(indent: &str, aligns: &[Align], rows: &[R]) -> String {
    let rows: Vec<Vec<String>> =
        rows.iter().map(|row| row.as_ref().iter().map(|cell| elided(cell)).collect()).collect();
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..aligns.len()).map(width).collect();
    let mut text = String::new();
    for row in &rows {
        let columns = row.iter().zip(&widths).zip(aligns);
        let cells: Vec<_> = columns.map(|((cell, width), align)| padded(cell, *width, *align)).collect();
        text.push_str(format!("{indent}{}", cells.join("  ")).trim_end());
        text.push('\n');
    }
    text
}

/// A cell, without its middle if it is long.
fn elided(cell: &str) -> String {
    let count = cell.chars().count();
    if count <= MAX_CELL {
        return cell.into();
    }
    let kept = MAX_CELL / 2 - 20;
    let start: String = cell.chars().take(kept).collect();
    let end: String = cell.chars().skip(count - kept).collect();
    format!("{start}[... {} characters ...]{end}", count - 2 * kept)
}

#[cfg(test)]
mod tests {
    use super::Align::{Left, Right};
    use super::*;

    fn row(cells: [&str; 2]) -> [String; 2] {
        cells.map(String::from)
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
        assert_eq!(elided(&fits), fits);
        let long = format!("first{}last", "é".repeat(70_000));
        let text = table("", &[Left, Left], &[row([&long, "b"]), row(["a", &long])]);
        assert!(text.starts_with("firstéé") && text.contains("éélast  b\na "), "{text}");
        assert_eq!(text.matches("éé[... 69049 characters ...]éé").count(), 2, "{text}");
        let lengths: Vec<_> = text.lines().map(|line| line.chars().count()).collect();
        assert!(lengths.iter().all(|length| *length <= 2 * MAX_CELL + 2), "{lengths:?}");
    }
}
