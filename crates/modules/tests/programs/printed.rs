//! Parses a `.run.txt`: the command, its output, and its outcome.

use std::path::{Path, PathBuf};

/// The name of the directory that the corpus omits.
const LACKING: &str = "lacking";

#[derive(Debug, Default)]
pub struct Printed {
    pub devices: Vec<String>,
    pub module: PathBuf,
    pub function: String,
    pub inputs: Vec<String>,
    /// `SCOPE=PATH`
    pub parameters: Vec<String>,
    /// Whether results were compared instead of printed.
    pub compared: bool,
    /// Whether it ended without a status.
    pub crashed: bool,
    /// Whether it needs large parameter files that the corpus omits.
    pub lacks_files: bool,
    /// The result lines, from `result[0]` on.
    pub results: Vec<String>,
    /// The error message, if it failed.
    pub failure: Option<String>,
}

impl Printed {
    pub fn read(text: &str, directory: &Path) -> Self {
        let mut printed = Self::default();
        let mut lines = text.lines();
        for word in words(lines.next().unwrap()) {
            let Some((flag, value)) = word.strip_prefix("--").and_then(|word| word.split_once('=')) else {
                continue;
            };
            match flag {
                "device" => printed.devices.push(value.to_string()),
                "module" => printed.module = find(value, directory),
                "function" => printed.function = value.to_string(),
                "input" => printed.inputs.push(in_directory(value, directory, '@')),
                "parameters" => printed.parameters.push(in_directory(value, directory, '=')),
                "expected_output" => printed.compared = true,
                _ => {}
            }
        }
        printed.crashed = !text.contains("\n[status ") && !text.contains("\n[rc=");
        for line in lines {
            if line.starts_with("EXEC @") || line.starts_with('[') {
                continue;
            }
            match line.split_once("; ") {
                // `FILE:LINE: CODE; MESSAGE; ...`
                Some((place, rest)) if place.contains(": ") && !line.starts_with("result[") => {
                    let message = rest.split("; while").next().unwrap().split("; ;").next().unwrap();
                    printed.failure.get_or_insert_with(|| message.to_string());
                }
                _ => printed.results.push(line.to_string()),
            }
        }
        printed.lacks_files = printed.parameters.iter().any(|scope| scope.ends_with(LACKING));
        printed
    }
}

/// A value with the path after `mark` resolved in this checkout.
fn in_directory(value: &str, directory: &Path, mark: char) -> String {
    match value.split_once(mark) {
        Some((before, path)) => format!("{before}{mark}{}", find(path, directory).display()),
        None => value.to_string(),
    }
}

/// Resolves a file of a command, regardless of its original location.
fn find(path: &str, directory: &Path) -> PathBuf {
    let name = Path::new(path).file_name().unwrap();
    let model = Path::new(path).parent().and_then(Path::file_name).unwrap_or_default();
    let mut places = ["modules", "inputs", "params"].map(|place| directory.join(place)).to_vec();
    places.push(directory.join("models").join(model));
    let mut found = places.into_iter().map(|place| place.join(name)).filter(|path| path.exists());
    found.next().unwrap_or_else(|| directory.join(LACKING))
}

/// Splits a command into words like a shell, with quotes; if the quotes are missing, a word that is not a
/// flag continues the previous one.
fn words(command: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quote = None;
    for char in command.chars() {
        match (quote, char) {
            (Some(open), _) if open == char => quote = None,
            (None, '\'' | '"') => quote = Some(char),
            (None, ' ') => words.push(String::new()),
            _ => words.last_mut().unwrap().push(char),
        }
    }
    let mut joined: Vec<String> = Vec::new();
    for word in words {
        match joined.last_mut() {
            Some(last) if last.starts_with("--") && !word.starts_with("--") => *last += &format!(" {word}"),
            _ => joined.push(word),
        }
    }
    joined
}
