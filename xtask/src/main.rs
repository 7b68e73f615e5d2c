//! Set-up, tests, benchmarks, fixtures and tidiness of the rehal workspace.
fn main() {}
