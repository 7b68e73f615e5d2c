//! Files from which `perf`, `samply` and debuggers know the functions of embedded executables, whose code is
//! in anonymous memory.
//!
//! A map has a line per function. A jitdump file (`jitdump.rs`) also has code and source lines, and times, so
//! that an address may be reused. `perf` finds both by the id of the process, and they are kept for it.

mod jitdump;

use std::fs::{File, OpenOptions, remove_file};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use rehal_base::platform::OpenOptionsExt;
use rehal_base::{Context, Error, Result};
use rehal_hal::PerfMap;

use super::debug_info::DebugInfo;
use super::elf::{Image, Module};
use super::library::Library;
use jitdump::JitDump;

/// Where `perf` looks for maps, whatever `TMPDIR` is.
const MAPS: &str = "/tmp";

/// The files of this process.
static FILES: Mutex<Files> = Mutex::new(Files { map: None, dump: None });

/// A function in memory.
struct Code<'a> {
    name: String,
    /// Process address.
    address: u64,
    /// Image-relative address.
    vaddr: u64,
    bytes: &'a [u8],
}

#[derive(Default)]
struct Files {
    map: Option<Output>,
    dump: Option<JitDump>,
}

/// A file that is open, and its name for errors.
struct Output {
    path: PathBuf,
    file: File,
}

/// Creates the files unless they are open. To be called before [`describe`].
pub fn open(which: PerfMap) -> Result<()> {
    FILES.lock().open(which, Path::new(MAPS), Path::new("."))
}

/// Describes the functions of a library, which is loaded from `bytes` as `module`.
pub(super) fn describe(which: PerfMap, library: &Library, module: &Module, bytes: &[u8]) -> Result<()> {
    let image = Image::parse(bytes).context(|| "embedded ELF executable".to_string())?;
    let info = DebugInfo::read(image.bytes());
    let code = functions(library, module, &image, &info);
    FILES.lock().write(which, &code, &info)
}

/// All functions, in the order of their addresses: those that are dispatched, and those that they call.
fn functions<'a>(
    library: &Library,
    module: &Module,
    image: &Image<'a>,
    info: &DebugInfo<'_>,
) -> Vec<Code<'a>> {
    let vaddr_of = |address: usize| (address as u64).wrapping_sub(module.bias());
    let named = library.functions().iter().zip(library.function_addresses());
    let mut starts: Vec<(u64, String)> = named
        .map(|(function, address)| (vaddr_of(address), function.name.escape_debug().to_string()))
        .collect();
    let others = info.extents().iter().map(|it| it.start);
    starts.extend(others.map(|vaddr| (vaddr, format!("{}!{vaddr:#x}", library.name().escape_debug()))));
    // Stable: names of the library are before those that are made up, and of two names the first counts.
    starts.sort_by_key(|(vaddr, _)| *vaddr);
    starts.dedup_by_key(|(vaddr, _)| *vaddr);
    let mut code = Vec::with_capacity(starts.len());
    for (index, (vaddr, name)) in starts.iter().enumerate() {
        let next = starts.get(index + 1).map(|(next, _)| *next);
        let Some(segment) = image
            .segments()
            .iter()
            .find(|it| it.is_executable() && (it.vaddr..it.vaddr + it.file_size).contains(vaddr))
        else {
            continue;
        };
        // Without call frame information, the padding between functions belongs to the one before it.
        let end = info.end_of(*vaddr).or(next).unwrap_or(u64::MAX).min(segment.vaddr + segment.file_size);
        let Some(bytes) = image.file_bytes(*vaddr, end.saturating_sub(*vaddr)) else { continue };
        let address = module.address(*vaddr) as u64;
        code.push(Code { name: name.clone(), address, vaddr: *vaddr, bytes });
    }
    code
}

impl Files {
    fn open(&mut self, which: PerfMap, maps: &Path, dumps: &Path) -> Result<()> {
        let process = std::process::id();
        // First the file that more often cannot be created: so an error leaves none.
        if which == PerfMap::Code && self.dump.is_none() {
            self.dump = Some(JitDump::create(dumps.join(format!("jit-{process}.dump")))?);
        }
        if self.map.is_none() {
            self.map = Some(Output::create(maps.join(format!("perf-{process}.map")))?);
        }
        Ok(())
    }

    fn write(&mut self, which: PerfMap, code: &[Code<'_>], info: &DebugInfo<'_>) -> Result<()> {
        if let Some(map) = &mut self.map {
            let line = |it: &Code<'_>| format!("{:x} {:x} {}\n", it.address, it.bytes.len(), it.name);
            map.write(code.iter().map(line).collect::<String>().as_bytes())?;
        }
        match &mut self.dump {
            Some(dump) if which == PerfMap::Code => dump.write(code, info),
            _ => Ok(()),
        }
    }
}

impl Output {
    /// Creates a file of the user alone. It replaces one of a process that had the same id, and follows no
    /// link: others may write to the directory.
    fn create(path: PathBuf) -> Result<Self> {
        let create = || {
            match remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path)
        };
        match create() {
            Ok(file) => Ok(Self { path, file }),
            Err(error) => Err(Error::io(format!("creating {} for perf", path.display()), &error)
                .advise("make its directory writable, or leave the perf map out")),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.file
            .write_all(bytes)
            .map_err(|error| Error::io(format!("writing {} for perf", self.path.display()), &error))
    }
}

#[cfg(test)]
mod tests;
