//! `rehal profile report`: the page in a browser, and the files that it is made of.

use std::io::Cursor;
use std::path::{Path, PathBuf};

use crate::browser::{Browser, Scheme, WIDTH};
use crate::common::{Scratch, capture, fail, fixture, print, run};
use rehal_profile::layout::{self, NONE};
use rehal_profile::{QueueEventType, RecordFields, Row, Writer, rows};

/// Where the axis of the timeline begins.
const GUTTER: f64 = 200.0;

const TIMELINE: &str = "#timeline-canvas";

/// A name that would run a script if it were not escaped.
const HOSTILE: &str =
    "</script><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">";

/// A profile with rows of every kind.
fn sample() -> String {
    format!("{}/../profile/tests/data/sample.ireeprof", env!("CARGO_MANIFEST_DIR"))
}

/// A profile of `count` dispatches of 1 us each, 3 us apart, of three functions: on one queue, in submissions
/// of ten.
fn many(count: u64) -> Vec<u8> {
    profile_of((0..count).map(dispatch))
}

/// A profile of dispatches of three functions.
fn profile_of(events: impl Iterator<Item = layout::HostExecutionEvent>) -> Vec<u8> {
    let mut writer = Writer::new(Cursor::new(Vec::new())).unwrap();
    let fields = RecordFields { name: HOSTILE.as_bytes(), session_id: 1, ..RecordFields::default() };
    writer.begin_session(&fields).unwrap();
    let executable =
        layout::Executable { executable_id: 1.into(), function_count: 3.into(), ..Default::default() };
    append(&mut writer, &fields, &[rows::Executable { header: &executable.sized(), appended: &[] }]);
    for (ordinal, name) in [HOSTILE, "matmul", "softmax"].into_iter().enumerate() {
        let name = name.as_bytes();
        let header = layout::Function {
            executable_id: 1.into(),
            function_ordinal: (ordinal as u32).into(),
            ..Default::default()
        };
        append(&mut writer, &fields, &[rows::Function { header: &header.sized(name), name, appended: &[] }]);
    }
    let headers: Vec<_> = events.map(|it| it.sized()).collect();
    for headers in headers.chunks(5_000) {
        let rows: Vec<_> =
            headers.iter().map(|header| rows::HostExecutionEvent { header, appended: &[] }).collect();
        append(&mut writer, &fields, &rows);
    }
    writer.end_session(&fields, 0).unwrap();
    writer.into_inner().into_inner()
}

fn dispatch(id: u64) -> layout::HostExecutionEvent {
    let start = 1_000_000 + id as i64 * 3_000;
    layout::HostExecutionEvent {
        event_type: QueueEventType::DISPATCH.0.into(),
        event_id: (id + 1).into(),
        submission_id: (id / 10 + 1).into(),
        executable_id: 1.into(),
        function_ordinal: ((id % 3) as u32).into(),
        command_index: NONE.into(),
        workgroup_count: [(id as u32 % 7 + 1).into(), 1.into(), 1.into()],
        workgroup_size: [1.into(); 3],
        start_host_time_ns: start.into(),
        // The last one is the longest.
        end_host_time_ns: (start + 1_000 + id as i64 % 10).into(),
        ..Default::default()
    }
}

fn append<'r, R: Row<'r>>(writer: &mut Writer<Cursor<Vec<u8>>>, fields: &RecordFields<'_>, rows: &[R]) {
    writer.append_rows(fields, rows).unwrap();
}

/// The page of a file.
fn page(scratch: &Scratch, file: &str) -> PathBuf {
    let page = scratch.path("report.html");
    assert_eq!(print(&["rehal", "profile", "report", file, "-o", page.to_str().unwrap()]), "");
    page
}

fn open(page: &Path) -> Browser {
    Browser::open(page, Scheme::Light)
}

/// The colors of a canvas that cover at least ten pixels.
fn colors(browser: &mut Browser, canvas: &str) -> Vec<String> {
    let pixels = browser.pixels(canvas);
    pixels.into_iter().filter(|(_, count)| *count >= 10).map(|(color, _)| color).collect()
}

