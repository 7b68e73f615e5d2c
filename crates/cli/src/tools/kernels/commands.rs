//! The command lines that measure exported kernels.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rehal_kernels::{DispatchFile, Kernel};

use crate::table::quoted;

/// Constants and bindings that the reference's tool takes; it does not check for more.
const MAX_EXECUTABLE_CONSTANTS: usize = 512;
const MAX_CONSTANTS: usize = 64;
const MAX_BINDINGS: usize = 64;

/// How a kernel is measured by itself.
pub(super) struct Command {
    /// The command, for a shell in the exported directory; `None` if flags cannot express the dispatch.
    pub line: Option<String>,
    /// How the command differs from the captured dispatch.
    pub limits: Vec<String>,
}

/// The commands that measure kernels by themselves, by the index of the kernel.
pub(super) type Commands = BTreeMap<usize, Command>;

/// Where kernels run.
pub(super) struct Place {
    /// The URI of each device.
    pub devices: Vec<String>,
    /// Libraries that executables import from.
    pub plugins: Vec<PathBuf>,
}

impl Command {
    pub(super) fn for_dispatch(kernel: &Kernel, dispatch: &DispatchFile, place: &Place) -> Self {
        let mut limits = Vec::new();
        let mut is_expressed = true;
        let mut missing = |what: String| {
            limits.push(format!("no flag of iree-benchmark-executable sets {what}"));
            is_expressed = false;
        };
        if dispatch.workgroup_size != [0; 3] {
            let [x, y, z] = dispatch.workgroup_size;
            missing(format!("the workgroup size, {x}x{y}x{z}"));
        }
        if dispatch.dynamic_local_memory != 0 {
            missing(format!("dynamic local memory, {} bytes", dispatch.dynamic_local_memory));
        }
        for (ordinal, binding) in kernel.bindings.iter().enumerate() {
            if let Some(other) = binding.alias_of {
                limits.push(format!(
                    "binding {ordinal} has bytes of its own; captured, it overlaps binding {other}"
                ));
            }
        }
        for (what, count, most) in [
            ("executable constants", dispatch.executable_constants.len(), MAX_EXECUTABLE_CONSTANTS),
            ("constants", dispatch.constants.len(), MAX_CONSTANTS),
            ("bindings", dispatch.bindings.len(), MAX_BINDINGS),
        ] {
            if count > most {
                limits
                    .push(format!("the reference's tool takes at most {most} {what}, and here are {count}"));
            }
        }
        let words = words(kernel, dispatch, place);
        if words.is_none() {
            limits.push("the path of a plugin is not UTF-8".into());
        }
        let line = words.filter(|_| is_expressed).map(|words| {
            let words: Vec<_> = words.iter().map(|word| quoted(word)).collect();
            words.join(" ")
        });
        Self { line, limits }
    }
}

/// The command line; `None` if a word is not UTF-8.
fn words(kernel: &Kernel, dispatch: &DispatchFile, place: &Place) -> Option<Vec<String>> {
    let mut words = vec!["iree-benchmark-executable".to_string()];
    let device = kernel.device.and_then(|index| place.devices.get(index));
    words.extend(device.map(|uri| format!("--device={uri}")));
    for plugin in &place.plugins {
        words.push(format!("--executable_plugin={}", absolute(plugin.to_str()?)));
    }
    words.push(format!("--executable_format={}", dispatch.format));
    words.push(format!("--executable_file={}", dispatch.executable));
    words.extend(dispatch.executable_constants.iter().map(|it| format!("--executable_constant={it}")));
    words.push(format!("--entry_point={}", dispatch.function));
    words.extend(dispatch.constants.iter().map(|it| format!("--constant={it}")));
    for binding in &dispatch.bindings {
        let from = binding.file.as_ref().map_or_else(String::new, |file| format!("=@{file}"));
        words.push(format!("--binding={}xi8{from}", binding.length));
    }
    let [x, y, z] = dispatch.workgroup_count;
    words.push(format!("--workgroup_count={x},{y},{z}"));
    Some(words)
}

/// The path of a plugin from any directory; its prefix selects the loader.
fn absolute(plugin: &str) -> String {
    const EMBEDDED: &str = "embedded:";
    let (prefix, path) = match plugin.strip_prefix(EMBEDDED) {
        Some(path) => (EMBEDDED, path),
        None => ("", plugin),
    };
    let path = std::path::absolute(path).ok().and_then(|it| Some(it.to_str()?.to_string()));
    format!("{prefix}{}", path.unwrap_or_else(|| Path::new(plugin).display().to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plugins_are_found_from_any_directory() {
        assert_eq!(absolute("/a/b.so"), "/a/b.so");
        assert!(absolute("b.so").starts_with('/'));
        assert!(absolute("embedded:b.so").starts_with("embedded:/"));
    }
}
