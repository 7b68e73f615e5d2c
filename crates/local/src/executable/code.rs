use rehal_base::{Context, Error, Result};

use super::abi::QUERY_SYMBOL;
use super::debug_info::DebugInfo;
use super::elf::Image;
use super::format::Format;
use super::library::{Code, Library, LoadOptions};

/// The ELF image of an executable, and where its functions are in it.
#[derive(Clone, Debug)]
pub struct ElfCode {
    /// The image, without those for other machines in a container.
    pub image: Vec<u8>,
    /// By ordinal.
    pub functions: Vec<FunctionCode>,
}

/// The machine code of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionCode {
    /// The name in the library's table.
    pub name: String,
    /// Image-relative address of its first byte.
    pub start: u64,
    /// Image-relative address after its last byte: from call frame information, else of the next function or
    /// of the end of the segment.
    pub end: u64,
}

impl ElfCode {
    /// Finds the functions of a native executable. Symbols do not name them: the library's table does.
    ///
    /// # Safety
    /// As for [`Library::load`].
    pub unsafe fn load(format: &str, bytes: &[u8], options: &LoadOptions<'_>) -> Result<Self> {
        // SAFETY: guaranteed by the caller.
        let library = unsafe { Library::load(format, bytes, options) }?;
        let image = match Format::from_name(format)? {
            Format::EmbeddedElf => {
                Image::parse(bytes).context(|| "embedded ELF executable".to_string())?.bytes()
            }
            _ => bytes,
        };
        let info = DebugInfo::read(image);
        let bias = match library.code() {
            Code::Embedded(module) => module.bias(),
            Code::System(dylib) => {
                let query = dylib.symbol(QUERY_SYMBOL)? as u64;
                let exported = info.exported(QUERY_SYMBOL).ok_or_else(|| {
                    Error::incompatible(format!("the library has no dynamic symbol '{QUERY_SYMBOL}'"))
                })?;
                query.wrapping_sub(exported)
            }
        };
        let addresses = library.function_addresses();
        let starts: Vec<u64> = addresses.iter().map(|it| (*it as u64).wrapping_sub(bias)).collect();
        let named = library.functions().iter().zip(&starts);
        let function = |(function, start): (&rehal_hal::FunctionInfo, &u64)| {
            let next = starts.iter().copied().filter(|it| it > start).min();
            let end = info.end_of(*start).or_else(|| next.into_iter().chain(info.segment_end(*start)).min());
            let end = end.ok_or_else(|| {
                Error::incompatible(format!(
                    "function '{}' is not in the executable's own code",
                    function.name.escape_debug()
                ))
            })?;
            Ok(FunctionCode { name: function.name.clone(), start: *start, end })
        };
        Ok(Self { functions: named.map(function).collect::<Result<_>>()?, image: image.to_vec() })
    }
}