#[test]
fn a_profile_is_drawn_in_light_and_dark() {
    let scratch = Scratch::new();
    let mut browser = open(&page(&scratch, &sample()));
    let light = colors(&mut browser, TIMELINE);
    assert_eq!(light[0], "255,255,255");
    assert!(light.len() > 6, "{light:?}");
    assert!(colors(&mut browser, "#memory-canvas").len() > 4);
    browser.screenshot("profile-light");
    browser.set_scheme(Scheme::Dark);
    browser.settle();
    let dark = colors(&mut browser, TIMELINE);
    assert_eq!(dark[0], "21,24,29");
    assert!(dark.len() > 6, "{dark:?}");
    assert!(!dark.contains(&light[0]));
    let back = browser.value("getComputedStyle(document.body).backgroundColor");
    assert_eq!(back, "rgb(21, 24, 29)");
    browser.screenshot("profile-dark");
    let notes = browser.value("document.getElementById('notes').textContent");
    let notes = notes.as_str().unwrap();
    assert!(notes.contains("not aligned with others") && notes.contains("dropped 3 rows"), "{notes}");
    browser.assert_quiet();
}

#[test]
fn labels_have_enough_contrast_in_both_themes() {
    let scratch = Scratch::new();
    let mut browser = open(&page(&scratch, &sample()));
    for scheme in [Scheme::Light, Scheme::Dark] {
        browser.set_scheme(scheme);
        browser.settle();
        let least = browser.number(
            "(() => { readColors(); const pairs = colors.series.map((it, at) => [it, colors.onSeries[at]]);
             for (const ink of ['text', 'muted', 'accent']) pairs.push([colors.page, colors[ink]], [colors.panel, colors[ink]]);
             pairs.push([colors.plain, colors.text]);
             return Math.min(...pairs.map((pair) => { const [a, b] = pair.map(luminance).sort((a, b) => a - b); \
             return (b + 0.05) / (a + 0.05); })); })()",
        );
        assert!((4.5..21.0).contains(&least), "{least}");
    }
    browser.assert_quiet();
}

#[test]
fn medians_are_beside_means_with_a_warning_where_they_differ() {
    let scratch = Scratch::new();
    let slow = |id| match id {
        4 => layout::HostExecutionEvent { end_host_time_ns: 1_112_000.into(), ..dispatch(id) },
        _ => dispatch(id),
    };
    let file = scratch.file("slow.ireeprof", profile_of((0..30).map(slow)));
    let mut browser = open(&page(&scratch, &file));
    let warning = browser.value("document.getElementById('means').textContent");
    let expected = "The mean and the median of 1 function differ by more than 10 % (matmul):";
    assert!(warning.as_str().unwrap().starts_with(expected), "{warning}");
    let medians = browser.value(
        "[median([]), median([3]), median([9, 1]), median([5, 1, 2]), \
         ...functions.groups.map((it) => it.median)].join()",
    );
    // Ten dispatches of each function take 1000 to 1009 ns, but for one of 100 us instead of 1004 ns.
    assert_eq!(medians, "0,3,5,2,1004.5,1005.5,1004.5");
    let alike = page(&scratch, &scratch.file("alike.ireeprof", many(30)));
    assert_eq!(open(&alike).number("document.querySelectorAll('#means').length"), 0.0);
}

#[test]
fn shapes_are_read_from_names() {
    let scratch = Scratch::new();
    let mut browser = open(&page(&scratch, &sample()));
    let shapes = browser.value(
        "['mlp_dispatch_0_matmul_8x48x32_f32', 'x_dispatch_3_softmax_8x10xf32_dispatch_tensor_store', \
         'add_dispatch_0_elementwise_4_f32', 'a_dispatch_12_reduction_Dx10_f32', 'abs_dispatch_0_elementwise', \
         'matmul', '_initializer_0_dispatch_0_elementwise_640_i64'].map(shapeOf).join('|')",
    );
    assert_eq!(shapes, "8×48×32|8×10|4|D×10|||640");
    let prefixes = browser.value(
        "[['_initializer_0_x', 'main$async_dispatch_1_x', 'main$async_dispatch_12_x', 'main$async_dispatch_2_x'], \
         ['mlp_dispatch_0_x', 'mlp_dispatch_1_x'], ['a_x', 'b_x'], ['a_x', 'a_x'], ['a_', 'a_x'], []].map(sharedPrefix).join('|')",
    );
    assert_eq!(prefixes, "main$async_dispatch_|mlp_dispatch_||||");
}

