//! Systems of the Unix family.

pub use std::os::fd::{AsFd as AsFile, BorrowedFd as BorrowedFile};
pub use std::os::unix::ffi::{OsStrExt, OsStringExt};
pub use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};

use std::ffi::{CStr, c_int};
use std::fs::{File, Metadata, Permissions};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;

use memmap2::{Mmap, UncheckedAdvice};
use rustix::time::{ClockId, clock_gettime};

/// Size of a page of memory in bytes. Async-signal-safe.
#[inline]
pub fn page_bytes() -> usize {
    #[cfg(test)]
    if let Some(bytes) = PAGE_BYTES.get() {
        return bytes;
    }
    // Linux has one size on this processor; others have several, of which the system chooses.
    if cfg!(target_arch = "x86_64") { 4096 } else { rustix::param::page_size() }
}

#[cfg(test)]
thread_local! {
    /// The size of pages of a system that has larger ones than this one.
    pub(crate) static PAGE_BYTES: std::cell::Cell<Option<usize>> = const { std::cell::Cell::new(None) };
}

/// Bytes of memory of the machine; 0 if unknown.
pub fn memory_bytes() -> u64 {
    // SAFETY: the call reads a number.
    let pages = unsafe { libc::sysconf(libc::_SC_PHYS_PAGES) };
    u64::try_from(pages).unwrap_or(0).saturating_mul(page_bytes() as u64)
}

/// Makes the C library's allocator keep the memory that is freed, if it is glibc.
pub(crate) fn keep_freed_memory() {
    #[cfg(all(target_env = "gnu", not(miri)))]
    {
        /// Larger blocks are mapped, and unmapped when they are freed: the most that glibc accepts.
        const MAPPED_BYTES: c_int = 32 << 20;
        // SAFETY: the call changes when memory is returned, under the allocator's lock; -1 is never.
        unsafe {
            libc::mallopt(libc::M_TRIM_THRESHOLD, -1);
            libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED_BYTES);
        }
    }
}

fn map(length: usize, access: c_int, flags: c_int) -> Option<NonNull<u8>> {
    let flags = flags | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a fresh anonymous mapping at an address chosen by the system affects no other memory.
    let base = unsafe { libc::mmap(std::ptr::null_mut(), length, access, flags, -1, 0) };
    NonNull::new(base.cast::<u8>()).filter(|_| base != libc::MAP_FAILED)
}

/// Zeroed pages. If they are not reserved, the system may have less memory.
pub(crate) fn map_pages(length: usize, reserves: bool) -> Option<NonNull<u8>> {
    map(length, libc::PROT_READ | libc::PROT_WRITE, if reserves { 0 } else { libc::MAP_NORESERVE })
}

/// A mapping of which only a range is accessible, `shift` bytes after its start.
pub(crate) fn map_reserved(
    length: usize,
    accessible: impl FnOnce(usize) -> (usize, usize),
) -> Option<(NonNull<u8>, usize)> {
    let mapping = map(length, libc::PROT_NONE, libc::MAP_NORESERVE)?;
    let (shift, bytes) = accessible(mapping.addr().get());
    debug_assert!(shift + bytes <= length);
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: the pages are within the mapping, which nothing else uses.
    if unsafe { libc::mprotect(mapping.as_ptr().byte_add(shift).cast(), bytes, access) } != 0 {
        // SAFETY: as above.
        unsafe { unmap_pages(mapping, length) };
        return None;
    }
    Some((mapping, shift))
}

/// Unmaps pages.
///
/// # Safety
/// They are a whole mapping of [`map_pages`] or [`map_reserved`], and nothing uses them any more.
pub(crate) unsafe fn unmap_pages(base: NonNull<u8>, length: usize) {
    // SAFETY: guaranteed by the caller.
    unsafe { libc::munmap(base.as_ptr().cast(), length) };
}

/// The device and the number of an open file.
pub(crate) fn file_id(file: &impl AsFile) -> io::Result<[u64; 2]> {
    let metadata = rustix::fs::fstat(file)?;
    #[allow(clippy::unnecessary_cast, reason = "other systems have other types")]
    Ok([metadata.st_dev as u64, metadata.st_ino as u64])
}

/// That of the file at `path`, which need not be readable.
pub(crate) fn file_id_at(path: &Path) -> io::Result<[u64; 2]> {
    std::fs::metadata(path).map(|it| [it.dev(), it.ino()])
}

/// When a file was modified last: seconds since 1970, and nanoseconds.
pub fn modified(metadata: &Metadata) -> (i64, i64) {
    (metadata.mtime(), metadata.mtime_nsec())
}

/// Sets the mode of a file, such as 0o755.
pub fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    std::fs::set_permissions(path, Permissions::from_mode(mode))
}

/// Whether it is a character or a block device.
pub fn is_device(metadata: &Metadata) -> bool {
    let kind = metadata.file_type();
    kind.is_char_device() || kind.is_block_device()
}

/// Maps pages of a file in the place of others, at once. Returns whether it has.
///
/// # Safety
/// The pages are those of [`map_pages`], and the caller owns them.
pub(crate) unsafe fn map_over(at: *mut u8, bytes: usize, file: &File, offset: u64) -> bool {
    let Ok(offset) = libc::off_t::try_from(offset) else { return false };
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_FIXED | libc::MAP_NORESERVE;
    // SAFETY: guaranteed by the caller.
    unsafe { libc::mmap(at.cast(), bytes, access, flags, file.as_raw_fd(), offset) != libc::MAP_FAILED }
}

