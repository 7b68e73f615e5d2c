//! Modules with other constant data, such as other executables.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use rehal_base::{Cursor, Error, Result};

use super::ModuleFile;
use super::archive::PREFIX_BYTES;
use super::schema::id;

/// Alignment of the base of external rodata, from the first byte of the file.
const BASE_ALIGNMENT: usize = 64;
/// Limit on the alignment that is kept: pages. The file does not state alignments, so that each segment gets
/// the power of two that divides its position.
const MAX_ALIGNMENT: usize = 4096;
/// Alignment of embedded bytes that replace others.
const EMBEDDED_ALIGNMENT: usize = 16;
/// Offsets in a flatbuffer are 32 bits, of which readers treat one as a sign.
const MAX_FLATBUFFER_BYTES: usize = i32::MAX as usize;

// The records of a ZIP archive (source: PKWARE's APPNOTE 6.3.9, sections 4.3.7, 4.3.12, 4.3.14 to 4.3.16).
const LOCAL: u32 = 0x0403_4b50;
const CENTRAL: u32 = 0x0201_4b50;
const END: u32 = 0x0605_4b50;
const END_64: u32 = 0x0606_4b50;
const LOCATOR_64: u32 = 0x0706_4b50;
const LOCAL_BYTES: usize = 30;
const END_BYTES: usize = 22;
const LOCATOR_64_BYTES: usize = 20;
/// The extra field of 64-bit sizes.
const EXTRA_64: u16 = 1;
/// The extra field with which the compiler pads headers.
const EXTRA_PADDING: u16 = 0xfeca;
/// Bytes of an extra field before its data.
const EXTRA_HEAD_BYTES: usize = 4;
/// "The size is in the extra field."
const IN_EXTRA: u32 = u32::MAX;
/// Version 4.5, the first one with 64-bit sizes.
const VERSION: u16 = 45;
/// Files of Unix, by a writer of version 3.0.
const MADE_BY: u16 = 0x031e;
/// 1980-01-01, the first date there is.
const DATE: u16 = 0x21;

/// A file of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    name: Vec<u8>,
    /// Its bytes, in the archive.
    data: Range<usize>,
}

impl ModuleFile {
    /// The names under which the archive lists the rodata segments, such as
    /// `abs_dispatch_0_embedded_elf_x86_64.so`; `None` for segments in the flatbuffer, and for those of a
    /// module without an archive.
    pub fn rodata_names(&self) -> Vec<Option<String>> {
        let entries = self.entries().unwrap_or_default();
        let names: HashMap<_, _> = entries.iter().map(|it| (&it.data, &it.name)).collect();
        let name = |range: Range<usize>| String::from_utf8(names.get(&range)?.to_vec()).ok();
        self.rodata_segments().map(|segment| name(segment.range)).collect()
    }

