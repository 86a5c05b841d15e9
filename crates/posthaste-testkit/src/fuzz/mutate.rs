//! Mutates bytes.

use super::Dice;

/// Largest size of an input, unless an example is longer.
pub(super) const LONGEST: usize = 64 * 1024;

/// Pieces that parsers stumble over.
const PIECES: &[&[u8]] = &[
    b"",
    b"\0",
    b"\n",
    b"\r\n",
    b"\r",
    b"\r\n\r\n",
    b" ",
    b"\t",
    b"\"",
    b"'",
    b"\\",
    b"\\u0000",
    b"\\ud800",
    b"\\u202e",
    b"{",
    b"}",
    b"[",
    b"]",
    b":",
    b",",
    b"null",
    b"true",
    b"-1",
    b"0",
    b"00",
    b"+1",
    b"-0",
    b"1.5",
    b"1e999",
    b"-1e-999",
    b"NaN",
    b"0x10",
    b"9223372036854775807",
    b"9223372036854775808",
    b"18446744073709551615",
    b"18446744073709551616",
    b"../",
    b"..%2f",
    b"%2f",
    b"%00",
    b"%ff",
    b"%c3%28",
    b"%",
    b"%zz",
    b"&",
    b"=",
    b"?",
    b"#",
    b";",
    b"@",
    b".",
    b"-",
    b"--",
    b"---\n",
    b"/*",
    b"*/",
    b"//",
    b"<script>",
    b"\x1b[2J",
    b"\x7f",
    b"\xc2\x9b31m",
    b"\xe2\x80\xae",
    b"\xef\xbb\xbf",
    b"\xf0\x9f\xa6\x80",
    b"\xff",
    b"\xc3",
    b"\xed\xa0\x80",
    b"\xc0\xaf",
    b"\xf4\x90\x80\x80",
];

/// Returns one of the examples after up to eight mutations; now and then an unchanged one.
pub(super) fn broken(dice: &mut Dice, examples: &[&[u8]]) -> Vec<u8> {
    if examples.is_empty() {
        return Vec::new();
    }
    let mut bytes = dice.pick(examples).to_vec();
    let most = if dice.one_in(4) { 8 } else { 3 };
    for _ in 0..dice.below(most + 1) {
        mutate(dice, &mut bytes, examples);
    }
    bytes
}

fn mutate(dice: &mut Dice, bytes: &mut Vec<u8>, examples: &[&[u8]]) {
    let at = dice.below(bytes.len() + 1);
    let end = at + dice.below((bytes.len() - at).min(64) + 1);
    match dice.below(10) {
        0 if at < bytes.len() => bytes[at] ^= 1 << dice.below(8),
        1 if at < bytes.len() => bytes[at] = u8::try_from(dice.below(256)).unwrap_or(0),
        2 | 3 => {
            let piece = dice.pick(PIECES).to_vec();
            bytes.splice(at..at, piece);
        }
        4 => {
            let piece = dice.pick(PIECES).to_vec();
            bytes.splice(at..end, piece);
        }
        5 => drop(bytes.drain(at..end)),
        6 => bytes.truncate(at),
        7 => {
            let times = if dice.one_in(8) { 300 } else { 1 + dice.below(4) };
            let again = bytes[at..end].repeat(times);
            bytes.splice(at..at, again);
        }
        8 => {
            let other = dice.pick(examples);
            bytes.truncate(at);
            bytes.extend_from_slice(&other[dice.below(other.len() + 1)..]);
        }
        _ => number(dice, bytes),
    }
    let most = examples.iter().map(|e| e.len()).max().unwrap_or(0).max(LONGEST);
    bytes.truncate(most);
}

/// Replaces a run of digits by another number.
fn number(dice: &mut Dice, bytes: &mut Vec<u8>) {
    let from = dice.below(bytes.len() + 1);
    let Some(start) = bytes[from..].iter().position(u8::is_ascii_digit).map(|n| from + n) else {
        return;
    };
    let length = bytes[start..].iter().take_while(|b| b.is_ascii_digit()).count();
    let numbers: [&[u8]; 7] =
        [b"0", b"-1", b"2147483648", b"9223372036854775808", b"18446744073709551616", b"1e9", b""];
    let new = dice.pick(&numbers).to_vec();
    bytes.splice(start..start + length, new);
}
