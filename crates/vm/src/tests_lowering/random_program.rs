//! Random valid programs, with the sequences that superinstructions are fused from.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::ValueKind;
use crate::operation::{Field, OPERATIONS, Op, Operation};
use crate::registers::REF_BIT;
use crate::superinstructions::SUPERINSTRUCTIONS;

use super::assembly::{Assembled, Assembly};

/// Three numbers of each width as arguments and as results: in registers 0 to 2, and 4, 6 and 8. Then two
/// buffers.
pub(super) const CONVENTION: &str = "0iiiIIIrr_iiiIII";
/// The convention of the callee: registers 0, 1 and 2.
pub(super) const CALLEE_CONVENTION: &str = "0iiI_Iii";
/// Bytes of globals.
pub(super) const GLOBAL_BYTES: usize = 16;
/// 32-bit registers of each function.
pub(super) const REGISTERS: usize = 24;

/// Reference registers of each function.
pub(super) const REFS: usize = 3;

/// The buffer that programs can write, often; one that they can only read; and null.
const BUFFERS: &[u16] =
    &[REF_BIT, REF_BIT, REF_BIT, REF_BIT, REF_BIT | 1, REF_BIT | 1, REF_BIT | 1, REF_BIT | 2];

/// Registers and register pairs that computations use; they overlap.
const NARROW: &[u16] = &[0, 1, 2, 10, 11, 14, 15];
const WIDE: &[u16] = &[0, 4, 6, 8, 10, 12, 14, WIDE_COUNTER];
/// 32-bit registers that moves read and write, including the counter and its step.
const MOVED: &[u16] = &[0, 1, 2, 4, 10, 11, COUNTER, ONE];
/// Bounds most loops: the number of executed blocks, its limit, and 1.
const COUNTER: u16 = 16;
const LIMIT: u16 = 17;
const ONE: u16 = 18;
/// The counter of other loops.
const WIDE_COUNTER: u16 = 20;
/// Registers that are dead at the end of each block.
const SCRATCH: u16 = 19;
const WIDE_SCRATCH: u16 = 22;
/// Ordinal of the callee.
const CALLEE: u32 = 1;

/// A random valid program.
pub(super) struct RandomProgram {
    pub(super) function: Assembled,
    /// The function that the first one calls, if any.
    pub(super) callee: Assembled,
}

impl RandomProgram {
    /// A program whose first block ends with the parts of a superinstruction, or randomly.
    pub(super) fn new(random: &mut Random, superinstruction: Option<&'static str>) -> Self {
        Self { callee: callee(random), function: function(random, superinstruction) }
    }
}

/// Seeded random numbers: the same programs on every machine.
pub(super) struct Random(pub(super) fastrand::Rng);

impl Random {
    pub(super) fn below(&mut self, limit: usize) -> usize {
        self.0.usize(..limit)
    }

    fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    fn narrow(&mut self) -> u16 {
        self.of(NARROW)
    }

    fn wide(&mut self) -> u16 {
        self.of(WIDE)
    }

    fn register(&mut self, is_wide: bool) -> u16 {
        if is_wide { self.wide() } else { self.narrow() }
    }
}

fn function(random: &mut Random, first: Option<&'static str>) -> Assembled {
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
        if let (0, Some(name)) = (index, first) {
            let [one, other] = [0, 1].map(|_| 1 + random.below(count - 1));
            superinstruction(random, &mut assembly, name, one, other);
        } else if index + 1 < count {
            end_block(random, &mut assembly, index, count);
        } else {
            assembly.op(Op::Return);
            assembly.list(&[0, 1, 2, 4, 6, 8]);
        }
    }
    assembly.finish()
}

/// Computes three results, one in the register of an argument, and counts its calls in a global.
fn callee(random: &mut Random) -> Assembled {
    let mut assembly = Assembly::default();
    assembly.block();
    assembly.global(Op::GlobalLoadI32, 0, 4);
    assembly.registers(Op::AddI32, &[0, 4, 4]);
    assembly.registers(Op::XorI32, &[1, 4, 5]);
    if random.below(4) == 0 {
        assembly.op(Op::Yield);
        assembly.edge(1, &[4, 5, 5, 4]);
        assembly.block();
    }
    assembly.global(Op::GlobalStoreI32, 0, 4);
    assembly.registers(Op::ExtI32I64S, &[5, 6]);
    assembly.registers(Op::AddI64, &[6, 2, 2]);
    assembly.op(Op::Return);
    assembly.list(&[2, 4, 5]);
    assembly.finish()
}

