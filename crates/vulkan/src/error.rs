use ash::vk;
use rehal_base::{Error, StatusCode};

/// The error of a call of Vulkan; `what` is what was attempted, such as `allocating memory`.
pub(crate) fn failure(what: &str, result: vk::Result) -> Error {
    let code = match result {
        vk::Result::ERROR_OUT_OF_HOST_MEMORY
        | vk::Result::ERROR_OUT_OF_DEVICE_MEMORY
        | vk::Result::ERROR_OUT_OF_POOL_MEMORY
        | vk::Result::ERROR_FRAGMENTED_POOL
        | vk::Result::ERROR_TOO_MANY_OBJECTS => StatusCode::ResourceExhausted,
        vk::Result::ERROR_INITIALIZATION_FAILED | vk::Result::ERROR_INCOMPATIBLE_DRIVER => {
            StatusCode::Unavailable
        }
        vk::Result::ERROR_LAYER_NOT_PRESENT | vk::Result::ERROR_EXTENSION_NOT_PRESENT => StatusCode::NotFound,
        vk::Result::ERROR_FEATURE_NOT_PRESENT => StatusCode::Unimplemented,
        vk::Result::ERROR_INVALID_EXTERNAL_HANDLE => StatusCode::InvalidArgument,
        vk::Result::ERROR_DEVICE_LOST => return device_lost(what),
        vk::Result::TIMEOUT => StatusCode::DeadlineExceeded,
        _ => StatusCode::Internal,
    };
    Error::new(code, format!("{what}: {}", meaning(result)))
}

/// The error of all work of a device after a call of Vulkan has failed without which it cannot go on.
pub(crate) fn lost_by(what: &str, result: vk::Result) -> Error {
    if result == vk::Result::ERROR_DEVICE_LOST {
        return device_lost(what);
    }
    let cause = failure(what, result);
    Error::new(cause.code(), format!("the device is lost: {}", cause.message()))
}

/// The error of everything that a lost device leaves undone.
pub(crate) fn device_lost(what: &str) -> Error {
    Error::new(StatusCode::Internal, format!("{what}: the device is lost")).advise(
        "the driver does not execute its work any more: a kernel may have accessed memory out of bounds, or run too long",
    )
}

fn meaning(result: vk::Result) -> String {
    match result {
        vk::Result::ERROR_OUT_OF_HOST_MEMORY => "the driver is out of host memory".into(),
        vk::Result::ERROR_OUT_OF_DEVICE_MEMORY => "the device is out of memory".into(),
        vk::Result::ERROR_INCOMPATIBLE_DRIVER => "no Vulkan driver on this machine is compatible".into(),
        vk::Result::ERROR_LAYER_NOT_PRESENT => "a layer is not installed".into(),
        vk::Result::ERROR_EXTENSION_NOT_PRESENT => "an extension is not supported".into(),
        vk::Result::ERROR_FEATURE_NOT_PRESENT => "a feature is not supported".into(),
        // The name, or the number of one that has none.
        other => format!("Vulkan error {other:?}"),
    }
}
