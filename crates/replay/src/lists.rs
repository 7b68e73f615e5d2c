/// Lists by dense index, most of them empty. A list that becomes empty leaves its memory to another.
pub(crate) struct Lists<T> {
    /// By index: one more than the position in `used`, or 0 if the list is empty.
    positions: Vec<u32>,
    /// The lists, with their indices; those from `len` on are empty and have none.
    used: Vec<(u32, Vec<T>)>,
    len: usize,
}

impl<T> Lists<T> {
    /// Empty lists with the indices up to `count`.
    pub(crate) fn new(count: usize) -> Self {
        Self { positions: vec![0; count], used: Vec::new(), len: 0 }
    }

    /// The list with an index.
    pub(crate) fn get(&self, index: u32) -> &[T] {
        match self.positions[index as usize] {
            0 => &[],
            position => &self.used[position as usize - 1].1,
        }
    }

    /// The list with an index, which the caller adds to.
    pub(crate) fn list(&mut self, index: u32) -> &mut Vec<T> {
        let position = &mut self.positions[index as usize];
        if *position == 0 {
            if self.len == self.used.len() {
                self.used.push((index, Vec::new()));
            }
            self.used[self.len].0 = index;
            self.len += 1;
            *position = self.len as u32;
        }
        &mut self.used[*position as usize - 1].1
    }

    /// Changes each list that is not empty.
    pub(crate) fn retain_non_empty(&mut self, mut change: impl FnMut(u32, &mut Vec<T>)) {
        let mut at = 0;
        while at < self.len {
            let (index, list) = &mut self.used[at];
            change(*index, list);
            if !list.is_empty() {
                at += 1;
                continue;
            }
            self.positions[*index as usize] = 0;
            self.len -= 1;
            self.used.swap(at, self.len);
            if at < self.len {
                self.positions[self.used[at].0 as usize] = at as u32 + 1;
            }
        }
    }

    /// Clears each list that is not empty, after `see`.
    pub(crate) fn clear_each(&mut self, mut see: impl FnMut(u32, &[T])) {
        for (index, list) in &mut self.used[..self.len] {
            see(*index, list);
            list.clear();
            self.positions[*index as usize] = 0;
        }
        self.len = 0;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn lists_are_those_of_a_map() {
        const COUNT: u32 = 12;
        let mut random = fastrand::Rng::with_seed(5);
        let (mut lists, mut expected) = (Lists::new(COUNT as usize), HashMap::<u32, Vec<u32>>::new());
        for value in 0..20_000 {
            match random.u32(..10) {
                0..6 => {
                    let index = random.u32(..COUNT);
                    lists.list(index).push(value);
                    expected.entry(index).or_default().push(value);
                }
                6..9 => {
                    let divisor = random.u32(2..5);
                    let keep = |value: &u32| !value.is_multiple_of(divisor);
                    lists.retain_non_empty(|index, list| {
                        assert_eq!(Some(&*list), expected.get(&index));
                        list.retain(keep);
                    });
                    expected.values_mut().for_each(|list| list.retain(keep));
                    expected.retain(|_, list| !list.is_empty());
                }
                _ => {
                    lists.clear_each(|index, list| {
                        assert_eq!(expected.remove(&index).as_deref(), Some(list));
                    });
                    assert!(expected.is_empty());
                }
            }
            for index in 0..COUNT {
                assert_eq!(lists.get(index), expected.get(&index).map_or(&[][..], |list| list));
            }
        }
    }
}
