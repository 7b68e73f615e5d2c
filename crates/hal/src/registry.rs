use rehal_base::{Error, Result, StatusCode};

use crate::Driver;

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

    /// The drivers that work on this machine, as advice of an error.
    pub fn available(&self) -> String {
        let available = self.drivers.iter().filter(|driver| driver.availability().is_ok());
        let names: Vec<_> = available.map(Driver::name).collect();
        match names[..] {
            [] => "no driver of this build is available on this machine".into(),
            _ => format!("available drivers: {}", names.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OptionSet;
    use crate::driver::tests::Fake;

    fn registry() -> DriverRegistry {
        let mut registry = DriverRegistry::default();
        let fault = Some(Error::new(StatusCode::Unavailable, "libgpu.so.1 is not installed"));
        registry.register(Driver::new(Fake::new("zeta", 2))).unwrap();
        registry.register(Driver::new(Fake { fault, ..Fake::new("gpu", 1) })).unwrap();
        registry.register(Driver::missing("abacus", "beads")).unwrap();
        registry.register(Driver::new(Fake::new("cpu", 1))).unwrap();
        registry
    }

    #[test]
    fn drivers_are_unique_and_listed_by_name() {
        let mut registry = registry();
        let names: Vec<_> = registry.drivers().iter().map(Driver::name).collect();
        assert_eq!(names, ["abacus", "cpu", "gpu", "zeta"]);
        let error = registry.register(Driver::new(Fake::new("cpu", 3))).unwrap_err();
        assert_eq!(error.to_string(), "ALREADY_EXISTS; driver 'cpu' is already registered");
        assert_eq!(registry.find("cpu").unwrap().enumerate().unwrap().len(), 1);
    }

    #[test]
    fn what_works_here_is_named() {
        let registry = registry();
        assert_eq!(registry.available(), "available drivers: cpu, zeta");
        assert_eq!(registry.find("nope").err().unwrap().report(), "NOT_FOUND; driver 'nope' does not exist");
        let cpu = registry.find("cpu").unwrap();
        assert_eq!(
            cpu.create_device("9", &OptionSet::default()).err().unwrap().report(),
            "NOT_FOUND; driver 'cpu' has no device '9'\n  try: its devices: cpu://bus/0"
        );
        assert_eq!(
            DriverRegistry::default().available(),
            "no driver of this build is available on this machine"
        );
    }
}
