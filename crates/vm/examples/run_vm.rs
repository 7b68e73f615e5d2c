//! Runs functions of modules that need nothing but the VM: `run_vm MODULE.vmfb [FUNCTION [i32...]]`.
//!
//! Without a function, all exports without arguments are called, and what came of each is printed.

use std::sync::Arc;

use rehal_base::MappedFile;
use rehal_vm::{Context, Module, Result, Value};

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().unwrap_or_default();
    let module = Module::map(Arc::new(MappedFile::open(path.as_ref())?))?;
    let context = Context::new(std::slice::from_ref(&module))?;
    if let Some(name) = arguments.next() {
        let values: Vec<Value> = arguments
            .map(|argument| match argument.strip_suffix("i64") {
                Some(number) => Value::I64(number.parse().unwrap_or(0)),
                None => Value::I32(argument.parse().unwrap_or(0)),
            })
            .collect();
        println!("{:?}", context.export(0, &name)?.call(&values)?);
        return Ok(());
    }
    for export in module.exports() {
        if !export.convention.arguments().is_empty() || export.name.starts_with("__") {
            continue;
        }
        match context.export(0, &export.name)?.call(&[]) {
            Ok(results) => println!("ok {} {results:?}", export.name),
            Err(error) => println!("error {} {}", export.name, error.report().replace('\n', " ")),
        }
    }
    Ok(())
}
