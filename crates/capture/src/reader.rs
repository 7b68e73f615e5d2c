use std::fmt;

use rehal_base::{Fault, FormatError, MappedFile, Remedy, StatusCode};
use serde::Serialize;
use zerocopy::FromBytes;

use crate::checksums::{ChecksumState, Damage, Extent, Mismatch, Table, Verifier};
use crate::layout::{FILE_MAGIC, FileHeader, RECORD_FLAG_OPTIONAL, RecordHeader};
use crate::record::FORMAT;
use crate::{ObjectType, OperationCode, PayloadType, Record, RecordType, Version};

/// This many zeros instead of a record header mark the end of the written data, not a corrupt record.
const ZEROS_BYTES: usize = 1 << 20;

const FILE_HEADER_BYTES: usize = size_of::<FileHeader>();
const RECORD_HEADER_BYTES: usize = size_of::<RecordHeader>();

/// A capture whose envelope has been validated. Its records are zero-copy.
#[derive(Clone, Copy)]
pub struct Capture<'a> {
    /// The valid part: up to the recorded length, or up to the tear.
    bytes: &'a [u8],
    /// The mapped file, if any.
    map: Option<&'a MappedFile>,
    header: &'a FileHeader,
    closed: bool,
    recover: bool,
    tear: Option<Tear>,
    total_bytes: u64,
    checksums: Option<Table<'a>>,
}

/// How to open a capture.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpenOptions {
    /// Read the complete records of a capture that was never closed or is truncated, instead of rejecting it.
    pub recover: bool,
}

/// The premature end of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Tear {
    /// File offset of the first incomplete record.
    pub offset: u64,
    /// Number of complete records before it.
    pub record_count: u64,
    /// Bytes of the file from there on, which are ignored.
    pub lost_bytes: u64,
}

impl fmt::Debug for Capture<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = f.debug_struct("Capture");
        fields.field("length_bytes", &self.length_bytes()).field("closed", &self.closed);
        fields.field("tear", &self.tear).field("checksums", &self.checksums());
        fields.finish_non_exhaustive()
    }
}

impl<'a> Capture<'a> {
    /// Validates the envelope of a capture that starts at the first of `bytes`.
    ///
    /// Without `recover`, a file that was never closed (recorded length 0) or is shorter than its recorded
    /// length is an error of [`Fault::Truncated`]. With it, such a file is read up to the last complete
    /// record, which costs one walk over the record headers here; see [`Capture::tear`]. Bytes after the
    /// recorded length are ignored.
    ///
    /// Fails with [`Fault::Corrupt`] if the capture announces checksums and has none; see
    /// [`Capture::records`] for how they are used.
    pub fn open(bytes: &'a [u8], options: OpenOptions) -> Result<Self, FormatError> {
        Self::open_in(bytes, None, options)
    }

    /// [`Capture::open`] of a mapped file. Verified pages of a long record are evicted. Fails if the file has
    /// been truncated since it was mapped: reading it would end the process.
    pub fn open_mapped(file: &'a MappedFile, options: OpenOptions) -> Result<Self, FormatError> {
        check_present(file)?;
        Self::open_in(file.bytes(), Some(file), options)
    }

    fn open_in(
        bytes: &'a [u8],
        map: Option<&'a MappedFile>,
        options: OpenOptions,
    ) -> Result<Self, FormatError> {
        let header = check_file_header(bytes)?;
        let length = header.file_length.get();
        let total_bytes = bytes.len() as u64;
        let closed = length != 0;
        let whole = closed && length <= total_bytes;
        if !whole && !options.recover {
            return Err(never_closed_or_cut(length, total_bytes));
        }
        let bytes = if whole { &bytes[..length as usize] } else { bytes };
        let checksums = if whole { Table::find(bytes) } else { None };
        let recover = options.recover;
        let mut this = Self { bytes, map, header, closed, recover, tear: None, total_bytes, checksums };
        if !whole {
            this.find_tear();
        } else if !recover && this.checksums() == ChecksumState::Missing {
            return Err(no_checksums(length));
        }
        Ok(this)
    }

