//! Float instructions on special and random values, compared with arithmetic in `f64`, and with properties of
//! the rounding modes.

#![forbid(unsafe_code)]
#![allow(clippy::precedence, clippy::manual_is_multiple_of, reason = "formulas as the PTX ISA has them")]

mod common;

use common::apply::{apply, check1, check2, check3, pairs};
use half::{bf16, f16};

const NAN: u32 = 0x7fff_ffff;

/// Special values: zeros, subnormals, limits, infinities, NaN.
const SPECIAL: [u32; 18] = [
    0,
    0x8000_0000,
    1,
    0x8000_0001,
    0x007f_ffff,
    0x0080_0000,
    0x3f80_0000,
    0xbf80_0000,
    0x3f80_0001,
    0x7f7f_ffff,
    0xff7f_ffff,
    0x7f80_0000,
    0xff80_0000,
    0x7fc0_0000,
    0xffc0_1234,
    0x4b80_0000,
    0x3300_0000,
    0xc2c8_0000,
];

fn singles(count: usize) -> Vec<u64> {
    let mut random = fastrand::Rng::with_seed(7);
    let mut all: Vec<u64> = SPECIAL.iter().map(|it| u64::from(*it)).collect();
    all.extend((0..count).map(|_| u64::from((random.f32() * 8.0 - 4.0).to_bits())));
    all.extend((0..count).map(|_| u64::from(random.u32(..))));
    all
}

fn doubles(count: usize) -> Vec<u64> {
    let mut random = fastrand::Rng::with_seed(8);
    let special =
        [0.0, -0.0, 1.0, -1.5, f64::MAX, f64::MIN_POSITIVE, 5e-324, f64::INFINITY, f64::NAN, 1e300, 0.1];
    let mut all: Vec<u64> = special.iter().map(|it: &f64| it.to_bits()).collect();
    all.extend((0..count).map(|_| (random.f64() * 8.0 - 4.0).to_bits()));
    all.extend((0..count).map(|_| random.u64(..)));
    all
}

fn single(bits: u64) -> f32 {
    f32::from_bits(bits as u32)
}

fn bits(value: f32) -> u64 {
    u64::from(if value.is_nan() { NAN } else { value.to_bits() })
}

fn bits_64(value: f64) -> u64 {
    if value.is_nan() { 0x7fff_ffff_ffff_ffff } else { value.to_bits() }
}

fn flushed(value: f32) -> f32 {
    if value.is_subnormal() { 0.0_f32.copysign(value) } else { value }
}

