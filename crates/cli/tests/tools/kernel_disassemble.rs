//! `rehal kernel disassemble`: instructions of a function of a capture or an executable.

use serde_json::Value;

use crate::common::{Scratch, capture, command, fail, fixture, print, ran, write_kernel};

const TOOL: [&str; 3] = ["rehal", "kernel", "disassemble"];

fn disassembled(words: &[&str]) -> String {
    print(&[&TOOL, words].concat())
}

/// The instructions: those lines that begin with an address.
fn instructions(text: &str) -> Vec<&str> {
    let is_address = |it: &str| u64::from_str_radix(it, 16).is_ok();
    text.lines().filter(|it| it.trim_start().split_once(':').is_some_and(|(it, _)| is_address(it))).collect()
}

#[test]
fn a_function_of_a_capture_has_constants_and_ends_with_a_return() {
    let text = disassembled(&["--function=add_dispatch_0", &capture("add4.add.local-sync")]);
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("; executable 4"));
    assert_eq!(lines.next(), Some("; record #17: 1x1x1 workgroups, no constants"));
    assert!(lines.next().unwrap().starts_with("; function add_dispatch_0_elementwise_4_f32, "), "{text}");
    let found = instructions(&text);
    assert!(found.len() > 5 && found.last().unwrap().contains("ret"), "{text}");
    assert!(found.iter().any(|it| it.contains("addps") && it.contains("xmm")), "{text}");
}

#[test]
fn each_dispatch_of_a_capture_has_its_constants() {
    let text = disassembled(&[&capture("dynamic.rows.local-sync"), "--dispatch=30"]);
    assert!(text.contains("\n; record #30: 1x1x1 workgroups, constants 21 0 21 0\n"), "{text}");
}

/// The numbers are those that the compiler puts into a reduction of 8x10 elements: indices of lanes, and 0.
#[test]
fn constants_that_code_loads_are_shown() {
    let path = capture("mlp.x86_64_v3.local-sync");
    let text = disassembled(&["--function=dispatch_4", &path]);
    let line = |what: &str| text.lines().find(|it| it.contains(what)).unwrap_or_else(|| panic!("{text}"));
    assert!(
        line("vmovdqa ymm0,YMMWORD PTR [rip+").contains("  ; bits 0x00000000 0x00000001 0x00000002 "),
        "{text}"
    );
    let broadcast = line("vbroadcastss ymm1,DWORD PTR [rip+").split_once("  ; f32 ").unwrap().1.to_owned();
    let json = disassembled(&["--function=dispatch_4", "--format=json", &path]);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["header"]["schema"], "rehal.kernel.disassemble/1");
    assert_eq!((&json["executable"], &json["dispatches"][0]["record"]), (&4.into(), &29.into()));
    assert_eq!(json["function"], "mlp_dispatch_4_reduction_8x10_f32");
    let all = json["instructions"].as_array().unwrap();
    assert_eq!(
        all.len(),
        instructions(&text).len() - all.iter().filter(|it| it["bytes"].as_str().unwrap().len() > 14).count()
    );
    let bytes: usize = all.iter().map(|it| it["bytes"].as_str().unwrap().len() / 2).sum();
    assert_eq!(json["length"], bytes);
    let load =
        all.iter().find(|it| it["text"].as_str().unwrap().starts_with("vbroadcastss ymm1,DWORD")).unwrap();
    let constant = &load["constant"];
    assert_eq!((&constant["type"], &constant["values"]), (&"f32".into(), &serde_json::json!([broadcast])));
    // Another disassembler says the same.
    let llvm = command("rehal")
        .args(&TOOL[1..])
        .args(["--function=dispatch_4", &path])
        .env("OBJDUMP", "llvm-objdump")
        .output();
    let llvm = ran(llvm.unwrap());
    if llvm.status == Some(0) {
        let of_llvm: Vec<_> =
            llvm.stdout.lines().filter_map(|it| it.split_once("  ; ")).map(|it| it.1).collect();
        let of_gnu: Vec<_> = text.lines().filter_map(|it| it.split_once("  ; ")).map(|it| it.1).collect();
        assert_eq!(of_llvm, of_gnu);
    }
}

#[test]
fn executables_have_lines_of_their_source_and_other_functions_are_left_out() {
    let text = disassembled(&["--function=add", &fixture("modules/add4_swapped.elf")]);
    assert!(text.lines().any(|it| it == "-:3") && !text.contains("mul_dispatch"), "{text}");
    let both = disassembled(&["--function=elementwise", &fixture("cts/chain.so")]);
    assert_eq!(both.lines().filter(|it| it.starts_with("; function ")).count(), 1, "{both}");
    assert!(!instructions(&both).is_empty(), "{both}");
}

#[test]
fn the_system_has_the_disassemblers() {
    let scratch = Scratch::new();
    let path = fixture("modules/add4_swapped.elf");
    let with = |variable: &str, value: &str| {
        ran(command("rehal")
            .args(&TOOL[1..])
            .args(["--function=mul", &path])
            .env(variable, value)
            .output()
            .unwrap())
    };
    let missing = with("PATH", scratch.path("").to_str().unwrap());
    assert_eq!(missing.status, Some(1));
    assert!(missing.stderr.starts_with("NOT_FOUND; no disassembler: objdump or llvm-objdump"), "{missing:?}");
    assert!(with("OBJDUMP", "false").stderr.starts_with("ABORTED; false failed"));
}

