/// A table of the schema: its fields.
#[derive(Debug)]
pub struct TableSchema {
    /// Its name in the schema.
    pub name: &'static str,
    /// Its fields in order of their ids.
    pub fields: &'static [Field],
}

/// One field of a table.
#[derive(Debug)]
pub struct Field {
    /// Its name in the schema.
    pub name: &'static str,
    /// The qualified name, for errors.
    pub path: &'static str,
    /// Its type.
    pub kind: FieldType,
    /// Whether data without it is malformed.
    pub required: bool,
}

/// The type of a field.
#[derive(Debug)]
pub enum FieldType {
    /// An 8-bit integer, 0 by default.
    U8,
    /// A 32-bit integer, shown as signed.
    I32,
    /// A 32-bit integer with its default.
    U32(u32),
    /// A 32-bit set of named flags with its default.
    Flags(&'static FlagNames, u32),
    /// A 64-bit integer, 0 by default.
    U64,
    /// UTF-8 text.
    Text,
    /// A vector of bytes.
    Bytes,
    /// A vector of 32-bit integers, shown as signed.
    I32s,
    /// A vector of 32-bit integers.
    U32s,
    /// A struct, within the table.
    Struct(&'static StructSchema),
    /// A vector of structs.
    Structs(&'static StructSchema),
    /// A table.
    Table(&'static TableSchema),
    /// A vector of tables.
    Tables(&'static TableSchema),
    /// The tag of the union in the next field.
    Tag,
    /// A union: a table of the type that the preceding tag selects; tag 0 means none.
    Union(&'static UnionSchema),
    /// The tags of the unions in the next field.
    Tags,
    /// A vector of unions.
    Unions(&'static UnionSchema),
}

/// The tables of a union, in order of their tags, from tag 1.
#[derive(Debug)]
pub struct UnionSchema(pub &'static [&'static TableSchema]);

/// Names of bits, lowest bit first.
#[derive(Debug)]
pub struct FlagNames {
    /// The enum's name in the schema.
    pub name: &'static str,
    /// Names of bit 0, 1, ...
    pub bits: &'static [&'static str],
}

/// A struct: scalars without padding.
#[derive(Debug)]
pub struct StructSchema {
    /// Name and width in bytes (2 or 4) of each member; [`FlagNames`] if its bits are named.
    pub members: &'static [(&'static str, usize, Option<&'static FlagNames>)],
}

impl StructSchema {
    /// Size of a struct in bytes.
    pub const fn size_bytes(&self) -> usize {
        let (mut sum, mut i) = (0, 0);
        while i < self.members.len() {
            sum += self.members[i].1;
            i += 1;
        }
        sum
    }
}

/// Declares tables of a schema as statics: `/// doc`,
/// `ID = "name" { "field": kind, "field": kind; required, }`.
#[macro_export]
macro_rules! flatbuffer_tables {
    ($($(#[$doc:meta])* $id:ident = $table:literal { $($field:literal: $kind:expr $(; $required:ident)?,)* })*) => {$(
        $(#[$doc])*
        pub static $id: $crate::flatbuffer::TableSchema = $crate::flatbuffer::TableSchema {
            name: $table,
            fields: &[$($crate::flatbuffer::Field {
                name: $field,
                path: concat!($table, ".", $field),
                kind: $kind,
                required: $crate::flatbuffer_tables!(@required $($required)?),
            },)*],
        };
    )*};
    (@required) => { false };
    (@required required) => { true };
}
