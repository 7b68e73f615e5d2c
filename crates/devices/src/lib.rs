//! Devices: which there are, how they are opened, what is put on them and read from them, and what they did.
//!
//! [`DeviceOptions`] opens devices, which [`DeviceSpec`]s name. A [`ValueText`] becomes a value on them, and
//! [`format_value`] is the way back. [`Profiling`] writes what they do to a [`ProfileFile`].
//!
//! The crate is the only one that knows every driver.
//!
//! It must not depend on flags or a terminal.

#![deny(unsafe_code)]

mod crash;
mod cuda;
mod devices;
mod executable_code;
mod executable_functions;
mod foreign;
mod named_path;
mod profile_file;
mod profiling;
mod scope_timer;
mod static_memory;
pub mod values;
mod written_bindings;

pub use crash::CrashReports;
pub use devices::{
    DRIVER_PARAMETERS, DeviceOptions, DeviceSettings, DeviceSpec, compiler_targets, driver_of_files,
    driver_of_format, drivers, drivers_with, find_driver, find_format, find_format_of_files,
};
pub use executable_code::{SpirvFunction, spirv_functions};
pub use executable_functions::executable_functions;
pub use foreign::{ForeignFormat, foreign_format, idle_device, idle_devices};
pub use named_path::NamedPath;
pub use profile_file::ProfileFile;
pub use profiling::{ProfiledRecords, Profiling, ProfilingOptions, RequestedData};
pub use rehal_local::emulator::{DispatchFinding, EmulatorOptions, Finding, Findings, Target, take_findings};
pub use rehal_local::topology::memory_bytes;
pub use scope_timer::{ScopeTimer, dispatch_scope, find_scope};
pub use static_memory::StaticMemoryWatch;
pub use values::{
    Expected, MappedValue, ValueText, format_value, type_of_value, with_value_bytes, with_value_memory,
};
pub use written_bindings::written_bindings;
