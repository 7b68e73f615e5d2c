//! A bundle with a row of every content type, for tests: of two devices with clocks, the second of which
//! cannot be correlated with the host's.

use std::io::Cursor;

use zerocopy::FromZeros;
use zerocopy::little_endian::{I32, I64, U32, U64};

use crate::layout::{self, HAS_IDENTITY, NONE};
use crate::rows;
use crate::{
    CommandOperationType as Operation, CounterSampleScope, CounterUnit, DependencyStrategy, DeviceClass,
    EndpointType, MemoryEventType, MetricPlotHint, MetricSemantic, MetricUnit, MetricValueKind,
    QueueEventType, RecordFields, RecordType, RelationshipType, Row, TraceFormat, Writer,
};

/// The ticks at which the clock samples are taken.
const CLOCK_TICKS: [u64; 3] = [1_000, 50_500, 101_000];

/// The bundle.
pub fn bundle() -> Vec<u8> {
    let mut sample = Sample { writer: Writer::new(Cursor::new(Vec::new())).expect("memory takes all") };
    sample.begin(1);
    sample.devices();
    sample.programs();
    sample.command_buffers();
    sample.clocks(CLOCK_TICKS[0], 10_000);
    sample.queue_events();
    sample.dispatches();
    sample.host_events();
    sample.clocks(CLOCK_TICKS[1], 20_000);
    sample.memory_events();
    sample.counters();
    sample.metrics();
    sample.others();
    sample.clocks(CLOCK_TICKS[2], 30_001);
    sample.end(1, 0);
    sample.begin(2);
    sample.end(2, 8);
    sample.writer.into_inner().into_inner()
}

struct Sample {
    writer: Writer<Cursor<Vec<u8>>>,
}

fn fields(session_id: u64) -> RecordFields<'static> {
    RecordFields { name: b"sample", session_id, ..RecordFields::default() }
}

fn n(value: u32) -> U32 {
    U32::new(value)
}

fn w(value: u64) -> U64 {
    U64::new(value)
}

fn s(value: i64) -> I64 {
    I64::new(value)
}

fn triple(x: u32, y: u32, z: u32) -> [U32; 3] {
    [n(x), n(y), n(z)]
}

/// A row of `header` and lists, whose lengths and counts this fills in.
macro_rules! row {
    ($name:ident { $($fields:tt)* } $(, $list:ident: $value:expr)*) => {
        rows::$name {
            header: &layout::$name { $($fields)*, ..layout::$name::new_zeroed() }.sized($($value),*),
            $($list: $value,)*
            appended: &[],
        }
    };
}

/// Appends a chunk of rows without lists, of headers whose lengths this fills in.
macro_rules! append {
    ($sample:expr, $fields:expr, $name:ident, $headers:expr) => {
        let headers = $headers.map(layout::$name::sized);
        let rows: Vec<_> = headers.iter().map(|header| rows::$name { header, appended: &[] }).collect();
        $sample.rows_of($fields, &rows);
    };
}

impl Sample {
    fn begin(&mut self, session: u64) {
        self.writer.begin_session(&fields(session)).expect("memory takes all");
    }

    fn end(&mut self, session: u64, status: u32) {
        let fields = RecordFields { stream_id: 4, event_id: 5, ..fields(session) };
        self.writer.end_session(&fields, status).expect("memory takes all");
    }

    fn rows<'r, R: Row<'r>>(&mut self, rows: &[R]) {
        self.rows_of(&fields(1), rows);
    }

    fn rows_of<'r, R: Row<'r>>(&mut self, fields: &RecordFields<'_>, rows: &[R]) {
        self.writer.append_rows(fields, rows).expect("memory takes all");
    }

    fn devices(&mut self) {
        self.rows(&[
            row!(Device {
                flags: n(HAS_IDENTITY),
                queue_count: n(2),
                physical_device_uuid: *b"0123456789\x00\x01\x7f\x80\xfe\xff"
            }),
            row!(Device { physical_device_ordinal: n(1), queue_count: n(1) }),
        ]);
        self.rows(&[
            row!(Queue { stream_id: w(10) }),
            row!(Queue { queue_ordinal: n(1), stream_id: w(11) }),
            row!(Queue { physical_device_ordinal: n(1), stream_id: w(12) }),
        ]);
    }

