//! The library of an executable, read from the file: its table has a form of its own among the words that are
//! relocated.

use std::cell::Cell;

use object::LittleEndian as LE;
use object::elf::PT_NOTE;
use rehal_base::{Error, Result};
use rehal_hal::{FunctionInfo, FunctionParameter};

use super::super::abi;
use super::view::{MAX_NAME, View};
use crate::executable::elf::{Segment, X86_64, u32_at, u64_at};

/// Offsets of fields in the library's table, and of its parts.
pub(super) const IMPORTS: u64 = 8;
pub(super) const IMPORT_NAMES: u64 = 16;
const EXPORTS: u64 = 24;
const FUNCTIONS: u64 = 32;
const ATTRIBUTES: u64 = 40;
const PARAMETERS: u64 = 48;
const NAMES: u64 = 64;
const PARAMETER_NAMES: u64 = 80;
const CONSTANTS: u64 = 104;
const LIBRARY_BYTES: u64 = size_of::<abi::LibraryTable>() as u64;
const ATTRIBUTE_BYTES: u64 = size_of::<abi::DispatchAttrs>() as u64;
/// Of the attributes of a function.
pub(super) const LOCAL_MEMORY_PAGES: u64 = 8;

/// More functions than any executable has.
const MAX_COUNT: u32 = 1 << 20;
/// The owner of the note that says which functions are not the compiler's.
pub(super) const NOTE_OWNER: &[u8; 8] = b"rehal\0\0\0";

/// The library of an ELF executable, as its file says. Nothing is loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElfLibrary {
    /// The library's own name; may be empty.
    pub name: String,
    /// Its functions, by ordinal.
    pub functions: Vec<FunctionInfo>,
    /// Image-relative addresses of their code.
    pub addresses: Vec<u64>,
    /// Pages of workgroup local memory that each needs.
    pub local_memory_pages: Vec<u16>,
    /// The functions of the host that it calls, by the index with which it calls them.
    pub imports: Vec<String>,
    /// Specialization constants.
    pub constant_count: u32,
    /// The functions that [`replace_functions`](super::replace_functions) has replaced.
    pub replaced: Vec<ReplacedBy>,
    pub(super) places: Places,
}

/// The replacement of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplacedBy {
    /// The ordinal of the function.
    pub function: u32,
    /// The name of the file that it is from.
    pub source: String,
}

/// Image-relative addresses of the parts of a library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Places {
    pub(super) table: u64,
    pub(super) functions: u64,
    pub(super) attributes: u64,
    pub(super) import_names: Vec<u64>,
}

impl ElfLibrary {
    /// Reads the library of an image for x86-64 or 64-bit ARM.
    pub fn read(bytes: &[u8]) -> Result<Self> {
        Self::of(&View::read(bytes)?)
    }

    pub(super) fn of(view: &View<'_>) -> Result<Self> {
        let Some((_, query)) = view.dynamic.find(abi::QUERY_SYMBOL) else {
            let message = format!("the image does not export '{}'", abi::QUERY_SYMBOL);
            return Err(Error::not_found(message).advise("name a library of kernels"));
        };
        let budget = Budget::new(view);
        let found = view.pointer_places().into_iter().filter_map(|at| Self::at(view, at, &budget));
        let mut found: Vec<_> = found.take(MAX_TABLES).collect();
        if found.len() > 1 {
            let near: Vec<_> = addresses_in_code(view, query.st_value.get(LE));
            let is_returned = |it: &Self| {
                near.iter().any(|at| *at == it.places.table || view.pointer(*at) == Some(it.places.table))
            };
            found.retain(is_returned);
        }
        match (found.pop(), found.is_empty()) {
            (Some(only), true) => Ok(Self { replaced: replaced(view), ..only }),
            (Some(_), false) => Err(Error::unimplemented("the image has several tables of functions")),
            (None, _) if let Some(fault) = budget.fault.get() => {
                Err(Error::resource_exhausted(format!("the table of functions of the image has {fault}")))
            }
            (None, _) => Err(Error::unimplemented(
                "the image has no table of functions with constant contents: its query function makes one when it runs",
            )
            .advise("define the table as a constant, as a stub of the kernel does")),
        }
    }

