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
    Buffer, BufferParams, BufferRef, CommandBuffer, CommandBufferParams, Dispatch, Event, Executable, File,
    MemoryAccess, QUEUE_AFFINITY_ANY, Queue, Semaphore, Timepoint, WHOLE_BUFFER, transfer,
};
pub use rehal_session::{Device, DeviceGroup, DeviceOptions, DeviceSpec, HostMemory, Range, drivers};
