use std::any::Any;
use std::sync::{Arc, OnceLock};

use ash::vk;
use parking_lot::Mutex;
use rehal_base::{Context, Error, Result};
use rehal_hal::profile::ProfiledSubmission;
use rehal_hal::{
    Command, CommandBuffer, CommandBufferBackend, CommandBufferMode, CommandBufferParams, Indexed, Live,
    Store,
};

use super::instance::{Instances, key_of};
use super::operations::{function_name, record_command};
use super::recorder::Repeats;
use super::{Instance, MemoryRange, Recorder};
use crate::gpu::Gpu;
use crate::memory::Memory;
use crate::profile::{SubmissionTimestamps, is_described};
use crate::queue::{Core, Uses};

/// A command buffer: its commands as the program recorded them, and as Vulkan executes them.
///
/// Commands are baked for Vulkan when they are first submitted, since the buffers that they name may not be
/// allocated before, and again for each binding table with other memory.
pub(crate) struct VulkanCommands {
    gpu: Arc<Gpu>,
    is_one_shot: bool,
    recording: Mutex<Option<Recording>>,
    ready: OnceLock<Recording>,
    /// See [`VulkanCommands::description`].
    description: OnceLock<String>,
    instances: Mutex<Instances>,
}

/// The commands of the program.
#[derive(Default)]
pub(crate) struct Recording {
    pub(crate) store: Store,
    pub(crate) commands: Vec<Command<Indexed>>,
    /// The buffers that queues allocate, and may have deallocated.
    transients: Vec<u32>,
}

impl VulkanCommands {
    /// An empty command buffer.
    pub(crate) fn create(gpu: &Arc<Gpu>, params: CommandBufferParams) -> CommandBuffer {
        let is_one_shot = params.mode.contains(CommandBufferMode::ONE_SHOT);
        let (recording, instances) = (Mutex::default(), Mutex::default());
        let gpu = gpu.clone();
        let (ready, description) = (OnceLock::new(), OnceLock::new());
        CommandBuffer::new(params, Self { gpu, is_one_shot, recording, ready, description, instances })
    }

    /// The backend of a command buffer of this driver.
    pub(crate) fn of(command_buffer: &CommandBuffer) -> Result<&Self> {
        (command_buffer.backend() as &dyn Any).downcast_ref().ok_or_else(|| {
            Error::invalid_argument("the command buffer belongs to a device of another driver")
        })
    }

    /// The commands. Fails while they are being recorded.
    pub(crate) fn recording(&self) -> Result<&Recording> {
        self.ready.get().ok_or_else(|| {
            Error::failed_precondition("cannot run: the command buffer is still being recorded")
        })
    }

    /// Whether there is nothing to execute. Fails while it is being recorded.
    pub(crate) fn is_empty(&self) -> Result<bool> {
        Ok(self.recording()?.commands.is_empty())
    }

    /// Executable commands for a binding table.
    pub(crate) fn bake(
        &self,
        core: &Core,
        table: &[Option<MemoryRange>],
        profile: Option<&ProfiledSubmission>,
    ) -> Result<(vk::CommandBuffer, Uses)> {
        if !Arc::ptr_eq(&self.gpu, core.gpu()) {
            return Err(Error::invalid_argument("the command buffer belongs to another Vulkan device"));
        }
        let recording = self.recording()?;
        let family = core.gpu().families()[0];
        let recorders = core.recorders();
        let timestamps = profile.and_then(|profile| {
            Some((profile, SubmissionTimestamps::from_submission(profile, core.gpu(), family)?))
        });
        if let Some((profile, mut timestamps)) = timestamps {
            let mut recorder = recorders.take_recorder(family)?;
            recording.record_with_timestamps(&mut recorder, core, table, profile, &mut timestamps)?;
            let commands = recorder.commands();
            let uses = Uses { recorder: Some(recorder), timestamps: Some(timestamps), ..Uses::default() };
            return Ok((commands, uses));
        }
        if self.is_one_shot {
            let mut recorder = recorders.take_recorder(family)?;
            recording.record(&mut recorder, core, table, Repeats::Never)?;
            let commands = recorder.commands();
            return Ok((commands, Uses { recorder: Some(recorder), ..Uses::default() }));
        }
        recording.check_transients(core.memory())?;
        let key = key_of(table);
        let mut instances = self.instances.lock();
        // Marks belong to one submission.
        let is_exclusive = core.has_watchdog();
        if let Some(instance) = instances.find(&key, is_exclusive) {
            if is_exclusive {
                instance.recorder().reset_marks()?;
            }
            return Ok((instance.commands(), uses_of(&instance)));
        }
        let idle = instances.take_idle();
        // Memory for staging may wait for work, and its callbacks may submit these commands.
        drop(instances);
        let mut recorder = match idle {
            Some(recorder) => recorder,
            None => recorders.take_recorder(family)?,
        };
        recording.record(&mut recorder, core, table, Repeats::Always)?;
        let lent = recorder.lend(table);
        let instance = Arc::new(Instance::new(recorder, key, lent));
        self.instances.lock().add(instance.clone());
        Ok((instance.commands(), uses_of(&instance)))
    }

