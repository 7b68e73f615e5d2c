use std::fs::File;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::*;

#[test]
fn elements_are_bounded_by_their_count() {
    let memory = HostMemory::allocate(10).unwrap();
    memory.write(0, &(0..10).collect::<Vec<u8>>()).unwrap();
    assert_eq!(memory.load_element::<4>(1).unwrap(), [4, 5, 6, 7]);
    assert_eq!(memory.load_element::<2>(4).unwrap(), [8, 9]);
    memory.store_element(1, [40, 50, 60, 70]).unwrap();
    assert_eq!(memory.load::<6>(3).unwrap(), [3, 40, 50, 60, 70, 8]);
    // The third element of four bytes would end out of bounds, and the last indices overflow.
    for index in [2, u64::MAX / 4, u64::MAX / 4 + 1, u64::MAX] {
        let error = memory.load_element::<4>(index).unwrap_err();
        assert_eq!(error.code(), StatusCode::OutOfRange, "{index}");
        assert_eq!(memory.store_element(index, [0; 4]).unwrap_err().code(), StatusCode::OutOfRange);
    }
    let message = memory.load_element::<4>(2).unwrap_err();
    assert_eq!(message.message(), "4 bytes at offset 8 exceed a buffer of 10 bytes");
    assert!(HostMemory::allocate(0).unwrap().load_element::<1>(0).is_err());
    let constant = memory.into_constant().unwrap();
    assert_eq!(constant.store_element(0, [0; 4]).unwrap_err().code(), StatusCode::PermissionDenied);
    assert_eq!(constant.load_element::<1>(9).unwrap(), [9]);
}

#[test]
fn freed_memory_is_used_again_and_zeroed() {
    const LENGTH: u64 = (1 << 20) + 192;
    let mut places = std::collections::HashSet::new();
    for round in 0..64 {
        let memory = HostMemory::allocate(LENGTH).unwrap();
        let mut bytes = vec![1; LENGTH as usize];
        memory.read(0, &mut bytes).unwrap();
        assert!(bytes.iter().all(|byte| *byte == 0), "round {round}");
        memory.fill(0, LENGTH, &[0xAB]).unwrap();
        places.insert(memory.as_ptr().addr());
    }
    // Other tests may release it in between, or take other blocks' room.
    assert!(cfg!(miri) || places.len() < 64, "{places:?}");
    // Alignments are not mixed up, and neither are lengths.
    let aligned = HostMemory::allocate_aligned(LENGTH, 1 << 16).unwrap();
    assert!(aligned.as_ptr().addr().is_multiple_of(1 << 16));
    drop(aligned);
    HostMemory::release_spare();
    let memory = HostMemory::allocate(LENGTH).unwrap();
    assert_eq!(memory.load::<8>(LENGTH - 8).unwrap(), [0; 8]);
}

#[test]
fn more_freed_memory_than_is_kept_is_returned() {
    let all: Vec<_> = (0..100).map(|_| HostMemory::allocate(4 << 20).unwrap()).collect();
    drop(all);
    let (blocks, bytes) = spare::kept();
    assert!(blocks <= 64 && bytes <= 256 << 20, "{blocks} blocks, {bytes} bytes");
    assert!(HostMemory::allocate(300 << 20).is_ok());
}

#[test]
fn fills_copies_and_rejects_out_of_bounds_ranges() {
    let memory = HostMemory::allocate(16).unwrap();
    assert!((memory.as_ptr() as usize).is_multiple_of(ALIGNMENT_BYTES));
    let page = HostMemory::allocate_aligned(16, 4096).unwrap();
    assert!((page.as_ptr() as usize).is_multiple_of(4096));
    page.write(0, &[1; 16]).unwrap();
    assert!(HostMemory::allocate_aligned(16, 96).is_err());
    assert!(HostMemory::allocate_aligned(16, 1 << 63).is_err());
    memory.fill(0, 12, &[1, 2, 3]).unwrap();
    memory.copy_from(2, &memory, 0, 4).unwrap();
    let mut bytes = [0; 16];
    memory.read(0, &mut bytes).unwrap();
    assert_eq!(bytes, [1, 2, 1, 2, 3, 1, 1, 2, 3, 1, 2, 3, 0, 0, 0, 0]);
    assert!(memory.fill(0, 4, &[1, 2, 3]).is_err());
    assert!(memory.write(15, &[0, 0]).is_err());
    assert!(memory.read(u64::MAX, &mut bytes).is_err());
    assert!(memory.copy_from(0, &memory, 9, 8).is_err());
    assert!(HostMemory::allocate(u64::MAX).is_err());
    assert_eq!(HostMemory::allocate(0).unwrap().length(), 0);
}

