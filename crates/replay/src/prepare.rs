//! Prepares the executables of a capture, or their replacements, on the replaying devices.

use rehal_base::{Context, Error, FileKind, Result};
use rehal_capture::payload::Function;
use rehal_hal::{
    CachingMode, CreateOp, Device, Executable, ExecutableParams, FunctionInfo, HostOp, Indexed,
    PrepareExecutable,
};

use crate::substitute::{NO_EXECUTABLE, OpenReplacement, Replacements};
use crate::{ExecutableRecord, Plan};

/// An executable with its captured functions.
pub(crate) struct Prepared {
    pub executable: Executable,
    /// The function of `executable` for each captured ordinal.
    pub functions: Vec<u32>,
}

/// Prepares the executable of `op` or its replacement, and checks that the result accepts the arguments of the
/// captured dispatches.
pub(crate) fn prepare(
    plan: &Plan,
    op: &PrepareExecutable<Indexed>,
    device: &Device,
    replacements: &Replacements,
    own_names: &[String],
) -> Result<Prepared> {
    let PrepareExecutable { affinity, caching_mode, format, data, constants, created, .. } = *op;
    let stored = &plan.executables[created as usize];
    let record = &stored.record(plan.bytes());
    let constants: Vec<u32> =
        constants.of(plan.bytes()).as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).collect();
    let own_name = own_names.get(created as usize).map_or("", String::as_str);
    let replacement = replacements.find(created as usize, record, own_name);
    let captured_format = String::from_utf8_lossy(format.of(plan.bytes()));
    let label = format!("executable {}", record.id);
    let params = ExecutableParams {
        label: &label,
        affinity,
        caching_mode,
        format: &captured_format,
        data: data.of(plan.bytes()),
        constants: &constants,
    };
    let matched = |executable| {
        let prepared = match_functions(record, executable, plan.version().major)?;
        // The plan validated the same bytes, unless the file has been modified since.
        match prepared.functions.len() == stored.function_count as usize {
            true => Ok(prepared),
            false => Err(Error::data_loss("the executable's metadata has changed since it was planned")),
        }
    };
    match replacement {
        None => prepare_one(device, &params).and_then(matched),
        Some(replacement) => prepare_replacement(device, &params, replacement)
            .and_then(matched)
            .context(|| format!("substitute {} for executable {}", replacement.place, record.id)),
    }
}

/// The own names of a plan's executables, in order; needed only if a substitution selects by such a name.
pub(crate) fn own_names(plan: &Plan, devices: &[Device]) -> Result<Vec<String>> {
    let ops = preparations(plan);
    ops.into_iter().map(|op| own_name(plan, devices, op)).collect()
}

/// The operations of a plan that prepare executables, in order.
pub(crate) fn preparations(plan: &Plan) -> Vec<&PrepareExecutable<Indexed>> {
    let of = |op| match op {
        &HostOp::Create(CreateOp::Executable(ref op)) => Some(op),
        _ => None,
    };
    plan.host_ops.iter().filter_map(of).collect()
}

/// The own name of an executable.
pub(crate) fn own_name(plan: &Plan, devices: &[Device], op: &PrepareExecutable<Indexed>) -> Result<String> {
    let nothing = Replacements::open(&[], plan)?;
    let prepared = prepare(plan, op, &devices[op.cache as usize], &nothing, &[])?;
    Ok(prepared.executable.backend().name().to_string())
}

fn prepare_replacement(
    device: &Device,
    captured: &ExecutableParams<'_>,
    replacement: &OpenReplacement,
) -> Result<Executable> {
    let data = replacement.data();
    let kind = FileKind::of(data);
    let refuse = |kind: FileKind| kind.refuse_as(&replacement.place, "an executable");
    if kind == Some(FileKind::Empty) {
        return Err(refuse(FileKind::Empty).advise(NO_EXECUTABLE));
    }
    let format = match replacement.format.as_deref() {
        Some(format) => format,
        None => device.infer_executable_format(data).ok_or_else(|| {
            kind.map(refuse)
                .unwrap_or_else(|| {
                    Error::invalid_argument("the device cannot infer the executable format of the file")
                })
                .advise("name the format: ID@FORMAT=PATH")
        })?,
    };
    let prepared = prepare_one(device, &ExecutableParams { format, data, ..*captured });
    prepared.map_err(|error| match kind {
        // VM executables are modules, and executables of some devices are text.
        None | Some(FileKind::Elf | FileKind::Module | FileKind::Text) => error,
        Some(kind) => refuse(kind),
    })
}

