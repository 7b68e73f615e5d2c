//! Right and wrong variants of kernels: of a captured one, each is judged by what rounding explains.

use super::*;

/// A kernel computes its results from all of its inputs. Those of f32 compute with f32.
type Kernel = dyn Fn(&[f64]) -> Vec<f64>;

/// The verdict on a candidate's results, compared with a captured kernel's: the element that differs first by
/// more than rounding explains, and how far the worst is.
fn judged(
    element_type: &str,
    inputs: &[f64],
    captured: &Kernel,
    candidate: &Kernel,
) -> (Option<usize>, Option<RoundingError>) {
    judged_by(element_type, inputs, captured, candidate, None)
}

/// The results of a kernel, as bytes.
fn run(element_type: ElementType, kernel: &Kernel, inputs: &[u8]) -> Vec<u8> {
    let floats = Floats::for_type(element_type).unwrap();
    let count = inputs.len() / Format::for_type(element_type).unwrap().bytes;
    let inputs: Vec<f64> = (0..count).map(|at| floats.at(inputs, at).unwrap()).collect();
    bytes_of(element_type, &kernel(&inputs))
}

fn bytes_of(element_type: ElementType, numbers: &[f64]) -> Vec<u8> {
    let (format, floats) = (Format::for_type(element_type).unwrap(), Floats::for_type(element_type).unwrap());
    let mut bytes = vec![0; numbers.len() * format.bytes];
    bytes.chunks_mut(format.bytes).zip(numbers).for_each(|(it, number)| floats.put(*number, it));
    bytes
}

/// The scales of a captured kernel's results, with these ranges of the inputs moved, in elements.
fn rounding_of(
    element_type: &str,
    inputs: &[f64],
    captured: &Kernel,
    moved: Option<&[std::ops::Range<usize>]>,
) -> Option<Rounding> {
    let element_type = element_type.parse().unwrap();
    let format = Format::for_type(element_type).unwrap();
    let inputs = bytes_of(element_type, inputs);
    let expected = run(element_type, captured, &inputs);
    let mut rounding = Rounding::new(element_type, expected.len()).unwrap();
    rounding.moves_pieces = moved.is_some();
    let whole = 0..inputs.len() / format.bytes;
    for pair in 0..Nudge::PAIRS {
        let nudged = |is_opposite| {
            let mut inputs = inputs.clone();
            let mut random = fastrand::Rng::with_seed(pair);
            for it in moved.unwrap_or(std::slice::from_ref(&whole)) {
                let bytes = &mut inputs[it.start * format.bytes..it.end * format.bytes];
                format.nudge(bytes, Nudge { pair, is_opposite }, &mut random);
            }
            // New memory, which no result looks like.
            NudgedRun { before: vec![0x3f; expected.len()], after: run(element_type, captured, &inputs) }
        };
        rounding.add(pair, &expected, &[nudged(false), nudged(true)]);
    }
    rounding.finish(&expected)
}

/// The verdict with these ranges of the inputs moved.
fn judged_by(
    element_type: &str,
    inputs: &[f64],
    captured: &Kernel,
    candidate: &Kernel,
    moved: Option<&[std::ops::Range<usize>]>,
) -> (Option<usize>, Option<RoundingError>) {
    let rounding = rounding_of(element_type, inputs, captured, moved);
    let element_type = element_type.parse().unwrap();
    let (format, floats) = (Format::for_type(element_type).unwrap(), Floats::for_type(element_type).unwrap());
    let inputs = bytes_of(element_type, inputs);
    let (expected, actual) = (run(element_type, captured, &inputs), run(element_type, candidate, &inputs));
    let Some(rounding) = rounding else {
        let differs =
            expected.chunks(format.bytes).zip(actual.chunks(format.bytes)).position(|(a, b)| a != b);
        return (differs, None);
    };
    let errors = (0..expected.len() / format.bytes).filter_map(|at| {
        let (expected, actual) = (floats.at(&expected, at)?, floats.at(&actual, at)?);
        Some(rounding.error(at as u64, expected, actual))
    });
    (rounding.unexplained(0, &expected, &actual), errors.reduce(RoundingError::larger))
}

