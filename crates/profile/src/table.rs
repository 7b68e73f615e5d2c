//! A map that keeps the order of insertion.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;

/// Values by key, in the order in which their keys were first seen: that of every report.
#[derive(Debug)]
pub struct Table<K, V> {
    index: HashMap<K, usize>,
    values: Vec<V>,
}

impl<K, V> Default for Table<K, V> {
    fn default() -> Self {
        Self { index: HashMap::new(), values: Vec::new() }
    }
}

impl<K: Hash + Eq, V> Table<K, V> {
    /// The value of `key`, which `make` makes if there is none, and its index.
    pub fn entry(&mut self, key: K, make: impl FnOnce() -> V) -> &mut V {
        let at = self.index(key, make);
        &mut self.values[at]
    }

    /// The index of `key`, whose value `make` makes if there is none.
    pub fn index(&mut self, key: K, make: impl FnOnce() -> V) -> usize {
        let next = self.values.len();
        let at = *self.index.entry(key).or_insert(next);
        if at == next {
            self.values.push(make());
        }
        at
    }

    /// The index of `key`.
    pub fn position(&self, key: &K) -> Option<usize> {
        self.index.get(key).copied()
    }

    /// The index of a borrowed key.
    pub fn position_of<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<usize>
    where
        K: Borrow<Q>,
    {
        self.index.get(key).copied()
    }

    /// The value of `key`.
    pub fn get(&self, key: &K) -> Option<&V> {
        self.position(key).map(|at| &self.values[at])
    }

    /// The value of `key`, to change.
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.position(key).map(|at| &mut self.values[at])
    }

    /// All values, in order.
    pub fn values(&self) -> &[V] {
        &self.values
    }

    /// All values, in order.
    pub fn into_values(self) -> Vec<V> {
        self.values
    }

    /// Their number.
    pub fn len(&self) -> usize {
        self.values.len()
    }
}
