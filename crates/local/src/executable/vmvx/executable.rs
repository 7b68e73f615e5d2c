use std::sync::Arc;

use rehal_base::{Context as _, Error, FileKind, Remedy, Result, StatusCode};
use rehal_hal::{ExecutableParams, FunctionInfo};
use rehal_vm::module_file::{ModuleFile, Signature};
use rehal_vm::{
    Budget, Buffer, Context, ElementKind, Function, Invocation, List, Module, NamedObject, Ref, Step, Value,
};

use super::module::VmvxModule;
use crate::executable::abi::{LOCAL_MEMORY_PAGE_BYTES, MAX_BINDING_COUNT, MAX_CONSTANT_COUNT};
use crate::executable::dispatch::check_arguments;
use crate::executable::local_executable::DispatchArguments;
use crate::platform;

/// An executable of format `vmvx-bytecode-fb`: a bytecode module whose exports are the functions.
///
/// It may import what the module `vmvx` has. Its bytecode is verified like any other, so that it needs
/// no trust: it reaches the bindings and constants of a dispatch, its own globals, and nothing else.
pub(crate) struct VmvxExecutable {
    name: String,
    functions: Box<[FunctionInfo]>,
    entries: Box<[Entry]>,
}

struct Entry {
    function: Function,
    /// What the function asks for.
    local_memory_bytes: u64,
}

/// How entry points are called: local memory, constants, list of bindings, then workgroup id, size and
/// count in x, y and z (source: `hal/local/loaders/vmvx_module_loader.c`).
const ENTRY_CONVENTION: &str = "0rrriiiiiiiii_v";

/// Which module of the context the program is: the one behind `vmvx`.
const PROGRAM: usize = 1;

/// The export that takes the executable's constants, where there are any.
const SET_CONSTANTS: &str = "__set_constants";
/// Exports that are not entry points.
const NO_ENTRIES: [&str; 3] = ["__init", "__deinit", SET_CONSTANTS];

impl VmvxExecutable {
    /// Verifies the module, which is copied, and runs its initialisers. Fails where it is no module, is
    /// of another version, imports what nobody has, exports a function that is no entry point, or
    /// takes other constants than `params` has. A workgroup that uses up its `budget` fails.
    pub(crate) fn load(params: &ExecutableParams<'_>, budget: Option<Budget>) -> Result<Self> {
        let file = ModuleFile::copy(params.data)?;
        let name = file.name().to_owned();
        let mut functions = Vec::new();
        for export in file.exports().filter(|export| !NO_ENTRIES.contains(&export.local_name)) {
            let function = Reflection::read(file.signature(export.function))
                .context(|| format!("function '{}' of executable '{name}'", export.local_name))?;
            functions.push((export.local_name.to_owned(), function));
        }
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
        Ok(Self { name, functions, entries })
    }

    /// The module's name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Its entry points, by ordinal.
    pub(crate) fn functions(&self) -> &[FunctionInfo] {
        &self.functions
    }

    /// Runs function `ordinal` on the calling thread: workgroups one after another, x fastest, then y,
    /// then z. Stops at the first workgroup that fails.
    ///
    /// Like native code it takes numbers too small to be normal as zero, and makes them zero, where this
    /// machine can (x86-64).
    pub(crate) fn run(&self, ordinal: u32, arguments: &DispatchArguments<'_>) -> Result<()> {
        let (Some(function), Some(entry)) =
            (self.functions.get(ordinal as usize), self.entries.get(ordinal as usize))
        else {
            return Err(Error::out_of_range(format!(
                "function {ordinal} does not exist: the executable has {}",
                self.functions.len()
            )));
        };
        let DispatchArguments { workgroup_count, workgroup_size, .. } = *arguments;
        let counts = (arguments.constants.len(), arguments.bindings.len());
        check_arguments(function, counts, workgroup_count, workgroup_size)?;
        if workgroup_count.contains(&0) {
            // Not by the loops: 0 in x alone would still leave billions of steps in y and z.
            return Ok(());
        }
        let mut call = EntryCall::new(entry, arguments)?;
        let mut result = Ok(());
        platform::with_flushed_denormals(&mut || {
            result = call.run_all(workgroup_count);
        });
        result.map_err(|(workgroup, error)| self.failure(function, error, workgroup))
    }

