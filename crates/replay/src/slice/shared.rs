use std::cell::OnceCell;
use std::collections::HashMap;

use rehal_hal::{CommandBufferParams, CreateOp, HostOp};

use super::SliceOptions;
use super::references::References;
use crate::plan::RecordLocation;
use crate::{Plan, Replay};

/// State that all slices of a run share.
pub(super) struct Shared<'r> {
    pub replay: &'r Replay,
    pub plan: &'r Plan,
    pub options: SliceOptions,
    /// The indices of buffers, by id.
    pub buffers: HashMap<u64, u32>,
    /// The commands of each command buffer, with their records.
    pub commands: Vec<Vec<(RecordLocation, u32)>>,
    /// The parameters of the command buffers, by index.
    pub params: HashMap<u32, CommandBufferParams>,
    /// The files that slices may refer to, opened when one does.
    pub references: OnceCell<References>,
}

impl<'r> Shared<'r> {
    pub(super) fn new(replay: &'r Replay, options: &SliceOptions) -> Self {
        let plan = &**replay.plan();
        let params = |op: &HostOp<rehal_hal::Indexed>| match *op {
            HostOp::Create(CreateOp::CommandBuffer { params, created, .. }) => Some((created, params)),
            _ => None,
        };
        let mut options = options.clone();
        options.unperformed |= options.idle.is_some();
        Self {
            replay,
            plan,
            options,
            buffers: plan.buffer_ids.iter().copied().zip(0..).collect(),
            commands: plan.commands_by_buffer(),
            params: plan.host_ops.iter().filter_map(params).collect(),
            references: OnceCell::new(),
        }
    }
}
