//! Files that are removed when a signal or a crash ends the process: one list for both, which a signal
//! handler can walk.

use std::ffi::{CStr, CString};
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rehal_base::{platform, remove_directory};

/// The list grows at its front and never shrinks; slots are used again.
static FIRST: AtomicPtr<Slot> = AtomicPtr::new(ptr::null_mut());

/// Locked while temporary files are created, renamed or removed, and from [`remove_all`] on.
static CHANGES: Mutex<()> = Mutex::new(());

struct Slot {
    /// Of [`Box::into_raw`], or null. What takes it out owns it.
    entry: AtomicPtr<Entry>,
    /// Constant once the slot is in the list.
    next: AtomicPtr<Slot>,
}

struct Entry {
    what: What,
    stays: Stays,
}

enum What {
    /// A process with all that it has started.
    ProcessGroup(i32),
    File(CString),
    /// A directory with what it contains, and the name that it gets before: threads that write to it find
    /// none then.
    Tree(CString, CString),
    /// A directory that is removed if it is empty, after everything else.
    EmptyDirectory(CString),
}

/// When a file or a directory is kept although the process is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stays {
    /// It is removed whenever the process is ended.
    Never,
    /// It is a part of a result that is of use after a crash, and is removed only by [`remove_all`].
    AfterCrash,
}

/// An entry of the list: the guard and [`remove_all`] remove it when the process is ended.
///
/// Dropping it takes the entry off the list and removes no file. Create, rename and remove a file in
/// [`change`], together with its entry.
#[derive(Debug)]
pub struct Removal {
    /// `None` for a path that the system could not open either.
    slot: Option<&'static Slot>,
}

impl std::fmt::Debug for Slot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Slot")
    }
}

impl Removal {
    /// A file, which need not exist yet.
    pub fn file(path: &Path, stays: Stays) -> Self {
        Self { slot: text(path).map(|path| slot(What::File(path), stays)) }
    }

    /// A directory with all files and directories that it then contains, at most 8 levels deep. Need not
    /// exist yet.
    pub fn directory(path: &Path) -> Self {
        let mut aside = path.as_os_str().to_owned();
        aside.push(".removed");
        let paths = text(path).zip(text(Path::new(&aside)));
        Self { slot: paths.map(|(path, aside)| slot(What::Tree(path, aside), Stays::Never)) }
    }

    /// A directory, if it is empty when all else is removed. Need not exist yet.
    pub fn empty_directory(path: &Path, stays: Stays) -> Self {
        Self { slot: text(path).map(|path| slot(What::EmptyDirectory(path), stays)) }
    }

    /// The processes of a group, which are killed first: they may write to what is removed.
    pub fn process_group(id: i32) -> Self {
        // 0 would be the group of this process, and -1 all processes.
        Self { slot: (id > 1).then(|| slot(What::ProcessGroup(id), Stays::Never)) }
    }
}

impl Drop for Removal {
    fn drop(&mut self) {
        if let Some(slot) = self.slot {
            drop(slot.take());
        }
    }
}

/// Creates, renames or removes temporary files, and what stands for them in the list: no signal ends the
/// process in between. The guard, which takes no lock, may.
pub fn change<T>(change: impl FnOnce() -> T) -> T {
    let _changes = lock();
    change()
}

/// Kills the processes and removes all files and directories of the list, for a process that is about to end:
/// from then on, threads that call [`change`] wait forever. Must not be called from a signal handler.
pub fn remove_all() {
    // A thread that fails since its directory is gone must not end the process before all are removed, nor
    // report that.
    std::mem::forget(lock());
    remove(|_| true);
}

/// The same after a crash; async-signal-safe.
pub(crate) fn remove_after_crash() {
    remove(|stays| stays == Stays::Never);
}

/// Empties the list, in the copy of a process: what is in it is that one's.
pub fn forget_removals() {
    slots().for_each(|slot| drop(slot.take()));
}

fn lock() -> MutexGuard<'static, ()> {
    CHANGES.lock().unwrap_or_else(PoisonError::into_inner)
}

fn text(path: &Path) -> Option<CString> {
    CString::new(path.as_os_str().as_encoded_bytes()).ok()
}

impl Slot {
    /// The entry in the slot, which is free then.
    fn take(&self) -> Option<Box<Entry>> {
        let entry = self.entry.swap(ptr::null_mut(), Ordering::AcqRel);
        // SAFETY: a pointer that is not null was made by `into_raw`, and only this exchange has returned it.
        (!entry.is_null()).then(|| unsafe { Box::from_raw(entry) })
    }

    /// Puts an entry into the slot if it is free.
    fn put(&self, entry: *mut Entry) -> bool {
        self.entry.compare_exchange(ptr::null_mut(), entry, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
}

/// Puts an entry into a slot that is free, or into a new one.
fn slot(what: What, stays: Stays) -> &'static Slot {
    let entry = Box::into_raw(Box::new(Entry { what, stays }));
    if let Some(free) = slots().find(|slot| slot.put(entry)) {
        return free;
    }
    let slot: &'static Slot =
        Box::leak(Box::new(Slot { entry: AtomicPtr::new(entry), next: AtomicPtr::default() }));
    let mut first = FIRST.load(Ordering::Acquire);
    loop {
        slot.next.store(first, Ordering::Relaxed);
        let new = ptr::from_ref(slot).cast_mut();
        match FIRST.compare_exchange_weak(first, new, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return slot,
            Err(now) => first = now,
        }
    }
}

/// The slots of the list; async-signal-safe.
fn slots() -> impl Iterator<Item = &'static Slot> {
    // SAFETY: pointers of the list are null or to a slot that was leaked, and is never accessed mutably.
    let next = |slot: &AtomicPtr<Slot>| unsafe { slot.load(Ordering::Acquire).as_ref() };
    std::iter::successors(next(&FIRST), move |slot| next(&slot.next))
}

