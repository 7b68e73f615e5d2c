//! Points that another process chooses.

use rehal_base::{Error, Result};
use rehal_build::{Sampler, SearchAxis, SearchPoint, SearchSpace, Trial};
use rehal_jobs::{Asker, Worker};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::report::FailureError;

/// Asks the process that started a worker for points, and tells it what became of each.
pub(super) struct AskingSampler {
    asker: Asker,
    /// The answer to the last trial.
    answer: Option<Answer>,
}

/// A request for the next point, with the outcome of the one before.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Question<'a> {
    /// The first point, of a space with these axes.
    Axes(&'a [SearchAxis]),
    Trial(&'a Trial),
    /// The last point is not one of the space.
    Refused(FailureError<'a>),
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    Point(Map<String, Value>),
    Stop,
}

impl AskingSampler {
    pub(super) fn new(worker: &Worker) -> Result<Self> {
        let asker = worker.asker().map_err(|error| Error::io("asking for points", &error))?;
        Ok(Self { asker, answer: None })
    }

    fn ask(&mut self, question: &Question<'_>) -> Result<Answer> {
        self.asker.ask(question).map_err(|error| Error::io("asking for a point", &error))
    }
}

impl Sampler for AskingSampler {
    fn next(&mut self, space: &SearchSpace, _: &dyn Fn() -> bool) -> Result<Option<SearchPoint>> {
        let mut answer = match self.answer.take() {
            Some(answer) => answer,
            None => self.ask(&Question::Axes(space.axes()))?,
        };
        loop {
            let Answer::Point(values) = answer else { return Ok(None) };
            match space.parse_point(&values) {
                Ok(point) => return Ok(Some(point)),
                Err(error) => answer = self.ask(&Question::Refused(FailureError::new(&error)))?,
            }
        }
    }

    fn told(&mut self, trial: &Trial) -> Result<()> {
        self.answer = Some(self.ask(&Question::Trial(trial))?);
        Ok(())
    }
}
