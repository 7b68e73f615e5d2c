use rehal_base::Result;

use crate::{Measure, Options, Run, State, TimeUnit};

/// A named workload to measure, with its own settings.
pub struct Benchmark<'a> {
    pub(crate) name: String,
    pub(crate) measure: Measure,
    pub(crate) process_time: bool,
    pub(crate) unit: UnitChoice,
    pub(crate) min_time_s: Option<f64>,
    pub(crate) min_warmup_time_s: Option<f64>,
    pub(crate) iterations: Option<u64>,
    pub(crate) repetitions: Option<u32>,
    pub(crate) real_time_limit: Option<f64>,
    pub(crate) body: Box<Body<'a>>,
    pub(crate) parts: Option<Box<Parts<'a>>>,
}

/// The function that reports the parts of a benchmark; see [`Benchmark::parts`].
pub(crate) type Parts<'a> = dyn FnMut(&Run, bool) -> Result<Vec<Run>> + 'a;

/// The body of a benchmark; see [`Benchmark::new`].
pub(crate) type Body<'a> = dyn FnMut(&mut State<'_>) -> Result<()> + 'a;

#[derive(Clone, Copy, Debug)]
pub(crate) enum UnitChoice {
    Fixed(TimeUnit),
    Default(TimeUnit),
}