#[test]
fn other_files_and_architectures_are_refused() {
    let refused = |path: &str| fail(&[&TOOL[..], &[&fixture(path)]].concat());
    let other = refused("modules/add4_swapped.aarch64.elf");
    assert!(other.contains("arm_64") && other.contains("x86_64"), "{other}");
    assert!(
        refused("profiles/mlp.vulkan.ireeprof").contains("is a device profile (.ireeprof), not a capture")
    );
    let of_vm = refused("captures/add4.vmvx.local-sync.ireereplay");
    assert!(of_vm.contains("which is not machine code or SPIR-V"), "{of_vm}");
    assert!(refused("modules/add4.vmvx.vmfb").contains("the module has no such machine code or SPIR-V"));
    let unknown = fail(&[&TOOL[..], &["--function=none", &fixture("cts/chain.so")]].concat());
    assert!(unknown.contains("0 functions match 'none'"), "{unknown}");
}

#[test]
fn executables_of_modules_are_found() {
    let text = disassembled(&["--function=add_dispatch_0", &fixture("modules/add4.vmfb")]);
    assert!(text.starts_with("; function add_dispatch_0_elementwise_4_f32, "), "{text}");
    assert!(instructions(&text).iter().any(|it| it.contains("addps")), "{text}");
    // The same code as that of the capture.
    let of_capture = disassembled(&["--function=add_dispatch_0", &capture("add4.add.local-sync")]);
    assert!(of_capture.ends_with(&text), "{of_capture}");
    let several = fail(&[&TOOL[..], &[&fixture("modules/mlp.vmfb")]].concat());
    assert!(several.contains("the executable has 5 functions"), "{several}");
    let none = fail(&[&TOOL[..], &["--executable=99", &fixture("modules/add4.vmfb")]].concat());
    assert!(none.contains("the module has no such machine code"), "{none}");
}

/// Machines for tests have SPIRV-Tools, which `cargo xtask setup` installs.
#[test]
fn functions_in_spirv_are_disassembled() {
    let name = "add_dispatch_0_elementwise_4_f32";
    for path in ["vulkan/captures/add4.add.ireereplay", "vulkan/modules/add4.vmfb"] {
        let text = disassembled(&["--function=add", &fixture(path)]);
        let head = format!("; function {name}, in an image of ");
        assert!(text.lines().any(|it| it.starts_with(&head)), "{path}: {text}");
        let entry = text.lines().find(|it| it.trim_start().starts_with("OpEntryPoint GLCompute")).unwrap();
        assert!(entry.contains(&format!("\"{name}\"")) && text.contains(" OpFAdd "), "{path}: {text}");
    }
    for path in ["vulkan/executables/add4_swapped.0.vk1", "vulkan/executables/add4_swapped.0.spv"] {
        let text = disassembled(&[&fixture(path)]);
        assert!(text.contains("OpEntryPoint GLCompute"), "{path}: {text}");
    }
}

/// Neither a constructor of a library nor its query function.
#[test]
fn looking_runs_nothing() {
    const FUNCTION: &str = "add_dispatch_0_elementwise_4_f32";
    const QUERY: &str = "  (void)environment;\n";
    let (scratch, add) = (Scratch::new(), capture("add4.add.local-sync"));
    let [source, library, module, other, recorded, mark] =
        ["k.c", "k.so", "m.vmfb", "n.vmfb", "r.ireereplay", "ran"]
            .map(|it| scratch.path(it).display().to_string());
    write_kernel(source.as_ref(), &add, FUNCTION, "binding_2[i] = binding_0[i];");
    let text = std::fs::read_to_string(&source).unwrap();
    assert!(text.contains(QUERY), "{text}");
    let text = text.replace(QUERY, &format!("  (void)environment; creat(\"{mark}\", 0600);\n"));
    let start = format!(
        "int creat(const char *, unsigned);\n__attribute__((constructor)) static void start(void) {{ creat(\"{mark}\", 0600); }}\n"
    );
    std::fs::write(&source, start + &text).unwrap();
    print(&["rehal", "kernel", "build", &source, "-o", &library]);
    let looks = |words: &[&str], expected: &str| {
        let shown = print(words);
        assert!(shown.contains(expected), "{words:?}: {shown}");
        assert!(!std::fs::exists(&mark).unwrap(), "{words:?} runs code");
    };
    looks(&[&TOOL[..], &["--function=*add*", &library]].concat(), "; function add_dispatch_0");
    let from = fixture("modules/add4.syslib.vmfb");
    let replace = format!("--executable={FUNCTION}={library}");
    looks(&["rehal", "substitute", &from, &replace, "-o", &module], "add4_linked");
    looks(&["rehal", "substitute", &module, &replace, "-o", &other], "add4_linked");
    looks(&["rehal", "executables", &module], FUNCTION);
    looks(&["iree-dump-module", "--output=metadata", &module], "executable");
    looks(&[&TOOL[..], &["--function=*add*", &module]].concat(), "; function add_dispatch_0");
    let recording = format!("--device_replay_output={recorded}");
    let call = ["--function=add", "--input=4xf32=1", "--input=4xf32=2", "--device=local-sync"];
    // Running it does, unless it is confined.
    let module = format!("--module={module}");
    print(&[&["iree-run-module", &module, &recording], &call[..]].concat());
    assert!(!std::fs::exists(&mark).unwrap());
    print(&[&["iree-run-module", "--sandbox=off", &module], &call[..]].concat());
    std::fs::remove_file(&mark).unwrap();
    looks(&["rehal", "info", &recorded], FUNCTION);
    looks(&["rehal", "dump", &recorded], "command_buffer.begin");
    looks(&["rehal", "executables", &recorded], FUNCTION);
    looks(&[&TOOL[..], &["--function=*add*", &recorded]].concat(), "; function add_dispatch_0");
    let load = ["rehal", "info", "--load_executables", "--device=local-sync", &recorded];
    looks(&load, FUNCTION);
    print(&[&load[..], &["--sandbox=off"]].concat());
    assert!(std::fs::exists(&mark).unwrap());
}
