//! `iree-dump-parameters`: lists and extracts parameters.

use std::ffi::OsStr;
use std::path::PathBuf;

use rehal_base::{Context, Result};
use rehal_params::Scopes;

use crate::flags::{Access, Group, List, Refusal, split_once, text};
use crate::output_file::OutputFile;
use crate::parameters::{self, PARAMETERS};
use crate::{Invocation, Operands, Tool, output, output_file};

/// See the [module](self).
pub const DUMP_PARAMETERS: Tool = Tool {
    name: "iree-dump-parameters",
    verb: "dump-parameters",
    summary: "lists the parameters of parameter files",
    about: "Verifies the tables of the files and prints offset, length and key of each parameter, scope by scope. \
            Data is not read, so the time does not depend on its size.",
    operands: Operands::None { usage: "--parameters=[SCOPE=]FILE" },
    groups: &[&PARAMETERS, &EXTRACT],
    examples: &[
        ("List the parameters of a file", "{tool} --parameters=model.safetensors"),
        ("Extract a parameter", "{tool} --parameters=model.irpa --extract=encoder.w0=w0.bin"),
        (
            "Combine several files as a program does",
            "{tool} --parameters=model=shard-1.gguf --parameters=model=shard-2.gguf --extract=model::bias=bias.bin",
        ),
    ],
    guide: include_str!("../guides/dump_parameters.md"),
    answer: |_, _, _| None,
    run,
};

const EXTRACTIONS: List<Extraction> = List::parsed(
    "extract",
    "[SCOPE::]KEY=PATH",
    "[SCOPE::]KEY=PATH",
    parse_extraction,
    "Writes the bytes of a parameter to a file, or to standard output if PATH is -. Splat parameters are expanded.",
)
.files(|extraction, _| vec![Access::Write.to(&extraction.path)]);

const EXTRACT: Group = Group { title: "Extract", flags: &[&EXTRACTIONS] };

/// A parameter and its output file.
#[derive(Clone)]
struct Extraction {
    /// `KEY`, or `SCOPE::KEY`.
    identifier: String,
    path: PathBuf,
}

/// The files to list and the parameters to extract.
struct Options {
    parameters: rehal::program::ParameterOptions,
    extractions: Vec<Extraction>,
}

fn run(invocation: &Invocation) -> Result<()> {
    let flags = &invocation.flags;
    dump(&Options { parameters: parameters::copied(flags), extractions: flags.list(&EXTRACTIONS) })
}

fn dump(options: &Options) -> Result<()> {
    let scopes = options.parameters.open()?;
    for it in &options.extractions {
        OutputFile::new(EXTRACTIONS.name(), it.path.clone())?;
    }
    let to_stdout = options.extractions.iter().any(|it| output_file::is_stdout(&it.path));
    // Extracted bytes are not mixed with text.
    let print = |text: &str| match to_stdout {
        true => {
            output::note(text.trim_end());
            Ok(())
        }
        false => output::print(text),
    };
    for (scope, index) in scopes.iter() {
        print(&parameters::listing(scope, &parameters::lines(index)))?;
    }
    for extraction in &options.extractions {
        let place = || format!("--extract={}={}", extraction.identifier, extraction.path.display());
        extract(&scopes, extraction, &print).context(place)?;
    }
    Ok(())
}

fn extract(scopes: &Scopes, extraction: &Extraction, print: &dyn Fn(&str) -> Result<()>) -> Result<()> {
    let Extraction { identifier, path } = extraction;
    let (scope, key) = identifier.split_once("::").unwrap_or(("", identifier));
    let entry = scopes.lookup(scope)?.lookup(key)?;
    let shown = path.display();
    print(&format!("Extracting parameter `{identifier}` ({}b) to `{shown}`...\n", entry.length))?;
    OutputFile::new(EXTRACTIONS.name(), path.clone())?.write(|sink| entry.write_to(sink))
}

fn parse_extraction(value: &OsStr) -> Result<Extraction, Refusal> {
    match split_once(value, b'=') {
        Some((identifier, path)) if !path.is_empty() => {
            Ok(Extraction { identifier: text(identifier)?, path: path.into() })
        }
        _ => Err(Refusal::Unexpected),
    }
}