    /// The file header.
    pub fn header(&self) -> &'a FileHeader {
        self.header
    }

    /// The format version.
    pub fn version(&self) -> Version {
        Version { major: self.header.version_major.get(), minor: self.header.version_minor.get() }
    }

    /// Whether its writer closed it, so that the header has its length.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Where it is torn; only set if opened with `recover`.
    pub fn tear(&self) -> Option<Tear> {
        self.tear
    }

    /// Number of valid bytes: up to the recorded length, or up to the tear.
    pub fn length_bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Number of bytes passed to open, including those after the end of the capture.
    pub fn total_bytes(&self) -> u64 {
        self.total_bytes
    }

    /// File offset of the first record.
    pub fn first_record_offset(&self) -> u64 {
        u64::from(self.header.header_length.get())
    }

    /// Whether it has checksums.
    pub fn checksums(&self) -> ChecksumState {
        let first = self.bytes.get(self.first_record_offset() as usize..).unwrap_or_default();
        let announced = RecordHeader::ref_from_prefix(first)
            .is_ok_and(|(header, _)| header.payload_type.get() == PayloadType::CHECKSUMMED.0);
        match self.checksums {
            Some(_) => ChecksumState::Present,
            None if announced => ChecksumState::Missing,
            None => ChecksumState::Absent,
        }
    }

    /// All records, in file order. The iterator ends after the first error.
    ///
    /// If the capture has checksums, each record is verified before it is returned, and damage is an error of
    /// [`Fault::Corrupt`]. With `recover`, nothing is verified: see [`Capture::damage`].
    pub fn records(&self) -> Records<'a> {
        self.verified(Extent::Whole)
    }

    /// [`Capture::records`] for readers that do not use [`Payload::data`], which is neither verified nor
    /// read.
    pub fn records_without_data(&self) -> Records<'a> {
        self.verified(Extent::WithoutData)
    }

    /// [`Capture::records`] without verification, for captures that are already verified.
    pub fn records_unverified(&self) -> Records<'a> {
        self.records_from(self.first_record_offset(), 0)
    }

    /// The records from `ordinal` on, which starts at file offset `offset` (both from a [`Record`] of this
    /// capture). Nothing is verified.
    pub fn records_from(&self, offset: u64, ordinal: u64) -> Records<'a> {
        let position = usize::try_from(offset).map_or(self.bytes.len(), |at| at.min(self.bytes.len()));
        Records { bytes: self.bytes, position, ordinal, version: self.version(), verifier: None }
    }

    fn verified(&self, extent: Extent) -> Records<'a> {
        let checksums = self.checksums.filter(|_| !self.recover);
        let verifier = checksums.map(|table| Verifier::new(table, self.map, extent));
        Records { verifier, ..self.records_unverified() }
    }

    /// Reads the whole capture and returns all ranges that do not match their checksums, in file order.
    /// `walked` is called with an offset every few megabytes. Empty for a capture without checksums.
    pub fn damage(&self, walked: &mut dyn FnMut(u64)) -> Vec<Damage> {
        let Some(table) = &self.checksums else { return Vec::new() };
        let mut forgotten = 0;
        let mut damage = table.damage(&mut |offset| {
            if let Some(map) = self.map {
                map.forget(forgotten as usize, (offset - forgotten) as usize);
            }
            forgotten = offset;
            walked(offset);
        });
        if !damage.is_empty() {
            self.find_records(&mut damage);
        }
        damage
    }

    /// Adds the ordinals of the damaged records.
    fn find_records(&self, damage: &mut [Damage]) {
        let mut first = 0;
        for record in self.records_unverified() {
            // Record boundaries are unknown from here on.
            let Ok(record) = record else { return };
            let end = record.payload_offset() + record.payload.len() as u64;
            first += damage[first..].iter().take_while(|it| it.offset + it.length <= record.offset).count();
            for damage in damage[first..].iter_mut().take_while(|it| it.offset < end) {
                let (since, _) = damage.records.unwrap_or((record.ordinal(), 0));
                damage.records = Some((since, record.ordinal()));
            }
        }
    }

    /// Truncates the bytes before the first incomplete record. A complete but malformed record is left for
    /// [`Records`] to report.
    fn find_tear(&mut self) {
        let mut records = self.records_unverified();
        let tail = |at: usize| self.bytes.get(at..).unwrap_or(&[]);
        loop {
            let (position, ordinal) = (records.position, records.ordinal);
            let torn = match records.next() {
                None => return,
                Some(Ok(_)) => continue,
                Some(Err(error)) => error.fault == Fault::Truncated,
            };
            // After a crash, file systems may leave zeros in place of writes that never completed: holes of
            // any size, so only the first bytes are tested.
            if torn || tail(position).iter().take(ZEROS_BYTES).all(|byte| *byte == 0) {
                let lost_bytes = tail(position).len() as u64;
                self.tear = Some(Tear { offset: position as u64, record_count: ordinal, lost_bytes });
                self.bytes = &self.bytes[..position];
            }
            return;
        }
    }
}

