//! Integer instructions on edge cases and random values, compared with Rust's arithmetic.

#![forbid(unsafe_code)]
#![allow(clippy::precedence, clippy::manual_is_multiple_of, reason = "formulas as the PTX ISA has them")]

mod common;

use common::apply::{apply, check1, check2, check3};

const EDGES: [u64; 12] =
    [0, 1, 2, 3, 7, 0x7fff, 0x8000, 0xffff, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff, 0x8000_0000_0000_0000];

/// Edge cases and random values of `bits` bits.
fn values(bits: u32, count: usize) -> Vec<u64> {
    let mut random = fastrand::Rng::with_seed(bits.into());
    let mask = if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
    let mut all: Vec<u64> =
        EDGES.iter().map(|it| it & mask).chain([mask, mask >> 1, mask ^ mask >> 1]).collect();
    all.extend((0..count).map(|_| random.u64(..) & mask >> random.u32(0..bits)));
    all
}

#[test]
fn arithmetic_of_32_bits() {
    let all = values(32, 20);
    let kinds = ["b32"; 3];
    let check = |name: &str, f: fn(u32, u32) -> u32| {
        check2(&format!("{name} %d, %a, %b"), kinds, &all, |a, b| f(a as u32, b as u32).into());
    };
    check("add.u32", u32::wrapping_add);
    check("sub.s32", u32::wrapping_sub);
    check("mul.lo.u32", u32::wrapping_mul);
    check("mul.hi.u32", |a, b| (u64::from(a) * u64::from(b) >> 32) as u32);
    check("mul.hi.s32", |a, b| (i64::from(a as i32) * i64::from(b as i32) >> 32) as u32);
    check("add.sat.s32", |a, b| (a as i32).saturating_add(b as i32) as u32);
    check("sub.sat.s32", |a, b| (a as i32).saturating_sub(b as i32) as u32);
    check("min.s32", |a, b| (a as i32).min(b as i32) as u32);
    check("max.s32", |a, b| (a as i32).max(b as i32) as u32);
    check("min.u32", u32::min);
    check("max.u32", u32::max);
    check("and.b32", |a, b| a & b);
    check("or.b32", |a, b| a | b);
    check("xor.b32", |a, b| a ^ b);
    check("shl.b32", |a, b| a.checked_shl(b).unwrap_or(0));
    check("shr.u32", |a, b| a.checked_shr(b).unwrap_or(0));
    check("shr.b32", |a, b| a.checked_shr(b).unwrap_or(0));
    check("shr.s32", |a, b| ((a as i32) >> b.min(31)) as u32);
    let signed = |it: u32| i64::from((it << 8) as i32 >> 8);
    check("mul24.lo.u32", |a, b| (a & 0xff_ffff).wrapping_mul(b & 0xff_ffff));
    check2("mul24.hi.s32 %d, %a, %b", kinds, &all, |a, b| {
        u64::from((signed(a as u32) * signed(b as u32) >> 16) as u32)
    });
    let divisors: Vec<_> = all.iter().copied().filter(|it| *it != 0).collect();
    let check = |name: &str, f: fn(u32, u32) -> u32| {
        check2(&format!("{name} %d, %a, %b"), kinds, &divisors, |a, b| f(a as u32, b as u32).into());
    };
    check("div.u32", |a, b| a / b);
    check("rem.u32", |a, b| a % b);
    check("div.s32", |a, b| (a as i32).wrapping_div(b as i32) as u32);
    check("rem.s32", |a, b| (a as i32).wrapping_rem(b as i32) as u32);
}

