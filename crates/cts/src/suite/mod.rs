use crate::Test;
use crate::test::List;

mod allocator;
mod barriers;
mod bindings;
mod copies;
mod device;
mod dispatches;
mod executables;
mod files;
mod fills;
mod host_calls;
mod imports;
mod indirect;
mod mapping;
mod native;
mod ordering;
mod pipelines;
mod probe;
mod queues;
mod recording;
mod semaphores;
mod stress;
mod transients;
mod updates;

/// All tests; those of executables once for each of `formats`, the names of the executable formats that the
/// driver supports.
pub fn tests(formats: &[&'static str]) -> Vec<Test> {
    let mut list = List::default();
    device::add(&mut list, formats);
    allocator::add(&mut list);
    imports::add(&mut list);
    mapping::add(&mut list);
    semaphores::add(&mut list);
    fills::add(&mut list);
    updates::add(&mut list);
    copies::add(&mut list);
    recording::add(&mut list);
    bindings::add(&mut list);
    barriers::add(&mut list);
    queues::add(&mut list, formats);
    ordering::add(&mut list);
    transients::add(&mut list);
    host_calls::add(&mut list);
    files::add(&mut list);
    stress::add(&mut list);
    for format in formats {
        executables::add(&mut list, format);
        dispatches::add(&mut list, format);
        indirect::add(&mut list, format);
        pipelines::add(&mut list, format);
        native::add(&mut list, format);
    }
    list.finish()
}
