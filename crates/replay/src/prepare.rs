//! Prepares executables on the devices that run them, or the code that replaces them or functions of them.

use rehal_base::{Context, Error, FileKind, Remedy, Result, StatusCode, listed};
use rehal_capture::payload::Function;
use rehal_hal::{
    CachingMode, CreateOp, Device, DeviceGroup, Executable, ExecutableFormat, ExecutableParams, FunctionInfo,
    FunctionParameter, HostOp, Indexed, NeededWorkgroups, PrepareExecutable, ReplacedFunction,
    WorkgroupSchedule,
};

use crate::substitute::{Layer, NO_EXECUTABLE, ReplacementCode};
use crate::{ExecutableRecord, Plan};

/// The code of an executable of a capture, with its captured functions.
#[derive(Clone)]
pub(crate) struct Prepared {
    /// The executable, or what replaces it; several if functions are replaced one by one.
    parts: Vec<Executable>,
    /// The code of the first parts, if they replace the executable or functions of it. The captured one is
    /// the last part.
    replacements: Vec<ReplacementCode>,
    /// The part for each captured ordinal, and its function.
    functions: Vec<(usize, u32)>,
}

impl Prepared {
    /// All of its code.
    pub(crate) fn parts(&self) -> &[Executable] {
        &self.parts
    }

    /// The function that runs for a captured ordinal, which must be below [`Prepared::function_count`].
    pub(crate) fn function(&self, captured: u32) -> (&Executable, u32) {
        let (part, ordinal) = self.functions[captured as usize];
        (&self.parts[part], ordinal)
    }

    /// The code that runs for a captured ordinal, if it is not the captured one.
    pub(crate) fn replacement(&self, captured: u32) -> Option<&ReplacementCode> {
        self.replacements.get(self.functions[captured as usize].0)
    }