#[test]
fn arithmetic_of_64_bits() {
    let all = values(64, 20);
    let check = |name: &str, f: fn(u64, u64) -> u64| {
        check2(&format!("{name} %d, %a, %b"), ["b64"; 3], &all, f);
    };
    check("add.s64", u64::wrapping_add);
    check("sub.u64", u64::wrapping_sub);
    check("mul.lo.s64", u64::wrapping_mul);
    check("mul.hi.u64", |a, b| (u128::from(a) * u128::from(b) >> 64) as u64);
    check("mul.hi.s64", |a, b| (i128::from(a as i64) * i128::from(b as i64) >> 64) as u64);
    check("min.s64", |a, b| (a as i64).min(b as i64) as u64);
    check("max.u64", u64::max);
    check("xor.b64", |a, b| a ^ b);
    let divisors: Vec<_> = all.iter().copied().filter(|it| *it != 0).collect();
    let check = |name: &str, f: fn(u64, u64) -> u64| {
        check2(&format!("{name} %d, %a, %b"), ["b64"; 3], &divisors, f);
    };
    check("div.u64", |a, b| a / b);
    check("rem.u64", |a, b| a % b);
    check("div.s64", |a, b| (a as i64).wrapping_div(b as i64) as u64);
    check("rem.s64", |a, b| (a as i64).wrapping_rem(b as i64) as u64);
    let amounts: Vec<u64> = (0..70).chain([255, 0xffff_ffff]).collect();
    let value = vec![0x9234_5678_9abc_def0; amounts.len()];
    let found = apply("shr.s64 %d, %a, %b", &["b64", "b64", "b32"], &[&value, &amounts]);
    for (found, by) in found.iter().zip(&amounts) {
        assert_eq!(*found as i64, value[0] as i64 >> by.min(&63));
    }
    let found = apply("shl.b64 %d, %a, %b", &["b64", "b64", "b32"], &[&value, &amounts]);
    for (found, by) in found.iter().zip(&amounts) {
        assert_eq!(*found, value[0].checked_shl(*by as u32).unwrap_or(0));
    }
}

#[test]
fn arithmetic_of_16_bits_leaves_no_other_bits() {
    let all = values(16, 20);
    // The upper half of the pair shows what is beyond 16 bits.
    let check = |name: &str, f: fn(u16, u16) -> u16| {
        let wide = format!("{{ .reg .b16 %x; {name} %x, %a, %b; cvt.u32.u16 %d, %x; }}");
        check2(&wide, ["b32", "b16", "b16"], &all, |a, b| f(a as u16, b as u16).into());
        let packed = format!("{{ .reg .b16 %x; {name} %x, %a, %b; mov.b32 %d, {{%x, %x}}; }}");
        check2(&packed, ["b32", "b16", "b16"], &all, |a, b| u64::from(f(a as u16, b as u16)) * 0x1_0001);
    };
    check("add.s16", u16::wrapping_add);
    check("sub.u16", u16::wrapping_sub);
    check("mul.lo.u16", u16::wrapping_mul);
    check("mul.hi.s16", |a, b| (i32::from(a as i16) * i32::from(b as i16) >> 16) as u16);
    check("min.s16", |a, b| (a as i16).min(b as i16) as u16);
    check("max.u16", u16::max);
    check("xor.b16", |a, b| a ^ b);
    check("div.u16", |a, b| a.checked_div(b).unwrap_or(u16::MAX));
    check("rem.u16", |a, b| a.checked_rem(b).unwrap_or(a));
    check1("not.b16 %d, %a", ["b16", "b16"], &all, |a| !a & 0xffff);
    check1("neg.s16 %d, %a", ["b16", "b16"], &all, |a| a.wrapping_neg() & 0xffff);
    check1("{ .reg .b16 %x; abs.s16 %x, %a; cvt.s32.s16 %d, %x; }", ["b32", "b16"], &all, |a| {
        u64::from((a as i16).wrapping_abs() as i32 as u32)
    });
    for by in [0, 1, 15, 16, 40] {
        check1(&format!("shl.b16 %d, %a, {by}"), ["b16", "b16"], &all, |a| {
            if by > 15 { 0 } else { a << by & 0xffff }
        });
        check1(&format!("shr.s16 %d, %a, {by}"), ["b16", "b16"], &all, |a| {
            u64::from((a as i16 >> by.min(15)) as u16)
        });
    }
    check2("mul.wide.s16 %d, %a, %b", ["b32", "b16", "b16"], &all, |a, b| {
        u64::from((i32::from(a as i16) * i32::from(b as i16)) as u32)
    });
}

