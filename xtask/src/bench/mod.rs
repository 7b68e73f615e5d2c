//! `cargo xtask bench`: our tools and the reference's on the same captures, alternating, one row per
//! performance target; or, with `--instructions`, counts of short workloads of ours.

mod cases;
mod compare;
mod compile;
mod diff;
mod instructions;
mod materials;
mod measure;
mod page;
mod plan;
mod prepare;
mod report;
mod verdicts;
mod vulkan;

use crate::{Outcome, root};
use oracle::reference::Reference;
use prepare::Workplace;
use std::path::PathBuf;

/// Command-line options.
#[derive(Debug, PartialEq)]
struct Options {
    /// Substrings of case names; empty means all.
    only: Vec<String>,
    rounds: u32,
    json: Option<PathBuf>,
    /// The directory of our tools; built here if `None`.
    tools: Option<PathBuf>,
    /// Whether docs/performance.md is written.
    write: bool,
    /// Whether instructions are counted instead, and if they are to be written, why they have changed.
    instructions: Option<Option<String>>,
    /// Whether instructions are compared with counts of other versions of the compiler and the C library.
    any_versions: bool,
    /// Number of comparisons of each planted slowdown, instead of rows.
    verdicts: Option<u32>,
}

/// `bench [--only NAME]… [--rounds N] [--json PATH] [--tools DIRECTORY] [--write]`,
/// `bench --instructions [--only NAME]… [--tools DIRECTORY] [--any-versions] [--write REASON]`,
/// or `bench --verdicts RUNS [--tools DIRECTORY]`.
pub fn main(arguments: &[String]) -> Outcome {
    let options = parse(arguments)?;
    if let Some(write) = &options.instructions {
        let Options { only, tools, any_versions, .. } = &options;
        return instructions::main(only, tools.as_deref(), write.as_deref(), *any_versions);
    }
    let root = root();
    let reference = Reference::find(&root)?;
    let tools = match &options.tools {
        Some(directory) => directory.clone(),
        None => crate::run::build_tools("release")?,
    };
    let workplace = Workplace::new(&root, reference, &tools)?;
    if let Some(runs) = options.verdicts {
        return verdicts::measure(&workplace, runs);
    }
    let mut rows = Vec::new();
    let mut failed = Vec::new();
    report::print_head();
    for case in cases::all(&workplace) {
        if !options.only.is_empty() && !options.only.iter().any(|part| case.name.contains(part.as_str())) {
            continue;
        }
        match case.measure(options.rounds, &workplace) {
            Ok(found) => {
                found.iter().for_each(report::print_row);
                rows.extend(found);
            }
            Err(error) => {
                eprintln!("bench: {} failed: {error}", case.name);
                failed.push(case.name.to_owned());
            }
        }
    }
    report::print_foot(&rows);
    if let Some(path) = &options.json {
        std::fs::write(path, report::json(&rows))?;
    }
    if options.write {
        page::write(&root, options.rounds, &rows, &failed)?;
    }
    match failed.len() {
        0 => Ok(()),
        count => Err(format!("{count} cases could not be measured").into()),
    }
}

fn parse(arguments: &[String]) -> Result<Options, String> {
    let mut options = Options {
        only: Vec::new(),
        rounds: 7,
        json: None,
        tools: None,
        write: false,
        instructions: None,
        any_versions: false,
        verdicts: None,
    };
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let mut value = || rest.next().cloned().ok_or_else(|| format!("{argument} takes a value"));
        match argument.as_str() {
            "--only" => options.only.push(value()?),
            "--rounds" => {
                options.rounds = value()?
                    .parse()
                    .ok()
                    .filter(|rounds| *rounds > 0)
                    .ok_or("--rounds takes a number from 1")?;
            }
            "--json" => options.json = Some(value()?.into()),
            "--tools" => {
                let directory = std::path::absolute(value()?).map_err(|it| format!("--tools: {it}"))?;
                options.tools = Some(directory);
            }
            "--instructions" => options.instructions = Some(None),
            "--any-versions" if options.instructions.is_some() => options.any_versions = true,
            "--write" if options.instructions.is_some() => options.instructions = Some(Some(value()?)),
            "--write" => options.write = true,
            "--verdicts" => {
                let runs = value()?.parse().map_err(|_| "--verdicts takes a number of runs")?;
                options.verdicts = Some(runs);
            }
            unknown => {
                return Err(format!(
                    "unknown argument {unknown:?} (expected --instructions, --only, --rounds, \
                     --json, --tools, --verdicts or --write)"
                ));
            }
        }
    }
    let writes = options.write || options.instructions.as_ref().is_some_and(Option::is_some);
    if writes && !options.only.is_empty() {
        return Err("--write needs all rows: leave --only out".to_owned());
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_checked() {
        let words = |text: &str| text.split_whitespace().map(ToOwned::to_owned).collect::<Vec<_>>();
        let options = parse(&words("--only dump --only run --rounds 3")).unwrap();
        assert_eq!((options.only.len(), options.rounds), (2, 3));
        assert!(parse(&words("--rounds 0")).is_err());
        assert!(parse(&words("--rounds")).is_err());
        assert!(parse(&words("--fast")).is_err());
        assert!(parse(&words("--write --rounds 9")).unwrap().write);
        assert!(parse(&words("--write --only dump")).is_err());
        assert_eq!(parse(&words("--instructions --only dump")).unwrap().instructions, Some(None));
        assert_eq!(
            parse(&words("--instructions --write why")).unwrap().instructions,
            Some(Some("why".into()))
        );
        assert!(parse(&words("--instructions --write")).is_err());
        assert!(parse(&words("--instructions --write why --only dump")).is_err());
    }
}
