//! Text that is wrong, launches that are not allowed, and accesses that the checks find.

#![forbid(unsafe_code)]
#![allow(clippy::result_large_err, reason = "the error of the crate, in tests")]

mod common;

use std::sync::Arc;

use common::Run;
use rehal_base::{FormatError, HostMemory};
use rehal_simt::fuzzing::{Reached, exercise};
use rehal_simt::{Checks, Dispatch, Finding, FindingKind, Image, Launch, Limits, Module, Region, Target};

fn parse(text: &str) -> Result<Module, FormatError> {
    Module::parse_ptx(text.as_bytes(), &Limits::default())
}

fn kernel(body: &str) -> String {
    format!(
        ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 o) {{\n\
         .reg .b32 %i, %x, %y, %f<4>; .reg .b64 %o, %l; .reg .b16 %h; .reg .f32 %s; .reg .pred %p, %q;\n\
         mov.u32 %i, %tid.x; ld.param.u64 %o, [o]; mad.wide.u32 %l, %i, 4, %o;\n{body}\nret; }}"
    )
}

fn rejected(text: &str, expected: &str) {
    let error = parse(text).err().unwrap_or_else(|| panic!("accepted: {text}")).to_string();
    assert!(error.contains(expected), "'{expected}' is not in: {error}");
}

#[test]
fn every_part_of_an_instruction_is_understood() {
    let wrong = [
        ("frobnicate.u32 %x, %y;", "'frobnicate'"),
        ("add.foo.u32 %x, %x, %y;", "'.foo'"),
        ("add.u32.foo %x, %x, %y;", "'.foo'"),
        ("add.u32 %x, %x;", "found 2"),
        ("add.u32 %x, %x, %y, %y;", "found 4"),
        ("add.u32 %x, %x, %z;", "'%z'"),
        ("add.u64 %x, %x, %y;", "which is B32"),
        ("add.u32 %l, %x, %y;", "which is B64"),
        ("add.u32 %s, %x, %y;", "which is F32"),
        ("add.f32 %x, %x, 1;", "constant of type F32"),
        ("add.u32 %x, %x, 0f3F800000;", "constant of type U32"),
        ("add.sat.u32 %x, %x, %y;", "'.u32'"),
        ("fma.f32 %x, %x, %y, %y;", "'.f32'"),
        ("div.f32 %x, %x, %y;", "rn rz rm rp"),
        ("mul.u32 %x, %x, %y;", "lo hi wide"),
        ("cvt.f32.s32 %x, %y;", "rounding"),
        ("cvt.rn.s32.f32 %x, %y;", "rounding"),
        ("cvt.rn.f32.f16 %x, %h;", "rounding"),
        ("setp.lt.b32 %p, %x, %y;", "'.lt'"),
        ("setp.ltu.u32 %p, %x, %y;", "'.ltu'"),
        ("ld.global.u32 %x, %l;", "brackets"),
        ("ld.global.v2.u32 %x, [%l];", "2 registers"),
        ("ld.global.v3.u32 %x, [%l];", "'.v3'"),
        ("ld.u32 %x, [o];", "Param"),
        ("st.param.u32 [o], %x;", "can be written"),
        ("st.global.u32 [%x], %y;", "64 bits"),
        ("shfl.bfly.b32 %x, %y, 1, 31;", "'.bfly'"),
        ("bra NOWHERE;", "'NOWHERE'"),
        ("call nothing;", "'nothing'"),
        ("call k, (%o);", "'k'"),
        ("mma.sync.aligned.m16n8k99.row.col.f32.f16.f16.f32 {%x}, {%x}, {%x}, {%x};", "m16n8k16"),
        ("bar.sync;", "a barrier"),
        ("@%x bra END; END:", "a predicate"),
        (".reg .b32 %i;", "'%i' again"),
        ("L: L: ret;", "'L' again"),
        (".local .b8 big[1099511627776];", "local memory"),
        (".local .b8 big[99999999999999];", "2^40"),
        (".shared .b8 big[300000];", "shared memory"),
        ("mov.u32 %x, %f9;", "'%f9'"),
        ("mov.u32 %x, %f01;", "'%f01'"),
        ("wmma.load.a.sync %x;", "'wmma'"),
    ];
    for (body, expected) in wrong {
        rejected(&kernel(body), expected);
        // The error names the line, and shows the instruction.
        let error = parse(&kernel(&format!("\n\n{body}"))).unwrap_err().to_string();
        assert!(error.contains("line 9") || body.contains(".local") || body.contains(".shared"), "{error}");
    }
}