#[test]
fn products_with_sums_and_carries() {
    let all = values(32, 4);
    check3("mad.lo.s32 %d, %a, %b, %c", ["b32"; 4], &all, |a, b, c| {
        a.wrapping_mul(b).wrapping_add(c) & 0xffff_ffff
    });
    check3("mad.wide.u32 %d, %a, %b, %c", ["b64", "b32", "b32", "b64"], &all, |a, b, c| {
        (a * b).wrapping_add(c)
    });
    check3("mad.wide.s32 %d, %a, %b, %c", ["b64", "b32", "b32", "b64"], &all, |a, b, c| {
        (i64::from(a as i32) * i64::from(b as i32)).wrapping_add(c as i64) as u64
    });
    check3("mad.hi.u32 %d, %a, %b, %c", ["b32"; 4], &all, |a, b, c| {
        (a * b >> 32).wrapping_add(c) & 0xffff_ffff
    });
    check3("sad.u32 %d, %a, %b, %c", ["b32"; 4], &all, |a, b, c| a.abs_diff(b).wrapping_add(c) & 0xffff_ffff);
    // Sums of 128 bits, in four parts.
    let text = "{ .reg .b32 %x, %y, %z, %w, %u; mov.b64 {%x, %y}, %a; mov.b64 {%z, %w}, %b; \
                add.cc.u32 %x, %x, %z; addc.cc.u32 %y, %y, %w; addc.u32 %u, 0, 0; cvt.u64.u32 %d, %u; }";
    let wide = values(64, 20);
    check2(text, ["b64"; 3], &wide, |a, b| u64::from(a.checked_add(b).is_none()));
    let text = "{ .reg .b64 %x, %y; sub.cc.u64 %x, %a, %b; subc.u64 %d, 5, 0; }";
    check2(text, ["b64"; 3], &wide, |a, b| 5 - u64::from(a < b));
    let text = "{ .reg .b32 %x; mad.lo.cc.u32 %x, %a, %b, %c; madc.hi.u32 %d, %a, %b, 0; }";
    check3(text, ["b32"; 4], &all, |a, b, c| (a * b).wrapping_add(c) >> 32);
}

