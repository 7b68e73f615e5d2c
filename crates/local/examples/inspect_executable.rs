//! Loads executables, prints their properties, and how long loading one takes.
//!
//! ```text
//! cargo run --release -p rehal-local --example inspect_executable -- PATH...
//! ```
//! The bytes are trusted: loading runs their code.
#![allow(unsafe_code, reason = "loads the executables named on the command line")]

use std::hint::black_box;
use std::time::Instant;

use rehal_local::executable::{Library, LoadOptions, elf, infer_format};

const REPETITIONS: u32 = 2000;

fn main() {
    for path in std::env::args_os().skip(1) {
        println!("{}", path.display());
        match std::fs::read(&path) {
            Ok(bytes) => inspect(&bytes),
            Err(error) => println!("  {error}"),
        }
    }
}

fn inspect(bytes: &[u8]) {
    println!("  format: {}", infer_format(bytes).unwrap_or("unknown"));
    // SAFETY: the user of this example chose the file.
    match unsafe { Library::load_inferred(bytes, &LoadOptions::default()) } {
        Ok(library) => {
            println!("  library: '{}'", library.name());
            for (ordinal, function) in (0..).zip(library.functions()) {
                println!(
                    "  function '{}': {} constants, {} bindings, workgroup {:?}, {} bytes of local memory",
                    function.name,
                    function.constant_count,
                    function.binding_count,
                    function.workgroup_size,
                    library.local_memory_bytes(ordinal).unwrap_or_default()
                );
            }
            measure(bytes);
        }
        Err(error) => println!("  {}", error.report()),
    }
}

fn measure(bytes: &[u8]) {
    let time = |what: &str, run: &dyn Fn()| {
        let start = Instant::now();
        for _ in 0..REPETITIONS {
            run();
        }
        let each = start.elapsed().as_secs_f64() * 1e6 / f64::from(REPETITIONS);
        println!("  {what}: {each:.2} us");
    };
    if elf::Image::parse(bytes).is_ok() {
        time("parse", &|| {
            let _ = black_box(elf::Image::parse(black_box(bytes)));
        });
        time("parse, map, unmap", &|| {
            let _ = black_box(elf::Image::parse(black_box(bytes)).map(|image| image.map()));
        });
    }
    for format in ["embedded-elf-x86_64", "system-elf-x86_64"] {
        time(&format!("load as {format}, unload"), &|| {
            // SAFETY: as in `inspect`.
            let _ = black_box(unsafe { Library::load(format, black_box(bytes), &LoadOptions::default()) });
        });
    }
}
