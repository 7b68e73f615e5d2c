//! Typed zero-copy views of payloads: a fixed header and the lists that follow it.
//!
//! One table lists, for every payload type, its header, the lists that follow with the header field that
//! counts each, and the fields that must be zero. The reader decodes bytes to these views, and the writer
//! encodes them.

use std::ops::Deref;

use rehal_base::{Fault, FormatError, checked_array_bytes};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::layout::{
    self, BufferBarrier, BufferRef, ExecutableMetadataHeader, FunctionMetadata, MemoryBarrier,
    ParameterMetadata, SemaphoreTimepoint,
};
use crate::{PayloadType, Record};

/// A view that a writer can encode; see [`Writer::append_view`](crate::Writer::append_view).
pub trait View {
    /// Its payload type.
    const TYPE: PayloadType;

    /// Calls `use_parts` with the bytes of the header and of each list, in file order.
    fn with_parts<R>(&self, use_parts: impl FnOnce(&[&[u8]]) -> R) -> R;

    /// The first count in the header that differs from the length of its list: the field, the expected value
    /// and the found value.
    fn count_mismatch(&self) -> Option<(&'static str, u64, u64)>;
}

macro_rules! payloads {
    ($(
        $(#[$doc:meta])*
        $code:ident $name:ident {
            $( $(#[$list_doc:meta])* $list:ident: [$element:ty] = $count:ident, )*
        } zero { $( $zero:ident $(. $inner:ident)? ),* } $([$check:ident])?
    )*) => {
        /// A record's payload.
        #[derive(Clone, Copy, Debug)]
        #[non_exhaustive]
        pub enum Payload<'a> {
            /// Nothing.
            None,
            /// Bytes of a type without a view: `NONE`, or an unknown type.
            Opaque(&'a [u8]),
            $( $(#[$doc])* $name($name<'a>), )*
        }

        impl<'a> Payload<'a> {
            /// The payload of `record`; see [`Record::payload`].
            #[inline]
            pub(crate) fn parse(record: &Record<'a>) -> Result<Self, FormatError> {
                match record.payload_type() {
                    PayloadType::NONE if record.payload.is_empty() => Ok(Self::None),
                    $( PayloadType::$code => $name::parse(record).map(Self::$name), )*
                    _ => Ok(Self::Opaque(record.payload)),
                }
            }

            /// Calls `use_parts` with the payload's bytes, as the header and one slice per list.
            pub fn with_parts<R>(&self, use_parts: impl FnOnce(&[&[u8]]) -> R) -> R {
                match self {
                    Self::None => use_parts(&[]),
                    Self::Opaque(bytes) => use_parts(&[bytes]),
                    $( Self::$name(view) => view.with_parts(use_parts), )*
                }
            }
        }

        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug)]
            pub struct $name<'a> {
                /// The fixed part; a view derefs to it.
                pub header: &'a layout::$name,
                $( $(#[$list_doc])* pub $list: &'a [$element], )*
            }

            impl Deref for $name<'_> {
                type Target = layout::$name;

                fn deref(&self) -> &layout::$name {
                    self.header
                }
            }

            impl<'a> $name<'a> {
                #[inline]
                fn parse(record: &Record<'a>) -> Result<Self, FormatError> {
                    #[allow(unused_mut, reason = "some payloads have no list")]
                    let (header, mut lists) = Lists::after::<layout::$name>(record)?;
                    $(
                        if header.$zero$(.$inner)?.get() != 0 {
                            return Err(not_zero(
                                record,
                                core::mem::offset_of!(layout::$name, $zero$(.$inner)?),
                                concat!(stringify!($zero) $(, ".", stringify!($inner))?),
                                u64::from(header.$zero$(.$inner)?.get()),
                            ));
                        }
                    )*
                    $(
                        let $list = lists.take::<$element>(
                            u64::from(header.$count.get()),
                            core::mem::offset_of!(layout::$name, $count),
                            stringify!($count),
                        )?;
                    )*
                    lists.end()?;
                    let view = Self { header, $( $list, )* };
                    $( $check(record, &view)?; )?
                    Ok(view)
                }
            }

            impl View for $name<'_> {
                const TYPE: PayloadType = PayloadType::$code;

                fn with_parts<R>(&self, use_parts: impl FnOnce(&[&[u8]]) -> R) -> R {
                    use_parts(&[self.header.as_bytes(), $( self.$list.as_bytes(), )*])
                }

                fn count_mismatch(&self) -> Option<(&'static str, u64, u64)> {
                    $(
                        let (length, count) = (self.$list.len() as u64, u64::from(self.header.$count.get()));
                        if length != count {
                            return Some((stringify!($count), length, count));
                        }
                    )*
                    None
                }
            }
        )*
    };
}

payloads! {
    /// A buffer object.
    BUFFER_OBJECT BufferObject {} zero { reserved0, reserved1 }

    /// A request for a buffer.
    ALLOCATOR_ALLOCATE_BUFFER AllocateBuffer {} zero { reserved0, reserved1 }

    /// Host memory imported as a buffer.
    ALLOCATOR_IMPORT_BUFFER ImportBuffer {
        /// The contents of the memory at import.
        data: [u8] = data_length,
    } zero { allocation.reserved0, allocation.reserved1 }

    /// A range of a buffer.
    BUFFER_RANGE BufferRange {} zero { reserved0, reserved1 }

    /// A range of a buffer and the bytes that the host wrote to it.
    BUFFER_RANGE_DATA BufferRangeData {
        /// The bytes written, from the start of the range.
        data: [u8] = data_length,
    } zero { reserved0, reserved1 }

    /// A command buffer object.
    COMMAND_BUFFER_OBJECT CommandBufferObject {} zero {}

    /// An executable cache object.
    EXECUTABLE_CACHE_OBJECT ExecutableCacheObject {
        /// Its identifier.
        identifier: [u8] = identifier_length,
    } zero { reserved0 }

    /// An executable as passed to the device.
    EXECUTABLE_PREPARE ExecutablePrepare {
        /// Name of its format, such as `embedded-elf-x86_64`.
        format: [u8] = executable_format_length,
        /// Its bytes.
        data: [u8] = executable_data_length,
        /// Specialization constants.
        constants: [U32] = constant_count,
        /// Its metadata; see [`ExecutablePrepare::metadata`].
        metadata_bytes: [u8] = executable_metadata_length,
    } zero { reserved1 } [check_executable]

    /// A semaphore object.
    SEMAPHORE_OBJECT SemaphoreObject {} zero { reserved0 }

    /// An event object.
    EVENT_OBJECT EventObject {} zero { reserved0, reserved1 }

    /// A file object.
    FILE_OBJECT FileObject {
        /// The path, the file's bytes, or nothing, depending on `reference_type`.
        reference: [u8] = reference_length,
    } zero { reserved0, reserved1 }

    /// Begins or ends a scope.
    REPLAY_SCOPE Scope {
        /// Its name, never empty. UTF-8 by convention, not validated.
        name: [u8] = name_length,
    } zero { flags, reserved0, reserved1 } [check_scope]

    /// A dispatch in a command buffer or on a queue.
    DISPATCH Dispatch {
        /// Timepoints to wait for; none in a command buffer.
        waits: [SemaphoreTimepoint] = wait_semaphore_count,
        /// Timepoints to signal; none in a command buffer.
        signals: [SemaphoreTimepoint] = signal_semaphore_count,
        /// Constants.
        constants: [u8] = constants_length,
        /// Bindings.
        bindings: [BufferRef] = binding_count,
    } zero { workgroup_count_ref.reserved0, reserved0 }

    /// An execution of a command buffer on a queue.
    DEVICE_QUEUE_EXECUTE QueueExecute {
        /// Timepoints to wait for.
        waits: [SemaphoreTimepoint] = wait_semaphore_count,
        /// Timepoints to signal.
        signals: [SemaphoreTimepoint] = signal_semaphore_count,
        /// The binding table.
        bindings: [BufferRef] = binding_count,
    } zero {}

    /// An allocation on a queue.
    DEVICE_QUEUE_ALLOCA QueueAlloca {
        /// Timepoints to wait for.
        waits: [SemaphoreTimepoint] = wait_semaphore_count,
        /// Timepoints to signal.
        signals: [SemaphoreTimepoint] = signal_semaphore_count,
    } zero { allocation.reserved0, allocation.reserved1 }

    /// A deallocation on a queue.
    DEVICE_QUEUE_DEALLOCA QueueDealloca {
        /// Timepoints to wait for.
        waits: [SemaphoreTimepoint] = wait_semaphore_count,
        /// Timepoints to signal.
        signals: [SemaphoreTimepoint] = signal_semaphore_count,
    } zero { buffer_ref.reserved0 }

    /// A fill on a queue.
    DEVICE_QUEUE_FILL QueueFill {
        /// Timepoints to wait for.
        waits: [SemaphoreTimepoint] = wait_semaphore_count,
        /// Timepoints to signal.
        signals: [SemaphoreTimepoint] = signal_semaphore_count,
        /// The pattern.
        pattern: [u8] = pattern_length,
    } zero { target_ref.reserved0 }

    /// An update on a queue.
    DEVICE_QUEUE_UPDATE QueueUpdate {
        /// Timepoints to wait for.
        waits: [SemaphoreTimepoint] = wait_semaphore_count,
        /// Timepoints to signal.
        signals: [SemaphoreTimepoint] = signal_semaphore_count,
        /// The bytes to write.
        data: [u8] = data_length,
    } zero { target_ref.reserved0 }

    /// A copy on a queue.
    DEVICE_QUEUE_COPY QueueCopy {
        /// Timepoints to wait for.
        waits: [SemaphoreTimepoint] = wait_semaphore_count,
        /// Timepoints to signal.
        signals: [SemaphoreTimepoint] = signal_semaphore_count,
    } zero { source_ref.reserved0, target_ref.reserved0 }

    /// A read of a file on a queue.
    DEVICE_QUEUE_READ QueueRead {
        /// Timepoints to wait for.
        waits: [SemaphoreTimepoint] = wait_semaphore_count,
        /// Timepoints to signal.
        signals: [SemaphoreTimepoint] = signal_semaphore_count,
        /// The bytes read, if the policy was to capture them.
        captured_data: [u8] = captured_data_length,
    } zero { target_ref.reserved0 }

    /// A write of a file on a queue.
    DEVICE_QUEUE_WRITE QueueWrite {
        /// Timepoints to wait for.
        waits: [SemaphoreTimepoint] = wait_semaphore_count,
        /// Timepoints to signal.
        signals: [SemaphoreTimepoint] = signal_semaphore_count,
    } zero { source_ref.reserved0 }

    /// An execution barrier in a command buffer.
    COMMAND_BUFFER_EXECUTION_BARRIER CommandBarrier {
        /// Global memory barriers.
        memory_barriers: [MemoryBarrier] = memory_barrier_count,
        /// Buffer memory barriers.
        buffer_barriers: [BufferBarrier] = buffer_barrier_count,
    } zero {}

    /// A signal or a reset of an event in a command buffer.
    COMMAND_BUFFER_EVENT CommandEvent {} zero {}

    /// A wait for events in a command buffer.
    COMMAND_BUFFER_WAIT_EVENTS CommandWaitEvents {
        /// Ids of the events.
        events: [U64] = event_count,
        /// Global memory barriers.
        memory_barriers: [MemoryBarrier] = memory_barrier_count,
        /// Buffer memory barriers.
        buffer_barriers: [BufferBarrier] = buffer_barrier_count,
    } zero { reserved0 }

    /// A fill in a command buffer.
    COMMAND_BUFFER_FILL_BUFFER CommandFill {
        /// The pattern.
        pattern: [u8] = pattern_length,
    } zero { target_ref.reserved0, reserved0 }

    /// An update in a command buffer.
    COMMAND_BUFFER_UPDATE_BUFFER CommandUpdate {
        /// The bytes to write.
        data: [u8] = data_length,
    } zero { target_ref.reserved0, reserved0 }

    /// A copy in a command buffer.
    COMMAND_BUFFER_COPY_BUFFER CommandCopy {} zero {
        source_ref.reserved0, target_ref.reserved0, reserved0, reserved1
    }
}

impl<'a> Payload<'a> {
    /// The program's data in the payload, which only a replay uses: code, file contents and host writes.
    /// Empty if none.
    pub fn data(&self) -> &'a [u8] {
        match self {
            Self::ImportBuffer(view) => view.data,
            Self::BufferRangeData(view) => view.data,
            Self::ExecutablePrepare(view) => view.data,
            Self::FileObject(view) => view.reference,
            Self::QueueUpdate(view) => view.data,
            Self::QueueRead(view) => view.captured_data,
            Self::CommandUpdate(view) => view.data,
            _ => &[],
        }
    }
}

/// The functions of an executable, as reflected by its device at capture.
#[derive(Clone, Copy, Debug)]
pub struct ExecutableMetadata<'a> {
    /// Counts.
    pub header: &'a ExecutableMetadataHeader,
    functions: &'a [FunctionMetadata],
    parameters: &'a [ParameterMetadata],
    names: &'a [u8],
}

