//! The key of a compilation: all on which its output depends.

use std::fs;
use std::path::{Path, PathBuf};

use rehal_base::platform::{OsStrExt, OsStringExt};

use blake3::{Hash, Hasher};

use super::identity::Identity;
use super::{Compilation, CompilerVersion};

/// Changed with what is cached.
const SCHEMA: &[u8] = b"rehal compile 1";

/// Most bytes and files of directories that flags name.
const MAX_DIRECTORY_BYTES: u64 = 1 << 30;
const MAX_DIRECTORY_FILES: usize = 4096;

/// Parts of the names of flags that write files, which a cached compilation would not.
const WRITING: [&str; 11] = [
    "dump",
    "save",
    "export",
    "reproducer",
    "-dir",
    "tree",
    "output-file",
    "-trace",
    "statistics",
    "remarks-output",
    "split-input",
];

/// The key of a compilation; `None` if it may write other files than its output, or reads too many.
pub(super) fn key(compilation: &Compilation, identity: &Identity, version: &CompilerVersion) -> Option<Hash> {
    let mut key = Key(Hasher::new());
    key.add(SCHEMA);
    key.add(version.text.as_bytes());
    key.add(identity.path.as_os_str().as_bytes());
    identity.files.iter().flatten().for_each(|it| key.add(&it.to_le_bytes()));
    // Locations in the output name it.
    key.add(compilation.input_argument().as_os_str().as_bytes());
    let input = fs::metadata(&compilation.input).ok()?;
    if !input.is_file() {
        return None;
    }
    let objects = key.file(&compilation.input)?;
    for flag in &compilation.flags {
        let flag = flag.as_bytes();
        key.add(flag);
        let text = String::from_utf8_lossy(flag);
        // A response file may name others; a word without `=` may be the value of the flag before it.
        if text.starts_with('@') {
            return None;
        }
        let (name, value) = text.split_once('=').unwrap_or((&text, &text));
        if WRITING.iter().any(|it| name.contains(it)) {
            return None;
        }
        let is_whole = !value.is_empty() && Path::new(value).exists();
        for part in value.split(|it| !is_whole && matches!(it, ',' | '=')) {
            key.path(Path::new(part))?;
        }
        if value.split(',').any(|it| it == "host") {
            key.host();
        }
    }
    for path in objects {
        // Relative to a directory that a flag names, of which all files count, or to the current one.
        key.path(&path)?;
    }
    let mut environment: Vec<_> = std::env::vars_os()
        .filter(|(name, _)| name.as_bytes().starts_with(b"IREE_"))
        .map(|(name, value)| [name.into_vec(), value.into_vec()])
        .collect();
    environment.sort();
    environment.iter().flatten().for_each(|it| key.add(it));
    Some(key.0.finalize())
}

struct Key(Hasher);

impl Key {
    /// Adds bytes, so that their ends count.
    fn add(&mut self, bytes: &[u8]) {
        self.0.update(&(bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
    }

    /// Adds the contents of a file. Returns the objects that it names if it is the text of a program.
    fn file(&mut self, path: &Path) -> Option<Vec<PathBuf>> {
        let bytes = rehal_base::MappedFile::open(path).ok()?;
        let bytes = bytes.bytes();
        self.add(blake3::hash(bytes).as_bytes());
        const OBJECT: &[u8] = b"hal.executable.object";
        let mut objects = Vec::new();
        if is_mlir(path) && memmem(bytes, OBJECT).is_some() {
            // Of bytecode, they cannot be read here.
            let text = std::str::from_utf8(bytes).ok()?;
            for rest in text.split("path = \"").skip(1) {
                objects.push(rest.split('"').next()?.into());
            }
        }
        Some(objects)
    }

    /// Adds what a path names, if it names something. `None` for what is not to be read, or not yet there.
    fn path(&mut self, path: &Path) -> Option<()> {
        if path.as_os_str().is_empty() {
            return Some(());
        }
        let Ok(metadata) = fs::metadata(path) else {
            // It may be a file that the compiler is to write.
            let is_path = path.as_os_str().as_bytes().contains(&b'/');
            return (!is_path).then_some(());
        };
        if metadata.is_file() {
            for object in self.file(path)? {
                if object != path {
                    self.path(&object)?;
                }
            }
            return Some(());
        }
        if !metadata.is_dir() {
            return None;
        }
        let (mut files, mut bytes) = (0, 0);
        let mut directories = vec![path.to_owned()];
        while let Some(directory) = directories.pop() {
            let entries = fs::read_dir(directory).ok()?;
            let mut entries: Vec<_> = entries.map(|it| Some(it.ok()?.path())).collect::<Option<_>>()?;
            entries.sort();
            for entry in entries {
                let metadata = fs::metadata(&entry).ok()?;
                (files, bytes) = (files + 1, bytes + metadata.len());
                if files > MAX_DIRECTORY_FILES || bytes > MAX_DIRECTORY_BYTES {
                    return None;
                }
                self.add(entry.as_os_str().as_bytes());
                match metadata.is_dir() {
                    true => directories.push(entry),
                    false => drop(self.file(&entry)?),
                }
            }
        }
        Some(())
    }

    /// Adds the processor of this machine, for which a flag asks.
    fn host(&mut self) {
        let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let first = info.split("\n\n").next().unwrap_or_default();
        let wanted = ["vendor_id", "cpu family", "model", "stepping", "flags", "Features", "CPU part"];
        for line in first.lines().filter(|line| wanted.iter().any(|it| line.starts_with(it))) {
            self.add(line.as_bytes());
        }
    }
}

fn is_mlir(path: &Path) -> bool {
    path.extension().is_some_and(|it| it == "mlir" || it == "mlirbc")
}

fn memmem(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|it| it == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_is_read_counts_and_what_writes_is_not_cached() {
        let scratch = tempfile::tempdir().unwrap();
        let at = |name: &str| scratch.path().join(name);
        let input = at("a.mlir");
        fs::write(&input, "module {}").unwrap();
        fs::write(at("s.mlir"), "1").unwrap();
        fs::create_dir(at("d")).unwrap();
        fs::write(at("d/x"), "1").unwrap();
        let identity = Identity { path: "/c".into(), files: vec![[1, 2, 3, 4]] };
        let version = CompilerVersion { text: "3.13.0".into(), release: Some((3, 13)) };
        let of = |flags: &[String]| key(&Compilation::new(&input, flags), &identity, &version);
        let flag = |name: &str, path: &str| format!("--{name}={}", at(path).display());
        let flags = [flag("x", "d"), flag("y=NAME", "s.mlir")];
        let first = of(&flags).unwrap();
        assert_eq!(of(&flags), Some(first));
        for changed in ["a.mlir", "s.mlir", "d/x"] {
            let before = of(&flags);
            fs::write(at(changed), format!("{changed} changed")).unwrap();
            assert_ne!(of(&flags), before, "{changed}");
        }
        assert_ne!(of(&flags[..1]), of(&flags));
        assert!(of(&["--iree-vm-target-index-bits=64".into(), "--iree-opt-level=O3".into()]).is_some());
        for writing in [flag("iree-hal-dump-executable-sources-to", "d"), flag("z", "none")] {
            assert_eq!(of(&[writing]), None);
        }
        // Objects that a source names.
        fs::write(at("k.o"), "1").unwrap();
        let object = at("k.o").display().to_string();
        fs::write(&input, format!("#hal.executable.object<{{path = \"{object}\"}}>")).unwrap();
        let before = of(&[]);
        assert!(before.is_some());
        fs::write(at("k.o"), "2").unwrap();
        assert_ne!(of(&[]), before);
    }
}
