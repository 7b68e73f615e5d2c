//! Flags of drivers, from the parameters that they declare.

use std::any::Any;
use std::ffi::{OsStr, OsString};
use std::path::Path;

use rehal_devices::DRIVER_PARAMETERS;
use rehal_hal::{DeviceParameter, OptionSet, ParameterScope, ParameterValue};

use super::files::{Access, NamedFile};
use super::flag::{Effect, Entry, Group, Role, Spec, unquoted};
use super::parse::Flags;
use super::value_type::{Origin, Refusal, line};

/// The group of the parameters at an index.
macro_rules! group {
    ($index:literal) => {
        Group {
            title: DRIVER_PARAMETERS[$index].title,
            flags: &entries::<{ DRIVER_PARAMETERS[$index].parameters.len() }>(
                DRIVER_PARAMETERS[$index].parameters,
            ),
        }
    };
}

/// The groups of the drivers of this build.
pub const DRIVERS: [Group; DRIVER_PARAMETERS.len()] = [group!(0), group!(1), group!(2)];

const fn entries<const N: usize>(parameters: &'static [DeviceParameter]) -> [&'static dyn Entry; N] {
    let mut entries: [&'static dyn Entry; N] = [&parameters[0]; N];
    let mut index = 0;
    while index < N {
        entries[index] = &parameters[index];
        index += 1;
    }
    entries
}

/// The options of drivers and devices set by the flags.
pub(crate) fn set_options(flags: &Flags, options: &mut OptionSet) -> rehal_base::Result<()> {
    DRIVER_PARAMETERS.iter().try_for_each(|group| group.set(options, |parameter| flags.parameter(parameter)))
}

/// The values of the flags of drivers, by the names of these.
pub(crate) fn driver_values(flags: &Flags) -> Vec<(String, Vec<OsString>)> {
    let parameters = DRIVER_PARAMETERS.iter().flat_map(|group| group.parameters);
    let values = parameters.map(|it| {
        (it.flag().to_owned(), flags.parameter(it).into_iter().map(OsString::from).collect::<Vec<_>>())
    });
    values.filter(|(_, values)| !values.is_empty()).collect()
}

/// A value is kept as text; [`set_options`] reads it.
impl Entry for DeviceParameter {
    fn spec(&self) -> Spec {
        let effect = match self.scope {
            ParameterScope::Driver | ParameterScope::Devices => Effect::Full,
            ParameterScope::Device(driver) => Effect::OfDriver(driver),
            ParameterScope::Ignored(why) => Effect::Ignored(why),
        };
        Spec { name: self.flag(), short: None, effect, variable_prefix: None, endings: &[], help: self.help }
    }

    fn role(&self) -> Role {
        if self.is_list() { Role::List } else { Role::Value }
    }

    fn parse(&self, value: Option<&OsStr>, _: Origin) -> Result<Box<dyn Any>, Refusal> {
        let is_optional = matches!(self.value, ParameterValue::Boolean(_));
        let value = match (value, self.role()) {
            (None, _) if !is_optional => return Err(Refusal::NoValue),
            (Some(value), Role::List) if value.is_empty() => return Err(Refusal::NoValue),
            (Some(value), Role::List) => value,
            (value, _) => value.map_or(OsStr::new(""), unquoted),
        };
        let value = match self.value {
            ParameterValue::Integer { .. } if value.is_empty() => return Err(Refusal::NoValue),
            ParameterValue::Choice { aliases: [_, ..], .. } => value.to_ascii_lowercase(),
            _ => value.to_owned(),
        };
        self.set(&mut OptionSet::default(), &[&value]).map_err(|_| Refusal::Unexpected)?;
        Ok(Box::new(value))
    }

    fn expected(&self) -> String {
        DeviceParameter::expected(self)
    }

    fn words(&self) -> Vec<&'static str> {
        DeviceParameter::words(self)
    }

    fn form(&self) -> String {
        match self.value {
            ParameterValue::Boolean(_) | ParameterValue::Choice { .. } => self.words().join("|"),
            ParameterValue::Integer { .. } => "INTEGER".into(),
            ParameterValue::Text { form, .. } | ParameterValue::List { form, .. } => form.into(),
            ParameterValue::Path(_) | ParameterValue::Paths(_) => "PATH".into(),
        }
    }

    fn is_default(&self, value: Option<&OsStr>) -> bool {
        let text = value.map(unquoted).unwrap_or_default().to_str();
        match self.value {
            ParameterValue::List { .. } | ParameterValue::Paths(_) => false,
            ParameterValue::Boolean(_) => text.is_some_and(|text| match self.default {
                "true" => matches!(text, "" | "true" | "1"),
                _ => matches!(text, "false" | "0"),
            }),
            ParameterValue::Integer { .. } => {
                text.is_some_and(|text| text.parse::<i128>().ok() == self.default.parse().ok())
            }
            _ => text == Some(self.default),
        }
    }

    fn line(&self) -> String {
        let name = self.flag();
        match (self.value, self.role()) {
            (ParameterValue::Boolean(_) | ParameterValue::Integer { .. }, _) => {
                format!("--{name}={}", self.default)
            }
            (_, Role::List) => format!("# --{name}={}", self.form()),
            _ => line(name, &self.form(), self.default),
        }
    }

    fn files(&self, flags: &Flags) -> Vec<NamedFile> {
        if !self.has_files() {
            return Vec::new();
        }
        let paths = flags.parameter(self).into_iter().filter(|path| !path.is_empty());
        paths.map(|path| Access::Read.to(Path::new(path))).collect()
    }

    fn has_files(&self) -> bool {
        matches!(self.value, ParameterValue::Path(_))
    }
}

