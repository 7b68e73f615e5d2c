use rehal_base::printf::{self, General};

/// A number with at most six digits, as C's `%g` and C++ streams print it: `0.069780`, `1.5e-07`, `inf`.
pub(crate) fn general(value: f64) -> String {
    General { value: unsigned_nan(value), digits: 6 }.to_string()
}

/// A number with `digits` decimals and an exponent of at least two digits, as C's `%e` prints it.
pub(crate) fn scientific(value: f64, digits: usize) -> String {
    printf::scientific(unsigned_nan(value), digits)
}

/// A number that was not computed has no sign.
fn unsigned_nan(value: f64) -> f64 {
    if value.is_nan() { f64::NAN } else { value }
}

/// A number as in JSON reports: 17 digits, which round-trip the `f64`. `NaN` and `Infinity`, which JSON
/// lacks, are what Google Benchmark writes and Python reads.
pub(crate) fn json_number(value: f64) -> String {
    match value {
        _ if value.is_nan() => "NaN".into(),
        f64::INFINITY => "Infinity".into(),
        f64::NEG_INFINITY => "-Infinity".into(),
        _ => scientific(value, 16),
    }
}

/// A number with a unit prefix: `7.23988k`, `1.5M`, `25m`.
///
/// Numbers from 0.01 to just below 1000 are printed as they are, and so are those beyond all prefixes.
pub(crate) fn human_readable(value: f64) -> String {
    const SMALL: [&str; 8] = ["m", "u", "n", "p", "f", "a", "z", "y"];
    const BIG: [&str; 8] = ["k", "M", "G", "T", "P", "E", "Z", "Y"];
    const K: f64 = 1000.0;
    let sign = if value < 0.0 { "-" } else { "" };
    let magnitude = value.abs();
    // The threshold is one below a full step: 999.5 already has a prefix.
    let scaled = if magnitude > K - 1.0 {
        prefixed(magnitude, BIG, |scaled| scaled / K, |scaled| scaled <= K - 1.0)
    } else if magnitude < 0.01 {
        prefixed(magnitude, SMALL, |scaled| scaled * K, |scaled| scaled >= 1.0)
    } else {
        None
    };
    let (number, prefix) = scaled.unwrap_or((magnitude, ""));
    format!("{sign}{}{prefix}", general(number))
}

/// Steps until it `fits`, and returns the prefix; `None` if no prefix is large enough.
fn prefixed(
    magnitude: f64,
    prefixes: [&'static str; 8],
    step: impl Fn(f64) -> f64,
    fits: impl Fn(f64) -> bool,
) -> Option<(f64, &'static str)> {
    let mut scaled = magnitude;
    prefixes.into_iter().find_map(|prefix| {
        scaled = step(scaled);
        fits(scaled).then_some((scaled, prefix))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_numbers_match_the_reference() {
        // Left: results of arithmetic; right: lines of the pinned release's JSON.
        for text in [
            "6.9780349986103829e-02",
            "1.4330681921187577e+04",
            "7.0041650000000080e-02",
            "8.3149833029360664e+01",
        ] {
            assert_eq!(json_number(text.parse().unwrap()), text);
        }
        assert_eq!(json_number(0.0), "0.0000000000000000e+00");
        assert_eq!(json_number(1e-300), "1.0000000000000000e-300");
        assert_eq!(json_number(f64::NAN), "NaN");
        assert_eq!(json_number(f64::NEG_INFINITY), "-Infinity");
    }

    #[test]
    fn prefixes() {
        for (value, want) in [
            (0.0, "0"),
            (1.0, "1"),
            (99.94, "99.94"),
            (620.72, "620.72"),
            (998.168, "998.168"),
            (999.0, "999"),
            (999.5, "0.9995k"),
            (7239.88, "7.23988k"),
            (452663.0, "452.663k"),
            (1e6, "1M"),
            (14932.0, "14.932k"),
            (1e24, "1Y"),
            (1e30, "1e+30"),
            (0.5, "0.5"),
            (0.01, "0.01"),
            (0.0099, "9.9m"),
            (1.5e-6, "1.5u"),
            (1e-30, "1e-30"),
            (-2500.0, "-2.5k"),
            (f64::INFINITY, "inf"),
            (f64::NAN, "nan"),
        ] {
            assert_eq!(human_readable(value), want, "{value:?}");
        }
    }
}