/// Whatever earlier allocations left behind.
#[test]
fn allocations_are_zero_and_large_ones_begin_at_a_page() {
    for length in [1, 100, 4095, 4096, 5000, 65_535, 65_536, 65_537, 300_000] {
        for alignment in [0, 128, 4096, 8192] {
            for _ in 0..4 {
                let mut memory = HostMemory::allocate_aligned(length, alignment).unwrap();
                let expected = alignment.max(if length < 4096 { 64 } else { 4096 });
                assert!((memory.as_ptr().addr() as u64).is_multiple_of(expected), "{length}, {alignment}");
                let bytes = memory.exclusive_bytes().unwrap();
                assert!(bytes.len() as u64 == length && bytes.iter().all(|byte| *byte == 0));
                bytes.fill(0xFF);
            }
        }
    }
}

/// Empty buffers are imported and bound too.
#[test]
fn empty_allocations_are_aligned() {
    for alignment in [0, 1, 64, 4096] {
        let memory = Arc::new(HostMemory::allocate_aligned(0, alignment).unwrap());
        let part = HostMemory::part(&memory, memory.whole()).unwrap();
        assert!((part.as_ptr().addr() as u64).is_multiple_of(alignment.max(64)), "{alignment}");
    }
    assert!(HostMemory::allocate_aligned(0, 96).is_err());
}

