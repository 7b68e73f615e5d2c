//! The Vulkan driver: devices with Vulkan 1.2 or later, through a loader that is opened at run time.
//!
//! It implements the backend traits of `hal`. It must not depend on a file format of rehal, a tool, or another driver.

pub mod executable;