#[test]
fn times_of_single_dispatches_are_named() {
    let scratch = Scratch::new();
    let of = |count, name: &str| {
        let mut browser = open(&page(&scratch, &scratch.file(name, many(count))));
        browser.value("document.getElementById('singles')?.textContent ?? ''")
    };
    let each = "Each time is that of a single dispatch: record more iterations to see how it varies.";
    assert_eq!(of(3, "three.ireeprof"), each);
    // Of three functions, one has a second dispatch.
    let some = "The times of 2 functions are each of a single dispatch: record more iterations to see how they vary.";
    assert_eq!(of(4, "four.ireeprof"), some);
    assert_eq!(of(6, "six.ireeprof"), "");
}

#[test]
fn a_hundred_thousand_events_are_drawn_zoomed_and_selected() {
    let scratch = Scratch::new();
    let file = scratch.file("many.ireeprof", many(100_000));
    let mut browser = open(&page(&scratch, &file));
    assert!(browser.number("timeline.drawn") >= 1.0);
    assert!(colors(&mut browser, TIMELINE).len() > 3);
    // The page has elements for a few rows only.
    assert!(browser.number("document.querySelectorAll('.row').length") < 120.0);

    let whole = browser.number("axis.length");
    browser.wheel_with_ctrl(TIMELINE, (GUTTER + 10.0, 40.0), -400.0);
    let wheeled = browser.number("axis.length");
    assert!(wheeled < whole / 2.0, "{wheeled} of {whole}");
    browser.value("document.querySelector('#timeline-canvas').focus(), 0");
    browser.press("+");
    let zoomed = browser.number("axis.length");
    assert!((wheeled / zoomed - 1.5).abs() < 0.01, "{wheeled} / {zoomed}");
    let before = browser.number("axis.from");
    browser.press("ArrowRight");
    assert!(browser.number("axis.from") > before);
    browser.press("ArrowLeft");
    browser.press("-");
    assert!((browser.number("axis.length") / wheeled - 1.0).abs() < 0.01);
    browser.press("0");
    assert_eq!(browser.number("axis.length"), whole);

    // Ten dispatches, 3 us apart, in 30 us.
    browser.value("axis.set(150000, 180000), 0");
    browser.settle();
    let y = browser.number("timeline.rowY(timeline.rows.find((row) => row.track === 0)) + 9");
    let x = browser.number("timeline.x(159500)");
    browser.mouse("mouseMoved", TIMELINE, (x, y));
    let tooltip = browser.value("document.getElementById('tooltip').textContent");
    assert!(tooltip.as_str().unwrap().contains("event54"), "{tooltip}");
    browser.click(TIMELINE, (x, y));
    let details = browser.value("document.getElementById('details').textContent");
    assert!(details.as_str().unwrap().contains("start: 159 µs"), "{details}");
    browser.press("n");
    assert_eq!(browser.number("Number(events.id[timeline.selected])"), 55.0);
    browser.press("p");
    browser.press("p");
    assert_eq!(browser.number("Number(events.id[timeline.selected])"), 53.0);
    // A drag moves the axis with the pointer.
    let from = browser.number("axis.from");
    browser.mouse("mousePressed", TIMELINE, (600.0, y));
    browser.mouse("mouseMoved", TIMELINE, (500.0, y));
    browser.mouse("mouseReleased", TIMELINE, (500.0, y));
    let moved = browser.number("axis.from") - from;
    let expected = 100.0 * 30_000.0 / (f64::from(WIDTH) - 48.0 - 2.0 - GUTTER);
    assert!((moved / expected - 1.0).abs() < 0.05, "{moved} of {expected}");
    browser.assert_quiet();
}

