//! Programs out of nowhere do the same whether their instructions are lowered one by one or as few as possible.

use std::path::Path;
use std::sync::Arc;

use rehal_base::{MappedFile, StatusCode};

use crate::globals::Globals;
use crate::interpret::{Instance, Machine, ModuleView, Modules, Outcome, Target};
use crate::lower::lower;
use crate::module_file::{Features, FunctionDescriptor};
use crate::operation::{OPERATIONS, Op};
use crate::program::Program;
use crate::tables::{Function, Tables};
use crate::verify::verify;
use crate::{Budget, Convention, ModuleFile, Value};

/// Three numbers of each width in and out: in registers 0 to 2, and 4, 6 and 8.
const CONVENTION: &str = "0iiiIII_iiiIII";
/// Registers that the instructions of bodies use, of each width; some are halves of others.
const NARROW: &[u16] = &[0, 1, 2, 10, 11, 14, 15];
const WIDE: &[u16] = &[4, 6, 8, 12, 14, WIDE_COUNTER];
/// Registers of 32 bits that moves read and write, those that count among them.
const MOVED: &[u16] = &[0, 1, 2, 10, 11, COUNTER, ONE];
/// What most loops end by: how many blocks were run, how many may be, and 1.
const COUNTER: u16 = 16;
const LIMIT: u16 = 17;
const ONE: u16 = 18;
/// What other loops count in.
const WIDE_COUNTER: u16 = 20;

/// xorshift64*: the same programs on every machine.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 32
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }
}

/// Bytes of a function, with the places where offsets of blocks belong.
#[derive(Default)]
struct Assembly {
    bytes: Vec<u8>,
    blocks: Vec<u32>,
    targets: Vec<(usize, usize)>,
}

impl Assembly {
    fn op(&mut self, op: Op) {
        let operation = OPERATIONS.iter().find(|operation| operation.op == op).unwrap();
        self.bytes.extend(operation.set.prefix());
        self.bytes.push(operation.opcode);
    }

    fn registers(&mut self, op: Op, registers: &[u16]) {
        self.op(op);
        registers.iter().for_each(|register| self.bytes.extend(register.to_le_bytes()));
    }

    fn constant(&mut self, value: u32, register: u16) {
        self.op(Op::ConstI32);
        self.bytes.extend(value.to_le_bytes());
        self.bytes.extend(register.to_le_bytes());
    }

    fn block(&mut self) {
        self.blocks.push(self.bytes.len() as u32);
        self.op(Op::Block);
    }

    fn list(&mut self, count: usize, registers: &[u16]) {
        self.bytes.resize(self.bytes.len().next_multiple_of(2), 0);
        self.bytes.extend((count as u16).to_le_bytes());
        registers.iter().for_each(|register| self.bytes.extend(register.to_le_bytes()));
    }

    fn edge(&mut self, block: usize, moves: &[u16]) {
        self.targets.push((self.bytes.len(), block));
        self.bytes.extend([0; 4]);
        self.list(moves.len() / 2, moves);
    }

    fn finish(mut self) -> (Vec<u8>, usize) {
        for (at, block) in &self.targets {
            self.bytes[*at..at + 4].copy_from_slice(&self.blocks[*block].to_le_bytes());
        }
        (self.bytes, self.blocks.len())
    }
}

fn moves(random: &mut Random) -> Vec<u16> {
    let mut moves = Vec::new();
    for _ in 0..random.below(4) {
        if random.below(2) == 0 {
            moves.extend([random.of(MOVED), random.of(MOVED)]);
        } else {
            let (source, target) = (random.of(WIDE), random.of(WIDE));
            moves.extend([source, target, source + 1, target + 1]);
        }
    }
    moves
}