/// Numbers from -1 to 1.
fn numbers(count: usize) -> Vec<f64> {
    let mut random = fastrand::Rng::with_seed(7);
    (0..count).map(|_| f64::from(2.0 * random.f32() - 1.0)).collect()
}

fn positive(count: usize) -> Vec<f64> {
    numbers(count).iter().map(|it| f64::from(it.abs() as f32)).collect()
}

/// Sums terms of f32.
type Sum = fn(&mut dyn Iterator<Item = (f32, f32)>) -> f32;

fn in_order(terms: &mut dyn Iterator<Item = (f32, f32)>) -> f32 {
    terms.fold(0.0, |sum, (a, b)| sum + a * b)
}

fn reversed(terms: &mut dyn Iterator<Item = (f32, f32)>) -> f32 {
    let terms: Vec<_> = terms.collect();
    in_order(&mut terms.into_iter().rev())
}

fn fused(terms: &mut dyn Iterator<Item = (f32, f32)>) -> f32 {
    terms.fold(0.0, |sum, (a, b)| a.mul_add(b, sum))
}

fn in_lanes(terms: &mut dyn Iterator<Item = (f32, f32)>) -> f32 {
    let mut lanes = [0.0; 16];
    terms.enumerate().for_each(|(at, (a, b))| lanes[at % 16] += a * b);
    lanes.iter().sum()
}

fn pairwise(terms: &mut dyn Iterator<Item = (f32, f32)>) -> f32 {
    fn sum(terms: &[f32]) -> f32 {
        match terms {
            [] => 0.0,
            [one] => *one,
            _ => sum(&terms[..terms.len() / 2]) + sum(&terms[terms.len() / 2..]),
        }
    }
    sum(&terms.map(|(a, b)| a * b).collect::<Vec<_>>())
}

fn in_blocks(terms: &mut dyn Iterator<Item = (f32, f32)>) -> f32 {
    let terms: Vec<_> = terms.collect();
    terms.chunks(64).map(|block| in_order(&mut block.iter().copied())).sum()
}

fn with_f64(terms: &mut dyn Iterator<Item = (f32, f32)>) -> f32 {
    terms.fold(0.0, |sum, (a, b)| sum + f64::from(a) * f64::from(b)) as f32
}

/// The accumulator keeps this many bits fewer.
fn without_bits<const LOST: u32>(terms: &mut dyn Iterator<Item = (f32, f32)>) -> f32 {
    terms.fold(0.0, |sum: f32, (a, b)| f32::from_bits((sum + a * b).to_bits() >> LOST << LOST))
}

fn without_last(terms: &mut dyn Iterator<Item = (f32, f32)>) -> f32 {
    let terms: Vec<_> = terms.collect();
    in_order(&mut terms[..terms.len() - 1].iter().copied())
}

const ORDERS: [Sum; 7] = [in_order, reversed, fused, in_lanes, pairwise, in_blocks, with_f64];

/// Of captured kernels: what rounds most, less, and least.
const CAPTURED: [Sum; 3] = [in_order, in_lanes, with_f64];

const ROWS: usize = 12;

/// Products of the rows of a matrix with those of another one, each of `depth` numbers.
fn product(depth: usize, sum: Sum) -> Box<Kernel> {
    Box::new(move |inputs| {
        let (a, b) = inputs.split_at(ROWS * depth);
        let row = |matrix: &[f64], at: usize| matrix[at * depth..(at + 1) * depth].to_vec();
        let of = |at: usize| {
            let (a, b) = (row(a, at / ROWS), row(b, at % ROWS));
            let mut terms = a.iter().zip(&b).map(|(a, b)| (*a as f32, *b as f32));
            f64::from(sum(&mut terms))
        };
        (0..ROWS * ROWS).map(of).collect()
    })
}

const SIDE: usize = 24;
const CHANNELS: usize = 8;

