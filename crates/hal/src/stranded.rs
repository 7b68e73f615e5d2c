use std::collections::{HashMap, HashSet};
use std::hash::Hash;

/// The requirements of a waiting submission and the signals that it provides.
pub(crate) struct Claim<S> {
    /// Semaphores it waits for.
    pub waits: Vec<S>,
    /// Semaphores it will signal.
    pub signals: Vec<S>,
}

/// The submissions that only wait for one another: no sequence of signals from `outside` could start them.
///
/// A semaphore with a handle outside may reach any value; a submission may start when everything that it
/// waits for may be signalled; and what it signals may then be signalled. A submission that is unreachable
/// this way is stranded.
pub(crate) fn stranded<S: Copy + Eq + Hash>(claims: &[Claim<S>], outside: &impl Fn(S) -> bool) -> Vec<usize> {
    let mut waiters = HashMap::<S, Vec<usize>>::new();
    let mut missing = vec![0; claims.len()];
    let mut startable = Vec::new();
    for (index, claim) in claims.iter().enumerate() {
        for wait in claim.waits.iter().filter(|wait| !outside(**wait)) {
            waiters.entry(*wait).or_default().push(index);
            missing[index] += 1;
        }
        if missing[index] == 0 {
            startable.push(index);
        }
    }
    let mut signalled = HashSet::new();
    while let Some(index) = startable.pop() {
        for signal in &claims[index].signals {
            if !signalled.insert(*signal) {
                continue;
            }
            for waiter in waiters.remove(signal).unwrap_or_default() {
                missing[waiter] -= 1;
                if missing[waiter] == 0 {
                    startable.push(waiter);
                }
            }
        }
    }
    (0..claims.len()).filter(|index| missing[*index] != 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Claims as pairs of letters: waits and signals; capital letters have handles outside.
    fn find(claims: &[(&str, &str)]) -> Vec<usize> {
        let claims: Vec<_> = claims
            .iter()
            .map(|(waits, signals)| Claim {
                waits: waits.chars().collect(),
                signals: signals.chars().collect(),
            })
            .collect();
        stranded(&claims, &|name: char| name.is_uppercase())
    }

    #[test]
    fn finds_cycles_and_their_dependents_only() {
        assert_eq!(find(&[]), []);
        assert_eq!(find(&[("", "a"), ("a", "b"), ("b", "a")]), []);
        assert_eq!(find(&[("a", "a")]), [0]);
        assert_eq!(find(&[("A", "A"), ("Aa", "B")]), [1]);
        assert_eq!(find(&[("a", "b"), ("b", "a"), ("b", "C"), ("A", "c")]), [0, 1, 2]);
        // One signal from outside starts the cycle.
        assert_eq!(find(&[("a", "b"), ("b", "a"), ("A", "a")]), []);
        // All waits count, and a duplicate counts once.
        assert_eq!(find(&[("ab", "c"), ("A", "a")]), [0]);
        assert_eq!(find(&[("aa", "c"), ("A", "a"), ("c", "")]), []);
    }

    #[test]
    fn is_linear_in_long_chains() {
        let chain: Vec<_> =
            (0..20_000u32).map(|at| Claim { waits: vec![at], signals: vec![at + 1] }).collect();
        assert_eq!(stranded(&chain, &|_| false).len(), chain.len());
        assert_eq!(stranded(&chain, &|at| at == 0), []);
        let reversed: Vec<_> = chain.into_iter().rev().collect();
        assert_eq!(stranded(&reversed, &|at| at == 0), []);
    }
}
