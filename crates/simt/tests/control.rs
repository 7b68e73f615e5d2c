//! Divergence, barriers, calls, and kernels that cannot end.

#![forbid(unsafe_code)]
#![allow(clippy::precedence, clippy::manual_is_multiple_of, reason = "formulas as the PTX ISA has them")]

mod common;

use common::Run;
use rehal_simt::Cause;

/// A module with a kernel of one binding, in which `%i` is the thread and `%o` the address of its element of
/// 32 bits.
fn kernel(declarations: &str, body: &str) -> String {
    format!(
        ".version 8.0\n.target sm_90\n.address_size 64\n{declarations}\n.visible .entry k(.param .u64 o) {{\n\
         .reg .b32 %i, %x, %y, %z, %w, %s<10>; .reg .b64 %o, %l; .reg .pred %p, %q, %r;\n\
         mov.u32 %i, %tid.x; ld.param.u64 %o, [o]; mad.wide.u32 %o, %i, 4, %o;\n{body}\nret; }}"
    )
}

fn run(declarations: &str, body: &str, threads: u32) -> Result<Vec<u32>, rehal_simt::Fault> {
    let buffers = vec![vec![0; threads as usize * 4]];
    let run = Run { block: [threads, 1, 1], buffers, budget: Some(2_000_000), ..Run::default() };
    let done = run.on(&kernel(declarations, body))?;
    assert_eq!(done.report.findings, []);
    Ok(done.buffers[0].chunks(4).map(|it| u32::from_le_bytes(it.try_into().unwrap())).collect())
}

#[test]
fn lanes_loop_for_different_times_in_a_partial_warp() {
    let body = "mov.u32 %x, 0; mov.u32 %y, 0;\nLOOP: setp.ge.u32 %p, %y, %i; @%p bra DONE;\n\
                and.b32 %z, %y, 1; setp.eq.u32 %q, %z, 0; @%q bra EVEN; add.u32 %x, %x, 10; bra.uni NEXT;\n\
                EVEN: add.u32 %x, %x, 1;\nNEXT: add.u32 %y, %y, 1; bra LOOP;\nDONE: st.global.u32 [%o], %x;";
    let found = run("", body, 45).unwrap();
    for (thread, found) in found.iter().enumerate() {
        let thread = thread as u32;
        assert_eq!(*found, thread.div_ceil(2) + thread / 2 * 10, "thread {thread}");
    }
}

#[test]
fn halves_of_a_warp_exchange_after_they_join() {
    // The lanes take different ways, and meet at a shuffle.
    let body = "and.b32 %z, %i, 1; setp.eq.u32 %p, %z, 0; @%p bra A; mul.lo.u32 %x, %i, 3; bra J;\n\
                A: mul.lo.u32 %x, %i, 5;\nJ: shfl.sync.bfly.b32 %y, %x, 1, 31, -1; st.global.u32 [%o], %y;";
    for (thread, found) in run("", body, 64).unwrap().iter().enumerate() {
        let other = thread as u32 ^ 1;
        assert_eq!(*found, other * if other % 2 == 0 { 5 } else { 3 });
    }
    // The block after the shuffle is before that in which some lanes still are.
    let body = "setp.lt.u32 %p, %i, 7; @%p bra LATE; bra JOIN;\n\
                OUT: st.global.u32 [%o], %y; ret;\n\
                JOIN: shfl.sync.idx.b32 %y, %i, 3, 31, -1; bra OUT;\n\
                LATE: add.u32 %i, %i, 100; bra JOIN;";
    assert_eq!(run("", body, 32).unwrap(), [103; 32]);
    // Each half by its own mask, while they are apart.
    let body = "setp.lt.u32 %p, %i, 16; @%p bra LOW; shfl.sync.idx.b32 %y, %i, 20, 31, 0xffff0000; bra OUT;\n\
                LOW: shfl.sync.idx.b32 %y, %i, 2, 31, 0xffff;\nOUT: st.global.u32 [%o], %y;";
    let found = run("", body, 32).unwrap();
    assert_eq!((&found[..16], &found[16..]), ([2; 16].as_slice(), [20; 16].as_slice()));
}

