use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::atomic::{Ordering, compiler_fence};

/// The bytes of a note that are kept.
const LIMIT: usize = 400;

/// The activity of a thread.
#[derive(Clone, Copy)]
struct Note {
    bytes: [u8; LIMIT],
    length: usize,
    advice: &'static str,
}

/// Replaces the note of this thread. A signal that comes meanwhile finds none: it could find a part of each.
fn replace(note: Note) -> Note {
    IS_CHANGING.set(true);
    compiler_fence(Ordering::SeqCst);
    let previous = CURRENT.replace(note);
    compiler_fence(Ordering::SeqCst);
    IS_CHANGING.set(false);
    previous
}

thread_local! {
    static IS_CHANGING: Cell<bool> = const { Cell::new(false) };
    static CURRENT: Cell<Note> = const { Cell::new(Note { bytes: [0; LIMIT], length: 0, advice: "" }) };
}

/// While it lives, the report of a crash of this thread says what it is doing: it calls code of others with
/// input that may be too much for it, such as a driver that compiles a kernel.
pub struct CrashNote {
    previous: Note,
    /// The note is this thread's.
    _not_send: PhantomData<*const ()>,
}

impl CrashNote {
    /// Notes what the thread is doing, such as `compiling function 'f'`, in parts that are joined, and what
    /// to do about a crash. Long texts are truncated.
    pub fn new(what: &[&str], advice: &'static str) -> Self {
        let mut note = Note { bytes: [0; LIMIT], length: 0, advice };
        for part in what {
            let rest = &mut note.bytes[note.length..];
            let length = part.len().min(rest.len());
            rest[..length].copy_from_slice(&part.as_bytes()[..length]);
            note.length += length;
        }
        Self { previous: replace(note), _not_send: PhantomData }
    }

    /// Passes what this thread is doing, and the advice, to `visit`; returns `None` if there is no note. For
    /// signal handlers: it neither allocates nor locks. The bytes may end within a character.
    pub fn with_current<T>(visit: impl FnOnce(&[u8], &'static str) -> T) -> Option<T> {
        if IS_CHANGING.try_with(Cell::get).unwrap_or(true) {
            return None;
        }
        let note = CURRENT.try_with(Cell::get).ok().filter(|note| note.length != 0)?;
        Some(visit(&note.bytes[..note.length.min(LIMIT)], note.advice))
    }
}

impl Drop for CrashNote {
    fn drop(&mut self) {
        replace(self.previous);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn current() -> Option<(String, &'static str)> {
        CrashNote::with_current(|what, advice| (String::from_utf8_lossy(what).into_owned(), advice))
    }

    #[test]
    fn the_innermost_note_of_a_thread_counts() {
        assert_eq!(current(), None);
        let outer = CrashNote::new(&["out", "er"], "a");
        {
            let _inner = CrashNote::new(&["long ", &"long ".repeat(1000)], "b");
            assert_eq!(current(), Some(("long ".repeat(LIMIT / 5), "b")));
            assert!(std::thread::spawn(current).join().unwrap().is_none());
        }
        assert_eq!(current(), Some(("outer".into(), "a")));
        drop(outer);
        assert_eq!(current(), None);
    }
}
