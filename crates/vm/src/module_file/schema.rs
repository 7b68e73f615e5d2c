//! The layout of a module's tables; verification, reading and the dump tool's JSON all follow it.
//!
//! Source: IREE's `bytecode_module_def.fbs` (release 3.13.0). A field's id is its position here; a union
//! takes two, its tag first.

use rehal_base::flatbuffer::{FieldType, FlagNames, StructSchema, UnionSchema};
use rehal_base::flatbuffer_tables;

/// The features that a module or a function requires.
pub static FEATURES: FlagNames =
    FlagNames { name: "FeatureBits", bits: &["EXT_F32", "EXT_F64", "YIELD", "UNWIND"] };
/// Whether a module dependency is required.
pub static DEPENDENCY_FLAGS: FlagNames =
    FlagNames { name: "ModuleDependencyFlagBits", bits: &["REQUIRED", "OPTIONAL"] };
/// Whether an import is required.
pub static IMPORT_FLAGS: FlagNames = FlagNames { name: "ImportFlagBits", bits: &["REQUIRED", "OPTIONAL"] };

/// A function's bytecode range and requirements.
pub static FUNCTION_DESCRIPTOR: StructSchema = StructSchema {
    members: &[
        ("bytecode_offset", 4, None),
        ("bytecode_length", 4, None),
        ("requirements", 4, Some(&FEATURES)),
        ("reserved", 2, None),
        ("block_count", 2, None),
        ("i32_register_count", 2, None),
        ("ref_register_count", 2, None),
    ],
};
/// The offset in a function at which a location starts.
pub static BYTECODE_LOCATION: StructSchema =
    StructSchema { members: &[("bytecode_offset", 4, None), ("location", 4, None)] };

/// The compression variants of a rodata segment.
pub static COMPRESSION: UnionSchema = UnionSchema(&[&UNCOMPRESSED]);
/// The variants of a source location.
pub static LOCATION: UnionSchema = UnionSchema(&[&CALL_SITE, &FILE_LINE_COLUMN, &FUSED, &NAMED]);

flatbuffer_tables! {
    /// A key and a value.
    ATTRIBUTE = "AttrDef" {
        "key": FieldType::Text,
        "value": FieldType::Text,
    }
    /// A type of the type table.
    TYPE = "TypeDef" {
        "full_name": FieldType::Text,
    }
    /// A function's calling convention and attributes.
    SIGNATURE = "FunctionSignatureDef" {
        "calling_convention": FieldType::Text,
        "attrs": FieldType::Tables(&ATTRIBUTE),
    }
    /// A module that this one depends on.
    DEPENDENCY = "ModuleDependencyDef" {
        "name": FieldType::Text,
        "minimum_version": FieldType::U32(0),
        "flags": FieldType::Flags(&DEPENDENCY_FLAGS, 1),
    }
    /// An imported function.
    IMPORT = "ImportFunctionDef" {
        "full_name": FieldType::Text,
        "signature": FieldType::Table(&SIGNATURE),
        "flags": FieldType::Flags(&IMPORT_FLAGS, 1),
    }
    /// An exported function.
    EXPORT = "ExportFunctionDef" {
        "local_name": FieldType::Text,
        "internal_ordinal": FieldType::I32,
    }
    /// The only compression: none.
    UNCOMPRESSED = "UncompressedDataDef" {}
    /// Read-only bytes, embedded or after the flatbuffer.
    RODATA = "RodataSegmentDef" {
        "compression_type_type": FieldType::Tag,
        "compression_type": FieldType::Union(&COMPRESSION),
        "embedded_data": FieldType::Bytes,
        "external_data_offset": FieldType::U64,
        "external_data_length": FieldType::U64,
    }
    /// Bytes reserved for writing.
    RWDATA = "RwdataSegmentDef" {
        "byte_size": FieldType::I32,
    }
    /// The state that each context keeps for a module.
    STATE = "ModuleStateDef" {
        "global_bytes_capacity": FieldType::I32,
        "global_ref_count": FieldType::I32,
    }
    /// A location inlined at another.
    CALL_SITE = "CallSiteLocDef" {
        "callee": FieldType::I32,
        "caller": FieldType::I32,
    }
    /// A position in a file.
    FILE_LINE_COLUMN = "FileLineColLocDef" {
        "filename": FieldType::Text,
        "line": FieldType::I32,
        "column": FieldType::I32,
    }
    /// Several locations fused into one.
    FUSED = "FusedLocDef" {
        "metadata": FieldType::Text,
        "locations": FieldType::I32s,
    }
    /// A named location.
    NAMED = "NameLocDef" {
        "name": FieldType::Text,
        "child_location": FieldType::I32,
    }
    /// The locations of one function.
    SOURCE_MAP = "FunctionSourceMapDef" {
        "local_name": FieldType::Text,
        "locations": FieldType::Structs(&BYTECODE_LOCATION),
    }
    /// Debug information.
    DEBUG_DATABASE = "DebugDatabaseDef" {
        "location_table_type": FieldType::Tags,
        "location_table": FieldType::Unions(&LOCATION),
        "functions": FieldType::Tables(&SOURCE_MAP),
    }
    /// A module.
    MODULE = "BytecodeModuleDef" {
        "name": FieldType::Text; required,
        "version": FieldType::U32(0),
        "requirements": FieldType::Flags(&FEATURES, 0),
        "attrs": FieldType::Tables(&ATTRIBUTE),
        "types": FieldType::Tables(&TYPE),
        "dependencies": FieldType::Tables(&DEPENDENCY),
        "imported_functions": FieldType::Tables(&IMPORT),
        "exported_functions": FieldType::Tables(&EXPORT),
        "function_signatures": FieldType::Tables(&SIGNATURE),
        "rodata_segments": FieldType::Tables(&RODATA),
        "rwdata_segments": FieldType::Tables(&RWDATA),
        "module_state": FieldType::Table(&STATE),
        "function_descriptors": FieldType::Structs(&FUNCTION_DESCRIPTOR),
        "bytecode_version": FieldType::U32(0),
        "bytecode_data": FieldType::Bytes,
        "debug_database": FieldType::Table(&DEBUG_DATABASE),
    }
}