#[test]
fn modules_are_checked() {
    let head = ".version 8.0\n.target sm_80\n.address_size 64\n";
    rejected(&kernel("ret;").replace("8.0", "99.1"), "at most version");
    rejected(&kernel("ret;").replace(".address_size 64", ".address_size 32"), "64 bits");
    rejected("\u{7f}ELF", ".version");
    rejected("", "the end of the text");
    rejected(&format!("{head}.func a() {{ call b; ret; }} .func b() {{ call a; ret; }}"), "recursion");
    rejected(&format!("{head}.func a() {{ call a; ret; }} .entry k() {{ call a; ret; }}"), "recursion");
    rejected(
        &format!("{head}.entry a() {{ bra L; ret; }} .entry b() {{ L: ret; }}"),
        "a label of this function",
    );
    rejected(&format!("{head}.entry a() {{ ret; }} .entry a() {{ ret; }}"), "'a' again");
    rejected(&format!("{head}.global .u32 v[2] = {{1, 2, 3}};"), "elements");
    rejected(&format!("{head}.global .u64 v = nothing;"), "'v'");
    rejected(&format!("{head}.extern .global .u32 v;"), "another");
    rejected(&format!("{head}.extern .func f(); .entry k() {{ call f; ret; }}"), "'f'");
    rejected(&format!("{head}.reqntid 4;"), "a known directive");
    rejected(&format!("{head}.entry a() {{ {} ret; }}", "{".repeat(1000)), "nested");
    rejected(
        &format!("{head}.entry a() {{ .reg .b32 %r<4000000000>; mov.u32 %r4000000000, 1; ret; }}"),
        "'%r4000000000'",
    );
    let limits = Limits { text_bytes: 100, ..Limits::default() };
    assert!(Module::parse_ptx(&[b' '; 101], &limits).unwrap_err().to_string().contains("at most 100 bytes"));
    let huge = vec![b' '; 100 << 20];
    assert!(Module::parse_ptx(&huge, &Limits::default()).unwrap_err().to_string().contains("bytes"));
    let many = format!("{head}.entry a() {{ .reg .b32 %r<4000000000>; mov.b32 %r3999999999, 1; ret; }}");
    assert_eq!(parse(&many).unwrap().functions()[0].instructions, 2);
}

#[test]
fn text_truncated_or_changed_anywhere_ends_in_an_error_or_runs() {
    let texts = [include_str!("ptx/rms.ptx"), include_str!("cuda/matrix.ptx")];
    for text in texts {
        for end in 0..text.len() {
            let reached = exercise(&text.as_bytes()[..end]);
            assert!(
                reached == Reached::Nothing
                    || !text[..end].contains("entry")
                    || text[end..].trim().is_empty(),
                "{end} bytes are accepted"
            );
        }
        let mut random = fastrand::Rng::with_seed(3);
        let mut ran = 0;
        for _ in 0..1500 {
            let mut bytes = text.as_bytes().to_vec();
            for _ in 0..random.usize(1..4) {
                let (at, from) = (random.usize(..bytes.len()), random.usize(..bytes.len() - 8));
                match random.u8(..12) {
                    0 => bytes[at] = random.u8(b' '..b'~'),
                    1 => drop(bytes.drain(at..(at + 4).min(bytes.len()))),
                    2 => drop(bytes.splice(at..at, text.bytes().skip(from).take(8).collect::<Vec<_>>())),
                    // Other registers, offsets and sizes.
                    _ => {
                        if let Some(digit) = bytes[at..].iter_mut().find(|it| it.is_ascii_digit()) {
                            *digit = random.u8(b'0'..=b'9');
                        }
                    }
                }
            }
            ran += usize::from(matches!(exercise(&bytes), Reached::Run { .. }));
        }
        assert!(ran > 100, "only {ran} changed texts ran");
    }
}

