//! Kernels with what those of the conformance suite, which every driver runs, do not have: memory that a
//! workgroup shares, barriers, subgroup operations, several descriptor sets with uniform buffers, and work
//! that overwrites what earlier work reads. All under synchronization validation.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use rehal_hal::{
    AccessScope, Buffer, BufferParams, BufferRef, BufferUsage, Command, CommandBuffer, CommandBufferParams,
    Device, Dispatch, Driver, Executable, ExecutableParams, ExecutionStage, Live, MemoryBarrier, MemoryType,
    OptionSet, QUEUE_AFFINITY_ANY, Semaphore, SemaphoreFlags,
};
use rehal_vulkan::emulation::{EmulatedMemory, Emulation};
use rehal_vulkan::{DebugMessage, VulkanDriver, VulkanDriverOptions, VulkanOptions};
use rspirv::binary::Assemble;
use rspirv::dr::{Builder, Operand};
use spirv::{
    AddressingModel, BuiltIn, Capability, Decoration, ExecutionMode, ExecutionModel, FunctionControl,
    GroupOperation, MemoryModel, MemorySemantics, Scope, SelectionControl, StorageClass, Word,
};

/// A device under validation, and the messages of the layer.
struct Validated {
    name: &'static str,
    device: Device,
    messages: Arc<Mutex<Vec<String>>>,
}

impl Validated {
    fn new(name: &'static str, emulation: Emulation, options: VulkanOptions) -> Self {
        let messages = Arc::<Mutex<Vec<String>>>::default();
        let sink = messages.clone();
        let mut of_driver = VulkanDriverOptions::default();
        of_driver.validation = true;
        of_driver.synchronization_validation = true;
        of_driver.messages =
            Some(Arc::new(move |message: &DebugMessage| sink.lock().unwrap().push(message.text.clone())));
        let driver = Driver::new(VulkanDriver::emulating(of_driver, emulation));
        let device = driver.create_device("", &OptionSet::default().with(options)).unwrap();
        Self { name, device, messages }
    }

    /// The machine's device, with descriptors that are pushed and from pools, and a GPU with a bus and a
    /// queue for transfers.
    fn all() -> [Self; 3] {
        let mut pools = VulkanOptions::default();
        pools.push_descriptors = false;
        let separate = Emulation {
            memory: Some(EmulatedMemory::Separate),
            has_transfer_family: true,
            has_narrow_limits: true,
            ..Emulation::default()
        };
        [
            Self::new("pushed", Emulation::default(), VulkanOptions::default()),
            Self::new("pools", Emulation::default(), pools),
            Self::new("separate", separate, VulkanOptions::default()),
        ]
    }

    fn finish(self) {
        assert_eq!(*self.messages.lock().unwrap(), [""; 0], "of the validation layer; {}", self.name);
    }

    fn prepare(&self, module: &[u32]) -> Executable {
        let data: Vec<u8> = module.iter().flat_map(|word| word.to_le_bytes()).collect();
        let params = ExecutableParams::new("vulkan-spirv-raw", &data);
        #[allow(unsafe_code, reason = "kernels of this test")]
        // SAFETY: they access only their bindings.
        let prepared = unsafe { self.device.backend().prepare_executable(&params) };
        prepared.unwrap_or_else(|error| panic!("{}: {}", self.name, error.report()))
    }

    fn semaphore(&self) -> Semaphore {
        self.device.create_semaphore(QUEUE_AFFINITY_ANY, 0, SemaphoreFlags::empty()).unwrap()
    }

    /// A buffer with these words.
    fn buffer(&self, words: &[u32]) -> Buffer {
        let usage = BufferUsage::MAPPING_SCOPED | BufferUsage::DISPATCH_UNIFORM_READ;
        let params = BufferParams {
            usage: BufferParams::default().usage | usage,
            memory_type: MemoryType::HOST_LOCAL | MemoryType::DEVICE_VISIBLE,
            ..BufferParams::default()
        };
        let buffer = self.device.allocate_buffer(params, 4 * words.len() as u64).unwrap();
        buffer.write(0, &words.iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<_>>()).unwrap();
        buffer
    }

