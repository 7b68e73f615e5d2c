use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rehal_base::platform::FileExt;
use rehal_base::{Error, FileKind, Result};

use crate::nearest::nearest;
use crate::{Entry, ExternalFiles, FileMode, Format, Location, ParameterFile, Parsed, Storage};

/// The parameters of one or several files, in order, and by name.
///
/// If a name occurs twice, the first one wins, as in the reference.
#[derive(Clone, Debug, Default)]
pub struct Index {
    entries: Vec<Entry>,
    by_name: HashMap<Arc<str>, usize>,
    external_files: ExternalFiles,
}

impl Index {
    /// An empty index.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets which external files are opened of the archives that are added from now on.
    pub fn set_external_files(&mut self, files: ExternalFiles) {
        self.external_files = files;
    }

    /// Adds the parameters of the file at `path`; the extension selects the format.
    ///
    /// External files are opened on first use.
    pub fn add_file(&mut self, path: &Path, mode: FileMode) -> Result<()> {
        let file = Arc::new(ParameterFile::new(path.to_path_buf(), mode));
        let format = Format::from_path(path).map_err(|error| refuse_other(path).unwrap_or(error))?;
        let file_name = || format!("'{}'", path.display());
        let parsed = file.with_bytes(|bytes| format.parse(bytes))?;
        let parsed = parsed
            .map_err(|error| refuse_other(path).unwrap_or_else(|| Error::from(error).context(file_name())))?;
        let mut external = HashMap::new();
        for parsed in parsed {
            self.add(attach(parsed, &file, self.external_files, &mut external));
        }
        Ok(())
    }

    /// Appends a parameter.
    pub fn add(&mut self, entry: Entry) {
        if let Slot::Vacant(slot) = self.by_name.entry(entry.name.clone()) {
            slot.insert(self.entries.len());
        }
        self.entries.push(entry);
    }

    /// All parameters, in order of addition.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The parameter with this name, if any.
    pub fn get(&self, name: &str) -> Option<&Entry> {
        self.by_name.get(name).map(|index| &self.entries[*index])
    }

    /// The parameter with this name. The error suggests similar names.
    pub fn lookup(&self, name: &str) -> Result<&Entry> {
        self.get(name).ok_or_else(|| {
            let error = Error::not_found(format!("no parameter found in index with key '{name}'"));
            let names = self.entries.iter().map(|entry| &*entry.name);
            error.advise(match nearest(name, names).as_slice() {
                [] => "the index is empty: name a file with parameters".to_string(),
                alike => format!("the nearest keys of {} are {}", self.entries.len(), quoted(alike)),
            })
        })
    }
}

/// The error for a file whose type, detected from its first bytes, does not match its extension.
fn refuse_other(path: &Path) -> Option<Error> {
    let mut head = [0; FileKind::HEAD_BYTES];
    let shown = format!("'{}'", path.display());
    let metadata = std::fs::metadata(path).ok()?;
    if metadata.is_dir() {
        let error = Error::invalid_argument(format!("{shown} is a directory, not a parameter file"));
        return Some(error.advise("name a parameter file: .irpa, .gguf or .safetensors"));
    }
    // Opening a pipe would block until it has a writer.
    let file = metadata.is_file().then(|| File::open(path).ok()).flatten()?;
    let read = file.read_at(&mut head, 0).ok()?;
    let of_ending = Format::from_path(path).ok();
    let (ending, format) = match FileKind::from_head(&head[..read])? {
        FileKind::Irpa => ("irpa", Format::Irpa),
        FileKind::Gguf => ("gguf", Format::Gguf),
        FileKind::Safetensors => ("safetensors", Format::Safetensors),
        _ => return FileKind::Irpa.refuse_other(&head[..read], &shown),
    };
    if of_ending == Some(format) {
        return None;
    }
    let name = FileKind::from_head(&head[..read])?.name();
    let error = Error::invalid_argument(format!("{shown} is {name}, but has another extension"));
    Some(error.advise(format!("rename it to end with .{ending}")))
}

/// Combines a parsed parameter with the file that contains its bytes.
fn attach(
    parsed: Parsed,
    file: &Arc<ParameterFile>,
    files: ExternalFiles,
    external: &mut HashMap<PathBuf, Arc<ParameterFile>>,
) -> Entry {
    let storage = match parsed.location {
        Location::Splat(pattern) => Storage::Splat(pattern),
        Location::Here(offset) => Storage::File { file: file.clone(), offset },
        Location::External { path, offset } => {
            let named = PathBuf::from(path);
            let open = || Arc::new(ParameterFile::external(file.path(), &named, file.mode(), files));
            let file = external.entry(named.clone()).or_insert_with(open).clone();
            Storage::File { file, offset }
        }
    };
    Entry {
        name: parsed.name.into(),
        metadata: parsed.metadata.into(),
        length: parsed.length,
        minimum_alignment: parsed.minimum_alignment,
        storage,
    }
}

/// `'a', 'b'`, with long names truncated.
pub(crate) fn quoted(names: &[&str]) -> String {
    const MAX_CHARS: usize = 80;
    let quote = |name: &&str| match name.char_indices().nth(MAX_CHARS) {
        Some((end, _)) => format!("'{}…'", &name[..end]),
        None => format!("'{name}'"),
    };
    names.iter().map(quote).collect::<Vec<_>>().join(", ")
}
