//! Which function lowers an opcode; jumps and calls.

use super::super::ast::Operand;
use super::super::op::{Access, Op, Place, Reg};
use super::super::types::{Bank, Type};
use super::form::Form;
use super::lowering::{Formal, Jump, JumpPlace, Lowered, Lowering};

impl<'a, 'b> Lowering<'a, 'b> {
    pub(super) fn by_opcode(&mut self, form: &mut Form<'a, 'b>) -> Lowered<()> {
        let opcode = form.opcode;
        match opcode {
            "add" | "sub" | "mul" | "div" | "min" | "max" | "abs" | "neg" | "mad" => match form.last_kind() {
                Some(kind) if kind.is_float() => self.float(form),
                _ => self.integer_arithmetic(form),
            },
            "fma" | "rcp" | "sqrt" | "rsqrt" | "sin" | "cos" | "ex2" | "lg2" | "tanh" => self.float(form),
            "copysign" => self.copysign(form),
            "testp" => self.testp(form),
            "addc" | "subc" | "madc" => self.with_carry(form),
            "rem" | "sad" | "mul24" | "mad24" => self.integer_arithmetic(form),
            "and" | "or" | "xor" | "not" | "cnot" | "shl" | "shr" => self.logic(form),
            "popc" | "clz" | "bfind" | "brev" | "bfe" | "bfi" | "bmsk" | "fns" => self.bits(form),
            "shf" | "prmt" | "lop3" | "dp4a" | "dp2a" => self.bytes(form),
            "setp" | "set" => self.compare(form),
            "selp" | "slct" => self.select(form),
            "mov" => self.mov(form),
            "cvt" => self.cvt(form),
            "cvta" | "isspacep" => self.address_conversion(form),
            "ld" | "ldu" => self.load(form),
            "st" => self.store(form),
            "atom" | "red" => self.atomic(form),
            "cp" => self.copy_async(form),
            "prefetch" | "prefetchu" | "membar" | "fence" | "nanosleep" | "pmevent" | "discard"
            | "applypriority" | "griddepcontrol" => self.fence(form),
            "shfl" => self.shuffle(form),
            "vote" => self.vote(form),
            "match" => self.match_sync(form),
            "redux" => self.redux(form),
            "activemask" => {
                self.kind_of(form, "b32")?;
                self.plain(form, Op::ActiveMask, [Type::B32])
            }
            "bar" | "barrier" => self.barrier(form),
            "mma" => self.mma(form),
            "ldmatrix" | "stmatrix" | "movmatrix" => self.move_matrix(form),
            "bra" => self.branch(form),
            "brx" => self.branch_indexed(form),
            "call" => self.call(form),
            "ret" => self.end(form, Op::Return),
            "exit" => self.end(form, Op::Exit),
            "trap" => self.end(form, Op::Trap),
            "brkpt" => self.end(form, Op::Nothing),
            _ => Err(self.unsupported("a known instruction", format!("'{opcode}'"))),
        }
    }

    /// An instruction without operands.
    fn end(&mut self, form: &mut Form<'a, '_>, op: Op) -> Lowered<()> {
        self.expect(form, 0)?;
        if matches!(op, Op::Return | Op::Exit) {
            form.takes("uni");
        }
        self.emit(op, [], 0)
    }

    fn branch(&mut self, form: &mut Form<'a, '_>) -> Lowered<()> {
        self.expect(form, 1)?;
        form.takes("uni");
        let Operand::Name(label) = form.operands[0] else {
            return Err(self.corrupt("a label", "another operand"));
        };
        self.jump(JumpPlace::Instruction(self.program.code.len()), label);
        self.emit(Op::Branch, [], 0)
    }

    fn branch_indexed(&mut self, form: &mut Form<'a, '_>) -> Lowered<()> {
        self.expect(form, 2)?;
        self.want(form, "idx")?;
        form.takes("uni");
        let index = self.source(&form.operands[0], Type::U32)?;
        let labels = match form.operands[1] {
            Operand::Name(name) => {
                let found = self.open.iter().rev().find_map(|it| self.scopes[*it].targets.get(name));
                found.cloned().ok_or_else(|| self.corrupt("a list of targets", format!("'{name}'")))?
            }
            _ => return Err(self.corrupt("a list of targets", "another operand")),
        };
        let start = self.list(&vec![0; labels.len()]);
        for (entry, label) in labels.iter().enumerate() {
            self.jump(JumpPlace::List(start as usize + entry), label);
        }
        self.emit(Op::BranchIndexed, [labels.len() as u32, index], start)
    }

