//! Records as columns, and which of them filters select.

use rehal::capture::{CaptureFile, CaptureOptions, RecordFilter, RecordTable, TextColumn, record_table};
use rehal_base::Error;

use crate::capture;

fn columns(name: &str, filter: &RecordFilter) -> RecordTable {
    CaptureFile::open(&capture(name), &CaptureOptions::default()).unwrap().table(filter).unwrap()
}

fn texts(column: &TextColumn) -> Vec<&str> {
    column.codes.iter().map(|code| column.values[*code as usize].as_str()).collect()
}

#[test]
fn all_records_are_rows_and_agree_with_the_survey() {
    let path = capture("mlp.mlp.local-sync");
    let file = CaptureFile::open(&path, &CaptureOptions::default()).unwrap();
    let (all, survey) = (file.table(&RecordFilter::default()).unwrap(), file.survey().unwrap());
    assert_eq!(all.row_count() as u64, survey.record_count);
    assert!(all.ordinal.iter().copied().eq(0..survey.record_count));
    for kind in &survey.record_kinds {
        let rows = texts(&all.record_type).into_iter().zip(texts(&all.kind));
        let rows: Vec<_> =
            rows.zip(&all.size_bytes).filter(|(it, _)| *it == (kind.record_type, kind.name)).collect();
        assert_eq!(rows.len() as u64, kind.count, "{kind:?}");
        assert_eq!(rows.iter().map(|(_, bytes)| **bytes).sum::<u64>(), kind.bytes, "{kind:?}");
    }
    let function = &survey.executables[0].functions[0];
    let at = texts(&all.function).iter().position(|it| it.as_bytes() == function.name).unwrap();
    assert_eq!(all.executable_id[at], survey.executables[0].id);
    assert_eq!(all.binding_count[at], u32::from(function.binding_count));
    let workgroups = [all.workgroups_x[at], all.workgroups_y[at], all.workgroups_z[at]];
    assert_eq!(function.workgroup_counts, [Some(workgroups)]);
}

#[test]
fn filters_select_by_type_kind_function_and_scope() {
    let all = columns("mlp.mlp.local-sync", &RecordFilter::default());
    let count = |column: &TextColumn, text: &str| texts(column).iter().filter(|it| **it == text).count();
    let filtered = |kind: Option<&str>, function: Option<&str>, scope: Option<&str>| {
        let mut filter = RecordFilter::default();
        (filter.kind, filter.function, filter.scope) =
            (kind.map(Into::into), function.map(Into::into), scope.map(Into::into));
        columns("mlp.mlp.local-sync", &filter)
    };
    let objects = filtered(Some("object"), None, None);
    assert_eq!(objects.row_count(), count(&all.record_type, "object"));
    assert_eq!(filtered(Some("buffer"), None, None).row_count(), count(&all.kind, "buffer"));
    let dispatches = filtered(Some("*.dispatch"), None, None);
    assert_eq!(dispatches.row_count(), 5);
    assert!(dispatches.ordinal.iter().all(|it| texts(&all.kind)[*it as usize].ends_with(".dispatch")));
    let one = filtered(None, Some("*_dispatch_1_*"), None);
    assert_eq!(texts(&one.function), ["mlp_dispatch_1_matmul_8x48x48_f32"]);
    let scope = filtered(None, None, Some("execute"));
    let rows = count(&all.scope, "execute");
    assert!(rows > 2 && scope.row_count() == rows, "{rows}");
    assert_eq!(*texts(&scope.kind).first().unwrap(), "replay.scope_begin");
    assert_eq!(*texts(&scope.kind).last().unwrap(), "replay.scope_end");
    assert_eq!(filtered(Some("buffer"), Some("*"), None).row_count(), 0);
}

#[test]
fn damage_is_an_error() {
    let bytes = std::fs::read(capture("add4.add.local-sync")).unwrap();
    let mut options = CaptureOptions::default();
    options.recover = true;
    let cut = CaptureFile::from_bytes(bytes[..bytes.len() / 2].to_vec(), &options).unwrap();
    let rows = cut.table(&RecordFilter::default()).unwrap().row_count() as u64;
    assert_eq!(rows, cut.tear().unwrap().record_count);
    let mut damaged = bytes;
    let last = damaged.len() - 96;
    let at = (last / 2..last).rev().find(|at| damaged[*at..].starts_with(b"\x60\0\0\0\0\0\0\0")).unwrap();
    damaged[at + 16] ^= 0xff;
    let damaged = CaptureFile::from_bytes(damaged, &CaptureOptions::default()).unwrap();
    let error = damaged.table(&RecordFilter::default()).err().unwrap();
    assert_eq!(error.code(), rehal_base::StatusCode::DataLoss);
}

#[test]
fn a_check_ends_a_table_also_without_rows() {
    let file = CaptureFile::open(&capture("bench.add4.200.local-sync"), &CaptureOptions::default()).unwrap();
    let mut none = RecordFilter::default();
    none.kind = Some("nothing".into());
    for filter in [RecordFilter::default(), none] {
        let ended = record_table(&file, &filter, Box::new(|| Err(Error::not_found("enough"))));
        assert_eq!(ended.unwrap_err().message(), "enough");
        let whole = record_table(&file, &filter, Box::new(|| Ok(()))).unwrap();
        assert_eq!(whole.row_count(), file.table(&filter).unwrap().row_count());
    }
}
