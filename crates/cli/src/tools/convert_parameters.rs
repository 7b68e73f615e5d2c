//! `iree-convert-parameters`: converts parameter files to one archive.

use std::ffi::OsStr;

use rehal_base::{Context, Error, Result, StatusCode};
use rehal_params::irpa::{Archive, DATA_ALIGNMENT, Slot};
use rehal_params::{Entry, Pattern, Scopes, Storage};
use rehal_values::{Contents, TensorType, parse_elements};

use super::parameter_output::{self, OutputOptions, WRITE};
use crate::flags::{Flag, Flags, Group, List, Refusal, split_once, text};
use crate::parameters::{self, PARAMETERS};
use crate::{Invocation, Operands, Tool, output};

/// See the [module](self).
pub const CONVERT_PARAMETERS: Tool = Tool {
    name: "iree-convert-parameters",
    verb: "convert-parameters",
    summary: "converts parameter files to one parameter archive",
    about: "Reads parameters of any format, optionally excludes, renames or replaces some by splats, and writes one \
            .irpa file. Data that an archive references in other files is copied into the new one. Data is copied \
            through a buffer of 1 MiB.",
    operands: Operands::None { usage: "--parameters=FILE --output=FILE.irpa" },
    groups: &[&PARAMETERS, &CHANGE, &WRITE],
    examples: &[
        ("Convert a file", "{tool} --parameters=model.safetensors --output=model.irpa"),
        (
            "Merge several files, and change some parameters",
            "{tool} --parameters=a.gguf --parameters=b.safetensors --exclude=unneeded \\\n  \
             --rename=old=new --splat=some=f32=4.2 --output=ab.irpa",
        ),
        (
            "Drop the data, for tests and bug reports",
            "{tool} --parameters=model.irpa --strip --splat=special=f32=1.0 --output=mock.irpa",
        ),
    ],
    guide: include_str!("../guides/convert_parameters.md"),
    answer: |_, _, _| None,
    run,
};

const EXCLUDE: List<String> = List::texts("exclude", "NAME", "Excludes a parameter.");

const RENAME: List<(String, String)> =
    List::parsed("rename", "OLD=NEW", "OLD=NEW", parse_rename, "Renames a parameter.");

const STRIP: Flag<bool> =
    Flag::switch("strip", false, "Replaces all parameters by zeros without storage in the file.");

const SPLAT: List<(String, Pattern)> = List::parsed(
    "splat",
    "NAME[=TYPE=VALUE]",
    "NAME, or NAME=TYPE=VALUE",
    parse_splat,
    "Replaces a parameter, by its name in the input file, by zeros or by a repeated value: i8=123, f32=4.5, \
     or bytes in hexadecimal, x32=CAFEF00D. It has no storage in the file.",
);

const CHANGE: Group = Group { title: "Changes", flags: &[&EXCLUDE, &RENAME, &STRIP, &SPLAT] };

/// The input files, the changes, and the output file.
struct Options {
    parameters: rehal::program::ParameterOptions,
    changes: Changes,
    output: OutputOptions,
}

fn run(invocation: &Invocation) -> Result<()> {
    let flags = &invocation.flags;
    convert(&Options {
        parameters: parameters::copied(flags),
        changes: Changes::from_flags(flags),
        output: OutputOptions::from_flags(flags)?,
    })
}

fn convert(options: &Options) -> Result<()> {
    let changes = &options.changes;
    let scopes = options.parameters.open()?;
    let entries = || scopes.iter().flat_map(|(_, index)| index.entries());
    let file = options.output.file()?;
    changes.note_unused(&scopes);
    let mut archive = Archive::new();
    let mut copies = Vec::new();
    for entry in entries().filter(|entry| !changes.excluded.iter().any(|name| **name == *entry.name)) {
        let declared = declare(&mut archive, entry, changes);
        let declared = declared.map_err(|error| match error.code() {
            StatusCode::AlreadyExists => {
                error.advise("rename one of them with --rename=OLD=NEW, or exclude it with --exclude=NAME")
            }
            _ => error,
        });
        let declared = declared.context(|| format!("parameter '{}'", entry.name))?;
        copies.extend(declared.map(|slot| (entry, slot)));
    }
    parameter_output::write(&options.output, &file, &archive, |output| {
        for (entry, slot) in &copies {
            output.begin(&archive, *slot)?;
            entry.write_to(output).context(|| format!("parameter '{}'", entry.name))?;
        }
        Ok(())
    })
}

