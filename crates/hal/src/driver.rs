use std::sync::Arc;

use rehal_base::{Context, Error, Result, StatusCode};

use crate::{Device, OptionSet};

/// A device as its driver enumerates it: everything that `--dump_devices` prints.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceDescription {
    /// What follows `driver://` in the device's URI; unique among the driver's devices. Empty for a driver that has
    /// one device and nothing to choose from.
    pub path: String,
    /// Its name, for people.
    pub name: String,
    /// What names this device on any boot and in any process, such as `GPU-` and a UUID, if it has that.
    pub identifier: Option<String>,
    /// Its properties, in the order in which they are printed.
    pub sections: Vec<DeviceSection>,
}

/// Properties of a device that belong together, such as the limits of a dispatch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceSection {
    /// What they describe; may be empty.
    pub title: String,
    /// Keys and values.
    pub properties: Vec<(String, String)>,
}

/// What a driver does: find devices of one kind on this machine and create them. Every function may be called from
/// any thread.
///
/// A driver is constructed with what it needs to find devices, such as the path of a loader library; what a single
/// device is created with are options (see [`DeviceOptions`](crate::DeviceOptions)). Constructing a driver is cheap
/// and cannot fail: libraries are loaded by [`DriverBackend::availability`] at the earliest.
pub trait DriverBackend: Send + Sync {
    /// What URIs call it, such as `local-sync`.
    fn name(&self) -> &str;

    /// What it is, in a line.
    fn description(&self) -> &str;

    /// Whether it can work on this machine; the error says why not. A missing library or kernel module is
    /// `UNAVAILABLE`, a driver that this build leaves out is `UNIMPLEMENTED`.
    fn availability(&self) -> Result<()>;

    /// Its devices, in a stable order. Called only if it is available.
    fn enumerate(&self) -> Result<Vec<DeviceDescription>>;

    /// Creates the device with this `path` of those that it enumerates; for an empty path, the one that it prefers.
    /// Called only if it is available and has a device.
    fn create_device(&self, path: &str, options: &OptionSet) -> Result<Device>;
}

/// A driver: a cheap clone of a shared object.
#[derive(Clone)]
pub struct Driver(Arc<dyn DriverBackend>);

impl Driver {
    /// A driver over its backend.
    pub fn new(backend: impl DriverBackend + 'static) -> Self {
        Self(Arc::new(backend))
    }

    /// A driver that exists and that this build leaves out. It is never available.
    pub fn missing(name: &'static str, description: &'static str) -> Self {
        Self::new(Missing { name, description })
    }

    /// The backend.
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

    /// Its devices, in a stable order. Fails if the driver is not available; an available driver may have none.
    pub fn enumerate(&self) -> Result<Vec<DeviceDescription>> {
        self.0.availability()?;
        self.0.enumerate().context(|| format!("driver '{}'", self.name()))
    }

    /// The URI of a device that it enumerates.
    pub fn uri(&self, device: &DeviceDescription) -> String {
        format!("{}://{}", self.name(), device.path)
    }

    /// The path of the device that `which` names: by path, by identifier, or by index in [`Driver::enumerate`]; the
    /// first that matches in this order. An empty `which` leaves the choice to the driver, and is the path for that.
    pub fn resolve(&self, which: &str) -> Result<String> {
        let devices = self.enumerate()?;
        if devices.is_empty() {
            let error = format!("driver '{}' finds no device on this machine", self.name());
            return Err(Error::new(StatusCode::Unavailable, error));
        }
        match which {
            "" => Ok(String::new()),
            _ => self.select(&devices, which).map(|device| device.path.clone()),
        }
    }

    /// Creates the device that `which` names; see [`Driver::resolve`].
    pub fn create_device(&self, which: &str, options: &OptionSet) -> Result<Device> {
        self.0.create_device(&self.resolve(which)?, options)
    }

