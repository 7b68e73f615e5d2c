//! The `check` module: expectations of test programs.
//!
//! A failed expectation is not an error of the program, which continues: it is stored in [`Failures`], which
//! the test runner reads after each test (source: `iree/modules/check/module.cc` and the compiler's
//! `check.imports.mlir` of release 3.13.0; all its imports are optional).

mod expect;

use std::sync::Arc;

use parking_lot::Mutex;
use rehal_base::{Context as _, Error, Result};
use rehal_hal::{BufferView, Device, transfer};
use rehal_values::TensorType;
use rehal_vm::{Call, Export, Flow, NativeModule, State};

use crate::hal::Handle;
use expect::{Tensor, Tolerance};

/// The `check` module. Every context that contains it reports to the same [`Failures`].
#[derive(Default)]
pub struct CheckModule {
    failures: Failures,
}

/// Failed expectations, one text each. Clones share them.
#[derive(Clone, Default)]
pub struct Failures(Arc<Mutex<FailureTexts>>);

#[derive(Default)]
struct FailureTexts {
    texts: Vec<String>,
    more: u64,
}

/// Further failures in one test are counted, not stored, so that a loop cannot exhaust memory.
const KEPT_LIMIT: usize = 100;

impl Failures {
    /// The failures since the last call, in order.
    pub fn take(&self) -> Vec<String> {
        let FailureTexts { mut texts, more } = std::mem::take(&mut *self.0.lock());
        if more > 0 {
            texts.push(format!("{more} more expectations failed."));
        }
        texts
    }

    fn add(&self, text: String) {
        let mut kept = self.0.lock();
        if kept.texts.len() < KEPT_LIMIT { kept.texts.push(text) } else { kept.more += 1 }
    }
}

impl CheckModule {
    /// A module that reports to `failures`.
    pub fn new(failures: Failures) -> Self {
        Self { failures }
    }

    /// The failures it reports to.
    pub fn failures(&self) -> &Failures {
        &self.failures
    }
}

impl NativeModule for CheckModule {
    fn name(&self) -> &str {
        "check"
    }

    fn version(&self) -> u32 {
        0
    }

    fn exports(&self) -> &[Export] {
        const {
            &[
                Export::new("expect_true", "0i_v"),
                Export::new("expect_false", "0i_v"),
                Export::new("expect_all_true", "0rr_v"),
                Export::new("expect_eq", "0rrr_v"),
                Export::new("expect_almost_eq", "0rrrff_v"),
            ]
        }
    }

    fn new_state(&self) -> Result<State> {
        Ok(Box::new(()))
    }

    fn call(&self, _state: &State, ordinal: usize, call: &mut Call<'_>) -> Result<Flow> {
        let failure = match ordinal {
            0 => expect::is_true(call.i32(0)?),
            1 => expect::is_false(call.i32(0)?),
            2 => {
                let [operand] = operands(call, [1])?;
                with_tensor(operand, expect::all_true)??
            }
            3 => both(call, expect::equal)?,
            4 => {
                let tolerance = Tolerance { absolute: call.f32(3)?, relative: call.f32(4)? };
                both(call, |lhs, rhs| expect::almost_equal(lhs, rhs, tolerance))?
            }
            other => return Err(Error::not_found(format!("module check has no function {other}"))),
        };
        if let Some(what) = failure {
            let name = self.exports()[ordinal].name;
            self.failures.add(format!("check.{name}: Failure\n{what}"));
        }
        Ok(Flow::Return)
    }
}

/// Calls `look` with the tensors of both operands of a comparison.
fn both(
    call: &Call<'_>,
    look: impl FnOnce(Tensor<'_>, Tensor<'_>) -> Result<Option<String>>,
) -> Result<Option<String>> {
    let [lhs, rhs] = operands(call, [1, 2])?;
    with_tensor(lhs, |lhs| with_tensor(rhs, |rhs| look(lhs, rhs)))??
}

/// The operands at `indices`.
fn operands<'c, const N: usize>(call: &'c Call<'_>, indices: [usize; N]) -> Result<[&'c BufferView; N]> {
    let mut views = Vec::with_capacity(N);
    for index in indices {
        let view = Handle::<BufferView>::of(call.reference(index)?);
        views.push(view.context(|| format!("argument {index}"))?);
    }
    // Only type-checked: each buffer knows its device.
    let _: &Device = Handle::of(call.reference(0)?).context(|| "argument 0".into())?;
    Ok(std::array::from_fn(|index| views[index]))
}

/// Calls `look` with the tensor of an operand.
fn with_tensor<R>(view: &BufferView, look: impl FnOnce(Tensor<'_>) -> R) -> Result<R> {
    let tensor_type = TensorType { shape: view.shape().to_vec(), element_type: view.element_type() };
    let bytes = transfer::to_vec(view.buffer(), 0, tensor_type.size_bytes()?)?;
    Ok(look(Tensor { tensor_type: &tensor_type, bytes: &bytes }))
}

#[cfg(test)]
mod tests;
