//! Prints, writes or compares results.

use std::io::Write;
use std::os::unix::ffi::OsStrExt;

use rehal_base::{Context, Error, Range, Result};
use rehal_session::{
    Equality, Expected, Function, Value, ValueText, format_value, type_of_value, with_value_memory,
};
use rehal_values::npy;

use super::options::OutputTarget;
use crate::output;

/// Prints all values with their indices: `result[0]: i32=7`.
pub(crate) fn print_all(values: &[Value], max_elements: u64) -> Result<()> {
    for (index, value) in values.iter().enumerate() {
        let text = format_value(value, max_elements).context(|| format!("result {index}"))?;
        output::print(&format!("result[{index}]: {text}\n"))?;
    }
    Ok(())
}

/// Sends each value to its target. Fails unless their numbers are equal.
pub(crate) fn write_all(values: &[Value], targets: &[OutputTarget], max_elements: u64) -> Result<()> {
    if values.len() != targets.len() {
        return Err(Error::out_of_range(format!(
            "{} outputs are specified and the function has {}",
            targets.len(),
            values.len()
        ))
        .advise("give --output once for each result, --output= to discard one"));
    }
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
    // The reference reads the bytes of an array for the one format and rounds them up for the other; captures must be identical.
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

/// Compares all results of a function with the expected ones, and prints the differences or success. Returns
/// whether they match.
pub(crate) fn compare_all(
    values: &[Value],
    function: &Function,
    expected: &[ValueText],
    equality: &Equality,
) -> Result<bool> {
    let expected =
        Expected::parse(expected, function.result_kinds()).context(|| "--expected_output".into())?;
    if expected.len() != values.len() {
        let (expected, actual) = (expected.len(), values.len());
        output::print(&format!("[FAILED] expected {expected} list elements but {actual} provided\n"))?;
        return Ok(false);
    }
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
