//! Replacements of executables on Vulkan, as SPIR-V and as compiled executables: what runs in place of the
//! captured one, and what is refused before anything runs.

use super::{compile_executable, find};
use crate::replays::{refuses_well, run_with_reads};
use crate::{Outcome, Pair, ensure, fixture};
use libtest_mimic::{Failed, Trial};
use oracle::tool::{self, Ended};
use std::fs;
use std::path::Path;

/// The number of a capability in SPIR-V, and what a device without it is said to lack. The software driver
/// has none of them.
const LACKING: [(&str, u32, &str); 3] = [
    ("cooperative_matrix", 6022, "cooperativeMatrix"),
    ("float64_atomics", 6034, "shaderBufferFloat64AtomicAdd"),
    ("kernel", 6, "capability Kernel"),
];

/// With one binding less than the captured kernel of the same name.
const FEWER_BINDINGS: &str = "
func.func @add(%a: tensor<4xf32>) -> tensor<4xf32> {
  %r = math.absf %a : tensor<4xf32>
  return %r : tensor<4xf32>
}
";

pub fn add(trials: &mut Vec<Trial>) {
    for (name, with) in [("spirv", "add4_swapped.0.spv"), ("executable", "add4_swapped.0.vk1")] {
        let file = fixture(&format!("vulkan/executables/{with}"));
        trials.push(Trial::test(format!("vulkan::substitution::{name}"), move || substitutes(&file)));
    }
    trials.push(Trial::test("vulkan::substitution::module::spirv", in_a_module));
    for (name, with) in [("spirv", "add4_swapped.1.spv"), ("executable", "entry_points.descriptors.vk1")] {
        let file = fixture(&format!("vulkan/executables/{with}"));
        let name = format!("vulkan::substitution::refused::missing_entry_point::{name}");
        trials.push(Trial::test(name, move || {
            refused(&file, "NOT_FOUND", "it lacks function 'add_dispatch_0_elementwise_4_f32'")
        }));
    }
    trials.push(Trial::test("vulkan::substitution::refused::other_bindings", || {
        let scratch = tempfile::tempdir()?;
        let file = compile_executable(FEWER_BINDINGS, scratch.path())?;
        refused(
            &file,
            "FAILED_PRECONDITION",
            "bindings=3 parameters=0 workgroup_size=[64,1,1]) replacement=(flags=0x0 constants=0 bindings=2",
        )
    }));
    trials.push(Trial::test("vulkan::substitution::refused::other_device", || {
        let file = fixture("cts/affine.embedded.elf");
        refused(&file, "INCOMPATIBLE", "iree-compile --iree-hal-target-device=vulkan ")
    }));
    for (name, capability, lacks) in LACKING {
        let name = format!("vulkan::substitution::refused::feature::{name}");
        trials.push(Trial::test(name, move || {
            let scratch = tempfile::tempdir()?;
            let file = scratch.path().join("requires.spv");
            fs::write(&file, requiring(capability)?)?;
            refused(&file, "UNAVAILABLE", lacks)
        }));
    }
    trials.push(Trial::test("vulkan::substitution::refused::not_spirv", || {
        refused(&fixture("recipe.toml"), "", "recipe.toml")
    }));
}

/// The module of `add4_swapped` with another capability, before those that it has.
fn requiring(capability: u32) -> Result<Vec<u8>, Failed> {
    /// Size of the header of a module.
    const HEADER_BYTES: usize = 20;
    const OP_CAPABILITY: u32 = 17;
    let mut module = fs::read(fixture("vulkan/executables/add4_swapped.0.spv"))?;
    let instruction = [2 << 16 | OP_CAPABILITY, capability].map(u32::to_le_bytes).concat();
    module.splice(HEADER_BYTES..HEADER_BYTES, instruction);
    Ok(module)
}

fn arguments(with: &Path) -> Result<Vec<String>, Failed> {
    Ok(vec![
        "--device=vulkan".to_owned(),
        format!("--replay_executable_substitution=4={}", with.display()),
        "--workgroup_count=same".to_owned(),
        find("add4.add")?.path.display().to_string(),
    ])
}

/// A replacement with the same signature runs in place of the captured executable: the first result is 100
/// times the sum.
fn substitutes(with: &Path) -> Outcome {
    let capture = find("add4.add")?;
    let (ours, reads) = run_with_reads(&Pair::find("iree-run-replay")?, &capture, arguments(with)?)?;
    ensure(ours.succeeded(), || format!("ours ends with {}", ours.summary()))?;
    let expected: Vec<u8> =
        [1100.0_f32, 2200.0, 3300.0, 4400.0].into_iter().flat_map(f32::to_le_bytes).collect();
    ensure(reads.iter().any(|read| read.bytes == expected), || format!("{reads:?}"))
}

/// SPIR-V by itself goes into the container of the module's executable, which both tools run.
fn in_a_module() -> Outcome {
    let pair = Pair::find("iree-run-module")?;
    let scratch = tempfile::tempdir()?;
    let output = scratch.path().join("new.vmfb").display().to_string();
    let spirv = fixture("vulkan/executables/add4_swapped.0.spv").display().to_string();
    let module = fixture("vulkan/modules/add4.vmfb").display().to_string();
    for which in ["1", "add_dispatch_0"] {
        let replaced = format!("--executable={which}={spirv}");
        let same = "--workgroup_count=same";
        let arguments = ["substitute", &module, &replaced, same, "-o", &output].map(str::to_owned);
        let ended = tool::run(&pair.ours.with_file_name("rehal"), &arguments, scratch.path())?;
        ensure(ended.succeeded(), || format!("substitute ends with {}", ended.summary()))?;
        let module = format!("--module={output}");
        let inputs = ["--input=4xf32=1 2 3 4", "--input=4xf32=10 20 30 40"];
        let run = [&["--device=vulkan", "--function=add", &module][..], &inputs].concat();
        let run: Vec<_> = run.into_iter().map(str::to_owned).collect();
        for program in [&pair.theirs, &pair.ours] {
            let ended = tool::run(program, &run, scratch.path())?;
            let text = String::from_utf8_lossy(&ended.stdout);
            ensure(text.contains("4xf32=1100 2200 3300 4400"), || {
                format!("{} prints {text}, {}", program.display(), ended.summary())
            })?;
        }
    }
    Ok(())
}

/// A replacement that cannot run is refused with a status, and what is wrong with it.
fn refused(with: &Path, status: &str, words: &str) -> Outcome {
    let capture = find("add4.add")?;
    let program = tool::ours("iree-run-replay")?;
    let ours: Ended = tool::run(&program, &arguments(with)?, &capture.directory)?;
    refuses_well(&ours)?;
    let said = String::from_utf8_lossy(&ours.stderr).into_owned();
    let is_status = status.is_empty() || ours.status_name().as_deref() == Some(status);
    ensure(is_status && said.contains(words), || ours.summary())
}