#[test]
fn arithmetic_to_nearest() {
    let all = singles(20);
    let check = |name: &str, f: fn(f32, f32) -> f32| {
        check2(&format!("{name}.f32 %d, %a, %b"), ["b32"; 3], &all, |a, b| bits(f(single(a), single(b))));
    };
    check("add", |a, b| a + b);
    check("sub.rn", |a, b| a - b);
    check("mul.rn", |a, b| a * b);
    check("div.rn", |a, b| a / b);
    check("add.ftz", |a, b| flushed(flushed(a) + flushed(b)));
    check("sub.rn.ftz", |a, b| flushed(flushed(a) - flushed(b)));
    check("mul.ftz", |a, b| flushed(flushed(a) * flushed(b)));
    check("div.rn.ftz", |a, b| flushed(flushed(a) / flushed(b)));
    check("add.sat", |a, b| if (a + b).is_nan() { 0.0 } else { (a + b).clamp(0.0, 1.0) + 0.0 });
    check("mul.rn.ftz.sat", |a, b| {
        let product = flushed(a) * flushed(b);
        if product.is_nan() { 0.0 } else { flushed(product.clamp(0.0, 1.0) + 0.0) }
    });
    check3("fma.rn.f32 %d, %a, %b, %c", ["b32"; 4], &all, |a, b, c| {
        bits(single(a).mul_add(single(b), single(c)))
    });
    check3("fma.rn.ftz.f32 %d, %a, %b, %c", ["b32"; 4], &all[..30], |a, b, c| {
        let [a, b, c] = [a, b, c].map(|it| flushed(single(it)));
        bits(flushed(a.mul_add(b, c)))
    });
    check1("sqrt.rn.f32 %d, %a", ["b32"; 2], &all, |a| bits(single(a).sqrt()));
    check1("rcp.rn.f32 %d, %a", ["b32"; 2], &all, |a| bits(1.0 / single(a)));
    check1("neg.f32 %d, %a", ["b32"; 2], &all, |a| a ^ 0x8000_0000);
    check1("abs.f32 %d, %a", ["b32"; 2], &all, |a| a & 0x7fff_ffff);
    check2("copysign.f32 %d, %a, %b", ["b32"; 3], &all, |a, b| (a & 0x8000_0000) | (b & 0x7fff_ffff));
    let long = doubles(20);
    let check = |name: &str, f: fn(f64, f64) -> f64| {
        check2(&format!("{name}.f64 %d, %a, %b"), ["b64"; 3], &long, |a, b| {
            bits_64(f(f64::from_bits(a), f64::from_bits(b)))
        });
    };
    check("add", |a, b| a + b);
    check("sub.rn", |a, b| a - b);
    check("mul.rn", |a, b| a * b);
    check("div.rn", |a, b| a / b);
    check3("fma.rn.f64 %d, %a, %b, %c", ["b64"; 4], &long[..24], |a, b, c| {
        bits_64(f64::from_bits(a).mul_add(f64::from_bits(b), f64::from_bits(c)))
    });
    check1("sqrt.rn.f64 %d, %a", ["b64"; 2], &long, |a| bits_64(f64::from_bits(a).sqrt()));
}

/// A result rounded down or up is the neighbour of the exact result on its side.
#[test]
fn directed_rounding_of_singles() {
    let mut random = fastrand::Rng::with_seed(9);
    // Exact in `f64`: few bits, near exponents.
    let mut value =
        || u64::from((random.i32(-0x3f_ffff..0x3f_ffff) as f32 / f32::from(random.u8(1..9))).to_bits());
    let values: Vec<u64> = (0..40).map(|_| value()).collect();
    let (a, b) = pairs(&values);
    type Exact = fn(f64, f64) -> f64;
    let operations: [(&str, Exact); 3] =
        [("add", |a, b| a + b), ("sub", |a, b| a - b), ("mul", |a, b| a * b)];
    for (name, f) in operations {
        for mode in ["rz", "rm", "rp"] {
            let found = apply(&format!("{name}.{mode}.f32 %d, %a, %b"), &["b32"; 3], &[&a, &b]);
            for (index, found) in found.iter().enumerate() {
                let exact = f(single(a[index]).into(), single(b[index]).into());
                assert_directed(single(*found), exact, mode, name);
            }
        }
    }
    for mode in ["rz", "rm", "rp"] {
        let found = apply(&format!("cvt.{mode}.f32.f64 %d, %a"), &["b32", "b64"], &[&doubles(200)]);
        for (found, a) in found.iter().zip(doubles(200)) {
            assert_directed(single(*found), f64::from_bits(a), mode, "cvt");
        }
        // Quotients and roots are checked by multiplying back, which is exact.
        let found = apply(&format!("div.{mode}.f32 %d, %a, %b"), &["b32"; 3], &[&a, &b]);
        for (index, found) in found.iter().enumerate() {
            let (a, b, q) = (f64::from(single(a[index])), f64::from(single(b[index])), single(*found));
            let exact = |it: f32| (f64::from(it) * b - a) * b.signum();
            assert!(is_directed(q, &exact, mode), "div.{mode} of {a} and {b}: {q}");
        }
        let magnitudes: Vec<_> = a.iter().map(|it| it & 0x7fff_ffff).collect();
        let found = apply(&format!("sqrt.{mode}.f32 %d, %a"), &["b32"; 2], &[&magnitudes]);
        for (found, a) in found.iter().zip(&magnitudes) {
            let a = f64::from(single(*a));
            let exact = |it: f32| f64::from(it) * f64::from(it) - a;
            assert!(is_directed(single(*found), &exact, mode), "sqrt.{mode} of {a}: {}", single(*found));
        }
    }
}

