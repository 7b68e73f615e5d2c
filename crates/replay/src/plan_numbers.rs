//! Numbers that are derived from the plans of captured programs: in `chain`, each kernel needs the one
//! before, `control` dispatches its kernels in a loop that the host decides, and `repeated` calls a function
//! with several kernels again and again.
//!
//! The files of `testdata` were read against the records of the captures. Without them, an operator may
//! change in any derivation, and replays still read the same bytes: they wait too often, keep objects too
//! long, or report and restore more than is there.

use std::fmt::Write;

use rehal_base::Result;
use rehal_hal::{
    BufferParams, BufferRef, BufferUsage, Device, DeviceGroup, HostFile, HostOp, MemoryAccess, MemoryType,
    QUEUE_AFFINITY_ANY, SemaphoreFlags,
};
use rehal_local::LocalSync;

use crate::effects::{Access, Effect, Footprint, Footprints};
use crate::evictions::Evictions;
use crate::plan::StepOp;
use crate::region::Region;
use crate::schedule::Schedule;
use crate::scopes::Entry;
use crate::{Plan, PlanOptions, PlannedBinding, RecordOptions, Recorder, scopes};

fn plan(name: &str) -> Plan {
    let path = testing::fixtures().join("captures").join(format!("{name}.ireereplay"));
    Plan::compile(std::fs::read(path).unwrap(), PlanOptions::default()).unwrap()
}

/// Compares line by line, so that a failure shows the line that differs.
#[track_caller]
fn assert_numbers(plan: &Plan, expected: &str) {
    let text = describe(plan);
    for (number, (found, expected)) in text.lines().zip(expected.lines()).enumerate() {
        assert_eq!(found, expected, "line {} of\n{text}", number + 1);
    }
    assert_eq!(text.lines().count(), expected.lines().count(), "{text}");
}

fn describe(plan: &Plan) -> String {
    let mut out = String::new();
    objects(plan, &mut out);
    work(plan, &mut out);
    accesses(plan, &mut out);
    scope(plan, &mut out);
    out
}

/// The objects, the last use of each, and what is known of buffers.
fn objects(plan: &Plan, out: &mut String) {
    let sizes = (plan.step_count(), plan.commands.len(), plan.submissions.len(), plan.skipped_count());
    writeln!(out, "steps, commands, submissions, skipped: {sizes:?}").unwrap();
    writeln!(out, "devices {}, objects {:?}", plan.device_count(), plan.counts).unwrap();
    for (index, extent) in plan.extents.iter().enumerate() {
        let (id, size, written) = (plan.buffer_ids[index], extent.size, extent.is_written_by_kernels);
        writeln!(out, "buffer {index}: id {id}, {size} bytes, written {written}").unwrap();
    }
    for last in plan.releases.chunk_by(|one, next| one.step == next.step) {
        let shown = last.iter().map(|it| format!("{:?} {}", it.kind, it.index));
        writeln!(out, "last used by {}: {}", last[0].step, shown.collect::<Vec<_>>().join(", ")).unwrap();
    }
    for it in &plan.completions {
        writeln!(out, "submission {} completes at {}", it.submission, it.step).unwrap();
    }
}

/// The dispatches and the transfers.
fn work(plan: &Plan, out: &mut String) {
    writeln!(out, "dispatches: {}", plan.dispatch_count()).unwrap();
    plan.distinct_dispatches(|it, count| {
        let (record, submission) = (it.location.ordinal, it.submission.ordinal);
        let name = String::from_utf8_lossy(it.name);
        let sizes = (it.workgroup_count, it.workgroup_size, it.constants.len());
        let bound = bindings(it.bindings);
        writeln!(
            out,
            "{count} times #{record} in #{submission} ({}): {name} {sizes:?} {bound}",
            it.occurrence
        )
        .unwrap();
        Ok(())
    })
    .unwrap();
    plan.distinct_transfers(|it| {
        let (record, source) = (it.location.ordinal, it.source.as_slice());
        let (source, target) = (bindings(source), bindings(&[it.target]));
        writeln!(out, "transfer #{record}: {:?} {source} to {target}", it.kind).unwrap();
    });
}

