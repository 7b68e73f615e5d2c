//! Captures of GPUs that this machine does not have: what needs no device works without one. The captures are
//! of the reference's CUDA and HIP drivers on libraries in place of those of the GPUs.

use serde_json::Value;

use crate::common::{Scratch, fail, fixture, print, run};

fn gpu_capture(name: &str) -> String {
    format!("{}/tests/gpu/{name}.ireereplay", env!("CARGO_MANIFEST_DIR"))
}

fn json(words: &[&str]) -> Value {
    serde_json::from_str(&print(words)).unwrap()
}

const MLP: [(&str, [u32; 3], usize); 5] = [
    ("mlp_dispatch_0_matmul_16x128x64_f32", [8, 8, 1], 3),
    ("mlp_dispatch_1_matmul_16x128x128_f32", [8, 8, 1], 3),
    ("mlp_dispatch_2_matmul_16x10x128_f32", [32, 8, 1], 3),
    ("mlp_dispatch_3_softmax_16x10xf32_dispatch_tensor_store", [32, 1, 1], 2),
    ("mlp_dispatch_4_reduction_16x10_f32", [32, 1, 1], 2),
];
const SOFTMAX: &str = "softmax_dispatch_0_softmax_7x33xf32_dispatch_tensor_store";

/// Without this test, names, workgroups and bindings of a capture may be those of something else.
#[test]
fn kernels_are_listed_from_the_file() {
    let path = gpu_capture("mlp.cuda");
    let ran = run(&["rehal", "kernels", "--format=json", &path]);
    assert_eq!(ran.status, Some(0), "{}", ran.stderr);
    let note = "note: times and the bytes that kernels read need a device that runs 'cuda-nvptx-fb' for sm_80, and this machine \
                has none";
    assert!(ran.stderr.contains(note), "{}", ran.stderr);
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    let kernels = report["kernels"].as_array().unwrap();
    let found: Vec<_> = kernels
        .iter()
        .map(|it| {
            let bindings = it["bindings"].as_array().unwrap();
            let lengths: Vec<_> = bindings.iter().map(|it| it["length"].as_u64().unwrap()).collect();
            (it["function"].as_str().unwrap(), it["workgroup_count"].clone(), lengths)
        })
        .collect();
    let matmul = |n: u64, k: u64| vec![16 * k * 4, k * n * 4, 16 * n * 4];
    for (index, (count, lengths)) in [(8, matmul(128, 64)), (8, matmul(128, 128)), (1, matmul(10, 128))]
        .into_iter()
        .chain([(1, vec![640, 640]), (1, vec![640, 64])])
        .enumerate()
    {
        let (name, workgroups, found) = &found[index];
        assert_eq!((*name, workgroups), (MLP[index].0, &serde_json::json!([count, 1, 1])));
        assert_eq!(found.len(), lengths.len(), "{name}");
        assert!(found.iter().zip(&lengths).all(|(found, needed)| found >= needed), "{name}: {found:?}");
    }
    let error = fail(&["rehal", "kernels", "--repetitions=3", &path]);
    assert!(error.contains("--repetitions needs times, which no device of this machine can tell"), "{error}");
    assert!(error.contains("use --device=cuda://emulator"), "{error}");
}

#[test]
fn executables_have_functions_and_targets() {
    let report = json(&["rehal", "executables", "--format=json", &gpu_capture("mlp.cuda")]);
    let executable = &report["executables"][0];
    assert_eq!((&executable["format"], &executable["target"]), (&"cuda-nvptx-fb".into(), &"sm_80".into()));
    let functions = executable["functions"].as_array().unwrap();
    assert_eq!(functions.len(), 5);
    for (function, (name, size, bindings)) in functions.iter().zip(MLP) {
        assert_eq!((&function["name"], &function["bindings"]), (&name.into(), &bindings.into()));
        assert_eq!(
            (&function["workgroup_size"], &function["constants"]),
            (&serde_json::json!(size), &0.into())
        );
    }
    let report = json(&["rehal", "executables", "--format=json", &gpu_capture("softmax.hip")]);
    let executable = &report["executables"][0];
    assert_eq!((&executable["format"], &executable["target"]), (&"rocm-hsaco-fb".into(), &"gfx942".into()));
    assert_eq!(executable["functions"][0]["name"], SOFTMAX);
}

