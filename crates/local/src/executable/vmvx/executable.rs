use std::sync::Arc;

use rehal_base::{Context as _, Error, FileKind, Remedy, Result, StatusCode};
use rehal_crash::{CrashNote, Timed};
use rehal_hal::{ExecutableParams, FunctionInfo};
use rehal_vm::module_file::{ModuleFile, Signature};
use rehal_vm::{Budget, Buffer, Context, Function, Invocation, List, Module, Ref, Step, Value};
use smallvec::SmallVec;

use super::module::VmvxModule;
use crate::executable::abi::{LOCAL_MEMORY_PAGE_BYTES, MAX_BINDING_COUNT, MAX_CONSTANT_COUNT};
use crate::executable::dispatch::{
    DispatchArguments, Share, WorkgroupFailure, Workgroups, check_arguments, check_local_memory, number_of,
};
use crate::place::Place;
use crate::platform;

/// An executable of format `vmvx-bytecode-fb`: a bytecode module whose exports are the entry points.
///
/// It may import the functions of the module `vmvx`. Its bytecode is untrusted and verified: it can access
/// only the bindings and constants of a dispatch, and its own globals.
pub(crate) struct VmvxExecutable {
    name: String,
    functions: Box<[FunctionInfo]>,
    entries: Box<[Entry]>,
    empty: Empty,
}

/// The local memory and constants of most functions: buffers without bytes, shared by all dispatches.
struct Empty {
    local_memory: Ref,
    constants: Ref,
}

struct Entry {
    function: Function,
    /// The size of the workgroup-local memory that the function declares.
    local_memory_bytes: u64,
}

/// The calling convention of entry points: local memory, constants, list of bindings, then workgroup id, size
/// and count in x, y and z (source: `hal/local/loaders/vmvx_module_loader.c`).
const ENTRY_CONVENTION: &str = "0rrriiiiiiiii_v";

/// Index of the executable's module in its context, after `vmvx`.
const PROGRAM: usize = 1;

/// The export that receives the specialization constants, if the executable has any.
const SET_CONSTANTS: &str = "__set_constants";
/// Exports that are not entry points.
const NO_ENTRIES: [&str; 3] = ["__init", "__deinit", SET_CONSTANTS];

impl VmvxExecutable {
    /// The entry points of a module, by ordinal. Nothing of it runs. Fails as [`VmvxExecutable::load`] does
    /// for a malformed module.
    pub(crate) fn describe(bytes: &[u8]) -> Result<Vec<FunctionInfo>> {
        let entries = Self::entry_points(&ModuleFile::copy(bytes)?)?;
        Ok(entries.into_iter().map(|(name, reflection)| reflection.describe(name)).collect())
    }

