use std::fmt;

use rehal_base::{FileKind, Result};
use rehal_formats::{CodeImage, Replaced};

use crate::FunctionInfo;

/// Which bindings the functions of an executable may write, by function and binding. A function with `None`,
/// or without an entry, may write all.
pub type WrittenBindings = Vec<Option<Vec<bool>>>;

/// Reads something of an executable from the name of the format and the bytes, in time in
/// proportion to these.
type ReadFunctions<T> = fn(&str, &[u8]) -> T;

/// A family of executable formats that a driver runs. The rest of the workspace knows formats from these
/// descriptions alone.
///
/// A driver may describe a format for another processor, which it does not run here.
pub struct ExecutableFormat {
    /// The prefix of the formats' names, such as `vulkan-`.
    pub prefix: &'static str,
    /// The code's name in messages, such as `VMVX bytecode`.
    pub description: &'static str,
    /// The kinds of its files.
    pub files: &'static [FileKind],
    /// Whether it is machine code of a processor like the host's, so that messages name the architecture.
    pub is_host_code: bool,
    /// Whether its functions state their workgroup size.
    pub states_workgroup_sizes: bool,
    /// Reads the functions of an executable, by ordinal: nothing of it runs, and no device is needed. Fails
    /// for code of another format, and if the bytes do not tell.
    pub functions: ReadFunctions<Result<Vec<FunctionInfo>>>,
    /// Which bindings the functions of an executable may write, if the code tells.
    pub written_bindings: Option<ReadFunctions<WrittenBindings>>,
    /// Which functions of an executable get the addresses of their bindings, whose sizes the device then does
    /// not limit, by ordinal. `None` if no function does.
    pub binds_addresses: Option<ReadFunctions<Vec<bool>>>,
    /// The processor that an executable is compiled for, such as `sm_80`, if its name or its bytes tell.
    pub target: ReadFunctions<Option<String>>,
    /// The images of code in an executable, by module ordinal. Empty if it is malformed, and for formats of
    /// which each executable is one image.
    pub images: ReadFunctions<Vec<CodeImage>>,
    /// An executable in which an image of code by itself replaces functions. `None` unless the executable is
    /// a container of images, and the other bytes are an image. Fails if the image cannot be called as its
    /// own one is.
    pub with_image: WithImage,
    /// Whether an image may replace some functions of a container and leave others.
    pub replaces_functions: bool,
    /// Fails if no emulated device can run an image of code. `None` if nothing says so but a device.
    pub check_emulated: Option<CheckCode>,
    /// The extensions of files with its code, which may stand in for it, such as `spv`.
    pub extensions: &'static [&'static str],
    /// Whether two functions, each of the bytes of an executable and by its ordinal, are the same code
    /// wherever they are in their images; `false` if that cannot be told. `None` if the format cannot tell.
    pub is_same_code: Option<SameCode>,
}

/// See [`ExecutableFormat::with_image`].
pub type WithImage = fn(&[u8], &[u8], Replaced<'_>) -> Option<Result<Vec<u8>>>;

/// See [`ExecutableFormat::check_emulated`].
pub type CheckCode = fn(&[u8]) -> Result<()>;

/// See [`ExecutableFormat::is_same_code`].
pub type SameCode = fn((&[u8], u32), (&[u8], u32)) -> bool;

impl ExecutableFormat {
    /// Finds the family whose prefix this name has.
    pub fn find<'f>(formats: &'f [Self], name: &str) -> Option<&'f Self> {
        formats.iter().find(|format| name.starts_with(format.prefix))
    }
}

/// Prefixes are unique.
impl PartialEq for ExecutableFormat {
    fn eq(&self, other: &Self) -> bool {
        self.prefix == other.prefix
    }
}

impl Eq for ExecutableFormat {}

impl fmt::Debug for ExecutableFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}*", self.prefix)
    }
}

/// How a program is compiled for devices of a driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompilerTarget {
    /// Its short name, such as `cpu`.
    pub name: &'static str,
    /// The compiler's name of the device.
    pub device: &'static str,
    /// Further flags of the compiler; may be empty.
    pub flags: &'static str,
    /// The flag of the compiler that names the processor.
    pub chip_flag: &'static str,
    /// The processor if none is named: the one of this machine; `None` leaves it to the compiler.
    pub own_chip: Option<&'static str>,
    /// Processors that the compiler knows, if it needs one: then there is no default.
    pub chips: &'static [&'static str],
}
