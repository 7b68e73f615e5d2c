//! Launches on memory of the test.

#![allow(dead_code, reason = "each test uses a part")]

pub mod apply;

use std::sync::Arc;

use rehal_base::HostMemory;
use rehal_simt::{Checks, Dispatch, Fault, Image, Launch, Limits, Module, Region, Report};

/// A launch whose bindings are the buffers, in order, and whose constants follow them.
#[derive(Clone)]
pub struct Run {
    pub kernel: usize,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub dynamic_shared_bytes: u32,
    pub buffers: Vec<Vec<u8>>,
    pub constants: Vec<u32>,
    pub checks: Checks,
    pub budget: Option<u64>,
    pub threads: usize,
}

impl Default for Run {
    fn default() -> Self {
        Self {
            kernel: 0,
            grid: [1; 3],
            block: [32, 1, 1],
            dynamic_shared_bytes: 0,
            buffers: Vec::new(),
            constants: Vec::new(),
            checks: Checks::default(),
            budget: Some(100_000_000),
            threads: 1,
        }
    }
}

/// The buffers afterwards, and what the launch did.
#[derive(Debug)]
pub struct Done {
    pub buffers: Vec<Vec<u8>>,
    pub report: Report,
}

impl Run {
    pub fn on(&self, text: &str) -> Result<Done, Fault> {
        let module =
            Module::parse_ptx(text.as_bytes(), &Limits::default()).unwrap_or_else(|it| panic!("{it}"));
        self.on_image(&Image::load(Arc::new(module)).unwrap())
    }

    pub fn on_image(&self, image: &Image) -> Result<Done, Fault> {
        let memories: Vec<_> = self.buffers.iter().map(|it| memory(it)).collect();
        let address = |index: usize| (index as u64 + 1) << 36;
        let region = |(index, memory): (usize, &'_ HostMemory)| (address(index), memory.length());
        let regions: Vec<_> = memories
            .iter()
            .enumerate()
            .map(|(index, memory)| Region {
                address: region((index, memory)).0,
                length: memory.length(),
                slack: 0,
                memory,
                offset: 0,
                is_writable: true,
            })
            .collect();
        let mut arguments: Vec<u8> = (0..memories.len()).flat_map(|it| address(it).to_le_bytes()).collect();
        arguments.extend(self.constants.iter().flat_map(|it| it.to_le_bytes()));
        let launch = Launch {
            function: self.kernel,
            grid: self.grid,
            block: self.block,
            dynamic_shared_bytes: self.dynamic_shared_bytes,
            arguments: &arguments,
            regions: &regions,
            checks: self.checks,
            budget: self.budget,
        };
        let dispatch = Dispatch::new(image, &launch).unwrap_or_else(|it| panic!("{}", it.report()));
        let next = std::sync::atomic::AtomicU64::new(0);
        let share = || {
            let index = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            (index < dispatch.blocks()).then_some(index..index + 1)
        };
        std::thread::scope(|scope| {
            let run = || dispatch.run(&mut || share(), &|| false);
            let others: Vec<_> = (1..self.threads).map(|_| scope.spawn(run)).collect();
            let outcome = run();
            others.into_iter().map(|it| it.join().unwrap()).fold(outcome, |all, it| all.and(it))
        })?;
        let bytes = |memory: &HostMemory| memory.bytes(memory.whole()).unwrap().into_owned();
        Ok(Done { buffers: memories.iter().map(bytes).collect(), report: dispatch.report() })
    }
}

fn memory(bytes: &[u8]) -> HostMemory {
    let memory = HostMemory::allocate_aligned(bytes.len() as u64, 256).unwrap();
    memory.write(0, bytes).unwrap();
    memory
}

pub fn f32s(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|it| f32::from_le_bytes(it.try_into().unwrap())).collect()
}

pub fn of_f32s(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|it| it.to_le_bytes()).collect()
}