/// The mistake of a convolution.
#[derive(Clone, Copy, PartialEq)]
enum Convolution {
    Right,
    LostTap,
    EdgeOfOtherRow,
    StrideOffByOne,
    NoBiasOfOneRow,
    StaleRow,
    OldWeights,
    OnePixel,
    Leaky,
}

const WEIGHTS: usize = 9 * CHANNELS;

/// A padded convolution of 3x3 with a bias, and then the larger of 0. Its inputs are an image, weights and a
/// bias for each row.
fn convolution(how: Convolution, sum: Sum) -> Box<Kernel> {
    Box::new(move |inputs| {
        let (image, rest) = inputs.split_at(CHANNELS * SIDE * SIDE);
        let (weights, bias) = rest.split_at(WEIGHTS);
        let pixel = |channel: usize, y: isize, x: isize| {
            let y = if how == Convolution::EdgeOfOtherRow && y < 0 { 0 } else { y };
            let is_inside = |it: isize| (0..SIDE as isize).contains(&it);
            let stride = if how == Convolution::StrideOffByOne { SIDE + 1 } else { SIDE };
            let at = (channel * SIDE * SIDE) as isize + y * stride as isize + x;
            let is_inside = is_inside(y) && is_inside(x);
            if is_inside { image.get(at as usize).copied().unwrap_or(0.0) } else { 0.0 }
        };
        let of = |at: usize| {
            let row = at / SIDE;
            let (y, x) = (row as isize, (at % SIDE) as isize);
            let mut terms = (0..WEIGHTS).map(|tap| {
                let (channel, dy, dx) = (tap / 9, tap / 3 % 3, tap % 3);
                let weight = match how {
                    Convolution::LostTap if tap == 40 => 0.0,
                    Convolution::OldWeights if tap == 40 => weights[tap] * 1.001,
                    _ => weights[tap],
                };
                (pixel(channel, y + dy as isize - 1, x + dx as isize - 1) as f32, weight as f32)
            });
            let bias = if how == Convolution::NoBiasOfOneRow && row == 5 { 0.0 } else { bias[row] as f32 };
            let result = sum(&mut terms) + bias;
            let result = if how == Convolution::Leaky { result.max(result * 1e-4) } else { result.max(0.0) };
            f64::from(result)
        };
        let mut all: Vec<f64> = (0..SIDE * SIDE).map(of).collect();
        match how {
            Convolution::StaleRow => all.copy_within(3 * SIDE..4 * SIDE, 4 * SIDE),
            Convolution::OnePixel => {
                let largest = (0..all.len()).max_by(|a, b| all[*a].total_cmp(&all[*b])).unwrap();
                all[largest] *= 1.0005;
            }
            _ => {}
        }
        all
    })
}

fn convolution_inputs() -> Vec<f64> {
    numbers(CHANNELS * SIDE * SIDE + WEIGHTS + SIDE)
}

/// Rows of 256, each normalized.
fn normalization(epsilon: f32, sum: Sum) -> Box<Kernel> {
    Box::new(move |inputs| {
        let of = |row: &[f64]| {
            let count = row.len() as f32;
            let row: Vec<f32> = row.iter().map(|it| *it as f32).collect();
            let mean = sum(&mut row.iter().map(|it| (*it, 1.0))) / count;
            let variance = sum(&mut row.iter().map(|it| (it - mean, it - mean))) / count;
            let factor = 1.0 / (variance + epsilon).sqrt();
            row.iter().map(|it| f64::from((it - mean) * factor)).collect::<Vec<_>>()
        };
        inputs.chunks(256).flat_map(of).collect()
    })
}

fn softmax(exp: fn(f32) -> f32, sum: Sum) -> Box<Kernel> {
    Box::new(move |inputs| {
        let of = |row: &[f64]| {
            let largest = row.iter().fold(f64::MIN, |a, b| a.max(*b)) as f32;
            let row: Vec<f32> = row.iter().map(|it| exp(8.0 * (*it as f32 - largest))).collect();
            let total = sum(&mut row.iter().map(|it| (*it, 1.0)));
            row.iter().map(|it| f64::from(it / total)).collect::<Vec<_>>()
        };
        inputs.chunks(256).flat_map(of).collect()
    })
}

