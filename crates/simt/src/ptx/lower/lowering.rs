use std::collections::{HashMap, HashSet};

use rehal_base::{Fault, FormatError};

use super::super::ast::{FunctionText, InstructionText, Statement, Variable};
use super::super::lexer::error_at;
use super::super::op::{Inst, Op, Place, Reg};
use super::super::program::{Names, Program};
use super::super::types::{Bank, Type};
use super::form::Form;
use crate::function::{Function, Parameter};

pub(super) type Lowered<T> = Result<T, FormatError>;

/// A parameter or a result of a function that is called.
#[derive(Clone, Copy)]
pub(super) enum Formal {
    // In the memory of the thread.
    Memory { offset: u32, bytes: u32, align: u32 },
    Register { reg: Reg, kind: Type },
}

/// A function that is called, or lowered.
#[derive(Clone, Default)]
pub(super) struct Callee {
    pub(super) returns: Vec<Formal>,
    pub(super) parameters: Vec<Formal>,
}

/// The names of a block of statements.
#[derive(Default)]
pub(super) struct Scope<'a> {
    /// Registers by name, with their number if the name is a prefix of several.
    pub(super) declared: HashMap<&'a str, (Type, Option<u32>)>,
    pub(super) used: HashMap<&'a str, (Reg, Type)>,
    pub(super) variables: HashMap<&'a str, Named>,
    pub(super) labels: HashMap<&'a str, u32>,
    pub(super) targets: HashMap<&'a str, Vec<&'a str>>,
}

/// Where a variable is.
#[derive(Clone, Copy)]
pub(super) struct Named {
    pub(super) space: Place,
    /// In its space.
    pub(super) address: Address,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Address {
    Fixed(u64),
    /// That of the memory of the block which the launch adds.
    Dynamic,
}

/// A jump whose target is not known yet: an instruction or an entry of a list, and a label in its scopes.
pub(super) struct Jump<'a> {
    pub(super) at: usize,
    pub(super) place: JumpPlace,
    pub(super) label: &'a str,
    pub(super) scopes: Vec<usize>,
}

pub(super) enum JumpPlace {
    Instruction(usize),
    List(usize),
}

pub(super) struct Lowering<'a, 'b> {
    pub(super) names: &'b Names<'a>,
    pub(super) program: Program,
    pub(super) constants: HashMap<(bool, u64), Reg>,
    /// Constants that are addresses of the memory which the launch adds.
    pub(super) dynamic: Vec<(bool, Reg)>,
    /// Offsets of variables in the memory of a block.
    pub(super) shared: HashMap<&'a str, u32>,
    pub(super) dynamic_align: u32,
    pub(super) callees: HashMap<&'a str, Callee>,
    pub(super) entries: HashMap<&'a str, u32>,
    /// Functions to lower.
    pub(super) queue: Vec<&'a str>,
    pub(super) calls: Vec<(usize, &'a str)>,
    /// Temporary registers of the current instruction.
    pub(super) temporaries: [Vec<Reg>; 2],
    pub(super) used_temporaries: [usize; 2],
    // Of the current function:
    pub(super) function: &'b FunctionText<'a>,
    /// All scopes of it, and the indices of those that are open.
    pub(super) scopes: Vec<Scope<'a>>,
    pub(super) open: Vec<usize>,
    pub(super) jumps: Vec<Jump<'a>>,
    pub(super) edges: HashMap<&'a str, HashSet<&'a str>>,
    // Of the current instruction:
    pub(super) at: usize,
    pub(super) guard: (Reg, bool),
    pub(super) counts: bool,
}

/// Lowers a function with those that it calls.
pub(in super::super) fn lower<'a>(
    names: &Names<'a>,
    entry: &FunctionText<'a>,
) -> Lowered<(Function, Program)> {
    let mut this = Lowering {
        names,
        program: Program::default(),
        constants: HashMap::new(),
        dynamic: Vec::new(),
        shared: HashMap::new(),
        dynamic_align: 16,
        callees: HashMap::new(),
        entries: HashMap::new(),
        queue: Vec::new(),
        calls: Vec::new(),
        temporaries: Default::default(),
        used_temporaries: [0; 2],
        function: entry,
        scopes: Vec::new(),
        open: Vec::new(),
        jumps: Vec::new(),
        edges: HashMap::new(),
        at: entry.at,
        guard: (0, false),
        counts: true,
    };
    // Register 0 is the predicate that is true.
    this.constant(Bank::Short, u32::MAX.into())?;
    let parameters = this.arguments()?;
    this.function(entry)?;
    while let Some(name) = this.queue.pop() {
        if !this.entries.contains_key(name)
            && let Some(function) = this.names.functions.get(name)
        {
            this.function(function)?;
        }
    }
    this.finish(entry, parameters)
}

