//! Programs out of nowhere do the same whether their instructions are lowered one by one or as few as possible.

mod assembly;
mod random_program;

use std::path::Path;
use std::sync::Arc;

use rehal_base::{MappedFile, StatusCode};

use crate::code::Code;
use crate::globals::Globals;
use crate::interpret::{Instance, Machine, ModuleView, Modules, Outcome, Target};
use crate::liveness::Liveness;
use crate::lower::lower;
use crate::module_file::{Features, FunctionDescriptor};
use crate::operation::Op;
use crate::program::Program;
use crate::tables::{Function, Tables};
use crate::verify::verify;
use crate::{Budget, Convention, ModuleFile, Resumed, Value};

use assembly::{Assembled, Assembly};
use random_program::{CALLEE_CONVENTION, CONVENTION, GLOBAL_BYTES, REGISTERS, Random, RandomProgram};

/// Programs that are run.
const PROGRAMS: usize = 4000;

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
    /// A program whose functions are lowered, one by one or not. Its names are those of `file`.
    fn new(file: &ModuleFile, program: &RandomProgram, keeps_apart: bool) -> Self {
        let parts = [(CONVENTION, &program.function), (CALLEE_CONVENTION, &program.callee)];
        let tables = tables(parts);
        let codes = parts.iter().enumerate().map(|(ordinal, (_, Assembled { bytecode, .. }))| {
            let frame = verify(&tables, &tables.functions[ordinal], bytecode).unwrap();
            lower(&tables, ordinal as u32, frame, bytecode, keeps_apart).unwrap()
        });
        let codes: Arc<[Code]> = codes.collect();
        let program = Program::of_parts(file.clone(), tables, codes.clone());
        let globals = Globals::new(GLOBAL_BYTES, 0, true);
        Self { program, instance: Instance { codes, globals, imports: [].into() } }
    }

    /// What the first function returns and leaves in the globals, or how it fails, as text; nothing where it takes too
    /// long.
    fn run(self, inputs: &[Value]) -> Option<String> {
        let mut machine = Machine::new(Some(Budget { instructions: 20_000, bytes: 1 << 20 }), None);
        let target = Target { module: 0, ordinal: 0 };
        let mut outcome = machine.begin(&self, target, inputs.iter().cloned(), []);
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
        Some(format!("{end} after {yields} yields, and leaves {globals:x?}"))
    }
}

/// The tables of a module with these functions and no more.
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
        ref_register_count: 0,
    };
    Function { convention: Convention::parse(convention).unwrap(), descriptor }
}

/// Small numbers often, which are equal now and then.
fn inputs(random: &mut Random) -> Vec<Value> {
    let mut inputs = Vec::new();
    for _ in 0..3 {
        inputs.push(Value::I32(random.next() as i32 >> random.below(40).min(31)));
    }
    for _ in 0..3 {
        let bits = (random.next() << 32 | random.next()) as i64;
        inputs.push(Value::I64(bits >> random.below(80).min(63)));
    }
    inputs
}

#[test]
fn few_instructions_do_what_many_do() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/vm/calls.vmfb");
    let file = ModuleFile::map(Arc::new(MappedFile::open(&path).unwrap())).unwrap();
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let (mut ended, mut failed) = (0, 0);
    for round in 0..PROGRAMS {
        let program = RandomProgram::new(&mut random);
        for _ in 0..2 {
            let inputs = inputs(&mut random);
            let Some(many) = Alone::new(&file, &program, true).run(&inputs) else { continue };
            ended += 1;
            failed += usize::from(!many.starts_with('['));
            let few = Alone::new(&file, &program, false).run(&inputs);
            assert_eq!(
                few.as_ref(),
                Some(&many),
                "program {round} with {inputs:?}: {:02x?} calls {:02x?}",
                program.function.bytecode,
                program.callee.bytecode
            );
        }
    }
    assert!(
        ended > PROGRAMS && failed > 50,
        "{ended} programs came to an end, {failed} of them with an error"
    );
}

/// A register that only a block reads to which the first leads, however it does.
#[test]
fn what_is_read_further_on_is_live() {
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
        let liveness = Liveness::of(&tables, &tables.functions[0], frame.words, &assembled.bytecode);
        assert!(liveness.is_live(0, READ), "{name}");
        assert!(!liveness.is_live(0, WRITTEN), "{name}");
    }
}
