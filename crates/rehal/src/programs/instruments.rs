//! Instrumentation data of programs.

use rehal_base::{Context as _, Error, Result};
use rehal_vm::{ElementKind, List, Ref, Value};

use super::Program;

/// The function that returns a module's instrumentation data: it takes a list, and appends buffers to it.
const QUERY: &str = "__query_instruments";

impl Program {
    /// The instrumentation data of all modules that were compiled with it
    /// (`--iree-hal-instrument-dispatches=SIZE` and the like), as buffers that the host can read.
    pub fn instruments(&self) -> Result<Vec<Value>> {
        let list = Ref::new(List::new(ElementKind::Variant, 0)?);
        for module in &self.0.modules {
            if module.file().exports().any(|export| export.local_name == QUERY) {
                let name = format!("{}.{QUERY}", module.name());
                let query = self.0.context.function(&name)?;
                query.call(&[Value::Ref(list.clone())]).context(|| format!("function '{name}'"))?;
            }
        }
        let mut measured = list.object::<List>()?.to_vec();
        self.to_host(&mut measured)?;
        for (index, value) in measured.iter().enumerate() {
            if !matches!(value, Value::Ref(reference) if !reference.is_null()) {
                let error = Error::invalid_argument("the value is not a buffer");
                return Err(error.context(format!("instrumentation buffer {index}")));
            }
        }
        Ok(measured)
    }
}
