//! Reading a module's declarations, and what its entry points use.

use std::collections::{BTreeMap, HashMap, HashSet};

use rehal_base::{Fault, FormatError};
use spirv::{Decoration, ExecutionMode, ExecutionModel, Op, StorageClass};

use super::access::{Access, Function, Tracker};
use super::instructions::{Instruction, Instructions};
use super::requirements::Requirements;
use super::types::{Declarations, Type};
use super::{
    Component, EntryPoint, FORMAT, HEADER_WORDS, MAGIC, Resource, ResourceKind, Shader, SharedArray,
    SharedMemory, SpecializationConstant, WorkgroupSize,
};

/// The largest number of compute entry points: each is searched for what it uses.
const MAX_ENTRY_POINTS: usize = 16 << 10;
/// Limit on the accesses and calls that are followed from all entry points together, as a multiple of the
/// words of the module.
pub(super) const MAX_UNFOLDING: usize = 4;
/// Limit on the nesting of types.
const MAX_TYPE_DEPTH: u32 = 64;

pub(super) fn read(words: Vec<u32>, base: usize) -> Result<Shader, FormatError> {
    let version = read_header(&words, base)?;
    let mut module = Module::default();
    for instruction in Instructions::new(&words, base) {
        module.declare(&instruction?)?;
    }
    module.declarations.complete();
    // Pointers may be used before they are derived.
    for _ in 0..2 {
        module.current = None;
        for instruction in Instructions::new(&words, base) {
            module.visit_body(&instruction?);
        }
    }
    let entry_points = module.entry_points(&words, version, base)?;
    let declared = module.declared();
    let (addressing_model, memory_model) = module.models.ok_or_else(|| {
        FormatError::new(FORMAT, Fault::Corrupt, base as u64, "memory model", "OpMemoryModel", "none")
    })?;
    let block = match module.push_constants.as_slice() {
        [(_, block)] => module.declarations.block(*block),
        _ => None,
    };
    let Module { capabilities, extensions, processed, modes, .. } = module;
    let (capabilities, extensions) = (capabilities.list, extensions.list);
    Ok(Shader {
        requirements: Requirements::new(&capabilities, &extensions, &modes.list),
        push_constant_block: block,
        push_constant_variables: module.push_constants.len(),
        uses_descriptors: module.uses_descriptors,
        specialization_constants: module.specialization_constants,
        words,
        version,
        addressing_model,
        memory_model,
        capabilities,
        extensions,
        ordinals: (0..).zip(&entry_points).map(|(ordinal, entry)| (entry.name.clone(), ordinal)).collect(),
        entry_points,
        declared,
        processed,
    })
}

fn read_header(words: &[u32], base: usize) -> Result<(u8, u8), FormatError> {
    let error = |fault, at: usize, field, expected: &str, found: String| {
        FormatError::new(FORMAT, fault, (base + 4 * at) as u64, field, expected, found)
    };
    match words.first() {
        Some(&MAGIC) => {}
        Some(first) if first.swap_bytes() == MAGIC => {
            return Err(error(
                Fault::Unsupported,
                0,
                "magic number",
                "little-endian words",
                "big-endian".to_owned(),
            ));
        }
        Some(first) => {
            return Err(error(Fault::Corrupt, 0, "magic number", "0x07230203", format!("{first:#010x}")));
        }
        None => return Err(error(Fault::Truncated, 0, "magic number", "0x07230203", "no words".to_owned())),
    }
    if words.len() < HEADER_WORDS {
        let found = format!("{}", words.len());
        return Err(error(Fault::Truncated, words.len(), "header", "5 words", found));
    }
    let version = words[1];
    if version & 0xFF00_00FF != 0 || version >> 16 != 1 {
        return Err(error(Fault::Unsupported, 1, "version", "SPIR-V 1.x", format!("{version:#010x}")));
    }
    Ok(((version >> 16) as u8, (version >> 8) as u8))
}