/// The texts of the first row of the dispatches.
fn first_row(browser: &mut Browser) -> Vec<String> {
    let row = "document.querySelector('#dispatches-table .body .row[aria-rowindex=\"2\"]')";
    let cells = browser.value(&format!("[...{row}.children].map((cell) => cell.textContent)"));
    serde_json::from_value(cells).unwrap()
}

#[test]
fn dispatches_are_sorted_and_filtered() {
    let scratch = Scratch::new();
    let file = scratch.file("many.ireeprof", many(100));
    let mut browser = open(&page(&scratch, &file));
    let rows = |browser: &mut Browser| browser.number("dispatches.rows.length");
    assert_eq!(rows(&mut browser), 100.0);
    // The longest is first; a click on the title of the first column sorts by id.
    assert_eq!(first_row(&mut browser)[3], "1.009 µs");
    let title = "#dispatches-table .head [role=columnheader] button";
    browser.click(title, (20.0, 5.0));
    assert_eq!(first_row(&mut browser)[0], "100");
    browser.click(title, (20.0, 5.0));
    assert_eq!(first_row(&mut browser)[0], "1");
    let order = browser.value("document.querySelector('#dispatches-table [role=columnheader]').ariaSort");
    assert_eq!(order, "ascending");
    browser.click("#filter", (20.0, 5.0));
    browser.type_text("softmax");
    assert_eq!(rows(&mut browser), 33.0);
    assert_eq!(first_row(&mut browser)[1], "softmax");
    browser.type_text(" submission:2");
    assert_eq!(rows(&mut browser), 3.0);
    assert_eq!(browser.value("document.getElementById('matches').textContent"), "3 of 100 events");
    browser.type_text(" nothing");
    assert_eq!(rows(&mut browser), 0.0);
    let body = browser.value("document.querySelector('#dispatches-table .body').textContent");
    assert_eq!(body, "No event matches.");
    // A click on a function filters by it: the hostile name, with spaces and quotes, took the longest.
    browser.click("#functions-table .body .row", (20.0, 5.0));
    assert_eq!(rows(&mut browser), 34.0);
    assert_eq!(first_row(&mut browser)[1], HOSTILE);
    // A click on a dispatch zooms the timeline to it.
    browser.click("#dispatches-table .body .row", (20.0, 5.0));
    assert!(browser.number("axis.length") < 5_000.0);
    browser.assert_quiet();
}

/// The number of matches of each filter among all events, with what the page says of it.
fn matches(browser: &mut Browser, filter: &str) -> (f64, String) {
    browser
        .value("document.getElementById('filter').value = '', document.getElementById('filter').focus(), 0");
    browser.type_text(filter);
    let said = browser.value("document.getElementById('filter-problems').textContent");
    (browser.number("dispatches.rows.length"), said.as_str().unwrap().to_owned())
}

#[test]
fn filters_find_texts_with_spaces_and_say_what_they_do_not_know() {
    let scratch = Scratch::new();
    let file = scratch.file("many.ireeprof", many(99));
    let mut browser = open(&page(&scratch, &file));
    for (filter, expected) in [
        ("mat", 33.0),
        ("\"mat\"", 33.0),
        ("\"Host Execution\"", 99.0),
        ("\"host execution", 99.0),
        ("\"execution host\"", 0.0),
        ("\"script><script\" \"x onerror=\\\"doc\"", 33.0),
        ("name:matm", 33.0),
        ("name:\"matm\" event:2", 1.0),
        ("name:m*l", 33.0),
        ("name:m*m", 0.0),
        ("name:*a*m*l", 33.0),
        ("name:\"m*l\"", 0.0),
        ("name=matmul", 33.0),
        ("name=mat", 0.0),
        ("name:execution", 0.0),
        ("track:execution", 99.0),
        ("track:\"device 0\" name:soft", 33.0),
        ("submission:2", 10.0),
        ("submission:02 function:1", 4.0),
        ("device:0", 99.0),
        ("command:4294967295", 0.0),
        ("x::y", 0.0),
        ("x=y", 0.0),
        ("src=x", 33.0),
        (" ", 99.0),
    ] {
        assert_eq!(matches(&mut browser, filter), (expected, String::new()), "{filter}");
    }
    let (count, said) = matches(&mut browser, "matmul thread:worker");
    assert_eq!(count, 0.0);
    for field in [
        "“thread”",
        "name",
        "track",
        "event",
        "record",
        "submission",
        "command_buffer",
        "command",
        "function",
        "executable",
        "device",
    ] {
        assert!(said.contains(field), "{field}: {said}");
    }
    assert_eq!(
        matches(&mut browser, "submission:two"),
        (0.0, "The field “submission” needs a number, such as submission:3.".to_owned())
    );
    browser.assert_quiet();
}

