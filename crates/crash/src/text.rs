use std::time::Duration;

use rehal_base::is_shown;

/// The text of a report, of limited length; excess bytes are dropped. Nothing here allocates, locks or
/// panics.
pub struct Text {
    bytes: [u8; 2048],
    length: usize,
}

impl Text {
    pub(crate) fn new() -> Self {
        Self { bytes: [0; 2048], length: 0 }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }

    fn byte(&mut self, byte: u8) {
        if let Some(slot) = self.bytes.get_mut(self.length) {
            *slot = byte;
            self.length += 1;
        }
    }

    /// Adds text as it is.
    pub fn push(&mut self, text: &str) -> &mut Self {
        text.bytes().for_each(|byte| self.byte(byte));
        self
    }

    /// Adds a name from an executable: control characters would reach the terminal.
    pub fn name(&mut self, name: &str) -> &mut Self {
        self.name_bytes(name.as_bytes())
    }

    pub(crate) fn name_bytes(&mut self, name: &[u8]) -> &mut Self {
        self.visible(&name[..name.len().min(256)])
    }

    pub(crate) fn visible(&mut self, bytes: &[u8]) -> &mut Self {
        for chunk in bytes.utf8_chunks() {
            for character in chunk.valid().chars() {
                let shown = if is_shown(character) { character } else { '?' };
                self.push(shown.encode_utf8(&mut [0; 4]));
            }
            self.push(if chunk.invalid().is_empty() { "" } else { "?" });
        }
        self
    }

    /// Adds a number.
    pub fn decimal(&mut self, value: u64) -> &mut Self {
        let mut divisor = 1;
        while value / divisor >= 10 {
            divisor *= 10;
        }
        while divisor > 0 {
            self.byte(b'0' + (value / divisor % 10) as u8);
            divisor /= 10;
        }
        self
    }

    pub(crate) fn hex(&mut self, value: u64) -> &mut Self {
        self.push("0x");
        let digits = (64 - value.leading_zeros()).div_ceil(4).max(1);
        for digit in (0..digits).rev() {
            let digit = (value >> (digit * 4) & 0xF) as u8;
            self.byte(if digit < 10 { b'0' + digit } else { b'a' + digit - 10 });
        }
        self
    }

    pub(crate) fn duration(&mut self, duration: Duration) -> &mut Self {
        match (duration.as_millis(), duration.subsec_millis()) {
            (_, 0) => self.decimal(duration.as_secs()).push(" s"),
            (milliseconds, _) => self.decimal(milliseconds as u64).push(" ms"),
        }
    }

    /// Adds three numbers in brackets.
    pub fn triple(&mut self, [x, y, z]: [u32; 3]) -> &mut Self {
        self.push("[").decimal(u64::from(x)).push(", ").decimal(u64::from(y)).push(", ");
        self.decimal(u64::from(z)).push("]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_formatted_as_the_standard_library_does() {
        for value in [0, 1, 9, 10, 11, 99, 100, 4095, 4096, u64::from(u32::MAX), u64::MAX] {
            let mut text = Text::new();
            text.decimal(value).push(" ").hex(value);
            assert_eq!(text.bytes(), format!("{value} {value:#x}").as_bytes());
        }
    }

    #[test]
    fn long_names_are_truncated_and_control_characters_replaced() {
        let mut text = Text::new();
        text.name("a\x1b[31m\n\u{9b}\u{202e}é")
            .push(" ")
            .name_bytes(b"\xff")
            .push(" ")
            .name(&"x".repeat(1000));
        assert_eq!(text.bytes(), format!("a?[31m???é ? {}", "x".repeat(256)).as_bytes());
        for _ in 0..100 {
            text.push("a hundred times more than what fits");
        }
        assert_eq!(text.bytes().len(), 2048);
    }
}
