use std::os::unix::fs::symlink;

use rehal_devices::DeviceOptions;
use rehal_hal::{HostFile, MemoryAccess, QUEUE_AFFINITY_ANY};
use rehal_params::irpa::Archive;
use rehal_replay::{RecordOptions, Recorder};
use tempfile::TempDir;

use super::*;
use crate::flags::{Entry, GENERAL, Role};
use crate::tool::run_tool;
use crate::{Operands, Tool, tools};

/// Flags with paths that are not of files that this build reads or writes: directories, files of drivers that
/// it lacks, and flag files, which are read before any file is written.
const OTHERS: [&str; 9] = [
    "flagfile",
    "export",
    "directory",
    "rehal_kernel_record_dir",
    "to",
    "vulkan_libvulkan_search_path",
    "device_capture_file",
    "hip_dylib_path",
    "rocm_library_path",
];

fn entries(tool: &Tool) -> Vec<&'static dyn Entry> {
    tool.groups.iter().flat_map(|group| group.flags).copied().collect()
}

/// The forms of a value that names a file, with `{}` for its path.
fn forms(tool: &Tool, flag: &str) -> &'static [&'static str] {
    let has_results = entries(tool).iter().any(|entry| entry.spec().name == "expected_output");
    match flag {
        "output" if has_results => &["@{}", "+{}"],
        "input" | "expected_output" | "binding" => &["2xf32=@{}", "2xf32=+{}"],
        "parameters" => &["{}", "scope={}"],
        "replay_executable_substitution" | "executable_substitution" | "executable" => {
            &["1={}", "name@embedded-elf-x86_64={}"]
        }
        "with" | "baseline" if tool.verb == "benchmark" => &["1={}", "name@embedded-elf-x86_64={}"],
        "substitute" => &["name={}", "name@c={}"],
        "replay_file_remap" => &["/captured={}"],
        "executable_plugin" => &["{}", "embedded:{}"],
        "extract" => &["scope::key={}"],
        "report_filename" | "rehal_kernel_record_report_filename" => &["{name}"],
        _ => &["{}"],
    }
}

/// An argument that names a file: a flag and the form of its value, or an operand.
#[derive(Clone, Copy)]
struct Argument {
    flag: &'static str,
    form: &'static str,
}

impl Argument {
    fn all(tool: &Tool) -> Vec<Self> {
        let mut all = vec![Self { flag: "", form: "{}" }];
        // A directory is not the file in it.
        let is_file = |entry: &&dyn Entry| entry.has_files() && !entry.spec().name.ends_with("s_to");
        for entry in entries(tool).into_iter().filter(is_file) {
            let flag = entry.spec().name;
            all.extend(forms(tool, flag).iter().map(|form| Self { flag, form }));
        }
        all
    }

    fn with(self, path: &Path) -> Vec<String> {
        let name = path.file_name().unwrap().to_str().unwrap();
        let value = self.form.replace("{}", path.to_str().unwrap()).replace("{name}", name);
        let directory = path.parent().unwrap().display();
        match self.flag {
            "" => vec![value],
            flag @ "report_filename" => vec![format!("--{flag}={value}"), format!("--directory={directory}")],
            flag @ "rehal_kernel_record_report_filename" => vec![
                format!("--{flag}={value}"),
                "--rehal_kernel_record".into(),
                format!("--rehal_kernel_record_dir={directory}"),
            ],
            flag => vec![format!("--{flag}={value}")],
        }
    }

    /// The tool's access to the file.
    fn access(self, tool: &Tool) -> Access {
        if self.flag.is_empty() {
            return Access::Read;
        }
        let files = parse(tool, &self.with(Path::new("/nonexistent/a"))).files();
        let [(flag, file)] = &files[..] else { panic!("--{} names {files:?}", self.flag) };
        assert_eq!((*flag, file.path.to_str()), (self.flag, Some("/nonexistent/a")));
        file.access
    }
}

fn parse(tool: &Tool, arguments: &[String]) -> Flags {
    let groups: Vec<_> = tool.groups.iter().copied().chain([&GENERAL]).collect();
    Flags::parse(&groups, arguments.iter().map(Into::into)).unwrap()
}

/// The check alone, which a tool passes before it runs.
fn check_alone(tool: &Tool, arguments: &[String]) -> Result<()> {
    let flags = parse(tool, arguments);
    let operands: Vec<_> = flags.operands().iter().map(PathBuf::from).collect();
    check(&flags, &operands)
}

/// The operands that the tool needs; the first one is `path`, if given.
fn operands(tool: &Tool, path: Option<String>, directory: &Path) -> Vec<String> {
    let count = match tool.operands {
        Operands::Several { .. }
        | Operands::One { .. }
        | Operands::Forwarded { .. }
        | Operands::WordAndFile { .. } => 1,
        Operands::Two { .. } => 2,
        Operands::Word { .. } | Operands::MaybeDirectory { .. } | Operands::None { .. } => 0,
    };
    let absent = (0..).map(|index| directory.join(format!("operand-{index}")).display().to_string());
    path.into_iter().chain(absent).take(count).collect()
}

