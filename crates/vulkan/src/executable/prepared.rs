#![allow(unsafe_code, reason = "calls the Vulkan driver")]

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ffi::CString;
use std::ops::RangeInclusive;
use std::sync::Arc;

use ash::vk;
use rehal_base::{Context, Error, Result, StatusCode};
use rehal_crash::CrashNote;
use rehal_formats::vulkan::{
    DescriptorKind, DescriptorSlot, Dispatch, DispatchAbi, Image, PipelineLayout, ShaderSupport,
    SubgroupSizes, VulkanFormat,
};
use rehal_hal::{Executable, ExecutableBackend, ExecutableParams, FunctionInfo};

use super::pipeline::{Addresses, Layout, Pipeline, Slot, Slots};
use super::validator;
use crate::error::failure;
use crate::gpu::Gpu;
use crate::{DispatchAbis, VulkanOptions};

/// An executable that is prepared for a device: its pipelines.
pub(crate) struct VulkanExecutable {
    functions: Vec<FunctionInfo>,
    pipelines: Vec<Pipeline>,
    /// Owns what the pipelines are made of.
    parts: Parts,
}

/// The objects of Vulkan; dropping them destroys them. Modules and set layouts are those that pipelines use,
/// by ordinal.
struct Parts {
    gpu: Arc<Gpu>,
    modules: BTreeMap<usize, vk::ShaderModule>,
    set_layouts: BTreeMap<usize, vk::DescriptorSetLayout>,
    layouts: Vec<vk::PipelineLayout>,
    pipelines: Vec<vk::Pipeline>,
}

/// Advice if a driver crashes while it compiles a kernel.
const AFTER_A_CRASH: &str = "the kernel is not valid SPIR-V, or the driver has an error: check the module with spirv-val, and \
                             compile it again or update the driver";

/// Advice if a driver does not compile a kernel.
const AFTER_A_REFUSAL: &str = "the driver does not accept the kernel, and need not say why: check the module with spirv-val, and \
                               compile it again or update the driver";

/// The activity of a driver while it makes a pipeline, for the report of a crash.
fn compiling(gpu: &Gpu, label: &str, function: &str) -> String {
    let of = if label.is_empty() { String::new() } else { format!(" of {label}") };
    format!("the driver of '{}' compiled function '{function}'{of}", gpu.physical().name())
}

/// The error of a call that gives the driver a kernel, with what to do unless the kernel is not the cause.
fn refusal(what: &str, result: vk::Result) -> Error {
    let error = failure(what, result);
    match result {
        vk::Result::ERROR_OUT_OF_HOST_MEMORY
        | vk::Result::ERROR_OUT_OF_DEVICE_MEMORY
        | vk::Result::ERROR_DEVICE_LOST => error,
        _ => error.advise(AFTER_A_REFUSAL),
    }
}

/// Whether a device prepares executables of this format.
pub(crate) fn is_supported(gpu: &Gpu, abis: DispatchAbis, format: &str) -> bool {
    let Ok(format) = VulkanFormat::from_name(format) else { return false };
    let is_enabled = match format.dispatch_abi() {
        DispatchAbi::Descriptors => abis != DispatchAbis::BufferDeviceAddress,
        DispatchAbi::Addresses => abis != DispatchAbis::Descriptor,
    };
    is_enabled && (gpu.has_addresses() || !format.needs_addresses())
}

impl VulkanExecutable {
    /// Prepares an executable. Fails, naming what is missing, if the device cannot run it.
    pub(crate) fn prepare(
        gpu: &Arc<Gpu>,
        options: &VulkanOptions,
        params: &ExecutableParams<'_>,
    ) -> Result<Self> {
        let image = Image::read(params.format, params.data)?;
        if !is_supported(gpu, options.dispatch_abis, params.format) {
            image.check_device(&**gpu)?;
            return Err(Error::not_found(format!(
                "the device does not prepare executables of format '{}', by its options",
                params.format
            )));
        }
        image.check_device(&**gpu)?;
        image.check_constants(params.constants)?;
        if options.validates_spirv {
            validator::validate(&image)?;
        }
        Self::from_image(gpu, &image, params.label, params.constants)
    }