/// `exp` by a polynomial, right to two units in the last place, and one of 12 bits.
fn other_exp(x: f32) -> f32 {
    let n = (x * std::f32::consts::LOG2_E).round();
    let r = x - n * 0.693_359_4 + n * 2.121_944_4e-4;
    let terms = [1.987_569_1e-4, 1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5];
    let polynomial = terms.iter().fold(0.0, |sum, term| sum * r + term);
    (polynomial * r * r + r + 1.0) * n.exp2()
}

fn exp_of_12_bits(x: f32) -> f32 {
    f32::from_bits(x.exp().to_bits() >> 11 << 11)
}

fn map_with(of: impl Fn(usize, f32) -> f32 + 'static) -> Box<Kernel> {
    Box::new(move |inputs| inputs.iter().enumerate().map(|(at, it)| f64::from(of(at, *it as f32))).collect())
}

/// One result for each row.
fn map_rows(depth: usize, of: impl Fn(&[f64]) -> f64 + 'static) -> Box<Kernel> {
    Box::new(move |inputs| inputs.chunks(depth).map(&of).collect())
}

fn map(of: impl Fn(f32) -> f32 + 'static) -> Box<Kernel> {
    Box::new(move |inputs| inputs.iter().map(|it| f64::from(of(*it as f32))).collect())
}

#[track_caller]
fn is_right(element_type: &str, inputs: &[f64], captured: &Kernel, candidate: &Kernel) -> RoundingError {
    let (wrong, error) = judged(element_type, inputs, captured, candidate);
    assert_eq!(wrong, None, "{error:?}");
    error.unwrap()
}

#[track_caller]
fn is_wrong(element_type: &str, inputs: &[f64], captured: &Kernel, candidate: &Kernel) {
    let (wrong, error) = judged(element_type, inputs, captured, candidate);
    assert!(wrong.is_some(), "{error:?}");
}

#[test]
fn sums_in_any_order_are_right() {
    for depth in [8, 72, 1024] {
        for inputs in [numbers(2 * ROWS * depth), positive(2 * ROWS * depth)] {
            for captured in CAPTURED {
                let captured = product(depth, captured);
                for candidate in ORDERS {
                    let error = is_right("f32", &inputs, &captured, &product(depth, candidate));
                    assert!(!error.is_ill_conditioned && error.multiple.is_some(), "{error:?}");
                }
            }
        }
    }
}

/// One matrix is moved, and an eighth of the other.
#[test]
fn pieces_of_a_long_factor_are_enough() {
    for depth in [72, 1024] {
        let (count, piece) = (ROWS * depth, depth / 8);
        let pieces = (0..ROWS).map(|row| count + row * depth + row..count + row * depth + row + piece);
        let moved: Vec<_> = std::iter::once(0..count).chain(pieces).collect();
        for inputs in [numbers(2 * count), positive(2 * count)] {
            for captured in CAPTURED.map(|it| product(depth, it)) {
                let judged = |sum| judged_by("f32", &inputs, &captured, &product(depth, sum), Some(&moved));
                for candidate in ORDERS {
                    let (wrong, error) = judged(candidate);
                    assert_eq!(wrong, None, "{error:?}");
                }
                for wrong in [without_bits::<13>, without_bits::<8>, without_last] {
                    assert!(judged(wrong).0.is_some());
                }
            }
        }
    }
}