/// Whether a value is the directed rounding of the zero of an increasing function.
fn is_directed(found: f32, error: &dyn Fn(f32) -> f64, mode: &str) -> bool {
    let down = |it: f32| error(it) <= 0.0 && error(it.next_up()) > 0.0;
    let up = |it: f32| error(it) >= 0.0 && error(it.next_down()) < 0.0;
    match mode {
        "rm" => down(found),
        "rp" => up(found),
        _ if found > 0.0 => down(found),
        _ if found < 0.0 => up(found),
        _ => true,
    }
}

fn assert_directed(found: f32, exact: f64, mode: &str, what: &str) {
    if exact.is_nan() || exact.is_infinite() {
        assert_eq!(found.is_nan(), exact.is_nan(), "{what}.{mode} of {exact}");
        return;
    }
    let is_right = is_directed(found, &|it| f64::from(it) - exact, mode);
    assert!(is_right, "{what}.{mode} of {exact:e}: {found:e}");
}

#[test]
fn directed_rounding_of_doubles_brackets_the_nearest() {
    let all = doubles(30);
    for name in ["add", "sub", "mul", "div"] {
        let (a, b) = pairs(&all);
        let by = |mode: &str| apply(&format!("{name}.{mode}.f64 %d, %a, %b"), &["b64"; 3], &[&a, &b]);
        let [near, zero, down, up] =
            ["rn", "rz", "rm", "rp"].map(by).map(|it| it.into_iter().map(f64::from_bits).collect::<Vec<_>>());
        for index in 0..a.len() {
            let (near, zero, down, up) = (near[index], zero[index], down[index], up[index]);
            if near.is_nan() {
                continue;
            }
            let what = format!(
                "{name} of {:e} and {:e}: {down:e} {near:e} {up:e}, {zero:e}",
                f64::from_bits(a[index]),
                f64::from_bits(b[index])
            );
            assert!(down <= near && near <= up && (down == up || down.next_up() == up), "{what}");
            assert_eq!(zero, if near > 0.0 || (near == 0.0 && down == 0.0) { down } else { up }, "{what}");
        }
        let inexact = (0..a.len()).filter(|it| down[*it] < up[*it]).count();
        assert!(inexact > a.len() / 4, "{name}: {inexact} of {} results are inexact", a.len());
    }
    // (1 + 2^-52)^2 = 1 + 2^-51 + 2^-104.
    let one = [1.0_f64.next_up().to_bits()];
    assert_eq!(apply("mul.rp.f64 %d, %a, %b", &["b64"; 3], &[&one, &one]), [1.0_f64.to_bits() + 3]);
    assert_eq!(apply("mul.rm.f64 %d, %a, %b", &["b64"; 3], &[&one, &one]), [1.0_f64.to_bits() + 2]);
    // The sum of opposite numbers is -0 only if rounded down.
    for (mode, expected) in [("rm", 0x8000_0000), ("rn", 0), ("rz", 0), ("rp", 0)] {
        let found =
            apply(&format!("add.{mode}.f32 %d, %a, %b"), &["b32"; 3], &[&[0x3f80_0000], &[0xbf80_0000]]);
        assert_eq!(found, [expected], "{mode}");
    }
}

