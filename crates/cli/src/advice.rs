//! Error advice of the tools: maps the remedies of library errors to flags and commands.

use rehal_base::{Advice, Error, FileKind, Remedy, StatusCode};
use rehal_devices::{driver_of_files, driver_of_format, drivers};
use rehal_hal::{CompilerTarget, Driver};

use crate::output;

/// The lines that a tool prints about an error.
pub(crate) fn report(error: &Error) -> String {
    error.report_with(in_flags)
}

/// Prints them on standard error.
pub(crate) fn print(error: &Error) {
    output::note(&report(error));
}

/// The advice of an error, if it has some.
pub(crate) fn of(error: &Error) -> Option<String> {
    error.advice().map(|advice| match advice {
        Advice::Text(text) => text.clone(),
        Advice::Remedy(remedy) => in_flags(remedy),
    })
}

pub(crate) fn in_flags(remedy: &Remedy) -> String {
    let text = match remedy {
        Remedy::NameCapture => {
            "name a capture (.ireereplay), as IREE's tools write it with --device_replay_output=PATH"
        }
        Remedy::RecoverTruncated => "use --recover to read the complete records",
        Remedy::RecoverUnclosed => {
            "make room for the capture and record it again, or read the records before the error: rehal run --recover CAPTURE"
        }
        Remedy::RecoverDamaged => {
            "the file is damaged: copy it again from its source, or capture again; \
             rehal info lists all damage, and --recover reads it without verification"
        }
        Remedy::RemapFile => {
            "restore the file, or name where it is now: --replay_file_remap=CAPTURED_PREFIX=PREFIX_HERE"
        }
        Remedy::ValidateByDigest => {
            "restore the original file; for copies, capture again with --device_replay_file_validation=digest"
        }
        Remedy::AllowExternalPaths => {
            "if the archive is from a source that may read this file, pass --allow_external_paths; rehal dump-parameters lists the paths"
        }
        Remedy::CopyFileWrites => "let it write to private copies of the files: --replay_file_writes=copy",
        Remedy::EmulateDevice { uri } => return format!("emulate one, slowly: --device={uri}"),
        Remedy::GiveDevices => "repeat --device= once for each device of the capture",
        Remedy::UseDeviceForFormat { format } => {
            return match driver_of_format(&drivers(), format) {
                Ok(Some(driver)) => use_driver(driver),
                Ok(None) => without_device("no driver is known for it"),
                Err(error) => without_device(error.message()),
            };
        }
        Remedy::UseDeviceForFile(kind) => {
            let registry = drivers();
            let driver = driver_of_files(&registry, *kind);
            return driver.map_or_else(compile_program, |driver| use_driver(driver.name()));
        }
        Remedy::CompileProgram => return compile_program(),
        Remedy::ListDispatches => "`rehal kernels` lists the dispatches, with a record of each",
        Remedy::SurveyCapture => "`rehal info` lists the functions and scopes",
        Remedy::CompileWithSource => {
            "compile the program with the source: rehal compile --substitute=NAME=FILE"
        }
        Remedy::StateWorkgroups => {
            "name a source (.mlir), which says it, state it with --workgroup_count=FUNCTION=X,Y,Z (same if it is that of the \
             replaced function), or compile the program with the source: rehal compile --substitute=NAME=FILE"
        }
        Remedy::LoadPlugin => "name the library that provides them: --executable_plugin=PATH",
        Remedy::CompileModule => {
            "compile the module to a .vmfb; native code that its kernels import goes to --executable_plugin=PATH"
        }
        Remedy::SubstituteExecutable { id } => {
            return format!(
                "compile it for this machine, and replay with --replay_executable_substitution={id}=PATH"
            );
        }
        Remedy::NameExecutable => {
            "name a source (.c, .rs, .cu) or a compiled executable: an ELF image, a shared library, SPIR-V for Vulkan, or PTX for CUDA; if \
             it is of another format, name that: WHICH@FORMAT=PATH"
        }
        Remedy::CompileExecutable { driver } => return compile_for(driver),
        Remedy::CompileWith { purpose, flags } => {
            return format!("compile the program for {purpose}: iree-compile {flags}");
        }
        Remedy::InstallCompiler => {
            "install it (pip install iree-base-compiler), or name an iree-compile: --compiler=PATH, or REHAL_COMPILER=PATH in the environment"
        }
        Remedy::FindCompilerFlag => {
            "rehal compile --help=WORD prints the flags of the compiler that have a word"
        }
        Remedy::KeepExpectedBytes { bytes } => {
            return format!(
                "compare with a ledger that keeps the expected bytes, of a trusted replay: \
                 rehal run --replay_ledger=PATH --replay_ledger_kept_bytes={bytes} CAPTURE"
            );
        }
        Remedy::AddParameters { scope } => {
            let equals = if scope.is_empty() { "" } else { "=" };
            return format!("pass its file with --parameters={scope}{equals}FILE");
        }
        Remedy::SetOption { name, value } => return format!("use --{name}={value}"),
        Remedy::OmitOption { name } => return format!("leave out --{name}"),
        Remedy::UseFile(kind) => return uses(*kind).unwrap_or_else(|| remedy.to_string()),
    };
    text.into()
}

