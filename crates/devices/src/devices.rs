use std::ffi::OsString;
use std::num::NonZero;
use std::path::PathBuf;

use rehal_base::{Context, Error, FileKind, Result, nearest, plural};
use rehal_hal::{
    CommonOptions, CompilerTarget, DeviceGroup, DeviceUri, Driver, DriverRegistry, ExecutableFormat,
    OptionSet, ParameterGroup, gpu_formats,
};
use rehal_jobs::{Confinement, is_worker};
use rehal_local::executable::Plugins;
use rehal_local::{LOCAL_TASK, LocalSyncDriver, LocalTaskDriver, LocalTaskOptions, TopologyOptions};
use rehal_replay::Plan;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use crate::NamedPath;
use crate::cuda::{CudaDriver, gpu_target};

#[cfg(feature = "vulkan")]
use rehal_vulkan::VulkanDriver;

/// The parameters of the drivers of this build, which set options of these and of their devices.
pub const DRIVER_PARAMETERS: &[ParameterGroup] = &[
    rehal_local::PARAMETERS,
    #[cfg(feature = "vulkan")]
    rehal_vulkan::PARAMETERS,
    rehal_local::emulator::EMULATOR_PARAMETERS,
];

/// All drivers of the reference, including those missing from this build, with their defaults.
pub fn drivers() -> DriverRegistry {
    drivers_with(&OptionSet::default())
}

/// All drivers of the reference, with their options in this set.
#[cfg_attr(not(feature = "vulkan"), expect(unused_variables, reason = "drivers of CPUs have no options"))]
pub fn drivers_with(options: &OptionSet) -> DriverRegistry {
    let drivers = [
        Driver::new(LocalSyncDriver),
        Driver::new(LocalTaskDriver),
        Driver::new(CudaDriver),
        #[cfg(feature = "vulkan")]
        Driver::new(VulkanDriver::new(options.get())),
    ];
    let missing = DESCRIBED.iter().filter_map(|it| Some(Driver::missing(it.driver, it.missing?)));
    let mut registry = DriverRegistry::default();
    for driver in missing.chain(drivers) {
        registry.register(driver).expect("each name is registered once");
    }
    registry
}

/// A format that describes itself, with the driver that runs it.
struct Described {
    driver: &'static str,
    format: ExecutableFormat,
    /// The description of the driver, if the reference lists it and this build does not have it.
    missing: Option<&'static str>,
    /// How programs are compiled for it.
    compiler: Option<CompilerTarget>,
}

/// The known formats that no driver of this build runs.
const DESCRIBED: &[Described] = &[
    Described {
        driver: "hip",
        format: gpu_formats::HIP,
        missing: Some("AMD GPUs, through HIP"),
        compiler: Some(CompilerTarget { chips: HIP_CHIPS, ..gpu_target("hip", "--iree-rocm-target") }),
    },
    #[cfg(not(feature = "vulkan"))]
    Described {
        driver: "vulkan",
        format: gpu_formats::VULKAN,
        missing: Some("Vulkan 1.2 or later"),
        compiler: Some(gpu_target("vulkan", "--iree-vulkan-target")),
    },
    Described {
        driver: "amdgpu",
        format: gpu_formats::AMDGPU,
        missing: None,
        compiler: Some(CompilerTarget { chips: HIP_CHIPS, ..gpu_target("amdgpu", "--iree-rocm-target") }),
    },
    Described { driver: "metal", format: ExecutableFormat::of_gpu("metal-"), missing: None, compiler: None },
    Described {
        driver: "webgpu",
        format: ExecutableFormat::of_gpu("webgpu-"),
        missing: None,
        compiler: None,
    },
];

/// The format of this name as its driver describes it, or as it describes itself.
pub fn find_format(registry: &DriverRegistry, name: &str) -> Option<&'static ExecutableFormat> {
    let mut own = registry.drivers().iter();
    let own = own.find_map(|driver| ExecutableFormat::find(driver.backend().formats(), name));
    own.or_else(|| described(name).map(|it| &it.format))
}