/// One function of an executable.
#[derive(Clone, Copy, Debug)]
pub struct Function<'a> {
    /// Ordinal that dispatches refer to.
    pub ordinal: u32,
    /// Workgroup size, counts and flags.
    pub metadata: &'a FunctionMetadata,
    /// Its parameters; empty if the compiler emitted none.
    pub parameters: &'a [ParameterMetadata],
    /// Its name; empty in captures of version 1.0.
    pub name: &'a [u8],
}

impl<'a> ExecutablePrepare<'a> {
    /// The metadata of its functions; `None` if it was not prepared.
    pub fn metadata(&self) -> Option<ExecutableMetadata<'a>> {
        ExecutableMetadata::read(self.metadata_bytes)
    }
}

impl<'a> ExecutableMetadata<'a> {
    /// Number of functions.
    pub fn function_count(&self) -> usize {
        self.functions.len()
    }

    /// The functions, by ordinal.
    pub fn functions(&self) -> impl Iterator<Item = Function<'a>> + use<'a> {
        let (mut parameters, mut names) = (self.parameters, self.names);
        self.functions.iter().zip(0u32..).map(move |(metadata, ordinal)| {
            let own_parameters = split(&mut parameters, metadata.parameter_count.get());
            let name = split(&mut names, metadata.name_length.get());
            Function { ordinal, metadata, parameters: own_parameters, name }
        })
    }

