//! A `.run.txt`: the command, what it printed, and how it ended.

use std::path::{Path, PathBuf};

#[derive(Debug, Default)]
pub struct Printed {
    pub devices: Vec<String>,
    pub module: PathBuf,
    pub function: String,
    pub inputs: Vec<String>,
    pub has_parameters: bool,
    /// Whether it ended without a status.
    pub crashed: bool,
    /// The lines with results, from `result[0]` on.
    pub results: Vec<String>,
    /// The message of the failure, where it failed.
    pub failure: Option<String>,
}

impl Printed {
    pub fn read(text: &str, folder: &Path) -> Self {
        let mut printed = Self::default();
        let mut lines = text.lines();
        for word in words(lines.next().unwrap()) {
            let Some((flag, value)) = word.strip_prefix("--").and_then(|word| word.split_once('=')) else {
                continue;
            };
            match flag {
                "device" => printed.devices.push(value.to_string()),
                "module" => {
                    printed.module = folder.join("modules").join(Path::new(value).file_name().unwrap())
                }
                "function" => printed.function = value.to_string(),
                "input" => printed.inputs.push(in_folder(value, folder)),
                "parameters" => printed.has_parameters = true,
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
        printed
    }
}

/// Files of inputs lie in `inputs/`, wherever they were when the program ran.
fn in_folder(input: &str, folder: &Path) -> String {
    match input.split_once('@') {
        Some((before, path)) => {
            let name = Path::new(path).file_name().unwrap().to_str().unwrap();
            let path =
                folder.join(if folder.join("inputs").join(name).exists() { "inputs" } else { "models" });
            format!("{before}@{}", path.join(name).display())
        }
        None => input.to_string(),
    }
}

/// The words of a command as a shell splits them, with quotes; where they were left out, a word that is no flag goes
/// on with the one before.
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