/// How programs are compiled for the drivers that work on this machine.
fn compile_program() -> String {
    let mut targets: Vec<_> = drivers()
        .drivers()
        .iter()
        .filter(|driver| driver.availability().is_ok())
        .filter_map(|driver| Some(format!("={}", driver.backend().compiler_target()?.device)))
        .collect();
    targets.dedup();
    format!(
        "compile the program for this machine: iree-compile --iree-hal-target-device{}",
        targets.join(", or ")
    )
}

/// The flag that names the driver, if it works here.
fn use_driver(driver: &str) -> String {
    let registry = drivers();
    let availability = registry.find(driver).map(Driver::availability);
    let emulated = registry.find(driver).ok().and_then(|it| it.backend().emulated().first());
    if let (Ok(Err(_)), Some(path)) = (&availability, emulated) {
        return without_device(&format!("use --device={driver}://{path}, which emulates it slowly"));
    }
    match availability {
        Ok(Ok(())) => format!("use --device={driver}"),
        Ok(Err(error)) if error.code() != StatusCode::Unimplemented => {
            without_device(&format!("driver '{driver}' is unavailable: {}", error.message()))
        }
        _ => without_device(&format!("this build has no driver '{driver}'")),
    }
}

/// The verbs for captures of a device that is not here, and the way to run them.
fn without_device(why: &str) -> String {
    format!(
        "{why}; without a device, rehal info, dump, diff, kernels, executables, redact, slice, kernel stub and kernel disassemble \
         read captures; to run it, {}",
        compile_program()
    )
}

/// How an executable for devices of a driver is compiled.
fn compile_for(driver: &str) -> String {
    let registry = drivers();
    let target = registry.find(driver).ok().and_then(|found| found.backend().compiler_target());
    let Some(CompilerTarget { device, flags, .. }) = target else {
        return format!("compile it for devices of driver '{driver}'");
    };
    let space = if flags.is_empty() { "" } else { " " };
    format!(
        "compile it for {driver}: iree-compile --iree-hal-target-device={device}{space}{flags} \
         --iree-hal-dump-executable-binaries-to=DIR writes the executables of a program"
    )
}

