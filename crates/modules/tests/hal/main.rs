//! Every export of the `hal` module, called as programs call it, on `local-sync`.
mod assertions;
mod buffers;
mod commands;
mod executables;
mod fences;
mod program;
mod queues;
mod views;
