use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use crate::note_step;

/// The 8-byte words of a description that are kept.
const WORDS: usize = 24;

/// Work in flight.
static COUNT: AtomicUsize = AtomicUsize::new(0);
/// The description of the last, up to a zero byte.
static LAST: [AtomicU64; WORDS] = [const { AtomicU64::new(0) }; WORDS];
/// Whether a thread writes that.
static IS_WRITING: AtomicBool = AtomicBool::new(false);

/// While it lives, a driver executes work in threads of its own, as those of devices that are software do:
/// the report of a crash of such a thread names what was submitted last.
#[derive(Debug)]
pub struct DriverWork(PhantomData<()>);

impl DriverWork {
    /// Work begins; its description, such as `dispatch of 'f'`, is what the parts make together. Long ones
    /// are truncated.
    pub fn new(parts: &[&str]) -> Self {
        COUNT.fetch_add(1, Ordering::Relaxed);
        note_step();
        // Of two threads that submit at the same time, either is the last.
        if !IS_WRITING.swap(true, Ordering::Acquire) {
            let mut bytes = parts.iter().flat_map(|part| part.bytes()).filter(|byte| *byte != 0);
            for word in &LAST {
                let text = std::array::from_fn(|_| bytes.next().unwrap_or(0));
                word.store(u64::from_ne_bytes(text), Ordering::Relaxed);
                if text[7] == 0 {
                    break;
                }
            }
            IS_WRITING.store(false, Ordering::Release);
        }
        Self(PhantomData)
    }

    /// Passes what was submitted last to `visit`; returns `None` if no work is in flight. For signal
    /// handlers: it neither allocates nor locks. The bytes may end within a character, and be of two
    /// descriptions if one is being written.
    pub fn with_last<T>(visit: impl FnOnce(&[u8]) -> T) -> Option<T> {
        if COUNT.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let mut bytes = [0; 8 * WORDS];
        for (chunk, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(&LAST) {
            *chunk = word.load(Ordering::Relaxed).to_ne_bytes();
        }
        let length = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        Some(visit(bytes.get(..length).unwrap_or_default()))
    }
}

impl Drop for DriverWork {
    fn drop(&mut self) {
        COUNT.fetch_sub(1, Ordering::Relaxed);
        note_step();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn last() -> Option<String> {
        DriverWork::with_last(|text| String::from_utf8_lossy(text).into_owned())
    }

    #[test]
    fn the_last_work_is_known_while_any_is_in_flight() {
        assert_eq!(last(), None);
        let first = DriverWork::new(&["dispatch of '", &"long ".repeat(100), "'"]);
        assert_eq!(last().map(|text| text.len()), Some(8 * WORDS));
        for text in ["", "1234567", "12345678", "123456789", "f\0g"] {
            let _work = DriverWork::new(&["a ", text]);
            assert_eq!(last(), Some(format!("a {}", text.replace('\0', ""))));
        }
        assert_eq!(last(), Some("a fg".into()), "the first is in flight");
        drop(first);
        assert_eq!(last(), None);
    }
}