#[test]
fn lanes_that_ended_keep_no_one_waiting() {
    let body = "setp.gt.u32 %p, %i, 40; @%p ret; shfl.sync.bfly.b32 %y, %i, 2, 31, -1; bar.sync 0; \
                st.global.u32 [%o], %y;";
    let found = run("", body, 64).unwrap();
    assert!(found[..41].iter().enumerate().all(|(it, found)| it == 40 || *found == it as u32 ^ 2));
    assert_eq!(found[41..], [0; 23]);
    // Lanes that wait are released by others that end.
    let body = "setp.lt.u32 %p, %i, 4; @%p bra WAIT; bra END;\nWAIT: shfl.sync.bfly.b32 %y, %i, 1, 31, -1; \
                st.global.u32 [%o], %y;\nEND: ret;";
    assert_eq!(run("", body, 32).unwrap()[..5], [1, 0, 3, 2, 0]);
}

#[test]
fn barriers_count_threads() {
    // Lane 0 of each warp arrives later than the rest.
    let body = "setp.eq.u32 %p, %s0, 0; and.b32 %z, %i, 31; setp.eq.u32 %p, %z, 0; @%p bra FIRST;\n\
                JOIN: bar.sync 0; ld.shared.u32 %x, [v]; st.global.u32 [%o], %x; ret;\n\
                FIRST: mov.u32 %y, 7; st.shared.u32 [v], %y; bra JOIN;";
    assert_eq!(run(".shared .u32 v;", body, 96).unwrap(), [7; 96]);
    // Half of the warps produce, the other half waits: bar.arrive and bar.sync with a count.
    let body = "setp.lt.u32 %p, %i, 32; @%p bra PRODUCE; bar.sync 1, 64; sub.u32 %z, %i, 32; mul.lo.u32 %z, %z, 4; \
                mov.u32 %w, v; add.u32 %z, %z, %w; ld.shared.u32 %x, [%z]; st.global.u32 [%o], %x; ret;\n\
                PRODUCE: mul.lo.u32 %z, %i, 4; mov.u32 %w, v; add.u32 %z, %z, %w; add.u32 %x, %i, 50; \
                st.shared.u32 [%z], %x; bar.arrive 1, 64;";
    let found = run(".shared .u32 v[32];", body, 64).unwrap();
    assert!(found[32..].iter().enumerate().all(|(lane, it)| *it == lane as u32 + 50), "{found:?}");
    let body = "setp.lt.u32 %p, %i, 10; bar.red.popc.u32 %x, 2, %p; bar.red.and.pred %q, 3, %p; \
                barrier.cta.red.or.aligned.pred %r, 4, %p; selp.u32 %y, 100, 0, %q; selp.u32 %z, 1000, 0, %r; \
                add.u32 %x, %x, %y; add.u32 %x, %x, %z; st.global.u32 [%o], %x;";
    assert_eq!(run("", body, 70).unwrap(), [1010; 70]);
}

#[test]
fn a_deadlock_names_where_each_warp_is() {
    let body = "setp.lt.u32 %p, %i, 40; @%p bra WAIT;\nSPIN: bar.sync 1; ret;\nWAIT: bar.sync 0; ret;";
    let fault = run("", body, 64).unwrap_err();
    assert_eq!(fault.cause, Cause::Deadlock);
    let text = fault.to_string();
    for part in [
        "warp 0 lanes 0xffffffff waits at barrier 0, which 40 threads reached",
        "bar.sync 0",
        "bar.sync 1",
        "line ",
    ] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    // A barrier that half a warp never reaches.
    let body =
        "setp.lt.u32 %p, %i, 16; @%p bra A; bar.sync 0; bra B;\nA: vote.sync.all.pred %q, %p, -1;\nB: ret;";
    let fault = run("", body, 32).unwrap_err();
    assert_eq!(fault.cause, Cause::Deadlock);
    assert!(
        fault
            .to_string()
            .contains("waits for lanes 0xffff0000, which its mask names, to execute the same instruction"),
        "{fault}"
    );
}

#[test]
fn endless_loops_end_with_the_budget_or_when_stopped() {
    let fault = run("", "LOOP: add.u32 %x, %x, 1; bra LOOP;", 64).unwrap_err();
    assert_eq!(fault.cause, Cause::Budget);
    assert!(fault.to_string().contains("warp 1"), "{fault}");
    let fault = run("", "LOOP: bar.sync 0; bra LOOP;", 64).unwrap_err();
    assert_eq!(fault.cause, Cause::Budget);
    let fault = run("", "setp.lt.u32 %p, %i, 5; @%p trap;", 32).unwrap_err();
    assert_eq!(fault.cause, Cause::Trap);
}

