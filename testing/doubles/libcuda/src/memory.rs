//! Allocations, and the pools that some come from.
#![allow(unsafe_code, reason = "wraps memory that a program registers")]

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::io::Write as _;
use std::ptr::NonNull;
use std::sync::Arc;

use rehal_base::HostMemory;
use rehal_simt::{Image, Region};

use crate::interface::{Code, Handle, Out, Outcome, put};
use crate::state::{State, find, remove, with};

/// Memory of the device is above the addresses of programs, and below those that `rehal-simt` leaves free.
pub const DEVICE_ADDRESSES: u64 = 1 << 47;
/// Allocations are multiples of this many bytes: kernels may read beyond their end up to it.
const GRANULE_BYTES: u64 = 256;
/// Names the file that gets the bytes of what is freed.
const FREED_VARIABLE: &str = "LIBCUDA_DOUBLE_FREED";

/// The flag of `cuMemHostRegister` for memory that kernels only read.
const REGISTER_READ_ONLY: u32 = 8;

/// An attribute of a pool: how many bytes may stay reserved.
const RELEASE_THRESHOLD: u32 = 4;

/// Memory that kernels can access.
pub struct Allocation {
    bytes: Bytes,
    pub kind: Kind,
    pool: Handle,
}

enum Bytes {
    Own(HostMemory),
    /// The variables of a module.
    Of(Arc<Image>),
}

/// Which function frees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only the device accesses it.
    Device,
    Managed,
    Host,
    /// Memory of the program.
    Registered,
    Variables,
}

/// A pool of memory: only its counts are real.
#[derive(Default)]
pub struct Pool {
    attributes: BTreeMap<u32, u64>,
    used: u64,
    used_high: u64,
}

impl Pool {
    /// Bytes now, and at most.
    pub fn used(&self) -> [u64; 2] {
        [self.used, self.used_high]
    }
}

impl Allocation {
    pub fn memory(&self) -> &HostMemory {
        match &self.bytes {
            Bytes::Own(memory) => memory,
            Bytes::Of(image) => image.variables(),
        }
    }

    /// The region that kernels see.
    pub fn region(&self, address: u64) -> Region<'_> {
        let memory = self.memory();
        let length = memory.length();
        let is_granular = matches!(self.kind, Kind::Device | Kind::Managed | Kind::Host);
        let slack = if is_granular { length.next_multiple_of(GRANULE_BYTES) - length } else { 0 };
        Region { address, length, slack, memory, offset: 0, is_writable: memory.is_writable() }
    }

    /// Appends the bytes to the file that names what is freed.
    fn note_freed(&self) {
        let Some(path) = std::env::var_os(FREED_VARIABLE) else { return };
        let written = || -> std::io::Result<()> {
            let memory = self.memory();
            let mut bytes = vec![0; memory.length() as usize];
            memory.read(0, &mut bytes).map_err(std::io::Error::other)?;
            let mut file = std::fs::OpenOptions::new().create(true).append(true).open(&path)?;
            // In one piece: processes may share the file.
            file.write_all((hex::encode(bytes) + "\n").as_bytes())
        };
        if let Err(error) = written() {
            eprintln!("libcuda double: {}: {error}", path.display());
        }
    }
}

impl State {
    /// Allocates memory, from a pool unless that is 0; returns its address.
    pub fn allocate(&mut self, bytes: u64, kind: Kind, pool: Handle) -> Outcome<u64> {
        if bytes == 0 {
            return Err(Code::INVALID_VALUE);
        }
        let memory = HostMemory::allocate_aligned(bytes, GRANULE_BYTES).map_err(|_| Code::OUT_OF_MEMORY)?;
        let address = match kind {
            // A granule stays between two, so that what goes beyond one does not reach the next.
            Kind::Device => {
                let address = self.free_address;
                self.free_address += (bytes + GRANULE_BYTES).next_multiple_of(GRANULE_BYTES);
                address
            }
            _ => memory.as_ptr().addr() as u64,
        };
        if let Some(pool) = self.pools.get_mut(&pool) {
            pool.used += bytes;
            pool.used_high = pool.used_high.max(pool.used);
        }
        self.allocations.insert(address, Allocation { bytes: Bytes::Own(memory), kind, pool });
        Ok(address)
    }

