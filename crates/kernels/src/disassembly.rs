//! Machine code of kernels as text: that of functions of an executable, with the constants that they load and
//! what their dispatches have in common.

mod constants;

use std::ffi::OsString;
use std::ops::ControlFlow;
use std::sync::Arc;

use rehal_base::{Error, FileKind, Result, StatusCode, escaped, glob};
use rehal_devices::{drivers, find_format, find_format_of_files};
use rehal_formats::{CodeImage, ImageKind};
use rehal_hal::FunctionInfo;
use rehal_jobs::{Job, KeptOutput, TemporaryDirectory};
use rehal_local::executable::{ARCHITECTURE, ElfCode, FunctionCode, infer_format};
use rehal_replay::Plan;
use serde::Serialize;

pub use self::constants::Constant;
use crate::kernel_record::words;

/// A function of an executable whose code can be disassembled.
#[derive(Clone)]
pub struct CodeFunction {
    /// Its name in the executable.
    pub name: String,
    code: Code,
}

#[derive(Clone)]
enum Code {
    /// The image, and where the function is in it.
    Native(Arc<ElfCode>, FunctionCode),
    SpirV(Arc<[u32]>),
    /// PTX, of which the function is a part.
    Ptx(Arc<[u8]>),
    /// A HSACO, with the processor that it is for.
    Hsaco(Arc<[u8]>, Option<String>),
}

/// The functions of code for CUDA, HIP or amdgpu, each with the image that has it.
fn gpu_functions(format: Option<&str>, kind: FileKind, data: &[u8]) -> Result<Vec<CodeFunction>> {
    let registry = drivers();
    let found = match format {
        Some(name) => find_format(&registry, name).map(|it| (name, it)),
        None => find_format_of_files(&registry, kind).map(|it| (it.prefix, it)),
    };
    let unknown = || Error::unimplemented(format!("code of this kind cannot be read: {}", kind.name()));
    let (name, format) = found.ok_or_else(unknown)?;
    let images: Vec<_> = (format.images)(name, data)
        .into_iter()
        .map(|image| {
            let bytes = &data[image.bytes.clone()];
            let functions = (format.functions)(name, bytes).unwrap_or_default();
            (image, Arc::<[u8]>::from(bytes), functions)
        })
        .collect();
    let functions = (format.functions)(name, data);
    if let [(image, ..)] = &images[..]
        && !matches!(image.kind, ImageKind::Ptx | ImageKind::Hsaco)
    {
        let kind = image.kind.name();
        let message = format!("the executable is a {kind}, which nothing here disassembles");
        return Err(
            Error::unimplemented(message).advise(format!("nvdisasm and cuobjdump of CUDA print a {kind}"))
        );
    }
    let with_code = |info: FunctionInfo| {
        let has = |(_, _, all): &&(CodeImage, Arc<[u8]>, Vec<FunctionInfo>)| {
            images.len() == 1 || all.iter().any(|it| it.name == info.name)
        };
        let (image, bytes, _) = images.iter().find(has).ok_or_else(|| {
            Error::unimplemented(format!("no image of the executable has '{}'", escaped(&info.name)))
        })?;
        let code = match image.kind {
            ImageKind::Ptx => Code::Ptx(bytes.clone()),
            _ => Code::Hsaco(bytes.clone(), image.target.clone()),
        };
        Ok(CodeFunction { name: info.name, code })
    };
    functions?.into_iter().map(with_code).collect()
}

/// The lines of a kernel in PTX, as they are.
fn ptx_lines(text: &[u8], name: &str) -> Vec<String> {
    let text = String::from_utf8_lossy(text);
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"_$%".contains(&byte);
    let begins = |line: &&str| {
        let entry = line.split_once(".entry").map(|(_, rest)| rest.trim_start());
        let rest = entry.and_then(|rest| rest.strip_prefix(name));
        rest.is_some_and(|rest| !rest.bytes().next().is_some_and(is_name))
    };
    let mut lines = Vec::new();
    let mut depth: Option<i64> = None;
    for line in text.lines().skip_while(|line| !begins(line)) {
        lines.push(line.to_owned());
        let code = line.split("//").next().unwrap_or_default();
        for byte in code.bytes().filter(|byte| b"{}".contains(byte)) {
            depth = Some(depth.unwrap_or(0) + if byte == b'{' { 1 } else { -1 });
        }
        if depth == Some(0) {
            break;
        }
    }
    lines
}

