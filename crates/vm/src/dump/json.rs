//! A module's flatbuffer as JSON: `--output=flatbuffer-json`. Walks the schema once.
//!
//! Scalars with their default value are omitted, named bits are printed as names, and the layout is the
//! release's: table elements follow the bracket on its line, others are on their own lines.

use std::io::{self, Write};

use rehal_base::flatbuffer::{FieldType, FlagNames, StructSchema, Table, TableSchema, UnionSchema, Vector};

use crate::ModuleFile;
use crate::module_file::schema::MODULE;

/// Writes the flatbuffer as JSON; `pretty` adds line breaks and indentation. Accepts a module from
/// [`ModuleFile::inspect`].
pub fn json(file: &ModuleFile, pretty: bool, out: &mut impl Write) -> io::Result<()> {
    let mut printer = Printer { out, pretty, level: 0 };
    printer.table(file.root(), &MODULE)?;
    if pretty { printer.out.write_all(b"\n") } else { Ok(()) }
}

struct Printer<'w, W> {
    out: &'w mut W,
    pretty: bool,
    /// Depth of open brackets.
    level: usize,
}

impl<W: Write> Printer<'_, W> {
    fn open(&mut self, bracket: &[u8]) -> io::Result<()> {
        self.level += 1;
        self.out.write_all(bracket)
    }

    fn close(&mut self, bracket: &[u8]) -> io::Result<()> {
        self.level -= 1;
        self.new_line()?;
        self.out.write_all(bracket)
    }

    fn new_line(&mut self) -> io::Result<()> {
        if self.pretty {
            write!(self.out, "\n{}", "  ".repeat(self.level))?;
        }
        Ok(())
    }

    /// Before a member or an element: writes a comma unless it is the first.
    fn separate(&mut self, first: &mut bool) -> io::Result<()> {
        if !std::mem::replace(first, false) {
            self.out.write_all(b",")?;
        }
        Ok(())
    }

    fn key(&mut self, name: &str, first: &mut bool) -> io::Result<()> {
        self.separate(first)?;
        self.new_line()?;
        write!(self.out, "\"{name}\":{}", if self.pretty { " " } else { "" })
    }

    fn table(&mut self, table: Table<'_>, schema: &'static TableSchema) -> io::Result<()> {
        self.open(b"{")?;
        let mut first = true;
        for (id, field) in schema.fields.iter().enumerate() {
            if table.field(id).is_none() {
                continue;
            }
            let at_default = match field.kind {
                FieldType::I32 => table.u32(id, 0) == 0,
                FieldType::U32(default) | FieldType::Flags(_, default) => table.u32(id, default) == default,
                FieldType::U64 => table.u64(id) == 0,
                FieldType::U8 | FieldType::Tag => table.u8(id) == 0,
                _ => false,
            };
            if !at_default {
                self.key(field.name, &mut first)?;
                self.value(table, id, schema)?;
            }
        }
        self.close(b"}")
    }

    fn value(&mut self, table: Table<'_>, id: usize, schema: &'static TableSchema) -> io::Result<()> {
        match schema.fields[id].kind {
            FieldType::U8 => write!(self.out, "{}", table.u8(id)),
            FieldType::I32 => write!(self.out, "{}", table.i32(id)),
            FieldType::U32(default) => write!(self.out, "{}", table.u32(id, default)),
            FieldType::Flags(names, default) => self.flags(table.u32(id, default), names),
            FieldType::U64 => write!(self.out, "{}", table.u64(id)),
            FieldType::Text => self.text(table.text(id).unwrap_or_default()),
            FieldType::Bytes => {
                let vector = table.vector(id);
                self.scalars(vector, |printer, vector, index| {
                    let [byte] = vector.element(index).unwrap_or_default();
                    write!(printer.out, "{byte}")
                })
            }
            FieldType::I32s => self.scalars(table.vector(id), |printer, vector, index| {
                write!(printer.out, "{}", i32::from_le_bytes(vector.element(index).unwrap_or_default()))
            }),
            FieldType::U32s => self.scalars(table.vector(id), |printer, vector, index| {
                write!(printer.out, "{}", u32::from_le_bytes(vector.element(index).unwrap_or_default()))
            }),
            FieldType::Struct(schema) => match table.structure(id) {
                Some(structure) => self.record(structure, 0, schema),
                None => Ok(()),
            },
            FieldType::Structs(schema) => {
                self.scalars(table.vector(id), |printer, vector, index| printer.record(vector, index, schema))
            }
            FieldType::Table(schema) => match table.table(id) {
                Some(table) => self.table(table, schema),
                None => Ok(()),
            },
            FieldType::Tables(schema) => {
                self.open(b"[")?;
                let mut first = true;
                for table in table.tables(id).iter() {
                    self.separate(&mut first)?;
                    self.table(table, schema)?;
                }
                self.close(b"]")
            }
            FieldType::Tag => match schema.fields[id + 1].kind {
                FieldType::Union(union) => self.tag(table.u8(id), union),
                _ => Ok(()),
            },
            FieldType::Union(union) => match (member(union, table.u8(id - 1)), table.table(id)) {
                (Some(schema), Some(table)) => self.table(table, schema),
                _ => self.out.write_all(b"null"),
            },
            FieldType::Tags => {
                let FieldType::Unions(union) = schema.fields[id + 1].kind else { return Ok(()) };
                self.scalars(table.vector(id), |printer, vector, index| {
                    let [tag] = vector.element(index).unwrap_or_default();
                    printer.tag(tag, union)
                })
            }
            FieldType::Unions(union) => self.unions(table.vector(id - 1), table.vector(id), union),
        }
    }

    /// Elements on their own lines.
    fn scalars(
        &mut self,
        vector: Option<Vector<'_>>,
        element: impl Fn(&mut Self, Vector<'_>, usize) -> io::Result<()>,
    ) -> io::Result<()> {
        self.open(b"[")?;
        let mut first = true;
        if let Some(vector) = vector {
            for index in 0..vector.len() {
                self.separate(&mut first)?;
                self.new_line()?;
                element(self, vector, index)?;
            }
        }
        self.close(b"]")
    }

    /// A struct: always has all members, so all are printed.
    fn record(&mut self, vector: Vector<'_>, index: usize, schema: &StructSchema) -> io::Result<()> {
        let mut at = index * schema.size_bytes();
        let mut first = true;
        self.open(b"{")?;
        for (name, width, names) in schema.members {
            let bytes = vector.part(at, *width);
            at += width;
            self.key(name, &mut first)?;
            match (bytes, names) {
                ([a, b, c, d], Some(names)) => self.flags(u32::from_le_bytes([*a, *b, *c, *d]), names)?,
                ([a, b, c, d], None) => write!(self.out, "{}", i32::from_le_bytes([*a, *b, *c, *d]))?,
                ([a, b], _) => write!(self.out, "{}", i16::from_le_bytes([*a, *b]))?,
                _ => {}
            }
        }
        self.close(b"}")
    }

    fn unions(
        &mut self,
        tags: Option<Vector<'_>>,
        values: Option<Vector<'_>>,
        union: &'static UnionSchema,
    ) -> io::Result<()> {
        self.open(b"[")?;
        let mut first = true;
        for index in 0..values.map_or(0, |values| values.len()) {
            self.separate(&mut first)?;
            let [tag] = tags.and_then(|tags| tags.element(index)).unwrap_or_default();
            let value = values.and_then(|values| values.table(index));
            match (member(union, tag), value) {
                (Some(schema), Some(table)) => self.table(table, schema)?,
                _ => self.out.write_all(b"null")?,
            }
        }
        self.close(b"]")
    }

    fn tag(&mut self, tag: u8, union: &'static UnionSchema) -> io::Result<()> {
        match (tag, member(union, tag)) {
            (0, _) => self.out.write_all(b"\"NONE\""),
            (_, Some(schema)) => write!(self.out, "\"{}\"", schema.name),
            (_, None) => write!(self.out, "{tag}"),
        }
    }

    /// Names if every bit has one, else the number.
    fn flags(&mut self, bits: u32, names: &FlagNames) -> io::Result<()> {
        if bits == 0 || bits >> names.bits.len() != 0 {
            return write!(self.out, "{bits}");
        }
        let mut separator = "\"";
        for (_, name) in names.bits.iter().enumerate().filter(|(bit, _)| bits & (1 << bit) != 0) {
            write!(self.out, "{separator}{name}")?;
            separator = " ";
        }
        self.out.write_all(b"\"")
    }

    fn text(&mut self, text: &str) -> io::Result<()> {
        self.out.write_all(b"\"")?;
        let mut rest = text;
        while let Some(at) = rest.find(|c: char| c < ' ' || c == '"' || c == '\\') {
            self.out.write_all(&rest.as_bytes()[..at])?;
            match rest.as_bytes()[at] {
                b'\t' => self.out.write_all(b"\\t")?,
                b'\n' => self.out.write_all(b"\\n")?,
                b'\r' => self.out.write_all(b"\\r")?,
                0x08 => self.out.write_all(b"\\b")?,
                0x0c => self.out.write_all(b"\\f")?,
                byte @ (b'"' | b'\\') => self.out.write_all(&[b'\\', byte])?,
                byte => write!(self.out, "\\u{byte:04x}")?,
            }
            rest = &rest[at + 1..];
        }
        self.out.write_all(rest.as_bytes())?;
        self.out.write_all(b"\"")
    }
}

fn member(union: &'static UnionSchema, tag: u8) -> Option<&'static TableSchema> {
    union.0.get(usize::from(tag).checked_sub(1)?).copied()
}
