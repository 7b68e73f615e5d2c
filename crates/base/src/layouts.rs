/// Declares structures of a file format, byte for byte: packed, with alignment 1. The number before a field
/// is its offset and the number after a name is the size, both in bytes and asserted at compile time. The
/// crate that declares them depends on `zerocopy`.
#[macro_export]
macro_rules! layouts {
    ($(
        $(#[$meta:meta])*
        $vis:vis $name:ident = $size:literal {
            $( $(#[$field_meta:meta])* $offset:literal $field:ident: $type:ty, )*
        }
    )*) => {$(
        $(#[$meta])*
        #[derive(
            Clone,
            Copy,
            Debug,
            Default,
            PartialEq,
            Eq,
            ::zerocopy::FromBytes,
            ::zerocopy::IntoBytes,
            ::zerocopy::KnownLayout,
            ::zerocopy::Immutable,
            ::zerocopy::Unaligned,
        )]
        #[repr(C)]
        $vis struct $name {
            $( $(#[$field_meta])* pub $field: $type, )*
        }
        const _: () = {
            assert!(size_of::<$name>() == $size);
            $( assert!(core::mem::offset_of!($name, $field) == $offset); )*
        };
    )*};
}
