//! Devices, and the work that is given to them.
//!
//! A [`DeviceSpec`] names a device of this machine, [`DeviceOptions`] open a [`DeviceGroup`]. Work is ordered
//! only by the timepoints of semaphores that it waits for and signals.
//!
//! ```
//! # fn main() -> rehal::Result<()> {
//! use rehal::device::{DeviceOptions, DeviceSettings, DeviceSpec, drivers};
//!
//! for driver in drivers().drivers() {
//!     match driver.availability() {
//!         Ok(()) => println!("{}: {}", driver.name(), driver.description()),
//!         Err(error) => println!("{}: {error}", driver.name()),
//!     }
//! }
//! let devices = DeviceOptions::for_devices(vec![DeviceSpec::find("local-sync")?]).open()?;
//! assert!(devices.devices()[0].can_prepare_executable("embedded-elf-x86_64"));
//! # Ok(())
//! # }
//! ```

pub use rehal_base::{HostMemory, Range};
pub use rehal_devices::{DeviceOptions, DeviceSettings, DeviceSpec, NamedPath, drivers};
pub use rehal_formats::{CodeImage, ImageKind, Replaced};
pub use rehal_hal::{
    AccessScope, Binding, Buffer, BufferBarrier, BufferParams, BufferRef, BufferUsage, CommandBuffer,
    CommandBufferMode, CommandBufferParams, CommandCategories, CommonOptions, Device, DeviceDescription,
    DeviceGroup, DeviceInfo, DeviceSection, Dispatch, DispatchFlags, DispatchLimits, Driver, DriverRegistry,
    Event, Executable, ExecutableFormat, File, FunctionInfo, FunctionParameter, HeapStatistics, HostCall,
    HostCallFlags, HostCallFn, HostFile, Live, Mapping, MemoryAccess, MemoryBarrier, MemoryStatistics,
    MemoryType, Names, OptionSet, PerfMap, QUEUE_AFFINITY_ANY, Queue, QueueAffinity, Registration, Semaphore,
    SemaphoreFlags, Timepoint, WHOLE_BUFFER, WaitCallback, WorkgroupCount, transfer,
};
