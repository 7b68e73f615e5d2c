use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use rehal_base::MappedFile;

/// Read-only bytes that several parts of the program hold: a mapped file, or memory, or a part of either.
/// Cloning shares them.
#[derive(Clone)]
pub struct ModuleBytes {
    owner: Owner,
    range: Range<usize>,
}

#[derive(Clone)]
enum Owner {
    File(Arc<MappedFile>),
    Memory(Arc<dyn AsRef<[u8]> + Send + Sync>),
}

impl ModuleBytes {
    /// All bytes of a mapped file.
    pub fn of_file(file: Arc<MappedFile>) -> Self {
        let range = 0..file.bytes().len();
        Self { owner: Owner::File(file), range }
    }

    /// All bytes of `owner`, whose `as_ref` must yield the same bytes each time.
    pub fn of_memory(owner: Arc<dyn AsRef<[u8]> + Send + Sync>) -> Self {
        let range = 0..(*owner).as_ref().len();
        Self { owner: Owner::Memory(owner), range }
    }

    /// The part `range` of these bytes, or `None` where it reaches beyond them.
    pub fn part(&self, range: Range<usize>) -> Option<Self> {
        let end = self.range.start.checked_add(range.end)?;
        if range.start > range.end || end > self.range.end {
            return None;
        }
        Some(Self { owner: self.owner.clone(), range: self.range.start + range.start..end })
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        let all = match &self.owner {
            Owner::File(file) => file.bytes(),
            Owner::Memory(memory) => (**memory).as_ref(),
        };
        all.get(self.range.clone()).unwrap_or(&[])
    }
}

impl From<Vec<u8>> for ModuleBytes {
    fn from(bytes: Vec<u8>) -> Self {
        Self::of_memory(Arc::new(bytes))
    }
}

impl fmt::Debug for ModuleBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.range.len())
    }
}