    /// The lists, before their contents are validated.
    pub fn read(bytes: &'a [u8]) -> Option<Self> {
        let (header, rest) = ExecutableMetadataHeader::ref_from_prefix(bytes).ok()?;
        let functions_bytes = list_bytes::<FunctionMetadata>(header.function_count.get(), rest)?;
        let (functions, rest) = rest.split_at(functions_bytes);
        let parameters_bytes = list_bytes::<ParameterMetadata>(header.parameter_count.get(), rest)?;
        let (parameters, names) = rest.split_at(parameters_bytes);
        Some(Self {
            header,
            functions: <[FunctionMetadata]>::ref_from_bytes(functions).ok()?,
            parameters: <[ParameterMetadata]>::ref_from_bytes(parameters).ok()?,
            names,
        })
    }
}

fn split<'a, T>(list: &mut &'a [T], count: u16) -> &'a [T] {
    let (head, rest) = list.split_at(usize::from(count).min(list.len()));
    *list = rest;
    head
}

fn list_bytes<T>(count: u64, rest: &[u8]) -> Option<usize> {
    checked_array_bytes(count, size_of::<T>(), rest.len())
}

impl<'a> Record<'a> {
    /// The typed payload, with every length, list and reserved field validated.
    pub fn payload(&self) -> Result<Payload<'a>, FormatError> {
        Payload::parse(self)
    }
}

