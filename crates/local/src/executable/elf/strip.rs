//! Removes functions from an image: their code, and what is not loaded.
//!
//! Nothing moves in memory. The code of a removed function becomes traps, and pages of traps are left out of the file, with segments
//! on both sides of them.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::offset_of;
use std::ops::Range;

use gimli::{BaseAddresses, CieOrFde, EhFrame, LittleEndian, UnwindSection};
use iced_x86::{Decoder, DecoderOptions, Instruction, OpKind};

use super::constants::*;
use super::header::{self, MAGIC};
use super::image::{Image, file_offset};
use super::reader::{Reader, u16_at, u32_at, u64_at};
use super::recover::{Recovered, recover};
use super::relocate::{self, Value};
use crate::executable::abi::ExportTable;
use crate::platform::PAGE_BYTES;

/// `int3`.
const TRAP: u8 = 0xCC;
/// Functions are aligned to this; fewer bytes between two of them are padding.
const FUNCTION_ALIGNMENT: u64 = 16;
/// Offset of the count of exports before the pointer to their table.
const COUNT_OFFSET: u64 = (offset_of!(ExportTable, ptrs) - offset_of!(ExportTable, count)) as u64;
const PAGE: u64 = PAGE_BYTES as u64;
/// Maximum number of times that the code is searched for references; each finds functions that the one before it kept.
const MAX_ROUNDS: usize = 16;
/// Maximum number of entries of all tables in a search.
const MAX_ENTRIES: u32 = 1 << 20;

/// An image without the exported functions whose ordinals are not in `kept`, and without debug information. They keep their ordinals and
/// names, and trap if they are called.
///
/// `None` if that is not known to be safe, or makes the image no smaller: the ranges of functions must be known, and nothing
/// that stays may refer to one that goes.
pub fn strip(bytes: &[u8], kept: &[u32]) -> Option<Vec<u8>> {
    // Not a container of several images.
    if !bytes.starts_with(&MAGIC) {
        return None;
    }
    let image = Image::parse(bytes).ok()?;
    if image.dynamic.init.is_some() || image.dynamic.init_array.is_some() {
        return None;
    }
    let code = Code::read(&image)?;
    let removed = code.removable(kept)?;
    let stripped = without(&image, &removed)?;
    // It must load, as the original does.
    Image::parse(&stripped).ok()?;
    (stripped.len() < bytes.len()).then_some(stripped)
}

/// What is known of an image's code. Addresses are those of the image.
pub(super) struct Code<'i, 'a> {
    pub image: &'i Image<'a>,
    /// The functions: their ends by their starts.
    pub functions: BTreeMap<u64, u64>,
    /// The pointers in the image: where they point to, by their own addresses.
    pub pointers: BTreeMap<u64, u64>,
    /// Address of the pointers to the exported functions.
    table: u64,
    /// The exported functions, by ordinal.
    pub exports: Vec<u64>,
}

impl<'i, 'a> Code<'i, 'a> {
    pub fn read(image: &'i Image<'a>) -> Option<Self> {
        let functions = functions(image)?;
        let starts = functions.keys().copied().collect();
        Self::of(image, functions, &starts, pointers(image)?)
    }

    /// The same of an image that does not list its functions: those of which all code is known by following it.
    pub fn followed(image: &'i Image<'a>) -> Option<Self> {
        let pointers = pointers(image)?;
        let symbols =
            (1..image.dynamic.symbol_count()).filter_map(|it| Some(image.dynamic.symbol(it)?.value));
        let roots = pointers.values().copied().chain(symbols);
        let Recovered { starts, functions } = recover(image, roots)?;
        Self::of(image, functions, &starts, pointers)
    }

    /// `starts` are those of all functions.
    fn of(
        image: &'i Image<'a>,
        functions: BTreeMap<u64, u64>,
        starts: &BTreeSet<u64>,
        pointers: BTreeMap<u64, u64>,
    ) -> Option<Self> {
        let mut tables = pointers.iter().filter_map(|(at, table)| {
            let count = word(image, at.checked_sub(COUNT_OFFSET)?)?;
            let end = table.checked_add(u64::from(count) * 8).filter(|_| count != 0)?;
            let exports: Vec<u64> = (*table..end)
                .step_by(8)
                .map_while(|slot| pointers.get(&slot).copied().filter(|it| starts.contains(it)))
                .collect();
            (exports.len() == count as usize).then_some((*table, exports))
        });
        let (table, exports) = tables.next()?;
        if tables.next().is_some() {
            return None;
        }
        drop(tables);
        Some(Self { image, functions, pointers, table, exports })
    }