/// The lines of a kernel for an AMD GPU, by LLVM's disassembler.
fn hsaco_lines(image: &[u8], target: Option<&str>, name: &str) -> Result<Vec<String>> {
    let processor = target.and_then(|it| it.split(':').next()).unwrap_or("gfx942");
    let arguments =
        [format!("--mcpu={processor}"), format!("--disassemble-symbols={name}")].map(OsString::from);
    let given = std::env::var_os("OBJDUMP").filter(|it| !it.is_empty());
    let names =
        given.map_or_else(|| vec!["llvm-objdump-19".into(), "llvm-objdump".into()], |name| vec![name]);
    let install = format!(
        "install LLVM, or name its disassembler: OBJDUMP=llvm-objdump; it is called as llvm-objdump --disassemble --mcpu={processor}"
    );
    let text =
        with_file(image, |file| print_of(&names, arguments.into_iter().chain([file]).collect(), &install))?;
    let code = text.lines().skip_while(|line| !line.starts_with("Disassembly of")).skip(1);
    Ok(code.filter(|line| !line.trim().is_empty()).map(str::to_owned).collect())
}

fn spirv_functions(format: Option<&str>, data: &[u8]) -> Result<Vec<CodeFunction>> {
    let functions = rehal_devices::spirv_functions(format, data)?.into_iter();
    Ok(functions.map(|it| CodeFunction { name: it.name, code: Code::SpirV(it.words) }).collect())
}

fn other_architecture(theirs: &str) -> Error {
    let message = format!("the executable is for {theirs}, this machine is {}", ARCHITECTURE);
    Error::unimplemented(message).advise("disassemble it with llvm-objdump")
}

/// A disassembled function.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Disassembly {
    /// Its name.
    pub function: String,
    /// Its dispatches in a capture.
    #[serde(flatten)]
    pub caller: Caller,
    /// The address in the image; null of code for GPUs.
    pub address: Option<u64>,
    /// Bytes of the function, or of the image for a GPU that has it.
    pub length: u64,
    /// Null of code for GPUs.
    pub instructions: Option<Vec<Instruction>>,
    /// The lines that the disassembler printed.
    pub lines: Vec<String>,
}

/// The calls of a function in a capture.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct Caller {
    /// The id of its executable; null unless it is of a capture.
    pub executable: Option<u64>,
    /// Distinct dispatches, up to 16.
    pub dispatches: Vec<CodeDispatch>,
    /// Distinct dispatches that are not listed.
    pub omitted_dispatches: u64,
}

/// A dispatch of a disassembled function.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct CodeDispatch {
    /// The ordinal of its record.
    pub record: u32,
    /// Null if it is counted in a buffer.
    pub workgroup_count: Option<[u32; 3]>,
    /// Its constants, 32 bits each.
    pub constants: Vec<u32>,
}

/// An instruction.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Instruction {
    /// Its address in the image.
    pub address: u64,
    /// In hexadecimal.
    pub bytes: String,
    /// Mnemonic and operands.
    pub text: String,
    /// The last line of the source before it, if the executable has line tables.
    pub source: Option<String>,
    /// The constant that it loads.
    pub constant: Option<Constant>,
    /// The index of its line.
    #[serde(skip)]
    pub line: usize,
}

/// The executable of a kernel in a capture.
pub struct CapturedCode {
    caller: Caller,
    functions: Vec<CodeFunction>,
    ordinal: u32,
}

impl CapturedCode {
    /// The executable of the first dispatch of a function, named as in the capture or by its ordinal as `#0`.
    /// `None` if nothing dispatches it, or not with the executable of this id.
    pub fn find(plan: &Plan, function: &str, executable: Option<u64>) -> Result<Option<Self>> {
        /// Distinct dispatches that are listed.
        const MAX_LISTED: usize = 16;
        let (mut found, mut dispatches, mut omitted) = (None, Vec::new(), 0);
        plan.distinct_dispatches(|it, _| {
            let is_meant = it.name == function.as_bytes() || function == format!("#{}", it.function);
            if !is_meant || executable.is_some_and(|id| id != it.executable.id) {
                return Ok(());
            }
            let (id, ordinal) = *found.get_or_insert((it.executable.id, it.function));
            if (id, ordinal) != (it.executable.id, it.function) {
                return Ok(());
            }
            if dispatches.len() == MAX_LISTED {
                omitted += 1;
                return Ok(());
            }
            dispatches.push(CodeDispatch {
                record: it.location.ordinal,
                workgroup_count: it.workgroup_count,
                constants: words(it.constants),
            });
            Ok(())
        })?;
        let Some((id, ordinal)) = found else { return Ok(None) };
        let executable = plan.executables().find(|it| it.id == id);
        let executable =
            executable.ok_or_else(|| Error::not_found(format!("executable {id} is not in the capture")))?;
        let format = String::from_utf8_lossy(executable.format);
        if FileKind::from_head(executable.data).is_none_or(|kind| !kind.is_code()) {
            let message = format!(
                "executable {id} has format '{}', which is not machine code or SPIR-V",
                escaped(&format)
            );
            return Err(Error::unimplemented(message).advise("VM programs are printed by rehal dump-module"));
        }
        let functions = CodeFunction::list(Some(&format), executable.data)?;
        let caller = Caller { executable: Some(id), dispatches, omitted_dispatches: omitted };
        Ok(Some(Self { caller, functions, ordinal }))
    }

