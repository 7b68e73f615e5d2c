//! Files in captures: each policy, each validation, and files over memory.

use std::io::Write;

use rehal_base::{Result, StatusCode, fnv};
use rehal_capture::{OperationCode as Code, Payload, RecordType};
use rehal_hal::{BufferRef, File, HostFile, MemoryAccess, QUEUE_AFFINITY_ANY};
use rehal_replay::{FilePolicy, FileValidation, RecordOptions};
use tempfile::NamedTempFile;

use crate::program::{Program, Reads, each_operation, replay};

/// 1000 bytes in a file.
fn on_disk() -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(&contents()).unwrap();
    file
}

fn contents() -> Vec<u8> {
    (0..1000_u32).map(|index| (index * 7) as u8).collect()
}

/// A program that reads 100 bytes from byte 50 of a file and maps the result.
fn read(program: &Program, file: HostFile) -> Result<()> {
    let file: File = program.device().import_file(QUEUE_AFFINITY_ANY, MemoryAccess::READ, file)?;
    let buffer = program.buffer(&[0; 100]);
    let target = BufferRef::whole(&buffer);
    program.device().queue(QUEUE_AFFINITY_ANY).read(&file, 50, target, 0)?;
    let mut bytes = [0; 100];
    buffer.read(0, &mut bytes)?;
    assert_eq!(bytes, contents()[50..150]);
    Ok(())
}

/// A file in a capture: its reference and validation type, the bytes stored in the operation and in the
/// object, and those stored in the read.
#[derive(Debug, PartialEq)]
struct Held {
    reference: u32,
    validation: u32,
    stored: Vec<u8>,
    stored_again: Vec<u8>,
    read: Vec<u8>,
}

fn held(capture: &[u8]) -> Held {
    let mut held = Held { reference: 9, validation: 9, stored: vec![], stored_again: vec![], read: vec![] };
    let opened = rehal_capture::Capture::open(capture, rehal_capture::OpenOptions::default()).unwrap();
    for record in opened.records().map(|record| record.unwrap()) {
        match record.payload().unwrap() {
            Payload::FileObject(it) if record.record_type() == RecordType::OPERATION => {
                (held.reference, held.validation) = (it.reference_type.get(), it.validation_type.get());
                held.stored = it.reference.to_vec();
            }
            Payload::FileObject(it) => held.stored_again = it.reference.to_vec(),
            Payload::QueueRead(it) => held.read = it.captured_data.to_vec(),
            _ => {}
        }
    }
    held
}

fn with(file_policy: FilePolicy, file_validation: FileValidation) -> (Held, Vec<u8>, NamedTempFile) {
    let program =
        Program::new(RecordOptions::default().file_policy(file_policy).file_validation(file_validation));
    let file = on_disk();
    read(&program, HostFile::Disk(file.reopen().unwrap())).unwrap();
    let capture = program.capture();
    (held(&capture), capture, file)
}

/// A replay must read the same bytes.
fn reads_again(capture: &[u8]) {
    let mut reads = Reads::default();
    replay(capture, &mut reads).unwrap();
    assert_eq!(reads.0.last().unwrap(), &contents()[50..150]);
}

#[test]
fn the_reference_policy_stores_the_path() {
    for (file_validation, validation) in [(FileValidation::Identity, 1), (FileValidation::Digest, 2)] {
        let (held, capture, file) = with(FilePolicy::Reference, file_validation);
        let path = file.path().as_os_str().as_encoded_bytes().to_vec();
        assert_eq!(
            held,
            Held { reference: 1, validation, stored: path.clone(), stored_again: path, read: vec![] }
        );
        reads_again(&capture);
        // Other contents fail both validations.
        std::fs::write(file.path(), [1; 1000]).unwrap();
        assert!(replay(&capture, &mut Reads::default()).is_err());
    }
    let (_, capture, _file) = with(FilePolicy::Reference, FileValidation::Digest);
    let digest = fnv::fnv1a64(&contents()).to_le_bytes();
    assert!(capture.windows(8).any(|bytes| bytes == digest));
}

