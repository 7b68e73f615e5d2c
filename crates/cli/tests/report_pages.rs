//! `rehal profile report` of many bundles, most of which have only a part of what a page can show: each page
//! is opened in a browser, and every section draws what the bundle has or names the mode that would fill it.

#[path = "tools/browser/mod.rs"]
#[allow(dead_code, reason = "shared with the tests of single pages")]
mod browser;
#[path = "tools/common/mod.rs"]
#[allow(dead_code, reason = "shared with the tests of all tools")]
mod common;

use std::path::Path;
use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};
use rehal_profile::layout::FileHeader;
use rehal_profile::{Bundle, ContentType, OpenOptions, Record, rows};

use browser::{Browser, Scheme};
use common::{Scratch, capture, fixture, print, run};

const MODES: [&str; 6] = [
    "queue-events",
    "host-execution",
    "memory-events",
    "executable-metadata",
    "command-region-events",
    "queue-events,host-execution,memory-events,command-region-events",
];

fn main() -> ExitCode {
    let mut trials = vec![
        Trial::test("bundles_of_every_mode_are_drawn::fixtures", || {
            recorded();
            Ok(())
        }),
        Trial::test("bundles_of_modules_without_work_are_drawn::fixtures", || {
            without_work();
            Ok(())
        }),
        Trial::test("bundles_torn_behind_the_header_are_drawn::fixtures", || {
            torn();
            Ok(())
        }),
    ];
    trials.push(testing::on_corpus("bundles_of_other_programs_are_drawn::corpus", bundles));
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn recorded() {
    let mut browser = None;
    let scratch = Scratch::new();
    for (index, mode) in MODES.into_iter().enumerate() {
        let device = ["local-sync", "local-task"][index % 2];
        let profile = scratch.path(&format!("{index}.ireeprof")).display().to_string();
        print(&[
            "iree-run-replay",
            &format!("--device={device}"),
            &format!("--device_profiling_mode={mode}"),
            &format!("--device_profiling_output={profile}"),
            &capture("mlp.mlp.local-task"),
        ]);
        draw(&mut browser, &scratch, &profile);
    }
}

fn without_work() {
    let mut browser = None;
    let scratch = Scratch::new();
    let profile = scratch.path("check.ireeprof").display().to_string();
    let mode = "--device_profiling_mode=queue-events,host-execution";
    let output = format!("--device_profiling_output={profile}");
    let module = format!("--module={}", fixture("modules/checks.vmfb"));
    let ran = run(&[
        "iree-check-module",
        "--device=local-task",
        mode,
        &output,
        &module,
        // It checks globals only.
        "--gtest_filter=*counts",
    ]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    draw(&mut browser, &scratch, &profile);
}

fn torn() {
    let mut browser = None;
    let scratch = Scratch::new();
    let sample = format!("{}/../profile/tests/data/sample.ireeprof", env!("CARGO_MANIFEST_DIR"));
    let bytes = std::fs::read(&sample).unwrap();
    let header = size_of::<FileHeader>();
    for length in [header, header + 10, bytes.len() / 4, bytes.len()] {
        draw(&mut browser, &scratch, &scratch.file("torn.ireeprof", &bytes[..length]));
    }
}

fn bundles(corpus: &Path) {
    let mut browser = None;
    let scratch = Scratch::new();
    let entries = std::fs::read_dir(corpus.join("profiles")).expect("the corpus has profiles");
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "ireeprof"));
    assert!(paths.len() >= 25, "the corpus has only {} profiles", paths.len());
    paths.sort();
    for path in paths {
        draw(&mut browser, &scratch, path.to_str().unwrap());
    }
}

/// Draws the page of a bundle, in a browser that starts for the first: each section has something, and the
/// memory chart is there if the bundle has memory events.
fn draw(browser: &mut Option<Browser>, scratch: &Scratch, profile: &str) {
    let page = scratch.path("report.html");
    print(&["rehal", "profile", "report", profile, "-o", page.to_str().unwrap()]);
    if let Some(browser) = browser {
        browser.show(&page);
    }
    let browser = browser.get_or_insert_with(|| Browser::open(&page, Scheme::Light));
    browser.screenshot(&format!("page-of-{}", Path::new(profile).file_stem().unwrap().display()));
    let facts = browser.value("document.getElementById('facts').textContent");
    assert!(facts.as_str().unwrap().starts_with("Profile "), "{profile}: {facts}");
    let sections = browser.value(
        "[...document.querySelectorAll('main > section')].map((it) => [it.id, it.innerText, it.querySelectorAll('canvas').length])",
    );
    let sections: Vec<(String, String, u64)> = serde_json::from_value(sections).unwrap();
    let ids: Vec<_> = sections.iter().map(|(id, ..)| id.as_str()).collect();
    let all = ["summary", "timeline", "functions", "dispatches", "memory", "semaphores", "contents"];
    assert_eq!(ids, all, "{profile}");
    assert_eq!(browser.number("document.querySelectorAll('#sections a').length"), all.len() as f64);
    for (id, text, canvases) in &sections {
        assert!(!text.contains("cannot be drawn"), "{profile}: {text}");
        let has_rows = browser.number(&format!("document.querySelectorAll('#{id} .body .row').length")) > 0.0;
        let has_findings =
            id == "summary" && browser.number("document.querySelectorAll('#findings li').length") > 0.0;
        let says_why = text.contains("--device_profiling_mode=")
            || text.contains("No dispatch has a time")
            || text.contains("no session and no events");
        assert!(*canvases > 0 || has_rows || has_findings || says_why, "{profile}: {id} is empty: {text}");
    }
    let is_drawn = browser.number("document.querySelectorAll('#memory-canvas').length") > 0.0;
    assert_eq!(is_drawn, has_memory_events(profile), "{profile}");
    if is_drawn {
        let colors = browser.pixels("#memory-canvas");
        let count = colors.iter().filter(|(_, count)| *count >= 10).count();
        assert!(count > 4, "{profile}: {colors:?}");
    }
    // Typing a filter selects and describes also where there is nothing.
    browser.value("document.getElementById('filter').focus(), 0");
    browser.type_text("track:\"host execution\"");
    browser.assert_quiet();
}

fn has_memory_events(profile: &str) -> bool {
    let bytes = std::fs::read(profile).unwrap();
    let bundle = Bundle::open(&bytes, OpenOptions { recover: true }).unwrap();
    let has = |record: Record<'_>| {
        record.content() == Some(ContentType::MemoryEvents)
            && record.rows::<rows::MemoryEvent<'_>>().next().is_some()
    };
    bundle.records().any(|record| has(record.unwrap()))
}
