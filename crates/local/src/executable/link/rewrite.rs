//! Rewrites an ELF executable.

use std::collections::BTreeMap;

use object::elf::{PF_R, PF_X, PT_LOAD, PT_TLS};
use rehal_base::{Context, Error, Result, listed};

use super::adapter;
use super::image::{CALLS, Image};
use super::table::{ElfLibrary, IMPORT_NAMES, IMPORTS, LOCAL_MEMORY_PAGES, is_note};
use super::tables::{self, Contents};
use super::view::{EHDR_BYTES, MAX_ADDRESS, Origin, PAGE, View, damaged};
use crate::executable::elf::{self, ARM_64, RELOCATION_BYTES, Segment};

/// The largest page of 64-bit ARM.
const ARM_PAGE: u64 = 64 << 10;

/// An image with functions that replace others.
#[derive(Clone, Copy, Debug)]
pub struct OtherImage<'a> {
    /// The image: a shared library of kernels for the same machine.
    pub bytes: &'a [u8],
    /// Its name in errors and in the file.
    pub name: &'a str,
}

/// A function that is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OtherFunction {
    /// The ordinal of the function.
    pub function: u32,
    /// The index of the image that replaces it.
    pub image: usize,
    /// The ordinal of the other function in that image.
    pub other: u32,
}

/// Replaces functions of an executable. The other images are added to the file, with their addresses modulo
/// the size of a page kept, and the table of functions points to their functions, which must be called alike:
/// that is the caller's to check. Everything else stays byte for byte, except headers and tables.
///
/// `is_embedded` tells that the executable is loaded as a self-contained image. Fails if a function needs
/// what the executable cannot give it: other libraries or thread-local data there, specialization constants,
/// imports in another order.
pub fn replace_functions(
    original: &[u8],
    is_embedded: bool,
    images: &[OtherImage<'_>],
    functions: &[OtherFunction],
) -> Result<Vec<u8>> {
    let place = || "the executable".to_owned();
    let view = View::read(original).context(place)?;
    let library = ElfLibrary::of(&view).context(place)?;
    check_ordinals(&library, functions)?;
    let mut all = Vec::new();
    for it in images {
        let in_it = || format!("'{}'", it.name);
        let image = Image::read(it.bytes, is_embedded).context(in_it)?;
        check_fits(&view, &library, &image, is_embedded).context(in_it)?;
        all.push(image);
    }
    let mut rewrite = Rewrite::new(original, &view, &library)?;
    for (image, it) in all.iter_mut().zip(images) {
        rewrite.add(image, is_embedded).context(|| format!("'{}'", it.name))?;
    }
    for it in functions {
        let (image, name) = (&all[it.image], images[it.image].name);
        rewrite.replace(image, *it).context(|| format!("'{name}'"))?;
    }
    let noted = functions.iter().map(|it| (it.function, images[it.image].name));
    let bytes = rewrite.finish(&all, noted)?;
    check_result(&bytes, &library, &all, functions)?;
    // What loads here must load again.
    if is_embedded && elf::Image::parse(original).is_ok() {
        elf::Image::parse(&bytes).context(|| "the rewritten executable".to_owned())?;
    }
    Ok(bytes)
}

/// Whether an image can be loaded in the place of an executable: it is for the same machine, and
/// self-contained if it has to be.
pub fn loads_alike(executable: &[u8], is_embedded: bool, image: &[u8]) -> bool {
    let machine = |bytes: &[u8]| View::read(bytes).ok().map(|it| it.machine);
    let own = machine(executable);
    let is_contained = || !is_embedded || Image::read(image, true).is_ok();
    own.is_some() && own == machine(image) && is_contained()
}

fn check_ordinals(library: &ElfLibrary, functions: &[OtherFunction]) -> Result<()> {
    for (index, it) in functions.iter().enumerate() {
        let Some(function) = library.functions.get(it.function as usize) else {
            let message = format!("the executable has {} functions", library.functions.len());
            return Err(Error::out_of_range(message));
        };
        if functions[..index].iter().any(|other| other.function == it.function) {
            let message = format!("function '{}' is replaced twice", function.name.escape_debug());
            return Err(Error::invalid_argument(message).advise("name one replacement for each function"));
        }
    }
    Ok(())
}

fn check_fits(view: &View<'_>, library: &ElfLibrary, image: &Image<'_>, is_embedded: bool) -> Result<()> {
    let (own, other) = (view.machine, image.view.machine);
    if own != other {
        return Err(Error::incompatible(format!(
            "it is for {}, and the executable for {}",
            other.name, own.name
        ))
        .advise("compile it for the machine of the executable"));
    }
    if image.library.constant_count != 0 {
        return Err(Error::failed_precondition(format!(
            "it has {} specialization constants, and nothing says which of the executable's {} they are",
            image.library.constant_count, library.constant_count
        ))
        .advise("compile the program with the source: then the compiler passes them"));
    }
    let own_tls = view.headers.iter().any(|it| it.kind == PT_TLS && it.memory_size > 0);
    if own_tls && image.thread_local().is_some() {
        return Err(Error::failed_precondition("it has thread-local data, and so has the executable")
            .advise("leave out its thread-local variables"));
    }
    if is_embedded && image.view.loads().map(|it| it.memory_size - it.file_size).sum::<u64>() > 32 << 20 {
        return Err(Error::failed_precondition("it has more than 32 MiB of zeroed static memory")
            .advise("use the workgroup's local memory"));
    }
    Ok(())
}

/// An executable that is being rewritten.
struct Rewrite<'a> {
    view: &'a View<'a>,
    library: &'a ElfLibrary,
    bytes: Vec<u8>,
    page: u64,
    /// The first address after all segments.
    end: u64,
    contents: Contents<'a>,
    /// Other values of the words of the table of functions, by their addresses.
    targets: BTreeMap<u64, u64>,
    /// The names of all imports: text and address.
    imports: Vec<(String, u64)>,
}

