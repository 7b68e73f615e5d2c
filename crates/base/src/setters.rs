/// Gives options a setter for each field that is listed, so that programs of other crates can make
/// `#[non_exhaustive]` options in one expression.
///
/// ```
/// #[derive(Default)]
/// pub struct Options {
///     pub limit: u64,
/// }
///
/// rehal_base::setters!(Options { limit: u64 });
///
/// assert_eq!(Options::default().limit(4).limit, 4);
/// ```
#[macro_export]
macro_rules! setters {
    ($options:ident { $($field:ident: $type:ty),* $(,)? }) => {
        /// One setter for each field.
        impl $options {
            $(
                /// Sets the field of this name.
                #[must_use]
                pub fn $field(mut self, $field: $type) -> Self {
                    self.$field = $field;
                    self
                }
            )*
        }
    };
}