#[test]
fn the_ranges_policy_stores_the_bytes_read() {
    let (held, capture, file) = with(FilePolicy::CaptureRanges, FileValidation::Digest);
    let path = file.path().as_os_str().as_encoded_bytes().to_vec();
    let read = contents()[50..150].to_vec();
    assert_eq!(held, Held { reference: 3, validation: 0, stored: path.clone(), stored_again: path, read });
    file.close().unwrap();
    reads_again(&capture);
}

#[test]
fn the_capture_all_policy_stores_the_file_once() {
    let (held, capture, file) = with(FilePolicy::CaptureAll, FileValidation::Identity);
    let stored = contents();
    assert_eq!(held, Held { reference: 2, validation: 0, stored, stored_again: vec![], read: vec![] });
    file.close().unwrap();
    reads_again(&capture);
}

#[test]
fn the_fail_policy_rejects_and_records_the_import() {
    let options = RecordOptions::default().file_policy(FilePolicy::Fail);
    let program = Program::new(options);
    let refused = read(&program, HostFile::Disk(on_disk().reopen().unwrap())).unwrap_err();
    assert_eq!(refused.code(), StatusCode::FailedPrecondition);
    // Memory has no path to refer to, so it is always stored.
    read(&program, HostFile::from_bytes(&contents()).unwrap()).unwrap();
    let capture = program.capture();
    let mut imports = Vec::new();
    each_operation(&capture, |record| {
        if let (Code::DEVICE_IMPORT_FILE, Payload::FileObject(it)) =
            (record.operation(), record.payload().unwrap())
        {
            imports.push((record.header.status_code.get(), it.reference_type.get(), it.reference.len()));
        }
    });
    assert_eq!(imports, [(StatusCode::FailedPrecondition as u32, 0, 0), (0, 2, 1000)]);
    reads_again(&capture);
}

#[test]
fn an_out_of_range_read_is_recorded_with_its_status() {
    for file_policy in [FilePolicy::Reference, FilePolicy::CaptureRanges] {
        let program = Program::new(RecordOptions::default().file_policy(file_policy));
        let file = HostFile::Disk(on_disk().reopen().unwrap());
        let file = program.device().import_file(QUEUE_AFFINITY_ANY, MemoryAccess::READ, file).unwrap();
        let buffer = program.buffer(&[0; 100]);
        let target = BufferRef::whole(&buffer);
        let refused = program.device().queue(QUEUE_AFFINITY_ANY).read(&file, 950, target, 0).unwrap_err();
        assert_eq!(refused.code(), StatusCode::OutOfRange);
        let capture = program.capture();
        let mut reads = Vec::new();
        each_operation(&capture, |record| {
            if let Payload::QueueRead(it) = record.payload().unwrap() {
                reads.push((record.header.status_code.get(), it.captured_data.len()));
            }
        });
        assert_eq!(reads, [(StatusCode::OutOfRange as u32, 0)]);
    }
}

/// A read of a file that the program truncated after importing it is rejected without an access beyond its
/// end.
#[test]
fn reads_beyond_a_truncated_file_are_rejected_by_every_policy() {
    let policies = [FilePolicy::Reference, FilePolicy::CaptureRanges, FilePolicy::CaptureAll];
    for (file_policy, code) in
        policies.into_iter().zip([StatusCode::DataLoss, StatusCode::Unavailable, StatusCode::DataLoss])
    {
        let program = Program::new(RecordOptions::default().file_policy(file_policy));
        let on_disk = on_disk();
        let file = HostFile::Disk(on_disk.reopen().unwrap());
        let file = program.device().import_file(QUEUE_AFFINITY_ANY, MemoryAccess::READ, file).unwrap();
        on_disk.as_file().set_len(0).unwrap();
        let buffer = program.buffer(&[0; 100]);
        let refused = program.device().queue(QUEUE_AFFINITY_ANY).read(&file, 50, &buffer, 0).unwrap_err();
        assert_eq!(refused.code(), code, "{refused}");
        on_disk.as_file().set_len(1000).unwrap();
        program.device().queue(QUEUE_AFFINITY_ANY).read(&file, 50, &buffer, 0).unwrap();
        program.capture();
    }
}
