//! Finds the devices named by flags, and lists drivers and devices.

use rehal_base::{Context, Result};
use rehal_devices::{
    DeviceOptions, DeviceSettings, DeviceSpec, EmulatorOptions, ForeignFormat, NamedPath, driver_of_format,
    drivers, drivers_with, find_driver, foreign_format,
};
use rehal_hal::{CommonOptions, DeviceDescription, DeviceUri, Driver, DriverRegistry, OptionSet};
use rehal_jobs::is_worker;
use rehal_replay::Plan;

use crate::flags::{DEVICE, DEVICE_TIMEOUT, EXECUTABLE_PLUGIN, Flags, PERF_MAP, driver_values, set_options};
use crate::output::escaped;

const TOPOLOGY_RULE: &str =
    "# ===------------------------------------------------------------------------===\n";

const TOPOLOGY_ADVICE: &str =
    "lscpu --extended lists the CPUs and NUMA nodes of this machine; --help=all describes --task_topology_*";

/// The options of drivers, and of their devices, set by flags.
pub(crate) fn driver_options(flags: &Flags) -> OptionSet {
    // The default is the concern of the process that waits for the kernels.
    let timeout = flags.get(&DEVICE_TIMEOUT).filter(|limit| !limit.is_zero());
    let perf_map = flags.get(&PERF_MAP);
    let common = CommonOptions { timeout, perf_map, ..CommonOptions::default() };
    let mut options = OptionSet::default().with(common);
    // A worker answers a process that does not read its findings.
    options.update(|it: &mut EmulatorOptions| it.collects = !is_worker());
    set_options(flags, &mut options).expect("flags are parsed by the same declarations");
    options
}

/// The device options set by flags. Fails if a named device does not exist here; opens no device.
#[allow(unsafe_code, reason = "the trust boundary of native code: the user names a library to run")]
pub(crate) fn options(flags: &Flags) -> Result<DeviceOptions> {
    let mut options = DeviceOptions::default();
    options.drivers = driver_options(flags);
    let uris = flags.list(&DEVICE);
    if !uris.is_empty() {
        options.devices = find_all(flags, DEVICE.name(), &uris)?;
    }
    for path in plugins(flags) {
        // SAFETY: as `plugins` says.
        unsafe { options.add_plugin(path) }
    }
    Ok(options)
}

/// A note about the times of emulated devices.
pub(crate) const EMULATED_TIMES: &str = "note: times say nothing about the device that is emulated";

/// Whether one of the devices that flags name stands for one that this machine does not have.
pub(crate) fn are_emulated(flags: &Flags) -> bool {
    options(flags).is_ok_and(|it| it.devices.iter().any(DeviceSpec::is_emulated))
}

/// Creates the files of `perf`, which confined code could not create.
pub(crate) fn open_perf_files(flags: &Flags) -> Result<()> {
    let which = if flags.takes(PERF_MAP.name()) { flags.get(&PERF_MAP) } else { None };
    which.map_or(Ok(()), rehal_local::open_perf_files)
}

/// A tool's expectations of kernels, for [`options_expecting`].
#[derive(Clone, Copy, Default)]
pub(crate) struct Expectations {
    /// The tool judges results: a kernel that is compiled for another device, and so computes wrong ones,
    /// fails.
    pub judges_results: bool,
    /// Kernels may write next to their buffers, as replacements do, and must not reach other memory of the
    /// process.
    pub guards_buffers: bool,
}

/// As [`options`], of a tool with these expectations.
pub(crate) fn options_expecting(flags: &Flags, expected: Expectations) -> Result<DeviceOptions> {
    let mut options = options(flags)?;
    options.drivers.update(|common: &mut CommonOptions| {
        common.refuses_wrong_results |= expected.judges_results;
        common.guards_buffers |= expected.guards_buffers;
    });
    Ok(options)
}

/// The same as data.
#[allow(unsafe_code, reason = "the trust boundary of native code: the user names a library to run")]
pub(crate) fn settings(flags: &Flags, expected: Expectations) -> Result<DeviceSettings> {
    let mut settings = DeviceSettings::default();
    settings.uris = flags.list(&DEVICE);
    find_all(flags, DEVICE.name(), &settings.uris)?;
    settings.parameters = driver_values(flags);
    settings.common = options_expecting(flags, expected)?.drivers.get();
    for path in plugins(flags) {
        // SAFETY: as `plugins` says.
        unsafe { settings.add_plugin(&path) }
    }
    Ok(settings)
}

