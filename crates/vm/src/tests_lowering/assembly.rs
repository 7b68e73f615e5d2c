use crate::operation::{OPERATIONS, Op};

/// Bytes of a function, with fixups for the offsets of blocks.
#[derive(Default)]
pub(super) struct Assembly {
    pub(super) bytes: Vec<u8>,
    blocks: Vec<u32>,
    targets: Vec<(usize, usize)>,
}

impl Assembly {
    pub(super) fn op(&mut self, op: Op) {
        let operation = OPERATIONS.iter().find(|operation| operation.op == op).unwrap();
        self.bytes.extend(operation.set.prefix());
        self.bytes.push(operation.opcode);
    }

    pub(super) fn registers(&mut self, op: Op, registers: &[u16]) {
        self.op(op);
        registers.iter().for_each(|register| self.bytes.extend(register.to_le_bytes()));
    }

    pub(super) fn register(&mut self, register: u16) {
        self.bytes.extend(register.to_le_bytes());
    }

    pub(super) fn constant(&mut self, value: u32, register: u16) {
        self.op(Op::ConstI32);
        self.bytes.extend(value.to_le_bytes());
        self.bytes.extend(register.to_le_bytes());
    }

    pub(super) fn global(&mut self, op: Op, offset: u32, register: u16) {
        self.op(op);
        self.bytes.extend(offset.to_le_bytes());
        self.bytes.extend(register.to_le_bytes());
    }

    pub(super) fn block(&mut self) {
        self.blocks.push(self.bytes.len() as u32);
        self.op(Op::Block);
    }

    pub(super) fn list(&mut self, registers: &[u16]) {
        self.counted(registers.len(), registers);
    }

    fn counted(&mut self, count: usize, registers: &[u16]) {
        self.bytes.resize(self.bytes.len().next_multiple_of(2), 0);
        self.bytes.extend((count as u16).to_le_bytes());
        registers.iter().for_each(|register| self.bytes.extend(register.to_le_bytes()));
    }

    pub(super) fn target(&mut self, block: usize) {
        self.targets.push((self.bytes.len(), block));
        self.bytes.extend([0; 4]);
    }

    pub(super) fn edge(&mut self, block: usize, moves: &[u16]) {
        self.target(block);
        self.counted(moves.len() / 2, moves);
    }

    pub(super) fn finish(mut self) -> Assembled {
        for (at, block) in &self.targets {
            self.bytes[*at..at + 4].copy_from_slice(&self.blocks[*block].to_le_bytes());
        }
        Assembled { bytecode: self.bytes, block_count: self.blocks.len() }
    }
}

/// Bytes of a function, and its number of blocks.
pub(super) struct Assembled {
    pub(super) bytecode: Vec<u8>,
    pub(super) block_count: usize,
}