#[test]
fn minimum_and_maximum() {
    let all = singles(10);
    let order = |a: f32, b: f32, is_min: bool| {
        let first = if a == b { a.is_sign_negative() } else { a < b };
        if first == is_min { a } else { b }
    };
    for is_min in [true, false] {
        let name = if is_min { "min" } else { "max" };
        check2(&format!("{name}.f32 %d, %a, %b"), ["b32"; 3], &all, |a, b| {
            let (a, b) = (single(a), single(b));
            bits(if a.is_nan() {
                b
            } else if b.is_nan() {
                a
            } else {
                order(a, b, is_min)
            })
        });
        check2(&format!("{name}.NaN.f32 %d, %a, %b"), ["b32"; 3], &all, |a, b| {
            let (a, b) = (single(a), single(b));
            bits(if a.is_nan() || b.is_nan() { f32::NAN } else { order(a, b, is_min) })
        });
        check2(&format!("{name}.ftz.f32 %d, %a, %b"), ["b32"; 3], &all, |a, b| {
            let (a, b) = (flushed(single(a)), flushed(single(b)));
            bits(if a.is_nan() {
                b
            } else if b.is_nan() {
                a
            } else {
                order(a, b, is_min)
            })
        });
        check2(&format!("{name}.xorsign.abs.f32 %d, %a, %b"), ["b32"; 3], &all, |a, b| {
            let (a, b) = (single(a), single(b));
            let chosen = if a.is_nan() {
                b
            } else if b.is_nan() {
                a
            } else {
                order(a.abs(), b.abs(), is_min)
            };
            let sign = if a.is_sign_negative() != b.is_sign_negative() { -1.0 } else { 1.0 };
            bits(if chosen.is_nan() { chosen } else { chosen.abs() * sign })
        });
        check2(&format!("{name}.NaN.f16 %d, %a, %b"), ["b16"; 3], &halves(), |a, b| {
            let (a, b) = (f16::from_bits(a as u16).to_f32(), f16::from_bits(b as u16).to_f32());
            let chosen = if a.is_nan() || b.is_nan() { f32::NAN } else { order(a, b, is_min) };
            half_bits(chosen.into())
        });
    }
}

#[test]
fn comparisons() {
    let all = singles(6);
    let check = |name: &str, f: fn(f32, f32) -> bool| {
        check2(&format!("setp.{name}.f32 %d, %a, %b"), ["pred", "b32", "b32"], &all, |a, b| {
            f(single(a), single(b)).into()
        });
    };
    check("eq", |a, b| a == b);
    check("ne", |a, b| a != b && !a.is_nan() && !b.is_nan());
    check("lt", |a, b| a < b);
    check("le", |a, b| a <= b);
    check("gt", |a, b| a > b);
    check("ge", |a, b| a >= b);
    check("equ", |a, b| a == b || a.is_nan() || b.is_nan());
    check("neu", |a, b| a != b);
    check("ltu", |a, b| a < b || a.is_nan() || b.is_nan());
    check("leu", |a, b| a <= b || a.is_nan() || b.is_nan());
    check("gtu", |a, b| a > b || a.is_nan() || b.is_nan());
    check("geu", |a, b| a >= b || a.is_nan() || b.is_nan());
    check("num", |a, b| !a.is_nan() && !b.is_nan());
    check("nan", |a, b| a.is_nan() || b.is_nan());
    check("lt.ftz", |a, b| flushed(a) < flushed(b));
    check2("setp.ltu.f64 %d, %a, %b", ["pred", "b64", "b64"], &doubles(6), |a, b| {
        let (a, b) = (f64::from_bits(a), f64::from_bits(b));
        (a < b || a.is_nan() || b.is_nan()).into()
    });
    check2("setp.gt.bf16 %d, %a, %b", ["pred", "b16", "b16"], &halves(), |a, b| {
        (bf16::from_bits(a as u16) > bf16::from_bits(b as u16)).into()
    });
    let packed = "{ .reg .pred %p, %q; .reg .b32 %x, %y; setp.lt.f16x2 %p|%q, %a, %b; \
                  selp.u32 %x, 1, 0, %p; selp.u32 %y, 2, 0, %q; or.b32 %d, %x, %y; }";
    let of = |it: u64, half: u32| f16::from_bits((it >> (16 * half)) as u16);
    check2(packed, ["b32"; 3], &packed_halves(), |a, b| {
        u64::from(of(a, 0) < of(b, 0)) | u64::from(of(a, 1) < of(b, 1)) << 1
    });
    for (test, f) in [
        ("finite", f32::is_finite as fn(f32) -> bool),
        ("infinite", f32::is_infinite),
        ("number", |it| !it.is_nan()),
        ("notanumber", f32::is_nan),
        ("normal", f32::is_normal),
        ("subnormal", f32::is_subnormal),
    ] {
        check1(&format!("testp.{test}.f32 %d, %a"), ["pred", "b32"], &all, |a| f(single(a)).into());
    }
}

