//! Matrix instructions. The places of elements are those of the PTX ISA's tables for each shape, "Matrix
//! Fragments for mma"; values are small integers, so that each sum is exact.

#![forbid(unsafe_code)]
#![allow(clippy::precedence, reason = "formulas as the PTX ISA has them")]

mod common;

use common::Run;
use half::{bf16, f16};

/// Row and column of element `i` of a lane, by `g` and `t`, its group and its place in that.
type Place = fn(g: usize, t: usize, i: usize) -> (usize, usize);

struct Shape {
    name: &'static str,
    sizes: [usize; 3],
    /// Types of the registers of a and b, of c and d, and how often each.
    registers: [(&'static str, usize); 3],
    a: Place,
    /// Row is `k`.
    b: Place,
    c: Place,
    /// The bits of an element, and how many bits it has.
    element: fn(i32) -> u64,
    element_bits: usize,
    result: fn(u64) -> f64,
    accumulator: fn(i32) -> u64,
}

fn check(shape: &Shape) {
    let [m, n, k] = shape.sizes;
    let mut random = fastrand::Rng::with_seed(6);
    let mut matrix = |rows: usize, columns: usize| -> Vec<Vec<i32>> {
        (0..rows).map(|_| (0..columns).map(|_| random.i32(-4..5)).collect()).collect()
    };
    let (a, b, c) = (matrix(m, k), matrix(k, n), matrix(m, n));
    let fragment =
        |matrix: &[Vec<i32>], place: Place, of: fn(i32) -> u64, bits: usize, registers: (&str, usize)| {
            let register_bits = if registers.0 == "f64" { 64 } else { 32 };
            let per = register_bits / bits;
            let mut bytes = Vec::new();
            for lane in 0..32 {
                for register in 0..registers.1 {
                    let value = (0..per).fold(0, |all, element| {
                        let (row, column) = place(lane / 4, lane % 4, register * per + element);
                        all | of(matrix[row][column]) << (element * bits)
                    });
                    bytes.extend_from_slice(&value.to_le_bytes()[..register_bits / 8]);
                }
            }
            bytes
        };
    let [ra, rb, rc] = shape.registers;
    let accumulator_bits = if rc.0 == "f64" { 64 } else { 32 };
    let buffers = vec![
        fragment(&a, shape.a, shape.element, shape.element_bits, ra),
        fragment(&b, shape.b, shape.element, shape.element_bits, rb),
        fragment(&c, shape.c, shape.accumulator, accumulator_bits, rc),
        vec![0; 32 * rc.1 * accumulator_bits / 8],
    ];
    let done = Run { buffers, ..Run::default() }.on(&text(shape)).unwrap();
    assert_eq!(done.report.findings, [], "{}", shape.name);
    for (index, found) in done.buffers[3].chunks(accumulator_bits / 8).enumerate() {
        let (lane, element) = (index / rc.1, index % rc.1);
        let (row, column) = (shape.c)(lane / 4, lane % 4, element);
        let bits = found.iter().rev().fold(0, |all, byte| all << 8 | u64::from(*byte));
        let expected: i32 = (0..k).map(|k| a[row][k] * b[k][column]).sum::<i32>() + c[row][column];
        assert_eq!((shape.result)(bits), f64::from(expected), "{}, row {row}, column {column}", shape.name);
    }
}

/// A kernel that loads the fragments, multiplies, and stores.
fn text(shape: &Shape) -> String {
    let mut body = String::new();
    let mut lists = Vec::new();
    let [ra, rb, rc] = shape.registers;
    for (index, (kind, count)) in [ra, rb, rc].into_iter().enumerate() {
        let bytes = if kind == "f64" { 8 } else { 4 };
        body += &format!(".reg .{kind} %m{index}x<{count}>; ld.param.u64 %o, [p{index}];\n");
        body += &format!("mad.wide.u32 %o, %i, {}, %o;\n", bytes * count);
        let names: Vec<_> = (0..count).map(|it| format!("%m{index}x{it}")).collect();
        for (at, name) in names.iter().enumerate() {
            body += &format!("ld.global.{kind} {name}, [%o+{}];\n", at * bytes);
        }
        lists.push(format!("{{{}}}", names.join(", ")));
    }
    body +=
        &format!("mma.sync.aligned.{} {}, {}, {}, {};\n", shape.name, lists[2], lists[0], lists[1], lists[2]);
    let bytes = if rc.0 == "f64" { 8 } else { 4 };
    body += &format!("ld.param.u64 %o, [p3]; mad.wide.u32 %o, %i, {}, %o;\n", bytes * rc.1);
    for at in 0..rc.1 {
        body += &format!("st.global.{} [%o+{}], %m2x{at};\n", rc.0, at * bytes);
    }
    format!(
        ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 p0, .param .u64 p1, \
         .param .u64 p2, .param .u64 p3) {{ .reg .b32 %i; .reg .b64 %o; mov.u32 %i, %tid.x;\n{body} ret; }}"
    )
}

const C: Place = |g, t, i| (if i < 2 { g } else { g + 8 }, t * 2 + (i & 1));
const TF32_A: Place = |g, t, i| (if i == 0 || i == 2 { g } else { g + 8 }, if i < 2 { t } else { t + 4 });
const HALF_K8_A: Place = |g, t, i| (if i < 2 { g } else { g + 8 }, t * 2 + (i & 1));
const HALF_K8_B: Place = |g, t, i| (t * 2 + i, g);

fn single(value: i32) -> u64 {
    u64::from((value as f32).to_bits())
}

fn of_single(bits: u64) -> f64 {
    f32::from_bits(bits as u32).into()
}

#[test]
fn each_shape_multiplies_matrices() {
    let byte = |value: i32| u64::from(value as i8 as u8);
    let of_integer = |bits: u64| f64::from(bits as u32 as i32);
    let float = Shape {
        name: "m16n8k8.row.col.f32.tf32.tf32.f32",
        sizes: [16, 8, 8],
        registers: [("b32", 4), ("b32", 2), ("f32", 4)],
        a: TF32_A,
        b: |g, t, i| (if i == 0 { t } else { t + 4 }, g),
        c: C,
        element: single,
        element_bits: 32,
        result: of_single,
        accumulator: single,
    };
    check(&float);
    let halves = Shape {
        name: "m16n8k8.row.col.f32.bf16.bf16.f32",
        registers: [("b32", 2), ("b32", 1), ("f32", 4)],
        a: HALF_K8_A,
        b: HALF_K8_B,
        element: |it| bf16::from_f32(it as f32).to_bits().into(),
        element_bits: 16,
        ..float
    };
    check(&halves);
    let f16s = |it: i32| u64::from(f16::from_f32(it as f32).to_bits());
    check(&Shape { name: "m16n8k8.row.col.f32.f16.f16.f32", element: f16s, ..halves });
    check(&Shape {
        name: "m16n8k16.row.col.f32.bf16.bf16.f32",
        sizes: [16, 8, 16],
        registers: [("b32", 4), ("b32", 2), ("f32", 4)],
        a: |g, t, i| {
            (
                if i < 2 || (4..6).contains(&i) { g } else { g + 8 },
                t * 2 + (i & 1) + if i < 4 { 0 } else { 8 },
            )
        },
        b: |g, t, i| (t * 2 + (i & 1) + if i < 2 { 0 } else { 8 }, g),
        ..halves
    });
    let bytes = Shape {
        name: "m16n8k32.row.col.s32.s8.s8.s32",
        sizes: [16, 8, 32],
        registers: [("b32", 4), ("b32", 2), ("b32", 4)],
        a: |g, t, i| {
            let row = if i < 4 || (8..12).contains(&i) { g } else { g + 8 };
            (row, t * 4 + (i & 3) + if i < 8 { 0 } else { 16 })
        },
        b: |g, t, i| (t * 4 + (i & 3) + if i < 4 { 0 } else { 16 }, g),
        c: C,
        element: byte,
        element_bits: 8,
        result: of_integer,
        accumulator: |it| u64::from(it as u32),
    };
    check(&bytes);
    check(&Shape {
        name: "m16n8k16.row.col.satfinite.s32.s8.s8.s32",
        sizes: [16, 8, 16],
        registers: [("b32", 2), ("b32", 1), ("b32", 4)],
        a: |g, t, i| (if i < 4 { g } else { g + 8 }, t * 4 + (i & 3)),
        b: |g, t, i| (t * 4 + i, g),
        ..bytes
    });
    check(&Shape {
        name: "m8n8k4.row.col.f64.f64.f64.f64",
        sizes: [8, 8, 4],
        registers: [("f64", 1), ("f64", 1), ("f64", 2)],
        a: |g, t, _| (g, t),
        b: |g, t, _| (t, g),
        c: |g, t, i| (g, t * 2 + i),
        element: |it| f64::from(it).to_bits(),
        element_bits: 64,
        result: f64::from_bits,
        accumulator: |it| f64::from(it).to_bits(),
    });
}

#[test]
fn matrices_are_loaded_stored_and_transposed() {
    // Row `r` of an 8 by 8 matrix has the elements 8 r to 8 r + 7.
    let kernel = |load: &str| {
        format!(
            ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 o) {{\n\
             .reg .b32 %i, %s, %x, %y, %w; .reg .b16 %h; .reg .b64 %o; .shared .align 16 .b8 v[256];\n\
             mov.u32 %i, %tid.x; mov.u32 %s, v; shl.b32 %x, %i, 1; add.u32 %y, %x, 1; shl.b32 %w, %y, 16;\n\
             or.b32 %x, %x, %w; mad.lo.u32 %y, %i, 4, %s; st.shared.b32 [%y], %x; bar.sync 0;\n\
             and.b32 %y, %i, 7; mad.lo.u32 %y, %y, 16, %s;\n{load}\n\
             ld.param.u64 %o, [o]; mad.wide.u32 %o, %i, 4, %o; st.global.b32 [%o], %x; ret; }}"
        )
    };
    let run = |load: &str| {
        let done = Run { buffers: vec![vec![0; 128]], ..Run::default() }.on(&kernel(load)).unwrap();
        let halves =
            done.buffers[0].chunks(2).map(|it| u16::from_le_bytes([it[0], it[1]])).collect::<Vec<_>>();
        assert_eq!(done.report.findings, []);
        halves
    };
    let straight: Vec<u16> = (0..64).collect();
    // Lane `l` has the elements of rows 2 (l mod 4) and the next, of column l / 4.
    let transposed: Vec<u16> = (0..64).map(|it| it / 2 % 4 * 16 + it % 2 * 8 + it / 8).collect();
    let matrix = "m8n8.x1";
    assert_eq!(run(&format!("ldmatrix.sync.aligned.{matrix}.shared.b16 {{%x}}, [%y];")), straight);
    assert_eq!(run(&format!("ldmatrix.sync.aligned.{matrix}.trans.shared.b16 {{%x}}, [%y];")), transposed);
    assert_eq!(run("movmatrix.sync.aligned.m8n8.trans.b16 %x, %x;"), transposed);
    let store = format!(
        "stmatrix.sync.aligned.{matrix}.trans.shared.b16 [%y+128], {{%x}}; mad.lo.u32 %y, %i, 4, %s; \
         ld.shared.b32 %x, [%y+128];"
    );
    assert_eq!(run(&store), transposed);
}

