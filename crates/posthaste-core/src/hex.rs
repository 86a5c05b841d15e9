//! Ids as people see them, printed without the detour of a format string: every
//! message has four of them.

use std::fmt;

/// The lowest `N` hex digits of a number, in lower case.
pub(crate) fn write<const N: usize>(f: &mut fmt::Formatter<'_>, number: u64) -> fmt::Result {
    let mut digits = [b'0'; N];
    let mut rest = number;
    for digit in digits.iter_mut().rev() {
        *digit = b"0123456789abcdef"[(rest & 15) as usize];
        rest >>= 4;
    }
    f.write_str(std::str::from_utf8(&digits).map_err(|_| fmt::Error)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Id(u64);

    impl fmt::Display for Id {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write::<8>(f, self.0)?;
            write::<16>(f, self.0)
        }
    }

    #[test]
    fn digits_are_those_of_a_format_string() {
        for n in [0, 1, 0xa3f7_b2c1, u64::from(u32::MAX)] {
            assert_eq!(Id(n).to_string(), format!("{n:08x}{n:016x}"));
        }
    }
}
