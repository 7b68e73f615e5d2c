//! Extents of functions and source lines of an ELF image, from its call frame information and its DWARF. They
//! are additional: what is absent or damaged is left out.

use std::ops::Range;
use std::sync::Arc;

use gimli::{BaseAddresses, CieOrFde, Dwarf, EhFrame, EndianSlice, LittleEndian, UnwindSection};
use object::elf::SHF_COMPRESSED;
use object::read::elf::{ElfFile64, SectionHeader};
use object::{Object, ObjectSection, ObjectSegment};

type Slice<'a> = EndianSlice<'a, LittleEndian>;

pub(super) struct DebugInfo<'a> {
    file: Option<ElfFile64<'a, object::LittleEndian>>,
    /// Image-relative addresses of functions, in ascending order.
    extents: Vec<Range<u64>>,
}

/// The source of the code from an address on.
pub(super) struct Line {
    pub(super) vaddr: u64,
    pub(super) line: u32,
    pub(super) file: Arc<str>,
}

impl<'a> DebugInfo<'a> {
    pub(super) fn read(bytes: &'a [u8]) -> Self {
        let mut this = Self { file: ElfFile64::parse(bytes).ok(), extents: Vec::new() };
        this.extents = this.read_extents();
        this
    }

    pub(super) fn extents(&self) -> &[Range<u64>] {
        &self.extents
    }

    /// The end of the function at an address.
    pub(super) fn end_of(&self, vaddr: u64) -> Option<u64> {
        let at = self.extents.binary_search_by_key(&vaddr, |it| it.start).ok()?;
        Some(self.extents[at].end)
    }

    /// The end of the segment that has the byte at an address.
    pub(super) fn segment_end(&self, vaddr: u64) -> Option<u64> {
        let mut segments = self.file.as_ref()?.segments();
        segments.find_map(|it| {
            let end = it.address().checked_add(it.file_range().1)?;
            (it.address()..end).contains(&vaddr).then_some(end)
        })
    }

    /// The address and the bytes of a section; none if they are compressed, or absent.
    fn section(&self, name: &str) -> Option<(u64, &'a [u8])> {
        let file = self.file.as_ref()?;
        let section = file.section_by_name(name)?;
        let flags = section.elf_section_header().sh_flags(file.endian());
        let data = section.data().ok().filter(|_| !flags.contains(SHF_COMPRESSED))?;
        Some((section.address(), data))
    }

    fn read_extents(&self) -> Vec<Range<u64>> {
        let Some((address, data)) = self.section(".eh_frame") else { return Vec::new() };
        let frames = EhFrame::new(data, LittleEndian);
        let bases = BaseAddresses::default().set_eh_frame(address);
        let (mut extents, mut entries) = (Vec::new(), frames.entries(&bases));
        while let Ok(Some(entry)) = entries.next() {
            let CieOrFde::Fde(entry) = entry else { continue };
            let Ok(entry) = entry.parse(|_, bases, offset| frames.cie_from_offset(bases, offset)) else {
                break;
            };
            let start = entry.initial_address();
            if let Some(end) = start.checked_add(entry.len()).filter(|end| *end > start) {
                extents.push(start..end);
            }
        }
        extents.sort_unstable_by_key(|it| it.start);
        extents.dedup_by_key(|it| it.start);
        extents
    }

    /// The lines of the code in these ranges, which are in ascending order, as the lines are. An address has
    /// one.
    pub(super) fn lines(&self, ranges: &[Range<u64>]) -> Vec<Line> {
        let load = |id: gimli::SectionId| -> Result<Slice<'a>, gimli::Error> {
            let data = self.section(id.name()).map_or(&[][..], |(_, data)| data);
            Ok(EndianSlice::new(data, LittleEndian))
        };
        let mut lines = Vec::new();
        if let Ok(dwarf) = Dwarf::load(load) {
            // Damage ends the lines; those before it are right.
            let _ = read_lines(&dwarf, ranges, &mut lines);
        }
        lines.sort_by_key(|it: &Line| it.vaddr);
        lines.dedup_by_key(|it| it.vaddr);
        lines
    }
}

fn read_lines(
    dwarf: &Dwarf<Slice<'_>>,
    ranges: &[Range<u64>],
    lines: &mut Vec<Line>,
) -> Result<(), gimli::Error> {
    let mut units = dwarf.units();
    while let Some(header) = units.next()? {
        let unit = dwarf.unit(header)?;
        let Some(program) = unit.line_program.clone() else { continue };
        let mut rows = program.rows();
        let mut last: Option<(u64, Arc<str>)> = None;
        while let Some((header, row)) = rows.next_row()? {
            let after = ranges.partition_point(|range| range.start <= row.address());
            let is_code = after > 0 && row.address() < ranges[after - 1].end;
            let Some(line) = row.line().filter(|_| is_code && !row.end_sequence()) else { continue };
            let file = match &last {
                Some((index, name)) if *index == row.file_index() => name.clone(),
                _ => {
                    let Some(file) = row.file(header) else { continue };
                    let name = dwarf.attr_string(&unit, file.path_name())?.to_string_lossy().into_owned();
                    let directory = match file.directory(header) {
                        Some(value) => dwarf.attr_string(&unit, value)?.to_string_lossy().into_owned(),
                        None => String::new(),
                    };
                    let is_whole = directory.is_empty() || name.starts_with('/');
                    let path = if is_whole { name } else { format!("{directory}/{name}") };
                    Arc::from(path)
                }
            };
            last = Some((row.file_index(), file.clone()));
            lines.push(Line { vaddr: row.address(), line: line.get() as u32, file });
        }
    }
    Ok(())
}
