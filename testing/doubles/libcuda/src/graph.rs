//! Graphs: work in the order in which it was added, which no dependency contradicts.
#![allow(unsafe_code, reason = "reads what callers point to")]

use std::ffi::{c_char, c_void};

use crate::interface::{Code, Handle, Out, Outcome, put};
use crate::state::{State, find, remove, with};
use crate::stream::{Place, Work};

/// `CUDA_KERNEL_NODE_PARAMS` of version 11.
#[repr(C)]
pub struct KernelNode {
    function: Handle,
    grid: [u32; 3],
    block: [u32; 3],
    dynamic_bytes: u32,
    values: *const *const u8,
    extra: *const c_void,
}

/// `CUDA_MEMSET_NODE_PARAMS`.
#[repr(C)]
pub struct MemsetNode {
    address: u64,
    pitch: u64,
    value: u32,
    width: u32,
    count: u64,
    rows: u64,
}

/// `CUDA_MEMCPY3D`.
#[repr(C)]
pub struct MemcpyNode {
    from: Side,
    to: Side,
    bytes: u64,
    height: u64,
    depth: u64,
}

/// One side of a copy.
#[repr(C)]
pub struct Side {
    x_bytes: u64,
    y: u64,
    z: u64,
    level: u64,
    kind: u32,
    host: usize,
    device: u64,
    array: u64,
    reserved: u64,
    pitch: u64,
    height: u64,
}

const _: () = assert!(size_of::<KernelNode>() == 56 && size_of::<MemsetNode>() == 40);
const _: () = assert!(size_of::<Side>() == 88 && size_of::<MemcpyNode>() == 200);

impl Side {
    fn place(&self) -> Outcome<Place> {
        match self.kind {
            1 => Ok(Place::Host(self.host.checked_add(self.x_bytes as usize).ok_or(Code::INVALID_VALUE)?)),
            // 4 is unified: the device's pointer says where.
            2 | 4 => Ok(Place::Device(self.device.checked_add(self.x_bytes).ok_or(Code::INVALID_VALUE)?)),
            _ => Err(Code::NOT_SUPPORTED),
        }
    }
}

/// Adds a node. Those that it depends on have to be there.
///
/// # Safety
/// `dependencies` has `count` elements.
unsafe fn add(
    node: Out<'_, Handle>,
    graph: Handle,
    dependencies: *const Handle,
    count: u64,
    make: impl FnOnce(&State) -> Outcome<Work>,
) -> u32 {
    with(|state| {
        let work = make(state)?;
        let nodes = state.graphs.get_mut(&graph).ok_or(Code::INVALID_HANDLE)?;
        for index in 0..count as usize {
            if dependencies.is_null() {
                return Err(Code::INVALID_VALUE);
            }
            // SAFETY: the caller has as many.
            let before = unsafe { dependencies.add(index).read() };
            if !(1..=nodes.len() as u64).contains(&before) {
                return Err(Code::INVALID_VALUE);
            }
        }
        nodes.push(work);
        put(node, nodes.len() as u64)
    })
}

pub extern "C" fn cuGraphCreate(graph: Out<'_, Handle>, _flags: u32) -> u32 {
    with(|state| {
        let created = state.handle();
        state.graphs.insert(created, Vec::new());
        put(graph, created)
    })
}

pub extern "C" fn cuGraphDestroy(graph: Handle) -> u32 {
    with(|state| remove(&mut state.graphs, graph).map(|_| ()))
}

/// # Safety
/// `dependencies` has `count` elements.
pub unsafe extern "C" fn cuGraphAddEmptyNode(
    node: Out<'_, Handle>,
    graph: Handle,
    dependencies: *const Handle,
    count: u64,
) -> u32 {
    // SAFETY: the same contract.
    unsafe { add(node, graph, dependencies, count, |_| Ok(Work::Nothing)) }
}

/// # Safety
/// `dependencies` has `count` elements.
pub unsafe extern "C" fn cuGraphAddEventRecordNode(
    node: Out<'_, Handle>,
    graph: Handle,
    dependencies: *const Handle,
    count: u64,
    event: Handle,
) -> u32 {
    let make = |state: &State| find(&state.events, event).map(|_| Work::Record(event));
    // SAFETY: the same contract.
    unsafe { add(node, graph, dependencies, count, make) }
}