    /// Prepares an executable whose shaders the device supports.
    fn from_image(gpu: &Arc<Gpu>, image: &Image, label: &str, constants: &[u32]) -> Result<Self> {
        check_limits(gpu, image, constants)?;
        let mut parts = Parts::new(gpu);
        // Files may have more, which no limit was checked for, and which drivers do not check.
        let used: BTreeSet<_> = image.pipelines.iter().map(|pipeline| pipeline.layout).collect();
        let is_pushed = pushes_descriptors(gpu, image, &used);
        parts.create_modules(image)?;
        parts.create_set_layouts(image, &used, is_pushed)?;
        let layouts = parts.create_layouts(image, &used, is_pushed)?;
        let mut pipelines = Vec::new();
        for pipeline in &image.pipelines {
            let place = || format!("function '{}'", pipeline.entry_point);
            let _note = CrashNote::new(&[&compiling(gpu, label, &pipeline.entry_point)], AFTER_A_CRASH);
            let made = parts.create_pipeline(image, pipeline, &layouts[&pipeline.layout], constants);
            pipelines.push(made.context(place)?);
        }
        parts.destroy_modules();
        Ok(Self { functions: FunctionInfo::of_code(image.functions())?, pipelines, parts })
    }

    /// The executable, if it was prepared for this device. Fails otherwise.
    pub(crate) fn of<'e>(executable: &'e Executable, gpu: &Gpu) -> Result<&'e Self> {
        match (executable.backend() as &dyn Any).downcast_ref::<Self>() {
            Some(mine) if std::ptr::eq(Arc::as_ptr(&mine.parts.gpu), gpu) => Ok(mine),
            _ => Err(Error::invalid_argument("the executable was prepared for another device")),
        }
    }

    /// A pipeline, by the function's ordinal.
    pub(crate) fn pipeline(&self, function: u32) -> Result<&Pipeline> {
        self.pipelines.get(function as usize).ok_or_else(|| {
            Error::out_of_range(format!(
                "function {function} does not exist: there are {}",
                self.pipelines.len()
            ))
        })
    }
}

impl ExecutableBackend for VulkanExecutable {
    fn name(&self) -> &str {
        ""
    }

    fn functions(&self) -> &[FunctionInfo] {
        &self.functions
    }

    fn lookup(&self, name: &str) -> Option<u32> {
        FunctionInfo::find(&self.functions, name)
    }
}

fn exceeds(limit: &str, most: &dyn std::fmt::Debug, found: String) -> Result<()> {
    let message = format!("it needs {found}; {limit} of the device is {most:?}");
    Err(Error::new(StatusCode::Unavailable, message))
}

