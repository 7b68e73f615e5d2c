//! One instruction on many values.

use super::Run;

/// Runs `instruction` in a thread for each element of the sources, which are named `%a`, `%b` and `%c` and
/// have the type at the same place of `kinds`; `%d` is the result, of the first type. Types are those of
/// registers and memory, such as `b32`; `pred` is true for any value but zero.
pub fn apply(instruction: &str, kinds: &[&str], sources: &[&[u64]]) -> Vec<u64> {
    let count = sources[0].len();
    assert!(sources.len() + 1 == kinds.len() && sources.iter().all(|it| it.len() == count));
    let mut body = String::new();
    let names = ["d", "a", "b", "c"];
    for (index, kind) in kinds.iter().enumerate() {
        let name = names[index];
        body += &format!(".reg .{kind} %{name}; .reg .b64 %p{name}; ld.param.u64 %p{name}, [p{index}];\n");
        body += &format!("mad.wide.u32 %p{name}, %i, {}, %p{name};\n", bytes(kind));
        match *kind {
            _ if index == 0 => {}
            "pred" => body += &format!("ld.global.u32 %t, [%p{name}]; setp.ne.u32 %{name}, %t, 0;\n"),
            "b8" => unreachable!("registers have 16 bits or more"),
            _ => body += &format!("ld.global.{kind} %{name}, [%p{name}];\n"),
        }
    }
    body += &format!("{instruction};\n");
    body += &match kinds[0] {
        "pred" => "selp.u32 %t, 1, 0, %d; st.global.u32 [%pd], %t;".to_owned(),
        kind => format!("st.global.{kind} [%pd], %d;"),
    };
    let parameters: Vec<_> = (0..kinds.len()).map(|it| format!(".param .u64 p{it}")).collect();
    let text = format!(
        ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k({}, .param .u32 n) {{\n\
         .reg .b32 %i, %t, %n; .reg .pred %o;\n\
         mov.u32 %i, %tid.x; mov.u32 %t, %ctaid.x; mad.lo.u32 %i, %t, 32, %i;\n\
         ld.param.u32 %n, [n]; setp.ge.u32 %o, %i, %n; @%o bra END;\n{body}\nEND: ret; }}",
        parameters.join(", ")
    );
    let pack = |kind: &str, values: &[u64]| -> Vec<u8> {
        values.iter().flat_map(|it| it.to_le_bytes()[..bytes(kind)].to_vec()).collect()
    };
    let mut buffers = vec![vec![0; count * bytes(kinds[0])]];
    buffers.extend(sources.iter().zip(&kinds[1..]).map(|(values, kind)| pack(kind, values)));
    let grid = [count.div_ceil(32) as u32, 1, 1];
    let run = Run { grid, buffers, constants: vec![count as u32], ..Run::default() };
    let done = run.on(&text).unwrap_or_else(|it| panic!("{instruction}: {it}"));
    assert_eq!(done.report.findings, [], "{instruction}");
    let unpack = |it: &[u8]| it.iter().rev().fold(0, |all, byte| all << 8 | u64::from(*byte));
    done.buffers[0].chunks(bytes(kinds[0])).map(unpack).collect()
}

fn bytes(kind: &str) -> usize {
    match kind {
        "pred" => 4,
        _ => kind[1..].parse::<usize>().unwrap() / 8,
    }
}

/// All pairs of values.
pub fn pairs(values: &[u64]) -> (Vec<u64>, Vec<u64>) {
    values.iter().flat_map(|a| values.iter().map(move |b| (*a, *b))).unzip()
}

/// Compares the results of an instruction on all pairs of values with those of `f`.
pub fn check2(instruction: &str, kinds: [&str; 3], values: &[u64], f: impl Fn(u64, u64) -> u64) {
    let (a, b) = pairs(values);
    let found = apply(instruction, &kinds, &[&a, &b]);
    for ((found, a), b) in found.iter().zip(&a).zip(&b) {
        let expected = f(*a, *b);
        assert_eq!(
            *found, expected,
            "{instruction} of {a:#x} and {b:#x}: {found:#x}, expected {expected:#x}"
        );
    }
}

/// The same with one source.
pub fn check1(instruction: &str, kinds: [&str; 2], values: &[u64], f: impl Fn(u64) -> u64) {
    let found = apply(instruction, &kinds, &[values]);
    for (found, a) in found.iter().zip(values) {
        let expected = f(*a);
        assert_eq!(*found, expected, "{instruction} of {a:#x}: {found:#x}, expected {expected:#x}");
    }
}

/// The same with three sources, of which each combination of the values of a list is one.
pub fn check3(instruction: &str, kinds: [&str; 4], values: &[u64], f: impl Fn(u64, u64, u64) -> u64) {
    let (a, b) = pairs(values);
    for c in values {
        let c = vec![*c; a.len()];
        let found = apply(instruction, &kinds, &[&a, &b, &c]);
        for (index, found) in found.iter().enumerate() {
            let (a, b, c) = (a[index], b[index], c[index]);
            let expected = f(a, b, c);
            assert_eq!(
                *found, expected,
                "{instruction} of {a:#x}, {b:#x}, {c:#x}: {found:#x}, not {expected:#x}"
            );
        }
    }
}
