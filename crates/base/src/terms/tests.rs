use super::*;

fn formula(build: impl FnOnce(&mut Terms) -> Vec<Term>) -> Formula {
    let mut terms = Terms::default();
    let results = build(&mut terms);
    Formula::new(&terms, &results).unwrap()
}

/// A 64-bit value of two inputs, within bounds, as a kernel reads it.
fn workload(terms: &mut Terms, first: u32) -> Term {
    let [low, high] = [first, first + 1].map(|it| terms.input(it));
    let [low, high] = [low, high].map(|it| terms.wrap(32, false, it));
    let by = terms.constant(32);
    let high = terms.binary(Operator::Shl, high, by);
    let whole = terms.binary(Operator::Or, low, high);
    terms.bounded(whole, 0, 1 << 53)
}

/// A quotient that is rounded up, as a compiler expands it.
fn rounded_up(terms: &mut Terms, x: Term, by: i64, is_positive: impl Fn(&mut Terms, Term) -> Term) -> Term {
    let [zero, one, by] = [0, 1, by].map(|it| terms.constant(it));
    let is_positive = is_positive(terms, x);
    let is_zero = terms.binary(Operator::Xor, is_positive, one);
    let minus = terms.binary(Operator::Sub, zero, x);
    let before = terms.binary(Operator::Sub, x, one);
    let dividend = terms.select(is_zero, minus, before);
    let quotient = terms.binary(Operator::DivS, dividend, by);
    let minus = terms.binary(Operator::Sub, zero, quotient);
    let next = terms.binary(Operator::Add, quotient, one);
    terms.select(is_zero, minus, next)
}

fn below(operator: Operator) -> impl Fn(&mut Terms, Term) -> Term {
    move |terms, x| {
        let zero = terms.constant(0);
        terms.binary(operator, zero, x)
    }
}

#[test]
fn formulas_have_values_and_a_text() {
    let it = formula(|terms| {
        let x = workload(terms, 0);
        let up = rounded_up(terms, x, 8, below(Operator::LtS));
        let four = terms.constant(4);
        vec![terms.binary(Operator::Mul, up, four), four]
    });
    let inputs = |values: [u32; 2]| it.evaluate(|index| values.get(index as usize).copied());
    assert_eq!(inputs([40, 0]), Ok(vec![20, 4]));
    assert_eq!(inputs([41, 0]), Ok(vec![24, 4]));
    assert_eq!(inputs([0, 0]), Ok(vec![0, 4]));
    assert_eq!(inputs([1, 1]), Ok(vec![((1 << 29) + 1) * 4, 4]));
    assert_eq!(inputs([0, 1 << 31]), Err(FormulaFault::OutOfBounds(i64::MIN)));
    assert_eq!(it.evaluate(|index| (index == 0).then_some(1)), Err(FormulaFault::MissingInput(1)));
    assert_eq!((it.input_count(), it.constants()), (2, None));
    let text = it.to_string();
    assert_eq!(text.parse::<Formula>().unwrap(), it, "{text}");
    for wrong in ["", "=1 -> 1", "add:0:1 ->", "=1 add:0:0:0 -> 0", "zext:64:0 ->", "? -> 0", "=1 in:-1 -> 0"]
    {
        assert!(wrong.parse::<Formula>().is_err(), "{wrong}");
    }
}

#[test]
fn arithmetic_is_checked() {
    let fault = |operator, left, right| {
        let it = formula(|terms| {
            let (left, right) = (terms.constant(left), terms.constant(right));
            vec![terms.binary(operator, left, right)]
        });
        it.evaluate(|_| None)
    };
    for operator in [Operator::DivS, Operator::DivU, Operator::RemS, Operator::CeilDiv, Operator::FloorMod] {
        assert_eq!(fault(operator, 5, 0), Err(FormulaFault::DivisionByZero), "{operator:?}");
    }
    assert_eq!(fault(Operator::Mul, 1 << 40, 1 << 40), Err(FormulaFault::Overflow));
    assert_eq!(fault(Operator::DivS, i64::MIN, -1), Err(FormulaFault::Overflow));
    assert_eq!(fault(Operator::Shl, 1, 64), Err(FormulaFault::Overflow));
    for (operator, left, right, value) in [
        (Operator::FloorDiv, -7, 2, -4),
        (Operator::CeilDiv, -7, 2, -3),
        (Operator::CeilDiv, 7, 2, 4),
        (Operator::FloorMod, -7, 2, 1),
        (Operator::CeilDivU, 9, 8, 2),
        (Operator::LtU, -1, 1, 0),
        (Operator::ShrS, -8, 1, -4),
    ] {
        assert_eq!(fault(operator, left, right), Ok(vec![value]), "{operator:?}");
    }
    // What is not selected may fail.
    let it = formula(|terms| {
        let (x, one, zero) = (terms.input(0), terms.constant(1), terms.constant(0));
        let (is_zero, quotient) = (terms.binary(Operator::Eq, x, zero), terms.binary(Operator::DivS, one, x));
        vec![terms.select(is_zero, zero, quotient)]
    });
    assert_eq!([0, 1].map(|it_is| it.evaluate(|_| Some(it_is)).unwrap()[0]), [0, 1]);
}