    /// The functions that can be removed: those that are exported, not kept, and that nothing which stays refers to.
    fn removable(&self, kept: &[u32]) -> Option<BTreeMap<u64, u64>> {
        let mut removed: BTreeMap<u64, u64> = self
            .exports
            .iter()
            .map(|start| Some((*start, *self.functions.get(start)?)))
            .collect::<Option<_>>()?;
        for ordinal in kept {
            removed.remove(self.exports.get(*ordinal as usize)?);
        }
        let in_table = self.table..self.table + self.exports.len() as u64 * 8;
        for (_, target) in self.pointers.iter().filter(|(at, _)| !in_table.contains(at)) {
            keep(&mut removed, *target);
        }
        for index in 1..self.image.dynamic.symbol_count() {
            keep(&mut removed, self.image.dynamic.symbol(index)?.value);
        }
        // What is kept for a reference may refer to more.
        for _ in 0..MAX_ROUNDS {
            let before = removed.len();
            for target in self.references(&removed)? {
                keep(&mut removed, target);
            }
            if removed.len() == before {
                return (before != 0).then_some(removed);
            }
        }
        None
    }

    /// The addresses that the remaining code refers to: in removed functions, and in tables of distances from their start to code, such
    /// as jump tables. `None` if some of it is not code.
    fn references(&self, removed: &BTreeMap<u64, u64>) -> Option<BTreeSet<u64>> {
        let (mut found, mut tables) = (BTreeSet::new(), BTreeSet::new());
        for (start, code) in self.staying(removed) {
            let mut decoder = Decoder::with_ip(64, code, start, DecoderOptions::NONE);
            let mut instruction = Instruction::default();
            while decoder.can_decode() {
                decoder.decode_out(&mut instruction);
                if instruction.is_invalid() {
                    return None;
                }
                let branches = (0..instruction.op_count())
                    .any(|operand| instruction.op_kind(operand) == OpKind::NearBranch64);
                if branches {
                    found.insert(instruction.near_branch_target());
                }
                if instruction.is_ip_rel_memory_operand() {
                    let target = instruction.ip_rel_memory_address();
                    found.insert(target);
                    tables.insert(target);
                }
            }
        }
        let mut left = MAX_ENTRIES;
        for table in tables {
            self.add_distances(table, &mut left, &mut found);
        }
        (left != 0).then_some(found)
    }

    /// Adds where the entries of what may be a table of distances from its start to code lead to.
    fn add_distances(&self, table: u64, left: &mut u32, found: &mut BTreeSet<u64>) {
        let is_code = |at| self.image.segments().iter().any(|it| it.is_executable() && it.holds(at, 1));
        if is_code(table) {
            return;
        }
        for at in (table..).step_by(4) {
            let Some(distance) = word(self.image, at) else { return };
            let target = table.wrapping_add_signed(i64::from(distance.cast_signed()));
            if !is_code(target) {
                return;
            }
            found.insert(target);
            *left = left.saturating_sub(1);
            if *left == 0 {
                return;
            }
        }
    }

    /// The code that stays: its bytes, with their addresses.
    fn staying(&self, removed: &BTreeMap<u64, u64>) -> Vec<(u64, &'a [u8])> {
        let mut parts = Vec::new();
        for segment in self.image.segments().iter().filter(|it| it.is_executable()) {
            let (mut at, end) = (segment.vaddr, segment.vaddr + segment.file_size);
            let gaps =
                removed.range(at..end).map(|(start, end)| *start..*end).chain(std::iter::once(end..end));
            for gap in gaps {
                if at < gap.start {
                    let offset = at - segment.vaddr + segment.file_offset;
                    let bytes = self.image.file.take(offset, gap.start - at, "p_filesz");
                    parts.extend(bytes.ok().map(|bytes| (at, bytes)));
                }
                at = gap.end.max(at);
            }
        }
        parts
    }
}

/// Keeps the function that contains an address.
fn keep(removed: &mut BTreeMap<u64, u64>, address: u64) {
    if let Some((start, _)) = removed.range(..=address).next_back().filter(|(_, end)| address < **end) {
        let start = *start;
        removed.remove(&start);
    }
}

/// The 32 bits of the file at an address.
pub(super) fn word(image: &Image<'_>, address: u64) -> Option<u32> {
    image.file.u32(file_offset(image.segments(), address, 4)?, "a word").ok()
}

