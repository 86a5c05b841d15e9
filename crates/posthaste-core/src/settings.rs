//! Sections of the configuration, each with its keys, their defaults and what
//! they are for.
//!
//! A section is written once. The struct, its defaults, what the command line
//! tells about each key, and the example file all come from that one place, so
//! none of them can go stale.

/// Makes a section: `/// what it is for`, `key: type = default;`. A `with` module
/// of serde may follow the default.
#[macro_export]
macro_rules! settings {
    (
        $(#[$outer:meta])*
        $vis:vis struct $section:ident {
            $($(#[doc = $doc:literal])* $key:ident: $ty:ty = $default:expr $(, $with:literal)?;)*
        }
    ) => {
        $(#[$outer])*
        #[derive(Debug, Clone, PartialEq, ::serde::Serialize, ::serde::Deserialize)]
        #[serde(default, deny_unknown_fields)]
        $vis struct $section {
            $($(#[doc = $doc])* $(#[serde(with = $with)])? $vis $key: $ty,)*
        }

        impl Default for $section {
            fn default() -> Self {
                Self { $($key: $default,)* }
            }
        }

        impl $section {
            /// Every key, and what it is for.
            $vis const KEYS: &'static [(&'static str, &'static str)] =
                &[$((stringify!($key), concat!($($doc),*)),)*];
        }
    };
}
