//! `memory` as text.

use super::ReportOptions;
use super::memory::{Balance, DeviceMemory, Kind, Lifetimes, Memory, Pool};
use super::out::{Out, text};
use crate::MemoryEventType as Type;

pub fn print(memory: &Memory, lifetimes: Option<&Lifetimes<'_>>, options: &ReportOptions, out: &mut Out<'_>) {
    text!(out, "IREE HAL profile memory summary\nfilter: {}\n", options.filter);
    if options.id >= 0 {
        text!(out, "id_filter: {}\n", options.id);
    }
    let Memory { total, matched, truncated_chunks, dropped_rows, truncated_matched, .. } = memory;
    text!(out, "events: total={total} matched={matched} truncated_chunks={truncated_chunks} ");
    text!(out, "dropped_records={dropped_rows} truncated_matched={truncated_matched} ");
    text!(out, "devices={} pools={} ", memory.devices.len(), memory.pools.len());
    text!(out, "allocation_lifecycles={} ", memory.allocations.len());
    text!(out, "open_lifecycles={} partial_closes={}\n", memory.open_allocations(), memory.partial_closes());
    memory.devices.values().iter().for_each(|device| print_device(device, out));
    memory.pools.values().iter().for_each(|pool| print_pool(pool, out));
    if let Some(lifetimes) = lifetimes {
        print_allocations(memory, lifetimes, out);
    }
}

fn print_device(device: &DeviceMemory, out: &mut Out<'_>) {
    let count = |event_type| device.count(event_type);
    text!(out, "device[{}]: events={} ", device.device, device.events);
    text!(out, "slab_acquire/release={}/{} ", count(Type::SLAB_ACQUIRE), count(Type::SLAB_RELEASE));
    text!(out, "pool_reserve/materialize/release/wait={}/", count(Type::POOL_RESERVE));
    text!(out, "{}/{}/", count(Type::POOL_MATERIALIZE), count(Type::POOL_RELEASE));
    text!(out, "{} queue_alloca/dealloca={}/", count(Type::POOL_WAIT), count(Type::QUEUE_ALLOCA));
    text!(out, "{} buffer_allocate/free={}/", count(Type::QUEUE_DEALLOCA), count(Type::BUFFER_ALLOCATE));
    text!(out, "{} buffer_import/unimport={}/", count(Type::BUFFER_FREE), count(Type::BUFFER_IMPORT));
    text!(out, "{}\n", count(Type::BUFFER_UNIMPORT));
    print_balance("slab_provider_events", &device.slabs, out);
    print_balance("pool_reservations", &device.reservations, out);
    print_balance("pool_materializations", &device.materializations, out);
    print_balance("queue_inflight_allocations", &device.queue_allocations, out);
    print_balance("buffer_allocations", &device.buffers, out);
    print_balance("buffer_imports", &device.imports, out);
}

fn print_balance(name: &str, balance: &Balance, out: &mut Out<'_>) {
    text!(out, "  {name}: ");
    print_balance_values(balance, out);
    text!(out, "\n");
}

fn print_balance_values(balance: &Balance, out: &mut Out<'_>) {
    text!(out, "open_at_end={} peak_open={} ", balance.current_count, balance.high_water_count);
    text!(out, "current_bytes={} high_water_bytes={} ", balance.current_bytes, balance.high_water_bytes);
    text!(out, "opened_bytes={} closed_bytes={} ", balance.total_open_bytes, balance.total_close_bytes);
    text!(out, "partial_closes={} ", balance.partial_close_count);
    text!(out, "partial_close_bytes={}", balance.partial_close_bytes);
}

fn print_pool(pool: &Pool, out: &mut Out<'_>) {
    text!(out, "pool[{} device={} id={} ", pool.kind.name(), pool.device, pool.id);
    text!(out, "memory_type={}]: events={} ", pool.memory_type, pool.events);
    text!(out, "waits={} materializes={} ", pool.waits, pool.materializes);
    print_balance_values(&pool.lifecycle, out);
    if pool.kind == Kind::PoolReservation {
        text!(out, " materialized_at_end={} ", pool.materialized.current_count);
        text!(out, "materialized_high_water_bytes={}", pool.materialized.high_water_bytes);
    }
    let stats = &pool.stats;
    if stats.pool_stats_samples != 0 {
        text!(out, " pool_stats_samples={} ", stats.pool_stats_samples);
        text!(out, "pool_bytes_reserved={} ", stats.pool_bytes_reserved);
        text!(out, "pool_bytes_reserved_high_water={} ", stats.pool_bytes_reserved_high_water);
        text!(out, "pool_bytes_free={} ", stats.pool_bytes_free);
        text!(out, "pool_bytes_free_low_water={} ", stats.pool_bytes_free_low_water);
        text!(out, "pool_bytes_committed={} ", stats.pool_bytes_committed);
        text!(out, "pool_bytes_committed_high_water={} ", stats.pool_bytes_committed_high_water);
        text!(out, "pool_budget_limit={} pool_reservations=", stats.pool_budget_limit);
        text!(out, "{} pool_reservation_high_water=", stats.pool_reservation_count);
        text!(out, "{} pool_slabs={} ", stats.pool_reservation_high_water_count, stats.pool_slab_count);
        text!(out, "pool_slab_high_water={}", stats.pool_slab_high_water_count);
    }
    text!(out, "\n");
}

fn print_allocations(memory: &Memory, lifetimes: &Lifetimes<'_>, out: &mut Out<'_>) {
    for allocation in memory.allocations.values() {
        let (kind, balance) = (allocation.kind, &allocation.lifecycle);
        text!(out, "allocation[{} device={} id={} ", kind.name(), allocation.device, allocation.id);
        text!(out, "pool={} backing={} ", allocation.pool, allocation.backing);
        text!(out, "externally_owned={}]: ", allocation.is_externally_owned());
        text!(out, "events={} waits={} ", allocation.events, allocation.waits);
        text!(out, "materializes={} open_at_end={} ", allocation.materializes, allocation.is_open());
        text!(out, "current_bytes={} high_water_bytes={} ", balance.current_bytes, balance.high_water_bytes);
        text!(out, "opened_bytes={} closed_bytes={} ", balance.total_open_bytes, balance.total_close_bytes);
        text!(out, "partial_closes={} ", balance.partial_close_count);
        text!(out, "partial_close_bytes={} ", balance.partial_close_bytes);
        text!(out, "first_event={} last_event={} ", allocation.first_event, allocation.last_event);
        text!(out, "duration_ns={}\n", allocation.duration_ns());
        if kind == Kind::QueueAllocation {
            let lifetime = lifetimes.of(allocation);
            text!(out, "  device_lifetime: available={} ", lifetime.span.is_some());
            text!(out, "alloca_event={} dealloca_event={} ", lifetime.alloca_event, lifetime.dealloca_event);
            text!(out, "duration_ticks={}", lifetime.ticks());
            if let Some(ns) = lifetime.ns {
                text!(out, " duration_ns={ns}");
            }
            text!(out, "\n");
        }
    }
}