    /// A copy of the file in which segments have other bytes; each segment is named at most once. Everything
    /// else stays: an archive remains one, and external segments keep their order, names and alignment.
    /// Fails if an archive does not list a segment, or if the flatbuffer would exceed 2 GiB.
    pub fn with_rodata(&self, others: &[(usize, &[u8])]) -> Result<Vec<u8>> {
        let segments: Vec<_> = self.rodata_segments().collect();
        let others: HashMap<_, _> = others.iter().copied().collect();
        let other = |index: usize| others.get(&index).copied();
        let mut flatbuffer = self.flatbuffer().to_vec();
        let tables = self.root().tables(id::MODULE_RODATA);
        for (index, segment) in segments.iter().enumerate().filter(|(_, segment)| !segment.external) {
            let (Some(bytes), Some(table)) = (other(index), tables.get(index)) else { continue };
            let start = self.flatbuffer_range().start;
            let (was, field) = (segment.range.start - start, table.field(id::RODATA_EMBEDDED));
            let field = field.ok_or_else(|| damaged("an embedded segment has no bytes"))?;
            // Tables may share bytes.
            let is_shared = segments.iter().enumerate().any(|(at, it)| {
                at != index && it.range.start < segment.range.end && segment.range.start < it.range.end
            });
            let room = (!is_shared).then_some(was..segment.range.end - start);
            embed(&mut flatbuffer, start, field, room, bytes)?;
        }
        let entries = self.entries()?;
        let is_archive = !entries.is_empty();
        // What follows the flatbuffer, in order: the files of the archive, or the segments alone.
        let mut pieces: Vec<Entry> = entries.into_iter().skip(1).collect();
        let mut listed: HashSet<_> = pieces.iter().map(|piece| piece.data.clone()).collect();
        // The other bytes of pieces.
        let mut replaced = HashMap::new();
        for (index, segment) in segments.iter().enumerate().filter(|(_, segment)| segment.external) {
            if listed.insert(segment.range.clone()) {
                if is_archive {
                    return Err(damaged(&format!("the archive does not list rodata segment {index}")));
                }
                pieces.push(Entry { name: Vec::new(), data: segment.range.clone() });
            }
            replaced.extend(other(index).map(|bytes| (segment.range.clone(), bytes)));
        }
        pieces.sort_by_key(|piece| (piece.data.start, piece.data.end));
        // Bytes that are in several files would be written several times.
        if pieces.iter().zip(pieces.iter().skip(1)).any(|(piece, next)| next.data.start < piece.data.end) {
            return Err(damaged("parts of it overlap"));
        }
        let bytes_of = |piece: &Entry| {
            replaced.get(&piece.data).copied().or_else(|| self.bytes().get(piece.data.clone()))
        };

        let prefix_at = self.flatbuffer_range().start - PREFIX_BYTES;
        let flatbuffer_end = prefix_at + PREFIX_BYTES + flatbuffer.len();
        let base = flatbuffer_end.next_multiple_of(BASE_ALIGNMENT);
        let mut end = if pieces.is_empty() { flatbuffer_end } else { base };
        let mut placed = Vec::with_capacity(pieces.len());
        for piece in &pieces {
            let bytes = bytes_of(piece).ok_or_else(|| damaged("a file of the archive is outside of it"))?;
            let header = if is_archive { header_bytes(&piece.name) } else { 0 };
            let alignment = 1 << piece.data.start.trailing_zeros().min(MAX_ALIGNMENT.trailing_zeros());
            let start = (end + header).next_multiple_of(alignment);
            placed.push(Placed { name: &piece.name, header_at: end, start, bytes, listed: bytes.len() });
            end = start + bytes.len();
        }
        let places: HashMap<_, _> = pieces.iter().enumerate().map(|(at, piece)| (&piece.data, at)).collect();
        for (index, segment) in segments.iter().enumerate().filter(|(_, segment)| segment.external) {
            let at = places.get(&segment.range).copied();
            let (Some(at), Some(table)) = (at, tables.get(index)) else { continue };
            let values = [
                (id::RODATA_EXTERNAL_OFFSET, (placed[at].start - base) as u64),
                (id::RODATA_EXTERNAL_LENGTH, placed[at].bytes.len() as u64),
            ];
            for (field, value) in values {
                match table.field(field).and_then(|at| flatbuffer.get_mut(at..at + 8)) {
                    Some(place) => place.copy_from_slice(&value.to_le_bytes()),
                    // A field without a place has the value 0.
                    None if value == 0 => {}
                    None => return Err(damaged("a segment has no place for its position")),
                }
            }
        }
        let module = [&(flatbuffer.len() as u32).to_le_bytes()[..], &flatbuffer].concat();
        let mut out = Vec::with_capacity(end);
        // As the compiler does, the archive lists as many bytes as the flatbuffer has, from its length prefix
        // on.
        let listed = flatbuffer.len();
        let first = Placed { name: b"module.fb", header_at: 0, start: prefix_at, bytes: &module, listed };
        let all: Vec<_> = std::iter::once(first).chain(placed).collect();
        for placed in &all {
            if is_archive {
                out.resize(placed.header_at, 0);
                placed.write_header(&mut out)?;
            }
            out.resize(placed.start, 0);
            out.extend_from_slice(placed.bytes);
        }
        if is_archive {
            write_directory(&all, &mut out);
        }
        Ok(out)
    }

    /// The files of the archive, the flatbuffer first; none if the module has no archive.
    fn entries(&self) -> Result<Vec<Entry>> {
        let bytes = self.bytes();
        if self.flatbuffer_range().start == PREFIX_BYTES {
            return Ok(Vec::new());
        }
        let entries = read_directory(bytes).ok_or_else(|| damaged("its ZIP directory cannot be read"))?;
        match entries.first() {
            Some(first) if first.data.start + PREFIX_BYTES == self.flatbuffer_range().start => Ok(entries),
            _ => Err(damaged("the first file of its ZIP directory is not the flatbuffer")),
        }
    }
}

