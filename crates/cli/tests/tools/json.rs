//! `--format=json` of the tools whose text is for people, or nothing.

use serde_json::{Value, json};

use crate::common::{Scratch, capture, fail, fixture, run, write_kernel};

const ADD: &str = "add_dispatch_0_elementwise_4_f32";

/// The output of a tool, which is one object with a header of this schema; and the exit status.
fn object(words: &[&str], schema: &str) -> (Value, Option<i32>) {
    let ran = run(words);
    let object: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("{words:?}: {ran:?}"));
    assert_eq!(object["header"]["schema"], schema, "{words:?}");
    (object, ran.status)
}

fn printed(words: &[&str], schema: &str) -> Value {
    let (object, status) = object(words, schema);
    assert_eq!(status, Some(0), "{words:?}: {object}");
    object
}

#[test]
fn a_replay_has_its_host_reads() {
    let path = capture("add4.add.local-sync");
    let tool = ["iree-run-replay", "--device=local-sync", "--format=json"];
    let ran = printed(&[&tool[..], &[&path]].concat(), "rehal.run/1");
    let reads = ran["host_reads"].as_array().unwrap();
    assert_eq!(ran["skipped_count"], 0);
    // 11, 22, 33, 44.
    assert_eq!(reads.last().unwrap()["bytes"], "0000304100 00b04100000442 00003042".replace(' ', ""));
    assert!(ran["step_count"].as_u64().unwrap() > 10 && ran["header"]["device"].is_array(), "{ran}");
    // A file has them too, and standard output cannot.
    let scratch = Scratch::new();
    let log = scratch.path("reads");
    let flag = format!("--replay_host_reads={}", log.display());
    let again = printed(&[&tool[..], &[&flag, &path]].concat(), "rehal.run/1");
    let lines = std::fs::read_to_string(&log).unwrap();
    let lines: Vec<Value> = lines.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
    assert_eq!(again["host_reads"], json!(lines));
    let both = fail(&[&tool[..], &["--replay_host_reads=-", &path]].concat());
    assert!(both.contains("both --format=json and a result"), "{both}");
}

#[test]
fn a_slice_says_what_is_in_it() {
    let scratch = Scratch::new();
    let output = scratch.path("slice.ireereplay").display().to_string();
    let tool = ["rehal", "slice", "--device=local-sync", "--format=json", "-o"];
    let path = capture("mlp.mlp.local-sync");
    let slice = printed(&[&tool[..], &[&output, "--dispatch=29", &path]].concat(), "rehal.slice/1");
    assert_eq!(
        (&slice["path"], &slice["record"], &slice["occurrence"]),
        (&output.as_str().into(), &29.into(), &0.into())
    );
    assert_eq!(slice["is_checked"], true);
    let read = &slice["host_reads"][0];
    let replayed = printed(&["rehal", "run", "--device=local-sync", "--format=json", &output], "rehal.run/1");
    let of_slice = &replayed["host_reads"][0];
    assert_eq!((&read["blake3"], &read["length"]), (&of_slice["blake3"], &of_slice["length"]));
    assert!(slice["content_bytes"].as_u64() >= read["length"].as_u64(), "{slice}");
    let both = fail(&[&tool[..], &["-", "--dispatch=29", &path]].concat());
    assert!(both.contains("both --format=json and a result"), "{both}");
}