/// Removes what `is_removed` says, in this order: processes, files and trees, empty directories.
/// Async-signal-safe.
fn remove(is_removed: impl Fn(Stays) -> bool) {
    let each = |act: &dyn Fn(&What) -> bool| {
        let mut has_acted = false;
        for slot in slots() {
            let Some(entry) = slot.take() else { continue };
            // It is not freed: the allocator may be in use by the thread that was interrupted.
            let entry = Box::leak(entry);
            let is_done = is_removed(entry.stays) && act(&entry.what);
            has_acted |= is_done;
            if !is_done && !slot.put(entry) {
                // Another thread has taken the slot.
                slots().any(|slot| slot.put(entry));
            }
        }
        has_acted
    };
    each(&|what| match what {
        What::ProcessGroup(id) => {
            platform::kill_group(*id);
            true
        }
        _ => false,
    });
    each(&|what| match what {
        What::File(path) => {
            platform::remove_file(path);
            true
        }
        What::Tree(path, aside) => {
            remove_tree(path, aside);
            true
        }
        _ => false,
    });
    let remove_empty = |what: &What| match what {
        What::EmptyDirectory(path) => platform::remove_empty(path),
        _ => false,
    };
    // One may contain another.
    while each(&remove_empty) {}
}

/// Removes a directory although other threads create files in it. Async-signal-safe.
fn remove_tree(path: &CStr, aside: &CStr) {
    /// Attempts to remove a directory that another thread writes to.
    const ATTEMPTS: u32 = 100;
    let is_aside = platform::rename(path, aside);
    let path = if is_aside { aside } else { path };
    for _ in 0..ATTEMPTS {
        if remove_directory(path) {
            return;
        }
        // A file whose name was resolved before may still be created.
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::atomic::AtomicBool;

    use super::*;

    /// Tests of one process share the list.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

    fn alone() -> MutexGuard<'static, ()> {
        ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[test]
    fn slots_are_used_again_by_many_threads() {
        let _alone = alone();
        let work = || {
            for number in 0..200 {
                let file = Removal::file(Path::new(&format!("no/such/file/{number}")), Stays::Never);
                assert!(file.slot.is_some_and(|it| !it.entry.load(Ordering::Relaxed).is_null()));
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(work);
            }
        });
        assert!(slots().count() <= 8 + 3, "more than all tests use at a time");
        assert!(slots().all(|slot| slot.entry.load(Ordering::Relaxed).is_null()));
        assert!(Removal::file(Path::new("a\0b"), Stays::Never).slot.is_none());
        assert!(Removal::process_group(0).slot.is_none() && Removal::process_group(-1).slot.is_none());
    }

    #[test]
    fn what_is_listed_is_removed_unless_it_stays() {
        let _alone = alone();
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        fs::create_dir_all(path("a/b")).unwrap();
        fs::create_dir_all(path("tree/inner")).unwrap();
        for name in ["temporary", "a/b/result", "tree/inner/file", "kept", "dropped"] {
            fs::write(path(name), "x").unwrap();
        }
        let listed = [
            Removal::empty_directory(&path("a"), Stays::AfterCrash),
            Removal::empty_directory(&path("a/b"), Stays::AfterCrash),
            Removal::file(&path("temporary"), Stays::Never),
            Removal::file(&path("a/b/result"), Stays::AfterCrash),
            Removal::directory(&path("tree")),
            Removal::file(&path("missing"), Stays::Never),
        ];
        drop(Removal::file(&path("dropped"), Stays::Never));
        let left = || {
            let mut names: Vec<_> = fs::read_dir(directory.path())
                .unwrap()
                .map(|it| it.unwrap().file_name().into_string().unwrap())
                .collect();
            names.sort();
            names
        };
        remove_after_crash();
        assert_eq!(left(), ["a", "dropped", "kept"]);
        assert!(path("a/b/result").exists());
        remove(|_| true);
        assert_eq!(left(), ["dropped", "kept"]);
        drop(listed);
    }

    #[test]
    fn a_process_group_is_killed() {
        use std::os::unix::process::{CommandExt, ExitStatusExt};

        let _alone = alone();
        let mut child = std::process::Command::new("sleep").arg("600").process_group(0).spawn().unwrap();
        let group = Removal::process_group(i32::try_from(child.id()).unwrap());
        remove_after_crash();
        assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGKILL));
        drop(group);
    }

    #[test]
    fn a_directory_that_is_written_to_is_removed() {
        let parent = tempfile::tempdir().unwrap();
        for _ in 0..20 {
            let path = parent.path().join(".rehal-x");
            let inner = path.join("exported");
            fs::create_dir_all(&inner).unwrap();
            let is_writing = AtomicBool::new(false);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let mut number = 0;
                    while fs::write(inner.join(format!("{number}")), "x").is_ok() {
                        is_writing.store(true, Ordering::Relaxed);
                        number += 1;
                    }
                });
                while !is_writing.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
                let aside = parent.path().join("aside");
                remove_tree(&text(&path).unwrap(), &text(&aside).unwrap());
                assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
            });
        }
    }
}
