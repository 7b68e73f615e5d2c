//! Loads, stores, copies and atomic operations.
//!
//! Source: the PTX ISA, "ld", "st", "atom", "red", "cp.async" and "Memory Consistency Model". Every access is
//! performed at once and in program order, which is stronger than each of the orders that a name can ask for.

use super::super::ast::{Operand, Space};
use super::super::op::{Access, Atomic, AtomicFn, Op, Place, Reg};
use super::super::types::{Bank, Type};
use super::convert::is_in;
use super::modifiers::Modifiers;
use super::operands::Match;
use super::{Lowered, Lowering};

const ORDERS: [(&str, ()); 6] =
    [("weak", ()), ("volatile", ()), ("relaxed", ()), ("acquire", ()), ("release", ()), ("acq_rel", ())];
const SCOPES: [(&str, ()); 4] = [("cta", ()), ("cluster", ()), ("gpu", ()), ("sys", ())];
const CACHING: [(&str, ()); 8] =
    [("ca", ()), ("cg", ()), ("cs", ()), ("lu", ()), ("cv", ()), ("wb", ()), ("wt", ()), ("nc", ())];
const HINTS: [(&str, ()); 11] = [
    ("L1::evict_normal", ()),
    ("L1::evict_unchanged", ()),
    ("L1::evict_first", ()),
    ("L1::evict_last", ()),
    ("L1::no_allocate", ()),
    ("L2::64B", ()),
    ("L2::128B", ()),
    ("L2::256B", ()),
    ("L2::evict_first", ()),
    ("L2::evict_last", ()),
    ("L2::evict_normal", ()),
];

