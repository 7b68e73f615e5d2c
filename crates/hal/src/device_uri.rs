use rehal_base::{Error, Result};

/// Limit on the parameters of a URI, the same as the reference's.
const PARAM_LIMIT: usize = 128;

const FORMS: &str = "expected DRIVER, DRIVER://PATH or DRIVER://PATH?KEY=VALUE";

/// A device's URI: `driver`, `driver://path` or `driver://path?key=value&key=value`.
///
/// ```
/// let uri = rehal_hal::DeviceUri::parse("cuda://GPU-0a1b?streams=4")?;
/// assert_eq!((uri.driver, uri.path), ("cuda", "GPU-0a1b"));
/// assert_eq!(uri.params, [("streams", "4")]);
/// # Ok::<(), rehal_base::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceUri<'a> {
    /// The driver's name.
    pub driver: &'a str,
    /// A path, an identifier or an index of a device; empty for the driver's default.
    pub path: &'a str,
    /// Keys and values in order; a key without `=` has an empty value. See [`crate::Driver::configure`].
    pub params: Vec<(&'a str, &'a str)>,
}

impl<'a> DeviceUri<'a> {
    /// Splits `text` like the reference: the slashes after the colon are optional. Rejects what can name no
    /// driver, such as `local-sync?key=value`, and parameters without a key.
    pub fn parse(text: &'a str) -> Result<Self> {
        let malformed =
            |what: String| Error::invalid_argument(format!("invalid device URI '{text}': {what} ({FORMS})"));
        let (driver, rest) = text.split_once(':').unwrap_or((text, ""));
        if driver.is_empty() {
            return Err(malformed("it names no driver".into()));
        }
        let is_name = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | '+');
        if let Some(other) = driver.chars().find(|c| !is_name(*c)) {
            return Err(malformed(format!("{other:?} in the name of the driver")));
        }
        let rest = rest.strip_prefix("//").or_else(|| rest.strip_prefix('/')).unwrap_or(rest);
        let (path, params) = rest.split_once('?').unwrap_or((rest, ""));
        let params = params.strip_prefix('&').unwrap_or(params);
        let params = params.strip_suffix('&').unwrap_or(params).trim();
        let params: Vec<_> = match params {
            "" => Vec::new(),
            _ => params.split('&').map(|param| param.split_once('=').unwrap_or((param, ""))).collect(),
        };
        if params.len() > PARAM_LIMIT {
            return Err(Error::invalid_argument(format!(
                "the device URI has {} parameters, more than the limit of {PARAM_LIMIT}",
                params.len()
            )));
        }
        if params.iter().any(|(key, _)| key.is_empty()) {
            return Err(malformed("a parameter has no key".into()));
        }
        Ok(Self { driver, path, params })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris_are_split_like_the_reference() {
        for (text, driver, path, params) in [
            ("local-sync", "local-sync", "", &[][..]),
            ("local-sync:", "local-sync", "", &[]),
            ("local-sync://", "local-sync", "", &[]),
            ("vulkan://0", "vulkan", "0", &[]),
            ("vulkan:/0", "vulkan", "0", &[]),
            ("vulkan:0", "vulkan", "0", &[]),
            ("vulkan:///0", "vulkan", "/0", &[]),
            ("cuda://GPU-1a?a=b", "cuda", "GPU-1a", &[("a", "b")]),
            ("cuda://?a=b=c&d&e=", "cuda", "", &[("a", "b=c"), ("d", ""), ("e", "")]),
            ("cuda://?&a=1&", "cuda", "", &[("a", "1")]),
            ("cuda://?", "cuda", "", &[]),
            ("a:b:c", "a", "b:c", &[]),
        ] {
            let expected = DeviceUri { driver, path, params: params.to_vec() };
            assert_eq!(DeviceUri::parse(text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn malformed_uris_are_rejected() {
        for (text, what) in [
            ("", "it names no driver"),
            (":", "it names no driver"),
            ("://0", "it names no driver"),
            ("?a=b", "'?' in the name of the driver"),
            ("cuda?a=b", "'?' in the name of the driver"),
            ("cuda/0", "'/' in the name of the driver"),
            ("cuda,cuda", "',' in the name of the driver"),
            (" cuda", "' ' in the name of the driver"),
            ("cu\nda://0", "'\\n' in the name of the driver"),
            ("cuda://0?=b", "a parameter has no key"),
            ("cuda://?a=b&&c=d", "a parameter has no key"),
        ] {
            let error = DeviceUri::parse(text).unwrap_err();
            assert_eq!(
                error.to_string(),
                format!("INVALID_ARGUMENT; invalid device URI '{text}': {what} ({FORMS})")
            );
        }
    }

    #[test]
    fn parameters_are_bounded() {
        let text = |count: usize| format!("x://?{}", vec!["a=1"; count].join("&"));
        assert_eq!(DeviceUri::parse(&text(PARAM_LIMIT)).unwrap().params.len(), PARAM_LIMIT);
        let error = DeviceUri::parse(&text(PARAM_LIMIT + 1)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "INVALID_ARGUMENT; the device URI has 129 parameters, more than the limit of 128"
        );
    }
}
