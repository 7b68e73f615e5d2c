//! Measures the CPU time of the exports of a module that imports nothing: `bench_vm MODULE.vmfb [SECONDS]`.

use std::sync::Arc;

use rehal_base::MappedFile;
use rehal_vm::{Context, Invocation, Module, Result};

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().unwrap_or_default();
    let seconds = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(0.5);
    let module = Module::map(Arc::new(MappedFile::open(path.as_ref())?))?;
    let context = Context::new(std::slice::from_ref(&module))?;
    for export in module.exports().iter().filter(|export| export.convention.arguments().is_empty()) {
        let mut invocation = Invocation::new(&context.export(0, &export.name)?);
        let mut count = 1_u64;
        let per_call = loop {
            let start = cpu_ns();
            for _ in 0..count {
                invocation.call([])?;
            }
            let taken_ns = cpu_ns() - start;
            if taken_ns as f64 >= seconds * 1e9 {
                break taken_ns as f64 / count as f64;
            }
            count *= if taken_ns < 20_000_000 { 8 } else { 2 };
        };
        println!("{:24} {per_call:14.1} ns {:?}", export.name, invocation.results());
    }
    Ok(())
}

/// CPU time of this process, which other processes do not add to.
fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|number| number.parse().ok()).unwrap_or(0)
}
