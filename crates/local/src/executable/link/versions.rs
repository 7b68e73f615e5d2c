//! Versions of the symbols that images need of libraries: the system's loader binds another function of the
//! same name without them.

use std::collections::{BTreeMap, HashMap};

use object::elf::{DT_VERNEED, DT_VERSYM, hash};
use rehal_base::{Error, Result};

use super::place::Place;
use super::view::{View, damaged};
use crate::executable::elf::{u16_at, u32_at};

/// Bytes of an entry of a library, and of one of its versions.
const ENTRY_BYTES: u64 = 16;
/// The index of a symbol without a version, and the largest one.
const GLOBAL: u16 = 1;
const MAX_INDEX: u16 = 0x7FFF;

/// The version of a symbol of a library.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Version<'a> {
    library: &'a [u8],
    name: &'a [u8],
    /// Whether it may be missing, and what else the linker says.
    flags: u16,
}

/// The versions that an image needs.
pub(super) struct Versions<'a> {
    /// By the index that symbols have.
    needed: HashMap<u16, Version<'a>>,
    /// The indices of all symbols; empty if it has no versions.
    symbols: Vec<u16>,
}

impl<'a> Versions<'a> {
    pub(super) fn read(view: &View<'a>) -> Result<Self> {
        let mut symbols = Vec::new();
        if let Some(start) = view.tag(DT_VERSYM) {
            let bytes = view.memory(start, view.dynamic.symbols.entries.len() as u64 * 2);
            let bytes = bytes.ok_or_else(|| damaged("its versions are out of bounds"))?;
            symbols.extend(bytes.as_chunks::<2>().0.iter().map(|it| u16::from_le_bytes(*it)));
        }
        let mut this = Self { needed: HashMap::new(), symbols };
        let mut next_library = view.tag(DT_VERNEED);
        let mut count = 0;
        while let Some(at) = next_library {
            let entry = view.memory(at, ENTRY_BYTES).ok_or_else(out_of_bounds)?;
            let library = view.string(u32_at(entry, 4).into()).ok_or_else(out_of_bounds)?;
            let mut next = (u16_at(entry, 2) > 0).then(|| at + u64::from(u32_at(entry, 8)));
            while let Some(at) = next {
                let it = view.memory(at, ENTRY_BYTES).ok_or_else(out_of_bounds)?;
                let name = view.string(u32_at(it, 8).into()).ok_or_else(out_of_bounds)?;
                this.needed
                    .insert(u16_at(it, 6) & MAX_INDEX, Version { library, name, flags: u16_at(it, 4) });
                count += 1;
                if count > MAX_INDEX {
                    return Err(damaged("it needs more versions than it can number"));
                }
                next = after(at, u32_at(it, 12));
            }
            next_library = after(at, u32_at(entry, 12));
        }
        Ok(this)
    }

    /// The version of a symbol that the image needs, if it has one.
    pub(super) fn of(&self, symbol: u32) -> Option<Version<'a>> {
        let index = self.symbols.get(symbol as usize)? & MAX_INDEX;
        self.needed.get(&index).copied()
    }

    /// The tables with symbols that are added to `old` ones, each with its version. The image itself defines
    /// `defined` versions.
    pub(super) fn with(
        &self,
        old: usize,
        added: &[Option<Version<'a>>],
        defined: u64,
        place: &mut Place,
        mut add_string: impl FnMut(&[u8]) -> Result<u32>,
    ) -> Result<Option<Tables>> {
        let mut symbols = self.symbols.clone();
        if symbols.is_empty() && added.iter().all(Option::is_none) {
            return Ok(None);
        }
        // The first symbol is none.
        symbols.resize(old, GLOBAL);
        symbols.iter_mut().take(usize::from(self.symbols.is_empty())).for_each(|it| *it = 0);
        let mut numbered: BTreeMap<Version<'a>, u16> =
            self.needed.iter().map(|(at, it)| (*it, *at)).collect();
        let used = symbols.iter().map(|it| it & MAX_INDEX).chain(numbered.values().copied()).max();
        let mut last = used.unwrap_or(GLOBAL).max(GLOBAL).max(u16::try_from(defined).unwrap_or(MAX_INDEX));
        for version in added {
            let index = version.map(|it| {
                *numbered.entry(it).or_insert_with(|| {
                    last = last.saturating_add(1);
                    last
                })
            });
            symbols.push(index.unwrap_or(GLOBAL));
        }
        if last > MAX_INDEX {
            return Err(Error::resource_exhausted("the image has no numbers of versions left"));
        }
        let mut libraries: BTreeMap<&[u8], Vec<(Version<'a>, u16)>> = BTreeMap::new();
        for (version, index) in numbered {
            libraries.entry(version.library).or_default().push((version, index));
        }
        let mut needed = Vec::new();
        for (at, (library, versions)) in libraries.iter().enumerate() {
            let is_last = at + 1 == libraries.len();
            let bytes = ENTRY_BYTES as u32 * (versions.len() as u32 + 1);
            needed.extend(1u16.to_le_bytes());
            needed.extend((versions.len() as u16).to_le_bytes());
            let words = [add_string(library)?, ENTRY_BYTES as u32, if is_last { 0 } else { bytes }];
            needed.extend(words.iter().flat_map(|it| it.to_le_bytes()));
            for (at, (version, index)) in versions.iter().enumerate() {
                let is_last = at + 1 == versions.len();
                needed.extend(hash(version.name).to_le_bytes());
                needed.extend(version.flags.to_le_bytes());
                needed.extend(index.to_le_bytes());
                let words = [add_string(version.name)?, if is_last { 0 } else { ENTRY_BYTES as u32 }];
                needed.extend(words.iter().flat_map(|it| it.to_le_bytes()));
            }
        }
        let symbols: Vec<u8> = symbols.into_iter().flat_map(u16::to_le_bytes).collect();
        let symbols = place.add(&symbols);
        let needed = (!libraries.is_empty()).then(|| place.add(&needed));
        Ok(Some(Tables { symbols, needed, library_count: libraries.len() as u64 }))
    }
}

/// Addresses of the tables of versions.
pub(super) struct Tables {
    pub(super) symbols: u64,
    pub(super) needed: Option<u64>,
    pub(super) library_count: u64,
}

fn out_of_bounds() -> Error {
    damaged("its table of versions is out of bounds")
}

/// The entry after one, which says its distance.
fn after(at: u64, distance: u32) -> Option<u64> {
    (distance != 0).then(|| at.saturating_add(distance.into()))
}