#[test]
fn kernels_are_written_built_recorded_and_replayed() {
    let scratch = Scratch::new();
    let [stub, source, library, records] =
        ["s.c", "k.c", "k.so", "records"].map(|it| scratch.path(it).display().to_string());
    let path = capture("add4.add.local-sync");
    let words =
        ["rehal", "kernel", "stub", "--device=local-sync", "--format=json", "--function=add", &path, "-o"];
    let observed = printed(&[&words[..], &[&stub]].concat(), "rehal.kernel.stub/1");
    assert_eq!((&observed["function"], &observed["executables"]), (&ADD.into(), &json!([4])));
    assert_eq!(
        observed["signature"],
        json!({"constants": 0, "bindings": 3, "parameters": 0, "workgroup_size": [1, 1, 1], "flags": observed["signature"]["flags"]})
    );
    let shape = &observed["shapes"][0];
    assert_eq!(
        (&shape["record"], &shape["count"], &shape["workgroup_count"]),
        (&17.into(), &1.into(), &json!([1, 1, 1]))
    );
    assert!(shape["time_ns"].as_u64().unwrap() > 0, "{shape}");
    let bindings = shape["bindings"].as_array().unwrap();
    let written: Vec<_> = bindings.iter().map(|it| (&it["length"], &it["is_written"])).collect();
    assert_eq!(json!(written), json!([[16, false], [16, false], [16, true]]));
    let unseen = printed(&[&words[..], &[&stub, "--force", "--no_run"]].concat(), "rehal.kernel.stub/1");
    assert_eq!(
        (&unseen["shapes"][0]["time_ns"], &unseen["shapes"][0]["bindings"][2]["is_written"]),
        (&Value::Null, &Value::Null)
    );

    write_kernel(source.as_ref(), &path, ADD, "binding_2[i] = binding_0[i];\n#warning told");
    let built = printed(
        &["rehal", "kernel", "build", "--format=json", &source, "-o", &library],
        "rehal.kernel.build/1",
    );
    assert_eq!((&built["path"], &built["functions"][0]["name"]), (&library.as_str().into(), &ADD.into()));
    assert_eq!(built["length"], std::fs::metadata(&library).unwrap().len());
    assert!(built["messages"].as_str().unwrap().contains("told"), "{built}");

    let words = [
        "rehal",
        "kernel",
        "record",
        "--device=local-sync",
        "--format=json",
        "--report",
        "-o",
        &records,
        &path,
    ];
    let recorded = printed(&words, "rehal.kernel.record/1");
    assert_eq!(
        (&recorded["kernels"][0]["function"], &recorded["kernels"][0]["dispatch_count"]),
        (&ADD.into(), &1.into())
    );
    let descriptor = format!("{records}/{}", recorded["kernels"][0]["descriptor"].as_str().unwrap());
    let words =
        ["rehal", "kernel", "replay", "--device=local-sync", "--format=json", "--repetitions=9", "--verify"];
    let replayed = printed(&[&words[..], &[&descriptor, &descriptor]].concat(), "rehal.kernel.replay/1");
    let kernels = replayed["kernels"].as_array().unwrap();
    assert_eq!((kernels.len(), kernels[0]["times_ns"].as_array().unwrap().len()), (2, 9));
    assert_eq!((&kernels[1]["is_verified"], &kernels[1]["differences"]), (&true.into(), &json!([])));
    assert!(
        kernels[0]["median_interval_ns"]["low"].as_f64() <= kernels[0]["median_ns"].as_f64(),
        "{replayed}"
    );
    // One that differs.
    let output = descriptor.replace(".json", ".record_output");
    let mut bytes = std::fs::read(&output).unwrap();
    let changed = bytes.len() - 1;
    let last = bytes.iter().rposition(|it| *it != 0).unwrap_or(changed);
    bytes[last] ^= 1;
    std::fs::write(&output, bytes).unwrap();
    let (differs, status) = object(&[&words[..], &[&descriptor]].concat(), "rehal.kernel.replay/1");
    let kernel = &differs["kernels"][0];
    assert_eq!(
        (status, &kernel["is_verified"], kernel["times_ns"].as_array().unwrap().len()),
        (Some(2), &false.into(), 1)
    );
    let difference = &kernel["differences"][0];
    assert_eq!((&difference["different_bytes"], &difference["element_type"]), (&1.into(), &"f32".into()));
    assert_eq!(difference["elements"][0]["actual"], "44.0");
}