impl<'a> Lowering<'a, '_> {
    fn place(&mut self, parts: &mut Modifiers<'a>) -> Place {
        let place = parts.one_of(&[
            ("global", Place::Global),
            ("const", Place::Const),
            ("shared", Place::Shared),
            ("shared::cta", Place::Shared),
            ("local", Place::Local),
            ("param", Place::Argument),
            ("param::entry", Place::Argument),
            ("param::func", Place::Argument),
        ]);
        place.unwrap_or(Place::Generic)
    }

    /// What follows the state space: elements and their type.
    fn elements_of(&mut self, parts: &mut Modifiers<'a>) -> Lowered<(u8, Type)> {
        let count = parts.one_of(&[("v2", 2), ("v4", 4), ("v8", 8)]).unwrap_or(1);
        let all = [
            Type::B8,
            Type::B16,
            Type::B32,
            Type::B64,
            Type::U8,
            Type::U16,
            Type::U32,
            Type::U64,
            Type::S8,
            Type::S16,
            Type::S32,
            Type::S64,
            Type::F32,
            Type::F64,
        ];
        let kind = self.kind_of(parts, &all)?;
        match u32::from(count) * kind.bytes() {
            ..=32 if count < 8 || kind.bytes() == 4 => Ok((count, kind)),
            _ => Err(self.unsupported("at most 32 bytes", "a longer vector")),
        }
    }

    /// Words about order and caches between the opcode and the type, which change no result here.
    fn order(&mut self, parts: &mut Modifiers<'a>) {
        parts.one_of(&ORDERS);
        parts.one_of(&SCOPES);
    }

    fn caching(&mut self, parts: &mut Modifiers<'a>) {
        parts.one_of(&CACHING);
        while parts.one_of(&HINTS).is_some() {}
    }

    /// The place of an access: parameters of a function that is called are in the memory of the thread.
    fn resolved(&mut self, place: Place, operand: &Operand<'a>) -> Lowered<(Place, Reg, i64, bool)> {
        let (base, offset, is_short, space) = self.address(operand)?;
        let place = match (place, space) {
            (Place::Argument, Some(Space::Local)) => Place::Local,
            (Place::Generic, Some(Space::Shared)) => Place::Shared,
            (Place::Generic, Some(Space::Local)) => Place::Local,
            (Place::Generic, Some(Space::Param)) => Place::Argument,
            (place, Some(space)) if !is_in(space, place) => {
                return Err(self.corrupt(format!("a variable in {place:?}"), format!("one in {space:?}")));
            }
            (place, _) => place,
        };
        Ok((place, base, offset, is_short))
    }

    pub(super) fn load(
        &mut self,
        opcode: &str,
        parts: &mut Modifiers<'a>,
        operands: &[Operand<'a>],
    ) -> Lowered<()> {
        self.order(parts);
        let place = self.place(parts);
        if opcode == "ldu" && !matches!(place, Place::Global | Place::Generic) {
            return Err(self.corrupt("global memory", format!("{place:?}")));
        }
        self.caching(parts);
        let (count, kind) = self.elements_of(parts)?;
        self.expect(operands, 2)?;
        let (place, base, offset, short_address) = self.resolved(place, &operands[1])?;
        let registers = self.vector(&operands[0], count)?;
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
        self.emit(Op::Load(access), [registers[0], base, 0, list], offset);
        // A signed byte in a register of 16 bits.
        if kind == Type::S8 && targets[0].1.bits() == 16 {
            for reg in registers {
                self.emit(Op::Narrow { bits: 8, signed: true, to: 16 }, [reg, reg, 0, 0], 0);
            }
        }
        Ok(())
    }

    /// The operands of a vector, or the only one.
    fn vector<'o>(&self, operand: &'o Operand<'a>, count: u8) -> Lowered<&'o [Operand<'a>]> {
        match operand {
            Operand::Vector(all) if all.len() == usize::from(count) && count > 1 => Ok(all),
            Operand::Vector(all) if count == 1 && all.len() == 1 => Ok(all),
            Operand::Vector(_) => Err(self.corrupt(format!("{count} registers"), "another number")),
            _ if count == 1 => Ok(std::slice::from_ref(operand)),
            _ => Err(self.corrupt(format!("{count} registers in braces"), "another operand")),
        }
    }

    pub(super) fn store(&mut self, parts: &mut Modifiers<'a>, operands: &[Operand<'a>]) -> Lowered<()> {
        self.order(parts);
        let place = self.place(parts);
        self.caching(parts);
        let (count, kind) = self.elements_of(parts)?;
        self.expect(operands, 2)?;
        let (place, base, offset, short_address) = self.resolved(place, &operands[0])?;
        if place == Place::Argument || place == Place::Const {
            return Err(self.corrupt("memory that can be written", format!("{place:?}")));
        }
        let mut sources = Vec::new();
        for operand in self.vector(&operands[1], count)? {
            let (reg, given) = self.origin(operand, kind, Match::Wider)?;
            sources.push(match (given.bank(), kind.bank()) {
                (Bank::Long, Bank::Short) => {
                    let t = self.temporary(Bank::Short)?;
                    self.emit(Op::Truncate, [t, reg, 0, 0], 0);
                    t
                }
                _ => reg,
            });
        }
        let long = kind.bank() == Bank::Long;
        let access = Access { place, bytes: kind.bytes() as u8, signed: false, count, long, short_address };
        let list = if count > 1 { self.list(&sources) as u32 } else { 0 };
        self.emit(Op::Store(access), [0, base, sources[0], list], offset);
        Ok(())
    }

    pub(super) fn atomic(
        &mut self,
        opcode: &str,
        parts: &mut Modifiers<'a>,
        operands: &[Operand<'a>],
    ) -> Lowered<()> {
        let returns = opcode == "atom";
        self.order(parts);
        let place = parts.one_of(&[
            ("global", Place::Global),
            ("shared", Place::Shared),
            ("shared::cta", Place::Shared),
        ]);
        let f = parts.one_of(&[
            ("add", AtomicFn::Add),
            ("min", AtomicFn::Min),
            ("max", AtomicFn::Max),
            ("inc", AtomicFn::Inc),
            ("dec", AtomicFn::Dec),
            ("and", AtomicFn::And),
            ("or", AtomicFn::Or),
            ("xor", AtomicFn::Xor),
            ("exch", AtomicFn::Exch),
            ("cas", AtomicFn::Cas),
        ]);
        let f = self.part(f, parts, "an atomic operation")?;
        if f == AtomicFn::Add {
            parts.takes("noftz");
        }
        let kind = self.kind_of(parts, atomic_kinds(f))?;
        if !returns && matches!(f, AtomicFn::Exch | AtomicFn::Cas) {
            return Err(self.corrupt("an operation without a result", "one with a result"));
        }
        let sources = if f == AtomicFn::Cas { 2 } else { 1 };
        let first = usize::from(returns);
        self.expect(operands, first + 1 + sources)?;
        let d = if returns { self.destination(&operands[0], kind)? } else { self.temporary(kind.bank())? };
        let (place, base, offset, short_address) =
            self.resolved(place.unwrap_or(Place::Generic), &operands[first])?;
        let b = self.source(&operands[first + 1], kind)?;
        let c = if sources == 2 { self.source(&operands[first + 2], kind)? } else { 0 };
        let atomic = Atomic { f, kind, place, short_address, returns };
        self.emit(Op::Atomic(atomic), [d, base, b, c], offset);
        Ok(())
    }

    /// `cp.async` and the instructions that wait for it: the copy is done at once.
    pub(super) fn copy_async(&mut self, parts: &mut Modifiers<'a>, operands: &[Operand<'a>]) -> Lowered<()> {
        self.part(parts.takes("async").then_some(()), parts, "cp.async")?;
        match parts.one_of(&[("commit_group", 0), ("wait_group", 1), ("wait_all", 0)]) {
            Some(count) => {
                self.expect(operands, count)?;
                if count == 1 {
                    self.integer(&operands[0], 1 << 31)?;
                }
                return Ok(());
            }
            None => {
                let through = self.part(parts.one_of(&[("ca", false), ("cg", true)]), parts, ".ca or .cg")?;
                self.part(parts.one_of(&[("shared", ()), ("shared::cta", ())]), parts, ".shared")?;
                self.part(parts.takes("global").then_some(()), parts, ".global")?;
                while parts.one_of(&HINTS).is_some() {}
                self.expect_within(operands, 3, 4)?;
                let (to, offset, short, _) = self.address(&operands[0])?;
                let (from, from_offset, short_from, _) = self.address(&operands[1])?;
                let bytes = self.integer(&operands[2], 17)?;
                if short_from || !(bytes == 16 || (!through && (bytes == 4 || bytes == 8))) {
                    return Err(self.corrupt("4, 8 or 16 bytes, 16 with .cg", format!("{bytes} bytes")));
                }
                let size = match operands.get(3) {
                    Some(operand) => self.source(operand, Type::U32)?,
                    None => 0,
                };
                let list = self.list(&[
                    from_offset as u32,
                    (from_offset >> 32) as u32,
                    offset as u32,
                    (offset >> 32) as u32,
                ]);
                let op =
                    Op::CopyAsync { bytes: bytes as u8, short_address: short, sized: operands.len() == 4 };
                self.emit(op, [0, to, from, size], list);
            }
        }
        Ok(())
    }

    /// Fences, prefetches and waits: every access is done at once, and time does not pass.
    pub(super) fn without_effect(
        &mut self,
        opcode: &str,
        parts: &mut Modifiers<'a>,
        operands: &[Operand<'a>],
    ) -> Lowered<()> {
        match opcode {
            "membar" => {
                let scope = parts.one_of(&[("cta", ()), ("gl", ()), ("sys", ())]);
                self.part(scope, parts, "a scope")?;
                self.expect(operands, 0)
            }
            "fence" => {
                parts.one_of(&[("sc", ()), ("acq_rel", ()), ("acquire", ()), ("release", ())]);
                self.part(parts.one_of(&SCOPES), parts, "a scope")?;
                self.expect(operands, 0)
            }
            "nanosleep" => {
                self.kind_of(parts, &[Type::U32])?;
                self.expect(operands, 1)?;
                self.source(&operands[0], Type::U32).map(drop)
            }
            "pmevent" => {
                parts.takes("mask");
                self.expect(operands, 1)?;
                self.integer(&operands[0], 1 << 16).map(drop)
            }
            "griddepcontrol" => {
                let what = parts.one_of(&[("launch_dependents", ()), ("wait", ())]);
                self.part(what, parts, "launch_dependents or wait")?;
                self.expect(operands, 0)
            }
            _ => {
                self.place(parts);
                let level = parts.one_of(&[("L1", ()), ("L2", ())]).or_else(|| parts.one_of(&HINTS));
                self.part(level, parts, "a level of the cache")?;
                self.expect_within(operands, 1, 2)?;
                self.address(&operands[0]).map(drop)
            }
        }
    }
}

/// The types of an atomic operation.
fn atomic_kinds(f: AtomicFn) -> &'static [Type] {
    match f {
        AtomicFn::Add => &[
            Type::U32,
            Type::S32,
            Type::U64,
            Type::F32,
            Type::F64,
            Type::F16,
            Type::F16x2,
            Type::Bf16,
            Type::Bf16x2,
            Type::S64,
        ],
        AtomicFn::Min | AtomicFn::Max => &[Type::U32, Type::S32, Type::U64, Type::S64],
        AtomicFn::Inc | AtomicFn::Dec => &[Type::U32],
        AtomicFn::Cas => &[Type::B16, Type::B32, Type::B64],
        AtomicFn::And | AtomicFn::Or | AtomicFn::Xor | AtomicFn::Exch => &[Type::B32, Type::B64],
    }
}
