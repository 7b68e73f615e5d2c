//! `iree-create-parameters`: makes an archive of zeros, patterns and given values.

use rehal_base::{Context, Error, Result};
use rehal_params::Pattern;
use rehal_params::irpa::{Archive, DATA_ALIGNMENT, Slot};
use rehal_values::{Contents, TensorType, parse_tensor};

use super::parameter_output::{self, OUTPUT, QUIET};
use crate::flags::{Flag, Group};
use crate::{Invocation, Tool, parameters};

/// See the [module](self).
pub const CREATE_PARAMETERS: Tool = Tool {
    name: "iree-create-parameters",
    verb: "create-parameters",
    summary: "makes a parameter archive of zeros, patterns and given values",
    about: "A parameter is declared by shape and type, which say how many bytes it has; the program that reads \
            it may see other ones of the same size. Data has room in the file, splats have none: they make a \
            model's weights stand-ins of a few bytes.",
    operands: "--output=FILE.irpa",
    groups: &[&DECLARE, &WRITE],
    examples: &[
        (
            "Zeros, a pattern, and values, all in the file",
            "{tool} --data=w0=4096xf32 --data=w1=8x2xf32=2.1 --data=b=4xi8=1,2,3,4 --output=model.irpa",
        ),
        (
            "A stand-in for large weights",
            "{tool} --splat=w0=65536x4096xf16=0.01 --splat=b=4096xi16=123 --output=mock.irpa",
        ),
    ],
    guide: include_str!("../guides/create_parameters.md"),
    answer: |_, _| None,
    run,
};

const DECLARE: Group = Group {
    title: "Parameters",
    flags: &[
        Flag::list(
            "splat",
            "NAME=SHAPExTYPE[=VALUE]",
            "A parameter without room in the file: VALUE, or zero, repeats when it is loaded. Programs \
             cannot write to it.",
        ),
        Flag::list(
            "data",
            "NAME=SHAPExTYPE[=VALUE]",
            "A parameter with room in the file: zeros, VALUE over and over, or a value for each element, \
             separated by commas.",
        ),
    ],
};

const WRITE: Group = Group {
    title: "Output",
    flags: &[
        OUTPUT,
        Flag::integer(
            "alignment",
            DATA_ALIGNMENT as i64,
            "Alignment of data in the file in bytes: a power of two.",
        ),
        QUIET,
    ],
};

fn run(invocation: &Invocation) -> Result<()> {
    parameters::refuse_operands(invocation)?;
    let flags = &invocation.flags;
    let path = parameter_output::path(flags, [])?;
    let mut archive = Archive::new();
    // What has no room comes first, as it is no part of the order in which data is read.
    for flag in flags.list("splat") {
        splat(&mut archive, flag).context(|| format!("--splat={flag}")).advise(how)?;
    }
    let alignment = flags.integer("alignment");
    let alignment = u64::try_from(alignment).ok().filter(|it| it.is_power_of_two()).ok_or_else(|| {
        Error::invalid_argument(format!("--alignment={alignment} is not a power of two"))
            .advise("leave it out for the 64 bytes that programs want")
    })?;
    let mut all = Vec::new();
    for flag in flags.list("data") {
        let declared = data(&mut archive, flag, alignment).context(|| format!("--data={flag}"));
        all.push(declared.advise(how)?);
    }
    parameter_output::write(flags, path, &archive, |output| {
        for Data { slot, size_bytes, contents } in &all {
            // The file is of zeros already.
            if *contents == Contents::Zeros {
                continue;
            }
            output.seek(archive.data_offset(*slot))?;
            contents.write_to(*size_bytes, |_, part| output.put(part))?;
        }
        Ok(())
    })
}

fn how() -> String {
    "declare each name once: NAME=SHAPExTYPE or NAME=SHAPExTYPE=VALUE, such as w0=4x8xf32=2.5".into()
}

/// A parameter that has room in the file.
struct Data {
    slot: Slot,
    size_bytes: u64,
    contents: Contents,
}

fn data(archive: &mut Archive, flag: &str, alignment: u64) -> Result<Data> {
    let (name, tensor_type, contents) = parse(flag)?;
    let size_bytes = tensor_type.size_bytes()?;
    let slot = archive.add_data(name, &[], alignment, size_bytes)?;
    Ok(Data { slot, size_bytes, contents })
}

fn splat(archive: &mut Archive, flag: &str) -> Result<()> {
    let (name, tensor_type, contents) = parse(flag)?;
    let element_bytes = tensor_type.element_type.whole_bytes().ok_or_else(|| {
        Error::invalid_argument(format!("elements of {} do not fill whole bytes", tensor_type.element_type))
            .advise("use a type of the same size, such as 1xi8 for 2xi4")
    })?;
    let pattern = match &contents {
        Contents::Zeros => Some(Pattern::ZERO),
        Contents::Splat(bytes) => Pattern::new(bytes),
        Contents::Bytes(bytes) if bytes.len() as u64 == element_bytes => Pattern::new(bytes),
        Contents::Bytes(_) => {
            return Err(Error::invalid_argument("a splat repeats one value")
                .advise("use --data for a parameter with a value for each element"));
        }
    };
    let pattern = pattern.ok_or_else(|| {
        Error::invalid_argument(format!("elements of {element_bytes} bytes cannot be repeated"))
            .advise("patterns have 1, 2, 4, 8 or 16 bytes")
    })?;
    archive.add_splat(name, &[], pattern, tensor_type.size_bytes()?)
}

/// The name, the type and what the parameter holds.
fn parse(flag: &str) -> Result<(&str, TensorType, Contents)> {
    let Some((name, tensor)) = flag.split_once('=') else {
        return Err(Error::invalid_argument("shape and type are missing"));
    };
    let (tensor_type, contents) = parse_tensor(tensor)?;
    Ok((name, tensor_type, contents))
}
