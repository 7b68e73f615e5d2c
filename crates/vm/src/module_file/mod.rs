//! Module files: what `iree-compile` writes, read in place.
//!
//! [`ModuleFile::read`] checks every offset, length and table of a file once; what it returns then is borrowed from
//! the file's bytes. The bytecode itself is not looked at here: `verify` does that, function by function.

mod archive;
mod check;
mod debug;
pub mod schema;
pub mod table;
mod verify;
mod views;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use rehal_base::{Fault, FormatError, HostMemory, MappedFile, Result};

pub use debug::{DebugDatabase, FunctionSourceMap, Location};
pub(crate) use views::RawDescriptor;
pub use views::{
    Attribute, BytecodeVersion, Dependency, Export, Features, FunctionDescriptor, Import, RodataSegment,
    Signature,
};

use archive::Layout;
use schema::id;
use table::Table;

/// The word that errors call the format by.
const FORMAT: &str = "module";

/// A module whose tables have been verified.
///
/// Every list is indexed as the bytecode indexes it: types by type id, imports and functions by ordinal, rodata and
/// rwdata segments by ordinal. Offsets are bytes from the first byte of [`ModuleFile::bytes`] unless said otherwise.
#[derive(Clone)]
pub struct ModuleFile {
    /// Constant: [`HostMemory::constant_bytes`] yields the file.
    memory: Arc<HostMemory>,
    layout: Layout,
}

impl fmt::Debug for ModuleFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModuleFile").field("name", &self.name()).finish_non_exhaustive()
    }
}

impl ModuleFile {
    /// Reads a module that is the whole of `memory`, which must be immutable: a flatbuffer behind its length,
    /// perhaps with a ZIP header before it, and external rodata behind it. Nothing is copied, and what is needed of the
    /// memory is kept with it.
    ///
    /// Checks all that does not need the modules it imports from or its bytecode: at least what release 3.13.0 checks,
    /// and moreover that texts are UTF-8, that counts are not negative, that reserved fields are 0, and that
    /// locations of the debug database exist. Takes time and memory linear in the size of the flatbuffer.
    pub fn read(memory: Arc<HostMemory>) -> std::result::Result<Self, FormatError> {
        let this = Self::inspect(memory)?;
        check::check(&this)?;
        Ok(this)
    }

    /// Reads a module's tables as [`ModuleFile::read`] does, without checking their contents: the module may be of
    /// another version, or have dangling references. For printing it, never for executing it.
    pub fn inspect(memory: Arc<HostMemory>) -> std::result::Result<Self, FormatError> {
        let Some(bytes) = memory.constant_bytes() else {
            let expected = "immutable memory";
            return Err(FormatError::new(
                FORMAT,
                Fault::Unsupported,
                0,
                "memory",
                expected,
                "writable memory",
            ));
        };
        let layout = Layout::read(bytes)?;
        verify::verify(&bytes[layout.flatbuffer.clone()], layout.flatbuffer.start, &schema::MODULE)?;
        Ok(Self { memory, layout })
    }

    /// Reads the module that is the whole of a mapped file. Fails as [`ModuleFile::read`], and says which file.
    pub fn map(file: Arc<MappedFile>) -> Result<Self> {
        let place = format!("'{}'", file.path().display());
        let whole = rehal_base::Range { offset: 0, length: file.bytes().len() as u64 };
        let memory = HostMemory::over_file(file, whole)?;
        Self::read(Arc::new(memory)).map_err(|error| rehal_base::Error::from(error).context(place))
    }

    /// Reads a module from a copy of `bytes`. Fails as [`ModuleFile::read`], and if memory is exhausted.
    pub fn copy(bytes: &[u8]) -> Result<Self> {
        Ok(Self::read(Arc::new(HostMemory::constant(bytes)?))?)
    }

    /// The memory that the file is in, for who shares parts of it.
    pub fn memory(&self) -> &Arc<HostMemory> {
        &self.memory
    }

    /// All bytes of the file.
    pub fn bytes(&self) -> &[u8] {
        self.memory.constant_bytes().unwrap_or(&[])
    }

    /// The range of the flatbuffer, without its length prefix.
    pub fn flatbuffer_range(&self) -> Range<usize> {
        self.layout.flatbuffer.clone()
    }

    /// The flatbuffer.
    pub fn flatbuffer(&self) -> &[u8] {
        self.bytes().get(self.flatbuffer_range()).unwrap_or(&[])
    }

