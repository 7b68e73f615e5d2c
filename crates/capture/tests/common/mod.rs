//! Where the captures of programs are: the fixtures of this project, and the larger corpus where it is.

use std::path::{Path, PathBuf};

/// Every capture of the fixtures, and of the corpus beside the checkout (or at `REHAL_CORPUS`) where there is one;
/// those whose program died while it was recorded (`torn.*`) only `with_torn`.
pub fn captures(with_torn: bool) -> Vec<PathBuf> {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let corpus = match std::env::var_os("REHAL_CORPUS") {
        Some(path) => PathBuf::from(path),
        None => repository.join("../shared/corpus"),
    };
    let mut paths = list(&repository.join("fixtures"));
    assert!(paths.len() > 50, "the fixtures are part of the project: {paths:?}");
    paths.extend(list(&corpus));
    let is_torn =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"torn."));
    paths.retain(|path| with_torn || !is_torn(path));
    paths
}

fn list(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder.join("captures")) else { return Vec::new() };
    let mut paths: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "ireereplay"));
    paths.sort();
    paths
}