/// The functions that `.eh_frame` lists, each with the padding up to the next; `None` without it, or if they are not in executable segments or overlap.
fn functions(image: &Image<'_>) -> Option<BTreeMap<u64, u64>> {
    let (address, bytes) = section(image.file, b".eh_frame")?;
    let frames = EhFrame::new(bytes, LittleEndian);
    let bases = BaseAddresses::default().set_eh_frame(address);
    let mut functions = BTreeMap::new();
    let mut entries = frames.entries(&bases);
    while let Some(entry) = entries.next().ok()? {
        let CieOrFde::Fde(partial) = entry else { continue };
        let entry = partial.parse(EhFrame::cie_from_offset).ok()?;
        let (start, length) = (entry.initial_address(), entry.len());
        let end = start.checked_add(length)?;
        let mut segments = image.segments().iter();
        segments
            .find(|it| it.is_executable() && it.holds(start, length) && it.file_size == it.memory_size)?;
        functions.insert(start, end);
    }
    let starts: Vec<u64> = functions.keys().copied().skip(1).collect();
    for (end, next) in functions.values_mut().zip(starts) {
        if *end > next {
            return None;
        }
        if next - *end < FUNCTION_ALIGNMENT && next % FUNCTION_ALIGNMENT == 0 {
            *end = next;
        }
    }
    Some(functions)
}

/// All pointers that are relocated; `None` if there are other relocations.
fn pointers(image: &Image<'_>) -> Option<BTreeMap<u64, u64>> {
    let mut pointers = BTreeMap::new();
    let mut is_known = true;
    relocate::for_each(image, |change| {
        let target = match change.value {
            Value::Address(target) => Some(target),
            Value::InPlace => file_offset(image.segments(), change.vaddr, 8)
                .and_then(|offset| Some(u64_at(image.file.take(offset, 8, "a pointer").ok()?, 0))),
            Value::Number(_) | Value::Distance(_) => None,
        };
        match target {
            Some(target) => drop(pointers.insert(change.vaddr, target)),
            None => is_known = false,
        }
        Ok(())
    })
    .ok()?;
    is_known.then_some(pointers)
}

/// A section in memory.
pub(super) struct Section {
    pub address: u64,
    pub length: u64,
}

/// The sections in memory.
pub(super) fn sections(file: Reader<'_>) -> Option<Vec<Section>> {
    let loaded = entries(file)?.into_iter().filter(|entry| u64_at(entry, 16) != 0);
    Some(loaded.map(|entry| Section { address: u64_at(entry, 16), length: u64_at(entry, 32) }).collect())
}

/// The table of sections.
fn entries<'a>(file: Reader<'a>) -> Option<Vec<&'a [u8]>> {
    let header = file.take(0, EHDR_BYTES, "Elf64_Ehdr").ok()?;
    let count = u64::from(u16_at(header, 60));
    let table = file.take(u64_at(header, 40), count * SHDR_BYTES, "e_shoff").ok()?;
    Some(table.chunks_exact(SHDR_BYTES as usize).collect())
}

/// The address and the bytes of a section of a loaded segment.
fn section<'a>(file: Reader<'a>, name: &[u8]) -> Option<(u64, &'a [u8])> {
    let header = file.take(0, EHDR_BYTES, "Elf64_Ehdr").ok()?;
    let entries = entries(file)?;
    let content = |entry: &[u8]| file.take(u64_at(entry, 24), u64_at(entry, 32), "sh_offset").ok();
    let names = content(entries.get(usize::from(u16_at(header, 62)))?)?;
    let is_named = |entry: &&&[u8]| {
        let found = names.get(u32_at(entry, 0) as usize..).unwrap_or_default();
        found.strip_prefix(name).is_some_and(|rest| rest.first() == Some(&0))
    };
    let entry = entries.iter().find(is_named)?;
    Some((u64_at(entry, 16), content(entry)?))
}