/// Reads bytes of a file, at most so many.
///
/// # Safety
/// The bytes are valid for writes; other threads may access them as `HostMemory` does.
pub(crate) unsafe fn read_into(file: &File, at: *mut u8, bytes: usize, offset: u64) -> io::Result<usize> {
    // SAFETY: guaranteed by the caller.
    let count = unsafe { libc::pread(file.as_raw_fd(), at.cast(), bytes, offset as libc::off_t) };
    usize::try_from(count).map_err(|_| io::Error::last_os_error())
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
    let descriptor = file.as_fd().as_raw_fd();
    // SAFETY: guaranteed by the caller.
    let count = unsafe {
        match offset {
            Some(offset) => libc::pwrite(descriptor, at.cast(), bytes, offset as libc::off_t),
            None => libc::write(descriptor, at.cast(), bytes),
        }
    };
    usize::try_from(count).map_err(|_| io::Error::last_os_error())
}

/// Releases the memory of pages of a file, which are read from it again.
///
/// # Safety
/// The mapping is of a file, and read-only.
pub(crate) unsafe fn forget(map: &Mmap, start: usize, bytes: usize) {
    // SAFETY: no write can be lost.
    let _ = unsafe { map.unchecked_advise_range(UncheckedAdvice::DontNeed, start, bytes) };
}

#[inline]
fn clock_ns(clock: ClockId) -> i64 {
    let now = clock_gettime(clock);
    now.tv_sec.saturating_mul(1_000_000_000).saturating_add(now.tv_nsec)
}

/// Nanoseconds of a clock that is the same for all processes of the machine.
#[inline]
pub fn monotonic_ns() -> i64 {
    clock_ns(ClockId::Monotonic)
}

/// Processor time of all threads of this process so far, in nanoseconds.
pub fn process_cpu_ns() -> i64 {
    clock_ns(ClockId::ProcessCPUTime)
}

/// Processor time of this thread so far, in nanoseconds.
#[inline]
pub fn thread_cpu_ns() -> i64 {
    clock_ns(ClockId::ThreadCPUTime)
}

/// The name of the machine.
pub fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Steps per second of the times that the system counts.
pub fn clock_ticks_per_second() -> u64 {
    rustix::param::clock_ticks_per_second()
}

/// Fails if this process may not write a file, or create files in a directory.
pub fn check_writable(path: &Path) -> io::Result<()> {
    Ok(rustix::fs::access(path, rustix::fs::Access::WRITE_OK)?)
}

/// Whether it is a pipe.
pub fn is_pipe(metadata: &Metadata) -> bool {
    metadata.file_type().is_fifo()
}

/// A path by which this process opens an open file again, whatever its name.
pub fn reopen_path(file: &File) -> io::Result<PathBuf> {
    Ok(format!("/proc/self/fd/{}", file.as_raw_fd()).into())
}

/// The path of an open file.
pub fn path_of(file: &File) -> io::Result<PathBuf> {
    std::fs::read_link(reopen_path(file)?)
}

/// The columns of the terminal that standard output is.
pub fn terminal_columns() -> Option<usize> {
    Some(rustix::termios::tcgetwinsize(rustix::stdio::stdout()).ok()?.ws_col.into())
}

/// Bytes that are free for this user where a path is.
pub fn free_bytes(path: &Path) -> Option<u64> {
    let disk = rustix::fs::statvfs(path).ok()?;
    Some(disk.f_bavail.saturating_mul(disk.f_frsize))
}

/// The file that a value is or has.
pub fn borrowed(file: &impl AsFile) -> BorrowedFile<'_> {
    file.as_fd()
}

/// Writes bytes to a file at its position, at most all.
pub fn write(file: BorrowedFile<'_>, bytes: &[u8]) -> io::Result<usize> {
    Ok(rustix::io::write(file, bytes)?)
}

/// Makes another name for a program.
pub fn link_program(program: &Path, link: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(program, link)
}

/// Opens a file to read it; a pipe without a writer is empty.
pub fn open_without_waiting(path: &Path) -> io::Result<File> {
    File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path)
}

/// A copy of a descriptor as a file, and whether writes to it are appended.
///
/// # Safety
/// The descriptor is open.
pub unsafe fn duplicate_descriptor(descriptor: i32) -> io::Result<(File, bool)> {
    // SAFETY: guaranteed by the caller.
    let file = unsafe { BorrowedFd::borrow_raw(descriptor) }.try_clone_to_owned().map(File::from)?;
    let flags = rustix::fs::fcntl_getfl(&file)?;
    Ok((file, flags.contains(rustix::fs::OFlags::APPEND)))
}

/// Whether a file was not opened since it is a link, which a confined process may not follow.
pub fn is_link(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ELOOP)
}

/// Has no effect: terminals show UTF-8.
pub fn prepare_console() {}

/// Whether nothing reads what is written to a pipe.
pub fn is_closed_pipe(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::BrokenPipe
}

/// Ends the processes of a group. Async-signal-safe, as are the next ones.
pub fn kill_group(id: i32) {
    // SAFETY: sends a signal, and touches no memory.
    unsafe { libc::kill(-id, libc::SIGKILL) };
}

/// Removes a file.
pub fn remove_file(path: &CStr) {
    // SAFETY: the path is a string.
    unsafe { libc::unlink(path.as_ptr()) };
}

/// Whether a directory was empty, and is removed.
pub fn remove_empty(path: &CStr) -> bool {
    // SAFETY: the path is a string.
    unsafe { libc::rmdir(path.as_ptr()) == 0 }
}

/// Whether a file or directory is renamed.
pub fn rename(from: &CStr, to: &CStr) -> bool {
    // SAFETY: the paths are strings.
    unsafe { libc::rename(from.as_ptr(), to.as_ptr()) == 0 }
}
