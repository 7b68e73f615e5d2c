use super::test_file::TestFile;
use std::path::{Path, PathBuf};

/// The substitution for temporary files.
const TEMPORARY: &str = "%t";

/// One command of a test file.
#[derive(Clone, Debug)]
pub struct Command {
    /// `FILE:LINE`, the file relative to the top of the source tree.
    pub name: String,
    /// The test file.
    pub file: PathBuf,
    /// The command before substitution.
    pub text: String,
    /// Earlier commands of the file that may write this one's temporary files.
    pub earlier: Vec<String>,
}

impl Command {
    pub(super) fn new(name: &str, file: &Path, parsed: &TestFile, at: usize) -> Self {
        let (line, text) = &parsed.commands[at];
        let writes = |command: &&(usize, String)| command.1.contains(TEMPORARY);
        let earlier = if text.contains(TEMPORARY) { &parsed.commands[..at] } else { &[] };
        Self {
            name: format!("{name}:{line}"),
            file: file.to_path_buf(),
            text: text.clone(),
            earlier: earlier.iter().filter(writes).map(|(_, text)| text.clone()).collect(),
        }
    }

    /// The commands it depends on, then the command.
    pub fn all(&self) -> impl Iterator<Item = &str> {
        self.earlier.iter().chain([&self.text]).map(String::as_str)
    }

    /// Whether both sides must print the same text. Times, help texts and the current processor differ.
    pub fn is_repeatable(&self) -> bool {
        let changes = ["benchmark", "--help", "system_plugin"];
        !self.all().any(|text| changes.iter().any(|part| text.contains(part)))
    }

    /// The programs that it calls, in order.
    pub fn programs(&self) -> Vec<String> {
        self.all().flat_map(programs).collect()
    }

    /// The values of its `--device` flags.
    pub fn devices(&self) -> Vec<&str> {
        let words =
            self.all().flat_map(|text| text.split(|end: char| end.is_whitespace() || ")\"'".contains(end)));
        words.filter_map(|word| word.trim_start_matches('-').strip_prefix("device=")).collect()
    }
}

/// The words in command position: the first of each command in a pipeline, list or group.
fn programs(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut is_program = true;
    let mut is_redirected = false;
    for token in tokens(text) {
        match token {
            Token::Operator => is_program = true,
            Token::Redirection => is_redirected = true,
            Token::Word(_) if is_redirected => is_redirected = false,
            Token::Word(word) if is_program => {
                // These prefix a command.
                let is_prefix = ["!", "not", "--crash", "env"].contains(&word.as_str());
                let is_assignment = word.split_once('=').is_some_and(|(name, _)| {
                    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
                });
                if !is_prefix && !is_assignment {
                    found.push(word);
                    is_program = false;
                }
            }
            Token::Word(_) => {}
        }
    }
    found
}

enum Token {
    /// The next word is in command position.
    Operator,
    /// The next word is a file or a file descriptor.
    Redirection,
    Word(String),
}

/// Splits a shell command into tokens and removes quotes.
fn tokens(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut word = String::new();
    let mut quote = None;
    let mut characters = text.chars().peekable();
    let end = |word: &mut String, tokens: &mut Vec<Token>| {
        if !word.is_empty() {
            tokens.push(Token::Word(std::mem::take(word)));
        }
    };
    while let Some(character) = characters.next() {
        match (quote, character) {
            (Some(open), _) if character == open => quote = None,
            (Some(_), _) => word.push(character),
            (None, '"' | '\'') => quote = Some(character),
            (None, '\\') => word.extend(characters.next()),
            (None, '>' | '<') => {
                // A number before the redirection is a file descriptor.
                if !word.bytes().all(|byte| byte.is_ascii_digit()) {
                    end(&mut word, &mut tokens);
                }
                word.clear();
                while characters.next_if(|next| "><&".contains(*next)).is_some() {}
                tokens.push(Token::Redirection);
            }
            (None, '|' | '&' | ';' | '(' | ')') => {
                end(&mut word, &mut tokens);
                tokens.push(Token::Operator);
            }
            (None, _) if character.is_whitespace() => end(&mut word, &mut tokens),
            (None, _) => word.push(character),
        }
    }
    end(&mut word, &mut tokens);
    tokens
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_in_pipelines_lists_and_groups() {
        let found = |text| programs(text).join(" ");
        assert_eq!(found("(a --x=\"b | c\" %s -o=%t && not d 2>&1 | e) || [[ $? == 1 ]]"), "a d e [[");
        assert_eq!(found("env A=1 B=2 a b ; ! not --crash c > out <in|& 'd e' \\| f"), "a c d e");
        assert_eq!(found("a 2>/dev/null | b 12"), "a b");
        assert_eq!(found("< in a b > out | c"), "a c");
        assert_eq!(found(""), "");
    }

    #[test]
    fn a_command_needs_the_earlier_ones_that_write_temporary_files() {
        let file =
            TestFile::parse("RUN: a %s\nRUN: b -o %t\nRUN: c --device=x://0 %t.vmfb) --device=y\nRUN: d\n")
                .unwrap();
        let command = |at| Command::new("dir/f", Path::new("/f"), &file, at);
        assert_eq!(command(2).name, "dir/f:3");
        assert_eq!(command(2).all().collect::<Vec<_>>(), ["b -o %t", "c --device=x://0 %t.vmfb) --device=y"]);
        assert_eq!(command(2).devices(), ["x://0", "y"]);
        assert_eq!(command(3).all().count(), 1);
        let is_repeatable = |text: &str| {
            let file = TestFile::parse(&format!("RUN: {text}\n")).unwrap();
            Command::new("f", Path::new("/f"), &file, 0).is_repeatable()
        };
        assert!(is_repeatable("iree-run-module") && !is_repeatable("iree-benchmark-module"));
        assert!(!is_repeatable("iree-run-replay --help"));
    }
}