fn bindings(bindings: &[PlannedBinding]) -> String {
    let shown = |it: &PlannedBinding| {
        let (from, to) = (it.offset, it.offset + it.length);
        format!("{} {from}..{to} {}", it.buffer_id, it.access.name())
    };
    bindings.iter().map(shown).collect::<Vec<_>>().join(", ")
}

/// The accesses of each step, and the waits of a run in captured order.
fn accesses(plan: &Plan, out: &mut String) {
    let mut footprints = Footprints::new(plan, 64);
    let mut footprint = Footprint::default();
    for (number, step) in plan.steps.iter().enumerate() {
        match step.op {
            StepOp::Host(index) => {
                let op = &plan.host_ops[index as usize];
                if let HostOp::EndCommandBuffer { command_buffer } = op {
                    footprints.end(*command_buffer);
                }
                footprints.of_host_op(op, &mut footprint);
            }
            StepOp::Command(index) => {
                let (into, command) = &plan.commands[index as usize];
                footprints.record(*into, command);
                footprints.of_command(command, &mut footprint);
            }
            StepOp::Submission(index) | StepOp::Deferred(index) => {
                footprints.of_queue_op(&plan.submissions[index as usize].op, &mut footprint);
            }
        }
        if !footprint.accesses.is_empty() || footprint.is_unbounded {
            let any = if footprint.is_unbounded { "any" } else { "" };
            writeln!(out, "step {number}: {any}{}", shown(&footprint.accesses)).unwrap();
        }
    }
    let schedule = Schedule::from_plan(plan, Vec::new());
    for it in &schedule.waits {
        let (position, runnable) = (it.position, it.runnable);
        writeln!(out, "before {}: wait for {position}, from {runnable}, {:?}", it.step, it.cause).unwrap();
    }
    let steps = plan.steps.len() as u32;
    let halves = [0..steps / 2, steps / 2..steps, 0..steps].map(|it| schedule.order_wait_count(it));
    writeln!(out, "waits for order: {halves:?}").unwrap();
}

fn shown(accesses: &[Access]) -> String {
    let shown = |it: &Access| {
        let effect = match it.effect {
            Effect::Read => "read",
            Effect::Write => "write",
            Effect::Bind => "bind",
            Effect::Any => "any",
        };
        format!("{} {}..{} {effect}", it.resource, it.start, it.end)
    };
    accesses.iter().map(shown).collect::<Vec<_>>().join(", ")
}

/// The bytes that a repetition of the scope `execute` restores and evicts.
fn scope(plan: &Plan, out: &mut String) {
    let entries = scopes::entries(plan, b"execute").unwrap();
    for (name, count) in plan.scopes() {
        writeln!(out, "scope {}: {count}", name.escape_ascii()).unwrap();
    }
    for entry in &entries {
        writeln!(out, "execute: {}..{}", entry.begin, entry.end).unwrap();
    }
    for entry in &entries {
        region(plan, entry, out);
        writeln!(out, "{:?}", Evictions::from_plan(plan, std::slice::from_ref(entry))).unwrap();
    }
}

/// The objects and bytes that a repetition of an entry alone creates and restores.
fn region(plan: &Plan, entry: &Entry, out: &mut String) {
    match Region::from_plan(plan, std::slice::from_ref(entry)) {
        Err(error) => writeln!(out, "no region: {}", error.message()).unwrap(),
        Ok(region) => {
            writeln!(out, "region {:?}, position {}", region.steps, region.position).unwrap();
            let created = region.created.chunk_by(|one, next| one.kind == next.kind);
            for (one, count) in created.map(|it| (it[0], it.len())) {
                writeln!(out, "creates {count} from {:?} {} at {}", one.kind, one.index, one.step).unwrap();
            }
            for it in region.semaphores.iter().chain(&region.deallocated) {
                let record = it.location.ordinal;
                writeln!(out, "restarts {} of #{record} at {}", it.index, it.payload).unwrap();
            }
            for it in &region.restored {
                writeln!(out, "restores {:?} {}..{}", it.holder, it.start, it.end).unwrap();
            }
        }
    }
}

#[test]
fn a_chain_of_kernels_has_these_numbers() {
    assert_numbers(&plan("chain.chain.local-task"), include_str!("testdata/chain.txt"));
}

