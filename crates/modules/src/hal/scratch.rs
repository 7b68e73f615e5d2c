use std::ops::Deref;

use rehal_base::Result;

/// A list that lives for one call, without an allocation for up to `N` elements.
pub(super) enum Scratch<T: Copy, const N: usize> {
    Empty,
    /// The first `len` are elements, the rest are copies of the first one.
    Inline([T; N], usize),
    Heap(Vec<T>),
}

impl<T: Copy, const N: usize> Scratch<T, N> {
    /// Collects the elements in order, up to the first error.
    #[inline]
    pub fn collect(elements: impl ExactSizeIterator<Item = Result<T>>) -> Result<Self> {
        let count = elements.len();
        if count > N {
            return Ok(Self::Heap(elements.collect::<Result<_>>()?));
        }
        let mut elements = elements;
        let Some(first) = elements.next() else { return Ok(Self::Empty) };
        let mut inline = [first?; N];
        for (slot, element) in inline[1..].iter_mut().zip(elements) {
            *slot = element?;
        }
        Ok(Self::Inline(inline, count))
    }
}

impl<T: Copy, const N: usize> Deref for Scratch<T, N> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        match self {
            Self::Empty => &[],
            Self::Inline(elements, count) => &elements[..*count],
            Self::Heap(elements) => elements,
        }
    }
}

#[cfg(test)]
mod tests {
    use rehal_base::Error;

    use super::*;

    #[test]
    fn short_and_long_lists_hold_their_elements() {
        for count in [0, 1, 3, 4, 5, 100] {
            let elements: Vec<usize> = (0..count).collect();
            let list = Scratch::<usize, 4>::collect(elements.iter().map(|element| Ok(*element))).unwrap();
            assert_eq!(*list, elements[..]);
            assert_eq!(matches!(list, Scratch::Heap(_)), count > 4);
        }
        for count in [1, 4, 5] {
            let broken =
                (0..count).map(|index| if index + 1 < count { Ok(index) } else { Err(Error::data_loss("")) });
            assert!(Scratch::<usize, 4>::collect(broken).is_err());
        }
    }
}