    /// The workgroups that what runs needs, for each captured ordinal, and what runs in errors. `layers` are
    /// those that it was prepared with, in place of the code `replaced` of `format`, if that is known. Code
    /// that is the same needs the same. Fails if something is said of a function that the code does not have,
    /// since it may be meant for one that is dispatched.
    pub(crate) fn workgroups(
        &self,
        layers: &[Layer<'_>],
        replaced: &[u8],
        format: Option<&ExecutableFormat>,
    ) -> Result<Vec<(NeededWorkgroups, String)>> {
        for (layer, part) in layers.iter().zip(&self.parts) {
            check_stated(layer, part.functions())?;
        }
        let is_same = |captured: u32, part: usize, ordinal: u32| {
            let code = self.replacements.get(part).map(ReplacementCode::data);
            let is_same_code = format.and_then(|it| it.is_same_code);
            is_same_code
                .zip(code)
                .is_some_and(|(is_same, code)| is_same((replaced, captured), (code, ordinal)))
        };
        let needed = |(captured, &(part, ordinal)): (u32, &(usize, u32))| {
            let name = self.parts[part].functions().get(ordinal as usize).map_or("", |it| &it.name);
            let Some(layer) = layers.get(part) else { return (NeededWorkgroups::Same, String::new()) };
            let place =
                format!("function '{}' of substitute {}", name.escape_debug(), layer.replacement.place);
            match layer.replacement.workgroups_of(name, replaced) {
                NeededWorkgroups::Unknown(_) if is_same(captured, part, ordinal) => {
                    (NeededWorkgroups::Same, place)
                }
                needed => (needed, place),
            }
        };
        Ok((0..).zip(&self.functions).map(needed).collect())
    }

    /// Number of captured functions.
    pub(crate) fn function_count(&self) -> usize {
        self.functions.len()
    }
}

/// Fails if workgroups are stated for a function that the code of a replacement does not have: they may be
/// meant for one that is dispatched.
pub(crate) fn check_stated(layer: &Layer<'_>, functions: &[FunctionInfo]) -> Result<()> {
    for name in layer.replacement.workgroups.iter().filter_map(|it| it.0.as_deref()) {
        if functions.iter().any(|it| it.name == *name) {
            continue;
        }
        let (place, name) = (&layer.replacement.place, name.escape_debug());
        let message = format!(
            "the workgroups of function '{name}' are stated, which the code of substitute {place} does not have"
        );
        return Err(Error::failed_precondition(message)
            .advise("state workgroups by the names of the functions in the code"));
    }
    Ok(())
}

/// Prepares the executable of `op` or its replacements `layers`, and checks that the result accepts the
/// arguments of the captured dispatches.
pub(crate) fn prepare(
    plan: &Plan,
    op: &PrepareExecutable<Indexed>,
    device: &Device,
    layers: &[Layer<'_>],
    workgroups: WorkgroupSchedule,
    label: Option<&str>,
) -> Result<Prepared> {
    let PrepareExecutable { affinity, caching_mode, format, data, constants, created, .. } = *op;
    let stored = &plan.executables[created as usize];
    let record = &stored.record(plan.bytes());
    let constants: Vec<u32> =
        constants.of(plan.bytes()).as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).collect();
    let captured_format = String::from_utf8_lossy(format.of(plan.bytes()));
    let label = label.map_or_else(|| format!("executable {}", record.id), str::to_owned);
    let params = ExecutableParams {
        label: &label,
        affinity,
        caching_mode,
        format: &captured_format,
        data: data.of(plan.bytes()),
        constants: &constants,
        workgroups,
    };
    let wanted = Wanted::from_record(record, plan.version().major == 1);
    let prepared = Matching { id: record.id, wanted, prepared: None, device, params }.all(layers)?;
    // The plan validated the same bytes, unless the file has been modified since.
    match prepared.function_count() == stored.function_count as usize {
        true => Ok(prepared),
        false => Err(Error::data_loss("the executable's metadata has changed since it was planned")),
    }
}

/// Fails if there are not as many devices as the capture uses.
pub(crate) fn check_devices(plan: &Plan, devices: &DeviceGroup) -> Result<()> {
    let (captured, given) = (plan.device_count(), devices.devices().len());
    if captured != given {
        return Err(Error::failed_precondition(format!(
            "the capture uses {captured} device(s), found {given}"
        ))
        .advise(Remedy::GiveDevices));
    }
    Ok(())
}

/// The names by which a plan's executables call themselves, in order. Prepares them on the devices, which
/// runs captured code.
pub fn own_names(plan: &Plan, devices: &DeviceGroup) -> Result<Vec<String>> {
    check_devices(plan, devices)?;
    let ops = preparations(plan);
    ops.into_iter().map(|op| own_name(plan, devices.devices(), op)).collect()
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
    let device = &devices[op.cache as usize];
    let prepared = prepare(plan, op, device, &[], WorkgroupSchedule::All, None)?;
    Ok(prepared.parts.first().map_or_else(String::new, |it| it.backend().name().to_string()))
}

/// Advice about a replacement with another signature.
const HOW_TO_MATCH: &str = "compile the replacement from the same dispatch, with the same bindings and constants; a stub of the kernel in \
     a capture has its signature";

/// Advice about a replacement that lacks the function.
const STUB: &str = "a stub of the kernel has the name and the signature that a replacement needs";

fn prepare_replacement(
    device: &Device,
    captured: &ExecutableParams<'_>,
    layer: &Layer<'_>,
) -> Result<(Executable, ReplacementCode)> {
    let replacement = layer.replacement;
    let data = replacement.data();
    let kind = FileKind::from_head(data);
    let refuse = |kind: FileKind| kind.refuse_as(&replacement.place, "an executable");
    if kind == Some(FileKind::Empty) {
        return Err(refuse(FileKind::Empty).advise(NO_EXECUTABLE));
    }
    let driver = &device.info().driver;
    // The captured executables run on this device, so that it is the file that has to be another.
    let other_device = |what: &str| {
        Error::incompatible(format!("device '{driver}' does not run {what}"))
            .advise(Remedy::CompileExecutable { driver: driver.clone() })
    };
    let unknown = || match kind {
        Some(kind) if kind.is_code() && !device.info().has_files_of(kind) => other_device(kind.name()),
        Some(kind) => refuse(kind).advise(Remedy::NameExecutable),
        None => Error::invalid_argument("the device cannot infer the executable format of the file")
            .advise(Remedy::NameExecutable),
    };
    let inferred = replacement.format.as_deref().or_else(|| device.infer_executable_format(data));
    let of_captured = device.info().format(captured.format);
    // An image by itself, which does not say how it is dispatched, gets the container of the captured one.
    let of_captured_files = |it: &&ExecutableFormat| kind.is_some_and(|kind| it.files.contains(&kind));
    let is_of_captured = of_captured.as_ref().is_some_and(of_captured_files);
    let format = of_captured.filter(|_| is_of_captured && inferred.is_none_or(|it| it == captured.format));
    if let Some(check) = format.and_then(|it| it.check_emulated) {
        check(data)?;
    }
    if let Some(whole) = format.and_then(|it| layer.in_container(it, captured.data)) {
        let data = whole?;
        let prepared = prepare_one(device, &ExecutableParams { data: &data, ..*captured })?;
        return Ok((prepared, ReplacementCode::of(data, captured.format)));
    }
    let format = match replacement.format.as_deref() {
        Some(format) => format,
        None if layer.keeps_format || inferred.is_none() && is_of_captured => captured.format,
        None => inferred.ok_or_else(unknown)?,
    };
    if device.info().format(format).is_none() && !device.can_prepare_executable(format) {
        return Err(other_device(&format!("executables of format '{format}'")));
    }
    let prepared = prepare_one(device, &ExecutableParams { format, data, ..*captured });
    let prepared = prepared.map_err(|error| match kind {
        Some(kind) if !kind.may_be_executable() => refuse(kind),
        Some(kind) if kind.is_code() && !device.info().has_files_of(kind) => other_device(kind.name()),
        _ => match device.infer_executable_format(data) {
            Some(other) if layer.keeps_format && other != format => Error::invalid_argument(format!(
                "the code has the format '{other}', and the executable '{format}', which it keeps"
            ))
            .advise("name a file of that format, or a source, which is compiled to it"),
            _ => error,
        },
    });
    Ok((prepared?, replacement.code(format)))
}

#[allow(unsafe_code, reason = "the trust boundary of native code: a capture is a program")]
fn prepare_one(device: &Device, params: &ExecutableParams<'_>) -> Result<Executable> {
    let caching_mode = params.caching_mode - CachingMode::ALIAS_PROVIDED_DATA;
    // SAFETY: the user who replays a capture, or names a replacement, requests to run this code, as
    // docs/unsafe.md and the help of the tools state: a capture is as trusted as a program.
    let prepared =
        unsafe { device.backend().prepare_executable(&ExecutableParams { caching_mode, ..*params }) };
    prepared.map_err(|error| match device.info().format(params.format) {
        None => error.advise(Remedy::UseDeviceForFormat { format: params.format.to_owned() }),
        Some(_) => error,
    })
}

/// Prepares what runs in place of each function of `original`, which has been prepared with `params`.
pub(crate) fn replace(
    device: &Device,
    params: &ExecutableParams<'_>,
    original: &Executable,
    id: u64,
    layers: &[Layer<'_>],
) -> Result<Vec<ReplacedFunction>> {
    let wanted = Wanted::from_executable(original);
    let matching = Matching { id, wanted, prepared: Some(original), device, params: *params };
    let prepared = matching.all(layers)?;
    let replaced = |(&(part, function), (workgroups, place)): (&(usize, u32), (NeededWorkgroups, String))| {
        // Before anything runs. What a module computes is compared later.
        if let (NeededWorkgroups::Unknown(_), false) = (&workgroups, layers.iter().any(|it| it.keeps_format))
        {
            workgroups.count(&[], false).context(|| place)?;
        }
        Ok(ReplacedFunction { executable: prepared.parts[part].clone(), function, workgroups })
    };
    prepared
        .functions
        .iter()
        .zip(prepared.workgroups(layers, params.data, device.info().format(params.format))?)
        .map(replaced)
        .collect()
}

/// A function that must be found in the code that runs.
struct Wanted<'a> {
    ordinal: u32,
    /// Empty if it is identified by its ordinal.
    name: &'a [u8],
    /// The interface that callers rely on.
    info: WantedInfo<'a>,
    /// Whether it may be identified by its ordinal.
    may_lack_name: bool,
}

/// The interface of a function: in place, since replays prepare executables in each iteration.
enum WantedInfo<'a> {
    Captured(Function<'a>),
    Compiled(&'a FunctionInfo),
}

/// Flags, constants, bindings, parameters, workgroup size.
type Shape = (u64, u16, u16, u16, [u32; 3]);
/// Kind, size, flags, offset.
type ParameterShape = (u8, u8, u16, u16);

impl WantedInfo<'_> {
    fn shape(&self) -> Shape {
        match self {
            Self::Compiled(it) => shape(it),
            Self::Captured(Function { metadata: it, .. }) => (
                it.flags.get(),
                it.constant_count.get(),
                it.binding_count.get(),
                it.parameter_count.get(),
                it.workgroup_size.map(|size| size.get()),
            ),
        }
    }

    /// The parameter at an index; `None` beyond the last.
    fn parameter(&self, index: usize) -> Option<ParameterShape> {
        match self {
            Self::Compiled(it) => it.parameters.get(index).map(parameter_shape),
            Self::Captured(it) => {
                let it = it.parameters.get(index)?;
                Some((it.parameter_type, it.size, it.flags.get(), it.offset.get()))
            }
        }
    }

    /// Where it comes from.
    fn origin(&self) -> &'static str {
        match self {
            Self::Captured(_) => "captured",
            Self::Compiled(_) => "compiled",
        }
    }
}

