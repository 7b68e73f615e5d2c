//! Loads, stores, copies and atomic operations.
//!
//! Source: the PTX ISA, "ld", "st", "atom", "red", "cp.async" and "Memory Consistency Model". The accesses
//! of a thread of the host are performed at once and in program order; fences order them for other ones.

use super::super::ast::Operand;
use super::super::op::{Access, Atomic, AtomicFn, Op, Place, Reg};
use super::super::types::{Bank, Type};
use super::form::Form;
use super::lowering::{Lowered, Lowering};
use super::operands::Match;
use crate::words::Word;

const ORDERS: &str = "weak volatile relaxed acquire release acq_rel";
/// The first of them that orders other accesses.
const FIRST_ORDERING: usize = 3;
const SCOPES: &str = "cta cluster gpu sys";
const CACHING: &str = "ca cg cs lu cv wb wt";
const HINTS: &str = "L1::evict_normal L1::evict_unchanged L1::evict_first L1::evict_last L1::no_allocate L2::64B \
                     L2::128B L2::256B L2::evict_first L2::evict_last L2::evict_normal";
/// The state spaces that an access names.
pub(super) const SPACES: &str = "global const shared shared::cta local param param::entry param::func";

/// Takes the state space of an access, if it names one.
pub(super) fn place(form: &mut Form<'_, '_>) -> Option<Place> {
    let word = form.left().filter(|_| form.takes(SPACES))?;
    Place::named(word.split("::").next()?)
}

