use std::fmt;
use std::ops::{BitOr, Range};

use rehal_base::flatbuffer::Table;

use super::archive::Layout;
use super::schema::{FEATURES, FUNCTION_DESCRIPTOR, id};

/// Bytes of a function descriptor.
const DESCRIPTOR_BYTES: usize = FUNCTION_DESCRIPTOR.size_bytes();
/// Flag bit of an import or dependency.
const FLAG_OPTIONAL: u32 = 1 << 1;

/// A key and a value, set by the module's author.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attribute<'a> {
    /// Its key.
    pub key: &'a str,
    /// Its value.
    pub value: &'a str,
}

impl<'a> Attribute<'a> {
    pub(super) fn read(table: Table<'a>) -> Self {
        let text = |id| table.text(id).unwrap_or_default();
        Self { key: text(id::ATTRIBUTE_KEY), value: text(id::ATTRIBUTE_VALUE) }
    }
}

/// How to call a function.
#[derive(Clone, Copy, Debug)]
pub struct Signature<'a> {
    /// The calling convention, such as `0ri_r`, if present. Unchecked.
    pub calling_convention: Option<&'a str>,
    table: Option<Table<'a>>,
}

impl<'a> Signature<'a> {
    pub(super) fn read(table: Table<'a>) -> Self {
        Self { calling_convention: table.text(id::SIGNATURE_CALLING_CONVENTION), table: Some(table) }
    }

    /// The attributes of the function: `iree.abi.declaration` and the like.
    pub fn attributes(self) -> impl Iterator<Item = Attribute<'a>> + Clone {
        let tables = self.table.map(|table| table.tables(id::SIGNATURE_ATTRS));
        tables.into_iter().flat_map(|tables| tables.iter()).map(Attribute::read)
    }

    /// The value of the first attribute with this key.
    pub fn attribute(self, key: &str) -> Option<&'a str> {
        self.attributes().find(|attribute| attribute.key == key).map(|attribute| attribute.value)
    }
}

/// A module dependency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dependency<'a> {
    /// Its name.
    pub name: &'a str,
    /// The minimum version.
    pub minimum_version: u32,
    /// Whether the module works without it.
    pub optional: bool,
}

impl<'a> Dependency<'a> {
    pub(super) fn read(table: Table<'a>) -> Self {
        Self {
            name: table.text(id::DEPENDENCY_NAME).unwrap_or_default(),
            minimum_version: table.u32(id::DEPENDENCY_MINIMUM_VERSION, 0),
            optional: table.u32(id::DEPENDENCY_FLAGS, 1) & FLAG_OPTIONAL != 0,
        }
    }
}

/// An imported function.
#[derive(Clone, Copy, Debug)]
pub struct Import<'a> {
    /// Its qualified name: `hal.buffer.assert`.
    pub full_name: &'a str,
    /// How the module calls it.
    pub signature: Signature<'a>,
    /// Whether the module works without it.
    pub optional: bool,
}

impl<'a> Import<'a> {
    pub(super) fn read(table: Table<'a>) -> Self {
        let none = Signature { calling_convention: None, table: None };
        Self {
            full_name: table.text(id::IMPORT_FULL_NAME).unwrap_or_default(),
            signature: table.table(id::IMPORT_SIGNATURE).map_or(none, Signature::read),
            optional: table.u32(id::IMPORT_FLAGS, 1) & FLAG_OPTIONAL != 0,
        }
    }
}

/// An exported function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Export<'a> {
    /// Its name, without the module's.
    pub local_name: &'a str,
    /// Ordinal of its function.
    pub function: usize,
}

impl<'a> Export<'a> {
    pub(crate) fn read(table: Table<'a>) -> Self {
        Self {
            local_name: table.text(id::EXPORT_LOCAL_NAME).unwrap_or_default(),
            function: table.i32(id::EXPORT_INTERNAL_ORDINAL).max(0) as usize,
        }
    }
}

/// A function's bytecode range and requirements.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FunctionDescriptor {
    /// Range in the module's bytecode.
    pub bytecode: Range<usize>,
    /// Features that it requires.
    pub requirements: Features,
    /// Number of blocks, at least 1.
    pub block_count: usize,
    /// Number of 32-bit registers.
    pub i32_register_count: usize,
    /// Number of reference registers.
    pub ref_register_count: usize,
}

/// A function descriptor, unchecked.
pub(crate) struct RawDescriptor {
    pub bytecode_offset: i32,
    pub bytecode_length: i32,
    pub requirements: u32,
    pub reserved: i16,
    pub block_count: i16,
    pub i32_register_count: i16,
    pub ref_register_count: i16,
}

impl RawDescriptor {
    pub(crate) fn read(bytes: [u8; DESCRIPTOR_BYTES]) -> Self {
        let word = |at: usize| i32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let half = |at: usize| i16::from_le_bytes([bytes[at], bytes[at + 1]]);
        Self {
            bytecode_offset: word(0),
            bytecode_length: word(4),
            requirements: word(8) as u32,
            reserved: half(12),
            block_count: half(14),
            i32_register_count: half(16),
            ref_register_count: half(18),
        }
    }
}

