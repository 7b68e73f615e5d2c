use std::sync::Arc;

use rehal_base::{Error, Range, Result, page_bytes};
use rehal_hal::{BufferParams, Device, MemoryType, WatchAccesses, WatchedBuffer};

use crate::device::is_local;
use crate::platform::WatchedPages;

/// A buffer of a CPU device that tells which of its pages are accessed. `None` if that is unknown: of other
/// devices, on other platforms, without the signal handlers of [`rehal_crash::install`], for an alignment of
/// more than a page, if pages of 256 buffers are watched already, or if memory is short.
///
/// While it is watched, system calls fail to access its bytes, and each page costs a signal.
pub fn watch_buffer(device: &Device, params: BufferParams, size: u64) -> Result<Option<WatchedBuffer>> {
    let length = usize::try_from(size).ok().filter(|length| *length <= isize::MAX as usize);
    if !is_local(device) || params.min_alignment > page_bytes() as u64 {
        return Ok(None);
    }
    let Some(pages) = length.and_then(WatchedPages::new) else { return Ok(None) };
    let memory = Arc::new(pages.memory());
    // Emulated devices import no memory as their own.
    let memory_type = MemoryType::HOST_LOCAL | MemoryType::DEVICE_VISIBLE;
    let memory_type = (params.memory_type - MemoryType::DEVICE_LOCAL) | memory_type;
    let params = BufferParams { memory_type, ..params };
    let buffer = device.import_buffer(params, &memory, Range { offset: 0, length: size })?;
    Ok(Some(WatchedBuffer { buffer, accesses: Box::new(Accesses(pages)) }))
}

struct Accesses(Arc<WatchedPages>);

impl WatchAccesses for Accesses {
    fn watch(&self) -> Result<()> {
        self.0.watch().map_err(|error| Error::io("protecting pages", &error))
    }

    fn accessed(&self) -> Result<Vec<Range>> {
        let ranges =
            self.0.accessed().map_err(|error| Error::io("reading which pages are accessed", &error))?;
        let range = |it: std::ops::Range<usize>| Range { offset: it.start as u64, length: it.len() as u64 };
        Ok(ranges.into_iter().map(range).collect())
    }
}

#[cfg(test)]
mod tests {
    use rehal_hal::{BufferUsage, OptionSet, transfer};

    use super::*;
    use crate::executable::Plugins;
    use crate::{LocalSync, create_emulated};

    #[test]
    fn pages_are_accessed_by_reads_and_writes() {
        rehal_crash::install();
        let emulated = create_emulated(&OptionSet::default(), &[]).unwrap();
        for device in [LocalSync::create(Plugins::default()), emulated] {
            check_pages(&device);
        }
    }

    /// The buffer is one of memory of the device.
    fn check_pages(device: &Device) {
        let (usage, memory_type) = (BufferUsage::all(), MemoryType::DEVICE_LOCAL);
        let params = BufferParams { usage, memory_type, ..BufferParams::default() };
        let size = 10 * page_bytes() as u64 + 100;
        let watched = watch_buffer(device, params, size).unwrap().unwrap();
        let page = page_bytes() as u64;
        let accessed = || -> Vec<(u64, u64)> {
            watched.accesses.accessed().unwrap().iter().map(|it| (it.offset, it.end())).collect()
        };
        transfer::write(&watched.buffer, 0, &vec![7; size as usize]).unwrap();
        for _ in 0..2 {
            watched.accesses.watch().unwrap();
            assert_eq!(transfer::to_vec(&watched.buffer, page + 5, 2).unwrap(), [7, 7]);
            transfer::write(&watched.buffer, 5 * page - 1, &[8, 8]).unwrap();
            assert_eq!(transfer::to_vec(&watched.buffer, 10 * page + 99, 1).unwrap(), [7]);
            assert_eq!(accessed(), [(page, 2 * page), (4 * page, 6 * page), (10 * page, size)]);
        }
        assert_eq!(transfer::to_vec(&watched.buffer, 5 * page - 2, 4).unwrap(), [7, 8, 8, 7]);
        watched.accesses.watch().unwrap();
        assert!(accessed().is_empty());
    }

    #[test]
    fn more_buffers_than_can_be_watched_are_not() {
        rehal_crash::install();
        let device = LocalSync::create(Plugins::default());
        let params = BufferParams { usage: BufferUsage::all(), ..BufferParams::default() };
        let watch = || watch_buffer(&device, params, 1).unwrap();
        let all: Vec<_> = (0..300).map_while(|_| watch()).collect();
        assert!((200..=256).contains(&all.len()), "{}", all.len());
        drop(all);
        assert!(watch().is_some());
    }
}