/// # Safety
/// `dependencies` has `count` elements. The node has a pointer to a value for each parameter of the kernel.
pub unsafe extern "C" fn cuGraphAddKernelNode(
    node: Out<'_, Handle>,
    graph: Handle,
    dependencies: *const Handle,
    count: u64,
    kernel: Option<&KernelNode>,
) -> u32 {
    let make = |state: &State| {
        let kernel = kernel.ok_or(Code::INVALID_VALUE)?;
        if !kernel.extra.is_null() {
            return Err(Code::NOT_SUPPORTED);
        }
        let sizes = [kernel.grid, kernel.block];
        // SAFETY: the same contract.
        let call = unsafe { state.call(kernel.function, sizes, kernel.dynamic_bytes, kernel.values) }?;
        Ok(Work::Launch(call))
    };
    // SAFETY: the same contract.
    unsafe { add(node, graph, dependencies, count, make) }
}

/// # Safety
/// `dependencies` has `count` elements.
pub unsafe extern "C" fn cuGraphAddMemsetNode(
    node: Out<'_, Handle>,
    graph: Handle,
    dependencies: *const Handle,
    count: u64,
    memset: Option<&MemsetNode>,
    _context: Handle,
) -> u32 {
    let make = |_: &State| {
        let memset = memset.ok_or(Code::INVALID_VALUE)?;
        if memset.rows != 1 {
            return Err(Code::NOT_SUPPORTED);
        }
        let width = match memset.width {
            1 | 2 | 4 => memset.width.into(),
            _ => return Err(Code::INVALID_VALUE),
        };
        let pattern = memset.value.to_le_bytes();
        Ok(Work::Fill { address: memset.address, pattern, width, count: memset.count })
    };
    // SAFETY: the same contract.
    unsafe { add(node, graph, dependencies, count, make) }
}

/// # Safety
/// `dependencies` has `count` elements. Memory of the host that the copy names is valid when a graph with it
/// is launched.
pub unsafe extern "C" fn cuGraphAddMemcpyNode(
    node: Out<'_, Handle>,
    graph: Handle,
    dependencies: *const Handle,
    count: u64,
    memcpy: Option<&MemcpyNode>,
    _context: Handle,
) -> u32 {
    let make = |_: &State| {
        let memcpy = memcpy.ok_or(Code::INVALID_VALUE)?;
        if (memcpy.height, memcpy.depth) != (1, 1) {
            return Err(Code::NOT_SUPPORTED);
        }
        Ok(Work::Copy { from: memcpy.from.place()?, to: memcpy.to.place()?, bytes: memcpy.bytes })
    };
    // SAFETY: the same contract.
    unsafe { add(node, graph, dependencies, count, make) }
}

/// # Safety
/// `nodes` is null, or has as many elements as `count` says.
pub unsafe extern "C" fn cuGraphGetNodes(graph: Handle, nodes: *mut Handle, count: Option<&mut u64>) -> u32 {
    with(|state| {
        let all = find(&state.graphs, graph)?.len() as u64;
        let count = count.ok_or(Code::INVALID_VALUE)?;
        if nodes.is_null() {
            *count = all;
            return Ok(());
        }
        for index in 0..*count {
            let node = if index < all { index + 1 } else { 0 };
            // SAFETY: the caller has room for as many.
            unsafe { nodes.add(index as usize).write(node) };
        }
        *count = all.min(*count);
        Ok(())
    })
}

pub extern "C" fn cuGraphInstantiate(
    plan: Out<'_, Handle>,
    graph: Handle,
    _failed: Out<'_, Handle>,
    _log: *mut c_char,
    _log_bytes: u64,
) -> u32 {
    with(|state| {
        let nodes = find(&state.graphs, graph)?.clone();
        let created = state.handle();
        state.plans.insert(created, nodes.into());
        put(plan, created)
    })
}

pub extern "C" fn cuGraphExecDestroy(plan: Handle) -> u32 {
    with(|state| remove(&mut state.plans, plan).map(|_| ()))
}

pub extern "C" fn cuGraphLaunch(plan: Handle, stream: Handle) -> u32 {
    with(|state| {
        let nodes = find(&state.plans, plan)?.clone();
        state.begin(stream)?;
        for work in &*nodes {
            if state.failure.is_some() {
                break;
            }
            // SAFETY: who added a node keeps the memory that it names as long as graphs with it are launched.
            unsafe { state.run(stream, work) }?;
        }
        Ok(())
    })
}
