//! `iree-dump-parameters`: lists and extracts parameters.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;

use rehal_base::{Context, Error, Result};
use rehal_params::{Scopes, Storage};

use crate::flags::{Access, Group, List, Refusal, split_once, text};
use crate::parameters::{self, PARAMETERS};
use crate::{Invocation, Operands, Tool, files, output};

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
    "Writes the bytes of a parameter to a file. Splat parameters are expanded.",
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
    parameters: rehal_session::ParameterOptions,
    extractions: Vec<Extraction>,
}

fn run(invocation: &Invocation) -> Result<()> {
    let flags = &invocation.flags;
    dump(&Options { parameters: parameters::options(flags), extractions: flags.list(&EXTRACTIONS) })
}

fn dump(options: &Options) -> Result<()> {
    let scopes = options.parameters.open()?;
    for (scope, index) in scopes.iter() {
        output::print(&parameters::listing(scope, &parameters::lines(index)))?;
    }
    for extraction in &options.extractions {
        let place = || format!("--extract={}={}", extraction.identifier, extraction.path.display());
        extract(&scopes, extraction).context(place)?;
    }
    Ok(())
}

fn extract(scopes: &Scopes, extraction: &Extraction) -> Result<()> {
    let Extraction { identifier, path } = extraction;
    let (scope, key) = identifier.split_once("::").unwrap_or(("", identifier));
    let entry = scopes.lookup(scope)?.lookup(key)?;
    let shown = path.display();
    output::print(&format!("Extracting parameter `{identifier}` ({}b) to `{shown}`...\n", entry.length))?;
    if let Storage::File { file, .. } = &entry.storage {
        files::check_output("extract", path, [file.path()])?;
    }
    let writing = |error: std::io::Error| Error::io(format_args!("writing '{shown}'"), &error);
    let mut file = File::create(path).map_err(writing)?;
    entry.write_to(&mut file)?;
    file.flush().map_err(writing)
}

fn parse_extraction(value: &OsStr) -> Result<Extraction, Refusal> {
    match split_once(value, b'=') {
        Some((identifier, path)) if !path.is_empty() => {
            Ok(Extraction { identifier: text(identifier)?, path: path.into() })
        }
        _ => Err(Refusal::Unexpected),
    }
}