fn check_scope(record: &Record<'_>, scope: &Scope<'_>) -> Result<(), FormatError> {
    if scope.name.is_empty() {
        let at = core::mem::offset_of!(layout::Scope, name_length);
        return Err(record.payload_error(Fault::Corrupt, at, "name_length", "at least 1", "0"));
    }
    Ok(())
}

fn check_executable(record: &Record<'_>, prepare: &ExecutablePrepare<'_>) -> Result<(), FormatError> {
    if prepare.metadata_bytes.is_empty() {
        return Ok(());
    }
    let start = record.payload.len() - prepare.metadata_bytes.len();
    let corrupt = |field_offset: usize, field: &'static str, expected: String, found: String| {
        Err(record.payload_error(Fault::Corrupt, start + field_offset, field, expected, found))
    };
    let Some(metadata) = prepare.metadata() else {
        let found = format!("{} bytes", prepare.metadata_bytes.len());
        return corrupt(
            0,
            "executable metadata",
            "at least the size of the lists that it counts".into(),
            found,
        );
    };
    let header = metadata.header;
    if header.reserved1.get() != 0 {
        return corrupt(24, "metadata.reserved1", "0".into(), header.reserved1.get().to_string());
    }
    let storage = header.function_name_storage_length.get();
    if record.version.major == 1 && storage != 0 {
        return corrupt(16, "metadata.reserved0", "0 in version 1.0".into(), storage.to_string());
    }
    if storage != metadata.names.len() as u64 {
        let expected = metadata.names.len().to_string();
        return corrupt(16, "function_name_storage_length", expected, storage.to_string());
    }
    let (mut parameters, mut names) = (0u64, 0u64);
    for function in metadata.functions {
        parameters += u64::from(function.parameter_count.get());
        names += u64::from(function.name_length.get());
    }
    if parameters != header.parameter_count.get() {
        let found = format!("{parameters} in the functions");
        return corrupt(8, "parameter_count", header.parameter_count.get().to_string(), found);
    }
    if names != storage {
        let found = format!("{names} bytes in the functions");
        return corrupt(16, "function_name_storage_length", storage.to_string(), found);
    }
    for (parameter, index) in metadata.parameters.iter().zip(0usize..) {
        if parameter.reserved0.get() != 0 {
            let at = size_of::<ExecutableMetadataHeader>()
                + size_of_val(metadata.functions)
                + index * size_of::<ParameterMetadata>()
                + core::mem::offset_of!(ParameterMetadata, reserved0);
            return corrupt(at, "parameter.reserved0", "0".into(), parameter.reserved0.get().to_string());
        }
    }
    Ok(())
}

