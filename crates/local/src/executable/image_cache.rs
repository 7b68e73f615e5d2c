//! A cache of mapped embedded images, for later loads of the same bytes.
//!
//! A replay prepares the same executables in every iteration, and mapping dominates the cost (fresh pages,
//! protections: about 15 us for 4 KiB). An image is cached if it is immutable after loading: no writable
//! pages, no initializers. All images of the compiler are. Of system libraries, which the dynamic loader
//! maps, only the costs of their functions are cached: otherwise each iteration would hand short work to
//! workers.

use std::ffi::c_void;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use rehal_base::{Context, Result};

use super::cost::Costs;
use super::{abi, elf};

/// Maximum number of cached images.
const MAX_IMAGES: usize = 64;
/// Maximum number of cached bytes; larger images are not cached.
const MAX_BYTES: usize = 16 << 20;

/// A loaded image and its query function.
#[derive(Clone)]
pub(super) struct LoadedImage {
    pub(super) module: Arc<elf::Module>,
    /// Address of the library query function.
    pub(super) query: *const c_void,
    /// The costs of its functions, once measured. Kept with the image, so that a replay knows it in
    /// every iteration.
    pub(super) costs: Arc<OnceLock<Costs>>,
}

// SAFETY: the address is of read-only code that the module keeps mapped.
unsafe impl Send for LoadedImage {}

/// A cached image or library, and the bytes from which it was loaded.
struct CacheEntry {
    bytes: Box<[u8]>,
    loaded: Loaded,
}

#[derive(Clone)]
enum Loaded {
    Image(LoadedImage),
    Library(Arc<OnceLock<Costs>>),
}

/// The images, most recently used last.
static CACHE: Mutex<Vec<CacheEntry>> = Mutex::new(Vec::new());

/// Loads `bytes`, or returns the cached image.
///
/// # Safety
/// As for [`elf::Image::load`].
pub(super) unsafe fn load(bytes: &[u8]) -> Result<LoadedImage> {
    if let Some(Loaded::Image(found)) = find(bytes) {
        return Ok(found);
    }
    let image = elf::Image::parse(bytes).context(|| "embedded ELF executable".to_string())?;
    let query = image.function(abi::QUERY_SYMBOL)?;
    // SAFETY: guaranteed by the caller.
    let module = unsafe { image.load() }?;
    let loaded =
        LoadedImage { query: module.address(query), module: Arc::new(module), costs: Arc::default() };
    if bytes.len() <= MAX_BYTES && loaded.module.is_immutable() {
        keep(bytes, Loaded::Image(loaded.clone()));
    }
    Ok(loaded)
}

/// The costs of the functions of a system library, once measured.
pub(super) fn library_costs(bytes: &[u8]) -> Arc<OnceLock<Costs>> {
    if let Some(Loaded::Library(costs)) = find(bytes) {
        return costs;
    }
    let costs = Arc::default();
    if bytes.len() <= MAX_BYTES {
        keep(bytes, Loaded::Library(Arc::clone(&costs)));
    }
    costs
}

/// Clears the cache; images in use stay mapped until they are dropped.
pub(crate) fn clear() {
    CACHE.lock().clear();
}

fn find(bytes: &[u8]) -> Option<Loaded> {
    let mut cache = CACHE.lock();
    let index = cache.iter().rposition(|kept| *kept.bytes == *bytes)?;
    let kept = cache.remove(index);
    let loaded = kept.loaded.clone();
    cache.push(kept);
    Some(loaded)
}

fn keep(bytes: &[u8], loaded: Loaded) {
    let mut cache = CACHE.lock();
    let mut total = bytes.len() + cache.iter().map(|kept| kept.bytes.len()).sum::<usize>();
    // Evicts the least recently used; images in use stay mapped until they are dropped.
    while cache.len() >= MAX_IMAGES || total > MAX_BYTES {
        total -= cache.remove(0).bytes.len();
    }
    cache.push(CacheEntry { bytes: bytes.into(), loaded });
}
