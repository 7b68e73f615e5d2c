//! A process with all that it starts, which ends with the process that started it.

use std::io;
use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
use std::process::{Child, Command};
use std::ptr::null;

use windows_sys::Win32::Foundation::HANDLE;
use windows_sys::Win32::System::JobObjects::{
    AssignProcessToJobObject, CreateJobObjectW, JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE,
    JOB_OBJECT_LIMIT_PROCESS_MEMORY, JOBOBJECT_EXTENDED_LIMIT_INFORMATION, JobObjectExtendedLimitInformation,
    SetInformationJobObject, TerminateJobObject,
};

/// A process with all that it starts, which ends with this value, or with this process.
pub(super) struct ProcessGroup {
    pub(super) child: Child,
    job: OwnedHandle,
}

impl ProcessGroup {
    /// Starts a process, each of whose processes may allocate so many bytes.
    pub(super) fn spawn(command: &mut Command, memory_bytes: Option<u64>) -> io::Result<Self> {
        let mut limits = JOBOBJECT_EXTENDED_LIMIT_INFORMATION::default();
        limits.BasicLimitInformation.LimitFlags = JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE;
        if let Some(bytes) = memory_bytes {
            limits.BasicLimitInformation.LimitFlags |= JOB_OBJECT_LIMIT_PROCESS_MEMORY;
            limits.ProcessMemoryLimit = usize::try_from(bytes).unwrap_or(usize::MAX);
        }
        // SAFETY: the calls get a valid handle, and a structure with its size.
        let job = unsafe {
            let job = CreateJobObjectW(null(), null());
            if job.is_null() {
                return Err(io::Error::last_os_error());
            }
            let owned = OwnedHandle::from_raw_handle(job);
            let is_set = SetInformationJobObject(
                job,
                JobObjectExtendedLimitInformation,
                (&raw const limits).cast(),
                size_of_val(&limits) as u32,
            );
            if is_set == 0 {
                return Err(io::Error::last_os_error());
            }
            owned
        };
        let mut child = command.spawn()?;
        // SAFETY: both handles are open.
        let is_in_it = unsafe {
            AssignProcessToJobObject(job.as_raw_handle() as HANDLE, child.as_raw_handle() as HANDLE)
        };
        if is_in_it == 0 {
            let error = io::Error::last_os_error();
            let _ = child.kill();
            let _ = child.wait();
            return Err(error);
        }
        Ok(Self { child, job })
    }

    pub(super) fn end(&mut self) {
        // SAFETY: the handle is open.
        unsafe { TerminateJobObject(self.job.as_raw_handle() as HANDLE, 1) };
        let _ = self.child.wait();
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.end();
    }
}
