use rehal_base::MappedFile;
use rehal_hal::*;
use rehal_local::LocalSync;
use rehal_modules::hal::{HalModule, Handle};
use rehal_values::{TensorType, npy};
use rehal_vm::*;
use std::sync::Arc;
use std::time::Instant;
fn view(device: &Device, t: &TensorType, bytes: &[u8]) -> Value {
    let params = BufferParams {
        usage: BufferParams::default().usage | BufferUsage::MAPPING_SCOPED,
        memory_type: MemoryType::DEVICE_LOCAL | MemoryType::HOST_VISIBLE,
        ..BufferParams::default()
    };
    let b = device.allocate_buffer(params, bytes.len() as u64).unwrap();
    b.write(0, bytes).unwrap();
    Handle::reference(BufferView::new(b, &t.shape, t.element_type, Encoding::DENSE_ROW_MAJOR).unwrap()).into()
}
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let device = LocalSync::create(Default::default());
    let group = DeviceGroup::new(vec![device.clone()]).unwrap();
    let t0 = Instant::now();
    let m = Module::map(Arc::new(MappedFile::open(args[1].as_ref()).unwrap())).unwrap();
    let context = Context::new(&[Module::native(HalModule::new(group)).unwrap(), m]).unwrap();
    println!("load {:?}", t0.elapsed());
    let function = context.function(&format!("module.{}", args[2])).unwrap();
    let inputs: Vec<Value> = args[4..]
        .iter()
        .map(|a| {
            if let Some(p) = a.strip_prefix('@') {
                let mut f = std::fs::File::open(p).unwrap();
                let t = npy::read_header(&mut f).unwrap();
                let mut bytes = vec![0; t.size_bytes().unwrap() as usize];
                std::io::Read::read_exact(&mut f, &mut bytes).unwrap();
                view(&device, &t, &bytes)
            } else {
                let (t, c) = rehal_values::parse_tensor(a).unwrap();
                view(&device, &t, &c.to_bytes(t.size_bytes().unwrap()))
            }
        })
        .collect();
    let n: u32 = args[3].parse().unwrap();
    let mut inv = Invocation::new(&function);
    for _ in 0..5 {
        let t = Instant::now();
        for _ in 0..n {
            inv.call(inputs.iter().cloned()).unwrap();
        }
        println!("{:.0} ns/call", t.elapsed().as_nanos() as f64 / n as f64);
    }
}
