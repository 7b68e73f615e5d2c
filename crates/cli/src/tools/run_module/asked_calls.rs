//! Calls that another process asks for: a program stays loaded, and its values are in files that both sides
//! can open.

use std::fs::{File, OpenOptions};
use std::path::PathBuf;

use rehal::program::{Function, Program, input_of_bytes};
use rehal_base::{Context, Error, Range, Result};
use rehal_devices::{MappedValue, type_of_value};
use rehal_jobs::{Asker, Worker};
use rehal_values::TensorType;
use rehal_vm::{Value, ValueKind};
use serde::{Deserialize, Serialize};

use crate::report::FailureError;

/// A request for the next call, with the outcome of the one before.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Question<'a> {
    /// The first call, of one of these functions.
    Loaded(Vec<Declared<'a>>),
    /// The values of the results lie in the file of the call, one after the other; `None` is null.
    Returned(Vec<Option<Passed>>),
    /// The call has failed.
    Failed(FailureError<'a>),
}

/// A function.
#[derive(Serialize)]
struct Declared<'a> {
    name: &'a str,
    declaration: Option<&'a str>,
    inputs: Vec<&'static str>,
    results: Vec<&'static str>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    Call(Call),
    Stop,
}

#[derive(Deserialize)]
struct Call {
    function: String,
    /// As the results of [`Question::Returned`].
    inputs: Vec<Option<Passed>>,
    /// The file with the bytes of the inputs.
    from: PathBuf,
    /// The file for the bytes of the results.
    to: PathBuf,
}

/// The offsets of results in their file are multiples of it.
const ALIGNMENT: u64 = 64;

/// The type of a value, such as `2x4xf32`, and the number of its bytes.
#[derive(Serialize, Deserialize)]
struct Passed(String, u64);

/// Calls functions of a program until no more are asked for.
pub(super) fn serve(worker: &Worker, program: &Program) -> Result<()> {
    let names: Vec<_> = program.main_module().runnable_functions().map(str::to_owned).collect();
    let functions = names.iter().map(|name| program.function(name)).collect::<Result<Vec<_>>>()?;
    let mut asker = worker.asker().map_err(|error| cannot_ask(&error))?;
    let mut answer = ask(&mut asker, &Question::Loaded(functions.iter().map(declared).collect()))?;
    while let Answer::Call(call) = answer {
        answer = match perform(program, &functions, &call) {
            Ok(returned) => ask(&mut asker, &Question::Returned(returned))?,
            Err(error) => ask(&mut asker, &Question::Failed(FailureError::new(&error)))?,
        };
    }
    Ok(())
}

fn ask(asker: &mut Asker, question: &Question<'_>) -> Result<Answer> {
    asker.ask(question).map_err(|error| cannot_ask(&error))
}

fn cannot_ask(error: &std::io::Error) -> Error {
    Error::io("asking for a call", error)
}

fn declared(function: &Function) -> Declared<'_> {
    let names = |kinds: &[ValueKind]| kinds.iter().map(|kind| kind.name()).collect();
    Declared {
        name: function.name(),
        declaration: function.declaration(),
        inputs: names(&function.argument_kinds()),
        results: names(function.result_kinds()),
    }
}

fn perform(program: &Program, functions: &[Function], call: &Call) -> Result<Vec<Option<Passed>>> {
    let function = functions.iter().find(|it| it.name() == call.function);
    let function = function
        .ok_or_else(|| Error::not_found(format!("the module has no function '{}'", call.function)))?;
    program.scope("execute", || {
        let inputs = inputs(program, function, call)?;
        let mut results = program.call(function, inputs)?;
        program.to_host(&mut results)?;
        let to = OpenOptions::new().write(true).open(&call.to);
        let to = to.map_err(|error| Error::io("opening the file of results", &error))?;
        let mut at = 0;
        results.iter().map(|value| pass(value, &to, &mut at)).collect()
    })
}

fn inputs(program: &Program, function: &Function, call: &Call) -> Result<Vec<Value>> {
    function.check_count(call.inputs.len())?;
    let bytes =
        std::fs::read(&call.from).map_err(|error| Error::io("reading the inputs of a call", &error))?;
    let mut rest = &bytes[..];
    let mut values = Vec::new();
    for (index, (kind, input)) in function.argument_kinds().into_iter().zip(&call.inputs).enumerate() {
        let place = || format!("input {index}");
        let Some(Passed(tensor_type, length)) = input else {
            values.push(Value::NULL);
            continue;
        };
        let taken = usize::try_from(*length).ok().and_then(|length| rest.split_at_checked(length));
        let Some((bytes, others)) = taken else {
            return Err(Error::out_of_range("the inputs of a call are too short").context(place()));
        };
        rest = others;
        let tensor_type = TensorType::parse(tensor_type).context(place)?;
        values.push(input_of_bytes(program, kind, &tensor_type, bytes).context(place)?);
    }
    Ok(values)
}

/// Writes the bytes of a value at an offset of the file, which is then that of the next one.
fn pass(value: &Value, to: &File, at: &mut u64) -> Result<Option<Passed>> {
    if matches!(value, Value::Ref(reference) if reference.is_null()) {
        return Ok(None);
    }
    let tensor_type = type_of_value(value)?;
    let length = tensor_type.size_bytes()?;
    let mapped = MappedValue::map(value)?;
    let written = mapped.memory()?.write_file_at(to, *at, Range { offset: 0, length })?;
    written.map_err(|error| Error::io("writing the results of a call", &error))?;
    *at = (*at + length).next_multiple_of(ALIGNMENT);
    Ok(Some(Passed(tensor_type.to_string(), length)))
}