#[cold]
fn damaged(what: &str) -> Error {
    Error::data_loss(format!("the module cannot be rewritten: {what}"))
}

/// Gives an embedded segment other bytes: in its own place, `room`, if it has one and they fit; otherwise
/// after everything else. `start` is the position of the flatbuffer in the file, `field` that of the offset
/// of the segment's vector.
fn embed(
    flatbuffer: &mut Vec<u8>,
    start: usize,
    field: usize,
    room: Option<Range<usize>>,
    bytes: &[u8],
) -> Result<()> {
    let put = |flatbuffer: &mut [u8], at: usize, value: usize| {
        let place = flatbuffer.get_mut(at..at + 4).ok_or_else(|| damaged("a segment is outside of it"))?;
        place.copy_from_slice(&(value as u32).to_le_bytes());
        Ok::<_, Error>(())
    };
    if let Some(was) = room {
        let room = flatbuffer.get_mut(was.clone()).ok_or_else(|| damaged("a segment is outside of it"))?;
        room.fill(0);
        if let Some(room) = room.get_mut(..bytes.len()) {
            room.copy_from_slice(bytes);
            return put(flatbuffer, was.start - 4, bytes.len());
        }
    }
    let vector = (start + flatbuffer.len() + 4).next_multiple_of(EMBEDDED_ALIGNMENT) - start - 4;
    if vector + 4 + bytes.len() > MAX_FLATBUFFER_BYTES {
        return Err(Error::resource_exhausted("the flatbuffer of the module would exceed 2 GiB"));
    }
    flatbuffer.resize(vector + 4, 0);
    put(flatbuffer, vector, bytes.len())?;
    flatbuffer.extend_from_slice(bytes);
    // Flatbuffers end at a multiple of their alignment.
    flatbuffer.resize(flatbuffer.len().next_multiple_of(8), 0);
    put(flatbuffer, field, vector - field)
}

/// Minimum bytes of the header of a file: its fixed part, its name, and the extra fields of padding and of
/// 64-bit sizes.
fn header_bytes(name: &[u8]) -> usize {
    LOCAL_BYTES + name.len() + EXTRA_HEAD_BYTES + EXTRA_HEAD_BYTES + 16
}

/// A file at its place in the new archive.
struct Placed<'a> {
    name: &'a [u8],
    header_at: usize,
    /// Of its bytes.
    start: usize,
    bytes: &'a [u8],
    /// How many of them the archive lists.
    listed: usize,
}

impl Placed<'_> {
    fn checksum(&self) -> u32 {
        crc32fast::hash(&self.bytes[..self.listed])
    }

    fn write_header(&self, out: &mut Vec<u8>) -> Result<()> {
        let padding = (self.start - self.header_at).checked_sub(header_bytes(self.name));
        let padding = padding.ok_or_else(|| damaged("a header of the archive has no room"))?;
        let extra = u16::try_from(padding + 2 * EXTRA_HEAD_BYTES + 16)
            .map_err(|_| damaged("a header of the archive is too large"))?;
        words(out, &[LOCAL]);
        halves(out, &[VERSION, 0, 0, 0, DATE]);
        words(out, &[self.checksum(), IN_EXTRA, IN_EXTRA]);
        halves(out, &[self.name.len() as u16, extra]);
        out.extend_from_slice(self.name);
        halves(out, &[EXTRA_PADDING, padding as u16]);
        out.resize(out.len() + padding, 0);
        halves(out, &[EXTRA_64, 16]);
        longs(out, &[self.listed, self.listed]);
        Ok(())
    }
}

