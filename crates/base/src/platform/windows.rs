//! Windows.

#![allow(
    unsafe_code,
    reason = "maps pages, and transfers between files and shared memory; see docs/unsafe.md"
)]

use std::ffi::{CStr, OsStr, OsString};
use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::windows::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::windows::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::os::windows::io::AsRawHandle;
pub use std::os::windows::io::{AsHandle as AsFile, BorrowedHandle as BorrowedFile};
use std::path::{Path, PathBuf};
use std::ptr::{NonNull, null, null_mut};

use memmap2::Mmap;
use windows_sys::Win32::Foundation::{
    ERROR_BROKEN_PIPE, ERROR_HANDLE_EOF, ERROR_NO_DATA, ERROR_PIPE_NOT_CONNECTED, FILETIME,
};
use windows_sys::Win32::System::Console::{
    CONSOLE_SCREEN_BUFFER_INFO, GetConsoleScreenBufferInfo, GetStdHandle, STD_OUTPUT_HANDLE,
    SetConsoleOutputCP,
};
use windows_sys::Win32::System::IO::{OVERLAPPED, OVERLAPPED_0_0};
use windows_sys::Win32::System::Memory::{
    MEM_COMMIT, MEM_RELEASE, MEM_RESERVE, PAGE_READWRITE, VirtualAlloc, VirtualFree, VirtualUnlock,
};
use windows_sys::Win32::System::Performance::{QueryPerformanceCounter, QueryPerformanceFrequency};
use windows_sys::Win32::System::SystemInformation::{GlobalMemoryStatusEx, MEMORYSTATUSEX};
use windows_sys::Win32::System::Threading::{GetCurrentProcess, GetCurrentThreadId, GetProcessTimes};

use windows_sys::Win32::Storage::FileSystem::{
    BY_HANDLE_FILE_INFORMATION, FILE_FLAG_BACKUP_SEMANTICS, GetDiskFreeSpaceExW, GetFileInformationByHandle,
    GetFinalPathNameByHandleW, ReadFile, WriteFile,
};

/// Reads and writes at an offset. They move the position of the file.
pub trait FileExt {
    /// Reads some bytes at an offset.
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Reads all bytes at an offset.
    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()>;

    /// Writes all bytes at an offset.
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
}

impl FileExt for File {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        self.seek_read(bytes, offset)
    }

    fn read_exact_at(&self, mut bytes: &mut [u8], mut offset: u64) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.seek_read(bytes, offset)? {
                0 => return Err(io::Error::new(ErrorKind::UnexpectedEof, "failed to fill whole buffer")),
                count => (bytes, offset) = (&mut bytes[count..], offset + count as u64),
            }
        }
        Ok(())
    }

    fn write_all_at(&self, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.seek_write(bytes, offset)? {
                0 => return Err(io::Error::new(ErrorKind::WriteZero, "failed to write whole buffer")),
                count => (bytes, offset) = (&bytes[count..], offset + count as u64),
            }
        }
        Ok(())
    }
}

/// Names as bytes: UTF-8, with unpaired surrogates as three bytes.
pub trait OsStrExt {
    /// The bytes of a name.
    fn as_bytes(&self) -> &[u8];

    /// The name of these bytes; U+FFFD, which names no file, if they are not UTF-8.
    fn from_bytes(bytes: &[u8]) -> &Self;
}

impl OsStrExt for OsStr {
    fn as_bytes(&self) -> &[u8] {
        self.as_encoded_bytes()
    }

    fn from_bytes(bytes: &[u8]) -> &Self {
        Self::new(str::from_utf8(bytes).unwrap_or("\u{fffd}"))
    }
}

/// The same of names with an owner.
pub trait OsStringExt {
    /// The name of these bytes, as [`OsStrExt::from_bytes`].
    fn from_vec(bytes: Vec<u8>) -> Self;

    /// The bytes of a name.
    fn into_vec(self) -> Vec<u8>;
}

impl OsStringExt for OsString {
    fn from_vec(bytes: Vec<u8>) -> Self {
        OsStr::from_bytes(&bytes).to_owned()
    }

    fn into_vec(self) -> Vec<u8> {
        self.into_encoded_bytes()
    }
}

/// Modes of new files, which have the permissions of their directory instead.
pub trait OpenOptionsExt {
    /// Has no effect.
    fn mode(&mut self, mode: u32) -> &mut Self;
}

impl OpenOptionsExt for OpenOptions {
    fn mode(&mut self, _mode: u32) -> &mut Self {
        self
    }
}