#[allow(unsafe_code, reason = "the trust boundary of native code: a capture is a program")]
fn prepare_one(device: &Device, params: &ExecutableParams<'_>) -> Result<Executable> {
    let caching_mode = params.caching_mode - CachingMode::ALIAS_PROVIDED_DATA;
    // SAFETY: the user who replays a capture, or names a replacement, requests to run this code, as
    // docs/unsafe.md and the help of the tools state: a capture is as trusted as a program.
    unsafe { device.backend().prepare_executable(&ExecutableParams { caching_mode, ..*params }) }
}

/// Looks up each captured function in `executable` and compares the signatures.
fn match_functions(
    record: &ExecutableRecord<'_>,
    executable: Executable,
    version_major: u16,
) -> Result<Prepared> {
    let mut functions = Vec::new();
    for captured in record.functions() {
        let ordinal = find_function(&captured, &executable, version_major)?;
        if functions.contains(&ordinal) {
            return Err(Error::failed_precondition(format!(
                "captured functions {} and {} are both '{}' in the executable",
                functions.iter().position(|it| *it == ordinal).unwrap_or_default(),
                captured.ordinal,
                captured.name.escape_ascii()
            )));
        }
        compare(&captured, executable.function(ordinal)?)?;
        functions.push(ordinal);
    }
    Ok(Prepared { executable, functions })
}

fn find_function(captured: &Function<'_>, executable: &Executable, version_major: u16) -> Result<u32> {
    if captured.name.is_empty() {
        // Captures of version 1.0 identify functions only by ordinal.
        if version_major == 1 {
            executable.function(captured.ordinal)?;
            return Ok(captured.ordinal);
        }
        return Err(Error::data_loss(format!("captured function {} has no name", captured.ordinal)));
    }
    let name = str::from_utf8(captured.name).map_err(|_| {
        Error::data_loss(format!("captured function {} has a name that is not UTF-8", captured.ordinal))
    })?;
    executable.lookup(name).context(|| format!("captured function {}", captured.ordinal))
}

fn compare(captured: &Function<'_>, loaded: &FunctionInfo) -> Result<()> {
    let metadata = captured.metadata;
    let captured_shape = (
        metadata.flags.get(),
        metadata.constant_count.get(),
        metadata.binding_count.get(),
        metadata.parameter_count.get(),
        metadata.workgroup_size.map(|size| size.get()),
    );
    let loaded_shape = (
        loaded.flags,
        loaded.constant_count,
        loaded.binding_count,
        loaded.parameter_count,
        loaded.workgroup_size,
    );
    if captured_shape != loaded_shape {
        let text = |(flags, constants, bindings, parameters, [x, y, z]): (u64, u16, u16, u16, [u32; 3])| {
            format!(
                "(flags={flags:#x} constants={constants} bindings={bindings} parameters={parameters} workgroup_size=[{x},{y},{z}])"
            )
        };
        return Err(mismatch(captured, "", &text(captured_shape), &text(loaded_shape)));
    }
    let text = |(kind, size, flags, offset): (u8, u8, u16, u16)| {
        format!("(type={kind} size={size} flags={flags:#x} offset={offset})")
    };
    for (index, was) in captured.parameters.iter().enumerate() {
        let was = (was.parameter_type, was.size, was.flags.get(), was.offset.get());
        let is = loaded.parameters.get(index).map(|is| (is.kind, is.size, is.flags, is.offset));
        if is != Some(was) {
            let is = is.map_or_else(|| "(not described)".to_string(), text);
            return Err(mismatch(captured, &format!(" parameter {index}"), &text(was), &is));
        }
    }
    Ok(())
}

fn mismatch(captured: &Function<'_>, part: &str, was: &str, is: &str) -> Error {
    Error::failed_precondition(format!(
        "signature mismatch of function '{}'{part}: captured={was} replacement={is}",
        captured.name.escape_ascii()
    ))
    .advise("compile the replacement from the same dispatch, with the same bindings and constants")
}