    /// The library whose table is at an address; `None` if the words there are something else.
    fn at(view: &View<'_>, table: u64, budget: &Budget) -> Option<Self> {
        let header = view.pointer(table)?;
        let is_header = view.integer(header)? == abi::VERSION
            && view.integer(header + 16)? == 0
            && view.integer(header + 20)? <= 4
            && header % 8 == 0
            && view.integer(table + LIBRARY_BYTES - 4).is_some();
        let count = view.integer(table + EXPORTS).filter(|it| is_header && *it < MAX_COUNT)?;
        let (functions, attributes, names) = match count {
            0 => return None,
            _ => (
                view.pointer(table + FUNCTIONS)?,
                view.pointer(table + ATTRIBUTES)?,
                view.pointer(table + NAMES)?,
            ),
        };
        let mut this = Self {
            name: view.pointer(header + 8).and_then(|it| budget.text(view, it)).unwrap_or_default(),
            functions: Vec::new(),
            addresses: Vec::new(),
            local_memory_pages: Vec::new(),
            imports: Vec::new(),
            constant_count: view.integer(table + CONSTANTS)?,
            replaced: Vec::new(),
            places: Places { table, functions, attributes, import_names: Vec::new() },
        };
        for index in 0..view.integer(table + IMPORTS).filter(|it| *it < MAX_COUNT)? {
            let name = view.pointer(view.pointer(table + IMPORT_NAMES)? + u64::from(index) * 8)?;
            this.places.import_names.push(name);
            this.imports.push(budget.text(view, name)?);
        }
        for ordinal in 0..u64::from(count) {
            let code = view.pointer(functions + ordinal * 8).filter(|it| view.is_code(*it))?;
            let attributes = view.memory(attributes + ordinal * ATTRIBUTE_BYTES, ATTRIBUTE_BYTES)?;
            let name = budget.text(view, view.pointer(names + ordinal * 8)?).filter(|it| !it.is_empty())?;
            this.addresses.push(code);
            this.local_memory_pages.push(u32_at(attributes, LOCAL_MEMORY_PAGES as usize) as u16);
            this.functions.push(function(view, budget, (table, ordinal), name, attributes)?);
        }
        Some(this)
    }

    /// The ordinal of a function.
    pub fn find(&self, name: &str) -> Option<u32> {
        FunctionInfo::find(&self.functions, name)
    }
}

/// Tables that are looked at: an image has one, or one for each version of the ABI.
const MAX_TABLES: usize = 64;

/// The bytes that may be read of names and parameters: many functions of a small file may have the same ones.
struct Budget {
    bytes: Cell<u64>,
    fault: Cell<Option<&'static str>>,
}

impl Budget {
    /// More than any image has for itself.
    fn new(view: &View<'_>) -> Self {
        let bytes = (16 << 20) + 16 * view.bytes.len() as u64;
        Self { bytes: Cell::new(bytes), fault: Cell::new(None) }
    }

    fn spend(&self, bytes: usize) -> Option<()> {
        let left = self.bytes.get().checked_sub(bytes as u64);
        if left.is_none() {
            self.fault.set(Some("names and parameters of several times the size of the file"));
        }
        self.bytes.set(left?);
        Some(())
    }

    fn text(&self, view: &View<'_>, at: u64) -> Option<String> {
        let text = view.text(at)?;
        if text.len() > MAX_NAME {
            self.fault.set(Some("a name of more than 4096 bytes"));
            return None;
        }
        self.spend(text.len())?;
        Some(String::from_utf8_lossy(text).into_owned())
    }
}