fn body(random: &mut Random, assembly: &mut Assembly) {
    const NARROW_OPS: &[Op] =
        &[Op::AddI32, Op::SubI32, Op::MulI32, Op::AndI32, Op::OrI32, Op::XorI32, Op::CmpLTI32S, Op::CmpEQI32];
    const WIDE_OPS: &[Op] = &[Op::AddI64, Op::SubI64, Op::MulI64, Op::AndI64, Op::OrI64, Op::XorI64];
    const WIDE_COMPARISONS: &[Op] = &[Op::CmpLTI64S, Op::CmpLTI64U, Op::CmpNEI64];
    for _ in 0..random.below(8) {
        match random.below(5) {
            0 | 1 => {
                let registers = std::array::from_fn::<u16, 3, _>(|_| random.of(NARROW));
                assembly.registers(random.of(NARROW_OPS), &registers);
            }
            2 | 3 => {
                let registers = std::array::from_fn::<u16, 3, _>(|_| random.of(WIDE));
                assembly.registers(random.of(WIDE_OPS), &registers);
            }
            _ => {
                let registers = [random.of(WIDE), random.of(WIDE), random.of(NARROW)];
                assembly.registers(random.of(WIDE_COMPARISONS), &registers);
            }
        }
    }
}

/// Ends the block `index` of `count` by going to one behind it, or perhaps back while the counter allows it.
fn end_block(random: &mut Random, assembly: &mut Assembly, index: usize, count: usize) {
    let forward = index + 1 + random.below(count - index - 1);
    if index == 1 {
        // As loops start: nothing but the condition.
        let flag = random.of(NARROW);
        match random.below(8) {
            0 => assembly.registers(Op::CmpNZI32, &[COUNTER, flag]),
            1 => assembly.registers(Op::CmpNZI64, &[WIDE_COUNTER, flag]),
            2 => assembly.registers(Op::CmpNEI32, &[COUNTER, LIMIT, flag]),
            3 => assembly.registers(Op::CmpNEI64, &[random.of(WIDE), WIDE_COUNTER, flag]),
            4 => assembly.registers(Op::CmpLTI32S, &[random.of(NARROW), COUNTER, flag]),
            5 => assembly.registers(Op::CmpLTI64S, &[random.of(WIDE), WIDE_COUNTER, flag]),
            6 => assembly.registers(Op::CmpLTI64S, &[WIDE_COUNTER, random.of(WIDE), flag]),
            _ => assembly.registers(Op::CmpLTI32S, &[COUNTER, LIMIT, flag]),
        }
        assembly.registers(Op::CondBranch, &[flag]);
        assembly.edge(2, &[]);
        return assembly.edge(count - 1, &[]);
    }
    assembly.registers(Op::AddI32, &[COUNTER, ONE, COUNTER]);
    match random.below(if index > 1 { 6 } else { 4 }) {
        // As loops go on.
        4.. => {
            if random.below(2) == 0 {
                let step = random.of(&[Op::AddI32, Op::SubI32]);
                assembly.registers(step, &[random.of(MOVED), random.of(MOVED), COUNTER]);
            } else {
                let step = random.of(&[Op::AddI64, Op::SubI64]);
                assembly.registers(step, &[random.of(WIDE), random.of(WIDE), WIDE_COUNTER]);
            }
            assembly.op(Op::Branch);
            let moves = moves(random);
            assembly.edge(1, &moves);
        }
        0 => {
            assembly.op(Op::Branch);
            let moves = moves(random);
            assembly.edge(forward, &moves);
        }
        1 => {
            let flag = random.of(NARROW);
            match random.below(6) {
                0 => assembly.registers(Op::CmpNZI32, &[random.of(NARROW), flag]),
                1 => assembly.registers(Op::CmpNZI64, &[random.of(WIDE), flag]),
                _ => {
                    let comparisons = [Op::CmpEQI32, Op::CmpNEI32, Op::CmpLTI32S, Op::CmpLTI32U];
                    let registers = [random.of(NARROW), random.of(NARROW), flag];
                    assembly.registers(random.of(&comparisons), &registers);
                }
            }
            assembly.registers(Op::CondBranch, &[flag]);
            let (yes, no) = (moves(random), moves(random));
            assembly.edge(forward, &yes);
            assembly.edge(index + 1 + random.below(count - index - 1), &no);
        }
        _ => {
            let flag = random.of(NARROW);
            assembly.registers(Op::CmpLTI32S, &[COUNTER, LIMIT, flag]);
            assembly.registers(Op::CondBranch, &[flag]);
            let (yes, no) = (moves(random), moves(random));
            // Not the first, which starts the counter.
            assembly.edge(1 + random.below(index.max(1)), &yes);
            assembly.edge(forward, &no);
        }
    }
}