    fn programs(&mut self) {
        let code_object_hash = [w(0x0123_4567_89ab_cdef), w(7)];
        self.rows(&[
            row!(Executable {
                executable_id: w(1),
                flags: n(HAS_IDENTITY),
                function_count: n(2),
                code_object_hash
            }),
            row!(Executable { executable_id: w(2), function_count: n(1) }),
        ]);
        let (executable_id, code_object_id) = (w(1), w(3));
        self.rows(&[row!(CodeObject { executable_id, code_object_id }, data: b"\x7fELF code")]);
        self.rows(&[row!(CodeObjectLoad {
            executable_id,
            code_object_id,
            load_delta: s(-4096),
            load_size: w(8192)
        })]);
        let function_hash = [w(u64::MAX), w(0)];
        self.rows(&[
            row!(Function {
                executable_id: w(1),
                flags: n(HAS_IDENTITY),
                constant_count: n(4),
                binding_count: n(3),
                parameter_count: n(2),
                workgroup_size: triple(64, 2, 1),
                function_hash
            }, name: b"matmul \"16x16\"\t\\"),
            row!(Function { executable_id: w(1), function_ordinal: n(1) }, name: b""),
            row!(Function { executable_id: w(2) }, name: b"r\xc3\xa9duction"),
        ]);
    }

    fn command_buffers(&mut self) {
        let command_buffer = |id, device| layout::CommandBuffer {
            command_buffer_id: w(id),
            mode: w(1),
            command_categories: w(3),
            queue_affinity: w(u64::MAX),
            physical_device_ordinal: n(device),
            ..layout::CommandBuffer::new_zeroed()
        };
        append!(self, &fields(1), CommandBuffer, [command_buffer(5, 0), command_buffer(6, 1)]);
        let operation = |index: u32, operation_type: Operation| layout::CommandOperation {
            operation_type: n(operation_type.0),
            command_index: n(index),
            command_buffer_id: w(5),
            block_ordinal: n(NONE),
            block_command_ordinal: n(NONE),
            function_ordinal: n(NONE),
            source_ordinal: n(NONE),
            target_ordinal: n(1),
            target_offset: w(16),
            length: w(256),
            target_block_ordinal: n(NONE),
            alternate_block_ordinal: n(NONE),
            ..layout::CommandOperation::new_zeroed()
        };
        let dispatch = layout::CommandOperation {
            executable_id: w(1),
            function_ordinal: n(0),
            flags: n(4),
            binding_count: n(3),
            workgroup_count: triple(8, 4, 1),
            workgroup_size: triple(64, 2, 1),
            ..operation(0, Operation::DISPATCH)
        };
        let block = |operation| layout::CommandOperation {
            flags: n(layout::OPERATION_BLOCK_STRUCTURE),
            block_ordinal: n(1),
            block_command_ordinal: n(2),
            target_block_ordinal: n(3),
            alternate_block_ordinal: n(4),
            ..operation
        };
        let operations = [
            dispatch,
            layout::CommandOperation { function_ordinal: n(1), command_index: n(1), ..dispatch },
            operation(2, Operation::BARRIER),
            operation(3, Operation::FILL),
            layout::CommandOperation {
                source_ordinal: n(2),
                source_offset: w(8),
                ..operation(4, Operation::COPY)
            },
            operation(5, Operation::UPDATE),
            operation(6, Operation::PROFILE_MARKER),
            block(operation(7, Operation::BRANCH)),
            block(operation(8, Operation::COND_BRANCH)),
            operation(9, Operation::RETURN),
            operation(10, Operation(77)),
            layout::CommandOperation { command_buffer_id: w(6), ..operation(0, Operation::DISPATCH) },
        ];
        append!(self, &fields(1), CommandOperation, operations);
    }

