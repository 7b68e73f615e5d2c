//! `iree-dump-parameters`: prints what parameter files hold, and takes parameters out of them.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use rehal_base::{Context, Error, Result};
use rehal_params::{Scopes, Storage};

use crate::flags::{Flag, Group};
use crate::parameters::{self, PARAMETERS};
use crate::{Invocation, Tool, output};

/// See the [module](self).
pub const DUMP_PARAMETERS: Tool = Tool {
    name: "iree-dump-parameters",
    verb: "dump-parameters",
    summary: "prints what parameter files hold",
    about: "Checks the files' tables and prints each parameter's place, length and key, scope by scope. Data is \
            not read, so files of any size take no time.",
    operands: "--parameters=[SCOPE=]FILE",
    groups: &[&PARAMETERS, &EXTRACT],
    examples: &[
        ("See what is in a file", "{tool} --parameters=model.safetensors"),
        ("Take one parameter out of it", "{tool} --parameters=model.irpa --extract=encoder.w0=w0.bin"),
        (
            "As a program would see several files",
            "{tool} --parameters=model=shard-1.gguf --parameters=model=shard-2.gguf --extract=model::bias=bias.bin",
        ),
    ],
    guide: include_str!("../guides/dump_parameters.md"),
    answer: |_, _| None,
    run,
};

const EXTRACT: Group = Group {
    title: "Extract",
    flags: &[Flag::list(
        "extract",
        "[SCOPE::]KEY=PATH",
        "Writes the bytes of a parameter to a file of their own. Parameters that repeat a pattern are \
         written out in full.",
    )],
};

fn run(invocation: &Invocation) -> Result<()> {
    parameters::refuse_operands(invocation)?;
    let scopes = parameters::from_flags(&invocation.flags)?;
    for (scope, index) in scopes.iter() {
        output::print(&parameters::listing(scope, &parameters::lines(index)))?;
    }
    for flag in invocation.flags.list("extract") {
        extract(&scopes, flag).context(|| format!("--extract={flag}"))?;
    }
    Ok(())
}

fn extract(scopes: &Scopes, flag: &str) -> Result<()> {
    let Some((identifier, path)) = flag.split_once('=').filter(|(_, path)| !path.is_empty()) else {
        return Err(
            Error::invalid_argument("the file to write to is missing").advise("--extract=[SCOPE::]KEY=PATH")
        );
    };
    let (scope, key) = identifier.split_once("::").unwrap_or(("", identifier));
    let entry = scopes.lookup(scope)?.lookup(key)?;
    output::print(&format!("Extracting parameter `{identifier}` ({}b) to `{path}`...\n", entry.length))?;
    if let Storage::File { file, .. } = &entry.storage {
        parameters::check_output("extract", path, [file.path()])?;
    }
    let writing = |error: std::io::Error| Error::io(format_args!("writing '{path}'"), &error);
    let mut file = File::create(Path::new(path)).map_err(writing)?;
    entry.write_to(&mut file)?;
    file.flush().map_err(writing)
}
