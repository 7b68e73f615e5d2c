//! The export table: names, calling conventions and functions, sorted by name.

use rehal_base::Result;
use rehal_vm::{Call, Export, Flow};

use super::*;

/// The implementation of an export.
pub(super) type Function = fn(&HalState, &mut Call<'_>) -> Result<Flow>;

/// The return types of table functions: most complete immediately.
trait Outcome {
    fn flow(self) -> Flow;
}

impl Outcome for () {
    fn flow(self) -> Flow {
        Flow::Return
    }
}

impl Outcome for Flow {
    fn flow(self) -> Flow {
        self
    }
}

macro_rules! exports {
    ($($name:literal $convention:literal $function:path;)*) => {
        /// Names and conventions, by ordinal.
        pub(super) const EXPORTS: &[Export] = &[$(Export::new($name, $convention)),*];

        /// Functions, by ordinal.
        pub(super) const FUNCTIONS: &[Function] = &[$(|state, call| $function(state, call).map(Outcome::flow)),*];
    };
}

exports! {
    "allocator.allocate" "0rIiiI_r" allocator::allocate;
    "allocator.import" "0riIiirII_r" allocator::import;
    "allocator.select" "0iiICrID_rI" allocator::select;
    "buffer.allocation.discard" "0r_i" buffer::discard;
    "buffer.allocation.is_terminal" "0r_i" buffer::is_terminal;
    "buffer.allocation.preserve" "0r_v" buffer::preserve;
    "buffer.assert" "0rrrIii_v" assert::buffer;
    "buffer.length" "0r_I" buffer::length;
    "buffer.load" "0rIi_i" buffer::load;
    "buffer.store" "0irIi_v" buffer::store;
    "buffer.subspan" "0rII_r" buffer::subspan;
    "buffer_view.assert" "0rriiCID_v" assert::buffer_view;
    "buffer_view.buffer" "0r_r" buffer_view::buffer;
    "buffer_view.create" "0rIIiiCID_r" buffer_view::create;
    "buffer_view.dim" "0ri_I" buffer_view::dim;
    "buffer_view.element_type" "0r_i" buffer_view::element_type;
    "buffer_view.encoding_type" "0r_i" buffer_view::encoding_type;
    "buffer_view.rank" "0r_i" buffer_view::rank;
    "buffer_view.trace" "0rCrD_v" buffer_view::trace;
    "channel.create" "0rIIrrii_r" channel::create;
    "channel.rank_and_count" "0r_ii" channel::query;
    "channel.split" "0riiI_r" channel::query;
    "command_buffer.advise_buffer" "0rrIIIi_v" command_buffer::advise_buffer;
    "command_buffer.begin_debug_group" "0rr_v" command_buffer::begin_debug_group;
    "command_buffer.collective" "0rriiiirrIIIII_v" channel::collective;
    "command_buffer.copy_buffer" "0riirIrIII_v" command_buffer::copy_buffer;
    "command_buffer.create" "0riiIi_r" command_buffer::create;
    "command_buffer.dispatch" "0rrIiiiICiDCiirIID_v" dispatch::dispatch;
    "command_buffer.dispatch.indirect" "0rrIirIICiDCiirIID_v" dispatch::dispatch_indirect;
    "command_buffer.end_debug_group" "0r_v" command_buffer::end_debug_group;
    "command_buffer.execution_barrier" "0riiI_v" command_buffer::execution_barrier;
    "command_buffer.fill_buffer" "0rrIIiIiI_v" command_buffer::fill_buffer;
    "command_buffer.finalize" "0r_v" command_buffer::finalize;
    "command_buffer.update_buffer" "0rrIrIIiI_v" command_buffer::update_buffer;
    "device.allocator" "0r_r" device::allocator;
    "device.query.i64" "0rrr_iI" device::query_i64;
    "device.queue.alloca" "0rIrrIiiII_r" queue::alloca;
    "device.queue.barrier" "0rIrrI_v" queue::barrier;
    "device.queue.copy" "0rIrrrIrIII_v" queue::copy;
    "device.queue.dealloca" "0rIrrrI_v" queue::dealloca;
    "device.queue.execute" "0rIrrrI_v" queue::execute;
    "device.queue.execute.indirect" "0rIrrrICrIID_v" queue::execute_indirect;
    "device.queue.fill" "0rIrrrIIIiI_v" queue::fill;
    "device.queue.flush" "0rI_v" queue::flush;
    "device.queue.read" "0rIrrrIrIII_v" queue::read;
    "device.queue.update" "0rIrrrIrIII_v" queue::update;
    "device.queue.write" "0rIrrrIrIII_v" queue::write;
    "devices.count" "0v_i" device::count;
    "devices.get" "0i_r" device::get;
    "ex.file.from_memory" "0rIirIIi_r" file::from_memory;
    "executable.create" "0rIrrr_r" executable::create;
    "executable.lookup.function" "0rr_I" executable::lookup_function;
    "fence.await" "0iICrD_i" fence::await_all;
    "fence.create" "0rI_r" fence::create;
    "fence.fail" "0ri_v" fence::fail;
    "fence.join" "0ICrD_r" fence::join;
    "fence.query" "0r_i" fence::query;
    "fence.signal" "0r_v" fence::signal;
}

#[cfg(test)]
mod tests {
    use rehal_vm::Convention;

    use super::*;

    #[test]
    fn names_are_sorted_and_conventions_parse() {
        assert!(EXPORTS.is_sorted_by(|a, b| a.name < b.name));
        assert_eq!(EXPORTS.len(), FUNCTIONS.len());
        for export in EXPORTS {
            let convention = Convention::parse(export.convention).unwrap();
            assert_eq!(convention.as_str(), export.convention);
        }
    }
}