/// The format of files of this kind, as its driver describes it, or as it describes itself.
pub fn find_format_of_files(registry: &DriverRegistry, kind: FileKind) -> Option<&'static ExecutableFormat> {
    let own = registry.drivers().iter().flat_map(|driver| driver.backend().formats());
    own.chain(DESCRIBED.iter().map(|it| &it.format)).find(|it| it.files.contains(&kind))
}

fn described(format: &str) -> Option<&'static Described> {
    DESCRIBED.iter().find(|it| format.starts_with(it.format.prefix))
}

/// The chips that release 3.13 of the compiler takes; it has no default.
const HIP_CHIPS: &[&str] = &[
    "gfx908", "gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1101", "gfx1103", "gfx1150", "gfx1151", "gfx1200",
    "gfx1201", "gfx1250", "mi100", "mi210", "mi250", "mi300a", "mi300x", "mi308x", "mi325x", "mi350x",
    "mi355x",
];

/// How programs are compiled for the drivers of this build, and for those that it does not have, each by its
/// short name.
pub fn compiler_targets() -> Vec<CompilerTarget> {
    let registry = drivers();
    // Those that run here first.
    let (emulated, own): (Vec<_>, Vec<_>) =
        registry.drivers().iter().map(Driver::backend).partition(|it| !it.emulated().is_empty());
    let own = own.into_iter().chain(emulated).filter_map(|it| it.compiler_target());
    let mut targets: Vec<CompilerTarget> = Vec::new();
    for target in own.chain(DESCRIBED.iter().filter_map(|it| it.compiler)) {
        if targets.iter().all(|it| it.name != target.name) {
            targets.push(target);
        }
    }
    targets
}

/// The name of the driver that runs executables of the format of this name: the default one if it does, and
/// perhaps one that this build does not have. Fails if it cannot run them on this machine, which it says.
///
/// ```
/// use rehal_devices::{driver_of_format, drivers};
///
/// let registry = drivers();
/// let name = |format| driver_of_format(&registry, format).unwrap();
/// assert_eq!(name("vulkan-spirv-fb"), Some("vulkan"));
/// assert_eq!(name("vmvx-bytecode-fb"), Some("local-task"));
/// assert_eq!(name("webgpu-wgsl-fb"), Some("webgpu"));
/// assert_eq!(name("beads"), None);
/// assert!(driver_of_format(&registry, "embedded-elf-riscv_32").is_err());
/// ```
pub fn driver_of_format<'r>(registry: &'r DriverRegistry, format: &str) -> Result<Option<&'r str>> {
    match first_driver(registry, |driver| driver.has_format(format)) {
        Some(driver) => driver.backend().check_format(format).map(|()| Some(driver.name())),
        None => Ok(described(format).map(|it| it.driver)),
    }
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
    /// use rehal_devices::DeviceSpec;
    /// use rehal_base::StatusCode;
    ///
    /// assert_eq!(DeviceSpec::find("local-sync")?.uri(), "local-sync");
    /// let error = DeviceSpec::find("cuda").err().unwrap();
    /// assert_eq!(error.code(), StatusCode::Unavailable);
    /// assert!(DeviceSpec::find("cuda://emulator")?.is_emulated());
    /// # Ok::<_, rehal_base::Error>(())
    /// ```
    pub fn find(uri: &str) -> Result<Self> {
        Self::find_in(&drivers(), uri)
    }

    /// Like [`DeviceSpec::find`], with the program's own drivers.
    pub fn find_in(registry: &DriverRegistry, text: &str) -> Result<Self> {
        let uri = DeviceUri::parse(text)?;
        let driver = find_driver(registry, uri.driver)?;
        if !driver.emulates(uri.path) {
            driver.availability().advise(|| registry.available())?;
        }
        driver.configure(OptionSet::default(), &uri.params)?;
        let params = uri.params.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
        Ok(Self { uri: text.into(), driver: driver.clone(), path: driver.resolve(uri.path)?, params })
    }

    /// The name of its driver.
    pub fn driver_name(&self) -> &str {
        self.driver.name()
    }

    /// Whether it stands for a device that this machine does not have.
    pub fn is_emulated(&self) -> bool {
        self.driver.emulates(&self.path)
    }

    /// Whether executables of the format of this name are for its driver.
    pub fn has_format(&self, format: &str) -> bool {
        self.driver.has_format(format)
    }

    /// The URI by which it was found.
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// The threads that the device starts with its URI's parameters, as text, if they are others than with
    /// `options` alone.
    pub fn own_workers(&self, options: &OptionSet) -> Result<Option<String>> {
        let workers = |options: &OptionSet| self.driver.backend().describe_workers(options).transpose();
        let own = workers(&self.configured(options.clone())?)?;
        Ok(own.filter(|own| workers(options).ok().flatten().as_ref() != Some(own)))
    }

    /// The options of drivers with its own parameters.
    fn configured(&self, options: OptionSet) -> Result<OptionSet> {
        self.driver.configure(options, &self.params)
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

/// Devices as data, from which [`DeviceOptions`] are made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct DeviceSettings {
    /// The URIs of the devices, in the order of the program or capture. Default: one [`DeviceSpec::default`].
    pub uris: Vec<String>,
    /// The values of [parameters of drivers](DRIVER_PARAMETERS), by their names.
    pub parameters: Vec<(String, Vec<OsString>)>,
    /// Options of the devices of all drivers.
    pub common: CommonOptions,
    /// The paths of plugins, with their names in errors.
    #[serde(deserialize_with = "vouched")]
    plugins: Vec<(OsString, String)>,
}

