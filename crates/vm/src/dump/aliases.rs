use rehal_base::flatbuffer::Tables;

use crate::module_file::schema::id;
use crate::module_file::{Export, ModuleFile};

/// Index from functions to their exports, so that a dump takes linear time.
pub(super) struct Aliases<'a> {
    exports: Tables<'a>,
    /// Ordinals of functions and of their exports, ascending.
    by_function: Vec<(usize, usize)>,
}

impl<'a> Aliases<'a> {
    pub(super) fn from_file(file: &'a ModuleFile) -> Self {
        let mut by_function: Vec<(usize, usize)> =
            file.exports().enumerate().map(|(index, export)| (export.function, index)).collect();
        by_function.sort_unstable();
        Self { exports: file.root().tables(id::MODULE_EXPORTS), by_function }
    }

    /// The names that the function is exported by, in export order.
    pub(super) fn names(&self, function: usize) -> impl Iterator<Item = &'a str> {
        let first = self.by_function.partition_point(|(of, _)| *of < function);
        let own = self.by_function[first..].iter().take_while(move |(of, _)| *of == function);
        own.filter_map(|(_, index)| Some(Export::read(self.exports.get(*index)?).local_name))
    }
}
