//! Tests of what those of the oracle do not reach: refusals, and kernels that do wrong.
#![allow(unsafe_code, reason = "calls the interface")]

use std::ffi::{CStr, c_void};
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::device::cuCtxCreate;
use crate::interface::{Code, Handle, Outcome, cuGetErrorString};
use crate::memory::{DEVICE_ADDRESSES, Kind, Pool};
use crate::state::State;
use crate::stream::{
    Place, Stream, Work, cuLaunchHostFunc, cuStreamCreate, cuStreamDestroy, cuStreamSynchronize,
};
use crate::table::{NAMES, cuGetProcAddress};

/// Adds 1 to each of `block` elements: `p[i] += 1`.
const ADD_ONE: &[u8] = b".version 7.0
.target sm_80
.address_size 64
.visible .entry add_one(.param .u64 p) {
  .reg .b32 %r<3>;
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [p];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd2, %r1, 4;
  add.s64 %rd3, %rd1, %rd2;
  ld.global.u32 %r2, [%rd3];
  add.s32 %r2, %r2, 1;
  st.global.u32 [%rd3], %r2;
  ret;
}
";

/// A driver with a kernel, a stream, and memory of the device for 8 elements.
struct Device {
    state: State,
    function: Handle,
    stream: Handle,
    memory: u64,
}

impl Device {
    fn new() -> Self {
        let mut state = State::new();
        let module = state.load(ADD_ONE).unwrap();
        let function = state.function(module, "add_one").unwrap();
        let stream = state.handle();
        state.streams.insert(stream, Stream::default());
        let memory = state.allocate(32, Kind::Device, 0).unwrap();
        Self { state, function, stream, memory }
    }

    fn run(&mut self, work: &Work) -> Outcome {
        // SAFETY: the tests keep the memory that their copies name.
        unsafe { self.state.run(self.stream, work) }
    }

    /// The launch of a block of threads on an address.
    fn launch(&self, address: u64, threads: u32, dynamic_bytes: u32) -> Outcome<Work> {
        let values = [(&raw const address).cast::<u8>()];
        let sizes = [[1; 3], [threads, 1, 1]];
        // SAFETY: the kernel has one parameter, of 8 bytes.
        let call = unsafe { self.state.call(self.function, sizes, dynamic_bytes, values.as_ptr()) };
        call.map(Work::Launch)
    }

    fn read(&mut self) -> Vec<u32> {
        let mut bytes = [0_u8; 32];
        let to = Place::Host((&raw mut bytes).expose_provenance());
        self.run(&Work::Copy { from: Place::Device(self.memory), to, bytes: 32 }).unwrap();
        bytes.as_chunks().0.iter().map(|it| u32::from_le_bytes(*it)).collect()
    }
}

#[test]
fn the_table_has_the_functions_that_the_reference_asks_for() {
    // With `cuGetProcAddress` itself.
    assert_eq!(NAMES.len() + 1, 67);
    let mut found = MaybeUninit::new(std::ptr::null());
    // SAFETY: these are strings that end with NUL.
    let statuses = [c"cuInit", c"cuGetProcAddress", c"cuInit_v2"]
        .map(|name| unsafe { cuGetProcAddress(name.as_ptr(), Some(&mut found), 11_030, 0) });
    assert_eq!(statuses, [0, 0, Code::NOT_FOUND.0]);
}

#[test]
fn work_runs_in_order() {
    let mut device = Device::new();
    let launch = device.launch(device.memory, 8, 0).unwrap();
    let fill = Work::Fill { address: device.memory, pattern: [5, 0, 0, 0], width: 4, count: 4 };
    for work in [&launch, &fill, &launch] {
        assert_eq!(device.run(work), Ok(()));
    }
    assert_eq!(device.read(), [6, 6, 6, 6, 2, 2, 2, 2]);
}