/// Plugins, of which only the process that started a worker may tell.
fn vouched<'d, D: Deserializer<'d>>(from: D) -> std::result::Result<Vec<(OsString, String)>, D::Error> {
    let plugins = Vec::deserialize(from)?;
    match plugins.is_empty() || is_worker() {
        true => Ok(plugins),
        false => Err(D::Error::custom("plugins are named by `add_plugin` only")),
    }
}

impl DeviceSettings {
    /// For a plan: as many devices with this URI as its capture uses; `None` for the default device.
    pub fn for_plan(plan: &Plan, uri: Option<&str>) -> Self {
        Self { uris: vec![uri.unwrap_or(LOCAL_TASK).to_owned(); plan.device_count()], ..Self::default() }
    }

    /// See [`DeviceOptions::add_plugin`].
    ///
    /// # Safety
    ///
    /// The library's code runs in the process that opens the devices: the caller trusts it as its own.
    #[allow(unsafe_code, reason = "trust boundary of native code, forwarded to the caller")]
    pub unsafe fn add_plugin(&mut self, path: &NamedPath) {
        self.plugins.push((path.path().into(), path.place()));
    }

    /// The options that they stand for. Fails if a device does not exist here; opens no device.
    #[allow(unsafe_code, reason = "trust boundary of native code")]
    pub fn to_options(&self) -> Result<DeviceOptions> {
        let drivers = OptionSet::default().with(self.common);
        let mut options = DeviceOptions { drivers, ..DeviceOptions::default() };
        for group in DRIVER_PARAMETERS {
            group.set(&mut options.drivers, |parameter| {
                let is_of = |it: &&(String, Vec<OsString>)| it.0 == parameter.flag();
                let values = self.parameters.iter().filter(is_of).flat_map(|it| &it.1);
                values.map(OsString::as_os_str).collect()
            })?;
        }
        if !self.uris.is_empty() {
            let registry = drivers_with(&options.drivers);
            let devices = self.uris.iter().map(|uri| DeviceSpec::find_in(&registry, uri));
            options.devices = devices.collect::<Result<_>>()?;
        }
        for (path, name) in &self.plugins {
            // SAFETY: the caller of `add_plugin` vouches for the library, also in another process.
            unsafe { options.add_plugin(NamedPath::from(path).named(name)) }
        }
        Ok(options)
    }
}

impl DeviceOptions {
    /// These devices.
    pub fn for_devices(devices: Vec<DeviceSpec>) -> Self {
        Self { devices, ..Self::default() }
    }

