//! Mistakes of callers: each is an error that says so.

use std::ffi::c_void;
use std::ptr;

use rehal_capi::capture::{
    rehal_capture_free, rehal_capture_info, rehal_capture_info_t, rehal_capture_open,
    rehal_capture_options_t, rehal_capture_t, rehal_plan_create, rehal_plan_free, rehal_plan_t,
};
use rehal_capi::device::{rehal_devices_free, rehal_devices_open_for_plan, rehal_devices_t};
use rehal_capi::error::{
    rehal_error_code, rehal_error_create, rehal_error_free, rehal_error_message, rehal_error_report,
    rehal_error_t,
};
use rehal_capi::fast_forward::{
    rehal_fast_forward_create, rehal_fast_forward_finish, rehal_fast_forward_free, rehal_fast_forward_repeat,
    rehal_fast_forward_restore, rehal_fast_forward_t,
};
use rehal_capi::record::{
    rehal_recorder_close, rehal_recorder_create, rehal_recorder_free, rehal_recorder_t,
};
use rehal_capi::replay::{
    rehal_host_read_t, rehal_observer_t, rehal_replay_create, rehal_replay_free, rehal_replay_run,
    rehal_replay_t,
};
use rehal_capi::structs::rehal_string_t;

const INVALID_ARGUMENT: u32 = 3;
const FAILED_PRECONDITION: u32 = 9;
const UNIMPLEMENTED: u32 = 12;
const INTERNAL: u32 = 13;
const UNAVAILABLE: u32 = 14;

fn string(text: &str) -> rehal_string_t {
    rehal_string_t::lend(text.as_bytes())
}

/// The code and the report of an error, which is freed.
fn taken(error: *mut rehal_error_t) -> (u32, String) {
    assert!(!error.is_null(), "it has not failed");
    // SAFETY: it is an error of the library, freed once.
    unsafe {
        let report = rehal_error_report(error);
        let text = String::from_utf8(report.bytes().unwrap().to_vec()).unwrap();
        let code = rehal_error_code(error);
        rehal_error_free(error);
        (code, text)
    }
}

fn done(error: *mut rehal_error_t) {
    if !error.is_null() {
        panic!("{}", taken(error).1);
    }
}

fn path() -> String {
    format!("{}/../../fixtures/captures/add4.add.local-sync.ireereplay", env!("CARGO_MANIFEST_DIR"))
}

fn open() -> *mut rehal_capture_t {
    let mut capture = ptr::null_mut();
    // SAFETY: the arguments are valid.
    unsafe { done(rehal_capture_open(string(&path()), ptr::null(), &raw mut capture)) };
    capture
}

fn empty_info() -> rehal_capture_info_t {
    // SAFETY: zeros are valid.
    let mut info: rehal_capture_info_t = unsafe { std::mem::zeroed() };
    info.size = size_of::<rehal_capture_info_t>();
    info
}