#[test]
fn threads_that_wait_for_each_other_make_progress() {
    // A lock that lane after lane takes, while the rest of the warp spins at a lesser place.
    let body = "SPIN: atom.shared.cas.b32 %x, [v], 0, 1; setp.ne.u32 %p, %x, 0; @%p bra SPIN; bra WORK;\n\
                WORK: ld.shared.u32 %y, [v+4]; add.u32 %y, %y, 1; st.shared.u32 [v+4], %y; \
                atom.shared.exch.b32 %x, [v], 0; st.global.u32 [%o], %y;";
    let mut found = run(".shared .u32 v[2];", body, 40).unwrap();
    found.sort_unstable();
    assert!(found.iter().enumerate().all(|(index, it)| *it == index as u32 + 1), "{found:?}");
    // A warp spins on a flag that another one sets.
    let body = "setp.lt.u32 %p, %i, 32; @!%p bra SET;\nSPIN: ld.volatile.shared.u32 %x, [v]; setp.eq.u32 %q, %x, 0; \
                @%q bra SPIN; st.global.u32 [%o], %x; ret;\nSET: mov.u32 %y, 9; st.shared.u32 [v], %y;";
    assert_eq!(run(".shared .u32 v;", body, 64).unwrap()[..32], [9; 32]);
}

#[test]
fn calls_are_predicated_nested_and_diverge() {
    let functions = ".func (.reg .u32 %r) twice (.reg .u32 %a) { add.u32 %r, %a, %a; ret; }\n\
                     .func (.param .b32 r) work (.param .b32 a, .param .align 8 .b8 s[16]) {\n\
                     .reg .u32 %x, %y; .reg .u64 %l; .reg .pred %p; ld.param.u32 %x, [a]; ld.param.u64 %l, [s+8];\n\
                     cvt.u32.u64 %y, %l; setp.gt.u32 %p, %x, 20; @%p bra BIG; call (%x), twice, (%x); bra DONE;\n\
                     BIG: add.u32 %x, %x, 1000;\nDONE: add.u32 %x, %x, %y; st.param.u32 [r], %x; ret; }\n";
    let body = "mov.u32 %x, 5; and.b32 %z, %i, 1; setp.eq.u32 %p, %z, 0;\n\
                { .param .b32 a; .param .align 8 .b8 s[16]; .param .b32 r; st.param.u32 [a], %i; mov.u64 %l, 3; \
                st.param.u64 [s+8], %l; @%p call (r), work, (a, s); @%p ld.param.u32 %x, [r]; }\n\
                st.global.u32 [%o], %x;";
    let found = run(functions, body, 40).unwrap();
    for (thread, found) in found.iter().enumerate() {
        let thread = thread as u32;
        let called = if thread > 20 { thread + 1000 } else { 2 * thread } + 3;
        assert_eq!(*found, if thread % 2 == 0 { called } else { 5 }, "thread {thread}");
    }
}

#[test]
fn branches_by_an_index() {
    let body = "rem.u32 %x, %i, 3;\nT: .branchtargets A, B, C;\nbrx.idx %x, T;\nA: mov.u32 %y, 10; bra OUT;\n\
                B: mov.u32 %y, 20; bra OUT;\nC: mov.u32 %y, 30;\nOUT: st.global.u32 [%o], %y;";
    let found = run("", body, 40).unwrap();
    assert!(found.iter().enumerate().all(|(thread, it)| *it == thread as u32 % 3 * 10 + 10), "{found:?}");
    let fault = run("", "T: .branchtargets A;\nbrx.idx %i, T;\nA: ret;", 2).unwrap_err();
    assert!(fault.to_string().contains("brx.idx by 1 of a list of 1"), "{fault}");
}

#[test]
fn redux_and_match_of_parts_of_a_warp() {
    let body = "and.b32 %z, %i, 3; setp.eq.u32 %p, %z, 0; @!%p bra OUT; match.any.sync.b32 %x, %i, 0x11111111; \
                redux.sync.add.u32 %y, %i, 0x11111111; add.u32 %x, %x, %y; st.global.u32 [%o], %x;\nOUT: ret;";
    let found = run("", body, 32).unwrap();
    for (lane, found) in found.iter().enumerate() {
        assert_eq!(*found, if lane % 4 == 0 { (1 << lane) + 112 } else { 0 }, "lane {lane}");
    }
}

