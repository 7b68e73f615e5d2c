//! The segment of a rewritten image that has its tables: program headers, dynamic section, relocations, and
//! what else had to become longer. The old tables stay where they are, without use.

use std::collections::BTreeMap;

use object::LittleEndian as LE;
use object::elf::{
    DF_STATIC_TLS, DT_FLAGS, DT_HASH, DT_NEEDED, DT_NULL, DT_RELA, DT_RELAENT, DT_RELASZ, DT_STRSZ,
    DT_STRTAB, DT_SYMTAB, DT_VERDEFNUM, DT_VERNEED, DT_VERNEEDNUM, DT_VERSYM, DynamicTag, PF_R, PF_W,
    PT_DYNAMIC, PT_LOAD, PT_NOTE, PT_PHDR, ProgramFlags, ProgramType,
};
use object::read::elf::Sym;
use rehal_base::{Error, Result};

use super::image::{CALLS, Import, NewRelocation};
use super::place::Place;
use super::table::NOTE_OWNER;
use super::versions::Versions;
use super::view::{PHDR_BYTES, View, damaged};
use crate::executable::elf::{RELOCATION_BYTES, SYMBOL_BYTES, Segment, u32_at};

/// The additions to the tables.
#[derive(Default)]
pub(super) struct Contents<'a> {
    /// Program headers that follow the old ones.
    pub(super) segments: Vec<Segment>,
    /// The old table of relocations, with other addends.
    pub(super) own_relocations: Vec<u8>,
    pub(super) relocations: Vec<NewRelocation<'a>>,
    /// The functions of [`CALLS`], if there are more than before.
    pub(super) called: [Vec<u64>; 2],
    /// Libraries to load.
    pub(super) needed: Vec<&'a [u8]>,
    pub(super) has_static_tls: bool,
    /// The names of imports of the library, if there are more than before.
    pub(super) import_names: Vec<u64>,
    /// Where the library points to them.
    pub(super) import_names_at: u64,
    /// The text of the note.
    pub(super) note: String,
}

/// The segment, and where the file header finds the program headers.
pub(super) struct Tables {
    pub(super) segment: Segment,
    pub(super) bytes: Vec<u8>,
    pub(super) header_count: u16,
}