#[test]
fn a_filter_that_no_dispatch_matches_names_the_other_events() {
    let scratch = Scratch::new();
    let mut browser = open(&page(&scratch, &sample()));
    let (count, said) = matches(&mut browser, "track:submissions");
    assert_eq!(count, 0.0);
    assert!(said.starts_with("No dispatch matches, but "), "{said}");
    browser.value("document.getElementById('scope').value = 'all', 0");
    let (count, said) = matches(&mut browser, "track:submissions");
    assert!(count > 0.0);
    assert_eq!(said, "");
    browser.assert_quiet();
}

#[test]
fn a_section_that_cannot_be_drawn_leaves_the_others() {
    let scratch = Scratch::new();
    let page = page(&scratch, &sample());
    let whole = std::fs::read_to_string(&page).unwrap();
    // Each damages what only one section uses.
    for (section, name) in
        [("memory", "\"series\":["), ("semaphores", "\"graph\":{"), ("contents", "\"sessions\":[")]
    {
        let at = whole.find(name).unwrap() + name.len() - 1;
        let mut damaged = whole.clone();
        damaged.replace_range(at..at, "null,\"unused\":");
        std::fs::write(&page, damaged).unwrap();
        let mut browser = open(&page);
        let sections =
            browser.value("[...document.querySelectorAll('main > section')].map((it) => it.innerText)");
        let sections: Vec<String> = serde_json::from_value(sections).unwrap();
        assert_eq!(sections.len(), 7);
        for text in sections {
            let is_damaged = text.to_lowercase().starts_with(section);
            assert_eq!(text.contains("cannot be drawn"), is_damaged, "{section}: {text}");
        }
        assert!(browser.number("document.querySelectorAll('#dispatches-table .body .row').length") > 0.0);
        assert_ne!(browser.value("document.getElementById('facts').textContent"), "");
        assert!(colors(&mut browser, TIMELINE).len() > 6);
    }
}

#[test]
fn names_are_text() {
    let scratch = Scratch::new();
    let file = scratch.file("<img src=x>.ireeprof", many(30));
    let page = page(&scratch, &file);
    assert!(!std::fs::read_to_string(&page).unwrap().contains("<img"));
    let mut browser = open(&page);
    assert_eq!(browser.value("document.title"), "<img src=x>.ireeprof – rehal report");
    assert_eq!(browser.number("document.images.length"), 0.0);
    assert_eq!(browser.number("document.scripts.length"), 2.0);
    let table = browser.value("document.getElementById('functions-table').textContent");
    assert!(table.as_str().unwrap().contains(HOSTILE), "{table}");
    let sessions = browser.value("document.getElementById('contents').textContent");
    assert!(sessions.as_str().unwrap().contains(HOSTILE), "{sessions}");
    browser.assert_quiet();
    // Even an element that got into the page could not run a script.
    browser.value(
        "document.body.insertAdjacentHTML('beforeend', '<img src=data:x onerror=\"document.title=1\">'), 0",
    );
    browser.settle();
    assert_ne!(browser.value("document.title"), "1");
}