/// Changes to the parameters.
struct Changes {
    excluded: Vec<String>,
    renamed: Vec<(String, String)>,
    splats: Vec<(String, Pattern)>,
    strip: bool,
}

impl Changes {
    fn from_flags(flags: &Flags) -> Self {
        Self {
            excluded: flags.list(&EXCLUDE),
            renamed: flags.list(&RENAME),
            splats: flags.list(&SPLAT),
            strip: flags.get(&STRIP),
        }
    }

    /// Prints a note for each name that matches no parameter; not an error, as one command may serve many
    /// files.
    fn note_unused(&self, scopes: &Scopes) {
        let excluded = self.excluded.iter().map(|name| (EXCLUDE.name(), name));
        let renamed = self.renamed.iter().map(|(old, _)| (RENAME.name(), old));
        let splats = self.splats.iter().map(|(name, _)| (SPLAT.name(), name));
        for (flag, name) in excluded.chain(renamed).chain(splats) {
            if scopes.iter().all(|(_, index)| index.get(name).is_none()) {
                output::note(&format!("note: --{flag}={name} matches no parameter of these files"));
            }
        }
    }

    fn new_name<'e>(&'e self, name: &'e str) -> &'e str {
        self.renamed.iter().find(|(old, _)| *old == name).map_or(name, |(_, new)| new)
    }

    /// The pattern that replaces a parameter, if any.
    fn pattern(&self, entry: &Entry) -> Option<Pattern> {
        match self.splats.iter().find(|(name, _)| **name == *entry.name) {
            Some((_, pattern)) => Some(*pattern),
            None if self.strip => Some(Pattern::ZERO),
            None => match entry.storage {
                Storage::Splat(pattern) => Some(pattern),
                Storage::File { .. } => None,
            },
        }
    }
}

/// Declares a parameter in the archive; returns the slot for its data, unless it is a splat.
fn declare(archive: &mut Archive, entry: &Entry, changes: &Changes) -> Result<Option<Slot>> {
    let name = changes.new_name(&entry.name);
    match changes.pattern(entry) {
        Some(pattern) => archive.add_splat(name, &entry.metadata, pattern, entry.length).map(|()| None),
        None => archive.add_data(name, &entry.metadata, DATA_ALIGNMENT, entry.length).map(Some),
    }
}

fn parse_rename(value: &OsStr) -> Result<(String, String), Refusal> {
    let (old, new) = split_once(value, b'=').ok_or(Refusal::Unexpected)?;
    Ok((text(old)?, text(new)?))
}

fn parse_splat(value: &OsStr) -> Result<(String, Pattern), Refusal> {
    let value = text(value)?;
    let Some((name, value)) = value.split_once('=') else { return Ok((value, Pattern::ZERO)) };
    let (element_type, value) =
        value.split_once('=').filter(|(_, value)| !value.is_empty()).ok_or(Refusal::Unexpected)?;
    // Flags write opaque bits as x32; element types as *32.
    let element_type = match element_type.strip_prefix('x') {
        Some(bits) => format!("*{bits}").parse()?,
        None => element_type.parse()?,
    };
    let one = TensorType { shape: Vec::new(), element_type };
    let pattern = match parse_elements(value, &one)? {
        Contents::Zeros => None,
        Contents::Splat(bytes) | Contents::Bytes(bytes) => {
            Pattern::new(&bytes).filter(|_| element_type.whole_bytes().is_some())
        }
    };
    let pattern = pattern.ok_or_else(|| {
        Error::invalid_argument(format!("elements of {} bits cannot be repeated", element_type.bits()))
            .advise("patterns have 1, 2, 4, 8 or 16 bytes")
    })?;
    Ok((name.to_string(), pattern))
}
