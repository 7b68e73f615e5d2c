use rehal_base::flatbuffer::{Table, Tables, Vector};

use super::schema::id;

/// The debug database of a module.
#[derive(Clone, Copy, Debug)]
pub struct DebugDatabase<'a> {
    tags: Option<Vector<'a>>,
    locations: Option<Vector<'a>>,
    functions: Tables<'a>,
}

/// A source location. Numbers are indices into the database's locations.
#[derive(Clone, Copy, Debug)]
pub enum Location<'a> {
    /// Unknown.
    Unknown,
    /// `callee` was inlined at `caller`.
    CallSite {
        /// The inlined function.
        callee: usize,
        /// The call site.
        caller: usize,
    },
    /// A position in a file.
    FileLineColumn {
        /// The file's name.
        filename: &'a str,
        /// Line, from 1.
        line: i32,
        /// Column, from 1.
        column: i32,
    },
    /// Several locations fused into one.
    Fused {
        /// The compiler's metadata.
        metadata: Option<&'a str>,
        /// The locations.
        locations: FusedLocations<'a>,
    },
    /// A named location.
    Named {
        /// The name.
        name: &'a str,
        /// The location, if known.
        child: Option<usize>,
    },
}

/// The locations that a fused location consists of, as indices.
#[derive(Clone, Copy, Debug)]
pub struct FusedLocations<'a>(Option<Vector<'a>>);

impl<'a> FusedLocations<'a> {
    /// All indices.
    pub fn iter(self) -> impl ExactSizeIterator<Item = usize> + Clone + use<'a> {
        let length = self.0.map_or(0, |vector| vector.len());
        (0..length).map(move |index| {
            let bytes = self.0.and_then(|vector| vector.element::<4>(index)).unwrap_or_default();
            u32::from_le_bytes(bytes) as usize
        })
    }
}

impl<'a> DebugDatabase<'a> {
    pub(super) fn read(table: Table<'a>) -> Self {
        Self {
            tags: table.vector(id::DEBUG_LOCATION_TAGS),
            locations: table.vector(id::DEBUG_LOCATIONS),
            functions: table.tables(id::DEBUG_FUNCTIONS),
        }
    }

    /// Number of locations.
    pub fn location_count(&self) -> usize {
        self.locations.map_or(0, |vector| vector.len())
    }

    /// The location at `index`. Locations refer to others and may form cycles in a hostile file, so callers
    /// that follow them must bound the depth.
    pub fn location(&self, index: usize) -> Option<Location<'a>> {
        let (tags, locations) = (self.tags?, self.locations?);
        let [tag] = tags.element::<1>(index)?;
        if tag == 0 {
            return Some(Location::Unknown);
        }
        let table = locations.table(index)?;
        let text = |id| table.text(id).unwrap_or_default();
        let index = |id| table.u32(id, 0) as usize;
        Some(match tag {
            1 => Location::CallSite {
                callee: index(id::CALL_SITE_CALLEE),
                caller: index(id::CALL_SITE_CALLER),
            },
            2 => Location::FileLineColumn {
                filename: text(id::FILE_NAME),
                line: table.i32(id::FILE_LINE),
                column: table.i32(id::FILE_COLUMN),
            },
            3 => Location::Fused {
                metadata: table.text(id::FUSED_METADATA),
                locations: FusedLocations(table.vector(id::FUSED_LOCATIONS)),
            },
            4 => Location::Named {
                name: text(id::NAMED_NAME),
                child: table.field(id::NAMED_CHILD).map(|_| index(id::NAMED_CHILD)),
            },
            _ => Location::Unknown,
        })
    }

    /// Number of functions with a source map. Release 3.13.0 writes fewer than there are functions.
    pub fn function_count(&self) -> usize {
        self.functions.len()
    }

    /// The source map at `index`: that of the function with this ordinal if each function has one, else
    /// possibly another function's (see [`DebugDatabase::of_function`]).
    pub fn function(&self, index: usize) -> Option<FunctionSourceMap<'a>> {
        let table = self.functions.get(index)?;
        Some(FunctionSourceMap {
            local_name: table.text(id::SOURCE_MAP_NAME).unwrap_or_default(),
            entries: table.vector(id::SOURCE_MAP_LOCATIONS),
        })
    }

    /// The source map of a function of a module with `function_count` functions: at its ordinal if each
    /// function has one, else the one with its name. Release 3.13.0 writes only that of the last function, as
    /// the first.
    pub fn of_function(
        &self,
        ordinal: usize,
        name: &str,
        function_count: usize,
    ) -> Option<FunctionSourceMap<'a>> {
        if self.function_count() == function_count {
            return self.function(ordinal);
        }
        let mut maps = (0..self.function_count()).filter_map(|index| self.function(index));
        maps.find(|map| map.local_name == name)
    }
}

/// The source map of one function.
#[derive(Clone, Copy, Debug)]
pub struct FunctionSourceMap<'a> {
    /// The function's name in the source, which may differ from its export's; may be empty.
    pub local_name: &'a str,
    entries: Option<Vector<'a>>,
}

impl FunctionSourceMap<'_> {
    /// Number of entries.
    pub fn len(&self) -> usize {
        self.entries.map_or(0, |vector| vector.len())
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Entry `index`: the offset in the function's bytecode where the location starts to apply, and the
    /// location's index. Entries are sorted by offset.
    pub fn entry(&self, index: usize) -> Option<(usize, usize)> {
        let bytes = self.entries?.element::<8>(index)?;
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        Some((word(0) as usize, word(4) as usize))
    }

    /// Index of the location of the function's instruction at `bytecode_offset`.
    pub fn location_at(&self, bytecode_offset: usize) -> Option<usize> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low.midpoint(high);
            if self.entry(middle)?.0 <= bytecode_offset {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Some(self.entry(low.checked_sub(1)?)?.1)
    }
}