#[test]
fn bits_are_counted_moved_and_selected() {
    let (short, long) = (values(32, 40), values(64, 40));
    check1("popc.b32 %d, %a", ["b32"; 2], &short, |a| a.count_ones().into());
    check1("popc.b64 %d, %a", ["b32", "b64"], &long, |a| a.count_ones().into());
    check1("clz.b32 %d, %a", ["b32"; 2], &short, |a| (a as u32).leading_zeros().into());
    check1("clz.b64 %d, %a", ["b32", "b64"], &long, |a| a.leading_zeros().into());
    check1("brev.b32 %d, %a", ["b32"; 2], &short, |a| (a as u32).reverse_bits().into());
    check1("brev.b64 %d, %a", ["b64"; 2], &long, u64::reverse_bits);
    check1("bfind.u32 %d, %a", ["b32"; 2], &short, |a| {
        u64::from((a as u32).checked_ilog2().unwrap_or(u32::MAX))
    });
    check1("bfind.shiftamt.u32 %d, %a", ["b32"; 2], &short, |a| match a as u32 {
        0 => u32::MAX.into(),
        a => a.leading_zeros().into(),
    });
    check1("bfind.s64 %d, %a", ["b32", "b64"], &long, |a| {
        let a = if (a as i64) < 0 { !a } else { a };
        u64::from(a.checked_ilog2().unwrap_or(u32::MAX))
    });
    check1("cnot.b32 %d, %a", ["b32"; 2], &short, |a| u64::from(a == 0));
    check1("not.b64 %d, %a", ["b64"; 2], &long, |a| !a);
    check2("bmsk.clamp.b32 %d, %a, %b", ["b32"; 3], &[0, 1, 5, 31, 32, 40], |a, b| {
        ((1_u128 << b.min(32)) - 1 << a.min(32)) as u32 as u64
    });
    // The formulas of "bfe" and "bfi", bit by bit.
    let fields = [0, 1, 4, 8, 31, 32, 33, 63, 64, 255];
    let (start, length) = common::apply::pairs(&fields);
    for value in [0x8765_4321_u64, 0x7fff_0001, u64::MAX, 0x1234_5678_9abc_def0, 0x8000_0000_0000_0001] {
        for (name, bits, signed) in
            [("u32", 32, false), ("s32", 32, true), ("u64", 64, false), ("s64", 64, true)]
        {
            let kind = if bits == 32 { "b32" } else { "b64" };
            let values = vec![value; start.len()];
            let found = apply(
                &format!("bfe.{name} %d, %a, %b, %c"),
                &[kind, kind, "b32", "b32"],
                &[&values, &start, &length],
            );
            for (index, found) in found.iter().enumerate() {
                let (start, length) = (start[index], length[index]);
                let bit = |at: u64| at < bits && value >> at & 1 != 0;
                let sign = signed && length > 0 && bit((start + length - 1).min(bits - 1));
                let of = |it: u64| if it < length && start + it < bits { bit(start + it) } else { sign };
                let expected = (0..bits).fold(0, |all, it| all | u64::from(of(it)) << it);
                assert_eq!(*found, expected, "bfe.{name} of {value:#x} from {start}, {length} bits");
            }
        }
        let (a, b) = (vec![value; start.len()], vec![0x0f0f_0f0f_0f0f_0f0f; start.len()]);
        for length in fields {
            let text = format!("bfi.b64 %d, %a, %b, %c, {length}");
            let found = apply(&text, &["b64", "b64", "b64", "b32"], &[&a, &b, &start]);
            for (index, found) in found.iter().enumerate() {
                let start = start[index];
                let within = |it: u64| it >= start && it < start + length;
                let bit = |it: u64| if within(it) { value >> (it - start) & 1 } else { b[index] >> it & 1 };
                assert_eq!(*found, (0..64).fold(0, |all, it| all | bit(it) << it), "{text} from {start}");
            }
        }
    }
}