/// Ids of the fields that code accesses by name.
pub mod id {
    #![allow(missing_docs, reason = "each is a position in the table of the same name above")]

    pub const ATTRIBUTE_KEY: usize = 0;
    pub const ATTRIBUTE_VALUE: usize = 1;
    pub const TYPE_FULL_NAME: usize = 0;
    pub const SIGNATURE_CALLING_CONVENTION: usize = 0;
    pub const SIGNATURE_ATTRS: usize = 1;
    pub const DEPENDENCY_NAME: usize = 0;
    pub const DEPENDENCY_MINIMUM_VERSION: usize = 1;
    pub const DEPENDENCY_FLAGS: usize = 2;
    pub const IMPORT_FULL_NAME: usize = 0;
    pub const IMPORT_SIGNATURE: usize = 1;
    pub const IMPORT_FLAGS: usize = 2;
    pub const EXPORT_LOCAL_NAME: usize = 0;
    pub const EXPORT_INTERNAL_ORDINAL: usize = 1;
    pub const RODATA_COMPRESSION_TAG: usize = 0;
    pub const RODATA_EMBEDDED: usize = 2;
    pub const RODATA_EXTERNAL_OFFSET: usize = 3;
    pub const RODATA_EXTERNAL_LENGTH: usize = 4;
    pub const RWDATA_BYTE_SIZE: usize = 0;
    pub const STATE_GLOBAL_BYTES: usize = 0;
    pub const STATE_GLOBAL_REFS: usize = 1;
    pub const CALL_SITE_CALLEE: usize = 0;
    pub const CALL_SITE_CALLER: usize = 1;
    pub const FILE_NAME: usize = 0;
    pub const FILE_LINE: usize = 1;
    pub const FILE_COLUMN: usize = 2;
    pub const FUSED_METADATA: usize = 0;
    pub const FUSED_LOCATIONS: usize = 1;
    pub const NAMED_NAME: usize = 0;
    pub const NAMED_CHILD: usize = 1;
    pub const SOURCE_MAP_NAME: usize = 0;
    pub const SOURCE_MAP_LOCATIONS: usize = 1;
    pub const DEBUG_LOCATION_TAGS: usize = 0;
    pub const DEBUG_LOCATIONS: usize = 1;
    pub const DEBUG_FUNCTIONS: usize = 2;
    pub const MODULE_NAME: usize = 0;
    pub const MODULE_VERSION: usize = 1;
    pub const MODULE_REQUIREMENTS: usize = 2;
    pub const MODULE_ATTRS: usize = 3;
    pub const MODULE_TYPES: usize = 4;
    pub const MODULE_DEPENDENCIES: usize = 5;
    pub const MODULE_IMPORTS: usize = 6;
    pub const MODULE_EXPORTS: usize = 7;
    pub const MODULE_SIGNATURES: usize = 8;
    pub const MODULE_RODATA: usize = 9;
    pub const MODULE_RWDATA: usize = 10;
    pub const MODULE_STATE: usize = 11;
    pub const MODULE_FUNCTIONS: usize = 12;
    pub const MODULE_BYTECODE_VERSION: usize = 13;
    pub const MODULE_BYTECODE: usize = 14;
    pub const MODULE_DEBUG: usize = 15;
}
