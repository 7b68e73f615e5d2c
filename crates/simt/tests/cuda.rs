//! Kernels that NVRTC compiled (`tests/cuda`), compared with Rust's arithmetic.

#![forbid(unsafe_code)]
#![allow(clippy::precedence, clippy::manual_is_multiple_of, reason = "formulas as the PTX ISA has them")]

mod common;

use common::{Run, f32s, of_f32s};
use half::f16;
use rehal_simt::Checks;

const MATH: &str = include_str!("cuda/math.ptx");
const THREADS: &str = include_str!("cuda/threads.ptx");

fn kernel(text: &str, name: &str) -> usize {
    let module = rehal_simt::Module::parse_ptx(text.as_bytes(), &rehal_simt::Limits::default()).unwrap();
    module.functions().iter().position(|it| it.name.contains(name)).unwrap()
}

fn i32s(bytes: &[u8]) -> Vec<i32> {
    bytes.chunks_exact(4).map(|it| i32::from_le_bytes(it.try_into().unwrap())).collect()
}

fn of_i32s(values: &[i32]) -> Vec<u8> {
    values.iter().flat_map(|it| it.to_le_bytes()).collect()
}

fn f64s(bytes: &[u8]) -> Vec<f64> {
    bytes.chunks_exact(8).map(|it| f64::from_le_bytes(it.try_into().unwrap())).collect()
}

#[test]
fn single_precision_library() {
    let mut random = fastrand::Rng::with_seed(1);
    let count = 70;
    let mut values = || (0..count).map(|_| random.f32() * 6.0 - 3.0).collect::<Vec<_>>();
    let (a, b) = (values(), values());
    let run = Run {
        kernel: kernel(MATH, "fmath"),
        grid: [3, 1, 1],
        buffers: vec![of_f32s(&a), of_f32s(&b), vec![0; count * 40 * 4]],
        constants: vec![count as u32],
        checks: Checks::all(),
        ..Run::default()
    };
    let done = run.on(MATH).unwrap();
    assert_eq!(done.report.findings, []);
    for (index, found) in f32s(&done.buffers[2]).chunks(40).enumerate() {
        let (x, y) = (f64::from(a[index]), f64::from(b[index]));
        let m = x.abs();
        let expected = [
            x.exp(),
            m.ln(),
            x.sin(),
            x.cos(),
            x.tan(),
            x.tanh(),
            m.powf(y),
            x.asinh(),
            x % y,
            x - (x / y).round_ties_even() * y,
            x.round_ties_even(),
            x.floor(),
            x.ceil(),
            x.trunc(),
            x.round(),
            m.sqrt(),
            m.sqrt().recip(),
            x.cbrt(),
            x / y,
            x.max(y),
            x.min(y),
            x.copysign(y),
            x.atan(),
            x.atan2(y),
            x.sinh(),
            x.exp_m1(),
            m.ln_1p(),
            (x * 0.1).acos(),
            x.hypot(y),
            x.exp(),
            x.sin(),
            x / y,
            x.exp2(),
            m.log2(),
            x * 8.0,
            (x - y).max(0.0),
            x.trunc(),
            x + y,
            x * y + x,
            x.clamp(0.0, 1.0),
        ];
        for (function, (found, expected)) in found.iter().zip(expected).enumerate() {
            let error = (f64::from(*found) - expected).abs();
            assert!(
                error <= 3e-6 * expected.abs().max(0.3),
                "{function} of {x}, {y}: {found}, expected {expected}"
            );
        }
    }
}

#[test]
fn double_precision_library() {
    let mut random = fastrand::Rng::with_seed(2);
    let count = 40;
    let mut values = || (0..count).map(|_| random.f64() * 6.0 - 3.0).collect::<Vec<_>>();
    let (a, b) = (values(), values());
    let bytes = |all: &[f64]| all.iter().flat_map(|it| it.to_le_bytes()).collect::<Vec<u8>>();
    let run = Run {
        kernel: kernel(MATH, "dmath"),
        grid: [2, 1, 1],
        buffers: vec![bytes(&a), bytes(&b), vec![0; count * 20 * 8]],
        constants: vec![count as u32],
        ..Run::default()
    };
    let done = run.on(MATH).unwrap();
    assert_eq!(done.report.findings, []);
    for (index, found) in f64s(&done.buffers[2]).chunks(20).enumerate() {
        let (x, y) = (a[index], b[index]);
        let m = x.abs();
        let expected = [
            x.exp(),
            m.ln(),
            x.sin(),
            x.cos(),
            x.tanh(),
            m.powf(y),
            x.atan(),
            x % y,
            x.round_ties_even(),
            m.sqrt(),
            m.sqrt().recip(),
            x.cbrt(),
            x / y,
            x.max(y),
            (x * 1e6).trunc(),
            x + y,
            x * y,
            x / y,
            x.mul_add(y, x),
            m.sqrt(),
        ];
        for (function, (found, expected)) in found.iter().zip(expected).enumerate() {
            let error = (found - expected).abs();
            assert!(
                error <= 1e-14 * expected.abs().max(0.3),
                "{function} of {x}, {y}: {found}, expected {expected}"
            );
        }
    }
}

