//! Which kernels change static variables of their code.

use std::collections::HashMap;
use std::ops::ControlFlow;

use rehal_base::Result;
use rehal_judge::StaticWrite;
use rehal_local::executable::StaticMemory;
use rehal_replay::{Observer, Operation};

/// Finds the dispatches of a replay that change static variables of the code that runs. Workgroups share
/// these, so that code which is right on one thread may race on several.
#[derive(Default)]
pub struct StaticMemoryWatch {
    /// By the id of the executable; `None` without such memory.
    known: HashMap<u64, Option<StaticMemory>>,
    /// The contents before the dispatch that runs.
    before: Option<Vec<u8>>,
    writes: Vec<StaticWrite>,
}

impl StaticMemoryWatch {
    /// The functions that have changed static variables, in the order of their first dispatches that did.
    pub fn into_writes(self) -> Vec<StaticWrite> {
        self.writes
    }

    fn contents(&mut self, operation: &Operation<'_>) -> Option<Vec<u8>> {
        let running = operation.dispatch?.running?;
        let memory = self.known.entry(running.prepared.id());
        let memory = memory.or_insert_with(|| StaticMemory::of(running.prepared, running.code.data));
        memory.as_ref()?.read().ok()
    }
}

impl Observer for StaticMemoryWatch {
    fn wants_operations(&self) -> bool {
        true
    }

    fn before_operation(&mut self, operation: &Operation<'_>) -> Result<ControlFlow<()>> {
        self.before = self.contents(operation);
        Ok(ControlFlow::Continue(()))
    }

    fn after_operation(&mut self, operation: &Operation<'_>) -> Result<ControlFlow<()>> {
        let before = self.before.take();
        let (Some(before), Some(dispatch)) = (before, &operation.dispatch) else {
            return Ok(ControlFlow::Continue(()));
        };
        let is_known = self.writes.iter().any(|it| it.function == dispatch.name);
        if let Some(after) = self.contents(operation).filter(|after| !is_known && *after != before) {
            let changed_bytes = before.iter().zip(&after).filter(|(before, after)| before != after).count();
            self.writes.push(StaticWrite {
                function: dispatch.name.to_owned(),
                record: operation.location.ordinal,
                changed_bytes: changed_bytes as u64,
            });
        }
        Ok(ControlFlow::Continue(()))
    }
}
