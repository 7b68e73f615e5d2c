//! Preparation and reflection of executables.

use rehal_base::{Error, Result, StatusCode};

use crate::check::{equal, holds, refused};
use crate::harness::{Harness, noise};
use crate::script::{Call, Route, Script};
use crate::test::List;
use crate::{Capability, Kernel};

pub(super) fn add(list: &mut List, format: &'static str) {
    let needs = &[Capability::Executables];
    let name = |what: &str| format!("executable/{format}/{what}");
    list.add(name("functions_are_described"), needs, move |it| functions_are_described(it, format));
    list.add(name("lookup_by_name"), needs, move |it| lookup_by_name(it, format));
    list.add(name("function_out_of_range_is_refused"), needs, move |it| out_of_range(it, format));
    list.add(name("format_is_recognised"), needs, move |it| format_is_recognised(it, format));
    list.add(name("prepared_twice"), needs, move |it| prepared_twice(it, format));
    list.add(name("bytes_may_go_after_prepare"), needs, move |it| bytes_may_go(it, format));
    list.add(name("unaligned_bytes"), needs, move |it| unaligned_bytes(it, format));
    list.add(name("all_kernels_prepare"), needs, move |it| all_kernels_prepare(it, format));
    list.add(name("unknown_format_is_refused"), needs, move |it| unknown_format(it, format));
    list.add(name("garbage_is_refused"), needs, move |it| garbage(it, format));
    list.add(name("truncated_is_refused"), needs, move |it| truncated(it, format));
}