/// The state of a module while it is read.
#[derive(Default)]
struct Module {
    declarations: Declarations,
    capabilities: Distinct<u32>,
    extensions: Distinct<String>,
    models: Option<(u32, u32)>,
    processed: Vec<String>,
    entries: Vec<Entry>,
    names: HashSet<String>,
    /// Local sizes by the id of the entry point.
    local_sizes: HashMap<u32, [u32; 3]>,
    /// Ids of local sizes by the id of the entry point.
    local_size_ids: HashMap<u32, [u32; 3]>,
    /// Execution modes that devices may lack, with the width of those of float controls.
    modes: Distinct<(u32, u32)>,
    /// The constant with the built-in `WorkgroupSize`, which applies to all entry points.
    workgroup_size: Option<u32>,
    /// Descriptors: variables by id.
    variables: HashMap<u32, Variable>,
    /// Variables in shared memory and their types.
    shared: HashMap<u32, u32>,
    /// Variables of push constants and their structs.
    push_constants: Vec<(u32, u32)>,
    specialization_constants: Vec<SpecializationConstant>,
    uses_descriptors: bool,
    /// Ids of instruction sets without meaning, such as debug information.
    non_semantic: HashSet<u32>,
    pointers: HashMap<u32, u32>,
    functions: HashMap<u32, Function>,
    /// The function whose body is visited.
    current: Option<u32>,
}

/// Distinct declarations in order; modules may repeat one, and each is checked against the device.
struct Distinct<T> {
    list: Vec<T>,
    seen: HashSet<T>,
}

impl<T> Default for Distinct<T> {
    fn default() -> Self {
        Self { list: Vec::new(), seen: HashSet::new() }
    }
}

impl<T: Clone + Eq + std::hash::Hash> Distinct<T> {
    fn insert(&mut self, item: T) {
        if self.seen.insert(item.clone()) {
            self.list.push(item);
        }
    }
}

struct Entry {
    id: u32,
    name: String,
    /// Ids of global variables that it uses: all of them since SPIR-V 1.4.
    interface: HashSet<u32>,
}

/// The first version of SPIR-V in which the interface of an entry point lists all global variables that it
/// uses.
pub(super) const FULL_INTERFACES: (u8, u8) = (1, 4);

/// A variable that is a descriptor.
struct Variable {
    storage_class: u32,
    /// The type that its pointer points to.
    pointee: u32,
}

impl Module {
    /// Reads an instruction outside of function bodies; others change nothing.
    fn declare(&mut self, instruction: &Instruction<'_>) -> Result<(), FormatError> {
        let Some(op) = Op::from_u32(u32::from(instruction.opcode)) else { return Ok(()) };
        match op {
            Op::Capability => self.capabilities.insert(instruction.operand(0)?),
            Op::Extension => self.extensions.insert(instruction.text(0)?.0),
            Op::MemoryModel => self.models = Some((instruction.operand(0)?, instruction.operand(1)?)),
            Op::ExtInstImport => {
                if instruction.text(1)?.0.starts_with("NonSemantic.") {
                    self.non_semantic.insert(instruction.operand(0)?);
                }
            }
            Op::ModuleProcessed => self.processed.push(instruction.text(0)?.0),
            Op::EntryPoint => self.declare_entry(instruction)?,
            Op::ExecutionMode | Op::ExecutionModeId => self.declare_mode(instruction)?,
            Op::Decorate | Op::MemberDecorate => self.decorate(op, instruction)?,
            Op::Variable => self.declare_variable(instruction)?,
            Op::Constant | Op::SpecConstant | Op::SpecConstantTrue | Op::SpecConstantFalse => {
                self.declare_constant(op, instruction)?;
            }
            Op::ConstantComposite | Op::SpecConstantComposite => {
                let parts = instruction.operands.get(2..).unwrap_or_default().to_vec();
                self.declarations.composites.insert(instruction.operand(1)?, parts);
            }
            _ => self.declare_type(op, instruction)?,
        }
        Ok(())
    }

    fn declare_entry(&mut self, instruction: &Instruction<'_>) -> Result<(), FormatError> {
        let (model, id) = (instruction.operand(0)?, instruction.operand(1)?);
        let (name, end) = instruction.text(2)?;
        if model != ExecutionModel::GLCompute as u32 {
            return Ok(());
        }
        if !self.names.insert(name.clone()) {
            let found = format!("a second '{name}'");
            return Err(instruction.error("entry points with different names".to_owned(), found));
        }
        if self.entries.len() == MAX_ENTRY_POINTS {
            return Err(
                instruction.error(format!("at most {MAX_ENTRY_POINTS} entry points"), "more".to_owned())
            );
        }
        let interface = instruction.operands.get(end..).unwrap_or_default().iter().copied().collect();
        self.entries.push(Entry { id, name, interface });
        Ok(())
    }

