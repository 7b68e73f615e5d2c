//! Output of the compiler that is kept for later compilations.
//!
//! Each entry is a file, which is complete or absent: it is written under another name first. Processes may
//! share the directory. What cannot be read or written is as if it was not there, and so is what another user
//! may have written, and what is not what was kept: code of the cache runs with the user's privileges.

use std::ffi::OsString;
use std::fs::{self, File, FileTimes};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use blake3::Hash;
use rehal_base::MappedFile;
use rehal_base::platform::DirBuilderExt;

use super::identity::Identity;
use crate::platform::{open_unfollowed, writer};

/// The first bytes of an entry. A digest follows, of the key and of what is behind the digest: lengths, each
/// a little-endian u64, of what was printed on standard output, of messages, of the output; then these.
const MAGIC: &[u8; 8] = b"RHCOMP2\n";
const LENGTHS_AT: usize = 8 + blake3::OUT_LEN;
const HEADER_BYTES: usize = LENGTHS_AT + 3 * 8;

/// Most bytes of all entries.
const MAX_BYTES: u64 = 4 << 30;

/// How long a file that is being written may take.
const ABANDONED: Duration = Duration::from_secs(24 * 60 * 60);

/// The directory of the user's caches; `None` if the user has none.
pub fn cache_directory(variable: &dyn Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let set = |name: &str| variable(name).map(PathBuf::from).filter(|it| it.is_absolute());
    let users = || set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")));
    set("REHAL_CACHE_DIR").or_else(|| Some(users()?.join("rehal")))
}

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
    /// The cache in a directory, or else in that of the user's caches; `None` if the user has none. The error
    /// says why the directory is not used.
    pub(super) fn new(
        directory: Option<PathBuf>,
        variable: &dyn Fn(&str) -> Option<OsString>,
    ) -> Option<Result<Self, String>> {
        let directory = directory.or_else(|| cache_directory(variable))?;
        let this = Self { directory: directory.join("compiled"), max_bytes: MAX_BYTES };
        Some(this.check().map(|()| this))
    }

    /// Fails if others can change what is in the directory. Creates it unless it exists.
    fn check(&self) -> Result<(), String> {
        // A user who can write here decides what this one runs.
        let _ = fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.directory);
        let parent = self.directory.parent().unwrap_or(&self.directory);
        for (directory, is_parent) in [(parent, true), (&self.directory, false)] {
            // One that cannot be created is empty.
            let Ok(metadata) = fs::metadata(directory) else { return Ok(()) };
            if let Some(why) = writer(&metadata, is_parent) {
                return Err(format!("the cache '{}' is not used: {why}", directory.display()));
            }
        }
        Ok(())
    }

    /// An entry: its output, and what was printed on standard output and standard error.
    pub(super) fn get(&self, key: &Hash) -> Option<(CachedOutput, Vec<u8>, String)> {
        let path = self.path(key);
        let file = MappedFile::from_file(opened(&path).ok()?, &path).ok()?;
        let bytes = file.bytes();
        let header = bytes.get(..HEADER_BYTES)?;
        let length = |index: usize| {
            let at = LENGTHS_AT + index * 8;
            usize::try_from(u64::from_le_bytes(header[at..at + 8].try_into().ok()?)).ok()
        };
        let (printed, messages, output) = (length(0)?, length(1)?, length(2)?);
        let start = HEADER_BYTES.checked_add(printed)?.checked_add(messages)?;
        if &header[..8] != MAGIC || start.checked_add(output)? != bytes.len() {
            return None;
        }
        if header[8..LENGTHS_AT] != *digest(key, [&bytes[LENGTHS_AT..]]).as_bytes() {
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
        let lengths: Vec<u8> = parts.iter().flat_map(|it| (it.len() as u64).to_le_bytes()).collect();
        let digest = digest(key, [&lengths, parts[0], parts[1], parts[2]]);
        let parts = [&MAGIC[..], digest.as_bytes(), &lengths, parts[0], parts[1], parts[2]];
        if self.write(&self.path(key), parts).is_ok() {
            self.trim();
        }
    }

    /// The output of `--version` of a compiler.
    pub(super) fn version(&self, identity: &Identity) -> Option<String> {
        let (_, printed, _) = self.get(&version_key(identity))?;
        String::from_utf8(printed).ok()
    }

    pub(super) fn put_version(&self, identity: &Identity, printed: &str) {
        self.put(&version_key(identity), printed.as_bytes(), "", &[]);
    }

    /// The path of the import of a model with these contents.
    pub(super) fn imported(&self, model: Hash, identity: &Identity) -> PathBuf {
        let of = version_key(identity).to_hex();
        self.directory.join(format!("model-{}-{}.mlir", model.to_hex(), &of[..16]))
    }

    /// Keeps a copy of a file at a path in the cache. Returns whether it is there.
    pub(super) fn keep(&self, file: &Path, path: &Path) -> bool {
        let Ok(bytes) = MappedFile::open(file) else { return false };
        let bytes = bytes.bytes();
        if bytes.len() as u64 > self.max_bytes / 2 || self.write(path, [bytes]).is_err() {
            return false;
        }
        // An entry has the digest of the file, which the compiler reads as it is.
        self.put(&key_of(path), &[], "", blake3::hash(bytes).as_bytes());
        self.trim();
        self.keeps(path)
    }

    /// Whether the file at a path in the cache is what was kept there.
    pub(super) fn keeps(&self, path: &Path) -> bool {
        let Some((digest, ..)) = self.get(&key_of(path)) else { return false };
        has_digest(path, digest.bytes())
    }

    /// Keeps the source of a dispatch. Returns its path, which is the same for the same text.
    pub(super) fn keep_source(&self, text: &str) -> Option<PathBuf> {
        let digest = blake3::hash(text.as_bytes());
        let path = self.directory.join(format!("dispatch-{}.mlir", digest.to_hex()));
        let is_kept = has_digest(&path, digest.as_bytes()) || self.write(&path, [text.as_bytes()]).is_ok();
        is_kept.then_some(path)
    }

    fn path(&self, key: &Hash) -> PathBuf {
        self.directory.join(key.to_hex().as_str())
    }

    fn write<'b>(&self, path: &Path, parts: impl IntoIterator<Item = &'b [u8]>) -> io::Result<()> {
        let mut file = tempfile::Builder::new().prefix(".new-").tempfile_in(&self.directory)?;
        for part in parts {
            file.write_all(part)?;
        }
        // Otherwise its name may outlast its contents when the machine stops.
        file.as_file().sync_all()?;
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

/// Opens a file of the cache, and notes that it is used. Fails if another user may have written it.
fn opened(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.read(true);
    let file = open_unfollowed(options.clone().write(true), path);
    let file = file.or_else(|_| open_unfollowed(&options, path))?;
    let metadata = file.metadata()?;
    if !metadata.is_file() || writer(&metadata, false).is_some() {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    // The oldest are removed first. That of the administrator cannot be changed.
    let _ = file.set_times(FileTimes::new().set_modified(SystemTime::now()));
    Ok(file)
}

/// Whether a file of the cache has this digest.
fn has_digest(path: &Path, digest: &[u8]) -> bool {
    let file = opened(path).ok().and_then(|file| MappedFile::from_file(file, path).ok());
    file.is_some_and(|file| blake3::hash(file.bytes()).as_bytes() == digest)
}

/// The digest in an entry. One that is moved to another key is not valid there.
fn digest<'b>(key: &Hash, parts: impl IntoIterator<Item = &'b [u8]>) -> Hash {
    let mut hasher = blake3::Hasher::new();
    hasher.update(key.as_bytes());
    for part in parts {
        hasher.update(part);
    }
    hasher.finalize()
}

/// The key of what is known of a file of the cache.
fn key_of(path: &Path) -> Hash {
    blake3::hash(path.file_name().unwrap_or_default().as_encoded_bytes())
}

/// The key of what a compiler says about its version.
fn version_key(identity: &Identity) -> Hash {
    let mut hasher = blake3::Hasher::new();
    hasher.update(b"version");
    hasher.update(identity.path.as_os_str().as_encoded_bytes());
    for number in identity.files.iter().flatten() {
        hasher.update(&number.to_le_bytes());
    }
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn cache(directory: &Path, max_bytes: u64) -> CompileCache {
        let it = CompileCache { directory: directory.to_owned(), max_bytes };
        it.check().unwrap();
        it
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
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
        for length in [0, 7, LENGTHS_AT, HEADER_BYTES, whole.len() - 1] {
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
    fn an_entry_with_another_bit_or_another_key_is_none() {
        let scratch = tempfile::tempdir().unwrap();
        let it = cache(&scratch.path().join("compiled"), 1 << 20);
        let [key, other] = [b"1", b"2"].map(|it| blake3::hash(it));
        it.put(&key, b"p", "m", b"output");
        let whole = fs::read(it.path(&key)).unwrap();
        for bit in 0..whole.len() * 8 {
            let mut changed = whole.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            fs::write(it.path(&key), &changed).unwrap();
            assert!(it.get(&key).is_none(), "bit {bit}");
        }
        fs::write(it.path(&other), &whole).unwrap();
        assert!(it.get(&other).is_none());
        // It is replaced by the next compilation.
        it.put(&key, b"p", "m", b"output");
        assert_eq!(it.get(&key).unwrap().0.bytes(), b"output");
        let (model, kept) = (scratch.path().join("model"), it.directory.join("model-1.mlir"));
        fs::write(&model, "module {}").unwrap();
        assert!(!it.keeps(&kept) && it.keep(&model, &kept) && it.keeps(&kept));
        fs::write(&kept, "module {/").unwrap();
        assert!(!it.keeps(&kept));
        let source = it.keep_source("text").unwrap();
        fs::write(&source, "else").unwrap();
        assert_eq!(it.keep_source("text"), Some(source.clone()));
        assert_eq!(fs::read(source).unwrap(), b"text");
    }

    #[test]
    fn what_others_may_have_written_is_not_used() {
        let scratch = tempfile::tempdir().unwrap();
        let it = cache(&scratch.path().join("a/compiled"), 1 << 20);
        let key = blake3::hash(b"1");
        it.put(&key, b"", "", b"output");
        for (mode, is_used) in [(0o620, false), (0o602, false), (0o644, true)] {
            set_mode(&it.path(&key), mode);
            assert_eq!(it.get(&key).is_some(), is_used, "{mode:o}");
        }
        let moved = scratch.path().join("moved");
        fs::rename(it.path(&key), &moved).unwrap();
        symlink(&moved, it.path(&key)).unwrap();
        assert!(it.get(&key).is_none());
        for directory in [&it.directory, &scratch.path().join("a")] {
            for mode in [0o720, 0o702, 0o777] {
                set_mode(directory, mode);
                let why = it.check().unwrap_err();
                let shown =
                    format!("'{}' is not used: others may write to it (mode {mode:o})", directory.display());
                assert!(why.contains(&shown), "{why}");
            }
            set_mode(directory, 0o700);
            assert_eq!(it.check(), Ok(()));
        }
        set_mode(&scratch.path().join("a"), 0o1777);
        assert_eq!(it.check(), Ok(()));
        set_mode(&it.directory, 0o1777);
        assert!(it.check().is_err());
        // Only an administrator can give files away.
        if rustix::process::geteuid().is_root() {
            set_mode(&it.directory, 0o700);
            std::os::unix::fs::chown(&it.directory, Some(1), None).unwrap();
            assert!(it.check().unwrap_err().contains("belongs to another user (1)"));
        }
    }

    #[test]
    fn the_oldest_entries_are_removed() {
        let scratch = tempfile::tempdir().unwrap();
        let it = cache(scratch.path(), 1000);
        let keys: Vec<_> = (0..4_u8).map(|index| blake3::hash(&[index])).collect();
        for (index, key) in keys[..3].iter().enumerate() {
            it.put(key, b"", "", &[0; 230]);
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(index as u64);
            File::options().write(true).open(it.path(key)).unwrap().set_modified(time).unwrap();
        }
        assert!(it.get(&keys[0]).is_some());
        it.put(&keys[3], b"", "", &[0; 230]);
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
