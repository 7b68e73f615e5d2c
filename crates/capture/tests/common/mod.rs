//! Where the captures of real programs are, if they are there at all.

use std::path::{Path, PathBuf};

/// The folder `captures` of the corpus beside the checkout (or at `REHAL_CORPUS`), or `None`: a
/// clone without it still has the captures that tests build for themselves.
pub fn corpus() -> Option<Vec<PathBuf>> {
    let root = match std::env::var_os("REHAL_CORPUS") {
        Some(path) => PathBuf::from(path),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus"),
    };
    let entries = std::fs::read_dir(root.join("captures")).ok()?;
    let mut paths: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "ireereplay"));
    paths.sort();
    Some(paths)
}