    /// The flatbuffer's root table, for printing the file as it is.
    pub fn root(&self) -> Table<'_> {
        Table::root(self.flatbuffer())
    }

    /// The base of external rodata: the first multiple of 64 bytes behind the flatbuffer.
    pub fn external_rodata_start(&self) -> usize {
        self.layout.rodata_start
    }

    /// The module's name, not empty.
    pub fn name(&self) -> &str {
        self.root().text(id::MODULE_NAME).unwrap_or_default()
    }

    /// The version that others can ask for.
    pub fn version(&self) -> u32 {
        self.root().u32(id::MODULE_VERSION, 0)
    }

    /// The version of the instruction set; one that we read.
    pub fn bytecode_version(&self) -> BytecodeVersion {
        BytecodeVersion::from_bits(self.root().u32(id::MODULE_BYTECODE_VERSION, 0))
    }

    /// The features that the module requires, all of them supported.
    pub fn requirements(&self) -> Features {
        Features(self.root().u32(id::MODULE_REQUIREMENTS, 0))
    }

    /// The module's attributes.
    pub fn attributes(&self) -> impl ExactSizeIterator<Item = Attribute<'_>> + Clone {
        self.root().tables(id::MODULE_ATTRS).iter().map(Attribute::read)
    }

    /// Full names of the types, as the file spells them: `i32`, `!hal.buffer`. Their positions are the type ids of the
    /// bytecode.
    pub fn types(&self) -> impl ExactSizeIterator<Item = &str> + Clone {
        self.root().tables(id::MODULE_TYPES).iter().map(|t| t.text(id::TYPE_FULL_NAME).unwrap_or_default())
    }

    /// Full name of the type of that id.
    pub fn type_name(&self, id: usize) -> Option<&str> {
        self.root().tables(id::MODULE_TYPES).get(id)?.text(id::TYPE_FULL_NAME)
    }

    /// Modules that it needs, in the order in which they are looked for.
    pub fn dependencies(&self) -> impl ExactSizeIterator<Item = Dependency<'_>> + Clone {
        self.root().tables(id::MODULE_DEPENDENCIES).iter().map(Dependency::read)
    }

    /// Functions that it takes from others.
    pub fn imports(&self) -> impl ExactSizeIterator<Item = Import<'_>> + Clone {
        self.root().tables(id::MODULE_IMPORTS).iter().map(Import::read)
    }

    /// The import of that ordinal.
    pub fn import(&self, ordinal: usize) -> Option<Import<'_>> {
        self.root().tables(id::MODULE_IMPORTS).get(ordinal).map(Import::read)
    }

    /// Functions that others can call, in the order of their ordinals.
    pub fn exports(&self) -> impl ExactSizeIterator<Item = Export<'_>> + Clone {
        self.root().tables(id::MODULE_EXPORTS).iter().map(Export::read)
    }

    /// Number of functions that the module defines.
    pub fn function_count(&self) -> usize {
        self.root().vector(id::MODULE_FUNCTIONS).map_or(0, |v| v.len())
    }

    /// The function of that ordinal.
    pub fn function(&self, ordinal: usize) -> Option<FunctionDescriptor> {
        FunctionDescriptor::read(self.root().vector(id::MODULE_FUNCTIONS)?.element(ordinal)?)
    }

    /// All functions, in the order of their ordinals.
    pub fn functions(&self) -> impl ExactSizeIterator<Item = FunctionDescriptor> + '_ {
        (0..self.function_count()).map(|ordinal| self.function(ordinal).unwrap_or_default())
    }

    /// The signature of the function of that ordinal; there is one for each.
    pub fn signature(&self, ordinal: usize) -> Option<Signature<'_>> {
        self.root().tables(id::MODULE_SIGNATURES).get(ordinal).map(Signature::read)
    }

    /// The instructions of all functions.
    pub fn bytecode(&self) -> &[u8] {
        self.root().vector(id::MODULE_BYTECODE).map_or(&[], |v| v.bytes())
    }

    /// The range of [`ModuleFile::bytecode`] in the file.
    pub fn bytecode_range(&self) -> Range<usize> {
        let start = self.layout.flatbuffer.start;
        self.root().vector(id::MODULE_BYTECODE).map_or(0..0, |v| start + v.at()..start + v.at() + v.len())
    }

    /// The instructions of the function of that ordinal.
    pub fn function_bytecode(&self, ordinal: usize) -> Option<&[u8]> {
        self.bytecode().get(self.function(ordinal)?.bytecode)
    }

    /// Number of rodata segments.
    pub fn rodata_count(&self) -> usize {
        self.root().tables(id::MODULE_RODATA).len()
    }

    /// The rodata segment of that ordinal.
    pub fn rodata(&self, ordinal: usize) -> Option<RodataSegment> {
        let table = self.root().tables(id::MODULE_RODATA).get(ordinal)?;
        Some(RodataSegment::read(table, &self.layout))
    }

    /// All rodata segments.
    pub fn rodata_segments(&self) -> impl ExactSizeIterator<Item = RodataSegment> + Clone + '_ {
        self.root().tables(id::MODULE_RODATA).iter().map(|table| RodataSegment::read(table, &self.layout))
    }

    /// Bytes of each rwdata segment.
    pub fn rwdata_sizes(&self) -> impl ExactSizeIterator<Item = u32> + Clone + '_ {
        self.root().tables(id::MODULE_RWDATA).iter().map(|t| t.i32(id::RWDATA_BYTE_SIZE).max(0) as u32)
    }

    /// Bytes that each context keeps for global numbers, 0 at first.
    pub fn global_bytes(&self) -> usize {
        self.state(id::STATE_GLOBAL_BYTES)
    }

    /// Refs that each context keeps as globals, null at first.
    pub fn global_ref_count(&self) -> usize {
        self.state(id::STATE_GLOBAL_REFS)
    }

    fn state(&self, field: usize) -> usize {
        self.root().table(id::MODULE_STATE).map_or(0, |state| state.i32(field).max(0) as usize)
    }

    /// The debug database, unless it has been stripped.
    pub fn debug_database(&self) -> Option<DebugDatabase<'_>> {
        self.root().table(id::MODULE_DEBUG).map(DebugDatabase::read)
    }
}
