//! Ids as people see them, printed without a format string: every message that is sent
//! and read shows seven of them.

use compact_str::CompactString;

/// Returns a prefix, and the lowest `N` hex digits of a number in lower case.
pub(crate) fn text<const N: usize>(prefix: &str, number: u64) -> CompactString {
    let mut digits = [b'0'; N];
    let mut rest = number;
    for digit in digits.iter_mut().rev() {
        *digit = b"0123456789abcdef"[(rest & 15) as usize];
        rest >>= 4;
    }
    let mut text = CompactString::new(prefix);
    // Digits are always text.
    text.push_str(std::str::from_utf8(&digits).unwrap_or_default());
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_those_of_a_format_string() {
        for n in [0, 1, 0xa3f7_b2c1, u64::from(u32::MAX)] {
            assert_eq!(text::<8>("t-", n), format!("t-{n:08x}"));
            assert_eq!(text::<16>("", n), format!("{n:016x}"));
        }
        assert_eq!(text::<16>("", u64::MAX), "f".repeat(16));
    }
}
