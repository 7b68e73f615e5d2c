//! Indirect workgroup counts.

use rehal_base::Result;
use rehal_hal::{Buffer, BufferParams, BufferRef, BufferUsage, DispatchFlags};

use super::dispatches::expected_ids;
use crate::check::{RANGE, enforced, equal, refused};
use crate::harness::{Harness, bytes_of, noise};
use crate::script::{Call, Route, Script};
use crate::test::List;
use crate::{Capability, Kernel};

pub(super) fn add(list: &mut List, format: &'static str) {
    let needs = &[Capability::Executables, Capability::IndirectDispatch];
    for route in Route::ALL {
        let name = |what: &str| format!("dispatch/{format}/{}/count_from_buffer/{what}", route.name());
        for (flags, which) in [(STATIC, "static"), (DYNAMIC, "dynamic")] {
            list.add(name(&format!("{which}/whole_buffer")), needs, move |it| {
                whole_buffer(it, format, route, flags)
            });
            list.add(name(&format!("{which}/part_of_a_buffer")), needs, move |it| {
                part_of_a_buffer(it, format, route, flags)
            });
            list.add(name(&format!("{which}/no_workgroups")), needs, move |it| {
                no_workgroups(it, format, route, flags)
            });
        }
        list.add(name("dynamic/from_update"), needs, move |it| from_update(it, format, route));
        list.add(name("dynamic/from_fill"), needs, move |it| from_fill(it, format, route));
        list.add(name("dynamic/from_dispatch"), needs, move |it| from_dispatch(it, format, route));
        list.add(name("wrong_buffers_are_refused"), needs, move |it| wrong_buffers(it, format, route));
    }
    for route in Route::ALL {
        let name = format!("dispatch/{format}/{}/binding_usage_is_enforced", route.name());
        list.add(name, &[Capability::Executables], move |it| binding_usage(it, format, route));
    }
    let name = format!("dispatch/{format}/count_from_buffer/read_when_it_runs");
    list.add(name, needs, move |it| read_when_it_runs(it, format));
    let name = format!("dispatch/{format}/count_from_buffer/read_at_each_execution");
    list.add(name, needs, move |it| read_at_each_execution(it, format));
}

const STATIC: DispatchFlags = DispatchFlags::STATIC_INDIRECT_PARAMETERS;
const DYNAMIC: DispatchFlags = DispatchFlags::DYNAMIC_INDIRECT_PARAMETERS;

fn rows(harness: &Harness<'_>) -> Result<Buffer> {
    harness.words(&[0xdddd_dddd; 64 * 6])
}

fn whole_buffer(
    harness: &Harness<'_>,
    format: &'static str,
    route: Route,
    flags: DispatchFlags,
) -> Result<()> {
    let executable = harness.prepare(Kernel::Workgroups, format)?;
    for count in [[1, 1, 1], [3, 5, 2], [64, 1, 1]] {
        let (output, from) = (rows(harness)?, harness.words(&count)?);
        let call = Call::new(&executable, 0).bind(&output).count_from(&from, flags);
        Script::new(harness, route).call(call).run()?;
        equal("ids", harness.read_words(&output)?, expected_ids(count))?;
    }
    Ok(())
}

fn part_of_a_buffer(
    harness: &Harness<'_>,
    format: &'static str,
    route: Route,
    flags: DispatchFlags,
) -> Result<()> {
    let executable = harness.prepare(Kernel::Workgroups, format)?;
    for offset in [0_usize, 4, 8, 64, 100] {
        let mut bytes = noise(128, 3);
        bytes[offset..offset + 12].copy_from_slice(&bytes_of(&[4, 2, 3]));
        let (output, from) = (rows(harness)?, harness.buffer(&bytes)?);
        let call = Call::new(&executable, 0)
            .bind(&output)
            .count_from(BufferRef::range(&from, offset as u64, 12), flags);
        Script::new(harness, route).call(call).run()?;
        equal("ids", harness.read_words(&output)?, expected_ids([4, 2, 3]))?;
    }
    Ok(())
}

fn no_workgroups(
    harness: &Harness<'_>,
    format: &'static str,
    route: Route,
    flags: DispatchFlags,
) -> Result<()> {
    let executable = harness.prepare(Kernel::Workgroups, format)?;
    for count in [[0, 1, 1], [4, 0, 4], [0, 0, 0]] {
        let (output, from) = (rows(harness)?, harness.words(&count)?);
        let call = Call::new(&executable, 0).bind(&output).count_from(&from, flags);
        Script::new(harness, route).call(call).run()?;
        equal("nothing written", harness.read_words(&output)?, expected_ids([0; 3]))?;
    }
    Ok(())
}

fn from_update(harness: &Harness<'_>, format: &'static str, route: Route) -> Result<()> {
    let executable = harness.prepare(Kernel::Workgroups, format)?;
    let (output, from) = (rows(harness)?, harness.words(&[0; 3])?);
    let call = Call::new(&executable, 0).bind(&output).count_from(&from, DYNAMIC);
    Script::new(harness, route).update(&bytes_of(&[2, 2, 5]), &from).call(call).run()?;
    equal("ids", harness.read_words(&output)?, expected_ids([2, 2, 5]))
}

