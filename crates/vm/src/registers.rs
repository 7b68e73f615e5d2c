//! The registers of a frame as the interpreter sees them: a window of bytes that every u16 is in range of, so
//! that no access needs a check.

/// Bytes of a window: 65536 registers of 4, and the second half of a pair that starts at the last.
pub(crate) const WINDOW_BYTES: usize = (1 << 16) * 4 + 4;

/// The registers that a frame and the frame it calls can name, the frame's own first.
pub(crate) type Window = [u8; WINDOW_BYTES];

/// A number that registers hold, in one or two of them.
pub(crate) trait Number: Copy {
    /// The number at `register`.
    fn get(window: &Window, register: u16) -> Self;
    /// Puts the number at `register`.
    fn put(self, window: &mut Window, register: u16);
}

macro_rules! number {
    ($type:ty, $size:literal) => {
        impl Number for $type {
            #[inline(always)]
            fn get(window: &Window, register: u16) -> Self {
                let at = usize::from(register) * 4;
                let mut bytes = [0; $size];
                bytes.copy_from_slice(&window[at..at + $size]);
                Self::from_le_bytes(bytes)
            }

            #[inline(always)]
            fn put(self, window: &mut Window, register: u16) {
                let at = usize::from(register) * 4;
                window[at..at + $size].copy_from_slice(&self.to_le_bytes());
            }
        }
    };
}

number!(i32, 4);
number!(u32, 4);
number!(f32, 4);
number!(i64, 8);
number!(u64, 8);
number!(f64, 8);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_register_is_in_the_window() {
        let mut window: Box<Window> = vec![0; WINDOW_BYTES].into_boxed_slice().try_into().unwrap();
        (-2_i64).put(&mut window, u16::MAX);
        assert_eq!(i64::get(&window, u16::MAX), -2);
        7_i32.put(&mut window, 3);
        assert_eq!(u64::get(&window, 2), 7 << 32);
        assert_eq!(f32::get(&window, 4), 0.0);
    }
}