    /// Dispatches function 0.
    fn run(&self, executable: &Executable, workgroup_count: [u32; 3], buffers: &[&Buffer]) {
        let bindings: Vec<_> = buffers.iter().map(|buffer| BufferRef::whole(*buffer)).collect();
        let done = self.semaphore();
        let queue = self.device.queue(QUEUE_AFFINITY_ANY);
        queue.signal(&[done.at(1)]).dispatch(&dispatch(executable, workgroup_count, &bindings)).unwrap();
        done.wait(1, Some(Duration::from_secs(60))).unwrap();
    }
}

fn dispatch<'a>(
    executable: &'a Executable,
    workgroup_count: [u32; 3],
    bindings: &'a [BufferRef<&'a Buffer>],
) -> Dispatch<Live<'a>> {
    Dispatch::new(executable, 0, workgroup_count).bindings(bindings)
}

fn words(buffer: &Buffer) -> Vec<u32> {
    let mut bytes = vec![0; buffer.size() as usize];
    buffer.read(0, &mut bytes).unwrap();
    bytes.as_chunks::<4>().0.iter().map(|word| u32::from_ne_bytes(*word)).collect()
}

/// Numbers without a pattern, of which sums wrap.
fn noise(count: usize) -> Vec<u32> {
    (1..=count as u32).map(|index| index.wrapping_mul(0x9e37_79b9) ^ (index << 7)).collect()
}

/// A kernel while it is written, with one entry point, in SPIR-V 1.5: its interface has all variables.
struct Kernel {
    builder: Builder,
    void: Word,
    u32: Word,
    bool: Word,
    uvec3: Word,
    interface: Vec<Word>,
}

impl Kernel {
    fn new(capabilities: &[Capability]) -> Self {
        let mut builder = Builder::new();
        builder.set_version(1, 5);
        builder.capability(Capability::Shader);
        capabilities.iter().for_each(|it| builder.capability(*it));
        builder.memory_model(AddressingModel::Logical, MemoryModel::GLSL450);
        let (void, bool, u32) = (builder.type_void(), builder.type_bool(), builder.type_int(32, 0));
        let uvec3 = builder.type_vector(u32, 3);
        Self { builder, void, u32, bool, uvec3, interface: Vec::new() }
    }

    fn constant(&mut self, value: u32) -> Word {
        self.builder.constant_bit32(self.u32, value)
    }

    fn pointer(&mut self, class: StorageClass) -> Word {
        self.builder.type_pointer(None, class, self.u32)
    }

    fn variable(&mut self, pointee: Word, class: StorageClass) -> Word {
        let pointer = self.builder.type_pointer(None, class, pointee);
        let id = self.builder.variable(pointer, None, class, None);
        self.interface.push(id);
        id
    }

    /// A buffer of words at a place: a storage buffer without end, or a uniform buffer of 4.
    fn buffer(&mut self, class: StorageClass, set: u32, binding: u32) -> Word {
        let (array, stride) = match class {
            StorageClass::Uniform => {
                let count = self.constant(4);
                // Elements of uniform buffers are 16 bytes apart.
                (self.builder.type_array(self.u32, count), 16)
            }
            _ => (self.builder.type_runtime_array(self.u32), 4),
        };
        let block = self.builder.type_struct([array]);
        // Each array type is decorated once.
        let is_new = !self
            .builder
            .module_ref()
            .annotations
            .iter()
            .any(|it| it.operands.first() == Some(&Operand::IdRef(array)) && it.operands.len() == 3);
        if is_new {
            self.builder.decorate(array, Decoration::ArrayStride, [Operand::LiteralBit32(stride)]);
            self.builder.decorate(block, Decoration::Block, []);
            self.builder.member_decorate(block, 0, Decoration::Offset, [Operand::LiteralBit32(0)]);
        }
        let id = self.variable(block, class);
        self.builder.decorate(id, Decoration::DescriptorSet, [Operand::LiteralBit32(set)]);
        self.builder.decorate(id, Decoration::Binding, [Operand::LiteralBit32(binding)]);
        id
    }

    fn built_in(&mut self, kind: Word, which: BuiltIn) -> Word {
        let id = self.variable(kind, StorageClass::Input);
        self.builder.decorate(id, Decoration::BuiltIn, [Operand::BuiltIn(which)]);
        id
    }

    /// Memory of this many words that a workgroup shares.
    fn shared(&mut self, count: u32) -> Word {
        let count = self.constant(count);
        let array = self.builder.type_array(self.u32, count);
        self.variable(array, StorageClass::Workgroup)
    }

