use super::requirements;

/// The directives of a test file.
#[derive(Debug, Default)]
pub struct TestFile {
    /// Each command with the number of its first line; continuation lines are joined.
    pub commands: Vec<(usize, String)>,
    requires: Vec<String>,
    unsupported: Vec<String>,
    expected_to_fail: bool,
}

impl TestFile {
    /// Reads the `RUN:`, `REQUIRES:`, `UNSUPPORTED:` and `XFAIL:` lines before `END.`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut file = Self::default();
        let mut is_continued = false;
        for (line, number) in text.lines().zip(1..) {
            if keyword(line, "END.").is_some() {
                break;
            }
            if let Some(command) = keyword(line, "RUN:") {
                let (part, continues) = match command.strip_suffix('\\') {
                    Some(part) => (part, true),
                    None => (command, false),
                };
                match file.commands.last_mut().filter(|_| is_continued) {
                    Some((_, whole)) => *whole = format!("{} {}", whole.trim_end(), part.trim()),
                    None => file.commands.push((number, part.trim().to_owned())),
                }
                is_continued = continues;
            } else if let Some(condition) = keyword(line, "REQUIRES:") {
                file.requires.push(condition.to_owned());
            } else if let Some(condition) = keyword(line, "UNSUPPORTED:") {
                file.unsupported.push(condition.to_owned());
            } else if keyword(line, "XFAIL:").is_some() {
                file.expected_to_fail = true;
            }
        }
        if is_continued {
            return Err("the last RUN line ends with a backslash".to_owned());
        }
        for condition in file.requires.iter().chain(&file.unsupported) {
            requirements::holds(condition)?;
        }
        Ok(file)
    }

    /// Why the file is to be ignored, if its directives say so.
    pub fn ignored(&self) -> Option<String> {
        // `parse` has evaluated the conditions: they are well-formed.
        let holds = |condition: &&String| requirements::holds(condition) == Ok(true);
        let name = |condition: &String| condition.split_whitespace().collect::<Vec<_>>().join("_");
        if let Some(unmet) = self.requires.iter().find(|condition| !holds(condition)) {
            return Some(format!("requires_{}", name(unmet)));
        }
        if let Some(met) = self.unsupported.iter().find(holds) {
            return Some(format!("unsupported_on_{}", name(met)));
        }
        self.expected_to_fail.then(|| "expected_to_fail".to_owned())
    }
}

/// The trimmed text after `keyword` on a line. The keyword must not be the end of another word: `CHECK-RUN:`
/// is a pattern's prefix.
fn keyword<'a>(line: &'a str, keyword: &str) -> Option<&'a str> {
    let (before, after) = line.split_once(keyword)?;
    let is_part_of_a_word = before
        .ends_with(|character: char| character.is_ascii_alphanumeric() || ['-', '_'].contains(&character));
    (!is_part_of_a_word).then(|| after.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn continued_lines_are_one_command() {
        let file = TestFile::parse(
            "// RUN: one %s \\\n// RUN:     --flag | \\\n\n// CHECK-RUN: no\n// RUN: two\n// RUN: three\n// END.\n// RUN: four\n",
        );
        let commands = file.unwrap().commands;
        assert_eq!(commands, [(1, "one %s --flag | two".to_owned()), (6, "three".to_owned())]);
        assert!(TestFile::parse("// RUN: one \\\n").unwrap_err().contains("backslash"));
    }

    #[test]
    fn directives_can_ignore_a_file() {
        let ignored = |text: &str| TestFile::parse(text).unwrap().ignored();
        assert_eq!(ignored("// REQUIRES: system-linux\n// RUN: x\n"), None);
        assert_eq!(ignored("// REQUIRES: a || b\n").as_deref(), Some("requires_a_||_b"));
        assert_eq!(ignored("// UNSUPPORTED: windows\n"), None);
        assert_eq!(ignored("// UNSUPPORTED: system-linux\n").as_deref(), Some("unsupported_on_system-linux"));
        assert_eq!(ignored("// XFAIL: *\n").as_deref(), Some("expected_to_fail"));
        assert!(TestFile::parse("// REQUIRES: (a\n").is_err());
    }
}
