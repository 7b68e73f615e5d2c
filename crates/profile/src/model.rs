//! The objects that the metadata of a bundle describes: queues, executables, functions, command buffers,
//! clocks and metrics.

use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

use rehal_base::{Error, Result};

use crate::clock::{ClockFit, ClockSamples};
use crate::layout::{self, NONE, OPERATION_BLOCK_STRUCTURE};
use crate::rows;
use crate::table::Table;
use crate::{Bundle, CommandOperationType, ContentType, Record};

/// A queue by device, ordinal and stream.
pub type QueueKey = (u32, u32, u64);

/// The queue of an event.
macro_rules! queue_of {
    ($event:expr) => {
        ($event.physical_device_ordinal.get(), $event.queue_ordinal.get(), $event.stream_id.get())
    };
}
pub(crate) use queue_of;

/// A function by executable and ordinal.
pub type FunctionKey = (u64, u32);

/// The metadata of a bundle. Of rows that describe the same thing, the first counts.
#[derive(Debug, Default)]
pub struct Model<'a> {
    pub clocks: Table<u32, DeviceClock>,
    pub queues: Table<QueueKey, &'a layout::Queue>,
    pub executables: Table<u64, Executable<'a>>,
    pub functions: Table<FunctionKey, rows::Function<'a>>,
    pub command_buffers: Table<u64, CommandBuffer<'a>>,
    /// In file order.
    pub operations: Vec<&'a layout::CommandOperation>,
    pub metrics: Table<(u64, u64), rows::MetricDescriptor<'a>>,
}

/// The clock of a device.
#[derive(Debug)]
pub struct DeviceClock {
    pub ordinal: u32,
    pub samples: ClockSamples,
}

/// An executable with the indices of its functions.
#[derive(Debug)]
pub struct Executable<'a> {
    pub header: &'a layout::Executable,
    pub functions: Vec<usize>,
}

/// A command buffer with the indices of its commands.
#[derive(Debug)]
pub struct CommandBuffer<'a> {
    pub header: &'a layout::CommandBuffer,
    pub operations: Vec<usize>,
}

impl<'a> Model<'a> {
    /// The metadata of a bundle.
    pub fn from_bundle(bundle: &Bundle<'a>) -> Result<Self> {
        let mut model = Self::default();
        for record in bundle.records() {
            model.add(&record?)?;
        }
        Ok(model)
    }