/// Findings of a kernel on a binding of 44 bytes in an allocation of 256, and on one that is only read.
fn findings(body: &str, checks: Checks, threads: u32, blocks: u32) -> Vec<Finding> {
    let text = kernel(body).replace("(.param .u64 o)", "(.param .u64 o, .param .u64 r)");
    let image = Image::load(Arc::new(parse(&text).unwrap_or_else(|it| panic!("{it}")))).unwrap();
    let memory = HostMemory::allocate(1024).unwrap();
    let region = |index: u64, is_writable| Region {
        address: (index + 1) << 32,
        length: 44,
        slack: 20,
        memory: &memory,
        offset: 64 + index * 512,
        is_writable,
    };
    let regions = [region(0, true), region(1, false)];
    let arguments: Vec<u8> = regions.iter().flat_map(|it| it.address.to_le_bytes()).collect();
    let launch = Launch {
        function: 0,
        grid: [blocks, 1, 1],
        block: [threads, 1, 1],
        dynamic_shared_bytes: 0,
        arguments: &arguments,
        regions: &regions,
        checks,
        budget: Some(1_000_000),
    };
    let dispatch = Dispatch::new(&image, &launch).unwrap();
    let mut all = Some(0..dispatch.blocks());
    dispatch.run(&mut || all.take(), &|| false).unwrap();
    let beside = memory.bytes(memory.whole()).unwrap();
    assert!(
        beside[..64].iter().chain(&beside[108..]).all(|it| *it == 0),
        "bytes beside the region were written"
    );
    dispatch.report().findings
}

#[test]
fn accesses_are_checked_and_named() {
    let found = findings("st.global.u32 [%l], %i;", Checks::default(), 13, 2);
    assert_eq!(found.len(), 1);
    let it = &found[0];
    assert_eq!(
        (it.kind, it.target, it.offset, it.bytes),
        (FindingKind::WriteOutOfBounds, Target::Region(0), 44, 4)
    );
    assert_eq!((it.block, it.thread, it.line, it.count), ([0; 3], [11, 0, 0], 7, 4));
    let text = it.to_string();
    let expected = "write out of bounds of 4 bytes at offset 44 of binding 0: function 'k', block (0, 0, 0), thread \
                    (11, 0, 0), line 7: st.global.u32 [%l], %i; 4 times";
    assert_eq!(text, expected);
    let kinds = |body: &str| {
        let found = findings(body, Checks::default(), 1, 1);
        found.iter().map(|it| (it.kind, it.target, it.offset)).collect::<Vec<_>>()
    };
    let first = Target::Region(0);
    // Of 16 bytes at offset 32, four are beyond the binding, within the granule of its allocation.
    assert_eq!(
        kinds("ld.global.v4.u32 {%f0, %f1, %f2, %f3}, [%o+32];"),
        [(FindingKind::ReadInSlack, first, 32)]
    );
    assert!(FindingKind::ReadInSlack.is_note());
    assert_eq!(kinds("ld.global.u32 %x, [%o+64];"), [(FindingKind::ReadOutOfBounds, first, 64)]);
    assert_eq!(kinds("ld.global.u32 %x, [%o-4];"), [(FindingKind::ReadOutOfBounds, first, -4)]);
    assert_eq!(kinds("ld.global.u32 %x, [%o+2];"), [(FindingKind::Misaligned, first, 2)]);
    assert_eq!(kinds("ld.global.u32 %x, [64];"), [(FindingKind::ReadOutOfBounds, Target::Nothing, 64)]);
    assert_eq!(kinds("atom.global.add.u32 %x, [%o+44], 1;"), [(FindingKind::WriteOutOfBounds, first, 44)]);
    assert_eq!(
        kinds("ld.param.u64 %l, [r]; st.global.u32 [%l], 1;"),
        [(FindingKind::ReadOnly, Target::Region(1), 0)]
    );
    assert_eq!(
        kinds(".shared .u32 v[4]; st.shared.u32 [v+16], 1;"),
        [(FindingKind::WriteOutOfBounds, Target::Shared, 16)]
    );
    assert_eq!(
        kinds(".local .u32 v; ld.local.u32 %x, [v+4];"),
        [(FindingKind::ReadOutOfBounds, Target::Local, 4)]
    );
    assert_eq!(kinds("ld.param.u32 %x, [o+16];"), [(FindingKind::ReadOutOfBounds, Target::Arguments, 16)]);
}