    /// Makes the variables of a module known as memory; returns their address.
    pub fn allocate_variables(&mut self, image: &Arc<Image>) -> u64 {
        let address = image.variables().as_ptr().addr() as u64;
        let bytes = Bytes::Of(image.clone());
        self.allocations.insert(address, Allocation { bytes, kind: Kind::Variables, pool: 0 });
        address
    }

    /// Frees what starts at an address, if it is of one of these kinds.
    pub fn free(&mut self, address: u64, kinds: &[Kind]) -> Outcome {
        match self.allocations.get(&address) {
            Some(it) if kinds.contains(&it.kind) => it.note_freed(),
            _ => return Err(Code::INVALID_VALUE),
        }
        if let Some(freed) = self.allocations.remove(&address)
            && let Some(pool) = self.pools.get_mut(&freed.pool)
        {
            pool.used -= freed.memory().length();
        }
        Ok(())
    }

    /// The memory that has some bytes, and where they are in it.
    pub fn place(&self, address: u64, bytes: u64) -> Outcome<(&HostMemory, u64)> {
        let (start, found) = self.allocations.range(..=address).next_back().ok_or(Code::INVALID_VALUE)?;
        let (memory, offset) = (found.memory(), address - start);
        let is_within = offset.checked_add(bytes).is_some_and(|end| end <= memory.length());
        if is_within { Ok((memory, offset)) } else { Err(Code::INVALID_VALUE) }
    }
}

pub extern "C" fn cuMemAlloc(address: Out<'_, u64>, bytes: u64) -> u32 {
    with(|state| put(address, state.allocate(bytes, Kind::Device, 0)?))
}

pub extern "C" fn cuMemAllocManaged(address: Out<'_, u64>, bytes: u64, _flags: u32) -> u32 {
    with(|state| put(address, state.allocate(bytes, Kind::Managed, 0)?))
}

pub extern "C" fn cuMemHostAlloc(address: Out<'_, u64>, bytes: u64, _flags: u32) -> u32 {
    with(|state| put(address, state.allocate(bytes, Kind::Host, 0)?))
}

pub extern "C" fn cuMemFree(address: u64) -> u32 {
    with(|state| if address == 0 { Ok(()) } else { state.free(address, &[Kind::Device, Kind::Managed]) })
}

pub extern "C" fn cuMemFreeHost(address: u64) -> u32 {
    with(|state| state.free(address, &[Kind::Host]))
}

/// # Safety
/// `memory` is null, or has `bytes` bytes until it is unregistered, which the program accesses as far as
/// kernels do not.
pub unsafe extern "C" fn cuMemHostRegister(memory: *mut c_void, bytes: u64, flags: u32) -> u32 {
    with(|state| {
        let start = NonNull::new(memory.cast::<u8>()).ok_or(Code::INVALID_VALUE)?;
        let length = usize::try_from(bytes).ok().filter(|it| *it != 0).ok_or(Code::INVALID_VALUE)?;
        let address = start.as_ptr().addr() as u64;
        let end = address.checked_add(bytes).ok_or(Code::INVALID_VALUE)?;
        let before = state.allocations.range(..end).next_back();
        if before.is_some_and(|(start, it)| start + it.memory().length() > address) {
            return Err(Code::ALREADY_REGISTERED);
        }
        // SAFETY: the caller lends the memory until it unregisters it, which drops this. Its bytes come from
        // C, where bytes without a value have any.
        let lent =
            unsafe { HostMemory::foreign(start, length, flags & REGISTER_READ_ONLY == 0, Box::new(())) };
        let lent = Allocation { bytes: Bytes::Own(lent), kind: Kind::Registered, pool: 0 };
        state.allocations.insert(address, lent);
        Ok(())
    })
}

