use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The options of a driver's devices: a struct declared by the driver's crate.
pub trait DeviceOptions: Any + Clone + Default + Send + Sync {}

/// Options for the devices of all drivers: at most one value per type. Each driver takes its own type and
/// ignores the others, so that one set serves any driver.
///
/// ```
/// use rehal_hal::{DeviceOptions, OptionSet};
///
/// #[derive(Clone, Default)]
/// struct PoolOptions {
///     workers: usize,
/// }
/// impl DeviceOptions for PoolOptions {}
///
/// let options = OptionSet::default().with(PoolOptions { workers: 4 });
/// assert_eq!(options.get::<PoolOptions>().workers, 4);
/// ```
#[derive(Clone, Default)]
pub struct OptionSet(Vec<Arc<dyn Any + Send + Sync>>);

impl OptionSet {
    /// Adds `options`, replacing a value of the same type.
    #[doc(hidden)]
    pub fn with<T: DeviceOptions>(mut self, options: T) -> Self {
        self.0.retain(|held| !held.is::<T>());
        self.0.push(Arc::new(options));
        self
    }

    /// Changes the options of one type.
    #[doc(hidden)]
    pub fn update<T: DeviceOptions>(&mut self, change: impl FnOnce(&mut T)) {
        let mut options: T = self.get();
        change(&mut options);
        *self = std::mem::take(self).with(options);
    }

    /// The options of this type, or the default if the set has none.
    #[doc(hidden)]
    pub fn get<T: DeviceOptions>(&self) -> T {
        self.0.iter().find_map(|held| held.downcast_ref()).cloned().unwrap_or_default()
    }
}

/// Options of the devices of every driver, which each follows as far as its devices can.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommonOptions {
    /// The longest time for a dispatch on the CPU, or a submission on another device. Default: no limit.
    pub timeout: Option<Duration>,
    /// Whether buffers are apart from other memory of the process: a kernel that writes next to one fails, or
    /// crashes, and is named. For kernels of which it is not known that they access only their bindings.
    pub guards_buffers: bool,
    /// Whether kernels fail that are compiled for another device, and whose results are therefore wrong,
    /// instead of a warning.
    pub refuses_wrong_results: bool,
    /// Which files describe the machine code of kernels to profilers and debuggers. Default: none.
    pub perf_map: Option<PerfMap>,
}

/// Files that describe machine code which no file on disk has, for `perf`, `samply` and debuggers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PerfMap {
    /// `/tmp/perf-PID.map`: the address, the size and the name of each function.
    Names,
    /// Also `jit-PID.dump` in the current directory: code and source lines, with the times at which they are
    /// loaded.
    Code,
}

impl DeviceOptions for CommonOptions {}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Default, Debug, PartialEq)]
    struct Threads(u32);
    impl DeviceOptions for Threads {}

    #[derive(Clone, Default, Debug, PartialEq)]
    struct Streams(u32);
    impl DeviceOptions for Streams {}

    #[test]
    fn a_set_has_one_value_of_each_type() {
        let options = OptionSet::default().with(Threads(1)).with(Streams(2)).with(Threads(3));
        assert_eq!((options.get::<Threads>(), options.get::<Streams>()), (Threads(3), Streams(2)));
        assert_eq!(options.0.len(), 2);
        assert_eq!(OptionSet::default().get::<Threads>(), Threads(0));
        let mut changed = options.clone();
        changed.update(|threads: &mut Threads| threads.0 += 1);
        assert_eq!((changed.get::<Threads>(), options.get::<Threads>()), (Threads(4), Threads(3)));
    }
}