#[test]
fn uninitialized_memory_is_found() {
    let checks = Checks { uninitialized: true, ..Checks::default() };
    let body = ".shared .u32 v[2]; .local .u32 w[2]; st.shared.u32 [v], 1; ld.shared.u32 %x, [v]; \
                ld.shared.u32 %x, [v+4]; st.local.u32 [w+4], 1; ld.local.u32 %x, [w]; ld.local.u32 %x, [w+4];";
    let found = findings(body, checks, 1, 2);
    let found: Vec<_> = found.iter().map(|it| (it.kind, it.target, it.offset, it.count)).collect();
    let kind = FindingKind::Uninitialized;
    assert_eq!(found, [(kind, Target::Shared, 4, 2), (kind, Target::Local, 0, 2)]);
    assert_eq!(findings(body, Checks::default(), 1, 2), []);
}

#[test]
fn races_are_found_by_byte_and_only_if_values_change() {
    let checks = Checks { races: true, ..Checks::default() };
    let count = |body: &str, threads, blocks| findings(body, checks, threads, blocks).len().min(1);
    // Threads of two warps write different values, then the same, then different bytes of one word.
    assert_eq!(count("st.global.u32 [%o], %i;", 64, 1), 1);
    assert_eq!(count("st.global.u32 [%o], 0;", 64, 1), 0);
    assert_eq!(
        count(
            "setp.lt.u32 %p, %i, 44; cvt.u64.u32 %l, %i; add.u64 %l, %l, %o; @%p st.global.u8 [%l], %i;",
            64,
            1
        ),
        0
    );
    // Two blocks, of which one writes what the other reads.
    let body = "mov.u32 %x, %ctaid.x; setp.eq.u32 %p, %x, 0; @%p ld.global.u32 %y, [%o]; @!%p st.global.u32 [%o], 5;";
    assert_eq!(count(body, 1, 2), 1);
    assert_eq!(count(&body.replace("5;", "0;"), 1, 2), 0);
    // A barrier orders the threads of a block, but not blocks.
    let body = "setp.eq.u32 %p, %i, 0; @%p st.global.u32 [%o], 5; bar.sync 0; ld.global.u32 %y, [%o];";
    assert_eq!((count(body, 64, 1), count(&body.replace("bar.sync 0;", ""), 64, 1)), (0, 1));
    assert_eq!(count(&body.replace("5;", "%x;").replace("setp", "mov.u32 %x, %ctaid.x; setp"), 64, 2), 1);
    // Shared memory, between warps and within one.
    let body = ".shared .u32 v[64]; mov.u32 %x, v; mad.lo.u32 %x, %i, 4, %x; add.u32 %y, %i, 1; st.shared.u32 [%x], %y; \
                SYNC xor.b32 %x, %x, MASK; ld.shared.u32 %y, [%x];";
    let with = |sync: &str, mask: &str| count(&body.replace("SYNC", sync).replace("MASK", mask), 64, 1);
    assert_eq!(
        [with("", "128"), with("", "4"), with("bar.sync 0;", "128"), with("bar.warp.sync -1;", "4")],
        [1, 1, 0, 0]
    );
    assert_eq!(with("bar.warp.sync -1;", "128"), 1);
}

/// Whether a race is found in a kernel of some threads and blocks.
fn races(body: &str, threads: u32, blocks: u32) -> bool {
    let checks = Checks { races: true, ..Checks::default() };
    let found = findings(body, checks, threads, blocks);
    assert!(found.iter().all(|it| it.kind == FindingKind::Race), "{found:?}");
    !found.is_empty()
}

