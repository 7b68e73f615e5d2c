use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// Calls `step` with each item, also after one of the calls has panicked; the first panic goes on when all are done.
/// On a thread that unwinds already it ends here, since a second one would abort the process.
pub(crate) fn for_each<T>(items: impl IntoIterator<Item = T>, mut step: impl FnMut(T)) {
    let mut first = None;
    for item in items {
        // Whoever may see what a step left behind when it panicked gets the panic too.
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