impl FunctionDescriptor {
    /// `None` if any count is negative.
    pub(super) fn read(bytes: [u8; DESCRIPTOR_BYTES]) -> Option<Self> {
        let raw = RawDescriptor::read(bytes);
        let start = usize::try_from(raw.bytecode_offset).ok()?;
        let length = usize::try_from(raw.bytecode_length).ok()?;
        let count = |value: i16| usize::try_from(value).ok();
        Some(Self {
            bytecode: start..start.checked_add(length)?,
            requirements: Features(raw.requirements),
            block_count: count(raw.block_count)?,
            i32_register_count: count(raw.i32_register_count)?,
            ref_register_count: count(raw.ref_register_count)?,
        })
    }
}

/// Read-only bytes of a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RodataSegment {
    /// Their range in the file.
    pub range: Range<usize>,
    /// Whether they are after the flatbuffer instead of in it. External segments have the alignment that the
    /// compiler chose, from the first byte of the file; embedded ones are aligned to 4 at most.
    pub external: bool,
    /// Whether the file marks them as uncompressed, the only marking there is.
    pub uncompressed_tag: bool,
}

impl RodataSegment {
    pub(super) fn read(table: Table<'_>, layout: &Layout) -> Self {
        let uncompressed_tag = table.u8(id::RODATA_COMPRESSION_TAG) != 0;
        if let Some(data) = table.vector(id::RODATA_EMBEDDED) {
            let start = layout.flatbuffer.start + data.at();
            return Self { range: start..start + data.len(), external: false, uncompressed_tag };
        }
        let (offset, length) = external_range(table);
        let start = layout.rodata_start.saturating_add(usize::try_from(offset).unwrap_or(usize::MAX));
        let end = start.saturating_add(usize::try_from(length).unwrap_or(usize::MAX));
        Self { range: start..end, external: true, uncompressed_tag }
    }
}

/// Offset from the base of external rodata, and length, if external.
pub(super) fn external_range(table: Table<'_>) -> (u64, u64) {
    (table.u64(id::RODATA_EXTERNAL_OFFSET), table.u64(id::RODATA_EXTERNAL_LENGTH))
}

/// The features that modules and functions require.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Features(pub u32);

impl Features {
    /// 32-bit floating point instructions.
    pub const EXT_F32: Self = Self(1 << 0);
    /// 64-bit floating point instructions.
    pub const EXT_F64: Self = Self(1 << 1);
    /// The function or one that it calls may yield.
    pub const YIELD: Self = Self(1 << 2);
    /// The function or a callee must release references on failure.
    pub const UNWIND: Self = Self(1 << 3);
    /// All features of this VM.
    pub const SUPPORTED: Self = Self(0xF);

    /// Whether it contains all of `other`.
    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The features not in `other`.
    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

impl BitOr for Features {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl fmt::Display for Features {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            return f.write_str("none");
        }
        let mut separator = "";
        let mut left = self.0;
        for (bit, name) in FEATURES.bits.iter().enumerate() {
            if left & (1 << bit) != 0 {
                left &= !(1 << bit);
                write!(f, "{separator}{name}")?;
                separator = " | ";
            }
        }
        match left {
            0 => Ok(()),
            left => write!(f, "{separator}{left:#010x}"),
        }
    }
}

/// Version of the instruction set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BytecodeVersion {
    /// Must match for the module to run.
    pub major: u16,
    /// Must not be newer for the module to run.
    pub minor: u16,
}

impl BytecodeVersion {
    /// The version that this VM runs, that of release 3.13.0.
    pub const SUPPORTED: Self = Self { major: 17, minor: 0 };

    pub(super) fn from_bits(bits: u32) -> Self {
        Self { major: (bits >> 16) as u16, minor: bits as u16 }
    }

    /// The releases whose compilers wrote it, and what of them runs it, in words, if it is an earlier one
    /// that this library knows. Tools of other releases do not run it.
    pub fn earlier_releases(self) -> Option<(&'static str, &'static str)> {
        match (self.major, self.minor) {
            (13, 0) => Some(("snapshots since 20220927.279", "the Python package iree-runtime 20230228.444")),
            (14, 0) => Some(("snapshots since 20230304.448", "the tools of such a snapshot")),
            (15, 0) => Some((
                "the releases 2.9.0 to 3.9.0, and snapshots since 20230307.451,",
                "the Python package iree-base-runtime 3.9.0",
            )),
            (16, 0) => Some(("release 3.10.0", "the Python package iree-base-runtime 3.10.0")),
            _ => None,
        }
    }

    /// Whether this VM runs it.
    pub fn is_supported(self) -> bool {
        (0..=Self::SUPPORTED.minor).contains(&self.minor) && self.major == Self::SUPPORTED.major
    }
}

impl fmt::Display for BytecodeVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}
