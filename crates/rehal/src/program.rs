//! Programs: compiled modules (`.vmfb`) on devices.
//!
//! ```
//! # fn main() -> rehal::Result<()> {
//! # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/modules/simple_abs.vmfb");
//! use std::sync::Arc;
//!
//! use rehal::device::HostMemory;
//! use rehal::program::{MappedValue, ModuleSource, Program, ProgramOptions, TensorType};
//!
//! let mut options = ProgramOptions::default();
//! options.modules.push(ModuleSource::File(path.into()));
//! let program = Program::load(&options)?;
//! let function = program.function("abs")?;
//!
//! // The kernels read this memory where it is.
//! let memory = Arc::new(HostMemory::allocate(4)?);
//! memory.write(0, &(-2.0_f32).to_le_bytes())?;
//! let input = program.tensor_over(&TensorType::parse("f32")?, &memory)?;
//!
//! // `Program::call` waits; a started call can be waited for with a timeout, awaited, and cancelled.
//! let mut results = program.start(&function, vec![input])?.results()?;
//! program.to_host(&mut results)?;
//! let result = MappedValue::map(&results[0])?;
//! assert_eq!(result.memory()?.load::<4>(0)?, 2.0_f32.to_le_bytes());
//! # drop((result, results, function));
//! program.close()
//! # }
//! ```

#[doc(hidden)]
pub use crate::programs::{
    Batch, Calls, DispatchStatistics, ListedExecutable, ListedFunction, LoadFunctions, ModuleExecutable,
    ModuleTest, ModuleTests, Offer, PreparedBatch, SubstituteBuilder, SubstitutedExecutable, TestOutcome,
    input_of_bytes, replaced_functions, resolve_substitutions, substitute_executables,
};
pub use crate::programs::{
    Function, ModuleMode, ModuleSource, ParameterFile, ParameterOptions, PendingCall, Program, ProgramModule,
    ProgramOptions, RecordingOptions, TextSink,
};
pub use rehal_base::{ElementType, Numerical};
pub use rehal_devices::{MappedValue, ValueText, format_value, type_of_value};
pub use rehal_params::{ExternalFiles, FileMode};
pub use rehal_values::TensorType;
pub use rehal_vm::{Ref, Value, ValueKind};