    fn jump(&mut self, place: JumpPlace, label: &'a str) {
        self.jumps.push(Jump { at: self.at, place, label, scopes: self.open.clone() });
    }

    /// Sets the targets of the jumps of a function. A label of another function is unknown here.
    pub(super) fn resolve_jumps(&mut self) -> Lowered<()> {
        for jump in std::mem::take(&mut self.jumps) {
            let found = jump.scopes.iter().rev().find_map(|it| self.scopes[*it].labels.get(jump.label));
            let Some(target) = found else {
                self.at = jump.at;
                return Err(self.corrupt("a label of this function", format!("'{}'", jump.label)));
            };
            match jump.place {
                JumpPlace::Instruction(index) => self.program.code[index].imm = i64::from(*target),
                JumpPlace::List(index) => self.program.lists[index] = *target,
            }
        }
        Ok(())
    }

    fn call(&mut self, form: &mut Form<'a, '_>) -> Lowered<()> {
        form.takes("uni");
        let none = Vec::new();
        let (returns, rest) = match form.operands {
            [Operand::List(returns), rest @ ..] => (returns, rest),
            rest => (&none, rest),
        };
        let (name, arguments) = match rest {
            [Operand::Name(name)] => (*name, &none),
            [Operand::Name(name), Operand::List(arguments)] => (*name, arguments),
            _ => return Err(self.unsupported("the name of a function and its arguments", "another call")),
        };
        if self.register(name)?.is_some() {
            return Err(
                self.unsupported("the name of a function", format!("a call by the address in '{name}'"))
            );
        }
        if name == "__assertfail" {
            return self.emit(Op::Trap, [], 0);
        }
        let callee = self.callee(name)?;
        if callee.parameters.len() != arguments.len() || callee.returns.len() != returns.len() {
            let expected =
                format!("{} arguments and {} results", callee.parameters.len(), callee.returns.len());
            return Err(self.corrupt(expected, format!("{} and {}", arguments.len(), returns.len())));
        }
        for (formal, argument) in callee.parameters.iter().zip(arguments) {
            self.pass(*formal, argument, true)?;
        }
        self.edges.entry(self.function.name).or_default().insert(name);
        self.calls.push((self.program.code.len(), name));
        self.queue.push(name);
        self.emit(Op::Call, [], 0)?;
        for (formal, result) in callee.returns.iter().zip(returns) {
            self.pass(*formal, result, false)?;
        }
        Ok(())
    }

    /// Copies an argument to its parameter, or a result from its place.
    fn pass(&mut self, formal: Formal, operand: &Operand<'a>, is_argument: bool) -> Lowered<()> {
        match formal {
            Formal::Register { reg, kind } => {
                let mov = if kind.bank() == Bank::Long { Op::MovLong } else { Op::Mov };
                let (to, from) = if is_argument {
                    (reg, self.source(operand, kind)?)
                } else {
                    (self.destination(operand, kind)?, reg)
                };
                self.emit(mov, [to, from], 0)
            }
            Formal::Memory { offset, bytes, align } => {
                let named = match operand {
                    Operand::Name(name) => self.named(name)?,
                    _ => None,
                };
                let Some(named) = named else {
                    return Err(self.unsupported("a variable in .param", "another argument"));
                };
                let other = self.address_of(named, Bank::Long)?;
                let own = self.constant(Bank::Long, offset.into())?;
                let (to, from) = if is_argument { (own, other) } else { (other, own) };
                let is_own = named.space == Place::Param && is_argument;
                let place = if is_own { Place::Param } else { Place::Local };
                self.copy(to, from, bytes, align, place)
            }
        }
    }

    /// Copies bytes between parameters, in pieces as large as their alignment allows.
    fn copy(&mut self, to: Reg, from: Reg, bytes: u32, align: u32, place: Place) -> Lowered<()> {
        let through = self.temporary(Bank::Long)?;
        let mut offset = 0;
        while offset < bytes {
            let mut size = align.min(8);
            while size > bytes - offset {
                size /= 2;
            }
            let access = |place| {
                let bytes = size as u8;
                Access { place, bytes, signed: false, count: 1, long: true, short_address: false }
            };
            self.emit(Op::Load(access(place)), [through, from], offset.into())?;
            self.emit(Op::Store(access(Place::Local)), [0, to, through], offset.into())?;
            offset += size;
        }
        Ok(())
    }
}
