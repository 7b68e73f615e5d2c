//! Differential test: random programs behave the same with and without superinstructions and coalescing.

mod assembly;
mod random_program;

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use rehal_base::{MappedFile, StatusCode};

use crate::code::{Code, Insn};
use crate::globals::Globals;
use crate::interpret::{Instance, Machine, ModuleView, Modules, Outcome, Target};
use crate::liveness::Liveness;
use crate::lower::lower;
use crate::module_file::{Features, FunctionDescriptor};
use crate::operation::Op;
use crate::program::Program;
use crate::registers::{MOVE_BIT, REF_BIT};
use crate::superinstructions::{self, SUPERINSTRUCTIONS};
use crate::tables::{Function, Tables};
use crate::verify::verify;
use crate::{Budget, Buffer, Convention, ModuleFile, Ref, Resumed, Value};

use assembly::{Assembled, Assembly};
use random_program::{CALLEE_CONVENTION, CONVENTION, GLOBAL_BYTES, REFS, REGISTERS, Random, RandomProgram};

/// Number of programs executed.
const PROGRAMS: usize = 4600;
/// Minimum executions of each superinstruction by the programs.
const EXECUTIONS: u64 = 5;

thread_local! {
    /// Executions of each superinstruction by this thread.
    static EXECUTED: RefCell<HashMap<&'static str, u64>> = RefCell::default();
}

/// Counts an instruction that is executed on a budget.
pub(crate) fn executes(insn: Insn) {
    if let Some(name) = superinstructions::name(insn) {
        EXECUTED.with_borrow_mut(|executed| *executed.entry(name).or_default() += 1);
    }
}

struct Alone {
    program: Program,
    instance: Instance,
}

impl Modules for Alone {
    fn module(&self, _index: u32) -> ModuleView<'_> {
        ModuleView::Bytecode { program: &self.program, instance: &self.instance }
    }
}

impl Alone {
    /// A program whose functions are lowered with or without optimization; the names come from `file`.
    fn new(file: &ModuleFile, program: &RandomProgram, optimizes: bool) -> Self {
        let parts = [(CONVENTION, &program.function), (CALLEE_CONVENTION, &program.callee)];
        let tables = tables(parts);
        let codes = parts.iter().enumerate().map(|(ordinal, (_, Assembled { bytecode, .. }))| {
            let frame = verify(&tables, &tables.functions[ordinal], bytecode).unwrap();
            lower(&tables, ordinal as u32, frame, bytecode, optimizes).unwrap()
        });
        let codes: Arc<[Code]> = codes.collect();
        let program = Program::from_parts(file.clone(), tables, codes.clone());
        let globals = Globals::new(GLOBAL_BYTES, 0, true);
        Self { program, instance: Instance { codes, globals, imports: [].into() } }
    }

    /// The results of the first function and the globals it leaves, or its error, as text; `None` if it
    /// exhausts its budget.
    fn run(self, inputs: &[Value]) -> Option<String> {
        let mut machine = Machine::new(Some(Budget { instructions: 20_000, bytes: 1 << 20 }), None);
        let target = Target { module: 0, ordinal: 0 };
        let buffers = [Buffer::allocate(40, 0).unwrap(), Buffer::from_bytes(&[7; 24]).unwrap()];
        let buffers = buffers.map(Ref::new);
        let inputs = inputs.iter().cloned().chain(buffers.iter().cloned().map(Value::Ref));
        let mut outcome = machine.begin(&self, target, inputs, []);
        let mut yields = 0;
        while matches!(outcome, Ok(Outcome::Yielded)) {
            yields += 1;
            outcome = machine.resume(&self, Resumed::Ready);
        }
        let end = match outcome {
            Ok(_) => format!("{:?}", machine.results),
            Err(error) if error.code() == StatusCode::ResourceExhausted => return None,
            Err(error) => error.report(),
        };
        let globals = [0, 8].map(|offset| self.instance.globals.load_64(offset).unwrap());
        let bytes = buffers[0].object::<Buffer>().unwrap().to_vec();
        Some(format!("{end} after {yields} yields, and leaves {globals:x?} and {bytes:x?}"))
    }
}

