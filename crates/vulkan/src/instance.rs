//! The Vulkan instance, with its layers and messages.
#![allow(unsafe_code, reason = "calls the Vulkan loader")]

use std::ffi::{CStr, CString, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use ash::vk;
use rehal_base::{Error, Result, escaped_lines};

use crate::error::failure;
use crate::{DebugMessage, DebugSeverity, DebugSink, VulkanDriverOptions};

const VALIDATION_LAYER: &CStr = c"VK_LAYER_KHRONOS_validation";

/// An instance of Vulkan. Devices own a clone of its [`Arc`].
pub(crate) struct Instance {
    /// Keeps the loader open.
    entry: ash::Entry,
    instance: ash::Instance,
    is_validated: bool,
    messenger: Option<(ash::ext::debug_utils::Instance, vk::DebugUtilsMessengerEXT)>,
    /// Receives warnings of this driver.
    warnings: DebugSink,
    /// Called by the messenger through a pointer; boxed so that it does not move.
    _sink: Option<Box<Messenger>>,
}

struct Messenger {
    sink: DebugSink,
    least: DebugSeverity,
}

impl Instance {
    /// Creates the instance. Fails if a requested layer or extension is missing, or if no driver is
    /// installed.
    pub(crate) fn create(entry: ash::Entry, options: &VulkanDriverOptions) -> Result<Self> {
        let layers = if options.validation { vec![VALIDATION_LAYER] } else { Vec::new() };
        require_layers(&entry, &layers)?;
        let wants_messages = options.validation || options.debug_utils;
        let available = extensions_of(&entry, &layers)?;
        let has_messages =
            wants_messages && available.iter().any(|name| **name == *ash::ext::debug_utils::NAME);
        let (flags, enabled) = enabled(&available, has_messages);
        let extensions: Vec<_> = enabled.iter().map(|name| name.as_ptr()).collect();
        let warnings = options.messages.clone().unwrap_or_else(|| Arc::new(print));
        let sink = has_messages
            .then(|| Box::new(Messenger { sink: warnings.clone(), least: options.least_severity }));
        let mut messages = messenger_info(sink.as_deref());
        let application = vk::ApplicationInfo::default()
            .application_name(c"rehal")
            .engine_name(c"rehal")
            .api_version(vk::API_VERSION_1_3);
        let layer_names: Vec<_> = layers.iter().map(|layer| layer.as_ptr()).collect();
        let mut info = vk::InstanceCreateInfo::default()
            .flags(flags)
            .application_info(&application)
            .enabled_layer_names(&layer_names)
            .enabled_extension_names(&extensions);
        if sink.is_some() {
            info = info.push_next(&mut messages);
        }
        let checks = [vk::ValidationFeatureEnableEXT::SYNCHRONIZATION_VALIDATION];
        let mut features = vk::ValidationFeaturesEXT::default().enabled_validation_features(&checks);
        if options.validation && options.synchronization_validation {
            info = info.push_next(&mut features);
        }
        // SAFETY: the strings and structures that `info` points to live until the call returns.
        let instance = unsafe { entry.create_instance(&info, None) }
            .map_err(|error| failure("creating the Vulkan instance", error))?;
        let mut created = Self {
            entry,
            instance,
            is_validated: options.validation,
            messenger: None,
            _sink: sink,
            warnings,
        };
        created.listen()?;
        Ok(created)
    }

    /// Receives messages from now on, and not only those about the instance's creation.
    fn listen(&mut self) -> Result<()> {
        let Some(sink) = &self._sink else { return Ok(()) };
        let functions = ash::ext::debug_utils::Instance::new(&self.entry, &self.instance);
        let info = messenger_info(Some(sink));
        // SAFETY: the extension is enabled, and the messenger is destroyed before the sink that it points to.
        let messenger = unsafe { functions.create_debug_utils_messenger(&info, None) }
            .map_err(|error| failure("creating the debug messenger", error))?;
        self.messenger = Some((functions, messenger));
        Ok(())
    }

    /// Sends a warning of this driver to where messages go.
    pub(crate) fn warn(&self, text: String) {
        (self.warnings)(&DebugMessage { severity: DebugSeverity::Warning, id: String::new(), text });
    }

    /// The functions of the instance.
    pub(crate) fn functions(&self) -> &ash::Instance {
        &self.instance
    }

    /// The functions of the loader.
    pub(crate) fn entry(&self) -> &ash::Entry {
        &self.entry
    }

    /// The physical devices, in the loader's order.
    pub(crate) fn physical_devices(&self) -> Result<Vec<vk::PhysicalDevice>> {
        // SAFETY: the instance is valid as long as `self`.
        unsafe { self.instance.enumerate_physical_devices() }
            .map_err(|error| failure("enumerating the devices", error))
    }

    /// Whether the validation layer checks calls.
    pub(crate) fn is_validated(&self) -> bool {
        self.is_validated
    }

    /// Whether layers and debug utilities receive names of objects and labels of commands.
    pub(crate) fn has_debug_utils(&self) -> bool {
        self._sink.is_some()
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        if let Some((functions, messenger)) = self.messenger.take() {
            // SAFETY: it was created by this instance and is destroyed once.
            unsafe { functions.destroy_debug_utils_messenger(messenger, None) };
        }
        // SAFETY: devices own the instance, so all of them are destroyed.
        unsafe { self.instance.destroy_instance(None) };
    }
}

fn messenger_info(sink: Option<&Messenger>) -> vk::DebugUtilsMessengerCreateInfoEXT<'static> {
    use vk::DebugUtilsMessageSeverityFlagsEXT as Severity;
    use vk::DebugUtilsMessageTypeFlagsEXT as Type;
    let user_data = sink.map_or(std::ptr::null_mut(), |sink| std::ptr::from_ref(sink).cast_mut().cast());
    vk::DebugUtilsMessengerCreateInfoEXT::default()
        .message_severity(Severity::ERROR | Severity::WARNING | Severity::INFO | Severity::VERBOSE)
        .message_type(Type::GENERAL | Type::VALIDATION | Type::PERFORMANCE)
        .pfn_user_callback(Some(receive))
        .user_data(user_data)
}

