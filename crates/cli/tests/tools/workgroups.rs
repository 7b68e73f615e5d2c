//! Replacements of dispatches whose workgroup counts depend on sizes that only the running program knows.

use std::fs;

use crate::compile::{Work, names};

/// The rows of a product, which only the running program knows.
const ROWS: &str = "func.func @rows(%a: tensor<?x64xf32>, %b: tensor<64x32xf32>) -> tensor<?x32xf32> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %a, %c0 : tensor<?x64xf32>
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty(%n) : tensor<?x32xf32>
  %start = linalg.fill ins(%zero : f32) outs(%empty : tensor<?x32xf32>) -> tensor<?x32xf32>
  %product = linalg.matmul ins(%a, %b : tensor<?x64xf32>, tensor<64x32xf32>) outs(%start : tensor<?x32xf32>) -> tensor<?x32xf32>
  return %product : tensor<?x32xf32>
}
";

/// A count that depends on the workload is computed, stated by hand, or not known: then nothing is called
/// wrong.
#[test]
fn workgroup_counts_that_depend_on_sizes_are_computed_or_not_known() {
    let work = Work::new();
    work.write("p.mlir", ROWS);
    work.compile(&["--iree-hal-link-executables=false", "--iree-hal-dump-executable-configurations-to=c"]);
    let call = ["iree-run-module", "--device=local-sync", "--module=p.vmfb", "--function=rows"];
    let inputs = ["--input=40x64xf32=1", "--input=64x32xf32=0.125"];
    let record = [&call[..], &inputs, &["--device_replay_output=c.ireereplay"]].concat();
    let ran = work.run(&record);
    assert_eq!(ran.status, Some(0), "{}", ran.stderr);
    let expected = ran.stdout;
    let source = names(&work.path("c")).into_iter().find(|it| it.ends_with(".mlir")).unwrap();
    let text = fs::read_to_string(work.path("c").join(source)).unwrap();
    let at = text.find("distribution = [").unwrap();
    let sizes = &text[at..=at + text[at..].find(']').unwrap()];
    work.write("variant.mlir", &text.replace(sizes, "distribution = [8, 8, 0]"));
    let compiled = ["rehal", "compile", "--compile-mode=hal-executable", "variant.mlir", "-o", "variant.so"];
    assert_eq!(work.run(&compiled).status, Some(0));
    const FUNCTION: &str = "rows_dispatch_0";
    let verbs = |file: &str| {
        let flag = |name: &str| format!("--{name}={FUNCTION}={file}");
        let replaying = ["--device=local-sync", "c.ireereplay"].map(str::to_owned);
        let words = |verb: &str, flag: String| {
            let verb = ["rehal", verb].map(str::to_owned);
            [&verb[..], &replaying, &[flag]].concat()
        };
        let program: Vec<_> = call.iter().chain(&inputs).map(|it| (*it).to_owned()).collect();
        let module = ["rehal", "substitute", "p.vmfb", "-o", "new.vmfb"].map(str::to_owned);
        [
            words("run", flag("replay_executable_substitution")),
            words("verify", flag("replay_executable_substitution")),
            [words("compare", format!("--with={file}")), vec!["--max_time=1s".to_owned()]].concat(),
            [&program[..], &[flag("executable_substitution")]].concat(),
            [&module[..], &[flag("executable")]].concat(),
        ]
    };
    let run = |words: &[String], more: &[&str]| {
        let words: Vec<_> = words.iter().map(String::as_str).chain(more.iter().copied()).collect();
        work.run(&words)
    };
    let [replay, verify, compare, program, module] = verbs("variant.mlir");
    for words in [&replay, &verify, &program] {
        let ran = run(words, &[]);
        assert_eq!(ran.status, Some(0), "{words:?}: {}", ran.stderr);
        assert!(words != &program || ran.stdout == expected, "{}", ran.stdout);
    }
    let ran = run(&compare, &[]);
    assert!(ran.stdout.contains("\nright "), "{}{}", ran.stdout, ran.stderr);
    // A kernel of an author gets the captured count, also next to a baseline that needs another one.
    let stub = ["rehal", "kernel", "stub", "--no_run", "c.ireereplay", "-o", "kernel.c"];
    assert_eq!(work.run(&stub).status, Some(0));
    let text = fs::read_to_string(work.path("kernel.c")).unwrap();
    let body = "if (workgroup_count != 1) return 1; float sum = 0; (void)binding_1; \
                for (int k = 0; k < 64; ++k) sum += binding_0[i / 32 * 64 + k] * binding_1[k * 32 + i % 32]; \
                binding_2[i] = sum;";
    let text =
        text.replace("// Compute item i here.", body).replace("return 1;  // It has", "return 0;  // It has");
    work.write("kernel.c", &text);
    let [.., with_kernel, _, _] = verbs("kernel.c");
    let ran = run(&with_kernel, &["--baseline=variant.mlir"]);
    assert!(ran.stdout.contains("\nright "), "{}{}", ran.stdout, ran.stderr);
    let ran = run(&module, &[]);
    assert!(
        ran.status == Some(1) && ran.stderr.contains("and the module computes another count"),
        "{}",
        ran.stderr
    );
    // The same code as a binary.
    let [replay, verify, compare, program, module] = verbs("variant.so");
    for (words, status, text) in [
        (&replay, 1, "FAILED_PRECONDITION; its workgroup count is not known: "),
        (&verify, 1, "FAILED_PRECONDITION; cannot tell: its workgroup count is not known: "),
        (&compare, 4, "cannot tell: its workgroup count is not known: "),
        (&program, 1, "FAILED_PRECONDITION; its workgroup count is not known: "),
        (&module, 1, "FAILED_PRECONDITION; its workgroup count is not known: "),
    ] {
        let ran = run(words, &[]);
        let said = format!("{}{}", ran.stdout, ran.stderr);
        let has_advice = said.contains("rehal compile --substitute=NAME=FILE");
        assert!(ran.status == Some(status) && said.contains(text) && has_advice, "{words:?}: {said}");
        assert!(!said.contains("wrong") && !work.path("new.vmfb").exists(), "{said}");
    }
    let stated = "--workgroup_count=rows_dispatch_0_matmul_Dx32x64_f32=20,1,1";
    for words in [&replay, &verify, &program] {
        let ran = run(words, &[stated]);
        assert_eq!(ran.status, Some(0), "{words:?}: {}", ran.stderr);
        assert!(words != &program || ran.stdout == expected, "{}", ran.stdout);
    }
    let ran = run(&compare, &[stated]);
    assert!(ran.stdout.contains("\nright "), "{}{}", ran.stdout, ran.stderr);
    let ran = run(&module, &[stated]);
    assert!(ran.status == Some(1) && ran.stderr.contains("needs 20x1x1 workgroups for"), "{}", ran.stderr);
    let ran = run(&verify, &["--workgroup_count=another=20,1,1"]);
    assert!(
        ran.status == Some(1) && ran.stderr.contains("of function 'another' are stated"),
        "{}",
        ran.stderr
    );
}