/// The reference reads what is written.
fn reads(path: &str) -> String {
    print(&["iree-dump-replay", path])
}

/// Numbers in a row that are the same.
const RUN: u64 = 35;

/// A capture whose first input counts: all that was captured of it is one number.
fn with_numbers(mut bytes: Vec<u8>) -> Vec<u8> {
    let run = 4 * RUN as usize;
    // Of a size near one, by the exponent.
    let is_run = |it: &[u8]| (0x3C..0x42).contains(&it[3]) && it.chunks(4).all(|word| word == &it[..4]);
    let at = bytes.windows(run).position(is_run).unwrap();
    for (word, number) in bytes[at..at + run].chunks_mut(4).zip(0..) {
        word.copy_from_slice(&(number as f32).to_le_bytes());
    }
    bytes
}

#[test]
fn data_is_replaced_without_a_run() {
    let scratch = Scratch::new();
    for name in ["mlp.cuda", "softmax.hip", "dynamic_matmul.cuda"] {
        let path = scratch.file("original", with_numbers(std::fs::read(gpu_capture(name)).unwrap()));
        let output = scratch.path(name);
        let output = output.to_str().unwrap();
        let ran = run(&["rehal", "redact", "--element_type=f32", "--format=json", &path, "-o", output]);
        assert_eq!(ran.status, Some(0), "{}", ran.stderr);
        assert!(
            ran.stderr.contains("note: replays of the result need a device that runs '"),
            "{}",
            ran.stderr
        );
        let report: Value = serde_json::from_str(&ran.stdout).unwrap();
        assert!(report["replaced_bytes"].as_u64().unwrap() >= 4 * (RUN - 1), "{report}");
        // None of the numbers is left where it was.
        let (before, after) = (std::fs::read(&path).unwrap(), std::fs::read(output).unwrap());
        let secret: Vec<u8> = (1..RUN).flat_map(|it| (it as f32).to_le_bytes()).collect();
        let has = |bytes: &[u8]| bytes.windows(secret.len()).any(|it| it == secret);
        assert!(has(&before) && !has(&after));
        let count = |path: &str| reads(path).matches("op=command_buffer.dispatch").count();
        assert_eq!(count(output), count(&path));
    }
}

#[test]
fn a_dispatch_is_cut_out_if_no_kernel_computes_its_inputs() {
    let scratch = Scratch::new();
    let path = gpu_capture("mlp.cuda");
    let output = scratch.path("slice");
    let output = output.to_str().unwrap();
    let ran = run(&["rehal", "slice", "--dispatch=17", "--format=json", &path, "-o", output]);
    assert_eq!(ran.status, Some(0), "{}", ran.stderr);
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((&report["name"], &report["record"]), (&MLP[0].0.into(), &17.into()));
    assert_eq!((&report["is_checked"], &report["host_reads"][0]["blake3"]), (&false.into(), &Value::Null));
    // Input, weights, and the memory of the result.
    assert!(report["content_bytes"].as_u64().unwrap() >= 4096 + 32768, "{report}");
    assert_eq!(reads(output).matches("op=command_buffer.dispatch").count(), 1);
    let kernels = json(&["rehal", "kernels", "--format=json", output]);
    assert_eq!(kernels["kernels"][0]["function"], MLP[0].0);
    // The bytes are those of the capture.
    let bytes = std::fs::read(output).unwrap();
    let captured = std::fs::read(&path).unwrap();
    let input = &captured[73154..73154 + 4096];
    assert!(bytes.windows(input.len()).any(|it| it == input));
    // The second one reads what the first one writes.
    let error = fail(&["rehal", "slice", "--dispatch=20", &path, "-o", output]);
    assert!(error.contains("has the result of record #17, a dispatch"), "{error}");
    assert!(
        error
            .contains("use --device=cuda://emulator, which emulates it slowly; without a device, rehal info"),
        "{error}"
    );
    let error = fail(&["rehal", "slice", "--scope=execute", &path, "-o", output]);
    assert!(error.contains("the work of a scope cannot be cut out without performing it"), "{error}");
}