#[test]
fn results_do_not_depend_on_how_blocks_are_shared() {
    let text = "\n.version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 o) {\n.reg .b32 %x, %y, %i;\n\
                .reg .b64 %o; ld.param.u64 %o, [o]; mov.u32 %x, %ctaid.x; mov.u32 %y, %nctaid.x; mov.u32 %i, %ctaid.y;\n\
                mad.lo.u32 %x, %i, %y, %x; mov.u32 %i, %tid.y; mov.u32 %y, %ntid.x; mad.lo.u32 %x, %x, 6, %i;\n\
                mov.u32 %i, %tid.x; mad.lo.u32 %x, %x, %y, %i; mad.wide.u32 %o, %x, 4, %o; st.global.u32 [%o], %x; ret; }";
    let run =
        Run { grid: [5, 7, 1], block: [4, 6, 1], buffers: vec![vec![0; 35 * 24 * 4]], ..Run::default() };
    for threads in [1, 2, 5] {
        let done = Run { threads, ..run.clone() }.on(text).unwrap();
        let expected: Vec<u8> = (0..35 * 24_u32).flat_map(u32::to_le_bytes).collect();
        assert_eq!(done.buffers[0], expected);
        assert_eq!(done.report.thread_instructions, 35 * 24 * 13);
    }
}

/// A thread of each block adds 1 to a counter in global memory under a lock.
#[test]
fn a_lock_in_global_memory_excludes_blocks_of_other_workers() {
    let spin = "SPIN: atom.global.cas.b32 %x, [%o], 0, 1; setp.ne.u32 %p, %x, 0; @%p bra SPIN; membar.gl;\n\
                ld.volatile.global.u32 %y, [%o+4]; add.u32 %y, %y, 1; st.volatile.global.u32 [%o+4], %y; membar.gl;\n";
    let releases = ["st.volatile.global.u32 [%o], 0;", "atom.global.exch.b32 %x, [%o], 0;"];
    for (release, word) in releases.iter().flat_map(|it| [(it, "b32"), (it, "b64")]) {
        // The lock has 32 or 64 bits.
        let lock = match word {
            "b32" => spin.to_owned(),
            _ => spin.replace("cas.b32 %x, [%o], 0, 1;", "cas.b64 %l, [%o+8], 0, 1; cvt.u32.u64 %x, %l;"),
        };
        let release = match word {
            "b32" => (*release).to_owned(),
            _ => release.replace("u32 [%o]", "u64 [%o+8]").replace("b32 %x, [%o]", "b64 %l, [%o+8]"),
        };
        let body = format!(
            "mov.u32 %z, 0;\nAGAIN: {lock} {release} add.u32 %z, %z, 1; setp.lt.u32 %p, %z, 3000; @%p bra AGAIN;"
        );
        let run = Run {
            grid: [4, 1, 1],
            block: [1, 1, 1],
            buffers: vec![vec![0; 16]],
            threads: 2,
            budget: Some(2_000_000_000),
            ..Run::default()
        };
        let done = run.on(&kernel("", &body)).unwrap_or_else(|it| panic!("{release}: {it}"));
        assert_eq!(done.buffers[0][..8], [0, 0, 0, 0, 0xe0, 0x2e, 0, 0], "{release}");
    }
}

/// Stores of one block before it releases a flag are seen by the block of another worker that acquires it.
#[test]
fn a_release_is_seen_by_an_acquire_of_another_worker() {
    let orders = [
        ("st.release.gpu.global.u32 [%o], %z;", "ld.acquire.gpu.global.u32 %x, [%o];"),
        (
            "fence.acq_rel.gpu; st.relaxed.gpu.global.u32 [%o], %z;",
            "ld.relaxed.gpu.global.u32 %x, [%o]; membar.gl;",
        ),
    ];
    for (release, acquire) in orders {
        let body = format!(
            "mov.u32 %z, %ctaid.x; setp.eq.u32 %p, %z, 0; mov.u32 %z, 1; @!%p bra WAIT;\n\
             MORE: st.global.u32 [%o+64], %z; {release}\n\
             TAKEN: ld.volatile.global.u32 %x, [%o+128]; setp.ne.u32 %p, %x, %z; @%p bra TAKEN;\n\
             add.u32 %z, %z, 1; setp.le.u32 %p, %z, 500; @%p bra MORE; ret;\n\
             WAIT: {acquire} setp.ne.u32 %p, %x, %z; @%p bra WAIT; ld.global.u32 %y, [%o+64];\n\
             setp.ne.u32 %p, %y, %z; @%p trap; st.volatile.global.u32 [%o+128], %z;\n\
             add.u32 %z, %z, 1; setp.le.u32 %p, %z, 500; @%p bra WAIT;"
        );
        let buffers = vec![vec![0; 192]];
        let run = Run {
            grid: [2, 1, 1],
            block: [1, 1, 1],
            buffers,
            threads: 2,
            budget: Some(4_000_000_000),
            ..Run::default()
        };
        run.on(&kernel("", &body)).unwrap_or_else(|it| panic!("{release}: {it}"));
    }
}