/// Makes the tables, for an address and a place in the file. `is_note` tells which of the old headers are
/// notes that are replaced.
pub(super) fn build<'a>(
    view: &View<'a>,
    mut contents: Contents<'a>,
    vaddr: u64,
    offset: u64,
    page: u64,
    is_note: &dyn Fn(&Segment) -> bool,
) -> Result<Tables> {
    let kept: Vec<_> = view.headers.iter().filter(|it| !is_note(it)).copied().collect();
    // One for the tables and one for the note.
    let header_count = kept.len() + contents.segments.len() + 2;
    let header_count = u16::try_from(header_count).ok().filter(|it| *it < u16::MAX);
    let header_count = header_count.ok_or_else(|| Error::unimplemented("the image has too many segments"))?;
    let mut place = Place { start: vaddr, bytes: vec![0; usize::from(header_count) * PHDR_BYTES] };
    let mut dynamic =
        Dynamic { entries: view.dynamic.entries().map(|(_, tag, value)| (tag, value)).collect() };
    let symbols = add_symbols(view, &contents, &mut place, &mut dynamic)?;
    let relative = view.machine.relative;
    let mut points = |place: &mut Place, targets: &[u64]| {
        let at = place.add(&vec![0; targets.len() * 8]);
        for (index, target) in (0..).zip(targets) {
            let offset = at + index * 8;
            contents.relocations.push(NewRelocation {
                offset,
                kind: relative,
                symbol: None,
                addend: *target,
            });
        }
        at
    };
    for (calls, called) in CALLS.iter().zip(&contents.called).filter(|(_, called)| !called.is_empty()) {
        dynamic.set(calls.list, points(&mut place, called));
        dynamic.set(calls.list_bytes, called.len() as u64 * 8);
    }
    if !contents.import_names.is_empty() {
        let names = points(&mut place, &contents.import_names);
        let offset = contents.import_names_at;
        contents.relocations.push(NewRelocation { offset, kind: relative, symbol: None, addend: names });
    }
    let mut relocations = contents.own_relocations;
    for it in &contents.relocations {
        let symbol = it.symbol.as_ref().map_or(0, |it| symbols.get(it).copied().unwrap_or(0));
        relocations.extend(it.offset.to_le_bytes());
        relocations.extend(it.kind.0.to_le_bytes());
        relocations.extend(symbol.to_le_bytes());
        relocations.extend(it.addend.to_le_bytes());
    }
    dynamic.set(DT_RELA, place.add(&relocations));
    dynamic.set(DT_RELASZ, relocations.len() as u64);
    dynamic.set(DT_RELAENT, RELOCATION_BYTES);
    if contents.has_static_tls {
        dynamic.set(DT_FLAGS, view.tag(DT_FLAGS).unwrap_or(0) | DF_STATIC_TLS.0);
    }
    let note = note(&contents.note);
    let note_at = place.add(&note);
    let dynamic_bytes = dynamic.bytes();
    let dynamic_at = place.add(&dynamic_bytes);
    let size = place.bytes.len() as u64;
    let part = |kind: ProgramType, flags: ProgramFlags, at: u64, bytes: u64, align: u64| Segment {
        kind,
        flags,
        offset: offset + (at - vaddr),
        vaddr: at,
        file_size: bytes,
        memory_size: bytes,
        align,
    };
    // The system's loader writes into the dynamic section.
    let segment = part(PT_LOAD, PF_R | PF_W, vaddr, size, page);
    let mut headers = Vec::new();
    for it in &kept {
        let it = match it.kind {
            PT_PHDR => part(PT_PHDR, it.flags, vaddr, u64::from(header_count) * PHDR_BYTES as u64, 8),
            PT_DYNAMIC => part(PT_DYNAMIC, PF_R | PF_W, dynamic_at, dynamic_bytes.len() as u64, 8),
            _ => *it,
        };
        write(&it, &mut headers);
    }
    contents.segments.iter().for_each(|it| write(it, &mut headers));
    write(&segment, &mut headers);
    write(&part(PT_NOTE, PF_R, note_at, note.len() as u64, 4), &mut headers);
    place.bytes[..headers.len()].copy_from_slice(&headers);
    Ok(Tables { segment, bytes: place.bytes, header_count })
}

/// Appends an entry of the program header table.
fn write(it: &Segment, out: &mut Vec<u8>) {
    out.extend(it.kind.0.to_le_bytes());
    out.extend(it.flags.0.to_le_bytes());
    for word in [it.offset, it.vaddr, it.vaddr, it.file_size, it.memory_size, it.align] {
        out.extend(word.to_le_bytes());
    }
}

/// Bytes of strings, whose offsets have 32 bits.
const MAX_STRINGS: usize = 256 << 20;

/// The entries of a dynamic section.
struct Dynamic {
    entries: Vec<(DynamicTag, u64)>,
}

impl Dynamic {
    fn set(&mut self, tag: DynamicTag, value: u64) {
        match self.entries.iter_mut().find(|it| it.0 == tag) {
            Some(entry) => entry.1 = value,
            None => self.entries.push((tag, value)),
        }
    }

    fn bytes(&self) -> Vec<u8> {
        let words = self.entries.iter().chain(&[(DT_NULL, 0)]).flat_map(|it| [it.0.0 as u64, it.1]);
        words.flat_map(u64::to_le_bytes).collect()
    }
}