    /// A description of its work for messages: some of its dispatches. Derived once.
    pub(crate) fn description(&self) -> &str {
        self.description.get_or_init(|| self.describe(None))
    }

    /// Its dispatches, for messages: the one that follows as many as are complete, if that is known, or some
    /// of them.
    pub(super) fn describe(&self, completed: Option<usize>) -> String {
        let Some(recording) = self.ready.get() else { return "a command buffer".into() };
        let dispatches = || {
            recording.commands.iter().filter_map(|command| match command {
                Command::Dispatch(dispatch) => Some(dispatch),
                _ => None,
            })
        };
        let names = || dispatches().map(|dispatch| function_name(&recording.store, dispatch));
        let count = dispatches().count();
        let executing = completed.and_then(|completed| Some((completed, names().nth(completed)?)));
        match (executing, count) {
            (_, 0) => "a command buffer without dispatches".into(),
            (Some((completed, name)), _) => {
                format!("dispatch of {name}, dispatch {} of {count} of a command buffer", completed + 1)
            }
            (None, 1) => format!("a command buffer with a dispatch of {}", names().collect::<String>()),
            // All are complete, or that is not known.
            (None, _) => {
                let listed: Vec<_> = names().take(4).collect();
                let more = if count > listed.len() {
                    format!(" and {} more", count - listed.len())
                } else {
                    String::new()
                };
                format!("a command buffer with one of dispatches of {}{more}", listed.join(", "))
            }
        }
    }
}

impl Recording {
    /// Fails if a buffer that the commands name was deallocated, or is not allocated yet.
    fn check_transients(&self, memory: &Memory) -> Result<()> {
        for index in &self.transients {
            MemoryRange::for_buffer(memory, &self.store.buffers[*index as usize], 0, 0)?;
        }
        Ok(())
    }

    fn record(
        &self,
        recorder: &mut Recorder,
        core: &Core,
        table: &[Option<MemoryRange>],
        repeats: Repeats,
    ) -> Result<()> {
        recorder.begin(repeats)?;
        self.begin_marks(recorder, core)?;
        for (index, command) in self.commands.iter().enumerate() {
            record_command(recorder, core.staging(), &self.store, table, command)
                .context(|| in_command(index))?;
            mark(recorder, core, command);
        }
        recorder.end()
    }

    /// Begins to mark the dispatches that are complete, if the watchdog may have to name the one that is not.
    fn begin_marks(&self, recorder: &mut Recorder, core: &Core) -> Result<()> {
        if !core.has_watchdog() {
            return Ok(());
        }
        let dispatches = self.commands.iter().filter(|command| matches!(command, Command::Dispatch(_)));
        recorder.begin_marks(dispatches.count())
    }

    /// Records the commands once, with timestamps.
    fn record_with_timestamps(
        &self,
        recorder: &mut Recorder,
        core: &Core,
        table: &[Option<MemoryRange>],
        profile: &ProfiledSubmission,
        timestamps: &mut SubmissionTimestamps,
    ) -> Result<()> {
        recorder.begin(Repeats::Never)?;
        timestamps.begin(recorder, self.commands.len())?;
        self.begin_marks(recorder, core)?;
        let mut command_index = 0;
        for (index, command) in self.commands.iter().enumerate() {
            let record = |recorder: &mut Recorder| {
                record_command(recorder, core.staging(), &self.store, table, command)
            };
            let recorded = match command {
                Command::Dispatch(dispatch) => {
                    timestamps.dispatch(recorder, profile, &self.store, dispatch, Some(command_index), record)
                }
                _ => record(recorder),
            };
            recorded.context(|| in_command(index))?;
            mark(recorder, core, command);
            command_index += u32::from(is_described(command));
        }
        timestamps.end(recorder);
        recorder.end()
    }
}

/// Marks the end of a dispatch for the watchdog.
fn mark(recorder: &mut Recorder, core: &Core, command: &Command<Indexed>) {
    if core.has_watchdog() && matches!(command, Command::Dispatch(_)) {
        recorder.mark();
    }
}

