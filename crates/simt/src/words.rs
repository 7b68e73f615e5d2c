/// A set of values, some of which have a name in the text.
pub(crate) trait Word: Sized {
    /// The names, with spaces between them.
    const WORDS: &'static str;

    /// The value with a name.
    fn named(word: &str) -> Option<Self>;
}

/// Declares an enum and the names of its variants in the text: a table that is read as one.
macro_rules! words {
    ($(#[$attribute:meta])* $name:ident { $($variant:ident $(= $word:literal)?),+ $(,)? }) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub(crate) enum $name { $($variant),+ }

        impl $crate::words::Word for $name {
            const WORDS: &'static str = concat!($($($word, " ",)?)+);

            fn named(word: &str) -> Option<Self> {
                $($(if word == $word {
                    return Some(Self::$variant);
                })?)+
                let _ = word;
                None
            }
        }
    };
}
