//! The body of a fuzz target: the reader of kernel descriptors on arbitrary bytes.

use rehal_base::Result;

use crate::KernelDescriptor;

/// Reads `text` as the descriptor of a kernel and checks what a replay relies on.
///
/// Returns the number of bindings, or why the descriptor is invalid; must terminate without a panic.
pub fn exercise_descriptor(text: &[u8]) -> Result<usize> {
    let descriptor = KernelDescriptor::parse(text)?;
    for binding in &descriptor.bindings {
        let end = binding.offset.checked_add(binding.length);
        assert!(end.is_some_and(|end| end <= descriptor.allocation_bytes), "bindings are in the allocation");
    }
    let files = &descriptor.files;
    for name in
        [Some(&files.image), Some(&files.record_input), files.record_output.as_ref()].into_iter().flatten()
    {
        assert!(!name.contains('/') && name != "..", "files are in the directory of the descriptor");
    }
    let again = KernelDescriptor::parse(descriptor.text()?.as_bytes())?;
    assert!(again == descriptor, "what is written is read back");
    Ok(descriptor.bindings.len())
}

#[cfg(test)]
mod tests {
    use super::exercise_descriptor;

    #[test]
    fn every_change_of_a_descriptor_is_read_or_refused() {
        let seed = include_bytes!("../tests/data/add4.add.local-sync.json");
        assert_eq!(exercise_descriptor(seed).unwrap(), 3);
        let mut refused = 0;
        for at in 0..seed.len() {
            refused += usize::from(exercise_descriptor(&seed[..at]).is_err());
            for byte in [b'0', b'9', b'-', b'"', b'{', b'\\', 0xFF] {
                let mut changed = seed.to_vec();
                changed[at] = byte;
                let _ = exercise_descriptor(&changed);
            }
        }
        // All but the last newline is needed.
        assert_eq!(refused, seed.len() - 1);
    }
}