#[test]
fn bytes_are_permuted_and_multiplied() {
    let all = values(32, 5);
    let byte = |both: u64, index: u64| both >> (8 * (index & 7)) & 0xff;
    check3("prmt.b32 %d, %a, %b, %c", ["b32"; 4], &all, |a, b, c| {
        (0..4).fold(0, |out, index| {
            let selector = c >> (4 * index) & 15;
            let value = byte(b << 32 | a, selector & 7);
            let value = if selector & 8 == 0 {
                value
            } else if value & 0x80 != 0 {
                0xff
            } else {
                0
            };
            out | value << (8 * index)
        })
    });
    let (a, b) = (0x3322_1100_u64, 0x7766_5544_u64);
    let modes = [
        ("f4e", [0x3322_1100_u64, 0x4433_2211, 0x5544_3322, 0x6655_4433]),
        ("b4e", [0x5566_7700, 0x6677_0011, 0x7700_1122, 0x0011_2233]),
        ("rc8", [0, 0x1111_1111, 0x2222_2222, 0x3333_3333]),
        ("ecl", [0x3322_1100, 0x3322_1111, 0x3322_2222, 0x3333_3333]),
        ("ecr", [0, 0x1111_1100, 0x2222_1100, 0x3322_1100]),
        ("rc16", [0x1100_1100, 0x3322_3322, 0x1100_1100, 0x3322_3322]),
    ];
    for (mode, expected) in modes {
        let found = apply(
            &format!("prmt.b32.{mode} %d, %a, %b, %c"),
            &["b32"; 4],
            &[&[a; 4], &[b; 4], &[0, 1, 2, 3]],
        );
        assert_eq!(found, expected, "{mode}");
    }
    check3("shf.l.wrap.b32 %d, %a, %b, %c", ["b32"; 4], &all, |a, b, c| (b << 32 | a) << (c & 31) >> 32);
    check3("shf.r.clamp.b32 %d, %a, %b, %c", ["b32"; 4], &all, |a, b, c| {
        (b << 32 | a) >> c.min(32) & 0xffff_ffff
    });
    for table in [0, 0x1, 0x96, 0xe8, 0xca, 0xfe, 0xff, 0x5a] {
        check3(&format!("lop3.b32 %d, %a, %b, %c, {table}"), ["b32"; 4], &all[..8], |a, b, c| {
            (0..32).fold(0, |out, bit| {
                let index = (a >> bit & 1) << 2 | (b >> bit & 1) << 1 | c >> bit & 1;
                out | (table >> index & 1) << bit
            })
        });
    }
    let signed = |value: u64, index: u32| i64::from((value >> (8 * index)) as i8);
    let unsigned = |value: u64, index: u32| i64::from((value >> (8 * index)) as u8);
    check3("dp4a.s32.u32 %d, %a, %b, %c", ["b32"; 4], &all, |a, b, c| {
        let sum: i64 = (0..4).map(|it| signed(a, it) * unsigned(b, it)).sum();
        u64::from((c as u32).wrapping_add(sum as u32))
    });
    check3("dp2a.hi.s32.s32 %d, %a, %b, %c", ["b32"; 4], &all, |a, b, c| {
        let half = |it: u32| i64::from((a >> (16 * it)) as i16);
        let sum: i64 = (0..2).map(|it| half(it) * signed(b, 2 + it)).sum();
        u64::from((c as u32).wrapping_add(sum as u32))
    });
}

#[test]
fn integers_are_compared_and_combined() {
    let all = values(32, 10);
    let check = |name: &str, f: fn(u32, u32) -> bool| {
        let text = format!("setp.{name} %d, %a, %b");
        check2(&text, ["pred", "b32", "b32"], &all, |a, b| f(a as u32, b as u32).into());
    };
    check("eq.s32", |a, b| a == b);
    check("ne.b32", |a, b| a != b);
    check("lt.s32", |a, b| (a as i32) < b as i32);
    check("ge.s32", |a, b| a as i32 >= b as i32);
    check("lo.u32", |a, b| a < b);
    check("hi.u32", |a, b| a > b);
    check("le.u32", |a, b| a <= b);
    check2("setp.gt.s16 %d, %a, %b", ["pred", "b16", "b16"], &values(16, 10), |a, b| {
        u64::from(a as i16 > b as i16)
    });
    check2("setp.le.s64 %d, %a, %b", ["pred", "b64", "b64"], &values(64, 10), |a, b| {
        u64::from(a as i64 <= b as i64)
    });
    check2("set.lt.u32.s32 %d, %a, %b", ["b32"; 3], &all, |a, b| {
        if (a as i32) < b as i32 { 0xffff_ffff } else { 0 }
    });
    check2("set.eq.f32.s32 %d, %a, %b", ["b32"; 3], &all, |a, b| if a == b { 0x3f80_0000 } else { 0 });
    for (op, f) in
        [("and", (|a, b| a & b) as fn(bool, bool) -> bool), ("or", |a, b| a | b), ("xor", |a, b| a ^ b)]
    {
        // Both results, in the bits of one.
        for c in [0, 1] {
            let text = format!(
                "{{ .reg .pred %p, %q, %r; .reg .b32 %x, %y; setp.ne.u32 %r, {c}, 0; \
                 setp.lt.{op}.s32 %p|%q, %a, %b, !%r; selp.u32 %x, 1, 0, %p; selp.u32 %y, 2, 0, %q; or.b32 %d, %x, %y; }}"
            );
            check2(&text, ["b32"; 3], &all, |a, b| {
                let (less, c) = ((a as i32) < b as i32, c == 0);
                u64::from(f(less, c)) | u64::from(f(!less, c)) << 1
            });
        }
    }
    check3("slct.u32.s32 %d, %a, %b, %c", ["b32"; 4], &all[..6], |a, b, c| if c as i32 >= 0 { a } else { b });
    check3("selp.b64 %d, %a, %b, %c", ["b64", "b64", "b64", "pred"], &[0, 5, u64::MAX], |a, b, c| {
        if c & 0xffff_ffff != 0 { a } else { b }
    });
}

