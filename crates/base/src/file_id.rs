use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::platform::{self, AsFile};

/// Which file of the system it is: two paths or handles with the same lead to one file, whatever they are
/// called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    /// That of the file at `path`, links followed; `None` if none can be opened there.
    pub fn at(path: &Path) -> Option<Self> {
        platform::file_id_at(path).ok().map(Self::new)
    }

    /// That of an open file.
    pub fn of(file: &impl AsFile) -> io::Result<Self> {
        platform::file_id(file).map(Self::new)
    }

    fn new([device, inode]: [u64; 2]) -> Self {
        Self { device, inode }
    }

    /// The device or volume that has the file.
    pub fn device(self) -> u64 {
        self.device
    }

    /// Its number there.
    pub fn inode(self) -> u64 {
        self.inode
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "Miri does not support hard links")]
    fn one_file_is_the_same_by_any_path_and_others_are_not() {
        let path =
            |name: &str| std::env::temp_dir().join(format!("rehal-file-id-{name}-{}", std::process::id()));
        let [file, copy, link, soft] = ["file", "copy", "link", "soft"].map(path);
        std::fs::write(&file, "1").unwrap();
        std::fs::write(&copy, "1").unwrap();
        std::fs::hard_link(&file, &link).unwrap();
        std::os::unix::fs::symlink(&file, &soft).unwrap();
        let id = FileId::at(&file);
        assert!(id.is_some() && FileId::at(&link) == id && FileId::at(&soft) == id);
        assert_ne!(FileId::at(&copy), id);
        assert_eq!(id, FileId::of(&File::open(&file).unwrap()).ok());
        for path in [&link, &soft, &copy, &file] {
            std::fs::remove_file(path).unwrap();
        }
        assert_eq!(FileId::at(&file), None);
    }
}
