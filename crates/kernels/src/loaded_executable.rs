//! Executables by themselves, without a program or a capture: loaded for a device, and dispatched with given
//! arguments.

mod launches;
mod source;

use rehal_base::{Context, Error, FileKind, Remedy, Result};
use rehal_devices::ValueText;
use rehal_devices::values::{inputs, tensors};
use rehal_hal::{Buffer, BufferView, CachingMode, Device, Executable, ExecutableParams, FunctionInfo};
use rehal_vm::ValueKind;

pub use launches::{LaunchArguments, LaunchBinding, Launches, MAX_LAUNCHES};
pub use source::ExecutableSource;

/// Advice about a file that is not an executable.
const NO_EXECUTABLE: &str =
    "name a compiled executable: an ELF image, a shared library, or SPIR-V for Vulkan";

/// Options of [`LoadedExecutable::load`].
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct LoadOptions {
    /// The format, such as `embedded-elf-x86_64`. Default: the one that the device recognizes.
    pub format: Option<String>,
    /// Specialization constants. Default: none.
    pub constants: Vec<u32>,
}

/// A function of an executable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryPoint {
    /// By ordinal.
    Ordinal(u32),
    /// By name.
    Name(String),
}

/// An executable, prepared for a device.
///
/// Its code is native code, which runs with the privileges of the process: load only what you would also run
/// as a program.
///
/// ```
/// # fn main() -> rehal_base::Result<()> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/cts/affine.embedded.elf");
/// use rehal_hal::transfer;
/// use rehal_devices::{DeviceOptions, ValueText};
/// use rehal_kernels::{EntryPoint, ExecutableSource, LaunchArguments, LoadOptions, LoadedExecutable};
///
/// let devices = DeviceOptions::default().open()?;
/// let source = ExecutableSource::File(path.into());
/// let executable = LoadedExecutable::load(&devices.devices()[0], &source, &LoadOptions::default())?;
/// let function = executable.function(&EntryPoint::Name("affine".into()))?;
/// let mut arguments = LaunchArguments::for_function(function);
/// arguments.constants = vec![3, 4];
/// arguments.bindings = executable.bindings(&[ValueText::new("16xi32=5")?, ValueText::new("16xi32")?])?;
/// // Each run dispatches it once and waits, with the same memory.
/// let mut launches = executable.launches(&arguments, 1)?;
/// launches.run()?;
/// launches.run()?;
/// assert_eq!(transfer::to_vec(&arguments.bindings[1].buffer, 0, 4)?, [19, 0, 0, 0]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct LoadedExecutable {
    device: Device,
    executable: Executable,
}

