//! One list of fields for a struct of the wire that is taken from the core's.
//!
//! [`taken!`] makes the struct, the conversion from the core and, where `written` stands
//! before the list, the writer of its JSON from that one list, so a field is named once.

/// Makes a struct from `field: type = value`, in the order of the JSON; `field as "name"`
/// if the JSON calls it otherwise. `from (source: type, m = message)` names what the values
/// are taken from.
macro_rules! taken {
    (
        $(#[$outer:meta])*
        pub struct $name:ident $(<$life:lifetime>)?
        from ($source:ident: $from:ty, $m:ident = $message:expr) {
            $($(#[$inner:meta])* $field:ident $(as $json:literal)?: $type:ty = $value:expr,)*
        }
    ) => {
        $(#[$outer])*
        pub struct $name $(<$life>)? {
            $($(#[$inner])* $(#[serde(rename = $json)])? pub $field: $type,)*
        }

        impl $(<$life>)? From<$from> for $name $(<$life>)? {
            #[inline]
            fn from($source: $from) -> Self {
                let $m = $message;
                Self { $($field: $value,)* }
            }
        }
    };
    (
        written
        $(#[$outer:meta])*
        pub struct $name:ident <$life:lifetime> from $from:tt $fields:tt
    ) => {
        $crate::taken::taken! { $(#[$outer])* pub struct $name <$life> from $from $fields }
        $crate::taken::taken! { @write $name $fields }
    };
    (@write $name:ident {
        $($(#[$inner:meta])* $field:ident $(as $json:literal)?: $type:ty = $value:expr,)*
    }) => {
        impl $name<'_> {
            /// Writes the fields that are told, each after a comma.
            #[inline]
            pub(crate) fn write(
                &self,
                json: &mut $crate::json::Json,
            ) -> Result<(), serde_json::Error> {
                $($crate::json::Field::write(
                    &self.$field,
                    concat!(",\"", $crate::taken::taken!(@name $field $($json)?), "\":"),
                    json,
                )?;)*
                Ok(())
            }
        }
    };
    (@name $field:ident) => { stringify!($field) };
    (@name $field:ident $json:literal) => { $json };
}
pub(crate) use taken;
