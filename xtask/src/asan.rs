//! `cargo xtask asan`: runs the suites that mutate the input of readers, verifiers and printers under
//! AddressSanitizer, which finds accesses outside of allocations that neither a panic nor a wrong result
//! shows. Needs a nightly toolchain.

use crate::run::{cargo, succeed};
use crate::{Outcome, miri, root};

/// Packages and their tests that mutate input: the target, and arguments that select tests.
const SUITES: [(&str, &str, &[&str]); 10] = [
    ("params", "hostile", &[]),
    ("values", "hostile", &[]),
    ("capture", "hostile", &[]),
    ("profile", "hostile", &[]),
    // The prefixes of all modules would take 5 minutes.
    ("vm", "hostile", &["--skip", "truncation_anywhere"]),
    ("local", "elf", &["mutated"]),
    ("local", "vmvx_hostile", &[]),
    ("replay", "hostile", &["mutations"]),
    ("edit", "diff", &["mutated"]),
    ("judge", "ledgers", &["arbitrary"]),
];

/// The number of suites in the short run, which has to build little.
const SHORT: usize = 2;

/// `asan [--short]`: all suites by default.
pub fn main(arguments: &[String]) -> Outcome {
    match arguments {
        [] => run(SUITES.len()),
        [short] if short == "--short" => run(SHORT),
        [other, ..] => Err(format!("unknown argument {other:?} (expected --short)").into()),
    }
}

fn run(count: usize) -> Outcome {
    miri::require(&["--version"], None)?;
    let target = root().join("target/address-sanitizer");
    let outcome = SUITES[..count].iter().try_for_each(|(name, test, tests)| {
        println!("rehal-{name}, {test} under AddressSanitizer");
        let package = format!("rehal-{name}");
        let mut cargo = cargo(&["+nightly", "test", "--quiet", "--target", "x86_64-unknown-linux-gnu"]);
        cargo.args(["--package", &package, "--test", test, "--"]).args(*tests);
        cargo.env("RUSTFLAGS", "-Zsanitizer=address").env("CARGO_PROFILE_DEV_DEBUG", "line-tables-only");
        // Input asks for more memory than there is, which must fail and not abort.
        cargo.env("ASAN_OPTIONS", "allocator_may_return_null=1").env("CARGO_TARGET_DIR", &target);
        succeed(&mut cargo)
    });
    // It is used by nothing else, and takes a gigabyte.
    let _ = std::fs::remove_dir_all(&target);
    outcome
}