    /// The functions of the executable.
    pub fn functions(&self) -> &[CodeFunction] {
        &self.functions
    }

    /// The function that the dispatches call, for captures of version 1.0, which have no names.
    pub fn called(&self) -> Result<&CodeFunction> {
        let called = self.functions.get(self.ordinal as usize);
        called.ok_or_else(|| Error::not_found(format!("the executable has no function {}", self.ordinal)))
    }

    /// Disassembles one of the functions, with the dispatches.
    pub fn disassemble(&self, function: &CodeFunction) -> Result<Disassembly> {
        Ok(Disassembly { caller: self.caller.clone(), ..function.disassemble()? })
    }
}

impl CodeFunction {
    /// The functions of an executable, by ordinal, as its table has them: nothing of it runs. `format` is
    /// the one that a capture or a module states.
    pub fn list(format: Option<&str>, data: &[u8]) -> Result<Vec<Self>> {
        match FileKind::from_head(data) {
            Some(FileKind::Elf) => {}
            Some(kind) if kind.is_gpu_code() => return gpu_functions(format, kind, data),
            _ => return spirv_functions(format, data),
        }
        let format = infer_format(data).unwrap_or("an unknown architecture");
        if !format.ends_with(ARCHITECTURE) {
            return Err(other_architecture(format.trim_start_matches("embedded-elf-")));
        }
        let elf = Arc::new(ElfCode::read(data)?);
        let function =
            |it: &FunctionCode| Self { name: it.name.clone(), code: Code::Native(elf.clone(), it.clone()) };
        Ok(elf.functions.iter().map(function).collect())
    }

    /// The function that is meant: by its name, a pattern, or a part; without any, the only one.
    pub fn one<'f>(functions: &'f [Self], wanted: Option<&str>) -> Result<&'f Self> {
        let is = |test: &dyn Fn(&str) -> bool| -> Vec<&Self> {
            functions.iter().filter(|it| test(&it.name)).collect()
        };
        let found = match wanted {
            None => is(&|_| true),
            Some(wanted) => {
                let tests: [&dyn Fn(&str) -> bool; 3] =
                    [&|name| name == wanted, &|name| glob::matches(wanted, name), &|name| {
                        name.contains(wanted)
                    }];
                tests.iter().map(|test| is(*test)).find(|it| !it.is_empty()).unwrap_or_default()
            }
        };
        match found[..] {
            [function] => Ok(function),
            _ => Err(Error::not_found(match wanted {
                Some(wanted) => format!("{} functions match '{}'", found.len(), escaped(wanted)),
                None => format!("the executable has {} functions", found.len()),
            })),
        }
    }

    /// Disassembles the function by a program of the system: the one that `OBJDUMP` in the environment names,
    /// else `objdump` or `llvm-objdump`; `spirv-dis` for SPIR-V.
    pub fn disassemble(&self) -> Result<Disassembly> {
        let (address, length, instructions, lines) = match &self.code {
            Code::Native(elf, code) => {
                let lines = objdump(&elf.image, code)?;
                let instructions = instructions(&lines, |address, length| elf.constant(address, length));
                (Some(code.start), code.end - code.start, Some(instructions), lines)
            }
            Code::SpirV(words) => (None, 4 * words.len() as u64, None, spirv(words)?),
            Code::Ptx(text) => (None, text.len() as u64, None, ptx_lines(text, &self.name)),
            Code::Hsaco(image, target) => {
                (None, image.len() as u64, None, hsaco_lines(image, target.as_deref(), &self.name)?)
            }
        };
        let caller = Caller::default();
        Ok(Disassembly { function: self.name.clone(), caller, address, length, instructions, lines })
    }
}

