//! Writes the source of a kernel for a GPU with the signature of a captured function and an empty body.

use std::fmt::Write;
use std::path::Path;

use rehal_base::{Error, Result};

use super::ObservedKernel;
use super::stub::{Item, comment, fill, word};

/// A language of kernels for GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GpuLanguage {
    /// CUDA C, which `nvcc` and NVRTC compile to PTX.
    Cuda,
    /// HIP, which clang compiles to a HSACO.
    Hip,
    /// PTX.
    Ptx,
}

impl GpuLanguage {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Cuda, Self::Hip, Self::Ptx];

    /// The language of a file, by its extension.
    pub fn from_path(path: &Path) -> Option<Self> {
        let extension = path.extension()?.to_str()?;
        Self::ALL.into_iter().find(|it| it.extension() == extension)
    }

    /// The extension of its files.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Cuda => "cu",
            Self::Hip => "hip",
            Self::Ptx => "ptx",
        }
    }

    /// The type of the elements that `c` names.
    fn element(self, c: &str) -> &'static str {
        match c {
            "float" => "float",
            "double" => "double",
            "uint16_t" => "unsigned short",
            "int8_t" => "signed char",
            "int16_t" => "short",
            "int32_t" => "int",
            "int64_t" => "long long",
            "uint32_t" => "unsigned int",
            "uint64_t" => "unsigned long long",
            _ => "unsigned char",
        }
    }
}

impl ObservedKernel {
    /// The language of kernels for its GPU, by what replaces its code; `None` for other code.
    pub fn gpu_language(&self) -> Option<GpuLanguage> {
        let known = [("ptx", GpuLanguage::Cuda), ("hsaco", GpuLanguage::Hip)];
        known.into_iter().find(|(extension, _)| self.extensions.contains(extension)).map(|it| it.1)
    }

    /// The source of a kernel for GPUs that replaces the function: everything but its body, which traps.
    /// `file` is the name of the source, and `capture` that of the capture, for the commands in its comment.
    ///
    /// Fails unless the function is of a format that such a kernel can replace, and if its name cannot be
    /// written in the language.
    pub fn gpu_stub(&self, language: GpuLanguage, file: &Path, capture: &Path) -> Result<String> {
        self.check_gpu(language)?;
        let name = self.function.name.as_str();
        let [x, y, z] = self.function.workgroup_size;
        let default = if language == GpuLanguage::Hip { "gfx942" } else { "sm_80" };
        let target = self.target.as_deref().unwrap_or(default);
        let compiled = match language {
            GpuLanguage::Hip => "hsaco",
            GpuLanguage::Cuda | GpuLanguage::Ptx => "ptx",
        };
        let stem = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let template = match language {
            GpuLanguage::Cuda => include_str!("stub.cu.in"),
            GpuLanguage::Hip => include_str!("stub.hip.in"),
            GpuLanguage::Ptx => include_str!("stub.ptx.in"),
        };
        let values = [
            ("NAME", comment(name)),
            ("SYMBOL", name.to_owned()),
            ("FILE", word(&file.file_name().unwrap_or_default().to_string_lossy(), "KERNEL")),
            ("COMPILED", format!("{}.{compiled}", word(&stem, "KERNEL"))),
            ("SELECTOR", self.selector()),
            ("CAPTURE", word(&capture.to_string_lossy(), "CAPTURE.ireereplay")),
            ("TARGET", comment(target)),
            ("VERSION", ptx_version(target).into()),
            ("OBSERVED", self.observed()),
            ("PARAMETERS", self.gpu_parameters(language)),
            ("SIZE_X", x.to_string()),
            ("SIZE_Y", y.to_string()),
            ("SIZE_Z", z.to_string()),
            ("SIZE", (u64::from(x) * u64::from(y) * u64::from(z)).to_string()),
        ];
        Ok(fill(template, &values))
    }

    fn check_gpu(&self, language: GpuLanguage) -> Result<()> {
        let name = &self.function.name;
        let own = self.gpu_language();
        let fits = own == Some(language) || (own, language) == (Some(GpuLanguage::Cuda), GpuLanguage::Ptx);
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        let is_symbol = |byte: u8| is_plain(byte) || byte == b'$' || byte == b'%';
        let is_written = match language {
            GpuLanguage::Ptx => name.bytes().all(is_symbol),
            GpuLanguage::Cuda | GpuLanguage::Hip => name.bytes().all(is_plain),
        };
        let starts = name.bytes().next().is_some_and(|byte| !byte.is_ascii_digit());
        let (problem, advice) = if !fits {
            let advice = match own {
                Some(own) => format!("write it in .{}", own.extension()),
                None => "write it in C, for CPUs".into(),
            };
            (format!("a kernel in .{} cannot replace it", language.extension()), advice)
        } else if !starts || !is_written {
            let advice =
                "write it in another language, or capture a program whose functions have other names";
            (format!("its name cannot be written in .{}", language.extension()), advice.into())
        } else if self.function.workgroup_size.contains(&0) {
            ("its workgroup size is unknown".into(), "capture the program again".into())
        } else {
            return Ok(());
        };
        let (name, format) = (name.escape_debug(), self.format.escape_debug());
        let message = format!("function '{name}' of format '{format}': {problem}");
        Err(Error::unimplemented(message).advise(advice))
    }

    /// The declarations of the parameters: the address of each binding, then each constant.
    fn gpu_parameters(&self, language: GpuLanguage) -> String {
        let item = Item::from_kernel(self);
        let element = language.element(item.element.c);
        let (bindings, constants) = (self.function.binding_count, self.function.constant_count);
        let count = usize::from(bindings) + usize::from(constants);
        let mut text = String::new();
        for index in 0..count {
            let end = if index + 1 == count { "" } else { "," };
            let (declared, said) = match index.checked_sub(usize::from(bindings)) {
                None => {
                    let is_read = self.is_written(index) == Some(false);
                    let constant = if is_read { "const " } else { "" };
                    let restrict = if self.overlaps() { "" } else { "__restrict__ " };
                    let declared = match language {
                        GpuLanguage::Ptx => format!(".param .u64 .ptr .global .align 16 binding_{index}"),
                        _ => format!("{constant}{element} *{restrict}binding_{index}"),
                    };
                    (declared, self.binding_said(index))
                }
                Some(index) => {
                    let declared = match language {
                        GpuLanguage::Ptx => format!(".param .u32 constant_{index}"),
                        _ => format!("unsigned int constant_{index}"),
                    };
                    (declared, self.constant_said(index))
                }
            };
            let _ = write!(text, "\n    {declared}{end}  // {said}");
        }
        text
    }
}

/// A version of PTX that has the target (PTX ISA, release notes): older drivers refuse later ones.
fn ptx_version(target: &str) -> &'static str {
    let number =
        target.strip_prefix("sm_").map(|it| it.trim_end_matches(|it: char| it.is_ascii_alphabetic()));
    match number.and_then(|it| it.parse().ok()) {
        Some(0..=90) | None => "7.8",
        Some(91..=120) => "8.7",
        Some(_) => "9.0",
    }
}