/// An element of a list: its reserved field must be zero.
trait Element: FromBytes + Immutable + KnownLayout + Unaligned {
    /// The reserved field, if there is one.
    const RESERVED: Option<usize> = None;

    fn reserved(&self) -> u32 {
        0
    }
}

impl Element for u8 {}
impl Element for U32 {}
impl Element for U64 {}
impl Element for SemaphoreTimepoint {}
impl Element for MemoryBarrier {}

impl Element for BufferRef {
    const RESERVED: Option<usize> = Some(core::mem::offset_of!(BufferRef, reserved0));

    fn reserved(&self) -> u32 {
        self.reserved0.get()
    }
}

impl Element for BufferBarrier {
    const RESERVED: Option<usize> = Some(core::mem::offset_of!(BufferBarrier, buffer_ref.reserved0));

    fn reserved(&self) -> u32 {
        self.buffer_ref.reserved0.get()
    }
}

/// Splits the bytes that follow a payload's header into lists, from front to back.
struct Lists<'r, 'a> {
    record: &'r Record<'a>,
    rest: &'a [u8],
}

impl<'r, 'a> Lists<'r, 'a> {
    #[inline]
    fn after<H>(record: &'r Record<'a>) -> Result<(&'a H, Self), FormatError>
    where
        H: FromBytes + Immutable + KnownLayout + Unaligned,
    {
        match H::ref_from_prefix(record.payload) {
            Ok((header, rest)) => Ok((header, Self { record, rest })),
            Err(_) => Err(short(record, size_of::<H>())),
        }
    }

    /// The next list, whose length is the field `field` at `field_offset`.
    #[inline]
    fn take<T: Element>(
        &mut self,
        count: u64,
        field_offset: usize,
        field: &'static str,
    ) -> Result<&'a [T], FormatError> {
        let Some(bytes) = checked_array_bytes(count, size_of::<T>(), self.rest.len()) else {
            return Err(self.too_long(field_offset, field, count, size_of::<T>()));
        };
        let (list, rest) = self.rest.split_at(bytes);
        let start = self.record.payload.len() - self.rest.len();
        self.rest = rest;
        let Ok(list) = <[T]>::ref_from_bytes(list) else {
            return Err(self.too_long(field_offset, field, count, size_of::<T>()));
        };
        if let Some(reserved_offset) = T::RESERVED {
            for (element, index) in list.iter().zip(0usize..) {
                if element.reserved() != 0 {
                    let at = start + index * size_of::<T>() + reserved_offset;
                    return Err(not_zero(self.record, at, "reserved0", u64::from(element.reserved())));
                }
            }
        }
        Ok(list)
    }

    /// Fails if there are trailing bytes.
    #[inline]
    fn end(self) -> Result<(), FormatError> {
        if self.rest.is_empty() {
            return Ok(());
        }
        let used = self.record.payload.len() - self.rest.len();
        let expected = format!("{used} bytes for {}", self.record.payload_type());
        let found = format!("{} bytes", self.record.payload.len());
        Err(self.record.payload_error(Fault::Corrupt, used, "payload_length", expected, found))
    }

    #[cold]
    fn too_long(
        &self,
        field_offset: usize,
        field: &'static str,
        count: u64,
        element_bytes: usize,
    ) -> FormatError {
        let expected = format!("at most {}, which fit in the payload", self.rest.len() / element_bytes);
        self.record.payload_error(Fault::Corrupt, field_offset, field, expected, count.to_string())
    }
}

#[cold]
fn short(record: &Record<'_>, header_bytes: usize) -> FormatError {
    let expected = format!("at least {header_bytes} bytes for {}", record.payload_type());
    let found = format!("{} bytes", record.payload.len());
    record.payload_error(Fault::Corrupt, 0, "payload_length", expected, found)
}

#[cold]
fn not_zero(record: &Record<'_>, field_offset: usize, field: &'static str, found: u64) -> FormatError {
    record.payload_error(Fault::Corrupt, field_offset, field, "0", found.to_string())
}
