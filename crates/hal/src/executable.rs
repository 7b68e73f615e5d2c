use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use rehal_base::{Error, Result, listed};
use serde::{Deserialize, Serialize};

use crate::flags::*;
use crate::profile::Identity;
use crate::{FunctionInfo, NeededWorkgroups};

/// The parameters of executable preparation.
#[derive(Clone, Copy)]
pub struct ExecutableParams<'a> {
    /// The executable's name in messages, such as `executable 4`; may be empty.
    pub label: &'a str,
    /// The queues that it will execute on.
    pub affinity: QueueAffinity,
    /// Flags for its preparation.
    pub caching_mode: CachingMode,
    /// The format's name, such as `embedded-elf-x86_64`.
    pub format: &'a str,
    /// The code, in that format.
    pub data: &'a [u8],
    /// Specialization constants.
    pub constants: &'a [u32],
    /// Which workgroups run, and in which order.
    pub workgroups: WorkgroupSchedule,
}

impl<'a> ExecutableParams<'a> {
    /// For any queue, without a label, flags and constants.
    pub fn new(format: &'a str, data: &'a [u8]) -> Self {
        Self {
            label: "",
            affinity: QUEUE_AFFINITY_ANY,
            caching_mode: CachingMode::empty(),
            format,
            data,
            constants: &[],
            workgroups: WorkgroupSchedule::All,
        }
    }
}

/// Which workgroups of each dispatch run, and in which order: tools use it to tell whether workgroups depend
/// on each other, which those of a correct kernel do not. Workgroups are numbered with x fastest, then y,
/// then z.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum WorkgroupSchedule {
    /// All of them, in the order that the driver prefers.
    #[default]
    All,
    /// All of them; if the driver determines the order, each thread runs them from the last to the first.
    Reversed,
    /// Workgroups whose index has bit `bit` (0 to 63) equal to `is_set`. Optional: a driver that cannot
    /// select workgroups fails to prepare the executable, with `UNIMPLEMENTED`.
    Where {
        /// Its position, 0 for the lowest.
        bit: u32,
        /// Its value.
        is_set: bool,
    },
}

/// The code that runs in place of a function of an executable.
#[derive(Clone)]
pub struct ReplacedFunction {
    /// The code.
    pub executable: Executable,
    /// The ordinal of the function there.
    pub function: u32,
    /// The workgroups that it needs.
    pub workgroups: NeededWorkgroups,
}

/// A driver's implementation of an executable.
pub trait ExecutableBackend: Any + Send + Sync {
    /// The executable's own name, or empty.
    fn name(&self) -> &str;

    /// Its functions, by ordinal.
    fn functions(&self) -> &[FunctionInfo];

    /// The ordinal of the function with this name; see [`FunctionInfo::find`].
    fn lookup(&self, name: &str) -> Option<u32>;
}

/// Code prepared for a device: a cheap clone of a shared object.
#[derive(Clone)]
pub struct Executable(Arc<Shared<dyn ExecutableBackend>>);

struct Shared<B: ?Sized> {
    identity: Identity,
    backend: B,
}

impl Executable {
    /// An executable over a driver's backend.
    #[doc(hidden)]
    pub fn new(backend: impl ExecutableBackend + 'static) -> Self {
        static LAST_ID: AtomicU64 = AtomicU64::new(0);
        Self(Arc::new(Shared { identity: Identity::new(&LAST_ID), backend }))
    }

    /// As [`Executable::new`], with the id of the executable that the backend decorates.
    #[doc(hidden)]
    pub fn with_id(id: u64, backend: impl ExecutableBackend + 'static) -> Self {
        Self(Arc::new(Shared { identity: Identity::from_id(id), backend }))
    }

    /// Its id in profiles: unique in the process, and never 0.
    pub fn id(&self) -> u64 {
        self.identity().id()
    }

    pub(crate) fn identity(&self) -> &Identity {
        &self.0.identity
    }

    /// The backend.
    #[doc(hidden)]
    pub fn backend(&self) -> &dyn ExecutableBackend {
        &self.0.backend
    }

    /// Whether both handles refer to the same executable.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Its functions, by ordinal.
    pub fn functions(&self) -> &[FunctionInfo] {
        self.0.backend.functions()
    }

    /// The function with this ordinal; the error has the number of functions.
    pub fn function(&self, ordinal: u32) -> Result<&FunctionInfo> {
        let functions = self.0.backend.functions();
        functions.get(ordinal as usize).ok_or_else(|| {
            Error::out_of_range(format!(
                "function {ordinal} does not exist: the executable has {}",
                functions.len()
            ))
        })
    }

    /// The ordinal of the function with this name; the error lists the names.
    pub fn lookup(&self, name: &str) -> Result<u32> {
        self.0.backend.lookup(name).ok_or_else(|| {
            let names = listed(self.functions().iter().map(|it| it.name.escape_debug()));
            let name = name.escape_debug();
            Error::not_found(format!("the executable has no function '{name}'; it has: {names}"))
        })
    }
}