#[test]
fn integer_library() {
    let mut random = fastrand::Rng::with_seed(3);
    let count = 100;
    let mut values = || (0..count).map(|_| random.i32(..) >> random.u32(0..31)).collect::<Vec<_>>();
    let (a, b) = (values(), values());
    let run = Run {
        kernel: kernel(MATH, "imath"),
        grid: [4, 1, 1],
        buffers: vec![of_i32s(&a), of_i32s(&b), vec![0; count * 32 * 8]],
        constants: vec![count as u32],
        ..Run::default()
    };
    let done = run.on(MATH).unwrap();
    let found: Vec<_> =
        done.buffers[2].chunks_exact(8).map(|it| i64::from_le_bytes(it.try_into().unwrap())).collect();
    for (index, found) in found.chunks(32).enumerate() {
        let (x, y) = (a[index], if b[index] == 0 { 1 } else { b[index] });
        let (ux, uy) = (x as u32, y as u32);
        let lx = i64::from(x).wrapping_mul(i64::from(y)).wrapping_add(7);
        let (ly, ul) = (i64::from(y), lx as u64);
        let bytes = [x.to_le_bytes(), y.to_le_bytes()].concat();
        let both = u64::from(uy) << 32 | u64::from(ux);
        let dp4a = (0..4).fold(3, |all: i32, it| {
            all + i32::from(x.to_le_bytes()[it] as i8) * i32::from(y.to_le_bytes()[it] as i8)
        });
        let expected = [
            x.wrapping_div(y).into(),
            x.wrapping_rem(y).into(),
            (ux / uy).into(),
            (ux % uy).into(),
            lx / ly,
            lx % ly,
            (ul / u64::from(uy)) as i64,
            (ul % u64::from(uy)) as i64,
            x.count_ones().into(),
            x.leading_zeros().into(),
            if x == 0 { 0 } else { i64::from(x.trailing_zeros()) + 1 },
            ux.reverse_bits().into(),
            lx.count_ones().into(),
            lx.leading_zeros().into(),
            i64::from(x) * i64::from(y) >> 32,
            (u64::from(ux) * u64::from(uy) >> 32) as i64,
            (i128::from(lx) * i128::from(ly) >> 64) as i64,
            u32::from_le_bytes([bytes[5], bytes[1], bytes[7], bytes[3]]).into(),
            // A shift of 40 is clamped to 32.
            ((both << 5) >> 32) as i64,
            uy.into(),
            dp4a.into(),
            x.min(y).into(),
            ux.max(uy).into(),
            x.wrapping_abs().into(),
            i64::from(x as i16) / i64::from((y | 1) as i16),
            (x as i8).into(),
            (x as u8).into(),
            i64::from(i32::from(x as u16).wrapping_mul(y as u16 as i32)),
            (x.abs_diff(y).wrapping_add(5)).into(),
            (i64::from(x) + i64::from(y)) >> 1,
            (x >> (y & 31)).into(),
            lx << (y & 63),
        ];
        for (function, (found, expected)) in found.iter().zip(expected).enumerate() {
            // Some are unsigned results of 32 bits, some signed.
            let is_same =
                *found == expected || (function == 19 || function == 14) && *found as u32 == expected as u32;
            assert!(is_same, "{function} of {x}, {y}: {found}, expected {expected}");
        }
    }
}

