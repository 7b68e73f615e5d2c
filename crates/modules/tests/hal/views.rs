use std::sync::{Arc, Mutex};

use rehal_base::StatusCode;
use rehal_hal::{Buffer, BufferView};
use rehal_modules::hal::HalModule;
use rehal_vm::Value;
use rehal_vm::Value::{I32, I64};

use crate::program::{Program, bytes, devices, handle, i32_of, i64_of, words_of};

const F32: i32 = 0x2100_0020;
const DENSE: i32 = 1;

fn create(program: &Program, buffer: &Value, range: (i64, i64), shape: &[i64]) -> rehal_base::Result<Value> {
    let mut arguments = vec![buffer.clone(), I64(range.0), I64(range.1), I32(F32), I32(DENSE)];
    arguments.extend(shape.iter().map(|dim| I64(*dim)));
    Ok(program.call_with_spans("buffer_view.create", &arguments, &[shape.len()])?[0].clone())
}

#[test]
fn a_view_has_the_properties_it_was_created_with() {
    let program = Program::new();
    let buffer = program.words(&[1, 2, 3, 4, 5, 6]);
    let view = create(&program, &buffer, (0, 24), &[2, 3]).unwrap();
    let ask = |name: &str| program.one(name, std::slice::from_ref(&view));
    assert_eq!(i32_of(&ask("buffer_view.element_type")), F32);
    assert_eq!(i32_of(&ask("buffer_view.encoding_type")), DENSE);
    assert_eq!(i32_of(&ask("buffer_view.rank")), 2);
    let dim = |index| i64_of(&program.one("buffer_view.dim", &[view.clone(), I32(index)]));
    assert_eq!((dim(0), dim(1), dim(2), dim(-1)), (2, 3, 0, 0));
    let inside = ask("buffer_view.buffer");
    assert!(handle::<Buffer>(&inside).is_same(handle(&buffer)));

    let part = create(&program, &buffer, (8, 8), &[2]).unwrap();
    assert_eq!(words_of(&program.one("buffer_view.buffer", &[part])), [3, 4]);
    let scalar = create(&program, &buffer, (4, 4), &[]).unwrap();
    assert!(handle::<BufferView>(&scalar).shape().is_empty());
    let many = vec![1; 128];
    assert_eq!(handle::<BufferView>(&create(&program, &buffer, (0, 4), &many).unwrap()).shape().len(), 128);
}

#[test]
fn invalid_views_are_rejected() {
    let program = Program::new();
    let buffer = program.buffer(24);
    let error = create(&program, &buffer, (20, 8), &[2]).unwrap_err();
    assert_eq!(error.code(), StatusCode::OutOfRange);
    assert!(error.report().contains("source_offset=20, length=8"), "{error:?}");
    assert!(create(&program, &buffer, (0, 24), &[7]).is_err());
    assert!(create(&program, &buffer, (0, 24), &[-1, -1]).is_err());
    let error = create(&program, &buffer, (0, 24), &[1; 129]).unwrap_err();
    assert_eq!(error.code(), StatusCode::ResourceExhausted);
    assert!(create(&program, &Value::NULL, (0, 0), &[]).unwrap_err().message().contains("null"));
}

#[test]
fn traces_go_to_the_sink() {
    type Heard = (String, Vec<usize>);
    let heard: Arc<Mutex<Vec<Heard>>> = Arc::default();
    let sink = heard.clone();
    let module = HalModule::new(devices(1)).trace_to(Arc::new(move |key, views| {
        let ranks = views.iter().map(|view| view.shape().len()).collect();
        sink.lock().unwrap().push((key.to_string(), ranks));
        Ok(())
    }));
    let program = Program::over(module);
    let buffer = program.buffer(4);
    let view = create(&program, &buffer, (0, 4), &[1, 1]).unwrap();
    let arguments = [bytes("key"), view.clone(), view.clone()];
    program.call_with_spans("buffer_view.trace", &arguments, &[2]).unwrap();
    assert_eq!(*heard.lock().unwrap(), [("key".to_string(), vec![2, 2])]);
    let mut arguments = vec![bytes("key")];
    arguments.extend(vec![view.clone(); 129]);
    let error = program.call_with_spans("buffer_view.trace", &arguments, &[129]).unwrap_err();
    assert_eq!(error.message(), "too many buffer views for a single trace call");
    // Without a sink.
    Program::new().call_with_spans("buffer_view.trace", &[bytes("key"), view], &[1]).unwrap();
}
