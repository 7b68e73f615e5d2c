//! Memory that belongs to native code, and not to a dispatch: static variables.

use std::fs::File;
use std::ops::Range;

use rehal_base::platform::FileExt;

use object::elf::{PF_W, PT_GNU_RELRO, PT_LOAD};
use rehal_hal::Executable;

use super::elf::{self, Segment};
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
    let headers = elf::segments(elf::Reader { bytes: image, origin: 0 }).ok()?;
    let segments: Vec<_> = headers.entries.iter().map(Segment::from).collect();
    let relocated = segments.iter().find(|it| it.kind == PT_GNU_RELRO).map(|it| it.vaddr..it.end());
    let mut found = Vec::new();
    for it in segments.iter().filter(|it| it.kind == PT_LOAD && it.flags.contains(PF_W)) {
        // The loader makes this part read-only.
        let read_only = relocated.clone().unwrap_or(it.vaddr..it.vaddr);
        let parts = [it.vaddr..read_only.start.min(it.end()), read_only.end.max(it.vaddr)..it.end()];
        found.extend(parts.into_iter().filter(|part| part.start < part.end));
    }
    Some(found)
}
