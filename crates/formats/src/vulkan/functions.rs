use crate::{Binding, Function};

use super::written::written_by;
use super::{Image, Pipeline};

impl Image {
    /// Its functions, by ordinal.
    pub fn functions(&self) -> Vec<Function> {
        let function = |pipeline: &Pipeline| Function {
            name: pipeline.entry_point.clone(),
            image: pipeline.shader,
            workgroup_size: self.entry_point(pipeline).map(|entry| entry.workgroup_size.value(&[])),
            constant_count: Some(pipeline.constant_count),
            bindings: Some(self.bindings(pipeline)),
            ..Function::default()
        };
        self.pipelines.iter().map(function).collect()
    }

    fn bindings(&self, pipeline: &Pipeline) -> Vec<Binding> {
        let written = written_by(self, pipeline).unwrap_or_default();
        let is_written = |index| written.get(usize::from(index)).copied().unwrap_or(true);
        let binding = |index| Binding { is_read_only: !is_written(index), is_indirect: false };
        (0..pipeline.binding_count).map(binding).collect()
    }
}