/// Results of which pieces move nothing: those of a sum of a long input.
#[test]
fn what_pieces_do_not_explain_needs_all_inputs() {
    let (element_type, depth) = ("f32", 1024);
    let sums =
        |sum: Sum| map_rows(depth, move |row| f64::from(sum(&mut row.iter().map(|it| (*it as f32, 1.0)))));
    let inputs = numbers(64 * depth);
    let bytes = bytes_of(element_type.parse().unwrap(), &inputs);
    let results = |sum| run(element_type.parse().unwrap(), &sums(sum), &bytes);
    let (expected, actual, wrong) = (results(in_order), results(reversed), results(without_last));
    let measured = |moved| rounding_of(element_type, &inputs, &sums(in_order), moved).unwrap();
    let one_row = 17 * depth..18 * depth;
    let by_pieces = measured(Some(std::slice::from_ref(&one_row)));
    let is_enough = |it: &Rounding, part: std::ops::Range<usize>, actual: &[u8]| {
        it.is_enough(part.start as u64, &expected[part.clone()], &actual[part])
    };
    // Parts of the results: from an element on, and the one that pieces explain.
    let (part, explained) = (4 * 16..4 * 64, 4 * 17..4 * 18);
    assert!(!is_enough(&by_pieces, part.clone(), &actual));
    assert!(is_enough(&by_pieces, part.clone(), &expected), "nothing differs");
    assert!(is_enough(&by_pieces, explained, &actual));
    let by_all = measured(None);
    assert_eq!(by_all.unexplained(0, &expected, &actual), None);
    // There is no more to move.
    assert!(by_all.unexplained(0, &expected, &wrong).is_some());
    assert!(is_enough(&by_all, part, &wrong));
}

/// All of them are within the input, apart, and begin at an element.
#[test]
fn pieces_are_spread_over_an_input() {
    let format = Format::for_type("f32".parse().unwrap()).unwrap();
    for length in [LONG_BYTES + 4, (64 << 20) + 12] {
        let input = Range { offset: 20, length };
        let pieces = pieces(input, format, &mut fastrand::Rng::with_seed(3));
        assert_eq!(pieces.len(), PIECE_COUNT as usize);
        assert!(pieces.is_sorted_by(|one, next| one.end() <= next.offset + 4));
        for (piece, at) in pieces.iter().zip(0..) {
            assert!(input.covers(*piece) && piece.length == PIECE_BYTES && piece.offset % 4 == 0);
            assert!(piece.offset - 20 + 4 >= at * (length / PIECE_COUNT));
        }
    }
}

#[test]
fn other_variants_of_kernels_are_right() {
    let rows = numbers(4 * 256);
    for (captured, candidate) in CAPTURED.iter().flat_map(|it| ORDERS.map(|other| (*it, other))) {
        let of = |sum| convolution(Convolution::Right, sum);
        is_right("f32", &convolution_inputs(), &of(captured), &of(candidate));
        is_right("f32", &rows, &normalization(1e-5, captured), &normalization(1e-5, candidate));
        is_right("f32", &rows, &softmax(f32::exp, captured), &softmax(other_exp, candidate));
    }
    // Next to 0, inputs hardly matter.
    let small: Vec<f64> = rows.iter().map(|it| f64::from((it * 1e-3) as f32)).collect();
    for inputs in [&rows, &small] {
        is_right("f32", inputs, &map(f32::exp), &map(other_exp));
        is_right("f32", inputs, &map(|x| x * 3.0 + 1.0), &map(|x| x.mul_add(3.0, 1.0)));
        is_right("f32", inputs, &map(|x| 1.0 / (1.0 + (-x).exp())), &map(|x| 0.5 + 0.5 * (0.5 * x).tanh()));
    }
}

#[test]
fn wrong_sums_are_wrong() {
    for depth in [8, 72, 1024] {
        for inputs in [numbers(2 * ROWS * depth), positive(2 * ROWS * depth)] {
            for captured in CAPTURED.map(|it| product(depth, it)) {
                // f16, bf16 and TensorFloat-32 have 13 and 16 bits fewer.
                for wrong in [without_bits::<13>, without_bits::<16>, without_bits::<8>, without_last] {
                    is_wrong("f32", &inputs, &captured, &product(depth, wrong));
                }
            }
        }
    }
}

#[test]
fn wrong_convolutions_are_wrong() {
    use Convolution::*;
    let inputs = convolution_inputs();
    for captured in CAPTURED.map(|it| convolution(Right, it)) {
        for wrong in
            [LostTap, EdgeOfOtherRow, StrideOffByOne, NoBiasOfOneRow, StaleRow, OldWeights, OnePixel, Leaky]
        {
            for sum in [in_order, in_lanes] {
                is_wrong("f32", &inputs, &captured, &convolution(wrong, sum));
            }
        }
    }
}