fn function(
    view: &View<'_>,
    budget: &Budget,
    (table, ordinal): (u64, u64),
    name: String,
    attributes: &[u8],
) -> Option<FunctionInfo> {
    let parameter_count = (u32_at(attributes, 20) >> 16) as u16;
    let parameters = view.pointer(table + PARAMETERS).and_then(|it| view.pointer(it + ordinal * 8));
    let name_table = view.pointer(table + PARAMETER_NAMES);
    let parameter = |at: u64| {
        let bytes = u64_at(view.memory(at, 8)?, 0).to_le_bytes();
        let index = u64::from(u16::from_le_bytes([bytes[4], bytes[5]]));
        let name = name_table.filter(|_| index != u64::from(u16::MAX));
        let name = name.and_then(|it| budget.text(view, view.pointer(it + index * 8)?));
        Some(FunctionParameter {
            kind: if bytes[0] <= 2 { bytes[0] } else { 0 },
            size: bytes[1],
            flags: u16::from_le_bytes([bytes[2], bytes[3]]),
            offset: u16::from_le_bytes([bytes[6], bytes[7]]),
            name: name.unwrap_or_default(),
        })
    };
    budget.spend(parameters.map_or(0, |_| usize::from(parameter_count) * size_of::<FunctionParameter>()))?;
    let parameters = parameters.map_or_else(Vec::new, |at| {
        (0..u64::from(parameter_count)).map_while(|index| parameter(at + index * 8)).collect()
    });
    Some(FunctionInfo {
        name,
        flags: u64_at(attributes, 0) & 0b11,
        workgroup_size: [u32_at(attributes, 12), u32_at(attributes, 16), u32_at(attributes, 20) & 0xFFFF],
        constant_count: u16::from(attributes[10]),
        binding_count: u16::from(attributes[11]),
        parameter_count,
        parameters,
    })
}

/// Addresses that the first instructions of a function compute.
fn addresses_in_code(view: &View<'_>, start: u64) -> Vec<u64> {
    /// More than a query function has.
    const BYTES: u64 = 256;
    let segment = view.loads().find(|it| it.vaddr <= start && start < it.vaddr + it.file_size);
    let length = segment.map_or(0, |it| BYTES.min(it.vaddr + it.file_size - start));
    let Some(code) = view.memory(start, length) else { return Vec::new() };
    if view.machine == X86_64 {
        let distance = |at: usize| i64::from(u32_at(code, at) as i32);
        let after = |at: usize| start.wrapping_add(at as u64 + 4).wrapping_add_signed(distance(at));
        return (0..code.len().saturating_sub(4)).map(after).collect();
    }
    // A page, and an offset in it by one of the next instructions.
    let mut pages = [None; 32];
    let mut found = Vec::new();
    for (index, bytes) in code.as_chunks::<4>().0.iter().enumerate() {
        let instruction = u32::from_le_bytes(*bytes);
        let (target, base) = (instruction as usize & 31, (instruction >> 5) as usize & 31);
        let immediate = ((((instruction >> 5) & 0x7_FFFF) << 2) | ((instruction >> 29) & 3)) << 11;
        let (distance, at) = (i64::from((immediate as i32) >> 11), start + index as u64 * 4);
        if instruction & 0x9F00_0000 == 0x9000_0000 {
            pages[target] = Some((at & !0xFFF).wrapping_add_signed(distance << 12));
        } else if instruction & 0x9F00_0000 == 0x1000_0000 {
            found.push(at.wrapping_add_signed(distance));
        } else if instruction & 0xFFC0_0000 == 0x9100_0000 {
            found.extend(pages[base].map(|it: u64| it.wrapping_add(u64::from((instruction >> 10) & 0xFFF))));
        } else if instruction & 0xFFC0_0000 == 0xF940_0000 {
            found.extend(
                pages[base].map(|it: u64| it.wrapping_add(u64::from((instruction >> 10) & 0xFFF) * 8)),
            );
        }
    }
    found
}

/// The replacements that an earlier rewriting has noted.
fn replaced(view: &View<'_>) -> Vec<ReplacedBy> {
    let Some(note) = note(view) else { return Vec::new() };
    let line = |line: &str| {
        let (function, source) = line.split_once('\t')?;
        Some(ReplacedBy { function: function.parse().ok()?, source: source.to_owned() })
    };
    String::from_utf8_lossy(note).lines().filter_map(line).collect()
}

/// Whether an entry of the program header table is the note of an earlier rewriting.
pub(super) fn is_note(view: &View<'_>, header: &Segment) -> bool {
    let bytes = (header.kind == PT_NOTE).then(|| view.memory(header.vaddr, 20)).flatten();
    bytes.is_some_and(|it| u32_at(it, 0) == 6 && it[12..].starts_with(NOTE_OWNER))
}

fn note<'a>(view: &View<'a>) -> Option<&'a [u8]> {
    let header = view.headers.iter().find(|it| is_note(view, it))?;
    let length = u64::from(u32_at(view.memory(header.vaddr, 20)?, 4));
    view.memory(header.vaddr + 20, length)
}
