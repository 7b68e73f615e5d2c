use std::collections::HashMap;

use rehal_base::{Error, Result};
use rehal_replay::{HostRead, Operation, Plan, PlannedResult};

use super::Unmatched;
use crate::align::{Aligner, NONE};

/// A dispatch or host read of a run: its record, and how often that has been performed before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Site(u32, u64);

impl Site {
    pub(super) fn of_operation(operation: &Operation<'_>) -> Self {
        Self(operation.location.ordinal, operation.occurrence)
    }

    pub(super) fn of_read(read: &HostRead<'_>) -> Self {
        Self(read.location.ordinal, 0)
    }
}

/// Which results of two runs are compared with each other.
pub(super) enum Matching {
    /// Of one plan: all, with themselves.
    Same,
    /// Of the plans of two captures.
    Aligned {
        /// The expected site of each verified one.
        expected: HashMap<Site, Site>,
        /// The reverse.
        actual: HashMap<Site, Site>,
    },
}

impl Matching {
    /// Pairs the dispatches of functions of the same name, and host reads, in the order of both runs: the
    /// longest common subsequence. Also returns what is left. Fails if the dispatches have no function in
    /// common.
    pub(super) fn of_plans(expected: &Plan, actual: &Plan) -> Result<(Self, Vec<Unmatched>)> {
        let sides = [Results::of(expected)?, Results::of(actual)?];
        let mut numbers = HashMap::new();
        let [first, second] = sides.each_ref().map(|side| {
            let number = |name: &Option<String>| {
                let next = numbers.len() as u32;
                *numbers.entry(name.clone()).or_insert(next)
            };
            side.names.iter().map(number).collect::<Vec<u32>>()
        });
        let mut aligner = Aligner::new(&first, &second, numbers.len());
        aligner.align(0..first.len(), 0..second.len());
        let partners = aligner.partners;
        let is_dispatch_paired =
            |(name, partner): (&Option<String>, &u32)| name.is_some() && *partner != NONE;
        let both_dispatch = sides.iter().all(|side| side.names.iter().any(Option::is_some));
        if both_dispatch && !sides[0].names.iter().zip(&partners).any(is_dispatch_paired) {
            let [expected, actual] = sides.map(|side| side.functions());
            return Err(Error::failed_precondition(format!(
                "the captures are of different programs: no function is dispatched in both; one dispatches \
                 {expected}, and the other {actual}"
            ))
            .advise("name captures of one program"));
        }
        let (mut to_expected, mut to_actual) = (HashMap::new(), HashMap::new());
        let mut is_paired = vec![false; second.len()];
        let mut unmatched = Vec::new();
        for ((site, name), partner) in sides[0].sites.iter().zip(&sides[0].names).zip(&partners) {
            if *partner == NONE {
                Unmatched::add(&mut unmatched, name, true);
                continue;
            }
            let other = sides[1].sites[*partner as usize];
            is_paired[*partner as usize] = true;
            to_actual.insert(*site, other);
            to_expected.insert(other, *site);
        }
        for (name, _) in sides[1].names.iter().zip(is_paired).filter(|(_, is_paired)| !is_paired) {
            Unmatched::add(&mut unmatched, name, false);
        }
        Ok((Self::Aligned { expected: to_expected, actual: to_actual }, unmatched))
    }

    /// Whether a result of the expected run is compared.
    pub(super) fn has_expected(&self, site: Site) -> bool {
        match self {
            Self::Same => true,
            Self::Aligned { actual, .. } => actual.contains_key(&site),
        }
    }

    /// The expected site of one that is verified; `None` if it is not compared.
    pub(super) fn expected_of(&self, site: Site) -> Option<Site> {
        match self {
            Self::Same => Some(site),
            Self::Aligned { expected, .. } => expected.get(&site).copied(),
        }
    }
}

/// The results of a run, in order.
struct Results {
    sites: Vec<Site>,
    /// The function of each; `None` for a host read.
    names: Vec<Option<String>>,
}

impl Results {
    fn of(plan: &Plan) -> Result<Self> {
        let mut dispatched = Vec::new();
        plan.dispatches(|it| {
            dispatched.push(match it.name {
                // Of version 1.0.
                [] => format!("#{}", it.function),
                name => String::from_utf8_lossy(name).into_owned(),
            });
            Ok(())
        })?;
        let (mut sites, mut names) = (Vec::new(), Vec::new());
        let mut dispatched = dispatched.into_iter();
        plan.results(|result| match result {
            PlannedResult::Dispatch { record, occurrence, .. } => {
                sites.push(Site(record, occurrence));
                names.push(dispatched.next());
            }
            PlannedResult::Read { record } => {
                sites.push(Site(record, 0));
                names.push(None);
            }
        });
        Ok(Self { sites, names })
    }

    /// The first functions, for a message.
    fn functions(&self) -> String {
        const MAX: usize = 3;
        let mut names: Vec<&str> = Vec::new();
        for name in self.names.iter().flatten() {
            if !names.contains(&name.as_str()) {
                if names.len() == MAX {
                    return format!("{}, ...", names.join(", "));
                }
                names.push(name);
            }
        }
        names.join(", ")
    }
}

impl Unmatched {
    fn add(all: &mut Vec<Self>, function: &Option<String>, is_expected: bool) {
        let is_it = |it: &&mut Self| it.is_expected == is_expected && it.function == *function;
        match all.iter_mut().find(is_it) {
            Some(it) => it.count += 1,
            None => all.push(Self { function: function.clone(), is_expected, count: 1 }),
        }
    }
}