/// The same of new directories.
pub trait DirBuilderExt {
    /// Has no effect.
    fn mode(&mut self, mode: u32) -> &mut Self;
}

impl DirBuilderExt for DirBuilder {
    fn mode(&mut self, _mode: u32) -> &mut Self {
        self
    }
}

/// Has no effect: files have no modes.
pub fn set_mode(_path: &Path, _mode: u32) -> io::Result<()> {
    Ok(())
}

/// The volume and the number of an open file.
pub(crate) fn file_id(file: &impl AsFile) -> io::Result<[u64; 2]> {
    let mut information = BY_HANDLE_FILE_INFORMATION::default();
    // SAFETY: the handle is open, and the structure has room for the answer.
    match unsafe { GetFileInformationByHandle(file.as_handle().as_raw_handle(), &raw mut information) } {
        0 => Err(io::Error::last_os_error()),
        _ => {
            let [low, high] = [information.nFileIndexLow, information.nFileIndexHigh].map(u64::from);
            Ok([information.dwVolumeSerialNumber.into(), high << 32 | low])
        }
    }
}

/// That of the file or directory at `path`, which need not be readable.
pub(crate) fn file_id_at(path: &Path) -> io::Result<[u64; 2]> {
    // Without this flag, a directory cannot be opened.
    file_id(&File::options().access_mode(0).custom_flags(FILE_FLAG_BACKUP_SEMANTICS).open(path)?)
}

/// When a file was modified last: seconds since 1970, and nanoseconds, in steps of 100.
pub fn modified(metadata: &Metadata) -> (i64, i64) {
    /// From 1601 to 1970, in steps of 100 ns.
    const BEFORE_1970: i64 = 116_444_736_000_000_000;
    let steps = metadata.last_write_time().cast_signed() - BEFORE_1970;
    (steps.div_euclid(10_000_000), steps.rem_euclid(10_000_000) * 100)
}

/// Whether it is a character or a block device: metadata of these cannot be asked for.
pub fn is_device(_metadata: &Metadata) -> bool {
    false
}

/// Zeroed pages.
pub(crate) fn map_pages(bytes: usize, _reserves: bool) -> Option<NonNull<u8>> {
    // SAFETY: fresh pages at an address chosen by the system affect no other memory.
    let base = unsafe { VirtualAlloc(null(), bytes, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE) };
    NonNull::new(base.cast())
}

/// Frees pages.
///
/// # Safety
/// They are those of [`map_pages`], and nothing uses them any more.
pub(crate) unsafe fn unmap_pages(base: NonNull<u8>, _bytes: usize) {
    // SAFETY: guaranteed by the caller.
    unsafe { VirtualFree(base.as_ptr().cast(), 0, MEM_RELEASE) };
}

/// Returns false: the pages of an allocation cannot be exchanged at once.
///
/// # Safety
/// None.
pub(crate) unsafe fn map_over(_at: *mut u8, _bytes: usize, _file: &File, _offset: u64) -> bool {
    false
}

/// Reads bytes of a file, at most so many. It moves the position of the file.
///
/// # Safety
/// The bytes are valid for writes; other threads may access them as `HostMemory` does.
pub(crate) unsafe fn read_into(file: &File, at: *mut u8, bytes: usize, offset: u64) -> io::Result<usize> {
    let (mut place, mut count) = (place(offset), 0);
    let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
    // SAFETY: the handle is open, and the bytes are guaranteed by the caller.
    let is_read = unsafe { ReadFile(file.as_raw_handle(), at, bytes, &raw mut count, &raw mut place) };
    match io::Error::last_os_error() {
        _ if is_read != 0 => Ok(count as usize),
        error if error.raw_os_error() == Some(ERROR_HANDLE_EOF as i32) => Ok(0),
        error => Err(error),
    }
}

/// Writes bytes to a file, at most so many, at an offset or else at its position.
///
/// # Safety
/// The bytes are valid for reads; other threads may access them as `HostMemory` does.
pub(crate) unsafe fn write_from(
    file: &impl AsFile,
    at: *const u8,
    bytes: usize,
    offset: Option<u64>,
) -> io::Result<usize> {
    let (mut place, mut count) = (offset.map(place), 0);
    let place = place.as_mut().map_or(null_mut(), std::ptr::from_mut);
    let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
    // SAFETY: the handle is open, and the bytes are guaranteed by the caller.
    match unsafe { WriteFile(file.as_handle().as_raw_handle(), at, bytes, &raw mut count, place) } {
        0 => Err(io::Error::last_os_error()),
        _ => Ok(count as usize),
    }
}