/// The tables of a module with only these functions.
fn tables<const N: usize>(functions: [(&str, &Assembled); N]) -> Tables {
    Tables {
        types: [].into(),
        imports: [].into(),
        functions: functions.map(|(convention, assembled)| function(convention, assembled)).into(),
        global_bytes: GLOBAL_BYTES,
        global_refs: 0,
        rodata_count: 0,
    }
}

fn function(convention: &str, assembled: &Assembled) -> Function {
    let descriptor = FunctionDescriptor {
        bytecode: 0..assembled.bytecode.len(),
        requirements: Features::SUPPORTED,
        block_count: assembled.block_count,
        i32_register_count: REGISTERS,
        ref_register_count: REFS,
    };
    Function { convention: Convention::parse(convention).unwrap(), descriptor }
}

/// Often small numbers, sometimes equal.
fn inputs(random: &mut Random) -> Vec<Value> {
    let mut inputs = Vec::new();
    for _ in 0..3 {
        inputs.push(Value::I32(random.0.i32(..) >> random.below(40).min(31)));
    }
    for _ in 0..3 {
        let bits = random.0.i64(..);
        inputs.push(Value::I64(bits >> random.below(80).min(63)));
    }
    inputs
}

#[test]
fn optimized_programs_match_unoptimized_ones() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/vm/calls.vmfb");
    let file = ModuleFile::map(Arc::new(MappedFile::open(&path).unwrap())).unwrap();
    let mut random = Random(fastrand::Rng::with_seed(0x9E37_79B9_7F4A_7C15));
    let (mut ended, mut failed) = (0, 0);
    for round in 0..PROGRAMS {
        // Each superinstruction in turn, and every fourth program without a chosen one.
        let (name, _) = SUPERINSTRUCTIONS[round % SUPERINSTRUCTIONS.len()];
        let program = RandomProgram::new(&mut random, (round % 4 != 0).then_some(name));
        for _ in 0..2 {
            let inputs = inputs(&mut random);
            let Some(expected) = Alone::new(&file, &program, false).run(&inputs) else { continue };
            ended += 1;
            failed += usize::from(!expected.starts_with('['));
            let found = Alone::new(&file, &program, true).run(&inputs);
            assert_eq!(
                found.as_ref(),
                Some(&expected),
                "program {round} with {inputs:?}: {:02x?} calls {:02x?}",
                program.function.bytecode,
                program.callee.bytecode
            );
        }
    }
    assert!(
        ended > PROGRAMS && failed > 50,
        "only {ended} programs terminated, {failed} of them with an error"
    );
    let executed = EXECUTED.take();
    let count = |name: &str| executed.get(name).copied().unwrap_or(0);
    let rare: Vec<_> = SUPERINSTRUCTIONS
        .iter()
        .map(|(name, _)| (*name, count(name)))
        .filter(|(_, count)| *count < EXECUTIONS)
        .collect();
    assert!(rare.is_empty(), "superinstructions that the programs execute too rarely or never: {rare:?}");
}

