//! Output of the compiler that is kept for later compilations.
//!
//! Each entry is a file, which is complete or absent: it is written under another name first. Processes may
//! share the directory. What cannot be read or written is as if it was not there.

use std::ffi::OsString;
use std::fs::{self, File, FileTimes};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use blake3::Hash;
use rehal_base::MappedFile;

use super::identity::Identity;

/// The first bytes of an entry. Lengths follow, each a little-endian u64: of what was printed on standard
/// output, of messages, of the output; then these.
const MAGIC: &[u8; 8] = b"RHCOMP1\n";
const HEADER_BYTES: usize = 8 + 3 * 8;

/// Most bytes of all entries.
const MAX_BYTES: u64 = 4 << 30;

/// How long a file that is being written may take.
const ABANDONED: Duration = Duration::from_secs(24 * 60 * 60);

/// A directory of output.
#[derive(Clone, Debug)]
pub(super) struct CompileCache {
    directory: PathBuf,
    max_bytes: u64,
}

/// The output of an entry. It stays readable if the entry is removed.
pub(super) struct CachedOutput {
    file: MappedFile,
    start: usize,
}

impl CachedOutput {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.file.bytes()[self.start..]
    }
}

impl CompileCache {
    /// The cache in a directory, or else in that of the user's caches; `None` if the user has none.
    pub(super) fn new(
        directory: Option<PathBuf>,
        variable: &dyn Fn(&str) -> Option<OsString>,
    ) -> Option<Self> {
        let set = |name: &str| variable(name).map(PathBuf::from).filter(|it| it.is_absolute());
        let users = || set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")));
        let directory =
            directory.or_else(|| set("REHAL_CACHE_DIR")).or_else(|| Some(users()?.join("rehal")))?;
        Some(Self { directory: directory.join("compiled"), max_bytes: MAX_BYTES })
    }

    /// An entry: its output, and what was printed on standard output and standard error.
    pub(super) fn get(&self, key: &Hash) -> Option<(CachedOutput, Vec<u8>, String)> {
        let path = self.path(key);
        let opened =
            File::options().read(true).write(true).open(&path).or_else(|_| File::open(&path)).ok()?;
        // The oldest are removed first. Another user's cannot be changed.
        let _ = opened.set_times(FileTimes::new().set_modified(SystemTime::now()));
        let file = MappedFile::from_file(opened, &path).ok()?;
        let bytes = file.bytes();
        let header = bytes.get(..HEADER_BYTES)?;
        let length = |index: usize| {
            let at = 8 + index * 8;
            usize::try_from(u64::from_le_bytes(header[at..at + 8].try_into().ok()?)).ok()
        };
        let (printed, messages, output) = (length(0)?, length(1)?, length(2)?);
        let start = HEADER_BYTES.checked_add(printed)?.checked_add(messages)?;
        if &header[..8] != MAGIC || start.checked_add(output)? != bytes.len() {
            return None;
        }
        let printed = bytes[HEADER_BYTES..HEADER_BYTES + printed].to_vec();
        let messages = String::from_utf8(bytes[HEADER_BYTES + printed.len()..start].to_vec()).ok()?;
        Some((CachedOutput { file, start }, printed, messages))
    }

    /// Keeps output, unless it cannot be written.
    pub(super) fn put(&self, key: &Hash, printed: &[u8], messages: &str, output: &[u8]) {
        let parts = [printed, messages.as_bytes(), output];
        let total: u64 = parts.iter().map(|it| it.len() as u64).sum();
        if total > self.max_bytes / 2 {
            return;
        }
        let lengths = parts.iter().flat_map(|it| (it.len() as u64).to_le_bytes());
        let header: Vec<u8> = MAGIC.iter().copied().chain(lengths).collect();
        if self.write(&self.path(key), [&header, parts[0], parts[1], parts[2]]).is_ok() {
            self.trim();
        }
    }

    /// What `--version` of a compiler printed.
    pub(super) fn version(&self, identity: &Identity) -> Option<String> {
        fs::read_to_string(self.version_path(identity)).ok()
    }

    pub(super) fn put_version(&self, identity: &Identity, printed: &str) {
        let _ = self.write(&self.version_path(identity), [printed.as_bytes()]);
    }

    /// The path of the import of a model with these contents.
    pub(super) fn imported(&self, model: Hash, identity: &Identity) -> PathBuf {
        let of = self.version_path(identity);
        let of = blake3::hash(of.as_os_str().as_encoded_bytes()).to_hex();
        self.directory.join(format!("model-{}-{}.mlir", model.to_hex(), &of[..16]))
    }

    /// Keeps a copy of a file at a path in the cache. Returns whether it is there.
    pub(super) fn keep(&self, file: &Path, path: &Path) -> bool {
        let Ok(bytes) = MappedFile::open(file) else { return false };
        let is_kept =
            bytes.bytes().len() as u64 <= self.max_bytes / 2 && self.write(path, [bytes.bytes()]).is_ok();
        if is_kept {
            self.trim();
        }
        is_kept && path.is_file()
    }