    fn declare_mode(&mut self, instruction: &Instruction<'_>) -> Result<(), FormatError> {
        let (entry, mode) = (instruction.operand(0)?, instruction.operand(1)?);
        let sizes = match mode {
            mode if mode == ExecutionMode::LocalSize as u32 => &mut self.local_sizes,
            mode if mode == ExecutionMode::LocalSizeId as u32 => {
                self.modes.insert((mode, 0));
                &mut self.local_size_ids
            }
            mode => {
                // Others than those of float controls have no width, and are not looked up by it.
                if let Some(width) = instruction.operands.get(2) {
                    self.modes.insert((mode, *width));
                }
                return Ok(());
            }
        };
        let size = [instruction.operand(2)?, instruction.operand(3)?, instruction.operand(4)?];
        if mode == ExecutionMode::LocalSize as u32 && size.contains(&0) {
            return Err(instruction.error("a workgroup size above 0".to_owned(), format!("{size:?}")));
        }
        if sizes.insert(entry, size).is_some() {
            let found = "a second one".to_owned();
            return Err(instruction.error("one local size for an entry point".to_owned(), found));
        }
        Ok(())
    }

    fn decorate(&mut self, op: Op, instruction: &Instruction<'_>) -> Result<(), FormatError> {
        let target = instruction.operand(0)?;
        let declarations = &mut self.declarations;
        if op == Op::MemberDecorate {
            let (member, decoration) = (instruction.operand(1)?, instruction.operand(2)?);
            match Decoration::from_u32(decoration) {
                Some(Decoration::Offset) => {
                    declarations.offsets.insert((target, member), instruction.operand(3)?);
                }
                Some(Decoration::MatrixStride) => {
                    declarations.matrix_strides.insert((target, member), instruction.operand(3)?);
                }
                _ => {
                    declarations.member_flags.insert((target, member, decoration));
                }
            }
            return Ok(());
        }
        let decoration = instruction.operand(1)?;
        match Decoration::from_u32(decoration) {
            Some(Decoration::DescriptorSet) => {
                declarations.sets.insert(target, instruction.operand(2)?);
                self.uses_descriptors = true;
            }
            Some(Decoration::Binding) => {
                declarations.bindings.insert(target, instruction.operand(2)?);
                self.uses_descriptors = true;
            }
            Some(Decoration::ArrayStride) => {
                declarations.strides.insert(target, instruction.operand(2)?);
            }
            Some(Decoration::SpecId) => {
                declarations.specialized.insert(target, instruction.operand(2)?);
            }
            Some(Decoration::BuiltIn) if instruction.operand(2)? == spirv::BuiltIn::WorkgroupSize as u32 => {
                self.workgroup_size = Some(target);
            }
            _ => {
                declarations.flags.insert((target, decoration));
            }
        }
        Ok(())
    }

    fn declare_variable(&mut self, instruction: &Instruction<'_>) -> Result<(), FormatError> {
        let (pointer, id, class) =
            (instruction.operand(0)?, instruction.operand(1)?, instruction.operand(2)?);
        let pointee = match self.declarations.types.get(&pointer) {
            Some(Type::Pointer(pointee)) => *pointee,
            _ => 0,
        };
        match StorageClass::from_u32(class) {
            Some(StorageClass::PushConstant) => {
                self.push_constants.push((id, pointee));
                self.pointers.insert(id, id);
            }
            Some(StorageClass::Workgroup) => {
                self.shared.insert(id, pointee);
                self.pointers.insert(id, id);
            }
            Some(
                StorageClass::UniformConstant
                | StorageClass::Uniform
                | StorageClass::AtomicCounter
                | StorageClass::Image
                | StorageClass::StorageBuffer,
            ) => {
                self.uses_descriptors = true;
                self.variables.insert(id, Variable { storage_class: class, pointee });
                self.pointers.insert(id, id);
            }
            _ => {}
        }
        Ok(())
    }

    fn declare_constant(&mut self, op: Op, instruction: &Instruction<'_>) -> Result<(), FormatError> {
        let (kind, id) = (instruction.operand(0)?, instruction.operand(1)?);
        let value = match op {
            Op::SpecConstantTrue => 1,
            Op::SpecConstantFalse => 0,
            _ => instruction.operand(2)?,
        };
        self.declarations.values.insert(id, value);
        let bytes = match self.declarations.types.get(&kind) {
            Some(Type::Number(bits)) => (bits / 8) as u8,
            _ => 4,
        };
        if op != Op::Constant
            && let Some(spec_id) = self.declarations.specialized.get(&id)
        {
            self.specialization_constants.push(SpecializationConstant { id: *spec_id, bytes });
        }
        Ok(())
    }