fn shape(it: &FunctionInfo) -> Shape {
    (it.flags, it.constant_count, it.binding_count, it.parameter_count, it.workgroup_size)
}

fn parameter_shape(it: &FunctionParameter) -> ParameterShape {
    (it.kind, it.size, it.flags, it.offset)
}

impl<'a> Wanted<'a> {
    /// The functions of an executable of a capture. Captures of version 1.0 identify functions only by
    /// ordinal.
    fn from_record(record: &ExecutableRecord<'a>, has_ordinals_only: bool) -> Vec<Self> {
        let wanted = |it: Function<'a>| Self {
            ordinal: it.ordinal,
            name: it.name,
            info: WantedInfo::Captured(it),
            may_lack_name: has_ordinals_only,
        };
        record.functions().map(wanted).collect()
    }

    /// The functions of an executable that has been prepared; some formats have no names.
    fn from_executable(executable: &'a Executable) -> Vec<Self> {
        executable.functions().iter().enumerate().map(Self::from_info).collect()
    }

    fn from_info((ordinal, info): (usize, &'a FunctionInfo)) -> Self {
        let (name, info) = (info.name.as_bytes(), WantedInfo::Compiled(info));
        Self { ordinal: ordinal as u32, name, info, may_lack_name: true }
    }

    /// The error of a function that the code has under the name of another one, which has this index.
    fn is_ambiguous(&self, other: usize) -> Error {
        Error::failed_precondition(format!(
            "{} functions {other} and {} are both '{}' in the executable",
            self.info.origin(),
            self.ordinal,
            self.name.escape_ascii()
        ))
    }

    /// Its ordinal in some code.
    fn ordinal_in(&self, code: &[FunctionInfo]) -> Result<u32> {
        let (origin, ordinal) = (self.info.origin(), &self.ordinal);
        if self.name.is_empty() {
            if !self.may_lack_name {
                return Err(Error::data_loss(format!("{origin} function {ordinal} has no name")));
            }
            return match (*ordinal as usize) < code.len() {
                true => Ok(*ordinal),
                false => Err(Error::out_of_range(format!(
                    "function {ordinal} does not exist: the executable has {}",
                    code.len()
                ))),
            };
        }
        let name = str::from_utf8(self.name).map_err(|_| {
            Error::data_loss(format!("{origin} function {ordinal} has a name that is not UTF-8"))
        })?;
        FunctionInfo::find(code, name).ok_or_else(|| {
            let (name, names) = (name.escape_debug(), names_in(code));
            Error::not_found(format!("the executable has no function '{name}'; it has: {names}"))
                .context(format!("{origin} function {ordinal}"))
        })
    }
}