    /// A clock sample of each device; the first one's clock drifts against the host's.
    fn clocks(&mut self, tick: u64, cpu_ns: u64) {
        // Both readings of the host's clock are the same for the first sample of device 1, and no other.
        let after = |device| if device == 1 && tick == 1_000 { -40 } else { (tick % 77) as i64 };
        let sample = |device: u32, flags: u32| layout::ClockCorrelation {
            flags: n(flags),
            physical_device_ordinal: n(device),
            sample_id: w(tick / 1_000),
            device_tick: w(tick),
            host_cpu_timestamp_ns: w(cpu_ns),
            host_system_timestamp: w(cpu_ns * 3),
            host_system_frequency_hz: w(3_000_000_000),
            host_time_begin_ns: s(cpu_ns as i64 - 40),
            host_time_end_ns: s(cpu_ns as i64 + after(device)),
            ..layout::ClockCorrelation::new_zeroed()
        };
        let all = layout::CLOCK_DEVICE_TICK
            | layout::CLOCK_HOST_CPU_TIMESTAMP
            | layout::CLOCK_HOST_SYSTEM_TIMESTAMP
            | layout::CLOCK_HOST_TIME_BRACKET;
        let unaligned = all | layout::CLOCK_DEVICE_TICK_UNALIGNED;
        append!(self, &fields(1), ClockCorrelation, [sample(0, all), sample(1, unaligned)]);
    }

    fn queue_events(&mut self) {
        let event = |id: u64, event_type: QueueEventType, strategy: DependencyStrategy| layout::QueueEvent {
            event_type: n(event_type.0),
            flags: n(1),
            dependency_strategy: n(strategy.0),
            event_id: w(id),
            host_time_ns: s(9_000 + id as i64),
            submission_id: w(id / 2 + 1),
            stream_id: w(10),
            wait_count: n(1),
            signal_count: n(2),
            barrier_count: n(3),
            operation_count: n(4),
            payload_length: w(id * 100),
            ready_host_time_ns: s(if id == 3 { 1 } else { 9_500 }),
            ..layout::QueueEvent::new_zeroed()
        };
        let strategies = [
            DependencyStrategy::NONE,
            DependencyStrategy::INLINE,
            DependencyStrategy::DEVICE_BARRIER,
            DependencyStrategy::SOFTWARE_DEFER,
            DependencyStrategy(9),
        ];
        let events: [_; 12] =
            std::array::from_fn(|at| event(at as u64, QueueEventType(at as u32), strategies[at % 5]));
        append!(self, &fields(1), QueueEvent, events);
        let event = |id: u64, event_type: QueueEventType, ticks: (u64, u64)| layout::QueueDeviceEvent {
            event_type: n(event_type.0),
            event_id: w(id),
            submission_id: w(id),
            allocation_id: w(70),
            stream_id: w(10),
            payload_length: w(4096),
            operation_count: n(1),
            start_tick: w(ticks.0),
            end_tick: w(ticks.1),
            ..layout::QueueDeviceEvent::new_zeroed()
        };
        let events = [
            event(1, QueueEventType::ALLOCA, (2_000, 2_100)),
            layout::QueueDeviceEvent {
                command_buffer_id: w(5),
                ..event(2, QueueEventType::EXECUTE, (3_000, 60_000))
            },
            event(3, QueueEventType::COPY, (0, 7)),
            event(4, QueueEventType::DEALLOCA, (90_000, 90_003)),
        ];
        append!(self, &fields(1), QueueDeviceEvent, events);
    }

