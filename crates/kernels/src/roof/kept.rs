//! Measured roofs in the user's directory of caches: a file for each description.

use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::path::PathBuf;

use rehal_base::{Error, Result};
use rehal_build::cache_directory;
use rehal_hal::Device;
use rehal_judge::{Context, Host, Options};
use rehal_roof::CacheLevel;

use super::{MachineDescription, MachineRoof};

/// The size of a file at most: one has some 10 KB.
const MAX_BYTES: u64 = 1 << 20;

/// The directory of roofs, in that of caches.
const MACHINES: &str = "machines";

impl MachineDescription {
    pub(super) fn of(device: &Device) -> Self {
        let (host, info) = (Host::now(), device.info());
        let is_cpu = info.driver.starts_with("local-");
        let caches = if is_cpu { Context::gather(&Options::default(), 0).caches } else { Vec::new() };
        let caches = caches.into_iter().filter(|it| it.kind != "Instruction");
        let level = |it: rehal_judge::Cache| CacheLevel {
            level: it.level,
            size_bytes: it.size_bytes,
            shared_by: it.num_sharing,
        };
        Self {
            driver: if is_cpu { "cpu".into() } else { info.driver.clone() },
            device: if is_cpu { host.cpu } else { info.name.clone() },
            host: host.name,
            processors: host.processors,
            threads: std::thread::available_parallelism().map_or(1, Into::into),
            caches: caches.map(level).collect(),
            version: env!("CARGO_PKG_VERSION").into(),
        }
    }

    pub(super) fn is_cpu(&self) -> bool {
        self.driver == "cpu"
    }

    /// `None` if the user has no directory of caches.
    fn path(&self, variable: &dyn Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
        // Any description is an object of JSON.
        let text = serde_json::to_vec(self).unwrap_or_default();
        let digest = blake3::hash(&text).to_hex();
        let file = format!("{}-{}.json", self.driver, &digest[..16]);
        Some(cache_directory(variable)?.join(MACHINES).join(file))
    }
}

impl MachineRoof {
    /// The directory in which roofs are kept.
    pub fn directory() -> Option<PathBuf> {
        Some(cache_directory(&|name| std::env::var_os(name))?.join(MACHINES))
    }

    /// The stored roof of a device, and its file; `None` if it has not been measured, or is described
    /// otherwise than then.
    pub fn kept(device: &Device) -> Option<(Self, PathBuf)> {
        Self::kept_in(&MachineDescription::of(device), &|name| std::env::var_os(name))
    }

    fn kept_in(
        machine: &MachineDescription,
        variable: &dyn Fn(&str) -> Option<OsString>,
    ) -> Option<(Self, PathBuf)> {
        let path = machine.path(variable)?;
        if fs::metadata(&path).ok()?.len() > MAX_BYTES {
            return None;
        }
        let kept: Self = serde_json::from_slice(&fs::read(&path).ok()?).ok()?;
        let is_complete = !kept.peaks.is_empty() && !kept.bandwidths.is_empty();
        let are_rates = is_complete && kept.rates().all(|it| it.is_finite() && it > 0.0);
        (kept.machine == *machine && are_rates).then_some((kept, path))
    }

    /// Keeps it for [`MachineRoof::kept`]; returns the file.
    pub fn keep(&self) -> Result<PathBuf> {
        self.keep_in(&|name| std::env::var_os(name))
    }

    fn keep_in(&self, variable: &dyn Fn(&str) -> Option<OsString>) -> Result<PathBuf> {
        const ADVICE: &str = "set REHAL_CACHE_DIR to a directory that can be written";
        let path = self.machine.path(variable).ok_or_else(|| {
            Error::failed_precondition("the directory of caches is unknown: HOME is not set").advise(ADVICE)
        })?;
        let failed =
            |error: &std::io::Error| Error::io(format!("writing '{}'", path.display()), error).advise(ADVICE);
        let directory = path.parent().unwrap_or(&path);
        let write = || {
            fs::create_dir_all(directory)?;
            // Complete or absent.
            let mut file = tempfile::NamedTempFile::new_in(directory)?;
            file.write_all(&serde_json::to_vec_pretty(self)?)?;
            file.persist(&path).map_err(|error| error.error)?;
            Ok(())
        };
        write().map_err(|error| failed(&error))?;
        Ok(path)
    }

    fn rates(&self) -> impl Iterator<Item = f64> {
        let bandwidths = self.bandwidths.iter().flat_map(|it| [it.read, it.copy]);
        self.peaks.iter().map(|it| it.rate).chain(bandwidths).map(|it| it.per_second)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::roof;
    use super::*;

    #[test]
    fn a_roof_is_kept_for_its_machine() {
        let directory = tempfile::tempdir().unwrap();
        let variable =
            |name: &str| (name == "REHAL_CACHE_DIR").then(|| directory.path().as_os_str().to_owned());
        let it = roof();
        assert_eq!(MachineRoof::kept_in(&it.machine, &variable), None);
        let path = it.keep_in(&variable).unwrap();
        assert_eq!(path.parent(), Some(&*directory.path().join("machines")));
        assert_eq!(MachineRoof::kept_in(&it.machine, &variable), Some((it.clone(), path.clone())));
        let other = MachineDescription { device: "another CPU".into(), ..it.machine.clone() };
        assert_eq!(MachineRoof::kept_in(&other, &variable), None);
        let text = fs::read_to_string(&path).unwrap();
        // What is damaged, or of another machine, is as if it was not there.
        for damaged in [
            &text[..text.len() / 2],
            "",
            "{}",
            &text.replace("a CPU", "other"),
            &text.replace("4000000000.0", "-4000000000.0"),
        ] {
            fs::write(&path, damaged).unwrap();
            assert_eq!(MachineRoof::kept_in(&it.machine, &variable), None, "{damaged}");
        }
        assert!(it.keep_in(&|_| None).unwrap_err().to_string().contains("HOME"));
    }
}