#[test]
fn a_loop_of_the_host_has_these_numbers() {
    assert_numbers(&plan("control.collatz.local-task"), include_str!("testdata/control.txt"));
}

#[test]
fn a_repeated_program_has_these_numbers() {
    assert_numbers(&plan("bench.mlp.5.local-sync"), include_str!("testdata/repeated.txt"));
}

/// Records a program whose scopes read a file, reuse buffers and semaphores of before, and submit work that
/// can run only later.
pub(crate) fn recorded() -> Result<Plan> {
    record(program_that_waits)
}

/// Records what a program does, and compiles the capture.
pub(crate) fn record(program: fn(&Recorder, &Device, BufferParams) -> Result<()>) -> Result<Plan> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("program.ireereplay");
    let recorder = Recorder::create(&path, RecordOptions::default().renumber_threads(true))?;
    let base = DeviceGroup::new(vec![LocalSync::create(Default::default())])?;
    let devices = recorder.wrap(&base)?;
    let params = BufferParams {
        usage: BufferParams::default().usage | BufferUsage::MAPPING_SCOPED,
        memory_type: MemoryType::HOST_LOCAL | MemoryType::DEVICE_VISIBLE,
        ..BufferParams::default()
    };
    program(&recorder, &devices.devices()[0], params)?;
    recorder.close()?;
    Plan::compile(std::fs::read(&path).unwrap(), PlanOptions::default())
}

fn program_that_waits(recorder: &Recorder, device: &Device, params: BufferParams) -> Result<()> {
    let queue = || device.queue(QUEUE_AFFINITY_ANY);
    let [one, other] = [64, 128].map(|size| device.allocate_buffer(params, size));
    let (one, other) = (one?, other?);
    let file =
        device.import_file(QUEUE_AFFINITY_ANY, MemoryAccess::READ, HostFile::from_bytes(&[7; 100])?)?;
    let [order, gate] =
        [3, 0].map(|at| device.create_semaphore(QUEUE_AFFINITY_ANY, at, SemaphoreFlags::empty()));
    let (order, gate) = (order?, gate?);
    let old = queue().signal(&[order.at(4)]).alloca(params, 32, 0)?;
    queue().wait(&[order.at(4)]).signal(&[order.at(5)]).dealloca(&old, 0)?;
    let kept = queue().wait(&[order.at(5)]).signal(&[order.at(6)]).alloca(params, 48, 0)?;
    queue().wait(&[order.at(6)]).signal(&[order.at(7)]).fill(&kept, &[1], 0)?;
    // Completes just before the scope.
    let done = device.create_semaphore(QUEUE_AFFINITY_ANY, 0, SemaphoreFlags::empty())?;
    queue().wait(&[done.at(1)]).signal(&[done.at(2)]).fill(BufferRef::range(&other, 100, 4), &[1], 0)?;
    queue().signal(&[done.at(1)]).barrier(0)?;
    for value in 1..3 {
        let _scope = recorder.scope("execute")?;
        let late = [gate.at(2 * value)];
        queue().wait(&[gate.at(2 * value - 1)]).signal(&late).fill(
            BufferRef::range(&one, 0, 16 * value),
            &[2],
            0,
        )?;
        // One signal starts both.
        queue().wait(&[gate.at(2 * value - 1)]).fill(BufferRef::range(&one, 4, 4), &[3], 0)?;
        drop(device.allocate_buffer(params, 8 * value)?);
        queue().read(&file, 10 * value, BufferRef::range(&other, 32, 20 + value), 0)?;
        one.write(48, &[value as u8; 8])?;
        queue().signal(&[gate.at(2 * value - 1)]).copy(
            BufferRef::range(&one, 12, 8),
            BufferRef::range(&other, 8 * value, 8),
            0,
        )?;
        other.read(0, &mut [0; 4])?;
        if value == 2 {
            queue().copy(BufferRef::range(&kept, 4, 8), BufferRef::range(&other, 64, 8), 0)?;
            queue().wait(&late).signal(&[order.at(8)]).dealloca(&kept, 0)?;
        }
    }
    Ok(())
}

#[test]
fn work_that_waits_and_buffers_of_before_have_these_numbers() {
    assert_numbers(&recorded().unwrap(), include_str!("testdata/waits.txt"));
}