/// As [`options`], with a device that runs executables of this format if flags name none.
pub(crate) fn options_for(flags: &Flags, format: &str) -> Result<DeviceOptions> {
    let mut options = options(flags)?;
    if flags.list(&DEVICE).is_empty()
        && let registry = registry(flags)
        && !options.devices.first().is_some_and(|device| device.has_format(format))
        && let Some(driver) = driver_of_format(&registry, format)?
    {
        let found = DeviceSpec::find_in(&registry, driver);
        options.devices = vec![found.context(|| format!("a device for executables of format '{format}'"))?];
    }
    Ok(options)
}

/// The format of a capture's executables that no device of this machine runs, unless flags name a device:
/// then tools do what needs none.
pub(crate) fn foreign(flags: &Flags, plan: &Plan) -> Option<ForeignFormat> {
    match flags.list(&DEVICE).is_empty() {
        true => foreign_format(&registry(flags), plan),
        false => None,
    }
}

/// The end of a note about what a tool leaves out for that reason.
pub(crate) fn needed_for(format: &ForeignFormat) -> String {
    let target = format.target.as_ref().map(|it| format!(" for {}", escaped(it))).unwrap_or_default();
    let registry = drivers();
    let driver =
        driver_of_format(&registry, &format.name).ok().flatten().and_then(|it| registry.find(it).ok());
    let emulated = driver.and_then(|it| Some((it, it.backend().emulated().first()?)));
    let instead =
        emulated.map(|(driver, path)| format!(" (--device={}://{path} emulates it)", driver.name()));
    let (name, instead) = (escaped(&format.name), instead.unwrap_or_default());
    format!("need a device that runs '{name}'{target}, and this machine has none{instead}")
}

/// Finds the devices with these URIs, which the flag of this name has.
pub(crate) fn find_all(flags: &Flags, flag: &str, uris: &[String]) -> Result<Vec<DeviceSpec>> {
    let registry = registry(flags);
    uris.iter().map(|uri| find(&registry, flag, uri)).collect()
}

/// Finds the device with a URI.
fn find(registry: &DriverRegistry, flag: &str, uri: &str) -> Result<DeviceSpec> {
    DeviceSpec::find_in(registry, uri).context(|| format!("--{flag}={uri}"))
}

/// The drivers that the tools use.
pub(crate) fn registry(flags: &Flags) -> DriverRegistry {
    let drivers = drivers_with(&driver_options(flags));
    #[cfg(test)]
    let drivers = crate::discrete_tests::with_discrete(drivers);
    drivers
}

/// The libraries that the user names on the command line to run their code in this process, and in those that
/// it starts, as docs/unsafe.md and the flag's help say; nothing else names libraries.
fn plugins(flags: &Flags) -> impl Iterator<Item = NamedPath> {
    flags.list(&EXECUTABLE_PLUGIN).into_iter().map(|path| {
        let name = format!("--executable_plugin={}", path.display());
        NamedPath::from(path).named(name)
    })
}

/// Whether the devices load code of libraries.
pub(crate) fn names_plugins(flags: &Flags) -> bool {
    plugins(flags).next().is_some()
}

/// Answers `--list_drivers`, `--list_devices`, `--dump_devices` and `--dump_task_topologies` in the
/// reference's format; `None` for other queries.
pub(crate) fn answer(query: &str, value: &str, flags: &Flags) -> Option<Result<String>> {
    let registry = drivers_with(&driver_options(flags));
    Some(match query {
        "list_drivers" => Ok(list_drivers(&registry)),
        "list_devices" => list_devices(&registry, value),
        "dump_devices" => dump_devices(&registry, value),
        "dump_task_topologies" => dump_topologies(flags),
        _ => return None,
    })
}

/// The workers of devices, as the reference prints them, by the flags before the query, and of those whose
/// URIs select others.
fn dump_topologies(flags: &Flags) -> Result<String> {
    let options = driver_options(flags);
    let has_parameters = |uri: &String| DeviceUri::parse(uri).is_ok_and(|uri| !uri.params.is_empty());
    let mut uris: Vec<String> = Vec::new();
    for uri in flags.list(&DEVICE).into_iter().filter(has_parameters) {
        if !uris.contains(&uri) {
            uris.push(uri);
        }
    }
    let mut text = String::new();
    for driver in registry(flags).drivers() {
        if let Some(workers) = driver.backend().describe_workers(&options) {
            text.push_str(&workers.advise(|| TOPOLOGY_ADVICE)?);
        }
    }
    for (device, uri) in find_all(flags, DEVICE.name(), &uris)?.iter().zip(&uris) {
        if let Some(own) =
            device.own_workers(&options).advise(|| TOPOLOGY_ADVICE).context(|| format!("device '{uri}'"))?
        {
            text.push_str(&format!("{TOPOLOGY_RULE}# --device={uri}\n{own}"));
        }
    }
    Ok(text)
}

