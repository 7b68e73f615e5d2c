use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// Which file of the system it is: two paths or handles with the same lead to one file, whatever they are
/// called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    /// That of the file at `path`, links followed; `None` if none can be seen there.
    pub fn at(path: &Path) -> Option<Self> {
        std::fs::metadata(path).ok().as_ref().map(Self::from)
    }
}

impl From<&Metadata> for FileId {
    fn from(metadata: &Metadata) -> Self {
        Self { device: metadata.dev(), inode: metadata.ino() }
    }
}

#[cfg(test)]
mod tests {
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
        assert_eq!(id, Some(FileId::from(&std::fs::File::open(&file).unwrap().metadata().unwrap())));
        for path in [&link, &soft, &copy, &file] {
            std::fs::remove_file(path).unwrap();
        }
        assert_eq!(FileId::at(&file), None);
    }
}