    /// For a plan: as many devices like `device` as its capture uses.
    pub fn for_plan(plan: &Plan, device: DeviceSpec) -> Self {
        Self::for_devices(vec![device; plan.device_count()])
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

    /// Refuses kernels that compute wrong results on a device: see
    /// [`CommonOptions::refuses_wrong_results`].
    pub fn refuse_wrong_results(&mut self) {
        self.drivers.update(|common: &mut CommonOptions| common.refuses_wrong_results = true);
    }

    /// Keeps the buffers of devices apart: see [`CommonOptions::guards_buffers`].
    pub fn guard_buffers(&mut self) {
        self.drivers.update(|common: &mut CommonOptions| common.guards_buffers = true);
    }

    /// The same devices with this number of workers each, on cores of their own. Fails unless they are of
    /// `local-task`, their URIs leave the number of workers open, and the process may use as many CPUs.
    pub fn with_workers(&self, count: usize) -> Result<Self> {
        let cpus = std::thread::available_parallelism().map_or(1, NonZero::get);
        if count > cpus {
            let message = format!("{count} workers: this process may use {}", plural(cpus as u64, "CPU"));
            return Err(Error::out_of_range(message).advise("choose no more workers than CPUs"));
        }
        let mut options = self.clone();
        options.drivers.update(|task: &mut LocalTaskOptions| {
            (task.workers, task.topology) = (None, None);
            task.selection = TopologyOptions::default();
            task.selection.max_workers = count;
        });
        for device in &options.devices {
            if device.driver_name() != LOCAL_TASK {
                let message = format!("device '{}' has no workers whose number can be chosen", device.uri);
                return Err(Error::unimplemented(message).advise(format!("choose a device of {LOCAL_TASK}")));
            }
            if let Some(workers) = device.own_workers(&options.drivers)? {
                let message =
                    format!("the parameters of device '{}' choose its workers: {workers}", device.uri);
                return Err(Error::invalid_argument(message).advise("leave them out"));
            }
        }
        Ok(options)
    }

    /// Adds the files of drivers and plugins to what confined work uses.
    pub fn confine(&self, confinement: &mut Confinement) {
        self.plugins.iter().for_each(|plugin| confinement.read(plugin.path()));
        let caches = std::env::var_os("XDG_CACHE_HOME").filter(|path| !path.is_empty()).map(PathBuf::from);
        let caches = caches.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
        for files in self.devices.iter().map(|device| device.driver.backend().system_files()) {
            for path in files.reads {
                match path.starts_with("/dev/") {
                    true => confinement.control(path),
                    false => confinement.read(path),
                }
            }
            let caches = caches.iter().flat_map(|all| files.caches.iter().map(|name| all.join(name)));
            caches.for_each(|path| confinement.write(path));
            if !files.are_proved {
                confinement.leave_incomplete();
            }
        }
    }

    /// Opens the devices.
    pub fn open(&self) -> Result<DeviceGroup> {
        let options = self.with_plugins()?;
        let mut opened = Vec::new();
        for device in &self.devices {
            let options = device.configured(options.clone());
            let created = options.and_then(|it| device.driver.create_device_in(&device.path, &it, &opened));
            opened.push(created.context(|| format!("device '{}'", device.uri))?);
        }
        DeviceGroup::new(opened)
    }

    /// The options of drivers, with plugins loaded.
    fn with_plugins(&self) -> Result<OptionSet> {
        let mut plugins: Plugins = self.drivers.get();
        for path in &self.plugins {
            load_plugin(&mut plugins, path).context(|| path.place())?;
        }
        Ok(self.drivers.clone().with(plugins))
    }
}

#[allow(unsafe_code, reason = "trust boundary of native code")]
fn load_plugin(plugins: &mut Plugins, path: &NamedPath) -> Result<()> {
    // SAFETY: paths come only from `add_plugin`, whose caller vouches for the library; also those that a
    // worker receives.
    unsafe { plugins.load(path.path().as_os_str()) }
}

#[cfg(test)]
mod tests {
    use rehal_base::StatusCode;
    use rehal_formats::{Binding, Function};
    use rehal_hal::{Device, DeviceDescription, DeviceParameter, DriverBackend, FunctionInfo, SystemFiles};

    use super::*;

    /// A driver that only this test has, of a format that nothing else knows: a byte for each binding.
    struct Beads;