    fn begin(&mut self) -> Word {
        let kind = self.builder.type_function(self.void, []);
        let function = self.builder.begin_function(self.void, None, FunctionControl::NONE, kind).unwrap();
        self.builder.begin_block(None).unwrap();
        function
    }

    fn end(mut self, function: Word, name: &str, size: [u32; 3]) -> Vec<u32> {
        self.builder.ret().unwrap();
        self.builder.end_function().unwrap();
        self.builder.entry_point(ExecutionModel::GLCompute, function, name, &self.interface);
        self.builder.execution_mode(function, ExecutionMode::LocalSize, size);
        self.builder.module().assemble()
    }

    fn load_input(&mut self, variable: Word) -> Word {
        self.builder.load(self.u32, None, variable, None, []).unwrap()
    }

    /// A component of an input with three.
    fn component(&mut self, variable: Word, index: u32) -> Word {
        let (pointer, index) = (self.pointer(StorageClass::Input), self.constant(index));
        let part = self.builder.access_chain(pointer, None, variable, [index]).unwrap();
        self.load_input(part)
    }

    fn element(&mut self, class: StorageClass, array: Word, index: Word) -> Word {
        let (pointer, first) = (self.pointer(class), self.constant(0));
        let path = if class == StorageClass::Workgroup { vec![index] } else { vec![first, index] };
        self.builder.access_chain(pointer, None, array, path).unwrap()
    }

    fn read(&mut self, class: StorageClass, array: Word, index: Word) -> Word {
        let element = self.element(class, array, index);
        self.builder.load(self.u32, None, element, None, []).unwrap()
    }

    fn write(&mut self, class: StorageClass, array: Word, index: Word, value: Word) {
        let element = self.element(class, array, index);
        self.builder.store(element, value, None, []).unwrap();
    }

    fn add(&mut self, a: Word, b: Word) -> Word {
        self.builder.i_add(self.u32, None, a, b).unwrap()
    }

    fn multiply(&mut self, a: Word, b: Word) -> Word {
        self.builder.i_mul(self.u32, None, a, b).unwrap()
    }

    fn barrier(&mut self) {
        let semantics = MemorySemantics::ACQUIRE_RELEASE | MemorySemantics::WORKGROUP_MEMORY;
        let (scope, semantics) = (self.constant(Scope::Workgroup as u32), self.constant(semantics.bits()));
        self.builder.control_barrier(scope, scope, semantics).unwrap();
    }

    /// Code for the invocations in which a condition holds.
    fn when(&mut self, condition: Word, code: impl FnOnce(&mut Self)) {
        let (then, merge) = (self.builder.id(), self.builder.id());
        self.builder.selection_merge(merge, SelectionControl::NONE).unwrap();
        self.builder.branch_conditional(condition, then, merge, []).unwrap();
        self.builder.begin_block(Some(then)).unwrap();
        code(self);
        self.builder.branch(merge).unwrap();
        self.builder.begin_block(Some(merge)).unwrap();
    }
}

const STORAGE: StorageClass = StorageClass::StorageBuffer;
const SHARED: StorageClass = StorageClass::Workgroup;
/// The workgroups of dispatches, and the size of each.
const COUNT: [u32; 3] = [3, 2, 1];
const SIZE: [u32; 3] = [16, 4, 1];
const INVOCATIONS: u32 = SIZE[0] * SIZE[1] * SIZE[2];
const GROUPS: u32 = COUNT[0] * COUNT[1] * COUNT[2];

