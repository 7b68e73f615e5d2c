//! The machine that a report was measured on.

use std::fs;

use serde::Serialize;

use crate::context::system;

/// A machine and its load.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Host {
    /// Its name.
    pub name: String,
    /// The model of its CPU; its architecture if the system has no model.
    pub cpu: String,
    /// Number of online processors.
    pub processors: u64,
    /// Load averages over 1, 5 and 15 minutes; `None` if unknown.
    pub load_average: Option<[f64; 3]>,
}

impl Host {
    /// This machine, and its load at the time of the call.
    pub fn now() -> Self {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        Self {
            name: system::host_name(),
            cpu: model_in(&cpuinfo).unwrap_or_else(|| std::env::consts::ARCH.into()),
            processors: system::num_cpus(),
            load_average: rehal_base::load_average(),
        }
    }
}

/// The model of the first CPU in the text of `cpuinfo`.
fn model_in(text: &str) -> Option<String> {
    let value = |line: &str| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == "model name").then(|| value.trim().to_owned())
    };
    text.lines().find_map(value).filter(|model| !model.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_is_that_of_the_first_cpu() {
        let text = "processor\t: 0\nmodel\t\t: 5\nmodel name\t: A CPU @ 2 GHz\n\nmodel name\t: other\n";
        assert_eq!(model_in(text).as_deref(), Some("A CPU @ 2 GHz"));
        assert_eq!((model_in("processor: 0\nmodel name :\n"), model_in("")), (None, None));
    }

    #[test]
    fn this_machine_has_processors() {
        let host = Host::now();
        assert!(host.processors > 0 && !host.cpu.is_empty(), "{host:?}");
    }
}
