//! Assembles the kernels, and measures a device with them.

use rspirv::binary::Assemble;
use rspirv::dr::{Builder, Operand};
use spirv::{
    AddressingModel, BuiltIn, Capability, Decoration, ExecutionMode, ExecutionModel, FunctionControl,
    LoopControl, MemoryModel, SelectionControl, StorageClass, Word,
};

use super::*;

/// A kernel of one entry point, over storage buffers of an element type.
struct Assembled {
    it: Builder,
    u32: Word,
    element: Word,
    stride: u32,
    interface: Vec<Word>,
    function: Word,
}

impl Assembled {
    fn begin(capabilities: &[Capability]) -> Self {
        let mut it = Builder::new();
        it.set_version(1, 5);
        it.capability(Capability::Shader);
        capabilities.iter().for_each(|capability| it.capability(*capability));
        it.memory_model(AddressingModel::Logical, MemoryModel::GLSL450);
        let u32 = it.type_int(32, 0);
        let element = it.type_vector(u32, 4);
        Self { it, u32, element, stride: 16, interface: Vec::new(), function: 0 }
    }

    /// A storage buffer, at this binding.
    fn buffers<const N: usize>(&mut self) -> [Word; N] {
        let array = self.it.type_runtime_array(self.element);
        let block = self.it.type_struct([array]);
        self.it.decorate(array, Decoration::ArrayStride, [Operand::LiteralBit32(self.stride)]);
        self.it.decorate(block, Decoration::Block, []);
        self.it.member_decorate(block, 0, Decoration::Offset, [Operand::LiteralBit32(0)]);
        std::array::from_fn(|binding| {
            let id = self.variable(block, StorageClass::StorageBuffer);
            self.it.decorate(id, Decoration::DescriptorSet, [Operand::LiteralBit32(0)]);
            self.it.decorate(id, Decoration::Binding, [Operand::LiteralBit32(binding as u32)]);
            id
        })
    }

    fn variable(&mut self, pointee: Word, class: StorageClass) -> Word {
        let pointer = self.it.type_pointer(None, class, pointee);
        let id = self.it.variable(pointer, None, class, None);
        self.interface.push(id);
        id
    }

    fn constant(&mut self, value: u32) -> Word {
        self.it.constant_bit32(self.u32, value)
    }

    /// Begins the function; returns x of the index of the invocation, and of the number of workgroups.
    fn function(&mut self) -> [Word; 2] {
        let uvec3 = self.it.type_vector(self.u32, 3);
        let inputs = [BuiltIn::GlobalInvocationId, BuiltIn::NumWorkgroups].map(|which| {
            let id = self.variable(uvec3, StorageClass::Input);
            self.it.decorate(id, Decoration::BuiltIn, [Operand::BuiltIn(which)]);
            id
        });
        let void = self.it.type_void();
        let kind = self.it.type_function(void, []);
        self.function = self.it.begin_function(void, None, FunctionControl::NONE, kind).unwrap();
        self.it.begin_block(None).unwrap();
        inputs.map(|input| {
            let all = self.it.load(uvec3, None, input, None, []).unwrap();
            self.it.composite_extract(self.u32, None, all, [0]).unwrap()
        })
    }

    fn element(&mut self, buffer: Word, index: Word) -> Word {
        let zero = self.constant(0);
        let pointer = self.it.type_pointer(None, StorageClass::StorageBuffer, self.element);
        self.it.access_chain(pointer, None, buffer, [zero, index]).unwrap()
    }

    fn read(&mut self, buffer: Word, index: Word) -> Word {
        let element = self.element(buffer, index);
        self.it.load(self.element, None, element, None, []).unwrap()
    }

    /// The element that an invocation accesses in its turn: neighbours access neighbours.
    fn place(&mut self, buffer: Word, [index, workgroups]: [Word; 2], turn: u64) -> Word {
        let (size, turn, one) = (self.constant(SIZE as u32), self.constant(turn as u32), self.constant(1));
        let count = self.it.array_length(self.u32, None, buffer, 0).unwrap();
        let mask = self.it.i_sub(self.u32, None, count, one).unwrap();
        let all = self.it.i_mul(self.u32, None, workgroups, size).unwrap();
        let before = self.it.i_mul(self.u32, None, all, turn).unwrap();
        let place = self.it.i_add(self.u32, None, before, index).unwrap();
        self.it.bitwise_and(self.u32, None, place, mask).unwrap()
    }

