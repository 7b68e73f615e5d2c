//! Typed zero-copy views of the rows of chunks: a fixed header and the lists that follow it.
//!
//! One table lists, for every content type, the header of its rows, the lists that follow with the header
//! field that counts each, and the reserved fields, which are zero unless a newer minor version uses them.
//! The reader decodes bytes to these views, and the writer encodes them.

use std::marker::PhantomData;
use std::ops::Deref;

use rehal_base::{Fault, FormatError, checked_array_bytes};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::RecordType;
use crate::layout::{self, MetricValue};
use crate::reader::Record;

/// The prefix of every content type.
const CONTENT_PREFIX: &str = "application/vnd.iree.hal.profile.";

/// A row of a chunk.
pub trait Row<'a>: Sized {
    /// The content type of its chunks.
    const CONTENT: ContentType;

    /// The row at the start of `rest`, which is the payload of `record` from `offset` on, and its size in
    /// bytes.
    #[doc(hidden)]
    fn parse(record: &Record<'a>, offset: usize, rest: &'a [u8]) -> Result<(Self, usize), FormatError>;

    /// Calls `use_parts` with the bytes of the header, of each list, and of what a newer version appended, in
    /// file order.
    fn with_parts<R>(&self, use_parts: impl FnOnce(&[&[u8]]) -> R) -> R;

    /// The first length or count in the header that differs from what the row has: the field, the expected
    /// value and the found value.
    fn count_mismatch(&self) -> Option<(&'static str, u64, u64)>;
}

macro_rules! rows {
    ($(
        $(#[$doc:meta])*
        $content:ident $text:literal $name:ident $place:ident {
            $( $(#[$list_doc:meta])* $list:ident: [$element:ty] = $count:ident, )*
        } zero { $( $zero:ident ),* }
    )*) => {
        /// The content type of a chunk.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum ContentType {
            /// The records that begin and end a session.
            Session,
            $( $(#[$doc])* $content, )*
        }

        impl ContentType {
            /// The content types of chunks.
            pub const CHUNKS: &'static [Self] = &[ $( Self::$content, )* ];

            /// The text in the file.
            pub fn text(self) -> String {
                format!("{CONTENT_PREFIX}{}", self.short())
            }

            /// The content type with this text, if it is known.
            pub fn from_text(text: &[u8]) -> Option<Self> {
                let short = text.strip_prefix(CONTENT_PREFIX.as_bytes())?;
                match std::str::from_utf8(short).ok()? {
                    "session" => Some(Self::Session),
                    $( $text => Some(Self::$content), )*
                    _ => None,
                }
            }

            fn short(self) -> &'static str {
                match self {
                    Self::Session => "session",
                    $( Self::$content => $text, )*
                }
            }
        }

        impl<'a> Record<'a> {
            /// Parses all rows of a chunk, and calls `use_parts` with the parts of each. Of an unknown
            /// content type, the payload is the one part.
            ///
            /// Stops at the first malformed row, with its error.
            pub fn with_rows(&self, mut use_parts: impl FnMut(&[&[u8]])) -> Result<(), FormatError> {
                match self.content() {
                    $( Some(ContentType::$content) => {
                        for row in self.rows::<$name<'a>>() {
                            row?.with_parts(&mut use_parts);
                        }
                    } )*
                    Some(ContentType::Session) | None => use_parts(&[self.payload]),
                }
                Ok(())
            }
        }

        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug)]
            pub struct $name<'a> {
                /// The fixed part; a view derefs to it.
                pub header: &'a layout::$name,
                $( $(#[$list_doc])* pub $list: &'a [$element], )*
                /// Bytes that a newer version of the format appended to the row.
                pub appended: &'a [u8],
            }

            impl $name<'_> {
                const HAS_LISTS: bool = !<[&str]>::is_empty(&[ $( stringify!($list) ),* ]);
            }

            impl Deref for $name<'_> {
                type Target = layout::$name;

                fn deref(&self) -> &layout::$name {
                    self.header
                }
            }

            impl layout::$name {
                /// This header with the lengths and counts for a row with these lists.
                pub fn sized(mut self, $( $list: &[$element] ),*) -> Self {
                    #[allow(unused_mut, reason = "some rows have no list")]
                    let mut bytes = 0;
                    $(
                        bytes += size_of_val($list);
                        self.$count.set($list.len() as _);
                    )*
                    let bytes = if Placement::$place == Placement::Following { 0 } else { bytes };
                    self.record_length = U32::new((size_of::<Self>() + bytes) as u32);
                    self
                }
            }

            impl<'a> Row<'a> for $name<'a> {
                const CONTENT: ContentType = ContentType::$content;

                fn parse(
                    record: &Record<'a>,
                    offset: usize,
                    rest: &'a [u8],
                ) -> Result<(Self, usize), FormatError> {
                    let cut = Cut::<layout::$name>::new(record, offset, rest, Placement::$place)?;
                    let header = cut.header;
                    $(
                        if header.$zero.get() != 0 && record.version_minor <= layout::VERSION.1 {
                            let at = core::mem::offset_of!(layout::$name, $zero);
                            return Err(cut.error(at, stringify!($zero), "0", header.$zero.get().to_string()));
                        }
                    )*
                    #[allow(unused_mut, reason = "some rows have no list")]
                    let mut lists = cut.lists;
                    $(
                        let $list = lists.take::<$element>(
                            u64::from(header.$count.get()),
                            core::mem::offset_of!(layout::$name, $count),
                            stringify!($count),
                        )?;
                    )*
                    let appended = lists.end(Self::HAS_LISTS)?;
                    Ok((Self { header, $( $list, )* appended }, cut.length))
                }

                fn with_parts<R>(&self, use_parts: impl FnOnce(&[&[u8]]) -> R) -> R {
                    use_parts(&[self.header.as_bytes(), $( self.$list.as_bytes(), )* self.appended])
                }

                fn count_mismatch(&self) -> Option<(&'static str, u64, u64)> {
                    if Self::HAS_LISTS && !self.appended.is_empty() {
                        // A reader could not tell it from a longer list.
                        return Some(("length of appended bytes", 0, self.appended.len() as u64));
                    }
                    #[allow(unused_mut, reason = "some rows have no list")]
                    let mut length = size_of::<layout::$name>() + self.appended.len();
                    $(
                        let (found, count) = (self.$list.len() as u64, u64::from(self.header.$count.get()));
                        if found != count {
                            return Some((stringify!($count), found, count));
                        }
                        if Placement::$place == Placement::Inline {
                            length += size_of_val(self.$list);
                        }
                    )*
                    let record_length = u64::from(self.header.record_length.get());
                    (record_length != length as u64).then_some(("record_length", length as u64, record_length))
                }
            }
        )*
    };
}