/// A slice that runs nothing has the bytes of one that runs.
#[test]
fn a_slice_of_a_kernel_of_this_machine_needs_no_run_either() {
    let scratch = Scratch::new();
    let path = crate::common::capture("chain.chain.local-sync");
    let slice = |dispatch: &str, flags: &[&str], name: &str| {
        let output = scratch.path(name).to_str().unwrap().to_owned();
        let words = ["rehal", "slice", dispatch, &path, "-o", &output];
        (run(&[&words[..], flags].concat()), output)
    };
    let report = json(&["rehal", "kernels", "--no_run", "--format=json", &path]);
    let first = format!("--dispatch={}", report["kernels"][0]["record"]);
    let (ran, _) = slice(&first, &["--no_run", "--keep_outputs"], "refused");
    assert!(ran.stderr.contains("--keep_outputs is about work that is performed"), "{}", ran.stderr);
    let (ran, without) = slice(&first, &["--no_run"], "without");
    assert_eq!(ran.status, Some(0), "{}", ran.stderr);
    let (ran, with) = slice(&first, &["--keep=bound", "--keep_outputs"], "with");
    assert_eq!(ran.status, Some(0), "{}", ran.stderr);
    // What the dispatch may write is read, so that a replay of the slice shows what it writes.
    let reads = |path: &str| {
        let lines = print(&["iree-run-replay", "--replay_host_reads=-", path]);
        let bytes = |line: &str| -> String {
            let read: Value = serde_json::from_str(line).unwrap();
            read["bytes"].as_str().unwrap().to_owned()
        };
        lines.lines().map(bytes).collect::<Vec<_>>()
    };
    let [written] = &reads(&with)[..] else { panic!("one range is written") };
    assert!(written.len() > 4000 && reads(&without).iter().any(|it| it.starts_with(written.as_str())));
    let last = format!("--dispatch={}", report["kernels"].as_array().unwrap().last().unwrap()["record"]);
    let (ran, _) = slice(&last, &["--no_run"], "last");
    assert!(ran.status == Some(1) && ran.stderr.ends_with("\n  try: leave out --no_run\n"), "{}", ran.stderr);
}

