//! Instructions of a warp or of a block together.
//!
//! Source: the PTX ISA, "Parallel Synchronization and Communication Instructions" and "Warp Level Matrix
//! Multiply-Accumulate Instructions".

use super::super::ast::Operand;
use super::super::op::{BarrierKind, Matrix, Op, Reduce, Reg, Shuffle, Vote};
use super::super::types::{Bank, Type};
use super::form::Form;
use super::lowering::{Lowered, Lowering};

impl<'a> Lowering<'a, '_> {
    /// The mask of the lanes that take part.
    fn members(&mut self, form: &Form<'a, '_>) -> Lowered<Reg> {
        match form.operands.last() {
            Some(operand) => self.source(operand, Type::U32),
            None => Err(self.corrupt("a mask of lanes", "nothing")),
        }
    }

    fn sync(&mut self, form: &mut Form<'a, '_>) -> Lowered<()> {
        self.want(form, "sync")
    }

    pub(super) fn shuffle(&mut self, form: &mut Form<'a, '_>) -> Lowered<()> {
        self.sync(form)?;
        let mode = self.choice(
            form,
            "up down bfly idx",
            &[Shuffle::Up, Shuffle::Down, Shuffle::Bfly, Shuffle::Idx],
        )?;
        self.kind_of(form, "b32")?;
        self.expect(form, 5)?;
        let (d, p) = match form.operands[0] {
            Operand::Pair(d, p) => (
                self.destination(&Operand::Name(d), Type::B32)?,
                self.destination(&Operand::Name(p), Type::Pred)?,
            ),
            ref target => (self.destination(target, Type::B32)?, self.temporary(Bank::Short)?),
        };
        let a = self.source(&form.operands[1], Type::B32)?;
        let (b, c) = (self.source(&form.operands[2], Type::U32)?, self.source(&form.operands[3], Type::U32)?);
        let members = self.members(form)?;
        let list = self.list(&[members, p]);
        self.emit(Op::Shuffle(mode), [d, a, b, c], list);
        Ok(())
    }

    pub(super) fn vote(&mut self, form: &mut Form<'a, '_>) -> Lowered<()> {
        self.sync(form)?;
        let mode =
            self.choice(form, "all any uni ballot", &[Vote::All, Vote::Any, Vote::Uni, Vote::Ballot])?;
        let kind = self.kind_of(form, if mode == Vote::Ballot { "b32" } else { "pred" })?;
        self.expect(form, 3)?;
        let (d, a) =
            (self.destination(&form.operands[0], kind)?, self.source(&form.operands[1], Type::Pred)?);
        let members = self.members(form)?;
        let list = self.list(&[members]);
        self.emit(Op::Vote(mode), [d, a, 0, 0], list);
        Ok(())
    }

    pub(super) fn match_sync(&mut self, form: &mut Form<'a, '_>) -> Lowered<()> {
        let any = self.choice(form, "any all", &[true, false])?;
        self.sync(form)?;
        let kind = self.kind_of(form, "b32 b64")?;
        self.expect(form, 3)?;
        let (d, p) = match form.operands[0] {
            Operand::Pair(d, p) if !any => (
                self.destination(&Operand::Name(d), Type::B32)?,
                self.destination(&Operand::Name(p), Type::Pred)?,
            ),
            ref target => (self.destination(target, Type::B32)?, self.temporary(Bank::Short)?),
        };
        let a = self.source(&form.operands[1], kind)?;
        let members = self.members(form)?;
        let (long, list) = (kind == Type::B64, self.list(&[members]));
        self.emit(if any { Op::MatchAny { long } } else { Op::MatchAll { long } }, [d, a, p, 0], list);
        Ok(())
    }

    pub(super) fn redux(&mut self, form: &mut Form<'a, '_>) -> Lowered<()> {
        self.sync(form)?;
        let word = form.next().unwrap_or_default();
        let is_bits = matches!(word, "and" | "or" | "xor");
        let kind = self.kind_of(form, if is_bits { "b32" } else { "u32 s32" })?;
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
        self.expect(form, 3)?;
        let (d, a) = (self.destination(&form.operands[0], kind)?, self.source(&form.operands[1], kind)?);
        let members = self.members(form)?;
        let list = self.list(&[members]);
        self.emit(Op::Redux(reduce), [d, a, 0, 0], list);
        Ok(())
    }

    pub(super) fn active_mask(&mut self, form: &mut Form<'a, '_>) -> Lowered<()> {
        self.kind_of(form, "b32")?;
        self.expect(form, 1)?;
        let d = self.destination(&form.operands[0], Type::B32)?;
        self.emit(Op::ActiveMask, [d, 0, 0, 0], 0);
        Ok(())
    }

    pub(super) fn barrier(&mut self, form: &mut Form<'a, '_>) -> Lowered<()> {
        if form.takes("warp") {
            self.sync(form)?;
            self.expect(form, 1)?;
            let members = self.members(form)?;
            let list = self.list(&[members]);
            self.emit(Op::SyncWarp, [0; 4], list);
            return Ok(());
        }
        form.takes("cta");
        let mode = self.choice(form, "sync arrive red", &[0, 1, 2])?;
        let (kind, result) = match mode {
            0 => (BarrierKind::Sync, None),
            1 => (BarrierKind::Arrive, None),
            _ => {
                let all = [BarrierKind::And, BarrierKind::Or, BarrierKind::Popc];
                (self.choice(form, "and or popc", &all)?, Some(()))
            }
        };
        form.takes("aligned");
        let (mut d, mut c, mut rest) = (0, 0, form.operands);
        if result.is_some() {
            let kind = self.kind_of(form, if kind == BarrierKind::Popc { "u32" } else { "pred" })?;
            let [target, middle @ .., predicate] = form.operands else {
                return Err(self.corrupt("a result, a barrier and a predicate", "fewer operands"));
            };
            (d, c, rest) = (self.destination(target, kind)?, self.source(predicate, Type::Pred)?, middle);
        }
        if rest.is_empty() || rest.len() > 2 || (kind == BarrierKind::Arrive && rest.len() < 2) {
            return Err(self.corrupt("a barrier and a number of threads", "another number of operands"));
        }
        let id = self.source(&rest[0], Type::U32)?;
        let threads = match rest.get(1) {
            Some(operand) => self.source(operand, Type::U32)?,
            None => 0,
        };
        self.emit(Op::Barrier(kind), [d, id, threads, c], i64::from(rest.len() == 2));
        Ok(())
    }

    pub(super) fn mma(&mut self, form: &mut Form<'a, '_>) -> Lowered<()> {
        self.sync(form)?;
        self.want(form, "aligned")?;
        let (m, n, k) = self.choice(
            form,
            "m16n8k4 m16n8k8 m16n8k16 m16n8k32 m8n8k4 m8n8k16",
            &[(16, 8, 4), (16, 8, 8), (16, 8, 16), (16, 8, 32), (8, 8, 4), (8, 8, 16)],
        )?;
        self.want(form, "row")?;
        self.want(form, "col")?;
        let sat = form.takes("satfinite");
        let mut kinds = [Type::F32; 4];
        for kind in &mut kinds {
            *kind = self.kind_of(form, "f16 bf16 tf32 f32 f64 s8 u8 s32")?;
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
        self.expect(form, 4)?;
        let mut list = Vec::new();
        for (index, (kind, count)) in matrix.registers().into_iter().enumerate() {
            let all = match &form.operands[index] {
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

    pub(super) fn move_matrix(&mut self, form: &mut Form<'a, '_>) -> Lowered<()> {
        self.sync(form)?;
        self.want(form, "aligned")?;
        self.want(form, "m8n8")?;
        self.expect(form, 2)?;
        if form.opcode == "movmatrix" {
            self.want(form, "trans")?;
            self.kind_of(form, "b16")?;
            let (d, a) =
                (self.destination(&form.operands[0], Type::B32)?, self.source(&form.operands[1], Type::B32)?);
            self.emit(Op::MoveMatrix, [d, a, 0, 0], 0);
            return Ok(());
        }
        let count = self.choice(form, "x1 x2 x4", &[1_u8, 2, 4])?;
        let transposed = form.takes("trans");
        self.want(form, "shared shared::cta")?;
        self.kind_of(form, "b16")?;
        let is_load = form.opcode == "ldmatrix";
        let (registers, address) = if is_load {
            (&form.operands[0], &form.operands[1])
        } else {
            (&form.operands[1], &form.operands[0])
        };
        let Some(registers) = vector(registers).filter(|it| it.len() == usize::from(count)) else {
            return Err(self.corrupt(format!("{count} registers in braces"), "another operand"));
        };
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

fn vector<'a, 'o>(operand: &'o Operand<'a>) -> Option<&'o [Operand<'a>]> {
    match operand {
        Operand::Vector(all) => Some(all),
        _ => None,
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