/// Each workgroup reverses its words, and writes their sum, by way of memory that it shares.
fn reverse_and_sum() -> Vec<u32> {
    let mut kernel = Kernel::new(&[]);
    let (uvec3, u32) = (kernel.uvec3, kernel.u32);
    let input = kernel.buffer(STORAGE, 0, 0);
    let reversed = kernel.buffer(STORAGE, 0, 1);
    let sums = kernel.buffer(STORAGE, 0, 2);
    let group = kernel.built_in(uvec3, BuiltIn::WorkgroupId);
    let local = kernel.built_in(u32, BuiltIn::LocalInvocationIndex);
    let shared = kernel.shared(INVOCATIONS);
    let function = kernel.begin();
    let (x, y) = (kernel.component(group, 0), kernel.component(group, 1));
    let width = kernel.constant(COUNT[0]);
    let row = kernel.multiply(y, width);
    let group = kernel.add(row, x);
    let local = kernel.load_input(local);
    let size = kernel.constant(INVOCATIONS);
    let first = kernel.multiply(group, size);
    let index = kernel.add(first, local);
    let value = kernel.read(STORAGE, input, index);
    kernel.write(SHARED, shared, local, value);
    kernel.barrier();
    let last = kernel.constant(INVOCATIONS - 1);
    let mirror = kernel.builder.i_sub(u32, None, last, local).unwrap();
    let value = kernel.read(SHARED, shared, mirror);
    kernel.write(STORAGE, reversed, index, value);
    let mut stride = INVOCATIONS / 2;
    while stride != 0 {
        kernel.barrier();
        let (distance, bool) = (kernel.constant(stride), kernel.bool);
        let adds = kernel.builder.u_less_than(bool, None, local, distance).unwrap();
        kernel.when(adds, |kernel| {
            let other = kernel.add(local, distance);
            let (a, b) = (kernel.read(SHARED, shared, local), kernel.read(SHARED, shared, other));
            let sum = kernel.add(a, b);
            kernel.write(SHARED, shared, local, sum);
        });
        stride /= 2;
    }
    let (zero, bool) = (kernel.constant(0), kernel.bool);
    let is_first = kernel.builder.i_equal(bool, None, local, zero).unwrap();
    kernel.when(is_first, |kernel| {
        let sum = kernel.read(SHARED, shared, zero);
        kernel.write(STORAGE, sums, group, sum);
    });
    kernel.end(function, "reverse_and_sum", SIZE)
}

/// Each workgroup writes its index, plus one, to a word of its own: these are `stride` words apart.
fn spread(stride: u32) -> Vec<u32> {
    let mut kernel = Kernel::new(&[]);
    let uvec3 = kernel.uvec3;
    let output = kernel.buffer(STORAGE, 0, 0);
    let group = kernel.built_in(uvec3, BuiltIn::WorkgroupId);
    let function = kernel.begin();
    let group = kernel.component(group, 0);
    let (stride, one) = (kernel.constant(stride), kernel.constant(1));
    let (index, value) = (kernel.multiply(group, stride), kernel.add(group, one));
    kernel.write(STORAGE, output, index, value);
    kernel.end(function, "spread", [1, 1, 1])
}

#[test]
fn dispatches_beyond_stated_limits_run_if_the_driver_is_known_to_run_more() {
    const GROUPS: u32 = 70_000;
    const STRIDE: u32 = 512;
    let module = spread(STRIDE);
    let run = |emulation| {
        let messages = Arc::<Mutex<Vec<String>>>::default();
        let (sink, mut options) = (messages.clone(), VulkanDriverOptions::default());
        options.messages =
            Some(Arc::new(move |message: &DebugMessage| sink.lock().unwrap().push(message.text.clone())));
        let driver = Driver::new(VulkanDriver::emulating(options, emulation));
        let device = driver.create_device("", &OptionSet::default()).unwrap();
        let limits = device.info().limits.unwrap();
        assert!(u64::from(GROUPS * STRIDE * 4) > limits.binding_bytes && GROUPS > limits.workgroup_count[0]);
        let device = Validated { name: "limits", device, messages: messages.clone() };
        let executable = device.prepare(&module);
        let buffer = device.buffer(&vec![0; (GROUPS * STRIDE) as usize]);
        let binding = [BufferRef::whole(&buffer)];
        let done = device.semaphore();
        let queue = device.device.queue(QUEUE_AFFINITY_ANY);
        // Twice: each warning is given once.
        for value in 1..=2 {
            let groups = [GROUPS, 1, 1];
            queue.signal(&[done.at(value)]).dispatch(&dispatch(&executable, groups, &binding))?;
            done.wait(value, Some(Duration::from_secs(60)))?;
        }
        let word = |group: u32| {
            let mut word = [0; 4];
            buffer.read(u64::from(group * STRIDE * 4), &mut word).unwrap();
            u32::from_ne_bytes(word)
        };
        let written = [0, 65_535, 65_536, GROUPS - 1].map(|group| (group, word(group)));
        let messages = messages.lock().unwrap().clone();
        Ok::<_, rehal_base::Error>((written, messages))
    };
    let (written, warnings) = run(Emulation::default()).unwrap();
    assert!(written.iter().all(|(group, word)| *word == group + 1), "{written:?}");
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(warnings[0].contains("has 143360000 bytes; the device states a limit of 134217728"));
    assert!(
        warnings[1].starts_with("70000x1x1 workgroups are dispatched, the device states a limit of 65535x")
    );
    let narrow = Emulation { has_narrow_limits: true, ..Emulation::default() };
    let error = run(narrow).unwrap_err();
    assert_eq!(error.code(), rehal_base::StatusCode::OutOfRange, "{}", error.report());
}