impl LoadedExecutable {
    /// Reads an executable and prepares it for a device. Fails for other files, for a format that the device
    /// lacks, and if the number of specialization constants is not the executable's.
    pub fn load(device: &Device, source: &ExecutableSource, options: &LoadOptions) -> Result<Self> {
        let place = || source.place();
        let data = source.read()?;
        let data = data.bytes();
        let kind = FileKind::from_head(data);
        let format = match &options.format {
            Some(format) => format.as_str(),
            None => {
                device.infer_executable_format(data).ok_or_else(|| unknown(kind, device)).context(place)?
            }
        };
        // Captures have caches, so that a recorded program creates one.
        device.create_executable_cache("rehal")?;
        let label = format!("executable {}", source.place());
        let params = ExecutableParams {
            label: &label,
            caching_mode: CachingMode::ALLOW_OPTIMIZATION,
            constants: &options.constants,
            ..ExecutableParams::new(format, data)
        };
        let executable = prepare(device, &params).map_err(|error| match kind {
            _ if device.info().format(format).is_none() => {
                error.advise(Remedy::UseDeviceForFormat { format: format.to_owned() })
            }
            None => error,
            Some(kind) if kind.may_be_executable() => error,
            _ if !device.can_prepare_executable(format) => error,
            Some(_) => unknown(kind, device),
        });
        Ok(Self { device: device.clone(), executable: executable.context(place)? })
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The executable, for submissions and command buffers of the program.
    pub fn executable(&self) -> &Executable {
        &self.executable
    }

    /// Its functions, by ordinal.
    pub fn functions(&self) -> &[FunctionInfo] {
        self.executable.functions()
    }

    /// The ordinal of a function. The error lists the names of those that exist.
    pub fn function(&self, entry_point: &EntryPoint) -> Result<u32> {
        match entry_point {
            EntryPoint::Ordinal(ordinal) => match self.executable.function(*ordinal) {
                Ok(_) => Ok(*ordinal),
                Err(error) => Err(error.advise(self.names())),
            },
            EntryPoint::Name(name) => self
                .executable
                .lookup(name)
                .map_err(|error| error.advise("name one of them, or give an ordinal")),
        }
    }

    /// Memory of the device that the host can also access, for bindings: `size` is in bytes. What it contains
    /// is unspecified.
    pub fn allocate(&self, size: u64) -> Result<Buffer> {
        tensors::allocate(Some(&self.device), size)
    }

    /// Creates a binding of each value, filled with its bytes: tensors as text, in files of raw bytes, or in
    /// `.npy` files. Only their bytes matter, not their shapes.
    pub fn bindings(&self, values: &[ValueText]) -> Result<Vec<LaunchBinding>> {
        // The number of bindings is checked against the function: any number of arrays can be in a file.
        let kinds = vec![ValueKind::Ref; usize::from(u16::MAX)];
        let parsed = inputs::parse(values, &kinds, &mut |tensor_type, bytes| {
            tensors::upload(Some(&self.device), tensor_type, bytes)
        })?;
        let binding = |(ordinal, value): (usize, inputs::Parsed<BufferView>)| match value {
            inputs::Parsed::Tensor(view) | inputs::Parsed::Storage(view) => {
                Ok(LaunchBinding::whole(view.buffer().clone()))
            }
            inputs::Parsed::Null(_) | inputs::Parsed::Scalar(_) => {
                Err(Error::invalid_argument(format!("binding {ordinal} is not a tensor"))
                    .advise("give each binding a shape and a type, such as 4xf32=1,2,3,4"))
            }
        };
        parsed.into_iter().enumerate().map(binding).collect()
    }

    /// Records `count` dispatches with the same arguments, one after another, to launch them together as
    /// often as needed. Fails unless the arguments are those of the function, and if the count is zero or
    /// above [`MAX_LAUNCHES`].
    pub fn launches(&self, arguments: &LaunchArguments, count: u32) -> Result<Launches> {
        Launches::record(&self.device, &self.executable, arguments, count)
    }

    /// The functions, for advice.
    fn names(&self) -> String {
        let names = self.functions().iter().enumerate();
        let names: Vec<_> = names.map(|(ordinal, info)| format!("{ordinal} {}", info.name)).collect();
        format!("it has: {}", names.join(", "))
    }
}

/// The error for a file that the device does not recognize as an executable.
fn unknown(kind: Option<FileKind>, device: &Device) -> Error {
    match kind {
        Some(kind) if kind.is_code() && !device.info().has_files_of(kind) => {
            Error::incompatible(format!("the device does not run it: it is {}", kind.name()))
                .advise(Remedy::UseDeviceForFile(kind))
        }
        Some(FileKind::Empty) => FileKind::Empty.refuse_as("it", "an executable").advise(NO_EXECUTABLE),
        Some(kind) if !kind.may_be_executable() => kind.refuse_as("it", "an executable"),
        _ => Error::invalid_argument("the device does not recognize the format of the executable")
            .advise("give its format, such as embedded-elf-x86_64"),
    }
}

#[allow(unsafe_code, reason = "the trust boundary of native code: an executable is a program")]
fn prepare(device: &Device, params: &ExecutableParams<'_>) -> Result<Executable> {
    // SAFETY: the user who names an executable requests to run this code, as docs/unsafe.md and the help of
    // the tools state. `Launches` orders the dispatches by barriers and waits.
    unsafe { device.backend().prepare_executable(params) }
}