    fn declare_type(&mut self, op: Op, instruction: &Instruction<'_>) -> Result<(), FormatError> {
        let operand = |index| instruction.operand(index);
        let described = match op {
            Op::TypeInt | Op::TypeFloat => match operand(1)? {
                bits @ (8 | 16 | 32 | 64) => Type::Number(bits),
                bits => {
                    let expected = "numbers of 8, 16, 32 or 64 bits".to_owned();
                    return Err(instruction.error(expected, bits.to_string()));
                }
            },
            Op::TypeBool => Type::Bool,
            Op::TypeVector => Type::Vector(operand(1)?, operand(2)?),
            Op::TypeMatrix => Type::Matrix(operand(1)?, operand(2)?),
            Op::TypeArray => Type::Array(operand(1)?, operand(2)?),
            Op::TypeRuntimeArray => Type::RuntimeArray(operand(1)?),
            Op::TypeStruct => Type::Struct(instruction.operands.get(1..).unwrap_or_default().to_vec()),
            Op::TypePointer => Type::Pointer(operand(2)?),
            Op::TypeImage | Op::TypeSampler | Op::TypeSampledImage => Type::Other,
            _ => return Ok(()),
        };
        self.declarations.types.insert(operand(0)?, described);
        Ok(())
    }

    fn visit_body(&mut self, instruction: &Instruction<'_>) {
        if instruction.is(Op::Function) {
            self.current = instruction.operands.get(1).copied();
        }
        if let Some(function) = self.current {
            let function = self.functions.entry(function).or_default();
            let non_semantic = &self.non_semantic;
            Tracker { pointers: &mut self.pointers, non_semantic, function }.visit(instruction);
        }
        if instruction.is(Op::FunctionEnd) {
            self.current = None;
        }
    }

    fn entry_points(
        &mut self,
        words: &[u32],
        version: (u8, u8),
        base: usize,
    ) -> Result<Vec<EntryPoint>, FormatError> {
        let mut budget = words.len().saturating_mul(MAX_UNFOLDING);
        let entries = std::mem::take(&mut self.entries);
        let sizes = self.push_constant_sizes();
        let shared = self.shared_arrays();
        let read = |entry: Entry| {
            let used = self.uses(entry.id, &mut budget).ok_or_else(|| {
                let expected =
                    format!("entry points that use at most {MAX_UNFOLDING} times the module's words");
                FormatError::new(FORMAT, Fault::Unsupported, base as u64, "entry points", expected, "more")
            })?;
            let pushed = used.keys().filter_map(|variable| sizes.get(variable).copied());
            Ok(EntryPoint {
                workgroup_size: self.workgroup_size_of(entry.id),
                resources: self.resources(&used),
                push_constant_bytes: pushed.max().unwrap_or(0),
                shared_memory: match version >= FULL_INTERFACES {
                    true => shared_memory(&shared, entry.interface.iter()),
                    false => shared_memory(&shared, used.keys()),
                },
                name: entry.name,
            })
        };
        entries.into_iter().map(read).collect()
    }

    /// Variables of push constants and their sizes in bytes.
    fn push_constant_sizes(&self) -> HashMap<u32, u32> {
        let mut sizes = HashMap::new();
        let mut size = |block| self.declarations.size(block, MAX_TYPE_DEPTH, &mut sizes).unwrap_or(0);
        let variables = self.push_constants.iter();
        variables.map(|(id, block)| (*id, u32::try_from(size(*block)).unwrap_or(u32::MAX))).collect()
    }

    /// Variables in shared memory.
    fn shared_arrays(&self) -> HashMap<u32, SharedArray> {
        let mut sizes = HashMap::new();
        let mut array = |pointee| {
            let (mut element, mut lengths) = (pointee, Vec::new());
            while let Some(Type::Array(inner, length)) = self.declarations.types.get(&element)
                && lengths.len() < MAX_TYPE_DEPTH as usize
            {
                lengths.push(self.component(*length));
                element = *inner;
            }
            let element_bytes = self.declarations.size(element, MAX_TYPE_DEPTH, &mut sizes).unwrap_or(0);
            SharedArray { element_bytes, lengths: lengths.into() }
        };
        self.shared.iter().map(|(id, pointee)| (*id, array(*pointee))).collect()
    }

    /// All descriptors and bytes of push constants.
    fn declared(&self) -> (Vec<Resource>, u32) {
        let variables = self.variables.keys().map(|id| (*id, Access::ANY)).collect();
        let pushed = self.push_constant_sizes().into_values().max();
        (self.resources(&variables), pushed.unwrap_or(0))
    }