/// The instructions of a block before its terminator.
fn body(random: &mut Random, assembly: &mut Assembly) {
    const NARROW_OPS: &[Op] =
        &[Op::AddI32, Op::SubI32, Op::MulI32, Op::AndI32, Op::OrI32, Op::XorI32, Op::CmpLTI32S, Op::CmpEQI32];
    const WIDE_OPS: &[Op] = &[Op::AddI64, Op::SubI64, Op::MulI64, Op::AndI64, Op::OrI64, Op::XorI64];
    const WIDE_COMPARISONS: &[Op] = &[Op::CmpLTI64S, Op::CmpLTI64U, Op::CmpNEI64];
    const FLOAT_OPS: &[Op] = &[
        Op::AddF32,
        Op::SubF32,
        Op::MulF32,
        Op::DivF32,
        Op::MinF32,
        Op::MaxF32,
        Op::CmpLTF32O,
        Op::CmpNEF32U,
    ];
    for _ in 0..random.below(8) {
        match random.below(16) {
            14.. => {
                let parts = parts_of(any_superinstruction(random));
                computations(random, assembly, &parts);
            }
            0..3 => {
                let registers = std::array::from_fn::<u16, 3, _>(|_| random.narrow());
                assembly.registers(random.of(NARROW_OPS), &registers);
            }
            3..6 => {
                let registers = std::array::from_fn::<u16, 3, _>(|_| random.wide());
                assembly.registers(random.of(WIDE_OPS), &registers);
            }
            6 => {
                let registers = [random.wide(), random.wide(), random.narrow()];
                assembly.registers(random.of(WIDE_COMPARISONS), &registers);
            }
            7 => {
                let registers = std::array::from_fn::<u16, 3, _>(|_| random.narrow());
                assembly.registers(random.of(FLOAT_OPS), &registers);
            }
            8 => convert(random, assembly),
            9 => select(random, assembly),
            10 => switch(random, assembly),
            11 => global(random, assembly),
            _ => {
                assembly.op(Op::Call);
                call(random, assembly, None);
            }
        }
    }
}

/// A conversion, a constant, or a remainder, which may divide by zero.
fn convert(random: &mut Random, assembly: &mut Assembly) {
    match random.below(9) {
        0..2 => assembly.registers(Op::TruncI64I32, &[random.wide(), random.narrow()]),
        2..4 => assembly
            .registers(random.of(&[Op::ExtI32I64S, Op::ExtI32I64U]), &[random.narrow(), random.wide()]),
        4 => assembly.constant(random.0.u32(..) >> random.below(32), random.narrow()),
        5 => assembly.registers(Op::ConstI64Zero, &[random.wide()]),
        6 => assembly.registers(Op::CtlzI64, &[random.wide(), random.wide()]),
        7 => assembly.registers(Op::CastSI32F32, &[random.narrow(), random.narrow()]),
        _ => {
            assembly.registers(Op::RemI32S, &[random.narrow(), random.of(&[1, LIMIT, ONE]), random.narrow()])
        }
    }
}

fn select(random: &mut Random, assembly: &mut Assembly) {
    let condition = random.narrow();
    if random.below(2) == 0 {
        let registers = [condition, random.narrow(), random.narrow(), random.narrow()];
        assembly.registers(random.of(&[Op::SelectI32, Op::SelectF32]), &registers);
    } else {
        assembly.registers(Op::SelectI64, &[condition, random.wide(), random.wide(), random.wide()]);
    }
}

fn switch(random: &mut Random, assembly: &mut Assembly) {
    // Often in bounds.
    let index = random.narrow();
    assembly.registers(Op::CmpLTI32S, &[random.narrow(), random.narrow(), index]);
    let is_narrow = random.below(2) == 0;
    let choices = if is_narrow { NARROW } else { WIDE };
    let count = random.below(4);
    let values: Vec<u16> = (0..count).map(|_| random.of(choices)).collect();
    let op = if is_narrow { random.of(&[Op::SwitchI32, Op::SwitchF32]) } else { Op::SwitchI64 };
    assembly.registers(op, &[index, random.of(choices)]);
    assembly.list(&values);
    assembly.register(random.of(choices));
}

