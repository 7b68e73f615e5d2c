//! `--perf_map`: files from which profilers know the names of kernels.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{Ran, Scratch, capture, command, ran};

const FUNCTION: &str = "add_dispatch_0_elementwise_4_f32";

/// Replays a capture in a directory.
fn replay(directory: &Path, words: &[&str], variable: Option<&str>) -> Ran {
    let mut tool = command("rehal");
    tool.args(["run", "--device=local-sync"]).args(words).arg(capture("add4.add.local-sync"));
    tool.envs(variable.map(|value| ("REHAL_PERF_MAP", value))).current_dir(directory);
    ran(tool.output().unwrap())
}

/// The map of the process that wrote the only file of a directory, removed.
fn map_beside_dump(directory: &Path) -> (String, Vec<u8>) {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let [dump]: [PathBuf; 1] = entries.collect::<Vec<_>>().try_into().unwrap();
    let name = dump.file_name().unwrap().to_str().unwrap();
    let process = name.strip_prefix("jit-").unwrap().strip_suffix(".dump").unwrap();
    let map = PathBuf::from(format!("/tmp/perf-{process}.map"));
    let read = (fs::read_to_string(&map).unwrap(), fs::read(&dump).unwrap());
    fs::remove_file(map).unwrap();
    fs::remove_file(&dump).unwrap();
    read
}

#[test]
fn the_process_that_runs_kernels_describes_them() {
    let scratch = Scratch::new();
    let directory = scratch.path("empty");
    fs::create_dir(&directory).unwrap();
    for (words, variable) in [(&["--perf_map=jitdump"][..], None), (&[], Some("jitdump"))] {
        let ran = replay(&directory, words, variable);
        assert_eq!((ran.status, ran.stderr.as_str()), (Some(0), ""));
        let (map, dump) = map_beside_dump(&directory);
        let row = map.lines().find(|line| line.ends_with(FUNCTION)).unwrap_or_else(|| panic!("{map}"));
        let mut numbers = row.split(' ').take(2).map(|word| u64::from_str_radix(word, 16).unwrap());
        let (address, size) = (numbers.next().unwrap(), numbers.next().unwrap());
        assert!(address > 4096 && (1..1 << 20).contains(&size), "{row}");
        assert!(dump.windows(FUNCTION.len()).any(|it| it == FUNCTION.as_bytes()));
    }
    // A flag overrides the variable.
    let ran = replay(&directory, &["--perf_map=false"], Some("jitdump"));
    assert_eq!((ran.status, fs::read_dir(&directory).unwrap().count()), (Some(0), 0));
}

#[test]
fn a_directory_that_cannot_be_written_is_an_error() {
    // The system refuses files there, even to root.
    let ran = replay(Path::new("/proc/self"), &["--perf_map=jitdump"], None);
    assert_eq!(ran.status, Some(1));
    assert!(ran.stderr.contains(".dump for perf: "), "{}", ran.stderr);
    assert!(ran.stderr.contains("\n  try: make its directory writable"), "{}", ran.stderr);
    let ran = replay(Path::new("/tmp"), &["--perf_map=lines"], None);
    assert_eq!(ran.status, Some(1));
    assert!(ran.stderr.contains("expected false, true or jitdump"), "{}", ran.stderr);
}