/// The image without these functions, sections, and pages of traps.
fn without(image: &Image<'_>, removed: &BTreeMap<u64, u64>) -> Option<Vec<u8>> {
    let file = image.file;
    let header = header::read(file).ok()?;
    let mut bytes = file.bytes.to_vec();
    let traps = traps(removed);
    for trap in &traps {
        let offset = file_offset(image.segments(), trap.start, trap.end - trap.start)? as usize;
        bytes[offset..offset + (trap.end - trap.start) as usize].fill(TRAP);
    }
    // What no segment loads is not needed: debug information and the table of sections.
    let loaded = image.segments().iter().map(|it| it.file_offset + it.file_size).max()?;
    let mut gaps: Vec<Range<u64>> = Vec::new();
    let mut segments = Vec::new();
    for entry in header.segments(file) {
        // The table of segments moves, and is not needed in memory.
        if entry.kind == PT_PHDR {
            continue;
        }
        let table = file.take(entry.at, PHDR_BYTES, "e_phoff").ok()?;
        if entry.kind != PT_LOAD || entry.flags & PF_X == 0 {
            segments.push((table, entry.offset, entry.vaddr, entry.file_size, entry.memory_size));
            continue;
        }
        let mut at = entry.vaddr;
        let end = entry.vaddr + entry.file_size;
        for trap in traps.iter().filter(|it| entry.vaddr <= it.start && it.end <= end) {
            let pages = trap.start.next_multiple_of(PAGE)..trap.end / PAGE * PAGE;
            if pages.start >= pages.end {
                continue;
            }
            let offset = |address: u64| address - entry.vaddr + entry.offset;
            if at < pages.start {
                segments.push((table, offset(at), at, pages.start - at, pages.start - at));
            }
            gaps.push(offset(pages.start)..offset(pages.end));
            at = pages.end;
        }
        if at < end {
            segments.push((table, at - entry.vaddr + entry.offset, at, end - at, end - at));
        }
    }
    let moved = |offset: u64| {
        offset - gaps.iter().filter(|it| it.end <= offset).map(|it| it.end - it.start).sum::<u64>()
    };
    let mut stripped = Vec::with_capacity(bytes.len());
    let mut at = 0;
    for gap in gaps.iter().cloned().chain(std::iter::once(loaded..loaded)) {
        stripped.extend_from_slice(bytes.get(at as usize..gap.start as usize)?);
        at = gap.end;
    }
    stripped.resize(stripped.len().next_multiple_of(8), 0);
    let table = stripped.len() as u64;
    for (entry, offset, vaddr, file_size, memory_size) in &segments {
        let start = stripped.len();
        stripped.extend_from_slice(entry);
        let mut put = |at: usize, value: u64| {
            stripped[start + at..start + at + 8].copy_from_slice(&value.to_le_bytes())
        };
        put(8, moved(*offset));
        put(16, *vaddr);
        put(24, *vaddr);
        put(32, *file_size);
        put(40, *memory_size);
    }
    // A null section, which is always the first: the reference's loader refuses an image without a table of sections.
    let sections = stripped.len() as u64;
    stripped.resize(stripped.len() + SHDR_BYTES as usize, 0);
    let mut put = |at: usize, value: &[u8]| stripped[at..at + value.len()].copy_from_slice(value);
    put(32, &table.to_le_bytes());
    put(40, &sections.to_le_bytes());
    put(56, &u16::try_from(segments.len()).ok()?.to_le_bytes());
    put(60, &1_u16.to_le_bytes());
    // None of them has names.
    put(62, &0_u16.to_le_bytes());
    Some(stripped)
}

