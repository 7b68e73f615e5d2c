//! Peak memory of parameter loading: a separate test program, since it measures the process.

use std::path::Path;

use rehal_hal::{BufferParams, Device, Fence, QUEUE_AFFINITY_ANY, SemaphoreFlags};
use rehal_local::LocalSync;
use rehal_modules::io_parameters::{Provider, Request, Span};
use rehal_params::irpa::Archive;
use rehal_params::{FileMode, Scopes};

const COUNT: u64 = 16;
const EACH_BYTES: u64 = 32 << 20;

/// An archive of [`COUNT`] parameters whose data is sparse on disk.
fn large_archive(path: &Path) {
    let mut archive = Archive::new();
    for index in 0..COUNT {
        archive.add_data(&format!("w{index}"), b"", 64, EACH_BYTES).unwrap();
    }
    let mut file = std::fs::File::create(path).unwrap();
    archive.write_header(&mut file).unwrap();
    file.set_len(archive.file_bytes()).unwrap();
}

/// The peak resident set of this process, in bytes (source: `proc(5)`).
fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() << 10
}

fn gather(device: &Device, provider: &Provider) {
    let target = device.allocate_buffer(BufferParams::default(), EACH_BYTES).unwrap();
    for index in 0..COUNT {
        let semaphore = device.create_semaphore(QUEUE_AFFINITY_ANY, 0, SemaphoreFlags::empty()).unwrap();
        let done = Fence::at(semaphore, 1);
        let request =
            Request { device, affinity: QUEUE_AFFINITY_ANY, waits: None, signals: Some(&done), scope: "" };
        let name = format!("w{index}");
        let span = Span { name, parameter_offset: 0, buffer_offset: 0, length: EACH_BYTES };
        provider.gather(&request, &target, &[span]).unwrap();
        done.wait(None).unwrap();
    }
}

#[test]
fn loading_needs_memory_only_for_the_buffers() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("large.irpa");
    large_archive(&path);
    let device = LocalSync::create(Default::default());
    for mode in [FileMode::Map, FileMode::File, FileMode::Mmap] {
        let before = peak_bytes();
        let mut scopes = Scopes::new();
        scopes.add(path.to_str().unwrap(), mode).unwrap();
        gather(&device, &Provider::new(scopes));
        let grown = peak_bytes() - before;
        assert!(grown < EACH_BYTES + (8 << 20), "{mode:?}: {grown} bytes more");
    }
}
