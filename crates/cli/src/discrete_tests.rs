//! The tools on a device with discrete memory: results must be the same as on `local-sync`.

use std::path::{Path, PathBuf};

use rehal_base::Result;
use rehal_cts::discrete::DiscreteDevice;
use rehal_hal::{
    CompilerTarget, Device, DeviceDescription, DeviceParameter, Driver, DriverBackend, DriverRegistry,
    ExecutableFormat, OptionSet, SystemFiles,
};

use crate::tool::run_tool;
use crate::tools;

/// `local-sync` with discrete memory, for the tests of this crate only.
struct Discrete(Driver);

impl DriverBackend for Discrete {
    fn name(&self) -> &str {
        "discrete"
    }

    fn description(&self) -> &str {
        "The CPU with discrete memory"
    }

    fn availability(&self) -> Result<()> {
        self.0.availability()
    }

    fn formats(&self) -> &'static [ExecutableFormat] {
        &[]
    }

    fn check_format(&self, _name: &str) -> Result<()> {
        Ok(())
    }

    fn compiler_target(&self) -> Option<CompilerTarget> {
        None
    }

    fn parameters(&self) -> &'static [DeviceParameter] {
        &[]
    }

    fn enumerate(&self) -> Result<Vec<DeviceDescription>> {
        self.0.enumerate()
    }

    fn emulated(&self) -> &'static [&'static str] {
        &[]
    }

    fn create_device(&self, path: &str, options: &OptionSet, _group: &[Device]) -> Result<Device> {
        self.0.create_device(path, options).map(DiscreteDevice::over)
    }

    fn system_files(&self) -> SystemFiles {
        SystemFiles::NONE
    }

    fn describe_workers(&self, _options: &OptionSet) -> Option<Result<String>> {
        None
    }
}

/// The drivers of the tools, and the discrete one.
pub(crate) fn with_discrete(mut registry: DriverRegistry) -> DriverRegistry {
    let local_sync = registry.find("local-sync").unwrap().clone();
    registry.register(Driver::new(Discrete(local_sync))).unwrap();
    registry
}

fn fixture(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(name).display().to_string()
}

/// A module, its function, its inputs and its number of results.
type Call = (&'static str, &'static str, &'static [&'static str], usize);

const MLP: &[&str] = &["@inputs/mlp_x.npy", "@inputs/mlp_w0.npy", "@inputs/mlp_w1.npy", "@inputs/mlp_w2.npy"];

/// Inputs as text and from files, results of several types and sizes, updates, fills, constants, globals,
/// parameters.
const CALLS: [Call; 14] = [
    ("add4", "add", &["4xf32=1 2 3 4", "4xf32=10 20 30 40"], 1),
    ("add4.vmvx", "add", &["4xf32=1 2 3 4", "4xf32=10"], 1),
    ("simple_abs", "abs", &["f32=-7.25"], 1),
    ("mlp", "mlp", MLP, 2),
    ("mlp.async", "mlp", MLP, 2),
    ("chain", "chain", &["@inputs/chain_x.npy"], 2),
    ("dtypes", "i1", &["4xi8=1 0 1 0", "4xi8=1 1 0 0"], 1),
    ("dynamic", "rows", &["33x65xf32=2", "33x65xf32=1.5"], 2),
    ("globals", "step", &["4xf32=10"], 2),
    ("bigconst", "scale", &["768xf32=2"], 1),
    ("multi", "sum", &["8xf32=1 2 3 4 5 6 7 8", "8xf32=0.5"], 1),
    ("transfers", "paste", &["4x8xi32=1", "2x8xi32=9"], 1),
    ("transfers", "poke", &["8xi32=1 2 3 4 5 6 7 8", "100"], 2),
    ("params", "forward", &["@inputs/params_x.npy"], 1),
];

fn arguments((module, function, inputs, _): &Call, device: &str) -> Vec<String> {
    let mut arguments = vec![
        format!("--module={}", fixture(&format!("modules/{module}.vmfb"))),
        format!("--function={function}"),
        format!("--device={device}"),
    ];
    let input = |text: &&str| match text.strip_prefix('@') {
        Some(path) => format!("--input=@{}", fixture(path)),
        None => format!("--input={text}"),
    };
    arguments.extend(inputs.iter().map(input));
    if *module == "params" {
        arguments.push(format!("--parameters=model={}", fixture("params/model.irpa")));
    }
    arguments
}

/// The bytes of the results, as written by `iree-run-module`.
fn results(call: &Call, device: &str, more: &[String], directory: &Path) -> Result<Vec<Vec<u8>>> {
    let paths: Vec<PathBuf> = (0..call.3).map(|index| directory.join(format!("{index}.{device}"))).collect();
    let mut arguments = arguments(call, device);
    arguments.extend(paths.iter().map(|path| format!("--output=@{}", path.display())));
    arguments.extend_from_slice(more);
    run_tool(&tools::RUN_MODULE, &arguments)?;
    Ok(paths.iter().map(|path| std::fs::read(path).unwrap()).collect())
}

/// The host reads of a replay, as written by `iree-run-replay`.
fn host_reads(capture: &Path, device: &str, directory: &Path) -> Result<String> {
    let path = directory.join(format!("reads.{device}"));
    let arguments = [
        format!("--device={device}"),
        format!("--replay_host_reads={}", path.display()),
        capture.display().to_string(),
    ];
    run_tool(&tools::RUN_REPLAY, &arguments)?;
    Ok(std::fs::read_to_string(&path).unwrap())
}

#[test]
fn modules_run_and_are_recorded_and_replayed() {
    for call in &CALLS {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path();
        let name = format!("{} {}", call.0, call.1);
        let expected = results(call, "local-sync", &[], directory).unwrap();
        assert!(expected.iter().all(|bytes| !bytes.is_empty()), "{name}");
        assert_eq!(results(call, "discrete", &[], directory).unwrap(), expected, "{name}");

        let capture = directory.join("program.ireereplay");
        let record = [format!("--device_replay_output={}", capture.display())];
        assert_eq!(results(call, "discrete", &record, directory).unwrap(), expected, "{name} recorded");
        let shared = host_reads(&capture, "local-sync", directory).unwrap();
        assert!(!shared.is_empty(), "{name} reads nothing");
        assert_eq!(host_reads(&capture, "discrete", directory).unwrap(), shared, "{name} replayed");
        // The last read is the last result.
        let last: serde_json::Value = serde_json::from_str(shared.lines().last().unwrap()).unwrap();
        let bytes = hex::encode(expected.last().unwrap());
        if call.3 == 1 {
            assert_eq!(last["bytes"].as_str().unwrap(), bytes, "{name}");
        }
    }
}

#[test]
fn results_are_printed_and_compared() {
    let call = &CALLS[0];
    let with = |flag: &str| {
        let mut arguments = arguments(call, "discrete");
        arguments.push(flag.to_string());
        run_tool(&tools::RUN_MODULE, &arguments)
    };
    with("--expected_output=4xf32=11 22 33 44").unwrap();
    assert!(with("--expected_output=4xf32=11 22 33 45").is_err());
    with("--output=-").unwrap();
}
