//! Programs of several modules: what they import from each other and from Rust, how deep they may call, many of their
//! invocations at once, and what is left where one ends before its time.

mod deep;
mod ended_early;
mod host;
mod imports;
mod lent;
mod threads;
