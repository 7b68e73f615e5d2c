//! An image whose segments are added to another one: what it needs, and how its words are relocated there.

use std::collections::BTreeSet;

use object::LittleEndian as LE;
use object::elf::{
    DF_STATIC_TLS, DF_TEXTREL, DT_FINI, DT_FINI_ARRAY, DT_FINI_ARRAYSZ, DT_FLAGS, DT_INIT, DT_INIT_ARRAY,
    DT_INIT_ARRAYSZ, DT_NEEDED, DT_TEXTREL, DynamicFlags, DynamicTag, PF_W, PT_TLS, RelocationType,
    STT_GNU_IFUNC, STT_TLS,
};
use object::read::elf::Sym;
use rehal_base::{Error, Result, listed};

use super::table::ElfLibrary;
use super::versions::{Version, Versions};
use super::view::{MAX_ADDRESS, PAGE, Relocation, View, damaged};
use crate::executable::elf::{Segment, Symbol};

/// Symbols that the start files of C compilers use if they are there.
const OF_START_FILES: [&[u8]; 3] =
    [b"__gmon_start__", b"_ITM_registerTMCloneTable", b"_ITM_deregisterTMCloneTable"];

/// Functions that the system's loader calls: a tag for one, and those of the start and the bytes of a list of
/// others.
#[derive(Clone, Copy)]
pub(super) struct Calls {
    one: DynamicTag,
    pub(super) list: DynamicTag,
    pub(super) list_bytes: DynamicTag,
}

/// When it has loaded the image, and in reverse order before it unloads it.
pub(super) const CALLS: [Calls; 2] = [
    Calls { one: DT_INIT, list: DT_INIT_ARRAY, list_bytes: DT_INIT_ARRAYSZ },
    Calls { one: DT_FINI, list: DT_FINI_ARRAY, list_bytes: DT_FINI_ARRAYSZ },
];

/// Segments that an image may have: each is padded to its alignment in the file.
const MAX_SEGMENTS: usize = 64;
/// Libraries that it may need.
const MAX_LIBRARIES: usize = 256;

/// An image that is added.
pub(super) struct Image<'a> {
    pub(super) view: View<'a>,
    pub(super) library: ElfLibrary,
    /// The number that is added to each of its addresses, modulo 2^64: images of high addresses move down.
    pub(super) delta: u64,
    /// Values that are written into its bytes: file offset of the image, and a value of 8 or 4 bytes.
    pub(super) words: Vec<(u64, Vec<u8>)>,
    /// The relocations that remain, at their new addresses.
    pub(super) relocations: Vec<NewRelocation<'a>>,
    /// The functions of [`CALLS`], by their addresses in the image. None for an embedded image.
    pub(super) called: [Vec<u64>; 2],
    /// Libraries that it names.
    pub(super) needed: Vec<&'a [u8]>,
    versions: Versions<'a>,
    pub(super) has_static_tls: bool,
}

/// A relocation of the rewritten image.
pub(super) struct NewRelocation<'a> {
    pub(super) offset: u64,
    pub(super) kind: RelocationType,
    /// The function or the data of another library that it refers to.
    pub(super) symbol: Option<Import<'a>>,
    pub(super) addend: u64,
}

/// A symbol of another library.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Import<'a> {
    pub(super) name: &'a [u8],
    pub(super) version: Option<Version<'a>>,
    pub(super) is_weak: bool,
}

impl<'a> Image<'a> {
    /// Reads an image. `is_embedded` tells that only segments and relative relocations may be needed: no
    /// other library, no thread-local data, no initializers.
    pub(super) fn read(bytes: &'a [u8], is_embedded: bool) -> Result<Self> {
        let view = View::read(bytes)?;
        let library = ElfLibrary::of(&view)?;
        let count = view.loads().count();
        if count > MAX_SEGMENTS {
            return Err(Error::unimplemented(format!(
                "it has {count} segments to load, and up to {MAX_SEGMENTS} are added"
            ))
            .advise("link it with the default script of the linker"));
        }
        let versions = Versions::read(&view)?;
        let mut this = Self {
            view,
            library,
            delta: 0,
            words: Vec::new(),
            relocations: Vec::new(),
            called: [Vec::new(), Vec::new()],
            needed: Vec::new(),
            versions,
            has_static_tls: false,
        };
        let flags = DynamicFlags(this.view.tag(DT_FLAGS).unwrap_or(0));
        this.has_static_tls = flags.contains(DF_STATIC_TLS);
        for it in this.view.loads() {
            if it.flags.contains(PF_W) && it.is_executable() {
                return Err(Error::unimplemented("a segment is both writable and executable"));
            }
        }
        if is_embedded {
            this.check_self_contained()?;
        } else {
            this.called = [this.calls(CALLS[0])?, this.calls(CALLS[1])?];
        }
        if !is_embedded && (this.view.tag(DT_TEXTREL).is_some() || flags.contains(DF_TEXTREL)) {
            return Err(Error::unimplemented("its code is relocated").advise("compile it with -fPIC"));
        }
        let needed = this.view.dynamic.entries().filter(|it| !is_embedded && it.1 == DT_NEEDED);
        let unnamed = || damaged("the name of a library is missing or too long");
        let needed = needed.map(|it| this.view.string(it.2).ok_or_else(unnamed));
        this.needed = needed.take(MAX_LIBRARIES + 1).collect::<Result<_>>()?;
        if this.needed.len() > MAX_LIBRARIES {
            return Err(Error::unimplemented(format!("it needs more than {MAX_LIBRARIES} libraries")));
        }
        Ok(this)
    }

