//! The text of a message.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// A shared text: a message to a hundred recipients costs the memory of one.
#[derive(Clone, PartialEq, Eq)]
pub struct Body(Arc<str>);

impl Body {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether both are the same memory, and not only the same text.
    pub fn shares_with(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Deref for Body {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl From<String> for Body {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl From<&str> for Body {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl PartialEq<str> for Body {
    fn eq(&self, text: &str) -> bool {
        self.as_str() == text
    }
}

impl PartialEq<&str> for Body {
    fn eq(&self, text: &&str) -> bool {
        self.as_str() == *text
    }
}

impl fmt::Display for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

/// Prints the length and not the text: no log has the text of a message.
impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Body({} bytes)", self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_to_find_a_fault_does_not_show_the_text() {
        assert_eq!(format!("{:?}", Body::from("a secret")), "Body(8 bytes)");
    }
}
