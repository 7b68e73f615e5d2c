use rehal_base::{Fault, FormatError};
use zerocopy::FromBytes;

use crate::RecordType;
use crate::layout::{CHUNK_TRUNCATED, FILE_MAGIC, FileHeader, RecordHeader, VERSION};

/// The name of the format in errors.
const FORMAT: &str = "profile";

/// This many zeros instead of a record header mark the end of the written data, not a corrupt record.
const ZEROS_BYTES: usize = 1 << 20;

const FILE_HEADER_BYTES: usize = size_of::<FileHeader>();
const RECORD_HEADER_BYTES: usize = size_of::<RecordHeader>();

/// A bundle whose envelope has been validated. Its records are zero-copy.
#[derive(Clone, Copy)]
pub struct Bundle<'a> {
    /// The valid part: up to the recorded length, or up to the tear.
    bytes: &'a [u8],
    header: &'a FileHeader,
    tear: Option<Tear>,
    total_bytes: u64,
}

/// Options for opening a bundle.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpenOptions {
    /// Read the complete records of a truncated bundle, instead of rejecting it.
    pub recover: bool,
}

/// The premature end of a bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tear {
    /// File offset of the first record that is missing or incomplete.
    pub offset: u64,
    /// Number of complete records before it.
    pub record_count: u64,
    /// Bytes of the file from there on, which are ignored; zero if the file ends between two records.
    pub lost_bytes: u64,
}

impl std::fmt::Debug for Bundle<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut fields = f.debug_struct("Bundle");
        fields.field("length_bytes", &self.length_bytes()).field("tear", &self.tear).finish_non_exhaustive()
    }
}

impl<'a> Bundle<'a> {
    /// Validates the envelope of a bundle that starts at the first of `bytes`.
    ///
    /// A bundle without a length (none of its sessions has ended) goes up to the end of `bytes`. Without
    /// `recover`, one that is shorter than its length is an error of [`Fault::Truncated`], and an incomplete
    /// record at the end is an error of [`Bundle::records`]. With it, the bundle ends before the first
    /// incomplete record, which costs one walk over the record headers here; see [`Bundle::tear`]. Bytes
    /// after the recorded length are ignored.
    pub fn open(bytes: &'a [u8], options: OpenOptions) -> Result<Self, FormatError> {
        let header = check_file_header(bytes)?;
        let (length, total_bytes) = (header.file_length.get(), bytes.len() as u64);
        let is_whole = length <= total_bytes;
        if !is_whole && !options.recover {
            let found = format!("{total_bytes} bytes");
            return Err(FormatError::new(
                FORMAT,
                Fault::Truncated,
                16,
                "file_length",
                format!("{length} bytes"),
                found,
            ));
        }
        let bytes = if is_whole && length != 0 { &bytes[..length as usize] } else { bytes };
        let mut this = Self { bytes, header, tear: None, total_bytes };
        if options.recover && (length == 0 || !is_whole) {
            this.find_tear();
        }
        Ok(this)
    }

    /// Whether its length is in its header, as it is when a session ends.
    pub fn is_closed(&self) -> bool {
        self.header.file_length.get() != 0
    }

    /// The file header.
    pub fn header(&self) -> &'a FileHeader {
        self.header
    }

    /// Where it is torn; only set if opened with `recover`.
    pub fn tear(&self) -> Option<Tear> {
        self.tear
    }

    /// Number of valid bytes: up to the recorded length, or up to the tear.
    pub fn length_bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Number of bytes passed to open, including those behind the end of the bundle.
    pub fn total_bytes(&self) -> u64 {
        self.total_bytes
    }

    /// All records, in file order. The iterator ends after the first error.
    pub fn records(&self) -> Records<'a> {
        let position = (self.header.header_length.get() as usize).min(self.bytes.len());
        Records { bytes: self.bytes, position, ordinal: 0, version_minor: self.header.version_minor.get() }
    }

    /// Truncates the bytes before the first incomplete record. A complete but malformed record is left for
    /// [`Records`] to report.
    fn find_tear(&mut self) {
        let mut records = self.records();
        loop {
            let (position, ordinal) = (records.position, records.ordinal);
            let is_torn = match records.next() {
                // The file may end between two records.
                None if self.header.file_length.get() <= self.total_bytes => return,
                None => true,
                Some(Ok(_)) => continue,
                Some(Err(error)) => error.fault == Fault::Truncated,
            };
            let tail = self.bytes.get(position..).unwrap_or_default();
            // After a crash, file systems may leave zeros in place of writes that never completed: holes of
            // any size, so only the first bytes are tested.
            if is_torn || tail.iter().take(ZEROS_BYTES).all(|byte| *byte == 0) {
                let lost_bytes = tail.len() as u64;
                self.tear = Some(Tear { offset: position as u64, record_count: ordinal, lost_bytes });
                self.bytes = &self.bytes[..position];
            }
            return;
        }
    }
}

/// One record, zero-copy.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// File offset of the record's header.
    pub offset: u64,
    /// Its index among the records of the file, from zero.
    pub ordinal: u64,
    /// The header.
    pub header: &'a RecordHeader,
    /// The content type's text.
    pub content_type: &'a [u8],
    /// The name: that of the device, as the producer calls it.
    pub name: &'a [u8],
    /// The payload's bytes.
    pub payload: &'a [u8],
    /// Minor version of the bundle.
    pub version_minor: u16,
}