fn global(random: &mut Random, assembly: &mut Assembly) {
    if random.below(2) == 0 {
        let op = random.of(&[Op::GlobalLoadI32, Op::GlobalStoreI32, Op::GlobalLoadF32, Op::GlobalStoreF32]);
        assembly.global(op, 4 * random.below(4) as u32, random.narrow());
    } else {
        let op = random.of(&[Op::GlobalLoadI64, Op::GlobalStoreI64]);
        assembly.global(op, 8 * random.below(2) as u32, random.wide());
    }
}

/// The fields of a call, which continues at another block if given.
fn call(random: &mut Random, assembly: &mut Assembly, next: Option<usize>) {
    assembly.bytes.extend(CALLEE.to_le_bytes());
    assembly.list(&[random.narrow(), random.narrow(), random.wide()]);
    if let Some(next) = next {
        assembly.target(next);
    }
    // Often in registers that only moves read.
    let wide = match random.below(4) {
        0..2 => 12,
        // Overlapping the narrow results.
        2 => 10,
        _ => random.wide(),
    };
    let [first, second] = match random.below(4) {
        0..2 => [10, 11],
        2 => [10, 10],
        _ => [random.narrow(), random.narrow()],
    };
    assembly.list(&[wide, first, second]);
}

fn moves(random: &mut Random) -> Vec<u16> {
    let mut moves = Vec::new();
    for _ in 0..random.below(4) {
        let (source, target) = match random.below(5) {
            0..2 => {
                moves.extend([random.of(MOVED), random.of(MOVED)]);
                continue;
            }
            // Halves whose targets do not form a register pair.
            2 => (random.wide(), random.of(&[1, 5, 9])),
            _ => (random.wide(), random.wide()),
        };
        moves.extend([source, target, source + 1, target + 1]);
    }
    moves
}

/// Ends the block `index` of `count` with a forward branch, or a branch back to the loop while the counter is
/// below its limit.
fn end_block(random: &mut Random, assembly: &mut Assembly, index: usize, count: usize) {
    if index == 1 {
        return start_loop(random, assembly, count);
    }
    let mut forward = || index + 1 + random.below(count - index - 1);
    let (one, other, third) = (forward(), forward(), forward());
    assembly.registers(Op::AddI32, &[COUNTER, ONE, COUNTER]);
    match random.below(if index > 1 { 26 } else { 18 }) {
        18.. => {
            let name = any_superinstruction(random);
            superinstruction(random, assembly, name, one, other);
        }
        11 => carry(random, assembly, one),
        12 if index == 0 => carry(random, assembly, one),
        12 | 13 => carry(random, assembly, 1),
        14..18 => {
            // A back edge.
            if random.below(2) == 0 {
                let step = random.of(&[Op::AddI32, Op::SubI32]);
                assembly.registers(step, &[random.of(MOVED), random.of(MOVED), COUNTER]);
            } else {
                let step = random.of(&[Op::AddI64, Op::SubI64]);
                assembly.registers(step, &[random.wide(), random.wide(), WIDE_COUNTER]);
            }
            branch(random, assembly, Op::Branch, 1);
        }
        0..3 => {
            // The results of a call as block arguments.
            if random.below(2) == 0 {
                assembly.op(Op::Call);
                call(random, assembly, None);
            }
            branch(random, assembly, Op::Branch, one);
        }
        3 => match random.below(6) {
            0 => branch(random, assembly, Op::Break, one),
            1 => {
                assembly.registers(Op::CondBreak, &[random.narrow()]);
                let moves = moves(random);
                assembly.edge(one, &moves);
            }
            2 => branch(random, assembly, Op::Yield, one),
            3 => {
                // Falls through to the next block unless the counter is above its limit.
                let flag = random.narrow();
                assembly.registers(Op::CmpLTI32S, &[LIMIT, COUNTER, flag]);
                assembly.registers(Op::Fail, &[flag]);
                assembly.bytes.extend(*b"\x04\0late");
            }
            _ => {
                assembly.op(Op::CallYieldable);
                call(random, assembly, Some(one));
            }
        },
        4..6 => table(random, assembly, &[one, other, third]),
        6..9 => conditional(random, assembly, one, other),
        _ => {
            let flag = random.narrow();
            assembly.registers(Op::CmpLTI32S, &[COUNTER, LIMIT, flag]);
            assembly.registers(Op::CondBranch, &[flag]);
            let (yes, no) = (moves(random), moves(random));
            // Not the first block, which initialises the counter.
            assembly.edge(1 + random.below(index.max(1)), &yes);
            assembly.edge(one, &no);
        }
    }
}

