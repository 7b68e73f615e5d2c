use rehal_base::{Error, Result};

/// An executable format, by which executables are captured and prepared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum VulkanFormat {
    /// A flatbuffer whose pipelines take descriptors.
    Descriptors,
    /// As [`VulkanFormat::Descriptors`], for shaders that also use buffer device addresses.
    DescriptorsWithAddresses,
    /// A flatbuffer whose pipelines take buffer device addresses.
    Addresses,
    /// A SPIR-V module whose entry points take buffer device addresses.
    BareAddresses,
    /// A SPIR-V module whose entry points take descriptors. rehal's own format: layouts are derived from the
    /// module.
    BareDescriptors,
}

/// How a pipeline receives bindings and constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DispatchAbi {
    /// Bindings are descriptors; constants are push constants.
    Descriptors,
    /// Push constants have a root with the address of a table of addresses, one for each binding; constants
    /// follow the root.
    Addresses,
}

impl VulkanFormat {
    /// All formats.
    pub const ALL: [Self; 5] = [
        Self::Descriptors,
        Self::DescriptorsWithAddresses,
        Self::Addresses,
        Self::BareAddresses,
        Self::BareDescriptors,
    ];

    /// The format's name, such as `vulkan-spirv-fb`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Descriptors => "vulkan-spirv-fb",
            Self::DescriptorsWithAddresses => "vulkan-spirv-fb-ptr",
            Self::Addresses => "vulkan-spirv-bda-v1",
            Self::BareAddresses => "vulkan-spirv-bda-raw",
            Self::BareDescriptors => "vulkan-spirv-raw",
        }
    }

    /// The format with this name. Fails with `NOT_FOUND`; the error lists the names.
    pub fn from_name(name: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|format| format.name() == name).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            Error::not_found(format!("the executable is compiled for '{name}'; here: {names}"))
        })
    }

    /// How pipelines of this format receive bindings and constants.
    pub fn dispatch_abi(self) -> DispatchAbi {
        match self {
            Self::Descriptors | Self::DescriptorsWithAddresses | Self::BareDescriptors => {
                DispatchAbi::Descriptors
            }
            Self::Addresses | Self::BareAddresses => DispatchAbi::Addresses,
        }
    }

    /// Whether a device needs the feature `bufferDeviceAddress` for executables of this format.
    pub fn needs_addresses(self) -> bool {
        match self {
            Self::Descriptors | Self::BareDescriptors => false,
            Self::DescriptorsWithAddresses | Self::Addresses | Self::BareAddresses => true,
        }
    }

    /// Whether it is a SPIR-V module by itself, not in a flatbuffer.
    pub fn is_bare(self) -> bool {
        match self {
            Self::Descriptors | Self::DescriptorsWithAddresses | Self::Addresses => false,
            Self::BareAddresses | Self::BareDescriptors => true,
        }
    }
}
