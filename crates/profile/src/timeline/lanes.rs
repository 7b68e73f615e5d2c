//! Slices of a track must not overlap: those that do are spread over several tracks, called lanes.

use rehal_base::Result;

use super::trace::{Trace, Track};

/// Lanes of a group; more concurrent slices than these become instants.
const MAX_LANES: usize = 64;

/// The lanes of one kind of event of a queue.
#[derive(Debug)]
pub struct Lanes {
    parent: Track,
    name: String,
    rank: i32,
    lanes: Vec<Lane>,
}

#[derive(Debug)]
struct Lane {
    track: Track,
    /// The time from the start of its first slice to the end of its last.
    start_ns: u64,
    end_ns: u64,
}

impl Lanes {
    /// Lanes below `parent`, of which there are none yet.
    pub fn new(parent: Track, name: String, rank: i32) -> Self {
        Self { parent, name, rank, lanes: Vec::new() }
    }

    /// The first lane that is free from `start_ns` to `end_ns`, or `None` if all are taken.
    ///
    /// Slices are placed in the order of their starts, as far as a window of events is sorted. A lane is free
    /// after its last slice, or before its first; a gap is not filled, so lanes take constant memory.
    pub fn place(&mut self, trace: &mut Trace<'_>, start_ns: u64, end_ns: u64) -> Result<Option<Track>> {
        // Strictly before: the packets of a slice that ends where another one begins have to precede it in
        // the file.
        let is_free = |lane: &&mut Lane| lane.end_ns <= start_ns || end_ns < lane.start_ns;
        if let Some(lane) = self.lanes.iter_mut().find(is_free) {
            lane.start_ns = lane.start_ns.min(start_ns);
            lane.end_ns = lane.end_ns.max(end_ns);
            return Ok(Some(lane.track));
        }
        if self.lanes.len() == MAX_LANES {
            return Ok(None);
        }
        let track = self.add(trace)?;
        self.lanes.push(Lane { track, start_ns, end_ns });
        Ok(Some(track))
    }

    /// A track for instants, which may coincide.
    pub fn any(&mut self, trace: &mut Trace<'_>) -> Result<Track> {
        match self.lanes.last() {
            Some(lane) => Ok(lane.track),
            None => {
                let track = self.add(trace)?;
                self.lanes.push(Lane { track, start_ns: u64::MAX, end_ns: 0 });
                Ok(track)
            }
        }
    }

    fn add(&mut self, trace: &mut Trace<'_>) -> Result<Track> {
        let name = match self.lanes.len() {
            0 => self.name.clone(),
            count => format!("{} {}", self.name, count + 1),
        };
        trace.track(Some(self.parent), &name, self.rank)
    }
}