    /// Adds what a record describes. Fails at a malformed row of any chunk, also if the model has nothing of
    /// it: a report does not pass over damage because it does not print these rows.
    pub fn add(&mut self, record: &Record<'a>) -> Result<()> {
        match record.content() {
            Some(ContentType::Queues) => {
                for row in record.rows::<rows::Queue<'_>>() {
                    let queue = row?.header;
                    let ordinals = (queue.physical_device_ordinal.get(), queue.queue_ordinal.get());
                    self.queues.entry((ordinals.0, ordinals.1, queue.stream_id.get()), || queue);
                }
            }
            Some(ContentType::Executables) => {
                for row in record.rows::<rows::Executable<'_>>() {
                    let header = row?.header;
                    let make = || Executable { header, functions: Vec::new() };
                    self.executables.entry(header.executable_id.get(), make);
                }
            }
            Some(ContentType::Functions) => {
                for row in record.rows::<rows::Function<'_>>() {
                    self.add_function(row?)?;
                }
            }
            Some(ContentType::CommandBuffers) => {
                for row in record.rows::<rows::CommandBuffer<'_>>() {
                    let header = row?.header;
                    let make = || CommandBuffer { header, operations: Vec::new() };
                    self.command_buffers.entry(header.command_buffer_id.get(), make);
                }
            }
            Some(ContentType::CommandOperations) => {
                for row in record.rows::<rows::CommandOperation<'_>>() {
                    self.add_operation(row?.header)?;
                }
            }
            Some(ContentType::ClockCorrelations) => {
                for row in record.rows::<rows::ClockCorrelation<'_>>() {
                    let sample = row?.header;
                    self.clock_mut(sample.physical_device_ordinal.get()).samples.add(sample);
                }
            }
            Some(ContentType::MetricDescriptors) => {
                for row in record.rows::<rows::MetricDescriptor<'_>>() {
                    let row = row?;
                    self.metrics.entry((row.source_id.get(), row.metric_id.get()), || row);
                }
            }
            _ => record.with_rows(|_| ())?,
        }
        Ok(())
    }

    fn add_function(&mut self, function: rows::Function<'a>) -> Result<()> {
        let (id, ordinal) = (function.executable_id.get(), function.function_ordinal.get());
        let Some(executable) = self.executables.get_mut(&id) else {
            return Err(Error::data_loss(format!(
                "function {ordinal} is of executable {id}, which the bundle does not describe"
            )));
        };
        let index = self.functions.len();
        self.functions.entry((id, ordinal), || {
            executable.functions.push(index);
            function
        });
        Ok(())
    }

    fn add_operation(&mut self, operation: &'a layout::CommandOperation) -> Result<()> {
        let (id, index) = (operation.command_buffer_id.get(), operation.command_index.get());
        let at = || format!("command {index} of command buffer {id}");
        let block = [operation.block_ordinal.get(), operation.block_command_ordinal.get()];
        let targets = [operation.target_block_ordinal.get(), operation.alternate_block_ordinal.get()];
        if has_block_structure(operation) {
            if block.contains(&NONE) {
                return Err(Error::data_loss(format!("{} is in a block, but has no block ordinals", at())));
            }
        } else if block.iter().chain(&targets).any(|ordinal| *ordinal != NONE) {
            return Err(Error::data_loss(format!("{} is in no block, but has block ordinals", at())));
        }
        let Some(command_buffer) = self.command_buffers.get_mut(&id) else {
            return Err(Error::data_loss(format!(
                "{} refers to a command buffer that the bundle does not describe",
                at()
            )));
        };
        command_buffer.operations.push(self.operations.len());
        self.operations.push(operation);
        Ok(())
    }

    /// The executables with the code of another one that is described before them, which is the value: the
    /// same hash, and functions of the same names, hashes and signatures.
    pub fn reloaded(&self) -> HashMap<u64, u64> {
        let (mut first, mut reloaded) = (HashMap::new(), HashMap::new());
        for executable in self.executables.values() {
            let functions = executable.functions.iter().map(|index| {
                let it = &self.functions.values()[*index];
                (
                    (it.function_ordinal.get(), it.name, it.flags.get(), it.function_hash),
                    (it.constant_count, it.binding_count, it.parameter_count, it.workgroup_size),
                )
            });
            let header = executable.header;
            let code = (header.flags.get(), header.code_object_hash, functions.collect::<Vec<_>>());
            let id = header.executable_id.get();
            match first.entry(code) {
                Entry::Vacant(free) => {
                    free.insert(id);
                }
                Entry::Occupied(other) => {
                    reloaded.insert(id, *other.get());
                }
            }
        }
        reloaded
    }

    /// The clock of a device, which exists from then on.
    pub fn clock_mut(&mut self, ordinal: u32) -> &mut DeviceClock {
        self.clocks.entry(ordinal, || DeviceClock { ordinal, samples: ClockSamples::default() })
    }

    /// The map from ticks of a device to the clock that its driver samples.
    pub fn clock_fit(&self, ordinal: u32) -> Option<ClockFit> {
        self.clocks.get(&ordinal)?.samples.fit()
    }

    /// Fails unless the bundle describes the queue of an event.
    pub fn check_queue(&self, event: &str, key: QueueKey, submission: u64) -> Result<usize> {
        self.queues.position(&key).ok_or_else(|| {
            let (device, queue, stream) = key;
            Error::data_loss(format!(
                "{event} of submission {submission} refers to queue {queue} of device {device}, stream {stream}, which the \
                 bundle does not describe"
            ))
        })
    }

    /// The name of a function in reports: its own, or the place where it is.
    pub fn function_key(&self, device: u32, id: u64, ordinal: u32) -> Result<Cow<'a, [u8]>> {
        let missing = |what: &str| {
            Error::data_loss(format!(
                "an event of device {device} refers to function {ordinal} of executable {id}: the bundle does not describe \
                 the {what}"
            ))
        };
        if self.executables.get(&id).is_none() {
            return Err(missing("executable"));
        }
        let function = self.functions.get(&(id, ordinal)).ok_or_else(|| missing("function"))?;
        Ok(key_of(function, device))
    }

    /// The name of a command in reports: the function of a dispatch, or else its operation.
    pub fn operation_key(&self, operation: &layout::CommandOperation) -> Result<Cow<'a, [u8]>> {
        let name = CommandOperationType(operation.operation_type.get());
        let (id, ordinal) = (operation.executable_id.get(), operation.function_ordinal.get());
        if name != CommandOperationType::DISPATCH || id == 0 || ordinal == NONE {
            return Ok(Cow::Borrowed(name.name().as_bytes()));
        }
        let command_buffer = self.command_buffers.get(&operation.command_buffer_id.get());
        let device = command_buffer.map_or(NONE, |it| it.header.physical_device_ordinal.get());
        self.function_key(device, id, ordinal)
    }
}

/// The name of a function, or where it is if it has none.
pub fn key_of<'a>(function: &rows::Function<'a>, device: u32) -> Cow<'a, [u8]> {
    if !function.name.is_empty() {
        return Cow::Borrowed(function.name);
    }
    let (id, ordinal) = (function.executable_id.get(), function.function_ordinal.get());
    Cow::Owned(match device {
        NONE => format!("executable{id}#{ordinal}").into_bytes(),
        _ => format!("device{device}/executable{id}#{ordinal}").into_bytes(),
    })
}

/// Whether a command is in a block.
pub fn has_block_structure(operation: &layout::CommandOperation) -> bool {
    operation.flags.get() & OPERATION_BLOCK_STRUCTURE != 0
}