    /// Writes a value if a condition that never holds does, so that the value is computed.
    fn keep(&mut self, buffer: Word, value: Word, condition: Word) {
        let (then, merge) = (self.it.id(), self.it.id());
        self.it.selection_merge(merge, SelectionControl::NONE).unwrap();
        self.it.branch_conditional(condition, then, merge, []).unwrap();
        self.it.begin_block(Some(then)).unwrap();
        let zero = self.constant(0);
        let element = self.element(buffer, zero);
        self.it.store(element, value, None, []).unwrap();
        self.it.branch(merge).unwrap();
        self.it.begin_block(Some(merge)).unwrap();
    }

    fn end(mut self, name: &str) -> Vec<u8> {
        self.it.ret().unwrap();
        self.it.end_function().unwrap();
        self.it.entry_point(ExecutionModel::GLCompute, self.function, name, &self.interface);
        self.it.execution_mode(self.function, ExecutionMode::LocalSize, [SIZE as u32, 1, 1]);
        self.it.module().assemble().into_iter().flat_map(u32::to_le_bytes).collect()
    }
}

/// Chains of multiplications and additions of a float type.
fn products(bits: u32, capabilities: &[Capability]) -> Vec<u8> {
    let mut kernel = Assembled::begin(capabilities);
    let extensions = kernel.it.ext_inst_import("GLSL.std.450");
    /// `Fma` of the extended instructions.
    const FMA: Word = 50;
    let f32 = kernel.it.type_float(32, None);
    (kernel.element, kernel.stride) = (f32, 4);
    let float = if bits == 32 { f32 } else { kernel.it.type_float(bits, None) };
    let bool = kernel.it.type_bool();
    let [buffer] = kernel.buffers();
    let place = kernel.function();
    let mut operand = |turn| {
        let index = kernel.place(buffer, place, turn);
        let value = kernel.read(buffer, index);
        match bits {
            32 => value,
            _ => kernel.it.f_convert(float, None, value).unwrap(),
        }
    };
    let (a, b) = (operand(0), operand(1));
    let first: Vec<Word> = (0..CHAINS).map(|chain| operand(chain + 2)).collect();
    let [entry, header, body, next, after] = [0; 5].map(|_| kernel.it.id());
    kernel.it.branch(entry).unwrap();
    kernel.it.begin_block(Some(entry)).unwrap();
    kernel.it.branch(header).unwrap();
    kernel.it.begin_block(Some(header)).unwrap();
    let (zero, one, rounds) = (kernel.constant(0), kernel.constant(1), kernel.constant(ROUNDS as u32));
    let increased = kernel.it.id();
    let results: Vec<Word> = first.iter().map(|_| kernel.it.id()).collect();
    let round = kernel.it.phi(kernel.u32, None, [(zero, entry), (increased, next)]).unwrap();
    let pairs = first.iter().zip(&results);
    let chains: Vec<Word> = pairs
        .map(|(first, result)| kernel.it.phi(float, None, [(*first, entry), (*result, next)]).unwrap())
        .collect();
    let continues = kernel.it.u_less_than(bool, None, round, rounds).unwrap();
    kernel.it.loop_merge(after, next, LoopControl::NONE, []).unwrap();
    kernel.it.branch_conditional(continues, body, after, []).unwrap();
    kernel.it.begin_block(Some(body)).unwrap();
    for (chain, result) in chains.iter().zip(&results) {
        let operands = [*chain, a, b].map(Operand::IdRef);
        kernel.it.ext_inst(float, Some(*result), extensions, FMA, operands).unwrap();
    }
    kernel.it.branch(next).unwrap();
    kernel.it.begin_block(Some(next)).unwrap();
    kernel.it.i_add(kernel.u32, Some(increased), round, one).unwrap();
    kernel.it.branch(header).unwrap();
    kernel.it.begin_block(Some(after)).unwrap();
    let sum =
        chains.into_iter().reduce(|one, other| kernel.it.f_add(float, None, one, other).unwrap()).unwrap();
    let sum = if bits == 32 { sum } else { kernel.it.f_convert(f32, None, sum).unwrap() };
    // What is read is 0, and so is the sum.
    let other = kernel.it.constant_bit32(f32, 1.5f32.to_bits());
    let is_other = kernel.it.f_ord_equal(bool, None, sum, other).unwrap();
    kernel.keep(buffer, sum, is_other);
    kernel.end("products")
}