    pub(super) fn thread_local(&self) -> Option<&Segment> {
        self.view.headers.iter().find(|it| it.kind == PT_TLS && it.memory_size > 0)
    }

    fn calls(&self, calls: Calls) -> Result<Vec<u64>> {
        let view = &self.view;
        let count = view.tag(calls.list_bytes).unwrap_or(0) / 8;
        let start = view.tag(calls.list).unwrap_or(0);
        if start > MAX_ADDRESS || count > view.bytes.len() as u64 {
            return Err(damaged("its list of initializers is out of bounds"));
        }
        let mut all: Vec<_> = view.tag(calls.one).filter(|it| *it != 0).into_iter().collect();
        for index in 0..count {
            let it = view.pointer(start + index * 8);
            all.push(it.ok_or_else(|| damaged("an initializer is not an address of the image"))?);
        }
        Ok(all)
    }

    /// Whether it has initializers besides those of the start files of C compilers, which do nothing for a
    /// kernel: one by itself, and one of the list, anywhere in it.
    fn has_own_initializers(&self) -> Result<bool> {
        let view = &self.view;
        let is_of_start_files = |it: &Symbol| {
            it.is_undefined(LE) && it.is_weak() && OF_START_FILES.contains(&view.symbol_name(it))
        };
        let has_start_files = view.dynamic.symbols.entries.iter().any(is_of_start_files);
        let of_start_files = match has_start_files {
            true => usize::from(view.tag(DT_INIT).is_some_and(|it| it != 0)) + 1,
            false => 0,
        };
        Ok(self.calls(CALLS[0])?.len() > of_start_files)
    }

    /// Fails if the loader of embedded images cannot give it what it needs.
    fn check_self_contained(&self) -> Result<()> {
        let view = &self.view;
        let symbols = view.relocations.iter().filter_map(|it| view.symbol(it));
        let needed = symbols.filter(|it| it.is_undefined(LE) && !it.is_weak());
        let names: BTreeSet<_> = needed.map(|it| view.symbol_name(it)).collect();
        let embedded = "an embedded ELF executable";
        if !names.is_empty() {
            return Err(Error::failed_precondition(format!(
                "its code needs {}, and {embedded} has no libraries",
                listed(names.iter().map(|it| String::from_utf8_lossy(it)))
            ))
            .advise(
                "define these functions in the file, or compile the program with --iree-llvmcpu-link-embedded=false, \
                 whose executables are system libraries",
            ));
        }
        if self.thread_local().is_some() {
            return Err(Error::failed_precondition(format!(
                "it has thread-local data, and {embedded} has none"
            ))
            .advise("leave out _Thread_local variables, or compile the program with --iree-llvmcpu-link-embedded=false"));
        }
        if self.has_own_initializers()? {
            return Err(Error::failed_precondition(format!(
                "it has initializers, which are not run in {embedded}"
            ))
            .advise(
                "leave out constructors, or compile the program with --iree-llvmcpu-link-embedded=false",
            ));
        }
        Ok(())
    }

    /// The largest alignment of its segments.
    pub(super) fn alignment(&self) -> Result<u64> {
        /// That of huge pages, the largest that linkers use.
        const MAX_ALIGNMENT: u64 = 2 << 20;
        let largest = self.view.loads().map(|it| it.align).max().unwrap_or(1).max(PAGE);
        match largest <= MAX_ALIGNMENT {
            true => Ok(largest),
            false => Err(Error::unimplemented(format!("a segment has an alignment of {largest} bytes"))),
        }
    }

    /// The address that a part of the image gets.
    pub(super) fn moved(&self, vaddr: u64) -> u64 {
        vaddr.wrapping_add(self.delta)
    }

    /// Decides about all relocations, once `delta` is known.
    pub(super) fn relocate(&mut self, is_embedded: bool) -> Result<()> {
        let relocations = self.view.relocations.clone();
        for it in &relocations {
            self.relocate_one(it, is_embedded)?;
        }
        Ok(())
    }