/// An offset in a file.
fn place(offset: u64) -> OVERLAPPED {
    let mut place = OVERLAPPED::default();
    place.Anonymous.Anonymous = OVERLAPPED_0_0 { Offset: offset as u32, OffsetHigh: (offset >> 32) as u32 };
    place
}

/// Has the system release pages of a file first, which are read from it again.
///
/// # Safety
/// The range is in the mapping.
pub(crate) unsafe fn forget(map: &Mmap, start: usize, bytes: usize) {
    // SAFETY: pages that are not locked leave the working set; their contents stay.
    unsafe { VirtualUnlock(map.as_ptr().add(start).cast(), bytes) };
}

/// Nanoseconds of a clock that is the same for all processes of the machine.
pub fn monotonic_ns() -> i64 {
    let (mut count, mut frequency) = (0, 0);
    // SAFETY: the calls write a number each, and do not fail.
    unsafe { (QueryPerformanceCounter(&raw mut count), QueryPerformanceFrequency(&raw mut frequency)) };
    (i128::from(count) * 1_000_000_000 / i128::from(frequency.max(1))) as i64
}

/// Processor time of all threads of this process so far, in nanoseconds, in steps of the scheduler.
pub fn process_cpu_ns() -> i64 {
    let mut times = [FILETIME::default(); 4];
    let [created, exited, kernel, user] = &mut times;
    // SAFETY: the call writes four times.
    unsafe { GetProcessTimes(GetCurrentProcess(), created, exited, kernel, user) };
    let steps = |time: &FILETIME| i64::from(time.dwHighDateTime) << 32 | i64::from(time.dwLowDateTime);
    (steps(kernel) + steps(user)) * 100
}

/// Time of this thread so far, in nanoseconds, whether it ran or not: the system counts processor time in
/// steps of the scheduler, which are longer than most kernels.
#[inline]
pub fn thread_cpu_ns() -> i64 {
    monotonic_ns()
}

/// The name of the machine.
pub fn host_name() -> String {
    std::env::var("COMPUTERNAME").unwrap_or_default()
}

/// Steps per second of the times that the system counts.
pub fn clock_ticks_per_second() -> u64 {
    10_000_000
}

/// Fails if a file does not exist, or may not be written.
pub fn check_writable(path: &Path) -> io::Result<()> {
    match std::fs::metadata(path)? {
        it if it.is_file() && it.permissions().readonly() => Err(ErrorKind::PermissionDenied.into()),
        _ => Ok(()),
    }
}

/// Whether it is a pipe: these have no names among files.
pub fn is_pipe(_metadata: &Metadata) -> bool {
    false
}

/// A path by which this process opens an open file again.
pub fn reopen_path(file: &File) -> io::Result<PathBuf> {
    path_of(file)
}

