use serde::{Deserialize, Serialize};

/// The type of a file, detected from its first bytes: a reader that fails names the actual type instead of
/// the first field that does not fit.
///
/// ```
/// use rehal_base::FileKind;
///
/// assert_eq!(FileKind::from_head(b"GGUF\x03\0\0\0"), Some(FileKind::Gguf));
/// let error = FileKind::Capture.refuse_other(b"GGUF\x03\0\0\0", "'model.gguf'").unwrap();
/// assert_eq!(error.message(), "'model.gguf' is a GGUF parameter file, not a capture");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FileKind {
    /// An empty file.
    Empty,
    /// A capture of device work.
    Capture,
    /// A compiled module. VM executables have the same format.
    Module,
    /// An IREE parameter archive.
    Irpa,
    /// A GGUF parameter file, as llama.cpp uses.
    Gguf,
    /// A safetensors parameter file, as Hugging Face models use.
    Safetensors,
    /// A device profile.
    Profile,
    /// A ledger of a replay.
    Ledger,
    /// Machine code, in one ELF image or in several (FatELF).
    Elf,
    /// An executable for Vulkan.
    VulkanExecutable,
    /// A SPIR-V module.
    SpirV,
    /// An executable for CUDA.
    CudaExecutable,
    /// PTX text.
    Ptx,
    /// Machine code for one NVIDIA GPU, in an ELF file.
    Cubin,
    /// Code for NVIDIA GPUs in a container.
    Fatbin,
    /// An executable for HIP.
    HipExecutable,
    /// An executable for the driver amdgpu.
    AmdgpuExecutable,
    /// Machine code for one AMD GPU, in an ELF file.
    Hsaco,
    /// A NumPy array.
    Npy,
    /// A zip archive that is not a module.
    Zip,
    /// Text.
    Text,
}

impl FileKind {
    /// Maximum number of bytes that detection reads from the start of a file.
    pub const HEAD_BYTES: usize = 4096;

    /// The kind of a file, detected from `head`: the whole file, or at least its first
    /// [`FileKind::HEAD_BYTES`]. `None` if unknown.
    pub fn from_head(head: &[u8]) -> Option<Self> {
        let head = &head[..head.len().min(Self::HEAD_BYTES)];
        let at = |offset: usize, bytes: &[u8]| head.get(offset..).is_some_and(|rest| rest.starts_with(bytes));
        Some(match head {
            [] => Self::Empty,
            [b'I', b'R', b'R', b'P', ..] => Self::Capture,
            [b'I', b'R', b'P', b'A', ..] => Self::Irpa,
            [b'I', b'R', b'P', b'F', ..] => Self::Profile,
            [b'G', b'G', b'U', b'F', ..] => Self::Gguf,
            _ if at(0, b"RHLEDGER") => Self::Ledger,
            // By the machine.
            [0x7F, b'E', b'L', b'F', ..] if at(18, &[190, 0]) => Self::Cubin,
            [0x7F, b'E', b'L', b'F', ..] if at(18, &[224, 0]) => Self::Hsaco,
            [0x7F, b'E', b'L', b'F', ..] | [0xFA, 0x70, 0x0E, 0x1F, ..] => Self::Elf,
            [b'V', b'K', b'E', b'1', ..] => Self::VulkanExecutable,
            [0x03, 0x02, 0x23, 0x07, ..] => Self::SpirV,
            [b'C', b'D', b'A', b'1', ..] => Self::CudaExecutable,
            [b'H', b'I', b'P', b'1', ..] => Self::HipExecutable,
            [b'A', b'M', b'D', b'1', ..] => Self::AmdgpuExecutable,
            [0x50, 0xED, 0x55, 0xBA, ..] => Self::Fatbin,
            [0x93, b'N', b'U', b'M', b'P', b'Y', ..] => Self::Npy,
            // The name of the first file of the archive.
            [b'P', b'K', 3, 4, ..] if at(30, b"module.fb") => Self::Module,
            [b'P', b'K', 3, 4, ..] => Self::Zip,
            // The file identifier of a size-prefixed flatbuffer.
            _ if at(8, b"IREE") => Self::Module,
            // The header length as a u64, far below 2^32, then the header: a JSON object.
            _ if at(4, &[0, 0, 0, 0, b'{']) => Self::Safetensors,
            _ if is_text(head) => match is_ptx(head) {
                true => Self::Ptx,
                false => Self::Text,
            },
            _ => return None,
        })
    }

