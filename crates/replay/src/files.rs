//! Finds, validates and opens the files that a capture refers to.

use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};

use rehal_base::platform::{OsStrExt, modified};
use rehal_base::{Context, Error, FileId, Remedy, Result, fnv, platform};
use serde::{Deserialize, Serialize};

use crate::{FileContents, FileIdentity, FileRecord, Plan, Validation};

/// Maps a prefix of captured paths to a local path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileRemap {
    /// The prefix of captured paths.
    pub captured: OsString,
    /// Its replacement.
    pub here: OsString,
}

impl FileRemap {
    /// Parses `CAPTURED=HERE`.
    pub fn parse(text: &(impl AsRef<OsStr> + ?Sized)) -> Result<Self> {
        let text = text.as_ref().as_bytes();
        match text.iter().position(|&byte| byte == b'=') {
            Some(at) if at > 0 => Ok(Self {
                captured: OsStr::from_bytes(&text[..at]).into(),
                here: OsStr::from_bytes(&text[at + 1..]).into(),
            }),
            _ => Err(Error::invalid_argument(format!(
                "file remap '{}' is not CAPTURED_PREFIX=PREFIX_HERE",
                String::from_utf8_lossy(text)
            ))),
        }
    }
}

/// Whether a path is one of Windows from the root, in which both slashes separate names.
fn is_of_windows(path: &[u8]) -> bool {
    let has_drive = matches!(path, [drive, b':', b'\\' | b'/', ..] if drive.is_ascii_alphabetic());
    has_drive || path.starts_with(b"\\\\")
}

/// The local path of a captured file: the longest matching prefix is replaced.
pub fn resolve_path(captured: &[u8], remaps: &[FileRemap]) -> PathBuf {
    let is_of_windows = is_of_windows(captured);
    let longest = remaps
        .iter()
        .filter(|remap| {
            let is_same =
                |(a, b): (&u8, &u8)| a == b || is_of_windows && [a, b].iter().all(|it| b"\\/".contains(it));
            let prefix = remap.captured.as_bytes();
            prefix.len() <= captured.len() && prefix.iter().zip(captured).all(is_same)
        })
        .reduce(|longest, it| if it.captured.len() > longest.captured.len() { it } else { longest });
    let mut path = Vec::new();
    match longest {
        Some(remap) => {
            path.extend_from_slice(remap.here.as_bytes());
            let rest = captured[remap.captured.len()..].iter();
            path.extend(rest.map(|byte| if is_of_windows && *byte == b'\\' { b'/' } else { *byte }));
        }
        None => path.extend_from_slice(captured),
    }
    PathBuf::from(OsStr::from_bytes(&path))
}

impl Plan {
    /// The paths of the external files that a replay opens.
    pub fn external_files(&self, remaps: &[FileRemap]) -> Vec<PathBuf> {
        let path = |record: FileRecord<&[u8]>| match record.source.contents {
            FileContents::External { path, .. } => Some(resolve_path(path, remaps)),
            FileContents::Ranges { .. } | FileContents::Nothing | FileContents::Inline(_) => None,
        };
        // A capture could name a directory to read all of it.
        let is_file = |path: &PathBuf| !path.is_dir() && !is_unfollowed(path, remaps);
        self.files().filter_map(path).filter(is_file).collect()
    }
}

impl FileRecord<&[u8]> {
    /// Whether the file is usable here: it exists and is the captured one. Reads the whole file if it is
    /// validated by digest.
    pub fn check(&self, remaps: &[FileRemap]) -> Result<()> {
        open(self, remaps, Opening::ToRead).map(drop)
    }
}

/// The way that a replay treats the writes of queues to external files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum FileWrites {
    /// They change a private copy of the file, which each run starts with the bytes of the file. Files with
    /// one identity have one copy, by whichever paths they are named. Only pages that are written take
    /// memory. The file is not opened for writing.
    #[default]
    Copy,
    /// They change the file. Refused for a file of which only the length is known.
    InPlace,
    /// Captures that have any are refused.
    Fail,
}

/// The purpose for which an external file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opening {
    /// To read it.
    ToRead,
    /// To write to it as well.
    ToWrite,
}

/// An external file, open and valid.
pub(crate) struct ExternalFile {
    pub file: File,
    pub id: FileId,
    pub path: PathBuf,
}

/// Opens the external file of a record and validates that it is the captured one; `None` if the capture
/// contains the bytes that are read from it.
pub(crate) fn open(
    record: &FileRecord<&[u8]>,
    remaps: &[FileRemap],
    opening: Opening,
) -> Result<Option<ExternalFile>> {
    match record.source.contents {
        FileContents::Ranges { .. } | FileContents::Nothing | FileContents::Inline(_) => Ok(None),
        FileContents::External { path: captured, validation } => {
            let path = resolve_path(captured, remaps);
            let opened = match is_unfollowed(&path, remaps) {
                true => {
                    Err(Error::failed_precondition("it is a symbolic link, which captures do not follow"))
                }
                false => open_external(record, &path, validation, opening),
            };
            opened
                .context(|| {
                    let captured = captured.escape_ascii();
                    format!("external file '{}', captured as '{captured}'", path.display())
                })
                .advise(|| Remedy::RemapFile)
                .map(|(file, id)| Some(ExternalFile { file, id, path }))
        }
    }
}

/// Whether a path is a link that a capture names, and not a user: links of directories are followed.
fn is_unfollowed(path: &Path, remaps: &[FileRemap]) -> bool {
    // A confined process gets this error of one.
    let is_link = |error: std::io::Error| platform::is_link(&error);
    path.symlink_metadata().map_or_else(is_link, |it| it.is_symlink())
        && remaps.iter().all(|remap| *remap.here != *path)
}

