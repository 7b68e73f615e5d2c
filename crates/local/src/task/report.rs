//! Reports a profiled job: each stage when its last tile is complete, and the submission before its
//! signals.

use std::sync::atomic::Ordering;

use rehal_base::StatusCode;
use rehal_hal::profile::{CommandRegion, ProfiledSubmission, ProfiledThread, WorkerSpan, now_ns};

use super::submission_job::Running;
use crate::execute::{Slots, StoredNames};
use crate::profile::{Span, command_index, report_operation, report_stored, selects_command, selects_region};

impl Running<'_, '_, '_> {
    pub(super) fn profile(&self) -> Option<&ProfiledSubmission> {
        self.content.kept.profile()
    }

    /// Reports the commands of the stage before `stage`, whose tiles are complete. Returns its region, which
    /// is reported when the size of the next is known.
    pub(super) fn report_stage_before(&self, stage: u32) -> Option<CommandRegion> {
        let profile = self.profile()?;
        let report = &self.content.report;
        // The spans of commands come from their tiles; only regions need the times of stages.
        let end_ns = if stage == 0 || profile.reports_regions() { now_ns() } else { 0 };
        let start_ns = report.stage_start_ns.load(Ordering::Relaxed);
        // Where one stage ends, the next begins.
        report.stage_start_ns.store(end_ns, Ordering::Relaxed);
        if stage == 0 {
            report.start_ns.store(end_ns, Ordering::Relaxed);
            return None;
        }
        let index = stage - 1;
        report.reported.store(stage, Ordering::Relaxed);
        let commands = self.commands_of(index).filter(|_| self.view.is_command_buffer)?;
        let (mut first_tile_ns, mut last_tile_ns, mut drains) = (i64::MAX, start_ns, 0);
        let failed = self.failed_command();
        for (command, tiling) in commands.clone().zip(&self.content.tilings) {
            let Some(span) = tiling.times.span(profile) else { continue };
            first_tile_ns = first_tile_ns.min(span.start_ns);
            last_tile_ns = last_tile_ns.max(span.end_ns);
            drains += tiling.times.drains();
            let status = match failed {
                Some((failed, code)) if failed == command => code,
                _ => StatusCode::Ok,
            };
            let operation = &self.view.operations[command];
            let place = (command, index as usize, tiling.workgroup_count());
            report_stored(place, operation, &self.view.names, profile, status, span);
        }
        if !selects_region(commands.clone(), index as usize, self.view.operations, &self.view.names, profile)
        {
            return None;
        }
        Some(CommandRegion {
            operation: *profile.operation(),
            index,
            command_count: commands.len() as u32,
            tile_count: report.tiles.load(Ordering::Relaxed),
            worker_count: self.worker.pool.worker_count() as u32,
            useful_drain_count: drains,
            start_ns,
            end_ns,
            first_tile_ns: first_tile_ns.min(last_tile_ns),
            last_tile_ns,
            next_tile_count: None,
        })
    }

    /// Reports what this worker executed of a command.
    #[inline]
    pub(super) fn report_worker(&self, command: usize, span: Option<(i64, i64)>) {
        let (Some(profile), Some((start_ns, end_ns))) = (self.profile(), span) else { return };
        if !profile.reports_regions() {
            return;
        }
        let stage = self.view.stages.partition_point(|start| *start as usize <= command).saturating_sub(1);
        let command_index = self.view.is_command_buffer.then(|| command_index(command, stage));
        if !selects_command(&self.view.operations[command], &self.view.names, profile, command_index) {
            return;
        }
        profile.session().sink().worker_span(&WorkerSpan {
            operation: *profile.operation(),
            command_index,
            thread: match self.worker.is_helper() {
                true => ProfiledThread::Waiting,
                false => ProfiledThread::Worker(self.worker.index as u32),
            },
            start_ns,
            end_ns,
        });
    }

    /// Notes that a stage with this number of tiles begins, and reports the region before it.
    pub(super) fn begin_stage(&self, tiles: u32, before: Option<CommandRegion>) {
        let Some(profile) = self.profile() else { return };
        if let Some(region) = before {
            let region = CommandRegion { next_tile_count: Some(tiles), ..region };
            profile.session().sink().command_region(&region);
        }
        self.content.report.tiles.store(tiles, Ordering::Relaxed);
    }

    /// Reports the submission, of which nothing runs any more.
    pub(super) fn report(&self) {
        let Some(profile) = self.profile() else { return };
        let report = &self.content.report;
        // The last stage, if a failure prevented the worker that completed it from asking for the next.
        let begun = self.content.stage.load(Ordering::Relaxed).min(self.view.stages.len() as u32);
        if begun > report.reported.load(Ordering::Relaxed) {
            self.end_last_stage(self.report_stage_before(begun));
        }
        let status = self.failed_command().map_or(StatusCode::Ok, |(_, code)| code);
        let whole = || {
            let (start_ns, end_ns) = (report.start_ns.load(Ordering::Relaxed), now_ns());
            Span { was_deferred: true, ..Span::new(start_ns, end_ns) }
        };
        let tiling = self.content.tilings.first().filter(|_| !self.view.is_command_buffer);
        let span = match (profile.allocation_ns(), tiling) {
            // The memory was allocated when it was submitted, by the thread that did so.
            (Some((start_ns, end_ns)), _) => Span::new(start_ns, end_ns),
            (None, Some(tiling)) => tiling.times.span(profile).unwrap_or_else(whole),
            (None, None) => whole(),
        };
        let kept = &self.content.kept;
        let names = StoredNames { store: kept.store(), slots: Slots::NONE };
        let workgroup_count = tiling.map_or([0; 3], |tiling| tiling.workgroup_count());
        report_operation(kept.op(), &names, profile, workgroup_count, status, span);
    }

    /// Reports the region of the last stage.
    pub(super) fn end_last_stage(&self, region: Option<CommandRegion>) {
        if let (Some(profile), Some(region)) = (self.profile(), region) {
            profile.session().sink().command_region(&region);
        }
    }
}