/// The records of a [`Capture`], in file order.
#[derive(Clone)]
pub struct Records<'a> {
    bytes: &'a [u8],
    position: usize,
    ordinal: u64,
    version: Version,
    verifier: Option<Verifier<'a>>,
}

impl Records<'_> {
    /// File offset of the next record.
    pub fn position(&self) -> u64 {
        self.position as u64
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, FormatError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.position >= self.bytes.len() {
            return None;
        }
        let result = self.verify_and_parse();
        match &result {
            Ok(record) => {
                self.position += record.header.record_length.get() as usize;
                self.ordinal += 1;
            }
            Err(_) => self.position = self.bytes.len(),
        }
        Some(result)
    }
}

impl<'a> Records<'a> {
    /// Verifies before parsing, so that damage is reported as damage and not as a malformed record.
    #[inline]
    fn verify_and_parse(&mut self) -> Result<Record<'a>, FormatError> {
        let Some(mut verifier) = self.verifier.take() else { return self.parse() };
        let in_record = |mismatch: Mismatch| mismatch.error(self.ordinal);
        verifier.reach(self.position + RECORD_HEADER_BYTES).map_err(in_record)?;
        let record = self.parse()?;
        verifier.record(&record).map_err(in_record)?;
        self.verifier = Some(verifier);
        Ok(record)
    }

    #[inline]
    fn parse(&self) -> Result<Record<'a>, FormatError> {
        let rest = &self.bytes[self.position..];
        let Ok((header, after)) = RecordHeader::ref_from_prefix(rest) else {
            let expected = format!("{RECORD_HEADER_BYTES} bytes");
            return Err(self.torn("record header", expected, format!("{} bytes", rest.len())));
        };
        self.check_fields(header)?;
        let record_length = header.record_length.get();
        if record_length > rest.len() as u64 {
            let found = format!("{} bytes up to the end of the capture", rest.len());
            return Err(self.torn("record_length", format!("{record_length} bytes"), found));
        }
        // At least the size of the header and at most the size of the record, so this cannot overflow.
        let extra = header.header_length.get() as usize - RECORD_HEADER_BYTES;
        let payload = &after[extra..record_length as usize - RECORD_HEADER_BYTES];
        let record = Record { offset: self.position as u64, header, payload, version: self.version };
        check_consistency(&record)?;
        Ok(record)
    }

    /// Validates the header on its own, before anything outside of it is read.
    #[inline]
    fn check_fields(&self, header: &RecordHeader) -> Result<(), FormatError> {
        let flags = header.record_flags.get();
        if flags & !RECORD_FLAG_OPTIONAL != 0 {
            return Err(self.corrupt(62, "record_flags", "0 or 1", flags));
        }
        let record_type = RecordType(header.record_type.get());
        if !record_type.is_known() || record_type == RecordType::NONE {
            self.check_unknown_type(record_type, flags)?;
        }
        let status_code = header.status_code.get();
        if StatusCode::from_u32(status_code).is_none() {
            // A replay skips failed operations, so damage here would silently drop an operation.
            return Err(self.corrupt(76, "status_code", "a status code, 0 to 18", status_code));
        }
        if header.reserved0.get() != 0 {
            return Err(self.corrupt(80, "reserved0", "0", header.reserved0.get()));
        }
        if header.reserved1.get() != 0 {
            return Err(self.corrupt(88, "reserved1", "0", header.reserved1.get()));
        }
        let (record_length, header_length) = (header.record_length.get(), header.header_length.get());
        if (header_length as usize) < RECORD_HEADER_BYTES || u64::from(header_length) > record_length {
            let expected = format!("{RECORD_HEADER_BYTES} up to the record's {record_length}");
            return Err(self.corrupt(56, "header_length", expected, header_length));
        }
        let payload_length = header.payload_length.get();
        if payload_length != record_length - u64::from(header_length) {
            let expected = (record_length - u64::from(header_length)).to_string();
            return Err(self.corrupt(8, "payload_length", expected, payload_length));
        }
        if header.sequence_ordinal.get() != self.ordinal {
            let found = header.sequence_ordinal.get();
            return Err(self.corrupt(16, "sequence_ordinal", self.ordinal.to_string(), found));
        }
        Ok(())
    }

    #[cold]
    fn check_unknown_type(&self, record_type: RecordType, flags: u16) -> Result<(), FormatError> {
        if flags & RECORD_FLAG_OPTIONAL != 0 {
            return Ok(());
        }
        let (fault, expected) = match record_type {
            RecordType::NONE => (Fault::Corrupt, "a type from 1 on"),
            _ => (Fault::Unsupported, "a known type, or the optional flag"),
        };
        let offset = self.position as u64 + 60;
        let found = record_type.0.to_string();
        let error = FormatError::new(FORMAT, fault, offset, "record_type", expected, found);
        let error = error.in_record(self.ordinal);
        Err(match fault {
            Fault::Unsupported => {
                error.advise("use a newer rehal, or capture again with a release that writes 2.0")
            }
            _ => error,
        })
    }

    #[cold]
    fn corrupt(
        &self,
        field_offset: u64,
        field: &'static str,
        expected: impl Into<String>,
        found: impl ToString,
    ) -> FormatError {
        let offset = self.position as u64 + field_offset;
        FormatError::new(FORMAT, Fault::Corrupt, offset, field, expected, found.to_string())
            .in_record(self.ordinal)
    }

    #[cold]
    fn torn(&self, field: &'static str, expected: String, found: String) -> FormatError {
        FormatError::new(FORMAT, Fault::Truncated, self.position as u64, field, expected, found)
            .in_record(self.ordinal)
    }
}

