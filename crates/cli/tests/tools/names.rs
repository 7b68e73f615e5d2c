//! One program, which acts by the name that it is called by.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::common::{Ran, Scratch, fail, path_of, print, ran};
use rehal_cli::IREE_NAMES;
use rehal_cli::tools::ALL;

fn version(program: impl AsRef<std::ffi::OsStr>) -> String {
    let ran = ran(Command::new(program).arg("--version").output().unwrap());
    assert_eq!(ran.status, Some(0), "{ran:?}");
    ran.stdout.lines().next().unwrap().to_string()
}

#[test]
fn each_name_of_iree_is_a_link_beside_the_program() {
    let mut names: Vec<_> =
        ALL.iter().map(|tool| tool.name).filter(|name| name.starts_with("iree-")).collect();
    names.sort_unstable();
    assert_eq!(names, IREE_NAMES);
    for name in names {
        assert_eq!(fs::read_link(path_of(name)).unwrap().to_str(), Some("rehal"));
        assert_eq!(version(path_of(name)), format!("{name} of rehal {}", env!("CARGO_PKG_VERSION")));
        assert!(print(&[name, "--help"]).contains(&format!("# Usage: {name} [flags] ")));
    }
}

#[test]
fn versions_say_commit_target_and_profile() {
    let printed = print(&["rehal", "--version"]);
    let built = printed.lines().nth(1).and_then(|line| line.strip_prefix("commit ")).unwrap();
    let [commit, target, profile] = built.split(", ").collect::<Vec<_>>()[..] else { panic!("{built}") };
    assert_eq!(commit, env!("REHAL_COMMIT"));
    assert!(target.starts_with(std::env::consts::ARCH) && target.contains("linux"), "{target}");
    let directory = path_of("rehal").parent().unwrap().file_name().unwrap().to_owned();
    assert_eq!(Some(profile), directory.to_str());
    // Packages have no repository.
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.git");
    if root.exists() {
        assert!(commit.len() == 40 && commit.bytes().all(|it| it.is_ascii_hexdigit()), "{commit}");
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

/// A copy of the program in the directory `bin`, which is made, and an empty directory.
fn installed(scratch: &Scratch) -> [std::path::PathBuf; 2] {
    let [bin, other] = ["bin", "other"].map(|name| scratch.path(name));
    fs::create_dir(&bin).unwrap();
    fs::create_dir(&other).unwrap();
    fs::copy(path_of("rehal"), bin.join("rehal")).unwrap();
    [bin, other]
}

fn tools(program: &Path, arguments: &[&str]) -> Ran {
    ran(Command::new(program.join("rehal")).arg("tools").args(arguments).output().unwrap())
}

#[test]
fn tools_lists_the_names_with_their_verbs() {
    let listed = print(&["rehal", "tools"]);
    let expected = ALL.iter().filter(|tool| tool.name.starts_with("iree-"));
    let expected: Vec<_> = expected.map(|tool| vec![tool.name, "rehal", tool.verb]).collect();
    let listed: Vec<Vec<_>> = listed.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(listed, expected);
}

#[test]
fn tools_are_linked_in_any_directory_and_again() {
    let scratch = Scratch::new();
    let [bin, other] = installed(&scratch);
    let absolute = bin.canonicalize().unwrap().join("rehal");
    for (directory, target) in [(&bin, Path::new("rehal")), (&other, &absolute)] {
        // A link of an installation elsewhere.
        symlink("/opt/old/rehal", directory.join("iree-profile")).unwrap();
        for _ in 0..2 {
            let ran = tools(&bin, &["--install", directory.to_str().unwrap()]);
            assert_eq!((ran.status, &*ran.stdout, &*ran.stderr), (Some(0), "", ""));
            let linked: Vec<_> = fs::read_dir(directory).unwrap().map(|it| it.unwrap().path()).collect();
            let linked: Vec<_> = linked.iter().filter(|it| !it.ends_with("rehal")).collect();
            assert_eq!(linked.len(), 12, "{linked:?}");
            for link in linked {
                assert_eq!(fs::read_link(link).unwrap(), target);
                let name = link.file_name().unwrap().to_str().unwrap();
                assert!(version(link).starts_with(&format!("{name} of rehal ")));
            }
        }
    }
}

#[test]
fn a_directory_of_links_is_created() {
    let scratch = Scratch::new();
    let [bin, other] = installed(&scratch);
    let directory = other.join("new/bin");
    let ran = tools(&bin, &["--install", directory.to_str().unwrap()]);
    assert_eq!((ran.status, &*ran.stderr), (Some(0), ""));
    assert!(version(directory.join("iree-run-module")).starts_with("iree-run-module of rehal "));
    // A file is in the way.
    fs::write(other.join("file"), "").unwrap();
    let ran = tools(&bin, &["--install", other.join("file/bin").to_str().unwrap()]);
    assert!(ran.status == Some(1) && ran.stderr.contains("creating directory"), "{ran:?}");
}

#[test]
fn tools_replace_other_files_only_by_force() {
    let scratch = Scratch::new();
    let [bin, other] = installed(&scratch);
    let taken = other.join("iree-run-module");
    let install = |more: &[&str]| tools(&bin, &[&["--install", other.to_str().unwrap()], more].concat());
    let files: [&dyn Fn(); 2] =
        [&|| fs::write(&taken, "kept").unwrap(), &|| symlink("/opt/iree/iree-run-module", &taken).unwrap()];
    for make in files {
        make();
        let ran = install(&[]);
        let error = format!("ALREADY_EXISTS; '{}' is not a link to rehal\n", taken.display());
        assert_eq!((ran.status, ran.stderr.starts_with(&error)), (Some(1), true), "{ran:?}");
        assert!(ran.stderr.contains("--force"), "{ran:?}");
        assert_eq!(fs::read_dir(&other).unwrap().count(), 1, "nothing is changed");
        assert_eq!(install(&["--force"]).status, Some(0));
        assert!(version(&taken).starts_with("iree-run-module of rehal "));
        IREE_NAMES.iter().for_each(|name| fs::remove_file(other.join(name)).unwrap());
    }
    fs::create_dir(&taken).unwrap();
    let ran = install(&["--force"]);
    assert!(ran.status == Some(1) && ran.stderr.starts_with("ALREADY_EXISTS; "), "{ran:?}");
    assert_eq!(fs::read_dir(&other).unwrap().count(), 1, "nothing is changed");
}

#[test]
fn tools_does_not_replace_the_program_itself() {
    let scratch = Scratch::new();
    let program = scratch.path("iree-profile");
    fs::copy(path_of("rehal"), &program).unwrap();
    let directory = scratch.path("");
    let mut command = Command::new(&program);
    command.arg0("rehal").args(["tools", "--force", "--install"]).arg(&directory);
    let ran = ran(command.output().unwrap());
    assert!(ran.status == Some(1) && ran.stderr.contains("is this program"), "{ran:?}");
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 1);
}

#[test]
fn tools_names_what_is_wrong_with_its_arguments() {
    let scratch = Scratch::new();
    let (file, absent) = (scratch.file("file", "x"), "/dev/null/bin");
    for (words, message) in [
        (&["--install"][..], "--install needs a directory"),
        (&["/tmp"], "'/tmp' is given without --install"),
        (&["--install", "/tmp", "/var"], "takes one directory"),
        (&["--install", absent], "creating directory"),
        (&["--install", &file], "is not a directory"),
        (&["--instal"], "unknown flag '--instal'"),
    ] {
        let stderr = fail(&[&["rehal", "tools"], words].concat());
        assert!(stderr.contains(message), "{words:?}: {stderr}");
    }
}
