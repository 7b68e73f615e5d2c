//! The functions that `rehal-formats` reads in code of GPUs, held against the compiler's own account: each
//! program is compiled by the pinned release to text in which every function states its layout, its workgroup
//! size and its workgroup memory, and from there to a module. Of captures, what dispatches pass is held
//! against what the functions take.
//!
//! The programs are ours, those of the corpus, and the reference's if `REHAL_IREE_SOURCE` names a checkout of
//! its source. A test counts the functions, and fails below the count that is known.

use crate::{Outcome, ensure, fixture};
use libtest_mimic::{Failed, Trial};
use oracle::captures::{corpus, repository};
use oracle::e2e::{Compiled, Program, SOURCE_VARIABLE};
use oracle::reference::Reference;
use rehal_base::FormatError;
use rehal_capture::{Capture, OpenOptions, Payload};
use rehal_formats::{Binding, Executable, Function, read_amdgpu, read_cuda, read_hip};
use rehal_vm::module_file::ModuleFile;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

type Read = fn(&[u8]) -> Result<Executable, FormatError>;

/// A target: name, the flags of the compiler, the identifier of its container, and its reader.
struct Target {
    name: &'static str,
    flags: &'static [&'static str],
    magic: &'static [u8; 4],
    read: Read,
    /// The functions of the reference's programs.
    reference: usize,
}

const TARGETS: [Target; 4] = [
    Target {
        name: "sm_80",
        flags: &["--iree-hal-target-device=cuda", "--iree-cuda-target=sm_80"],
        magic: b"CDA1",
        read: read_cuda,
        reference: 570,
    },
    Target {
        name: "gfx942",
        flags: &["--iree-hal-target-device=hip", "--iree-rocm-target=gfx942"],
        magic: b"HIP1",
        read: read_hip,
        reference: 574,
    },
    Target {
        name: "gfx1100",
        flags: &["--iree-hal-target-device=hip", "--iree-rocm-target=gfx1100"],
        magic: b"HIP1",
        read: read_hip,
        reference: 577,
    },
    Target {
        name: "gfx942:sramecc+:xnack-",
        flags: &[
            "--iree-hal-target-device=amdgpu",
            "--iree-rocm-target=gfx942",
            "--iree-rocm-target-features=+sramecc,-xnack",
        ],
        magic: b"AMD1",
        read: read_amdgpu,
        reference: 574,
    },
];

/// The functions of our programs, and of those of the corpus, for each target.
const OURS: usize = 175;
const CORPUS: usize = 38;

/// Adds a test per target and set of programs, and one for the captures of the corpus.
pub fn add(trials: &mut Vec<Trial>) {
    for target in &TARGETS {
        trials.push(Trial::test(format!("gpu_code::ours/{}", target.name), move || {
            agrees(target, &programs("ours", &[fixture("e2e"), fixture("programs")])?, OURS)
        }));
        if let Some(corpus) = corpus() {
            let programs = corpus.join("programs");
            trials.push(Trial::test(format!("gpu_code::corpus/{}", target.name), move || {
                agrees(target, &self::programs("corpus", std::slice::from_ref(&programs))?, CORPUS)
            }));
        }
        if let Some(source) = std::env::var_os(SOURCE_VARIABLE).filter(|path| !path.is_empty()) {
            let source = Path::new(&source).join("tests/e2e");
            trials.push(Trial::test(format!("gpu_code::reference/{}", target.name), move || {
                agrees(target, &programs("reference", std::slice::from_ref(&source))?, target.reference)
            }));
        }
    }
    if let Some(corpus) = corpus() {
        let directory = corpus.join("cuda");
        trials.push(Trial::test("gpu_code::corpus/captures", move || captures(&directory)));
    }
}

/// A function, in the compiler's words or in ours.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Signature {
    name: String,
    workgroup_size: [u32; 3],
    /// Whether each binding is only read, and whether it is indirect.
    bindings: Vec<(bool, bool)>,
    constants: u16,
    workgroup_memory: Option<u32>,
}