/// A search times each variant with its own count.
#[test]
fn variants_of_dynamic_dispatches_are_right() {
    let work = Work::new();
    work.write("p.mlir", ROWS);
    work.compile(&["--iree-hal-link-executables=false", "--iree-hal-dump-executable-configurations-to=c"]);
    let record = ["iree-run-module", "--device=local-sync", "--module=p.vmfb", "--function=rows"];
    let inputs = ["--input=40x64xf32=1", "--input=64x32xf32=0.125", "--device_replay_output=c.ireereplay"];
    assert_eq!(work.run(&[&record[..], &inputs].concat()).status, Some(0));
    let source = names(&work.path("c")).into_iter().find(|it| it.ends_with(".mlir")).unwrap();
    work.write(
        "space.toml",
        &format!(
            "base = \"c/{source}\"\n[[axis]]\nconfig = \"distribution\"\noperation = \"linalg.matmul\"\n\
             values = [[8, 8, 0], [40, 32, 0], [16, 16, 0]]\n"
        ),
    );
    let tune = ["rehal", "tune", "--device=local-sync", "--space=space.toml", "--trial_time=20ms"];
    let ran = work.run(&[&tune[..], &["--format=json", "c.ireereplay"]].concat());
    let report: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    let outcomes: Vec<_> =
        report["trials"].as_array().unwrap().iter().map(|it| it["outcome"].as_str().unwrap()).collect();
    let is_right = |it: &&str| ["faster", "not_slower", "cannot_tell", "slower"].contains(it);
    assert!(outcomes.len() == 3 && outcomes.iter().all(is_right), "{outcomes:?}: {}", ran.stderr);
}