#[test]
fn atomic_operations_race_with_other_accesses_only() {
    let init = ".shared .u32 v[2]; setp.eq.u32 %p, %i, 0; @%p st.shared.u32 [v], 7;";
    let add = "atom.shared.add.u32 %x, [v], 1;";
    let read = "ld.shared.u32 %y, [v];";
    for (sync, threads) in [("bar.warp.sync -1;", 32), ("bar.sync 0;", 64)] {
        assert!(!races(&format!("{init} {sync} {add} {sync} {read}"), threads, 2), "{sync}");
        assert!(races(&format!("{init} {add} {sync} {read}"), threads, 1), "{sync}: a write, then atomics");
        assert!(races(&format!("{init} {sync} {add} {read}"), threads, 1), "{sync}: atomics, then reads");
        assert!(races(&format!("{init} {sync} {read} {add}"), threads, 1), "{sync}: reads, then atomics");
        let store = "@%p st.shared.u32 [v], 9;";
        assert!(races(&format!("{init} {sync} {add} {store}"), threads, 1), "{sync}: atomics, then a write");
        assert!(!races(&format!("{init} {sync} {add} {sync} {store}"), threads, 1), "{sync}");
    }
    // Global memory, within a block and between blocks.
    let add = "atom.global.add.u32 %x, [%o], 1;";
    assert!(!races(add, 64, 3));
    assert!(!races("red.global.add.u32 [%o], 1; atom.global.cas.b32 %x, [%o], 1, 2;", 64, 3));
    for other in ["ld.global.u32 %y, [%o];", "st.global.u32 [%o], 77;"] {
        let split = |first: &str, second: &str, by: &str| {
            format!("{by} setp.eq.u32 %p, %x, 0; @%p bra A; {first} ret; A: {second}")
        };
        for by in ["mov.u32 %x, %i;", "shr.u32 %x, %i, 5;"] {
            assert!(
                races(&split(add, other, by), 64, 1) && races(&split(other, add, by), 64, 1),
                "{other} {by}"
            );
        }
        for (first, second) in [(add, other), (other, add)] {
            assert!(races(&split(first, second, "mov.u32 %x, %ctaid.x;"), 1, 2), "{other}");
        }
        assert!(!races(&format!("{add} bar.sync 0; setp.eq.u32 %p, %i, 0; @%p {other}"), 64, 1), "{other}");
    }
}

#[test]
fn what_many_read_is_written_after_they_synchronize() {
    let body = ".shared .u32 v[64]; mov.u32 %x, v; mad.lo.u32 %x, %i, 4, %x; st.shared.u32 [%x], %i; SYNC\n\
                ld.shared.u32 %y, [v]; THEN setp.eq.u32 %p, %i, LANE; add.u32 %y, %y, 5; @%p st.shared.u32 [v], %y;";
    let with = |sync: &str, then: &str, lane: &str, threads| {
        races(&body.replace("SYNC", sync).replace("THEN", then).replace("LANE", lane), threads, 2)
    };
    for lane in ["0", "9"] {
        assert!(!with("bar.warp.sync -1;", "bar.warp.sync -1;", lane, 32));
        assert!(!with("bar.warp.sync -1;", "shfl.sync.idx.b32 %f0, %i, 0, 31, -1;", lane, 20));
        assert!(with("bar.warp.sync -1;", "", lane, 32));
        assert!(!with("bar.sync 0;", "bar.sync 0;", lane, 64));
        assert!(with("bar.sync 0;", "bar.warp.sync -1;", lane, 64), "the other warp read it");
        // Half of the warp synchronizes, and the other half read as well.
        assert!(with("bar.warp.sync -1;", "setp.lt.u32 %p, %i, 16; @%p bar.warp.sync 0xffff;", lane, 32));
    }
    // Of one warp, only some read, and these synchronize.
    let body = ".shared .u32 v; setp.eq.u32 %p, %i, 0; @%p st.shared.u32 [v], 7; bar.warp.sync -1;\n\
                setp.lt.u32 %q, %i, 16; @!%q bra OUT; ld.shared.u32 %y, [v]; bar.warp.sync 0xffff;\n\
                @%p st.shared.u32 [v], 8; OUT:";
    assert!(!races(body, 32, 1));
    assert!(races(
        &body
            .replace("0xffff", "0x00ff")
            .replace("bar.warp.sync 0x00ff", "setp.lt.u32 %q, %i, 8; @%q bar.warp.sync 0xff"),
        32,
        1
    ));
    // What the halves of a warp know of each other, they know by a common lane.
    let chain = ".shared .u32 v; setp.eq.u32 %p, %i, 0; @%p st.shared.u32 [v], 7; setp.lt.u32 %q, %i, 16; @%q bar.warp.sync 0xffff;\n\
                 setp.ge.u32 %q, %i, 15; @%q bar.warp.sync 0xffff8000; setp.eq.u32 %p, %i, 31; @%p ld.shared.u32 %y, [v];";
    assert!(!races(chain, 32, 1));
    assert!(races(&chain.replace("%i, 15;", "%i, 16;").replace("0xffff8000", "0xffff0000"), 32, 1));
}