#[test]
fn lanes_exchange_and_vote() {
    let mut random = fastrand::Rng::with_seed(4);
    let a: Vec<i32> = (0..64).map(|_| random.i32(0..120)).collect();
    let run = Run {
        kernel: kernel(THREADS, "warps"),
        block: [64, 1, 1],
        buffers: vec![of_i32s(&a), vec![0; 64 * 16 * 4]],
        checks: Checks::all(),
        ..Run::default()
    };
    let done = run.on(THREADS).unwrap();
    assert_eq!(done.report.findings, []);
    for (thread, found) in i32s(&done.buffers[1]).chunks(16).enumerate() {
        let (lane, warp) = (thread % 32, &a[thread / 32 * 32..][..32]);
        let x = a[thread];
        let ballot = |f: &dyn Fn(i32) -> bool| {
            warp.iter().enumerate().fold(0, |all, (lane, x)| all | i32::from(f(*x)) << lane)
        };
        let expected = [
            warp[lane ^ 5],
            warp[if lane >= 3 { lane - 3 } else { lane }],
            warp[if lane % 16 + 7 < 16 { lane + 7 } else { lane }],
            warp[x as usize & 31],
            ballot(&|x| x & 1 != 0),
            warp.iter().any(|x| *x > 100).into(),
            1,
            ballot(&|it| it & 3 == x & 3),
            -1,
            1,
            warp.iter().sum(),
            *warp.iter().max().unwrap(),
            if thread % 2 == 1 { 0xaaaa_aaaa_u32 as i32 } else { 16 },
            a.iter().filter(|x| *x & 1 != 0).count() as i32,
            1,
            a.iter().any(|x| *x > 100).into(),
        ];
        assert_eq!(found, expected, "thread {thread}");
    }
}

#[test]
fn functions_are_called_with_structs_and_local_arrays() {
    let a: Vec<i32> = (0..96).map(|it| it * 7 % 29 - 9).collect();
    let run = Run {
        kernel: kernel(THREADS, "calls"),
        grid: [3, 1, 1],
        buffers: vec![of_i32s(&a), vec![0; 96 * 4]],
        // struct S { int a; double b; char c; }
        constants: vec![5, 0, 0, 1.5_f64.to_bits().wrapping_shr(32) as u32, 9, 0],
        checks: Checks { races: true, ..Checks::all() },
        ..Run::default()
    };
    let done = run.on(THREADS).unwrap();
    let races = done.report.findings.iter().filter(|it| it.kind == rehal_simt::FindingKind::Race);
    assert_eq!(races.count(), 0);
    let helper = |x: i32, y: i32| {
        let of = |i: i32| x * i + y;
        of(y & 15) + of((x + 3) & 15)
    };
    for (thread, found) in i32s(&done.buffers[1]).iter().enumerate() {
        let (x, t) = (a[thread], thread as i32);
        let more = if x & 1 != 0 { helper(t, x) } else { 0 };
        assert_eq!(*found, helper(x, t) + more + 5 + x + 3 + 10, "thread {thread}");
    }
}

#[test]
fn variables_have_initial_values_and_keep_their_own() {
    let module = rehal_simt::Module::parse_ptx(THREADS.as_bytes(), &rehal_simt::Limits::default()).unwrap();
    let image = rehal_simt::Image::load(std::sync::Arc::new(module)).unwrap();
    let run = Run { kernel: kernel(THREADS, "globals"), buffers: vec![vec![0; 128]], ..Run::default() };
    let table = [1.0, 2.0, 3.0, 5.0, 8.0, 13.0, 21.0, 34.0_f32];
    for launch in 0..2 {
        let done = run.on_image(&image).unwrap();
        for (thread, found) in f32s(&done.buffers[0]).iter().enumerate() {
            let first = if thread % 8 == 0 { 32.0 * launch as f32 } else { 0.0 };
            let expected = table[thread & 7] + first + (thread & 3) as f32 + 0.5 + table[3 + (thread & 3)];
            assert_eq!(*found, expected, "launch {launch}, thread {thread}");
        }
    }
}

#[test]
fn atomic_operations_of_several_threads_add_up() {
    let run = Run {
        kernel: kernel(THREADS, "atomics"),
        grid: [40, 1, 1],
        block: [48, 1, 1],
        buffers: vec![
            of_i32s(&[[0; 20].as_slice()].concat()),
            of_i32s(&[-1, 0, 0, 0, 0]),
            vec![0; 8],
            vec![0; 8],
            vec![0; 24],
        ],
        threads: 3,
        ..Run::default()
    };
    let done = run.on(THREADS).unwrap();
    let (threads, i) = (40 * 48, i32s(&done.buffers[0]));
    assert_eq!(i[..4], [threads * (threads - 1) / 2, 1 - threads, threads - 1, 2 * threads]);
    assert_eq!(i[4..], [threads / 16; 16]);
    let u = i32s(&done.buffers[1]);
    assert_eq!(u[..4], [0, -1, (0..threads).fold(0, |all, it| all ^ it), threads % 10]);
    assert_eq!(f32s(&done.buffers[2]), [threads as f32 / 2.0, threads as f32]);
    assert_eq!(f64s(&done.buffers[3]), [f64::from(threads) / 4.0]);
    let l: Vec<_> = done.buffers[4].chunks(8).map(|it| u64::from_le_bytes(it.try_into().unwrap())).collect();
    let threads = threads as u64;
    assert_eq!(l, [threads * (threads - 1) / 2, (threads - 1) << 33, threads << 32 | threads]);
}