/// The name of a function, and its number of constants and bindings.
type Function = (&'static str, u16, u16);

/// Kernels and their functions.
const FUNCTIONS: [(Kernel, &[Function]); 5] = [
    (Kernel::Affine, &[("affine", 2, 2)]),
    (Kernel::Constants, &[("write_constants", 4, 1)]),
    (Kernel::EntryPoints, &[("negate", 0, 2), ("twice", 0, 2), ("sum", 0, 3)]),
    (Kernel::Indirect, &[("write_count", 3, 1)]),
    (Kernel::Workgroups, &[("write_ids", 0, 1)]),
];

fn functions_are_described(harness: &Harness<'_>, format: &str) -> Result<()> {
    for (kernel, functions) in FUNCTIONS {
        let executable = harness.prepare(kernel, format)?;
        equal("number of functions", executable.functions().len(), functions.len())?;
        for (ordinal, (name, constants, bindings)) in (0..).zip(functions) {
            let function = executable.function(ordinal)?;
            equal("name", function.name.as_str(), *name)?;
            equal("constants", function.constant_count, *constants)?;
            equal("bindings", function.binding_count, *bindings)?;
        }
    }
    Ok(())
}

fn lookup_by_name(harness: &Harness<'_>, format: &str) -> Result<()> {
    for (kernel, functions) in FUNCTIONS {
        let executable = harness.prepare(kernel, format)?;
        for (ordinal, (name, ..)) in (0..).zip(functions) {
            equal("ordinal", executable.lookup(name)?, ordinal)?;
        }
        for name in ["", "no_such_function", "AFFINE", "affin", "negate "] {
            refused("an unknown name", executable.lookup(name), &[StatusCode::NotFound])?;
        }
    }
    Ok(())
}

fn out_of_range(harness: &Harness<'_>, format: &str) -> Result<()> {
    let executable = harness.prepare(Kernel::EntryPoints, format)?;
    for ordinal in [3, 100, u32::MAX] {
        refused("a function", executable.function(ordinal), &[StatusCode::OutOfRange])?;
    }
    Ok(())
}

fn format_is_recognised(harness: &Harness<'_>, format: &str) -> Result<()> {
    // Code that is valid in two formats may be detected as either; the named format must work.
    for (kernel, _) in FUNCTIONS {
        let data = harness.subject().kernel(kernel, format)?;
        match harness.device.infer_executable_format(&data) {
            Some(inferred) => drop(harness.prepare_bytes(&data, inferred, &[])?),
            None => return Err(Error::not_found(format!("the format of {kernel:?} is not recognised"))),
        }
    }
    for data in [&[][..], b"?", &noise(1000, 2), &[0; 64]] {
        equal("the format of unknown data", harness.device.infer_executable_format(data), None)?;
    }
    Ok(())
}

/// Runs `affine` once, to check that the executable works.
fn check_affine(harness: &Harness<'_>, executable: &rehal_hal::Executable) -> Result<()> {
    let input = harness.words(&core::array::from_fn::<u32, 16, _>(|index| index as u32))?;
    let output = harness.words(&[0; 16])?;
    let call = Call::new(executable, 0).constants(&[3, 10]).bind(&input).bind(&output);
    Script::new(harness, Route::Queue).call(call).run()?;
    let expected = (0..16).map(|index| index * 3 + 10).collect();
    equal("the numbers", harness.read_words(&output)?, expected)
}

fn prepared_twice(harness: &Harness<'_>, format: &str) -> Result<()> {
    let first = harness.prepare(Kernel::Affine, format)?;
    let second = harness.prepare(Kernel::Affine, format)?;
    holds("two executables are distinct", !first.is_same(&second))?;
    check_affine(harness, &second)?;
    drop(second);
    check_affine(harness, &first)
}

fn bytes_may_go(harness: &Harness<'_>, format: &str) -> Result<()> {
    let mut data = harness.subject().kernel(Kernel::Affine, format)?;
    let executable = harness.prepare_bytes(&data, format, &[])?;
    data.fill(0xcc);
    drop(data);
    check_affine(harness, &executable)
}

/// Captures contain code at any alignment.
fn unaligned_bytes(harness: &Harness<'_>, format: &str) -> Result<()> {
    let data = harness.subject().kernel(Kernel::Affine, format)?;
    for shift in [1, 2, 3, 7] {
        let shifted = [&vec![0; shift], &data[..]].concat();
        check_affine(harness, &harness.prepare_bytes(&shifted[shift..], format, &[])?)?;
    }
    Ok(())
}

fn all_kernels_prepare(harness: &Harness<'_>, format: &str) -> Result<()> {
    let all: Vec<_> =
        FUNCTIONS.iter().map(|(kernel, _)| harness.prepare(*kernel, format)).collect::<Result<_>>()?;
    check_affine(harness, &all[0])
}

fn unknown_format(harness: &Harness<'_>, format: &str) -> Result<()> {
    let data = harness.subject().kernel(Kernel::Affine, format)?;
    for unknown in ["", "no-such-format", &format.to_uppercase()] {
        let outcome = harness.prepare_bytes(&data, unknown, &[]);
        holds(&format!("'{unknown}' is rejected"), outcome.is_err())?;
    }
    Ok(())
}

fn expect_refused(harness: &Harness<'_>, what: &str, data: &[u8], format: &str) -> Result<()> {
    match harness.prepare_bytes(data, format, &[]) {
        Err(error) if error.message().is_empty() => {
            Err(Error::data_loss(format!("{what} was rejected without a message")))
        }
        Err(_) => Ok(()),
        Ok(_) => Err(Error::data_loss(format!("{what} was accepted"))),
    }
}

fn garbage(harness: &Harness<'_>, format: &str) -> Result<()> {
    expect_refused(harness, "nothing", &[], format)?;
    expect_refused(harness, "zeros", &[0; 4096], format)?;
    for seed in 0..20 {
        expect_refused(harness, "noise", &noise(2000, seed), format)?;
        // A valid start followed by noise.
        let mut data = harness.subject().kernel(Kernel::Affine, format)?;
        let start = data.len().min(24);
        let rest = noise(data.len() - start, seed);
        data[start..].copy_from_slice(&rest);
        expect_refused(harness, "a kernel's first bytes followed by noise", &data, format)?;
    }
    Ok(())
}

fn truncated(harness: &Harness<'_>, format: &str) -> Result<()> {
    let data = harness.subject().kernel(Kernel::Affine, format)?;
    let half = data.len() / 2;
    let lengths = (0..half.min(128)).chain((128..half).step_by(61)).chain([half]);
    for length in lengths {
        let what = format!("the first {length} of {} bytes", data.len());
        expect_refused(harness, &what, &data[..length], format)?;
    }
    Ok(())
}
