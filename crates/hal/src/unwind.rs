use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// Calls `step` with each item, even after a call has panicked; the first panic is resumed when all are done.
/// On a thread that is already unwinding the panic is swallowed, since a second one would abort the process.
pub fn for_each<T>(items: impl IntoIterator<Item = T>, mut step: impl FnMut(T)) {
    let mut first = None;
    for item in items {
        // The panic is resumed, so state that a panicking step left behind is not observed silently.
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| step(item))) {
            first.get_or_insert(panic);
        }
    }
    if let Some(panic) = first
        && !std::thread::panicking()
    {
        resume_unwind(panic);
    }
}
