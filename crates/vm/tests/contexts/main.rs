//! Programs of several modules: imports from each other and from native modules, deep recursion, concurrent
//! invocations, and invocations that are dropped early.

mod deep;
mod ended_early;
mod host;
mod imports;
mod lent;
mod repeated;
mod threads;
