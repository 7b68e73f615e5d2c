use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::FileKind;

/// The step that the user can take about an error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Advice {
    /// A sentence that is the same in every interface.
    Text(String),
    /// A means that each interface names in its own way.
    Remedy(Remedy),
}

/// The advice about an error by a means that a tool names by a flag, and a language binding by an argument.
///
/// `Display` states it without such names. An interface replaces that by its own words: see
/// [`Error::report_with`](crate::Error::report_with).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Remedy {
    /// Name a capture; a recorder writes them.
    NameCapture,
    /// Open a truncated capture with recovery.
    RecoverTruncated,
    /// Record a capture again that could not be written to its end, or open it with recovery.
    RecoverUnclosed,
    /// Copy or record a damaged capture again, or open it with recovery.
    RecoverDamaged,
    /// Restore an external file of a capture, or remap its path.
    RemapFile,
    /// Restore an external file of a capture; copies need a capture that validates files by digest.
    ValidateByDigest,
    /// Allow archives of parameters to name files outside of their directory.
    AllowExternalPaths,
    /// Let a replay write to private copies of files.
    CopyFileWrites,
    /// Give one device for each device of a capture.
    GiveDevices,
    /// Use an emulated device in the place of one that is not here.
    EmulateDevice {
        /// Its URI.
        uri: String,
    },
    /// Use a device that runs executables of a format.
    UseDeviceForFormat {
        /// The format's name.
        format: String,
    },
    /// Use a device that runs an executable, of which only the kind of the file is known.
    UseDeviceForFile(FileKind),
    /// Compile a program for a device that is here.
    CompileProgram,
    /// List the dispatches of a capture, to name one.
    ListDispatches,
    /// List the functions and scopes of a capture, to name one.
    SurveyCapture,
    /// Compile a program with a source in place of its own.
    CompileWithSource,
    /// State the workgroups of a replacement, or compile the program with it as a source.
    StateWorkgroups,
    /// Load the plugin that has the missing imports of an executable.
    LoadPlugin,
    /// Compile a native module to bytecode, with a plugin for its native functions.
    CompileModule,
    /// Compile an executable of a capture for this machine, and substitute it.
    SubstituteExecutable {
        /// The executable's id in the capture.
        id: u64,
    },
    /// Name an executable, or the format of one that its bytes do not tell.
    NameExecutable,
    /// Compile an executable for devices of another driver than the one that it is for.
    CompileExecutable {
        /// The name of the driver.
        driver: String,
    },
    /// Compile a program in another way.
    CompileWith {
        /// For what, and what that changes.
        purpose: Cow<'static, str>,
        /// The flags of the compiler.
        flags: Cow<'static, str>,
    },
    /// Install the compiler, or name one that is installed.
    InstallCompiler,
    /// Find a flag of the compiler in its help.
    FindCompilerFlag,
    /// Compare with a ledger that keeps bytes, not only digests.
    KeepExpectedBytes {
        /// How many of each range.
        bytes: u64,
    },
    /// Add the parameter file of a scope.
    AddParameters {
        /// The scope's name, which may be empty.
        scope: String,
    },
    /// Use a file as what it is, instead of as what it was given as.
    UseFile(FileKind),
    /// Give an option another value. Flags and arguments have the names of the library's options.
    SetOption {
        /// The option.
        name: Cow<'static, str>,
        /// The value.
        value: String,
    },
    /// Leave out an option that does not apply.
    OmitOption {
        /// The option.
        name: Cow<'static, str>,
    },
}

impl Remedy {
    /// Compile a program for the processor of this machine, wherever the compiler runs. `device` is the
    /// compiler's name of the device.
    pub fn compile_for_processor(device: &str) -> Self {
        let architecture = std::env::consts::ARCH;
        Self::CompileWith {
            purpose: "this machine's processor".into(),
            flags: format!(
                "--iree-hal-target-device={device} --iree-hal-local-target-device-backends=llvm-cpu \
                 --iree-llvmcpu-target-triple={architecture}-linux-gnu"
            )
            .into(),
        }
    }
}

