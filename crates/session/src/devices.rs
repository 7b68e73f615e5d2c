use rehal_base::{Context, FileKind, Result, nearest};
use rehal_hal::{DeviceGroup, DeviceUri, Driver, DriverRegistry, OptionSet};
use rehal_local::executable::Plugins;
use rehal_local::{
    LOCAL_TASK, LocalSyncDriver, LocalSyncOptions, LocalTaskDriver, LocalTaskOptions, TopologyOptions,
};
use rehal_vulkan::{VulkanDriver, VulkanDriverOptions};

use crate::{NamedPath, Plan};

/// How drivers find devices.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct DriverOptions {
    /// The Vulkan driver's loader, layers and messages.
    pub vulkan: VulkanDriverOptions,
}

/// All drivers of the reference, including those missing from this build, with their defaults.
pub fn drivers() -> DriverRegistry {
    drivers_with(&DriverOptions::default())
}

/// All drivers of the reference, with these options.
pub fn drivers_with(options: &DriverOptions) -> DriverRegistry {
    let drivers = [
        Driver::new(LocalSyncDriver),
        Driver::new(LocalTaskDriver),
        Driver::new(VulkanDriver::new(options.vulkan.clone())),
    ];
    let missing = ABSENT.iter().filter_map(|it| Some(Driver::missing(it.name, it.description?)));
    let mut registry = DriverRegistry::default();
    for driver in missing.chain(drivers) {
        registry.register(driver).expect("each name is registered once");
    }
    registry
}

/// A driver that this build does not have.
struct Absent {
    name: &'static str,
    /// What the names of its formats begin with.
    format: &'static str,
    /// If the reference lists it.
    description: Option<&'static str>,
}

/// The drivers of known formats that this build does not have. The formats of `amdgpu` are the names of
/// architectures.
const ABSENT: [Absent; 5] = [
    Absent { name: "cuda", format: "cuda-", description: Some("NVIDIA GPUs, through the CUDA driver") },
    Absent { name: "hip", format: "rocm-", description: Some("AMD GPUs, through HIP") },
    Absent { name: "amdgpu", format: "gfx", description: None },
    Absent { name: "metal", format: "metal-", description: None },
    Absent { name: "webgpu", format: "webgpu-", description: None },
];

/// The name of the driver that runs executables of the format of this name: the default one if it does, and
/// perhaps one that this build does not have.
///
/// ```
/// use rehal_session::{driver_of_format, drivers};
///
/// let registry = drivers();
/// let name = |format| driver_of_format(&registry, format);
/// assert_eq!(name("vulkan-spirv-fb"), Some("vulkan"));
/// assert_eq!(name("embedded-elf-arm_64"), Some("local-task"));
/// assert_eq!(name("webgpu-wgsl-fb"), Some("webgpu"));
/// assert_eq!(name("beads"), None);
/// ```
pub fn driver_of_format<'r>(registry: &'r DriverRegistry, format: &str) -> Option<&'r str> {
    let absent = || ABSENT.iter().find(|it| format.starts_with(it.format)).map(|it| it.name);
    first_driver(registry, |driver| driver.has_format(format)).map(Driver::name).or_else(absent)
}

/// The driver that runs executables in files of this kind: the default one if it does.
pub fn driver_of_files(registry: &DriverRegistry, kind: FileKind) -> Option<&Driver> {
    first_driver(registry, |driver| driver.has_files_of(kind))
}

/// The default driver if it is accepted, or the first one that is.
fn first_driver(registry: &DriverRegistry, accepts: impl Fn(&Driver) -> bool) -> Option<&Driver> {
    let default = registry.find(LOCAL_TASK).ok().filter(|driver| accepts(driver));
    default.or_else(|| registry.drivers().iter().find(|driver| accepts(driver)))
}

/// The driver of this name, which may be unavailable. If it does not exist, the error suggests a similar
/// name.
pub fn find_driver<'r>(registry: &'r DriverRegistry, name: &str) -> Result<&'r Driver> {
    registry.find(name).advise(|| {
        let works = registry.drivers().iter().filter(|driver| driver.availability().is_ok());
        let meant = nearest(name, works.map(Driver::name));
        let meant = meant.map(|driver| format!("did you mean '{driver}'? ")).unwrap_or_default();
        format!("{meant}{}", registry.available())
    })
}

/// A device of this machine, not opened yet.
#[derive(Clone)]
pub struct DeviceSpec {
    uri: String,
    driver: Driver,
    path: String,
    /// The URI's parameters, which override the options of the driver for this device.
    params: Vec<(String, String)>,
}

impl DeviceSpec {
    /// The device with this URI: `driver` for its default device, or `driver://which` with a path, an
    /// identifier or an index; with `?key=value&key=value`, parameters of this device alone, which override
    /// [`DeviceOptions::drivers`].
    ///
    /// ```
    /// use rehal_session::{DeviceSpec, StatusCode};
    ///
    /// assert_eq!(DeviceSpec::find("local-sync")?.uri(), "local-sync");
    /// let error = DeviceSpec::find("cuda").err().unwrap();
    /// assert_eq!(error.code(), StatusCode::Unimplemented);
    /// # Ok::<_, rehal_session::Error>(())
    /// ```
    pub fn find(uri: &str) -> Result<Self> {
        Self::find_in(&drivers(), uri)
    }

    /// Like [`DeviceSpec::find`], with the program's own drivers.
    pub fn find_in(registry: &DriverRegistry, text: &str) -> Result<Self> {
        let uri = DeviceUri::parse(text)?;
        let driver = find_driver(registry, uri.driver)?;
        driver.availability().advise(|| registry.available())?;
        driver.configure(OptionSet::default(), &uri.params)?;
        let params = uri.params.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
        Ok(Self { uri: text.into(), driver: driver.clone(), path: driver.resolve(uri.path)?, params })
    }