    fn entry_points(file: &ModuleFile) -> Result<Vec<(String, Reflection)>> {
        let exports = file.exports().filter(|export| !NO_ENTRIES.contains(&export.local_name));
        let entry = |export: rehal_vm::module_file::Export<'_>| {
            let function = Reflection::read(file.signature(export.function)).context(|| {
                format!("function '{}' of executable '{}'", export.local_name.escape_debug(), file.name())
            })?;
            Ok((export.local_name.to_owned(), function))
        };
        exports.map(entry).collect()
    }

    /// Copies and verifies the module, and runs its initializers. Fails if the module is malformed or of
    /// another version, has an unresolved import or an export with another calling convention than entry
    /// points, or if `params` lack its constants. A workgroup that exceeds `budget` fails.
    pub(crate) fn load(params: &ExecutableParams<'_>, budget: Option<Budget>) -> Result<Self> {
        let file = ModuleFile::copy(params.data)?;
        let name = file.name().to_owned();
        let functions = Self::entry_points(&file)?;
        let modules = [Module::native(VmvxModule)?, Module::bytecode(file)?];
        let context = match budget {
            None => Context::new(&modules)?,
            Some(budget) => Context::limited(&modules, budget)?,
        };
        set_constants(&context, &name, params.constants)?;
        let entries = functions.iter().map(|(function, reflection)| {
            let function = context.export(PROGRAM, function)?;
            Ok(Entry { function, local_memory_bytes: reflection.local_memory_bytes })
        });
        let entries = entries.collect::<Result<_>>()?;
        let functions = functions.into_iter().map(|(name, reflection)| reflection.describe(name)).collect();
        let local_memory = Ref::new(Buffer::allocate(0, 0)?);
        let empty = Empty { local_memory, constants: Ref::new(Buffer::from_bytes(&[])?) };
        Ok(Self { name, functions, entries, empty })
    }

    /// The module's name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The entry points, by ordinal.
    pub(crate) fn functions(&self) -> &[FunctionInfo] {
        &self.functions
    }

    /// Runs the workgroups of `share` on the calling thread. Stops at the first that fails.
    ///
    /// As for native code, denormal inputs and results are flushed to zero.
    pub(crate) fn run_share(
        &self,
        ordinal: u32,
        arguments: &DispatchArguments<'_>,
        local_memory_limit: Option<u64>,
        share: Share<'_>,
    ) -> Result<(), WorkgroupFailure> {
        let (Some(function), Some(entry)) =
            (self.functions.get(ordinal as usize), self.entries.get(ordinal as usize))
        else {
            return Err(Error::out_of_range(format!(
                "function {ordinal} does not exist: the executable has {}",
                self.functions.len()
            ))
            .into());
        };
        let DispatchArguments { workgroup_count, workgroup_size, .. } = *arguments;
        let counts = (arguments.constants.len(), arguments.bindings.len());
        check_arguments(function, counts, workgroup_count, workgroup_size)?;
        let local_memory_bytes = entry.local_memory_bytes + u64::from(arguments.dynamic_local_memory);
        check_local_memory(function, local_memory_bytes, local_memory_limit)?;
        let what = ["running function '", &function.name, "' of executable '", &self.name, "'"];
        let _timed = Timed::begin();
        let _note = CrashNote::new(&what, "bytecode is checked before it runs: report an error of this tool");
        let mut call = None;
        while let Some(range) = (share.next)() {
            let call = match &mut call {
                Some(call) => call,
                none => none.insert(EntryCall::new(entry, &self.empty, arguments)?),
            };
            let mut result = Ok(());
            platform::with_flushed_denormals(&mut || {
                result = call.run_all(Workgroups::new(&range, workgroup_count));
            });
            result.map_err(|(workgroup, error)| WorkgroupFailure {
                workgroup: number_of(workgroup, workgroup_count),
                error: self.failure(function, error, workgroup),
            })?;
        }
        Ok(())
    }

    #[cold]
    fn failure(&self, function: &FunctionInfo, error: Error, workgroup: [u32; 3]) -> Error {
        let (name, executable) = (function.name.escape_debug(), &self.name);
        error.context(format!("function '{name}' of executable '{executable}' in workgroup {workgroup:?}"))
    }
}

/// One thread's calls of an entry point, with the arguments that all workgroups of a dispatch share.
struct EntryCall {
    invocation: Invocation,
    /// In the order of [`ENTRY_CONVENTION`]; the workgroup id changes.
    arguments: [Value; 12],
}

/// Index of the workgroup id among the arguments of an entry point.
const WORKGROUP_ID: usize = 3;

impl EntryCall {
    fn new(entry: &Entry, empty: &Empty, arguments: &DispatchArguments<'_>) -> Result<Self> {
        let local_memory = match entry.local_memory_bytes + u64::from(arguments.dynamic_local_memory) {
            0 => empty.local_memory.clone(),
            bytes => Ref::new(Buffer::allocate(bytes, 0).context(|| "workgroup-local memory".to_owned())?),
        };
        let constants = match arguments.constants {
            [] => empty.constants.clone(),
            words => {
                let bytes = words.iter().flat_map(|word| word.to_le_bytes());
                Ref::new(Buffer::from_bytes(&bytes.collect::<SmallVec<[u8; 64]>>())?)
            }
        };
        let buffer = |place: &Place<'_>| Ok(Arc::new(Buffer::over(Arc::new(place.part()?))));
        let bindings = arguments.bindings.iter().map(buffer).collect::<Result<SmallVec<[_; 8]>>>()?;
        let [size_x, size_y, size_z] = arguments.workgroup_size.map(|size| size.max(1) as i32);
        let [count_x, count_y, count_z] = arguments.workgroup_count.map(|count| count as i32);
        Ok(Self {
            invocation: Invocation::new(&entry.function),
            arguments: [
                local_memory.into(),
                constants.into(),
                Ref::new(List::from_buffers(bindings)).into(),
                Value::I32(0),
                Value::I32(0),
                Value::I32(0),
                Value::I32(size_x),
                Value::I32(size_y),
                Value::I32(size_z),
                Value::I32(count_x),
                Value::I32(count_y),
                Value::I32(count_z),
            ],
        })
    }