    fn dispatches(&mut self) {
        let event = |id: u64, function: u32, ticks: (u64, u64)| layout::DispatchEvent {
            flags: n(1),
            event_id: w(id),
            submission_id: w(id / 4 + 1),
            command_buffer_id: w(5),
            executable_id: w(1),
            command_index: n(function),
            function_ordinal: n(function),
            workgroup_count: triple(8, 4, id as u32),
            workgroup_size: triple(64, 2, 1),
            start_tick: w(ticks.0),
            end_tick: w(ticks.1),
            ..layout::DispatchEvent::new_zeroed()
        };
        let events: [_; 12] = std::array::from_fn(|at| {
            let start = 3_000 + 5_000 * at as u64;
            let end = if at == 7 { start - 1 } else { start + 17 * at as u64 * at as u64 };
            event(at as u64, at as u32 % 2, (start, end))
        });
        let queue = |device, ordinal, stream_id| RecordFields {
            stream_id,
            physical_device_ordinal: device,
            queue_ordinal: ordinal,
            ..fields(1)
        };
        append!(self, &queue(0, 0, 10), DispatchEvent, events);
        let alone = layout::DispatchEvent {
            command_buffer_id: w(0),
            command_index: n(NONE),
            executable_id: w(2),
            ..event(50, 0, (1, 9))
        };
        append!(self, &queue(1, 0, 12), DispatchEvent, [alone]);
        let dropped = RecordFields { dropped_record_count: 3, ..queue(0, 1, 11) };
        // Submissions that overlap: one begins before the last one ends, one when it ends, and one is inside.
        let events = [
            event(51, 0, (70_000, 70_900)),
            event(52, 0, (70_500, 71_000)),
            event(56, 1, (71_000, 71_010)),
            event(60, 1, (70_100, 70_200)),
        ];
        append!(self, &dropped, DispatchEvent, events);
    }

    fn host_events(&mut self) {
        let event = |id: u64, event_type: QueueEventType, times: (i64, i64)| layout::HostExecutionEvent {
            event_type: n(event_type.0),
            flags: n(1),
            status_code: n(NONE),
            event_id: w(id),
            submission_id: w(id / 3 + 1),
            command_buffer_id: w(5),
            stream_id: w(10),
            command_index: n(NONE),
            function_ordinal: n(NONE),
            workgroup_count: triple(2, 2, 2),
            workgroup_size: triple(1, 1, 1),
            start_host_time_ns: s(times.0),
            end_host_time_ns: s(times.1),
            payload_length: w(64),
            tile_count: w(8),
            tile_duration_sum_ns: s(1_234),
            operation_count: n(1),
            ..layout::HostExecutionEvent::new_zeroed()
        };
        let dispatch = |id: u64, function: u32, times| layout::HostExecutionEvent {
            executable_id: w(1),
            function_ordinal: n(function),
            command_index: n(function),
            ..event(id, QueueEventType::DISPATCH, times)
        };
        let events = [
            event(1, QueueEventType::EXECUTE, (9_000, 9_900)),
            dispatch(2, 0, (9_010, 9_310)),
            dispatch(3, 1, (9_320, 9_321)),
            dispatch(4, 0, (9_400, 9_399)),
            layout::HostExecutionEvent { command_buffer_id: w(0), ..dispatch(5, 0, (9_500, 9_777)) },
            event(6, QueueEventType::HOST_CALL, (-1, 5)),
        ];
        append!(self, &fields(1), HostExecutionEvent, events);
        let region = layout::CommandRegionEvent {
            flags: n(9),
            event_id: w(1),
            submission_id: w(2),
            command_buffer_id: w(5),
            stream_id: w(10),
            epoch: n(3),
            index: I32::new(-1),
            dispatch_count: n(4),
            tile_count: n(5),
            useful_drain_count: n(6),
            tail_no_work_count: n(7),
            remaining_tiles_max: n(8),
            remaining_tiles_bucket_counts: std::array::from_fn(|at| n(at as u32)),
            tail_drain_duration_ns: s(55),
            start_host_time_ns: s(9_000),
            end_host_time_ns: s(9_300),
            next_index: I32::new(1),
            worker_count: n(2),
            wake_delta: I32::new(-2),
            keep_warm_count: n(1),
            ..layout::CommandRegionEvent::new_zeroed()
        };
        let reversed = layout::CommandRegionEvent { end_host_time_ns: s(8_000), ..region };
        append!(self, &fields(1), CommandRegionEvent, [region, reversed]);
    }

