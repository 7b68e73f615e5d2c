//! Parses PTX files and says what is in them, or runs a kernel of one and measures how long that takes.
//!
//!     ptx FILE...
//!     ptx --run FILE KERNEL GRIDxGRIDxGRID BLOCKxBLOCKxBLOCK DYNAMIC_BYTES CHECKS ARGUMENT...
//!
//! An argument is the number of bytes of a binding, with `r` after it if it is only read, or `=N`, a constant
//! of 32 bits. Bindings are filled with
//! small floats. CHECKS is `none` or `all`.

#![forbid(unsafe_code)]

use std::sync::Arc;
use std::time::Instant;

use rehal_base::{Error, HostMemory, Result};
use rehal_simt::{Checks, Dispatch, Image, Launch, Limits, Module, Region};

fn main() -> Result<()> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|it| it == "--run") {
        return run(&arguments[1..]);
    }
    let mut failed = 0;
    for path in &arguments {
        match Module::parse_ptx(&read(path)?, &Limits::default()) {
            Ok(module) => {
                for function in module.functions() {
                    println!("{path}: {function:?}");
                }
            }
            Err(error) => {
                failed += 1;
                println!("{path}: {error}");
            }
        }
    }
    match failed {
        0 => Ok(()),
        _ => Err(Error::data_loss(format!("{failed} of {} files cannot be parsed", arguments.len()))),
    }
}

fn read(path: &str) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(|it| Error::io(format!("reading '{path}'"), &it))
}

fn run(words: &[String]) -> Result<()> {
    let [path, kernel, grid, block, dynamic, checks, arguments @ ..] = words else {
        return Err(Error::invalid_argument("--run FILE KERNEL GRID BLOCK DYNAMIC_BYTES CHECKS ARGUMENT..."));
    };
    let module = Module::parse_ptx(&read(path)?, &Limits::default())?;
    let image = Image::load(Arc::new(module))?;
    let function = image.function(kernel)?;
    let parameters = image.module().functions()[function].parameters.clone();
    let mut bytes = vec![0; image.module().functions()[function].argument_bytes as usize];
    let (mut memories, mut writable) = (Vec::new(), Vec::new());
    for (index, (word, parameter)) in arguments.iter().zip(&parameters).enumerate() {
        let at = parameter.offset as usize;
        if let Some(constant) = word.strip_prefix('=') {
            bytes[at..at + 4].copy_from_slice(&number(constant)?.to_le_bytes());
            continue;
        }
        let memory = HostMemory::allocate_aligned(number(word.trim_end_matches('r'))?.into(), 256)?;
        for element in 0..memory.length() / 4 {
            memory.store_element(element, ((element % 37) as f32 / 16.0 - 1.0).to_le_bytes())?;
        }
        bytes[at..at + 8].copy_from_slice(&address(index).to_le_bytes());
        memories.push((index, memory));
        writable.push(!word.ends_with('r'));
    }
    let region = |(index, memory): &(usize, HostMemory)| (address(*index), memory.length());
    let regions: Vec<_> = memories
        .iter()
        .zip(&writable)
        .map(|(it, is_writable)| Region {
            address: region(it).0,
            length: region(it).1,
            slack: 0,
            memory: &it.1,
            offset: 0,
            is_writable: *is_writable,
        })
        .collect();
    let launch = Launch {
        function,
        grid: sizes(grid)?,
        block: sizes(block)?,
        dynamic_shared_bytes: number(dynamic)?,
        arguments: &bytes,
        regions: &regions,
        checks: if checks == "all" { Checks::all() } else { Checks::default() },
        budget: None,
    };
    let dispatch = Dispatch::new(&image, &launch)?;
    let mut all = Some(0..dispatch.blocks());
    let start = Instant::now();
    dispatch.run(&mut || all.take(), &|| false)?;
    let seconds = start.elapsed().as_secs_f64();
    let report = dispatch.report();
    report.findings.iter().for_each(|it| println!("{it}"));
    let instructions = report.thread_instructions;
    println!(
        "{instructions} thread instructions, {seconds:.3} s, {:.2} ns each",
        seconds * 1e9 / instructions as f64
    );
    for (index, memory) in &memories {
        let first: Vec<_> = (0..(memory.length() / 4).min(4))
            .map(|it| memory.load_element(it).map(f32::from_le_bytes))
            .collect::<Result<_>>()?;
        println!("binding {index}: {first:?} ...");
    }
    Ok(())
}

fn address(index: usize) -> u64 {
    (index as u64 + 1) << 36
}

fn number(word: &str) -> Result<u32> {
    word.parse().map_err(|_| Error::invalid_argument(format!("'{word}' is not a number")))
}

fn sizes(word: &str) -> Result<[u32; 3]> {
    let all = word.split('x').map(number).collect::<Result<Vec<_>>>()?;
    all.try_into().map_err(|_| Error::invalid_argument(format!("'{word}' is not three sizes")))
}
