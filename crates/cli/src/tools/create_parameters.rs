//! `iree-create-parameters`: creates an archive of zeros, splats and given values.

use std::ffi::OsStr;
use std::io::Write;

use rehal_base::{Context, Error, Result};
use rehal_params::Pattern;
use rehal_params::irpa::{Archive, Slot};
use rehal_values::{Contents, TensorType, parse_tensor};

use super::parameter_output::{self, OutputOptions, WRITE};
use crate::flags::{Flag, Group, List, Refusal, split_once, text};
use crate::{Invocation, Operands, Tool};

/// See the [module](self).
pub const CREATE_PARAMETERS: Tool = Tool {
    name: "iree-create-parameters",
    verb: "create-parameters",
    summary: "creates a parameter archive of zeros, splats and given values",
    about: "A parameter is declared by shape and element type, which give its size in bytes; a program may read it \
            as another type of the same size. Data parameters take space in the file; splats do not, so they can \
            stand in for large weights.",
    operands: Operands::None { usage: "--output=FILE.irpa" },
    groups: &[&DECLARE, &LAYOUT, &WRITE],
    examples: &[
        (
            "Zeros, a repeated value, and given values, stored in the file",
            "{tool} --data=w0=4096xf32 --data=w1=8x2xf32=2.1 --data=b=4xi8=1,2,3,4 --output=model.irpa",
        ),
        (
            "Splats in place of large weights",
            "{tool} --splat=w0=65536x4096xf16=0.01 --splat=b=4096xi16=123 --output=mock.irpa",
        ),
    ],
    guide: include_str!("../guides/create_parameters.md"),
    answer: |_, _, _| None,
    run,
};

const SPLATS: List<Splat> = List::parsed(
    "splat",
    "NAME=SHAPExTYPE[=VALUE]",
    "NAME=SHAPExTYPE[=VALUE]",
    parse_splat,
    "A splat parameter, without storage in the file: VALUE, or zero, is repeated when it is loaded. It is \
     read-only for programs.",
);

const DATA: List<Data> = List::parsed(
    "data",
    "NAME=SHAPExTYPE[=VALUE]",
    "NAME=SHAPExTYPE[=VALUE]",
    parse_data,
    "A parameter with storage in the file: zeros, VALUE repeated, or comma-separated values, one for each \
     element.",
);

const DECLARE: Group = Group { title: "Parameters", flags: &[&SPLATS, &DATA] };

const ALIGNMENT: Flag<u64> = Flag::parsed(
    "alignment",
    "BYTES",
    "64",
    "a power of two",
    parse_alignment,
    "Alignment of data in the file in bytes, a power of two.",
)
.unquoted();

const LAYOUT: Group = Group { title: "Layout", flags: &[&ALIGNMENT] };

/// A parameter without storage in the file.
#[derive(Clone, Debug)]
struct Splat {
    name: String,
    pattern: Pattern,
    size_bytes: u64,
}

/// A parameter with storage in the file.
#[derive(Clone, Debug)]
struct Data {
    name: String,
    size_bytes: u64,
    contents: Contents,
}

/// The archive to write.
struct Options {
    splats: Vec<Splat>,
    data: Vec<Data>,
    alignment: u64,
    output: OutputOptions,
}

fn run(invocation: &Invocation) -> Result<()> {
    let flags = &invocation.flags;
    create(&Options {
        splats: flags.list(&SPLATS),
        data: flags.list(&DATA),
        alignment: flags.get(&ALIGNMENT),
        output: OutputOptions::from_flags(flags)?,
    })
}

fn create(options: &Options) -> Result<()> {
    let file = options.output.file()?;
    let mut archive = Archive::new();
    // Splats come first, as they are not part of the order in which data is read.
    for Splat { name, pattern, size_bytes } in &options.splats {
        let added = archive.add_splat(name, &[], *pattern, *size_bytes);
        added.context(|| format!("--splat={name}")).advise(how)?;
    }
    let mut slots: Vec<(Slot, &Data)> = Vec::new();
    for data in &options.data {
        let added = archive.add_data(&data.name, &[], options.alignment, data.size_bytes);
        slots.push((added.context(|| format!("--data={}", data.name)).advise(how)?, data));
    }
    parameter_output::write(&options.output, &file, &archive, |output| {
        for (slot, Data { size_bytes, contents, .. }) in &slots {
            // What is not written is zero.
            if *contents == Contents::Zeros {
                continue;
            }
            output.begin(&archive, *slot)?;
            contents.write_to(*size_bytes, |_, part| {
                output.write_all(part).map_err(|error| Error::io("writing the file", &error))
            })?;
        }
        Ok(())
    })
}

fn how() -> String {
    "declare each name once: NAME=SHAPExTYPE or NAME=SHAPExTYPE=VALUE, such as w0=4x8xf32=2.5".into()
}

fn parse_data(value: &OsStr) -> Result<Data, Refusal> {
    let (name, tensor_type, contents) = parse_declaration(value)?;
    Ok(Data { name, size_bytes: tensor_type.size_bytes().advise(how)?, contents })
}

fn parse_splat(value: &OsStr) -> Result<Splat, Refusal> {
    let (name, tensor_type, contents) = parse_declaration(value)?;
    let pattern = pattern(&tensor_type, &contents)?;
    Ok(Splat { name, pattern, size_bytes: tensor_type.size_bytes().advise(how)? })
}

fn parse_declaration(value: &OsStr) -> Result<(String, TensorType, Contents), Refusal> {
    let (name, tensor) = split_once(value, b'=').ok_or(Refusal::Unexpected)?;
    let (tensor_type, contents) = parse_tensor(&text(tensor)?).advise(how)?;
    Ok((text(name)?, tensor_type, contents))
}

/// The pattern of a splat.
fn pattern(tensor_type: &TensorType, contents: &Contents) -> Result<Pattern> {
    let element_bytes = tensor_type.element_type.whole_bytes().ok_or_else(|| {
        Error::invalid_argument(format!("elements of {} do not fill whole bytes", tensor_type.element_type))
            .advise("use a type of the same size, such as 1xi8 for 2xi4")
    })?;
    let pattern = match contents {
        Contents::Zeros => Some(Pattern::ZERO),
        Contents::Splat(bytes) => Pattern::new(bytes),
        Contents::Bytes(bytes) if bytes.len() as u64 == element_bytes => Pattern::new(bytes),
        Contents::Bytes(_) => {
            return Err(Error::invalid_argument("a splat has one value")
                .advise("use --data for a parameter with a value for each element"));
        }
    };
    pattern.ok_or_else(|| {
        Error::invalid_argument(format!("elements of {element_bytes} bytes cannot be repeated"))
            .advise("patterns have 1, 2, 4, 8 or 16 bytes")
    })
}

fn parse_alignment(value: &OsStr) -> Result<u64, Refusal> {
    let bytes = text(value)?.parse().ok().filter(|bytes: &u64| bytes.is_power_of_two());
    bytes.ok_or(Refusal::Unexpected)
}

#[cfg(test)]
mod tests {
    use rehal_params::irpa::DATA_ALIGNMENT;

    use super::*;

    #[test]
    fn the_default_alignment_is_that_of_archives() {
        assert_eq!(parse_alignment(OsStr::new("64")).unwrap(), DATA_ALIGNMENT);
    }
}
