//! Console output.

use std::io::{self, Write};
use std::time::Duration;

use rehal_base::{TextWriter, plural};

use super::options::Options;
use super::suite::{Outcome, Outcomes, Suite};

/// The console report in GoogleTest's format.
pub(crate) struct Console<'a, 'o> {
    out: &'a mut TextWriter<'o>,
    options: &'a Options,
    tests: usize,
    disabled: usize,
}

#[derive(Clone, Copy)]
enum Color {
    Red,
    Green,
    Yellow,
}

impl<'a, 'o> Console<'a, 'o> {
    /// For a suite of `tests` tests, of which `disabled` match the filter but do not run.
    pub fn new(out: &'a mut TextWriter<'o>, options: &'a Options, tests: usize, disabled: usize) -> Self {
        Self { out, options, tests, disabled }
    }

    pub fn starts(&mut self, chosen: usize) -> io::Result<()> {
        if self.options.brief {
            return Ok(());
        }
        if !self.options.filter.is_universal() {
            let note = format!("Note: Google Test filter = {}\n", self.options.filter.text());
            self.colored(Color::Yellow, &note)?;
        }
        if let Some((total, index)) = self.options.shard {
            let note = format!("Note: This is test shard {} of {total}.\n", index + 1);
            self.colored(Color::Yellow, &note)?;
        }
        self.colored(Color::Green, "[==========] ")?;
        let suites = suites(usize::from(chosen > 0));
        writeln!(self.out, "Running {} from {suites}.", tests(chosen))?;
        if self.tests > 0 {
            self.colored(Color::Green, "[----------] ")?;
            writeln!(self.out, "Global test environment set-up.")?;
        }
        self.out.flush()
    }

    pub fn suite_starts(&mut self, name: &str, chosen: usize) -> io::Result<()> {
        if self.options.brief {
            return Ok(());
        }
        self.colored(Color::Green, "[----------] ")?;
        writeln!(self.out, "{} from {name}", tests(chosen))
    }

    pub fn test_starts<T>(&mut self, suite: &Suite<T>, index: usize) -> io::Result<()> {
        if self.options.brief {
            return Ok(());
        }
        self.colored(Color::Green, "[ RUN      ] ")?;
        writeln!(self.out, "{}", suite.full_name(index))?;
        // Flushed first: the test may end the process.
        self.out.flush()
    }

    pub fn test_ends<T>(&mut self, suite: &Suite<T>, index: usize, outcome: &Outcome) -> io::Result<()> {
        for failure in &outcome.failures {
            writeln!(self.out, "{}\n", failure.trim_end())?;
        }
        if outcome.failures.is_empty() {
            if self.options.brief {
                return Ok(());
            }
            self.colored(Color::Green, "[       OK ] ")?;
            write!(self.out, "{}", suite.full_name(index))?;
        } else {
            self.colored(Color::Red, "[  FAILED  ] ")?;
            write!(self.out, "{}", failed_name(suite, index))?;
        }
        if self.options.print_time {
            write!(self.out, " ({} ms)", outcome.duration.as_millis())?;
        }
        writeln!(self.out)?;
        self.out.flush()
    }

    pub fn suite_ends(&mut self, name: &str, chosen: usize, duration: Duration) -> io::Result<()> {
        if self.options.brief || !self.options.print_time {
            return Ok(());
        }
        self.colored(Color::Green, "[----------] ")?;
        writeln!(self.out, "{} from {name} ({} ms total)\n", tests(chosen), duration.as_millis())
    }

    pub fn ends<T>(&mut self, suite: &Suite<T>, ran: &Outcomes) -> io::Result<()> {
        let (count, failed) = (ran.tests.len(), ran.failed().count());
        if !self.options.brief && self.tests > 0 {
            self.colored(Color::Green, "[----------] ")?;
            writeln!(self.out, "Global test environment tear-down")?;
        }
        self.colored(Color::Green, "[==========] ")?;
        write!(self.out, "{} from {} ran.", tests(count), suites(usize::from(count > 0)))?;
        if self.options.print_time {
            write!(self.out, " ({} ms total)", ran.duration.as_millis())?;
        }
        writeln!(self.out)?;
        self.colored(Color::Green, "[  PASSED  ] ")?;
        writeln!(self.out, "{}.", tests(count - failed))?;
        if failed > 0 {
            self.failed_tests(suite, ran)?;
        }
        if self.disabled > 0 {
            if failed == 0 {
                writeln!(self.out)?;
            }
            let plural = if self.disabled == 1 { "" } else { "S" };
            let note = format!("  YOU HAVE {} DISABLED TEST{plural}\n\n", self.disabled);
            self.colored(Color::Yellow, &note)?;
        }
        self.out.flush()
    }

    fn failed_tests<T>(&mut self, suite: &Suite<T>, ran: &Outcomes) -> io::Result<()> {
        let count = ran.failed().count();
        self.colored(Color::Red, "[  FAILED  ] ")?;
        writeln!(self.out, "{}, listed below:", tests(count))?;
        for index in ran.failed() {
            self.colored(Color::Red, "[  FAILED  ] ")?;
            writeln!(self.out, "{}", failed_name(suite, index))?;
        }
        writeln!(self.out, "\n{count:>2} FAILED {}", if count == 1 { "TEST" } else { "TESTS" })
    }

    fn colored(&mut self, color: Color, text: &str) -> io::Result<()> {
        if !self.options.colored {
            return self.out.write_all(text.as_bytes());
        }
        self.out.style(match color {
            Color::Red => "\x1b[0;31m",
            Color::Green => "\x1b[0;32m",
            Color::Yellow => "\x1b[0;33m",
        })?;
        self.out.write_all(text.as_bytes())?;
        self.out.style("\x1b[m")
    }
}

fn failed_name<T>(suite: &Suite<T>, index: usize) -> String {
    format!("{}, where GetParam() = {}", suite.full_name(index), suite.tests[index].parameter)
}

fn tests(count: usize) -> String {
    plural(count as u64, "test")
}

fn suites(count: usize) -> String {
    plural(count as u64, "test suite")
}