#[test]
fn what_cannot_be_launched_is_refused_and_forgotten() {
    let mut device = Device::new();
    assert_eq!(device.launch(device.memory, 8, (48 << 10) + 1).err(), Some(Code::INVALID_VALUE));
    let launch = device.launch(device.memory, 0, 0).unwrap();
    assert_eq!(device.run(&launch), Err(Code::INVALID_VALUE));
    let beyond = Work::Fill { address: device.memory + 16, pattern: [1; 4], width: 4, count: 5 };
    assert_eq!(device.run(&beyond), Err(Code::INVALID_VALUE));
    let misaligned = Work::Fill { address: device.memory + 2, pattern: [1; 4], width: 4, count: 1 };
    assert_eq!(device.run(&misaligned), Err(Code::INVALID_VALUE));
    assert_eq!((device.state.failure, device.read()), (None, vec![0; 8]));
    assert_eq!(device.state.load(b".version 7.0\n.target sm_80\nfoo").unwrap_err().0, Code::INVALID_PTX);
}

#[test]
fn an_access_out_of_bounds_stays_an_error() {
    let mut device = Device::new();
    // A read within the granule is allowed, a write is not.
    let launch = device.launch(device.memory + 4, 8, 0).unwrap();
    assert_eq!(device.run(&launch), Ok(()));
    assert_eq!(device.state.failure, Some(Code::ILLEGAL_ADDRESS));
    let mut text = MaybeUninit::new(std::ptr::null());
    assert_eq!(cuGetErrorString(Code::ILLEGAL_ADDRESS.0, Some(&mut text)), 0);
    // SAFETY: it was written, and errors are strings that end with NUL.
    let text = unsafe { CStr::from_ptr(text.assume_init()) }.to_str().unwrap();
    assert!(text.contains("function 'add_one', block (0, 0, 0), thread (7, 0, 0)"), "{text}");

    let mut device = Device::new();
    let launch = device.launch(device.memory + 2, 1, 0).unwrap();
    assert_eq!(device.run(&launch), Ok(()));
    assert_eq!(device.state.failure, Some(Code::MISALIGNED_ADDRESS));
}

#[test]
fn memory_is_freed_by_its_own_function_and_pools_count() {
    let mut state = State::new();
    let pool = state.handle();
    state.pools.insert(pool, Pool::default());
    let host = state.allocate(100, Kind::Host, 0).unwrap();
    let device = state.allocate(100, Kind::Device, pool).unwrap();
    assert!(device >= DEVICE_ADDRESSES && host < DEVICE_ADDRESSES);
    assert_eq!(state.free(host, &[Kind::Device, Kind::Managed]), Err(Code::INVALID_VALUE));
    assert_eq!(state.free(host + 1, &[Kind::Host]), Err(Code::INVALID_VALUE));
    assert_eq!(state.free(host, &[Kind::Host]), Ok(()));
    assert_eq!(state.place(host, 1).err(), Some(Code::INVALID_VALUE));
    assert_eq!(state.place(device, 101).err(), Some(Code::INVALID_VALUE));
    assert_eq!(state.allocate(0, Kind::Device, 0), Err(Code::INVALID_VALUE));
    assert_eq!(state.pools[&pool].used(), [100, 100]);
    assert_eq!(state.free(device, &[Kind::Device]), Ok(()));
    assert_eq!(state.pools[&pool].used(), [0, 100]);
}

#[test]
fn functions_of_the_host_run_before_later_work() {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    unsafe extern "C" fn count(data: *mut c_void) {
        std::thread::sleep(std::time::Duration::from_millis(20));
        CALLS.fetch_add(data.addr() as u32, Ordering::Relaxed);
    }
    let (mut context, mut stream) = (MaybeUninit::new(0), MaybeUninit::new(0));
    assert_eq!(cuStreamCreate(Some(&mut stream), 0), Code::INVALID_CONTEXT.0);
    assert_eq!(cuCtxCreate(Some(&mut context), 0, 0), 0);
    assert_eq!(cuStreamCreate(Some(&mut stream), 0), 0);
    // SAFETY: it was initialized.
    let stream = unsafe { stream.assume_init() };
    for _ in 0..2 {
        // SAFETY: the function only uses the number.
        let status = unsafe { cuLaunchHostFunc(stream, Some(count), std::ptr::without_provenance_mut(3)) };
        assert_eq!(status, 0);
    }
    assert_eq!(cuStreamSynchronize(stream), 0);
    assert_eq!(CALLS.load(Ordering::Relaxed), 6);
    assert_eq!(cuStreamDestroy(stream), 0);
    assert_eq!(cuStreamSynchronize(stream), Code::INVALID_HANDLE.0);
}
