use std::ffi::OsStr;
use std::sync::Arc;

use rehal_base::{Context, Error, FileKind, Result, StatusCode, nearest};

use crate::{CompilerTarget, Device, DeviceParameter, ExecutableFormat, OptionSet, ParameterScope};

/// A device as enumerated by its driver: everything that `--dump_devices` prints.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceDescription {
    /// The path after `driver://` in the device's URI; unique among the driver's devices. Empty for a driver
    /// with a single, fixed device.
    pub path: String,
    /// Its display name.
    pub name: String,
    /// A persistent identifier across boots and processes, such as `GPU-` and a UUID, if it has one.
    pub identifier: Option<String>,
    /// Lines about it in a form of the driver's own, which programs may read; printed before the sections.
    pub report: Vec<String>,
    /// Its properties, in print order.
    pub sections: Vec<DeviceSection>,
}

/// A group of device properties, such as the limits of a dispatch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceSection {
    /// The section title; may be empty.
    pub title: String,
    /// Keys and values.
    pub properties: Vec<(String, String)>,
}

/// A driver: finds devices of one kind on this machine and creates them. Every function may be called from
/// any thread.
///
/// A driver is constructed with what it needs to find devices, such as the path of a loader library;
/// parameters of a single device are options (see [`DeviceOptions`](crate::DeviceOptions)). Constructing a
/// driver is cheap and cannot fail: libraries are loaded no earlier than in [`DriverBackend::availability`].
pub trait DriverBackend: Send + Sync {
    /// The scheme of its URIs, such as `local-sync`.
    fn name(&self) -> &str;

    /// A one-line description.
    fn description(&self) -> &str;

    /// Whether it works on this machine; the error says why not: `UNAVAILABLE` for a missing library or
    /// kernel module, `UNIMPLEMENTED` for a driver that this build does not include.
    fn availability(&self) -> Result<()>;

    /// The formats of executables that its devices run.
    fn formats(&self) -> &'static [ExecutableFormat];

    /// How programs are compiled for its devices, if the compiler can.
    fn compiler_target(&self) -> Option<CompilerTarget>;

    /// Whether executables of the format of this name, which is one of [`DriverBackend::formats`], can run on
    /// this machine; the error says for what they are made, and what is here. It opens no device.
    fn check_format(&self, name: &str) -> Result<()>;

    /// The parameters of its devices.
    fn parameters(&self) -> &'static [DeviceParameter];

    /// Its devices, in a stable order. Called only if available.
    fn enumerate(&self) -> Result<Vec<DeviceDescription>>;

    /// The paths of devices that it emulates on any machine, also if it is not available. They are not
    /// enumerated, and nothing but their path selects them.
    fn emulated(&self) -> &'static [&'static str];

    /// Creates the device with this `path`, enumerated or emulated; for an empty path, the default device.
    /// Called only for emulated ones, or if it is available and not without devices. `group` has the devices
    /// that were created before it for the same group, with which it may share threads.
    fn create_device(&self, path: &str, options: &OptionSet, group: &[Device]) -> Result<Device>;

    /// The files that its devices use.
    fn system_files(&self) -> SystemFiles;

    /// The threads that a device with these options starts, as text in the reference's form; `None` if its
    /// devices have no threads that options select.
    fn describe_workers(&self, options: &OptionSet) -> Option<Result<String>>;
}

/// Files that the devices of a driver use, for processes that may use no others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SystemFiles {
    /// Paths of files and directories that are read, and of device files that are controlled. Those that do
    /// not exist are not used.
    pub reads: &'static [&'static str],
    /// Paths of directories that are written, below the user's directory for caches.
    pub caches: &'static [&'static str],
    /// Whether the lists are known to be complete, by trial.
    pub are_proved: bool,
}

impl SystemFiles {
    /// None: devices are the processors of this machine.
    pub const NONE: Self = Self { reads: &[], caches: &[], are_proved: true };
}

/// A driver: a cheap clone of a shared object.
#[derive(Clone)]
pub struct Driver(Arc<dyn DriverBackend>);

impl Driver {
    /// A driver over its backend.
    #[doc(hidden)]
    pub fn new(backend: impl DriverBackend + 'static) -> Self {
        Self(Arc::new(backend))
    }

    /// A known driver that this build does not include; never available.
    pub fn missing(name: &'static str, description: &'static str) -> Self {
        Self::new(Missing { name, description })
    }