/// The name of a random superinstruction.
fn any_superinstruction(random: &mut Random) -> &'static str {
    random.of(SUPERINSTRUCTIONS).0
}

/// The parts of a superinstruction; parts that are superinstructions are expanded.
fn parts_of(name: &'static str) -> Vec<&'static str> {
    let mut parts = Vec::new();
    add_parts(name, &mut parts);
    parts
}

fn add_parts(name: &'static str, parts: &mut Vec<&'static str>) {
    match SUPERINSTRUCTIONS.iter().find(|(fused, _)| *fused == name) {
        // The part that is also a primitive of lowering.
        Some((_, [first, second])) if *second == name => {
            parts.push(first);
            parts.push(second);
        }
        Some((_, [first, second])) => {
            add_parts(first, parts);
            add_parts(second, parts);
        }
        None => parts.push(name),
    }
}

/// The instruction of that name, unless it is a primitive of lowering.
fn operation(part: &str) -> Option<&'static Operation> {
    static BY_NAME: LazyLock<HashMap<String, &Operation>> = LazyLock::new(|| {
        OPERATIONS.iter().map(|operation| (format!("{:?}", operation.op), operation)).collect()
    });
    let name = match part {
        "Load32" => "BufferLoadI32",
        "Load8U" => "BufferLoadI8U",
        "Load8S" => "BufferLoadI8S",
        "Store32" => "BufferStoreI32",
        part => part,
    };
    BY_NAME.get(name).copied()
}

fn is_wide(kind: ValueKind) -> bool {
    matches!(kind, ValueKind::I64 | ValueKind::F64)
}

/// The computations among parts, each using the previous result. Returns the last result and whether it is
/// wide.
fn computations(random: &mut Random, assembly: &mut Assembly, parts: &[&str]) -> Option<(u16, bool)> {
    if parts.contains(&"SelectI64") {
        return wrap(random, assembly, parts.contains(&"RemI64S"));
    }
    let mut value: Option<(u16, bool)> = None;
    let mut element: Option<[u16; 2]> = None;
    let mut computations = Vec::new();
    for operation in parts.iter().filter_map(|part| operation(part)) {
        let mut registers = Vec::new();
        for field in operation.fields {
            let (Field::Read(kind) | Field::Write(kind)) = field else { panic!("{:?}", operation.op) };
            registers.push(match kind {
                ValueKind::Ref => random.of(BUFFERS),
                kind => random.register(is_wide(*kind)),
            });
        }
        let result = operation.fields.iter().position(|field| matches!(field, Field::Write(_)));
        if let Some(result) = result
            && random.below(2) == 0
        {
            let is_wide = matches!(operation.fields[result], Field::Write(kind) if is_wide(kind));
            registers[result] = if is_wide { WIDE_SCRATCH } else { SCRATCH };
        }
        if let Some((register, is_register_wide)) = value {
            let chained = random.below(result.unwrap_or(registers.len()));
            // Now and then wherever it fits.
            let is_everywhere = random.below(6) == 0;
            for (index, field) in operation.fields.iter().enumerate() {
                let fits = matches!(field, Field::Read(kind)
                    if *kind != ValueKind::Ref && is_wide(*kind) == is_register_wide);
                if fits && (is_everywhere || index == chained) {
                    registers[index] = register;
                }
            }
        }
        match (operation.op, element, value) {
            (Op::BufferLoadI32, ..) => element = Some([registers[0], registers[1]]),
            // Often the result, over the element that it was computed from.
            (Op::BufferStoreI32, Some(element), Some((result, false))) if random.below(4) != 0 => {
                registers = [element.as_slice(), &[result]].concat();
            }
            _ => {}
        }
        if let Some(result) = result {
            value = match operation.fields[result] {
                Field::Write(kind) => Some((registers[result], is_wide(kind))),
                _ => None,
            };
        }
        computations.push((operation, registers));
    }
    if parts.iter().any(|part| part.starts_with("Load") || *part == "Store32") {
        small_indices(random, assembly, &computations);
    }
    for (operation, registers) in computations {
        assembly.registers(operation.op, &registers);
    }
    value
}

