use std::ffi::c_void;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use object::elf::{DT_INIT, DT_INIT_ARRAY, DT_INIT_ARRAYSZ};
use rehal_base::{Context, Error, Result};
use smallvec::SmallVec;

use super::header::Segment;
use super::image::Image;
use super::relocate;
use crate::platform::{Mapping, Protection, WritableMapping, executable_fn};
use rehal_formats::elf::u64_at;

/// An image in memory, relocated and protected; unmapped when dropped.
pub struct Module {
    mapping: Mapping,
    /// Added to the image's addresses for those of the process.
    bias: u64,
    /// Process addresses, in the order in which they run.
    initializers: SmallVec<[usize; 2]>,
    immutable: bool,
    /// Whether it is described to profilers.
    described: AtomicBool,
}

impl Image<'_> {
    /// Copies the segments into fresh pages, relocates and protects them. Executes nothing.
    pub fn map(&self) -> Result<Module> {
        let place = || "loading an embedded ELF executable".to_string();
        let failed = |error| Error::io("mapping an executable", &error);
        let mut pages = WritableMapping::new(self.span as usize).map_err(failed).context(place)?;
        let base = pages.address() as u64;
        let memory = pages.bytes_mut();
        for segment in &self.segments {
            copy(self, segment, memory)?;
        }
        relocate::apply(self.file, &self.dynamic, self.first_page, memory, base).context(place)?;
        let bias = base.wrapping_sub(self.first_page);
        let initializers = self.initializers(memory, bias)?;
        let protections = self.protections();
        let writable = protections.iter().any(|(_, protection)| *protection == Protection::ReadWrite);
        let mapping = pages.protect(&protections).map_err(failed).context(place)?;
        Ok(Module {
            mapping,
            bias,
            immutable: !writable && initializers.is_empty(),
            initializers,
            described: AtomicBool::new(false),
        })
    }

    /// [`Image::map`], then runs the image's initializers.
    ///
    /// # Safety
    /// Runs the image's code: the caller trusts it as it trusts its own.
    pub unsafe fn load(&self) -> Result<Module> {
        let module = self.map()?;
        for address in &module.initializers {
            // SAFETY: the address is in an executable segment (checked by `initializers`); the caller vouches
            // that the code there is an initializer.
            unsafe {
                let initializer =
                    std::mem::transmute::<*const c_void, executable_fn!(fn())>(*address as *const c_void);
                initializer();
            }
        }
        Ok(module)
    }

    /// The initializers in relocated memory: the first one, then those of the list, without the entries 0 and
    /// -1, which mean none.
    fn initializers(&self, memory: &[u8], bias: u64) -> Result<SmallVec<[usize; 2]>> {
        let mut found = SmallVec::new();
        let mut push = |address: u64| -> Result<()> {
            let vaddr = address.wrapping_sub(bias);
            if !self.segment_of(vaddr, 1).is_some_and(Segment::is_executable) {
                let expected = "an address in executable memory";
                Err(self.file.corrupt(0, "DT_INIT", expected, format!("{vaddr:#x}")))?;
            }
            found.push(address as usize);
            Ok(())
        };
        if let Some(vaddr) = self.dynamic.tag(DT_INIT).filter(|vaddr| *vaddr != 0) {
            push(vaddr.wrapping_add(bias))?;
        }
        let list = self.dynamic.tag(DT_INIT_ARRAY).zip(self.dynamic.tag(DT_INIT_ARRAYSZ));
        let Some((vaddr, length)) = list.filter(|(_, length)| *length > 0) else { return Ok(found) };
        if self.segment_of(vaddr, length).is_none() {
            let expected = format!("{length} bytes of a loaded segment");
            Err(self.file.corrupt(0, "DT_INIT_ARRAY", expected, format!("{vaddr:#x}")))?;
        }
        let start = (vaddr - self.first_page) as usize;
        for entry in memory[start..start + length as usize].chunks_exact(8) {
            let address = u64_at(entry, 0);
            if address != 0 && address != u64::MAX {
                push(address)?;
            }
        }
        Ok(found)
    }
}

/// Copies a segment's bytes to its address; both ranges were checked when the image was parsed.
fn copy(image: &Image<'_>, segment: &Segment, memory: &mut [u8]) -> Result<()> {
    let bytes = image.file.take(segment.offset, segment.file_size, "p_offset")?;
    let start = (segment.vaddr - image.first_page) as usize;
    memory[start..start + bytes.len()].copy_from_slice(bytes);
    Ok(())
}

impl Module {
    /// The process address of an image address, such as from [`Image::function`].
    pub fn address(&self, vaddr: u64) -> *const c_void {
        vaddr.wrapping_add(self.bias) as *const c_void
    }

    /// The process addresses of the image.
    pub fn memory(&self) -> Range<usize> {
        self.mapping.address()..self.mapping.address() + self.mapping.length()
    }

    /// Whether it is immutable: no writable pages, and no initializers that ran.
    pub fn is_immutable(&self) -> bool {
        self.immutable
    }

    /// Whether this is the first call: a module that several executables share is described once.
    pub(in super::super) fn is_first_description(&self) -> bool {
        !self.described.swap(true, Ordering::Relaxed)
    }

    /// The difference between process and image addresses.
    pub fn bias(&self) -> u64 {
        self.bias
    }
}
