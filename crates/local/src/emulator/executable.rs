use std::sync::Arc;
use std::time::Instant;

use rehal_base::{Context, Error, Remedy, Result, StatusCode};
use rehal_crash::{Bytecode, CrashNote, Timed};
use rehal_formats::{CodeImage, Executable, ImageKind, read_cuda};
use rehal_hal::{ExecutableParams, FunctionInfo};
use rehal_simt::{Cause, Dispatch, Fault, Image, Launch, Limits, Module, Parameter, Region};
use smallvec::SmallVec;

use super::{Emulation, GRANULE_BYTES, findings};
use crate::executable::{DispatchArguments, Share, WorkgroupFailure};
use crate::place::Place;

/// Bindings begin at these addresses and at their offset in a buffer, so that they are aligned as that is,
/// and each access tells which binding it means.
const BINDING_STRIDE: u64 = 1 << 40;

/// An executable for GPUs, whose functions are interpreted.
pub(crate) struct EmulatedExecutable {
    functions: Box<[FunctionInfo]>,
    kernels: Box<[Kernel]>,
    images: Box<[Image]>,
    emulation: Emulation,
}

struct Kernel {
    /// Its index in `images`, and its own there.
    image: usize,
    function: usize,
    block: [u32; 3],
    dynamic_shared_bytes: u32,
}

impl EmulatedExecutable {
    /// Reads and verifies an executable for CUDA. Fails if it has no PTX, or none that can be interpreted.
    pub(crate) fn load(params: &ExecutableParams<'_>, emulation: Emulation) -> Result<Self> {
        let executable = read_cuda(params.data)?;
        let images = executable.images.iter().map(|image| load_image(params.data, image));
        let images: Box<[_]> = images.collect::<Result<_>>()?;
        let kernels = (0..executable.functions.len()).map(|index| {
            let kernel = Kernel::find(&executable, index, &images);
            kernel.context(|| format!("function '{}'", executable.functions[index].name.escape_debug()))
        });
        let kernels = kernels.collect::<Result<_>>()?;
        // Names of kernels in PTX have a '_' for each '.' of the names that programs look functions up by.
        let names: Vec<_> = executable.functions.iter().map(|it| it.export_name.clone()).collect();
        let mut functions = FunctionInfo::of_code(executable.functions)?;
        for (function, name) in functions.iter_mut().zip(names) {
            function.name = name.unwrap_or_else(|| std::mem::take(&mut function.name));
        }
        let functions = functions.into();
        Ok(Self { functions, kernels, images, emulation })
    }

    /// The functions, by ordinal.
    pub(crate) fn functions(&self) -> &[FunctionInfo] {
        &self.functions
    }

    /// Runs the workgroups of `share` on the calling thread. Stops at the first that fails.
    pub(crate) fn run_share(
        &self,
        ordinal: u32,
        arguments: &DispatchArguments<'_>,
        share: Share<'_>,
    ) -> Result<(), WorkgroupFailure> {
        let (Some(function), Some(kernel)) =
            (self.functions.get(ordinal as usize), self.kernels.get(ordinal as usize))
        else {
            let count = self.functions.len();
            let message = format!("function {ordinal} does not exist: the executable has {count}");
            return Err(Error::out_of_range(message).into());
        };
        if arguments.workgroup_count.contains(&0) {
            return Ok(());
        }
        let words = argument_bytes(function, kernel.parameters(&self.images), arguments)?;
        let regions = regions(arguments);
        let launch = Launch {
            function: kernel.function,
            grid: arguments.workgroup_count,
            block: kernel.block,
            dynamic_shared_bytes: kernel.dynamic_shared_bytes.saturating_add(arguments.dynamic_local_memory),
            arguments: &words,
            regions: &regions,
            checks: self.emulation.checks,
            budget: None,
        };
        let dispatch = Dispatch::new(&self.images[kernel.image], &launch)?;
        let what = ["emulating function '", &function.name, "'"];
        let _note = CrashNote::new(&what, "code is checked before it runs: report an error of this tool");
        let begun = Instant::now();
        let is_stopped = || self.emulation.timeout.is_some_and(|limit| begun.elapsed() > limit);
        let (mut blocks, mut begun_block) = (0..0, None);
        // One at a time: each is progress to the process that watches this one.
        let mut next = || {
            begun_block.take();
            if blocks.is_empty() {
                blocks = (share.next)()?;
            }
            begun_block = Some((Timed::begin(), Bytecode::change()));
            let block = blocks.next()?;
            Some(block..block + 1)
        };
        let ended = dispatch.run(&mut next, &is_stopped);
        drop(begun_block);
        let report = dispatch.report();
        let error = report.findings.iter().find(|it| self.emulation.fails && !it.kind.is_note());
        if let Some(found) = error {
            return Err(findings::error(found).into());
        }
        findings::add(rehal_crash::record(), report.findings, report.dropped_findings);
        ended.map_err(|fault| self.failure(fault, arguments.workgroup_count))
    }

