use super::assembly::{Assembled, Assembly};
use crate::operation::Op;

/// Three numbers of each width in and out: in registers 0 to 2, and 4, 6 and 8.
pub(super) const CONVENTION: &str = "0iiiIII_iiiIII";
/// Of the function that it calls: in registers 0, 1 and 2.
pub(super) const CALLEE_CONVENTION: &str = "0iiI_Iii";
/// What both may keep: 16 bytes.
pub(super) const GLOBAL_BYTES: usize = 16;
/// How many registers of 32 bits each may use.
pub(super) const REGISTERS: usize = 22;

/// Registers that the instructions of bodies use, of each width; some are halves of others.
const NARROW: &[u16] = &[0, 1, 2, 10, 11, 14, 15];
const WIDE: &[u16] = &[0, 4, 6, 8, 10, 12, 14, WIDE_COUNTER];
/// Registers of 32 bits that moves read and write, those that count among them.
const MOVED: &[u16] = &[0, 1, 2, 4, 10, 11, COUNTER, ONE];
/// What most loops end by: how many blocks were run, how many may be, and 1.
const COUNTER: u16 = 16;
const LIMIT: u16 = 17;
const ONE: u16 = 18;
/// What other loops count in.
const WIDE_COUNTER: u16 = 20;
/// The function that is called.
const CALLEE: u32 = 1;

/// xorshift64*: the same programs on every machine.
pub(super) struct Random(pub(super) u64);

/// A program out of nowhere that verifies.
pub(super) struct RandomProgram {
    pub(super) function: Assembled,
    /// The function that the first calls, if it does.
    pub(super) callee: Assembled,
}

impl RandomProgram {
    pub(super) fn new(random: &mut Random) -> Self {
        Self { callee: callee(random), function: function(random) }
    }
}

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 32
    }

    pub(super) fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
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
}

fn function(random: &mut Random) -> Assembled {
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
            assembly.list(&[0, 1, 2, 4, 6, 8]);
        }
    }
    assembly.finish()
}

/// Computes three results, in a register that has an argument as well, and counts its calls.
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

/// What a block does before its end.
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
        match random.below(14) {
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

/// Between the widths, of a constant, or a quotient, which there may not be.
fn convert(random: &mut Random, assembly: &mut Assembly) {
    match random.below(9) {
        0..2 => assembly.registers(Op::TruncI64I32, &[random.wide(), random.narrow()]),
        2..4 => assembly
            .registers(random.of(&[Op::ExtI32I64S, Op::ExtI32I64U]), &[random.narrow(), random.wide()]),
        4 => assembly.constant(random.next() as u32 >> random.below(32), random.narrow()),
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
    // Often within the choices.
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

/// The fields of a call, which goes on at another block where there is one.
fn call(random: &mut Random, assembly: &mut Assembly, next: Option<usize>) {
    assembly.bytes.extend(CALLEE.to_le_bytes());
    assembly.list(&[random.narrow(), random.narrow(), random.wide()]);
    if let Some(next) = next {
        assembly.target(next);
    }
    // Often where nothing is read but by moves.
    let wide = match random.below(4) {
        0..2 => 12,
        // Where the narrow ones are.
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
            // Halves that are no pair where they go.
            2 => (random.wide(), random.of(&[1, 5, 9])),
            _ => (random.wide(), random.wide()),
        };
        moves.extend([source, target, source + 1, target + 1]);
    }
    moves
}

/// Ends the block `index` of `count` by going to one behind it, or perhaps back while the counter allows it.
fn end_block(random: &mut Random, assembly: &mut Assembly, index: usize, count: usize) {
    if index == 1 {
        return start_loop(random, assembly, count);
    }
    let mut forward = || index + 1 + random.below(count - index - 1);
    let (one, other, third) = (forward(), forward(), forward());
    assembly.registers(Op::AddI32, &[COUNTER, ONE, COUNTER]);
    match random.below(if index > 1 { 18 } else { 12 }) {
        11 => carry(random, assembly, one),
        12 if index == 0 => carry(random, assembly, one),
        12 | 13 => carry(random, assembly, 1),
        14.. => {
            // As loops go on.
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
            // As the last but the branch, what it moves.
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
                // Goes on with the next block, unless it is late.
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
            // Not the first, which starts the counter.
            assembly.edge(1 + random.below(index.max(1)), &yes);
            assembly.edge(one, &no);
        }
    }
}

/// Goes on with a value that the block has computed and one of before, perhaps after a count.
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

/// As loops start: nothing but the condition.
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

/// Goes on by a number that often is one of the cases.
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