#[test]
fn integers_are_converted() {
    let all = values(64, 30);
    let check = |name: &str, kinds: [&str; 2], f: fn(u64) -> u64| {
        check1(&format!("cvt.{name} %d, %a"), kinds, &all, f);
    };
    check("u64.u32", ["b64", "b32"], |a| a & 0xffff_ffff);
    check("s64.s32", ["b64", "b32"], |a| a as i32 as i64 as u64);
    check("u32.u64", ["b32", "b64"], |a| a & 0xffff_ffff);
    check("s64.s8", ["b64", "b64"], |a| a as i8 as i64 as u64);
    check("u16.u64", ["b16", "b64"], |a| a & 0xffff);
    check("s16.s8", ["b16", "b32"], |a| u64::from(a as i8 as i16 as u16));
    check("u32.u8", ["b32", "b16"], |a| a & 0xff);
    check("s32.s16", ["b32", "b16"], |a| u64::from(a as i16 as i32 as u32));
    check("s8.s32", ["b32", "b32"], |a| u64::from(a as i8 as i32 as u32));
    check("u64.s16", ["b64", "b16"], |a| a as i16 as i64 as u64);
    check("sat.s8.s32", ["b32", "b32"], |a| u64::from((a as i32).clamp(-128, 127) as u32));
    check("sat.u8.s32", ["b32", "b32"], |a| (a as i32).clamp(0, 255) as u64);
    check("sat.u32.s64", ["b32", "b64"], |a| (a as i64).clamp(0, u32::MAX.into()) as u64);
    check("sat.s32.u32", ["b32", "b32"], |a| (a & 0xffff_ffff).min(i32::MAX as u64));
}

/// Amounts at and beyond the width shift everything out: zeros, or copies of the sign.
#[test]
fn shifts_by_the_width_and_more() {
    let amounts: Vec<u64> = [
        0,
        1,
        7,
        14,
        15,
        16,
        17,
        30,
        31,
        32,
        33,
        47,
        62,
        63,
        64,
        65,
        128,
        255,
        256,
        1 << 16,
        1 << 31,
        u32::MAX.into(),
    ]
    .to_vec();
    for value in [0x8123_4567_89ab_cdef_u64, 0x7edc_ba98_7654_3211, 0x1234_8001_8000_0001, u64::MAX, 0] {
        let values = vec![value; amounts.len()];
        for bits in [16_u32, 32, 64] {
            let register = format!("b{bits}");
            let mask = u64::MAX >> (64 - bits);
            let signed = ((value << (64 - bits)) as i64) >> (64 - bits);
            for kind in ["shl.b", "shr.b", "shr.u", "shr.s"] {
                let text = format!("{kind}{bits} %d, %a, %b");
                let found = apply(&text, &[&register, &register, "b32"], &[&values, &amounts]);
                for (found, by) in found.iter().zip(&amounts) {
                    let is_out = *by >= u64::from(bits);
                    let expected = match kind {
                        "shr.s" => (signed >> (*by).min(63)) as u64 & mask,
                        _ if is_out => 0,
                        "shl.b" => value << by & mask,
                        _ => (value & mask) >> by,
                    };
                    assert_eq!(*found, expected, "{text}: {value:#x} by {by}");
                    // A constant amount is another operand.
                    if value & 0xff == 0xef {
                        let text = format!("{kind}{bits} %d, %a, {by}");
                        assert_eq!(
                            apply(&text, &[&register, &register], &[&values[..1]]),
                            [expected],
                            "{text}"
                        );
                    }
                }
            }
        }
    }
}