/// Lanes that execute an instruction at once with different masks are one group for each mask.
#[test]
fn lanes_with_different_masks_are_different_groups() {
    let select = "setp.lt.u32 %p, %i, 12; selp.b32 %w, 0xfff, 0xfffff000, %p; and.b32 %z, %i, 1; setp.eq.u32 %q, %z, 1;\n";
    let (low, high) = (0xfff_u32, 0xffff_f000_u32);
    let odd = 0xaaaa_aaaa;
    let own = |lane: u32| if lane < 12 { low } else { high };
    let check = |body: &str, f: &dyn Fn(u32) -> u32| {
        let found = run("", &format!("{select}{body} st.global.u32 [%o], %x;"), 32).unwrap();
        for (lane, found) in found.iter().enumerate() {
            assert_eq!(*found, f(lane as u32), "{body}, lane {lane}");
        }
    };
    check("vote.sync.ballot.b32 %x, %q, %w;", &|lane| own(lane) & odd);
    check("setp.eq.u32 %r, %i, 3; vote.sync.any.pred %r, %r, %w; selp.u32 %x, 1, 0, %r;", &|lane| {
        (lane < 12).into()
    });
    check("setp.lt.u32 %r, %i, 12; vote.sync.all.pred %r, %r, %w; selp.u32 %x, 1, 0, %r;", &|lane| {
        (lane < 12).into()
    });
    check("setp.lt.u32 %r, %i, 20; vote.sync.uni.pred %r, %r, %w; selp.u32 %x, 1, 0, %r;", &|lane| {
        (lane < 12).into()
    });
    check("redux.sync.add.u32 %x, %i, %w;", &|lane| if lane < 12 { 66 } else { 496 - 66 });
    check("redux.sync.max.s32 %x, %i, %w;", &|lane| if lane < 12 { 11 } else { 31 });
    check("redux.sync.min.u32 %x, %i, %w;", &|lane| if lane < 12 { 0 } else { 12 });
    check("match.any.sync.b32 %x, %z, %w;", &|lane| own(lane) & if lane % 2 == 1 { odd } else { !odd });
    check("shr.u32 %z, %i, 4; match.all.sync.b32 %x|%r, %z, %w;", &|lane| if lane < 12 { low } else { 0 });
    check("shfl.sync.bfly.b32 %x, %i, 1, 31, %w;", &|lane| lane ^ 1);
    check("bar.warp.sync %w; mov.u32 %x, %w;", &own);
    // Some lanes are late, so that one group waits and the other continues.
    let late = "setp.eq.u32 %r, %i, 20; mov.u32 %y, 0; @%r bra LATE; bra JOIN;\nOUT: st.global.u32 [%o], %x; ret;\n\
                JOIN: redux.sync.add.u32 %x, %y, %w; bra OUT;\nLATE: mov.u32 %y, 5; bra JOIN;";
    let found = run("", &format!("{select}{late}"), 32).unwrap();
    assert_eq!((&found[..12], &found[12..]), ([0; 12].as_slice(), [5; 20].as_slice()));
    // Lanes beyond a partial warp have ended.
    let found =
        run("", &format!("{select}redux.sync.add.u32 %x, %i, %w; st.global.u32 [%o], %x;"), 16).unwrap();
    assert_eq!((found[0], found[15]), (66, 12 + 13 + 14 + 15));
    // A lane that its own mask does not name.
    let fault = run("", "vote.sync.ballot.b32 %x, %p, 0xff;", 32).unwrap_err();
    assert!(fault.to_string().contains("lanes 0xffffffff execute an instruction for lanes 0xff"), "{fault}");
}

/// The lanes that a mask names execute the same instruction, or none of them continues.
#[test]
fn lanes_of_a_mask_at_different_instructions_are_a_deadlock() {
    for instruction in ["shfl.sync.bfly.b32 %x, %i, 1, 31, -1;", "vote.sync.ballot.b32 %x, %p, -1;"] {
        let body = format!(
            "setp.lt.u32 %p, %i, 16; @%p bra LOW; {instruction} bra OUT;\nLOW: {instruction}\nOUT: ret;"
        );
        let fault = run("", &body, 32).unwrap_err();
        assert_eq!(fault.cause, Cause::Deadlock);
        let text = fault.to_string();
        for (own, other) in [("0xffff", "0xffff0000"), ("0xffff0000", "0xffff")] {
            let expected = format!(
                "lanes {own} waits for lanes {other}, which its mask names, to execute the same instruction, at line"
            );
            assert!(text.contains(&expected), "{text}");
        }
    }
}

