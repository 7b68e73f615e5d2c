//! Stubs of the fixtures' kernels compile, and replays accept them in place of the functions.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use rehal::capture::{CaptureFile, CaptureOptions};
use rehal_base::StatusCode;
use rehal_build::{CompilerOptions, KernelLanguage, build_kernel, build_substitutes};
use rehal_devices::{DeviceOptions, DeviceSpec};
use rehal_kernels::{KernelOptions, Kernels};
use rehal_replay::{Plan, Replacement, Replay, ReplayOptions, Selector, Substitution};

use crate::{capture, fixture};

fn plan(path: &Path) -> Arc<Plan> {
    CaptureFile::open(path, &CaptureOptions::default()).unwrap().plan().unwrap()
}

fn replay(plan: &Arc<Plan>, substitutions: Vec<Substitution>) -> rehal_base::Result<Replay> {
    let mut devices = DeviceOptions::default();
    devices.devices = vec![DeviceSpec::find("local-sync").unwrap(); plan.device_count()];
    let options = ReplayOptions::default().substitutions(substitutions);
    Replay::new(plan.clone(), &devices.open().unwrap(), &options)
}

/// The captures that a plan can be compiled of, and whose code runs here.
fn captures() -> Vec<std::path::PathBuf> {
    let all = std::fs::read_dir(fixture("captures")).unwrap().map(|entry| entry.unwrap().path());
    let is_whole = |path: &std::path::PathBuf| {
        CaptureFile::open(path, &CaptureOptions::default()).and_then(|it| it.plan()).is_ok()
    };
    let mut all: Vec<_> = all.filter(|path| path.extension().is_some_and(|it| it == "ireereplay")).collect();
    all.retain(is_whole);
    all.sort();
    all
}

/// A stub of each distinct signature compiles, and a replay accepts it in place of the function.
fn stubs_are_accepted(language: KernelLanguage, wanted: impl Fn(&str) -> bool) -> usize {
    let directory = tempfile::tempdir().unwrap();
    let mut seen = BTreeSet::new();
    let mut options = CompilerOptions::default();
    if language == KernelLanguage::C {
        // There is no body to optimize.
        options.flags = vec!["-O0".into()];
    }
    for path in captures().iter().filter(|path| wanted(&path.to_string_lossy())) {
        let plan = plan(path);
        let kernels = Kernels::from_plan(&plan, &KernelOptions::default()).unwrap();
        let named: BTreeSet<_> =
            plan.executables().flat_map(|it| it.function_infos()).map(|info| info.name).collect();
        let mut substitutions = Vec::new();
        for name in named {
            let kernel = kernels.observed(&plan, &name, None).unwrap();
            let file = directory.path().join(format!("kernel.{}", language.extension()));
            let text = kernel.stub(language, &file, path).unwrap();
            // What differs between captures is in comments.
            let code: String = text.lines().filter(|line| !line.starts_with("//")).collect();
            if !seen.insert((name.clone(), code)) {
                continue;
            }
            std::fs::write(&file, &text).unwrap();
            let built = build_kernel(&file, &options);
            let built =
                built.unwrap_or_else(|error| panic!("{name} of {}: {error:?}\n{text}", path.display()));
            assert_eq!(built.messages, "", "{name}: {text}");
            let replacement = Replacement::bytes(built.bytes).of_format("system-elf-x86_64").keep_missing();
            substitutions.push(Substitution::new(Selector::Name(name), replacement));
        }
        if !substitutions.is_empty() {
            let checked = replay(&plan, substitutions).and_then(|it| it.check_executables());
            checked.unwrap_or_else(|error| panic!("{}: {error:?}", path.display()));
        }
    }
    seen.len()
}

#[test]
fn every_fixture_kernel_has_a_stub_in_c() {
    assert!(stubs_are_accepted(KernelLanguage::C, |_| true) > 60);
}

#[test]
fn fixture_kernels_have_stubs_in_rust() {
    // Native and VM programs, constants and dynamic shapes.
    let some = ["dynamic.rows.local-sync", "add4.vmvx", "mlp.mlp.local-sync"];
    assert!(stubs_are_accepted(KernelLanguage::Rust, |path| some.iter().any(|it| path.contains(it))) > 7);
}

