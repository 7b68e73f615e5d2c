//! Embedded images that stay mapped after their last user, for the next one who loads the same bytes.
//!
//! A replay prepares the same executables in every iteration, and mapping one costs more than all
//! else about it (fresh pages, protections: about 15 us for 4 KiB). An image qualifies when nothing of
//! it can change once it is loaded: no writable pages, no initializers. The compiler's all do.

use std::ffi::c_void;
use std::sync::Arc;

use parking_lot::Mutex;
use rehal_base::{Context, Result};

use super::{abi, elf};

/// Most images kept.
const MAX_IMAGES: usize = 64;
/// Most bytes of images kept; a larger image is not kept at all.
const MAX_BYTES: usize = 16 << 20;

/// A loaded image and its query function.
#[derive(Clone)]
pub(super) struct LoadedImage {
    pub(super) module: Arc<elf::Module>,
    /// Address of the library query function.
    pub(super) query: *const c_void,
}

// SAFETY: the address is of read-only code that the module keeps mapped.
unsafe impl Send for LoadedImage {}

/// An image that is kept, and the bytes that it was loaded from.
struct Kept {
    bytes: Box<[u8]>,
    image: LoadedImage,
}

/// The images, the one used last at the end.
static CACHE: Mutex<Vec<Kept>> = Mutex::new(Vec::new());

/// Loads `bytes`, or finds them loaded.
///
/// # Safety
/// As for [`elf::Image::load`].
pub(super) unsafe fn load(bytes: &[u8]) -> Result<LoadedImage> {
    if let Some(found) = find(bytes) {
        return Ok(found);
    }
    let image = elf::Image::parse(bytes).context(|| "embedded ELF executable".to_string())?;
    let query = image.function(abi::QUERY_SYMBOL)?;
    // SAFETY: the caller's.
    let module = unsafe { image.load() }?;
    let loaded = LoadedImage { query: module.address(query), module: Arc::new(module) };
    if bytes.len() <= MAX_BYTES && loaded.module.is_immutable() {
        keep(bytes, loaded.clone());
    }
    Ok(loaded)
}

/// Drops all images that are kept; those in use stay mapped until they are done.
pub(crate) fn clear() {
    CACHE.lock().clear();
}

fn find(bytes: &[u8]) -> Option<LoadedImage> {
    let mut cache = CACHE.lock();
    let index = cache.iter().rposition(|kept| *kept.bytes == *bytes)?;
    let kept = cache.remove(index);
    let image = kept.image.clone();
    cache.push(kept);
    Some(image)
}

fn keep(bytes: &[u8], image: LoadedImage) {
    let mut cache = CACHE.lock();
    let mut total = bytes.len() + cache.iter().map(|kept| kept.bytes.len()).sum::<usize>();
    // The oldest go first; what still runs stays mapped until it is done.
    while cache.len() >= MAX_IMAGES || total > MAX_BYTES {
        total -= cache.remove(0).bytes.len();
    }
    cache.push(Kept { bytes: bytes.into(), image });
}