/// The available drivers, or if `start` names one as a URI does, the URIs of its devices; each with a
/// description.
pub(crate) fn beginning_with(start: &str) -> Vec<(String, String)> {
    let registry = drivers();
    let Some((name, _)) = start.split_once("://") else {
        let available = registry.drivers().iter().filter(|driver| driver.availability().is_ok());
        return available.map(|it| (it.name().into(), it.description().into())).collect();
    };
    let Ok(driver) = find_driver(&registry, name) else { return Vec::new() };
    let devices = driver.enumerate().unwrap_or_default();
    devices.iter().map(|device| (driver.uri(device).to_string(), device.name.to_string())).collect()
}

const RULE: &str = "# ============================================================================";
const LIGHT_RULE: &str = "# ===----------------------------------------------------------------------===";

/// All drivers. A name does not select one, as in the reference.
fn list_drivers(registry: &DriverRegistry) -> String {
    let mut text = format!("{RULE}\n# Available HAL drivers\n{RULE}\n");
    text.push_str("# Use --list_devices={driver name} to enumerate available devices.\n\n");
    for driver in registry.drivers() {
        text.push_str(&format!("{:>16}: {}", driver.name(), driver.description()));
        if let Err(reason) = driver.availability() {
            text.push_str(&format!(" (unavailable: {})", reason.message()));
        }
        text.push('\n');
    }
    text
}

/// The URIs of the devices of one driver, or of all available drivers.
fn list_devices(registry: &DriverRegistry, name: &str) -> Result<String> {
    let list = |driver: &Driver, devices: Vec<DeviceDescription>| {
        devices.iter().map(|device| format!("{}\n", driver.uri(device))).collect::<String>()
    };
    if name.is_empty() {
        let lists =
            registry.drivers().iter().filter_map(|driver| Some(list(driver, driver.enumerate().ok()?)));
        return Ok(lists.collect());
    }
    let driver = find_driver(registry, name)?;
    Ok(list(driver, driver.enumerate().advise(|| registry.available())?))
}

/// The properties of the devices of one driver, or of all drivers.
fn dump_devices(registry: &DriverRegistry, name: &str) -> Result<String> {
    if name.is_empty() {
        let dumps: Vec<_> =
            registry.drivers().iter().map(|driver| dump_driver(driver, driver.enumerate())).collect();
        return Ok(dumps.join("\n"));
    }
    let driver = find_driver(registry, name)?;
    let devices = driver.enumerate().advise(|| registry.available())?;
    Ok(dump_driver(driver, Ok(devices)))
}

fn dump_driver(driver: &Driver, devices: Result<Vec<DeviceDescription>>) -> String {
    let head = format!("{RULE}\n# Enumerated devices for driver '{}'\n{RULE}\n\n", driver.name());
    match devices {
        Ok(devices) => devices.iter().fold(head, |text, device| text + &dump_device(driver, device)),
        Err(reason) => format!("{head}# unavailable: {}\n", reason.message()),
    }
}