pub extern "C" fn cuMemHostUnregister(address: u64) -> u32 {
    with(|state| state.free(address, &[Kind::Registered]).map_err(|_| Code::NOT_REGISTERED))
}

pub extern "C" fn cuMemHostGetDevicePointer(device: Out<'_, u64>, host: u64, _flags: u32) -> u32 {
    with(|state| {
        let found = state.allocations.range(..=host).next_back();
        state.place(host, 1)?;
        match found.map(|(_, it)| it.kind) {
            Some(Kind::Host | Kind::Registered) => put(device, host),
            _ => Err(Code::INVALID_VALUE),
        }
    })
}

pub extern "C" fn cuMemPrefetchAsync(address: u64, bytes: u64, device: i32, stream: Handle) -> u32 {
    with(|state| {
        state.begin(stream)?;
        state.place(address, bytes)?;
        let managed = state.allocations.range(..=address).next_back();
        // -1 is the host.
        let is_valid = managed.is_some_and(|(_, it)| it.kind == Kind::Managed) && [-1, 0].contains(&device);
        if is_valid { Ok(()) } else { Err(Code::INVALID_VALUE) }
    })
}

pub extern "C" fn cuMemPoolCreate(pool: Out<'_, Handle>, properties: Option<&MemPoolProperties>) -> u32 {
    with(|state| {
        // Memory of device 0, the only one.
        let place = properties.ok_or(Code::INVALID_VALUE)?;
        if (place.location_kind, place.location) != (1, 0) {
            return Err(Code::INVALID_VALUE);
        }
        let created = state.handle();
        state.pools.insert(created, Pool::default());
        put(pool, created)
    })
}

/// The first fields of `CUmemPoolProps`.
#[repr(C)]
pub struct MemPoolProperties {
    allocation_kind: u32,
    handle_kinds: u32,
    location_kind: u32,
    location: i32,
}

pub extern "C" fn cuMemPoolDestroy(pool: Handle) -> u32 {
    with(|state| remove(&mut state.pools, pool).map(|_| ()))
}

pub extern "C" fn cuMemPoolSetAccess(pool: Handle, _access: *const c_void, _count: u64) -> u32 {
    with(|state| find(&state.pools, pool).map(|_| ()))
}

pub extern "C" fn cuMemPoolTrimTo(pool: Handle, _bytes: u64) -> u32 {
    with(|state| find(&state.pools, pool).map(|_| ()))
}

pub extern "C" fn cuMemPoolGetAttribute(pool: Handle, attribute: u32, value: Out<'_, u64>) -> u32 {
    with(|state| {
        let pool = find(&state.pools, pool)?;
        match attribute {
            RELEASE_THRESHOLD => put(value, pool.attributes.get(&attribute).copied().unwrap_or(0)),
            // Reserved and used bytes, now and at most.
            5 | 7 => put(value, pool.used()[0]),
            6 | 8 => put(value, pool.used()[1]),
            _ => Err(Code::INVALID_VALUE),
        }
    })
}

pub extern "C" fn cuMemPoolSetAttribute(pool: Handle, attribute: u32, value: Option<&u64>) -> u32 {
    with(|state| {
        let pool = state.pools.get_mut(&pool).ok_or(Code::INVALID_HANDLE)?;
        let value = *value.ok_or(Code::INVALID_VALUE)?;
        match attribute {
            RELEASE_THRESHOLD => pool.attributes.insert(attribute, value),
            _ => return Err(Code::INVALID_VALUE),
        };
        Ok(())
    })
}

pub extern "C" fn cuMemAllocFromPoolAsync(
    address: Out<'_, u64>,
    bytes: u64,
    pool: Handle,
    stream: Handle,
) -> u32 {
    with(|state| {
        state.begin(stream)?;
        find(&state.pools, pool)?;
        put(address, state.allocate(bytes, Kind::Device, pool)?)
    })
}

pub extern "C" fn cuMemFreeAsync(address: u64, stream: Handle) -> u32 {
    with(|state| {
        state.begin(stream)?;
        state.free(address, &[Kind::Device, Kind::Managed])
    })
}
