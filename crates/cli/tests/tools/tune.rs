//! `rehal tune`: variants of kernels in C, and of a dispatch, with the pinned release of the compiler.
//! Whether a variant is faster is tested only of one that takes several times as long.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::common::{Ran, Scratch, capture, command, fail, ran, run, write_kernel};

const ADD: &str = "add_dispatch_0_elementwise_4_f32";

/// Kernels that are right, wrong, crash, and do not compile, or are slow.
fn write_base(scratch: &Scratch) {
    let body = "for (volatile int j = 0; j < DELAY; ++j) {}\n\
                if (CRASH) *(volatile int *)(uintptr_t)8 = 0;\n\
                binding_2[i] = binding_0[i] OPERATOR binding_1[i];";
    write_kernel(&scratch.path("k.c"), &capture("add4.add.local-sync"), ADD, body);
}

fn write_space(scratch: &Scratch, axes: &[(&str, &str)]) -> String {
    let axes = axes.iter().map(|(name, values)| format!("[[axis]]\nmacro = \"{name}\"\nvalues = {values}\n"));
    scratch.file("space.toml", format!("base = \"k.c\"\n{}", axes.collect::<String>()))
}

fn words(scratch: &Scratch, flags: &[&str]) -> Vec<String> {
    let mut words = ["rehal", "tune", "--device=local-sync", "--precision=50%"].map(String::from).to_vec();
    words.extend([format!("--function={ADD}"), format!("--space={}", scratch.path("space.toml").display())]);
    words.extend(flags.iter().map(|it| (*it).to_owned()));
    words.push(capture("add4.add.local-sync"));
    words
}

fn tune(scratch: &Scratch, flags: &[&str]) -> Ran {
    let words = words(scratch, flags);
    run(&words.iter().map(String::as_str).collect::<Vec<_>>())
}

fn lines(path: &str) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

