//! Module files written by `iree-compile`, read in place.
//!
//! [`ModuleFile::read`] checks every offset, length and table of a file once; accessors then borrow from the
//! file's bytes. The bytecode itself is verified by `verify`, function by function.

mod archive;
mod consistency;
mod debug;
mod rewrite;
pub mod schema;
mod uses;
mod values;
mod views;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use rehal_base::flatbuffer::{self, Envelope, Table};
use rehal_base::{Fault, FormatError, HostMemory, MappedFile, Result};

pub use debug::{DebugDatabase, FunctionSourceMap, Location};
pub use uses::{KnownArgument, KnownArguments};
pub(crate) use views::RawDescriptor;
pub use views::{
    Attribute, BytecodeVersion, Dependency, Export, Features, FunctionDescriptor, Import, RodataSegment,
    Signature,
};

use archive::{FORMAT, Layout};
use schema::id;

/// The flatbuffer of a module.
static ENVELOPE: Envelope = Envelope {
    format: FORMAT,
    identifier: b"IREE",
    prefix_bytes: archive::PREFIX_BYTES,
    root: &schema::MODULE,
};

/// A module whose tables have been verified.
///
/// Every list is indexed like the bytecode indexes it: types by type id, imports and functions by ordinal,
/// rodata and rwdata segments by ordinal. Offsets are bytes from the first byte of [`ModuleFile::bytes`]
/// unless noted.
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
    /// Reads a module that occupies all of `memory`, which must be immutable: a flatbuffer with its length
    /// prefix, optionally after a ZIP header, and external rodata after it. Zero-copy: the module keeps a
    /// reference to the memory.
    ///
    /// Checks everything that requires neither the imported modules nor the bytecode: at least what release
    /// 3.13.0 checks, and also that text is UTF-8, counts are not negative, reserved fields are 0, and
    /// locations of the debug database exist. Takes time and memory linear in the size of the flatbuffer.
    pub fn read(memory: Arc<HostMemory>) -> std::result::Result<Self, FormatError> {
        let this = Self::inspect(memory)?;
        consistency::check(&this)?;
        Ok(this)
    }

    /// Reads a module's tables like [`ModuleFile::read`], without checking their contents: the module may
    /// have another version or dangling references. For printing only, never for execution.
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
        flatbuffer::verify(&bytes[layout.flatbuffer.clone()], layout.flatbuffer.start, &ENVELOPE)?;
        Ok(Self { memory, layout })
    }

    /// Reads the module in a mapped file. Fails like [`ModuleFile::read`]; the error names the file.
    pub fn map(file: Arc<MappedFile>) -> Result<Self> {
        let place = format!("'{}'", file.path().display());
        let whole = rehal_base::Range { offset: 0, length: file.bytes().len() as u64 };
        let memory = HostMemory::over_file(file, whole)?;
        Self::read(Arc::new(memory)).map_err(|error| rehal_base::Error::from(error).context(place))
    }

    /// Reads a module from a copy of `bytes`. Fails like [`ModuleFile::read`], and if memory is exhausted.
    pub fn copy(bytes: &[u8]) -> Result<Self> {
        Ok(Self::read(Arc::new(HostMemory::constant(bytes)?))?)
    }

    /// The memory that holds the file, for sharing parts of it.
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

    /// The flatbuffer's root table, for printing the raw file.
    pub fn root(&self) -> Table<'_> {
        Table::root(self.flatbuffer())
    }

    /// The base of external rodata: the first multiple of 64 bytes after the flatbuffer.
    pub fn external_rodata_start(&self) -> usize {
        self.layout.rodata_start
    }

    /// The module's name; never empty.
    pub fn name(&self) -> &str {
        self.root().text(id::MODULE_NAME).unwrap_or_default()
    }

    /// The version that dependents can require.
    pub fn version(&self) -> u32 {
        self.root().u32(id::MODULE_VERSION, 0)
    }

    /// The version of the instruction set; always a supported one.
    pub fn bytecode_version(&self) -> BytecodeVersion {
        BytecodeVersion::from_bits(self.root().u32(id::MODULE_BYTECODE_VERSION, 0))
    }

    /// The features that the module requires, all supported.
    pub fn requirements(&self) -> Features {
        Features(self.root().u32(id::MODULE_REQUIREMENTS, 0))
    }

    /// The module's attributes.
    pub fn attributes(&self) -> impl ExactSizeIterator<Item = Attribute<'_>> + Clone {
        self.root().tables(id::MODULE_ATTRS).iter().map(Attribute::read)
    }

    /// Full names of the types, as spelled in the file: `i32`, `!hal.buffer`. Their positions are the
    /// bytecode's type ids.
    pub fn types(&self) -> impl ExactSizeIterator<Item = &str> + Clone {
        self.root().tables(id::MODULE_TYPES).iter().map(|t| t.text(id::TYPE_FULL_NAME).unwrap_or_default())
    }

    /// Full name of the type with this id.
    pub fn type_name(&self, id: usize) -> Option<&str> {
        self.root().tables(id::MODULE_TYPES).get(id)?.text(id::TYPE_FULL_NAME)
    }

    /// Modules that it depends on, in lookup order.
    pub fn dependencies(&self) -> impl ExactSizeIterator<Item = Dependency<'_>> + Clone {
        self.root().tables(id::MODULE_DEPENDENCIES).iter().map(Dependency::read)
    }

    /// Functions that it imports.
    pub fn imports(&self) -> impl ExactSizeIterator<Item = Import<'_>> + Clone {
        self.root().tables(id::MODULE_IMPORTS).iter().map(Import::read)
    }

    /// The import with this ordinal.
    pub fn import(&self, ordinal: usize) -> Option<Import<'_>> {
        self.root().tables(id::MODULE_IMPORTS).get(ordinal).map(Import::read)
    }

    /// Exported functions, in order of their ordinals.
    pub fn exports(&self) -> impl ExactSizeIterator<Item = Export<'_>> + Clone {
        self.root().tables(id::MODULE_EXPORTS).iter().map(Export::read)
    }

    /// Number of functions that the module defines.
    pub fn function_count(&self) -> usize {
        self.root().vector(id::MODULE_FUNCTIONS).map_or(0, |v| v.len())
    }

    /// The function with this ordinal.
    pub fn function(&self, ordinal: usize) -> Option<FunctionDescriptor> {
        FunctionDescriptor::read(self.root().vector(id::MODULE_FUNCTIONS)?.element(ordinal)?)
    }

    /// All functions, in order of their ordinals.
    pub fn functions(&self) -> impl ExactSizeIterator<Item = FunctionDescriptor> + '_ {
        (0..self.function_count()).map(|ordinal| self.function(ordinal).unwrap_or_default())
    }

    /// The signature of the function with this ordinal; every function has one.
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

    /// The instructions of the function with this ordinal.
    pub fn function_bytecode(&self, ordinal: usize) -> Option<&[u8]> {
        self.bytecode().get(self.function(ordinal)?.bytecode)
    }

    /// Number of rodata segments.
    pub fn rodata_count(&self) -> usize {
        self.root().tables(id::MODULE_RODATA).len()
    }

    /// The rodata segment with this ordinal.
    pub fn rodata(&self, ordinal: usize) -> Option<RodataSegment> {
        let table = self.root().tables(id::MODULE_RODATA).get(ordinal)?;
        Some(RodataSegment::read(table, &self.layout))
    }

    /// All rodata segments.
    pub fn rodata_segments(&self) -> impl ExactSizeIterator<Item = RodataSegment> + Clone + '_ {
        self.root().tables(id::MODULE_RODATA).iter().map(|table| RodataSegment::read(table, &self.layout))
    }

    /// Bytes of global numbers per context, initially 0.
    pub fn global_bytes(&self) -> usize {
        self.state(id::STATE_GLOBAL_BYTES)
    }

    /// Global references per context, initially null.
    pub fn global_ref_count(&self) -> usize {
        self.state(id::STATE_GLOBAL_REFS)
    }

    fn state(&self, field: usize) -> usize {
        self.root().table(id::MODULE_STATE).map_or(0, |state| state.i32(field).max(0) as usize)
    }

    /// The debug database, unless stripped.
    pub fn debug_database(&self) -> Option<DebugDatabase<'_>> {
        self.root().table(id::MODULE_DEBUG).map(DebugDatabase::read)
    }
}