    #[cold]
    fn failure(&self, function: &FunctionInfo, error: Error, workgroup: [u32; 3]) -> Error {
        let (name, executable) = (&function.name, &self.name);
        error.context(format!("function '{name}' of executable '{executable}' in workgroup {workgroup:?}"))
    }
}

/// Calls of one entry point, with what is the same for all workgroups of a dispatch.
struct EntryCall {
    invocation: Invocation,
    /// Local memory, constants, bindings.
    refs: [Ref; 3],
    /// Size and count in x, y and z.
    shape: [i32; 6],
}

impl EntryCall {
    fn new(entry: &Entry, arguments: &DispatchArguments<'_>) -> Result<Self> {
        let local_memory_bytes = entry.local_memory_bytes + u64::from(arguments.dynamic_local_memory);
        let local_memory =
            Buffer::allocate(local_memory_bytes, 0).context(|| "workgroup-local memory".to_owned())?;
        let constants = arguments.constants.iter().flat_map(|word| word.to_le_bytes());
        let constants = Buffer::from_bytes(&constants.collect::<smallvec::SmallVec<[u8; 64]>>())?;
        let bindings = List::new(ElementKind::Ref(Buffer::TYPE_NAME.into()), arguments.bindings.len())?;
        for place in arguments.bindings {
            let buffer = Buffer::over(Arc::new(place.part()?));
            bindings.push(Value::Ref(Ref::new(buffer)))?;
        }
        let [size_x, size_y, size_z] = arguments.workgroup_size.map(|size| size.max(1) as i32);
        let [count_x, count_y, count_z] = arguments.workgroup_count.map(|count| count as i32);
        Ok(Self {
            invocation: Invocation::new(&entry.function),
            refs: [Ref::new(local_memory), Ref::new(constants), Ref::new(bindings)],
            shape: [size_x, size_y, size_z, count_x, count_y, count_z],
        })
    }

    /// Runs all workgroups; the first that fails comes back with its error.
    fn run_all(&mut self, [count_x, count_y, count_z]: [u32; 3]) -> Result<(), ([u32; 3], Error)> {
        for z in 0..count_z {
            for y in 0..count_y {
                for x in 0..count_x {
                    let workgroup = [x, y, z];
                    self.run(workgroup).map_err(|error| (workgroup, error))?;
                }
            }
        }
        Ok(())
    }

    fn run(&mut self, workgroup: [u32; 3]) -> Result<()> {
        let refs = self.refs.iter().cloned().map(Value::Ref);
        let ids = workgroup.map(|id| Value::I32(id as i32));
        let arguments = refs.chain(ids).chain(self.shape.map(Value::I32));
        match self.invocation.start(arguments)? {
            Step::Done => Ok(()),
            Step::Yielded | Step::Waiting(_) => {
                Err(Error::new(StatusCode::Deferred, "a workgroup runs to its end; this one wants to wait"))
            }
        }
    }
}

/// Gives the executable its constants, where it has a function that takes them.
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

/// What a module says about an entry point.
#[derive(Default)]
struct Reflection {
    constant_count: u16,
    binding_count: u16,
    parameter_count: u16,
    local_memory_bytes: u64,
}

impl Reflection {
    /// Reads the attributes of an entry point; a number that is not there is 0. Fails where the function
    /// is called in another way.
    fn read(signature: Option<Signature<'_>>) -> Result<Self> {
        let convention = signature.and_then(|signature| signature.calling_convention).unwrap_or_default();
        let (ENTRY_CONVENTION, Some(signature)) = (convention, signature) else {
            return Err(Error::invalid_argument(format!(
                "it is a compiled module (.vmfb), not an executable: the function is called as '{convention}', entry \
                 points of executables as '{ENTRY_CONVENTION}'"
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
        // The reference hands out whole pages.
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
            flags: 0,
            workgroup_size: [0; 3],
            constant_count: self.constant_count,
            binding_count: self.binding_count,
            parameter_count: self.parameter_count,
            parameters: Vec::new(),
        }
    }
}
