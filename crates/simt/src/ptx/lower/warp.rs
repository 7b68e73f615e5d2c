//! Instructions of a warp or of a block together.
//!
//! Source: the PTX ISA, "Parallel Synchronization and Communication Instructions" and "Warp Level Matrix
//! Multiply-Accumulate Instructions".

use super::super::ast::Operand;
use super::super::op::{BarrierKind, Matrix, Op, Reduce, Reg, Shuffle, Vote};
use super::super::types::{Bank, Type};
use super::modifiers::Modifiers;
use super::{Lowered, Lowering};

impl<'a> Lowering<'a, '_> {
    /// The mask of the lanes that take part.
    fn members(&mut self, operands: &[Operand<'a>]) -> Lowered<Reg> {
        match operands.last() {
            Some(operand) => self.source(operand, Type::B32),
            None => Err(self.corrupt("a mask of lanes", "nothing")),
        }
    }

    fn sync(&mut self, parts: &mut Modifiers<'a>) -> Lowered<()> {
        self.part(parts.takes("sync").then_some(()), parts, ".sync")
    }

    pub(super) fn shuffle(&mut self, parts: &mut Modifiers<'a>, operands: &[Operand<'a>]) -> Lowered<()> {
        self.sync(parts)?;
        let mode = parts.one_of(&[
            ("up", Shuffle::Up),
            ("down", Shuffle::Down),
            ("bfly", Shuffle::Bfly),
            ("idx", Shuffle::Idx),
        ]);
        let mode = self.part(mode, parts, "a mode")?;
        self.kind_of(parts, &[Type::B32])?;
        self.expect(operands, 5)?;
        let (d, p) = match operands[0] {
            Operand::Pair(d, p) => (
                self.destination(&Operand::Name(d), Type::B32)?,
                self.destination(&Operand::Name(p), Type::Pred)?,
            ),
            ref target => (self.destination(target, Type::B32)?, self.temporary(Bank::Short)?),
        };
        let a = self.source(&operands[1], Type::B32)?;
        let (b, c) = (self.source(&operands[2], Type::B32)?, self.source(&operands[3], Type::B32)?);
        let members = self.members(operands)?;
        let list = self.list(&[members, p]);
        self.emit(Op::Shuffle(mode), [d, a, b, c], list);
        Ok(())
    }

    pub(super) fn vote(&mut self, parts: &mut Modifiers<'a>, operands: &[Operand<'a>]) -> Lowered<()> {
        self.sync(parts)?;
        let mode = parts.one_of(&[
            ("all", Vote::All),
            ("any", Vote::Any),
            ("uni", Vote::Uni),
            ("ballot", Vote::Ballot),
        ]);
        let mode = self.part(mode, parts, "a mode")?;
        let kind = self.kind_of(parts, if mode == Vote::Ballot { &[Type::B32] } else { &[Type::Pred] })?;
        self.expect(operands, 3)?;
        let (d, a) = (self.destination(&operands[0], kind)?, self.source(&operands[1], Type::Pred)?);
        let members = self.members(operands)?;
        let list = self.list(&[members]);
        self.emit(Op::Vote(mode), [d, a, 0, 0], list);
        Ok(())
    }

    pub(super) fn match_sync(&mut self, parts: &mut Modifiers<'a>, operands: &[Operand<'a>]) -> Lowered<()> {
        let any = self.part(parts.one_of(&[("any", true), ("all", false)]), parts, ".any or .all")?;
        self.sync(parts)?;
        let kind = self.kind_of(parts, &[Type::B32, Type::B64])?;
        self.expect(operands, 3)?;
        let (d, p) = match operands[0] {
            Operand::Pair(d, p) if !any => (
                self.destination(&Operand::Name(d), Type::B32)?,
                self.destination(&Operand::Name(p), Type::Pred)?,
            ),
            ref target => (self.destination(target, Type::B32)?, self.temporary(Bank::Short)?),
        };
        let a = self.source(&operands[1], kind)?;
        let members = self.members(operands)?;
        let (long, list) = (kind == Type::B64, self.list(&[members]));
        self.emit(if any { Op::MatchAny { long } } else { Op::MatchAll { long } }, [d, a, p, 0], list);
        Ok(())
    }

    pub(super) fn redux(&mut self, parts: &mut Modifiers<'a>, operands: &[Operand<'a>]) -> Lowered<()> {
        self.sync(parts)?;
        let word = parts.next().unwrap_or_default();
        let is_bits = matches!(word, "and" | "or" | "xor");
        let kind = self.kind_of(parts, if is_bits { &[Type::B32] } else { &[Type::U32, Type::S32] })?;
        let reduce = match (word, kind) {
            ("add", _) => Reduce::Add,
            ("min", Type::S32) => Reduce::MinS,
            ("min", _) => Reduce::MinU,
            ("max", Type::S32) => Reduce::MaxS,
            ("max", _) => Reduce::MaxU,
            ("and", _) => Reduce::And,
            ("or", _) => Reduce::Or,
            ("xor", _) => Reduce::Xor,
            _ => return Err(self.unsupported("a known reduction", format!("'.{word}'"))),
        };
        self.expect(operands, 3)?;
        let (d, a) = (self.destination(&operands[0], kind)?, self.source(&operands[1], kind)?);
        let members = self.members(operands)?;
        let list = self.list(&[members]);
        self.emit(Op::Redux(reduce), [d, a, 0, 0], list);
        Ok(())
    }

    pub(super) fn active_mask(&mut self, parts: &mut Modifiers<'a>, operands: &[Operand<'a>]) -> Lowered<()> {
        self.kind_of(parts, &[Type::B32])?;
        self.expect(operands, 1)?;
        let d = self.destination(&operands[0], Type::B32)?;
        self.emit(Op::ActiveMask, [d, 0, 0, 0], 0);
        Ok(())
    }

    pub(super) fn barrier(&mut self, parts: &mut Modifiers<'a>, operands: &[Operand<'a>]) -> Lowered<()> {
        if parts.takes("warp") {
            self.sync(parts)?;
            self.expect(operands, 1)?;
            let members = self.members(operands)?;
            let list = self.list(&[members]);
            self.emit(Op::SyncWarp, [0; 4], list);
            return Ok(());
        }
        parts.takes("cta");
        let mode = parts.one_of(&[("sync", 0), ("arrive", 1), ("red", 2)]);
        let mode = self.part(mode, parts, ".sync, .arrive or .red")?;
        let (kind, result) = match mode {
            0 => (BarrierKind::Sync, None),
            1 => (BarrierKind::Arrive, None),
            _ => {
                let all = [("and", BarrierKind::And), ("or", BarrierKind::Or), ("popc", BarrierKind::Popc)];
                (self.part(parts.one_of(&all), parts, "a reduction")?, Some(()))
            }
        };
        parts.takes("aligned");
        let (mut d, mut c, mut rest) = (0, 0, operands);
        if result.is_some() {
            let kind =
                self.kind_of(parts, if kind == BarrierKind::Popc { &[Type::U32] } else { &[Type::Pred] })?;
            let [target, middle @ .., predicate] = operands else {
                return Err(self.corrupt("a result, a barrier and a predicate", "fewer operands"));
            };
            (d, c, rest) = (self.destination(target, kind)?, self.source(predicate, Type::Pred)?, middle);
        }
        self.expect_within(rest, 1, 2)?;
        if kind == BarrierKind::Arrive {
            self.expect(rest, 2)?;
        }
        let id = self.source(&rest[0], Type::U32)?;
        let threads = match rest.get(1) {
            Some(operand) => self.source(operand, Type::U32)?,
            None => 0,
        };
        self.emit(Op::Barrier(kind), [d, id, threads, c], i64::from(rest.len() == 2));
        Ok(())
    }

    pub(super) fn mma(&mut self, parts: &mut Modifiers<'a>, operands: &[Operand<'a>]) -> Lowered<()> {
        self.sync(parts)?;
        self.part(parts.takes("aligned").then_some(()), parts, ".aligned")?;
        let shape = parts.one_of(&[
            ("m16n8k4", (16, 8, 4)),
            ("m16n8k8", (16, 8, 8)),
            ("m16n8k16", (16, 8, 16)),
            ("m16n8k32", (16, 8, 32)),
            ("m8n8k4", (8, 8, 4)),
            ("m8n8k16", (8, 8, 16)),
        ]);
        let (m, n, k) = self.part(shape, parts, "a shape")?;
        self.part(parts.takes("row").then_some(()), parts, ".row")?;
        self.part(parts.takes("col").then_some(()), parts, ".col")?;
        let sat = parts.takes("satfinite");
        let mut kinds = [Type::F32; 4];
        for kind in &mut kinds {
            *kind = self.part(parts.kind(), parts, "a type")?;
        }
        let [d, a, b, c] = kinds;
        let is_known = match (a, m, k) {
            (Type::F16, 16, 8 | 16) => {
                matches!(d, Type::F16 | Type::F32) && matches!(c, Type::F16 | Type::F32)
            }
            (Type::Bf16, 16, 8 | 16) | (Type::Tf32, 16, 4 | 8) => d == Type::F32 && c == Type::F32,
            (Type::S8 | Type::U8, 16, 16 | 32) | (Type::S8 | Type::U8, 8, 16) => {
                d == Type::S32 && c == Type::S32
            }
            (Type::F64, 8, 4) | (Type::F64, 16, 4 | 8 | 16) => d == Type::F64 && c == Type::F64,
            _ => false,
        };
        let is_byte = |kind: Type| matches!(kind, Type::S8 | Type::U8);
        if !is_known || (a != b && !(is_byte(a) && is_byte(b))) || (sat && !is_byte(a)) {
            return Err(self.unsupported("a known shape and types", format!("m{m}n{n}k{k} of {a:?}")));
        }
        let matrix = Matrix { m, n, k, a, b, c, d, sat };
        self.expect(operands, 4)?;
        let mut list = Vec::new();
        for (index, (kind, count)) in matrix.registers().into_iter().enumerate() {
            let all = match &operands[index] {
                Operand::Vector(all) if all.len() == count => all.clone(),
                single @ Operand::Name(_) if count == 1 => vec![single.clone()],
                _ => return Err(self.corrupt(format!("{count} registers"), "another operand")),
            };
            for operand in &all {
                list.push(match index {
                    0 => self.destination(operand, kind)?,
                    _ => self.source(operand, kind)?,
                });
            }
        }
        let list = self.list(&list);
        self.emit(Op::Mma(matrix), [0; 4], list);
        Ok(())
    }

    pub(super) fn move_matrix(
        &mut self,
        opcode: &str,
        parts: &mut Modifiers<'a>,
        operands: &[Operand<'a>],
    ) -> Lowered<()> {
        self.sync(parts)?;
        self.part(parts.takes("aligned").then_some(()), parts, ".aligned")?;
        self.part(parts.takes("m8n8").then_some(()), parts, ".m8n8")?;
        self.expect(operands, 2)?;
        if opcode == "movmatrix" {
            self.part(parts.takes("trans").then_some(()), parts, ".trans")?;
            self.kind_of(parts, &[Type::B16])?;
            let (d, a) = (self.destination(&operands[0], Type::B32)?, self.source(&operands[1], Type::B32)?);
            self.emit(Op::MoveMatrix, [d, a, 0, 0], 0);
            return Ok(());
        }
        let count =
            self.part(parts.one_of(&[("x1", 1_u8), ("x2", 2), ("x4", 4)]), parts, ".x1, .x2 or .x4")?;
        let transposed = parts.takes("trans");
        self.part(parts.one_of(&[("shared", ()), ("shared::cta", ())]), parts, ".shared")?;
        self.kind_of(parts, &[Type::B16])?;
        let is_load = opcode == "ldmatrix";
        let (registers, address) =
            if is_load { (&operands[0], &operands[1]) } else { (&operands[1], &operands[0]) };
        let Operand::Vector(registers) = registers else {
            return Err(self.corrupt(format!("{count} registers in braces"), "another operand"));
        };
        self.expect(registers, count.into())?;
        let (base, offset, short, _) = self.address(address)?;
        let mut list = vec![offset as u32, u32::from(short)];
        for operand in registers {
            list.push(if is_load {
                self.destination(operand, Type::B32)?
            } else {
                self.source(operand, Type::B32)?
            });
        }
        let list = self.list(&list);
        let op = match is_load {
            true => Op::LoadMatrix { count, transposed },
            false => Op::StoreMatrix { count, transposed },
        };
        self.emit(op, [0, base, 0, 0], list);
        Ok(())
    }
}

impl Matrix {
    /// The types and numbers of the registers of d, a, b and c.
    pub(in super::super) fn registers(&self) -> [(Type, usize); 4] {
        let elements = |rows: u8, columns: u8| usize::from(rows) * usize::from(columns) / 32;
        let of = |kind: Type, count: usize| match kind {
            Type::F16 => (Type::F16x2, count / 2),
            Type::Bf16 => (Type::B32, count / 2),
            Type::S8 | Type::U8 => (Type::B32, count / 4),
            Type::Tf32 => (Type::B32, count),
            other => (other, count),
        };
        [
            of(self.d, elements(self.m, self.n)),
            of(self.a, elements(self.m, self.k)),
            of(self.b, elements(self.k, self.n)),
            of(self.c, elements(self.m, self.n)),
        ]
    }
}