fn program(random: &mut Random) -> (Vec<u8>, usize) {
    let count = 3 + random.below(5);
    let mut assembly = Assembly::default();
    for index in 0..count {
        assembly.block();
        if index == 0 {
            assembly.constant(0, COUNTER);
            assembly.constant(40, LIMIT);
            assembly.constant(1, ONE);
        }
        if index != 1 {
            body(random, &mut assembly);
        }
        if index + 1 < count {
            end_block(random, &mut assembly, index, count);
        } else {
            assembly.op(Op::Return);
            assembly.list(6, &[0, 1, 2, 4, 6, 8]);
        }
    }
    assembly.finish()
}

struct Alone {
    program: Program,
    instance: Instance,
}

impl Modules for Alone {
    fn module(&self, _index: u32) -> ModuleView<'_> {
        ModuleView::Bytecode { program: &self.program, instance: &self.instance }
    }
}

/// What the function returns, as text; nothing where it takes too long.
fn run(
    file: &ModuleFile,
    bytecode: &[u8],
    block_count: usize,
    keeps_apart: bool,
    inputs: &[Value],
) -> Option<String> {
    let descriptor = FunctionDescriptor {
        bytecode: 0..bytecode.len(),
        requirements: Features(0),
        block_count,
        i32_register_count: 22,
        ref_register_count: 0,
    };
    let function = Function { convention: Convention::parse(CONVENTION).unwrap(), descriptor };
    let tables = Tables {
        types: [].into(),
        imports: [].into(),
        functions: [function].into(),
        global_bytes: 0,
        global_refs: 0,
        rodata_count: 0,
    };
    let frame = verify(&tables, &tables.functions[0], bytecode).unwrap();
    let code = lower(&tables, 0, frame, bytecode, keeps_apart).unwrap();
    let program = Program::of_parts(file.clone(), tables, code);
    let instance =
        Instance { codes: program.codes.clone(), globals: Globals::new(0, 0, false), imports: [].into() };
    let modules = Alone { program, instance };
    let mut machine = Machine::new(Some(Budget { instructions: 20_000, bytes: 1 << 20 }), None);
    let target = Target { module: 0, ordinal: 0 };
    match machine.begin(&modules, target, inputs.iter().cloned(), []) {
        Ok(outcome) => assert!(matches!(outcome, Outcome::Done)),
        Err(error) => assert_eq!(error.code(), StatusCode::ResourceExhausted),
    }
    (!machine.results.is_empty()).then(|| format!("{:?}", machine.results))
}

#[test]
fn few_instructions_do_what_many_do() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/vm/calls.vmfb");
    let file = ModuleFile::map(Arc::new(MappedFile::open(&path).unwrap())).unwrap();
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let mut ended = 0;
    for round in 0..2000 {
        let (bytecode, block_count) = program(&mut random);
        for _ in 0..2 {
            // Small ones often, which are equal now and then.
            let narrow = |random: &mut Random| Value::I32(random.next() as i32 >> random.below(40).min(31));
            let wide = |random: &mut Random| {
                Value::I64(((random.next() << 32 | random.next()) as i64) >> random.below(80).min(63))
            };
            let inputs = [
                narrow(&mut random),
                narrow(&mut random),
                narrow(&mut random),
                wide(&mut random),
                wide(&mut random),
                wide(&mut random),
            ];
            let many = run(&file, &bytecode, block_count, true, &inputs);
            if many.is_none() {
                continue;
            }
            ended += 1;
            let few = run(&file, &bytecode, block_count, false, &inputs);
            assert_eq!(few, many, "program {round} with {inputs:?}: {bytecode:02x?}");
        }
    }
    assert!(ended > 2000, "{ended} programs came to an end");
}
