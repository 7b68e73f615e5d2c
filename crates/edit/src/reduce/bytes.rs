//! The bytes that operations carry.

use std::ops::Range;

use rehal_hal::{Command, CreateOp, FileContents, FileSource, HostOp, ImportFile, Op, QueueOp};
use rehal_replay::Ids;

/// The bytes that an operation brings to a device: what the host writes, updates, reads that the capture
/// contains, imported memory and files. Code is not data.
pub(super) fn data_of<'a>(op: &Op<Ids<'a>>) -> Option<&'a [u8]> {
    let data = match *op {
        Op::Host(HostOp::Unmap(_, data) | HostOp::Flush(_, data)) => data,
        Op::Host(HostOp::Create(CreateOp::ImportedBuffer { data, .. })) => Some(data),
        Op::Host(HostOp::Create(CreateOp::File(ref it))) => match it.source.contents {
            FileContents::Inline(data) => Some(data),
            FileContents::Nothing | FileContents::External { .. } | FileContents::Ranges { .. } => None,
        },
        Op::Host(_) | Op::Info(_) => None,
        Op::Command { command: Command::Update { source, .. }, .. } => Some(source),
        Op::Command { .. } => None,
        Op::Queue(ref submission) => match submission.op {
            QueueOp::Update { source, .. } => Some(source),
            QueueOp::Read { captured, .. } => Some(captured),
            _ => None,
        },
    };
    data.filter(|data| !data.is_empty())
}

/// The creation of an object with other contents of the same length.
pub(super) fn created_with<'b>(op: CreateOp<Ids<'b>>, data: &'b [u8]) -> CreateOp<Ids<'b>> {
    match op {
        CreateOp::ImportedBuffer { allocator, params, size, flags, created, .. } => {
            CreateOp::ImportedBuffer { allocator, params, size, flags, data, created }
        }
        CreateOp::File(it) => {
            let source = FileSource { contents: FileContents::Inline(data), ..it.source };
            CreateOp::File(ImportFile { source, ..it })
        }
        op => op,
    }
}

/// Sorted spans of bytes that do not touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Spans(Vec<Range<usize>>);

impl Spans {
    /// Adds a span.
    pub fn add(&mut self, span: Range<usize>) {
        if span.is_empty() {
            return;
        }
        let first = self.0.partition_point(|it| it.end < span.start);
        let last = self.0.partition_point(|it| it.start <= span.end);
        let joined = match self.0.get(first..last) {
            Some([one, ..]) => one.start.min(span.start)..self.0[last - 1].end.max(span.end),
            _ => span,
        };
        self.0.splice(first..last, [joined]);
    }

    #[cfg(test)]
    pub fn iter(&self) -> impl Iterator<Item = Range<usize>> {
        self.0.iter().cloned()
    }

    /// The bytes with zeros in the spans.
    pub fn cleared(&self, bytes: &[u8]) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        for span in &self.0 {
            bytes[span.clone()].fill(0);
        }
        bytes
    }
}

/// The spans of bytes that are not zero, apart from each other by at least `gap` zeros.
pub(super) fn nonzero(bytes: &[u8], gap: usize) -> Vec<Range<usize>> {
    let mut spans: Vec<Range<usize>> = Vec::new();
    let mut at = 0;
    while let Some(start) = bytes[at..].iter().position(|byte| *byte != 0).map(|offset| at + offset) {
        let end = bytes[start..].iter().position(|byte| *byte == 0).map_or(bytes.len(), |it| start + it);
        match spans.last_mut() {
            Some(last) if start - last.end < gap => last.end = end,
            _ => spans.push(start..end),
        }
        at = end;
    }
    spans
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_joined() {
        let mut spans = Spans::default();
        for span in [4..6, 0..1, 8..9, 9..12, 3..4, 6..8, 20..20, 1..2] {
            spans.add(span);
        }
        assert_eq!(spans.iter().collect::<Vec<_>>(), [0..2, 3..12]);
        assert_eq!(spans.cleared(&[1; 14]), [0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1]);
        spans.add(0..14);
        assert_eq!(spans.iter().collect::<Vec<_>>(), vec![0..14; 1]);
    }

    #[test]
    fn zeros_between_are_counted() {
        let bytes = [0, 1, 0, 2, 0, 0, 3, 0];
        assert_eq!(nonzero(&bytes, 1), [1..2, 3..4, 6..7]);
        assert_eq!(nonzero(&bytes, 2), [1..4, 6..7]);
        assert_eq!(nonzero(&bytes, 3), vec![1..7; 1]);
        assert!(nonzero(&[0; 3], 1).is_empty() && nonzero(&[], 1).is_empty());
    }
}