#[test]
fn workgroups_share_memory_between_barriers() {
    let input = noise((GROUPS * INVOCATIONS) as usize);
    let groups = input.chunks(INVOCATIONS as usize);
    let reversed: Vec<u32> = groups.clone().flat_map(|it| it.iter().rev().copied()).collect();
    let sums: Vec<u32> =
        groups.map(|it| it.iter().fold(0, |sum, word| u32::wrapping_add(sum, *word))).collect();
    for device in Validated::all() {
        let executable = device.prepare(&reverse_and_sum());
        let [from, to, total] = [&input[..], &[0; 384], &[0; 6]].map(|it| device.buffer(it));
        device.run(&executable, COUNT, &[&from, &to, &total]);
        assert_eq!(words(&to), reversed, "{}", device.name);
        assert_eq!(words(&total), sums, "{}", device.name);
        device.finish();
    }
}

/// Each invocation writes its subgroup, its place there, and the sum and the exclusive prefix sum of the
/// subgroup's words; and what the subgroup's first invocation has.
fn subgroup_sums() -> Vec<u32> {
    let mut kernel = Kernel::new(&[
        Capability::GroupNonUniform,
        Capability::GroupNonUniformArithmetic,
        Capability::GroupNonUniformBallot,
    ]);
    let (uvec3, u32) = (kernel.uvec3, kernel.u32);
    let input = kernel.buffer(STORAGE, 0, 0);
    let outputs: [Word; 5] = std::array::from_fn(|index| kernel.buffer(STORAGE, 0, 1 + index as u32));
    let group = kernel.built_in(uvec3, BuiltIn::WorkgroupId);
    let local = kernel.built_in(u32, BuiltIn::LocalInvocationIndex);
    let subgroup = kernel.built_in(u32, BuiltIn::SubgroupId);
    let place = kernel.built_in(u32, BuiltIn::SubgroupLocalInvocationId);
    let function = kernel.begin();
    let group = kernel.component(group, 0);
    let [local, subgroup, place] = [local, subgroup, place].map(|it| kernel.load_input(it));
    let size = kernel.constant(INVOCATIONS);
    let first = kernel.multiply(group, size);
    let index = kernel.add(first, local);
    let value = kernel.read(STORAGE, input, index);
    let scope = kernel.constant(Scope::Subgroup as u32);
    let mut sum =
        |operation| kernel.builder.group_non_uniform_i_add(u32, None, scope, operation, value, None).unwrap();
    let (total, before) = (sum(GroupOperation::Reduce), sum(GroupOperation::ExclusiveScan));
    let of_first = kernel.builder.group_non_uniform_broadcast_first(u32, None, scope, value).unwrap();
    for (output, value) in outputs.into_iter().zip([subgroup, place, total, before, of_first]) {
        kernel.write(STORAGE, output, index, value);
    }
    kernel.end(function, "subgroup_sums", SIZE)
}

#[test]
fn subgroups_compute_together() {
    let groups = 5;
    let input = noise((groups * INVOCATIONS) as usize);
    for device in Validated::all() {
        let executable = device.prepare(&subgroup_sums());
        let from = device.buffer(&input);
        let outputs: [Buffer; 5] = std::array::from_fn(|_| device.buffer(&vec![u32::MAX; input.len()]));
        let buffers: Vec<_> = std::iter::once(&from).chain(&outputs).collect();
        device.run(&executable, [groups, 1, 1], &buffers);
        let [subgroups, places, totals, before, firsts] = outputs.each_ref().map(words);
        let size = device.device.query_i64("vulkan.device", "subgroup_size").unwrap() as u32;
        for index in 0..input.len() {
            assert!(places[index] < size, "{}: place {} of {size}", device.name, places[index]);
            let group = index as u32 / INVOCATIONS;
            let mut members: Vec<_> = (0..input.len())
                .filter(|other| *other as u32 / INVOCATIONS == group && subgroups[*other] == subgroups[index])
                .collect();
            members.sort_by_key(|it| places[*it]);
            let sum = |from: &mut dyn Iterator<Item = &usize>| {
                from.fold(0, |sum, it| u32::wrapping_add(sum, input[*it]))
            };
            assert_eq!(totals[index], sum(&mut members.iter()), "{}: sum", device.name);
            let mut earlier = members.iter().take_while(|it| **it != index);
            assert_eq!(before[index], sum(&mut earlier), "{}: prefix sum", device.name);
            assert_eq!(firsts[index], input[members[0]], "{}: broadcast", device.name);
        }
        device.finish();
    }
}