/// The instructions of what a disassembler prints: an address and a colon, the bytes, and behind a tab the
/// text. Other lines name the source. Bytes that do not fit a line are on the next, without a text.
fn instructions<'b>(lines: &[String], read: impl Fn(u64, usize) -> Option<&'b [u8]>) -> Vec<Instruction> {
    let (mut instructions, mut source) = (Vec::<Instruction>::new(), None);
    for (index, line) in lines.iter().enumerate() {
        let code = line
            .trim_start()
            .split_once(':')
            .and_then(|(address, rest)| Some((u64::from_str_radix(address, 16).ok()?, rest.trim_start())));
        let Some((address, rest)) = code else {
            let of_source = line.trim_start_matches("; ");
            if of_source
                .rsplit_once(':')
                .is_some_and(|(_, it)| it.starts_with(|it: char| it.is_ascii_digit()))
            {
                source = Some(of_source.to_owned());
            }
            continue;
        };
        let (bytes, text) = rest.split_once('\t').unwrap_or((rest, ""));
        let bytes: String = bytes.split_whitespace().collect();
        match instructions.last_mut() {
            Some(last) if text.trim().is_empty() => last.bytes.push_str(&bytes),
            _ => {
                let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
                let constant = Constant::loaded(&text, &read);
                let source = source.clone();
                instructions.push(Instruction { address, bytes, text, source, constant, line: index });
            }
        }
    }
    instructions
}

/// Calls a function with a temporary file that has these bytes.
fn with_file<T>(bytes: &[u8], run: impl FnOnce(OsString) -> Result<T>) -> Result<T> {
    let directory = TemporaryDirectory::in_temp("rehal-disassemble-")?;
    let file = directory.path().join("executable");
    let written = std::fs::write(&file, bytes)
        .map_err(|error| Error::io(format!("writing '{}'", file.display()), &error));
    directory.explain(written)?;
    run(file.into())
}

/// The lines of a function, by the system's disassembler.
fn objdump(image: &[u8], function: &FunctionCode) -> Result<Vec<String>> {
    let arguments = [
        "--disassemble".to_string(),
        "--line-numbers".into(),
        "-M".into(),
        "intel".into(),
        format!("--start-address={:#x}", function.start),
        format!("--stop-address={:#x}", function.end),
    ];
    let arguments = arguments.iter().map(OsString::from);
    let given = std::env::var_os("OBJDUMP").filter(|it| !it.is_empty());
    let names = given.map_or_else(|| vec!["objdump".into(), "llvm-objdump".into()], |name| vec![name]);
    let text = with_file(image, |file| {
        print_of(&names, arguments.chain([file]).collect(), "install binutils or LLVM")
    })?;
    // Before it are the name of the file and of the section.
    let code = text.lines().skip_while(|line| !line.starts_with("Disassembly of")).skip(1);
    // The label is of the nearest symbol, which seldom is that of the function.
    let is_label = |line: &str| line.starts_with(|it: char| it.is_ascii_hexdigit()) && line.ends_with(">:");
    Ok(code.filter(|line| !line.trim().is_empty() && !is_label(line)).map(str::to_owned).collect())
}

/// The lines of a SPIR-V module, of which a function is an entry point.
fn spirv(words: &[u32]) -> Result<Vec<String>> {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let text = with_file(&bytes, |file| {
        print_of(&["spirv-dis".into()], vec!["--no-color".into(), file], "install SPIRV-Tools")
    })?;
    Ok(text.lines().map(str::to_owned).collect())
}

