//! Properties of a device.

use rehal_base::{Result, StatusCode};

use crate::check::{equal, holds, refused};
use crate::harness::Harness;
use crate::test::List;

pub(super) fn add(list: &mut List, formats: &[&'static str]) {
    list.add("device/info_names_driver_and_device", &[], names_itself);
    list.add("device/query_of_unknown_keys_is_not_found", &[], unknown_keys_are_not_found);
    list.add("device/query_matches_its_own_id", &[], matches_its_own_id);
    list.add("device/flush_of_nothing", &[], |harness| harness.device.flush(u64::MAX));
    list.add("device/devices_are_independent", &[], devices_are_independent);
    list.add("device/trim_keeps_what_is_in_use", &[], trim_keeps_what_is_in_use);
    list.add("device/unknown_executable_formats_are_not_taken", &[], unknown_formats_are_not_taken);
    for &format in formats {
        list.add(format!("device/takes_executables/{format}"), &[], move |harness| {
            holds("the format can be prepared", harness.device.can_prepare_executable(format))?;
            equal("query", harness.device.query_i64("hal.executable.format", format)?, 1)
        });
    }
}

fn names_itself(harness: &Harness<'_>) -> Result<()> {
    let info = harness.device.info();
    holds("the driver has a name", !info.driver.is_empty())?;
    holds("the device has a name", !info.name.is_empty())
}

fn unknown_keys_are_not_found(harness: &Harness<'_>) -> Result<()> {
    let keys =
        [("", ""), ("hal.device", "no such key"), ("no.such.category", "concurrency"), ("hal.device", "")];
    for (category, key) in keys {
        refused("an unknown key", harness.device.query_i64(category, key), &[StatusCode::NotFound])?;
    }
    Ok(())
}

fn matches_its_own_id(harness: &Harness<'_>) -> Result<()> {
    let query = |key: &str| harness.device.query_i64("hal.device.id", key);
    equal("any device", query("*")?, 1)?;
    equal("another device", query("no-such-device")?, 0)
}

fn devices_are_independent(harness: &Harness<'_>) -> Result<()> {
    let other = Harness::new(harness.subject())?;
    holds("two devices are distinct", !harness.device.is_same(&other.device))?;
    holds("a device equals its clone", harness.device.is_same(&harness.device.clone()))?;
    let ours = harness.buffer(&[1; 64])?;
    let theirs = other.buffer(&[2; 64])?;
    drop(other);
    equal("bytes of a dropped device's buffer", harness.read(&ours)?[0], 1)?;
    let mut bytes = [0; 64];
    theirs.read(0, &mut bytes)?;
    equal("bytes of a buffer that outlives its device", bytes, [2; 64])
}

fn trim_keeps_what_is_in_use(harness: &Harness<'_>) -> Result<()> {
    let before = harness.buffer(&[3; 64])?;
    harness.device.trim()?;
    equal("bytes of a buffer after a trim", harness.read(&before)?, vec![3; 64])?;
    let after = harness.buffer(&[4; 64])?;
    harness.device.trim()?;
    harness.device.trim()?;
    equal("bytes of a buffer allocated between trims", harness.read(&after)?, vec![4; 64])
}

fn unknown_formats_are_not_taken(harness: &Harness<'_>) -> Result<()> {
    for format in ["", "no-such-format", "embedded-elf-pdp11", "*"] {
        holds("an unknown format cannot be prepared", !harness.device.can_prepare_executable(format))?;
        equal("query", harness.device.query_i64("hal.executable.format", format)?, 0)?;
    }
    Ok(())
}