    /// Keeps the source of a dispatch. Returns its path, which is the same for the same text.
    pub(super) fn keep_source(&self, text: &str) -> Option<PathBuf> {
        let path = self.directory.join(format!("dispatch-{}.mlir", blake3::hash(text.as_bytes()).to_hex()));
        // It is written again if it is there, so that it is not among the oldest files, which are removed.
        self.write(&path, [text.as_bytes()]).is_ok().then_some(path)
    }

    fn path(&self, key: &Hash) -> PathBuf {
        self.directory.join(key.to_hex().as_str())
    }

    fn version_path(&self, identity: &Identity) -> PathBuf {
        let mut hasher = blake3::Hasher::new();
        hasher.update(identity.path.as_os_str().as_encoded_bytes());
        for number in identity.files.iter().flatten() {
            hasher.update(&number.to_le_bytes());
        }
        self.directory.join(format!("version-{}", hasher.finalize().to_hex()))
    }

    fn write<'b>(&self, path: &Path, parts: impl IntoIterator<Item = &'b [u8]>) -> std::io::Result<()> {
        use std::os::unix::fs::DirBuilderExt;
        // A user who can write here decides what this one runs.
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.directory)?;
        let mut file = tempfile::Builder::new().prefix(".new-").tempfile_in(&self.directory)?;
        for part in parts {
            file.write_all(part)?;
        }
        file.persist(path).map(drop).map_err(|error| error.error)
    }

    /// Removes the entries that were not used for the longest time until the others are within the limit, and
    /// files that nothing will complete.
    fn trim(&self) {
        let Ok(entries) = fs::read_dir(&self.directory) else { return };
        let now = SystemTime::now();
        let mut files = Vec::new();
        for entry in entries.flatten() {
            let Ok(metadata) = entry.metadata() else { continue };
            let modified = metadata.modified().unwrap_or(now);
            let is_partial = entry.file_name().as_encoded_bytes().starts_with(b".new-");
            if is_partial && now.duration_since(modified).is_ok_and(|age| age > ABANDONED) {
                let _ = fs::remove_file(entry.path());
            } else if !is_partial {
                files.push((modified, metadata.len(), entry.path()));
            }
        }
        let mut total: u64 = files.iter().map(|it| it.1).sum();
        if total <= self.max_bytes {
            return;
        }
        files.sort();
        for (_, length, path) in files {
            // Below the limit, so that not every compilation removes one.
            if total <= self.max_bytes / 10 * 9 {
                break;
            }
            let _ = fs::remove_file(path);
            total = total.saturating_sub(length);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(directory: &Path, max_bytes: u64) -> CompileCache {
        CompileCache { directory: directory.to_owned(), max_bytes }
    }

    #[test]
    fn entries_are_complete_or_absent() {
        let scratch = tempfile::tempdir().unwrap();
        let it = cache(&scratch.path().join("a/b"), 1 << 20);
        let key = blake3::hash(b"1");
        assert!(it.get(&key).is_none());
        it.put(&key, b"printed", "messages", b"output");
        let (output, printed, messages) = it.get(&key).unwrap();
        assert_eq!((output.bytes(), &*printed, &*messages), (&b"output"[..], &b"printed"[..], "messages"));
        let whole = fs::read(it.path(&key)).unwrap();
        for length in [0, 7, HEADER_BYTES, whole.len() - 1] {
            fs::write(it.path(&key), &whole[..length]).unwrap();
            assert!(it.get(&key).is_none(), "{length}");
        }
        fs::write(it.path(&key), [&whole[..], b"x"].concat()).unwrap();
        assert!(it.get(&key).is_none());
        // Another process may read it while it is replaced or removed.
        it.put(&key, b"", "", b"new");
        let (output, ..) = it.get(&key).unwrap();
        it.put(&key, b"", "", b"newer");
        fs::remove_file(it.path(&key)).unwrap();
        assert_eq!(output.bytes(), b"new");
    }

    #[test]
    fn the_oldest_entries_are_removed() {
        let scratch = tempfile::tempdir().unwrap();
        let it = cache(scratch.path(), 1000);
        let keys: Vec<_> = (0..4_u8).map(|index| blake3::hash(&[index])).collect();
        for (index, key) in keys[..3].iter().enumerate() {
            it.put(key, b"", "", &[0; 260]);
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(index as u64);
            File::options().write(true).open(it.path(key)).unwrap().set_modified(time).unwrap();
        }
        assert!(it.get(&keys[0]).is_some());
        it.put(&keys[3], b"", "", &[0; 260]);
        let kept: Vec<_> = keys.iter().map(|key| it.path(key).exists()).collect();
        assert_eq!(kept, [true, false, true, true]);
        // One that would remove all others is not kept.
        it.put(&keys[1], b"", "", &[0; 600]);
        assert!(it.get(&keys[1]).is_none());
    }

    #[test]
    fn a_cache_that_cannot_be_written_is_empty() {
        let scratch = tempfile::tempdir().unwrap();
        fs::write(scratch.path().join("file"), "").unwrap();
        let it = cache(&scratch.path().join("file"), 1000);
        let key = blake3::hash(b"1");
        it.put(&key, b"", "", b"x");
        assert!(it.get(&key).is_none());
    }
}