    fn select<'d>(&self, devices: &'d [DeviceDescription], which: &str) -> Result<&'d DeviceDescription> {
        let has_identifier = |device: &&DeviceDescription| {
            device.identifier.as_deref().is_some_and(|identifier| identifier.eq_ignore_ascii_case(which))
        };
        let by_path = devices.iter().find(|device| device.path == which);
        let by_identifier = || devices.iter().find(has_identifier);
        let by_index = || which.parse::<usize>().ok().and_then(|index| devices.get(index));
        by_path.or_else(by_identifier).or_else(by_index).ok_or_else(|| self.no_such_device(devices, which))
    }

    fn no_such_device(&self, devices: &[DeviceDescription], which: &str) -> Error {
        /// How many devices an error lists.
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

    fn enumerate(&self) -> Result<Vec<DeviceDescription>> {
        self.availability().map(|()| Vec::new())
    }

    fn create_device(&self, _path: &str, _options: &OptionSet) -> Result<Device> {
        self.availability()?;
        Err(Error::new(StatusCode::Internal, "a missing driver has no device"))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use parking_lot::Mutex;

    use super::*;

    /// A driver of so many devices, which keeps the paths that it was asked to create and creates none.
    pub(crate) struct Fake {
        pub name: &'static str,
        pub devices: usize,
        pub created: Arc<Mutex<Vec<String>>>,
        pub fault: Option<Error>,
    }

    impl Fake {
        pub(crate) fn of(name: &'static str, devices: usize) -> Self {
            Self { name, devices, created: Arc::default(), fault: None }
        }
    }

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

        fn enumerate(&self) -> Result<Vec<DeviceDescription>> {
            assert!(self.fault.is_none(), "asked only if it is available");
            let device = |index| DeviceDescription {
                path: format!("bus/{index}"),
                name: "GPU".into(),
                identifier: Some(format!("GPU-00{index}f")),
                sections: Vec::new(),
            };
            Ok((0..self.devices).map(device).collect())
        }

        fn create_device(&self, path: &str, _options: &OptionSet) -> Result<Device> {
            self.created.lock().push(path.into());
            Err(Error::new(StatusCode::Aborted, "the test driver creates nothing"))
        }
    }

    fn create(fake: Fake, which: &str) -> Error {
        Driver::new(fake).create_device(which, &OptionSet::default()).err().expect("it creates nothing")
    }

    #[test]
    fn a_device_is_named_by_path_identifier_or_index() {
        for (which, path) in [
            ("", ""),
            ("bus/1", "bus/1"),
            ("GPU-001f", "bus/1"),
            ("gpu-002F", "bus/2"),
            ("0", "bus/0"),
            ("2", "bus/2"),
        ] {
            let fake = Fake::of("fake", 3);
            let created = fake.created.clone();
            assert_eq!(create(fake, which).code(), StatusCode::Aborted, "{which}");
            assert_eq!(*created.lock(), [path], "{which}");
        }
    }

    #[test]
    fn a_device_that_there_is_not_is_an_error_with_those_that_there_are() {
        for which in ["3", "-1", "bus", "GPU-", "18446744073709551616"] {
            let error = create(Fake::of("fake", 3), which);
            assert_eq!(
                error.report(),
                format!(
                    "NOT_FOUND; driver 'fake' has no device '{which}'\n  \
                     try: its devices: fake://bus/0, fake://bus/1, fake://bus/2"
                )
            );
        }
        assert!(create(Fake::of("fake", 20), "x").report().ends_with("fake://bus/7, and 12 more"));
    }

    #[test]
    fn without_devices_there_is_no_default() {
        for which in ["", "0"] {
            let error = create(Fake::of("fake", 0), which);
            assert_eq!(error.to_string(), "UNAVAILABLE; driver 'fake' finds no device on this machine");
        }
    }

    #[test]
    fn a_driver_that_cannot_work_says_why_before_anything_else_is_asked() {
        let reason = Error::new(StatusCode::Unavailable, "libfake.so.1 is not installed");
        let fake = Fake { fault: Some(reason.clone()), ..Fake::of("fake", 3) };
        let driver = Driver::new(fake);
        assert_eq!(driver.enumerate().unwrap_err().report(), reason.report());
        let error = driver.create_device("0", &OptionSet::default()).err().unwrap();
        assert_eq!(error.report(), reason.report());
    }

    #[test]
    fn a_missing_driver_says_that_it_is_missing() {
        let driver = Driver::missing("abacus", "beads");
        let expected = "UNIMPLEMENTED; this build has no 'abacus' driver";
        assert_eq!((driver.name(), driver.description()), ("abacus", "beads"));
        assert_eq!(driver.availability().unwrap_err().report(), expected);
        assert_eq!(driver.enumerate().unwrap_err().report(), expected);
        assert_eq!(driver.create_device("", &OptionSet::default()).err().unwrap().report(), expected);
    }
}