/// Objects that a submission of baked commands uses.
fn uses_of(instance: &Arc<Instance>) -> Uses {
    Uses { instance: Some(instance.clone()), ..Uses::default() }
}

fn in_command(index: usize) -> String {
    format!("command {index} of the command buffer")
}

fn not_recording() -> Error {
    Error::failed_precondition("the command buffer is not being recorded")
}

impl CommandBufferBackend for VulkanCommands {
    fn begin(&self) -> Result<()> {
        *self.recording.lock() = Some(Recording::default());
        Ok(())
    }

    fn record(&self, command: &Command<Live<'_>>) -> Result<()> {
        let mut recording = self.recording.lock();
        let recording = recording.as_mut().ok_or_else(not_recording)?;
        let kept = command.rename(&mut recording.store)?;
        recording.commands.push(kept);
        Ok(())
    }

    fn refused(&self, _command: &Command<Live<'_>>, _error: &Error) {}

    fn end(&self) -> Result<()> {
        let mut recording = self.recording.lock().take().ok_or_else(not_recording)?;
        let buffers = (0..).zip(&recording.store.buffers);
        recording.transients =
            buffers.filter(|(_, buffer)| buffer.is_queue_ordered()).map(|(index, _)| index).collect();
        // The handle ensures that a command buffer is recorded once, so this is the first value.
        let _ = self.ready.set(recording);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use rehal_base::Range;
    use rehal_hal::{BufferParams, BufferRef, CommandCategories};

    use super::*;
    use crate::gpu::tests::gpu;

    const LARGE: u64 = 64 << 20;

    /// A binding table with new memory.
    fn table(core: &Core, length: u64) -> [Option<MemoryRange>; 1] {
        let kind = core.memory().kinds(&BufferParams::default().canonical(), length).unwrap()[0];
        let allocation = Arc::new(core.memory().allocate(kind, length, 0).unwrap());
        [Some(MemoryRange::within(&allocation, Range { offset: 0, length }))]
    }

    /// Commands that fill what is bound.
    fn commands(core: &Core) -> CommandBuffer {
        let params = CommandBufferParams {
            categories: CommandCategories::TRANSFER,
            ..CommandBufferParams::default().slots(1)
        };
        let commands = VulkanCommands::create(core.gpu(), params);
        commands.begin().unwrap();
        let target = BufferRef::slot(0, 0, 4096);
        commands.record(&Command::Fill { target, pattern: &[1], flags: 0 }).unwrap();
        commands.end().unwrap();
        commands
    }

    #[test]
    fn commands_are_baked_once_for_a_binding_table() {
        let core = Core::create(&gpu(), None).unwrap();
        let buffer = commands(&core);
        let commands = VulkanCommands::of(&buffer).unwrap();
        for length in [4096, LARGE] {
            let table = table(&core, length);
            // Both are kept, as if they were in flight.
            let first = commands.bake(&core, &table, None).unwrap();
            let second = commands.bake(&core, &table, None).unwrap();
            assert!(first.0 == second.0, "{length} bytes");
        }
    }

    #[test]
    fn submissions_in_flight_do_not_share_marks() {
        let core = Core::create(&gpu(), Some(std::time::Duration::from_secs(1000))).unwrap();
        let buffer = commands(&core);
        let commands = VulkanCommands::of(&buffer).unwrap();
        let table = table(&core, 4096);
        let first = commands.bake(&core, &table, None).unwrap();
        let second = commands.bake(&core, &table, None).unwrap();
        assert!(first.0 != second.0, "the first is in flight");
        let handle = first.0;
        drop(first);
        let third = commands.bake(&core, &table, None).unwrap();
        assert!(third.0 == handle, "it is not in flight any more");
        assert_eq!(commands.instances.lock().len(), 2);
    }

    #[test]
    fn baked_commands_do_not_keep_large_memory() {
        let core = Core::create(&gpu(), None).unwrap();
        let buffer = commands(&core);
        let commands = VulkanCommands::of(&buffer).unwrap();
        for _ in 0..20 {
            let large = table(&core, LARGE);
            drop(commands.bake(&core, &large, None).unwrap());
            let block = large[0].as_ref().map(|range| Arc::downgrade(range.allocation().block())).unwrap();
            drop(large);
            assert_eq!(block.strong_count(), 0);
            // The commands of memory that was freed make room.
            assert_eq!(commands.instances.lock().len(), 1);
        }
    }
}