impl From<String> for Advice {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for Advice {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

impl From<Remedy> for Advice {
    fn from(remedy: Remedy) -> Self {
        Self::Remedy(remedy)
    }
}

impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Remedy(remedy) => remedy.fmt(f),
        }
    }
}

impl fmt::Display for Remedy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::NameCapture => "name a capture, which a recorder writes",
            Self::RecoverTruncated => "open it with recovery to use the complete records",
            Self::RecoverUnclosed => {
                "make room for the capture and record it again, or open it with recovery to use the records before the error"
            }
            Self::RecoverDamaged => {
                "the file is damaged: copy it again from its source, or capture again; recovery reads it without verification"
            }
            Self::RemapFile => "restore the file, or remap its captured path to where it is now",
            Self::ValidateByDigest => {
                "restore the original file; for copies, capture again with validation by digest"
            }
            Self::AllowExternalPaths => "allow external paths, if the archive may read that file",
            Self::CopyFileWrites => "replay it with writes to private copies of the files",
            Self::EmulateDevice { uri } => return write!(f, "emulate one, slowly: device {uri}"),
            Self::GiveDevices => "give one device for each device of the capture",
            Self::UseDeviceForFormat { format } => {
                return write!(f, "use a device that runs executables of format '{format}'");
            }
            Self::UseDeviceForFile(_) => "use a device that runs it",
            Self::CompileProgram => "compile the program for a device of this machine",
            Self::ListDispatches => "list the kernels of the capture, whose dispatches have records",
            Self::SurveyCapture => "survey the capture, which lists its functions and scopes",
            Self::CompileWithSource => "compile the program with the source in place of its own",
            Self::StateWorkgroups => {
                "name a source, which says it, or state the workgroup count of the replacement, or compile the \
                 program with the source in place of its own"
            }
            Self::LoadPlugin => "load the plugin that provides them",
            Self::CompileModule => {
                "compile the module to bytecode (.vmfb), and native code that its kernels import to a plugin"
            }
            Self::SubstituteExecutable { id } => {
                return write!(f, "compile it for this machine, and substitute executable {id}");
            }
            Self::NameExecutable => {
                "name a compiled executable: an ELF image, a shared library, or SPIR-V for Vulkan; if it is of another format, name that"
            }
            Self::CompileExecutable { driver } => {
                return write!(f, "compile it for devices of driver '{driver}'");
            }
            Self::CompileWith { purpose, .. } => return write!(f, "compile the program for {purpose}"),
            Self::FindCompilerFlag => "read the help of the compiler",
            Self::InstallCompiler => {
                "install the Python package iree-base-compiler, or name an iree-compile in the environment: REHAL_COMPILER=PATH"
            }
            Self::KeepExpectedBytes { bytes } => {
                return write!(f, "compare with a ledger that keeps {bytes} bytes of each range");
            }
            Self::AddParameters { scope } => return write!(f, "add the parameter file of scope '{scope}'"),
            Self::UseFile(kind) => match kind {
                FileKind::Capture => "it can be replayed, summarized and dumped as a capture",
                FileKind::Module => "it can be run and dumped as a module",
                FileKind::Irpa | FileKind::Gguf | FileKind::Safetensors => {
                    "it can be listed, and given to a module as parameters"
                }
                FileKind::Profile => "reports of it can be printed as a device profile",
                FileKind::Ledger => "replays of its capture can be verified against it",
                FileKind::Elf => "it can replace an executable of a capture, or be loaded as a plugin",
                FileKind::VulkanExecutable
                | FileKind::SpirV
                | FileKind::CudaExecutable
                | FileKind::Ptx
                | FileKind::Cubin
                | FileKind::Fatbin
                | FileKind::HipExecutable
                | FileKind::AmdgpuExecutable
                | FileKind::Hsaco => "it can replace an executable of a capture on a device that runs it",
                FileKind::Npy => "it can be an input of a function",
                FileKind::Empty | FileKind::Zip | FileKind::Text => "name another file",
            },
            Self::SetOption { name, value } => return write!(f, "set the option {name} to {value}"),
            Self::OmitOption { name } => return write!(f, "leave out the option {name}"),
        };
        f.write_str(text)
    }
}