#[test]
fn a_stub_without_a_body_fails_at_its_dispatch() {
    let path = capture("add4.add.local-sync");
    let plan = plan(&path);
    let name = "add_dispatch_0_elementwise_4_f32";
    let kernels = Kernels::from_plan(&plan, &KernelOptions::default()).unwrap();
    let directory = tempfile::tempdir().unwrap();
    for language in [KernelLanguage::C, KernelLanguage::Rust] {
        let file = directory.path().join(format!("kernel.{}", language.extension()));
        let text = kernels.observed(&plan, name, None).unwrap().stub(language, &file, &path).unwrap();
        std::fs::write(&file, text).unwrap();
        let mut substitutions = vec![Substitution::parse(&format!("{name}={}", file.display())).unwrap()];
        let print = |_: &Path, text: &str| panic!("{text}");
        build_substitutes(&mut substitutions, &CompilerOptions::default(), print).unwrap();
        let error = replay(&plan, substitutions).unwrap().run(&mut []).unwrap_err();
        assert_eq!(error.code(), StatusCode::Internal);
        assert!(
            error.message().contains(&format!("function '{name}' failed in workgroup [0, 0, 0]")),
            "{error}"
        );
        assert!(error.message().ends_with("it returned 1"), "{error}");
    }
}

#[test]
fn a_signature_that_is_not_the_captured_one_is_refused_before_anything_runs() {
    let path = capture("dynamic.rows.local-sync");
    let plan = plan(&path);
    let name = "rows_dispatch_0_elementwise_D_f32";
    let kernels = Kernels::from_plan(&plan, &KernelOptions::default()).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("kernel.c");
    let kernel = kernels.observed(&plan, name, None).unwrap();
    let text = kernel.stub(KernelLanguage::C, &file, &path).unwrap();
    for (from, to, words) in [
        (".constant_count = 4", ".constant_count = 3", "constants=4 bindings=3"),
        (".binding_count = 3", ".binding_count = 2", "bindings=2"),
        (".workgroup_size_x = 1", ".workgroup_size_x = 8", "workgroup_size=[8,1,1]"),
        (".flags = 0", ".flags = 1", "flags=0x1"),
        (
            "names[] = {\"rows",
            "names[] = {\"lines",
            "no function 'rows_dispatch_0_elementwise_D_f32'; it has: lines",
        ),
        (".version = 6", ".version = 7", "ABI version 7"),
        ("iree_hal_executable_library_query", "query", "define 'iree_hal_executable_library_query'"),
    ] {
        let changed = text.replacen(from, to, 1);
        assert_ne!(changed, text, "{from}");
        std::fs::write(&file, changed).unwrap();
        let mut substitutions = vec![Substitution::parse(&format!("{name}={}", file.display())).unwrap()];
        build_substitutes(&mut substitutions, &CompilerOptions::default(), |_, _| ()).unwrap();
        let error = replay(&plan, substitutions).unwrap().check_executables().unwrap_err();
        assert!(error.report().contains(words), "{words}: {error:?}");
        assert!(error.report().contains(&format!("'{}'", file.display())), "{error:?}");
    }
}

#[test]
fn names_that_do_not_exist_list_those_that_do() {
    let plan = plan(&capture("mlp.mlp.local-sync"));
    let kernels = Kernels::from_plan(&plan, &KernelOptions::default()).unwrap();
    let error = kernels.observed(&plan, "mlp_dispatch_1_matmul", None).unwrap_err();
    assert_eq!(error.code(), StatusCode::NotFound);
    assert!(error.message().contains("it has: mlp_dispatch_0_matmul_8x48x32_f32, mlp_dispatch_1"), "{error}");
    assert!(error.report().contains("did you mean 'mlp_dispatch_1_matmul_8x48x48_f32'?"), "{error:?}");
    let name = "mlp_dispatch_1_matmul_8x48x48_f32";
    let id = plan.executables().next().unwrap().id;
    let kernel = kernels.observed(&plan, name, Some(id)).unwrap();
    assert_eq!((kernel.executable_ids, kernel.shapes.len()), (vec![id], 1));
    let error = kernels.observed(&plan, name, Some(id + 999)).unwrap_err();
    assert!(error.message().contains("no executable"), "{error}");
    assert!(error.report().contains(&format!("its executables are {id}")), "{error:?}");
}