impl<'a> Benchmark<'a> {
    /// A benchmark called `name` (not empty) that measures CPU time in nanoseconds.
    ///
    /// `body` is called several times, with a growing number of iterations. Each call sets up, runs its work
    /// in `while state.keep_running() { … }`, and may then set counters. An error from it ends the whole run;
    /// [`State::skip_with_error`] ends only this benchmark.
    pub fn new(name: impl Into<String>, body: impl FnMut(&mut State<'_>) -> Result<()> + 'a) -> Self {
        Self {
            name: name.into(),
            measure: Measure::default(),
            process_time: false,
            unit: UnitChoice::Default(TimeUnit::default()),
            min_time_s: None,
            min_warmup_time_s: None,
            iterations: None,
            repetitions: None,
            real_time_limit: None,
            body: Box::new(body),
            parts: None,
        }
    }

    /// Stops by wall-clock time; appends `/real_time` to the name.
    pub fn use_real_time(mut self) -> Self {
        self.measure = Measure::RealTime;
        self
    }

    /// Stops by the time that the benchmark sets; appends `/manual_time` to the name.
    pub fn use_manual_time(mut self) -> Self {
        self.measure = Measure::ManualTime;
        self
    }

    /// Counts CPU time of all threads of the process; appends `/process_time` to the name.
    pub fn measure_process_cpu_time(mut self) -> Self {
        self.process_time = true;
        self
    }

    /// Reports in this unit, overriding [`Options::time_unit`] (like the reference's replay benchmark).
    pub fn unit(mut self, unit: TimeUnit) -> Self {
        self.unit = UnitChoice::Fixed(unit);
        self
    }

    /// Reports in this unit unless [`Options::time_unit`] is set.
    pub fn default_unit(mut self, unit: TimeUnit) -> Self {
        self.unit = UnitChoice::Default(unit);
        self
    }

    /// Runs for at least this many seconds, overriding the options; appends `/min_time:S` to the name. Zero
    /// uses the options.
    pub fn min_time_s(mut self, seconds: f64) -> Self {
        self.min_time_s = positive(seconds);
        self
    }

    /// Warms up for this many seconds, overriding the options; appends `/min_warmup_time:S` to the name. Zero
    /// uses the options.
    pub fn min_warmup_time_s(mut self, seconds: f64) -> Self {
        self.min_warmup_time_s = positive(seconds);
        self
    }

    /// Runs exactly this many iterations, overriding the options; appends `/iterations:N` to the name. Zero
    /// uses the options.
    pub fn iterations(mut self, count: u64) -> Self {
        self.iterations = (count > 0).then_some(count);
        self
    }

    /// Runs this many repetitions, overriding the options; appends `/repeats:N` to the name. Zero uses the
    /// options.
    pub fn repetitions(mut self, count: u32) -> Self {
        self.repetitions = (count > 0).then_some(count);
        self
    }

    /// Bounds the search for the iteration count of a benchmark with manual time: it ends after `multiple`
    /// times the minimum time in real time, even if little of that is measured. The run's label then says so.
    /// An explicit iteration count is not bounded.
    pub fn real_time_limit(mut self, multiple: f64) -> Self {
        self.real_time_limit = positive(multiple);
        self
    }

    /// Calls `parts` after each repetition that did not fail, with its report and whether it was the last.
    /// The rows that it returns are reported below those of the benchmark; to know the width of all names,
    /// reports are written at the end.
    pub fn parts(mut self, parts: impl FnMut(&Run, bool) -> Result<Vec<Run>> + 'a) -> Self {
        self.parts = Some(Box::new(parts));
        self
    }

    /// The name that filters match and reports print: the name followed by the settings, in Google
    /// Benchmark's order and spelling.
    pub fn full_name(&self) -> String {
        let mut name = self.name.clone();
        if let Some(seconds) = self.min_time_s {
            name += &format!("/min_time:{seconds:.3}");
        }
        if let Some(seconds) = self.min_warmup_time_s {
            name += &format!("/min_warmup_time:{seconds:.3}");
        }
        if let Some(count) = self.iterations {
            name += &format!("/iterations:{count}");
        }
        if let Some(count) = self.repetitions {
            name += &format!("/repeats:{count}");
        }
        if self.process_time {
            name += "/process_time";
        }
        name + match self.measure {
            Measure::CpuTime => "",
            Measure::RealTime => "/real_time",
            Measure::ManualTime => "/manual_time",
        }
    }

    pub(crate) fn time_unit(&self, options: &Options) -> TimeUnit {
        match self.unit {
            UnitChoice::Fixed(unit) => unit,
            UnitChoice::Default(unit) => options.time_unit.unwrap_or(unit),
        }
    }
}

fn positive(seconds: f64) -> Option<f64> {
    (seconds > 0.0).then_some(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn benchmark(name: &str) -> Benchmark<'static> {
        Benchmark::new(name, |_| Ok(()))
    }

    #[test]
    fn names_carry_the_settings() {
        let plain = benchmark("BM_replay");
        assert_eq!(plain.full_name(), "BM_replay");
        let replay = benchmark("BM_replay").measure_process_cpu_time().use_real_time();
        assert_eq!(replay.full_name(), "BM_replay/process_time/real_time");
        let scoped = benchmark("BM_replay/scope:execute").measure_process_cpu_time().use_manual_time();
        assert_eq!(scoped.full_name(), "BM_replay/scope:execute/process_time/manual_time");
        let all = benchmark("BM_x")
            .min_time_s(0.25)
            .min_warmup_time_s(1.0)
            .iterations(7)
            .repetitions(3)
            .use_real_time();
        assert_eq!(
            all.full_name(),
            "BM_x/min_time:0.250/min_warmup_time:1.000/iterations:7/repeats:3/real_time"
        );
        assert_eq!(benchmark("BM_x").iterations(0).repetitions(0).min_time_s(0.0).full_name(), "BM_x");
    }

    #[test]
    fn a_fixed_unit_beats_the_flag() {
        let options = Options { time_unit: Some(TimeUnit::Second), ..Options::default() };
        assert_eq!(benchmark("a").unit(TimeUnit::Millisecond).time_unit(&options), TimeUnit::Millisecond);
        assert_eq!(benchmark("a").default_unit(TimeUnit::Millisecond).time_unit(&options), TimeUnit::Second);
        assert_eq!(benchmark("a").time_unit(&Options::default()), TimeUnit::Nanosecond);
    }
}