/// Fails if a limit of the device does not allow a pipeline layout.
fn check_layout(limits: &vk::PhysicalDeviceLimits, image: &Image, layout: usize) -> Result<()> {
    let layout = &image.pipeline_layouts[layout];
    let bytes = layout.push_constant_bytes();
    if bytes > limits.max_push_constants_size.into() {
        let found = format!("{bytes} bytes of push constants");
        exceeds("maxPushConstantsSize", &limits.max_push_constants_size, found)?;
    }
    if layout.sets.len() > limits.max_bound_descriptor_sets as usize {
        let found = format!("{} descriptor sets", layout.sets.len());
        exceeds("maxBoundDescriptorSets", &limits.max_bound_descriptor_sets, found)?;
    }
    let bindings = || layout.sets.iter().flat_map(|set| &image.set_layouts[*set].bindings);
    let count = |kind| bindings().filter(|it| it.kind == kind).map(|it| u64::from(it.count)).sum::<u64>();
    let kinds = [
        (
            DescriptorKind::StorageBuffer,
            "maxPerStageDescriptorStorageBuffers",
            limits.max_per_stage_descriptor_storage_buffers,
        ),
        (
            DescriptorKind::StorageBuffer,
            "maxDescriptorSetStorageBuffers",
            limits.max_descriptor_set_storage_buffers,
        ),
        (
            DescriptorKind::UniformBuffer,
            "maxPerStageDescriptorUniformBuffers",
            limits.max_per_stage_descriptor_uniform_buffers,
        ),
        (
            DescriptorKind::UniformBuffer,
            "maxDescriptorSetUniformBuffers",
            limits.max_descriptor_set_uniform_buffers,
        ),
    ];
    for (kind, limit, most) in kinds {
        if count(kind) > most.into() {
            let found = format!("{} descriptors of kind {kind:?}", count(kind));
            exceeds(limit, &most, found)?;
        }
    }
    let total = count(DescriptorKind::StorageBuffer) + count(DescriptorKind::UniformBuffer);
    if total > limits.max_per_stage_resources.into() {
        exceeds("maxPerStageResources", &limits.max_per_stage_resources, format!("{total} descriptors"))?;
    }
    Ok(())
}

/// Fails if a limit of the device does not allow a pipeline.
fn check_limits(gpu: &Gpu, image: &Image, constants: &[u32]) -> Result<()> {
    let limits = gpu.limits();
    let (mut layouts, mut entries) = (HashSet::new(), HashSet::new());
    for pipeline in &image.pipelines {
        let place = || format!("function '{}'", pipeline.entry_point);
        if layouts.insert(pipeline.layout) {
            check_layout(limits, image, pipeline.layout).context(place)?;
        }
        let Some(entry) = image.entry_point(pipeline) else { continue };
        let size = entry.workgroup_size.value(constants);
        if let Some(id) = entry.workgroup_size.zeroed_by(constants) {
            let message = format!("specialization constant {id}, a workgroup size, is 0");
            return Err(Error::invalid_argument(message)).context(place);
        }
        let most = limits.max_compute_work_group_size;
        if size.iter().zip(most).any(|(size, most)| *size > most) {
            exceeds("maxComputeWorkGroupSize", &most, format!("workgroups of {size:?}")).context(place)?;
        }
        let total: u64 = size.iter().map(|size| u64::from((*size).max(1))).product();
        if total > limits.max_compute_work_group_invocations.into() {
            let most = limits.max_compute_work_group_invocations;
            let found = format!("workgroups of {total} invocations");
            exceeds("maxComputeWorkGroupInvocations", &most, found).context(place)?;
        }
        let most = gpu.physical().subgroup.max_per_workgroup;
        if let Some(size) = pipeline.subgroup_size
            && total > u64::from(size) * u64::from(most)
        {
            let found = format!("workgroups of {} subgroups", total.div_ceil(size.into()));
            exceeds("maxComputeWorkgroupSubgroups", &most, found).context(place)?;
        }
        // Several functions may have the same entry point.
        if entries.insert(std::ptr::from_ref(entry)) {
            let (shared, most) =
                (entry.shared_memory.total(constants), limits.max_compute_shared_memory_size);
            if shared > most.into() {
                let found = format!("{shared} bytes of shared memory");
                exceeds("maxComputeSharedMemorySize", &most, found).context(place)?;
            }
        }
    }
    Ok(())
}

