//! Maps by object id.

use std::collections::HashMap;

/// A map by id: an array, since recorders count ids from 1, and a hash table for ids that are too large for
/// it.
pub(super) struct IdMap<T> {
    dense: Vec<Option<T>>,
    sparse: HashMap<u64, T>,
    limit: u64,
}

impl<T> IdMap<T> {
    /// With an array of at most `limit` ids.
    pub(super) fn new(limit: u64) -> Self {
        Self { dense: Vec::new(), sparse: HashMap::new(), limit }
    }

    pub(super) fn get(&self, id: u64) -> Option<&T> {
        if id < self.limit { self.dense.get(id as usize)?.as_ref() } else { self.sparse.get(&id) }
    }

    pub(super) fn get_mut(&mut self, id: u64) -> Option<&mut T> {
        if id < self.limit { self.dense.get_mut(id as usize)?.as_mut() } else { self.sparse.get_mut(&id) }
    }

    pub(super) fn insert(&mut self, id: u64, value: T) {
        if id >= self.limit {
            self.sparse.insert(id, value);
            return;
        }
        let index = id as usize;
        if index >= self.dense.len() {
            self.dense.resize_with(index + 1, || None);
        }
        self.dense[index] = Some(value);
    }
}
