//! `iree-convert-parameters`: makes one archive of the parameters of several files.

use rehal_base::{Context, Error, Result, StatusCode};
use rehal_params::irpa::{Archive, DATA_ALIGNMENT, Slot};
use rehal_params::{Entry, Pattern, Scopes, Storage};
use rehal_values::{Contents, TensorType, parse_elements};

use super::parameter_output::{self, OUTPUT, QUIET};
use crate::flags::{Flag, Flags, Group};
use crate::parameters::{self, PARAMETERS};
use crate::{Invocation, Tool, output};

/// See the [module](self).
pub const CONVERT_PARAMETERS: Tool = Tool {
    name: "iree-convert-parameters",
    verb: "convert-parameters",
    summary: "makes one parameter archive of the parameters of several files",
    about: "Takes parameters of any format, leaves some out, renames some, replaces some by patterns, and writes \
            one .irpa file. Data in files that an archive names becomes part of the new one. A mebibyte is in \
            memory at a time.",
    operands: "--parameters=FILE --output=FILE.irpa",
    groups: &[&PARAMETERS, &CHANGE, &WRITE],
    examples: &[
        ("From one format to another", "{tool} --parameters=model.safetensors --output=model.irpa"),
        (
            "Several files in one, without and with other parameters",
            "{tool} --parameters=a.gguf --parameters=b.safetensors --exclude=unneeded \\\n  \
             --rename=old=new --splat=some=f32=4.2 --output=ab.irpa",
        ),
        (
            "A stand-in without data, for tests and bug reports",
            "{tool} --parameters=model.irpa --strip --splat=special=f32=1.0 --output=mock.irpa",
        ),
    ],
    guide: include_str!("../guides/convert_parameters.md"),
    answer: |_, _| None,
    run,
};

const CHANGE: Group = Group {
    title: "Changes",
    flags: &[
        Flag::list("exclude", "NAME", "Leaves out a parameter."),
        Flag::list("rename", "OLD=NEW", "Gives a parameter another name."),
        Flag::switch("strip", false, "Replaces all parameters by zeros that take no room."),
        Flag::list(
            "splat",
            "NAME[=TYPE=VALUE]",
            "Replaces a parameter, by the name that it has in its file, by zeros or by a value that \
             repeats: i8=123, f32=4.5, or bytes in hexadecimal, x32=CAFEF00D. It takes no room.",
        ),
    ],
};

const WRITE: Group = Group { title: "Output", flags: &[OUTPUT, QUIET] };

fn run(invocation: &Invocation) -> Result<()> {
    parameters::refuse_operands(invocation)?;
    let flags = &invocation.flags;
    let scopes = parameters::from_flags(flags)?;
    let changes = Changes::from_flags(flags)?;
    let entries = || scopes.iter().flat_map(|(_, index)| index.entries());
    let inputs = entries().filter_map(|entry| match &entry.storage {
        Storage::File { file, .. } => Some(file.path()),
        Storage::Splat(_) => None,
    });
    let path = parameter_output::path(flags, inputs)?;
    changes.note_unused(&scopes);
    let mut archive = Archive::new();
    let mut copies = Vec::new();
    for entry in entries().filter(|entry| !changes.excluded.contains(&&*entry.name)) {
        let declared = declare(&mut archive, entry, &changes);
        let declared = declared.map_err(|error| match error.code() {
            StatusCode::AlreadyExists => error.advise(
                "give one of them another name with --rename=OLD=NEW, or leave it out with --exclude=NAME",
            ),
            _ => error,
        });
        let declared = declared.context(|| format!("parameter '{}'", entry.name))?;
        copies.extend(declared.map(|slot| (entry, slot)));
    }
    parameter_output::write(flags, path, &archive, |output| {
        for (entry, slot) in &copies {
            output.seek(archive.data_offset(*slot))?;
            entry.write_to(output.writer()).context(|| format!("parameter '{}'", entry.name))?;
        }
        Ok(())
    })
}

/// What the flags want to be different.
struct Changes<'a> {
    excluded: Vec<&'a str>,
    renamed: Vec<(&'a str, &'a str)>,
    splats: Vec<(&'a str, Pattern)>,
    strip: bool,
}

impl<'a> Changes<'a> {
    fn from_flags(flags: &'a Flags) -> Result<Self> {
        let renamed = flags.list("rename").map(|flag| {
            flag.split_once('=').ok_or_else(|| {
                Error::invalid_argument(format!("--rename={flag} has no new name")).advise("--rename=OLD=NEW")
            })
        });
        let splats = flags.list("splat").map(|flag| parse_splat(flag).context(|| format!("--splat={flag}")));
        Ok(Self {
            excluded: flags.list("exclude").collect(),
            renamed: renamed.collect::<Result<_>>()?,
            splats: splats.collect::<Result<_>>()?,
            strip: flags.switch("strip"),
        })
    }

    /// Says which names mean nothing. It is no error: one command may serve many files.
    fn note_unused(&self, scopes: &Scopes) {
        let names = |flag: &'static str, names: Vec<&'a str>| names.into_iter().map(move |name| (flag, name));
        let excluded = names("exclude", self.excluded.clone());
        let renamed = names("rename", self.renamed.iter().map(|(old, _)| *old).collect());
        let splats = names("splat", self.splats.iter().map(|(name, _)| *name).collect());
        for (flag, name) in excluded.chain(renamed).chain(splats) {
            if scopes.iter().all(|(_, index)| index.get(name).is_none()) {
                output::note(&format!("note: --{flag}={name} is of no parameter of these files"));
            }
        }
    }

    fn new_name<'e>(&'e self, name: &'e str) -> &'e str {
        self.renamed.iter().find(|(old, _)| *old == name).map_or(name, |(_, new)| new)
    }

    /// What repeats in the place of a parameter, if anything does.
    fn pattern(&self, entry: &Entry) -> Option<Pattern> {
        match self.splats.iter().find(|(name, _)| *name == &*entry.name) {
            Some((_, pattern)) => Some(*pattern),
            None if self.strip => Some(Pattern::ZERO),
            None => match entry.storage {
                Storage::Splat(pattern) => Some(pattern),
                Storage::File { .. } => None,
            },
        }
    }
}

/// Declares what becomes of a parameter; the slot that its data is to be copied to, if it has any.
fn declare(archive: &mut Archive, entry: &Entry, changes: &Changes<'_>) -> Result<Option<Slot>> {
    let name = changes.new_name(&entry.name);
    match changes.pattern(entry) {
        Some(pattern) => archive.add_splat(name, &entry.metadata, pattern, entry.length).map(|()| None),
        None => archive.add_data(name, &entry.metadata, DATA_ALIGNMENT, entry.length).map(Some),
    }
}

/// `name`, or `name=type=value`.
fn parse_splat(flag: &str) -> Result<(&str, Pattern)> {
    let Some((name, value)) = flag.split_once('=') else { return Ok((flag, Pattern::ZERO)) };
    let Some((element_type, value)) = value.split_once('=').filter(|(_, value)| !value.is_empty()) else {
        return Err(Error::invalid_argument("the value is missing").advise("--splat=NAME=TYPE=VALUE"));
    };
    // Bits without a meaning are called so in flags.
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
    Ok((name, pattern))
}