fn dump_device(driver: &Driver, device: &DeviceDescription) -> String {
    let mut text = format!("{LIGHT_RULE}\n# --device={}\n", driver.uri(device));
    if let Some(identifier) = device.identifier.as_ref().filter(|identifier| **identifier != device.path) {
        text.push_str(&format!("# --device={}://{identifier}\n", driver.name()));
    }
    text.push_str(&format!("#   {}\n{LIGHT_RULE}\n", device.name));
    device.report.iter().for_each(|line| text.push_str(&format!("{line}\n")));
    for section in &device.sections {
        text.push('\n');
        if !section.title.is_empty() {
            text.push_str(&format!("{}:\n", section.title));
        }
        for (key, value) in &section.properties {
            text.push_str(&format!("- {key}: {value}\n"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use rehal_base::{Error, StatusCode};
    use rehal_hal::{
        CompilerTarget, Device, DeviceParameter, DeviceSection, DriverBackend, ExecutableFormat, SystemFiles,
    };

    use super::*;

    /// A driver with two GPUs, or the reason why it is unavailable.
    struct Gpus(Result<()>);

    impl DriverBackend for Gpus {
        fn name(&self) -> &str {
            "gpu"
        }

        fn description(&self) -> &str {
            "GPUs"
        }

        fn availability(&self) -> Result<()> {
            self.0.clone()
        }

        fn formats(&self) -> &'static [ExecutableFormat] {
            &[]
        }

        fn check_format(&self, _name: &str) -> Result<()> {
            Ok(())
        }

        fn compiler_target(&self) -> Option<CompilerTarget> {
            None
        }

        fn parameters(&self) -> &'static [DeviceParameter] {
            &[]
        }

        fn enumerate(&self) -> Result<Vec<DeviceDescription>> {
            let property = |key: &str, value: &str| (key.to_string(), value.to_string());
            let limits = DeviceSection {
                title: "limits".into(),
                properties: vec![
                    property("launch-max-block-dims", "(1024, 1024, 64)"),
                    property("warp-size", "32"),
                ],
            };
            let memory = DeviceSection { title: String::new(), properties: vec![property("heaps", "2")] };
            let first = DeviceDescription {
                path: "GPU-0a".into(),
                name: "Alpha 9000".into(),
                identifier: Some("GPU-0a".into()),
                report: Vec::new(),
                sections: vec![limits, memory],
            };
            let second = DeviceDescription {
                path: "pci/1".into(),
                name: "Beta".into(),
                identifier: Some("GPU-0b".into()),
                report: vec!["speed: 9".into(), "  [0] fast".into()],
                sections: Vec::new(),
            };
            Ok(vec![first, second])
        }

        fn emulated(&self) -> &'static [&'static str] {
            &[]
        }

        fn create_device(&self, path: &str, _options: &OptionSet, _group: &[Device]) -> Result<Device> {
            Err(Error::new(StatusCode::Aborted, format!("'{path}' is not created in this test")))
        }

        fn system_files(&self) -> SystemFiles {
            SystemFiles::NONE
        }

        fn describe_workers(&self, _options: &OptionSet) -> Option<Result<String>> {
            None
        }
    }

    fn with_gpus(outcome: Result<()>) -> DriverRegistry {
        let mut registry = drivers();
        registry.register(Driver::new(Gpus(outcome))).unwrap();
        registry
    }

    fn no_library() -> DriverRegistry {
        with_gpus(Err(Error::new(StatusCode::Unavailable, "libgpu.so.1 is not installed")))
    }

    #[test]
    fn devices_are_dumped_with_all_properties() {
        let registry = with_gpus(Ok(()));
        // Vulkan may have devices here.
        let listed = list_devices(&registry, "").unwrap();
        assert!(listed.starts_with("gpu://GPU-0a\ngpu://pci/1\nlocal-sync://\nlocal-task://\n"), "{listed}");
        assert_eq!(list_devices(&registry, "gpu").unwrap(), "gpu://GPU-0a\ngpu://pci/1\n");
        let expected = format!(
            "{RULE}\n# Enumerated devices for driver 'gpu'\n{RULE}\n\n\
             {LIGHT_RULE}\n# --device=gpu://GPU-0a\n#   Alpha 9000\n{LIGHT_RULE}\n\n\
             limits:\n- launch-max-block-dims: (1024, 1024, 64)\n- warp-size: 32\n\n\
             - heaps: 2\n\
             {LIGHT_RULE}\n# --device=gpu://pci/1\n# --device=gpu://GPU-0b\n#   Beta\n{LIGHT_RULE}\nspeed: 9\n  [0] fast\n"
        );
        assert_eq!(dump_devices(&registry, "gpu").unwrap(), expected);
        assert!(dump_devices(&registry, "").unwrap().contains(&expected));
    }

    #[test]
    fn an_unavailable_driver_says_why() {
        let registry = no_library();
        let listed = list_drivers(&registry);
        assert!(
            listed.contains("\n             gpu: GPUs (unavailable: libgpu.so.1 is not installed)\n"),
            "{listed}"
        );
        assert!(list_devices(&registry, "").unwrap().starts_with("local-sync://\nlocal-task://\n"));
        let expected =
            "UNAVAILABLE; libgpu.so.1 is not installed\n  try: available drivers: local-sync, local-task";
        let found = DeviceSpec::find_in(&registry, "gpu://0").err();
        let errors = [list_devices(&registry, "gpu").err(), dump_devices(&registry, "gpu").err(), found];
        for error in errors {
            assert!(error.unwrap().report().starts_with(expected));
        }
        let dump = dump_devices(&registry, "").unwrap();
        assert!(
            dump.contains(
                "# Enumerated devices for driver 'gpu'\n\
                 # ============================================================================\n\n\
                 # unavailable: libgpu.so.1 is not installed\n\n"
            ),
            "{dump}"
        );
    }
}