/// Adds imports from other libraries to the tables of symbols and strings, and libraries to load. Returns the
/// index of each import.
fn add_symbols<'a>(
    view: &View<'a>,
    contents: &Contents<'a>,
    place: &mut Place,
    dynamic: &mut Dynamic,
) -> Result<BTreeMap<Import<'a>, u32>> {
    let own_versions = Versions::read(view)?;
    let mut indices = BTreeMap::new();
    for (index, symbol) in
        (0..).zip(view.dynamic.symbols.entries).skip(1).filter(|(_, it)| it.is_undefined(LE))
    {
        let (name, version) = (view.symbol_name(symbol), own_versions.of(index));
        indices.insert(Import { name, version, is_weak: symbol.is_weak() }, index);
    }
    let loaded =
        |name: &[u8]| view.dynamic.entries().any(|it| it.1 == DT_NEEDED && view.string(it.2) == Some(name));
    let needed: Vec<_> = contents.needed.iter().filter(|it| !loaded(it)).collect();
    let imports: Vec<_> = contents.relocations.iter().filter_map(|it| it.symbol).collect();
    if needed.is_empty() && imports.iter().all(|it| indices.contains_key(it)) {
        return Ok(indices);
    }
    let mut strings = view.dynamic.strings.to_vec();
    let mut add_string = |text: &[u8]| {
        if strings.len() > MAX_STRINGS {
            return Err(Error::resource_exhausted("the names of imports have more than 256 MiB"));
        }
        let at = strings.len() as u32;
        strings.extend(text);
        strings.push(0);
        Ok(at)
    };
    // They come before the other entries, in whose order libraries are searched.
    let entry = |it: &&&[u8]| Ok((DT_NEEDED, u64::from(add_string(it)?)));
    let entries = needed.iter().map(entry).collect::<Result<Vec<_>>>()?;
    let first = dynamic.entries.iter().rposition(|it| it.0 == DT_NEEDED).map_or(0, |it| it + 1);
    dynamic.entries.splice(first..first, entries);
    const BYTES: usize = SYMBOL_BYTES as usize;
    let symbols = &view.dynamic.symbols;
    let old = symbols.entries.len();
    let mut table = view.bytes[symbols.offset as usize..][..old * BYTES].to_vec();
    let mut versions = Vec::new();
    for import in imports {
        let next = (table.len() / BYTES) as u32;
        if indices.contains_key(&import) {
            continue;
        }
        // Global or weak, without a type, undefined.
        let info = if import.is_weak { 0x20 } else { 0x10 };
        table.extend(add_string(import.name)?.to_le_bytes());
        table.extend([info, 0, 0, 0]);
        table.extend([0; 16]);
        versions.push(import.version);
        indices.insert(import, next);
    }
    let count = (table.len() / BYTES) as u32;
    let added = count as usize - old;
    let defined = view.tag(DT_VERDEFNUM).unwrap_or(0);
    if let Some(it) = own_versions.with(old, &versions, defined, place, &mut add_string)? {
        dynamic.set(DT_VERSYM, it.symbols);
        if let Some(needed) = it.needed {
            dynamic.set(DT_VERNEED, needed);
            dynamic.set(DT_VERNEEDNUM, it.library_count);
        }
    }
    if let Some(hashes) = view.tag(DT_HASH) {
        let buckets = view.memory(hashes, 8).map_or(0, |it| u32_at(it, 0));
        let length = (2 + u64::from(buckets) + old as u64) * 4;
        let hashes = view.memory(hashes, length);
        let mut hashes = hashes.ok_or_else(|| damaged("its table of hashes is out of bounds"))?.to_vec();
        hashes[4..8].copy_from_slice(&count.to_le_bytes());
        // No name leads to what is not defined.
        hashes.resize(hashes.len() + added * 4, 0);
        dynamic.set(DT_HASH, place.add(&hashes));
    }
    dynamic.set(DT_SYMTAB, place.add(&table));
    dynamic.set(DT_STRTAB, place.add(&strings));
    dynamic.set(DT_STRSZ, strings.len() as u64);
    Ok(indices)
}

fn note(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    for number in [6, text.len() as u32, 1] {
        out.extend(number.to_le_bytes());
    }
    out.extend(NOTE_OWNER);
    out.extend(text.as_bytes());
    out.resize(out.len().next_multiple_of(4), 0);
    out
}
