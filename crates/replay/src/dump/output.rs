use std::io::{self, Write};

/// Buffers text and passes it to a writer in large pieces.
///
/// Appending cannot fail: the first error is kept and [`Output::end_line`] reports it.
pub struct Output<'w> {
    buffer: Vec<u8>,
    writer: &'w mut dyn Write,
    failure: Option<io::Error>,
}

/// Size of a piece passed to the writer.
const PIECE_BYTES: usize = 64 * 1024;

impl<'w> Output<'w> {
    pub fn new(writer: &'w mut dyn Write) -> Self {
        Self { buffer: Vec::with_capacity(2 * PIECE_BYTES), writer, failure: None }
    }

    #[inline]
    pub fn text(&mut self, text: &str) {
        self.buffer.extend_from_slice(text.as_bytes());
    }

    #[inline]
    pub fn byte(&mut self, byte: u8) {
        self.buffer.push(byte);
    }

    #[inline]
    pub fn decimal(&mut self, value: u64) {
        if value < 10 {
            self.buffer.push(b'0' + value as u8);
        } else {
            self.buffer.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
        }
    }

    /// `0x` and exactly `digits` digits (2, 4, 8 or 16), which must suffice for `value`.
    #[inline]
    pub fn hexadecimal<const DIGITS: usize>(&mut self, value: u64) {
        let mut text = [0; DIGITS];
        for (digit, shift) in text.iter_mut().rev().zip((0..).step_by(4)) {
            *digit = b"0123456789abcdef"[(value >> shift & 15) as usize];
        }
        self.text("0x");
        self.buffer.extend_from_slice(&text);
    }

    /// Raw bytes, of any length.
    pub fn raw(&mut self, bytes: &[u8]) {
        for piece in bytes.chunks(PIECE_BYTES) {
            self.buffer.extend_from_slice(piece);
            self.spill();
        }
    }

    /// Writes out the buffer if it has reached a piece. Lists call it between elements, so that a line of any
    /// length needs only one piece of memory.
    #[inline]
    pub fn spill(&mut self) {
        if self.buffer.len() >= PIECE_BYTES {
            self.write_out();
        }
    }

    /// Ends a line; returns whether all writes so far succeeded.
    #[inline]
    pub fn end_line(&mut self) -> io::Result<()> {
        self.buffer.push(b'\n');
        self.spill();
        match self.failure.take() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// Writes the remaining bytes.
    pub fn finish(mut self) -> io::Result<()> {
        self.write_out();
        match self.failure {
            Some(error) => Err(error),
            None => self.writer.flush(),
        }
    }

    #[cold]
    fn write_out(&mut self) {
        if self.failure.is_none()
            && let Err(error) = self.writer.write_all(&self.buffer)
        {
            self.failure = Some(error);
        }
        self.buffer.clear();
    }
}