fn severity_of(flags: vk::DebugUtilsMessageSeverityFlagsEXT) -> DebugSeverity {
    use vk::DebugUtilsMessageSeverityFlagsEXT as Severity;
    if flags.contains(Severity::ERROR) {
        DebugSeverity::Error
    } else if flags.contains(Severity::WARNING) {
        DebugSeverity::Warning
    } else if flags.contains(Severity::INFO) {
        DebugSeverity::Info
    } else {
        DebugSeverity::Verbose
    }
}

/// Called by Vulkan with a message.
unsafe extern "system" fn receive(
    severity: vk::DebugUtilsMessageSeverityFlagsEXT,
    _types: vk::DebugUtilsMessageTypeFlagsEXT,
    data: *const vk::DebugUtilsMessengerCallbackDataEXT<'_>,
    user_data: *mut c_void,
) -> vk::Bool32 {
    // SAFETY: Vulkan passes the pointer of `messenger_info`, whose messenger outlives the instance's calls,
    // and data that is valid for this call.
    let (messenger, data) = unsafe { (user_data.cast::<Messenger>().as_ref(), data.as_ref()) };
    if let (Some(messenger), Some(data)) = (messenger, data) {
        let severity = severity_of(severity);
        if severity <= messenger.least {
            // SAFETY: they are null or point to strings that are valid for this call.
            let (id, text) = unsafe { (text_of(data.p_message_id_name), text_of(data.p_message)) };
            let message = DebugMessage { severity, id, text };
            // A panic must not unwind through Vulkan; the message is lost.
            let _ = catch_unwind(AssertUnwindSafe(|| (messenger.sink)(&message)));
        }
    }
    vk::FALSE
}

/// The text at a pointer, or nothing.
///
/// # Safety
///
/// The pointer is null, or points to a string that ends with a zero byte.
unsafe fn text_of(text: *const std::ffi::c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: guaranteed by the caller.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// Prints a message to standard error.
fn print(message: &DebugMessage) {
    let severity = match message.severity {
        DebugSeverity::Error => "error",
        DebugSeverity::Warning => "warning",
        DebugSeverity::Info | DebugSeverity::Verbose => "info",
    };
    eprintln!("vulkan: {severity}: {}", escaped_lines(&message.text));
}

fn require_layers(entry: &ash::Entry, layers: &[&CStr]) -> Result<()> {
    if layers.is_empty() {
        return Ok(());
    }
    // SAFETY: the loader is open.
    let installed = unsafe { entry.enumerate_instance_layer_properties() }
        .map_err(|error| failure("enumerating the Vulkan layers", error))?;
    for layer in layers {
        if !installed.iter().any(|it| it.layer_name_as_c_str() == Ok(layer)) {
            return Err(Error::not_found(format!(
                "the Vulkan layer {} is not installed",
                layer.to_string_lossy()
            )));
        }
    }
    Ok(())
}

/// The extensions of the loader, its drivers and the layers.
fn extensions_of(entry: &ash::Entry, layers: &[&CStr]) -> Result<Vec<CString>> {
    let mut found = Vec::new();
    for layer in std::iter::once(None).chain(layers.iter().copied().map(Some)) {
        // SAFETY: the loader is open.
        let extensions = unsafe { entry.enumerate_instance_extension_properties(layer) }
            .map_err(|error| failure("enumerating the Vulkan extensions", error))?;
        let names = extensions.iter().filter_map(|it| it.extension_name_as_c_str().ok());
        found.extend(names.map(CStr::to_owned));
    }
    Ok(found)
}

/// The flags and extensions to create an instance with, of what is available.
fn enabled(available: &[CString], has_messages: bool) -> (vk::InstanceCreateFlags, Vec<&'static CStr>) {
    let (mut flags, mut extensions) = (vk::InstanceCreateFlags::empty(), Vec::new());
    // Without it the loader hides devices that do not conform in all that Vulkan has, such as those over
    // Metal.
    let portability = ash::khr::portability_enumeration::NAME;
    if available.iter().any(|name| **name == *portability) {
        extensions.push(portability);
        flags |= vk::InstanceCreateFlags::ENUMERATE_PORTABILITY_KHR;
    }
    if has_messages {
        extensions.push(ash::ext::debug_utils::NAME);
    }
    (flags, extensions)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_of_portability_drivers_are_enumerated() {
        let portability = ash::khr::portability_enumeration::NAME;
        let (flags, extensions) = enabled(&[c"VK_KHR_surface".to_owned(), portability.to_owned()], false);
        assert!(flags == vk::InstanceCreateFlags::ENUMERATE_PORTABILITY_KHR);
        assert_eq!(extensions, [portability]);
        let (flags, extensions) = enabled(&[], true);
        assert!(flags.is_empty());
        assert_eq!(extensions, [ash::ext::debug_utils::NAME]);
    }
}