impl<'a> Lowering<'a, '_> {
    /// The elements and their type, which follow the state space.
    fn elements_of(&mut self, form: &mut Form<'a, '_>) -> Lowered<(u8, Type)> {
        let count = form.one_of("v2 v4 v8").map_or(1, |it| 2 << it);
        let kind = self.kind_of(form, "b8 b16 b32 b64 u8 u16 u32 u64 s8 s16 s32 s64 f32 f64")?;
        match u32::from(count) * kind.bytes() {
            ..=32 if count < 8 || kind.bytes() == 4 => Ok((count, kind)),
            _ => Err(self.unsupported("at most 32 bytes", "a longer vector")),
        }
    }

    /// The words about order. Returns whether the access orders others.
    fn order(&mut self, form: &mut Form<'a, '_>) -> bool {
        let order = form.one_of(ORDERS);
        form.takes(SCOPES);
        order.is_some_and(|it| it >= FIRST_ORDERING)
    }

    /// Words about caches, which change no result.
    fn caching(&mut self, form: &mut Form<'a, '_>) {
        form.takes(CACHING);
        while form.takes(HINTS) {}
    }

    /// The place of an access: parameters of a function that is called are in the memory of the thread.
    fn resolved(&mut self, place: Place, operand: &Operand<'a>) -> Lowered<(Place, Reg, i64, bool)> {
        let (base, offset, is_short, space) = self.address(operand)?;
        let place = match (place, space) {
            (Place::Param, Some(Place::Local)) => Place::Local,
            (place, Some(space)) if !is_in(space, place) => {
                return Err(self.corrupt(format!("a variable in {place:?}"), format!("one in {space:?}")));
            }
            (Place::Generic | Place::Global, None) if is_short => {
                return Err(self.corrupt("an address of 64 bits", "one of 32 bits"));
            }
            (place, _) => place,
        };
        Ok((place, base, offset, is_short))
    }

    pub(super) fn load(&mut self, form: &mut Form<'a, '_>) -> Lowered<()> {
        let is_acquire = self.order(form);
        let place = place(form).unwrap_or(Place::Generic);
        if form.opcode == "ldu" && !matches!(place, Place::Global | Place::Generic) {
            return Err(self.corrupt("global memory", format!("{place:?}")));
        }
        self.caching(form);
        if form.opcode == "ld" && place == Place::Global {
            form.takes("nc");
            self.caching(form);
        }
        let (count, kind) = self.elements_of(form)?;
        self.expect(form, 2)?;
        let (place, base, offset, short_address) = self.resolved(place, &form.operands[1])?;
        let registers = self.vector(&form.operands[0], count)?;
        let mut targets = Vec::new();
        for operand in registers {
            targets.push(self.target(operand, kind, Match::Wider)?);
        }
        let long = targets.first().is_some_and(|it| it.1.bank() == Bank::Long);
        if targets.iter().any(|it| (it.1.bank() == Bank::Long) != long) {
            return Err(self.unsupported("registers of the same size", "others"));
        }
        let access =
            Access { place, bytes: kind.bytes() as u8, signed: kind.is_signed(), count, long, short_address };
        let registers: Vec<_> = targets.iter().map(|it| it.0).collect();
        let list = if count > 1 { self.list(&registers) as u32 } else { 0 };
        self.emit(Op::Load(access), [registers[0], base, 0, list], offset)?;
        // A signed byte in a register of 16 bits.
        if kind == Type::S8 && targets[0].1.bits() == 16 {
            for reg in registers {
                self.emit(Op::Narrow { bits: 8, signed: true, to: 16 }, [reg, reg], 0)?;
            }
        }
        if is_acquire { self.emit(Op::Fence, [], 0) } else { Ok(()) }
    }

    /// The operands of a vector, or the only one.
    fn vector<'o>(&self, operand: &'o Operand<'a>, count: u8) -> Lowered<&'o [Operand<'a>]> {
        match operand {
            Operand::Vector(all) if all.len() == usize::from(count) => Ok(all),
            Operand::Vector(_) => Err(self.corrupt(format!("{count} registers"), "another number")),
            _ if count == 1 => Ok(std::slice::from_ref(operand)),
            _ => Err(self.corrupt(format!("{count} registers in braces"), "another operand")),
        }
    }

    pub(super) fn store(&mut self, form: &mut Form<'a, '_>) -> Lowered<()> {
        if self.order(form) {
            self.emit(Op::Fence, [], 0)?;
        }
        let place = place(form).unwrap_or(Place::Generic);
        self.caching(form);
        let (count, kind) = self.elements_of(form)?;
        self.expect(form, 2)?;
        let (place, base, offset, short_address) = self.resolved(place, &form.operands[0])?;
        if place == Place::Param || place == Place::Const {
            return Err(self.corrupt("memory that can be written", format!("{place:?}")));
        }
        let mut sources = Vec::new();
        for operand in self.vector(&form.operands[1], count)? {
            let (reg, given) = self.origin(operand, kind, Match::Wider)?;
            sources.push(match (given.bank(), kind.bank()) {
                (Bank::Long, Bank::Short) => {
                    let t = self.temporary(Bank::Short)?;
                    self.emit(Op::Truncate, [t, reg], 0)?;
                    t
                }
                _ => reg,
            });
        }
        let long = kind.bank() == Bank::Long;
        let access = Access { place, bytes: kind.bytes() as u8, signed: false, count, long, short_address };
        let list = if count > 1 { self.list(&sources) as u32 } else { 0 };
        self.emit(Op::Store(access), [0, base, sources[0], list], offset)
    }

    pub(super) fn atomic(&mut self, form: &mut Form<'a, '_>) -> Lowered<()> {
        let returns = form.opcode == "atom";
        self.order(form);
        let place = if form.takes("global") {
            Place::Global
        } else if form.takes("shared shared::cta") {
            Place::Shared
        } else {
            Place::Generic
        };
        let f = self.word(form)?;
        let halves = f == AtomicFn::Add && form.takes("noftz");
        let kind = self.kind_of(form, if halves { "f16 f16x2 bf16 bf16x2" } else { atomic_kinds(f) })?;
        if !returns && matches!(f, AtomicFn::Exch | AtomicFn::Cas) {
            return Err(self.corrupt("an operation without a result", "one with a result"));
        }
        let sources = if f == AtomicFn::Cas { 2 } else { 1 };
        let first = usize::from(returns);
        self.expect(form, first + 1 + sources)?;
        let d =
            if returns { self.destination(&form.operands[0], kind)? } else { self.temporary(kind.bank())? };
        let (place, base, offset, short_address) = self.resolved(place, &form.operands[first])?;
        let b = self.source(&form.operands[first + 1], kind)?;
        let c = if sources == 2 { self.source(&form.operands[first + 2], kind)? } else { 0 };
        let atomic = Atomic { f, kind, place, short_address, returns };
        self.emit(Op::Atomic(atomic), [d, base, b, c], offset)
    }

    /// `cp.async` and the instructions that wait for it: the copy is done at once.
    pub(super) fn copy_async(&mut self, form: &mut Form<'a, '_>) -> Lowered<()> {
        self.want(form, "async")?;
        if let Some(word) = form.one_of("commit_group wait_all wait_group") {
            self.expect(form, word / 2)?;
            return form.operands.iter().try_for_each(|it| self.integer(it, 1 << 31).map(drop));
        }
        let through = self.want(form, "ca cg")? == 1;
        self.want(form, "shared shared::cta")?;
        self.want(form, "global")?;
        while form.takes(HINTS) {}
        self.expect_within(form, 3, 4)?;
        let (to, offset, short_address, _) = self.address(&form.operands[0])?;
        let (from, from_offset, short_from, _) = self.address(&form.operands[1])?;
        let bytes = self.integer(&form.operands[2], 17)?;
        if short_from || !(bytes == 16 || (!through && (bytes == 4 || bytes == 8))) {
            return Err(self.corrupt("4, 8 or 16 bytes, 16 with .cg", format!("{bytes} bytes")));
        }
        let sized = form.operands.len() == 4;
        let size = if sized { self.source(&form.operands[3], Type::U32)? } else { 0 };
        let halves = [from_offset, from_offset >> 32, offset, offset >> 32];
        let list = self.list(&halves.map(|it| it as u32));
        let op = Op::CopyAsync { bytes: bytes as u8, short_address, sized };
        self.emit(op, [0, to, from, size], list)
    }

    /// Fences, and prefetches and waits: accesses are performed at once, and time does not pass.
    pub(super) fn fence(&mut self, form: &mut Form<'a, '_>) -> Lowered<()> {
        match form.opcode {
            "membar" => self.want(form, "cta gl sys").map(drop)?,
            "fence" => {
                form.takes("sc acq_rel acquire release");
                self.want(form, SCOPES)?;
            }
            "griddepcontrol" => self.want(form, "launch_dependents wait").map(drop)?,
            "nanosleep" => {
                self.kind_of(form, "u32")?;
                self.expect(form, 1)?;
                return self.source(&form.operands[0], Type::U32).map(drop);
            }
            "pmevent" => {
                form.takes("mask");
                self.expect(form, 1)?;
                return self.integer(&form.operands[0], 1 << 16).map(drop);
            }
            _ => {
                place(form);
                if !form.takes("L1 L2") {
                    self.want(form, HINTS)?;
                }
                self.expect_within(form, 1, 2)?;
                return self.address(&form.operands[0]).map(drop);
            }
        }
        self.expect(form, 0)?;
        self.emit(Op::Fence, [], 0)
    }
}

/// The types of an atomic operation.
fn atomic_kinds(f: AtomicFn) -> &'static str {
    match f {
        AtomicFn::Add => "u32 s32 u64 f32 f64",
        AtomicFn::Min | AtomicFn::Max => "u32 s32 u64 s64",
        AtomicFn::Inc | AtomicFn::Dec => "u32",
        AtomicFn::Cas => "b16 b32 b64",
        AtomicFn::And | AtomicFn::Or | AtomicFn::Xor | AtomicFn::Exch => "b32 b64",
    }
}

/// Whether a variable of a space is in the place that an instruction names.
pub(super) fn is_in(space: Place, place: Place) -> bool {
    space == if place == Place::Generic { Place::Global } else { place }
}