/// Checks the fields of a record's header against each other. Unknown codes are left to the consumers that
/// interpret them.
#[inline]
fn check_consistency(record: &Record<'_>) -> Result<(), FormatError> {
    match record.record_type() {
        RecordType::OBJECT => check_object(record),
        RecordType::OPERATION => check_operation(record),
        _ => Ok(()),
    }
}

fn check_object(record: &Record<'_>) -> Result<(), FormatError> {
    let (object_type, payload_type) = (record.object_type(), record.payload_type());
    if object_type == ObjectType::NONE {
        return Err(record.header_error(68, "object_type", "the type of an object", object_type.to_string()));
    }
    if record.header.object_id.get() == 0 {
        return Err(record.header_error(40, "object_id", "an id from 1 on", "0"));
    }
    if record.operation() != OperationCode::NONE {
        let found = record.operation().to_string();
        return Err(record.header_error(72, "operation_code", "0 for an object", found));
    }
    match object_type.payload_type() {
        Some(expected) if payload_type != expected && payload_type.is_known() => {
            let expected = format!("{expected} for {object_type}");
            Err(record.header_error(64, "payload_type", expected, payload_type.to_string()))
        }
        _ => check_empty(record),
    }
}

fn check_operation(record: &Record<'_>) -> Result<(), FormatError> {
    let operation = record.operation();
    let (object_type, payload_type) = (record.object_type(), record.payload_type());
    if let Some(expected) = operation.object_type()
        && object_type != expected
        && object_type != ObjectType::NONE
        && operation != OperationCode::NONE
    {
        let expected = format!("{expected} for {operation}");
        return Err(record.header_error(68, "object_type", expected, object_type.to_string()));
    }
    let allowed = operation.payload_types();
    let absent = payload_type == PayloadType::NONE && record.header.status_code.get() != 0;
    if payload_type.is_known()
        && operation != OperationCode::NONE
        && !allowed.is_empty()
        && !allowed.contains(&payload_type)
        && !absent
    {
        let names: Vec<_> = allowed.iter().map(ToString::to_string).collect();
        let expected = format!("{} for {operation}", names.join(" or "));
        return Err(record.header_error(64, "payload_type", expected, payload_type.to_string()));
    }
    check_empty(record)
}