    fn failure(&self, fault: Fault, count: [u32; 3]) -> WorkgroupFailure {
        let ([x, y, z], [across, down, _]) = (fault.block.map(u64::from), count.map(u64::from));
        let workgroup = x + across * (y + down * z);
        let error = match (&fault.cause, self.emulation.timeout) {
            (Cause::Stopped, Some(limit)) => {
                let limit = limit.as_secs_f64();
                Error::new(StatusCode::DeadlineExceeded, format!("it ran for more than {limit} s: {fault}"))
                    .advise(Remedy::SetOption {
                        name: "device_timeout".into(),
                        value: "TIME, or 0 for any".into(),
                    })
            }
            _ => fault.into(),
        };
        WorkgroupFailure { workgroup, error }
    }
}

impl Kernel {
    fn find(executable: &Executable, index: usize, images: &[Image]) -> Result<Self> {
        let function = &executable.functions[index];
        let image = images.get(function.image);
        let image = image.ok_or_else(|| Error::data_loss("its module does not exist"))?;
        let kernel = image.function(&function.name)?;
        let own = &image.module().functions()[kernel];
        let block = function.workgroup_size.or(own.required_block).or(own.max_block);
        let block = block.ok_or_else(|| {
            Error::incompatible("its workgroup size is unknown")
                .advise("state it in the PTX, with .reqntid X, Y, Z")
        })?;
        Ok(Self {
            image: function.image,
            function: kernel,
            block,
            dynamic_shared_bytes: function.dynamic_memory_bytes.unwrap_or(0),
        })
    }

    fn parameters<'i>(&self, images: &'i [Image]) -> &'i [Parameter] {
        &images[self.image].module().functions()[self.function].parameters
    }
}

/// Fails if PTX in an executable for CUDA cannot be interpreted. Machine code is not checked.
pub fn check_code(bytes: &[u8]) -> Result<()> {
    let images = read_cuda(bytes)?.images;
    images.iter().filter(|it| it.kind == ImageKind::Ptx).try_for_each(|it| load_image(bytes, it).map(drop))
}

fn load_image(data: &[u8], image: &CodeImage) -> Result<Image> {
    let bytes = data.get(image.bytes.clone()).unwrap_or_default();
    if image.kind != ImageKind::Ptx {
        let kind = image.kind.name();
        let target = image.target.as_deref().unwrap_or("one GPU");
        return Err(Error::incompatible(format!(
            "a {kind} is machine code for {target}, which cannot be emulated"
        ))
        .advise("replace it by PTX (.ptx), or record a program whose executables have PTX"));
    }
    let module = Module::parse_ptx(bytes, &Limits::default()).map_err(|error| {
        Error::from(error).advise("write it in another way, and replace the executable by it (.ptx)")
    })?;
    Image::load(Arc::new(module))
}

/// The arguments of the kernel: the address of each binding, then the constants.
fn argument_bytes(
    function: &FunctionInfo,
    parameters: &[Parameter],
    arguments: &DispatchArguments<'_>,
) -> Result<Vec<u8>> {
    let end = parameters.iter().map(|it| it.offset + it.bytes).max().unwrap_or(0);
    let mut bytes = vec![0; end as usize];
    let mut constants = arguments.constants.iter();
    let unlike = || {
        let (bindings, constants) = (arguments.bindings.len(), arguments.constants.len());
        let name = function.name.escape_debug();
        Error::invalid_argument(format!(
            "function '{name}' has {} parameters of {end} bytes together: they do not fit {bindings} bindings and {constants} constants",
            parameters.len()
        ))
    };
    if parameters.len() < arguments.bindings.len() {
        return Err(unlike());
    }
    for (index, parameter) in parameters.iter().enumerate() {
        let place = parameter.offset as usize..(parameter.offset + parameter.bytes) as usize;
        match arguments.bindings.get(index) {
            Some(place_of) if parameter.bytes == 8 => {
                bytes[place].copy_from_slice(&address(index, place_of.offset()).to_le_bytes());
            }
            Some(_) => return Err(unlike()),
            None => {
                let words = bytes[place].chunks_mut(4);
                for word in words {
                    let constant = constants.next().ok_or_else(unlike)?.to_le_bytes();
                    word.copy_from_slice(constant.get(..word.len()).unwrap_or_default());
                }
            }
        }
    }
    if constants.next().is_some() { Err(unlike()) } else { Ok(bytes) }
}

/// The address of a binding at an offset of its buffer.
fn address(index: usize, offset: u64) -> u64 {
    (index as u64 + 1) * BINDING_STRIDE + offset
}

fn regions<'a>(arguments: &DispatchArguments<'a>) -> SmallVec<[Region<'a>; 8]> {
    let of = |(index, place): (usize, &Place<'a>)| {
        let end = place.offset() + place.length();
        Region {
            address: address(index, place.offset()),
            length: place.length(),
            // Also within a buffer: the compiler reads whole vectors, of which it uses a part.
            slack: end.next_multiple_of(GRANULE_BYTES) - end,
            memory: place.memory(),
            offset: place.offset(),
            // Executables say so of some bindings, and nothing holds a kernel to that.
            is_writable: true,
        }
    };
    arguments.bindings.iter().enumerate().map(of).collect()
}