/// The subgroup size that a pipeline requires: that of the executable, or one that its code works with. If
/// the device has none of those, also what the code works with.
fn subgroup_size(
    gpu: &Gpu,
    image: &Image,
    pipeline: &rehal_formats::vulkan::Pipeline,
    constants: &[u32],
) -> (Option<u32>, Option<SubgroupSizes>) {
    let shader = image.shaders.get(pipeline.shader);
    let found = shader.and_then(|it| it.subgroup_sizes(&pipeline.entry_point, constants));
    let Some(sizes) = found.filter(|_| pipeline.subgroup_size.is_none()) else {
        return (pipeline.subgroup_size, None);
    };
    let subgroup = &gpu.physical().subgroup;
    let workgroup = image.entry_point(pipeline).map_or([1; 3], |it| it.workgroup_size.value(constants));
    let invocations: u64 = workgroup.iter().map(|size| u64::from((*size).max(1))).product();
    let least =
        u32::try_from(invocations.div_ceil(subgroup.max_per_workgroup.max(1).into())).unwrap_or(u32::MAX);
    match choose_size(&sizes, subgroup.size, gpu.subgroup_sizes(), least) {
        None if !sizes.contains(subgroup.size) => (None, Some(sizes)),
        required => (required, None),
    }
}

/// Of the `choices` of a device, whose own size is `own`, one that code for `sizes` works with and that is
/// not below `least`.
fn choose_size(
    sizes: &SubgroupSizes,
    own: u32,
    choices: Option<RangeInclusive<u32>>,
    least: u32,
) -> Option<u32> {
    let choices = choices.filter(|it| it.start() < it.end())?;
    // Its own first: what code gets if sizes do not vary.
    let all = std::iter::once(own).chain((0..32).map(|bit| 1 << bit));
    all.filter(|size| choices.contains(size) && *size >= least).find(|size| sizes.contains(*size))
}

/// Whether the descriptors of all pipelines are pushed: each has one set with descriptors at most, and not
/// too many.
fn pushes_descriptors(gpu: &Gpu, image: &Image, used: &BTreeSet<usize>) -> bool {
    gpu.push_descriptors().is_some()
        && used.iter().all(|layout| {
            let counts = image.pipeline_layouts[*layout]
                .sets
                .iter()
                .map(|set| image.set_layouts[*set].descriptor_count())
                .filter(|count| *count != 0);
            let counts: Vec<_> = counts.collect();
            counts.len() <= 1 && counts.iter().sum::<u64>() <= gpu.physical().max_push_descriptors.into()
        })
}

fn descriptor_type(kind: DescriptorKind) -> vk::DescriptorType {
    match kind {
        DescriptorKind::UniformBuffer => vk::DescriptorType::UNIFORM_BUFFER,
        DescriptorKind::StorageBuffer => vk::DescriptorType::STORAGE_BUFFER,
    }
}

/// The descriptors of a pipeline layout, in the order of the bindings of a dispatch.
fn slots(limits: &vk::PhysicalDeviceLimits, image: &Image, layout: &PipelineLayout) -> Vec<Slot> {
    let slot = |slot: DescriptorSlot| {
        let (alignment, largest) = match slot.kind {
            DescriptorKind::UniformBuffer => {
                (limits.min_uniform_buffer_offset_alignment, limits.max_uniform_buffer_range)
            }
            DescriptorKind::StorageBuffer => {
                (limits.min_storage_buffer_offset_alignment, limits.max_storage_buffer_range)
            }
        };
        Slot {
            set: slot.set,
            binding: slot.binding,
            element: slot.element,
            kind: descriptor_type(slot.kind),
            alignment: alignment.max(1),
            largest_range: largest.into(),
        }
    };
    let sets = (0..).zip(&layout.sets);
    sets.flat_map(|(set, ordinal)| image.set_layouts[*ordinal].slots(set)).map(slot).collect()
}

impl Parts {
    fn new(gpu: &Arc<Gpu>) -> Self {
        let (modules, set_layouts, layouts, pipelines) = Default::default();
        Self { gpu: gpu.clone(), modules, set_layouts, layouts, pipelines }
    }