/// All programs below directories.
fn programs(set: &str, directories: &[PathBuf]) -> Result<Vec<(String, PathBuf)>, Failed> {
    let mut found = Vec::new();
    let mut left = directories.to_vec();
    while let Some(directory) = left.pop() {
        for entry in std::fs::read_dir(&directory)? {
            let path = entry?.path();
            if path.is_dir() {
                left.push(path);
            } else if path.extension().is_some_and(|end| end == "mlir") {
                let parts: Vec<_> = path.iter().rev().take(2).map(|it| it.to_string_lossy()).collect();
                found.push((format!("gpu/{set}/{}.{}", parts[1], parts[0]), path));
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Compares each function of each program that compiles; prints their number, which is at least `fewest`.
fn agrees(target: &Target, programs: &[(String, PathBuf)], fewest: usize) -> Outcome {
    let reference = Reference::find(&repository())?;
    let left = Mutex::new(programs.iter());
    let next = || left.lock().ok()?.next();
    let results = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some((name, source)) = next() {
                    let result = compared(target, &reference, name, source);
                    results.lock().unwrap_or_else(|it| it.into_inner()).push((name, result));
                }
            });
        }
    });
    let (mut functions, mut modules, mut wrong) = (0, 0, Vec::new());
    for (name, result) in results.into_inner()? {
        match result {
            Ok(count) => {
                functions += count;
                modules += usize::from(count != 0);
            }
            Err(error) => wrong.push(format!("{name}: {}", error.message().unwrap_or_default())),
        }
    }
    println!("{}: {functions} functions of {modules} modules", target.name);
    ensure(wrong.is_empty(), || wrong.join("\n"))?;
    ensure(functions >= fewest, || format!("{functions} functions, expected {fewest} or more"))
}

/// The number of functions of a program, which are as the compiler says; 0 if it does not compile.
fn compared(target: &Target, reference: &Reference, name: &str, source: &Path) -> Result<usize, Failed> {
    let compile = |source: &Path, phase: &str| {
        let flags = target.flags.iter().chain([&phase]).map(ToString::to_string).collect();
        let name = format!("{name}.{}", target.name.replace(':', "."));
        Program { name, source: source.into(), flags }.compile(reference, &repository().join("target/e2e"))
    };
    let text = compile(source, "--compile-to=executable-targets")?;
    let Compiled::Module(text) = text else { return Ok(0) };
    let module = compile(&text, "--compile-from=executable-targets")?;
    let Compiled::Module(module) = module else { return Ok(0) };
    let mut stated = stated(&std::fs::read_to_string(text)?)?;
    let module = ModuleFile::copy(&std::fs::read(module)?)?;
    let mut read = Vec::new();
    for segment in module.rodata_segments() {
        let bytes = module.bytes().get(segment.range.clone()).unwrap_or_default();
        if bytes.starts_with(target.magic) {
            let executable = (target.read)(bytes)?;
            let target = (Some(target.name), executable.target.as_deref());
            ensure(target.0 == target.1, || format!("target: {target:?}"))?;
            read.extend(executable.functions.iter().map(signature).collect::<Result<Vec<_>, _>>()?);
        }
    }
    for it in &mut stated {
        match target.magic {
            // Names in PTX have no dots: the compiler replaces them.
            b"CDA1" => it.name = it.name.replace('.', "_"),
            // It does not state the memory that a dispatch adds.
            b"AMD1" => it.workgroup_memory = None,
            _ => {}
        }
    }
    stated.sort();
    read.sort();
    ensure(stated == read, || format!("the compiler says\n{stated:#?}\nread\n{read:#?}"))?;
    Ok(read.len())
}