/// The output of the first of these programs that exists.
fn print_of(names: &[OsString], arguments: Vec<OsString>, install: &str) -> Result<String> {
    for name in names {
        let shown = name.to_string_lossy();
        let mut job = Job::for_program(name);
        job.arguments.clone_from(&arguments);
        job.environment = vec![("LC_ALL".into(), Some("C".into()))];
        job.kept = KeptOutput::First(usize::MAX);
        match job.run(&mut |_| ControlFlow::Continue(())) {
            Ok(ran) if ran.is_success() => return Ok(String::from_utf8_lossy(&ran.stdout.bytes).into_owned()),
            Ok(ran) => {
                let said = String::from_utf8_lossy(&ran.stderr.bytes);
                // Behind it may be what a crash prints.
                let said = said.trim().lines().next().unwrap_or_default();
                return Err(Error::new(StatusCode::Aborted, format!("{shown} failed: {said}"))
                    .advise("name another disassembler: OBJDUMP=llvm-objdump"));
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(Error::io(format!("starting {shown}"), &error).advise(install)),
        }
    }
    let names: Vec<_> = names.iter().map(|it| it.to_string_lossy()).collect();
    Err(Error::not_found(format!("no disassembler: {} is not in PATH", names.join(" or "))).advise(install))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without this test, instructions may have the bytes, the source or the constants of their neighbours.
    #[test]
    fn lines_of_a_disassembler_are_instructions() {
        let lines = [
            "/src/k.c:12",
            "     580:\t48 8b 05 10 00 00 00 \tmov    rax,QWORD PTR [rip+0x10]        # 597 <x+0x7>",
            "     587:\t00 01 ",
            "; /src/k.c:13",
            "f():",
            "     591:\tc3                   \tret",
        ];
        let constant = 7_u64.to_le_bytes();
        let read = |address, length| (address == 0x597).then(|| &constant[..length]);
        let found = instructions(&lines.map(str::to_owned), read);
        let of = |it: &Instruction| {
            let constant = it.constant.as_ref().map(|it| (it.address, it.text()));
            (it.address, it.bytes.clone(), it.text.clone(), it.source.clone().unwrap(), constant, it.line)
        };
        let row = |address, bytes: &str, text: &str, line: u32, constant, at| {
            (address, bytes.to_owned(), text.to_owned(), format!("/src/k.c:{line}"), constant, at)
        };
        let load = "mov rax,QWORD PTR [rip+0x10] # 597 <x+0x7>";
        // The line without a text continues the one before it.
        assert_eq!(
            found.iter().map(of).collect::<Vec<_>>(),
            [
                row(0x580, "488b05100000000001", load, 12, Some((0x597, "; i64 7".to_owned())), 1),
                row(0x591, "c3", "ret", 13, None, 5),
            ]
        );
    }

    fn plan(name: &str) -> Plan {
        let path = testing::fixtures().join(format!("captures/{name}.ireereplay"));
        Plan::compile(std::fs::read(path).unwrap(), rehal_replay::PlanOptions::default()).unwrap()
    }

    /// Without this test, the code of another function than the one that is dispatched may be shown.
    #[test]
    fn code_is_that_of_the_dispatched_function() {
        let plan = plan("chain.chain.local-sync");
        let name = "chain_dispatch_6_elementwise_576_f32";
        let find = |name: &str, executable| CapturedCode::find(&plan, name, executable).unwrap();
        let code = find(name, None).unwrap();
        let names: Vec<_> = code.functions().iter().map(|it| &*it.name).collect();
        assert_eq!(names, NAMES);
        assert_eq!(code.called().unwrap().name, name);
        let [dispatch] = &code.caller.dispatches[..] else { panic!("{:?}", code.caller) };
        assert_eq!((dispatch.workgroup_count, &dispatch.constants[..]), (Some([1, 1, 1]), &[][..]));
        assert_eq!((code.caller.executable, code.caller.omitted_dispatches), (Some(4), 0));
        assert!(find("chain", None).is_none() && find(name, Some(5)).is_none() && find("#9", None).is_none());
        assert_eq!(find("#1", Some(4)).unwrap().called().unwrap().name, NAMES[1]);
        let one = |wanted| CodeFunction::one(code.functions(), wanted);
        for (wanted, index) in [(NAMES[1], 1), ("*_6_*", 2), ("dispatch_0", 0)] {
            assert_eq!(one(Some(wanted)).unwrap().name, NAMES[index]);
        }
        let error = |wanted| one(wanted).err().unwrap().message().to_owned();
        assert_eq!(error(Some("matmul")), "2 functions match 'matmul'");
        assert_eq!(error(Some("sum")), "0 functions match 'sum'");
        assert_eq!(error(None), "the executable has 3 functions");
        assert_eq!(CodeFunction::one(&code.functions()[..1], None).unwrap().name, NAMES[0]);
        // What the disassembler of the system prints is all of the function, and nothing else.
        let shown = code.disassemble(one(Some(name)).unwrap()).unwrap();
        let instructions = shown.instructions.unwrap();
        let mut address = shown.address.unwrap();
        for it in &instructions {
            assert_eq!(it.address, address, "{it:?}");
            address += it.bytes.len() as u64 / 2;
        }
        assert_eq!(address, shown.address.unwrap() + shown.length);
        let last = instructions.last().unwrap();
        assert_eq!((&*last.bytes, &*last.text, last.line + 1), ("c3", "ret", shown.lines.len()));
        assert_eq!(shown.caller.dispatches[0].record, 67);
        let vm = CapturedCode::find(&self::plan("add4.vmvx.local-sync"), "#0", None).err().unwrap();
        assert!(vm.message().ends_with("has format 'vmvx-bytecode-fb', which is not machine code or SPIR-V"));
    }

    const NAMES: [&str; 3] = [
        "chain_dispatch_0_matmul_24x24x24_f32",
        "chain_dispatch_1_matmul_24x24x24_f32",
        "chain_dispatch_6_elementwise_576_f32",
    ];
}
