//! A program that imports from another, and both from Rust.

use crate::host::{Host, program};
use rehal_base::StatusCode;
use rehal_vm::{Call, Context, Export, Flow, Module, NativeModule, Result, State, Value};

/// A module that has the library's name and one function of its own that is called another way.
struct Impostor;

impl NativeModule for Impostor {
    fn name(&self) -> &str {
        "library"
    }

    fn version(&self) -> u32 {
        7
    }

    fn exports(&self) -> &[Export] {
        const { &[Export::new("count", "0_i"), Export::new("turn", "0CIrD_r")] }
    }

    fn new_state(&self) -> Result<State> {
        Ok(Box::new(()))
    }

    fn call(&self, _state: &State, _ordinal: usize, _call: &mut Call<'_>) -> Result<Flow> {
        Ok(Flow::Return)
    }
}

#[test]
fn initialisers_run_in_order_and_deinitialisers_in_reverse() {
    let host = Host::default();
    let context = host.context(&["library", "client"]).unwrap();
    // The client's finds what the library's left: it is the first to count from 100.
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
fn values_of_every_kind_cross() {
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
fn optional_imports_are_there_or_not() {
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
        // Those that are not exported have no name.
        let [inner, second, third, outer] = names[..] else { panic!("{names:?}") };
        assert_eq!((second, outer), ("library.end_with", "client.end_in_library"));
        assert!(inner.starts_with("library.@") && third.starts_with("client.@"), "{names:?}");
        // With 0 it does not fail.
        assert!(function.call(&[Value::I32(0)]).unwrap().is_empty());
    }
}

#[test]
fn a_required_import_that_nobody_has_is_named() {
    let host = Host::default();
    let error = host.context(&["client"]).err().unwrap();
    assert_eq!(error.code(), StatusCode::NotFound);
    assert!(error.message().contains("'library.count'"), "{}", error.message());
    assert!(error.message().contains("0_i"), "{}", error.message());
    // Those before it count, those behind it do not.
    assert!(host.context(&["client", "library"]).err().unwrap().message().contains("'library.count'"));
    assert_eq!((host.states(), host.notes().len()), (0, 0));
}

#[test]
fn an_import_that_is_called_another_way_names_both() {
    let host = Host::default();
    let native = [Module::native(host.clone()).unwrap(), Module::native(Impostor).unwrap()];
    let [host_module, impostor] = native;
    let modules = [host_module, impostor.clone(), program("client")];
    let error = Context::new(&modules).err().unwrap();
    for part in ["'library.turn'", "0IrFirf_riFrfI", "0CIrD_r", "version 7"] {
        assert!(error.message().contains(part), "{}", error.message());
    }
    // Of two with one name the last counts.
    let modules = [modules[0].clone(), impostor, program("library"), program("client")];
    assert!(Context::new(&modules).is_ok());
    assert_eq!(host.states(), 0);
}