fn signature(function: &Function) -> Result<Signature, Failed> {
    let bindings = function.bindings.as_ref().ok_or("no bindings")?.iter();
    // The parameters of the kernel are its bindings and constants.
    let parameters = function.parameters.as_ref().ok_or("no parameters")?;
    let visible = parameters.iter().filter(|it| !matches!(it.kind, rehal_formats::ParameterKind::Hidden(_)));
    let constants = function.constant_count.ok_or("no constants")?;
    let expected = bindings.len() + usize::from(constants);
    ensure(visible.count() == expected, || format!("{}: {parameters:?} for {expected}", function.name))?;
    Ok(Signature {
        name: function.name.clone(),
        workgroup_size: function.workgroup_size.ok_or("no workgroup size")?,
        bindings: bindings
            .map(|Binding { is_read_only, is_indirect }| (*is_read_only, *is_indirect))
            .collect(),
        constants,
        workgroup_memory: function.dynamic_memory_bytes,
    })
}

/// The functions in the compiler's text.
fn stated(text: &str) -> Result<Vec<Signature>, Failed> {
    let mut functions = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let Some((_, export)) = line.split_once("hal.executable.export public @") else { continue };
        let between = |start: &str, end: &str| Some(export.split_once(start)?.1.split_once(end)?.0);
        let binding = |part: &str| {
            let flags = part.split_once('>').map_or(part, |(flags, _)| flags);
            (flags.contains("ReadOnly"), flags.contains("Indirect"))
        };
        let name = export.split_once(" ordinal(").ok_or("no ordinal")?.0.trim_matches('"');
        let layout =
            between("layout(", ") count(").or_else(|| between("layout(", ">)")).ok_or("no layout")?;
        let bindings = layout.split("#hal.pipeline.binding<").skip(1).map(binding).collect();
        let constants = between("constants = ", ",").map_or(Ok(0), str::parse)?;
        let closing = lines.find_map(|line| line.split_once("<workgroup_size = [")).ok_or("no size")?.1;
        let (sizes, rest) = closing.split_once(']').ok_or("no end of the size")?;
        let sizes: Vec<u32> =
            sizes.split(", ").map(|it| it.trim_end_matches(" : index").parse()).collect::<Result<_, _>>()?;
        let memory = rest.split_once("workgroup_local_memory = ");
        let memory = memory.map_or(Ok(0), |(_, memory)| memory.trim_end_matches('>').parse())?;
        functions.push(Signature {
            name: name.to_owned(),
            workgroup_size: sizes.try_into().map_err(|it| format!("sizes: {it:?}"))?,
            bindings,
            constants,
            workgroup_memory: Some(memory),
        });
    }
    Ok(functions)
}

/// The executables of captures that the reference's CUDA and HIP drivers recorded: what each dispatch passes
/// is what its function takes.
fn captures(directory: &Path) -> Outcome {
    let (mut files, mut dispatches) = (0, 0);
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if path.extension().is_none_or(|end| end != "ireereplay") {
            continue;
        }
        files += 1;
        let bytes = std::fs::read(&path)?;
        let capture = Capture::open(&bytes[..], OpenOptions::default())?;
        let mut executables: Vec<Executable> = Vec::new();
        for record in capture.records() {
            match record?.payload()? {
                Payload::ExecutablePrepare(it) => executables.push(match it.format {
                    b"cuda-nvptx-fb" => read_cuda(it.data)?,
                    _ => read_hip(it.data)?,
                }),
                Payload::Dispatch(it) => {
                    let [executable] = &executables[..] else { return Err("expected one executable".into()) };
                    let ordinal = it.header.function_ordinal.get() as usize;
                    let function = executable.functions.get(ordinal).ok_or("no such function")?;
                    let passed = (Some(it.bindings.len() as u16), Some((it.constants.len() / 4) as u16));
                    let taken = (function.binding_count(), function.constant_count);
                    ensure(passed == taken, || format!("{}: {passed:?}, {taken:?}", path.display()))?;
                    dispatches += 1;
                }
                _ => {}
            }
        }
    }
    println!("{dispatches} dispatches of {files} captures");
    ensure(files >= 5 && dispatches >= 13, || format!("{files} captures with {dispatches} dispatches"))
}