/// Pairs of paths to one file: existing or not, spelled alike or not, through links.
fn pairs(directory: &Path) -> Vec<(PathBuf, PathBuf)> {
    let path = |name: &str| directory.join(name);
    fs::write(path("file"), "kept").unwrap();
    fs::hard_link(path("file"), path("hard")).unwrap();
    symlink("file", path("soft")).unwrap();
    symlink("soft", path("softer")).unwrap();
    symlink("absent", path("dangling")).unwrap();
    symlink(".", path("here")).unwrap();
    vec![
        (path("file"), path("file")),
        (path("file"), path("./file")),
        (path("file"), path("here/file")),
        (path("file"), path("hard")),
        (path("soft"), path("hard")),
        (path("softer"), path("file")),
        (path("absent"), path("absent")),
        (path("absent"), path("here/absent")),
        (path("dangling"), path("absent")),
    ]
}

/// The entries of a directory and what they contain.
fn listing(directory: &Path) -> Vec<(PathBuf, Option<String>)> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let mut listing: Vec<_> = entries.map(|path| (path.clone(), fs::read_to_string(&path).ok())).collect();
    listing.sort();
    listing
}

/// Calls `visit` with each pair of arguments of each tool of which at least one is written, and their
/// accesses.
fn for_each_pair(mut visit: impl FnMut(&Tool, [(Argument, Access); 2])) {
    for tool in tools::ALL {
        let all = Argument::all(tool).into_iter().map(|it| (it, it.access(tool)));
        let takes = |it: &Argument| !it.flag.is_empty() || !operands(tool, None, Path::new("")).is_empty();
        let all: Vec<_> = all.filter(|(it, _)| takes(it)).collect();
        for (index, first) in all.iter().enumerate() {
            for second in &all[index + 1..] {
                // Of a flag with one value, the last one counts.
                let is_one = first.0.flag == second.0.flag && !is_list(tool, first.0.flag);
                if !is_one && (first.1.writes() || second.1.writes()) {
                    visit(tool, [*first, *second]);
                }
            }
        }
    }
}

fn is_list(tool: &Tool, flag: &str) -> bool {
    entries(tool).iter().any(|entry| entry.spec().name == flag && entry.role() == Role::List)
}

/// The permitted pairs: results replace inputs, and are appended to results.
fn is_permitted(pair: [Access; 2]) -> bool {
    let is_result = |it| matches!(it, Access::WriteResult | Access::AppendResult);
    match pair {
        [Access::ReadFirst, other] | [other, Access::ReadFirst] => is_result(other),
        [Access::WriteResult, Access::AppendResult] => true,
        _ => false,
    }
}

fn arguments(
    tool: &Tool,
    [(first, one), (second, other)]: [(Argument, &Path); 2],
    directory: &Path,
) -> Vec<String> {
    let mut arguments = Vec::new();
    let mut operand = None;
    for (argument, path) in [(first, one), (second, other)] {
        match argument.flag {
            "" => operand = argument.with(path).pop(),
            _ => arguments.extend(argument.with(path)),
        }
    }
    arguments.extend(operands(tool, operand, directory));
    arguments
}

#[test]
fn every_flag_with_a_path_declares_its_files() {
    for tool in tools::ALL {
        for entry in entries(tool) {
            let (line, name) = (entry.line(), entry.spec().name);
            let is_path =
                ["PATH", "FILE"].iter().any(|it| line.contains(it)) || entry.expected().starts_with("a path");
            let is_value = entry.spec().help.contains("@file");
            let is_declared = entry.has_files() || OTHERS.contains(&name);
            assert!(!(is_path || is_value) || is_declared, "{}: {line}", tool.name);
        }
    }
}

#[test]
fn no_tool_writes_a_file_that_another_flag_names() {
    let scratch = TempDir::new().unwrap();
    let pairs = pairs(scratch.path());
    let before = listing(scratch.path());
    let mut count = 0;
    for_each_pair(|tool, [(first, access), (second, other)]| {
        if is_permitted([access, other]) {
            return;
        }
        for (one, another) in pairs.iter().flat_map(|(a, b)| [(a, b), (b, a)]) {
            let words = arguments(tool, [(first, one), (second, another)], scratch.path());
            let error = run_tool(tool, &words).expect_err("the files are one").report();
            let is_refused = error.contains("which is read") || error.contains("which is written as well");
            assert!(is_refused, "{} {words:?}: {error}", tool.name);
            count += 1;
        }
    });
    assert_eq!(listing(scratch.path()), before);
    assert!(count > 1000, "{count}");
}