    fn memory_events(&mut self) {
        let event = |id: u64, event_type: MemoryEventType, flags: u32, bytes: u64| layout::MemoryEvent {
            event_type: n(event_type.0),
            flags: n(flags),
            result: n(NONE),
            event_id: w(id),
            host_time_ns: s(12_000 + id as i64),
            allocation_id: w(70),
            pool_id: w(30),
            backing_id: w(id),
            submission_id: w(1 + id / 8 * 3),
            memory_type: w(22),
            buffer_usage: w(1 << (id % 8)),
            length: w(bytes),
            alignment: w(64),
            pool_bytes_reserved: w(bytes * 2),
            pool_bytes_free: w(100 - bytes.min(100)),
            pool_bytes_committed: w(bytes * 3),
            pool_budget_limit: w(1 << 30),
            pool_reservation_count: n(id as u32),
            pool_slab_count: n(2),
            ..layout::MemoryEvent::new_zeroed()
        };
        use MemoryEventType as Type;
        let (reservation, with_stats) = (1 << 3, 1 << 3 | 1 << 4);
        let events = [
            event(1, Type::SLAB_ACQUIRE, 0, 4096),
            event(2, Type::POOL_RESERVE, reservation, 256),
            event(3, Type::POOL_WAIT, 2, 256),
            event(4, Type::POOL_MATERIALIZE, with_stats, 256),
            event(5, Type::QUEUE_ALLOCA, 1, 256),
            event(6, Type::BUFFER_ALLOCATE, 0, 99),
            event(7, Type::BUFFER_IMPORT, 1 << 5, 77),
            layout::MemoryEvent { pool_id: w(0), ..event(8, Type::QUEUE_DEALLOCA, 1, 256) },
            event(9, Type::POOL_RELEASE, with_stats, 200),
            event(10, Type::BUFFER_FREE, 0, 100),
            event(11, Type::BUFFER_UNIMPORT, 1 << 5, 77),
            event(12, Type::SLAB_RELEASE, 0, 96),
            event(13, MemoryEventType(40), with_stats, 1),
            // A second pool of the device.
            layout::MemoryEvent { pool_id: w(31), ..event(15, MemoryEventType(40), with_stats, 5) },
            layout::MemoryEvent {
                physical_device_ordinal: n(1),
                queue_ordinal: n(NONE),
                submission_id: w(0),
                ..event(14, Type::QUEUE_ALLOCA, 0, 1)
            },
        ];
        let truncated = RecordFields { is_truncated: true, ..fields(1) };
        append!(self, &truncated, MemoryEvent, events);
    }

