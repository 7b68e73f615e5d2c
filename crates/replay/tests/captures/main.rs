//! Captures of programs: planned, dumped, replayed on recorded devices, and mutated. Those of the fixtures,
//! and those of the corpus, whose tests are ignored if it is missing.

mod again;
mod comparable;
mod discrete;
mod dumped;
#[path = "../memory/mod.rs"]
mod memory;
#[allow(dead_code, reason = "shared with the tests on hostile bytes")]
#[path = "../mutate/mod.rs"]
mod mutate;
mod orders;
mod planned;
#[path = "../reads/mod.rs"]
mod reads;
mod slices;
#[path = "../record/memory.rs"]
mod written;

use std::path::Path;
use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

fn main() -> ExitCode {
    let mut trials = Vec::new();
    trials.extend(testing::on_both_sets(
        "planned",
        planned::every_capture_is_planned_or_refused_for_its_reason,
    ));
    trials.extend(testing::on_both_sets("dispatches", planned::distinct_dispatches_stand_for_all));
    trials.push(Trial::test("torn::fixtures", || {
        planned::torn_captures_are_planned_up_to_their_tear(&testing::fixtures());
        Ok(())
    }));
    trials.extend(testing::on_both_sets("dumped", dumped::dumps_match_the_reference));
    trials.extend(testing::on_both_sets("recorded_again", again::replays_are_recorded_identically));
    trials.extend(testing::on_both_sets("discrete", discrete::captures_replay_as_on_shared_memory));
    trials.extend(testing::on_both_sets("orders", orders::both_orders_read_the_same_on_a_late_device));
    trials.extend(testing::on_both_sets("workers", orders::both_orders_read_the_same_on_workers));
    trials.extend(testing::on_both_sets("delays", orders::both_orders_read_the_same_under_delays));
    trials.extend(testing::on_both_sets("operations", orders::operations_one_by_one_read_the_same));
    trials.extend(testing::on_both_sets("slices", slices::dispatches_are_sliced));
    trials.extend(testing::on_both_sets("slices_of_pages", slices::touched_pages_are_enough));
    trials.extend(testing::on_both_sets("slices_of_scopes", slices::scopes_are_sliced));
    trials.extend(testing::on_both_sets("races", orders::captures_of_programs_have_no_races));
    // The mutations of the fixtures are in `hostile.rs`.
    trials.push(testing::on_corpus("mutated::corpus", mutations));
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn mutations(set: &Path) {
    let seeds: Vec<_> = testing::captures(set).iter().map(|path| std::fs::read(path).unwrap()).collect();
    let [planned, refused] = mutate::bounds::mutate_all(&seeds, 2000, 2);
    assert!(planned > 100 && refused > 100, "{planned} {refused}");
}