    /// Whether executables of the format of this name are for its devices.
    pub fn has_format(&self, name: &str) -> bool {
        ExecutableFormat::find(self.0.formats(), name).is_some()
    }

    /// Whether a file of this kind may be an executable for its devices.
    pub fn has_files_of(&self, kind: FileKind) -> bool {
        self.0.formats().iter().any(|format| format.files.contains(&kind))
    }

    /// The backend.
    #[doc(hidden)]
    pub fn backend(&self) -> &dyn DriverBackend {
        &*self.0
    }

    /// See [`DriverBackend::name`].
    pub fn name(&self) -> &str {
        self.0.name()
    }

    /// See [`DriverBackend::description`].
    pub fn description(&self) -> &str {
        self.0.description()
    }

    /// See [`DriverBackend::availability`].
    pub fn availability(&self) -> Result<()> {
        self.0.availability()
    }

    /// Its devices, in a stable order. Fails if the driver is unavailable; an available driver may have none.
    pub fn enumerate(&self) -> Result<Vec<DeviceDescription>> {
        self.0.availability()?;
        self.0.enumerate().context(|| format!("driver '{}'", self.name()))
    }

    /// Adds the parameters of a device's URI to `options`, so that they override them: see
    /// [`DeviceParameter`]. Fails with `INVALID_ARGUMENT` for parameters that the driver does not have, and
    /// for values that they cannot have.
    pub fn configure<T: AsRef<str>>(&self, mut options: OptionSet, params: &[(T, T)]) -> Result<OptionSet> {
        for (key, value) in params {
            let (key, value) = (key.as_ref(), value.as_ref());
            let known = self.parameters_of_uris().find(|parameter| parameter.keys.contains(&key));
            let known = known.ok_or_else(|| self.no_such_parameter(key, value))?;
            let checked = known.set(&mut OptionSet::default(), &[OsStr::new(value)]);
            checked.context(|| format!("parameter '{key}={value}'"))?;
        }
        for parameter in self.parameters_of_uris() {
            let given = params.iter().filter(|(key, _)| parameter.keys.contains(&key.as_ref()));
            let values: Vec<_> = given.map(|(_, value)| OsStr::new(value.as_ref())).collect();
            if !values.is_empty() {
                parameter.set(&mut options, &values)?;
            }
        }
        Ok(options)
    }

    fn parameters_of_uris(&self) -> impl Iterator<Item = &'static DeviceParameter> {
        self.0.parameters().iter().filter(|parameter| parameter.scope != ParameterScope::Driver)
    }

    /// The URI of an enumerated device.
    pub fn uri(&self, device: &DeviceDescription) -> String {
        format!("{}://{}", self.name(), device.path)
    }

    /// Whether `which` is the path of a device that it emulates.
    pub fn emulates(&self, which: &str) -> bool {
        self.0.emulated().contains(&which)
    }

    /// The path of the device that `which` names: by path, by identifier, or by index in
    /// [`Driver::enumerate`]; the first match in this order. An empty `which` selects the driver's default
    /// and stays empty.
    pub fn resolve(&self, which: &str) -> Result<String> {
        if self.emulates(which) {
            return Ok(which.to_owned());
        }
        let devices = self.enumerate()?;
        if devices.is_empty() {
            let error = format!("driver '{}' found no devices on this machine", self.name());
            return Err(Error::new(StatusCode::Unavailable, error));
        }
        match which {
            "" => Ok(String::new()),
            _ => self.select(&devices, which).map(|device| device.path.clone()),
        }
    }

    /// Creates the device that `which` names; see [`Driver::resolve`].
    pub fn create_device(&self, which: &str, options: &OptionSet) -> Result<Device> {
        self.create_device_in(which, options, &[])
    }

    /// The same for a group, of which these devices were created before.
    pub fn create_device_in(&self, which: &str, options: &OptionSet, group: &[Device]) -> Result<Device> {
        self.0.create_device(&self.resolve(which)?, options, group)
    }

    fn select<'d>(&self, devices: &'d [DeviceDescription], which: &str) -> Result<&'d DeviceDescription> {
        let has_identifier = |device: &&DeviceDescription| {
            device.identifier.as_deref().is_some_and(|identifier| identifier.eq_ignore_ascii_case(which))
        };
        let by_path = devices.iter().find(|device| device.path == which);
        let by_identifier = || devices.iter().find(has_identifier);
        // Only the form that a listing prints, not `+0` or `00`.
        let is_index = |index: &usize| index.to_string() == which;
        let by_index = || which.parse().ok().filter(is_index).and_then(|index| devices.get(index));
        by_path.or_else(by_identifier).or_else(by_index).ok_or_else(|| self.no_such_device(devices, which))
    }

    fn no_such_parameter(&self, key: &str, value: &str) -> Error {
        let name = self.name();
        let known: Vec<_> =
            self.parameters_of_uris().filter_map(|parameter| parameter.keys.first().copied()).collect();
        if known.is_empty() {
            let error = format!("driver '{name}' takes no parameters: '{key}={value}'");
            return Error::invalid_argument(error).advise(format!("name it as '{name}'"));
        }
        let meant = nearest(key, known.iter().copied());
        let meant = meant.map(|known| format!("did you mean '{known}'? ")).unwrap_or_default();
        Error::invalid_argument(format!("driver '{name}' has no parameter '{key}'"))
            .advise(format!("{meant}its parameters: {}", known.join(", ")))
    }

    fn no_such_device(&self, devices: &[DeviceDescription], which: &str) -> Error {
        /// Limit on the devices that an error lists.
        const LISTED: usize = 8;
        let mut uris: Vec<_> = devices.iter().take(LISTED).map(|device| self.uri(device)).collect();
        if devices.len() > LISTED {
            uris.push(format!("and {} more", devices.len() - LISTED));
        }
        Error::not_found(format!("driver '{}' has no device '{which}'", self.name()))
            .advise(format!("its devices: {}", uris.join(", ")))
    }
}