    /// The name of its driver.
    pub fn driver_name(&self) -> &str {
        self.driver.name()
    }

    /// Whether executables of the format of this name are for its driver.
    pub fn has_format(&self, format: &str) -> bool {
        self.driver.has_format(format)
    }

    /// The URI by which it was found.
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// How the workers of the device are selected, if it is on `local-task` and its URI's parameters select
    /// others than `options`, which are those of the group.
    pub fn own_selection(&self, options: &DeviceOptions) -> Result<Option<TopologyOptions>> {
        let group: LocalTaskOptions = options.drivers.get();
        let own: LocalTaskOptions = self.configured(options.drivers.clone())?.get();
        let has_own = self.driver.name() == LOCAL_TASK && !own.describes_workers_of(&group);
        Ok(has_own.then_some(own.selection))
    }

    /// The options of drivers with its own parameters.
    fn configured(&self, options: OptionSet) -> Result<OptionSet> {
        self.driver.configure(options, &self.params)
    }

    /// The same with workers for a `local-task` device: those of a device in `started` whose options describe
    /// the same, or new ones, which are added.
    fn with_workers(&self, options: OptionSet, started: &mut Vec<LocalTaskOptions>) -> Result<OptionSet> {
        let mut task: LocalTaskOptions = options.get();
        if self.driver.name() != LOCAL_TASK || task.workers.is_some() {
            return Ok(options);
        }
        match started.iter().find(|other| other.describes_workers_of(&task)) {
            Some(other) => task.workers = other.workers.clone(),
            None => {
                task.workers = Some(task.start_workers()?);
                started.push(task.clone());
            }
        }
        Ok(options.with(task))
    }
}

/// The default device of `local-task`, as in the reference.
impl Default for DeviceSpec {
    fn default() -> Self {
        Self {
            uri: LOCAL_TASK.into(),
            driver: Driver::new(LocalTaskDriver),
            path: String::new(),
            params: Vec::new(),
        }
    }
}

/// The devices to open.
#[derive(Clone)]
#[non_exhaustive]
pub struct DeviceOptions {
    /// The devices, in the order of the program or capture. Default: one [`DeviceSpec::default`].
    pub devices: Vec<DeviceSpec>,
    /// The options with which drivers create their devices, by type, including those of the program's own
    /// drivers. Default: none, so that each driver uses its defaults.
    pub drivers: OptionSet,
    plugins: Vec<NamedPath>,
}

impl Default for DeviceOptions {
    fn default() -> Self {
        Self { devices: vec![DeviceSpec::default()], drivers: OptionSet::default(), plugins: Vec::new() }
    }
}

impl DeviceOptions {
    /// These devices.
    pub fn of(devices: Vec<DeviceSpec>) -> Self {
        Self { devices, ..Self::default() }
    }

    /// For a plan: as many devices like `device` as its capture uses.
    pub fn for_plan(plan: &Plan, device: DeviceSpec) -> Self {
        Self::of(vec![device; plan.device_count()])
    }

    /// Adds a library that resolves imports of executables; later ones have precedence.
    ///
    /// # Safety
    ///
    /// The library's code runs in this process, with its privileges: the caller trusts it as its own.
    #[allow(unsafe_code, reason = "trust boundary of native code, forwarded to the caller")]
    pub unsafe fn add_plugin(&mut self, path: impl Into<NamedPath>) {
        self.plugins.push(path.into());
    }

    /// Keeps the buffers of CPU devices apart from other memory of the process: a kernel that writes next to
    /// one fails, or crashes, and is named. For kernels of which it is not known that they access only their
    /// bindings, such as replacements.
    pub fn guard_buffers(&mut self) {
        let mut sync: LocalSyncOptions = self.drivers.get();
        let mut task: LocalTaskOptions = self.drivers.get();
        (sync.guards_buffers, task.guards_buffers) = (true, true);
        self.drivers = self.drivers.clone().with(sync).with(task);
    }

    /// Opens the devices.
    pub fn open(&self) -> Result<DeviceGroup> {
        let options = self.driver_options()?;
        let mut started = Vec::new();
        let open = |device: &DeviceSpec| {
            let options = device.configured(options.clone());
            let options = options.and_then(|options| device.with_workers(options, &mut started));
            let opened = options.and_then(|options| device.driver.create_device(&device.path, &options));
            opened.context(|| format!("device '{}'", device.uri))
        };
        DeviceGroup::new(self.devices.iter().map(open).collect::<Result<_>>()?)
    }

    /// The options for each driver, with plugins loaded.
    fn driver_options(&self) -> Result<OptionSet> {
        let mut plugins = Plugins::default();
        for path in &self.plugins {
            load_plugin(&mut plugins, path).context(|| path.place())?;
        }
        let mut sync: LocalSyncOptions = self.drivers.get();
        let mut task: LocalTaskOptions = self.drivers.get();
        for provider in plugins.providers() {
            sync.plugins.register(provider.clone());
            task.plugins.register(provider.clone());
        }
        Ok(self.drivers.clone().with(sync).with(task))
    }
}

#[allow(unsafe_code, reason = "trust boundary of native code")]
fn load_plugin(plugins: &mut Plugins, path: &NamedPath) -> Result<()> {
    // SAFETY: paths come only from `add_plugin`, whose caller vouches for the library.
    unsafe { plugins.load(path.path().as_os_str()) }
}
