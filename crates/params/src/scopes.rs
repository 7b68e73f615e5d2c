use std::path::Path;

use rehal_base::{Advice, Error, Remedy, Result};

use crate::index::quoted;
use crate::nearest::nearest;
use crate::{FileMode, Index};

/// The parameters available to a program: an index per scope, in order of first mention.
///
/// The unnamed scope is a scope like any other.
#[derive(Clone, Debug, Default)]
pub struct Scopes {
    scopes: Vec<(String, Index)>,
}

impl Scopes {
    /// No scopes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the parameters of a file to the scope in `flag`: `path`, or `scope=path`. Several files of one
    /// scope form one index.
    pub fn add(&mut self, flag: &str, mode: FileMode) -> Result<()> {
        let (scope, path) = flag.split_once('=').unwrap_or(("", flag));
        // The scope is created even if its file is missing (as in the reference).
        self.scope_mut(scope).add_file(Path::new(path), mode)
    }

    /// The index of `scope`, created if missing.
    pub fn scope_mut(&mut self, scope: &str) -> &mut Index {
        let at = match self.scopes.iter().position(|(name, _)| name == scope) {
            Some(at) => at,
            None => {
                self.scopes.push((scope.to_string(), Index::new()));
                self.scopes.len() - 1
            }
        };
        &mut self.scopes[at].1
    }

    /// All scopes and their indices, in order of first mention.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Index)> {
        self.scopes.iter().map(|(name, index)| (name.as_str(), index))
    }

    /// Whether there are no scopes.
    pub fn is_empty(&self) -> bool {
        self.scopes.is_empty()
    }

    /// The index of `scope`, if any.
    pub fn get(&self, scope: &str) -> Option<&Index> {
        self.iter().find(|(name, _)| *name == scope).map(|(_, index)| index)
    }

    /// The index of `scope`. The error suggests similar scopes.
    pub fn lookup(&self, scope: &str) -> Result<&Index> {
        self.get(scope).ok_or_else(|| {
            let error = Error::not_found(format!("no parameter scope '{scope}' is registered"));
            let names = nearest(scope, self.iter().map(|(name, _)| name));
            error.advise(match names.as_slice() {
                [] | [""] => Advice::from(Remedy::AddParameters { scope: scope.into() }),
                alike => format!("the nearest scopes of {} are {}", self.scopes.len(), quoted(alike)).into(),
            })
        })
    }
}