/// A payload of type `NONE` must be empty.
#[inline]
fn check_empty(record: &Record<'_>) -> Result<(), FormatError> {
    if record.payload_type() == PayloadType::NONE && !record.payload.is_empty() {
        let found = record.payload.len().to_string();
        return Err(record.header_error(8, "payload_length", "0 for a payload without a type", found));
    }
    Ok(())
}

fn check_file_header(bytes: &[u8]) -> Result<&FileHeader, FormatError> {
    let corrupt = |offset, field, expected: String, found: String| {
        Err(FormatError::new(FORMAT, Fault::Corrupt, offset, field, expected, found))
    };
    // The magic first: a short file of another format is not a truncated capture.
    let magic = &FILE_MAGIC.to_le_bytes()[..bytes.len().min(4)];
    if !bytes.starts_with(magic) {
        let found = bytes[..magic.len()].escape_ascii().to_string();
        return corrupt(0, "magic", "\"IRRP\"".into(), format!("\"{found}\""))
            .map_err(|error| error.advise("pass a capture file (.ireereplay)"));
    }
    let Ok((header, _)) = FileHeader::ref_from_prefix(bytes) else {
        let (expected, found) = (format!("{FILE_HEADER_BYTES} bytes"), format!("{} bytes", bytes.len()));
        return Err(FormatError::new(FORMAT, Fault::Truncated, 0, "file header", expected, found));
    };
    let major = header.version_major.get();
    if !matches!(major, 1 | 2) {
        let found = format!("{major}.{}", header.version_minor.get());
        return Err(FormatError::new(FORMAT, Fault::Unsupported, 4, "version", "1.0 or 2.0", found)
            .advise("capture again with a release that writes 2.0"));
    }
    let header_length = header.header_length.get();
    if (header_length as usize) < FILE_HEADER_BYTES {
        let expected = format!("at least {FILE_HEADER_BYTES}");
        return corrupt(8, "header_length", expected, header_length.to_string());
    }
    if header_length as usize > bytes.len() {
        let expected = format!("at most the file's {}", bytes.len());
        return corrupt(8, "header_length", expected, header_length.to_string());
    }
    if header.flags.get() != 0 {
        return corrupt(12, "flags", "0".into(), header.flags.get().to_string());
    }
    let length = header.file_length.get();
    if length != 0 && length < u64::from(header_length) {
        let expected = format!("at least the header's {header_length}");
        return corrupt(16, "file_length", expected, length.to_string());
    }
    Ok(header)
}

#[cold]
fn no_checksums(length: u64) -> FormatError {
    let expected = "a checksum record at the end, as announced by the first record";
    FormatError::new(FORMAT, Fault::Corrupt, length, "checksums", expected, "none")
        .advise(Remedy::RecoverDamaged)
}

/// Fails if a file has been truncated since it was mapped.
pub(crate) fn check_present(file: &MappedFile) -> Result<(), FormatError> {
    let mapped = file.bytes().len() as u64;
    match file.present_bytes() {
        Ok(present) if present < mapped => {
            let expected = format!("{mapped} bytes, as when it was opened");
            Err(FormatError::new(FORMAT, Fault::Truncated, present, "file", expected, present.to_string())
                .advise("do not change a capture that is open; open it again"))
        }
        // Its length is not known to have changed.
        _ => Ok(()),
    }
}

#[cold]
fn never_closed_or_cut(length: u64, total_bytes: u64) -> FormatError {
    let (expected, found) = match length {
        0 => ("the length of a closed capture".to_string(), "0: the capture was never closed".to_string()),
        _ => (format!("{length} bytes"), format!("{total_bytes} bytes: the file is truncated")),
    };
    FormatError::new(FORMAT, Fault::Truncated, 16, "file_length", expected, found)
        .advise(Remedy::RecoverTruncated)
}
