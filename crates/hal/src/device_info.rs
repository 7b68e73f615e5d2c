use rehal_base::FileKind;

use crate::ExecutableFormat;

/// The identity of a device, for messages and `--list_devices`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// The name of its driver, such as `local-sync`.
    pub driver: String,
    /// The formats of its driver; see [`DriverBackend::formats`](crate::DriverBackend::formats).
    pub formats: &'static [ExecutableFormat],
    /// Its name within the driver.
    pub name: String,
    /// Whether work runs on the thread that makes it ready: once a submission without unmet waits returns, it
    /// has run.
    pub is_synchronous: bool,
    /// Whether its work can use any coherent memory of the host: of other devices, too, if the host can map
    /// it.
    pub uses_host_memory: bool,
    /// Whether new memory is zeros. See [`new_memory`](crate::new_memory) otherwise.
    pub zeroes_memory: bool,
    /// Whether the device can be lost: then all of its timelines fail, also at payloads that they had
    /// reached.
    pub can_be_lost: bool,
    /// Whether it emulates a device that this machine does not have: its times say nothing about that one.
    pub is_emulated: bool,
    /// Its UUID, if it has one.
    pub uuid: Option<[u8; 16]>,
    /// Its limits for dispatches; `None` if it has no limits.
    pub limits: Option<DispatchLimits>,
}

/// Limits that a device states for dispatches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DispatchLimits {
    /// The bytes of a binding, unless kernels get its address; see [`ExecutableFormat::binds_addresses`].
    pub binding_bytes: u64,
    /// The workgroups in x, y and z.
    pub workgroup_count: [u32; 3],
    /// Whether the device is known to run dispatches beyond its limits, which then cause a warning instead of
    /// an error.
    pub serves_more: bool,
}

impl DeviceInfo {
    /// Its driver's description of the format of this name, `None` for a format of another driver.
    pub fn format(&self, name: &str) -> Option<&'static ExecutableFormat> {
        ExecutableFormat::find(self.formats, name)
    }

    /// Whether a file of this kind may be an executable of its driver.
    pub fn has_files_of(&self, kind: FileKind) -> bool {
        self.formats.iter().any(|format| format.files.contains(&kind))
    }
}

impl DispatchLimits {
    /// Descriptions of the excesses over the limits of a dispatch of `count` workgroups, `None` if that is
    /// not known, of which `binding_bytes` is the largest binding that they count for.
    pub fn exceeded(&self, count: Option<[u32; 3]>, binding_bytes: u64) -> impl Iterator<Item = String> {
        let is_more =
            |it: &[u32; 3]| it.iter().zip(self.workgroup_count).any(|(count, limit)| *count > limit);
        let of_binding = (binding_bytes > self.binding_bytes).then(|| {
            format!(
                "a binding has {binding_bytes} bytes, the device states a limit of {}",
                self.binding_bytes
            )
        });
        let of_count = count.filter(|it| !it.contains(&0) && is_more(it)).map(|count| {
            let text = |[x, y, z]: [u32; 3]| format!("{x}x{y}x{z}");
            let (count, limit) = (text(count), text(self.workgroup_count));
            format!("{count} workgroups are dispatched, the device states a limit of {limit}")
        });
        of_binding.into_iter().chain(of_count)
    }
}
