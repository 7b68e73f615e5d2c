//! `cargo xtask mutants`: plants faults in the code of crates, one at a time, and lists those that the tests
//! of their own crate do not find.
//!
//! The faults are those of cargo-mutants: another value returned, another operator, a deleted arm. They are
//! planted in a checkout of HEAD below `target/mutants`, which keeps what is built there for the next time.

use crate::run::{self, cargo, succeed};
use crate::{Outcome, root, setup};
use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

/// The crates whose logic is tested by numbers, by directory; those that are there are the default.
const CRATES: [&str; 8] = ["judge", "edit", "kernels", "build", "jobs", "rehal", "replay", "capi"];
/// The number of faults that are planted if neither a number nor a change is given.
const COUNT: usize = 60;

/// Command-line options.
#[derive(Debug, Default, PartialEq)]
struct Options {
    crates: Vec<String>,
    /// The revision since which lines have changed that faults are planted in; in all lines if `None`.
    diff: Option<String>,
    /// The number of faults, about; all if `None`.
    count: Option<usize>,
    seed: u64,
}

/// `mutants [--diff REV] [--count N] [--seed S] [CRATE…]`: all faults in lines that changed since REV, or
/// about N of all.
pub fn main(arguments: &[String]) -> Outcome {
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
    let options = parse(arguments, now.subsec_nanos().into())?;
    let is_there = |name: &str| root().join("crates").join(name).is_dir();
    let mut crates = options.crates.clone();
    if crates.is_empty() {
        crates.extend(CRATES.iter().filter(|name| is_there(name)).map(ToString::to_string));
    } else if let Some(unknown) = crates.iter().find(|name| !is_there(name)) {
        return Err(format!("crates/{unknown} does not exist").into());
    }
    setup::install_cargo_tool("mutants", "cargo-mutants", "27.1.0")?;
    let place = run::target().join("mutants");
    let tree = place.join("tree");
    check_out(&tree)?;
    let mut selection = Vec::new();
    for name in &crates {
        let package = if name == "rehal" { name.clone() } else { format!("rehal-{name}") };
        selection.extend(["--package".to_owned(), package]);
    }
    if let Some(revision) = &options.diff {
        let diff = Command::new("git").args(["diff", revision, "HEAD"]).current_dir(&tree).output()?;
        let path = place.join("change.diff");
        fs::write(&path, diff.stdout)?;
        selection.extend(["--in-diff".to_owned(), path.display().to_string()]);
    }
    let mutants = || {
        let mut mutants = cargo(&["mutants", "--no-shuffle", "--colors=never", "--dir"]);
        mutants.arg(&tree);
        mutants
    };
    let listed = mutants().arg("--list").args(&selection).output()?;
    if !listed.status.success() {
        return Err(String::from_utf8_lossy(&listed.stderr).into());
    }
    let listed = String::from_utf8(listed.stdout)?;
    let all = listed.lines().count();
    if let Some(count) = options.count {
        selection.extend(["--sharding=round-robin".to_owned(), shard(all, count, options.seed)]);
    }
    println!("mutants: {all} in {}, seed {}", crates.join(", "), options.seed);
    let _ = fs::remove_dir_all(place.join("mutants.out"));
    let mut planting = mutants();
    planting.args(["--in-place", "--output"]).arg(&place).args(&selection);
    if setup::answers("cargo", &["nextest", "--version"]) {
        planting.arg("--test-tool=nextest");
    }
    // Tests look for the reference in the root of their repository.
    if std::env::var_os("REHAL_REFERENCE").is_none() {
        planting.env("REHAL_REFERENCE", root().join(".venv"));
    }
    planting.env("CARGO_TARGET_DIR", place.join("target")).env("CARGO_PROFILE_DEV_DEBUG", "0");
    let ended = planting.status()?;
    // 2: some faults were not found. 3: tests with some did not end.
    if !matches!(ended.code(), Some(0 | 2 | 3)) {
        return Err(format!("cargo mutants: {ended}").into());
    }
    print!("{}", report(&place.join("mutants.out"))?);
    Ok(())
}