/// The sum of a storage buffer of set 0, a uniform buffer of set 1 and a storage buffer of set 3, to a
/// storage buffer of set 3; set 2, and binding 1 of set 3, are not used.
fn several_sets() -> Vec<u32> {
    let mut kernel = Kernel::new(&[]);
    let uvec3 = kernel.uvec3;
    let first = kernel.buffer(STORAGE, 0, 0);
    let uniform = kernel.buffer(StorageClass::Uniform, 1, 0);
    let second = kernel.buffer(STORAGE, 3, 0);
    let output = kernel.buffer(STORAGE, 3, 2);
    let id = kernel.built_in(uvec3, BuiltIn::GlobalInvocationId);
    let function = kernel.begin();
    let id = kernel.component(id, 0);
    let last = kernel.constant(3);
    let a = kernel.read(STORAGE, first, id);
    let b = kernel.read(StorageClass::Uniform, uniform, last);
    let c = kernel.read(STORAGE, second, id);
    let product = kernel.multiply(a, b);
    let sum = kernel.add(product, c);
    kernel.write(STORAGE, output, id, sum);
    kernel.end(function, "several_sets", [8, 1, 1])
}

#[test]
fn descriptors_are_in_the_sets_of_the_module() {
    let (a, c) = (noise(64), noise(128).split_off(64));
    let mut uniform = vec![9; 16];
    uniform[12] = 77;
    let expected: Vec<_> = a.iter().zip(&c).map(|(a, c)| a.wrapping_mul(77).wrapping_add(*c)).collect();
    for device in Validated::all() {
        let executable = device.prepare(&several_sets());
        assert_eq!(executable.functions()[0].binding_count, 5, "one each, and binding 1 of set 3");
        let [first, second, unused, output] = [&a[..], &c, &[0], &[0; 64]].map(|it| device.buffer(it));
        let uniform = device.buffer(&uniform);
        device.run(&executable, [8, 1, 1], &[&first, &uniform, &second, &unused, &output]);
        assert_eq!(words(&output), expected, "{}", device.name);
        device.finish();
    }
}

/// out[i] = in[i] + 1, which takes a while: each invocation adds all words of its row.
fn add_rows(row: u32) -> Vec<u32> {
    let mut kernel = Kernel::new(&[]);
    let uvec3 = kernel.uvec3;
    let input = kernel.buffer(STORAGE, 0, 0);
    let output = kernel.buffer(STORAGE, 0, 1);
    let id = kernel.built_in(uvec3, BuiltIn::GlobalInvocationId);
    let function = kernel.begin();
    let id = kernel.component(id, 0);
    let width = kernel.constant(row);
    let first = kernel.multiply(id, width);
    let mut sum = kernel.constant(0);
    for column in 0..row {
        let column = kernel.constant(column);
        let index = kernel.add(first, column);
        let value = kernel.read(STORAGE, input, index);
        sum = kernel.add(sum, value);
    }
    kernel.write(STORAGE, output, id, sum);
    kernel.end(function, "add_rows", [32, 1, 1])
}