#[test]
fn partial_barriers_order_those_that_take_part() {
    // All threads read or write, two of three warps meet, and one thread writes.
    let body = "setp.eq.u32 %p, %i, FIRST; @%p st.global.u32 [%o], 5; setp.lt.u32 %q, %i, 64; @%q bar.sync 1, 64;\n\
                setp.eq.u32 %p, %i, SECOND; @%p ld.global.u32 %y, [%o];";
    let with =
        |first: &str, second: &str| races(&body.replace("FIRST", first).replace("SECOND", second), 96, 1);
    assert_eq!(
        [with("0", "33"), with("40", "3"), with("0", "70"), with("70", "0")],
        [false, false, true, true]
    );
    let body = "ld.global.u32 %y, [%o]; setp.lt.u32 %q, %i, 64; @%q bar.sync 1, 64; setp.eq.u32 %p, %i, 0; @%p st.global.u32 [%o], 5;";
    assert!(races(body, 96, 1), "the third warp read it");
    assert!(!races(&body.replace("ld.global", "setp.lt.u32 %q, %i, 64; @%q ld.global"), 96, 1));
    assert!(!races(body, 64, 1));
    // Producers arrive, and only consumers are ordered after them.
    let body = "setp.lt.u32 %p, %i, 32; @%p bra PRODUCE; bar.sync 1, 64; ld.global.u32 %y, [%o]; LATE ret;\n\
                PRODUCE: setp.eq.u32 %p, %i, 0; @%p st.global.u32 [%o], 5; bar.arrive 1, 64; BACK";
    let with = |late: &str, back: &str| races(&body.replace("LATE", late).replace("BACK", back), 64, 1);
    assert!(!with("", ""));
    assert!(with("", "@%p st.global.u32 [%o], 6;"), "after it arrived");
    assert!(with("st.global.u32 [%o+4], 6;", "@%p ld.global.u32 %y, [%o+4];"), "it does not wait");
    // Two warps read what a third writes after they arrived.
    let body = "shr.u32 %x, %i, 5; setp.eq.u32 %p, %x, 2; @%p bra WRITE; ld.global.u32 %y, [%o]; bar.arrive 1, 96; AFTER ret;\n\
                WRITE: bar.sync 1, 96; setp.eq.u32 %p, %i, 64; @%p st.global.u32 [%o], 5;";
    assert!(!races(&body.replace("AFTER", ""), 96, 1));
    assert!(races(&body.replace("AFTER", "ld.global.u32 %y, [%o];"), 96, 1));
    // Two barriers of two warps each order the first and the last.
    let chain = "setp.eq.u32 %p, %i, 0; @%p st.global.u32 [%o], 5; shr.u32 %x, %i, 5; setp.lt.u32 %q, %x, 2; @%q bar.sync 1, 64;\n\
                 setp.gt.u32 %q, %x, 0; @%q bar.sync 2, 64; setp.eq.u32 %p, %i, 95; @%p ld.global.u32 %y, [%o];";
    assert!(!races(chain, 96, 1));
    assert!(races(&chain.replace("@%q bar.sync 2, 64;", ""), 96, 1));
    // A barrier with a count of all threads orders all, and steps within warps stay apart from it.
    assert!(!races(
        "setp.eq.u32 %p, %i, 0; @%p st.global.u32 [%o], 5; bar.sync 3, 64; ld.global.u32 %y, [%o];",
        64,
        1
    ));
}

