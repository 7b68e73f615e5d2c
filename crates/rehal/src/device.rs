//! Devices, and the work that is given to them.
//!
//! A [`DeviceSpec`] names a device of this machine, [`DeviceOptions`] open a [`DeviceGroup`]. Work is ordered
//! only by the timepoints of semaphores that it waits for and signals.
//!
//! ```
//! # fn main() -> rehal::Result<()> {
//! use rehal::device::{DeviceOptions, DeviceSpec, drivers};
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

pub use rehal_session::hal::{
    Binding, Buffer, BufferParams, BufferRef, BufferUsage, CommandBuffer, CommandBufferMode,
    CommandBufferParams, CommandCategories, DeviceInfo, Dispatch, DispatchFlags, Driver, DriverRegistry,
    Event, Executable, Fence, File, FunctionInfo, Live, Mapping, MemoryAccess, MemoryType, OptionSet,
    QUEUE_AFFINITY_ANY, Queue, Semaphore, SemaphoreFlags, Timepoint, WHOLE_BUFFER, WorkgroupCount, transfer,
};
pub use rehal_session::{
    Device, DeviceGroup, DeviceOptions, DeviceSpec, HostMemory, LocalSyncOptions, LocalTaskOptions, Range,
    driver_of_format, drivers, drivers_with, find_driver,
};
#[cfg(feature = "vulkan")]
pub use rehal_session::{VulkanDriverOptions, VulkanOptions};
