use std::sync::{Arc, Weak};

use smallvec::SmallVec;

use super::{MemoryRange, Recorder};
use crate::memory::Block;

/// Baked commands of a command buffer for one binding table, which are submitted any number of times.
pub(crate) struct Instance {
    recorder: Box<Recorder>,
    key: Key,
    /// Large memory of the binding table, which the submissions own. Without it, the commands are of no use.
    lent: Vec<Weak<Block>>,
}

/// The memory of a binding table.
pub(super) type Key = SmallVec<[[u64; 3]; 8]>;

/// The key of a binding table.
pub(super) fn key_of(table: &[Option<MemoryRange>]) -> Key {
    table.iter().map(|place| place.as_ref().map_or([0; 3], MemoryRange::key)).collect()
}

impl Instance {
    /// Baked commands; `lent` is the memory that only their submissions own.
    pub(super) fn new(recorder: Box<Recorder>, key: Key, lent: Vec<Weak<Block>>) -> Self {
        Self { recorder, key, lent }
    }

    /// Whether memory of the commands was freed: they are never submitted again, since blocks never have the
    /// same id.
    fn is_dead(&self) -> bool {
        self.lent.iter().any(|block| block.strong_count() == 0)
    }

    /// The recorder of the commands.
    pub(crate) fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    /// The commands, for a submission that owns the instance.
    pub(crate) fn commands(&self) -> ash::vk::CommandBuffer {
        self.recorder.commands()
    }
}

/// The instances of a command buffer, the most recently used last.
#[derive(Default)]
pub(super) struct Instances(Vec<Arc<Instance>>);

/// Limit on the binding tables for which commands are kept.
const LIMIT: usize = 8;

impl Instances {
    /// The commands for a binding table, if they are kept; if `is_exclusive`, only those that no work in
    /// flight uses.
    pub(super) fn find(&mut self, key: &Key, is_exclusive: bool) -> Option<Arc<Instance>> {
        let is_usable = |it: &Arc<Instance>| it.key == *key && (!is_exclusive || is_idle(it));
        let index = self.0.iter().rposition(is_usable)?;
        let found = self.0.remove(index);
        self.0.push(found.clone());
        Some(found)
    }

    /// The number of binding tables.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Keeps commands. Those that were not used for the longest time are dropped; work in flight keeps them.
    pub(super) fn add(&mut self, instance: Arc<Instance>) {
        if self.0.len() == LIMIT {
            self.0.remove(0);
        }
        self.0.push(instance);
    }

    /// A recorder of commands that no work in flight uses: of dead ones, or, if there are enough, of others.
    pub(super) fn take_idle(&mut self) -> Option<Box<Recorder>> {
        let dead = self.0.iter().position(|instance| is_idle(instance) && instance.is_dead());
        let index = match dead {
            Some(index) => index,
            None if self.0.len() < LIMIT => return None,
            None => self.0.iter().position(is_idle)?,
        };
        let instance = Arc::into_inner(self.0.remove(index))?;
        let mut recorder = instance.recorder;
        recorder.reset().ok()?;
        Some(recorder)
    }
}

/// Whether no work in flight uses the commands: it would own the instance.
fn is_idle(instance: &Arc<Instance>) -> bool {
    Arc::strong_count(instance) == 1
}
