//! The records of a capture, one at a time.
#![allow(unsafe_code, reason = "takes pointers from C, which the header says are valid")]

use std::sync::{Arc, Mutex, PoisonError};

use rehal::capture::{CaptureFile, RecordFilter, RecordRow, Records};

use crate::capture::rehal_capture_t;
use crate::error::{guard, quietly, rehal_error_t};
use crate::handle::{self, handle};
use crate::replay::rehal_record_t;
use crate::structs::{fill, options, out, put, rehal_string_t, sized_struct};

/// An iterator, with the capture that it borrows. The fields are dropped in this order.
pub struct Iterating {
    records: Mutex<Records<'static>>,
    _capture: Arc<CaptureFile>,
}

handle!(rehal_records_t, Iterating, "records", b"records\0");

#[repr(C)]
#[derive(Clone, Copy)]
pub struct rehal_record_filter_t {
    pub size: usize,
    pub kind: rehal_string_t,
    pub function: rehal_string_t,
    pub scope: rehal_string_t,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct rehal_record_info_t {
    pub size: usize,
    pub record: rehal_record_t,
    pub size_bytes: u64,
    pub record_type: rehal_string_t,
    pub kind: rehal_string_t,
    pub thread_id: u64,
    pub device_id: u64,
    pub object_id: u64,
    pub related_id: u64,
    pub status: u32,
    pub scope: rehal_string_t,
    pub binding_count: u32,
    pub is_dispatch: bool,
    pub has_workgroup_count: bool,
    pub executable_id: u64,
    pub function: u32,
    pub function_name: rehal_string_t,
    pub workgroup_count: [u32; 3],
}

sized_struct!(rehal_record_filter_t, rehal_record_info_t);

/// # Safety
/// As the header says of the filter.
unsafe fn record_filter(given: *const rehal_record_filter_t) -> rehal::Result<RecordFilter> {
    let mut made = RecordFilter::default();
    // SAFETY: the caller guarantees it.
    unsafe {
        let given = options(given)?;
        let text = |it: rehal_string_t| it.given().map(|it| it.text().map(ToOwned::to_owned)).transpose();
        (made.kind, made.function, made.scope) =
            (text(given.kind)?, text(given.function)?, text(given.scope)?);
    }
    Ok(made)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_records_create(
    capture: *const rehal_capture_t,
    filter: *const rehal_record_filter_t,
    records: *mut *mut rehal_records_t,
) -> *mut rehal_error_t {
    // SAFETY: what the caller gives is valid, as the header says.
    guard(|| unsafe {
        let out = out(records)?;
        let capture = Arc::new(handle::get(capture)?.file().clone());
        // The `Arc` keeps it there until the records are dropped.
        let borrowed: &'static CaptureFile = &*Arc::as_ptr(&capture);
        let records = Mutex::new(borrowed.records(&record_filter(filter)?)?);
        *out = handle::new(Iterating { records, _capture: capture });
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_records_next(
    records: *const rehal_records_t,
    info: *mut rehal_record_info_t,
    has_record: *mut bool,
) -> *mut rehal_error_t {
    // SAFETY: as above.
    guard(|| unsafe {
        put(has_record, false)?;
        let mut records = handle::get(records)?.records.lock().unwrap_or_else(PoisonError::into_inner);
        match records.next().transpose()? {
            None => Ok(()),
            Some(row) => {
                fill(info, &shown(&row))?;
                put(has_record, true)
            }
        }
    })
}

fn shown(row: &RecordRow<'_>) -> rehal_record_info_t {
    let text = |it: &[u8]| rehal_string_t::lend(it);
    let dispatch = row.dispatch;
    let workgroup_count = dispatch.and_then(|it| it.workgroup_count);
    rehal_record_info_t {
        size: 0,
        record: rehal_record_t { ordinal: row.ordinal, offset: row.offset },
        size_bytes: row.size_bytes,
        record_type: text(row.record_type.as_bytes()),
        kind: text(row.kind.as_bytes()),
        thread_id: row.thread_id,
        device_id: row.device_id,
        object_id: row.object_id,
        related_id: row.related_id,
        status: row.status,
        scope: text(row.scope.unwrap_or_default()),
        binding_count: row.binding_count,
        is_dispatch: dispatch.is_some(),
        has_workgroup_count: workgroup_count.is_some(),
        executable_id: dispatch.map_or(0, |it| it.executable_id),
        function: dispatch.map_or(0, |it| it.function),
        function_name: text(dispatch.map_or(&[], |it| it.function_name)),
        workgroup_count: workgroup_count.unwrap_or_default(),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_records_free(records: *mut rehal_records_t) {
    // SAFETY: as above.
    quietly(|| unsafe { handle::free(records) });
}