impl<'a, 'b> Lowering<'a, 'b> {
    pub(super) fn function(&mut self, function: &'b FunctionText<'a>) -> Lowered<()> {
        self.function = function;
        self.entries.insert(function.name, self.program.code.len() as u32);
        (self.scopes, self.open) = (vec![Scope::default()], vec![0]);
        if !function.is_entry {
            self.callee(function.name)?;
            self.name_formals(function);
        }
        for statement in function.body.iter().flatten() {
            self.statement(statement)?;
        }
        // Falling off the end returns.
        (self.guard, self.counts) = ((0, false), false);
        self.emit(Op::Return, [], 0)?;
        self.resolve_jumps()
    }

    pub(super) fn statement(&mut self, statement: &'b Statement<'a>) -> Lowered<()> {
        match statement {
            Statement::Open => {
                self.scopes.push(Scope::default());
                self.open.push(self.scopes.len() - 1);
            }
            Statement::Close => drop(self.open.pop()),
            Statement::Label { at, name } => {
                let here = self.program.code.len() as u32;
                if self.scope().labels.insert(name, here).is_some() {
                    self.at = *at;
                    return Err(self.corrupt("a label of its own", format!("'{name}' again")));
                }
            }
            Statement::Registers { at, kind, names } => {
                for (name, count) in names {
                    if self.scope().declared.insert(name, (*kind, *count)).is_some() {
                        self.at = *at;
                        return Err(self.corrupt("a register of its own", format!("'{name}' again")));
                    }
                }
            }
            Statement::Variable(variable) => self.variable(variable)?,
            Statement::Targets { name, labels } => {
                self.scope().targets.insert(name, labels.clone());
            }
            Statement::Instruction(text) => self.instruction(text)?,
        }
        Ok(())
    }

