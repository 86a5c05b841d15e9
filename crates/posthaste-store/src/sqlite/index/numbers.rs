//! Ascending numbers as bytes: the gap from each to the next, in LEB128.

/// `base` is not above the first number.
pub(super) fn encode(base: u64, numbers: &[u64]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(numbers.len() * 2);
    let mut last = base;
    for number in numbers {
        let mut gap = number.saturating_sub(last);
        last = *number;
        while gap >= 0x80 {
            bytes.push(gap.to_le_bytes()[0] | 0x80);
            gap >>= 7;
        }
        bytes.push(gap.to_le_bytes()[0]);
    }
    bytes
}

/// Adds the numbers to `into`.
pub(super) fn decode(base: u64, bytes: &[u8], into: &mut Vec<u64>) {
    let (mut last, mut gap, mut shift) = (base, 0_u64, 0_u32);
    for byte in bytes {
        gap |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
        if byte & 0x80 == 0 {
            last = last.saturating_add(gap);
            into.push(last);
            (gap, shift) = (0, 0);
        } else {
            shift += 7;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_whatever_their_gaps() {
        let lists: [&[u64]; 5] =
            [&[], &[1], &[5, 6, 133, 134, 20_000], &[7, 1 << 40, i64::MAX as u64], &[9, 9]];
        for numbers in lists {
            for base in [numbers.first().copied().unwrap_or(0), 0] {
                let mut back = Vec::new();
                decode(base, &encode(base, numbers), &mut back);
                assert_eq!(back, numbers);
            }
        }
        let dense: Vec<u64> = (1_000_000..1_001_000).collect();
        assert_eq!(encode(1_000_000, &dense).len(), 1_000);
        let mut rubbish = Vec::new();
        decode(1, &[0xff; 40], &mut rubbish);
        assert!(rubbish.is_empty(), "bytes that end in the middle of a number");
    }
}
