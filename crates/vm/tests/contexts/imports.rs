//! A program that imports from another program, both of which import from Rust.

use crate::host::{Host, program};
use rehal_base::{Error, StatusCode};
use rehal_vm::{Call, Context, Export, Flow, Module, NativeModule, Result, State, Value};

/// A module with the library's name and other functions, each of which fails.
struct Impostor(&'static [Export]);

/// One has another signature.
const CALLED_ANOTHER_WAY: &[Export] = &[Export::new("count", "0_i"), Export::new("turn", "0CIrD_r")];
/// The modules that the client imports from.
const COMPLETE: &[Export] = &[
    Export::new("count", "0_i"),
    Export::new("turn", "0IrFirf_riFrfI"),
    Export::new("multiply_add", "0IFF_IF"),
    Export::new("end_with", "0i_v"),
    Export::new("descend", "0i_i"),
    Export::new("linger", "0ir_ri"),
];

impl NativeModule for Impostor {
    fn name(&self) -> &str {
        "library"
    }

    fn version(&self) -> u32 {
        7
    }

    fn exports(&self) -> &[Export] {
        self.0
    }

    fn new_state(&self) -> Result<State> {
        Ok(Box::new(()))
    }

    fn call(&self, _state: &State, _ordinal: usize, _call: &mut Call<'_>) -> Result<Flow> {
        Err(Error::new(StatusCode::Unavailable, "nothing works here"))
    }
}

#[test]
fn initialisers_run_in_order_and_deinitialisers_in_reverse() {
    let host = Host::default();
    let context = host.context(&["library", "client"]).unwrap();
    // The client's runs after the library's, which counts from 100.
    assert_eq!(host.notes(), [10, 20, 101]);
    let results = context.function("client.count").unwrap().call(&[]).unwrap();
    assert!(matches!(results[..], [Value::I32(102)]));
    // Another context has a state of its own.
    let other = host.context(&["library", "client"]).unwrap();
    assert_eq!(host.notes()[3..], [10, 20, 101]);
    drop(context);
    // The client's can still call the library.
    assert_eq!(host.notes()[6..], [103, 19]);
    drop(other);
    assert_eq!(host.notes()[8..], [102, 19]);
    assert_eq!(host.states(), 0);
}

#[test]
fn values_of_every_kind_cross_modules() {
    let host = Host::default();
    let context = host.context(&["library", "client"]).unwrap();
    let function = context.function("client.values_cross").unwrap();
    let results = function.call(&[Value::I64(-5_000_000_000), Value::I32(-3)]).unwrap();
    let [Value::I32(-3), Value::I64(doubled), Value::F32(quarter), Value::F64(square)] = results[..] else {
        panic!("{results:?}")
    };
    assert_eq!((doubled, quarter, square), (-10_000_000_000, 0.25, 2.25));
}

#[test]
fn optional_imports_may_be_unresolved() {
    let host = Host::default();
    let context = host.context(&["library", "client"]).unwrap();
    let presence = context.function("client.presence").unwrap().call(&[]).unwrap();
    assert!(matches!(presence[..], [Value::I32(1), Value::I32(0), Value::I32(0)]), "{presence:?}");
    let present = context.function("client.call_present").unwrap();
    assert!(matches!(present.call(&[Value::I32(4)]).unwrap()[..], [Value::I32(1)]));
    assert!(matches!(present.call(&[Value::I32(5)]).unwrap()[..], [Value::I32(0)]));
    let error = context.function("client.call_absent").unwrap().call(&[Value::I32(4)]).unwrap_err();
    assert_eq!(error.code(), StatusCode::NotFound);
    assert!(error.message().contains("'library.missing'"), "{}", error.message());
    assert!(error.context_lines().join("\n").contains("client.call_absent+"));
}

#[test]
fn an_error_names_the_functions_of_both_modules() {
    let host = Host::default();
    let context = host.context(&["library", "client"]).unwrap();
    let function = context.function("client.end_in_library").unwrap();
    for _ in 0..2 {
        let error = function.call(&[Value::I32(5)]).unwrap_err();
        assert_eq!((error.code(), error.message()), (StatusCode::NotFound, "the library refuses"));
        let lines = error.context_lines();
        let names: Vec<&str> = lines.iter().map(|line| line.split_once('+').unwrap().0).collect();
        // Functions that are not exported have no name.
        let [inner, second, third, outer] = names[..] else { panic!("{names:?}") };
        assert_eq!((second, outer), ("library.end_with", "client.end_in_library"));
        assert!(inner.starts_with("library.@") && third.starts_with("client.@"), "{names:?}");
        // With 0 it succeeds.
        assert!(function.call(&[Value::I32(0)]).unwrap().is_empty());
    }
}

#[test]
fn an_unresolved_import_is_named() {
    let host = Host::default();
    let error = host.context(&["client"]).err().unwrap();
    assert_eq!(error.code(), StatusCode::NotFound);
    assert!(error.message().contains("'library.count'"), "{}", error.message());
    assert!(error.message().contains("0_i"), "{}", error.message());
    // Later modules do not count, only earlier ones.
    assert!(host.context(&["client", "library"]).err().unwrap().message().contains("'library.count'"));
    assert_eq!((host.states(), host.notes().len()), (0, 0));
}

#[test]
fn a_signature_mismatch_names_both_conventions() {
    let host = Host::default();
    let mut modules = host.modules(&["client"]);
    modules.insert(1, Module::native(Impostor(CALLED_ANOTHER_WAY)).unwrap());
    let error = Context::new(&modules).err().unwrap();
    for part in ["'library.turn'", "0IrFirf_riFrfI", "0CIrD_r", "version 7"] {
        assert!(error.message().contains(part), "{}", error.message());
    }
    // If two modules share a name, the last one wins.
    modules.insert(2, program("library"));
    assert!(Context::new(&modules).is_ok());
    assert_eq!(host.states(), 0);
}

/// Modules that were initialised are deinitialised, including the one that failed.
#[test]
fn a_failing_initialiser_fails_the_context() {
    let host = Host::default();
    let mut modules = host.modules(&["library", "client"]);
    modules.insert(2, Module::native(Impostor(COMPLETE)).unwrap());
    let error = Context::new(&modules).err().unwrap();
    assert_eq!((error.code(), error.message()), (StatusCode::Unavailable, "nothing works here"));
    let lines = error.context_lines().join("\n");
    assert!(lines.contains("library.count") && lines.contains("client.__init+"), "{lines}");
    assert_eq!((host.notes(), host.states()), (vec![10, 20, 19], 0));
}
