//! The state of the driver: all objects of all threads, behind one lock.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::Mutex;
use rehal_simt::Image;

use crate::interface::{Code, Handle, Outcome, answer, explain};
use crate::kernel::Function;
use crate::memory::{Allocation, DEVICE_ADDRESSES, Pool};
use crate::stream::{Event, Stream, Work};

static STATE: Mutex<State> = Mutex::new(State::new());

/// All objects.
pub struct State {
    last_handle: Handle,
    /// The error that all calls return, once a kernel failed.
    pub failure: Option<Code>,
    pub contexts: BTreeSet<Handle>,
    pub primary_context: Option<Handle>,
    /// By the address that kernels see.
    pub allocations: BTreeMap<u64, Allocation>,
    /// Where the next allocation of the device starts.
    pub free_address: u64,
    pub pools: BTreeMap<Handle, Pool>,
    pub modules: BTreeMap<Handle, Arc<Image>>,
    pub functions: BTreeMap<Handle, Function>,
    pub streams: BTreeMap<Handle, Stream>,
    pub events: BTreeMap<Handle, Event>,
    pub graphs: BTreeMap<Handle, Vec<Work>>,
    /// Graphs that were instantiated.
    pub plans: BTreeMap<Handle, Arc<[Work]>>,
}

impl State {
    pub const fn new() -> Self {
        Self {
            // Above the streams that have numbers in the interface.
            last_handle: 0xFF,
            failure: None,
            contexts: BTreeSet::new(),
            primary_context: None,
            allocations: BTreeMap::new(),
            free_address: DEVICE_ADDRESSES,
            pools: BTreeMap::new(),
            modules: BTreeMap::new(),
            functions: BTreeMap::new(),
            streams: BTreeMap::new(),
            events: BTreeMap::new(),
            graphs: BTreeMap::new(),
            plans: BTreeMap::new(),
        }
    }

    /// A number for a new object, different from all others.
    pub fn handle(&mut self) -> Handle {
        self.last_handle += 1;
        self.last_handle
    }

    /// A kernel failed: from now on, every call does.
    pub fn fail(&mut self, code: Code, what: &str) {
        self.failure = Some(code);
        explain(code, what);
    }
}

thread_local! {
    /// The contexts of this thread; the last one is current.
    pub static CURRENT: RefCell<Vec<Handle>> = const { RefCell::new(Vec::new()) };
}

/// Runs a function on the objects, unless this thread has no context, or a kernel failed before.
pub fn with(run: impl FnOnce(&mut State) -> Outcome) -> u32 {
    match CURRENT.with_borrow(Vec::is_empty) {
        true => Code::INVALID_CONTEXT.0,
        false => without_context(run),
    }
}

/// Runs a function on the objects, unless a kernel failed before.
pub fn without_context(run: impl FnOnce(&mut State) -> Outcome) -> u32 {
    let mut state = STATE.lock();
    answer(match state.failure {
        Some(code) => Err(code),
        None => run(&mut state),
    })
}

/// The object of a handle.
pub fn find<T>(objects: &BTreeMap<Handle, T>, handle: Handle) -> Outcome<&T> {
    objects.get(&handle).ok_or(Code::INVALID_HANDLE)
}

/// Removes the object of a handle.
pub fn remove<T>(objects: &mut BTreeMap<Handle, T>, handle: Handle) -> Outcome<T> {
    objects.remove(&handle).ok_or(Code::INVALID_HANDLE)
}
