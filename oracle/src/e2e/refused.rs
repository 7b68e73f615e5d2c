use super::{EMULATOR, Program};

/// The reference's programs that the pinned release does not compile: directory below `tests/e2e`, program,
/// and part of the compiler's error. Each is written for another version of the compiler. The list matches
/// the reference's source as of 21 August 2026.
const REFUSED: &[(&str, &str, &str)] = &[
    ("linalg", "small_float_arith", "custom op 'linalg.add' is unknown"),
    ("linalg_ext_ops", "attention", "missing required attribute: indexing_maps"),
    ("linalg_ext_ops", "attention_i1_mask", "missing required attribute: indexing_maps"),
    ("linalg_ext_ops", "dynamic_attention", "missing required attribute: indexing_maps"),
    ("regression", "dynamic_gather_attention", "missing required attribute: indexing_maps"),
    ("tosa_ops", "arithmetic_right_shift", "custom op 'tosa.arithmetic_right_shift' expected 'round'"),
    ("tosa_ops", "clamp", "custom op 'tosa.clamp' expected 'min_val'"),
    ("tosa_ops", "max_pool", "custom op 'tosa.max_pool2d' expected 'kernel'"),
    ("tosa_ops", "pad", "custom op 'tosa.const_shape' expected 'values'"),
    ("tosa_ops", "reduce", "custom op 'tosa.reduce_max' expected 'axis'"),
    ("tosa_ops", "reshape", "custom op 'tosa.const_shape' expected 'values'"),
    ("tosa_ops", "transpose", "custom op 'tosa.transpose' expected 'perms'"),
];

/// Programs that it does not compile for CUDA only: it has no code there for types below a byte in some
/// operations, for floats of 4 bits, or for a configuration that the program demands.
const REFUSED_FOR_CUDA: &[(&str, &str, &str)] = &[
    (
        "linalg",
        "fp4_f32_conversion",
        "LLVM Translation failed for operation: builtin.unrealized_conversion_cast",
    ),
    ("regression/stablehlo", "lowering_config", "failed to build pass pipeline"),
    ("subbyte_types", "subbyte_types", "failed to legalize unresolved source materialization"),
];

impl Program {
    /// The expected part of the compiler's error, if the release is known not to compile the program.
    pub fn known_refusal(&self) -> Option<&'static str> {
        let below = self.name.strip_prefix("reference/")?;
        let (suite, program) = below.rsplit_once('/')?;
        let (directory, _) = suite.rsplit_once('/')?;
        let for_cuda = if self.devices() == [EMULATOR] { REFUSED_FOR_CUDA } else { &[] };
        let known = REFUSED.iter().chain(for_cuda).find(|known| (known.0, known.1) == (directory, program));
        known.map(|(_, _, words)| *words)
    }

    /// Compares the compiler's error for a program that it rejected with the known one.
    pub fn judge_refusal(&self, said: &str) -> Result<(), String> {
        match self.known_refusal() {
            Some(words) if said.contains(words) => Ok(()),
            Some(words) => Err(format!("does not compile, expected {words:?}, found: {said}")),
            None => Err(format!("does not compile: {said}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::BACKEND_CUDA;
    use super::*;

    #[test]
    fn only_listed_programs_may_fail_to_compile() {
        let program = |name: &str| Program { name: name.to_owned(), source: "x".into(), flags: Vec::new() };
        let known = program("reference/linalg/check_vmvx_local-task/small_float_arith");
        assert!(known.judge_refusal("error: custom op 'linalg.add' is unknown").is_ok());
        assert!(known.judge_refusal("error: something else").is_err());
        for name in ["reference/linalg/check_vmvx_local-task/index", "ours/vmvx.plain/small_float_arith"] {
            assert!(program(name).judge_refusal("error: custom op 'linalg.add' is unknown").is_err());
        }
        let mut for_cuda = program("reference/subbyte_types/check_llvm-cpu.cuda/subbyte_types");
        assert_eq!(for_cuda.known_refusal(), None);
        for_cuda.flags.push(BACKEND_CUDA.to_owned());
        assert!(for_cuda.known_refusal().is_some());
    }
}
