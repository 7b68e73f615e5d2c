use std::cell::Cell;

use rehal_base::{Error, Result};
use rehal_hal::profile::{now_ns, process_cpu_ns};
use rehal_replay::{Observer, Plan, Scope};

/// Sums the time that a replay spends in scopes of one name: an [`Observer`] for one run.
///
/// Nested scopes of the same name are counted once, and the work of other observers is not.
pub struct ScopeTimer<'n> {
    name: &'n str,
    /// The clock, in nanoseconds.
    now: fn() -> i64,
    /// Where the plan has this name, once a scope has had it: scopes of a name share its bytes.
    address: Cell<usize>,
    depth: u64,
    since: i64,
    /// When timing was paused.
    paused: Option<i64>,
    total_ns: u64,
}

impl<'n> ScopeTimer<'n> {
    /// A timer for scopes named `name`; [`find_scope`] checks that the plan has any.
    pub fn new(name: &'n str) -> Self {
        Self::with_clock(name, now_ns)
    }

    /// The same for the processor's time, of all threads of this process.
    pub fn of_processor(name: &'n str) -> Self {
        Self::with_clock(name, process_cpu_ns)
    }

    /// The same by another clock, which returns nanoseconds.
    pub fn with_clock(name: &'n str, now: fn() -> i64) -> Self {
        Self { name, now, address: Cell::new(0), depth: 0, since: 0, paused: None, total_ns: 0 }
    }

    fn is_timed(&self, scope: &Scope<'_>) -> bool {
        let address = scope.name.as_ptr().addr();
        if address != self.address.get() {
            if scope.name != self.name.as_bytes() {
                return false;
            }
            self.address.set(address);
        }
        true
    }

    /// The total time in nanoseconds. Fails if a scope did not end.
    pub fn finish(self) -> Result<u64> {
        match self.depth {
            0 => Ok(self.total_ns),
            _ => Err(Error::failed_precondition(format!("scope '{}' does not end", self.name))),
        }
    }
}

impl Observer for ScopeTimer<'_> {
    fn scope_begin(&mut self, scope: &Scope<'_>) -> Result<()> {
        if self.is_timed(scope) {
            self.depth += 1;
            if self.depth == 1 {
                self.since = (self.now)();
            }
        }
        Ok(())
    }

    fn times_scope(&self, scope: &Scope<'_>) -> bool {
        self.is_timed(scope)
    }

    fn scope_end(&mut self, scope: &Scope<'_>) -> Result<()> {
        // Read the clock first, so that the code below is not timed.
        let now = (self.now)();
        if self.is_timed(scope) {
            let Some(depth) = self.depth.checked_sub(1) else {
                return Err(Error::failed_precondition(format!(
                    "scope '{}' ends before it begins",
                    self.name
                ))
                .context(scope.location.to_string()));
            };
            self.depth = depth;
            if depth == 0 {
                self.total_ns += now.saturating_sub(self.since).max(0) as u64;
            }
        }
        Ok(())
    }

    fn pause_timing(&mut self) {
        self.paused = Some((self.now)());
    }

    fn resume_timing(&mut self) {
        if let Some(paused) = self.paused.take() {
            self.since += (self.now)() - paused;
        }
    }
}

/// The scope of a slice of a dispatch: the only one, entered once, with the name of the only function that is
/// dispatched.
pub fn dispatch_scope(plan: &Plan) -> Result<Option<String>> {
    let scopes: Vec<_> = plan.scopes().collect();
    let [(name, 1)] = scopes[..] else { return Ok(None) };
    let (mut is_its_function, mut count) = (true, 0);
    plan.distinct_dispatches(|dispatch, performed| {
        is_its_function &= dispatch.name == name;
        count += performed;
        Ok(())
    })?;
    let is_slice = is_its_function && count == 1;
    Ok(is_slice.then(|| String::from_utf8_lossy(name).into_owned()))
}

/// Fails unless the plan has a scope named `name`; the error lists its scopes.
pub fn find_scope(plan: &Plan, name: &str) -> Result<()> {
    if plan.scopes().any(|(scope, _)| scope == name.as_bytes()) {
        return Ok(());
    }
    let times = |count| if count == 1 { "time" } else { "times" };
    let scopes: Vec<_> = plan
        .scopes()
        .map(|(scope, count)| format!("{} (entered {count} {})", scope.escape_ascii(), times(count)))
        .collect();
    let has = if scopes.is_empty() { "no scopes".into() } else { scopes.join(", ") };
    Err(Error::not_found(format!("unknown scope '{name}': the capture has {has}")))
}