#[test]
fn a_switch_reduces_and_transposes() {
    let a: Vec<i32> = (0..32).map(|it| it % 10).collect();
    let run =
        Run { kernel: kernel(THREADS, "sw"), buffers: vec![of_i32s(&a), vec![0; 128]], ..Run::default() };
    for (thread, found) in i32s(&run.on(THREADS).unwrap().buffers[1]).iter().enumerate() {
        let t = thread as i32;
        let expected =
            [5, t * 3, t * t, 7 - t, t ^ 99, t << 2, -t, t * (t - 1) / 2, -1, -1][a[thread] as usize];
        assert_eq!(*found, expected, "thread {thread}");
    }
    let values: Vec<f32> = (0..1000).map(|it| it as f32).collect();
    let run = Run {
        kernel: kernel(THREADS, "red"),
        block: [256, 1, 1],
        buffers: vec![of_f32s(&values), vec![0; 4]],
        constants: vec![1000],
        checks: Checks::all(),
        ..Run::default()
    };
    let done = run.on(THREADS).unwrap();
    assert_eq!((f32s(&done.buffers[1]), done.report.findings), (vec![499_500.0], Vec::new()));
    let values: Vec<f32> = (0..64 * 64).map(|it| it as f32).collect();
    let run = Run {
        kernel: kernel(THREADS, "transpose"),
        grid: [2, 2, 1],
        block: [32, 8, 1],
        buffers: vec![of_f32s(&values), vec![0; 64 * 64 * 4]],
        checks: Checks::all(),
        ..Run::default()
    };
    let done = run.on(THREADS).unwrap();
    let expected: Vec<_> = (0..64 * 64).map(|it| values[it % 64 * 64 + it / 64]).collect();
    assert_eq!((f32s(&done.buffers[1]), done.report.findings), (expected, Vec::new()));
    let run = Run {
        kernel: kernel(THREADS, "dyn"),
        block: [50, 1, 1],
        dynamic_shared_bytes: 100,
        buffers: vec![(0..50).collect(), vec![0; 100]],
        constants: vec![50],
        checks: Checks::all(),
        ..Run::default()
    };
    let done = run.on(THREADS).unwrap();
    let expected: Vec<u8> = (0..50).rev().flat_map(|it: u16| it.to_le_bytes()).collect();
    assert_eq!((&done.buffers[1], done.report.findings), (&expected, Vec::new()));
}

#[test]
fn halves_are_multiplied_by_tensor_cores() {
    let mut random = fastrand::Rng::with_seed(5);
    let mut values = |count| (0..count).map(|_| f16::from_f32(random.f32() * 2.0 - 1.0)).collect::<Vec<_>>();
    let (a, b) = (values(16 * 16), values(16 * 8));
    // Lane 4 g + t has the elements of column g of B from rows 2 t and 2 t + 8.
    let fragments = (0..32).flat_map(|lane| {
        let (column, row) = (lane / 4, 2 * (lane % 4));
        [row, row + 1, row + 8, row + 9].map(|row| b[row * 8 + column])
    });
    let bytes = |it: &mut dyn Iterator<Item = f16>| it.flat_map(|it| it.to_le_bytes()).collect::<Vec<u8>>();
    let buffers = vec![bytes(&mut a.iter().copied()), bytes(&mut fragments.into_iter()), vec![0; 16 * 8 * 4]];
    let run = Run { buffers, checks: Checks::all(), ..Run::default() };
    let done = run.on(include_str!("cuda/matrix.ptx")).unwrap();
    assert_eq!(done.report.findings, []);
    for (index, found) in f32s(&done.buffers[2]).iter().enumerate() {
        let (lane, element) = (index / 4, index % 4);
        let (row, column) = (lane / 4 + element / 2 * 8, lane % 4 * 2 + element % 2);
        let expected: f64 = (0..16).map(|k| a[row * 16 + k].to_f64() * b[k * 8 + column].to_f64()).sum();
        assert!(
            (f64::from(*found) - expected).abs() < 1e-6,
            "row {row}, column {column}: {found}, not {expected}"
        );
    }
}
