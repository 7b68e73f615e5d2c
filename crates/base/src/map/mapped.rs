//! The files that are mapped, as the system lists them, for a signal handler that names the file behind a
//! fault.

use std::fs::File;
use std::io::Read;

/// More than a line with the longest path has.
const LINE_BYTES: usize = 4096 + 256;

/// The path of the mapped file that `address` is in, and where in the file; `None` if
/// the memory is shared with a device, or on another system than Linux. It takes no lock, and allocates
/// nothing: a file with a short path is opened with a system call and read with another.
pub fn mapped_file_at<R>(address: usize, tell: impl FnOnce(&[u8], usize) -> R) -> Option<R> {
    let mut maps = File::open("/proc/self/maps").ok()?;
    let (mut line, mut length, mut chunk) = ([0; LINE_BYTES], 0, [0; 1024]);
    loop {
        let count = maps.read(&mut chunk).ok().filter(|count| *count > 0)?;
        for byte in &chunk[..count] {
            if *byte != b'\n' {
                if let Some(place) = line.get_mut(length) {
                    *place = *byte;
                    length += 1;
                }
                continue;
            }
            if let Some((path, offset)) = line.get(..length).and_then(|line| file_in(line, address)) {
                return Some(tell(path, offset));
            }
            length = 0;
        }
    }
}

/// The path and the offset of `address`, if that is in the mapping of a file that a line describes:
/// `START-END ACCESS OFFSET DEVICE INODE PATH`, in hexadecimal.
fn file_in(line: &[u8], address: usize) -> Option<(&[u8], usize)> {
    let number = |text| usize::from_str_radix(str::from_utf8(text).ok()?, 16).ok();
    let mut fields = line.splitn(6, |byte| *byte == b' ');
    let mut ends = fields.next()?.split(|byte| *byte == b'-');
    let (start, end) = (number(ends.next()?)?, number(ends.next()?)?);
    if !(start..end).contains(&address) || fields.next()?.starts_with(b"rw-s") {
        return None;
    }
    let offset = number(fields.next()?)?;
    let path = fields.nth(2)?.trim_ascii_start();
    path.starts_with(b"/").then_some((path, offset + (address - start)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_tells_the_place_in_a_file() {
        let line = b"7f10-7f30 rw-p 00002000 fe:00 1234      /a/file of mine";
        assert_eq!(file_in(line, 0x7f10), Some((&b"/a/file of mine"[..], 0x2000)));
        assert_eq!(file_in(line, 0x7f2f), Some((&b"/a/file of mine"[..], 0x201f)));
        assert_eq!((file_in(line, 0x7f30), file_in(line, 0x7f0f)), (None, None));
        assert_eq!(file_in(b"7f10-7f30 rw-s 00002000 fe:00 1234      /dev/gpu", 0x7f10), None);
        assert_eq!(file_in(b"7f10-7f30 rw-p 00000000 00:00 0         [heap]", 0x7f10), None);
        assert_eq!(file_in(b"7f10-7f30 rw-p 00000000 00:00 0", 0x7f10), None);
        assert_eq!(file_in(b"7f10", 0x7f10), None);
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri does not support mapping files")]
    fn an_address_is_found_while_its_file_is_mapped() {
        let path = std::env::temp_dir().join(format!("rehal-mapped-{}", std::process::id()));
        std::fs::write(&path, [1; 9000]).unwrap();
        let map = crate::MappedFile::open(&path).unwrap();
        let address = map.bytes().as_ptr().addr();
        let found = |address| mapped_file_at(address, |path, offset| (path.to_vec(), offset));
        assert_eq!(found(address + 8999), Some((path.as_os_str().as_encoded_bytes().to_vec(), 8999)));
        assert_eq!(found(std::ptr::from_ref(&map).addr()), None);
        std::fs::remove_file(&path).unwrap();
    }
}