/// An executable whose functions are looked up in what replaces it.
struct Matching<'a> {
    /// Its number in errors.
    id: u64,
    wanted: Vec<Wanted<'a>>,
    /// The executable, if it has been prepared.
    prepared: Option<&'a Executable>,
    device: &'a Device,
    params: ExecutableParams<'a>,
}

impl Matching<'_> {
    /// Prepares the replacements, or the executable without any, and looks up each captured function. The
    /// executable is also prepared if its functions are replaced one by one, and some are not.
    fn all(&self, layers: &[Layer<'_>]) -> Result<Prepared> {
        let (mut parts, mut replacements) = (Vec::with_capacity(layers.len() + 1), Vec::new());
        for layer in layers {
            let part = prepare_replacement(self.device, &self.params, layer);
            let (part, code) = part.map_err(|error| in_layer(layer, self.id, error))?;
            parts.push(part);
            replacements.push(code);
        }
        let code: Vec<_> = parts.iter().map(Executable::functions).collect();
        let how_to_match = |layer: usize| self.how_to_match(&replacements[layer].format);
        let found = matched(self.id, &self.wanted, layers, &code, &how_to_match)?;
        let mut functions = Vec::with_capacity(found.len());
        for (captured, found) in self.wanted.iter().zip(found) {
            functions.push(match found {
                Some(found) => found,
                // Of no replacement, so the captured one: the part after those of the layers.
                None => {
                    if parts.len() == layers.len() {
                        parts.push(self.original()?);
                    }
                    let own = parts[layers.len()].functions();
                    let ordinal = captured.ordinal_in(own)?;
                    if let Some(other) = functions.iter().position(|it| *it == (layers.len(), ordinal)) {
                        return Err(captured.is_ambiguous(other));
                    }
                    compare(captured, &own[ordinal as usize])
                        .map_err(|error| error.advise(self.how_to_match(self.params.format)))?;
                    (layers.len(), ordinal)
                }
            });
        }
        if parts.is_empty() {
            parts.push(self.original()?);
        }
        Ok(Prepared { parts, replacements, functions })
    }

    fn original(&self) -> Result<Executable> {
        self.prepared.map_or_else(|| prepare_one(self.device, &self.params), |it| Ok(it.clone()))
    }

    /// Advice about code of a format with another signature than the captured function.
    fn how_to_match(&self, format: &str) -> String {
        let captured = self.params.format;
        let without_sizes = |format: &str| {
            let format = self.device.info().format(format).filter(|format| !format.states_workgroup_sizes);
            format.map(|format| format.description)
        };
        match [captured, format].map(without_sizes) {
            [Some(code), None] => format!(
                "the executable is {code}, whose functions state no workgroup size: make the replacement from a \
                 stub of the kernel in a capture, which has its signature, or compile the program for this CPU \
                 (llvm-cpu)"
            ),
            [None, Some(code)] => format!(
                "the replacement is {code}, whose functions state no workgroup size: compile it to '{}', as the \
                 executable",
                captured.escape_debug()
            ),
            _ => HOW_TO_MATCH.into(),
        }
    }
}