#[test]
fn stubs_have_the_signature_of_the_captured_kernel_and_replace_it() {
    let scratch = Scratch::new();
    let path = gpu_capture("mlp.cuda");
    let function = format!("--function={}", MLP[3].0);
    let cuda = print(&["rehal", "kernel", "stub", &function, &path, "-o", "-"]);
    assert!(cuda.contains("__global__ void __launch_bounds__(32) mlp_dispatch_3_softmax"), "{cuda}");
    assert!(
        cuda.contains("float *__restrict__ binding_0,") && cuda.contains("float *__restrict__ binding_1 "),
        "{cuda}"
    );
    let hip = print(&["rehal", "kernel", "stub", &gpu_capture("softmax.hip"), "-o", "-"]);
    assert!(hip.contains("--offload-arch=gfx942 ") && hip.contains("__attribute__((global))"), "{hip}");
    let ptx = scratch.path("k.ptx");
    let ptx = ptx.to_str().unwrap();
    print(&["rehal", "kernel", "stub", &function, &path, "-o", ptx]);
    let text = std::fs::read_to_string(ptx).unwrap();
    assert!(text.contains("\n.target sm_80\n") && text.contains("\n.reqntid 32, 1, 1\n"), "{text}");
    let substitute = |name: &str, file: &str| {
        let ran = run(&["rehal", "info", &format!("--substitute={name}={file}"), &path]);
        (ran.status, ran.stdout)
    };
    // It is of one of five functions in one image; names are what replays take.
    for name in [MLP[3].0, "mlp_dispatch_3", "*softmax*"] {
        let (status, said) = substitute(name, ptx);
        assert!(status == Some(0) && said.contains("Substitutes: accepted"), "{name}: {said}");
    }
    let (status, said) = substitute("4", ptx);
    assert!(status == Some(1) && said.contains("the PTX has functions mlp_dispatch_3_"), "{said}");
    // Of an executable with one function, the stub is accepted.
    let other = gpu_capture("dynamic_matmul.cuda");
    let one = scratch.path("one.ptx");
    let one = one.to_str().unwrap();
    print(&["rehal", "kernel", "stub", &other, "-o", one]);
    let said =
        print(&["rehal", "info", &format!("--substitute=f_dispatch_0_matmul_DxDxD_f32={one}"), &other]);
    assert!(said.contains("Substitutes: accepted"), "{said}");
    // All of them are the code of the capture.
    let captured = std::fs::read(&path).unwrap();
    let at = captured.windows(16).position(|it| it == b"\n// Generated by").unwrap() - 2;
    let end = at + captured[at..].iter().position(|it| *it == 0).unwrap();
    let whole = scratch.file("whole.ptx", &captured[at..end]);
    let (status, said) = substitute(MLP[3].0, &whole);
    assert!(status == Some(0) && said.contains("Substitutes: accepted"), "{said}");
    // Another signature, another size, a later processor, and what the emulator does not take.
    let text = String::from_utf8_lossy(&captured[at..end]).into_owned();
    for (from, to, what) in [
        (".version 7", ".version 99", ".version"),
        (".address_size 64", ".address_size 32", ".address_size"),
        ("mul.rn.f32", "mul.frob.f32", "mul.frob.f32"),
        ("bra \t$L__BB0_", "bra \t$L__BB1_", "$L__BB1_"),
        (".reg .pred", ".local .align 4 .b8 big[1099511627776];\n.reg .pred", "local"),
        (".maxntid 8, 8, 1", ".reqntid 8, 4, 1", "signature mismatch of function 'mlp_dispatch_0_"),
        (".target sm_80", ".target sm_90", "the PTX is for sm_90, and the executable for sm_80"),
        (".entry mlp_dispatch_4_", ".entry other_", "keep the names of the compiler's functions"),
    ] {
        assert!(text.contains(from));
        let file = scratch.file("other.ptx", text.replacen(from, to, 1));
        let (status, said) = substitute("4", &file);
        assert!(status == Some(1) && said.contains("Substitutes: refused") && said.contains(what), "{said}");
    }
}

#[test]
fn ptx_is_shown_as_it_is() {
    let name = format!("--function={}", MLP[4].0);
    let text = print(&["rehal", "kernel", "disassemble", &name, &gpu_capture("mlp.cuda")]);
    assert!(
        text.contains(".visible .entry mlp_dispatch_4_reduction_16x10_f32(") && text.ends_with("}\n"),
        "{text}"
    );
    assert!(text.contains("\t.maxntid 32, 1, 1\n") || text.contains(".maxntid 32, 1, 1"), "{text}");
    assert_eq!(text.matches(".entry").count(), 1);
    let of_file = print(&[
        "rehal",
        "kernel",
        "disassemble",
        "--function=*dispatch_0*",
        &fixture("gpu/dynamic.cuda.ptx"),
    ]);
    assert!(of_file.contains(".entry rows_dispatch_0_elementwise_D_f32("), "{of_file}");
}

/// Nothing advises what this build cannot do.
#[test]
fn advice_about_a_capture_of_another_device_can_be_followed() {
    let scratch = Scratch::new();
    let output = scratch.path("out");
    for (name, said) in [
        ("dynamic_matmul.cuda", "use --device=cuda://emulator, which emulates it slowly"),
        ("softmax.hip", "this build has no driver 'hip'"),
    ] {
        let path = gpu_capture(name);
        for words in [
            vec!["rehal", "run", &path],
            vec!["rehal", "benchmark", &path],
            vec!["rehal", "kernel", "record", &path, "-o", output.to_str().unwrap()],
        ] {
            let error = fail(&words);
            assert!(error.contains(&format!("{said}; without a device, ")), "{error}");
            assert!(error.contains("redact, slice, kernel stub"), "{error}");
            assert!(!error.contains("--device=hip"), "{error}");
        }
    }
}
