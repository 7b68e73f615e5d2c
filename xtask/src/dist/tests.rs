use super::{Dist, PLATFORMS, names};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// A program that prints what packaging asks for: the tests of the tools check the real one.
const PROGRAM: &str = "#!/bin/sh
# GLIBC_2.9 GLIBC_2.26 GLIBC_2.17
case $1 in
completions) echo \"script of $2\" ;;
man) for page in rehal rehal-run; do echo .TH > \"${2#--to=}/$page.1\"; done ;;
--version) echo rehal 1.2.3 ;;
*) exit 1 ;;
esac
";

fn dist(directory: &Path) -> Dist {
    let host = directory.join("program");
    fs::write(&host, PROGRAM).unwrap();
    fs::set_permissions(&host, fs::Permissions::from_mode(0o755)).unwrap();
    let to = directory.join("to");
    fs::create_dir(&to).unwrap();
    Dist { version: "1.2.3".into(), host, time: "1700000000".into(), to }
}

fn printed(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The files below a directory.
fn files(directory: &Path) -> BTreeSet<String> {
    let listed = printed(Command::new("find").arg(directory).args(["-not", "-type", "d", "-printf", "%P\n"]));
    listed.lines().map(ToOwned::to_owned).collect()
}

/// Files below `share`, in both packages.
fn shared(page_ending: &str) -> BTreeSet<String> {
    let mut files: BTreeSet<String> = [
        "bash-completion/completions/rehal",
        "zsh/vendor-completions/_rehal",
        "fish/vendor_completions.d/rehal.fish",
        "doc/rehal/README.md",
        "doc/rehal/CHANGELOG.md",
    ]
    .map(ToOwned::to_owned)
    .into();
    files.extend(["rehal", "rehal-run"].map(|page| format!("man/man1/{page}.1{page_ending}")));
    for name in names::IREE_NAMES {
        files.extend([
            format!("bash-completion/completions/{name}"),
            format!("fish/vendor_completions.d/{name}.fish"),
        ]);
    }
    files
}

#[test]
fn a_debian_package_is_installed_below_a_root() {
    let scratch = tempfile::tempdir().unwrap();
    let dist = dist(scratch.path());
    let deb = dist.deb("amd64", &dist.host, &scratch.path().join("tree")).unwrap();
    assert_eq!(deb.file_name().unwrap().to_str(), Some("rehal_1.2.3_amd64.deb"));
    let field = |name: &str| printed(Command::new("dpkg-deb").arg("--field").arg(&deb).arg(name));
    assert_eq!((field("Architecture"), field("Depends")), ("amd64\n".into(), "libc6 (>= 2.26)\n".into()));
    // The tree, without the database of dpkg.
    let tree = scratch.path().join("unpacked");
    printed(Command::new("dpkg-deb").arg("--extract").arg(&deb).arg(&tree));
    let mut expected: BTreeSet<String> = shared(".gz").iter().map(|it| format!("usr/share/{it}")).collect();
    expected.extend(["usr/bin/rehal", "usr/share/doc/rehal/copyright"].map(ToOwned::to_owned));
    assert_eq!(files(&tree), expected);
    assert!(
        fs::read_to_string(tree.join("usr/share/doc/rehal/copyright")).unwrap().contains("Apache License")
    );
    assert_eq!(
        fs::read_to_string(tree.join("usr/share/fish/vendor_completions.d/iree-run-module.fish")).unwrap(),
        "script of fish\n"
    );
    // Each file is owned by root, although another user may build the package.
    let listed = printed(Command::new("dpkg-deb").arg("--contents").arg(&deb));
    assert!(
        listed.lines().all(|line| line.contains(" root/root ") && line.contains(" 2023-11-1")),
        "{listed}"
    );
    let root = scratch.path().join("root");
    for directory in ["var/lib/dpkg/info", "var/lib/dpkg/updates", "var/log"] {
        fs::create_dir_all(root.join(directory)).unwrap();
    }
    fs::write(root.join("var/lib/dpkg/status"), "").unwrap();
    // The root has no C library, on which the package depends.
    let mut dpkg = Command::new("dpkg");
    dpkg.arg(format!("--root={}", root.display())).args([
        "--force-not-root",
        "--force-depends",
        "--force-bad-path",
    ]);
    printed(dpkg.arg("--install").arg(&deb));
    assert_eq!(printed(Command::new(root.join("usr/bin/rehal")).arg("--version")), "rehal 1.2.3\n");
    let status = fs::read_to_string(root.join("var/lib/dpkg/status")).unwrap();
    assert!(status.contains("Package: rehal\nStatus: install ok installed\n"), "{status}");
}

#[test]
fn packages_are_the_same_each_time() {
    let scratch = tempfile::tempdir().unwrap();
    let dist = dist(scratch.path());
    let make = || {
        let work = scratch.path().join("work");
        let deb = dist.deb("arm64", &dist.host, &work.join("deb")).unwrap();
        let tarball = dist.tarball(&PLATFORMS[1], &dist.host, &work).unwrap();
        fs::remove_dir_all(work).unwrap();
        (fs::read(deb).unwrap(), fs::read(&tarball).unwrap(), tarball)
    };
    let (first, second) = (make(), make());
    assert!(first == second);
    let listed = printed(Command::new("tar").arg("-tzf").arg(&first.2));
    let top = "rehal-1.2.3-aarch64-linux/";
    let found: BTreeSet<String> = listed
        .lines()
        .filter(|line| !line.ends_with('/'))
        .map(|it| it.strip_prefix(top).unwrap().into())
        .collect();
    let mut expected: BTreeSet<String> = shared("").iter().map(|it| format!("share/{it}")).collect();
    expected.extend(["bin/rehal", "LICENSE"].map(ToOwned::to_owned));
    assert_eq!(found, expected);
}

#[test]
fn the_c_library_is_found_wherever_it_is_unpacked() {
    let scratch = tempfile::tempdir().unwrap();
    let dist = dist(scratch.path());
    for name in ["librehal_capi.so", "librehal_capi.a"] {
        fs::write(scratch.path().join(name), name).unwrap();
    }
    let tarball = dist.library(&PLATFORMS[0], scratch.path(), &dist.host).unwrap();
    let place = scratch.path().join("place");
    fs::create_dir(&place).unwrap();
    printed(Command::new("tar").arg("-xzf").arg(&tarball).arg("-C").arg(&place));
    let tree = place.join("librehal-1.2.3-x86_64-linux");
    let expected = [
        "LICENSE",
        "bin/rehal",
        "include/rehal.h",
        "lib/librehal.a",
        "lib/librehal.so",
        "lib/librehal.so.0",
        "lib/librehal.so.1.2.3",
        "lib/pkgconfig/rehal.pc",
    ];
    assert_eq!(files(&tree), expected.map(ToOwned::to_owned).into());
    assert_eq!(fs::read_to_string(tree.join("lib/librehal.so")).unwrap(), "librehal_capi.so");
    assert_eq!(printed(Command::new(tree.join("bin/rehal")).arg("--version")), "rehal 1.2.3\n");
    let description = fs::read_to_string(tree.join("lib/pkgconfig/rehal.pc")).unwrap();
    assert!(
        description.contains("(glibc 2.28 or later)\nVersion: 1.2.3\nCflags: -I${prefix}/include\n"),
        "{description}"
    );
    assert!(description.starts_with("prefix=${pcfiledir}/../..\n"), "{description}");
    // The name that programs are linked with.
    let script = fs::read_to_string(crate::root().join("crates/capi/build.rs")).unwrap();
    assert!(script.contains(&format!("-soname,librehal.so.{}", super::INTERFACE)));
}