impl<'a> Record<'a> {
    /// The record type.
    pub fn record_type(&self) -> RecordType {
        RecordType(self.header.record_type.get())
    }

    /// Whether it is a chunk whose producer dropped rows.
    pub fn is_truncated(&self) -> bool {
        self.header.chunk_flags.get() & CHUNK_TRUNCATED != 0
    }

    /// An error in this record; `field_offset` is relative to its payload.
    #[cold]
    pub fn payload_error(
        &self,
        fault: Fault,
        field_offset: usize,
        field: &'static str,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> FormatError {
        let strings = (self.content_type.len() + self.name.len() + field_offset) as u64;
        let offset = self.offset + u64::from(self.header.header_length.get()) + strings;
        FormatError::new(FORMAT, fault, offset, field, expected, found).in_record(self.ordinal)
    }
}

/// The records of a [`Bundle`], in file order.
#[derive(Clone)]
pub struct Records<'a> {
    bytes: &'a [u8],
    position: usize,
    ordinal: u64,
    version_minor: u16,
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, FormatError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.position >= self.bytes.len() {
            return None;
        }
        let result = self.parse();
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
    fn parse(&self) -> Result<Record<'a>, FormatError> {
        let rest = &self.bytes[self.position..];
        let Ok((header, _)) = RecordHeader::ref_from_prefix(rest) else {
            let expected = format!("{RECORD_HEADER_BYTES} bytes");
            let found = format!("{} bytes", rest.len());
            return Err(self.error(Fault::Truncated, 0, "record header", expected, found));
        };
        let corrupt = |at, field, expected: String, found: u64| {
            self.error(Fault::Corrupt, at, field, expected, found.to_string())
        };
        if header.flags.get() != 0 {
            return Err(corrupt(102, "flags", "0".to_owned(), header.flags.get().into()));
        }
        let (length, header_length) = (header.record_length.get(), u64::from(header.header_length.get()));
        if header_length < RECORD_HEADER_BYTES as u64 || header_length > length {
            let expected = format!("{RECORD_HEADER_BYTES} to {length}");
            return Err(corrupt(56, "header_length", expected, header_length));
        }
        let strings = u64::from(header.content_type_length.get()) + u64::from(header.name_length.get());
        let payload_length = header.payload_length.get();
        // Neither subtraction can wrap: the header is in the record, and the strings are compared first.
        let data_length = length - header_length;
        if strings > data_length || payload_length != data_length - strings {
            let expected = format!("{}", data_length.saturating_sub(strings));
            return Err(corrupt(8, "payload_length", expected, payload_length));
        }
        if length > rest.len() as u64 {
            let found = format!("{} bytes up to the end of the bundle", rest.len());
            return Err(self.error(Fault::Truncated, 0, "record_length", format!("{length} bytes"), found));
        }
        let data = &rest[header_length as usize..length as usize];
        let (content_type, data) = data.split_at(header.content_type_length.get() as usize);
        let (name, payload) = data.split_at(header.name_length.get() as usize);
        let (offset, ordinal, version_minor) = (self.position as u64, self.ordinal, self.version_minor);
        Ok(Record { offset, ordinal, header, content_type, name, payload, version_minor })
    }

    #[cold]
    fn error(
        &self,
        fault: Fault,
        field_offset: u64,
        field: &'static str,
        expected: String,
        found: String,
    ) -> FormatError {
        let offset = self.position as u64 + field_offset;
        FormatError::new(FORMAT, fault, offset, field, expected, found).in_record(self.ordinal)
    }
}

fn check_file_header(bytes: &[u8]) -> Result<&FileHeader, FormatError> {
    let fail = |fault, at, field, expected: String, found: String| {
        Err(FormatError::new(FORMAT, fault, at, field, expected, found))
    };
    let magic = &bytes[..bytes.len().min(4)];
    if !FILE_MAGIC.to_le_bytes().starts_with(magic) {
        return fail(Fault::Corrupt, 0, "magic", "IRPF".to_owned(), magic.escape_ascii().to_string());
    }
    let Ok((header, _)) = FileHeader::ref_from_prefix(bytes) else {
        let expected = format!("{FILE_HEADER_BYTES} bytes");
        return fail(Fault::Truncated, 0, "file header", expected, format!("{} bytes", bytes.len()));
    };
    let (major, minor) = (header.version_major.get(), header.version_minor.get());
    if major != VERSION.0 {
        return fail(
            Fault::Unsupported,
            4,
            "version",
            format!("{}.x", VERSION.0),
            format!("{major}.{minor}"),
        );
    }
    let length = header.header_length.get();
    if (length as usize) < FILE_HEADER_BYTES || u64::from(length) > bytes.len() as u64 {
        let expected = format!("{FILE_HEADER_BYTES} to {}", bytes.len());
        return fail(Fault::Corrupt, 8, "header_length", expected, length.to_string());
    }
    if header.flags.get() != 0 {
        return fail(Fault::Corrupt, 12, "flags", "0".to_owned(), header.flags.get().to_string());
    }
    let file_length = header.file_length.get();
    if file_length != 0 && file_length < u64::from(length) {
        let expected = format!("0 or at least {length}");
        return fail(Fault::Corrupt, 16, "file_length", expected, file_length.to_string());
    }
    Ok(header)
}
