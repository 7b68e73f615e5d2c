//! Captures, as they are on disk.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};
use rehal::capture::{CaptureFile, CaptureOptions, RecordFilter, record_table};
use rehal_base::{Error, StatusCode};
use rehal_replay::Plan;

use crate::columns::Columns;
use crate::errors::exception;
use crate::interrupt::{Signals, lock};

/// An open capture. It executes nothing.
#[pyclass(frozen, module = "rehal._rehal")]
pub struct Capture {
    file: CaptureFile,
    plan: OnceLock<Arc<Plan>>,
}

impl Capture {
    fn plan(&self) -> rehal_base::Result<&Plan> {
        match self.plan.get() {
            Some(plan) => Ok(plan),
            None => {
                let plan = self.file.plan()?;
                Ok(self.plan.get_or_init(|| plan))
            }
        }
    }
}

/// Performs work without the interpreter's lock.
fn detached<T: Send>(py: Python<'_>, work: impl FnOnce() -> rehal_base::Result<T> + Send) -> PyResult<T> {
    py.detach(work).map_err(|error| exception(py, &error))
}

#[pymethods]
impl Capture {
    #[new]
    fn open(py: Python<'_>, path: PathBuf, recover: bool) -> PyResult<Self> {
        let mut options = CaptureOptions::default();
        options.recover = recover;
        let file = detached(py, || CaptureFile::open(&path, &options))?;
        Ok(Self { file, plan: OnceLock::new() })
    }

    #[getter]
    fn version(&self) -> String {
        let version = self.file.version();
        format!("{}.{}", version.major, version.minor)
    }

    #[getter]
    fn is_closed(&self) -> bool {
        self.file.is_closed()
    }

    #[getter]
    fn size_bytes(&self) -> u64 {
        self.file.total_bytes()
    }

    /// The BLAKE3 of the file.
    fn digest(&self, py: Python<'_>) -> PyResult<String> {
        let digest = detached(py, || self.file.bytes().check_present().map(|()| self.file.digest()))?;
        Ok(digest.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// The scopes: name and number of entries.
    fn scopes(&self, py: Python<'_>) -> PyResult<Vec<(String, u64)>> {
        let survey = detached(py, || self.file.survey())?;
        Ok(survey.scopes.iter().map(|it| (text(&it.name), it.count)).collect())
    }

    /// The executables, as dictionaries.
    fn executables<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let survey = detached(py, || self.file.survey())?;
        let all = PyList::empty(py);
        for executable in &survey.executables {
            let functions = PyList::empty(py);
            for function in &executable.functions {
                let it = PyDict::new(py);
                it.set_item("ordinal", function.ordinal)?;
                it.set_item("name", text(&function.name))?;
                it.set_item("constants", function.constant_count)?;
                it.set_item("bindings", function.binding_count)?;
                it.set_item("dispatches", function.dispatch_count)?;
                functions.append(it)?;
            }
            let it = PyDict::new(py);
            it.set_item("id", executable.id)?;
            it.set_item("format", text(&executable.format))?;
            it.set_item("size_bytes", executable.code_bytes)?;
            it.set_item("functions", functions)?;
            all.append(it)?;
        }
        Ok(all)
    }

    /// The code of an executable.
    fn code<'py>(&self, py: Python<'py>, id: u64) -> PyResult<Bound<'py, PyBytes>> {
        let plan = detached(py, || self.file.bytes().check_present().and_then(|()| self.plan()))?;
        let found = plan.executables().find(|it| it.id == id);
        let found = found.ok_or_else(|| Error::not_found(format!("the capture has no executable {id}")));
        found.map(|it| PyBytes::new(py, it.data)).map_err(|error| exception(py, &error))
    }

    /// The records that the patterns select.
    fn columns(
        &self,
        py: Python<'_>,
        kind: Option<String>,
        function: Option<String>,
        scope: Option<String>,
    ) -> PyResult<Columns> {
        let mut filter = RecordFilter::default();
        (filter.kind, filter.function, filter.scope) = (kind, function, scope);
        let signals = Arc::new(Mutex::new(Signals::new()));
        let looking = signals.clone();
        let check = Box::new(move || match lock(&looking).is_raised() {
            true => Err(Error::new(StatusCode::Aborted, "interrupted")),
            false => Ok(()),
        });
        let columns = detached(py, || record_table(&self.file, &filter, check));
        lock(&signals).take()?;
        Ok(Columns::from_records(columns?))
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