fn parse(arguments: &[String], seed: u64) -> Result<Options, String> {
    let mut options = Options { seed, ..Options::default() };
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let mut value = || rest.next().ok_or_else(|| format!("{argument} takes a value"));
        let number = |text: &String| text.parse::<u64>().map_err(|_| format!("{argument} takes a number"));
        match argument.as_str() {
            "--diff" => options.diff = Some(value()?.clone()),
            "--count" => options.count = Some(number(value()?)? as usize),
            "--seed" => options.seed = number(value()?)?,
            flag if flag.starts_with('-') => {
                return Err(format!(
                    "unknown argument {flag:?} (expected --diff, --count, --seed or a crate)"
                ));
            }
            name => options.crates.push(name.to_owned()),
        }
    }
    if options.diff.is_none() {
        options.count.get_or_insert(COUNT);
    }
    Ok(options)
}

/// Makes `tree` a checkout of HEAD. Files that have not changed keep their times, so that nothing is built
/// again that does not have to be.
fn check_out(tree: &Path) -> Outcome {
    let head = Command::new("git").args(["rev-parse", "HEAD"]).current_dir(root()).output()?;
    let head = String::from_utf8(head.stdout)?;
    if !tree.join(".git").exists() {
        let mut git = Command::new("git");
        git.args(["worktree", "add", "--quiet", "--force", "--detach"]).arg(tree).current_dir(root());
        succeed(&mut git)?;
    }
    // A run that was interrupted leaves its fault.
    let mut git = Command::new("git");
    succeed(git.args(["reset", "--quiet", "--hard", head.trim()]).current_dir(tree))
}

/// The flag that selects about `count` of `all`, evenly over the files, the first of which the seed draws.
fn shard(all: usize, count: usize, seed: u64) -> String {
    let step = (all / count.max(1)).max(1) as u64;
    format!("--shard={}/{step}", seed % step)
}

/// The faults that no test found, and their share of those that could be built.
fn report(directory: &Path) -> Result<String, Box<dyn Error>> {
    let names = |kind: &str| {
        let text = fs::read_to_string(directory.join(format!("{kind}.txt"))).unwrap_or_default();
        text.lines().map(ToOwned::to_owned).collect::<Vec<_>>()
    };
    let [missed, caught, timeout, unviable] = ["missed", "caught", "timeout", "unviable"].map(names);
    let built = missed.len() + caught.len() + timeout.len();
    if built + unviable.len() == 0 {
        return Ok("mutants: nothing to plant\n".to_owned());
    }
    let mut text: String = missed.iter().map(|name| format!("survives: {name}\n")).collect();
    let percent = missed.len() as f64 / built.max(1) as f64 * 100.0;
    text += &format!(
        "mutants: {} of {built} survive ({percent:.0} %); {} do not end, {} do not compile\n",
        missed.len(),
        timeout.len(),
        unviable.len()
    );
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_checked() {
        let words = |text: &str| text.split_whitespace().map(ToOwned::to_owned).collect::<Vec<_>>();
        let parsed = |text: &str| parse(&words(text), 7);
        let drawn = Options { count: Some(COUNT), seed: 7, ..Options::default() };
        assert_eq!(parsed(""), Ok(drawn));
        let some = Options { crates: words("a b"), count: Some(3), seed: 4, diff: None };
        assert_eq!(parsed("a --count 3 --seed 4 b"), Ok(some));
        let diff = Options { diff: Some("main".into()), seed: 7, ..Options::default() };
        assert_eq!(parsed("--diff main"), Ok(diff));
        for wrong in ["--count", "--count x", "--seed -1", "--fast"] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_seed_draws_about_as_many_as_asked() {
        assert_eq!(shard(404, 8, 1), "--shard=1/50");
        assert_eq!(shard(404, 8, 103), "--shard=3/50");
        assert_eq!((shard(7, 8, 3), shard(0, 8, 3)), ("--shard=0/1".into(), "--shard=0/1".into()));
        assert_eq!(shard(7, 0, 9), "--shard=2/7");
    }

    #[test]
    fn the_share_is_of_what_could_be_built() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(report(directory.path()).unwrap(), "mutants: nothing to plant\n");
        let names = [("missed", "a: x\n"), ("caught", "b\nc\n"), ("timeout", "d\n"), ("unviable", "e\nf\n")];
        for (kind, text) in names {
            fs::write(directory.path().join(format!("{kind}.txt")), text).unwrap();
        }
        let expected = "survives: a: x\nmutants: 1 of 4 survive (25 %); 1 do not end, 2 do not compile\n";
        assert_eq!(report(directory.path()).unwrap(), expected);
    }
}