/// The path of an open file.
pub fn path_of(file: &File) -> io::Result<PathBuf> {
    /// The most units of a path.
    const LENGTH: usize = 32 << 10;
    let mut path = vec![0; LENGTH];
    // SAFETY: the handle is open, and the buffer has room for this length.
    let length =
        unsafe { GetFinalPathNameByHandleW(file.as_raw_handle(), path.as_mut_ptr(), LENGTH as u32, 0) };
    match length as usize {
        0 => Err(io::Error::last_os_error()),
        length => {
            let path = OsString::from_wide(&path[..length.min(LENGTH)]);
            // Without the prefix for long paths, which other programs do not expect.
            let text = path.to_str().and_then(|it| it.strip_prefix(r"\\?\"));
            Ok(text.filter(|it| !it.starts_with("UNC")).map_or_else(|| path.clone().into(), PathBuf::from))
        }
    }
}

/// The columns of the console that standard output is.
pub fn terminal_columns() -> Option<usize> {
    let mut screen = CONSOLE_SCREEN_BUFFER_INFO::default();
    // SAFETY: the structure has room for the answer.
    let is_known =
        unsafe { GetConsoleScreenBufferInfo(GetStdHandle(STD_OUTPUT_HANDLE), &raw mut screen) } != 0;
    let columns = i32::from(screen.srWindow.Right) - i32::from(screen.srWindow.Left) + 1;
    usize::try_from(columns).ok().filter(|_| is_known)
}

/// Bytes that are free for this user where a path is.
pub fn free_bytes(path: &Path) -> Option<u64> {
    let path: Vec<u16> = path.as_os_str().encode_wide().chain([0]).collect();
    let mut free = 0;
    // SAFETY: the path ends with a zero, and the call writes a number.
    let is_known = unsafe { GetDiskFreeSpaceExW(path.as_ptr(), &raw mut free, null_mut(), null_mut()) } != 0;
    is_known.then_some(free)
}

/// The file that a value is or has.
pub fn borrowed(file: &impl AsFile) -> BorrowedFile<'_> {
    file.as_handle()
}

/// Writes bytes to a file at its position, at most all.
pub fn write(file: BorrowedFile<'_>, bytes: &[u8]) -> io::Result<usize> {
    // SAFETY: the bytes are borrowed.
    unsafe { write_from(&file, bytes.as_ptr(), bytes.len(), None) }
}

/// Makes another name for a program: a symbolic link would need a privilege, and a hard link another name on
/// the same disk. A relative path is from the directory of the link.
pub fn link_program(program: &Path, link: &Path) -> io::Result<()> {
    let program = &link.parent().unwrap_or(Path::new("")).join(program);
    std::fs::hard_link(program, link).or_else(|_| std::fs::copy(program, link).map(drop))
}

/// Size of a page of memory in bytes.
#[inline]
pub fn page_bytes() -> usize {
    4096
}

/// Bytes of memory of the machine; 0 if unknown.
pub fn memory_bytes() -> u64 {
    let length = size_of::<MEMORYSTATUSEX>() as u32;
    let mut status = MEMORYSTATUSEX { dwLength: length, ..MEMORYSTATUSEX::default() };
    // SAFETY: the structure says its size.
    unsafe { GlobalMemoryStatusEx(&raw mut status) };
    status.ullTotalPhys
}

/// The system's id of the calling thread.
pub fn thread_id() -> u64 {
    // SAFETY: the call has no arguments.
    unsafe { GetCurrentThreadId() }.into()
}

/// Not known here.
pub fn load_average() -> Option<[f64; 3]> {
    None
}

/// Opens a file to read it.
pub fn open_without_waiting(path: &Path) -> io::Result<File> {
    File::open(path)
}

/// Fails: descriptors belong to the C library that made them.
///
/// # Safety
/// None.
pub unsafe fn duplicate_descriptor(_descriptor: i32) -> io::Result<(File, bool)> {
    Err(ErrorKind::Unsupported.into())
}

/// No process is refused a link as such.
pub fn is_link(_error: &io::Error) -> bool {
    false
}

/// Makes the console show what is written to it as UTF-8.
pub fn prepare_console() {
    const UTF_8: u32 = 65001;
    // SAFETY: the call has no arguments in memory.
    unsafe { SetConsoleOutputCP(UTF_8) };
}

/// Reserves nothing: see [`Ability::Guards`](crate::Ability).
pub(crate) fn map_reserved(
    _length: usize,
    _accessible: impl FnOnce(usize) -> (usize, usize),
) -> Option<(NonNull<u8>, usize)> {
    None
}

/// Has no effect: groups of processes end with the process that has their job object.
pub fn kill_group(_id: i32) {}

fn path_in(path: &CStr) -> &Path {
    Path::new(OsStr::from_bytes(path.to_bytes()))
}

/// Removes a file.
pub fn remove_file(path: &CStr) {
    let _ = std::fs::remove_file(path_in(path));
}

/// Whether a directory was empty, and is removed.
pub fn remove_empty(path: &CStr) -> bool {
    std::fs::remove_dir(path_in(path)).is_ok()
}

/// Whether a file or directory is renamed.
pub fn rename(from: &CStr, to: &CStr) -> bool {
    std::fs::rename(path_in(from), path_in(to)).is_ok()
}

/// Whether a directory is removed with what it contains, or does not exist.
pub fn remove_directory(path: &CStr) -> bool {
    let path = path_in(path);
    std::fs::remove_dir_all(path).is_ok() || !path.exists()
}

/// Has no effect: the allocator is the system's.
pub(crate) fn keep_freed_memory() {}

/// No file is: see [`Ability::FilePages`](crate::Ability).
pub(crate) fn is_mappable(_file: &File) -> bool {
    false
}

/// Whether nothing reads what is written to a pipe.
pub fn is_closed_pipe(error: &io::Error) -> bool {
    let errors = [ERROR_BROKEN_PIPE, ERROR_NO_DATA, ERROR_PIPE_NOT_CONNECTED].map(u32::cast_signed);
    error.kind() == ErrorKind::BrokenPipe || error.raw_os_error().is_some_and(|it| errors.contains(&it))
}
