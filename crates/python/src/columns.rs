//! Columns, which numpy and readers of Arrow see without copies.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyCapsule, PyDict};
use rehal::capture::{RecordTable, TextColumn};

use crate::arrow::{self, Data, Numbers};
use crate::errors::exception;

/// Columns of equal lengths.
#[pyclass(frozen, module = "rehal._rehal")]
pub struct Columns {
    columns: Vec<Arc<Data>>,
    row_count: usize,
}

/// A column.
#[pyclass(frozen, module = "rehal._rehal")]
pub struct Column(Arc<Data>);

impl Columns {
    pub fn from_records(records: RecordTable) -> Self {
        let row_count = records.row_count();
        let numbers = |name, numbers| Data { name, numbers, texts: None };
        let texts = |name, column: TextColumn| Data {
            name,
            numbers: Numbers::U32(column.codes),
            texts: Some(column.values),
        };
        let columns = vec![
            numbers("ordinal", Numbers::U64(records.ordinal)),
            numbers("offset", Numbers::U64(records.offset)),
            numbers("size_bytes", Numbers::U64(records.size_bytes)),
            texts("type", records.record_type),
            texts("kind", records.kind),
            texts("status", records.status),
            numbers("thread", Numbers::U64(records.thread_id)),
            numbers("device", Numbers::U64(records.device_id)),
            numbers("object", Numbers::U64(records.object_id)),
            numbers("related_object", Numbers::U64(records.related_id)),
            texts("scope", records.scope),
            numbers("executable", Numbers::U64(records.executable_id)),
            texts("function", records.function),
            numbers("workgroups_x", Numbers::U32(records.workgroups_x)),
            numbers("workgroups_y", Numbers::U32(records.workgroups_y)),
            numbers("workgroups_z", Numbers::U32(records.workgroups_z)),
            numbers("bindings", Numbers::U32(records.binding_count)),
        ];
        Self { columns: columns.into_iter().map(Arc::new).collect(), row_count }
    }
}

/// Some of a column: fails for a row that it does not have.
fn taken(data: &Data, rows: &[u64]) -> PyResult<Arc<Data>> {
    fn those<T: Copy>(all: &[T], rows: &[u64]) -> PyResult<Vec<T>> {
        let row = |&row: &u64| usize::try_from(row).ok().and_then(|row| all.get(row)).copied();
        let taken = rows.iter().map(row).collect::<Option<_>>();
        taken.ok_or_else(|| pyo3::exceptions::PyIndexError::new_err("a row that the records do not have"))
    }
    let numbers = match &data.numbers {
        Numbers::U32(all) => Numbers::U32(those(all, rows)?),
        Numbers::U64(all) => Numbers::U64(those(all, rows)?),
    };
    Ok(Arc::new(Data { name: data.name, numbers, texts: data.texts.clone() }))
}

#[pymethods]
impl Columns {
    /// The rows with these numbers, each of 64 bits.
    fn take(&self, rows: PyBackedBytes) -> PyResult<Self> {
        let (rows, _) = rows.as_chunks::<8>();
        let rows: Vec<_> = rows.iter().copied().map(u64::from_ne_bytes).collect();
        let columns = self.columns.iter().map(|column| taken(column, &rows)).collect::<PyResult<_>>()?;
        Ok(Self { columns, row_count: rows.len() })
    }

    fn __len__(&self) -> usize {
        self.row_count
    }

    /// The columns by name.
    fn columns<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let all = PyDict::new(py);
        for column in &self.columns {
            all.set_item(column.name, Py::new(py, Column(column.clone()))?)?;
        }
        Ok(all)
    }

    /// The stream of Arrow's C interface, of one batch.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // A producer may ignore what is requested.
        let _ = requested_schema;
        arrow::stream(py, &self.columns, self.row_count).map_err(|error| exception(py, &error))?
    }
}

#[pymethods]
impl Column {
    /// The texts of a dictionary.
    #[getter]
    fn texts(&self) -> Option<Vec<String>> {
        self.0.texts.clone()
    }

    fn __len__(&self) -> usize {
        self.0.row_count()
    }

    /// The description that numpy needs: it keeps this object, which owns the numbers and never changes them.
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (kind, address) = match &self.0.numbers {
            Numbers::U32(numbers) => ("<u4", numbers.as_ptr().addr()),
            Numbers::U64(numbers) => ("<u8", numbers.as_ptr().addr()),
        };
        let it = PyDict::new(py);
        it.set_item("version", 3)?;
        it.set_item("shape", (self.0.row_count(),))?;
        it.set_item("typestr", kind)?;
        let is_read_only = true;
        it.set_item("data", (address, is_read_only))?;
        Ok(it)
    }
}
