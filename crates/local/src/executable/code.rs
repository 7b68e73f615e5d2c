use object::elf::PF_W;
use rehal_base::{Error, Result};
use rehal_hal::FunctionInfo;

use super::debug_info::DebugInfo;
use super::elf;
use super::link::ElfLibrary;

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
    /// Finds the functions of a native executable. Symbols do not name them: the library's table does, which
    /// is read from the file. Nothing of it runs.
    pub fn read(bytes: &[u8]) -> Result<Self> {
        let image = elf::own_image(bytes)?;
        let ElfLibrary { functions, addresses, .. } = ElfLibrary::read(image)?;
        let info = DebugInfo::read(image);
        let function = |(function, start): (FunctionInfo, &u64)| {
            let next = addresses.iter().copied().filter(|it| it > start).min();
            let end = info.end_of(*start).or_else(|| next.into_iter().chain(info.segment_end(*start)).min());
            let end = end.ok_or_else(|| {
                let name = function.name.escape_debug();
                Error::incompatible(format!("function '{name}' is not in the executable's own code"))
            })?;
            Ok(FunctionCode { name: function.name, start: *start, end })
        };
        let functions = functions.into_iter().zip(&addresses).map(function).collect::<Result<_>>()?;
        Ok(Self { functions, image: image.to_vec() })
    }

    /// Bytes at an image-relative address, if they are in a segment that is not writable.
    pub fn constant(&self, address: u64, length: usize) -> Option<&[u8]> {
        let headers = elf::segments(elf::Reader { bytes: &self.image, origin: 0 }).ok()?;
        let segments = headers.entries.iter().map(elf::Segment::from);
        let constant: Vec<_> = segments.filter(|it| !it.flags.contains(PF_W)).collect();
        let start = usize::try_from(elf::file_offset(&constant, address, length as u64)?).ok()?;
        self.image.get(start..)?.get(..length)
    }
}