#[test]
fn other_wrong_kernels_are_wrong() {
    let rows = numbers(4 * 256);
    for sum in CAPTURED {
        is_wrong("f32", &rows, &normalization(1e-5, sum), &normalization(1e-6, in_order));
        is_wrong("f32", &rows, &softmax(f32::exp, sum), &softmax(exp_of_12_bits, in_order));
        is_wrong("f32", &rows, &softmax(f32::exp, sum), &softmax(f32::exp, without_last));
    }
    let difference = |inputs: &[f64], is_swapped: bool| -> Vec<f64> {
        let (a, b) = inputs.split_at(inputs.len() / 2);
        let of = |(a, b): (&f64, &f64)| if is_swapped { b - a } else { a - b };
        a.iter().zip(b).map(of).collect()
    };
    is_wrong("f32", &rows, &move |it| difference(it, false), &move |it| difference(it, true));
    is_wrong("f32", &rows, &map(|x| x), &map(|x| f32::from_bits(x.to_bits() >> 13 << 13)));
    for wrong in [f32::NAN, f32::INFINITY, 0.0] {
        let one = move |inputs: &[f64]| {
            let mut all = inputs.to_vec();
            all[100] = wrong.into();
            all
        };
        is_wrong("f32", &rows, &|it| it.to_vec(), &one);
        // The other way, too.
        is_wrong("f32", &rows, &one, &|it| it.to_vec());
        assert_eq!(judged("f32", &rows, &one, &one).0, None);
    }
}

/// A kernel that flushes subnormal numbers is wrong if the captured one does not.
#[test]
fn flushed_subnormal_numbers_are_wrong() {
    let flush = |x: f32| if x.is_subnormal() { 0.0 } else { x };
    let rows = numbers(256);
    is_wrong("f32", &rows, &map(|x| x * 1e-20 * 1e-20), &map(move |x| flush(x * 1e-20 * 1e-20)));
    // Of some that are not.
    let mixed = |x: f32| if x.abs() < 0.1 { x * 1e-20 * 1e-20 } else { x };
    is_wrong("f32", &rows, &map(mixed), &map(move |x| flush(mixed(x))));
}

#[test]
fn what_no_input_moves_is_exact() {
    // Integers, constants, and results whose inputs are all zero.
    let to_integer = |x: f32| f32::from_bits((100.0 * x.abs()) as u32);
    let more = |x: f32| f32::from_bits((100.0 * x.abs()) as u32 + 1);
    is_wrong("f32", &numbers(256), &map(to_integer), &map(more));
    is_wrong("f32", &numbers(256), &map(|_| 1.0), &map(|_| 1.0 + f32::EPSILON));
    is_wrong("f32", &[0.0; 256], &map(|x| x + 1.0), &map(|x| x + 1.0 + f32::EPSILON));
    // Where others move by one unit in the last place, within 32 of them.
    let constant = |ulps: f32| map_with(move |at, x| if at < 8 { 1.0 + ulps * f32::EPSILON } else { x });
    assert_eq!(judged("f32", &numbers(256), &constant(0.0), &constant(32.0)).0, None);
    assert_eq!(judged("f32", &numbers(256), &constant(0.0), &constant(33.0)).0, Some(0));
}

/// Elements that no run writes are not results.
#[test]
fn what_is_not_written_is_exact() {
    let element_type = "f32".parse().unwrap();
    let bytes = |numbers: [f32; 2]| numbers.map(f32::to_le_bytes).concat();
    let mut rounding = Rounding::new(element_type, 8).unwrap();
    let run = |number| NudgedRun { before: bytes([5.0, 5.0]), after: bytes([number, 5.0]) };
    rounding.add(0, &bytes([1.0, 5.0]), &[run(1.0 + 64.0 * f32::EPSILON), run(1.0 - 64.0 * f32::EPSILON)]);
    let rounding = rounding.finish(&bytes([1.0, 5.0])).unwrap();
    assert!(rounding.error(0, 1.0, 1.0 + f64::from(f32::EPSILON)).multiple.is_some());
    assert_eq!(rounding.error(1, 5.0, 5.000_001).multiple, None);
}

