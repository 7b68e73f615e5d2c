use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use rehal_base::{Error, Result};

use crate::engine::{Block, BlockMemory, BlockPlace, InstructionSet, Regions, Shadow, Shared};
use crate::fault::{Cause, Fault, WarpAt};
use crate::finding::{Finding, Found, FoundList};
use crate::function::Function;
use crate::limits::{MAX_BLOCK_THREADS, MAX_SHARED_BYTES, VARIABLES_ADDRESS};
use crate::module::Image;
use crate::ptx::Program;
use crate::region::{Checks, Region};

/// Limits on the blocks of a grid, and on the threads of a block, by dimension.
const MAX_GRID: [u32; 3] = [i32::MAX as u32, 65_535, 65_535];
const MAX_BLOCK: [u32; 3] = [1024, 1024, 64];
/// Limit on the memory of the threads of a block together, in bytes.
const MAX_LOCAL_BYTES: u64 = 512 << 20;

/// A kernel with its grid, arguments and memory.
#[derive(Clone, Copy)]
pub struct Launch<'a> {
    /// The index of the kernel in [`Module::functions`](crate::Module::functions).
    pub function: usize,
    /// Blocks in x, y and z.
    pub grid: [u32; 3],
    /// Threads of a block in x, y and z.
    pub block: [u32; 3],
    /// Bytes of memory of a block in addition to those that the kernel declares.
    pub dynamic_shared_bytes: u32,
    /// The arguments, in the layout of the kernel's parameters.
    pub arguments: &'a [u8],
    /// The memory that it may access.
    pub regions: &'a [Region<'a>],
    /// Optional checks.
    pub checks: Checks,
    /// Limit on thread instructions, approximate.
    pub budget: Option<u64>,
}

/// The outcome of a launch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Instructions of the text, counted for each thread that executed them.
    pub thread_instructions: u64,
    /// The findings of the checks, by line.
    pub findings: Vec<Finding>,
    /// Errors beyond those that are kept.
    pub dropped_findings: u64,
}

/// A launch that was checked. Any number of threads run its blocks.
pub struct Dispatch<'a> {
    code: &'a Program,
    text: &'a str,
    function: &'a Function,
    place: BlockPlace,
    shared: Shared<'a>,
    has_failed: AtomicBool,
    found: Mutex<FoundList>,
    instructions: AtomicU64,
}

impl<'a> Dispatch<'a> {
    /// Checks a launch. Fails if the kernel cannot be launched so.
    pub fn new(image: &'a Image, launch: &Launch<'a>) -> Result<Self> {
        let code = &image.module.code;
        let (Some(function), Some(program)) =
            (code.functions.get(launch.function), code.programs.get(launch.function))
        else {
            return Err(Error::out_of_range(format!(
                "function {} does not exist: the module has {}",
                launch.function,
                code.functions.len()
            )));
        };
        check(function, launch).map_err(|it| it.context(format!("function '{}'", function.name)))?;
        let variables = image.variables();
        let variables = Region {
            address: VARIABLES_ADDRESS,
            length: variables.length(),
            slack: 0,
            memory: variables,
            offset: 0,
            is_writable: true,
        };
        let regions = Regions::new(launch.regions, Some(variables))?;
        let Checks { races, shadow_bytes, .. } = launch.checks;
        let shadow = races.then(|| Shadow::new(regions.shadow_bytes, true, shadow_bytes));
        let shared = Shared {
            regions,
            arguments: launch.arguments,
            checks: launch.checks,
            budget: launch.budget.unwrap_or(u64::MAX),
            spent: AtomicU64::new(0),
            shadow,
        };
        let place = BlockPlace {
            block: [0; 3],
            grid: launch.grid,
            size: launch.block,
            dynamic_shared_bytes: launch.dynamic_shared_bytes,
        };
        Ok(Self {
            code: program,
            text: &code.text,
            function,
            place,
            shared,
            has_failed: AtomicBool::new(false),
            found: Mutex::default(),
            instructions: AtomicU64::new(0),
        })
    }

    /// The number of blocks.
    pub fn blocks(&self) -> u64 {
        self.place.grid.iter().map(|it| u64::from(*it)).product()
    }