/// Work that overwrites what the work before it reads: by a fill, a copy, an update and a kernel, in one
/// command buffer and in submissions.
#[test]
fn what_is_read_is_overwritten_afterwards() {
    const ROW: u32 = 64;
    const ROWS: u32 = 4096;
    let input = noise((ROW * ROWS) as usize);
    let sums = |words: &[u32]| -> Vec<u32> {
        let rows = words.chunks(ROW as usize);
        rows.map(|it| it.iter().fold(0, |sum, word| u32::wrapping_add(sum, *word))).collect()
    };
    let mut after_update = input.clone();
    after_update[..16].fill(0x0101_0101);
    let expected = [sums(&input), sums(&vec![7; input.len()]), sums(&input), sums(&after_update)];
    for device in Validated::all() {
        let executable = device.prepare(&add_rows(ROW));
        let (source, data) = (device.buffer(&input), device.buffer(&input));
        let outputs: [Buffer; 4] = std::array::from_fn(|_| device.buffer(&vec![0; ROWS as usize]));
        let groups = [ROWS / 32, 1, 1];
        let bindings = outputs.each_ref().map(|to| [BufferRef::whole(&data), BufferRef::whole(to)]);
        // Each output is overwritten by the next use of it, and read by none: the last pass writes it again.
        for pass in 0..2 {
            match pass {
                0 => submit_each(&device, &executable, groups, &bindings, (&source, &data)),
                _ => record_all(&device, &executable, groups, &bindings, (&source, &data)),
            }
            for (step, (output, expected)) in outputs.iter().zip(&expected).enumerate() {
                assert!(words(output) == *expected, "{}: pass {pass}, step {step}", device.name);
            }
            assert!(words(&data) == input, "{}: pass {pass}", device.name);
        }
        device.finish();
    }
}

/// The bindings of four dispatches.
type Steps<'a> = [[BufferRef<&'a Buffer>; 2]; 4];

/// Dispatches with a fill, a copy, an update and a copy after them, as submissions that wait for each other.
fn submit_each(
    device: &Validated,
    executable: &Executable,
    groups: [u32; 3],
    bindings: &Steps<'_>,
    (source, data): (&Buffer, &Buffer),
) {
    let done = device.semaphore();
    for (step, bindings) in bindings.iter().enumerate() {
        let at = 2 * step as u64;
        let points = [done.at(at), done.at(at + 1), done.at(at + 2)];
        let queue = || device.device.queue(QUEUE_AFFINITY_ANY);
        let dispatch = dispatch(executable, groups, bindings);
        queue().wait(&points[..1]).signal(&points[1..2]).dispatch(&dispatch).unwrap();
        // The queue for transfers, if there is one.
        let queue = device.device.queue(if step == 0 { 1 << 1 } else { QUEUE_AFFINITY_ANY });
        let queue = queue.wait(&points[1..2]).signal(&points[2..]);
        match step {
            0 => queue.fill(data, &7_u32.to_ne_bytes(), 0).unwrap(),
            2 => queue.update(&[1; 64], BufferRef::range(data, 0, 64), 0).unwrap(),
            _ => queue.copy(source, data, 0).unwrap(),
        }
    }
    done.wait(8, Some(Duration::from_secs(60))).unwrap();
}

/// The same as commands of one buffer, with barriers between them.
fn record_all(
    device: &Validated,
    executable: &Executable,
    groups: [u32; 3],
    bindings: &Steps<'_>,
    (source, data): (&Buffer, &Buffer),
) {
    let params = CommandBufferParams::default();
    let commands = device.device.create_command_buffer(params).unwrap();
    commands.begin().unwrap();
    for (step, bindings) in bindings.iter().enumerate() {
        commands.record(&Command::Dispatch(dispatch(executable, groups, bindings))).unwrap();
        barrier(&commands);
        let (source, target) = (BufferRef::whole(source), BufferRef::whole(data));
        let command: Command<Live<'_>> = match step {
            0 => Command::Fill { target, pattern: &7_u32.to_ne_bytes(), flags: 0 },
            2 => Command::Update { source: &[1; 64], target: BufferRef::range(data, 0, 64), flags: 0 },
            _ => Command::Copy { source, target, flags: 0 },
        };
        commands.record(&command).unwrap();
        barrier(&commands);
    }
    commands.end().unwrap();
    let done = device.semaphore();
    device.device.queue(QUEUE_AFFINITY_ANY).signal(&[done.at(1)]).execute(&commands, &[], 0).unwrap();
    done.wait(1, Some(Duration::from_secs(60))).unwrap();
}

fn barrier(commands: &CommandBuffer) {
    let stages = ExecutionStage::DISPATCH | ExecutionStage::TRANSFER;
    let barrier = MemoryBarrier {
        source_scope: AccessScope::DISPATCH_WRITE | AccessScope::TRANSFER_WRITE,
        target_scope: AccessScope::DISPATCH_READ | AccessScope::TRANSFER_WRITE,
    };
    let command: Command<Live<'_>> = Command::ExecutionBarrier {
        source_stages: stages,
        target_stages: stages,
        flags: 0,
        memory_barriers: &[barrier],
        buffer_barriers: &[],
    };
    commands.record(&command).unwrap();
}