#[test]
fn a_capture_is_drawn_with_its_graph_and_contents() {
    let scratch = Scratch::new();
    let mut browser = open(&page(&scratch, &capture("mlp.mlp.local-task")));
    assert!(colors(&mut browser, TIMELINE).len() > 4);
    assert!(colors(&mut browser, "#memory-canvas").len() > 3);
    assert!(colors(&mut browser, "#semaphores-canvas").len() > 3);
    browser.screenshot("capture-light");
    let info = print(&["rehal", "info", "--format=json", &capture("mlp.mlp.local-task")]);
    let info: serde_json::Value = serde_json::from_str(&info).unwrap();
    assert_eq!(browser.number("graphView.graph.count"), info["counts"]["submissions"].as_f64().unwrap());
    let executed =
        browser.number("functions.rows.reduce((sum, row) => sum + functions.columns[2].value(row), 0)");
    assert_eq!(executed, info["counts"]["dispatches"].as_f64().unwrap());
    let records: f64 =
        info["records"].as_array().unwrap().iter().map(|it| it["count"].as_f64().unwrap()).sum();
    assert_eq!(records, info["counts"]["records"].as_f64().unwrap());
    let functions = browser.value(
        "functions.rows.length + '|' + [...document.querySelectorAll('#functions-table .body .row')]\
         .map((row) => [...row.children].map((cell) => cell.textContent).join()).sort()[0]",
    );
    // The first of five: 1024, 6144 and 3072 bytes are bound.
    assert_eq!(functions, "5|0_matmul_8x48x32_f32,1,1,32.7 %,1,10 KiB,10 KiB,8×48×32");
    // The record of a dispatch has what it binds, and a name as short as that of its function.
    let first = first_row(&mut browser);
    assert_eq!(first.last().map(String::as_str), Some("10 KiB"), "{first:?}");
    assert!(first.contains(&"0_matmul_8x48x32_f32".to_owned()), "{first:?}");
    let summary = browser.value("document.getElementById('findings').textContent");
    let summary = summary.as_str().unwrap();
    assert!(
        summary.starts_with("mlp_dispatch_") && summary.contains(" of the bytes of all dispatches, "),
        "{summary}"
    );
    let prefix = browser.value("document.getElementById('prefix').textContent");
    assert_eq!(prefix, "Names are without what all begin with: mlp_dispatch_");
    let titles = browser.value("[...document.querySelectorAll('#contents h3')].map((it) => it.textContent)");
    let expected =
        serde_json::json!(["Records", "Bytes", "Executables and their functions", "Scopes", "Buffers"]);
    assert_eq!(titles, expected);
    // The execution waits for the allocations, whose signals lead there.
    browser.value("document.querySelector('#semaphores-canvas').focus(), 0");
    let execution = browser.number(
        "Array.from({ length: graphView.graph.count }, (_, it) => it)\
         .find((it) => graphView.graph.operationOf(it) === 'device.queue_execute')",
    );
    browser.value(&format!("graphView.show({execution}), 0"));
    let before = browser.value(&format!("graphView.graph.predecessors({execution})"));
    assert!(!before.as_array().unwrap().is_empty());
    for earlier in before.as_array().unwrap() {
        let after = browser.value(&format!("graphView.graph.successors({earlier})"));
        assert!(
            after.as_array().unwrap().iter().any(|it| it.as_f64() == Some(execution)),
            "{earlier}: {after}"
        );
    }
    let links = browser.value("document.getElementById('links').textContent");
    assert!(links.as_str().unwrap().contains("device.queue_execute"), "{links}");
    browser.press("p");
    assert_eq!(browser.number("graphView.selected"), execution - 1.0);
    browser.assert_quiet();
}

