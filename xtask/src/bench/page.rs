//! `docs/performance.md`: the rows of one run of all cases, with the commit, the date and the machine.

use super::report::Row;
use std::error::Error;
use std::fs;
use std::path::Path;

/// The path of the page below the root.
const PAGE: &str = "docs/performance.md";

/// The text above the table.
const PREAMBLE: &str = include_str!("preamble.md");

/// The head of the table.
const HEAD: &str = "\
| row | rehal | reference | ratio | 95 % interval | promised | verdict |
| --- | --- | --- | --- | --- | --- | --- |
";

/// Where and when the rows were measured.
pub struct Origin {
    /// The abbreviated commit.
    commit: String,
    /// The day, in UTC.
    date: String,
    /// The processor, and how many of its logical processors the run may use.
    machine: String,
}

impl Origin {
    /// Reads the commit and the machine.
    pub fn from_checkout(root: &Path) -> Result<Self, Box<dyn Error>> {
        let mut commit = line_of("git", &["rev-parse", "--short=10", "HEAD"], root)?;
        if !line_of("git", &["status", "--porcelain", "--untracked-files=no"], root)?.is_empty() {
            commit.push_str(" with changes");
        }
        let date = line_of("date", &["-u", "+%Y-%m-%d"], root)?;
        let processors = std::thread::available_parallelism()?;
        let machine =
            format!("{} with {processors} processors", model(&fs::read_to_string("/proc/cpuinfo")?));
        Ok(Self { commit, date, machine })
    }
}

/// Replaces the page. `failed` names the cases that could not be measured.
pub fn write(root: &Path, rounds: u32, rows: &[Row], failed: &[String]) -> Result<(), Box<dyn Error>> {
    let page = render(&Origin::from_checkout(root)?, rounds, rows, failed);
    fs::write(root.join(PAGE), page).map_err(|error| format!("{PAGE}: {error}").into())
}

fn render(origin: &Origin, rounds: u32, rows: &[Row], failed: &[String]) -> String {
    let Origin { commit, date, machine } = origin;
    let mut page = PREAMBLE.to_owned();
    page.push_str(&format!(
        "\n## Rows\n\nMeasured on {date} at commit {commit}, on {machine}, {rounds} rounds.\n"
    ));
    if !failed.is_empty() {
        page.push_str(&format!("\nNot measured, because the case failed: {}.\n", failed.join(", ")));
    }
    page.push_str(&format!("\n{HEAD}"));
    for row in rows {
        page.push_str(&format!("| {} |\n", row.cells().join(" | ")));
    }
    page
}

/// The first model name in `/proc/cpuinfo`.
fn model(cpuinfo: &str) -> &str {
    let models = cpuinfo.lines().filter(|line| line.starts_with("model name"));
    models
        .filter_map(|line| line.split_once(':'))
        .map(|(_, name)| name.trim())
        .next()
        .unwrap_or("unknown processor")
}

/// The line that a program prints, without its line feed.
fn line_of(program: &str, arguments: &[&str], directory: &Path) -> Result<String, Box<dyn Error>> {
    let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
    let ended = crate::run::collect(Path::new(program), &arguments, directory)?;
    if ended.how != "status 0" {
        return Err(format!("{program}: {}\n{}", ended.how, String::from_utf8_lossy(&ended.stderr)).into());
    }
    Ok(String::from_utf8(ended.stdout)?.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::measure::Unit;
    use super::super::report::Target;
    use super::*;

    fn origin() -> Origin {
        Origin {
            commit: "0123456789".to_owned(),
            date: "2026-01-02".to_owned(),
            machine: "CPU with 2 processors".to_owned(),
        }
    }

    #[test]
    fn a_page_has_each_row_and_its_origin_once() {
        let row = |name: &str, unit, target, theirs: &[f64], ours: &[f64]| {
            Row::new(name.to_owned(), unit, target, false, theirs, ours)
        };
        let time = row("start.run", Unit::Nanoseconds, Target::Ratio(1.0), &[2000.0; 6], &[1000.0; 6]);
        let memory = row("dump.text.memory", Unit::Bytes, Target::Bytes(1 << 20), &[], &[2_097_152.0; 6]);
        let page = render(&origin(), 6, &[time, memory], &["dump.jsonl".to_owned()]);
        let expected = "
## Rows

Measured on 2026-01-02 at commit 0123456789, on CPU with 2 processors, 6 rounds.

Not measured, because the case failed: dump.jsonl.

| row | rehal | reference | ratio | 95 % interval | promised | verdict |
| --- | --- | --- | --- | --- | --- | --- |
| `start.run` | 1.0 us | 2.0 us | 0.50 | 0.50 to 0.50 | <= 1x | met |
| `dump.text.memory` | 2.0 MiB | - | - | - | <= 1.0 MiB | MISSED |
";
        assert_eq!(page.strip_prefix(PREAMBLE), Some(expected));
        assert!(!render(&origin(), 6, &[], &[]).contains("Not measured"));
    }

    #[test]
    fn the_page_of_the_repository_is_generated() {
        let page = fs::read_to_string(crate::root().join(PAGE)).unwrap();
        assert!(page.starts_with(PREAMBLE), "{PAGE}: run `cargo xtask bench --write`");
        assert!(page.contains(HEAD));
    }

    #[test]
    fn the_machine_is_named() {
        let cpuinfo = "processor\t: 0\nmodel name\t: AMD EPYC\nflags\t: fpu\nmodel name\t: other\n";
        assert_eq!(model(cpuinfo), "AMD EPYC");
        assert_eq!(model("processor\t: 0\n"), "unknown processor");
        let here = Origin::from_checkout(&crate::root()).unwrap();
        assert!(here.date.len() == 10 && here.commit.len() >= 10);
    }
}