#[test]
fn copies_of_fewer_bytes_are_filled_with_zeros() {
    let text = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 a, .param .u64 o) {\n\
                .reg .b32 %s, %i, %x<4>; .reg .b64 %a, %o; .shared .align 16 .b8 v[512]; mov.u32 %i, %tid.x;\n\
                ld.param.u64 %a, [a]; ld.param.u64 %o, [o]; mov.u32 %s, v; mad.lo.u32 %s, %i, 16, %s;\n\
                mad.wide.u32 %a, %i, 16, %a; mad.wide.u32 %o, %i, 16, %o; and.b32 %x0, %i, 15;\n\
                cp.async.cg.shared.global [%s], [%a], 16, %x0; cp.async.wait_all;\n\
                ld.shared.v4.b32 {%x0, %x1, %x2, %x3}, [%s]; st.global.v4.b32 [%o], {%x0, %x1, %x2, %x3}; ret; }";
    let source: Vec<u8> = (0..512).map(|it| (it % 255) as u8 + 1).collect();
    let done = Run { buffers: vec![source.clone(), vec![7; 512]], ..Run::default() }.on(text).unwrap();
    for (at, found) in done.buffers[1].iter().enumerate() {
        let (thread, byte) = (at / 16, at % 16);
        assert_eq!(*found, if byte < thread % 16 { source[at] } else { 0 }, "thread {thread}, byte {byte}");
    }
}