/// Where each wanted function is in the code of the layers: the layer, and the function's ordinal there.
/// `None` if none replaces it. Fails if a layer lacks functions that it has to have, or has them with another
/// signature; `how_to_match` says what to do then.
fn matched(
    id: u64,
    wanted: &[Wanted<'_>],
    layers: &[Layer<'_>],
    code: &[&[FunctionInfo]],
    how_to_match: &dyn Fn(usize) -> String,
) -> Result<Vec<Option<(usize, u32)>>> {
    let mut functions: Vec<Option<(usize, u32)>> = Vec::with_capacity(wanted.len());
    for captured in wanted {
        let found = find_in(captured, wanted, layers, code)
            .map_err(|(layer, error)| in_layer(&layers[layer], id, error))?;
        if let Some((layer, ordinal)) = found {
            let checked = match functions.iter().position(|it| *it == found) {
                Some(other) => Err(captured.is_ambiguous(other)),
                None => compare(captured, &code[layer][ordinal as usize])
                    .map_err(|error| error.advise(how_to_match(layer))),
            };
            checked.map_err(|error| in_layer(&layers[layer], id, error))?;
        }
        functions.push(found);
    }
    for (index, layer) in layers.iter().enumerate() {
        let must_have_one = layer.replacement.keeps_missing || layers.len() > 1;
        if must_have_one && !functions.iter().flatten().any(|(part, _)| *part == index) {
            return Err(in_layer(layer, id, nothing_replaced(wanted, code[index])));
        }
    }
    Ok(functions)
}

fn in_layer(layer: &Layer<'_>, id: u64, error: Error) -> Error {
    let function = layer.function.map(|name| format!("function '{}' of ", name.escape_ascii()));
    let (place, function) = (&layer.replacement.place, function.unwrap_or_default());
    error.context(format!("substitute {place} for {function}executable {id}"))
}

/// The replacement of a captured function, and the function's ordinal there; `None` if all replacements are
/// of other functions, or keep those that they lack. An error belongs to the replacement at an index.
fn find_in(
    captured: &Wanted<'_>,
    wanted: &[Wanted<'_>],
    layers: &[Layer<'_>],
    code: &[&[FunctionInfo]],
) -> Result<Option<(usize, u32)>, (usize, Error)> {
    let named = layers.iter().position(|layer| layer.function.is_some_and(|it| it == captured.name));
    if let Some(index) = named {
        let found = captured.ordinal_in(code[index]);
        let found = found.map_err(|error| match error.code() {
            StatusCode::NotFound => (index, error.advise(STUB)),
            _ => (index, error),
        });
        return found.map(|ordinal| Some((index, ordinal)));
    }
    let mut missing = None;
    for (index, layer) in layers.iter().enumerate().filter(|(_, layer)| layer.function.is_none()) {
        match captured.ordinal_in(code[index]) {
            Ok(ordinal) => return Ok(Some((index, ordinal))),
            Err(error) if error.code() == StatusCode::NotFound && layer.replacement.keeps_missing => {}
            Err(error) => missing = missing.or(Some((index, error))),
        }
    }
    match missing {
        Some((index, error)) if error.code() == StatusCode::NotFound => {
            Err((index, lacks_functions(wanted, layers, code[index])))
        }
        Some(missing) => Err(missing),
        None => Ok(None),
    }
}

/// The error of a replacement of all functions that lacks some.
fn lacks_functions(wanted: &[Wanted<'_>], layers: &[Layer<'_>], code: &[FunctionInfo]) -> Error {
    let is_missing = |it: &&Wanted<'_>| {
        let is_named = layers.iter().any(|layer| layer.function == Some(it.name));
        !is_named && it.ordinal_in(code).is_err()
    };
    let missing = wanted.iter().filter(is_missing).map(|it| it.name);
    Error::not_found(format!("it lacks {}; it has: {}", functions(missing), names_in(code)))
        .advise("select it by the name of a function to replace only that one")
}

fn nothing_replaced(wanted: &[Wanted<'_>], code: &[FunctionInfo]) -> Error {
    let names = listed(wanted.iter().map(|it| it.name.escape_ascii()));
    Error::not_found(format!(
        "it has none of the functions to replace: they are {names}, and it has {}",
        names_in(code)
    ))
    .advise(STUB)
}

/// The replacements of the functions of an executable of a module, of which only the file is read: for each
/// of `own`, the index of the layer, and the ordinal in its code. `None` if none replaces it.
pub(crate) fn match_functions(
    id: u64,
    own: &[FunctionInfo],
    layers: &[Layer<'_>],
    code: &[&[FunctionInfo]],
) -> Result<Vec<Option<(usize, u32)>>> {
    let wanted: Vec<_> = own.iter().enumerate().map(Wanted::from_info).collect();
    let how_to_match = |_: usize| HOW_TO_MATCH.to_owned();
    matched(id, &wanted, layers, code, &how_to_match)
}

/// The names of the functions of some code, in errors.
fn names_in(code: &[FunctionInfo]) -> String {
    listed(code.iter().map(|it| it.name.escape_debug()))
}

/// Functions in errors: `function 'a'`, or `functions 'a', 'b'`.
pub(crate) fn functions<'n>(names: impl Iterator<Item = &'n [u8]>) -> String {
    let names: Vec<_> =
        names.map(|name| format!("'{}'", String::from_utf8_lossy(name).escape_debug())).collect();
    format!("function{} {}", if names.len() == 1 { "" } else { "s" }, listed(names))
}

/// Fails if callers of the wanted function cannot call the other one. Names may differ: captures have none of
/// parameters.
fn compare(wanted: &Wanted<'_>, loaded: &FunctionInfo) -> Result<()> {
    let (captured_shape, loaded_shape) = (wanted.info.shape(), shape(loaded));
    if captured_shape != loaded_shape {
        let text = |(flags, constants, bindings, parameters, [x, y, z]): (u64, u16, u16, u16, [u32; 3])| {
            format!(
                "(flags={flags:#x} constants={constants} bindings={bindings} parameters={parameters} workgroup_size=[{x},{y},{z}])"
            )
        };
        return Err(mismatch(wanted, "", &text(captured_shape), &text(loaded_shape)));
    }
    let text = |(kind, size, flags, offset): (u8, u8, u16, u16)| {
        format!("(type={kind} size={size} flags={flags:#x} offset={offset})")
    };
    for (index, was) in (0..).map_while(|index| Some((index, wanted.info.parameter(index)?))) {
        let is = loaded.parameters.get(index).map(parameter_shape);
        if is != Some(was) {
            let is = is.map_or_else(|| "(not described)".to_string(), text);
            return Err(mismatch(wanted, &format!(" parameter {index}"), &text(was), &is));
        }
    }
    Ok(())
}

fn mismatch(captured: &Wanted<'_>, part: &str, was: &str, is: &str) -> Error {
    Error::failed_precondition(format!(
        "signature mismatch of function '{}'{part}: {}={was} replacement={is}",
        captured.name.escape_ascii(),
        captured.info.origin()
    ))
}