    /// Runs the workgroups; returns the first that fails with its error.
    fn run_all(&mut self, workgroups: Workgroups) -> Result<(), ([u32; 3], Error)> {
        for workgroup in workgroups {
            self.run(workgroup).map_err(|error| (workgroup, error))?;
        }
        Ok(())
    }

    fn run(&mut self, workgroup: [u32; 3]) -> Result<()> {
        for (argument, id) in self.arguments[WORKGROUP_ID..].iter_mut().zip(workgroup) {
            *argument = Value::I32(id as i32);
        }
        match self.invocation.start_from(&self.arguments)? {
            Step::Done => Ok(()),
            Step::Yielded | Step::Waiting(_) => Err(Error::new(
                StatusCode::Deferred,
                "the workgroup yielded or waited: executables must run to completion",
            )),
        }
    }
}

/// Passes the specialization constants to the executable, if it has a function that receives them.
fn set_constants(context: &Context, module: &str, constants: &[u32]) -> Result<()> {
    let Ok(function) = context.export(PROGRAM, SET_CONSTANTS) else {
        return match constants.len() {
            0 => Ok(()),
            count => Err(Error::invalid_argument(format!(
                "executable '{module}' takes no constants, {count} were provided"
            ))),
        };
    };
    if constants.is_empty() {
        return Err(Error::invalid_argument(format!(
            "executable '{module}' requires constants, none were provided"
        )));
    }
    let bytes: Vec<u8> = constants.iter().flat_map(|word| word.to_le_bytes()).collect();
    let buffer = Value::Ref(Ref::new(Buffer::from_bytes(&bytes)?));
    function.call(&[buffer]).map(drop).context(|| format!("constants of executable '{module}'"))
}

/// The reflection attributes of an entry point.
#[derive(Default)]
struct Reflection {
    constant_count: u16,
    binding_count: u16,
    parameter_count: u16,
    local_memory_bytes: u64,
}

impl Reflection {
    /// Reads the attributes of an entry point; a missing number is 0. Fails if the function has another
    /// calling convention.
    fn read(signature: Option<Signature<'_>>) -> Result<Self> {
        let convention = signature.and_then(|signature| signature.calling_convention).unwrap_or_default();
        let (ENTRY_CONVENTION, Some(signature)) = (convention, signature) else {
            return Err(Error::invalid_argument(format!(
                "it is a compiled module (.vmfb), not an executable: the function has calling convention \
                 '{convention}', entry points have '{ENTRY_CONVENTION}'"
            ))
            .advise(Remedy::UseFile(FileKind::Module)));
        };
        let number = |key: &str, limit: usize| match signature.attribute(key).map(str::parse::<usize>) {
            None => Ok(0),
            Some(Ok(number)) if number <= limit => Ok(number),
            _ => {
                let value = signature.attribute(key).unwrap_or_default();
                Err(Error::out_of_range(format!("its {key} is '{value}', the limit is {limit}")))
            }
        };
        // The reference allocates whole pages.
        let pages = number("local_memory", usize::from(u16::MAX) * LOCAL_MEMORY_PAGE_BYTES)?
            / LOCAL_MEMORY_PAGE_BYTES;
        Ok(Self {
            constant_count: number("constant_count", MAX_CONSTANT_COUNT)? as u16,
            binding_count: number("binding_count", MAX_BINDING_COUNT)? as u16,
            parameter_count: number("parameter_count", usize::from(u16::MAX))? as u16,
            local_memory_bytes: (pages * LOCAL_MEMORY_PAGE_BYTES) as u64,
        })
    }

    fn describe(&self, name: String) -> FunctionInfo {
        FunctionInfo {
            name,
            workgroup_size: [0; 3],
            constant_count: self.constant_count,
            binding_count: self.binding_count,
            parameter_count: self.parameter_count,
            ..FunctionInfo::default()
        }
    }
}