impl Flags {
    /// The values of a parameter, in order; empty for a tool without the flag.
    fn parameter(&self, parameter: &DeviceParameter) -> Vec<&OsStr> {
        self.values_as::<OsString>(parameter.flag()).map(OsString::as_os_str).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rehal_hal::CommonOptions;
    use rehal_local::{LocalSyncOptions, LocalTaskOptions};

    use super::super::DEVICES;
    use super::*;
    use crate::devices;

    fn options(given: &[&str]) -> OptionSet {
        let groups: Vec<_> = [&DEVICES].into_iter().chain(&DRIVERS).collect();
        devices::driver_options(&Flags::parse(&groups, given.iter().map(OsString::from)).unwrap())
    }

    #[test]
    fn flags_set_the_options_of_their_drivers() {
        let given = [
            "--task_topology_nodes=all",
            "--task_topology_cpu_ids=0,2",
            "--task_topology_cpu_ids=0x1f,",
            "--task_topology_group_count=-1",
            "--task_worker_stack_size=4194304",
            "--task_abort_on_failure",
            "--task_topology_snapshot=copy",
            "--device_timeout=1500ms",
        ];
        let set = options(&given);
        let task: LocalTaskOptions = set.get();
        assert_eq!(task.selection.processors, [vec![0, 2], vec![31]]);
        assert_eq!((task.selection.worker_count, task.selection.snapshot), (Some(256), Some("copy".into())));
        assert_eq!((task.worker.stack_bytes, task.abort_on_failure), (4 << 20, true));
        assert_eq!(set.get::<LocalSyncOptions>().stack_bytes, 4 << 20);
        assert_eq!(set.get::<CommonOptions>().timeout, Some(Duration::from_millis(1500)));
        let unset: LocalTaskOptions = options(&[]).get();
        assert_eq!(unset.selection, LocalTaskOptions::default().selection);
    }

    #[test]
    fn the_case_of_words_with_aliases_does_not_matter() {
        let set = |word: &str| Flags::parse(&[&DRIVERS[1]], [format!("--vulkan_dispatch_abi={word}").into()]);
        assert!(["BDA", "Descriptors", "all"].into_iter().all(|word| set(word).is_ok()));
        let wrong = set("none").err().unwrap().to_string();
        assert!(wrong.contains("(expected descriptor, bda or all)"), "{wrong}");
    }

    #[test]
    fn numbers_have_limits() {
        for wrong in ["--task_topology_group_count=-2", "--task_topology_max_group_count=-2"] {
            let error = Flags::parse(&[&DRIVERS[0]], [OsString::from(wrong)]).err().unwrap().to_string();
            assert!(error.contains("expected an integer from -1 to 2147483647"), "{error}");
        }
    }
}