rows! {
    /// Physical devices.
    Devices "devices" Device Inline {} zero {}

    /// Queues of physical devices.
    Queues "queues" Queue Inline {} zero { reserved0 }

    /// Executables.
    Executables "executables" Executable Inline {} zero { reserved0 }

    /// Code of executables.
    CodeObjects "executable-code-objects" CodeObject Inline {
        /// The image.
        data: [u8] = data_length,
    } zero {}

    /// Where devices have loaded code.
    CodeObjectLoads "executable-code-object-loads" CodeObjectLoad Inline {} zero {}

    /// Functions of executables.
    Functions "executable-functions" Function Inline {
        /// The name.
        name: [u8] = name_length,
    } zero {}

    /// Command buffers.
    CommandBuffers "command-buffers" CommandBuffer Inline {} zero { reserved0 }

    /// Commands of command buffers.
    CommandOperations "command-operations" CommandOperation Inline {} zero { reserved0 }

    /// Clocks of devices and of the host.
    ClockCorrelations "clock-correlations" ClockCorrelation Inline {} zero { reserved0 }

    /// Dispatches, timed by the device.
    DispatchEvents "dispatch-events" DispatchEvent Inline {} zero {}

    /// Submissions to queues.
    QueueEvents "queue-events" QueueEvent Inline {} zero {}

    /// Queue operations, timed by the device.
    QueueDeviceEvents "queue-device-events" QueueDeviceEvent Inline {} zero { reserved0, reserved1 }

    /// Queue operations and dispatches that the host executed.
    HostExecutionEvents "host-execution-events" HostExecutionEvent Inline {} zero { reserved0 }

    /// Regions of command buffers.
    CommandRegionEvents "command-region-events" CommandRegionEvent Inline {} zero {}

    /// Steps in the lives of allocations.
    MemoryEvents "memory-events" MemoryEvent Inline {} zero { reserved0 }

    /// Events that belong together.
    EventRelationships "event-relationships" EventRelationship Inline {} zero {}

    /// Sets of hardware counters.
    CounterSets "counter-sets" CounterSet Inline {
        /// The name.
        name: [u8] = name_length,
    } zero {}

    /// Hardware counters.
    Counters "counters" Counter Inline {
        /// Name of the hardware block.
        block_name: [u8] = block_name_length,
        /// The name.
        name: [u8] = name_length,
        /// The description of what it counts.
        description: [u8] = description_length,
    } zero {}

    /// Samples of hardware counters.
    CounterSamples "counter-samples" CounterSample Inline {
        /// The values of all counters of the set.
        values: [U64] = sample_value_count,
    } zero { reserved0, reserved1 }

    /// Sources of device metrics.
    MetricSources "device-metric-sources" MetricSource Inline {
        /// The name.
        name: [u8] = name_length,
    } zero {}

    /// Device metrics.
    MetricDescriptors "device-metric-descriptors" MetricDescriptor Inline {
        /// The name.
        name: [u8] = name_length,
        /// The description of what it measures.
        description: [u8] = description_length,
    } zero {}

    /// Samples of device metrics.
    MetricSamples "device-metric-samples" MetricSample Inline {
        /// The values.
        values: [MetricValue] = value_count,
    } zero {}

    /// Hardware traces, one per chunk.
    ExecutableTraces "executable-traces" ExecutableTrace Following {
        /// The trace.
        data: [u8] = data_length,
    } zero {}
}