#[test]
fn a_profile_of_a_replay_is_drawn_with_its_graph_and_a_summary() {
    let scratch = Scratch::new();
    let profile = scratch.path("run.ireeprof").display().to_string();
    print(&[
        "iree-run-replay",
        "--device=local-task",
        "--device_profiling_mode=queue-events,host-execution,memory-events,command-region-events",
        &format!("--device_profiling_output={profile}"),
        &capture("mlp.mlp.local-task"),
    ]);
    let mut browser = open(&page(&scratch, &profile));
    assert!(colors(&mut browser, "#semaphores-canvas").len() > 3);
    browser.screenshot("profile-of-replay-light");
    let info = print(&["rehal", "info", "--format=json", &capture("mlp.mlp.local-task")]);
    let info: serde_json::Value = serde_json::from_str(&info).unwrap();
    assert_eq!(browser.number("graphView.graph.count"), info["counts"]["submissions"].as_f64().unwrap());
    // The execution waits for both allocations, and the deallocation for it.
    let execution = browser.number(
        "Array.from({ length: graphView.graph.count }, (_, it) => it)\
         .find((it) => graphView.graph.operationOf(it) === 'execute')",
    );
    let operations = |browser: &mut Browser, links: &str| {
        browser.value(&format!(
            "graphView.graph.{links}({execution}).map((it) => graphView.graph.operationOf(it))"
        ))
    };
    assert_eq!(operations(&mut browser, "predecessors"), serde_json::json!(["alloca", "alloca"]));
    assert_eq!(operations(&mut browser, "successors"), serde_json::json!(["dealloca"]));
    // Picking it selects its event.
    browser.value(&format!("graphView.show({execution}), 0"));
    let details = browser.value("document.getElementById('details').textContent");
    assert!(
        details.as_str().unwrap().starts_with("executetrack: submissions, device 0, queue 0"),
        "{details}"
    );
    let findings = browser.value("document.getElementById('findings').innerText");
    let findings = findings.as_str().unwrap();
    assert!(findings.contains("of the time of all dispatches"), "{findings}");
    // What workers executed, and the thread that waited for them, is in tracks of theirs, named as the
    // dispatches, and not counted as dispatches.
    let names = |browser: &mut Browser, filter: &str| {
        browser.value(&format!(
            "[...new Set(Array.from({{ length: events.count }}, (_, it) => it).filter((it) => {filter}).map((it) => \
             names[events.name[it]]))].sort()"
        ))
    };
    let of_workers = names(
        &mut browser,
        "/^(worker \\d+|(waiting|submitting) threads)$/.test(tracks[events.track[it]].kind)",
    );
    let of_workers = of_workers.as_array().unwrap();
    let dispatched = names(&mut browser, "isDispatch(it)");
    let dispatched = dispatched.as_array().unwrap();
    assert_eq!(dispatched.len(), 5);
    assert!(dispatched.iter().all(|name| of_workers.contains(name)), "{of_workers:?}");
    assert_eq!(browser.number("functions.rows.length"), 5.0);
    // The first button selects the longest dispatch.
    browser.click("#findings button", (5.0, 5.0));
    assert_eq!(
        browser.number("events.duration[timeline.selected]"),
        browser.number(
            "events.duration.reduce((most, it, event) => isDispatch(event) ? Math.max(most, it) : most, 0)"
        )
    );
    browser.assert_quiet();
}

/// Tables scroll within the page.
#[test]
fn nothing_overflows_a_page_of_390_pixels() {
    let scratch = Scratch::new();
    for file in [capture("mlp.mlp.local-task"), fixture("profiles/mlp.local-task.ireeprof")] {
        let mut browser = open(&page(&scratch, &file));
        browser.resize(390);
        browser.screenshot("narrow");
        let widths = browser.value(
            "[document.documentElement.scrollWidth, ...[...document.querySelectorAll('body *')]\
             .filter((it) => !it.closest('.table .head, .table .body, #tooltip, canvas') && it.getBoundingClientRect().right > 390.5)\
             .map((it) => `${it.tagName} ${it.id} ${it.className}`)]",
        );
        assert_eq!(widths, serde_json::json!([390]), "{file}");
        let tables = browser.value(
            "[...document.querySelectorAll('.table')].filter((it) => it.clientWidth > 0).map((it) =>\
             it.querySelector('.body').getBoundingClientRect().width - it.clientWidth > it.scrollWidth - it.clientWidth + 1)",
        );
        assert!(tables.as_array().unwrap().iter().all(|it| it == false), "{tables}");
        let scrolls = browser.number(
            "(() => { const it = document.querySelector('#dispatches-table .table'); it.scrollLeft = 10000; return it.scrollLeft; })()",
        );
        assert!(scrolls > 100.0, "{scrolls}");
        browser.assert_quiet();
    }
}