#[test]
fn approximate_functions_are_near() {
    let mut random = fastrand::Rng::with_seed(10);
    let values: Vec<u64> = (0..300).map(|_| u64::from((random.f32() * 40.0 - 20.0).to_bits())).collect();
    type Exact = fn(f64) -> f64;
    let functions: [(&str, Exact); 8] = [
        ("sin.approx", f64::sin),
        ("cos.approx", f64::cos),
        ("ex2.approx", f64::exp2),
        ("lg2.approx", f64::log2),
        ("tanh.approx", f64::tanh),
        ("rcp.approx", f64::recip),
        ("rsqrt.approx", |it| it.sqrt().recip()),
        ("sqrt.approx", f64::sqrt),
    ];
    for (name, f) in functions {
        for (found, a) in apply(&format!("{name}.f32 %d, %a"), &["b32"; 2], &[&values]).iter().zip(&values) {
            let expected = f(single(*a).into());
            let found = f64::from(single(*found));
            let is_near =
                (found - expected).abs() <= 2e-7 * expected.abs() || (found.is_nan() && expected.is_nan());
            assert!(is_near, "{name} of {}: {found}, expected {expected}", single(*a));
        }
    }
    check1("ex2.approx.ftz.f32 %d, %a", ["b32"; 2], &[0xc308_0000, 0xff80_0000, 0x7f80_0000], |a| match a {
        0x7f80_0000 => a,
        _ => 0,
    });
    check1("rsqrt.approx.f32 %d, %a", ["b32"; 2], &[0, 0x8000_0000, 0x7f80_0000, 0xbf80_0000], |a| match a {
        0 => 0x7f80_0000,
        0x8000_0000 => 0xff80_0000,
        0x7f80_0000 => 0,
        _ => NAN.into(),
    });
}

/// Halves of either format.
fn halves() -> Vec<u64> {
    let mut random = fastrand::Rng::with_seed(11);
    let special = [
        0, 0x8000, 1, 0x8001, 0x03ff, 0x0400, 0x3c00, 0xbc00, 0x7bff, 0xfbff, 0x7c00, 0xfc00, 0x7e00, 0xffff,
    ];
    special.into_iter().chain((0..24).map(|_| u64::from(random.u16(..)))).collect()
}

fn packed_halves() -> Vec<u64> {
    let all = halves();
    all.iter().zip(all.iter().rev()).map(|(low, high)| low | high << 16).collect()
}

/// The format's value that is nearest, or even of two. The crate `half` rounds `f64` by way of `f32`, so that
/// its result may be a neighbour.
fn nearest(value: f64, near: u16, of: fn(u16) -> f64) -> u64 {
    if value.is_nan() {
        return 0x7fff;
    }
    let error = |bits: u16| if of(bits).is_nan() { f64::INFINITY } else { (of(bits) - value).abs() };
    let neighbours = [near.wrapping_sub(1), near, near.wrapping_add(1)];
    let is_same_sign = |it: &u16| of(*it).is_sign_negative() == value.is_sign_negative();
    let all = neighbours.into_iter().filter(is_same_sign).filter(|_| of(near).is_finite());
    all.min_by(|a, b| error(*a).total_cmp(&error(*b)).then((a & 1).cmp(&(b & 1)))).unwrap_or(near).into()
}