    /// The innermost open scope.
    pub(super) fn scope(&mut self) -> &mut Scope<'a> {
        let index = self.open.last().copied().unwrap_or(0);
        &mut self.scopes[index]
    }

    /// Places a variable of a function.
    pub(super) fn variable(&mut self, variable: &'b Variable<'a>) -> Lowered<()> {
        self.at = variable.at;
        let (space, bytes) = (variable.space, variable.bytes);
        // Addresses of parameters are in the memory of the thread.
        let space = if space == Place::Param { Place::Local } else { space };
        let Some(bytes) = bytes.filter(|_| matches!(space, Place::Local | Place::Shared)) else {
            return Err(self.unsupported("a variable in .local, .param or .shared", "another one"));
        };
        let address = Address::Fixed(self.memory_bytes(space, bytes, variable.align)?.into());
        if self.scope().variables.insert(variable.name, Named { space, address }).is_some() {
            return Err(self.corrupt("a variable of its own", format!("'{}' again", variable.name)));
        }
        Ok(())
    }

    /// Allocates memory of a thread or of a block.
    pub(super) fn memory_bytes(&mut self, place: Place, bytes: u64, align: u32) -> Lowered<u32> {
        let limits = &self.names.limits;
        let (used, limit, name) = match place {
            Place::Shared => (&mut self.program.shared_bytes, limits.shared_bytes, "shared"),
            _ => (&mut self.program.local_bytes, limits.local_bytes, "local"),
        };
        let offset = u64::from(*used).next_multiple_of(align.max(1).into());
        let Some(end) = offset.checked_add(bytes).filter(|it| *it <= limit.into()) else {
            return Err(self.unsupported(format!("at most {limit} bytes of {name} memory"), "more"));
        };
        *used = end as u32;
        Ok(offset as u32)
    }

    /// Declares the parameters of a kernel: their offsets in the arguments.
    pub(super) fn arguments(&mut self) -> Lowered<Vec<Parameter>> {
        let mut end = 0_u64;
        let mut all = Vec::new();
        for parameter in &self.function.parameters {
            let bytes = parameter.bytes.unwrap_or(0);
            let offset = end.next_multiple_of(parameter.align.into());
            end = offset + bytes;
            // CUDA allows 32,764 bytes ("Kernel Function Parameters").
            if end > 32_764 || (parameter.is_register && self.function.is_entry) {
                return Err(self.unsupported("parameters in memory, of at most 32764 bytes", "others"));
            }
            let is_pointer = parameter.is_pointer;
            all.push(Parameter { offset: offset as u32, bytes: bytes as u32, is_pointer });
        }
        Ok(all)
    }

    /// The places of the parameters of a function that is called.
    pub(super) fn callee(&mut self, name: &'a str) -> Lowered<Callee> {
        if let Some(known) = self.callees.get(name) {
            return Ok(known.clone());
        }
        let Some(function) = self.names.functions.get(name).copied() else {
            return Err(self.corrupt("a function of the module", format!("'{name}'")));
        };
        if function.body.is_none() || function.is_entry {
            return Err(self.unsupported("a function with a body", format!("'{name}', which has none")));
        }
        let returns = self.formals(&function.returns)?;
        let callee = Callee { returns, parameters: self.formals(&function.parameters)? };
        self.callees.insert(name, callee.clone());
        Ok(callee)
    }

    fn formals(&mut self, formals: &[Variable<'a>]) -> Lowered<Vec<Formal>> {
        let mut place = |formal: &Variable<'a>| {
            if formal.is_register {
                let reg = self.new_register(formal.kind.bank())?;
                return Ok(Formal::Register { reg, kind: formal.kind });
            }
            let (bytes, align) = (formal.bytes.unwrap_or(0), formal.align);
            let offset = self.memory_bytes(Place::Local, bytes, align)?;
            Ok(Formal::Memory { offset, bytes: bytes as u32, align })
        };
        formals.iter().map(&mut place).collect()
    }

    /// Declares the parameters of the current function under their names.
    pub(super) fn name_formals(&mut self, function: &'b FunctionText<'a>) {
        let callee = self.callees.get(function.name).cloned().unwrap_or_default();
        let formals = function.returns.iter().chain(&function.parameters);
        for (formal, place) in formals.zip(callee.returns.iter().chain(&callee.parameters)) {
            match *place {
                Formal::Memory { offset, .. } => {
                    let named = Named { space: Place::Local, address: Address::Fixed(offset.into()) };
                    self.scope().variables.insert(formal.name, named);
                }
                Formal::Register { reg, kind } => {
                    self.scope().used.insert(formal.name, (reg, kind));
                }
            }
        }
    }

    pub(super) fn instruction(&mut self, text: &'b InstructionText<'a>) -> Lowered<()> {
        self.at = text.at;
        self.counts = true;
        self.used_temporaries = [0; 2];
        self.guard = match text.guard {
            Some((name, is_negated)) => (self.predicate(name)?, is_negated),
            None => (0, false),
        };
        let mut form = Form::new(text.opcode, &text.operands);
        let before = self.program.code.len();
        self.by_opcode(&mut form)?;
        if let Some(left) = form.left() {
            return Err(self.unsupported("known modifiers", format!("'.{left}' of '{}'", text.opcode)));
        }
        // An instruction without effect is executed, too.
        match self.program.code.len() == before {
            true => self.emit(Op::Nothing, [], 0),
            false => Ok(()),
        }
    }

    /// Adds an operation with its registers: the destination and up to three sources.
    pub(super) fn emit<const N: usize>(&mut self, op: Op, registers: [Reg; N], imm: i64) -> Lowered<()> {
        let mut all = [0; 4];
        all[..N].copy_from_slice(&registers);
        let ([d, a, b, c], (guard, is_negated)) = (all, self.guard);
        let counts = std::mem::take(&mut self.counts);
        let at = self.at as u32;
        self.program.code.push(Inst { op, guard, is_negated, counts, d, a, b, c, imm, at });
        match self.program.code.len() > self.names.limits.instructions {
            true => Err(self.unsupported("a module of fewer instructions", "more")),
            false => Ok(()),
        }
    }

    pub(super) fn finish(
        mut self,
        entry: &FunctionText<'a>,
        parameters: Vec<Parameter>,
    ) -> Lowered<(Function, Program)> {
        self.reject_recursion(entry)?;
        for (index, name) in std::mem::take(&mut self.calls) {
            self.program.code[index].imm = self.entries.get(name).copied().unwrap_or(0).into();
        }
        let shared_bytes = self.program.shared_bytes;
        let dynamic = shared_bytes.next_multiple_of(self.dynamic_align);
        let uses_dynamic = !self.dynamic.is_empty();
        for (is_long, reg) in &self.dynamic {
            match is_long {
                true => self.program.long_constants.push((*reg, dynamic.into())),
                false => self.program.short_constants.push((*reg, dynamic)),
            }
        }
        let program = &mut self.program;
        program.shared_bytes = if uses_dynamic { dynamic } else { shared_bytes };
        let specials = program.specials.iter().map(|it| it.1);
        let shorts: HashSet<_> = program.short_constants.iter().map(|it| it.0).chain(specials).collect();
        let longs: HashSet<_> = program.long_constants.iter().map(|it| it.0).collect();
        program.short_variables = gaps(program.shorts, &shorts);
        program.long_variables = gaps(program.longs, &longs);
        let end = parameters.last().map_or(0, |it: &Parameter| it.offset + it.bytes);
        let function = Function {
            name: entry.name.to_owned(),
            parameters,
            argument_bytes: end,
            required_block: entry.required_block,
            max_block: entry.max_block,
            shared_bytes: program.shared_bytes,
            uses_dynamic_shared: uses_dynamic,
            local_bytes: program.local_bytes,
            instructions: program.code.iter().filter(|it| it.counts).count() as u32,
        };
        Ok((function, self.program))
    }

    /// Fails if a function can call itself: its registers exist once.
    pub(super) fn reject_recursion(&mut self, entry: &FunctionText<'a>) -> Lowered<()> {
        // Functions whose calls are all known to end, by depth-first search without recursion of ours.
        let (mut done, mut path) = (HashSet::new(), vec![(entry.name, self.callees_of(entry.name))]);
        while let Some((name, rest)) = path.last_mut() {
            let (name, next) = (*name, rest.pop());
            match next {
                Some(next) if path.iter().any(|it| it.0 == next) => {
                    return Err(
                        self.unsupported("functions without recursion", format!("'{next}' calls itself"))
                    );
                }
                Some(next) if !done.contains(next) => path.push((next, self.callees_of(next))),
                Some(_) => {}
                None => {
                    done.insert(name);
                    path.pop();
                }
            }
        }
        Ok(())
    }

    pub(super) fn callees_of(&self, name: &str) -> Vec<&'a str> {
        self.edges.get(name).into_iter().flatten().copied().collect()
    }

    pub(super) fn unsupported(&self, expected: impl Into<String>, found: impl Into<String>) -> FormatError {
        error_at(self.names.text, self.at, Fault::Unsupported, expected, found)
    }

    pub(super) fn corrupt(&self, expected: impl Into<String>, found: impl Into<String>) -> FormatError {
        error_at(self.names.text, self.at, Fault::Corrupt, expected, found)
    }
}

/// The ranges of registers below `count` that are not in a set.
fn gaps(count: u32, without: &HashSet<Reg>) -> Vec<std::ops::Range<usize>> {
    let mut all: Vec<std::ops::Range<usize>> = Vec::new();
    for reg in (0..count).filter(|it| !without.contains(it)).map(|it| it as usize) {
        match all.last_mut() {
            Some(last) if last.end == reg => last.end += 1,
            _ => all.push(reg..reg + 1),
        }
    }
    all
}
