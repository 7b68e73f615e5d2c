//! Totals and deviations.

use rehal_base::{Error, Result};

/// Adds to a total, and fails if it overflows.
pub fn add(total: &mut u64, value: u64) -> Result<()> {
    *total =
        total.checked_add(value).ok_or_else(|| Error::out_of_range("a total of the profile overflows"))?;
    Ok(())
}

/// The square root as the reference approximates it: 32 steps of Newton's method.
fn square_root(value: f64) -> f64 {
    if value <= 0.0 {
        return 0.0;
    }
    (0..32).fold(value.max(1.0), |estimate, _| 0.5 * (estimate + value / estimate))
}

/// Mean and sum of squared deviations, updated value by value (Welford).
#[derive(Clone, Copy, Debug, Default)]
pub struct Deviation {
    pub count: u64,
    pub mean: f64,
    squares: f64,
}

impl Deviation {
    pub fn add(&mut self, value: f64) {
        self.count += 1;
        let delta = value - self.mean;
        self.mean += delta / self.count as f64;
        self.squares += delta * (value - self.mean);
    }

    /// The sample standard deviation.
    pub fn standard(&self) -> f64 {
        if self.count > 1 { square_root(self.squares / (self.count - 1) as f64) } else { 0.0 }
    }
}