/// The commands that take a file of this kind.
fn uses(kind: FileKind) -> Option<String> {
    let text = match kind {
        FileKind::Capture => Some(
            "rehal run FILE replays it, rehal info FILE summarizes it, and rehal dump FILE prints its records",
        ),
        FileKind::Module => Some(
            "rehal run-module --module=FILE runs it, and rehal dump-module FILE prints it; \
             --iree-hal-dump-executable-binaries-to=DIR of iree-compile writes the executables in it",
        ),
        FileKind::Irpa | FileKind::Gguf | FileKind::Safetensors => Some(
            "rehal dump-parameters --parameters=FILE lists it, and rehal run-module takes it as --parameters=FILE",
        ),
        FileKind::Ledger => {
            Some("rehal verify --against=FILE CAPTURE compares a replay of the capture that it is of with it")
        }
        FileKind::Elf => Some(
            "rehal run --replay_executable_substitution=ID=FILE runs it in place of an executable of a capture, \
             rehal benchmark-executable --executable_file=FILE measures it, and --executable_plugin=FILE loads it as a plugin",
        ),
        FileKind::VulkanExecutable | FileKind::SpirV => {
            let registry = drivers();
            let driver = driver_of_files(&registry, kind).map_or("NAME", Driver::name);
            return Some(format!(
                "rehal run --device={driver} --replay_executable_substitution=ID=FILE runs it in place of an \
                 executable of a capture, and rehal benchmark-executable --device={driver} \
                 --executable_file=FILE measures it"
            ));
        }
        FileKind::CudaExecutable
        | FileKind::Ptx
        | FileKind::Cubin
        | FileKind::Fatbin
        | FileKind::HipExecutable
        | FileKind::AmdgpuExecutable
        | FileKind::Hsaco => Some(
            "rehal kernel disassemble FILE prints it, rehal info --substitute=NAME=FILE CAPTURE says whether it can replace an \
             executable of a capture, and rehal substitute --executable=NAME=FILE puts it into a module",
        ),
        FileKind::Npy => Some("rehal run-module takes it as --input=@FILE"),
        FileKind::Profile => Some(
            "rehal profile summary FILE summarizes it, and rehal profile explain FILE names its bottlenecks",
        ),
        FileKind::Empty | FileKind::Zip | FileKind::Text => None,
    };
    text.map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remedies_name_flags_of_the_tools() {
        let error = Error::not_found("x").advise(Remedy::AddParameters { scope: "model".into() });
        assert_eq!(report(&error), "NOT_FOUND; x\n  try: pass its file with --parameters=model=FILE");
        let error = Error::not_found("x").advise(Remedy::AddParameters { scope: String::new() });
        assert_eq!(of(&error).unwrap(), "pass its file with --parameters=FILE");
        let error = Error::not_found("x").advise(Remedy::SubstituteExecutable { id: 4 });
        assert!(of(&error).unwrap().ends_with("--replay_executable_substitution=4=PATH"));
        let error =
            Error::not_found("x").advise(Remedy::SetOption { name: "format".into(), value: "jsonl".into() });
        assert_eq!(of(&error).unwrap(), "use --format=jsonl");
        let error = Error::not_found("x").advise(Remedy::OmitOption { name: "id".into() });
        assert_eq!(of(&error).unwrap(), "leave out --id");
        let driver = |format: &str| {
            of(&Error::not_found("x").advise(Remedy::UseDeviceForFormat { format: format.into() })).unwrap()
        };
        assert_eq!(
            (driver("vulkan-spirv-fb"), driver("vmvx-bytecode-fb")),
            ("use --device=vulkan".into(), "use --device=local-task".into())
        );
        let foreign = driver("embedded-elf-riscv_32");
        assert!(
            foreign.starts_with("the executable is compiled for 'embedded-elf-riscv_32' (riscv_32); here: "),
            "{foreign}"
        );
        assert!(foreign.contains("; to run it, compile the program for this machine: "), "{foreign}");
        let file = |kind| of(&Error::not_found("x").advise(Remedy::UseDeviceForFile(kind))).unwrap();
        assert_eq!(file(FileKind::Elf), "use --device=local-task");
        assert_eq!(file(FileKind::SpirV), "use --device=vulkan");
        assert!(driver("beads").starts_with("no driver is known for it; without a device, "));
        let emulated =
            "use --device=cuda://emulator, which emulates it slowly; without a device, rehal info, ";
        assert!(driver("cuda-nvptx-fb").starts_with(emulated));
        for (format, missing) in [
            ("rocm-hsaco-fb", "hip"),
            ("gfx1100", "amdgpu"),
            ("metal-msl-fb", "metal"),
            ("webgpu-wgsl-fb", "webgpu"),
        ] {
            let advice = driver(format);
            assert!(
                advice.starts_with(&format!(
                    "this build has no driver '{missing}'; without a device, rehal info, "
                )),
                "{advice}"
            );
        }
        let error = Error::not_found("x").advise("a text");
        assert_eq!((of(&error).unwrap(), report(&error)), ("a text".into(), error.report()));
        assert_eq!(of(&Error::not_found("x")), None);
        let error = |driver: &str| {
            let advised = Error::not_found("x").advise(Remedy::CompileExecutable { driver: driver.into() });
            of(&advised).unwrap()
        };
        assert!(error("vulkan").contains("--iree-hal-target-device=vulkan "));
        assert!(error("local-sync").contains("--iree-hal-target-device=local "));
        assert_eq!(error("metal"), "compile it for devices of driver 'metal'");
    }

    #[test]
    fn files_of_other_kinds_name_the_command_that_takes_them() {
        let error = |wanted: FileKind, head: &[u8]| of(&wanted.refuse_other(head, "'x'").unwrap()).unwrap();
        assert!(error(FileKind::Module, b"IRRP").starts_with("rehal run FILE replays it"));
        assert!(
            error(FileKind::Capture, b"\x7FELF").starts_with("rehal run --replay_executable_substitution=")
        );
        assert!(error(FileKind::Capture, b"GGUF").starts_with("rehal dump-parameters --parameters=FILE"));
        assert!(error(FileKind::Capture, b"text").ends_with("--device_replay_output=PATH"));
        assert!(error(FileKind::Capture, b"RHLEDGER").starts_with("rehal verify --against=FILE"));
        assert_eq!(error(FileKind::Module, b"text"), "name a module, as iree-compile writes it");
    }
}
