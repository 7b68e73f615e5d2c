//! Calls functions of modules that import nothing: `run_vm MODULE.vmfb [FUNCTION [VALUE...]]`.
//!
//! Values are i32, or i64 with the suffix `i64`. Without a function, runs the exports `test_*` and `fail_*`,
//! and prints those whose outcome is not the one in their name.

use std::sync::Arc;

use rehal_base::MappedFile;
use rehal_vm::{Context, Module, ModuleFile, Result, Value};

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().unwrap_or_default();
    let file = ModuleFile::map(Arc::new(MappedFile::open(path.as_ref())?))?;
    let Some(name) = arguments.next() else {
        let outcomes = rehal_vm::test_programs::run_tests(file)?;
        for outcome in outcomes.iter().filter(|outcome| !outcome.is_expected()) {
            println!("{}: {:?}", outcome.name, outcome.result);
        }
        println!("{} tests", outcomes.len());
        return Ok(());
    };
    let values: Vec<Value> = arguments
        .map(|argument| match argument.strip_suffix("i64") {
            Some(number) => Value::I64(number.parse().unwrap_or(0)),
            None => Value::I32(argument.parse().unwrap_or(0)),
        })
        .collect();
    let context = Context::new(&[Module::bytecode(file)?])?;
    println!("{:?}", context.export(0, &name)?.call(&values)?);
    Ok(())
}
