use std::time::Duration;

use rehal_base::Result;
use rehal_hal::{Device, Executable, ExecutableParams};

/// What is tested: a driver, or a driver under a decorator. Tests run on several threads at once.
pub trait Subject: Send + Sync {
    /// A device of its own for one test.
    fn device(&self) -> Result<Device>;

    /// One of the suite's kernels (`fixtures/cts`), compiled to `format`.
    fn kernel(&self, kernel: Kernel, format: &str) -> Result<Vec<u8>>;

    /// Prepares an executable. This is the unsafe call that the suite itself may not make: `data`
    /// is what [`Subject::kernel`] gave, or a damaged copy, which the driver has to refuse.
    fn prepare(&self, device: &Device, params: &ExecutableParams<'_>) -> Result<Executable>;

    /// What does not work on this driver. Tests that it covers must fail; all others must pass.
    fn expected(&self) -> &[Expected] {
        &[]
    }

    /// What a test read back from a buffer of a device of this subject: a recorder's tests hold a replay to it.
    fn saw(&self, _bytes: &[u8]) {}

    /// How long a test waits for what must happen. Working drivers never need that long: it turns
    /// a hang into a failure.
    fn patience(&self) -> Duration {
        Duration::from_secs(30)
    }
}

/// The suite's kernels, by the name of their file in `fixtures/cts`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernel {
    /// `affine`: `out[i] = in[i] * constant 0 + constant 1` for 16 numbers.
    Affine,
    /// `write_constants`: writes four constants.
    Constants,
    /// `negate`, `twice`, `sum` of 4 numbers each.
    EntryPoints,
    /// `write_count`: writes three constants, as a workgroup count.
    Indirect,
    /// `write_ids`: each workgroup writes its id and the count to its own row.
    Workgroups,
    /// `local_memory`, `fails`, `surroundings`, `processor`: written in C.
    Native,
}

impl Kernel {
    /// The name of its file, without extension.
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

/// What not every driver has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capability {
    /// Executables that can be prepared and dispatched.
    Executables,
    /// Kernels that use local memory and return a status: what code on a CPU can do.
    NativeKernels,
    /// Workgroup counts that come from a buffer.
    IndirectDispatch,
    /// Events inside command buffers.
    Events,
    /// Files on disk that queues read and write.
    DiskFiles,
    /// Files in memory that queues read and write.
    MemoryFiles,
    /// Memory of the host as a buffer.
    HostMemory,
    /// Functions of the host that a queue calls.
    HostCalls,
}

/// What is declared not to work, and why.
#[derive(Clone, Copy, Debug)]
pub enum Expected {
    /// The driver has not got this: every test that needs it fails.
    Lacks(Capability, &'static str),
    /// Tests whose name matches this pattern fail: `*` stands for any run of bytes, `?` for one.
    Fails(&'static str, &'static str),
}