    const BEADS: [ExecutableFormat; 1] = [ExecutableFormat {
        description: "a string of beads",
        functions: |_, bytes| {
            let function = Function {
                name: "string".into(),
                workgroup_size: Some([4, 1, 1]),
                constant_count: Some(0),
                bindings: Some(vec![Binding::default(); bytes.len()]),
                ..Function::default()
            };
            FunctionInfo::of_code(vec![function])
        },
        written_bindings: Some(|_, bytes| vec![Some(bytes.iter().map(|byte| *byte != b'r').collect())]),
        target: |name, _| name.strip_prefix("beads-").map(str::to_owned),
        extensions: &["beads"],
        ..ExecutableFormat::of_gpu("beads-")
    }];

    impl DriverBackend for Beads {
        fn name(&self) -> &str {
            "beads"
        }

        fn description(&self) -> &str {
            "Beads on a string"
        }

        fn availability(&self) -> Result<()> {
            Err(Error::new(StatusCode::Unavailable, "the string is torn"))
        }

        fn formats(&self) -> &'static [ExecutableFormat] {
            &BEADS
        }

        fn compiler_target(&self) -> Option<CompilerTarget> {
            None
        }

        fn check_format(&self, _name: &str) -> Result<()> {
            Ok(())
        }

        fn parameters(&self) -> &'static [DeviceParameter] {
            &[]
        }

        fn enumerate(&self) -> Result<Vec<DeviceDescription>> {
            Ok(Vec::new())
        }

        fn emulated(&self) -> &'static [&'static str] {
            &[]
        }

        fn create_device(&self, _path: &str, _options: &OptionSet, _group: &[Device]) -> Result<Device> {
            self.availability().map(|()| unreachable!("it is never available"))
        }

        fn system_files(&self) -> SystemFiles {
            SystemFiles::NONE
        }

        fn describe_workers(&self, _options: &OptionSet) -> Option<Result<String>> {
            None
        }
    }

    #[test]
    fn a_driver_of_its_own_format_needs_no_other_place() {
        let mut registry = drivers();
        assert!(find_format(&registry, "beads-red").is_none());
        registry.register(Driver::new(Beads)).unwrap();
        let format = find_format(&registry, "beads-red").unwrap();
        let functions = (format.functions)("beads-red", b"rwr").unwrap();
        assert_eq!((functions[0].name.as_str(), functions[0].binding_count), ("string", 3));
        assert_eq!((format.target)("beads-red", b"rwr").as_deref(), Some("red"));
        assert_eq!(format.written_bindings.unwrap()("beads-red", b"rw"), [Some(vec![false, true])]);
        assert_eq!(driver_of_format(&registry, "beads-red").unwrap(), Some("beads"));
        let error = DeviceSpec::find_in(&registry, "beads").err().unwrap();
        assert_eq!((error.code(), error.message()), (StatusCode::Unavailable, "the string is torn"));
    }

    #[test]
    fn formats_describe_themselves_without_a_driver() {
        let registry = drivers();
        let fixture = |name: &str| std::fs::read(testing::fixtures().join("gpu").join(name)).unwrap();
        for (name, file, driver, target, extension) in [
            ("cuda-nvptx-fb", "dynamic.cuda.cda1", "cuda", "sm_80", "ptx"),
            ("rocm-hsaco-fb", "dynamic.hip.hip1", "hip", "gfx942", "hsaco"),
            ("gfx942:sramecc+:xnack-", "dynamic.amdgpu.amd1", "amdgpu", "gfx942:sramecc+:xnack-", "hsaco"),
        ] {
            let (format, bytes) = (find_format(&registry, name).unwrap(), fixture(file));
            assert_eq!(driver_of_format(&registry, name).unwrap(), Some(driver));
            let functions = (format.functions)(name, &bytes).unwrap();
            let shape = functions.iter().map(|it| (it.binding_count, it.constant_count));
            assert_eq!(shape.collect::<Vec<_>>(), [(3, 4), (2, 6)], "{name}");
            assert_eq!((format.target)(name, &bytes).as_deref(), Some(target));
            let images = (format.images)(name, &bytes);
            assert_eq!((images.len(), images[0].kind.extension()), (1, extension));
            assert!(format.extensions.contains(&extension));
            assert_eq!(format.binds_addresses.unwrap()(name, &bytes), [true, true]);
            assert!((format.functions)(name, &bytes[..100]).is_err());
        }
    }
}