fn open_external(
    record: &FileRecord<&[u8]>,
    path: &Path,
    validation: Validation,
    opening: Opening,
) -> Result<(File, FileId)> {
    let reading = |error| Error::io(format_args!("opening '{}'", path.display()), &error);
    // Checked before opening: opening a pipe blocks until it has a writer.
    require_regular(path, &std::fs::metadata(path).map_err(reading)?)?;
    let to_write = opening == Opening::ToWrite;
    if to_write && is_unknown(record, validation) {
        let error = "the capture writes to it, and says only its length: it may be another file";
        return Err(Error::failed_precondition(error).advise(Remedy::CopyFileWrites));
    }
    let file = OpenOptions::new().read(true).write(to_write).open(path).map_err(reading)?;
    let metadata = file.metadata().map_err(reading)?;
    require_regular(path, &metadata)?;
    let id = FileId::of(&file).map_err(reading)?;
    if metadata.len() != record.length {
        return Err(Error::failed_precondition(format!(
            "the file's length has changed: captured={} current={}",
            record.length,
            metadata.len()
        )));
    }
    match validation {
        _ if is_unknown(record, validation) => {}
        Validation::Length => {}
        Validation::Identity => {
            let FileIdentity { device, inode, mtime_ns } = record.source.identity;
            let (seconds, nanoseconds) = modified(&metadata);
            let mtime = (seconds as u64).wrapping_mul(1_000_000_000).wrapping_add(nanoseconds as u64);
            let current = (id.device(), id.inode(), mtime);
            if current != (device, inode, mtime_ns) {
                let (dev, ino, mtime) = current;
                return Err(Error::failed_precondition(format!(
                    "it is not the file that was captured: captured=(dev={device}, inode={inode}, mtime_ns={mtime_ns}) current=(dev={dev}, inode={ino}, mtime_ns={mtime})"
                ))
                .advise(Remedy::ValidateByDigest));
            }
        }
        Validation::Digest(expected) => {
            let actual = digest(&file, record.length)?;
            if actual != expected {
                return Err(Error::failed_precondition(format!(
                    "the file's contents have changed: captured digest={expected:#018x} current={actual:#018x}"
                )));
            }
        }
    }
    Ok((file, id))
}

/// Whether nothing of the file but its length is captured.
fn is_unknown(record: &FileRecord<&[u8]>, validation: Validation) -> bool {
    match validation {
        Validation::Length => true,
        // A recorder on a platform without file identities writes zeros.
        Validation::Identity => record.source.identity == FileIdentity::default(),
        Validation::Digest(_) => false,
    }
}

fn require_regular(path: &Path, metadata: &std::fs::Metadata) -> Result<()> {
    if metadata.is_file() {
        return Ok(());
    }
    let kind = if metadata.is_dir() { "a directory" } else { "not a regular file" };
    Err(Error::invalid_argument(format!("'{}' is {kind}", path.display())))
}

/// The digest of the first `length` bytes of `file`.
pub(crate) fn digest(file: &File, length: u64) -> Result<u64> {
    use rehal_base::platform::FileExt;
    // Large, since the digest is fast only over many bytes at once, yet small enough for the bytes to stay in
    // the second-level cache.
    const CHUNK_BYTES: u64 = 1 << 20;
    let mut digest = fnv::Fnv1a64::default();
    let mut chunk = vec![0; length.min(CHUNK_BYTES) as usize];
    let mut offset = 0;
    while offset < length {
        let part_bytes = (length - offset).min(CHUNK_BYTES);
        let part = &mut chunk[..part_bytes as usize];
        file.read_exact_at(part, offset).map_err(|error| Error::io("reading for the digest", &error))?;
        digest.update(part);
        offset += part_bytes;
    }
    Ok(digest.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_prefix_wins() {
        let remaps = ["/data=/a", "/data/models=/b", "/x="].map(|text| FileRemap::parse(text).unwrap());
        for (captured, here) in [
            ("/data/p.irpa", "/a/p.irpa"),
            ("/data/models/p.irpa", "/b/p.irpa"),
            ("/x/p.irpa", "/p.irpa"),
            ("/other", "/other"),
        ] {
            assert_eq!(resolve_path(captured.as_bytes(), &remaps), PathBuf::from(here));
        }
        assert!(FileRemap::parse("/data").is_err());
        assert!(FileRemap::parse("=/a").is_err());
    }

    #[test]
    fn captured_paths_of_windows_have_both_slashes() {
        let remaps = [r"Z:\work=/w", "Y:/a=/y", "/data=/d"].map(|text| FileRemap::parse(text).unwrap());
        for (captured, here) in [
            (r"Z:\work\a\b.irpa", "/w/a/b.irpa"),
            (r"Z:/work\a/b.irpa", "/w/a/b.irpa"),
            (r"Y:\a\b.irpa", "/y/b.irpa"),
            // Elsewhere, a backslash is a part of a name.
            (r"/data/a\b", r"/d/a\b"),
            (r"X:\other", r"X:\other"),
        ] {
            assert_eq!(resolve_path(captured.as_bytes(), &remaps), PathBuf::from(here), "{captured}");
        }
    }

    #[test]
    fn a_file_of_several_chunks_has_the_digest_of_its_bytes() {
        use std::io::Write;
        let mut bytes = vec![0; (3 << 19) + 7];
        fastrand::Rng::with_seed(1).fill(&mut bytes);
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&bytes).unwrap();
        assert_eq!(digest(&file, bytes.len() as u64).unwrap(), fnv::fnv1a64(&bytes));
        assert_eq!(digest(&file, 0).unwrap(), fnv::fnv1a64(b""));
        assert!(digest(&file, bytes.len() as u64 + 1).is_err(), "the file is too short");
    }
}