#[test]
fn patterns_of_any_length_fill_ranges_of_any_length() {
    for pattern_bytes in [1, 2, 3, 4, 7, 8, 16, 1000, 4095, 4096, 4097] {
        let pattern: Vec<u8> = (0..pattern_bytes).map(|index| index as u8 ^ 0x5a).collect();
        for times in [0, 1, 2, 5] {
            let length = (pattern_bytes * times) as u64;
            let memory = HostMemory::allocate(length + 2).unwrap();
            memory.fill(1, length, &pattern).unwrap();
            let expected = [&[0], &pattern.repeat(times)[..], &[0]].concat();
            assert_eq!(
                *memory.bytes(memory.whole()).unwrap(),
                expected,
                "{pattern_bytes} bytes, {times} times"
            );
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "Miri maps no files")]
fn writes_to_private_memory_are_not_shared() {
    let path = std::env::temp_dir().join(format!("rehal-private-{}", std::process::id()));
    let bytes: Vec<u8> = (0..10_000).map(|index| (index % 251) as u8).collect();
    std::fs::write(&path, &bytes).unwrap();
    let file = Arc::new(MappedFile::open(&path).unwrap());
    let all = Range::new(0, 10_000).unwrap();
    let mapped = Arc::new(HostMemory::over_file(file, all).unwrap());
    let inner = Arc::new(HostMemory::part(&mapped, Range::new(4000, 5000).unwrap()).unwrap());
    let part = HostMemory::part(&inner, Range::new(100, 200).unwrap()).unwrap();
    let (private, again) = (part.private().unwrap(), part.private().unwrap());
    private.store(0, [1, 2]).unwrap();
    assert_eq!(private.load::<4>(0).unwrap(), [1, 2, bytes[4102], bytes[4103]]);
    assert_eq!(private.as_ptr().addr() % 4096, part.as_ptr().addr() % 4096);
    assert_eq!(again.load::<2>(0).unwrap(), [1, 2], "one private map for all");
    assert_eq!(part.load::<2>(0).unwrap(), bytes[4100..4102]);
    assert!(std::fs::read(&path).unwrap() == bytes);
    assert!(private.store(199, [1, 2]).is_err());
    assert!(private.into_constant().is_err(), "the other can write it");
    // Memory that is already private, or not backed by a file, is copied.
    let copy = again.private().unwrap();
    copy.store(0, [9]).unwrap();
    assert_eq!((again.load::<1>(0).unwrap(), copy.load::<2>(0).unwrap()), ([1], [9, 2]));
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn private_copies_of_constants_are_writable() {
    let constant = HostMemory::constant(&[5; 3]).unwrap();
    constant.private().unwrap().store(0, [6]).unwrap();
    assert_eq!(constant.load::<1>(0).unwrap(), [5]);
    assert_eq!(HostMemory::allocate(0).unwrap().private().unwrap().length(), 0);
}

#[test]
fn parts_share_bytes_and_constness() {
    let whole = Arc::new(HostMemory::allocate(16).unwrap());
    let part = HostMemory::part(&whole, Range::new(4, 8).unwrap()).unwrap();
    part.store(2, 0x0403_0201_u32.to_le_bytes()).unwrap();
    assert_eq!(whole.load::<4>(6).unwrap(), [1, 2, 3, 4]);
    assert!(part.store(5, [0; 4]).is_err());
    assert!(HostMemory::part(&whole, Range::new(9, 8).unwrap()).is_err());
    assert!(whole.constant_bytes().is_none());
    drop(whole);
    assert_eq!(part.load::<2>(2).unwrap(), [1, 2]);

    let constant = Arc::new(HostMemory::constant(&[1, 2, 3]).unwrap());
    let end = HostMemory::part(&constant, Range::new(1, 2).unwrap()).unwrap();
    assert_eq!(end.constant_bytes(), Some(&[2, 3][..]));
    assert_eq!(end.write(0, &[0]).unwrap_err().code(), StatusCode::PermissionDenied);
    assert!(end.fill(0, 2, &[0]).is_err() && end.store(0, [0]).is_err());
    assert!(end.into_constant().is_ok(), "it is already");
}

/// Safe code must not be able to write bytes that are borrowed as constant.
#[test]
fn shared_memory_cannot_become_constant() {
    let whole = Arc::new(HostMemory::allocate(16).unwrap());
    let mut part = HostMemory::part(&whole, Range::new(4, 8).unwrap()).unwrap();
    assert!(part.exclusive_bytes().is_none());
    assert_eq!(part.into_constant().err().unwrap().code(), StatusCode::FailedPrecondition);
    let mut alone = HostMemory::allocate(4).unwrap();
    alone.exclusive_bytes().unwrap().copy_from_slice(&[1, 2, 3, 4]);
    let mut constant = alone.into_constant().unwrap();
    assert_eq!(constant.constant_bytes(), Some(&[1, 2, 3, 4][..]));
    assert!(constant.exclusive_bytes().is_none());
}

#[test]
fn foreign_memory_drops_its_keeper_with_the_last_part() {
    struct Keeper(Arc<AtomicBool>, NonNull<[u8; 8]>);
    // SAFETY: it uniquely owns its allocation.
    unsafe impl Send for Keeper {}
    // SAFETY: a shared reference gives no access to the allocation.
    unsafe impl Sync for Keeper {}
    impl Drop for Keeper {
        fn drop(&mut self) {
            // SAFETY: the pointer came from a box and is freed once.
            drop(unsafe { Box::from_raw(self.1.as_ptr()) });
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let is_released = Arc::new(AtomicBool::new(false));
    let lend = |is_writable| {
        is_released.store(false, Ordering::Relaxed);
        let lent = NonNull::from(Box::leak(Box::new([3_u8; 8])));
        let keeper = Box::new(Keeper(is_released.clone(), lent));
        // SAFETY: the keeper owns the bytes until it is dropped, and does not access them before.
        unsafe { HostMemory::foreign(lent.cast(), 8, is_writable, keeper) }
    };
    let memory = Arc::new(lend(true));
    let part = HostMemory::part(&memory, Range::new(2, 4).unwrap()).unwrap();
    drop(memory);
    part.write(0, &[9]).unwrap();
    assert_eq!(part.load::<2>(0).unwrap(), [9, 3]);
    assert!(!is_released.load(Ordering::Relaxed));
    drop(part);
    assert!(is_released.load(Ordering::Relaxed));
    let mut borrowed = lend(false);
    assert!(borrowed.constant_bytes().is_none() && borrowed.exclusive_bytes().is_none());
    assert_eq!(borrowed.write(0, &[1]).unwrap_err().code(), StatusCode::PermissionDenied);
    assert!(borrowed.into_constant().is_err());
    assert!(is_released.load(Ordering::Relaxed));
}

#[test]
fn chunks_cover_all_bytes_in_order() {
    let length: u32 = if cfg!(miri) { 5000 } else { 200_000 };
    let bytes: Vec<u8> = (0..length).map(|index| (index % 251) as u8).collect();
    let memory = HostMemory::allocate(length.into()).unwrap();
    memory.write(0, &bytes).unwrap();
    for (offset, count) in [(0_u64, length), (3, 0), (3, 100), (1, 4096), (1, 4097), (7, length - 7)] {
        let mut found = Vec::new();
        let range = Range::new(offset, count.into()).unwrap();
        memory
            .for_each_chunk(range, |chunk| {
                assert!(chunk.len() <= CHUNK_BYTES);
                found.extend_from_slice(chunk);
                Ok::<_, Error>(())
            })
            .unwrap();
        assert!(found == bytes[offset as usize..][..count as usize]);
    }
    let beyond = Range::new(1, length.into()).unwrap();
    assert!(memory.for_each_chunk(beyond, |_| Ok::<_, Error>(())).is_err());
    assert!(memory.bytes(beyond).is_err());
    let stop = memory.for_each_chunk(memory.whole(), |_| Err(Error::not_found("here")));
    assert_eq!(stop.unwrap_err().code(), StatusCode::NotFound);
    // Constants are borrowed.
    let constant = memory.into_constant().unwrap();
    let mut times = 0;
    let look = |chunk: &[u8]| {
        times += 1;
        assert_eq!(chunk.as_ptr(), constant.as_ptr().cast_const());
        Ok::<_, Error>(())
    };
    constant.for_each_chunk(constant.whole(), look).unwrap();
    assert_eq!(times, 1);
    assert!(matches!(constant.bytes(constant.whole()).unwrap(), Cow::Borrowed(_)));
}

#[test]
fn equality_compares_all_bytes() {
    let length = 10_000;
    let (first, second) = (HostMemory::allocate(length).unwrap(), HostMemory::allocate(length).unwrap());
    for place in [0, 1, 4095, 4096, 9999] {
        assert!(first.is_equal(0, &second, 0, length).unwrap());
        second.store(place, [1]).unwrap();
        assert!(!first.is_equal(0, &second, 0, length).unwrap());
        assert!(first.is_equal(0, &second, 0, place).unwrap());
        second.store(place, [0]).unwrap();
    }
    assert!(first.is_equal(1, &second, 0, length).is_err() && first.is_equal(0, &second, 1, length).is_err());
}

/// Calls every function on the same bytes, from several threads, at several sizes. Each byte read is an old
/// or a new one; Miri and the thread sanitizer check the rest.
#[test]
fn races_yield_old_or_new_bytes() {
    let rounds = if cfg!(miri) { 3 } else { 300 };
    let memory = HostMemory::allocate(8192).unwrap();
    let run = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for thread in 0..4_u8 {
            let (memory, run) = (&memory, &run);
            scope.spawn(move || {
                run.fetch_add(1, Ordering::Relaxed);
                let value = 1 << thread;
                let mut own = vec![0; if cfg!(miri) { 100 } else { 5000 }];
                for round in 0..rounds {
                    let offset = round % 64;
                    memory.store(offset, [value; 8]).unwrap();
                    memory.store(offset + 2, [value; 1]).unwrap();
                    memory.store(offset + 3, [value; 4]).unwrap();
                    memory.fill(offset, 96, &[value, value]).unwrap();
                    memory.write(offset, &own).unwrap();
                    memory.copy_from(offset + 1, memory, offset, own.len() as u64).unwrap();
                    memory.copy_from(offset, memory, offset + 1, own.len() as u64).unwrap();
                    memory.read(offset, &mut own).unwrap();
                    memory.is_equal(offset, memory, offset + 7, 100).unwrap();
                    assert!(own.iter().all(|byte| *byte < 16));
                    assert!(memory.load::<8>(offset).unwrap().iter().all(|byte| *byte < 16));
                    assert!(memory.load::<2>(offset + 1).unwrap().iter().all(|byte| *byte < 16));
                }
            });
        }
    });
    assert_eq!(run.into_inner(), 4);
}

#[test]
#[cfg_attr(miri, ignore = "Miri maps no files")]
fn file_memory_is_zero_copy() {
    let path = std::env::temp_dir().join(format!("rehal-memory-{}", std::process::id()));
    std::fs::write(&path, [1, 2, 3, 4]).unwrap();
    let file = Arc::new(MappedFile::open(&path).unwrap());
    std::fs::remove_file(&path).unwrap();
    let memory = HostMemory::over_file(file.clone(), Range::new(1, 3).unwrap()).unwrap();
    assert_eq!(memory.as_ptr().cast_const(), file.bytes()[1..].as_ptr());
    assert_eq!(memory.constant_bytes(), Some(&[2, 3, 4][..]));
    assert!(memory.write(0, &[0]).is_err());
    assert!(HostMemory::over_file(file, Range::new(1, 4).unwrap()).is_err());
}

/// An unlinked file, deleted with its last handle.
fn scratch_file(name: &str, bytes: &[u8]) -> File {
    let path = std::env::temp_dir().join(format!("rehal-{name}-{}", std::process::id()));
    std::fs::write(&path, bytes).unwrap();
    let file = File::options().read(true).write(true).open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    file
}

#[test]
fn bytes_round_trip_through_files() {
    use std::io::{Read, Seek, SeekFrom};
    let mut file = scratch_file("transfer", &[9; 10]);
    let memory = HostMemory::allocate(100).unwrap();
    memory.write(0, &(0..100).collect::<Vec<u8>>()).unwrap();
    memory.write_file_at(&file, 8, Range::new(10, 5).unwrap()).unwrap().unwrap();
    memory.write_file(&file, Range::new(20, 2).unwrap()).unwrap().unwrap();
    let mut all = Vec::new();
    file.seek(SeekFrom::Start(0)).unwrap();
    file.read_to_end(&mut all).unwrap();
    assert_eq!(all, [20, 21, 9, 9, 9, 9, 9, 9, 10, 11, 12, 13, 14]);
    memory.read_file_at(&file, 7, Range::new(90, 3).unwrap()).unwrap().unwrap();
    assert_eq!(memory.load::<4>(89).unwrap(), [89, 9, 10, 11]);
    memory.read_from(&mut &all[8..], Range::new(0, 5).unwrap()).unwrap().unwrap();
    assert_eq!(memory.load::<6>(0).unwrap(), [10, 11, 12, 13, 14, 5]);

    let end = |outcome: Result<std::io::Result<()>>| outcome.unwrap().unwrap_err().kind();
    let range = Range::new(0, 6).unwrap();
    assert_eq!(end(memory.read_file_at(&file, 8, range)), std::io::ErrorKind::UnexpectedEof);
    assert_eq!(end(memory.read_from(&mut &all[8..], range)), std::io::ErrorKind::UnexpectedEof);
    assert_eq!(end(memory.read_file_at(&file, u64::MAX, range)), std::io::ErrorKind::InvalidInput);
    let beyond = Range::new(95, 6).unwrap();
    assert_eq!(memory.read_file_at(&file, 0, beyond).unwrap_err().code(), StatusCode::OutOfRange);
    assert_eq!(memory.write_file(&file, beyond).unwrap_err().code(), StatusCode::OutOfRange);
    assert_eq!(memory.read_from(&mut &all[..], beyond).unwrap_err().code(), StatusCode::OutOfRange);
    let constant = memory.into_constant().unwrap();
    assert_eq!(constant.read_file_at(&file, 0, range).unwrap_err().code(), StatusCode::PermissionDenied);
    constant.write_file_at(&file, 0, range).unwrap().unwrap();
}

#[test]
#[cfg_attr(miri, ignore = "32 MiB take hours")]
fn large_reads_do_not_depend_on_how_they_are_split() {
    let bytes: Vec<u8> = (0..(32 << 20) / 4 + 1000_u32).flat_map(u32::to_le_bytes).collect();
    let file = scratch_file("large", &bytes);
    let length = bytes.len() as u64 - 3;
    let memory = HostMemory::allocate(length + 1).unwrap();
    let range = Range::new(1, length).unwrap();
    memory.read_file_at(&file, 3, range).unwrap().unwrap();
    assert!(*memory.bytes(range).unwrap() == bytes[3..]);
    let beyond = memory.read_file_at(&file, 4, range).unwrap().unwrap_err();
    assert_eq!(beyond.kind(), std::io::ErrorKind::UnexpectedEof);
}

/// A large read succeeds even if no threads can be spawned. Runs in a child process, since the limit is
/// process-wide.
#[test]
#[cfg_attr(miri, ignore = "Miri starts no processes")]
fn large_reads_work_without_threads() {
    const LIMITED: &str = "REHAL_TEST_LIMITED_ADDRESS_SPACE";
    if std::env::var_os(LIMITED).is_none() {
        let mut test = std::process::Command::new(std::env::current_exe().unwrap());
        let name = "memory::tests::large_reads_work_without_threads";
        let output = test.args(["--exact", name]).env(LIMITED, "1").output().unwrap();
        return assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
    let length = 33 << 20;
    let file = scratch_file("limited", &[]);
    file.set_len(length).unwrap();
    crate::platform::FileExt::write_at(&file, &[5], length - 1).unwrap();
    let memory = HostMemory::allocate(length).unwrap();
    memory.fill(0, length, &[9]).unwrap();
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: both calls access only this structure.
    let outcome = unsafe {
        libc::getrlimit(libc::RLIMIT_AS, &raw mut limit);
        limit.rlim_cur = 1 << 20;
        libc::setrlimit(libc::RLIMIT_AS, &raw const limit)
    };
    assert_eq!(outcome, 0);
    assert!(std::thread::Builder::new().spawn(|| ()).is_err(), "there is room for a thread");
    memory.read_file_at(&file, 0, memory.whole()).unwrap().unwrap();
    assert_eq!(memory.load::<2>(length - 2).unwrap(), [0, 5]);
    assert!(memory.is_equal(0, &memory, 1, 1000).unwrap());
    assert_eq!(memory.load::<1>(0).unwrap(), [0]);
}

/// Writes through the address, as a kernel does.
#[test]
#[cfg(not(miri))]
fn writes_next_to_guarded_memory_are_found() {
    for page in [None, Some(16 << 10), Some(64 << 10)] {
        crate::platform::PAGE_BYTES.set(page);
        find_writes_next_to_guarded_memory();
    }
}

#[cfg(not(miri))]
fn find_writes_next_to_guarded_memory() {
    for (length, alignment) in
        [(16, 0), (1, 256), (4095, 64), (4096, 64), (5000, 8192), (8192 + 100, 0), (100 << 10, 0)]
    {
        let memory = HostMemory::allocate_guarded(length, alignment, None).unwrap();
        assert!(memory.as_ptr().addr().is_multiple_of((alignment as usize).max(64)));
        assert!(memory.bytes(memory.whole()).unwrap().iter().all(|byte| *byte == 0));
        memory.fill(0, length, &[0xff]).unwrap();
        assert_eq!(memory.take_overrun(), None);
        let end = memory.as_ptr().wrapping_add(length as usize);
        let unused = end.addr().wrapping_neg() % PAGE_BYTES;
        for value in [0, 1, 0x7f] {
            if unused == 0 {
                break;
            }
            for addresses in [end.addr()..end.addr() + 1, end.addr() + unused - 1..end.addr() + unused] {
                let at = end.wrapping_add(addresses.start - end.addr());
                // SAFETY: the byte is in the pages of the memory, which lives; nothing else accesses it.
                unsafe { at.write_volatile(value) };
                assert_eq!(memory.take_overrun(), Some(Overrun { is_after: true, addresses }));
                assert_eq!(memory.take_overrun(), None, "once");
            }
        }
        if length < PAGE_BYTES as u64 && !memory.as_ptr().addr().is_multiple_of(PAGE_BYTES) {
            let before = memory.as_ptr().wrapping_sub(4);
            // SAFETY: as above.
            unsafe { before.cast::<f32>().write_volatile(7.25) };
            let part = HostMemory::part(&Arc::new(memory), Range { offset: 0, length: 1 }).unwrap();
            let addresses = before.addr()..before.addr() + 4;
            assert_eq!(part.take_overrun(), Some(Overrun { is_after: false, addresses }));
        }
    }
}

/// Pages that were freed are used again, without what was in them.
#[test]
fn guarded_memory_is_zeroed_when_it_is_used_again() {
    for length in [100, 70 << 10] {
        for _ in 0..3 {
            let mut memory = HostMemory::allocate_guarded(length, 0, None).unwrap();
            assert!(memory.bytes(memory.whole()).unwrap().iter().all(|byte| *byte == 0));
            memory.exclusive_bytes().unwrap().fill(7);
            assert_eq!(memory.into_constant().unwrap().constant_bytes().unwrap()[99], 7);
        }
    }
    assert_eq!(HostMemory::allocate_guarded(0, 0, None).unwrap().length(), 0);
    assert!(HostMemory::allocate_guarded(1, 65, None).is_err());
    assert!(HostMemory::allocate_guarded(u64::MAX, 0, None).is_err());
}

/// A file of 8 MiB, open for reading, in which no two pages or words at one place of a page are equal.
fn large_file(name: &str) -> (Arc<MappedFile>, Vec<u8>) {
    let bytes: Vec<u8> =
        (0..(8 << 20) / 4_u32).flat_map(|at| (at.wrapping_mul(0x9E37_79B1)).to_le_bytes()).collect();
    let path = std::env::temp_dir().join(format!("rehal-{name}-{}", std::process::id()));
    std::fs::write(&path, &bytes).unwrap();
    let file = File::open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    (Arc::new(MappedFile::from_file(file, &path).unwrap()), bytes)
}

/// Whatever is mapped, the bytes are the file's, those around them stay, and the file never changes.
#[test]
#[cfg_attr(miri, ignore = "Miri does not support mapping files")]
fn memory_that_is_a_files_behaves_as_a_copy() {
    let (file, bytes) = large_file("mapped");
    let mut mapped_count = 0;
    for at in [0_u64, 4, 64, 4032, (3 << 20) + 64] {
        for hint in [None, Some(at.wrapping_sub(64)), Some(at.wrapping_sub(256)), Some(0)] {
            for (offset, length) in [(0, 2 << 20), (192, (4 << 20) + 123), (192, (1 << 20) - 1), (64, 5000)] {
                for is_guarded in [false, true] {
                    let memory = match is_guarded {
                        false => HostMemory::allocate_for_file(5 << 20, 0, hint),
                        true => HostMemory::allocate_guarded(5 << 20, 0, hint),
                    };
                    let memory = Arc::new(memory.unwrap());
                    assert!(memory.as_ptr().addr().is_multiple_of(64));
                    let part = HostMemory::part(&memory, Range { offset: 64, ..memory.whole() });
                    assert!(part.is_err(), "longer than the memory");
                    let range = Range { offset: 64, length: memory.length() - 64 };
                    let part = HostMemory::part(&memory, range).unwrap();
                    memory.fill(0, memory.length(), &[0xA5]).unwrap();
                    let target = Range { offset: offset + 64, length };
                    let is_mapped = part.map_file_at(&file, at, Range { offset, length }).unwrap().unwrap();
                    let fits = (memory.as_ptr().addr() as u64 + target.offset) % 4096 == at % 4096;
                    let is_expected = fits && length > (1 << 20) + 8192 && (hint.is_some() || is_guarded);
                    assert_eq!(
                        is_mapped,
                        is_expected && cfg!(target_os = "linux"),
                        "{at} {hint:?} {target:?}"
                    );
                    mapped_count += u32::from(is_mapped);
                    let expected = |at: u64, read: &[u8]| {
                        let all = memory.bytes(memory.whole()).unwrap();
                        let (before, rest) = all.split_at(target.offset as usize);
                        let (inside, after) = rest.split_at(length as usize);
                        assert!(inside == read, "{at} {hint:?} {target:?}");
                        assert!(before.iter().chain(after).all(|byte| *byte == 0xA5));
                    };
                    expected(at, &bytes[at as usize..][..length as usize]);
                    // What is read over it, at another place in the page, and what is written.
                    let mut both = bytes[at as usize..][..length as usize].to_vec();
                    part.read_file_at(file.file(), 3, Range { offset: offset + 9, length: 4000 })
                        .unwrap()
                        .unwrap();
                    both[9..4009].copy_from_slice(&bytes[3..4003]);
                    part.write(offset + 4500, &[1, 2, 3]).unwrap();
                    both[4500..4503].copy_from_slice(&[1, 2, 3]);
                    expected(at, &both);
                    let mut own = part.to_copy(Range { offset: 64, ..part.whole() }).err();
                    assert!(own.take().is_some(), "longer than the memory");
                    let own = part.to_copy(Range { offset, length }).unwrap();
                    let mut own = OwnBytes::new(own).unwrap();
                    assert!(*own == both);
                    let cut = Range { offset: 100, length: length / 2 };
                    assert!(*own.part(cut).unwrap() == both[100..][..cut.length as usize]);
                    own.fill(0x77);
                    expected(at, &both);
                    assert_eq!(memory.take_overrun(), None);
                }
            }
        }
    }
    assert!(mapped_count >= 20 || !cfg!(target_os = "linux"), "{mapped_count}");
    let mut read = vec![0; bytes.len()];
    crate::platform::FileExt::read_exact_at(file.file(), &mut read, 0).unwrap();
    assert!(read == bytes);
    let memory = HostMemory::allocate_for_file(5 << 20, 0, Some(0)).unwrap();
    assert!(memory.bytes(memory.whole()).unwrap().iter().all(|byte| *byte == 0), "not the file's");
    let beyond = memory.map_file_at(&file, 4 << 20, memory.whole()).unwrap().unwrap_err();
    assert_eq!(beyond.kind(), std::io::ErrorKind::UnexpectedEof);
    let beyond = Range { offset: 1, length: 5 << 20 };
    assert_eq!(memory.map_file_at(&file, 0, beyond).unwrap_err().code(), StatusCode::OutOfRange);
    let memory = HostMemory::allocate_for_file(2 << 20, 4096, Some(64)).unwrap();
    assert!(memory.as_ptr().addr().is_multiple_of(4096), "the alignment has precedence");
    assert!(HostMemory::allocate_for_file(u64::MAX, 0, Some(64)).is_err());
}

/// A file that the process may write is read.
#[test]
#[cfg_attr(miri, ignore = "Miri does not support mapping files")]
fn a_file_that_is_open_for_writing_is_copied() {
    let memory = HostMemory::allocate_for_file(2 << 20, 0, Some(0)).unwrap();
    let written = scratch_file("writable", &vec![3; 2 << 20]);
    let written = Arc::new(MappedFile::from_file(written, std::path::Path::new("written")).unwrap());
    assert!(!memory.map_file_at(&written, 0, memory.whole()).unwrap().unwrap());
    assert_eq!(memory.load::<1>((2 << 20) - 1).unwrap(), [3]);
}

/// A process has only so many mappings. Runs in a child process, which uses them up.
#[test]
#[cfg(all(target_os = "linux", not(miri)))]
fn a_process_without_mappings_left_copies() {
    const IS_CHILD: &str = "REHAL_TEST_MAPPINGS";
    if std::env::var_os(IS_CHILD).is_none() {
        let mut test = std::process::Command::new(std::env::current_exe().unwrap());
        let name = "memory::tests::a_process_without_mappings_left_copies";
        let output = test.args(["--exact", name]).env(IS_CHILD, "1").output().unwrap();
        return assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
    let (file, bytes) = large_file("many");
    let memory = HostMemory::allocate_for_file(4 << 20, 0, Some(64)).unwrap();
    let limit = std::fs::read_to_string("/proc/sys/vm/max_map_count").unwrap();
    let limit: usize = limit.trim().parse().unwrap();
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a fresh mapping, which nothing uses; its pages get different protections.
    let is_used_up = unsafe {
        let start = libc::mmap(std::ptr::null_mut(), 4096 * 2 * limit, libc::PROT_NONE, flags, -1, 0);
        assert_ne!(start, libc::MAP_FAILED);
        (0..limit).any(|at| libc::mprotect(start.byte_add(at * 8192), 4096, libc::PROT_READ) != 0)
    };
    assert!(is_used_up);
    let is_mapped = memory.map_file_at(&file, 64, memory.whole()).unwrap().unwrap();
    assert!(!is_mapped && *memory.bytes(memory.whole()).unwrap() == bytes[64..][..4 << 20]);
}

/// A process may have only so many mappings, and needs some for its allocations.
#[test]
#[cfg(target_os = "linux")]
#[cfg_attr(miri, ignore = "Miri does not support mapping files")]
fn so_many_ranges_are_mapped_and_more_are_copied() {
    const MOST: u64 = 16 << 10;
    let (file, bytes) = large_file("many");
    let length = (1 << 20) + 4096;
    // Pages that are not used take no memory.
    let memory = HostMemory::allocate_for_file((MOST + 3) * length, 0, Some(0)).unwrap();
    let range = |at: u64| Range { offset: at * length, length };
    let map = |at: u64| memory.map_file_at(&file, (at % 16) * 4096, range(at)).unwrap().unwrap();
    let is_mapped: Vec<bool> = (0..MOST + 2).map(map).collect();
    assert!(is_mapped[..MOST as usize].iter().all(|it| *it));
    assert_eq!(is_mapped[MOST as usize..], [false; 2]);
    for at in [0, MOST - 1, MOST, MOST + 1] {
        let expected = &bytes[(at % 16) as usize * 4096..][..length as usize];
        assert!(*memory.bytes(range(at)).unwrap() == *expected, "{at}");
    }
    // What is read again takes the place of what was there, and what is freed counts no longer.
    assert!(map(5) && !map(MOST));
    drop(memory);
    let memory = HostMemory::allocate_for_file(2 * length, 0, Some(0)).unwrap();
    for _ in 0..MOST + 2 {
        let is_mapped = memory.map_file_at(&file, 0, Range { offset: 0, length }).unwrap().unwrap();
        assert!(is_mapped);
    }
}

/// No addition is lost, and an exchange that expected another value stores nothing.
#[test]
fn exchanges_are_atomic() {
    fn count<const N: usize>() {
        let memory = HostMemory::allocate(64).unwrap();
        let (threads, times) = (3, if cfg!(miri) { 20 } else { 20_000_u32 });
        let wide = |bytes: [u8; N]| bytes.iter().rev().fold(0, |all, it| all << 8 | u64::from(*it));
        let narrow = |value: u64| -> [u8; N] { std::array::from_fn(|it| value.to_le_bytes()[it]) };
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    for _ in 0..times {
                        let mut before = memory.load::<N>(16).unwrap();
                        while let found =
                            memory.compare_exchange(16, before, narrow(wide(before) + 1)).unwrap()
                            && found != before
                        {
                            before = found;
                        }
                    }
                });
            }
        });
        let expected = u64::from(threads * times) & (u64::MAX >> (64 - 8 * N));
        assert_eq!(wide(memory.load::<N>(16).unwrap()), expected);
        let found = memory.compare_exchange(16, narrow(expected + 1), [7; N]).unwrap();
        assert_eq!((wide(found), memory.load::<N>(16).unwrap()), (expected, narrow(expected)));
        assert!(memory.compare_exchange(17, [0; N], [1; N]).unwrap_err().report().contains("misaligned"));
        assert!(memory.compare_exchange(64, [0; N], [1; N]).is_err());
        assert!(memory.load::<8>(8).unwrap() == [0; 8] && memory.load::<8>(24).unwrap() == [0; 8]);
    }
    count::<2>();
    count::<4>();
    count::<8>();
    let constant = HostMemory::constant(&[0; 8]).unwrap();
    let error = constant.compare_exchange(0, [0; 4], [1; 4]).unwrap_err();
    assert_eq!(error.code(), StatusCode::PermissionDenied);
}
