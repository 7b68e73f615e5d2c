//! The cache of the compiler, and what its process lacks.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use crate::common::ran;
use crate::compile::{Work, names};

/// A changed bit is not handed out, and neither is what another user may have written.
#[test]
fn the_cache_is_not_trusted() {
    let work = Work::new();
    let compile = || work.compile(&[]);
    let output = || fs::read(work.path("p.vmfb")).unwrap();
    compile();
    let expected = output();
    let directory = work.path("cache/compiled");
    for name in names(&directory) {
        let path = directory.join(name);
        let mut bytes = fs::read(&path).unwrap();
        let middle = bytes.len() - bytes.len() / 3;
        bytes[middle] ^= 0x10;
        fs::write(&path, bytes).unwrap();
    }
    assert!(!compile().contains("from the cache") && output() == expected);
    assert!(compile().contains("from the cache") && output() == expected);
    for mode in [0o777, 0o700] {
        fs::set_permissions(&directory, fs::Permissions::from_mode(mode)).unwrap();
        let said = compile();
        assert_eq!(said.contains("from the cache"), mode == 0o700, "{said}");
        assert_eq!(
            said.matches("is not used: others may write to it (mode 777)").count(),
            usize::from(mode == 0o777)
        );
    }
}

/// A resource that the process of the compiler does not get is not an error of the program.
#[test]
fn what_the_compiler_lacks_is_said() {
    let work = Work::new();
    for (limit, advice) in [("-v 150000", "ulimit -v"), ("-v 300000", "ulimit -v"), ("-f 1", "ulimit -f")] {
        let tool =
            work.command(&["rehal", "compile", "--target=cpu", "--no_cache", "p.mlir", "-o", "p.vmfb"]);
        let mut shell = Command::new("sh");
        shell
            .args(["-c", &format!("ulimit {limit}; exec \"$@\""), "sh"])
            .arg(tool.get_program())
            .args(tool.get_args());
        shell
            .envs(tool.get_envs().filter_map(|(name, value)| Some((name, value?))))
            .current_dir(work.path(""));
        let ran = ran(shell.output().unwrap());
        assert_eq!(ran.status, Some(1), "{limit}: {}", ran.stderr);
        assert!(ran.stderr.starts_with("RESOURCE_EXHAUSTED; "), "{limit}: {}", ran.stderr);
        assert!(ran.stderr.contains(advice), "{limit}: {}", ran.stderr);
        assert!(!work.path("p.vmfb").exists() && names(&work.temporary()).is_empty(), "{limit}");
    }
    // As the compiler says it whose directory is full.
    work.write(
        "compiler",
        "#!/bin/sh\ncase \"$*\" in *-version*) echo 'IREE compiler version 3.13.0 @ 0'; exit;; esac\n\
         echo 'p.mlir:1:1: error: failed to link executable' >&2\n\
         echo 'LLVM ERROR: IO failure on output stream: No space left on device' >&2\nexit 1\n",
    );
    fs::set_permissions(work.path("compiler"), fs::Permissions::from_mode(0o700)).unwrap();
    let error = work.refused(&["--compiler=./compiler", "--no_cache"]);
    assert!(error.starts_with("RESOURCE_EXHAUSTED; ") && error.contains("TMPDIR=PATH"), "{error}");
    assert!(error.contains("No space left on device") && !error.contains("failed to link"), "{error}");
}
