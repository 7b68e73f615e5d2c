use std::path::{Path, PathBuf};

/// A path and its name in errors: the flag, keyword or field in which the user gave it.
///
/// ```
/// use rehal_devices::NamedPath;
///
/// let path = NamedPath::from("model.irpa").named("--parameters=model.irpa");
/// assert_eq!(path.place(), "--parameters=model.irpa");
/// assert_eq!(NamedPath::from("a b").place(), "'a b'");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedPath {
    path: PathBuf,
    name: Option<String>,
}

impl NamedPath {
    /// The same path, called `name` in errors.
    pub fn named(self, name: impl Into<String>) -> Self {
        Self { name: Some(name.into()), ..self }
    }

    /// The path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its name in errors; by default, the quoted path.
    pub fn place(&self) -> String {
        self.name.clone().unwrap_or_else(|| format!("'{}'", self.path.display()))
    }
}

impl<P: Into<PathBuf>> From<P> for NamedPath {
    fn from(path: P) -> Self {
        Self { path: path.into(), name: None }
    }
}