    /// Accesses by variable, of the function and those that it calls. `None` if that exceeds the budget.
    fn uses(&self, function: u32, budget: &mut usize) -> Option<HashMap<u32, Access>> {
        let mut used: HashMap<u32, Access> = HashMap::new();
        let (mut seen, mut left) = (HashSet::from([function]), vec![function]);
        while let Some(function) = left.pop() {
            let Some(function) = self.functions.get(&function) else { continue };
            *budget = budget.checked_sub(1 + function.accesses.len() + function.calls.len())?;
            for (variable, access) in &function.accesses {
                let known = used.entry(*variable).or_default();
                *known = known.with(*access);
            }
            left.extend(function.calls.iter().filter(|callee| seen.insert(**callee)));
        }
        Some(used)
    }

    fn workgroup_size_of(&self, entry: u32) -> WorkgroupSize {
        let parts = self.workgroup_size.and_then(|id| self.declarations.composites.get(&id));
        if let Some([x, y, z]) = parts.map(Vec::as_slice) {
            return WorkgroupSize([*x, *y, *z].map(|id| self.component(id)));
        }
        if let Some(ids) = self.local_size_ids.get(&entry) {
            return WorkgroupSize(ids.map(|id| self.component(id)));
        }
        WorkgroupSize(self.local_sizes.get(&entry).copied().unwrap_or_default().map(Component::Value))
    }

    fn component(&self, id: u32) -> Component {
        let value = self.declarations.values.get(&id).copied().unwrap_or(0);
        match self.declarations.specialized.get(&id) {
            Some(id) => Component::Specialized { id: *id, default: value },
            None => Component::Value(value),
        }
    }

    /// The descriptors among what is used. Variables with the same place alias: they become one, with all
    /// accesses.
    fn resources(&self, used: &HashMap<u32, Access>) -> Vec<Resource> {
        let mut places: BTreeMap<(u32, u32), Resource> = BTreeMap::new();
        for (id, access) in used {
            let Some(variable) = self.variables.get(id) else { continue };
            let resource = self.resource(*id, variable, *access);
            let known = places.entry((resource.set, resource.binding)).or_insert(resource);
            known.access = known.access.with(resource.access);
            if known.kind != resource.kind {
                known.kind = ResourceKind::Other;
            }
            known.count = known.count.zip(resource.count).map(|(a, b)| a.max(b));
        }
        places.into_values().collect()
    }

    fn resource(&self, id: u32, variable: &Variable, access: Access) -> Resource {
        let declarations = &self.declarations;
        let (block, count) = match declarations.types.get(&variable.pointee) {
            Some(Type::Array(element, length)) => {
                (*element, Some(declarations.values.get(length).copied().unwrap_or(1)))
            }
            Some(Type::RuntimeArray(element)) => (*element, None),
            _ => (variable.pointee, Some(1)),
        };
        let has = |decoration| declarations.has_flag(id, block, decoration);
        let is_buffer_block = declarations.flags.contains(&(block, Decoration::BufferBlock as u32));
        let kind = match StorageClass::from_u32(variable.storage_class) {
            Some(StorageClass::StorageBuffer) => ResourceKind::StorageBuffer,
            Some(StorageClass::Uniform) if is_buffer_block => ResourceKind::StorageBuffer,
            Some(StorageClass::Uniform) => ResourceKind::UniformBuffer,
            _ => ResourceKind::Other,
        };
        let allowed = match kind {
            ResourceKind::UniformBuffer => Access::READ,
            ResourceKind::StorageBuffer | ResourceKind::Other => {
                Access { reads: !has(Decoration::NonReadable), writes: !has(Decoration::NonWritable) }
            }
        };
        Resource {
            set: declarations.sets.get(&id).copied().unwrap_or(0),
            binding: declarations.bindings.get(&id).copied().unwrap_or(0),
            kind,
            count,
            access: access.within(allowed),
        }
    }
}

/// The shared memory among what is used.
fn shared_memory<'a>(
    shared: &HashMap<u32, SharedArray>,
    used: impl Iterator<Item = &'a u32>,
) -> SharedMemory {
    let mut memory = SharedMemory::default();
    for array in used.filter_map(|id| shared.get(id)) {
        match array.lengths.iter().any(|length| matches!(length, Component::Specialized { .. })) {
            true => memory.arrays.push(array.clone()),
            false => memory.bytes = memory.bytes.saturating_add(array.total(&[])),
        }
    }
    memory
}