fn read() -> Vec<u8> {
    let mut kernel = Assembled::begin(&[]);
    let bool = kernel.it.type_bool();
    let [buffer] = kernel.buffers();
    let place = kernel.function();
    let read = |turn| {
        let index = kernel.place(buffer, place, turn);
        kernel.read(buffer, index)
    };
    let all: Vec<Word> = (0..ELEMENTS).map(read).collect();
    let element = kernel.element;
    let sum =
        all.into_iter().reduce(|one, other| kernel.it.i_add(element, None, one, other).unwrap()).unwrap();
    let first = kernel.it.composite_extract(kernel.u32, None, sum, [0]).unwrap();
    let parts = [1, 2, 3].map(|part| kernel.it.composite_extract(kernel.u32, None, sum, [part]).unwrap());
    let folded =
        parts.into_iter().fold(first, |one, other| kernel.it.i_add(kernel.u32, None, one, other).unwrap());
    let other = kernel.constant(0x1234_5677);
    let is_other = kernel.it.i_equal(bool, None, folded, other).unwrap();
    kernel.keep(buffer, sum, is_other);
    kernel.end("read")
}

fn copy() -> Vec<u8> {
    let mut kernel = Assembled::begin(&[]);
    let [from, to] = kernel.buffers();
    let place = kernel.function();
    for turn in 0..ELEMENTS {
        let index = kernel.place(from, place, turn);
        let value = kernel.read(from, index);
        let element = kernel.element(to, index);
        kernel.it.store(element, value, None, []).unwrap();
    }
    kernel.end("copy")
}

#[test]
fn the_kernels_are_those_that_are_assembled_here() {
    let modules = [
        ("f32", products(32, &[]), PRODUCTS[0].1),
        ("f64", products(64, &[Capability::Float64]), PRODUCTS[1].1),
        ("f16", products(16, &[Capability::Float16]), PRODUCTS[2].1),
        ("read", read(), READ),
        ("copy", copy(), COPY),
    ];
    for (name, assembled, kept) in modules {
        if std::env::var_os("REHAL_WRITE").is_some() {
            let path = format!("{}/src/roof/gpu/{name}.spv", env!("CARGO_MANIFEST_DIR"));
            std::fs::write(path, &assembled).unwrap();
        } else {
            assert!(assembled == kept, "{name}: run this test with REHAL_WRITE=1");
        }
    }
}

/// Without this test, a roof may be off by any factor: that of a device that is measured is not known.
#[test]
fn rates_are_those_of_what_the_kernels_do() {
    // 64 invocations with 8 chains of 256 multiplications and additions, or 16 elements of 16 bytes.
    assert_eq!((OPERATIONS, BYTES), (262_144, 16_384));
    assert_eq!(WORKING_SETS.map(|it| it.2), [1_048_576, 16_777_216, 134_217_728]);
    assert_eq!(WORKING_SETS.map(|it| it.1), [Some(1_048_576), Some(16_777_216), None]);
    let workgroups = [&[OPERANDS][..], &[1 << 20; 2], &[1 << 20, 1], &[1 << 40]].map(first_workgroups);
    assert_eq!(workgroups, [64, 128, 65, 65_535]);
    // 10^6 in each of 4 workgroups in 2 ms.
    assert_eq!(per_second(1_000_000, 4, MIN_NS), 2e9);
}

#[cfg(feature = "vulkan")]
#[test]
fn a_device_is_measured() {
    let devices =
        rehal_devices::DeviceOptions::for_devices(vec![rehal_devices::DeviceSpec::find("vulkan").unwrap()])
            .open()
            .unwrap();
    let (peaks, bandwidths) = measure(&devices.devices()[0]).unwrap();
    // Any device does some operations in a nanosecond, and none 10^16 in a second.
    let is_rate = |rate: Rate| (1e8..1e16).contains(&rate.per_second);
    assert_eq!(peaks[0].element, "f32");
    assert!(peaks.iter().all(|it| is_rate(it.rate)), "{peaks:?}");
    assert_eq!(bandwidths.iter().map(|it| &*it.name).collect::<Vec<_>>(), ["1 MiB", "16 MiB", "memory"]);
    assert!(bandwidths.iter().all(|it| is_rate(it.read) && is_rate(it.copy)), "{bandwidths:?}");
}