fn half_bits(value: f64) -> u64 {
    nearest(value, f16::from_f64(value).to_bits(), |it| f16::from_bits(it).to_f64())
}

fn bf16_bits(value: f64) -> u64 {
    nearest(value, bf16::from_f64(value).to_bits(), |it| bf16::from_bits(it).to_f64())
}

#[test]
fn halves_are_rounded_once() {
    let value = |it: u64| f64::from(f16::from_bits(it as u16));
    // Sums and products of halves are exact in `f64`.
    check2("add.rn.f16 %d, %a, %b", ["b16"; 3], &halves(), |a, b| half_bits(value(a) + value(b)));
    check2("sub.f16 %d, %a, %b", ["b16"; 3], &halves(), |a, b| half_bits(value(a) - value(b)));
    check2("mul.rn.f16 %d, %a, %b", ["b16"; 3], &halves(), |a, b| half_bits(value(a) * value(b)));
    check2("mul.rn.f16x2 %d, %a, %b", ["b32"; 3], &packed_halves(), |a, b| {
        half_bits(value(a) * value(b)) | half_bits(value(a >> 16) * value(b >> 16)) << 16
    });
    check2("sub.rn.f16x2 %d, %a, %b", ["b32"; 3], &packed_halves(), |a, b| {
        half_bits(value(a) - value(b)) | half_bits(value(a >> 16) - value(b >> 16)) << 16
    });
    check1("neg.f16x2 %d, %a", ["b32"; 2], &packed_halves(), |a| a ^ 0x8000_8000);
    check1("abs.bf16 %d, %a", ["b16"; 2], &halves(), |a| a & 0x7fff);
    let value = |it: u64| f64::from(bf16::from_bits(it as u16));
    check2("mul.rn.bf16 %d, %a, %b", ["b16"; 3], &halves(), |a, b| bf16_bits(value(a) * value(b)));
    // A product and a sum that need more than 53 bits, in which a second rounding would show.
    let fma =
        |a: u64, b: u64, c: u64| apply("fma.rn.f16 %d, %a, %b, %c", &["b16"; 4], &[&[a], &[b], &[c]])[0];
    // (1 + 2^-10)(1 + 2^-10) + 2^-24 is just above the middle of 1 + 2 * 2^-10 and the next half.
    assert_eq!(fma(0x3c01, 0x3c01, 1), 0x3c02);
    assert_eq!(fma(0x3c00, 0x1400, 0x3c00), 0x3c01);
    // 2^15 + 16 is the middle of 2^15 and 2^15 + 32: the smallest subnormal decides.
    assert_eq!(fma(0x7800, 0x3c00, 0x4c00), 0x7800);
    let one =
        apply("fma.rn.bf16x2 %d, %a, %b, %c", &["b32"; 4], &[&[0x3f80_4000], &[0x4040_3f80], &[0x3f80_3f80]]);
    assert_eq!(one, [0x4080_4040]);
    let relu =
        apply("fma.rn.relu.f16 %d, %a, %b, %c", &["b16"; 4], &[&[0xbc00, 0x3c00], &[0x3c00; 2], &[0; 2]]);
    assert_eq!(relu, [0, 0x3c00]);
}