    fn create_modules(&mut self, image: &Image) -> Result<()> {
        let used: BTreeSet<_> = image.pipelines.iter().map(|pipeline| pipeline.shader).collect();
        for ordinal in used {
            let info = vk::ShaderModuleCreateInfo::default().code(image.shaders[ordinal].words());
            // SAFETY: the caller of `prepare_executable` vouches for the code, whose structure the reader has
            // checked. The device has its features: those of shaders of pipelines were checked.
            let module = unsafe { self.gpu.functions().create_shader_module(&info, None) }
                .map_err(|error| refusal("creating a shader module", error))?;
            self.modules.insert(ordinal, module);
        }
        Ok(())
    }

    /// Creates the set layouts of the pipeline layouts `used`.
    fn create_set_layouts(&mut self, image: &Image, used: &BTreeSet<usize>, is_pushed: bool) -> Result<()> {
        let used: BTreeSet<_> = used.iter().flat_map(|it| &image.pipeline_layouts[*it].sets).collect();
        for ordinal in used {
            let layout = &image.set_layouts[*ordinal];
            let bindings: Vec<_> = layout
                .bindings
                .iter()
                .map(|binding| {
                    vk::DescriptorSetLayoutBinding::default()
                        .binding(binding.binding)
                        .descriptor_type(descriptor_type(binding.kind))
                        .descriptor_count(binding.count)
                        .stage_flags(vk::ShaderStageFlags::COMPUTE)
                })
                .collect();
            let flags = match is_pushed && layout.descriptor_count() != 0 {
                true => vk::DescriptorSetLayoutCreateFlags::PUSH_DESCRIPTOR_KHR,
                false => vk::DescriptorSetLayoutCreateFlags::empty(),
            };
            let info = vk::DescriptorSetLayoutCreateInfo::default().bindings(&bindings).flags(flags);
            let functions = self.gpu.functions();
            let mut support = vk::DescriptorSetLayoutSupport::default();
            // SAFETY: the bindings live until the call returns; the flag's extension is enabled if it is
            // used.
            unsafe { functions.get_descriptor_set_layout_support(&info, &mut support) };
            if support.supported == vk::FALSE {
                let found = format!("a set of {} descriptors", layout.descriptor_count());
                exceeds("maxPerSetDescriptors", &self.gpu.physical().max_per_set_descriptors, found)?;
            }
            // SAFETY: as above. The reader has limited the numbers of bindings, and `check_limits` the
            // descriptors.
            let layout = unsafe { functions.create_descriptor_set_layout(&info, None) }
                .map_err(|error| failure("creating a descriptor set layout", error))?;
            self.set_layouts.insert(*ordinal, layout);
        }
        Ok(())
    }

    /// Creates the pipeline layouts `used`; returns them by ordinal.
    fn create_layouts(
        &mut self,
        image: &Image,
        used: &BTreeSet<usize>,
        is_pushed: bool,
    ) -> Result<BTreeMap<usize, Arc<Layout>>> {
        let create = |ordinal: &usize| {
            let layout = &image.pipeline_layouts[*ordinal];
            let sets: Vec<_> = layout.sets.iter().map(|set| self.set_layouts[set]).collect();
            // One range has all: stages must not have several.
            let bytes = u32::try_from(layout.push_constant_bytes()).unwrap_or(u32::MAX);
            let ranges =
                [vk::PushConstantRange::default().stage_flags(vk::ShaderStageFlags::COMPUTE).size(bytes)];
            let ranges = if bytes == 0 { &ranges[..0] } else { &ranges[..] };
            let info =
                vk::PipelineLayoutCreateInfo::default().set_layouts(&sets).push_constant_ranges(ranges);
            // SAFETY: the lists live until the call returns; `check_limits` has checked them, since pipelines
            // use the layout.
            let handle = unsafe { self.gpu.functions().create_pipeline_layout(&info, None) }
                .map_err(|error| failure("creating a pipeline layout", error))?;
            self.layouts.push(handle);
            let pushed = layout.sets.iter().position(|set| image.set_layouts[*set].descriptor_count() != 0);
            let layout = Layout {
                handle,
                set_layouts: sets,
                pushed_set: pushed.filter(|_| is_pushed).map(|set| set as u32),
                slots: slots(self.gpu.limits(), image, layout),
            };
            Ok((*ordinal, Arc::new(layout)))
        };
        used.iter().map(create).collect()
    }

