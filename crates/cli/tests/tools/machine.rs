//! `rehal machine`, and what other verbs say with it.

use serde_json::Value;

use crate::common::{Ran, Scratch, capture, command, ran};

/// Runs rehal with a directory of caches.
fn rehal(words: &[&str], cache: &Scratch) -> Ran {
    let mut command = command("rehal");
    let ran = ran(command.args(words).env("REHAL_CACHE_DIR", cache.path("cache")).output().unwrap());
    assert_eq!(ran.status, Some(0), "{words:?}: {}", ran.stderr);
    ran
}

fn json(words: &[&str], cache: &Scratch) -> Value {
    serde_json::from_str(&rehal(&[words, &["--format=json"]].concat(), cache).stdout).unwrap()
}

/// The highest rate of one thread among rows of a measurement.
fn best<'a>(rows: impl Iterator<Item = &'a Value>) -> f64 {
    let one = rows.filter(|it| it["threads"] == 1).map(|it| it["per_second"].as_f64().unwrap());
    one.fold(0.0, f64::max)
}

#[test]
fn kernels_are_compared_with_a_machine_that_is_measured_once() {
    let cache = Scratch::new();
    let mlp = capture("mlp.mlp.local-sync");
    let kernels = ["kernels", "--device=local-sync", "--repetitions=1", &mlp];
    let before = json(&kernels, &cache);
    assert_eq!(before["sorted_by"], "time");
    assert!(before["kernels"].as_array().unwrap().iter().all(|it| it["roof_ns"].is_null()));
    assert!(rehal(&kernels, &cache).stdout.contains("see rehal machine"));

    let machine = ["machine", "--device=local-sync"];
    let measured = json(&machine, &cache);
    assert_eq!(measured["header"]["schema"], "rehal.machine/1");
    let device = &measured["devices"][0];
    assert_eq!((&device["machine"]["driver"], &device["is_kept"]), (&"cpu".into(), &false.into()));
    assert!(std::fs::exists(device["file"].as_str().unwrap()).unwrap());
    // The drivers of CPUs share what is kept.
    let kept = json(&["machine", "--device=local-task"], &cache);
    assert_eq!(kept["devices"][0]["is_kept"], true);
    for part in ["machine", "conditions", "peaks", "bandwidths"] {
        assert_eq!(kept["devices"][0][part], device[part], "{part}");
    }
    let text = rehal(&machine, &cache).stdout;
    assert!(text.contains("f32") && text.contains("memory"), "{text}");

    let found = json(&kernels, &cache);
    assert_eq!(found["sorted_by"], "above_roof");
    let rows = found["kernels"].as_array().unwrap();
    let number = |row: &Value, name: &str| row[name].as_f64().unwrap_or_else(|| panic!("{name}: {row}"));
    assert!(rows.is_sorted_by(|one, other| number(one, "above_roof_ns") >= number(other, "above_roof_ns")));
    let peaks = device["peaks"].as_array().unwrap().iter();
    let f32_rate = best(peaks.filter(|it| it["element"] == "f32").map(|it| &it["rate"]));
    for row in rows {
        let (bytes, time_ns) = (number(row, "bytes"), number(row, "time_ns"));
        // Of the caches in which the bytes fit, and of memory.
        let fits = |it: &&Value| {
            let all = device["bandwidths"].as_array().unwrap();
            let most = all.iter().filter(|other| other["name"] == it["name"]);
            most.clone().any(|it| it["capacity_bytes"].is_null())
                || most
                    .filter(|it| it["read"]["threads"] == 1)
                    .any(|it| it["capacity_bytes"].as_f64() >= Some(bytes))
        };
        let bandwidths = device["bandwidths"].as_array().unwrap().iter().filter(fits);
        let rate = best(bandwidths.flat_map(|it| [&it["read"], &it["copy"]]));
        let (mut roof_ns, name) = (bytes * 1e9 / rate, row["function"].as_str().unwrap());
        if name == "mlp_dispatch_0_matmul_8x48x32_f32" {
            assert_eq!((&row["operations"], &row["operations_from"]), (&24576.into(), &"name".into()));
            roof_ns = roof_ns.max(24576.0 * 1e9 / f32_rate);
        } else if name.contains("reduction") {
            assert_eq!((&row["operations"], &row["operations_from"]), (&Value::Null, &"unknown".into()));
        } else {
            roof_ns = number(row, "roof_ns");
        }
        assert!((number(row, "roof_ns") / roof_ns - 1.0).abs() < 1e-9, "{roof_ns}: {row}");
        let share = number(row, "roof_ns") * number(row, "count") / time_ns;
        assert!((number(row, "roof_share") / share - 1.0).abs() < 1e-9, "{share}: {row}");
        assert_eq!(row["bytes_from"], "accessed", "{row}");
    }
    let text = rehal(&kernels, &cache).stdout;
    assert!(text.contains("sorted by the time above the roof"), "{text}");
    let by_time = json(&[&kernels[..], &["--sort=time"]].concat(), &cache);
    let rows = by_time["kernels"].as_array().unwrap();
    assert_eq!(by_time["sorted_by"], "time");
    assert!(rows.is_sorted_by(|one, other| number(one, "time_ns") >= number(other, "time_ns")));
    let csv = rehal(&[&kernels[..], &["--format=csv"]].concat(), &cache).stdout;
    let mut lines = csv.lines().map(|line| line.split(',').count());
    let count = lines.next().unwrap();
    assert!(csv.contains("roof_ns") && lines.all(|it| it == count), "{csv}");
}
