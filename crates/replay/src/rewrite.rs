//! Records as operations, and operations as payloads of records, for passes that write a part of a capture again.

use rehal_base::Result;
use rehal_capture::{PayloadType, Record};
use rehal_hal::{HostOp, Op};

use crate::decode::decode;
use crate::{Ids, encode};

/// The operation of a record; `None` for informational records, for calls that failed at capture, and for objects that other
/// records create. Fails if the record is corrupt, or if the operation cannot be reproduced.
pub fn decode_record<'a>(record: &Record<'a>) -> Result<Option<Op<Ids<'a>>>> {
    decode(record)
}

/// Calls `put` with the payload of an operation, in pieces. The header of its record names the same objects: that of the record
/// from which the operation was decoded, if its objects are the same.
pub fn encode_payload(op: &Op<Ids<'_>>, put: &mut dyn FnMut(PayloadType, &[&[u8]])) {
    let mut put = |_: encode::Call, payload_type: PayloadType, parts: &[&[u8]]| put(payload_type, parts);
    match op {
        Op::Host(HostOp::Create(op)) => encode::create(op, &mut put),
        Op::Host(op) => encode::host_op(op, &mut put),
        Op::Info(op) => encode::info_op(op, &mut put),
        Op::Command { into, command } => encode::command(*into, command, &mut put),
        Op::Queue(submission) => encode::submission(submission, &mut put),
    }
}