    fn relocate_one(&mut self, it: &Relocation, is_embedded: bool) -> Result<()> {
        let machine = self.view.machine;
        let symbol = match it.symbol {
            0 => None,
            _ => Some(self.view.symbol(it).ok_or_else(|| damaged("a relocation"))?),
        };
        let is_global = it.kind == machine.global || it.kind == machine.jump;
        let addend = if is_global && !machine.adds_to_globals { 0 } else { it.addend };
        match it.kind {
            RelocationType(0) => Ok(()),
            kind if kind == machine.relative => self.points(it.offset, it.addend),
            kind if kind == machine.abs64 || is_global => match symbol {
                None => self.write(it.offset, &addend.to_le_bytes()),
                Some(symbol) if symbol.is_undefined(LE) => self.import(it, symbol, addend, is_embedded),
                Some(symbol) if matches!(symbol.st_type(), STT_TLS | STT_GNU_IFUNC) => Err(self.unknown(it)),
                Some(symbol) => {
                    let value = symbol.st_value.get(LE).wrapping_add(addend);
                    match symbol.is_absolute(LE) {
                        true => self.write(it.offset, &value.to_le_bytes()),
                        false => self.points(it.offset, value),
                    }
                }
            },
            kind if Some(kind) == machine.distance => {
                // Both ends move by the same distance.
                let symbol = symbol.filter(|it| !it.is_undefined(LE) && !it.is_absolute(LE));
                let symbol = symbol.ok_or_else(|| self.unknown(it))?;
                let distance = symbol.st_value.get(LE).wrapping_add(it.addend).wrapping_sub(it.offset) as i64;
                let distance = i32::try_from(distance).map_err(|_| damaged("a distance is too large"))?;
                self.write(it.offset, &distance.to_le_bytes())
            }
            kind if kind == machine.indirect && !is_embedded => {
                self.push(it.offset, kind, None, self.moved(it.addend));
                Ok(())
            }
            kind if machine.tls.contains(&kind) && !is_embedded => self.thread_local_word(it, symbol),
            _ => Err(self.unknown(it)),
        }
    }

    fn unknown(&self, it: &Relocation) -> Error {
        let message = format!(
            "it has a relocation of type {} at {:#x}, which cannot be carried over",
            it.kind, it.offset
        );
        Error::unimplemented(message).advise("compile it with -fPIC, to a shared library of its own")
    }

    /// A word that gets the address of a part of the image.
    fn points(&mut self, offset: u64, target: u64) -> Result<()> {
        let relative = self.view.machine.relative;
        self.push(offset, relative, None, self.moved(target));
        Ok(())
    }

    fn push(&mut self, offset: u64, kind: RelocationType, symbol: Option<Import<'a>>, addend: u64) {
        let offset = self.moved(offset);
        self.relocations.push(NewRelocation { offset, kind, symbol, addend });
    }

    /// A word that gets the address of what another library defines. What nothing has to define is absent
    /// from an embedded image.
    fn import(&mut self, it: &Relocation, symbol: &Symbol, addend: u64, is_embedded: bool) -> Result<()> {
        if is_embedded {
            return self.write(it.offset, &addend.to_le_bytes());
        }
        let name = self.view.symbol_name(symbol);
        if name.is_empty() {
            return Err(damaged("the name of a symbol is missing or too long"));
        }
        let version = self.versions.of(it.symbol);
        let kind = if it.kind == self.view.machine.jump { self.view.machine.global } else { it.kind };
        self.push(it.offset, kind, Some(Import { name, version, is_weak: symbol.is_weak() }), addend);
        Ok(())
    }

    /// A word about thread-local data of the image: that data becomes the executable's.
    fn thread_local_word(&mut self, it: &Relocation, symbol: Option<&Symbol>) -> Result<()> {
        let [_, in_module, ..] = self.view.machine.tls;
        if symbol.is_some_and(|it| it.is_undefined(LE)) {
            return Err(self.unknown(it));
        }
        let value = symbol.map_or(0, |it| it.st_value.get(LE)).wrapping_add(it.addend);
        match it.kind == in_module {
            true => self.write(it.offset, &value.to_le_bytes()),
            false => {
                self.push(it.offset, it.kind, None, value);
                Ok(())
            }
        }
    }

    /// Writes a constant into the image.
    fn write(&mut self, vaddr: u64, bytes: &[u8]) -> Result<()> {
        match self.view.file_offset(vaddr, bytes.len() as u64) {
            Some(offset) => self.words.push((offset, bytes.to_vec())),
            // Zeroed memory.
            None if bytes.iter().all(|it| *it == 0) => {}
            None => return Err(damaged("a relocation is outside of its segments")),
        }
        Ok(())
    }

    /// The segments at their new addresses, with the bytes that the file has of them.
    pub(super) fn segments(&self, page: u64) -> Vec<(Segment, Vec<u8>)> {
        let place = |old: &Segment| {
            let start = old.offset as usize;
            let mut bytes = self.view.bytes[start..start + old.file_size as usize].to_vec();
            for (offset, word) in &self.words {
                let at = offset.checked_sub(old.offset).map(|at| at as usize);
                if let Some(target) = at.and_then(|at| bytes.get_mut(at..at + word.len())) {
                    target.copy_from_slice(word);
                }
            }
            let segment = Segment { vaddr: self.moved(old.vaddr), align: old.align.max(page), ..*old };
            (segment, bytes)
        };
        self.view.loads().filter(|it| it.memory_size > 0).map(place).collect()
    }
}
