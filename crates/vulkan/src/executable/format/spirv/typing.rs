//! The types of values where a driver relies on them: in memory, calls, constants and arithmetic.

use rehal_base::FormatError;
use spirv::{Op, Scope};

use super::instructions::Instruction;
use super::structure::{Definition, Module, unexpected};

impl Module<'_> {
    /// Checks the types of an instruction's values, whose ids are checked.
    pub(super) fn check_types(&mut self, instruction: &Instruction<'_>, op: Op) -> Result<(), FormatError> {
        let operand = |index| instruction.operand(index);
        match op {
            Op::EntryPoint => self.check_entry(instruction),
            Op::Function => {
                let [result, ..] = *self.signature(instruction, operand(3)?)? else { return Ok(()) };
                expect(instruction, "the result type of the function", result, operand(0)?)
            }
            Op::FunctionParameter => self.check_parameter(instruction),
            Op::Label => self.check_parameter_count(instruction),
            Op::FunctionCall => self.check_call(instruction),
            Op::Return => {
                let result = self.result(instruction)?;
                self.expect_op(instruction, result, Op::TypeVoid).map(drop)
            }
            Op::ReturnValue => {
                let (wanted, found) = (self.result(instruction)?, self.type_of(instruction, operand(0)?)?);
                expect(instruction, "the result type of the function", wanted, found)
            }
            Op::Load => match self.pointee(instruction, operand(2)?)? {
                Some(pointee) => expect(instruction, "the type that is pointed to", pointee, operand(0)?),
                None => Ok(()),
            },
            Op::Store => match self.pointee(instruction, operand(0)?)? {
                Some(pointee) => {
                    let found = self.type_of(instruction, operand(1)?)?;
                    expect(instruction, "the type that is pointed to", pointee, found)
                }
                None => Ok(()),
            },
            Op::CopyObject => {
                let found = self.type_of(instruction, operand(2)?)?;
                expect(instruction, "the result type", operand(0)?, found)
            }
            Op::Phi => instruction.operands.iter().skip(2).step_by(2).try_for_each(|value| {
                let found = self.type_of(instruction, *value)?;
                expect(instruction, "the result type", operand(0)?, found)
            }),
            // Kernels of OpenCL have larger ones, too.
            Op::TypeVector => expect_count(instruction, operand(2)?, &[2, 3, 4, 8, 16]),
            Op::TypeMatrix => expect_count(instruction, operand(2)?, &[2, 3, 4]),
            Op::ConstantComposite | Op::SpecConstantComposite => self.check_composite(instruction),
            Op::FNegate | Op::FAdd | Op::FSub | Op::FMul | Op::FDiv | Op::FRem | Op::FMod => {
                self.check_numbers(instruction, Op::TypeFloat)
            }
            Op::SNegate
            | Op::IAdd
            | Op::ISub
            | Op::IMul
            | Op::UDiv
            | Op::SDiv
            | Op::UMod
            | Op::SRem
            | Op::SMod
            | Op::Not
            | Op::BitwiseOr
            | Op::BitwiseXor
            | Op::BitwiseAnd => self.check_numbers(instruction, Op::TypeInt),
            _ => Ok(()),
        }
    }

    /// A scope, or the semantics of memory: an integer constant.
    pub(super) fn check_flags(
        &self,
        instruction: &Instruction<'_>,
        at: usize,
        is_scope: bool,
    ) -> Result<(), FormatError> {
        let id = instruction.operand(at)?;
        let found = self.find(instruction, id)?;
        let kind = self.find(instruction, self.type_of(instruction, id)?)?;
        if !found.op.is_constant() || kind.op != Op::TypeInt || kind.operands.get(1) != Some(&32) {
            return Err(unexpected(instruction, "a constant 32-bit integer".into(), id, &found));
        }
        match self.constant(id) {
            Some(scope) if is_scope && u32::try_from(scope).ok().and_then(Scope::from_u32).is_none() => {
                Err(instruction.error("a scope".into(), format!("{scope}")))
            }
            _ => Ok(()),
        }
    }

    /// The types of a function's result and parameters, by the id of its type.
    fn signature(&self, instruction: &Instruction<'_>, function_type: u32) -> Result<&[u32], FormatError> {
        let found = self.expect_op(instruction, function_type, Op::TypeFunction)?;
        Ok(found.operands.get(1..).unwrap_or_default())
    }

    /// The signature of a function, by its id.
    fn signature_of(&self, instruction: &Instruction<'_>, function: u32) -> Result<&[u32], FormatError> {
        let function = self.expect_op(instruction, function, Op::Function)?;
        self.signature(instruction, function.operands.get(3).copied().unwrap_or(0))
    }

    /// The result type of the function that is read.
    fn result(&self, instruction: &Instruction<'_>) -> Result<u32, FormatError> {
        Ok(self.signature_of(instruction, self.function)?.first().copied().unwrap_or(0))
    }

    /// An entry point is a function of nothing to nothing.
    fn check_entry(&self, instruction: &Instruction<'_>) -> Result<(), FormatError> {
        let signature = self.signature_of(instruction, instruction.operand(1)?)?;
        let parameters = signature.len().saturating_sub(1);
        if parameters != 0 {
            let expected =
                format!("a function without parameters as entry point '{}'", instruction.text(2)?.0);
            return Err(instruction.error(expected, parameters.to_string()));
        }
        let result = signature.first().copied().unwrap_or(0);
        self.expect_op(instruction, result, Op::TypeVoid).map(drop)
    }

    fn check_parameter(&mut self, instruction: &Instruction<'_>) -> Result<(), FormatError> {
        let parameters = self.signature_of(instruction, self.function)?.get(1..).unwrap_or_default();
        let Some(wanted) = parameters.get(self.parameters).copied() else {
            let expected = format!("{} parameters of function {}", parameters.len(), self.function);
            return Err(instruction.error(expected, "more".into()));
        };
        self.parameters += 1;
        expect(instruction, "the type of the parameter", wanted, instruction.operand(0)?)
    }

    /// Before its first block a function has declared its parameters.
    fn check_parameter_count(&self, instruction: &Instruction<'_>) -> Result<(), FormatError> {
        if self.function == 0 {
            return Ok(());
        }
        let wanted = self.signature_of(instruction, self.function)?.len().saturating_sub(1);
        match wanted == self.parameters {
            true => Ok(()),
            false => {
                let expected = format!("{wanted} parameters of function {}", self.function);
                Err(instruction.error(expected, self.parameters.to_string()))
            }
        }
    }

    fn check_call(&self, instruction: &Instruction<'_>) -> Result<(), FormatError> {
        let function = instruction.operand(2)?;
        let signature = self.signature_of(instruction, function)?;
        let arguments = instruction.operands.get(3..).unwrap_or_default();
        let Some((result, parameters)) = signature.split_first() else { return Ok(()) };
        expect(instruction, "the result type of the function", *result, instruction.operand(0)?)?;
        if parameters.len() != arguments.len() {
            let expected = format!("{} arguments for function {function}", parameters.len());
            return Err(instruction.error(expected, arguments.len().to_string()));
        }
        parameters.iter().zip(arguments).try_for_each(|(wanted, argument)| {
            expect(instruction, "the type of the parameter", *wanted, self.type_of(instruction, *argument)?)
        })
    }

    /// A constant of several parts has all of them.
    fn check_composite(&self, instruction: &Instruction<'_>) -> Result<(), FormatError> {
        let composite = self.find(instruction, instruction.operand(0)?)?;
        let parts = instruction.operands.get(2..).unwrap_or_default();
        let operand = |index: usize| composite.operands.get(index).copied().unwrap_or(0);
        let count = match composite.op {
            Op::TypeStruct => Some(composite.operands.len() as u64 - 1),
            Op::TypeVector | Op::TypeMatrix => Some(u64::from(operand(2))),
            Op::TypeArray => self.constant(operand(2)),
            _ => None,
        };
        if let Some(count) = count.filter(|count| *count != parts.len() as u64) {
            return Err(instruction.error(format!("{count} parts"), parts.len().to_string()));
        }
        parts.iter().enumerate().try_for_each(|(index, part)| {
            let wanted = match composite.op {
                Op::TypeStruct => operand(index + 1),
                _ => operand(1),
            };
            expect(instruction, "the type of the part", wanted, self.type_of(instruction, *part)?)
        })
    }

    /// Values and result have components of a kind.
    fn check_numbers(&self, instruction: &Instruction<'_>, kind: Op) -> Result<(), FormatError> {
        let values = instruction.operands.get(2..).unwrap_or_default().iter();
        let types = values.map(|value| self.type_of(instruction, *value));
        std::iter::once(instruction.operand(0)).chain(types).try_for_each(|id| {
            let id = id?;
            let found = self.component(instruction, self.find(instruction, id)?)?;
            match found.op == kind {
                true => Ok(()),
                false => Err(unexpected(instruction, format!("numbers of Op{kind:?}"), id, &found)),
            }
        })
    }

    /// The type of the components of a vector or cooperative matrix; of others, the type.
    fn component<'t>(
        &'t self,
        instruction: &Instruction<'_>,
        of: Definition<'t>,
    ) -> Result<Definition<'t>, FormatError> {
        match of.op {
            Op::TypeVector
            | Op::TypeCooperativeMatrixKHR
            | Op::TypeCooperativeMatrixNV
            | Op::TypeCooperativeVectorNV => self.find(instruction, of.operands.get(1).copied().unwrap_or(0)),
            _ => Ok(of),
        }
    }
}

/// Fails unless the type `found` is `wanted`, which is `what`.
fn expect(instruction: &Instruction<'_>, what: &str, wanted: u32, found: u32) -> Result<(), FormatError> {
    match wanted == found {
        true => Ok(()),
        false => Err(instruction.error(format!("type {wanted}, {what}"), format!("type {found}"))),
    }
}

fn expect_count(instruction: &Instruction<'_>, found: u32, allowed: &[u32]) -> Result<(), FormatError> {
    match allowed.contains(&found) {
        true => Ok(()),
        false => Err(instruction.error("2 to 4 components".into(), found.to_string())),
    }
}