#[test]
fn types_of_16_and_64_bits_have_scales_of_their_own() {
    let exact = |factor: f64| {
        move |inputs: &[f64]| -> Vec<f64> {
            let (a, b) = inputs.split_at(inputs.len() / 2);
            let of = |(a, b): (&[f64], &[f64])| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>() * factor;
            a.chunks(64).zip(b.chunks(64)).map(of).collect()
        }
    };
    let inputs = numbers(2 * 64 * 64);
    for (element_type, right, wrong) in
        [("f16", 1.0 + 2e-4, 1.05), ("bf16", 1.0 + 2e-3, 1.2), ("f64", 1.0 + 2e-16, 1.0 + 5e-13)]
    {
        is_right(element_type, &inputs, &exact(1.0), &exact(right));
        is_wrong(element_type, &inputs, &exact(1.0), &exact(wrong));
    }
    // With a term of 64 left out, and with sums of f16.
    let lost = move |inputs: &[f64]| -> Vec<f64> {
        let mut inputs = inputs.to_vec();
        inputs.chunks_mut(64).for_each(|it| it[17] = 0.0);
        exact(1.0)(&inputs)
    };
    for element_type in ["f16", "bf16", "f64"] {
        is_wrong(element_type, &inputs, &exact(1.0), &lost);
    }
}

#[test]
fn ill_conditioned_kernels_are_named() {
    let rows: Vec<f64> = positive(1024).iter().map(|it| it / 2.0 + 0.5).collect();
    let cancels = |lanes: usize| {
        move |inputs: &[f64]| -> Vec<f64> {
            let of = |it: &f64| {
                let x = *it as f32;
                if lanes == 1 { (x + 1000.0) - 1000.0 } else { x + (1000.0 - 1000.0) }
            };
            inputs.iter().map(of).map(f64::from).collect()
        }
    };
    let error = is_right("f32", &rows, &cancels(1), &cancels(2));
    assert!(error.is_ill_conditioned && error.relative_scale > 1e-5, "{error:?}");
    let error = is_right("f32", &rows, &cancels(2), &cancels(2));
    assert!(!error.is_ill_conditioned && error.relative_scale < 1e-6, "{error:?}");
}

/// Results that jump say nothing about rounding: a wrong one is not explained by the jump.
#[test]
fn a_jump_is_not_rounding() {
    let integers: Vec<f64> = (0..512).map(|it| f64::from(it % 37)).collect();
    let floor = |plus: f64| move |all: &[f64]| all.iter().map(|it| it.floor() + plus).collect::<Vec<_>>();
    assert_eq!(judged("f32", &integers, &floor(0.0), &floor(0.0)).0, None);
    for wrong in [1.0, 0.05] {
        assert_eq!(judged("f32", &integers, &floor(0.0), &floor(wrong)).0, Some(0), "{wrong}");
    }
    let chosen = |one: f64| {
        move |all: &[f64]| all.iter().map(|it| if *it == 5.0 { one } else { 3.0 }).collect::<Vec<_>>()
    };
    assert_eq!(judged("f32", &integers, &chosen(9.0), &chosen(9.1)).0, Some(5));
}

/// Numbers of 16 bits are the halves of indices, too: moved, they would be others.
#[test]
fn indices_do_not_pass_for_numbers_of_16_bits() {
    let [half, single] = ["f16", "f32"].map(|it| Format::for_type(it.parse().unwrap()).unwrap());
    let bytes = |words: &[i32]| words.iter().flat_map(|it| it.to_le_bytes()).collect::<Vec<_>>();
    assert!(are_indices(half, &bytes(&[1024, 8192, 0, -7])));
    assert!(!are_indices(single, &bytes(&[1024, 8192])) && !are_indices(half, &[]));
    assert!(!are_indices(half, &bytes(&[1024, 0x3c00_4200])));
}
