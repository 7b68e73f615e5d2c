use rehal_base::{Error, Result, StatusCode};

use crate::{Device, Driver, OptionSet};

/// The drivers that a program can create devices of: a plain value, built by the program.
#[derive(Clone, Default)]
pub struct DriverRegistry {
    /// Sorted by name, for listings.
    drivers: Vec<Driver>,
}

impl DriverRegistry {
    /// Adds a driver; `ALREADY_EXISTS` if the name is taken.
    pub fn register(&mut self, driver: Driver) -> Result<()> {
        match self.drivers.binary_search_by(|held| held.name().cmp(driver.name())) {
            Ok(_) => {
                let error = format!("driver '{}' is already registered", driver.name());
                Err(Error::new(StatusCode::AlreadyExists, error))
            }
            Err(index) => {
                self.drivers.insert(index, driver);
                Ok(())
            }
        }
    }

    /// All drivers by name, including unavailable ones.
    pub fn drivers(&self) -> &[Driver] {
        &self.drivers
    }

    /// The driver with this name; may be unavailable.
    pub fn find(&self, name: &str) -> Result<&Driver> {
        self.drivers
            .iter()
            .find(|driver| driver.name() == name)
            .ok_or_else(|| Error::not_found(format!("driver '{name}' does not exist")))
    }

    /// Creates a device of the driver with this name; see [`Driver::create_device`] for `which`. If the
    /// driver is unknown or unavailable, the error lists those that are available.
    pub fn create_device(&self, driver: &str, which: &str, options: &OptionSet) -> Result<Device> {
        let found = self.find(driver).and_then(|found| found.availability().map(|()| found));
        found.map_err(|error| error.advise(self.available()))?.create_device(which, options)
    }

    /// The drivers that work on this machine, as advice of an error.
    pub fn available(&self) -> String {
        let available = self.drivers.iter().filter(|driver| driver.availability().is_ok());
        let names: Vec<_> = available.map(Driver::name).collect();
        match names[..] {
            [] => "no driver of this build is available on this machine".into(),
            _ => format!("the drivers that work here are: {}", names.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::tests::Fake;

    fn registry() -> DriverRegistry {
        let mut registry = DriverRegistry::default();
        let fault = Some(Error::new(StatusCode::Unavailable, "libgpu.so.1 is not installed"));
        registry.register(Driver::new(Fake::of("zeta", 2))).unwrap();
        registry.register(Driver::new(Fake { fault, ..Fake::of("gpu", 1) })).unwrap();
        registry.register(Driver::missing("abacus", "beads")).unwrap();
        registry.register(Driver::new(Fake::of("cpu", 1))).unwrap();
        registry
    }

    #[test]
    fn drivers_are_unique_and_listed_by_name() {
        let mut registry = registry();
        let names: Vec<_> = registry.drivers().iter().map(Driver::name).collect();
        assert_eq!(names, ["abacus", "cpu", "gpu", "zeta"]);
        let error = registry.register(Driver::new(Fake::of("cpu", 3))).unwrap_err();
        assert_eq!(error.to_string(), "ALREADY_EXISTS; driver 'cpu' is already registered");
        assert_eq!(registry.find("cpu").unwrap().enumerate().unwrap().len(), 1);
    }

    #[test]
    fn creation_errors_list_the_available_drivers() {
        let works = "\n  try: the drivers that work here are: cpu, zeta";
        for (driver, which, expected) in [
            ("nope", "", format!("NOT_FOUND; driver 'nope' does not exist{works}")),
            ("abacus", "", format!("UNIMPLEMENTED; this build has no 'abacus' driver{works}")),
            ("gpu", "0", format!("UNAVAILABLE; libgpu.so.1 is not installed{works}")),
            ("cpu", "9", "NOT_FOUND; driver 'cpu' has no device '9'\n  try: its devices: cpu://bus/0".into()),
            ("zeta", "1", "ABORTED; the test driver creates nothing".into()),
        ] {
            let error = registry().create_device(driver, which, &OptionSet::default()).err().unwrap();
            assert_eq!(error.report(), expected);
        }
        assert_eq!(
            DriverRegistry::default().available(),
            "no driver of this build is available on this machine"
        );
    }
}