/// Sets what indices are computed from to small numbers, often.
fn small_indices(
    random: &mut Random,
    assembly: &mut Assembly,
    computations: &[(&'static Operation, Vec<u16>)],
) {
    for (operation, registers) in computations {
        for (field, register) in operation.fields.iter().zip(registers) {
            if *field == Field::Read(ValueKind::I64) && *register != WIDE_COUNTER && random.below(8) != 0 {
                assembly.op(Op::ConstI64);
                assembly.bytes.extend((random.below(4) as u64).to_le_bytes());
                assembly.register(*register);
            }
        }
    }
}

/// A number made non-negative by adding a step to it, as remainders are. One of the registers may be any
/// other.
fn wrap(random: &mut Random, assembly: &mut Assembly, is_remainder: bool) -> Option<(u16, bool)> {
    let scratch = |random: &mut Random| if random.below(2) == 0 { WIDE_SCRATCH } else { random.wide() };
    let (number, value, limit, step) = (random.wide(), scratch(random), random.wide(), random.wide());
    let flag = if random.below(2) == 0 { SCRATCH } else { random.narrow() };
    let sum = scratch(random);
    let result = if random.below(3) == 0 { sum } else { random.wide() };
    if is_remainder {
        assembly.registers(Op::RemI64S, &[number, step, value]);
    }
    let other = |random: &mut Random, register: u16| match random.below(8) {
        0 => random.wide(),
        _ => register,
    };
    assembly.registers(Op::CmpLTI64S, &[value, limit, flag]);
    let [left, right] = if random.below(2) == 0 { [value, step] } else { [step, value] };
    assembly.registers(Op::AddI64, &[other(random, left), right, sum]);
    let (yes, no) = (other(random, sum), other(random, value));
    assembly.registers(Op::SelectI64, &[flag, yes, no, result]);
    Some((result, true))
}

/// Ends a block with what a superinstruction is fused from.
fn superinstruction(
    random: &mut Random,
    assembly: &mut Assembly,
    name: &'static str,
    one: usize,
    other: usize,
) {
    let parts = parts_of(name);
    let value = computations(random, assembly, &parts);
    if parts.contains(&"BranchNZI32") {
        let (condition, _) = value.filter(|(_, is_wide)| !is_wide).unwrap_or((random.narrow(), false));
        assembly.registers(Op::CondBranch, &[condition]);
        for target in [one, other] {
            let moves = if random.below(2) == 0 { moves(random) } else { Vec::new() };
            assembly.edge(target, &moves);
        }
        return;
    }
    let mut moves = Vec::new();
    let mut copy = |source: u16, target: u16, is_wide: bool| {
        moves.extend([source, target]);
        if is_wide {
            moves.extend([source + 1, target + 1]);
        }
    };
    let widths: Vec<bool> =
        parts.iter().filter(|part| part.starts_with("Move")).map(|part| *part == "Move64").collect();
    match (&widths[..], value) {
        // The first move reads what the second writes, so the value cannot be computed there.
        ([is_wide, _], Some((value, is_value_wide))) if *is_wide == is_value_wide => {
            let source = random.register(*is_wide);
            copy(source, random.register(*is_wide), *is_wide);
            copy(value, source, *is_wide);
        }
        _ => {
            for is_wide in widths {
                copy(random.register(is_wide), random.register(is_wide), is_wide);
            }
        }
    }
    assembly.op(Op::Branch);
    assembly.edge(one, &moves);
}

/// A branch with a value that the block computes and one from before it, sometimes after a step of the
/// counter.
fn carry(random: &mut Random, assembly: &mut Assembly, target: usize) {
    let is_wide = random.below(2) == 0;
    let any = |random: &mut Random| if is_wide { random.wide() } else { random.narrow() };
    let op = match is_wide {
        true => random.of(&[Op::AddI64, Op::SubI64, Op::MulI64]),
        false => random.of(&[Op::AddI32, Op::SubI32, Op::MulI32, Op::AddF32, Op::MulF32]),
    };
    let result = any(random);
    assembly.registers(op, &[any(random), any(random), result]);
    match random.below(6) {
        0 => assembly.registers(Op::AddI32, &[random.narrow(), ONE, COUNTER]),
        1 => assembly.registers(Op::SubI64, &[random.wide(), random.wide(), WIDE_COUNTER]),
        2 if is_wide => assembly.registers(Op::SubI64, &[random.wide(), result, WIDE_COUNTER]),
        2 => assembly.registers(Op::AddI32, &[result, ONE, COUNTER]),
        _ => {}
    }
    let copies = [(any(random), any(random)), (result, any(random))];
    let moves: Vec<u16> = match is_wide {
        true => {
            copies.iter().flat_map(|(source, target)| [*source, *target, source + 1, target + 1]).collect()
        }
        false => copies.iter().flat_map(|(source, target)| [*source, *target]).collect(),
    };
    assembly.op(Op::Branch);
    assembly.edge(target, &moves);
}

/// A loop header: only the test.
fn start_loop(random: &mut Random, assembly: &mut Assembly, count: usize) {
    let flag = random.narrow();
    match random.below(8) {
        0 => assembly.registers(Op::CmpNZI32, &[COUNTER, flag]),
        1 => assembly.registers(Op::CmpNZI64, &[WIDE_COUNTER, flag]),
        2 => assembly.registers(Op::CmpNEI32, &[COUNTER, LIMIT, flag]),
        3 => assembly.registers(Op::CmpNEI64, &[random.wide(), WIDE_COUNTER, flag]),
        4 => assembly.registers(Op::CmpLTI32S, &[random.narrow(), COUNTER, flag]),
        5 => assembly.registers(Op::CmpLTI64S, &[random.wide(), WIDE_COUNTER, flag]),
        6 => assembly.registers(Op::CmpLTI64S, &[WIDE_COUNTER, random.wide(), flag]),
        _ => assembly.registers(Op::CmpLTI32S, &[COUNTER, LIMIT, flag]),
    }
    assembly.registers(Op::CondBranch, &[flag]);
    assembly.edge(2, &[]);
    assembly.edge(count - 1, &[]);
}

fn branch(random: &mut Random, assembly: &mut Assembly, op: Op, target: usize) {
    assembly.op(op);
    let moves = moves(random);
    assembly.edge(target, &moves);
}

fn conditional(random: &mut Random, assembly: &mut Assembly, yes: usize, no: usize) {
    let flag = random.narrow();
    match random.below(6) {
        0 => assembly.registers(Op::CmpNZI32, &[random.narrow(), flag]),
        1 => assembly.registers(Op::CmpNZI64, &[random.wide(), flag]),
        _ => {
            let comparisons = [Op::CmpEQI32, Op::CmpNEI32, Op::CmpLTI32S, Op::CmpLTI32U];
            let registers = [random.narrow(), random.narrow(), flag];
            assembly.registers(random.of(&comparisons), &registers);
        }
    }
    assembly.registers(Op::CondBranch, &[flag]);
    let (yes_moves, no_moves) = (moves(random), moves(random));
    assembly.edge(yes, &yes_moves);
    assembly.edge(no, &no_moves);
}

/// A jump table with an index that is often one of its cases.
fn table(random: &mut Random, assembly: &mut Assembly, targets: &[usize]) {
    let index = random.narrow();
    assembly.registers(Op::CmpLTI32S, &[random.narrow(), random.narrow(), index]);
    assembly.registers(Op::BranchTable, &[index]);
    let cases = random.below(targets.len());
    let default = moves(random);
    assembly.edge(targets[cases], &default);
    assembly.bytes.extend((cases as u16).to_le_bytes());
    for target in &targets[..cases] {
        let moves = moves(random);
        assembly.edge(*target, &moves);
    }
}
