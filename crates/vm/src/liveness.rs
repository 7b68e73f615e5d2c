use crate::access::{Access, accesses};
use crate::instruction::{FieldValue, Instruction};
use crate::operation::{Field, Op};
use crate::registers::REF_BIT;
use crate::tables::{Function, Tables};

/// Limit on registers times blocks, so that a crafted function does not exhaust memory.
const SIZE_LIMIT: usize = 1 << 20;

/// Limit on passes over all blocks, after which everything counts as live: compilers order blocks so that few
/// suffice.
const PASSES: usize = 16;

/// Liveness: which 32-bit registers may be read after the start of each block before they are written.
pub(crate) struct Liveness {
    /// Offsets of the blocks, ascending.
    starts: Vec<u32>,
    /// Words per set.
    width: usize,
    /// The live-in set of each block, consecutively; empty if the function is over the limit.
    live: Vec<u64>,
}

/// A node of the control flow graph.
#[derive(Default)]
struct Block {
    successors: Vec<u32>,
}

impl Liveness {
    /// Analyses a verified function with `registers` registers.
    pub(crate) fn from_function(tables: &Tables, function: &Function, words: u16, bytecode: &[u8]) -> Self {
        let width = usize::from(words).div_ceil(64);
        let count = function.descriptor.block_count;
        if usize::from(words) * count > SIZE_LIMIT {
            return Self { starts: Vec::new(), width, live: Vec::new() };
        }
        let mut this = Self { starts: Vec::with_capacity(count), width, live: vec![0; width * count] };
        let mut killed = vec![0; width * count];
        let mut blocks: Vec<Block> = Vec::with_capacity(count);
        let mut offset = 0;
        while offset < bytecode.len() {
            let Ok(instruction) = Instruction::read(bytecode, offset) else { break };
            offset = instruction.end;
            if instruction.operation.op == Op::Block {
                if blocks.len() == count {
                    break;
                }
                this.starts.push(instruction.offset as u32);
                blocks.push(Block::default());
                continue;
            }
            let Some(block) = blocks.last_mut() else { break };
            let at = (this.starts.len() - 1) * width;
            let (read, killed) = (&mut this.live[at..at + width], &mut killed[at..at + width]);
            collect(tables, function, &instruction, block, read, killed);
        }
        this.spread(&blocks, &killed);
        this
    }

    /// Whether a register is live-in at the block at offset `start`.
    pub(crate) fn is_live(&self, start: u32, register: u16) -> bool {
        let Ok(block) = self.starts.binary_search(&start) else { return true };
        let set = self.live.get(block * self.width..).unwrap_or_default();
        set.get(usize::from(register) / 64).is_none_or(|bits| bits >> (register % 64) & 1 != 0)
    }

    /// Backward data flow to a fixed point: what is live into a successor and not killed in a block is live
    /// into the block.
    fn spread(&mut self, blocks: &[Block], killed: &[u64]) {
        for _ in 0..PASSES {
            let mut changed = false;
            for (index, block) in blocks.iter().enumerate().rev() {
                for successor in &block.successors {
                    let Ok(next) = self.starts.binary_search(successor) else { continue };
                    for word in 0..self.width {
                        let at = index * self.width + word;
                        let more = self.live[next * self.width + word] & !killed[at] & !self.live[at];
                        changed |= more != 0;
                        self.live[at] |= more;
                    }
                }
            }
            if !changed {
                return;
            }
        }
        self.live.fill(u64::MAX);
    }
}

/// Adds what an instruction reads and kills, and the successors of its block.
fn collect(
    tables: &Tables,
    function: &Function,
    instruction: &Instruction<'_>,
    block: &mut Block,
    read: &mut [u64],
    killed: &mut [u64],
) {
    let mut access = |access, first: u16, count: u16| {
        for register in first..first.saturating_add(count) {
            let (word, bit) = (usize::from(register) / 64, 1 << (register % 64));
            if let (Some(read), Some(killed)) = (read.get_mut(word), killed.get_mut(word)) {
                match access {
                    Access::Read => *read |= bit & !*killed,
                    Access::Write => *killed |= bit,
                }
            }
        }
    };
    let op = instruction.operation.op;
    if op == Op::Branch {
        // The only edge: its moves kill their targets, in order.
        for (source, target) in instruction.list(1).pairs().filter(|(source, _)| source & REF_BIT == 0) {
            access(Access::Read, source, 1);
            access(Access::Write, target, 1);
        }
    } else {
        accesses(tables, function, instruction, access);
    }
    block.successors.extend(successors(instruction));
}

/// The offsets of the blocks that a terminator may continue at.
pub(crate) fn successors<'i>(instruction: &'i Instruction<'_>) -> impl Iterator<Item = u32> + 'i {
    let fields = instruction.operation.fields.iter().zip(&instruction.values);
    let targets = fields.clone().filter_map(|field| match field {
        (Field::Target, FieldValue::Ordinal(target)) => Some(*target),
        _ => None,
    });
    let cases = fields.filter_map(|field| match field {
        (Field::Cases, FieldValue::Cases(cases)) => Some(cases),
        _ => None,
    });
    // With a status of 0 it falls through to the next block.
    let next = (instruction.operation.op == Op::Fail).then_some(instruction.end as u32);
    targets.chain(cases.flatten().map(|(target, _)| *target)).chain(next)
}