impl<'a> Rewrite<'a> {
    fn new(original: &[u8], view: &'a View<'a>, library: &'a ElfLibrary) -> Result<Self> {
        let page = if view.machine == ARM_64 { ARM_PAGE } else { PAGE };
        let end = view.loads().map(Segment::end).max().unwrap_or(0);
        let names = library.imports.iter().cloned().zip(library.places.import_names.iter().copied());
        let own = &view.dynamic.relocations[0];
        let own = &original[own.offset as usize..][..size_of_val(own.entries)];
        let contents = Contents { own_relocations: own.to_vec(), ..Contents::default() };
        Ok(Self {
            view,
            library,
            bytes: original.to_vec(),
            page,
            end: end.next_multiple_of(page),
            contents,
            targets: BTreeMap::new(),
            imports: names.collect(),
        })
    }

    /// Adds the segments of an image.
    fn add(&mut self, image: &mut Image<'a>, is_embedded: bool) -> Result<()> {
        let alignment = image.alignment()?.max(self.page);
        let first = image.view.loads().next().map_or(0, |it| it.vaddr) / alignment * alignment;
        image.delta = self.end.next_multiple_of(alignment).wrapping_sub(first);
        image.relocate(is_embedded)?;
        for (segment, bytes) in image.segments(self.page) {
            let segment = self.append(segment, &bytes)?;
            self.contents.segments.push(segment);
        }
        if let Some(it) = image.thread_local() {
            if self.contents.segments.iter().any(|it| it.kind == PT_TLS) {
                return Err(Error::failed_precondition(
                    "it has thread-local data, and so has another replacement",
                )
                .advise("leave out its thread-local variables"));
            }
            let vaddr = image.moved(it.vaddr);
            let offset = self.contents.segments.iter().find_map(|load| {
                let at = vaddr.checked_sub(load.vaddr)?;
                (at <= load.memory_size).then_some(load.offset + at)
            });
            let offset = offset.ok_or_else(|| damaged("its thread-local data is outside of its segments"))?;
            self.contents.segments.push(Segment { offset, vaddr, ..*it });
        }
        self.contents.relocations.append(&mut image.relocations);
        self.contents.needed.extend(
            image.needed.iter().filter(|it| !self.contents.needed.contains(it)).copied().collect::<Vec<_>>(),
        );
        self.contents.has_static_tls |= image.has_static_tls;
        Ok(())
    }

    /// Appends the bytes of a segment to the file, at an offset that equals its address modulo its alignment.
    fn append(&mut self, mut segment: Segment, bytes: &[u8]) -> Result<Segment> {
        let align = segment.align.max(1);
        let length = self.bytes.len() as u64;
        segment.offset = length + (segment.vaddr % align + align - length % align) % align;
        self.bytes.resize(segment.offset as usize, 0);
        self.bytes.extend(bytes);
        self.end = self.end.max(segment.end().next_multiple_of(self.page));
        match self.end < MAX_ADDRESS {
            true => Ok(segment),
            false => Err(Error::resource_exhausted("the image has no addresses left")),
        }
    }

