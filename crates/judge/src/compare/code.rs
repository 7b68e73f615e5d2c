//! Which code runs for each function of a capture.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::ControlFlow;
use std::sync::Arc;

use rehal_base::Result;
use rehal_hal::{DeviceGroup, ExecutableFormat};
use rehal_replay::{ExecutableCode, Observer, Operation};

/// Observes which code runs for each function of a replay.
pub struct RunningCode {
    devices: DeviceGroup,
    /// By the captured executable and the ordinal in it; `None` of those that are not observed.
    of: HashMap<(u64, u32), Option<Code>>,
    /// Bytes of executables, by what was prepared from them.
    bytes: HashMap<u64, Arc<[u8]>>,
    /// The only function that is observed; all without one.
    name: Option<String>,
}

/// A function of an executable.
struct Code {
    name: Box<[u8]>,
    format: Option<&'static ExecutableFormat>,
    bytes: Arc<[u8]>,
    function: u32,
}

impl RunningCode {
    /// Observes all functions of replays on these devices.
    pub fn new(devices: &DeviceGroup) -> Self {
        Self { devices: devices.clone(), of: HashMap::new(), bytes: HashMap::new(), name: None }
    }

    /// Observes only functions of this captured name.
    pub(super) fn of_function(devices: &DeviceGroup, name: &str) -> Self {
        Self { name: Some(name.to_owned()), ..Self::new(devices) }
    }

    /// Whether a function of the capture, by the executable's id and the ordinal in it, has the same code in
    /// another replay, byte for byte. `false` if that cannot be told.
    pub fn is_same(&self, other: &Self, executable_id: u64, function: u32) -> bool {
        let key = (executable_id, function);
        let [one, other] = [self, other].map(|side| side.of.get(&key).and_then(Option::as_ref));
        let (Some(one), Some(other)) = (one, other) else { return false };
        if one.name == other.name && one.bytes == other.bytes && one.function == other.function {
            return true;
        }
        let tells = |it: &Code| it.format.and_then(|format| format.is_same_code);
        match (tells(one), tells(other)) {
            (Some(is_same), Some(_)) => is_same((&one.bytes, one.function), (&other.bytes, other.function)),
            _ => false,
        }
    }

    /// The same of all functions that are observed; `false` if none ran.
    pub fn are_all_same(&self, other: &Self) -> bool {
        let mut observed = self.of.iter().filter(|it| it.1.is_some()).map(|it| it.0).peekable();
        observed.peek().is_some() && observed.all(|(id, function)| self.is_same(other, *id, *function))
    }
}

impl Observer for RunningCode {
    fn wants_operations(&self) -> bool {
        true
    }

    fn before_operation(&mut self, operation: &Operation<'_>) -> Result<ControlFlow<()>> {
        let dispatch = operation.dispatch.and_then(|it| Some((it, it.running?)));
        let Some((it, running)) = dispatch else { return Ok(ControlFlow::Continue(())) };
        let Entry::Vacant(entry) = self.of.entry((it.executable.id, it.function)) else {
            return Ok(ControlFlow::Continue(()));
        };
        let is_observed = self.name.as_ref().is_none_or(|name| {
            let infos = it.executable.function_infos();
            infos.get(it.function as usize).is_some_and(|info| info.name == *name)
        });
        let ExecutableCode { format, data, .. } = running.code;
        let mut code = || Code {
            name: format.into(),
            format: str::from_utf8(format)
                .ok()
                .and_then(|name| self.devices.devices().iter().find_map(|it| it.info().format(name))),
            bytes: self.bytes.entry(running.prepared.id()).or_insert_with(|| data.into()).clone(),
            function: running.ordinal,
        };
        entry.insert(is_observed.then(&mut code));
        Ok(ControlFlow::Continue(()))
    }
}