/// Faults that were planted in these went unnoticed.
#[test]
fn details_of_shuffles_votes_loads_and_atomic_operations() {
    let check = |body: &str, f: &dyn Fn(u32) -> u32| {
        let found = run(".shared .align 8 .u64 v;", &format!("{body} st.global.u32 [%o], %x;"), 32).unwrap();
        for (lane, found) in found.iter().enumerate() {
            assert_eq!(*found, f(lane as u32), "{body}, lane {lane}");
        }
    };
    // Segments of 8 lanes: a source beyond the segment is the lane itself, and the predicate is false.
    let shuffle = |mode: &str, by: u32, clamp: u32| {
        format!(
            "shfl.sync.{mode}.b32 %x|%p, %i, {by}, {clamp}, -1; selp.u32 %y, 100, 0, %p; add.u32 %x, %x, %y;"
        )
    };
    let valid = |is_valid: bool, source: u32, lane: u32| if is_valid { source + 100 } else { lane };
    for by in [1, 5, 7, 9] {
        check(&shuffle("bfly", by, 0x181f), &|lane| valid((lane ^ by) <= (lane | 7), lane ^ by, lane));
        check(&shuffle("idx", by, 0x181f), &|lane| valid(true, lane / 8 * 8 + by % 8, lane));
        check(&shuffle("down", by, 0x181f), &|lane| valid(lane % 8 + by < 8, lane + by, lane));
        check(&shuffle("up", by, 0x1800), &|lane| valid(lane % 8 >= by, lane.wrapping_sub(by), lane));
    }
    check("setp.eq.u32 %p, %i, 99; vote.sync.uni.pred %q, %p, -1; selp.u32 %x, 1, 0, %q;", &|_| 1);
    check("sub.u32 %y, %i, 16; redux.sync.min.s32 %x, %y, -1;", &|_| -16_i32 as u32);
    check("sub.u32 %y, %i, 16; redux.sync.max.s32 %x, %y, -1;", &|_| 15);
    check("sub.u32 %y, %i, 16; redux.sync.max.u32 %x, %y, -1;", &|_| u32::MAX);
    // Elements of a vector in their order, and extended by their sign.
    let store = "mov.u32 %x, 0x80ff7f01; st.global.u32 [%o], %x;";
    for (index, expected) in [1, 0x7f, 0xff, 0x80].into_iter().enumerate() {
        let of = |kind: &str| {
            format!("{store} ld.global.v4.{kind} {{%s0, %s1, %s2, %s3}}, [%o]; mov.u32 %x, %s{index};")
        };
        check(&of("u8"), &|_| expected);
        check(&of("s8"), &|_| expected as u8 as i8 as u32);
    }
    check(&format!("{store} ld.global.s16 %x, [%o+2];"), &|_| 0xffff_80ff);
    check(&format!("{store} ld.global.u16 %x, [%o+2];"), &|_| 0x80ff);
    check(&format!("{store} ld.global.s32 %l, [%o]; shr.u64 %l, %l, 32; cvt.u32.u64 %x, %l;"), &|_| u32::MAX);
    let atomic = |operation: &str, value: u32| {
        format!(
            "mov.u32 %x, 5; st.global.u32 [%o], %x; atom.global.{operation} %y, [%o], {value}; ld.global.u32 %x, [%o];"
        )
    };
    for (value, decremented, incremented) in [(3, 3, 0), (5, 4, 0), (9, 4, 6)] {
        check(&atomic("dec.u32", value), &|_| decremented);
        check(&atomic("inc.u32", value), &|_| incremented);
    }
    let max = "setp.eq.u32 %p, %i, 0; @%p st.shared.u64 [v], -1; bar.warp.sync -1; atom.shared.KIND %l, [v], 1; \
               bar.warp.sync -1; ld.shared.u32 %x, [v];";
    check(&max.replace("KIND", "max.u64"), &|_| u32::MAX);
    check(&max.replace("KIND", "max.s64"), &|_| 1);
    check(&max.replace("KIND", "min.s64"), &|_| u32::MAX);
    check(&max.replace("KIND", "min.u64"), &|_| 1);
}
