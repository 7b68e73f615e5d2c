//! Prints, writes or compares results.

use std::io::Write;

use rehal::program::Function;
use rehal_base::platform::OsStrExt;
use rehal_base::{Context, Error, Range, Result, plural};
use rehal_devices::{Expected, format_value, type_of_value, with_value_memory};
use rehal_values::{Equality, TensorType, format_elements, npy};
use rehal_vm::Value;
use serde::Serialize;
use serde_json::Value as Json;

use super::options::{OutputTarget, ResultOptions};
use crate::output;

/// The treatment of the results of a function, as many as it has: prepared before it is called.
pub(crate) struct Results<'o> {
    options: &'o ResultOptions,
    /// `None` if results are not compared.
    expected: Option<Expected>,
}

impl<'o> Results<'o> {
    /// Reads the expected results. Fails unless they and the targets are as many as the results of
    /// `function`.
    pub(crate) fn for_function(function: &Function, options: &'o ResultOptions) -> Result<Self> {
        let kinds = function.result_kinds();
        let check = |flag: &str, found: usize| {
            if found == kinds.len() {
                return Ok(());
            }
            let error = Error::out_of_range(format!(
                "expected {}, found {found}",
                plural(kinds.len() as u64, "value")
            ));
            Err(error.context(flag).advise(format!("give {flag} once for each result of the function")))
        };
        if !options.outputs.is_empty() {
            check("--output", options.outputs.len())?;
        }
        if options.expected.is_empty() {
            return Ok(Self { options, expected: None });
        }
        let expected = Expected::parse(&options.expected, kinds).context(|| "--expected_output".into())?;
        check("--expected_output", expected.len())?;
        Ok(Self { options, expected: Some(expected) })
    }

    /// Writes or compares the results, and returns what is to be printed of them.
    pub(crate) fn rows(&self, values: &[Value]) -> Result<Vec<ResultRow>> {
        let Self { options, expected } = self;
        let row = |(index, value)| {
            let mut row =
                ResultRow::new(value, options.max_elements).context(|| format!("result {index}"))?;
            if let Some(expected) = expected {
                row.difference = expected.compare(index, value, &options.equality)?.map(|it| it.to_string());
            } else if let Some(file) = options.outputs.get(index).and_then(OutputTarget::file) {
                write(value, &options.outputs[index], options.max_elements).context(|| "--output".into())?;
                row.path = Some(file.path.display().to_string());
            }
            Ok(row)
        };
        values.iter().enumerate().map(row).collect()
    }

    /// Whether results are compared with expected ones.
    pub(crate) fn are_compared(&self) -> bool {
        self.expected.is_some()
    }

    /// Prints, writes or compares the results.
    pub(crate) fn finish(&self, values: &[Value]) -> Result<()> {
        // Paths of outputs are relative to the directory in which the tool was started.
        let Self { options, expected } = self;
        if let Some(expected) = expected {
            return if compare_all(values, expected, &options.equality)? { Ok(()) } else { Err(differ()) };
        }
        match &options.outputs[..] {
            [] => print_all(values, options.max_elements),
            outputs => write_all(values, outputs, options.max_elements),
        }
    }
}

/// The error of results that are not the expected ones, which are printed before.
pub(crate) fn differ() -> Error {
    Error::failed_precondition("results differ from the expected ones")
        .advise("the differences are above; --expected_f32_threshold and the like set the tolerances")
}

/// A result as JSON.
#[derive(Serialize)]
pub(crate) struct ResultRow {
    /// Null unless it is a number or a tensor.
    shape: Option<Vec<u64>>,
    element_type: Option<String>,
    /// The first; those that are not numbers of JSON as text.
    elements: Option<Vec<Json>>,
    /// As it is printed.
    text: String,
    /// The file that it was written to.
    path: Option<String>,
    /// How it differs from the expected one.
    pub difference: Option<String>,
}

impl ResultRow {
    fn new(value: &Value, max_elements: u64) -> Result<Self> {
        let text = format_value(value, max_elements)?;
        // Other objects have no elements.
        let tensor_type = type_of_value(value).ok().filter(|_| text != "(null)");
        let elements = tensor_type.as_ref().map(|of| elements(value, of, max_elements)).transpose()?;
        Ok(Self {
            shape: tensor_type.as_ref().map(|it| it.shape.clone()),
            element_type: tensor_type.map(|it| it.element_type.to_string()),
            elements,
            text,
            path: None,
            difference: None,
        })
    }
}

fn elements(value: &Value, tensor_type: &TensorType, max_elements: u64) -> Result<Vec<Json>> {
    let count = tensor_type.element_count()?.min(max_elements);
    let row = TensorType { shape: vec![count], element_type: tensor_type.element_type };
    let text = with_value_memory(value, row.size_bytes()?, |memory| {
        let mut bytes = vec![0; memory.length() as usize];
        memory.read(0, &mut bytes)?;
        format_elements(&row, &bytes, count)
    })?;
    let element =
        |it: &str| serde_json::from_str(it).ok().filter(Json::is_number).unwrap_or_else(|| it.into());
    Ok(text.split_whitespace().map(element).collect())
}

/// Prints all values with their indices: `result[0]: i32=7`.
fn print_all(values: &[Value], max_elements: u64) -> Result<()> {
    for (index, value) in values.iter().enumerate() {
        let text = format_value(value, max_elements).context(|| format!("result {index}"))?;
        output::print(&format!("result[{index}]: {text}\n"))?;
    }
    Ok(())
}

/// Sends each value to its target.
fn write_all(values: &[Value], targets: &[OutputTarget], max_elements: u64) -> Result<()> {
    for (value, target) in values.iter().zip(targets) {
        write(value, target, max_elements).context(|| "--output".into())?;
    }
    Ok(())
}

fn write(value: &Value, target: &OutputTarget, max_elements: u64) -> Result<()> {
    let Some(output) = target.output()? else {
        return match target {
            OutputTarget::Print => output::print(&format!("{}\n", format_value(value, max_elements)?)),
            _ => Ok(()),
        };
    };
    let is_npy = output.path().as_os_str().as_bytes().ends_with(b".npy");
    let header = if is_npy { npy::header(&type_of_value(value)?)? } else { Vec::new() };
    let size = type_of_value(value)?.size_bytes()?;
    // The reference reads the bytes of an array for the one format and rounds them up for the other; captures
    // must be identical.
    let read = if is_npy { size } else { size.checked_next_multiple_of(4).unwrap_or(size) };
    let begun = output.begin()?;
    let mut sink = begun.sink()?;
    let failed = |error| Error::io("writing the file", &error);
    let written = sink.write_all(&header).map_err(failed).and_then(|()| {
        with_value_memory(value, read, |memory| {
            let range = Range { offset: 0, length: size.min(memory.length()) };
            sink.write_memory(memory, range)
        })
    });
    begun.finish(written)
}

/// Compares all results with the expected ones, and prints the differences or success. Returns whether they
/// match.
fn compare_all(values: &[Value], expected: &Expected, equality: &Equality) -> Result<bool> {
    let mut all_match = true;
    for (index, actual) in values.iter().enumerate() {
        if let Some(difference) = expected.compare(index, actual, equality)? {
            output::print(&format!("[FAILED] result[{index}]: {difference}\n"))?;
            all_match = false;
        }
    }
    if all_match {
        output::print("[SUCCESS] all function outputs matched their expected values.\n")?;
    }
    Ok(all_match)
}
