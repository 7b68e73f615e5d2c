use super::order::Arrival;
use crate::ptx::BarrierKind;

/// Barriers of a block ("bar, barrier").
pub(crate) const BARRIERS: usize = 16;

/// How lanes use a barrier.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BarrierUse {
    pub id: u32,
    /// Threads that it waits for; all of the block if `None`.
    pub threads: Option<u32>,
    pub kind: BarrierKind,
    /// The lanes whose predicate is true.
    pub predicate: u64,
}

/// A barrier of a block: it counts threads.
#[derive(Clone, Default)]
pub(crate) struct Barrier {
    pub arrived: u32,
    /// Threads that it waits for; all of the block if `None`.
    pub threads: Option<u32>,
    kind: Option<BarrierKind>,
    is_true: u32,
    /// The warps of which lanes arrived.
    warps: u64,
    /// All that arrived, if races are checked.
    pub arrivals: Vec<Arrival>,
}

impl Barrier {
    /// Lanes of a warp arrive, which has `absent` lanes beyond the end of the block. Returns an error if
    /// they use it in another way than those before.
    pub(crate) fn arrive(
        &mut self,
        warp: u32,
        mask: u64,
        absent: u32,
        how: &BarrierUse,
    ) -> Result<(), String> {
        let is_first = self.arrived == 0;
        if !is_first && self.threads != how.threads {
            let shown = |it: Option<u32>| it.map_or("all".to_owned(), |it| it.to_string());
            let (before, now) = (shown(self.threads), shown(how.threads));
            return Err(format!("barrier {} waits for {before} threads and for {now}", how.id));
        }
        let returns = |it: BarrierKind| !matches!(it, BarrierKind::Arrive);
        if let Some(kind) = self.kind.filter(|it| returns(how.kind) && *it != how.kind) {
            return Err(format!("barrier {} is used as {kind:?} and as {:?}", how.id, how.kind));
        }
        if returns(how.kind) {
            self.kind = Some(how.kind);
        }
        self.threads = how.threads;
        self.arrived += mask.count_ones();
        self.is_true += (mask & how.predicate).count_ones();
        // A count is of whole warps.
        if how.threads.is_some() && self.warps & 1 << warp == 0 {
            self.arrived += absent;
        }
        self.warps |= 1 << warp;
        Ok(())
    }

    /// Whether all threads arrived, of a block in which `live` have not ended.
    pub(crate) fn is_complete(&self, live: u32) -> bool {
        self.arrived > 0 && self.arrived >= self.threads.unwrap_or(live)
    }

    /// Ends the phase. Returns the result of its reduction.
    pub(crate) fn release(&mut self) -> u32 {
        let value = match self.kind {
            Some(BarrierKind::And) => u32::from(self.is_true == self.arrived).wrapping_neg(),
            Some(BarrierKind::Or) => u32::from(self.is_true > 0).wrapping_neg(),
            _ => self.is_true,
        };
        *self = Self::default();
        value
    }
}
