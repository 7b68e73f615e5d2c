use rehal_capture::{FileReferenceType, FileValidationType, OperationCode, Payload, Record, RecordType};

/// Counts of a capture's contents: records by kind, files by storage and by validation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are those of the JSON that carries them")]
pub struct Summary {
    pub record_count: u64,
    pub object_count: u64,
    pub operation_count: u64,
    pub unsupported_count: u64,
    pub scope_begin_count: u64,
    pub scope_end_count: u64,
    pub file_object_count: u64,
    pub external_file_count: u64,
    pub inline_file_count: u64,
    pub range_file_count: u64,
    pub unknown_file_reference_count: u64,
    /// Bytes of files referenced by path.
    pub external_file_total_length: u64,
    /// Bytes of files stored in the capture.
    pub inline_file_total_length: u64,
    /// Bytes of files whose reads are stored in the capture.
    pub range_file_total_length: u64,
    /// Bytes of those reads.
    pub captured_read_total_length: u64,
    pub identity_validation_count: u64,
    pub digest_validation_count: u64,
    pub no_validation_count: u64,
    pub unknown_validation_count: u64,
}

impl Summary {
    /// Counts one record.
    pub fn add(&mut self, record: &Record<'_>, payload: &Payload<'_>) {
        self.record_count += 1;
        match record.record_type() {
            RecordType::OBJECT => {
                self.object_count += 1;
                self.add_file(payload);
            }
            RecordType::OPERATION => {
                self.operation_count += 1;
                self.add_operation(record.operation(), payload);
            }
            RecordType::UNSUPPORTED => self.unsupported_count += 1,
            _ => {}
        }
    }

    /// Whether the capture depends on external files.
    pub fn environment_referenced(&self) -> bool {
        self.external_file_count != 0
    }

    /// Whether the capture is self-contained for a replay.
    pub fn hermetic(&self) -> bool {
        !self.environment_referenced() && self.unknown_file_reference_count == 0
    }

    /// Whether the capture contains nothing known to prevent a faithful replay.
    pub fn strict_replay_supported(&self) -> bool {
        self.unsupported_count == 0
            && self.unknown_file_reference_count == 0
            && self.unknown_validation_count == 0
    }

    // Lengths are untrusted, so sums wrap like the reference's.
    fn add_file(&mut self, payload: &Payload<'_>) {
        let Payload::FileObject(file) = payload else { return };
        self.file_object_count += 1;
        let (count, total, length) = match FileReferenceType(file.reference_type.get()) {
            FileReferenceType::EXTERNAL_PATH => {
                (&mut self.external_file_count, &mut self.external_file_total_length, file.file_length.get())
            }
            FileReferenceType::INLINE_BYTES => {
                (&mut self.inline_file_count, &mut self.inline_file_total_length, file.reference_length.get())
            }
            FileReferenceType::CAPTURED_RANGES => {
                (&mut self.range_file_count, &mut self.range_file_total_length, file.file_length.get())
            }
            _ => (&mut self.unknown_file_reference_count, &mut 0, 0),
        };
        *count += 1;
        *total = total.wrapping_add(length);
        *match FileValidationType(file.validation_type.get()) {
            FileValidationType::NONE => &mut self.no_validation_count,
            FileValidationType::IDENTITY => &mut self.identity_validation_count,
            FileValidationType::CONTENT_DIGEST => &mut self.digest_validation_count,
            _ => &mut self.unknown_validation_count,
        } += 1;
    }

    fn add_operation(&mut self, operation: OperationCode, payload: &Payload<'_>) {
        match operation {
            OperationCode::REPLAY_SCOPE_BEGIN => self.scope_begin_count += 1,
            OperationCode::REPLAY_SCOPE_END => self.scope_end_count += 1,
            _ => {}
        }
        if let Payload::QueueRead(read) = payload {
            let total = &mut self.captured_read_total_length;
            *total = total.wrapping_add(read.captured_data_length.get());
        }
    }
}