#[test]
fn floats_are_converted() {
    let (all, long, half) = (singles(100), doubles(100), halves());
    check1("cvt.f32.f16 %d, %a", ["b32", "b16"], &half, |a| bits(f16::from_bits(a as u16).to_f32()));
    check1("cvt.f32.bf16 %d, %a", ["b32", "b16"], &half, |a| bits(bf16::from_bits(a as u16).to_f32()));
    check1("cvt.f64.f16 %d, %a", ["b64", "b16"], &half, |a| bits_64(f16::from_bits(a as u16).to_f64()));
    check1("cvt.rn.f16.f32 %d, %a", ["b16", "b32"], &all, |a| half_bits(single(a).into()));
    check1("cvt.rn.f16.f64 %d, %a", ["b16", "b64"], &long, |a| half_bits(f64::from_bits(a)));
    check1("cvt.rn.bf16.f32 %d, %a", ["b16", "b32"], &all, |a| bf16_bits(single(a).into()));
    check1(
        "cvt.rz.bf16.f32 %d, %a",
        ["b16", "b32"],
        &all,
        |a| if single(a).is_nan() { 0x7fff } else { a >> 16 },
    );
    check2("cvt.rn.f16x2.f32 %d, %a, %b", ["b32"; 3], &all[..40], |a, b| {
        half_bits(single(a).into()) << 16 | half_bits(single(b).into())
    });
    check2("cvt.rn.relu.bf16x2.f32 %d, %a, %b", ["b32"; 3], &all[..40], |a, b| {
        let positive = |it: u64| {
            bf16_bits(if single(it).is_nan() { f64::NAN } else { f64::from(single(it)).max(0.0) + 0.0 })
        };
        positive(a) << 16 | positive(b)
    });
    check1("cvt.f64.f32 %d, %a", ["b64", "b32"], &all, |a| bits_64(single(a).into()));
    check1("cvt.rn.f32.f64 %d, %a", ["b32", "b64"], &long, |a| bits(f64::from_bits(a) as f32));
    check1("cvt.rna.tf32.f32 %d, %a", ["b32"; 2], &all, |a| match single(a) {
        value if value.is_nan() => NAN.into(),
        value if value.is_infinite() => a,
        _ => (a + 0x1000) & 0xffff_e000,
    });
    for (mode, f) in [
        ("rni", f32::round_ties_even as fn(f32) -> f32),
        ("rzi", f32::trunc),
        ("rmi", f32::floor),
        ("rpi", f32::ceil),
    ] {
        check1(&format!("cvt.{mode}.f32.f32 %d, %a"), ["b32"; 2], &all, |a| bits(f(single(a))));
        check1(&format!("cvt.{mode}.s32.f32 %d, %a"), ["b32"; 2], &all, |a| {
            u64::from(f(single(a)) as i32 as u32)
        });
        check1(&format!("cvt.{mode}.u32.f32 %d, %a"), ["b32"; 2], &all, |a| u64::from(f(single(a)) as u32));
        check1(&format!("cvt.{mode}.s64.f32 %d, %a"), ["b64", "b32"], &all, |a| {
            if single(a).is_nan() { 1 << 63 } else { f(single(a)) as i64 as u64 }
        });
        check1(&format!("cvt.{mode}.u8.f32 %d, %a"), ["b16", "b32"], &all, |a| u64::from(f(single(a)) as u8));
        check1(&format!("cvt.{mode}.s16.f32 %d, %a"), ["b32", "b32"], &all, |a| {
            u64::from(f(single(a)) as i16 as i32 as u32)
        });
    }
    check1("cvt.rzi.u64.f64 %d, %a", ["b64"; 2], &long, |a| {
        if f64::from_bits(a).is_nan() { 1 << 63 } else { f64::from_bits(a) as u64 }
    });
    check1("cvt.rzi.ftz.s32.f32 %d, %a", ["b32"; 2], &all, |a| u64::from(single(a) as i32 as u32));
    check1("cvt.sat.f32.f32 %d, %a", ["b32"; 2], &all, |a| {
        let value = single(a);
        bits(if value.is_nan() { 0.0 } else { value.clamp(0.0, 1.0) + 0.0 })
    });
    check1("cvt.ftz.f32.f32 %d, %a", ["b32"; 2], &all, |a| bits(flushed(single(a))));
    let mut random = fastrand::Rng::with_seed(12);
    let integers: Vec<u64> =
        (0..300).map(|_| random.u64(..) >> random.u32(0..64)).chain([0, u64::MAX, 1 << 63]).collect();
    check1("cvt.rn.f32.s32 %d, %a", ["b32"; 2], &integers, |a| bits(a as i32 as f32));
    check1("cvt.rn.f32.u32 %d, %a", ["b32"; 2], &integers, |a| bits(a as u32 as f32));
    check1("cvt.rn.f32.s64 %d, %a", ["b32", "b64"], &integers, |a| bits(a as i64 as f32));
    check1("cvt.rn.f32.u64 %d, %a", ["b32", "b64"], &integers, |a| bits(a as f32));
    check1("cvt.rn.f64.s64 %d, %a", ["b64"; 2], &integers, |a| bits_64(a as i64 as f64));
    check1("cvt.rn.f64.u64 %d, %a", ["b64"; 2], &integers, |a| bits_64(a as f64));
    check1("cvt.rn.f16.s32 %d, %a", ["b16", "b32"], &integers, |a| half_bits((a as i32).into()));
    check1("cvt.rn.f32.u8 %d, %a", ["b32", "b16"], &integers, |a| bits(a as u8 as f32));
    check1("cvt.rn.bf16.u16 %d, %a", ["b16", "b16"], &integers, |a| bf16_bits((a as u16).into()));
    for mode in ["rz", "rm", "rp"] {
        for (found, a) in
            apply(&format!("cvt.{mode}.f32.s64 %d, %a"), &["b32", "b64"], &[&integers]).iter().zip(&integers)
        {
            let error = |it: f32| {
                if it == 9_223_372_036_854_775_808.0 {
                    1.0
                } else {
                    (i128::from(it as i64) - i128::from(*a as i64)) as f64
                }
            };
            if (1 << 24..1 << 63).contains(&(*a as i64).unsigned_abs()) {
                assert!(is_directed(single(*found), &error, mode), "cvt.{mode}.f32.s64 of {}", *a as i64);
            }
        }
    }
}