    /// Lets the table of functions point to a function of an image that has been added.
    fn replace(&mut self, image: &Image<'_>, it: OtherFunction) -> Result<()> {
        let other = it.other as usize;
        let missing = || Error::out_of_range("it has fewer functions");
        let target = image.moved(*image.library.addresses.get(other).ok_or_else(missing)?);
        let target = self.with_imports(image, target)?;
        let ordinal = u64::from(it.function);
        self.targets.insert(self.library.places.functions + ordinal * 8, target);
        let pages = image.library.local_memory_pages[other];
        let attributes = self.library.places.attributes + ordinal * 64;
        if pages != self.library.local_memory_pages[it.function as usize] {
            self.put(attributes + LOCAL_MEMORY_PAGES, &pages.to_le_bytes())?;
        }
        Ok(())
    }

    /// Overwrites bytes of the executable.
    fn put(&mut self, vaddr: u64, bytes: &[u8]) -> Result<()> {
        let offset = self.view.file_offset(vaddr, bytes.len() as u64);
        let offset = offset.ok_or_else(|| damaged("its table of functions is outside of the file"))? as usize;
        self.bytes[offset..offset + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    /// The address to call: that of the function, or of an adapter, if its imports have other indices in the
    /// executable.
    fn with_imports(&mut self, image: &Image<'_>, target: u64) -> Result<u64> {
        let names = &image.library.imports;
        let mut indices = Vec::new();
        for (name, at) in names.iter().zip(&image.library.places.import_names) {
            let found = self.imports.iter().position(|it| it.0 == *name);
            if let Some(index) = found {
                indices.push(index as u32);
                continue;
            }
            // Those that provide imports rely on their order, and the executable on its indices.
            let plain = |name: &str| name.trim_start_matches('?').to_owned();
            if self.imports.last().is_some_and(|last| plain(&last.0) > plain(name)) {
                let own: Vec<_> = self.imports.iter().map(|it| it.0.as_str()).collect();
                let message = format!(
                    "its code imports '{name}', which the executable does not, and imports are sorted by name: the executable has {}",
                    listed(own)
                );
                return Err(Error::failed_precondition(message)
                    .advise("compile the program with the source: then the compiler links the imports"));
            }
            indices.push(self.imports.len() as u32);
            self.imports.push((name.clone(), image.moved(*at)));
        }
        if (0..).zip(&indices).all(|(index, it)| *it == index) {
            return Ok(target);
        }
        if indices.len() > adapter::MAX_IMPORTS || self.imports.len() > 4000 {
            return Err(Error::unimplemented(format!("it has {} imports", indices.len())));
        }
        let code = adapter::code(self.view.machine, self.end, target, &indices)?;
        let length = code.len() as u64;
        let segment = Segment {
            kind: PT_LOAD,
            flags: PF_R | PF_X,
            offset: 0,
            vaddr: self.end,
            file_size: length,
            memory_size: length,
            align: self.page,
        };
        let segment = self.append(segment, &code)?;
        self.contents.segments.push(segment);
        Ok(segment.vaddr)
    }

    /// Adds the tables, and changes what points to them.
    fn finish<'n>(
        mut self,
        images: &[Image<'_>],
        noted: impl Iterator<Item = (u32, &'n str)>,
    ) -> Result<Vec<u8>> {
        self.point_to_functions()?;
        self.add_calls(images)?;
        if self.imports.len() > self.library.imports.len() {
            let count = self.imports.len() as u32;
            let table = self.library.places.table;
            self.put(table + IMPORTS, &count.to_le_bytes())?;
            self.contents.import_names = self.imports.iter().map(|it| it.1).collect();
            self.contents.import_names_at = table + IMPORT_NAMES;
        }
        let mut notes: BTreeMap<u32, String> =
            self.library.replaced.iter().map(|it| (it.function, it.source.clone())).collect();
        notes.extend(noted.map(|(function, name)| (function, file_name(name))));
        self.contents.note = notes.iter().map(|(function, name)| format!("{function}\t{name}\n")).collect();
        let (vaddr, offset) = (self.end, (self.bytes.len() as u64).next_multiple_of(self.page));
        let is_old = |it: &Segment| is_note(self.view, it);
        let tables = tables::build(self.view, self.contents, vaddr, offset, self.page, &is_old)?;
        self.bytes.resize(offset as usize, 0);
        self.bytes.extend(&tables.bytes);
        self.bytes[32..40].copy_from_slice(&tables.segment.offset.to_le_bytes());
        self.bytes[56..58].copy_from_slice(&tables.header_count.to_le_bytes());
        debug_assert!(self.bytes.len() > EHDR_BYTES);
        Ok(self.bytes)
    }

    /// Changes the relocations of the table of functions, in the old table and in the new one.
    fn point_to_functions(&mut self) -> Result<()> {
        const BYTES: usize = RELOCATION_BYTES as usize;
        let start = self.view.dynamic.relocations[0].offset;
        let relative = self.view.machine.relative;
        for it in &self.view.relocations {
            let Some(target) = self.targets.get(&it.offset) else { continue };
            let mut entry = [0; BYTES];
            entry[..8].copy_from_slice(&it.offset.to_le_bytes());
            entry[8..12].copy_from_slice(&relative.0.to_le_bytes());
            entry[16..].copy_from_slice(&target.to_le_bytes());
            match it.origin {
                Origin::Table(offset) => {
                    let at = (offset - start) as usize;
                    self.contents.own_relocations[at..at + BYTES].copy_from_slice(&entry);
                    let at = offset as usize;
                    self.bytes[at..at + BYTES].copy_from_slice(&entry);
                }
                Origin::Packed => {
                    let offset = self.view.file_offset(it.offset, 8);
                    let at = offset.ok_or_else(|| damaged("a packed relocation"))? as usize;
                    self.bytes[at..at + 8].copy_from_slice(&target.to_le_bytes());
                }
                Origin::Calls => return Err(damaged("its table of functions is one of calls")),
            }
        }
        Ok(())
    }

    /// Calls the initializers of the images after those of the executable.
    fn add_calls(&mut self, images: &[Image<'_>]) -> Result<()> {
        for (index, calls) in CALLS.iter().enumerate() {
            let moved = |it: &Image<'_>| it.called[index].iter().map(|at| it.moved(*at)).collect::<Vec<_>>();
            let added: Vec<_> = images.iter().flat_map(moved).collect();
            if added.is_empty() {
                continue;
            }
            let start = self.view.tag(calls.list).unwrap_or(0);
            let count = self.view.tag(calls.list_bytes).unwrap_or(0) / 8;
            let own = (0..count).map(|index| self.view.pointer(start.wrapping_add(index * 8)));
            let own: Option<Vec<_>> = own.collect();
            let own = own.ok_or_else(|| damaged("an initializer is not an address of the image"))?;
            self.contents.called[index] = own.into_iter().chain(added).collect();
        }
        Ok(())
    }
}

/// The name of the file that a source is, for the note.
fn file_name(name: &str) -> String {
    let name = name.rsplit('/').next().unwrap_or(name);
    name.chars().map(|it| if it.is_control() { '_' } else { it }).take(200).collect()
}

/// Reads the result again: each function is where it should be, and nothing else has changed.
fn check_result(
    bytes: &[u8],
    library: &ElfLibrary,
    images: &[Image<'_>],
    functions: &[OtherFunction],
) -> Result<()> {
    let place = || "the rewritten executable".to_owned();
    let internal = |what: &str| Error::new(rehal_base::StatusCode::Internal, what.to_owned());
    let view = View::read(bytes).context(place)?;
    let read = ElfLibrary::of(&view).context(place)?;
    let is_replaced = |ordinal: usize| functions.iter().find(|it| it.function as usize == ordinal);
    let names = |library: &ElfLibrary| library.functions.iter().map(|it| it.name.clone()).collect::<Vec<_>>();
    if names(&read) != names(library) {
        return Err(internal("its functions have other names").context(place()));
    }
    for (ordinal, (was, is)) in library.addresses.iter().zip(&read.addresses).enumerate() {
        let is_right = match is_replaced(ordinal) {
            None => was == is,
            Some(it) => {
                let image = &images[it.image];
                let target = image.moved(image.library.addresses[it.other as usize]);
                // An adapter is a segment of its own.
                let adapter = || {
                    let segment = view.loads().find(|it| it.vaddr == *is && it.is_executable())?;
                    adapter::target(view.machine, *is, view.memory(*is, segment.file_size)?)
                };
                *is == target || !image.library.imports.is_empty() && adapter() == Some(target)
            }
        };
        if !is_right {
            return Err(internal("a function is at another address").context(place()));
        }
    }
    Ok(())
}