fn from_fill(harness: &Harness<'_>, format: &'static str, route: Route) -> Result<()> {
    let executable = harness.prepare(Kernel::Workgroups, format)?;
    let (output, from) = (rows(harness)?, harness.words(&[0; 3])?);
    let call = Call::new(&executable, 0).bind(&output).count_from(&from, DYNAMIC);
    Script::new(harness, route).fill(&from, &[3, 0, 0, 0]).call(call).run()?;
    equal("ids", harness.read_words(&output)?, expected_ids([3, 3, 3]))
}

fn from_dispatch(harness: &Harness<'_>, format: &'static str, route: Route) -> Result<()> {
    let counts = harness.prepare(Kernel::Indirect, format)?;
    let ids = harness.prepare(Kernel::Workgroups, format)?;
    let (output, from) = (rows(harness)?, harness.words(&[0; 3])?);
    Script::new(harness, route)
        .call(Call::new(&counts, 0).constants(&[7, 3, 2]).bind(&from))
        .call(Call::new(&ids, 0).bind(&output).count_from(&from, DYNAMIC))
        .run()?;
    equal("ids", harness.read_words(&output)?, expected_ids([7, 3, 2]))
}

fn wrong_buffers(harness: &Harness<'_>, format: &'static str, route: Route) -> Result<()> {
    let executable = harness.prepare(Kernel::Workgroups, format)?;
    let output = rows(harness)?;
    let run = |part: BufferRef<&Buffer>| {
        let call = Call::new(&executable, 0).bind(&output).count_from(part, DYNAMIC);
        Script::new(harness, route).call(call).run()
    };
    let short = harness.words(&[1, 1])?;
    refused("a count of two words", run(BufferRef::from(&short)), RANGE)?;
    let long = harness.words(&[1, 1, 1, 1])?;
    refused("a count at the end", run(BufferRef::range(&long, 8, 8)), RANGE)?;
    refused("a count out of bounds", run(BufferRef::range(&long, 8, 12)), RANGE)?;
    let usage = BufferUsage::DISPATCH_STORAGE_READ | BufferUsage::MAPPING_SCOPED;
    let params = BufferParams { usage, ..Harness::mappable() };
    let other = harness.device.allocate_buffer(params, 12)?;
    other.write(0, &bytes_of(&[1, 1, 1]))?;
    let usage = BufferUsage::DISPATCH_INDIRECT_PARAMETERS;
    enforced("a count in a buffer without the usage", &other, usage, run(BufferRef::from(&other)))?;
    equal("nothing written", harness.read_words(&output)?, expected_ids([0; 3]))
}

/// A dispatch may write its bindings, so a read-only buffer is not allowed.
fn binding_usage(harness: &Harness<'_>, format: &'static str, route: Route) -> Result<()> {
    let executable = harness.prepare(Kernel::Workgroups, format)?;
    let usage = BufferUsage::DISPATCH_STORAGE_READ | BufferUsage::MAPPING_SCOPED;
    let params = BufferParams { usage, ..Harness::mappable() };
    let output = harness.device.allocate_buffer(params, 64 * 6 * 4)?;
    let call = Call::new(&executable, 0).bind(&output);
    let outcome = Script::new(harness, route).call(call).run();
    enforced("a binding without the usage", &output, BufferUsage::DISPATCH_STORAGE_WRITE, outcome)
}

/// The count is written between submission and the point where the dispatch may execute.
fn read_when_it_runs(harness: &Harness<'_>, format: &'static str) -> Result<()> {
    let executable = harness.prepare(Kernel::Workgroups, format)?;
    let (output, from) = (rows(harness)?, harness.words(&[0; 3])?);
    let call = Call::new(&executable, 0).bind(&output).count_from(&from, DYNAMIC);
    let script = Script::new(harness, Route::Direct).call(call);
    let (commands, _) = script.record(rehal_hal::CommandBufferMode::ONE_SHOT)?;
    let (gate, done) = harness.two_semaphores()?;
    {
        harness.queue().wait(&[gate.at(1)]).signal(&[done.at(1)]).execute(&commands, &[], 0)?;
        let signals = [gate.at(1)];
        let (source, target) = (bytes_of(&[2, 3, 4]), BufferRef::whole(&from));
        harness.queue().signal(&signals).update(&source, target, 0)?;
    }
    harness.wait(&done, 1)?;
    equal("ids", harness.read_words(&output)?, expected_ids([2, 3, 4]))
}

fn read_at_each_execution(harness: &Harness<'_>, format: &'static str) -> Result<()> {
    let executable = harness.prepare(Kernel::Workgroups, format)?;
    let (output, from) = (rows(harness)?, harness.words(&[0; 3])?);
    let call = Call::new(&executable, 0).bind(&output).count_from(&from, DYNAMIC);
    let script = Script::new(harness, Route::Direct).call(call);
    let (commands, _) = script.record(rehal_hal::CommandBufferMode::empty())?;
    for count in [[1, 2, 3], [0, 0, 0], [6, 1, 1], [2, 2, 2]] {
        from.write(0, &bytes_of(&count))?;
        output.write(0, &bytes_of(&[0xdddd_dddd; 64 * 6]))?;
        harness.execute(&commands, &[])?;
        equal("ids", harness.read_words(&output)?, expected_ids(count))?;
    }
    Ok(())
}