/// Two regions on the same memory, one of which may only be read.
#[test]
fn regions_that_show_the_same_memory_race() {
    let text = kernel(
        "ld.param.u64 %l, [r]; shr.u32 %x, %i, 5; setp.eq.u32 %p, %x, 0; SYNC @%p st.global.u32 [%o+AT], 5; \
                       @!%p ld.global.u32 %y, [%l+4];",
    )
    .replace("(.param .u64 o)", "(.param .u64 o, .param .u64 r)");
    let run = |at: &str, offset: u64, is_writable: bool| {
        let image =
            Image::load(Arc::new(parse(&text.replace("SYNC", "").replace("AT", at)).unwrap())).unwrap();
        let memory = Arc::new(HostMemory::allocate(256).unwrap());
        let part = HostMemory::part(&memory, rehal_base::Range { offset, length: 128 }).unwrap();
        let region = |address, memory, is_writable| Region {
            address,
            length: 128,
            slack: 0,
            memory,
            offset: 0,
            is_writable,
        };
        let small = Region { length: 4, offset: 16, ..region((3 << 32) + 16, &memory, false) };
        let regions = [region(1 << 32, &memory, true), region((2 << 32) + offset, &part, is_writable), small];
        let arguments: Vec<u8> = regions[..2].iter().flat_map(|it| it.address.to_le_bytes()).collect();
        let launch = Launch {
            function: 0,
            grid: [1; 3],
            block: [64, 1, 1],
            dynamic_shared_bytes: 0,
            arguments: &arguments,
            regions: &regions,
            checks: Checks::all(),
            budget: Some(1_000_000),
        };
        let dispatch = Dispatch::new(&image, &launch).unwrap();
        let mut all = Some(0..1);
        dispatch.run(&mut || all.take(), &|| false).unwrap();
        dispatch.report().findings.len()
    };
    for is_writable in [true, false] {
        assert_eq!(
            [run("4", 0, is_writable), run("8", 0, is_writable), run("68", 64, is_writable)],
            [1, 0, 1]
        );
        assert_eq!(run("4", 64, is_writable), 0);
    }
}

/// The check allocates memory for what is accessed, and ends a launch that would take more than its limit.
#[test]
fn the_memory_of_the_check_of_races_is_limited() {
    let body = "mov.u32 %x, %ctaid.x; mad.lo.u32 %x, %x, 32, %i; mul.lo.u32 %x, %x, STEP; cvt.u64.u32 %l, %x; add.u64 %l, %l, %o; st.global.u32 [%l], %x;";
    let run = |step: &str, blocks, shadow_bytes| {
        let checks = Checks { races: true, shadow_bytes, ..Checks::default() };
        let run = Run { grid: [blocks, 1, 1], buffers: vec![vec![0; 4 << 20]], checks, ..Run::default() };
        run.on(&kernel(&body.replace("STEP", step))).map(|it| it.report.findings)
    };
    assert_eq!(run("4", 32, 1 << 20).unwrap(), []);
    assert_eq!(run("4", 32768, 64 << 20).unwrap(), []);
    for (step, blocks, limit) in [("4", 32768, 16 << 20), ("4096", 32, 16 << 20), ("4", 1, 100)] {
        let fault = run(step, blocks, limit).unwrap_err();
        assert_eq!(fault.cause, rehal_simt::Cause::ShadowMemory);
        assert!(fault.to_string().contains("turn that check off"), "{fault}");
    }
}

/// Addresses in registers of 32 bits are computed in 32 bits.
#[test]
fn short_addresses_wrap() {
    let body = ".shared .u32 v[4]; .local .u32 w[4]; st.shared.u32 [v+8], 5; mov.u32 %x, 16; ld.shared.u32 %y, [%x+-8]; \
                mov.u32 %x, -4; ld.shared.u32 %f0, [%x+12]; add.u32 %y, %y, %f0; st.local.u32 [w+4], 7; mov.u32 %x, -16; \
                ld.local.u32 %f0, [%x+20]; add.u32 %y, %y, %f0; st.global.u32 [%l], %y;";
    let run = Run { block: [1, 1, 1], buffers: vec![vec![0; 4]], ..Run::default() };
    let done = run.on(&kernel(body)).unwrap();
    assert_eq!((done.report.findings, done.buffers[0].clone()), (vec![], vec![17, 0, 0, 0]));
    // Below zero is at the end of the space, which is outside.
    let found =
        findings(".shared .u32 v[4]; mov.u32 %x, 0; ld.shared.u32 %y, [%x+-4];", Checks::default(), 1, 1);
    let found: Vec<_> = found.iter().map(|it| (it.kind, it.target, it.offset)).collect();
    assert_eq!(found, [(FindingKind::ReadOutOfBounds, Target::Shared, 0xffff_fffc)]);
}

