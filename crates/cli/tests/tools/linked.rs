//! Functions of linked executables, and the files that replace them.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::common::{Scratch, command, fixture, ran};
use crate::compile::{DOUBLE, Work, print_executables};

/// One file replaces a function wherever one is replaced: plain C, and what a stub begins.
#[test]
fn a_kernel_is_one_file_everywhere() {
    let work = Work::new();
    work.compile(&["--iree-hal-link-executables=true"]);
    fs::rename(work.path("p.vmfb"), work.path("own.vmfb")).unwrap();
    let run = |words: &[&str]| {
        let ran = work.run(words);
        assert_eq!(ran.status, Some(0), "{words:?}: {}", ran.stderr);
        ran
    };
    let double = ["--device=local-sync", "--function=double", "--input=4x8xf32=1"];
    let module = |name: &str| format!("--module={name}.vmfb");
    let capture = "--device_replay_output=c.ireereplay";
    run(&[&["iree-run-module", &module("own"), capture], &double[..]].concat());
    let listed = run(&["rehal", "executables", "own.vmfb"]).stdout;
    let name = listed.split_whitespace().find(|it| it.starts_with(DOUBLE)).unwrap().to_owned();
    run(&["rehal", "kernel", "stub", &format!("--function={name}"), "c.ireereplay", "-o", "stub.c"]);
    let stub = fs::read_to_string(work.path("stub.c")).unwrap();
    let body = "binding_1[i] = binding_0[i] + 10;  // ";
    let stub = stub.replace("// Compute item", body).replace("return 1;  //", "return 0;  //");
    work.write("stub.c", &stub);
    work.write(
        "k.c",
        "void k(const float *a, float *o) { for (int i = 0; i < 32; ++i) o[i] = a[i] + 10; }\n",
    );
    for source in ["k", "stub"] {
        let compiled = Command::new("cc")
            .args(["-c", "-O2", "-fPIC", &format!("{source}.c"), "-o", &format!("{source}.o")])
            .current_dir(work.0.path())
            .status();
        assert!(compiled.unwrap().success());
    }
    run(&["rehal", "kernel", "build", "stub.c", "-o", "stub.so"]);
    for file in ["k.c", "k.o", "stub.c", "stub.o", "stub.so"] {
        let substitution = format!("{DOUBLE}={file}");
        let flag = format!("--executable={substitution}");
        run(&["rehal", "substitute", "own.vmfb", &flag, "-o", "new.vmfb"]);
        assert_eq!(work.results("new.vmfb"), ["11", "3xf32=3 3 3"], "{file}");
        let listed = run(&["rehal", "executables", "new.vmfb"]).stdout;
        assert!(listed.contains(&format!("{name} of executable 1 is from {file}\n")), "{listed}");
        assert_eq!(listed.matches("dispatch_0").count(), 3, "both, and the one that is replaced: {listed}");
        work.compile(&[&format!("--substitute={substitution}")]);
        assert_eq!(work.results("p.vmfb"), ["11", "3xf32=3 3 3"], "{file}");
        let flag = format!("--executable_substitution={substitution}");
        let ran = run(&[&["iree-run-module", &module("own"), &flag], &double[..]].concat());
        assert!(ran.stdout.contains("4x8xf32=[11 11 "), "{file}: {}", ran.stdout);
        let flag = format!("--replay_executable_substitution={substitution}");
        let ran = work.run(&["rehal", "verify", "--device=local-sync", &flag, "c.ireereplay"]);
        assert!(ran.stdout.contains("expected 2.0, got 11.0"), "{file}: {}{}", ran.stdout, ran.stderr);
    }
    // Plain C is compared as a stub is.
    for file in ["k.c", "stub.c"] {
        let text = fs::read_to_string(work.path(file)).unwrap();
        work.write(
            "right.c",
            &text.replace("[i] + 10;", "[i] + a[i];").replace("binding_0[i] + a[i]", "2 * binding_0[i]"),
        );
        let words =
            ["rehal", "compare", "--max_time=200ms", "--device=local-sync", "--with=right.c", "c.ireereplay"];
        let compared = work.run(&words);
        assert!(
            compared.stdout.contains("same results") || !compared.stdout.contains("wrong"),
            "{}",
            compared.stdout
        );
        assert_ne!(compared.status, Some(1), "{}", compared.stderr);
    }
    // A library goes into a module, and nothing else.
    let error = work.refused(&[&format!("--substitute={DOUBLE}=stub.c"), "--compile-to=hal"]);
    assert!(error.contains("stub.c' is a library of kernels"), "{error}");
    // What an embedded ELF cannot have.
    work.write("libc.c", "#include <math.h>\nvoid k(const float *a, float *o) { o[0] = erff(a[0]); }\n");
    let flag = format!("--executable={DOUBLE}=libc.c");
    let ran = work.run(&["rehal", "substitute", "own.vmfb", &flag, "-o", "none.vmfb"]);
    assert!(ran.status == Some(1) && ran.stderr.contains("needs erff"), "{}", ran.stderr);
    work.compile(&["--iree-llvmcpu-link-embedded=false", "--iree-llvmcpu-system-linker-path=cc"]);
    let libc = "#include <math.h>\nvoid k(const float *a, float *o) { for (int i = 0; i < 32; ++i) o[i] = erff(a[i]); }\n";
    work.write("libc.c", libc);
    run(&["rehal", "substitute", "p.vmfb", &flag, "-o", "new.vmfb"]);
    let [double, add] = work.results("new.vmfb");
    assert!(double.starts_with("0.84") && add == "3xf32=3 3 3", "{double}, {add}");
}