#[test]
fn results_of_programs_are_numbers() {
    let module = format!("--module={}", fixture("modules/add4.vmfb"));
    let tool = ["iree-run-module", "--device=local-sync", "--format=json", "--function=add", &module];
    let inputs = ["--input=4xf32=1 2 nan 4", "--input=4xf32=0.5"];
    let called = printed(&[&tool[..], &inputs].concat(), "rehal.run_module/1");
    assert_eq!((&called["function"], &called["are_as_expected"]), (&"add".into(), &Value::Null));
    let result = &called["results"][0];
    assert_eq!(result["shape"], json!([4]));
    assert_eq!(
        (&result["element_type"], &result["elements"]),
        (&"f32".into(), &json!([1.5, 2.5, "NAN", 4.5]))
    );
    assert!(result["text"].as_str().unwrap().ends_with("4xf32=1.5 2.5 NAN 4.5"), "{result}");
    let short =
        printed(&[&tool[..], &inputs, &["--output_max_element_count=2"]].concat(), "rehal.run_module/1");
    assert_eq!(short["results"][0]["elements"], json!([1.5, 2.5]));
    let inputs = ["--input=4xf32=1", "--input=4xf32=2"];
    let expected = |value: &str| {
        let flag = format!("--expected_output=4xf32={value}");
        object(&[&tool[..], &inputs, &[&flag]].concat(), "rehal.run_module/1")
    };
    let (same, status) = expected("3");
    assert_eq!(
        (&same["are_as_expected"], &same["results"][0]["difference"], status),
        (&true.into(), &Value::Null, Some(0))
    );
    let (other, status) = expected("4");
    assert_eq!((&other["are_as_expected"], status), (&false.into(), Some(1)));
    assert!(
        other["results"][0]["difference"].as_str().unwrap().contains("element at index 0 (3)"),
        "{other}"
    );
    let scratch = Scratch::new();
    let to = scratch.path("sum.bin");
    let output = format!("--output=@{}", to.display());
    let written = printed(&[&tool[..], &inputs, &[&output]].concat(), "rehal.run_module/1");
    assert_eq!(written["results"][0]["path"], to.display().to_string());
    assert_eq!(std::fs::read(&to).unwrap(), 3f32.to_le_bytes().repeat(4));
    let (error, status) = object(&[&tool[..], &["--input=4xf32=1"]].concat(), "rehal.error/1");
    assert_eq!((error["error"]["code"].is_string(), status), (true, Some(1)));
}

#[test]
fn tests_of_modules_are_rows() {
    let module = format!("--module={}", fixture("modules/checks.vmfb"));
    let tool = ["iree-check-module", "--device=local-sync", "--format=json", &module];
    let (checked, status) = object(&tool, "rehal.check_module/1");
    assert_eq!(
        (status, &checked["failed_count"], &checked["module"]),
        (Some(1), &1.into(), &"module".into())
    );
    let tests = checked["tests"].as_array().unwrap();
    let passed: Vec<_> = tests.iter().map(|it| (&it["name"], &it["passed"])).collect();
    assert_eq!(passed.len(), 4);
    assert!(
        passed.contains(&(&"fails".into(), &false.into()))
            && passed.contains(&(&"counts".into(), &true.into())),
        "{checked}"
    );
    let failed = tests.iter().find(|it| it["name"] == "fails").unwrap();
    assert!(failed["failures"][0].as_str().unwrap().contains("[1] lhs 2.5 rhs 2"), "{failed}");
    let expected = printed(&[&tool[..], &["--expect_failure"]].concat(), "rehal.check_module/1");
    assert_eq!(expected["expects_failure"], true);
    let listed = printed(
        &[&tool[..], &["--gtest_list_tests", "--gtest_filter=*count*"]].concat(),
        "rehal.check_module/1",
    );
    assert_eq!((&listed["selected"], &listed["tests"]), (&json!(["counts", "counts_again"]), &json!([])));
    let missing = format!("--executable_substitution=nothing={}", fixture("modules/add4_swapped.elf"));
    let prevented = printed(&[&tool[..], &["--expect_failure", &missing]].concat(), "rehal.check_module/1");
    assert_eq!(
        (&prevented["error"]["code"], &prevented["failed_count"]),
        (&"NOT_FOUND".into(), &Value::Null)
    );
    let (error, status) = object(&[&tool[..], &[&missing]].concat(), "rehal.error/1");
    assert_eq!((&error["error"]["code"], status), (&"NOT_FOUND".into(), Some(1)));
}