/// Where the lists of a row are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Placement {
    /// In the row, whose length counts them.
    Inline,
    /// Behind the row, up to the end of the chunk.
    Following,
}

/// A row cut out of its chunk.
struct Cut<'r, 'a, H> {
    record: &'r Record<'a>,
    offset: usize,
    header: &'a H,
    lists: Lists<'r, 'a>,
    length: usize,
}

impl<'r, 'a, H: FromBytes + KnownLayout + Immutable + Unaligned> Cut<'r, 'a, H> {
    fn new(
        record: &'r Record<'a>,
        offset: usize,
        rest: &'a [u8],
        placement: Placement,
    ) -> Result<Self, FormatError> {
        let Ok((header, tail)) = H::ref_from_prefix(rest) else {
            let expected = format!("at least {} bytes", size_of::<H>());
            return Err(record.row_error(offset, "row", expected, format!("{} bytes", rest.len())));
        };
        let record_length = u32::from_le_bytes(rest[..4].try_into().unwrap_or_default()) as usize;
        let fits = match placement {
            Placement::Inline => (size_of::<H>()..=rest.len()).contains(&record_length),
            Placement::Following => record_length == size_of::<H>(),
        };
        if !fits {
            let expected = match placement {
                Placement::Inline => format!("{} to {}", size_of::<H>(), rest.len()),
                Placement::Following => size_of::<H>().to_string(),
            };
            return Err(record.row_error(offset, "record_length", expected, record_length.to_string()));
        }
        let (length, tail) = match placement {
            Placement::Inline => (record_length, &tail[..record_length - size_of::<H>()]),
            Placement::Following => (rest.len(), tail),
        };
        let lists = Lists { record, offset, tail };
        Ok(Self { record, offset, header, lists, length })
    }

    #[cold]
    fn error(&self, at: usize, field: &'static str, expected: &str, found: String) -> FormatError {
        self.record.row_error(self.offset + at, field, expected, found)
    }
}

/// The bytes behind the header of a row.
struct Lists<'r, 'a> {
    record: &'r Record<'a>,
    offset: usize,
    tail: &'a [u8],
}

impl<'a> Lists<'_, 'a> {
    fn take<T: FromBytes + Immutable + KnownLayout + Unaligned>(
        &mut self,
        count: u64,
        count_offset: usize,
        field: &'static str,
    ) -> Result<&'a [T], FormatError> {
        let Some(bytes) = checked_array_bytes(count, size_of::<T>(), self.tail.len()) else {
            let expected = format!("at most {}", self.tail.len() / size_of::<T>());
            return Err(self.record.row_error(
                self.offset + count_offset,
                field,
                expected,
                count.to_string(),
            ));
        };
        let (list, rest) = self.tail.split_at(bytes);
        self.tail = rest;
        Ok(<[T]>::ref_from_bytes(list).unwrap_or_default())
    }

    /// The bytes that are left: none, in a row with lists, since a reader could not tell them from a longer
    /// list.
    fn end(self, has_lists: bool) -> Result<&'a [u8], FormatError> {
        if has_lists && !self.tail.is_empty() {
            let found = format!("{} bytes more", self.tail.len());
            return Err(self.record.row_error(self.offset, "record_length", "the end of the lists", found));
        }
        Ok(self.tail)
    }
}

/// The rows of a chunk, in file order. The iterator ends after the first error.
#[derive(Clone)]
pub struct Rows<'a, R> {
    record: Record<'a>,
    offset: usize,
    row: PhantomData<R>,
}

impl<'a> Record<'a> {
    /// The content of its rows, if it is a chunk of a known content type.
    pub fn content(&self) -> Option<ContentType> {
        let is_chunk = self.record_type() == RecordType::CHUNK;
        ContentType::from_text(self.content_type)
            .filter(|content| is_chunk && *content != ContentType::Session)
    }

    /// The rows of the chunk; none if its content type is not that of `R`.
    pub fn rows<R: Row<'a>>(&self) -> Rows<'a, R> {
        let offset = if self.content() == Some(R::CONTENT) { 0 } else { self.payload.len() };
        Rows { record: *self, offset, row: PhantomData }
    }

    /// An error in a row, at `offset` of the payload.
    #[cold]
    fn row_error(
        &self,
        offset: usize,
        field: &'static str,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> FormatError {
        self.payload_error(Fault::Corrupt, offset, field, expected, found)
    }
}

impl<'a, R: Row<'a>> Iterator for Rows<'a, R> {
    type Item = Result<R, FormatError>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.record.payload.get(self.offset..).filter(|rest| !rest.is_empty())?;
        match R::parse(&self.record, self.offset, rest) {
            Ok((row, length)) => {
                self.offset += length;
                Some(Ok(row))
            }
            Err(error) => {
                self.offset = self.record.payload.len();
                Some(Err(error))
            }
        }
    }
}
