use super::{CUDA_ARCHITECTURE, ON_CUDA, ON_VULKAN, Program};
use std::io;
use std::path::Path;

/// The program whose tests fail, each in a different way.
pub const FAILURES: &str = "failures";

/// A target of our programs: name, backend and flags.
const TARGETS: [(&str, &str, &[&str]); 8] = [
    ("llvm-cpu.x86_64", "llvm-cpu", &["--iree-llvmcpu-target-cpu=x86-64"]),
    ("llvm-cpu.x86_64_v3", "llvm-cpu", &["--iree-llvmcpu-target-cpu=x86-64-v3", "--iree-opt-data-tiling"]),
    (
        "llvm-cpu.system",
        "llvm-cpu",
        &["--iree-llvmcpu-target-cpu=x86-64", "--iree-llvmcpu-link-embedded=false"],
    ),
    ("vmvx.plain", "vmvx", &[]),
    ("vmvx.microkernels", "vmvx", &["--iree-vmvx-enable-microkernels"]),
    ("vulkan.descriptors", VULKAN, &[]),
    ("vulkan.addresses", VULKAN, &["--iree-vulkan-dispatch-abi=bda"]),
    (CUDA, CUDA, &[CUDA_ARCHITECTURE]),
];

/// The backends of devices that are not local.
const VULKAN: &str = "vulkan";
const CUDA: &str = "cuda";

/// An architecture with integers and floats of 8 to 64 bits, which the software driver has too; the default
/// one lacks most. Its subgroups are larger than the driver's: reductions across them are wrong, in the
/// reference as well.
const WIDE_TYPES: &str = "--iree-vulkan-target=turing";

/// Our programs in `directory`, each for every target: a line `// targets: NAME...` of backends and targets
/// restricts them, and `// vulkan: wide types` compiles them for an architecture with all types.
pub fn ours(directory: &Path) -> io::Result<Vec<Program>> {
    let mut sources: Vec<_> = std::fs::read_dir(directory)?
        .map(|entry| entry.map(|entry| entry.path()))
        .filter(|path| path.as_ref().is_ok_and(|path| path.extension().is_some_and(|end| end == "mlir")))
        .collect::<io::Result<_>>()?;
    sources.sort();
    let mut programs = Vec::new();
    for source in sources {
        let text = std::fs::read_to_string(&source)?;
        let only = text.lines().find_map(|line| line.strip_prefix("// targets: "));
        let has_wide_types = text.lines().any(|line| line == "// vulkan: wide types");
        let name = source.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
        for (target, backend, flags) in TARGETS {
            if only.is_some_and(|only| !only.split(' ').any(|wanted| wanted == backend || wanted == target)) {
                continue;
            }
            let mut shared = vec!["--iree-input-demote-f64-to-f32=false".to_owned()];
            match backend {
                VULKAN => {
                    shared.push(ON_VULKAN.to_owned());
                    shared.extend(has_wide_types.then(|| WIDE_TYPES.to_owned()));
                }
                CUDA => shared.push(ON_CUDA.to_owned()),
                _ => {
                    shared.push("--iree-hal-target-device=local".to_owned());
                    shared.push(format!("--iree-hal-local-target-device-backends={backend}"));
                }
            }
            let triple = "--iree-llvmcpu-target-triple=x86_64-unknown-linux-gnu".to_owned();
            let triple = (backend == "llvm-cpu").then_some(triple);
            programs.push(Program {
                name: format!("ours/{target}/{name}"),
                source: source.clone(),
                flags: shared
                    .into_iter()
                    .chain(triple)
                    .chain(flags.iter().map(ToString::to_string))
                    .collect(),
            });
        }
    }
    Ok(programs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_compiled_for_their_targets() {
        let directory = crate::captures::repository().join("fixtures/e2e");
        let programs = ours(&directory).unwrap();
        let targets =
            |name: &str| programs.iter().filter(|it| it.name.ends_with(&format!("/{name}"))).count();
        assert_eq!((targets("matmul"), targets("float_types"), targets("transposes")), (8, 6, 7));
        assert_eq!((targets("float8_types"), targets("slices")), (5, 5));
        assert!(programs.iter().all(|program| program.flags.len() >= 2));
    }
}