/// Two intermediate results are in one buffer: a dispatch writes the second of them at an offset, which the
/// function adds wherever it is called.
#[test]
fn plain_functions_get_the_start_of_each_binding() {
    const PROGRAM: &str = "func.func @mix(%a: tensor<16x16xf32>, %b: tensor<16x16xf32>) -> tensor<16x16xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<16x16xf32>
  %filled = linalg.fill ins(%zero : f32) outs(%empty : tensor<16x16xf32>) -> tensor<16x16xf32>
  %first = linalg.matmul ins(%a, %b : tensor<16x16xf32>, tensor<16x16xf32>) outs(%filled : tensor<16x16xf32>) -> tensor<16x16xf32>
  %soft = linalg.softmax dimension(1) ins(%first : tensor<16x16xf32>) outs(%empty : tensor<16x16xf32>) -> tensor<16x16xf32>
  %last = linalg.matmul ins(%soft, %b : tensor<16x16xf32>, tensor<16x16xf32>) outs(%filled : tensor<16x16xf32>) -> tensor<16x16xf32>
  return %last : tensor<16x16xf32>
}";
    let work = Work::new();
    work.write("p.mlir", PROGRAM);
    work.compile(&["--iree-hal-dump-executable-sources-to=sources"]);
    fs::rename(work.path("p.vmfb"), work.path("own.vmfb")).unwrap();
    let source = fs::read_to_string(work.path("sources/module_mix_dispatch_1.mlir")).unwrap();
    assert!(source.contains("binding(1) alignment(64) offset(%c1024)"), "{source}");
    // The softmax of equal numbers is 1 / 16: tenfold, to tell.
    work.write(
        "k.c",
        "void k(const float *a, char *o) { for (int i = 0; i < 256; ++i) ((float *)(o + 1024))[i] = 0.625f; }",
    );
    let call = |module: &str, more: &[&str]| {
        let module = format!("--module={module}");
        let words = ["iree-run-module", "--device=local-sync", &module, "--function=mix"];
        let inputs = ["--input=16x16xf32=1", "--input=16x16xf32=2"];
        let ran = work.run(&[&words[..], &inputs, more].concat());
        assert_eq!(ran.status, Some(0), "{}", ran.stderr);
        ran.stdout
            .split(['[', ' '])
            .find(|it| it.starts_with(['1', '2']) && !it.contains('x'))
            .unwrap()
            .to_owned()
    };
    assert_eq!(call("own.vmfb", &["--device_replay_output=c.ireereplay"]), "2");
    work.compile(&["--substitute=mix_dispatch_1=k.c"]);
    let substitute = ["rehal", "substitute", "own.vmfb", "--executable=mix_dispatch_1=k.c", "-o", "new.vmfb"];
    let ran = work.run(&substitute);
    assert_eq!(ran.status, Some(0), "{}", ran.stderr);
    assert_eq!([call("p.vmfb", &[]), call("new.vmfb", &[])], ["20", "20"]);
    assert_eq!(call("own.vmfb", &["--executable_substitution=mix_dispatch_1=k.c"]), "20");
    let flag = "--replay_executable_substitution=mix_dispatch_1=k.c";
    let verified = work.run(&["rehal", "verify", "--device=local-sync", flag, "c.ireereplay"]);
    assert!(verified.stdout.contains("expected 0.0625, got 0.625"), "{}{}", verified.stdout, verified.stderr);
}