struct Missing {
    name: &'static str,
    description: &'static str,
}

impl DriverBackend for Missing {
    fn name(&self) -> &str {
        self.name
    }

    fn description(&self) -> &str {
        self.description
    }

    fn availability(&self) -> Result<()> {
        Err(Error::unimplemented(format!("this build has no '{}' driver", self.name)))
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
        self.availability().map(|()| Vec::new())
    }

    fn emulated(&self) -> &'static [&'static str] {
        &[]
    }

    fn create_device(&self, _path: &str, _options: &OptionSet, _group: &[Device]) -> Result<Device> {
        self.availability()?;
        Err(Error::new(StatusCode::Internal, "a missing driver has no device"))
    }

    fn system_files(&self) -> SystemFiles {
        SystemFiles::NONE
    }

    fn describe_workers(&self, _options: &OptionSet) -> Option<Result<String>> {
        None
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use parking_lot::Mutex;

    use super::*;
    use crate::ParameterValue;

    /// A fake driver of several devices, which records the paths of requested devices and creates none.
    pub(crate) struct Fake {
        pub name: &'static str,
        pub devices: usize,
        pub created: Arc<Mutex<Vec<String>>>,
        pub fault: Option<Error>,
    }

    impl Fake {
        pub(crate) fn new(name: &'static str, devices: usize) -> Self {
            Self { name, devices, created: Arc::default(), fault: None }
        }
    }

    #[derive(Clone, Debug, Default, PartialEq)]
    struct Count(u32);
    impl crate::DeviceOptions for Count {}

    impl DriverBackend for Fake {
        fn name(&self) -> &str {
            self.name
        }

        fn description(&self) -> &str {
            "for tests"
        }

        fn availability(&self) -> Result<()> {
            self.fault.clone().map_or(Ok(()), Err)
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
            const COUNT: DeviceParameter = DeviceParameter {
                keys: &["count", "fake_count"],
                scope: ParameterScope::Device("fake"),
                value: ParameterValue::Integer {
                    min: 0,
                    max: 9,
                    set: |options, count| options.update(|it: &mut Count| it.0 = count as u32),
                },
                default: "0",
                help: "A number.",
            };
            if self.devices > 1 { &[COUNT] } else { &[] }
        }

        fn enumerate(&self) -> Result<Vec<DeviceDescription>> {
            assert!(self.fault.is_none(), "called only if available");
            let device = |index| DeviceDescription {
                path: format!("bus/{index}"),
                name: "GPU".into(),
                identifier: Some(format!("GPU-00{index}f")),
                ..DeviceDescription::default()
            };
            Ok((0..self.devices).map(device).collect())
        }

        fn emulated(&self) -> &'static [&'static str] {
            &[]
        }

        fn create_device(&self, path: &str, _options: &OptionSet, _group: &[Device]) -> Result<Device> {
            self.created.lock().push(path.into());
            Err(Error::new(StatusCode::Aborted, "the test driver creates nothing"))
        }

        fn system_files(&self) -> SystemFiles {
            SystemFiles::NONE
        }

        fn describe_workers(&self, _options: &OptionSet) -> Option<Result<String>> {
            None
        }
    }

    fn create(fake: Fake, which: &str) -> Error {
        Driver::new(fake).create_device(which, &OptionSet::default()).err().expect("it creates nothing")
    }

    #[test]
    fn devices_resolve_by_path_identifier_or_index() {
        for (which, path) in [
            ("", ""),
            ("bus/1", "bus/1"),
            ("GPU-001f", "bus/1"),
            ("gpu-002F", "bus/2"),
            ("0", "bus/0"),
            ("2", "bus/2"),
        ] {
            let fake = Fake::new("fake", 3);
            let created = fake.created.clone();
            assert_eq!(create(fake, which).code(), StatusCode::Aborted, "{which}");
            assert_eq!(*created.lock(), [path], "{which}");
        }
    }

    #[test]
    fn the_error_for_an_unknown_device_lists_the_others() {
        for which in ["3", "-1", "+0", "00", "bus", "GPU-", "18446744073709551616"] {
            let error = create(Fake::new("fake", 3), which);
            assert_eq!(
                error.report(),
                format!(
                    "NOT_FOUND; driver 'fake' has no device '{which}'\n  \
                     try: its devices: fake://bus/0, fake://bus/1, fake://bus/2"
                )
            );
        }
        assert!(create(Fake::new("fake", 20), "x").report().ends_with("fake://bus/7, and 12 more"));
    }

    #[test]
    fn a_driver_without_devices_has_no_default() {
        for which in ["", "0"] {
            let error = create(Fake::new("fake", 0), which);
            assert_eq!(error.to_string(), "UNAVAILABLE; driver 'fake' found no devices on this machine");
        }
    }

    #[test]
    fn an_unavailable_driver_reports_its_reason_first() {
        let reason = Error::new(StatusCode::Unavailable, "libfake.so.1 is not installed");
        let fake = Fake { fault: Some(reason.clone()), ..Fake::new("fake", 3) };
        let driver = Driver::new(fake);
        assert_eq!(driver.enumerate().unwrap_err().report(), reason.report());
        let error = driver.create_device("0", &OptionSet::default()).err().unwrap();
        assert_eq!(error.report(), reason.report());
    }

    #[test]
    fn parameters_override_options() {
        let driver = Driver::new(Fake::new("fake", 2));
        let count = |params: &[(&str, &str)]| driver.configure(OptionSet::default().with(Count(7)), params);
        for (params, expected) in [
            (&[][..], 7),
            (&[("count", "1")], 1),
            (&[("fake_count", "2")], 2),
            (&[("count", "1"), ("fake_count", "3")], 3),
        ] {
            assert_eq!(count(params).unwrap().get::<Count>(), Count(expected), "{params:?}");
        }
        let error = count(&[("coumt", "1")]).err().unwrap();
        assert_eq!(
            error.report(),
            "INVALID_ARGUMENT; driver 'fake' has no parameter 'coumt'\n  \
             try: did you mean 'count'? its parameters: count"
        );
        let error = count(&[("count", "x")]).err().unwrap();
        assert_eq!(
            error.report(),
            "INVALID_ARGUMENT; unexpected value 'x' (expected an integer from 0 to 9)\n  at: parameter 'count=x'"
        );
        let error = Driver::new(Fake::new("fake", 1)).configure(OptionSet::default(), &[("count", "1")]);
        assert_eq!(error.err().unwrap().message(), "driver 'fake' takes no parameters: 'count=1'");
    }

    #[test]
    fn a_missing_driver_is_unimplemented() {
        let driver = Driver::missing("abacus", "beads");
        let expected = "UNIMPLEMENTED; this build has no 'abacus' driver";
        assert_eq!((driver.name(), driver.description()), ("abacus", "beads"));
        assert_eq!(driver.availability().unwrap_err().report(), expected);
        assert_eq!(driver.enumerate().unwrap_err().report(), expected);
        assert_eq!(driver.create_device("", &OptionSet::default()).err().unwrap().report(), expected);
    }
}
