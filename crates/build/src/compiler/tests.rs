use super::*;

#[test]
fn versions_are_read_from_what_the_compiler_prints() {
    let printed = "IREE:\n  IREE compiler version 3.13.0rc20261016 @ 89ece87b\n  LLVM version 24.0.0git\n";
    let version = CompilerVersion::parse(printed).unwrap();
    assert_eq!(
        (version.to_string().as_str(), version.release),
        ("3.13.0rc20261016 @ 89ece87b", Some((3, 13)))
    );
    assert!(!version.is_other());
    let version = CompilerVersion::parse("  IREE compiler version 3.12.1 @ x\n").unwrap();
    assert!(version.is_other());
    let version = CompilerVersion::parse("IREE compiler version (unknown)\n").unwrap();
    assert!(version.release.is_none() && !version.is_other());
    assert_eq!(CompilerVersion::parse("clang version 3.13.0\n"), None);
}

#[test]
fn help_is_searched_by_names_and_descriptions() {
    let help = "OVERVIEW: x\n\nOPTIONS:\n\nGeneral options:\n\n  --iree-a=<value>       - First\n    =one         -   One of them\n\
                \x20 --iree-b-sub           - Second\n  -o <file>              - Output\n";
    assert_eq!(matching(help, "one OF"), "  --iree-a=<value>  - First\n    =one  - One of them\n");
    assert_eq!(matching(help, "b_sub"), "  --iree-b-sub  - Second\n");
    assert_eq!(matching(help, "options"), "");
    assert_eq!(matching(help, "").lines().count(), 4);
}