#[test]
fn spirv_goes_into_the_container_of_a_module() {
    let scratch = Scratch::new();
    let output = scratch.path("new.vmfb");
    let module = fixture("vulkan/modules/add4.vmfb");
    let rehal = |words: &[&str]| ran(command("rehal").args(words).output().unwrap());
    let substitute = |file: &str, stated: &[&str]| {
        let executable = format!("--executable=1={file}");
        let output = output.display().to_string();
        rehal(&[&["substitute", &module, &executable, "-o", &output], stated].concat())
    };
    let shader = |index: u32| fixture(&format!("vulkan/executables/add4_swapped.{index}.spv"));
    let other = substitute(&shader(1), &[]);
    assert!(
        other.status == Some(1) && other.stderr.contains("the SPIR-V has entry points mul"),
        "{}",
        other.stderr
    );
    let elf = substitute(&fixture("modules/add4_swapped.elf"), &["--workgroup_count=same"]);
    let refused = "the code has the format 'embedded-elf-x86_64', and the executable 'vulkan-spirv-fb'";
    assert!(elf.stderr.contains(refused), "{}", elf.stderr);
    // The compiler has made it for another program.
    let unknown = substitute(&shader(0), &[]);
    let is_refused = unknown.stderr.contains("its workgroup count is not known");
    assert!(unknown.status == Some(1) && is_refused, "{}", unknown.stderr);
    assert!(!output.exists());
    for stated in ["same", "1,1,1", "add_dispatch_0_elementwise_4_f32=1,1,1"] {
        let stated = substitute(&shader(0), &[&format!("--workgroup_count={stated}")]);
        assert!(stated.status == Some(0) && stated.stdout.contains("vulkan-spirv-fb"), "{}", stated.stderr);
    }
    let twice = substitute(&shader(0), &["--workgroup_count=2,1,1"]);
    assert!(twice.status == Some(1) && twice.stderr.contains("dispatches 1x1x1"), "{}", twice.stderr);
    // Its own, which is within the container: a vector of words behind their count.
    let directory = scratch.path("own").display().to_string();
    let written = rehal(&["executables", &module, &format!("--binaries_to={directory}")]);
    assert_eq!(written.status, Some(0), "{}", written.stderr);
    let container = fs::read(Path::new(&directory).join("1_add_dispatch_0.vk1")).unwrap();
    let start = container.windows(4).position(|it| *it == 0x0723_0203_u32.to_le_bytes()).unwrap();
    let count = u32::from_le_bytes(container[start - 4..start].try_into().unwrap()) as usize;
    let spirv = scratch.path("own.spv");
    fs::write(&spirv, &container[start..start + count * 4]).unwrap();
    let own = substitute(&spirv.display().to_string(), &[]);
    assert_eq!(own.status, Some(0), "{}", own.stderr);
    let listed = print_executables(&output);
    assert!(listed.contains("add_dispatch_0_elementwise_4_f32"), "{listed}");
}