    /// Its name in messages, with its article.
    pub fn name(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::Capture => "a capture (.ireereplay)",
            Self::Module => "a compiled module (.vmfb)",
            Self::Irpa => "a parameter archive (.irpa)",
            Self::Gguf => "a GGUF parameter file",
            Self::Safetensors => "a safetensors parameter file",
            Self::Profile => "a device profile (.ireeprof)",
            Self::Ledger => "a ledger",
            Self::Elf => "an ELF image (machine code)",
            Self::VulkanExecutable => "an executable for Vulkan",
            Self::SpirV => "a SPIR-V module (.spv)",
            Self::CudaExecutable => "an executable for CUDA",
            Self::Ptx => "PTX (.ptx)",
            Self::Cubin => "a cubin (.cubin)",
            Self::Fatbin => "a fatbin (.fatbin)",
            Self::HipExecutable => "an executable for HIP",
            Self::AmdgpuExecutable => "an executable for amdgpu",
            Self::Hsaco => "code for AMD GPUs (.hsaco)",
            Self::Npy => "a NumPy array (.npy)",
            Self::Zip => "a zip archive",
            Self::Text => "a text file",
        }
    }

    /// Whether it is code that a device may run by itself. Executables of some devices are text.
    pub fn may_be_executable(self) -> bool {
        self.is_code() || matches!(self, Self::Module | Self::Text)
    }

    /// Whether it is machine code, or code that is compiled to it: of no use without a device that runs it.
    pub fn is_code(self) -> bool {
        matches!(self, Self::Elf | Self::VulkanExecutable | Self::SpirV) || self.is_gpu_code()
    }

    /// Whether it is code for CUDA, HIP or amdgpu.
    pub fn is_gpu_code(self) -> bool {
        matches!(self, Self::CudaExecutable | Self::Ptx | Self::Cubin | Self::Fatbin)
            || matches!(self, Self::HipExecutable | Self::AmdgpuExecutable | Self::Hsaco)
    }

    /// The extension that files of this kind have if they are executables.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Elf => "so",
            Self::Module => "vmfb",
            Self::VulkanExecutable => "vk1",
            Self::SpirV => "spv",
            Self::Ptx => "ptx",
            Self::Cubin => "cubin",
            Self::Fatbin => "fatbin",
            Self::Hsaco => "hsaco",
            _ => "bin",
        }
    }

    /// Whether it holds parameters.
    pub fn is_parameters(self) -> bool {
        matches!(self, Self::Irpa | Self::Gguf | Self::Safetensors)
    }

    /// The name without the part in parentheses.
    pub(crate) fn plain_name(self) -> &'static str {
        match self {
            kind if kind.is_parameters() => "a parameter file",
            kind => kind.name().split(" (").next().unwrap_or_default(),
        }
    }
}

/// Whether these are the first bytes of a text file.
fn is_text(head: &[u8]) -> bool {
    let is_plain = |text: &str| {
        text.chars().all(|it| !it.is_control() || matches!(it, '\t' | '\n' | '\r' | '\x0C' | '\x1B'))
    };
    match str::from_utf8(head) {
        Ok(text) => is_plain(text),
        // The last character may be truncated.
        Err(error) => {
            error.error_len().is_none() && str::from_utf8(&head[..error.valid_up_to()]).is_ok_and(is_plain)
        }
    }
}

/// Whether a text begins as PTX: with its version and its target, behind comments.
fn is_ptx(head: &[u8]) -> bool {
    let text = String::from_utf8_lossy(head);
    let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    let mut words = code.flat_map(str::split_whitespace);
    words.next() == Some(".version") && words.any(|it| it == ".target")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_bytes_identify_the_kind() {
        let zip = |name: &str| [b"PK\x03\x04".as_slice(), &[0; 26], name.as_bytes()].concat();
        for (head, kind) in [
            (b"".to_vec(), Some(FileKind::Empty)),
            (b"IRRP\x02".to_vec(), Some(FileKind::Capture)),
            (zip("module.fb"), Some(FileKind::Module)),
            (zip("data.pkl"), Some(FileKind::Zip)),
            (b"\x40\0\0\0\x08\0\0\0IREE".to_vec(), Some(FileKind::Module)),
            (b"IRPA\0\0".to_vec(), Some(FileKind::Irpa)),
            (b"IRPF\x01\0".to_vec(), Some(FileKind::Profile)),
            (b"RHLEDGER\x01\0".to_vec(), Some(FileKind::Ledger)),
            (b"\x10\0\0\0\0\0\0\0{\"w\":".to_vec(), Some(FileKind::Safetensors)),
            (b"\x7FELF\x02".to_vec(), Some(FileKind::Elf)),
            (b"\xFA\x70\x0E\x1F".to_vec(), Some(FileKind::Elf)),
            (b"VKE1\0\0\0\0".to_vec(), Some(FileKind::VulkanExecutable)),
            (b"\x03\x02\x23\x07\0\0\x01\0".to_vec(), Some(FileKind::SpirV)),
            (b"\x93NUMPY\x01".to_vec(), Some(FileKind::Npy)),
            (b"CDA1\0".to_vec(), Some(FileKind::CudaExecutable)),
            (b"HIP1\0".to_vec(), Some(FileKind::HipExecutable)),
            (b"AMD1\0".to_vec(), Some(FileKind::AmdgpuExecutable)),
            (b"\x50\xED\x55\xBA\x01".to_vec(), Some(FileKind::Fatbin)),
            (b"\x7FELF\x02\0\0\0\0\0\0\0\0\0\0\0\x02\0\xBE\0".to_vec(), Some(FileKind::Cubin)),
            (b"\x7FELF\x02\0\0\0\0\0\0\0\0\0\0\0\x03\0\xE0\0".to_vec(), Some(FileKind::Hsaco)),
            (b"// By hand\n\n.version\t7.6\n.target sm_80\n".to_vec(), Some(FileKind::Ptx)),
            ([&b"// x\n".repeat(700), &b".version 7.6 .target sm_80"[..]].concat(), Some(FileKind::Ptx)),
            (b".version 7.6\n".to_vec(), Some(FileKind::Text)),
            (b"See .version 7.6\n.target sm_80\n".to_vec(), Some(FileKind::Text)),
            ("// Grüße\n".into(), Some(FileKind::Text)),
            // Truncated within its last character.
            ([vec![b'x'; 511], "ü".into()].concat(), Some(FileKind::Text)),
            (b"\x01\x02\x03".to_vec(), None),
            (b"text\0".to_vec(), None),
            (vec![0xFF; 600], None),
        ] {
            assert_eq!(FileKind::from_head(&head), kind, "{head:?}");
        }
    }
}
