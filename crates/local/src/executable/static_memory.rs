//! Memory that belongs to native code, and not to a dispatch: static variables.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use object::LittleEndian;
use object::elf::{PF_W, PT_GNU_RELRO, PT_LOAD};
use object::read::elf::{ElfFile64, ProgramHeader};
use rehal_hal::Executable;

use super::elf;
use super::link::ElfLibrary;
use super::local_executable::LocalExecutable;

/// The static variables of a loaded executable that its code can change, without what the loader writes. All
/// workgroups of all threads share them.
#[derive(Clone, Debug)]
pub struct StaticMemory {
    /// Addresses in this process.
    ranges: Vec<Range<u64>>,
}

impl StaticMemory {
    /// Reading more would take longer than what is looked for.
    const MAX_BYTES: u64 = 64 << 20;

    /// That of an executable, of which `code` is the file. `None` if it has none, if it is not native, or if
    /// the file does not tell.
    pub fn of(executable: &Executable, code: &[u8]) -> Option<Self> {
        let library = LocalExecutable::of(executable).ok()?.library()?;
        let image = elf::own_image(code).ok()?;
        let loaded = *library.function_addresses().first()? as u64;
        let base = loaded.wrapping_sub(*ElfLibrary::read(image).ok()?.addresses.first()?);
        let ranges: Vec<_> = writable(image)?
            .into_iter()
            .map(|it| base.wrapping_add(it.start)..base.wrapping_add(it.end))
            .collect();
        let bytes = ranges.iter().map(|it| it.end - it.start).fold(0, u64::saturating_add);
        (1..=Self::MAX_BYTES).contains(&bytes).then_some(Self { ranges })
    }

    /// Its contents. They may change meanwhile, unless no dispatch of the executable runs.
    pub fn read(&self) -> std::io::Result<Vec<u8>> {
        let memory = File::open("/proc/self/mem")?;
        let mut bytes = Vec::new();
        for range in &self.ranges {
            let start = bytes.len();
            bytes.resize(start + (range.end - range.start) as usize, 0);
            memory.read_exact_at(&mut bytes[start..], range.start)?;
        }
        Ok(bytes)
    }
}

/// Image-relative addresses of segments that stay writable.
fn writable(image: &[u8]) -> Option<Vec<Range<u64>>> {
    let file = ElfFile64::<LittleEndian>::parse(image).ok()?;
    let endian = file.endian();
    let segments = || {
        file.elf_program_headers().iter().filter_map(move |it| {
            let start = it.p_vaddr(endian);
            Some((it, start..start.checked_add(it.p_memsz(endian))?))
        })
    };
    let relocated = segments().find(|(it, _)| it.p_type(endian) == PT_GNU_RELRO).map(|(_, range)| range);
    let mut found = Vec::new();
    for (it, range) in segments() {
        if it.p_type(endian) != PT_LOAD || !it.p_flags(endian).contains(PF_W) {
            continue;
        }
        // The loader makes this part read-only.
        let read_only = relocated.clone().unwrap_or(range.start..range.start);
        let parts = [range.start..read_only.start.min(range.end), read_only.end.max(range.start)..range.end];
        found.extend(parts.into_iter().filter(|part| part.start < part.end));
    }
    Some(found)
}
