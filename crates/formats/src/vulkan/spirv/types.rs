//! Types: their sizes, and what decorations say of their members.

use std::collections::{HashMap, HashSet};

/// A type, as far as layouts need it.
#[derive(Clone, Debug)]
pub(super) enum Type {
    /// A number of this many bits.
    Number(u32),
    Bool,
    /// Element type and number of elements.
    Vector(u32, u32),
    /// Column type and number of columns.
    Matrix(u32, u32),
    /// Element type and the id of the length.
    Array(u32, u32),
    RuntimeArray(u32),
    /// Types of members.
    Struct(Vec<u32>),
    /// The type that it points to.
    Pointer(u32),
    Other,
}

/// Types, constants and decorations of a module, by id.
#[derive(Default)]
pub(super) struct Declarations {
    pub(super) types: HashMap<u32, Type>,
    /// Values of 32-bit constants, or defaults of specialization constants.
    pub(super) values: HashMap<u32, u32>,
    /// Composite constants: ids of their parts.
    pub(super) composites: HashMap<u32, Vec<u32>>,
    /// `SpecId` decorations.
    pub(super) specialized: HashMap<u32, u32>,
    /// `DescriptorSet` decorations.
    pub(super) sets: HashMap<u32, u32>,
    /// `Binding` decorations.
    pub(super) bindings: HashMap<u32, u32>,
    /// Decorations without operands: id and decoration.
    pub(super) flags: HashSet<(u32, u32)>,
    /// Strides of arrays.
    pub(super) strides: HashMap<u32, u32>,
    /// `Offset` decorations by struct and member.
    pub(super) offsets: HashMap<(u32, u32), u32>,
    /// `MatrixStride` decorations by struct and member.
    pub(super) matrix_strides: HashMap<(u32, u32), u32>,
    /// Decorations without operands of members: struct, member and decoration.
    pub(super) member_flags: HashSet<(u32, u32, u32)>,
    /// Structs and the decorations without operands that all of their members have.
    common_flags: HashSet<(u32, u32)>,
}

/// A struct with explicit offsets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    /// Whether it has the decoration `Block`.
    pub(crate) is_block: bool,
    /// Offsets of its members in bytes, if decorated.
    pub(crate) offsets: Vec<Option<u32>>,
}

impl Declarations {
    /// Derives what depends on all declarations, once they are read.
    pub(super) fn complete(&mut self) {
        let mut counts: HashMap<(u32, u32), usize> = HashMap::new();
        for (block, member, decoration) in &self.member_flags {
            if let Some(Type::Struct(members)) = self.types.get(block)
                && (*member as usize) < members.len()
            {
                let count = counts.entry((*block, *decoration)).or_default();
                *count += 1;
                if *count == members.len() {
                    self.common_flags.insert((*block, *decoration));
                }
            }
        }
    }

    /// The struct with this id.
    pub(super) fn block(&self, id: u32) -> Option<Block> {
        let Type::Struct(members) = self.types.get(&id)? else { return None };
        let offsets =
            (0..members.len() as u32).map(|member| self.offsets.get(&(id, member)).copied()).collect();
        Some(Block { is_block: self.flags.contains(&(id, spirv::Decoration::Block as u32)), offsets })
    }

    /// Size in bytes of the type with this id; `None` if it has none or is not known. `sizes` has those that
    /// were computed. Malformed types may contain themselves, or others without end: `depth` bounds the
    /// recursion.
    pub(super) fn size(&self, id: u32, depth: u32, sizes: &mut HashMap<u32, Option<u64>>) -> Option<u64> {
        if let Some(size) = sizes.get(&id) {
            return *size;
        }
        // A type that contains itself has no size.
        sizes.insert(id, None);
        let size = self.compute_size(id, depth.checked_sub(1)?, sizes);
        sizes.insert(id, size);
        size
    }

    fn compute_size(&self, id: u32, depth: u32, sizes: &mut HashMap<u32, Option<u64>>) -> Option<u64> {
        match self.types.get(&id)? {
            Type::Number(bits) => Some(u64::from(*bits) / 8),
            Type::Bool => Some(4),
            Type::Vector(element, count) | Type::Matrix(element, count) => {
                self.size(*element, depth, sizes)?.checked_mul(u64::from(*count))
            }
            Type::Array(element, length) => {
                let count = u64::from(*self.values.get(length)?);
                let stride = match self.strides.get(&id) {
                    Some(stride) => u64::from(*stride),
                    None => self.size(*element, depth, sizes)?,
                };
                stride.checked_mul(count)
            }
            Type::Struct(members) => {
                let mut end = 0;
                for (index, member) in (0..).zip(members) {
                    let offset = self.offsets.get(&(id, index)).map_or(end, |offset| u64::from(*offset));
                    let size = match self.matrix_size(id, index, *member) {
                        Some(size) => size,
                        None => self.size(*member, depth, sizes)?,
                    };
                    end = end.max(offset.checked_add(size)?);
                }
                Some(end)
            }
            // Only physical pointers have a size in memory.
            Type::Pointer(_) => Some(8),
            Type::RuntimeArray(_) | Type::Other => None,
        }
    }

    /// Size of a member that is a matrix with a stride.
    fn matrix_size(&self, block: u32, index: u32, member: u32) -> Option<u64> {
        let stride = u64::from(*self.matrix_strides.get(&(block, index))?);
        let Type::Matrix(column, columns) = self.types.get(&member)? else { return None };
        let Type::Vector(_, rows) = self.types.get(column)? else { return None };
        let is_row_major = self.member_flags.contains(&(block, index, spirv::Decoration::RowMajor as u32));
        Some(stride * u64::from(if is_row_major { *rows } else { *columns }))
    }

    /// Whether the variable, or all members of the struct that it is of, have this decoration.
    pub(super) fn has_flag(&self, variable: u32, block: u32, decoration: spirv::Decoration) -> bool {
        let decoration = decoration as u32;
        self.flags.contains(&(variable, decoration)) || self.common_flags.contains(&(block, decoration))
    }
}