#[test]
fn barriers_that_threads_do_not_reach_together_are_found() {
    let checks = Checks { barriers: true, ..Checks::default() };
    let shown =
        |body: &str| findings(body, checks, 64, 1).iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(shown("setp.eq.u32 %p, %i, 3; @%p bra L; L: bar.sync 0;"), [""; 0]);
    let found = shown("setp.eq.u32 %p, %i, 3; @%p bra L; bar.sync 1; ret; L: bar.sync 1;");
    let expected =
        "divergent barrier 1: function 'k', block (0, 0, 0), thread (3, 0, 0), line 7: L: bar.sync 1";
    assert_eq!(found, [expected]);
    assert_eq!(shown("setp.gt.u32 %p, %i, 40; @%p ret; bar.sync 0;").len(), 1);
    assert_eq!(shown("setp.lt.u32 %p, %i, 32; @%p bar.sync 2, 32;"), [""; 0]);
}

#[test]
fn launches_are_checked() {
    let text = kernel("ret;").replace("{\n", ".maxntid 64, 2, 1 {\n");
    let image = Image::load(Arc::new(parse(&text).unwrap())).unwrap();
    let launch = Launch {
        function: 0,
        grid: [1; 3],
        block: [32, 1, 1],
        dynamic_shared_bytes: 0,
        arguments: &[0; 8],
        regions: &[],
        checks: Checks::default(),
        budget: None,
    };
    let refused = |launch: &Launch<'_>, expected: &str| {
        let error = Dispatch::new(&image, launch).err().expect("an error").report();
        assert!(error.contains(expected), "'{expected}' is not in: {error}");
    };
    assert!(Dispatch::new(&image, &launch).is_ok());
    refused(&Launch { function: 3, ..launch }, "does not exist");
    refused(&Launch { block: [129, 1, 1], ..launch }, "allows 128");
    refused(&Launch { block: [0, 1, 1], ..launch }, "none is 0");
    refused(&Launch { block: [1024, 1024, 64], ..launch }, "at most 1024");
    refused(&Launch { grid: [1, 65_536, 1], ..launch }, "65535");
    refused(&Launch { arguments: &[0; 7], ..launch }, "7 bytes of arguments");
    refused(&Launch { dynamic_shared_bytes: 1 << 20, ..launch }, "shared memory");
    let memory = HostMemory::allocate(64).unwrap();
    let region = Region { address: 64, length: 64, slack: 0, memory: &memory, offset: 0, is_writable: true };
    refused(&Launch { regions: &[region, Region { address: 100, ..region }], ..launch }, "overlap");
    refused(&Launch { regions: &[Region { offset: 1, ..region }], ..launch }, "exceed");
    refused(&Launch { regions: &[Region { address: 1 << 56, ..region }], ..launch }, "window");
    // A grid of 2^31 blocks and more starts, and is stopped.
    let huge = Launch { grid: [i32::MAX as u32, 65_535, 65_535], ..launch };
    let dispatch = Dispatch::new(&image, &huge).unwrap();
    let mut all = Some(0..dispatch.blocks());
    let asked = std::cell::Cell::new(0);
    let fault = dispatch.run(&mut || all.take(), &|| asked.replace(asked.get() + 1) == 1000).unwrap_err();
    assert_eq!(fault.cause, rehal_simt::Cause::Stopped);
    let required = kernel("ret;").replace("{\n", ".reqntid 16 {\n");
    let image = Image::load(Arc::new(parse(&required).unwrap())).unwrap();
    assert!(Dispatch::new(&image, &launch).err().unwrap().report().contains("requires [16, 1, 1]"));
}

#[test]
fn kernels_that_end_leave_their_counts() {
    let run = Run { grid: [3, 1, 1], block: [40, 1, 1], buffers: vec![vec![0; 256]], ..Run::default() };
    let done = run.on(&kernel("setp.lt.u32 %p, %i, 8; @%p add.u32 %x, %x, 1;")).unwrap();
    assert_eq!(done.report.thread_instructions, 3 * 40 * 6);
}