/// The program passes both halves of a value, and computes the same with an unsigned comparison.
#[test]
fn other_ways_to_compute_the_same_are_found() {
    let product = |by: i64| {
        formula(|terms| {
            let (x, y) = (workload(terms, 0), workload(terms, 2));
            let (x, y) = (
                rounded_up(terms, x, by, below(Operator::LtS)),
                rounded_up(terms, y, 16, below(Operator::LtS)),
            );
            let one = terms.constant(1);
            vec![terms.binary(Operator::Mul, x, y), one]
        })
    };
    let mut program = Terms::default();
    let (x, y) = (program.unknown(), program.unknown());
    let mut inputs = Vec::new();
    for value in [x, y] {
        let by = program.constant(32);
        let high = program.binary(Operator::ShrU, value, by);
        inputs.extend([value, high].map(|it| program.wrap(32, true, it)));
    }
    let up = |program: &mut Terms, value, by| rounded_up(program, value, by, below(Operator::LtU));
    let (right, left) = (up(&mut program, y, 16), up(&mut program, x, 8));
    let count = program.binary(Operator::Mul, right, left);
    let results = [program.wrap(32, true, count), program.constant(1)];
    assert!(same(&program, &inputs, &results, &product(8)));
    assert!(!same(&program, &inputs, &results, &product(16)));
    let swapped: Vec<_> = [2, 3, 0, 1].map(|it| inputs[it]).to_vec();
    assert!(!same(&program, &swapped, &results, &product(8)));
    assert!(!same(&program, &inputs[..3], &results, &product(8)));
    // Without bounds, an unsigned comparison is another one.
    let unbounded = product(8).to_string().replace("9007199254740992", &i64::MAX.to_string());
    let unbounded = unbounded.replace(":0:9223372036854775807", ":-1:9223372036854775807");
    assert!(!same(&program, &inputs, &results, &unbounded.parse().unwrap()));
    // (x + 7) / 8.
    let (seven, eight) = (program.constant(7), program.constant(8));
    let sum = program.binary(Operator::Add, x, seven);
    let quotient = program.binary(Operator::DivU, sum, eight);
    let count = program.binary(Operator::Mul, quotient, right);
    assert!(same(&program, &inputs, &[count, results[1]], &product(8)));
    let six = program.constant(6);
    let sum = program.binary(Operator::Add, x, six);
    let quotient = program.binary(Operator::DivU, sum, eight);
    let count = program.binary(Operator::Mul, quotient, right);
    assert!(!same(&program, &inputs, &[count, results[1]], &product(8)));
}

/// A product that overflows has no value, so that an unsigned minimum is a signed one.
#[test]
fn what_has_no_value_does_not_differ() {
    let least = formula(|terms| {
        let (x, y) = (workload(terms, 0), workload(terms, 2));
        let (product, limit) = (terms.binary(Operator::Mul, x, y), terms.constant(i32::MAX.into()));
        vec![terms.binary(Operator::MinS, product, limit)]
    });
    let mut program = Terms::default();
    let (x, y, by) = (program.unknown(), program.unknown(), program.constant(32));
    let mut inputs = Vec::new();
    for value in [x, y] {
        let high = program.binary(Operator::ShrU, value, by);
        inputs.extend([value, high]);
    }
    let (product, limit) = (program.binary(Operator::Mul, y, x), program.constant(i32::MAX.into()));
    let least_unsigned = program.binary(Operator::MinU, product, limit);
    assert!(same(&program, &inputs, &[least_unsigned], &least));
    let other = program.binary(Operator::MinU, x, limit);
    assert!(!same(&program, &inputs, &[other], &least));
}

/// The program passes 0 where the formula says that it is at least 1.
#[test]
fn what_contradicts_the_bounds_of_a_formula_is_not_the_same() {
    let quotient = formula(|terms| {
        let (by, all) = (terms.input(0), terms.input(1));
        let by = terms.bounded(by, 1, 1 << 40);
        vec![terms.binary(Operator::CeilDiv, all, by)]
    });
    let mut program = Terms::default();
    let (zero, all) = (program.constant(0), program.unknown());
    let count = program.binary(Operator::CeilDiv, all, zero);
    assert!(!same(&program, &[zero, all], &[count], &quotient));
}