#[test]
fn wrong_variants_are_refused_before_they_are_timed() {
    let scratch = Scratch::new();
    write_base(&scratch);
    write_space(&scratch, &[("OPERATOR", r#"["-", "+", "!"]"#), ("CRASH", "[0, 1]"), ("DELAY", "[100000]")]);
    let (output, best) = (scratch.path("t.jsonl"), scratch.path("best.c"));
    let (output, best) = (output.to_str().unwrap(), best.to_str().unwrap());
    let flags = [&*format!("--output={output}"), &format!("--best={best}"), "--format=json"];
    let found = tune(&scratch, &flags);
    // The only one that is right is thousands of times as slow as the captured kernel.
    assert_eq!(found.status, Some(3), "{found:?}");
    let report: Value = serde_json::from_str(&found.stdout).unwrap();
    assert_eq!(report["header"]["schema"], "rehal.tune/1");
    assert_eq!((&report["stopped"], &report["trial_count"]), (&"points".into(), &6.into()));
    assert_eq!((&report["best"], &report["second"]), (&3.into(), &Value::Null));
    assert_eq!(report["against_captured"]["outcome"], "slower");
    assert!(!PathBuf::from(best).exists());
    let trials = lines(output);
    let outcomes: Vec<_> = trials.iter().map(|it| it["outcome"].as_str().unwrap()).collect();
    assert_eq!(outcomes, ["wrong", "crashed", "slower", "crashed", "failed", "failed"]);
    for trial in &trials {
        let is_right = trial["outcome"] == "slower";
        for key in ["timings", "ratio", "captured_ns", "candidate_ns"] {
            assert_eq!(trial[key].is_null(), !is_right, "{key}: {trial}");
        }
        assert_eq!(trial["error"].is_null(), is_right, "{trial}");
        assert_eq!(trial["header"]["schema"], "rehal.tune.trial/1");
        assert_eq!(trial["header"]["capture_digest"], report["header"]["capture_digest"]);
    }
    assert_eq!(trials[0]["point"], serde_json::json!({"OPERATOR": "-", "CRASH": 0, "DELAY": 100_000}));
    assert!(trials[4]["error"].as_str().unwrap().contains("does not compile"), "{}", trials[4]);
    assert!(trials[2]["candidate_digest"].is_string() && trials[4]["candidate_digest"].is_null());
    // The command of a trial tries it again.
    let again = shlex::split(trials[0]["command"].as_str().unwrap()).unwrap();
    assert_eq!((&*again[0], &*again[2], &*again[3]), ("cd", "&&", "rehal"), "{again:?}");
    let again = run(&again[3..].iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(again.status, Some(2), "{again:?}");
    assert!(
        again.stdout.contains("1 trial of ") && again.stdout.contains("no variant is right"),
        "{again:?}"
    );
    // Nothing is tried again with the same file, and the table has the reasons.
    let known = tune(&scratch, &flags[..1]);
    assert_eq!((known.status, lines(output).len()), (Some(3), 6), "{known:?}");
    assert!(!known.stderr.contains("trial "), "{known:?}");
    for part in
        ["OPERATOR=- ", "wrong", "crashed", "failed", "best     trial 3: ", "slower than the captured kernel"]
    {
        assert!(known.stdout.contains(part), "{part}: {known:?}");
    }
}

#[test]
fn a_search_that_was_killed_is_resumed() {
    let scratch = Scratch::new();
    write_base(&scratch);
    write_space(&scratch, &[("OPERATOR", r#"["-"]"#), ("CRASH", "[0]"), ("DELAY", "[0, 1, 2, 3, 4, 5]")]);
    let output = scratch.path("t.jsonl").display().to_string();
    let flag = format!("--output={output}");
    let words = words(&scratch, &[&flag]);
    let mut killed = command(&words[0]);
    let mut killed = killed.args(&words[1..]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    while fs::read_to_string(&output).unwrap_or_default().lines().count() < 2 {
        assert!(killed.try_wait().unwrap().is_none(), "it ends after six trials");
        std::thread::sleep(Duration::from_millis(5));
    }
    let copies = crate::signals::children(killed.id());
    killed.kill().unwrap();
    killed.wait().unwrap();
    // The copy of the process that runs kernels ends with it, perhaps within a line.
    crate::signals::wait_for_the_end("a search", &copies);
    let before = fs::read(&output).unwrap();
    let complete = lines(&output).len();
    fs::write(&output, [&before[..], b"{\"trial\": 7, "].concat()).unwrap();
    let resumed = tune(&scratch, &[&flag]);
    assert_eq!(resumed.status, Some(2), "{resumed:?}");
    assert!(resumed.stderr.contains("skipped that is not a trial"), "{resumed:?}");
    let trials = lines(&output);
    let keys: BTreeSet<_> = trials.iter().map(|it| it["key"].as_str().unwrap()).collect();
    assert_eq!((trials.len(), keys.len()), (6, 6));
    assert_eq!(resumed.stderr.matches(": wrong").count(), 6 - complete, "{resumed:?}");
    // Another tolerance makes other trials of them.
    let others = tune(&scratch, &[&flag, "--trials=1", "--tolerance=*:f32:abs=1e9"]);
    assert!(matches!(others.status, Some(0 | 3 | 4)), "{others:?}");
    assert_eq!(lines(&output).len(), 7);
}

/// The process that runs the kernels gets the signal twice then: from the group, and passed on.
#[test]
fn a_search_whose_process_group_is_interrupted_reports() {
    let scratch = Scratch::new();
    write_base(&scratch);
    let delays = (0..1000).map(|it| it.to_string()).collect::<Vec<_>>().join(", ");
    let delays = format!("[{delays}]");
    write_space(&scratch, &[("OPERATOR", r#"["-"]"#), ("CRASH", "[0]"), ("DELAY", &delays)]);
    let output = scratch.path("t.jsonl").display().to_string();
    let words = words(&scratch, &[&format!("--output={output}")]);
    let mut tool = command(&words[0]);
    tool.args(&words[1..]).process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut tool = tool.spawn().unwrap();
    while fs::read_to_string(&output).unwrap_or_default().lines().count() < 2 {
        assert!(tool.try_wait().unwrap().is_none(), "it ended");
        std::thread::sleep(Duration::from_millis(5));
    }
    let group = format!("-{}", tool.id());
    assert!(Command::new("kill").args(["-s", "INT", "--", &group]).status().unwrap().success());
    let ran = ran(tool.wait_with_output().unwrap());
    assert!(ran.status == Some(2) && ran.stdout.contains("; interrupted\n"), "{ran:?}");
}

#[test]
fn an_interrupted_search_names_the_best_of_what_it_measured() {
    let scratch = Scratch::new();
    write_base(&scratch);
    let delays = (0..1000).map(|it| (it + 1).to_string()).collect::<Vec<_>>().join(", ");
    let delays = format!("[{delays}]");
    write_space(&scratch, &[("OPERATOR", r#"["+"]"#), ("CRASH", "[0]"), ("DELAY", &delays)]);
    let output = scratch.path("t.jsonl").display().to_string();
    let words = words(&scratch, &["--trial_time=0.05s", &format!("--output={output}")]);
    let mut tool = command(&words[0]);
    tool.args(&words[1..]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut tool = tool.spawn().unwrap();
    while fs::read_to_string(&output).unwrap_or_default().lines().count() < 3 {
        assert!(tool.try_wait().unwrap().is_none(), "it ended");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(Command::new("kill").args(["-s", "INT", &tool.id().to_string()]).status().unwrap().success());
    let ran = ran(tool.wait_with_output().unwrap());
    let best =
        ran.stdout.lines().skip_while(|it| !it.starts_with("best     trial ")).nth(1).unwrap_or_default();
    assert!(best.starts_with("         not proved: "), "{ran:?}");
    assert!(matches!(ran.status, Some(3 | 4)), "{ran:?}");
}

#[test]
fn the_advice_leaves_out_an_axis_that_changes_nothing() {
    let scratch = Scratch::new();
    write_base(&scratch);
    let space = write_space(&scratch, &[("OPERATOR", r#"["+"]"#), ("CRASH", "[0]"), ("DELAY", "[0]")]);
    let axes = fs::read_to_string(&space).unwrap();
    fs::write(&space, axes + "[[axis]]\nflag = \"-DNOTHING\"\nvalues = [1, 2, 3]\n").unwrap();
    let found = tune(&scratch, &["--trial_time=0.1s"]);
    assert_eq!(found.stdout.matches("the same code as trial 1").count(), 2, "{found:?}");
    assert_eq!(found.stderr.matches("the same code as trial 1").count(), 2, "{found:?}");
    assert!(found.stdout.contains("axis 'DNOTHING' changes nothing"), "{found:?}");
    let advice = found.stdout.split("best     trial 1: ").nth(1).unwrap();
    assert!(!advice.lines().next().unwrap().contains("NOTHING"), "{found:?}");
    assert!(!found.stdout.contains("flags of the compiler"), "{found:?}");
}

/// That says nothing about the variant: a search that is resumed compiles it again.
#[test]
fn a_variant_whose_compiler_was_killed_is_tried_again() {
    let scratch = Scratch::new();
    write_base(&scratch);
    write_space(&scratch, &[("OPERATOR", r#"["+"]"#), ("CRASH", "[0]"), ("DELAY", "[0]")]);
    let script = "#!/bin/sh\ncase \"$*\" in *--version*) echo 1;; *) kill -9 $$;; esac\n";
    let compiler = scratch.file("cc", script);
    fs::set_permissions(&compiler, fs::Permissions::from_mode(0o755)).unwrap();
    let output = scratch.path("t.jsonl").display().to_string();
    let words = words(&scratch, &[&format!("--output={output}")]);
    let killed = ran(command(&words[0]).args(&words[1..]).env("CC", compiler).output().unwrap());
    assert_eq!(killed.status, Some(1), "{killed:?}");
    assert!(killed.stdout.contains("was ended by signal 9"), "{killed:?}");
    assert!(!fs::exists(output).unwrap());
}

#[test]
fn what_cannot_be_searched_is_an_error() {
    let scratch = Scratch::new();
    write_base(&scratch);
    let failed = |flags: &[&str]| {
        let words = words(&scratch, flags);
        fail(&words.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let space = |text: &str| scratch.file("space.toml", text);
    space("base = \"k.c\"\n[[axis]]\nmacro = \"DELAY\"\nvalue = [1]\n");
    assert!(failed(&[]).contains("space.toml:4: unknown field `value`"));
    space("base = ");
    assert!(failed(&[]).contains("space.toml:1: "));
    space("base = \"k.c\"\n");
    assert!(failed(&[]).contains("the space has no axes"));
    space("base = \"k.c\"\n[[axis]]\nmacro = \"DELAY\"\nvalues = []\n");
    assert!(failed(&[]).contains("space.toml:4: values: axis 'DELAY' has no values"));
    space("base = \"none.c\"\n[[axis]]\nmacro = \"DELAY\"\nvalues = [1]\n");
    assert!(failed(&[]).contains("none.c"));
    space("base = \"k.c\"\n[[axis]]\nmacro = \"DELAY\"\nvalues = [1]\n");
    assert!(failed(&["--function=nothing"]).contains("the capture has no function 'nothing'"));
    assert!(failed(&["--point={\"N\": 1}"]).contains("no axis has the name 'N'"));
    assert!(failed(&["--point={\"DELAY\": 2}"]).contains("its values are 1"));
    assert!(failed(&["--compiler_timeout=1s"]).contains("--compiler_timeout=1s is for dispatches"));
    assert!(failed(&["--point=M"]).contains("invalid value 'M' for --point"));
    assert!(failed(&["--output=-"]).contains("not to standard output"));
    let other = scratch.file("other.txt", "text\n");
    assert!(failed(&[&format!("--output={other}")]).contains("it has no trial"));
    assert_eq!(fs::read_to_string(other).unwrap(), "text\n");
    // What no variant would change is found before the first trial.
    let unknown = "[[axis]]\nmacro = \"NOTHING\"\nvalues = [1]\n";
    space(&format!("base = \"k.c\"\n{unknown}"));
    assert!(failed(&[]).contains("space.toml:3: macro: 'NOTHING' does not occur in "));
    let flag = "[[axis]]\nflag = \"-fnothing\"\nvalues = [1, 2]\n";
    let output = format!("--output={}", scratch.path("t.jsonl").display());
    space(&format!("base = \"k.c\"\n{flag}"));
    let error = failed(&[&output]);
    assert!(error.contains("space.toml:3: '-fnothing=1'\n") && !error.contains("trial 1"), "{error}");
    // A macro of each variant is not why the base does not compile.
    let source = fs::read_to_string(scratch.path("k.c")).unwrap();
    fs::write(scratch.path("k.c"), format!("int nothing = ;\n{source}")).unwrap();
    write_space(&scratch, &[("OPERATOR", r#"["+", "-"]"#), ("CRASH", "[0]"), ("DELAY", "[0]")]);
    let error = failed(&[&output]);
    assert!(error.contains("error: expected expression before") && !error.contains("trial 1"), "{error}");
    assert!(error.contains("k.c' itself; no variant is tried\n"), "{error}");
    fs::write(scratch.path("k.c"), source).unwrap();
    let source = fs::read_to_string(scratch.path("k.c")).unwrap();
    fs::write(scratch.path("k.c"), source.replace(ADD, "another")).unwrap();
    write_space(&scratch, &[("OPERATOR", r#"["+", "-"]"#), ("CRASH", "[0]"), ("DELAY", "[0]")]);
    let error = failed(&[&output]);
    assert!(error.contains("k.c' itself; no variant is tried\n"), "{error}");
    assert!(error.contains("has no function 'add_dispatch_0") && !error.contains("trial 1"), "{error}");
    assert!(!scratch.path("t.jsonl").exists());
    assert!(failed(&["--space="]).contains("--space is missing"));
}

/// A product of matrices, recorded with a configuration that computes one element at a time.
struct Product(Scratch);

impl Product {
    const PROGRAM: &str = "func.func @mm(%a: tensor<128x128xf32>, %b: tensor<128x128xf32>) -> tensor<128x128xf32> {
  %c0 = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<128x128xf32>
  %f = linalg.fill ins(%c0 : f32) outs(%e : tensor<128x128xf32>) -> tensor<128x128xf32>
  %r = linalg.matmul ins(%a, %b : tensor<128x128xf32>, tensor<128x128xf32>) outs(%f : tensor<128x128xf32>) -> tensor<128x128xf32>
  return %r : tensor<128x128xf32>
}
";

    fn record() -> Self {
        let this = Self(Scratch::new());
        this.0.file("p.mlir", Self::PROGRAM);
        let compile = ["rehal", "compile", "--target=cpu", "p.mlir", "-o", "p.vmfb"];
        this.succeed(&[&compile[..], &["--iree-hal-dump-executable-configurations-to=c"]].concat());
        let dumped = fs::read_to_string(this.0.path("c/configured_module_mm_dispatch_0.mlir")).unwrap();
        let (from, to) = (Self::field(&dumped), "vector_common_parallel = [1, 1, 0]");
        this.0.file("base.mlir", dumped.replace(&from, to));
        this.succeed(&[&compile[..], &["--substitute=mm_dispatch_0=base.mlir"]].concat());
        let input = "--input=128x128xf32=0.5";
        let words =
            ["iree-run-module", "--device=local-sync", "--module=p.vmfb", "--function=mm", input, input];
        this.succeed(&[&words[..], &["--output=", "--device_replay_output=c.ireereplay"]].concat());
        this
    }

    /// How the compiler tiles the product.
    fn field(text: &str) -> String {
        let product = text.lines().find(|line| line.contains("linalg.matmul {")).unwrap();
        let at = product.find("vector_common_parallel = [").unwrap();
        product[at..][..=product[at..].find(']').unwrap()].to_owned()
    }

    fn run(&self, words: &[&str]) -> Ran {
        let environment = std::env::var_os("REHAL_REFERENCE").filter(|it| !it.is_empty());
        let environment = environment.map_or_else(|| testing::repository().join(".venv"), PathBuf::from);
        let mut command = command(words[0]);
        command.args(&words[1..]).current_dir(self.0.path(""));
        ran(command
            .env("REHAL_COMPILER", environment)
            .env("REHAL_CACHE_DIR", self.0.path("cache"))
            .output()
            .unwrap())
    }

    fn succeed(&self, words: &[&str]) -> String {
        let ran = self.run(words);
        assert_eq!(ran.status, Some(0), "{words:?}: {ran:?}");
        ran.stdout
    }
}

/// The captured configuration computes one element at a time, and another one vectors: several times as fast.
#[test]
fn the_planted_tiles_are_found() {
    let product = Product::record();
    product.0.file(
        "space.toml",
        "base = \"base.mlir\"\n\
         [[axis]]\nconfig = \"vector_common_parallel\"\noperation = \"linalg.matmul\"\nvalues = [[1, 1, 0], [8, 16, 0]]\n\
         [[axis]]\nconfig = \"distribution\"\nvalues = [[16, 64, 0], [64, 128, 0]]\n\
         [[axis]]\nflag = \"--iree-llvmcpu-loop-unrolling\"\nvalues = [true]\n",
    );
    let words =
        ["rehal", "tune", "--device=local-sync", "--space=space.toml", "--output=t.jsonl", "c.ireereplay"];
    let found = product.run(&[&words[..], &["--best=best.mlir"]].concat());
    assert_eq!(found.status, Some(0), "{found:?}");
    let trials = lines(product.0.path("t.jsonl").to_str().unwrap());
    assert_eq!(trials.len(), 4);
    // Also those that divide the work into other workgroups are right.
    for trial in &trials {
        assert!(!trial["timings"].is_null() && trial["error"].is_null(), "{trial}");
        assert_eq!(trial["flags"], serde_json::json!(["--iree-llvmcpu-loop-unrolling=true"]));
    }
    assert!(found.stdout.contains("faster than the captured kernel"), "{found:?}");
    let best = fs::read_to_string(product.0.path("best.mlir")).unwrap();
    assert_eq!(Product::field(&best), "vector_common_parallel = [8, 16, 0]");
    // What it computes is right, in a replay and in the program.
    let substitution = "--replay_executable_substitution=mm_dispatch_0_matmul_128x128x128_f32=best.mlir";
    let verify =
        ["rehal", "verify", "--device=local-sync", "--tolerance=*:f32:ulp=4", substitution, "c.ireereplay"];
    product.succeed(&verify);
    let with = [
        "rehal",
        "compare",
        "--device=local-sync",
        "--with=best.mlir",
        "--max_time=5s",
        "--precision=50%",
        "--cache=warm",
        "c.ireereplay",
    ];
    product.succeed(&with);
    let compile = [
        "rehal",
        "compile",
        "--target=cpu",
        "--substitute=mm_dispatch_0=best.mlir",
        "p.mlir",
        "-o",
        "b.vmfb",
    ];
    product.succeed(&compile);
    let input = "--input=128x128xf32=0.5";
    let expected = "--expected_output=128x128xf32=32";
    product.succeed(&[
        "iree-run-module",
        "--device=local-sync",
        "--module=b.vmfb",
        "--function=mm",
        input,
        input,
        expected,
    ]);
    // Again, nothing is compiled and nothing is tried.
    let again = product.run(&words);
    assert_eq!(
        (again.status, lines(product.0.path("t.jsonl").to_str().unwrap()).len()),
        (Some(0), 4),
        "{again:?}"
    );
}
