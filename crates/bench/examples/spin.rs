//! Measures two loops and reports them in every format: `spin FORMAT MIN_TIME REPETITIONS [OUT]`.
//!
//! Google Benchmark's `compare.py` can read the file `OUT` (JSON).

use rehal_base::{Error, Result};
use rehal_bench::{Benchmark, Counter, Format, Options, Reporters, Runner, TimeUnit};

fn main() -> Result<()> {
    let mut arguments = std::env::args();
    let mut options = Options { executable: arguments.next(), ..Options::default() };
    if let Some(format) = arguments.next() {
        options.format = match &*format {
            "console" => Format::Console,
            "json" => Format::Json,
            "csv" => Format::Csv,
            _ => return Err(Error::invalid_argument("expected console, json or csv")),
        };
    }
    if let Some(min_time) = arguments.next() {
        options.min_time = min_time.parse()?;
    }
    if let Some(repetitions) = arguments.next() {
        let count = repetitions.parse().map_err(|_| Error::invalid_argument("expected a number"))?;
        options.repetitions = count;
    }
    options.out = arguments.next().map(Into::into);

    let mut benchmarks = [spin("BM_short", 1_000), spin("BM_long", 10_000)];
    let mut reporters = Reporters::from_options(&options)?;
    Runner::new(options).run(&mut benchmarks, &mut reporters)?;
    Ok(())
}

/// A loop of `additions` additions.
fn spin(name: &str, additions: u64) -> Benchmark<'static> {
    Benchmark::new(name, move |state| {
        while state.keep_running() {
            let mut sum = 0u64;
            for index in 0..additions {
                sum = std::hint::black_box(sum.wrapping_add(index));
            }
        }
        state.set_items_processed(state.iterations());
        state.set_counter("additions", Counter::new(additions as f64));
        Ok(())
    })
    .measure_process_cpu_time()
    .use_real_time()
    .default_unit(TimeUnit::Microsecond)
}