/// The fixture, ready to be replayed.
fn prepared() -> (*mut rehal_plan_t, *mut rehal_devices_t, *mut rehal_replay_t) {
    let (mut plan, mut devices, mut replay): (*mut rehal_plan_t, *mut rehal_devices_t, *mut rehal_replay_t) =
        (ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
    let capture = open();
    // SAFETY: the handles are live, and the observer is valid.
    unsafe {
        done(rehal_plan_create(capture, &raw mut plan));
        done(rehal_devices_open_for_plan(plan, string("local-sync"), &raw mut devices));
        done(rehal_replay_create(plan, devices, ptr::null(), &raw mut replay));
        rehal_capture_free(capture);
    }
    (plan, devices, replay)
}

/// Replays the fixture with an observer.
fn run(observer: &rehal_observer_t) -> *mut rehal_error_t {
    let (plan, devices, replay) = prepared();
    // SAFETY: the handles are live, and the observer is valid.
    unsafe {
        let outcome = rehal_replay_run(replay, observer);
        rehal_replay_free(replay);
        rehal_devices_free(devices);
        rehal_plan_free(plan);
        outcome
    }
}

fn observer() -> rehal_observer_t {
    // SAFETY: zeros are valid.
    let mut observer: rehal_observer_t = unsafe { std::mem::zeroed() };
    observer.size = size_of::<rehal_observer_t>();
    observer
}

unsafe extern "C-unwind" fn panics(_user: *mut c_void, read: *const rehal_host_read_t) -> *mut rehal_error_t {
    // SAFETY: the library gives a read.
    panic!("at buffer {}", unsafe { (*read).buffer_id });
}

unsafe extern "C-unwind" fn refuses(user: *mut c_void, _: *const rehal_host_read_t) -> *mut rehal_error_t {
    // SAFETY: the test gives a counter.
    unsafe { *user.cast::<u32>() += 1 };
    // SAFETY: the text is valid.
    unsafe { rehal_error_create(INVALID_ARGUMENT, string("not these bytes")) }
}

#[test]
fn a_panic_becomes_an_error_and_the_library_stays_usable() {
    let mut watching = observer();
    watching.host_read = Some(panics);
    let (code, report) = taken(run(&watching));
    assert_eq!(code, INTERNAL);
    assert!(report.contains("panic: at buffer "), "{report}");
    done(run(&observer()));
}

#[test]
fn an_error_of_a_callback_ends_the_run_and_is_its_error() {
    let mut count = 0_u32;
    let mut watching = observer();
    watching.host_read = Some(refuses);
    watching.user = (&raw mut count).cast();
    let (code, report) = taken(run(&watching));
    assert_eq!((code, count), (INVALID_ARGUMENT, 1));
    assert!(report.contains("not these bytes") && report.contains("record #"), "{report}");
}

/// The state that a callback frees, and the code of a later use.
struct Freeing {
    replay: *mut rehal_replay_t,
    scope: *mut rehal_fast_forward_t,
    later: u32,
}

unsafe extern "C-unwind" fn frees(user: *mut c_void, _: *const rehal_host_read_t) -> *mut rehal_error_t {
    // SAFETY: the test gives this, with handles that are live.
    unsafe {
        let freeing = &mut *user.cast::<Freeing>();
        if freeing.later == 0 {
            rehal_fast_forward_free(freeing.scope);
            if freeing.scope.is_null() {
                rehal_replay_free(freeing.replay);
            }
            freeing.later = match freeing.scope.is_null() {
                true => taken(rehal_replay_run(freeing.replay, ptr::null())).0,
                false => taken(rehal_fast_forward_restore(freeing.scope)).0,
            };
        }
    }
    ptr::null_mut()
}

#[test]
fn a_handle_that_is_freed_within_its_callback_is_an_error() {
    let (plan, devices, replay) = prepared();
    let mut freeing = Freeing { replay, scope: ptr::null_mut(), later: 0 };
    let mut watching = observer();
    watching.host_read = Some(frees);
    watching.user = (&raw mut freeing).cast();
    // SAFETY: the handles are live until the callback frees them, and are not used later.
    unsafe {
        let (code, report) = taken(rehal_replay_run(replay, &raw const watching));
        assert_eq!((code, freeing.later), (FAILED_PRECONDITION, FAILED_PRECONDITION));
        assert!(report.contains("the replay was freed within a callback of a call that uses it"), "{report}");
        let mut again = ptr::null_mut();
        done(rehal_replay_create(plan, devices, ptr::null(), &raw mut again));
        let mut scope = ptr::null_mut();
        done(rehal_fast_forward_create(again, string("execute"), ptr::null(), &raw mut scope));
        freeing = Freeing { replay: again, scope, later: 0 };
        watching.user = (&raw mut freeing).cast();
        done(rehal_fast_forward_restore(scope));
        let (code, report) = taken(rehal_fast_forward_repeat(scope, &raw const watching));
        assert_eq!((code, freeing.later), (FAILED_PRECONDITION, FAILED_PRECONDITION));
        assert!(report.contains("the fast-forward was freed within a callback"), "{report}");
        // The replay is another handle.
        done(rehal_replay_run(again, ptr::null()));
        rehal_replay_free(again);
        rehal_devices_free(devices);
        rehal_plan_free(plan);
    }
}

#[test]
fn a_scope_is_repeated_only_after_it_was_restored() {
    let (plan, devices, replay) = prepared();
    let mut scope = ptr::null_mut();
    // SAFETY: the handles are live.
    unsafe {
        done(rehal_fast_forward_create(replay, string("execute"), ptr::null(), &raw mut scope));
        for _ in 0..2 {
            let (code, report) = taken(rehal_fast_forward_repeat(scope, ptr::null()));
            assert_eq!(code, FAILED_PRECONDITION);
            assert!(report.contains("the scope has not been restored since it last ran"), "{report}");
            done(rehal_fast_forward_restore(scope));
            done(rehal_fast_forward_repeat(scope, ptr::null()));
        }
        done(rehal_fast_forward_finish(scope));
        rehal_fast_forward_free(scope);
        rehal_replay_free(replay);
        rehal_devices_free(devices);
        rehal_plan_free(plan);
    }
}

#[test]
fn null_and_other_handles_are_errors() {
    let capture = open();
    let mut plan = ptr::null_mut();
    // SAFETY: null, and handles of another kind, are allowed.
    unsafe {
        let (code, report) = taken(rehal_plan_create(ptr::null(), &raw mut plan));
        assert_eq!((code, plan), (INVALID_ARGUMENT, ptr::null_mut()));
        assert!(report.contains("the capture is NULL"), "{report}");
        assert_eq!(taken(rehal_plan_create(capture, ptr::null_mut())).0, INVALID_ARGUMENT);
        let (_, report) = taken(rehal_replay_run(capture.cast(), ptr::null()));
        assert!(report.contains("the replay is a handle of another kind"), "{report}");
        rehal_capture_free(capture);
        rehal_capture_free(ptr::null_mut());
        rehal_error_free(ptr::null_mut());
        assert_eq!((rehal_error_code(ptr::null()), rehal_error_message(ptr::null()).size), (0, 0));
    }
}

#[test]
#[cfg(debug_assertions)]
fn debug_builds_tell_of_a_handle_that_was_freed() {
    let capture = open();
    let mut info = empty_info();
    // SAFETY: debug builds keep the memory of freed handles.
    unsafe {
        rehal_capture_free(capture);
        let (code, report) = taken(rehal_capture_info(capture, &raw mut info));
        assert_eq!(code, FAILED_PRECONDITION);
        assert!(report.contains("the capture is used after it was freed"), "{report}");
    }
}

#[test]
fn structs_of_other_sizes_are_read_and_written_as_far_as_they_go() {
    /// A struct of a later release.
    #[repr(C)]
    struct Later {
        options: rehal_capture_options_t,
        more: u64,
    }
    let mut later =
        Later { options: rehal_capture_options_t { size: size_of::<Later>(), recover: true }, more: 0 };
    let mut capture = ptr::null_mut();
    let path = path();
    let mut info = empty_info();
    info.dispatch_count = 7;
    info.size = std::mem::offset_of!(rehal_capture_info_t, dispatch_count);
    // SAFETY: the structs have the sizes that they say.
    unsafe {
        done(rehal_capture_open(string(&path), (&raw const later).cast(), &raw mut capture));
        done(rehal_capture_info(capture, &raw mut info));
        rehal_capture_free(capture);
        later.more = 1;
        let error = rehal_capture_open(string(&path), (&raw const later).cast(), &raw mut capture);
        assert_eq!((taken(error).0, capture), (UNIMPLEMENTED, ptr::null_mut()));
        later.options.size = 0;
        let error = rehal_capture_open(string(&path), (&raw const later).cast(), &raw mut capture);
        assert_eq!(taken(error).0, INVALID_ARGUMENT);
    }
    assert!(info.record_count > 0);
    assert_eq!(info.dispatch_count, 7, "it is beyond the size");
}

#[test]
fn two_recorders_of_one_path_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("twice.ireereplay");
    let path = path.to_str().unwrap();
    let (mut first, mut second): (*mut rehal_recorder_t, *mut rehal_recorder_t) =
        (ptr::null_mut(), ptr::null_mut());
    // SAFETY: the arguments are valid.
    unsafe {
        done(rehal_recorder_create(string(path), ptr::null(), &raw mut first));
        let (code, report) = taken(rehal_recorder_create(string(path), ptr::null(), &raw mut second));
        assert_eq!((code, second), (UNAVAILABLE, ptr::null_mut()));
        assert!(report.contains("another recorder is writing to it"), "{report}");
        done(rehal_recorder_close(first));
        done(rehal_recorder_create(string(path), ptr::null(), &raw mut second));
        done(rehal_recorder_close(second));
        rehal_recorder_free(first);
        rehal_recorder_free(second);
    }
}

#[test]
fn a_capture_that_is_deleted_meanwhile_stays_readable() {
    let directory = tempfile::tempdir().unwrap();
    let copy = directory.path().join("copy.ireereplay");
    std::fs::copy(path(), &copy).unwrap();
    let (mut capture, mut plan) = (ptr::null_mut(), ptr::null_mut());
    // SAFETY: the arguments are valid.
    unsafe {
        done(rehal_capture_open(string(copy.to_str().unwrap()), ptr::null(), &raw mut capture));
        std::fs::remove_file(&copy).unwrap();
        done(rehal_plan_create(capture, &raw mut plan));
        rehal_plan_free(plan);
        rehal_capture_free(capture);
    }
}