    fn counters(&mut self) {
        self.rows(&[row!(CounterSet {
            counter_set_id: w(8),
            counter_count: n(2),
            sample_value_count: n(3)
        }, name: b"set")]);
        let counter = |ordinal: u32, offset: u32, count: u32, unit: CounterUnit| layout::Counter {
            flags: n(1),
            unit: n(unit.0),
            counter_set_id: w(8),
            counter_ordinal: n(ordinal),
            sample_value_offset: n(offset),
            sample_value_count: n(count),
            ..layout::Counter::new_zeroed()
        };
        let (waves, cycles) = (counter(0, 0, 2, CounterUnit::COUNT), counter(1, 2, 1, CounterUnit::CYCLES));
        let texts: [&[u8]; 3] = [b"SQ", b"WAVES", b"Waves that were launched."];
        let more: [&[u8]; 3] = [b"GRBM", b"CYCLES", b""];
        let make = |texts: [&'static [u8]; 3]| (texts[0], texts[1], texts[2]);
        let ((a, b, c), (d, e, f)) = (make(texts), make(more));
        let headers = [waves.sized(a, b, c), cycles.sized(d, e, f)];
        self.rows(&[
            rows::Counter { header: &headers[0], block_name: a, name: b, description: c, appended: &[] },
            rows::Counter { header: &headers[1], block_name: d, name: e, description: f, appended: &[] },
        ]);
        let sample = |id: u64, scope: CounterSampleScope, executable: u64| layout::CounterSample {
            flags: n(1 | if id == 2 { 0 } else { 1 << 2 }),
            scope: n(scope.0),
            sample_id: w(id),
            counter_set_id: w(8),
            dispatch_event_id: w(id),
            submission_id: w(1),
            command_buffer_id: w(5),
            executable_id: w(executable),
            stream_id: w(10),
            start_tick: w(3_000 * id),
            end_tick: w(3_500),
            ..layout::CounterSample::new_zeroed()
        };
        let values = [[w(10), w(20), w(3_000)], [w(11), w(21), w(3_100)], [w(0), w(u64::MAX), w(1)]];
        let headers = [
            sample(1, CounterSampleScope::DISPATCH, 1),
            sample(2, CounterSampleScope::DISPATCH, 1),
            sample(3, CounterSampleScope::DEVICE_TIME_RANGE, 0),
        ];
        let headers: Vec<_> =
            headers.iter().zip(&values).map(|(header, values)| header.sized(values)).collect();
        let rows: Vec<_> = headers
            .iter()
            .zip(&values)
            .map(|(header, values)| rows::CounterSample { header, values, appended: &[] })
            .collect();
        self.rows(&rows);
    }

    fn metrics(&mut self) {
        self.rows(&[row!(MetricSource {
            source_id: w(1),
            device_class: n(DeviceClass::GPU.0),
            source_kind: n(2),
            metric_count: n(4)
        }, name: b"smi")]);
        let metric = |id: u64, kind: MetricValueKind| layout::MetricDescriptor {
            source_id: w(1),
            metric_id: w(id),
            unit: n(MetricUnit::MILLIDEGREES_CELSIUS.0),
            value_kind: n(kind.0),
            semantic: n(MetricSemantic::INSTANT.0),
            plot_hint: n(MetricPlotHint::TEMPERATURE.0),
            ..layout::MetricDescriptor::new_zeroed()
        };
        let name: &[u8] = b"temperature";
        let headers = [
            metric(1, MetricValueKind::I64),
            metric(2, MetricValueKind::U64),
            metric(1 << 63, MetricValueKind::F64),
            metric(3, MetricValueKind(9)),
        ]
        .map(|header| header.sized(name, b"Of the die."));
        let rows: Vec<_> = headers
            .iter()
            .map(|header| rows::MetricDescriptor { header, name, description: b"Of the die.", appended: &[] })
            .collect();
        self.rows(&rows);
        let value = |id: u64, value_bits: u64| layout::MetricValue {
            metric_id: w(id),
            value_bits: w(value_bits),
            ..layout::MetricValue::new_zeroed()
        };
        let fractions = [0.1, 1e300, -1.0 / 3.0, f64::NEG_INFINITY, 123_456_789.0].map(f64::to_bits);
        let mut values = vec![value(1, (-40_000_i64) as u64), value(2, u64::MAX), value(3, 1)];
        values.extend(fractions.map(|bits| value(1 << 63, bits)));
        self.rows(&[row!(MetricSample {
            flags: n(1),
            sample_id: w(1),
            source_id: w(1),
            host_time_begin_ns: s(5),
            host_time_end_ns: s(9),
            source_timestamp: w(77),
            source_timestamp_frequency_hz: w(1_000)
        }, values: &values)]);
        self.rows(&[
            row!(MetricSample { sample_id: w(2), source_id: w(1), host_time_begin_ns: s(-5) }, values: &[]),
        ]);
    }

    fn others(&mut self) {
        let relationship = |at: u32| layout::EventRelationship {
            relationship_type: n(at),
            relationship_id: w(at.into()),
            source_type: n(EndpointType::QUEUE_SUBMISSION.0 + at),
            target_type: n(at),
            stream_id: w(10),
            source_id: w(1),
            target_id: w(2),
            ..layout::EventRelationship::new_zeroed()
        };
        let count = RelationshipType::QUEUE_SUBMISSION_HOST_EXECUTION_EVENT.0 + 6;
        for at in 0..count {
            append!(self, &fields(1), EventRelationship, [relationship(at)]);
        }
        self.rows(&[row!(ExecutableTrace {
            format: n(TraceFormat::AMDGPU_ATT.0),
            flags: n(1),
            trace_id: w(1),
            dispatch_event_id: w(2),
            executable_id: w(1)
        }, data: b"trace")]);
        let mut append = |record_type, content_type: &[u8]| {
            self.writer.append(record_type, 0, &fields(1), content_type, &[b"pay", b"load"])
        };
        append(RecordType::CHUNK, b"application/octet-stream").expect("memory takes all");
        append(RecordType(9), b"").expect("memory takes all");
    }
}
