//! Links the compiler's unwinder into the tools instead of loading `libgcc_s.so` at each start.
//!
//! That library executes CPUID when it is loaded, which takes a tenth of a short tool's time on a virtual
//! machine. The standard library links it by name, so a linker script of that name, found first, replaces it
//! by the static archive. Without a static archive, nothing changes.

use std::path::Path;
use std::process::Command;
use std::{env, fs};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let target = |name: &str| env::var(format!("CARGO_CFG_TARGET_{name}")).unwrap_or_default();
    if target("OS") != "linux" || target("ENV") != "gnu" || env::var("HOST") != env::var("TARGET") {
        return;
    }
    // If the compiler has no such archive, it echoes the bare name.
    let found = Command::new("cc").arg("-print-file-name=libgcc_eh.a").output();
    let archive = found.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_string());
    let Ok(directory) = env::var("OUT_DIR") else { return };
    let script = Path::new(&directory).join("libgcc_s.so");
    if archive.is_ok_and(|archive| Path::new(&archive).is_absolute() && Path::new(&archive).exists())
        && fs::write(script, "GROUP ( -lgcc_eh -lgcc )\n").is_ok()
    {
        println!("cargo::rustc-link-search=native={directory}");
    }
}