/// A register that only a successor of the first block reads, for each kind of edge.
#[test]
fn registers_that_successors_read_are_live() {
    const READ: u16 = 3;
    const WRITTEN: u16 = 4;
    type End = fn(&mut Assembly);
    let ends: [(&str, End); 7] = [
        ("branch", |assembly| {
            assembly.op(Op::Branch);
            assembly.edge(2, &[]);
        }),
        ("condition", |assembly| {
            assembly.registers(Op::CondBranch, &[0]);
            assembly.edge(1, &[]);
            assembly.edge(2, &[]);
        }),
        ("default", |assembly| {
            assembly.registers(Op::BranchTable, &[0]);
            assembly.edge(2, &[]);
            assembly.bytes.extend(0_u16.to_le_bytes());
        }),
        ("case", |assembly| {
            assembly.registers(Op::BranchTable, &[0]);
            assembly.edge(1, &[]);
            assembly.bytes.extend(1_u16.to_le_bytes());
            assembly.edge(2, &[]);
        }),
        ("yield", |assembly| {
            assembly.op(Op::Yield);
            assembly.edge(2, &[]);
        }),
        ("conditional break", |assembly| {
            assembly.registers(Op::CondBreak, &[0]);
            assembly.edge(2, &[]);
        }),
        ("moves of a case", |assembly| {
            assembly.registers(Op::BranchTable, &[0]);
            assembly.edge(1, &[]);
            assembly.bytes.extend(1_u16.to_le_bytes());
            assembly.edge(1, &[READ, 0]);
        }),
    ];
    for (name, end) in ends {
        let mut assembly = Assembly::default();
        assembly.block();
        end(&mut assembly);
        for result in [0, READ] {
            assembly.block();
            assembly.constant(1, WRITTEN);
            assembly.registers(Op::AddI32, &[result, WRITTEN, 0]);
            assembly.op(Op::Return);
            assembly.list(&[0]);
        }
        let assembled = assembly.finish();
        let tables = tables([("0i_i", &assembled)]);
        let frame = verify(&tables, &tables.functions[0], &assembled.bytecode).unwrap();
        let liveness =
            Liveness::from_function(&tables, &tables.functions[0], frame.words, &assembled.bytecode);
        assert!(liveness.is_live(0, READ), "{name}");
        assert!(!liveness.is_live(0, WRITTEN), "{name}");
    }
}

/// The arguments r0, r1 and r2 of a function that discards, overwrites, reads or only branches with them.
#[test]
fn references_are_unused_if_they_are_discarded_or_overwritten_first() {
    const R0: u16 = REF_BIT;
    const MOVED: u16 = REF_BIT | MOVE_BIT;
    type Body = fn(&mut Assembly);
    let discard = |assembly: &mut Assembly, registers: &[u16]| {
        assembly.op(Op::DiscardRefs);
        assembly.list(registers);
    };
    let cases: [(&str, u64, Body); 7] = [
        ("nothing", 0, |_| {}),
        ("all discarded", 0b111, |assembly| {
            assembly.op(Op::DiscardRefs);
            assembly.list(&[R0, R0 + 1, R0 + 2]);
        }),
        ("overwritten", 0b010, |assembly| assembly.registers(Op::ConstRefZero, &[R0 + 1])),
        ("read", 0, |assembly| assembly.registers(Op::CmpNZRef, &[R0, 0])),
        ("moved over another", 0b100, |assembly| assembly.registers(Op::AssignRef, &[MOVED, R0 + 2])),
        ("overwritten by what it is read from", 0, |assembly| {
            assembly.registers(Op::AssignRef, &[R0 + 1, R0 + 1]);
        }),
        ("passed to a function, which returns another", 0b010, |assembly| {
            assembly.op(Op::Call);
            assembly.bytes.extend(1_u32.to_le_bytes());
            assembly.list(&[R0]);
            assembly.list(&[R0 + 1]);
        }),
    ];
    for (name, unused, body) in cases {
        let mut assembly = Assembly::default();
        assembly.block();
        body(&mut assembly);
        assembly.op(Op::Branch);
        assembly.edge(1, &[]);
        // Too late: a branch may come back here with other references.
        assembly.block();
        discard(&mut assembly, &[R0, R0 + 1, R0 + 2]);
        assembly.op(Op::Return);
        assembly.list(&[]);
        let (assembled, callee) = (assembly.finish(), identity());
        let tables = tables([("0rrr_v", &assembled), ("0r_r", &callee)]);
        let frame = verify(&tables, &tables.functions[0], &assembled.bytecode).unwrap();
        for optimizes in [true, false] {
            let code = lower(&tables, 0, frame, &assembled.bytecode, optimizes).unwrap();
            assert_eq!(code.unused_refs, if optimizes { unused } else { 0 }, "{name}");
        }
    }
}

/// A function that returns its argument.
fn identity() -> Assembled {
    let mut assembly = Assembly::default();
    assembly.block();
    assembly.op(Op::Return);
    assembly.list(&[REF_BIT]);
    assembly.finish()
}