/// A capture and an archive that refer to a file.
fn referring(to: &Path, directory: &Path) -> [PathBuf; 2] {
    let [capture, archive] = ["references.ireereplay", "references.irpa"].map(|name| directory.join(name));
    let recorder = Recorder::create(&capture, RecordOptions::default()).unwrap();
    let devices = recorder.wrap(&DeviceOptions::default().open().unwrap()).unwrap();
    let file = HostFile::Disk(fs::File::open(to).unwrap());
    devices.devices()[0].import_file(QUEUE_AFFINITY_ANY, MemoryAccess::READ, file).unwrap();
    recorder.close().unwrap();
    let mut header = Vec::new();
    let mut written = Archive::new();
    written.add_external("w", b"", to.to_str().unwrap(), 0, 4).unwrap();
    written.write_header(&mut header).unwrap();
    fs::write(&archive, header).unwrap();
    [capture, archive]
}

#[test]
fn no_tool_writes_a_file_to_which_an_input_refers() {
    let scratch = TempDir::new().unwrap();
    let _ = pairs(scratch.path());
    let [file, hard, softer] = ["file", "hard", "softer"].map(|name| scratch.path().join(name));
    let inputs = referring(&file, scratch.path());
    let before = listing(scratch.path());
    let mut count = 0;
    for_each_pair(|tool, pair| {
        let written = pair.iter().position(|(_, access)| access.writes()).unwrap();
        let (output, (input, access)) = (pair[written].0, pair[1 - written]);
        if access.writes() {
            return;
        }
        for (path, target) in inputs.iter().flat_map(|path| [&file, &hard, &softer].map(|it| (path, it))) {
            let words = arguments(tool, [(output, target), (input, path)], scratch.path());
            let error = run_tool(tool, &words).expect_err("the input refers to it").report();
            let names = [target.to_str().unwrap(), file.to_str().unwrap(), path.to_str().unwrap()];
            let is_refused = error.contains(" refers\n") && names.iter().all(|name| error.contains(name));
            assert!(is_refused, "{} {words:?}: {error}", tool.name);
            count += 1;
        }
    });
    assert_eq!(listing(scratch.path()), before);
    assert!(count > 1000, "{count}");
}

#[test]
fn no_tool_writes_a_file_that_is_read_in_place_of_a_captured_one() {
    let scratch = TempDir::new().unwrap();
    let (file, moved) = (scratch.path().join("file"), scratch.path().join("moved"));
    fs::write(&file, "kept").unwrap();
    let [capture, _] = referring(&file, scratch.path());
    fs::rename(&file, &moved).unwrap();
    let words = |remap: &Path| {
        let remap = format!("--replay_file_remap={}={}", scratch.path().display(), remap.display());
        [remap, format!("--replay_ledger={}", moved.display()), capture.display().to_string()]
    };
    let here = scratch.path().join("here");
    fs::create_dir(&here).unwrap();
    fs::hard_link(&moved, here.join("file")).unwrap();
    let error = check_alone(&tools::RUN_REPLAY, &words(&here)).unwrap_err().report();
    assert!(error.contains("here/file', to which '"), "{error}");
    check_alone(&tools::RUN_REPLAY, &words(Path::new("/elsewhere"))).unwrap();
}

#[test]
fn no_tool_writes_its_flag_file() {
    let scratch = TempDir::new().unwrap();
    let path = scratch.path().join("flags");
    fs::write(&path, format!("--output={}\n", path.display())).unwrap();
    let error = check_alone(&tools::SLICE, &[format!("--flagfile={}", path.display())]).unwrap_err().report();
    assert!(error.contains("which is read"), "{error}");
}

#[test]
fn separate_files_and_devices_are_accepted() {
    let scratch = TempDir::new().unwrap();
    let (file, other) = (scratch.path().join("file"), scratch.path().join("other"));
    fs::write(&file, "1").unwrap();
    for_each_pair(|tool, [(first, access), (second, other_access)]| {
        let accept = |one: &Path, another: &Path| {
            let words = arguments(tool, [(first, one), (second, another)], scratch.path());
            let checked = check_alone(tool, &words);
            assert!(checked.is_ok(), "{} {words:?}: {:?}", tool.name, checked.unwrap_err().report());
        };
        if first.form != "{name}" && second.form != "{name}" {
            accept(Path::new("/dev/null"), Path::new("/dev/null"));
        }
        accept(&file, &other);
        accept(&other, &file);
        if is_permitted([access, other_access]) {
            accept(&file, &file);
        }
    });
}

#[test]
fn a_later_result_does_not_replace_an_earlier_one() {
    let scratch = TempDir::new().unwrap();
    let path = scratch.path().join("results").display().to_string();
    let check = |targets: [char; 2]| {
        check_alone(&tools::RUN_MODULE, &targets.map(|target| format!("--output={target}{path}")))
    };
    check(['@', '+']).unwrap();
    check(['+', '+']).unwrap();
    for targets in [['@', '@'], ['+', '@']] {
        assert!(check(targets).unwrap_err().report().contains("which is written as well"));
    }
    let extract = [format!("--extract=a={path}"), format!("--extract=b={path}")];
    assert!(check_alone(&tools::DUMP_PARAMETERS, &extract).is_err());
}
