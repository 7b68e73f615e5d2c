use std::fmt::Write;

use rehal_base::Result;
use rehal_hal::{BufferView, WHOLE_BUFFER, transfer};
use rehal_values::{TensorType, format_tensor};

/// The text of a trace: a line with the key, each value in full, and an empty line.
pub fn trace_text(key: &str, views: &[&BufferView]) -> Result<String> {
    let mut text = format!("=== {key} ===\n");
    for view in views {
        let tensor_type = TensorType { shape: view.shape().to_vec(), element_type: view.element_type() };
        let bytes = transfer::to_vec(view.buffer(), 0, WHOLE_BUFFER)?;
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{}", format_tensor(&tensor_type, &bytes, u64::MAX)?);
    }
    text.push('\n');
    Ok(text)
}
