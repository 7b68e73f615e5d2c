//! One program, which acts by the name that it is called by.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::common::{Scratch, path_of, print, ran};
use rehal_cli::tools::ALL;

fn version(program: impl AsRef<std::ffi::OsStr>) -> String {
    let ran = ran(Command::new(program).arg("--version").output().unwrap());
    assert_eq!(ran.status, Some(0), "{ran:?}");
    ran.stdout.lines().next().unwrap().to_string()
}

#[test]
fn each_name_of_iree_is_a_link_beside_the_program() {
    let names: Vec<_> = ALL.iter().map(|tool| tool.name).filter(|name| name.starts_with("iree-")).collect();
    assert_eq!(names.len(), 12);
    for name in names {
        assert_eq!(fs::read_link(path_of(name)).unwrap().to_str(), Some("rehal"));
        assert_eq!(version(path_of(name)), format!("{name} of rehal {}", env!("CARGO_PKG_VERSION")));
        assert!(print(&[name, "--help"]).contains(&format!("# Usage: {name} [flags] ")));
    }
}

#[test]
fn links_copies_and_any_first_argument_name_the_tool() {
    let scratch = Scratch::new();
    let rehal = path_of("rehal");
    fs::create_dir(scratch.path("other")).unwrap();
    let [link, hard, copy] =
        ["iree-run-module", "iree-dump-replay", "other/iree-run-module"].map(|it| scratch.path(it));
    symlink(&rehal, &link).unwrap();
    // The program may be on another file system.
    fs::hard_link(&rehal, &hard).or_else(|_| fs::copy(&rehal, &hard).map(drop)).unwrap();
    fs::copy(&rehal, &copy).unwrap();
    for (path, name) in [(link, "iree-run-module"), (hard, "iree-dump-replay"), (copy, "iree-run-module")] {
        assert!(version(&path).starts_with(&format!("{name} of rehal ")), "{}", path.display());
    }
    for (name, shown) in [
        ("iree-profile", "iree-profile of rehal "),
        ("/nowhere/iree-profile", "iree-profile of rehal "),
        ("iree-run-module/", "iree-run-module of rehal "),
        ("rehal", "rehal "),
        ("/usr/bin/other", "rehal "),
        ("iree-profile-1", "rehal "),
        ("rehal info", "rehal "),
        ("..", "rehal "),
        ("", "rehal "),
    ] {
        let ran = ran(Command::new(&rehal).arg0(name).arg("--version").output().unwrap());
        assert!(ran.stdout.starts_with(shown), "{name}: {ran:?}");
    }
}
