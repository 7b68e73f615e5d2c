//! A case: the programs to run, the figures to extract, and how they are measured.

use super::measure::{self, Invocation, Measured, Metric, Output, Unit};
use super::prepare::Workplace;
use super::report::{Row, Target};
use std::error::Error;

/// Two programs to run, and the figures to extract.
pub struct Case {
    pub name: &'static str,
    prepare: Box<dyn Fn(&Workplace) -> Prepared>,
}

/// Inputs are made or found on demand.
pub type Prepared = Result<Plan, Box<dyn Error>>;

/// A case of this name.
pub fn case(name: &'static str, prepare: impl Fn(&Workplace) -> Prepared + 'static) -> Case {
    Case { name, prepare: Box::new(prepare) }
}

impl Case {
    /// Finds or makes the inputs, and measures it.
    pub fn measure(&self, rounds: u32, workplace: &Workplace) -> Result<Vec<Row>, Box<dyn Error>> {
        (self.prepare)(workplace)?.measure(self.name, rounds)
    }
}

/// A prepared case.
pub struct Plan {
    /// The run that ours is compared with; `None` if the promise is a number.
    pub theirs: Option<Invocation>,
    pub ours: Invocation,
    pub without: Without,
    pub output: Output,
    /// Runs of each program per round: more for short ones.
    pub runs_per_round: u32,
    pub figures: Vec<Figure>,
}

/// The run from which figures are differences.
pub enum Without {
    Nothing,
    /// The same figure of other runs of theirs (if it has any), and of ours.
    Runs(Option<Invocation>, Invocation),
    /// The time of all kernels, which is the same for both: figures are percentages of it.
    Kernels(Invocation),
}

/// A row of the table.
pub struct Figure {
    /// Follows the name of the case.
    pub suffix: &'static str,
    pub metric: Metric,
    pub target: Target,
}

impl Plan {
    /// A comparison of two programs, each of which runs once per round.
    pub fn new(theirs: impl Into<Option<Invocation>>, ours: Invocation) -> Self {
        let (without, output, figures) = (Without::Nothing, Output::Discard, Vec::new());
        Self { theirs: theirs.into(), ours, without, output, runs_per_round: 1, figures }
    }

    /// A comparison of both programs of a tool, with the same arguments.
    pub fn for_tool(workplace: &Workplace, tool: &str, arguments: Vec<String>) -> Self {
        let (theirs, ours) = workplace.pair(tool);
        let theirs = Invocation { program: theirs, arguments: arguments.clone() };
        Self::new(theirs, Invocation { program: ours, arguments })
    }

    /// With a row.
    pub fn row(self, metric: Metric, target: Target) -> Self {
        self.suffixed("", metric, target)
    }

    /// With a row whose name has a suffix.
    pub fn suffixed(mut self, suffix: &'static str, metric: Metric, target: Target) -> Self {
        self.figures.push(Figure { suffix, metric, target });
        self
    }

    pub fn runs(self, runs_per_round: u32) -> Self {
        Self { runs_per_round, ..self }
    }
}

impl Plan {
    /// Runs both programs alternately: A B, then B A, so that drift of the machine affects both alike.
    fn measure(&self, name: &str, rounds: u32) -> Result<Vec<Row>, Box<dyn Error>> {
        let (mut theirs, mut ours): (Vec<Sample>, Vec<Sample>) = (Vec::new(), Vec::new());
        let (their_base, our_base) = match &self.without {
            Without::Nothing => (None, None),
            Without::Runs(theirs, ours) => (theirs.as_ref(), Some(ours)),
            Without::Kernels(kernels) => (Some(kernels), Some(kernels)),
        };
        let take = |program, base| Sample::take(program, base, self.output);
        // The first run of each warms the file cache and is discarded.
        for round in 0..=rounds * self.runs_per_round {
            let mine = (round % 2 == 1).then(|| take(&self.ours, our_base)).transpose()?;
            let their = self.theirs.as_ref().map(|it| take(it, their_base)).transpose()?;
            let mine = mine.map_or_else(|| take(&self.ours, our_base), Ok)?;
            if round != 0 {
                theirs.extend(their);
                ours.push(mine);
            }
        }
        let is_difference = !matches!(self.without, Without::Nothing);
        let rows = self.figures.iter().map(|figure| {
            let values = |samples: &[Sample]| {
                samples
                    .iter()
                    .map(|it| it.figure(figure.metric, &self.without))
                    .collect::<Result<Vec<_>, _>>()
            };
            let unit = match self.without {
                Without::Kernels(_) => Unit::Percent,
                _ => figure.metric.unit(),
            };
            let name = format!("{name}{}", figure.suffix);
            Ok(Row::new(name, unit, figure.target, is_difference, &values(&theirs)?, &values(&ours)?))
        });
        rows.collect()
    }
}

/// A run, and a baseline run if the figure is a difference.
struct Sample {
    with: Measured,
    without: Option<Measured>,
}

impl Sample {
    fn take(
        program: &Invocation,
        without: Option<&Invocation>,
        output: Output,
    ) -> Result<Self, Box<dyn Error>> {
        let without = without.map(|without| measure::run(without, output)).transpose()?;
        Ok(Self { with: measure::run(program, output)?, without })
    }

    fn figure(&self, metric: Metric, without: &Without) -> Result<f64, String> {
        let with = metric.of(&self.with)?;
        let Some(base) = &self.without else { return Ok(with) };
        match without {
            Without::Kernels(_) => {
                let kernels = Metric::Kernels.of(base)?;
                Ok((with - kernels) / kernels * 100.0)
            }
            _ => Ok(with - metric.of(base)?),
        }
    }
}