/// PTX ISA 9.0, "cvt": NaN becomes 0 unless the source is `.f64` or the result has 64 bits; then it becomes
/// 1 << (bits - 1). Infinities and numbers out of range become the nearest integer.
#[test]
fn nan_and_infinities_become_integers() {
    let sources = [
        ("f16", "b16", [0x7e00, 0xfc01, 0x7c00, 0xfc00]),
        ("bf16", "b16", [0x7fc0, 0xff81, 0x7f80, 0xff80]),
        ("f32", "b32", [0x7fc0_0000, 0xff80_0001, 0x7f80_0000, 0xff80_0000]),
        ("f64", "b64", [0x7ff8 << 48, (0xfff0 << 48) | 1, 0x7ff0 << 48, 0xfff0 << 48]),
    ];
    for (source, register, values) in sources {
        for bits in [8_u32, 16, 32, 64] {
            for (sign, mode) in
                ["s", "u"].into_iter().flat_map(|it| ["rni", "rzi", "rmi", "rpi"].map(|mode| (it, mode)))
            {
                // A result narrower than its register is extended.
                let target = if bits == 64 { "b64" } else { "b32" };
                let found = apply(
                    &format!("cvt.{mode}.{sign}{bits}.{source} %d, %a"),
                    &[target, register],
                    &[&values],
                );
                let half = 1_u64 << (bits - 1);
                let nan = if source == "f64" || bits == 64 { half } else { 0 };
                let (most, least) = if sign == "s" { (half - 1, half) } else { (half | (half - 1), 0) };
                let extended = |value: u64| match (sign, bits) {
                    ("s", 8) => u64::from(value as i8 as u32),
                    ("s", 16) => u64::from(value as i16 as u32),
                    _ => value,
                };
                let expected = [nan, nan, most, least].map(extended);
                assert_eq!(found, expected, "cvt.{mode}.{sign}{bits}.{source}");
            }
        }
    }
}