    fn create_pipeline(
        &mut self,
        image: &Image,
        pipeline: &rehal_formats::vulkan::Pipeline,
        layout: &Arc<Layout>,
        constants: &[u32],
    ) -> Result<Pipeline> {
        let name = CString::new(pipeline.entry_point.as_str())
            .map_err(|_| Error::invalid_argument("the name of an entry point has a zero byte"))?;
        let entries: Vec<_> = (0..constants.len() as u32)
            .map(|id| vk::SpecializationMapEntry { constant_id: id, offset: 4 * id, size: 4 })
            .collect();
        let data: Vec<u8> = constants.iter().flat_map(|constant| constant.to_ne_bytes()).collect();
        let specialization = vk::SpecializationInfo::default().map_entries(&entries).data(&data);
        let (required, mismatch) = subgroup_size(&self.gpu, image, pipeline, constants);
        let mut size = vk::PipelineShaderStageRequiredSubgroupSizeCreateInfo::default()
            .required_subgroup_size(required.unwrap_or(0));
        let mut stage = vk::PipelineShaderStageCreateInfo::default()
            .stage(vk::ShaderStageFlags::COMPUTE)
            .module(self.modules[&pipeline.shader])
            .name(&name);
        if !constants.is_empty() {
            stage = stage.specialization_info(&specialization);
        }
        if required.is_some() {
            stage = stage.push_next(&mut size);
        }
        let info = [vk::ComputePipelineCreateInfo::default().stage(stage).layout(layout.handle)];
        // SAFETY: the structures live until the call returns. The caller of `prepare_executable` vouches for
        // the code; the reader has checked that the entry point exists and that the layout has what it binds,
        // and the device has its features.
        let created =
            unsafe { self.gpu.functions().create_compute_pipelines(self.gpu.pipeline_cache(), &info, None) };
        let handles = match created {
            Ok(handles) => handles,
            Err((handles, error)) => {
                self.pipelines.extend(handles);
                return Err(refusal("compiling a pipeline", error));
            }
        };
        self.pipelines.extend(&handles);
        let handle = handles.first().copied().unwrap_or_default();
        Ok(Pipeline {
            handle,
            layout: layout.clone(),
            slots: match &pipeline.dispatch {
                Dispatch::Addresses(layout) => Slots::Addresses(Addresses(layout.clone())),
                Dispatch::Descriptors(_) => Slots::Descriptors,
            },
            workgroup_size: image
                .entry_point(pipeline)
                .map_or([1; 3], |entry| entry.workgroup_size.value(constants).map(|size| size.max(1))),
            name: pipeline.entry_point.clone(),
            mismatch,
        })
    }

    /// Shader modules are only needed to create pipelines.
    fn destroy_modules(&mut self) {
        for module in std::mem::take(&mut self.modules).into_values() {
            // SAFETY: it was created by this device and is destroyed once.
            unsafe { self.gpu.functions().destroy_shader_module(module, None) };
        }
    }
}

impl Drop for Parts {
    fn drop(&mut self) {
        if self.gpu.is_stuck() {
            return;
        }
        self.destroy_modules();
        let functions = self.gpu.functions();
        // SAFETY: work in flight owns the executables that it uses, so the device does not use them any more.
        unsafe {
            for pipeline in &self.pipelines {
                functions.destroy_pipeline(*pipeline, None);
            }
            for layout in &self.layouts {
                functions.destroy_pipeline_layout(*layout, None);
            }
            for layout in self.set_layouts.values() {
                functions.destroy_descriptor_set_layout(*layout, None);
            }
        }
    }
}

#[cfg(test)]
mod tests;
