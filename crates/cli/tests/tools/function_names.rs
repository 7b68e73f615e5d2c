//! Functions are named in the same ways by all verbs of captures: by name, pattern, unique part, or record.

use crate::common::{Scratch, capture, fail, print};
use serde_json::Value;

const SOFTMAX: &str = "mlp_dispatch_3_softmax_8x10xf32_dispatch_tensor_store";

/// The record that dispatches it.
fn record() -> u64 {
    let report = print(&["rehal", "kernels", "--no_run", "--format=json", &capture("mlp.mlp.local-sync")]);
    let report: Value = serde_json::from_str(&report).unwrap();
    let kernels = report["kernels"].as_array().unwrap();
    kernels.iter().find(|it| it["function"] == SOFTMAX).unwrap()["record"].as_u64().unwrap()
}

/// The ways to name it.
fn ways() -> [String; 5] {
    let record = record();
    [
        format!("--function={SOFTMAX}"),
        "--function=softmax".into(),
        "--function=*_softmax_*".into(),
        format!("--dispatch={record}"),
        format!("--dispatch=#{record}"),
    ]
}

#[test]
fn all_ways_name_the_same_function() {
    let (scratch, path) = (Scratch::new(), capture("mlp.mlp.local-sync"));
    let ways = ways();
    let kernels = |way: &str| {
        let report = print(&["rehal", "kernels", "--no_run", "--format=json", way, &path]);
        serde_json::from_str::<Value>(&report).unwrap()["kernels"].clone()
    };
    let stub = |way: &str| print(&["rehal", "kernel", "stub", "--no_run", way, &path, "-o", "-"]);
    let slice = |way: &str| {
        let output = scratch.path("slice.ireereplay");
        print(&["rehal", "slice", "--device=local-sync", way, &path, "-o", output.to_str().unwrap()]);
        std::fs::read(output).unwrap()
    };
    let first = (kernels(&ways[0]), stub(&ways[0]), slice(&ways[0]));
    assert_eq!(first.0.as_array().unwrap().len(), 1);
    for way in &ways[1..] {
        assert_eq!((kernels(way), stub(way), slice(way)), first, "{way}");
    }
}

#[test]
fn a_part_of_several_names_is_ambiguous() {
    let (scratch, path) = (Scratch::new(), capture("mlp.mlp.local-sync"));
    let output = scratch.path("output");
    let output = output.to_str().unwrap();
    let kernel = scratch.file("kernel.c", "");
    let expected = "'matmul' may be 3 functions: mlp_dispatch_0_matmul_8x48x32_f32, mlp_dispatch_1_matmul_";
    for words in [
        &["rehal", "kernels", "--no_run", "--function=matmul", &path][..],
        &["rehal", "kernel", "stub", "--function=matmul", &path, "-o", "-"],
        &["rehal", "kernel", "record", "--function=matmul", &format!("--directory={output}"), &path],
        &["rehal", "slice", "--function=matmul", &path, "-o", output],
        &["rehal", "compare", "--function=matmul", &format!("--with={kernel}"), &path],
        &["rehal", "reduce", "--check=slow", "--function=matmul", &path, "-o", output],
    ] {
        let stderr = fail(words);
        assert!(stderr.contains(expected), "{words:?}: {stderr}");
        assert!(!std::path::Path::new(output).exists(), "{words:?}");
    }
}