const OPERATORS: [Operator; 24] = [
    Operator::Add,
    Operator::Sub,
    Operator::Mul,
    Operator::DivS,
    Operator::DivU,
    Operator::CeilDiv,
    Operator::CeilDivU,
    Operator::FloorDiv,
    Operator::FloorMod,
    Operator::MinS,
    Operator::MinU,
    Operator::MaxS,
    Operator::Xor,
    Operator::Or,
    Operator::ShrU,
    Operator::Eq,
    Operator::LtS,
    Operator::LtU,
    Operator::And,
    Operator::Shl,
    Operator::ShrS,
    Operator::RemS,
    Operator::RemU,
    Operator::MaxU,
];

fn generator() -> impl FnMut(usize) -> usize {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    }
}

/// Random operations on two inputs and some constants.
fn random_nodes(random: &mut impl FnMut(usize) -> usize) -> Vec<Node> {
    let mut nodes = vec![Node::Input(0), Node::Input(1)];
    nodes.extend([0, 1, -1, 2, 7, 8, 32].map(Node::Constant));
    for _ in 0..random(12) + 3 {
        let mut term = || Term(random(nodes.len()) as u32);
        let (left, right, other) = (term(), term(), term());
        nodes.push(match random(8) {
            0 => Node::Select(left, right, other),
            1 => Node::Wrap { bits: [8, 32][random(2)], is_signed: random(2) == 0, of: left },
            2 => Node::Bounded { of: left, low: 0, high: 1 << 40 },
            _ => Node::Binary(OPERATORS[random(OPERATORS.len())], left, right),
        });
    }
    nodes
}

const SAMPLES: [[u32; 2]; 6] = [[0, 0], [1, 5], [8, 3], [40, 32], [7, u32::MAX], [1 << 31, 9]];

/// Terms that are proved to be the same have the same values, also if one constant or operation is another.
#[test]
fn what_is_proved_to_be_the_same_has_the_same_values() {
    let mut random = generator();
    let (mut proved, mut refused) = (0, 0);
    for round in 0..20_000 {
        let nodes = random_nodes(&mut random);
        let mut program = Terms::default();
        let mut terms: Vec<Term> = Vec::new();
        for node in &nodes {
            terms.push(program.node(node.map(|it| terms[it.index()])));
        }
        let inputs = [program.input(0), program.input(1)];
        let last = Term(nodes.len() as u32 - 1);
        let mut other = nodes.clone();
        if round % 2 == 0 {
            let at = random(other.len());
            other[at] = match other[at] {
                Node::Constant(value) => Node::Constant(value + 1),
                Node::Binary(_, left, right) => Node::Binary(OPERATORS[random(OPERATORS.len())], left, right),
                node => node,
            };
        }
        let other = Formula { nodes: other, results: vec![last] };
        if !same(&program, &inputs, &[terms[last.index()]], &other) {
            refused += 1;
            continue;
        }
        let own = Formula { nodes, results: vec![last] };
        for sample in SAMPLES {
            let input = |index: u32| sample.get(index as usize).copied();
            if let (Ok(own), Ok(value)) = (own.evaluate(input), other.evaluate(input)) {
                proved += 1;
                assert_eq!(own[0] as u32, value[0] as u32, "{own:?} {other} for {sample:?}");
            }
        }
    }
    assert!(proved > 5000 && refused > 1000, "{proved} {refused}");
}

/// Each rule keeps the value: terms of random operations, simplified and evaluated.
#[test]
fn simplification_keeps_values() {
    let mut random = generator();
    let mut compared = 0;
    for _ in 0..20_000 {
        let nodes = random_nodes(&mut random);
        let result = Term(nodes.len() as u32 - 1);
        let plain = Formula { nodes, results: vec![result] };
        let mut simplifier = simplify::Simplifier::default();
        let mut terms: Vec<Term> = Vec::new();
        for node in &plain.nodes {
            let term = simplifier.node(node.map(|it| terms[it.index()]));
            if let Node::Bounded { low, high, .. } = node {
                simplifier.bound(term, *low, *high);
            }
            terms.push(term);
        }
        let simple = simplifier.formula(terms[result.index()]);
        for inputs in SAMPLES {
            let input = |index: u32| inputs.get(index as usize).copied();
            // What is selected away or out of bounds may have other faults.
            let all = Formula { nodes: plain.nodes.clone(), results: (0..=result.0).map(Term).collect() };
            if let (Ok(values), Ok(simple)) = (all.evaluate(input), simple.evaluate(input)) {
                compared += 1;
                assert_eq!(values.last(), simple.last(), "{plain} is not {simple:?} for {inputs:?}");
            }
        }
    }
    assert!(compared > 5000, "{compared}");
}
