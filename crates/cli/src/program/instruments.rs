//! What programs measured of themselves, in the form that `--instrument_file` writes.

use std::fs::File;
use std::path::Path;

use rehal_base::{Context as _, Error, Result};
use rehal_vm::{ElementKind, List, Ref, Value};

use super::Program;
use super::results::with_value_memory;

/// The function by which a module hands out what it measured: it takes a list, and adds buffers to it.
const QUERY: &str = "__query_instruments";

impl Program {
    /// Writes what all modules of the program measured to a file, one buffer after the other. Where none of them
    /// measures anything the file is empty: what an earlier run left in it must not be taken for this one's.
    pub(crate) fn write_instruments(&self, path: &Path) -> Result<()> {
        let failed = |error| Error::io(format_args!("writing '{}'", path.display()), &error);
        let file = File::create(path).map_err(failed)?;
        let list = Ref::new(List::new(ElementKind::Variant, 0)?);
        for module in &self.modules {
            if module.file.exports().any(|export| export.local_name == QUERY) {
                let name = format!("{}.{QUERY}", module.file.name());
                let query = self.context.function(&name)?;
                query.call(&[Value::Ref(list.clone())]).context(|| format!("function '{name}'"))?;
            }
        }
        let mut measured = list.object::<List>()?.to_vec();
        self.to_host(&mut measured)?;
        for (index, value) in measured.iter().enumerate() {
            if !matches!(value, Value::Ref(reference) if !reference.is_null()) {
                let error = Error::invalid_argument("it is no buffer");
                return Err(error.context(format!("value {index} of what the program measured")));
            }
            let written = with_value_memory(value, |memory| memory.write_file(&file, memory.whole()));
            written.context(|| format!("value {index} of what the program measured"))?.map_err(failed)?;
        }
        Ok(())
    }
}
