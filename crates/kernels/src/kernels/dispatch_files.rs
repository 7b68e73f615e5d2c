//! Files with which a tool can dispatch a kernel by itself: its executable and what is bound to it.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use rehal_base::platform::FileExt;
use rehal_base::{Context, Error, FileKind, HostMemory, Range, Result};
use rehal_devices::CrashReports;
use rehal_hal::transfer;
use rehal_replay::{AccessedRange, DispatchOperation, Observer, Operation, Replay};

use crate::kernel_record::words;

/// The directories of the files.
const EXECUTABLES: &str = "executables";
const BINDINGS: &str = "bindings";
/// Bytes of a binding that are read at a time, and blocks of them that are left out of a file if they are
/// zero.
const PIECE_BYTES: usize = 1 << 20;
const BLOCK_BYTES: usize = 4 << 10;

/// A directory with the executables of dispatches and the contents of their bindings. What several of them
/// have is one file.
pub struct DispatchFiles {
    directory: PathBuf,
}

/// A dispatch, with its arguments in files: paths are relative to the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DispatchFile {
    /// The format of the executable.
    pub format: String,
    /// The file with the executable.
    pub executable: String,
    /// Specialization constants of the executable.
    pub executable_constants: Vec<u32>,
    /// The function's ordinal in the executable.
    pub function: u32,
    /// Number of workgroups in x, y and z.
    pub workgroup_count: [u32; 3],
    /// Workgroup size in x, y and z; zero if the driver chooses.
    pub workgroup_size: [u32; 3],
    /// Dynamic workgroup-local memory in bytes.
    pub dynamic_local_memory: u32,
    /// 32-bit constants.
    pub constants: Vec<u32>,
    /// The bindings, by ordinal.
    pub bindings: Vec<BindingFile>,
}

/// A binding of a [`DispatchFile`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BindingFile {
    /// Number of bytes.
    pub length: u64,
    /// The file with them; `None` if all are zero.
    pub file: Option<String>,
}

impl DispatchFiles {
    /// Files in a directory, which exists.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into() }
    }

    /// Replays a capture up to its first dispatch, such as the slice of a kernel, and writes the dispatch.
    /// What nothing wrote before is zero on CPU devices. Fails if there is no dispatch.
    pub fn write(&self, replay: &Replay) -> Result<DispatchFile> {
        let mut writer = Writer { files: self, written: None };
        replay.run(&mut [&mut CrashReports::records(), &mut writer])?;
        writer.written.ok_or_else(|| Error::not_found("the capture has no dispatch"))
    }

    fn dispatch(&self, operation: &Operation<'_>, dispatch: &DispatchOperation<'_>) -> Result<DispatchFile> {
        let running = dispatch.running()?;
        let code = &running.code;
        let digest = blake3::hash(code.data).to_hex();
        let bindings = operation.bindings().iter().enumerate();
        let bindings = bindings
            .map(|(ordinal, binding)| self.binding(binding).context(|| format!("binding {ordinal}")))
            .collect::<Result<_>>()?;
        let extension = FileKind::from_head(code.data).map_or("bin", FileKind::extension);
        let path = format!("{EXECUTABLES}/{}.{extension}", &digest[..DIGITS]);
        self.once(&path, |file| file.write_all(code.data))?;
        Ok(DispatchFile {
            format: String::from_utf8_lossy(code.format).into_owned(),
            executable: path,
            executable_constants: words(dispatch.executable.constants),
            function: running.ordinal,
            workgroup_count: dispatch.workgroup_count,
            workgroup_size: dispatch.workgroup_size,
            dynamic_local_memory: dispatch.dynamic_local_memory,
            constants: words(dispatch.constants),
            bindings,
        })
    }

    fn binding(&self, binding: &AccessedRange<'_>) -> Result<BindingFile> {
        let length = binding.length;
        let mut hasher = blake3::Hasher::new();
        let mut is_zero = true;
        each_piece(binding, |_, piece| {
            is_zero &= piece.iter().all(|byte| *byte == 0);
            hasher.update(piece);
            Ok(())
        })?;
        if is_zero {
            return Ok(BindingFile { length, file: None });
        }
        let path = format!("{BINDINGS}/{}.bin", &hasher.finalize().to_hex()[..DIGITS]);
        self.once(&path, |file| {
            // Only blocks that are not zero take space, if the file system has sparse files.
            file.set_len(length)?;
            let mut written = Ok(());
            let outcome = each_piece(binding, |at, piece| {
                for (index, block) in piece.chunks(BLOCK_BYTES).enumerate() {
                    if written.is_ok() && block.iter().any(|byte| *byte != 0) {
                        written = file.write_all_at(block, at + (index * BLOCK_BYTES) as u64);
                    }
                }
                Ok(())
            });
            // The same bytes were read before.
            outcome.map_err(|error| std::io::Error::other(error.to_string())).and(written)
        })?;
        Ok(BindingFile { length, file: Some(path) })
    }

    /// Writes a file, unless it exists.
    fn once(&self, path: &str, write: impl FnOnce(&mut File) -> std::io::Result<()>) -> Result<()> {
        let full = self.directory.join(path);
        if full.exists() {
            return Ok(());
        }
        // Only this one: what was removed because the process is about to end stays so.
        let created = full.parent().map_or(Ok(()), std::fs::create_dir).or_else(|error| match error.kind() {
            ErrorKind::AlreadyExists => Ok(()),
            _ => Err(error),
        });
        let created = created.and_then(|()| File::options().write(true).create_new(true).open(&full));
        created.and_then(|mut file| write(&mut file)).map_err(|error| failed(&full, &error))
    }
}

/// Digits of a digest in the name of a file: 128 bits.
const DIGITS: usize = 32;

fn failed(path: &Path, error: &std::io::Error) -> Error {
    Error::io(format!("writing '{}'", path.display()), error)
}

/// Passes the bytes of a binding in pieces, each with its place.
fn each_piece(binding: &AccessedRange<'_>, mut take: impl FnMut(u64, &[u8]) -> Result<()>) -> Result<()> {
    let mut done = 0;
    let mut bytes = vec![0; PIECE_BYTES.min(usize::try_from(binding.length).unwrap_or(PIECE_BYTES))];
    transfer::read_with(
        binding.buffer,
        binding.offset,
        binding.length,
        |memory: &HostMemory, range: Range| {
            let mut at = 0;
            while at < range.length {
                let piece = &mut bytes[..(range.length - at).min(PIECE_BYTES as u64) as usize];
                memory.read(range.offset + at, piece)?;
                take(done, piece)?;
                at += piece.len() as u64;
                done += piece.len() as u64;
            }
            Ok(())
        },
    )
}

/// Writes the first dispatch of a replay, which ends there.
struct Writer<'f> {
    files: &'f DispatchFiles,
    written: Option<DispatchFile>,
}

impl Observer for Writer<'_> {
    fn wants_operations(&self) -> bool {
        true
    }

    fn before_operation(&mut self, operation: &Operation<'_>) -> Result<ControlFlow<()>> {
        let Some(dispatch) = &operation.dispatch else { return Ok(ControlFlow::Continue(())) };
        self.written = Some(self.files.dispatch(operation, dispatch)?);
        Ok(ControlFlow::Break(()))
    }
}
