//! Is one version slower than another? What their times prove.
//!
//! ```
//! use rehal::judge::{TimingVerdict, judge_processes};
//! // The median of each process: the memory that a process gets may make it slower by some percent.
//! let (before, after) = ([1.00, 1.04, 1.01, 1.02], [1.21, 1.24, 1.20, 1.27]);
//! let judgment = judge_processes(&before, &after, 0.05, 1);
//! assert_eq!(judgment.verdict, TimingVerdict::Slower);
//! assert!(judgment.interval.is_some_and(|it| it.low > 1.1));
//! // One of each proves nothing.
//! assert_eq!(judge_processes(&[1.0], &[3.0], 0.05, 1).verdict, TimingVerdict::CannotTell);
//! ```

pub use rehal_judge::{
    ChangeVerdict, Clock, FunctionChange, FunctionTotals, HistoryComparison, HistoryEntry, HistoryLoad,
    HistoryOrigin, HistoryPair, Interval, Judgment, MeasuredTime, Modes, PartTiming, ProcessJudgment,
    ProfileComparison, ProfileSide, SideTiming, Statistic, TimingVerdict, check_times, judge_processes,
};
