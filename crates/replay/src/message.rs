//! Parts of options as they are passed between processes.

use serde::Serializer;
use serde::ser::Error;

/// A callback, which another process cannot call.
pub(crate) fn callback<T, S: Serializer>(_: &T, _: S) -> Result<S::Ok, S::Error> {
    Err(S::Error::custom(
        "no callback is called from another process: name what is replaced, and its replacement",
    ))
}

/// Any path, as an `OsString`.
pub(crate) mod path {
    use std::ffi::OsString;
    use std::path::{Path, PathBuf};

    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
        serde::Serialize::serialize(path.as_os_str(), to)
    }

    pub(crate) fn deserialize<'d, D: Deserializer<'d>>(from: D) -> Result<PathBuf, D::Error> {
        OsString::deserialize(from).map(PathBuf::from)
    }
}

/// Bytes as text: a list of numbers would be three times as long.
pub(crate) mod bytes {
    use std::sync::Arc;

    use base64::prelude::{BASE64_STANDARD, Engine};
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&BASE64_STANDARD.encode(bytes))
    }

    pub(crate) fn deserialize<'d, D: Deserializer<'d>>(from: D) -> Result<Arc<[u8]>, D::Error> {
        let bytes = BASE64_STANDARD.decode(String::deserialize(from)?).map_err(D::Error::custom)?;
        Ok(bytes.into())
    }
}

#[cfg(test)]
mod tests {
    use rehal_base::platform::OsStrExt;
    use std::ffi::OsStr;
    use std::sync::Arc;

    use rehal_hal::NeededWorkgroups;

    use crate::{Code, Replacement, ReplayOptions, ReplayOrder, Selector, Substitution};

    #[test]
    fn options_are_messages() {
        let bytes: Vec<u8> = (0..3000).map(|it| it as u8).collect();
        let replacement = Replacement::bytes(bytes)
            .of_format("f")
            .keep_missing()
            .named("n")
            .with_workgroups(Some("g"), NeededWorkgroups::Count([1, 2, 3]))
            .with_workgroups(Some("h"), NeededWorkgroups::Unknown("why".into()))
            .with_workgroups(
                Some("i"),
                NeededWorkgroups::Computed(Arc::new("in:0 =1 -> 0 1 1".parse().unwrap())),
            )
            .with_workgroups(None, NeededWorkgroups::Same);
        let file = Replacement::file(OsStr::from_bytes(b"a\xffb"));
        let all = vec![
            Substitution::new(Selector::Name("x".into()), replacement),
            Substitution::new(Selector::Id(4), file),
        ];
        let options = ReplayOptions::default().substitutions(all).order(ReplayOrder::Captured);
        let message = serde_json::to_string(&options).unwrap();
        assert!(message.len() < 5000, "{}", message.len());
        let again: ReplayOptions = serde_json::from_str(&message).unwrap();
        assert_eq!((again.substitutions, again.order), (options.substitutions.clone(), options.order));
        assert!(serde_json::from_str::<Code>(r#"{"Bytes":"?"}"#).is_err());
        let error = serde_json::to_string(&options.substitute(Some(Arc::new(|_| Ok(None))))).unwrap_err();
        assert!(error.to_string().contains("no callback"), "{error}");
    }
}
