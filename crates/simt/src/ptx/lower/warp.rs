//! Instructions of a warp or of a block together.
//!
//! Source: the PTX ISA, "Parallel Synchronization and Communication Instructions" and "Warp Level Matrix
//! Multiply-Accumulate Instructions".

use super::super::ast::Operand;
use super::super::op::{BarrierKind, Matrix, Op, Reg, Vote};
use super::super::types::{Bank, Type};
use super::form::Form;
use super::lowering::{Lowered, Lowering};

impl<'a> Lowering<'a, '_> {
    /// Two destinations, of which the second, a predicate, may be missing.
    fn pair(&mut self, operand: &Operand<'a>, allowed: bool) -> Lowered<[Reg; 2]> {
        match operand {
            Operand::Pair(d, p) if allowed => Ok([
                self.destination(&Operand::Name(d), Type::B32)?,
                self.destination(&Operand::Name(p), Type::Pred)?,
            ]),
            target => Ok([self.destination(target, Type::B32)?, self.temporary(Bank::Short)?]),
        }
    }

    pub(super) fn shuffle(&mut self, form: &mut Form<'a, '_>) -> Lowered<()> {
        self.want(form, "sync")?;
        let mode = self.word(form)?;
        self.kind_of(form, "b32")?;
        self.expect(form, 5)?;
        let [d, p] = self.pair(&form.operands[0], true)?;
        let sources = self.all(&form.operands[1..], Type::B32, false)?;
        let list = self.list(&[sources[3], p]);
        self.emit(Op::Shuffle(mode), [d, sources[0], sources[1], sources[2]], list)
    }

    /// An instruction with a destination, a source, and the mask of the lanes that take part.
    fn among(&mut self, form: &Form<'a, '_>, op: Op, kind: Type, source: Type) -> Lowered<()> {
        let [d, a, members] = self.registers(form, [kind, source, Type::U32])?;
        let list = self.list(&[members]);
        self.emit(op, [d, a], list)
    }

    pub(super) fn vote(&mut self, form: &mut Form<'a, '_>) -> Lowered<()> {
        self.want(form, "sync")?;
        let mode = self.word(form)?;
        let kind = self.kind_of(form, if mode == Vote::Ballot { "b32" } else { "pred" })?;
        self.among(form, Op::Vote(mode), kind, Type::Pred)
    }

    pub(super) fn match_sync(&mut self, form: &mut Form<'a, '_>) -> Lowered<()> {
        let any = self.want(form, "any all")? == 0;
        self.want(form, "sync")?;
        let kind = self.kind_of(form, "b32 b64")?;
        self.expect(form, 3)?;
        let [d, p] = self.pair(&form.operands[0], !any)?;
        let (a, members) =
            (self.source(&form.operands[1], kind)?, self.source(&form.operands[2], Type::U32)?);
        let (long, list) = (kind == Type::B64, self.list(&[members]));
        self.emit(if any { Op::MatchAny { long } } else { Op::MatchAll { long } }, [d, a, p], list)
    }

    pub(super) fn redux(&mut self, form: &mut Form<'a, '_>) -> Lowered<()> {
        self.want(form, "sync")?;
        let word = ["add", "min", "max", "and", "or", "xor"][self.want(form, "add min max and or xor")?];
        let is_bits = matches!(word, "and" | "or" | "xor");
        let kind = self.kind_of(form, if is_bits { "b32" } else { "u32 s32" })?;
        let op = Op::Redux(self.int_op(word, kind)?);
        self.among(form, op, kind, kind)
    }

    pub(super) fn barrier(&mut self, form: &mut Form<'a, '_>) -> Lowered<()> {
        if form.takes("warp") {
            self.want(form, "sync")?;
            self.expect(form, 1)?;
            let members = self.source(&form.operands[0], Type::U32)?;
            let list = self.list(&[members]);
            return self.emit(Op::SyncWarp, [], list);
        }
        form.takes("cta");
        let mode = self.want(form, "sync arrive red")?;
        let kind = match mode {
            0 => BarrierKind::Sync,
            1 => BarrierKind::Arrive,
            _ => self.word(form)?,
        };
        form.takes("aligned");
        let (mut d, mut c, mut rest) = (0, 0, form.operands);
        if mode == 2 {
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
        let threads = if rest.len() == 2 { self.source(&rest[1], Type::U32)? } else { 0 };
        self.emit(Op::Barrier(kind), [d, id, threads, c], i64::from(rest.len() == 2))
    }

    pub(super) fn mma(&mut self, form: &mut Form<'a, '_>) -> Lowered<()> {
        const SHAPES: [(u8, u8, u8); 6] =
            [(16, 8, 4), (16, 8, 8), (16, 8, 16), (16, 8, 32), (8, 8, 4), (8, 8, 16)];
        self.want(form, "sync")?;
        self.want(form, "aligned")?;
        let (m, n, k) = SHAPES[self.want(form, "m16n8k4 m16n8k8 m16n8k16 m16n8k32 m8n8k4 m8n8k16")?];
        self.want(form, "row")?;
        self.want(form, "col")?;
        let sat = form.takes("satfinite");
        let mut kinds = [Type::F32; 4];
        for kind in &mut kinds {
            *kind = self.kind_of(form, "f16 bf16 tf32 f32 f64 s8 u8 s32")?;
        }
        let [d, a, b, c] = kinds;
        let accumulates = |kind: Type| d == kind && c == kind;
        let is_half = |kind: Type| matches!(kind, Type::F16 | Type::F32);
        let is_known = match (a, m, k) {
            (Type::F16, 16, 8 | 16) => is_half(d) && is_half(c),
            (Type::Bf16, 16, 8 | 16) | (Type::Tf32, 16, 4 | 8) => accumulates(Type::F32),
            (Type::S8 | Type::U8, 16, 16 | 32) | (Type::S8 | Type::U8, 8, 16) => accumulates(Type::S32),
            (Type::F64, 8, 4) | (Type::F64, 16, 4 | 8 | 16) => accumulates(Type::F64),
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
            list.extend(self.fragment(&form.operands[index], kind, count, index == 0)?);
        }
        let list = self.list(&list);
        self.emit(Op::Mma(matrix), [], list)
    }

    /// The registers of a part of a matrix.
    fn fragment(&mut self, operand: &Operand<'a>, kind: Type, count: usize, is_d: bool) -> Lowered<Vec<Reg>> {
        match operand {
            Operand::Vector(all) if all.len() == count => self.all(all, kind, is_d),
            Operand::Name(_) if count == 1 => self.all(std::slice::from_ref(operand), kind, is_d),
            _ => Err(self.corrupt(format!("{count} registers in braces"), "another operand")),
        }
    }

    pub(super) fn move_matrix(&mut self, form: &mut Form<'a, '_>) -> Lowered<()> {
        self.want(form, "sync")?;
        self.want(form, "aligned")?;
        self.want(form, "m8n8")?;
        if form.opcode == "movmatrix" {
            self.want(form, "trans")?;
            self.kind_of(form, "b16")?;
            return self.plain(form, Op::MoveMatrix, [Type::B32; 2]);
        }
        self.expect(form, 2)?;
        let count = 1 << self.want(form, "x1 x2 x4")?;
        let transposed = form.takes("trans");
        self.want(form, "shared shared::cta")?;
        self.kind_of(form, "b16")?;
        let is_load = form.opcode == "ldmatrix";
        let (registers, address) = if is_load { (0, 1) } else { (1, 0) };
        let (base, offset, short, _) = self.address(&form.operands[address])?;
        let mut list = vec![offset as u32, u32::from(short)];
        list.extend(self.fragment(&form.operands[registers], Type::B32, count.into(), is_load)?);
        let list = self.list(&list);
        let op = match is_load {
            true => Op::LoadMatrix { count, transposed },
            false => Op::StoreMatrix { count, transposed },
        };
        self.emit(op, [0, base], list)
    }
}

impl Matrix {
    /// The types and numbers of the registers of d, a, b and c.
    pub(in super::super) fn registers(&self) -> [(Type, usize); 4] {
        let of = |kind: Type, rows: u8, columns: u8| {
            let count = usize::from(rows) * usize::from(columns) / 32;
            match kind {
                Type::F16 => (Type::F16x2, count / 2),
                Type::Bf16 => (Type::B32, count / 2),
                Type::S8 | Type::U8 => (Type::B32, count / 4),
                Type::Tf32 => (Type::B32, count),
                other => (other, count),
            }
        };
        let Self { m, n, k, .. } = *self;
        [of(self.d, m, n), of(self.a, m, k), of(self.b, k, n), of(self.c, m, n)]
    }
}
