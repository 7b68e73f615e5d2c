//! The formats of GPUs, which describe themselves also if no driver of a build runs them.

use rehal_base::{Error, FileKind, FormatError, Result};
use rehal_formats::{CodeImage, Executable, Function, read_amdgpu, read_cuda, read_hip, vulkan, with_image};

use crate::{ExecutableFormat, FunctionInfo, WrittenBindings};

/// Executables for Vulkan.
pub const VULKAN: ExecutableFormat = ExecutableFormat {
    description: "SPIR-V",
    files: &[FileKind::VulkanExecutable, FileKind::SpirV],
    functions: |format, bytes| FunctionInfo::of_code(vulkan::Image::read(format, bytes)?.functions()),
    written_bindings: Some(vulkan::written_bindings),
    binds_addresses: Some(vulkan::binds_addresses),
    with_image: |own, image, _| vulkan::with_spirv(own, image),
    extensions: &["spv", "vk1"],
    ..ExecutableFormat::of_gpu("vulkan-")
};

/// Executables for CUDA.
pub const CUDA: ExecutableFormat = ExecutableFormat {
    description: "code for NVIDIA GPUs",
    functions: |_, bytes| FunctionInfo::of_code(read_cuda(bytes)?.functions),
    written_bindings: Some(|_, bytes| written(read_cuda(bytes))),
    binds_addresses: Some(|_, bytes| all(read_cuda(bytes))),
    target: |_, bytes| read_cuda(bytes).ok()?.target,
    images: |_, bytes| images(read_cuda(bytes)),
    with_image,
    replaces_functions: true,
    files: &[FileKind::CudaExecutable, FileKind::Ptx, FileKind::Cubin, FileKind::Fatbin],
    extensions: &["ptx", "cubin", "fatbin"],
    ..ExecutableFormat::of_gpu("cuda-")
};

/// Executables for HIP.
pub const HIP: ExecutableFormat = ExecutableFormat {
    description: "code for AMD GPUs",
    functions: |_, bytes| FunctionInfo::of_code(read_hip(bytes)?.functions),
    written_bindings: Some(|_, bytes| written(read_hip(bytes))),
    binds_addresses: Some(|_, bytes| all(read_hip(bytes))),
    target: |_, bytes| read_hip(bytes).ok()?.target,
    images: |_, bytes| images(read_hip(bytes)),
    with_image,
    replaces_functions: true,
    files: &[FileKind::HipExecutable, FileKind::Hsaco],
    extensions: &["hsaco"],
    ..ExecutableFormat::of_gpu("rocm-")
};

/// Executables for the driver amdgpu, whose names are those of processors.
pub const AMDGPU: ExecutableFormat = ExecutableFormat {
    functions: |_, bytes| FunctionInfo::of_code(read_amdgpu(bytes)?.functions),
    written_bindings: Some(|_, bytes| written(read_amdgpu(bytes))),
    binds_addresses: Some(|_, bytes| all(read_amdgpu(bytes))),
    target: |name, bytes| read_amdgpu(bytes).map_or_else(|_| Some(name.into()), |it| it.target),
    images: |_, bytes| images(read_amdgpu(bytes)),
    replaces_functions: false,
    files: &[FileKind::AmdgpuExecutable, FileKind::Hsaco],
    prefix: "gfx",
    ..HIP
};

impl ExecutableFormat {
    /// A format of GPUs whose code cannot be read.
    #[doc(hidden)]
    pub const fn of_gpu(prefix: &'static str) -> Self {
        Self {
            prefix,
            description: "code for GPUs",
            files: &[],
            is_host_code: false,
            states_workgroup_sizes: true,
            functions: |format, _| {
                Err(Error::unimplemented(format!("code of the format '{format}' cannot be read")))
            },
            written_bindings: None,
            binds_addresses: None,
            target: |_, _| None,
            images: |_, _| Vec::new(),
            with_image: |_, _, _| None,
            replaces_functions: false,
            check_emulated: None,
            extensions: &[],
            is_same_code: None,
        }
    }
}

fn images(executable: Result<Executable, FormatError>) -> Vec<CodeImage> {
    executable.map_or_else(|_| Vec::new(), |it| it.images)
}

/// The bindings that functions do not only read, as their executable says.
fn written(executable: Result<Executable, FormatError>) -> WrittenBindings {
    let functions = executable.map_or_else(|_| Vec::new(), |it| it.functions);
    let of = |it: &Function| Some(it.bindings.as_ref()?.iter().map(|it| !it.is_read_only).collect());
    functions.iter().map(of).collect()
}

/// Kernels get the addresses of all bindings.
fn all(executable: Result<Executable, FormatError>) -> Vec<bool> {
    executable.map_or_else(|_| Vec::new(), |it| vec![true; it.functions.len()])
}
