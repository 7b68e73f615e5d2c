use std::time::Duration;

use rehal_base::Result;
use rehal_hal::{Device, Executable, ExecutableParams};

/// The subject under test: a driver, or a decorated driver. Tests run concurrently.
pub trait Subject: Send + Sync {
    /// Creates a device for one test.
    fn device(&self) -> Result<Device>;

    /// One of the suite's kernels (`fixtures/cts`), compiled to `format`.
    fn kernel(&self, kernel: Kernel, format: &str) -> Result<Vec<u8>>;

    /// Prepares an executable. This is the unsafe call that the suite itself may not make: `data` comes from
    /// [`Subject::kernel`], or is a damaged copy, which the driver must reject.
    fn prepare(&self, device: &Device, params: &ExecutableParams<'_>) -> Result<Executable>;

    /// The failures expected of this driver. Tests covered by them must fail; all others must pass.
    fn expected(&self) -> &[Expected] {
        &[]
    }

    /// Receives the bytes that a test read back from a buffer of this subject: a recorder's tests compare a
    /// replay with them.
    fn saw(&self, _bytes: &[u8]) {}

    /// The timeout for events that must happen. Working drivers never need it: it turns a hang into a
    /// failure.
    fn patience(&self) -> Duration {
        Duration::from_secs(30)
    }
}

/// The suite's kernels, by file name in `fixtures/cts`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernel {
    /// `affine`: `out[i] = in[i] * constant 0 + constant 1` for 16 numbers.
    Affine,
    /// `write_constants`: writes four constants.
    Constants,
    /// `negate`, `twice`, `sum` of 4 numbers each.
    EntryPoints,
    /// `write_count`: writes three constants as a workgroup count.
    Indirect,
    /// `write_ids`: each workgroup writes its id and the count to its own row.
    Workgroups,
    /// `local_memory`, `fails`, `surroundings`, `processor`: written in C.
    Native,
}

impl Kernel {
    /// The file name, without extension.
    pub fn name(self) -> &'static str {
        match self {
            Self::Affine => "affine",
            Self::Constants => "constants",
            Self::EntryPoints => "entry_points",
            Self::Indirect => "indirect",
            Self::Workgroups => "workgroups",
            Self::Native => "native",
        }
    }
}

/// Optional features of drivers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capability {
    /// Executables that can be prepared and dispatched.
    Executables,
    /// Kernels that use local memory and return a status, as CPU code can.
    NativeKernels,
    /// Indirect workgroup counts.
    IndirectDispatch,
    /// Events inside command buffers.
    Events,
    /// Files on disk that queues read and write.
    DiskFiles,
    /// Files in memory that queues read and write.
    MemoryFiles,
    /// Import of host memory as a buffer.
    HostMemory,
    /// Host functions called by a queue.
    HostCalls,
    /// Executables of which only some workgroups run.
    SelectedWorkgroups,
}

/// A declaration of what does not work, and why.
#[derive(Clone, Copy, Debug)]
pub enum Expected {
    /// The driver lacks this feature: every test that needs it fails.
    Lacks(Capability, &'static str),
    /// Tests whose name matches this pattern fail: `*` matches any sequence of bytes, `?` one byte.
    Fails(&'static str, &'static str),
}