    /// Runs the blocks that `share` hands out, as ranges of their indices: x counts fastest. Other threads
    /// may run other blocks at the same time; each block belongs into one range. `is_stopped` is asked at
    /// least every few milliseconds, and ends the launch with a fault. Returns the fault of a block; blocks
    /// that other threads run end early then, without a fault.
    pub fn run(
        &self,
        share: &mut dyn FnMut() -> Option<Range<u64>>,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<(), Fault> {
        let Some(first) = share() else { return Ok(()) };
        let threads = self.place.size.iter().product();
        let block_bytes = self.function.shared_bytes + self.place.dynamic_shared_bytes;
        let lanes = <Program as InstructionSet>::LANES;
        let mut memory =
            BlockMemory::new(&self.shared, lanes, threads, block_bytes, self.function.local_bytes);
        let mut block = Block::new(self.code, threads);
        let mut counted = 0;
        let mut go_on = |memory: &BlockMemory<'_>| {
            let more = memory.instructions - std::mem::replace(&mut counted, memory.instructions);
            let spent = self.shared.spent.fetch_add(more, Ordering::Relaxed) + more;
            if spent >= self.shared.budget {
                Err(Cause::Budget)
            } else if self.shared.shadow.as_ref().is_some_and(Shadow::is_full) {
                Err(Cause::ShadowMemory)
            } else if is_stopped() || self.has_failed.load(Ordering::Relaxed) {
                Err(Cause::Stopped)
            } else {
                Ok(())
            }
        };
        let mut outcome = Ok(());
        let mut next = Some(first);
        'shares: while let Some(range) = next {
            for index in range {
                if self.has_failed.load(Ordering::Relaxed) {
                    break 'shares;
                }
                let place = self.place_of(index);
                memory.start(index);
                let ended = block.run(self.code, &place, &mut memory, &mut go_on);
                // A short block is asked about, too: a grid has up to 2^63 of them.
                if let Err(cause) = ended.and_then(|()| go_on(&memory)) {
                    if !self.has_failed.swap(true, Ordering::Relaxed) {
                        outcome = Err(self.fault(cause, &place, block.places(self.code)));
                    }
                    break 'shares;
                }
            }
            next = share();
        }
        self.instructions.fetch_add(memory.instructions, Ordering::Relaxed);
        let mut all = self.found.lock();
        all.dropped += memory.found.dropped;
        memory.found.all.into_iter().for_each(|it| all.add(it));
        outcome
    }

    /// The outcome of the launch, after all threads returned from [`Dispatch::run`].
    pub fn report(self) -> Report {
        let found = std::mem::take(&mut *self.found.lock());
        let mut all = found.all;
        all.sort_by_key(|it| (it.at, it.kind, it.target));
        let findings = all.iter().map(|it| self.finding(it)).collect();
        let thread_instructions = self.instructions.load(Ordering::Relaxed);
        Report { thread_instructions, findings, dropped_findings: found.dropped }
    }

    fn place_of(&self, index: u64) -> BlockPlace {
        let [x, y, _] = self.place.grid.map(u64::from);
        let block = [(index % x) as u32, (index / x % y) as u32, (index / x / y) as u32];
        BlockPlace { block, ..self.place }
    }

    fn finding(&self, found: &Found) -> Finding {
        let [x, y, _] = self.place.size;
        let thread = found.thread;
        let (line, instruction) = self.statement(found.at);
        Finding {
            kind: found.kind,
            function: self.function.name.clone(),
            line,
            instruction,
            target: found.target,
            offset: found.offset,
            bytes: found.bytes,
            block: self.place_of(found.block).block,
            thread: [thread % x, thread / x % y, thread / x / y],
            count: found.count,
        }
    }

    /// The line and the text of the instruction at an offset.
    fn statement(&self, at: u32) -> (usize, String) {
        (crate::ptx::line_at(self.text, at as usize), crate::ptx::statement_at(self.text, at as usize))
    }

    fn fault(&self, cause: Cause, place: &BlockPlace, warps: Vec<WarpAt>) -> Fault {
        let shown = |it: WarpAt| {
            let (line, text) = self.statement(it.at);
            (it, line, text)
        };
        let function = self.function.name.clone();
        Fault { cause, function, block: place.block, warps: warps.into_iter().map(shown).collect() }
    }
}

fn check(function: &Function, launch: &Launch<'_>) -> Result<()> {
    let ([x, y, z], [columns, rows, layers]) = (launch.block, launch.grid);
    let invalid = |what: String| Err(Error::invalid_argument(what));
    let product = |sizes: [u32; 3]| sizes.iter().fold(1_u32, |all, it| all.saturating_mul(*it));
    let threads = product(launch.block);
    let is_within =
        |sizes: [u32; 3], limits: [u32; 3]| (0..3).all(|it| (1..=limits[it]).contains(&sizes[it]));
    if !is_within(launch.block, MAX_BLOCK) || threads > MAX_BLOCK_THREADS {
        let limit = format!("at most {MAX_BLOCK_THREADS}, and none is 0");
        return invalid(format!("a block of {x}x{y}x{z} threads: {limit}"));
    }
    if !is_within(launch.grid, MAX_GRID) {
        let limit = "at most 2147483647x65535x65535, and none is 0";
        return invalid(format!("a grid of {columns}x{rows}x{layers} blocks: {limit}"));
    }
    if let Some(required) = function.required_block.filter(|it| *it != launch.block) {
        return invalid(format!("blocks of {x}x{y}x{z} threads: the kernel requires {required:?}"));
    }
    if let Some(max) = function.max_block.map(product).filter(|it| threads > *it) {
        return invalid(format!("a block of {threads} threads: the kernel allows {max}"));
    }
    if launch.arguments.len() != function.argument_bytes as usize {
        let (found, expected) = (launch.arguments.len(), function.argument_bytes);
        return invalid(format!("{found} bytes of arguments: the kernel has {expected}"));
    }
    let shared = u64::from(function.shared_bytes) + u64::from(launch.dynamic_shared_bytes);
    if shared > MAX_SHARED_BYTES.into() {
        let what = format!("{shared} bytes of shared memory: at most {MAX_SHARED_BYTES}");
        return Err(Error::resource_exhausted(what));
    }
    if u64::from(function.local_bytes) * u64::from(threads) > MAX_LOCAL_BYTES {
        let what = format!("{threads} threads with {} bytes of local memory each", function.local_bytes);
        return Err(Error::resource_exhausted(what));
    }
    Ok(())
}