/// Writes the directory at the end of an archive.
fn write_directory(files: &[Placed<'_>], out: &mut Vec<u8>) {
    let start = out.len();
    for file in files {
        words(out, &[CENTRAL]);
        halves(out, &[MADE_BY, VERSION, 0, 0, 0, DATE]);
        words(out, &[file.checksum(), IN_EXTRA, IN_EXTRA]);
        halves(out, &[file.name.len() as u16, (EXTRA_HEAD_BYTES + 24) as u16, 0, 0, 0]);
        words(out, &[0, IN_EXTRA]);
        out.extend_from_slice(file.name);
        halves(out, &[EXTRA_64, 24]);
        longs(out, &[file.listed, file.listed, file.header_at]);
    }
    let (end, count) = (out.len(), files.len());
    words(out, &[END_64]);
    longs(out, &[44]);
    halves(out, &[VERSION, VERSION]);
    words(out, &[0, 0]);
    longs(out, &[count, count, end - start, start]);
    words(out, &[LOCATOR_64, 0]);
    longs(out, &[end]);
    words(out, &[1, END]);
    halves(out, &[0, 0, count.min(0xffff) as u16, count.min(0xffff) as u16]);
    words(out, &[u32::try_from(end - start).unwrap_or(IN_EXTRA), IN_EXTRA]);
    halves(out, &[0]);
}

fn halves(out: &mut Vec<u8>, values: &[u16]) {
    values.iter().for_each(|value| out.extend_from_slice(&value.to_le_bytes()));
}

fn words(out: &mut Vec<u8>, values: &[u32]) {
    values.iter().for_each(|value| out.extend_from_slice(&value.to_le_bytes()));
}

fn longs(out: &mut Vec<u8>, values: &[usize]) {
    values.iter().for_each(|value| out.extend_from_slice(&(*value as u64).to_le_bytes()));
}

/// The files of an archive, in the order of its directory; `None` if it has no directory without a comment
/// at its end, or one that does not fit.
fn read_directory(bytes: &[u8]) -> Option<Vec<Entry>> {
    let end_at = bytes.len().checked_sub(END_BYTES)?;
    let mut end = Cursor::new(&bytes[end_at..]);
    if end.u32()? != END {
        return None;
    }
    end.take(6)?;
    let (mut count, _size) = (u64::from(end.u16()?), end.u32()?);
    let mut start = u64::from(end.u32()?);
    let locator = end_at.checked_sub(LOCATOR_64_BYTES).and_then(|at| bytes.get(at..end_at));
    if let Some(locator) = locator.filter(|locator| locator.starts_with(&LOCATOR_64.to_le_bytes())) {
        let mut locator = Cursor::new(locator.get(8..)?);
        let mut end = Cursor::new(bytes.get(usize::try_from(locator.u64()?).ok()?..)?);
        if end.u32()? != END_64 {
            return None;
        }
        end.take(28)?;
        count = end.u64()?;
        end.take(8)?;
        start = end.u64()?;
    }
    let mut cursor = Cursor::new(bytes.get(usize::try_from(start).ok()?..)?);
    let mut entries = Vec::new();
    for _ in 0..count {
        entries.push(read_entry(bytes, &mut cursor)?);
    }
    Some(entries)
}

/// The next file of a directory; `None` if it is compressed.
fn read_entry(bytes: &[u8], cursor: &mut Cursor<'_>) -> Option<Entry> {
    if cursor.u32()? != CENTRAL {
        return None;
    }
    cursor.take(6)?;
    let method = cursor.u16()?;
    cursor.take(8)?;
    let (packed, size) = (cursor.u32()?, cursor.u32()?);
    let (name, extra, comment) = (cursor.u16()?, cursor.u16()?, cursor.u16()?);
    cursor.take(8)?;
    let header_at = cursor.u32()?;
    let name = cursor.take(usize::from(name))?;
    let mut extra = Cursor::new(cursor.take(usize::from(extra))?);
    cursor.take(usize::from(comment))?;
    let (mut size_64, mut header_64) = (u64::from(size), u64::from(header_at));
    while extra.remaining() >= EXTRA_HEAD_BYTES {
        let (tag, length) = (extra.u16()?, extra.u16()?);
        let mut field = Cursor::new(extra.take(usize::from(length))?);
        if tag == EXTRA_64 {
            if size == IN_EXTRA {
                size_64 = field.u64()?;
            }
            if packed == IN_EXTRA {
                field.u64()?;
            }
            if header_at == IN_EXTRA {
                header_64 = field.u64()?;
            }
        }
    }
    let header = usize::try_from(header_64).ok()?;
    let mut local = Cursor::new(bytes.get(header..)?);
    if method != 0 || local.u32()? != LOCAL {
        return None;
    }
    local.take(22)?;
    let lengths = usize::from(local.u16()?) + usize::from(local.u16()?);
    let start = header.checked_add(LOCAL_BYTES + lengths)?;
    let end = start.checked_add(usize::try_from(size_64).ok()?)?;
    (end <= bytes.len()).then(|| Entry { name: name.to_vec(), data: start..end })
}