#[test]
fn truncated_files_are_shown_up_to_the_tear_with_a_note() {
    let scratch = Scratch::new();
    let bytes = many(10_000);
    let profile = scratch.file("torn.ireeprof", &bytes[..bytes.len() - 100_000]);
    let bytes = std::fs::read(capture("mlp.mlp.local-task")).unwrap();
    let capture = scratch.file("torn.ireereplay", &bytes[..bytes.len() * 3 / 4]);
    for (file, note) in [(profile, "This profile is truncated: "), (capture, "This capture is truncated: ")] {
        let page = scratch.path("torn.html");
        let ran = run(&["rehal", "profile", "report", &file, &format!("--output={}", page.display())]);
        assert_eq!(ran.status, Some(0), "{}", ran.stderr);
        assert!(ran.stderr.contains("is truncated: "), "{}", ran.stderr);
        let mut browser = open(&page);
        let shown = browser.value("document.getElementById('notes').innerText");
        assert!(shown.as_str().unwrap().starts_with(note), "{shown}");
        assert!(browser.number("timedCount") > 0.0);
        browser.assert_quiet();
    }
}

/// The page of a file with one more flag.
fn write_page(scratch: &Scratch, file: &str, flag: &str) -> PathBuf {
    let page = scratch.path("limited.html");
    print(&["rehal", "profile", "report", file, flag, &format!("--output={}", page.display())]);
    page
}

#[test]
fn events_beyond_the_limit_are_counted() {
    let scratch = Scratch::new();
    let file = scratch.file("many.ireeprof", many(50));
    let page = print(&["rehal", "profile", "report", "--max_events=20", "-o", "-", &file]);
    assert!(page.contains("30 events after the first 20 are left out (--max_events)."), "no note");
    assert!(page.contains("\"events\":{\"count\":20,"));
    // The totals of functions do not have them, which the section says.
    let mut browser = open(&write_page(&scratch, &file, "--max_events=20"));
    let functions = browser.value("document.getElementById('functions').innerText");
    let functions = functions.as_str().unwrap();
    assert!(
        functions.contains("30 events are left out (--max_events): numbers and times are those"),
        "{functions}"
    );
    let mut browser = open(&write_page(&scratch, &sample(), "--max_events=1"));
    let functions = browser.value("document.getElementById('functions').innerText");
    let functions = functions.as_str().unwrap();
    assert!(
        functions.contains("No dispatches on this page: ") && !functions.contains("records them"),
        "{functions}"
    );
}

#[test]
fn no_page_is_written_of_what_cannot_be_read() {
    let scratch = Scratch::new();
    let sample = sample();
    let page = scratch.path("report.html");
    let output = format!("--output={}", page.display());
    let report = |file: &str| fail(&["rehal", "profile", "report", file, &output]);
    assert!(
        report(&format!("{}/Cargo.toml", env!("CARGO_MANIFEST_DIR")))
            .contains("is a text file, not a device profile or a capture")
    );
    let first = scratch.file("first.ireereplay", b"I");
    assert!(
        report(&first)
            .contains("is a text file, not a device profile or a capture\n  try: name a device profile")
    );
    assert!(
        report(&scratch.file("empty.ireereplay", b""))
            .contains("is empty, not a device profile or a capture")
    );
    assert!(report("/no/such/file").contains("NOT_FOUND"));
    // A name length that reaches over its row.
    let mut bytes = many(1);
    let name = bytes.windows(6).position(|it| it == b"matmul").unwrap();
    bytes[name - 64 + 44] = 200;
    let damaged = scratch.file("damaged.ireeprof", &bytes);
    assert!(report(&damaged).contains("DATA_LOSS"));
    assert!(!page.exists());
    assert!(
        fail(&["rehal", "profile", "report", &sample])
            .contains("try: name the file to write: -o report.html")
    );
    let copy = scratch.file("copy.ireeprof", std::fs::read(&sample).unwrap());
    assert!(fail(&["rehal", "profile", "report", &copy, "-o", &copy]).contains("which is read"));
    assert_eq!(std::fs::read(&copy).unwrap(), std::fs::read(&sample).unwrap());
}
