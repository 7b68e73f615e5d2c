//! Which integer an instruction computes, as a term over those in its registers.

use rehal_base::terms::{Operator, Term, Terms};

use crate::ValueKind;
use crate::instruction::Instruction;
use crate::operation::{Field, Op};

/// The result of an instruction, if it is an integer that `read` and `terms` tell: the term in a register.
pub(super) fn result(
    instruction: &Instruction<'_>,
    terms: &mut Terms,
    read: &mut dyn FnMut(&mut Terms, u16) -> Term,
) -> Option<Term> {
    let op = instruction.operation.op;
    match op {
        Op::ConstI32Zero | Op::ConstI64Zero => return Some(terms.constant(0)),
        Op::ConstI32 => return Some(terms.constant((instruction.bits(0) as i32).into())),
        Op::ConstI64 => return Some(terms.constant(instruction.bits(0) as i64)),
        _ => {}
    }
    let (way, bits) = way(op)?;
    // Integers of 32 bits are sign-extended.
    let mut operands = Vec::with_capacity(3);
    for (index, field) in instruction.operation.fields.iter().enumerate() {
        let Field::Read(kind) = field else { continue };
        let term = read(terms, instruction.register(index));
        operands.push(if *kind == ValueKind::I32 { terms.wrap(32, true, term) } else { term });
    }
    let term = apply(way, bits, &operands, terms)?;
    Some(if bits == 32 { terms.wrap(32, true, term) } else { term })
}

/// How an instruction computes its result.
#[derive(Clone, Copy)]
enum Way {
    Select,
    Add3,
    Not,
    IsNot0,
    /// Its operands as they are.
    Signed(Operator),
    /// Its operands zero-extended.
    Unsigned(Operator),
    NotEqual,
    Shift(Operator),
    /// The lowest bits.
    Low(u8, bool),
}

/// The way, and the bits of its operands.
fn way(op: Op) -> Option<(Way, u8)> {
    use Way::{Low, Shift, Signed, Unsigned};
    Some(match op {
        Op::SelectI32 | Op::SelectI64 => (Way::Select, 64),
        Op::AddI32 => (Signed(Operator::Add), 32),
        Op::SubI32 => (Signed(Operator::Sub), 32),
        Op::MulI32 => (Signed(Operator::Mul), 32),
        Op::DivI32S => (Signed(Operator::DivS), 32),
        Op::DivI32U => (Unsigned(Operator::DivU), 32),
        Op::RemI32S => (Signed(Operator::RemS), 32),
        Op::RemI32U => (Unsigned(Operator::RemU), 32),
        Op::FMAI32 => (Way::Add3, 32),
        Op::MinI32S => (Signed(Operator::MinS), 32),
        Op::MinI32U => (Unsigned(Operator::MinU), 32),
        Op::MaxI32S => (Signed(Operator::MaxS), 32),
        Op::MaxI32U => (Unsigned(Operator::MaxU), 32),
        Op::NotI32 => (Way::Not, 32),
        Op::AndI32 => (Signed(Operator::And), 32),
        Op::OrI32 => (Signed(Operator::Or), 32),
        Op::XorI32 => (Signed(Operator::Xor), 32),
        Op::ShlI32 => (Shift(Operator::Shl), 32),
        Op::ShrI32S => (Shift(Operator::ShrS), 32),
        Op::ShrI32U => (Shift(Operator::ShrU), 32),
        Op::CmpEQI32 | Op::CmpEQI64 => (Signed(Operator::Eq), 64),
        Op::CmpNEI32 | Op::CmpNEI64 => (Way::NotEqual, 64),
        Op::CmpLTI32S | Op::CmpLTI64S => (Signed(Operator::LtS), 64),
        Op::CmpLTI32U => (Unsigned(Operator::LtU), 32),
        Op::CmpLTI64U => (Signed(Operator::LtU), 64),
        Op::CmpNZI32 | Op::CmpNZI64 => (Way::IsNot0, 64),
        Op::AddI64 => (Signed(Operator::Add), 64),
        Op::SubI64 => (Signed(Operator::Sub), 64),
        Op::MulI64 => (Signed(Operator::Mul), 64),
        Op::DivI64S => (Signed(Operator::DivS), 64),
        Op::DivI64U => (Signed(Operator::DivU), 64),
        Op::RemI64S => (Signed(Operator::RemS), 64),
        Op::RemI64U => (Signed(Operator::RemU), 64),
        Op::FMAI64 => (Way::Add3, 64),
        Op::MinI64S => (Signed(Operator::MinS), 64),
        Op::MinI64U => (Signed(Operator::MinU), 64),
        Op::MaxI64S => (Signed(Operator::MaxS), 64),
        Op::MaxI64U => (Signed(Operator::MaxU), 64),
        Op::NotI64 => (Way::Not, 64),
        Op::AndI64 => (Signed(Operator::And), 64),
        Op::OrI64 => (Signed(Operator::Or), 64),
        Op::XorI64 => (Signed(Operator::Xor), 64),
        Op::ShlI64 => (Shift(Operator::Shl), 64),
        Op::ShrI64S => (Shift(Operator::ShrS), 64),
        Op::ShrI64U => (Shift(Operator::ShrU), 64),
        Op::TruncI32I8 | Op::ExtI8I32U => (Low(8, false), 64),
        Op::TruncI32I16 | Op::ExtI16I32U => (Low(16, false), 64),
        Op::ExtI8I32S => (Low(8, true), 64),
        Op::ExtI16I32S => (Low(16, true), 64),
        Op::TruncI64I32 | Op::ExtI32I64S => (Low(32, true), 64),
        Op::ExtI32I64U => (Low(32, false), 64),
        _ => return None,
    })
}

fn apply(way: Way, bits: u8, operands: &[Term], terms: &mut Terms) -> Option<Term> {
    let is_zero = |terms: &mut Terms, of| {
        let zero = terms.constant(0);
        terms.binary(Operator::Eq, of, zero)
    };
    let not = |terms: &mut Terms, of| {
        let one = terms.constant(1);
        terms.binary(Operator::Xor, of, one)
    };
    Some(match (way, operands) {
        (Way::Select, [condition, left, right]) => terms.select(*condition, *left, *right),
        (Way::Add3, [left, right, added]) => {
            let product = terms.binary(Operator::Mul, *left, *right);
            terms.binary(Operator::Add, product, *added)
        }
        (Way::Not, [of]) => {
            let ones = terms.constant(-1);
            terms.binary(Operator::Xor, *of, ones)
        }
        (Way::IsNot0, [of]) => {
            let is_zero = is_zero(terms, *of);
            not(terms, is_zero)
        }
        (Way::NotEqual, [left, right]) => {
            let is_equal = terms.binary(Operator::Eq, *left, *right);
            not(terms, is_equal)
        }
        (Way::Signed(operator), [left, right]) => terms.binary(operator, *left, *right),
        (Way::Unsigned(operator), [left, right]) => {
            let (left, right) = (terms.wrap(32, false, *left), terms.wrap(32, false, *right));
            terms.binary(operator, left, right)
        }
        (Way::Shift(operator), [of, by]) => {
            // By more, it shifts by the rest.
            terms.value(*by).filter(|by| (0..i64::from(bits)).contains(by))?;
            let of = match operator {
                Operator::ShrU => terms.wrap(bits, false, *of),
                _ => *of,
            };
            terms.binary(operator, of, *by)
        }
        (Way::Low(bits, is_signed), [of]) => terms.wrap(bits, is_signed, *of),
        _ => return None,
    })
}