/// The addresses of removed functions; neighbours are one range.
fn traps(removed: &BTreeMap<u64, u64>) -> Vec<Range<u64>> {
    let mut traps: Vec<Range<u64>> = Vec::new();
    for (start, end) in removed {
        match traps.last_mut() {
            Some(last) if *start == last.end => last.end = *end,
            _ => traps.push(*start..*end),
        }
    }
    traps
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// The image in a capture of the fixtures.
    pub(in super::super) fn captured(name: &str) -> Vec<u8> {
        let bytes = std::fs::read(testing::fixtures().join("captures").join(name)).unwrap();
        let start = bytes.windows(6).position(|it| it == b"\x7FELF\x02\x01").unwrap();
        let header = Reader { bytes: &bytes[start..], origin: 0 };
        // The table of sections is at the end.
        let count = u64::from(header.u16(60, "e_shnum").unwrap());
        let table = u64_at(header.take(40, 8, "e_shoff").unwrap(), 0);
        let end = table + count * SHDR_BYTES;
        bytes[start..start + end as usize].to_vec()
    }

    /// The ranges of the exported functions in the file.
    fn exports(bytes: &[u8]) -> Vec<Range<usize>> {
        let image = Image::parse(bytes).unwrap();
        let code = Code::read(&image).unwrap();
        let offset = |address| file_offset(image.segments(), address, 0).unwrap() as usize;
        code.exports.iter().map(|start| offset(*start)..offset(code.functions[start])).collect()
    }

    #[test]
    fn functions_that_are_not_kept_become_traps() {
        let bytes = captured("mlp.mlp.local-sync.ireereplay");
        let functions = exports(&bytes);
        assert_eq!(functions.len(), 5);
        for kept in [&[0][..], &[3], &[1, 4], &[0, 1, 2, 4]] {
            let stripped = strip(&bytes, kept).unwrap();
            assert!(stripped.len() < bytes.len(), "{}", stripped.len());
            let (before, after) = (Image::parse(&bytes).unwrap(), Image::parse(&stripped).unwrap());
            assert_eq!(before.memory_bytes(), after.memory_bytes());
            let code = Code::read(&before).unwrap();
            for (ordinal, start) in (0..).zip(&code.exports) {
                let end = code.functions[start];
                let of = |image: &Image<'_>| -> Vec<Option<u8>> {
                    let offset = |at| file_offset(image.segments(), at, 1);
                    (*start..end).map(|at| Some(image.file.bytes[offset(at)? as usize])).collect()
                };
                match kept.contains(&ordinal) {
                    true => assert_eq!(of(&after), of(&before)),
                    // Traps, or not there.
                    false => assert!(of(&after).iter().all(|it| it.is_none_or(|byte| byte == TRAP))),
                }
            }
            assert_eq!(strip(&stripped, kept), None, "nothing is known of its functions");
        }
        let only_debug = strip(&bytes, &[0, 1, 2, 3, 4]);
        assert_eq!(only_debug, None, "there is nothing to remove");
        assert_eq!(strip(&bytes, &[5]), None, "the image has five");
    }

    #[test]
    fn pages_of_traps_are_not_in_the_file() {
        let bytes = captured("mlp.mlp.local-sync.ireereplay");
        let (all, one) = (strip(&bytes, &[0, 1, 2, 4]).unwrap(), strip(&bytes, &[4]).unwrap());
        // Another segment takes another entry.
        assert_eq!(all.len() - one.len(), PAGE_BYTES - PHDR_BYTES as usize);
        assert_eq!(
            Image::parse(&all).unwrap().segments().len() + 1,
            Image::parse(&one).unwrap().segments().len()
        );
    }

    #[test]
    fn a_function_that_another_calls_stays() {
        let mut bytes = captured("mlp.mlp.local-sync.ireereplay");
        let functions = exports(&bytes);
        let (from, to) = (functions[0].start, functions[2].start);
        let distance = (to as i64 - from as i64 - 5) as i32;
        bytes[from] = 0xE8;
        bytes[from + 1..from + 5].copy_from_slice(&distance.to_le_bytes());
        bytes[from + 5..functions[0].end].fill(0x90);
        let removed = |bytes: &[u8], kept: &[u32]| {
            let image = Image::parse(bytes).unwrap();
            let code = Code::read(&image).unwrap();
            let removed = code.removable(kept).unwrap_or_default();
            (0..5).filter(|it| removed.contains_key(&code.exports[*it])).collect::<Vec<_>>()
        };
        assert_eq!(removed(&bytes, &[0]), [1, 3, 4]);
        assert_eq!(removed(&bytes, &[1]), [0, 2, 3, 4], "the caller is not there either");
        // No instruction.
        bytes[from] = 0x06;
        assert_eq!(strip(&bytes, &[0]), None);
    }

    #[test]
    fn images_without_ranges_of_functions_stay_whole() {
        let read = |name: &str| std::fs::read(testing::fixtures().join("cts").join(name)).unwrap();
        assert_eq!(strip(&read("entry_points.embedded.elf"), &[0]), None);
        assert_eq!(strip(b"", &[0]), None);
    }

    #[test]
    fn hostile_images_are_refused_or_stripped() {
        let bytes = captured("mlp.mlp.local-sync.ireereplay");
        let mut random = fastrand::Rng::with_seed(11);
        let mut stripped = 0;
        for _ in 0..2000 {
            let mut changed = bytes.clone();
            for _ in 0..random.usize(1..4) {
                let at = random.usize(..changed.len());
                changed[at] = random.u8(..);
            }
            stripped += usize::from(strip(&changed, &[random.u32(..6)]).is_some());
        }
        assert!((1..2000).contains(&stripped), "{stripped}");
    }
}
