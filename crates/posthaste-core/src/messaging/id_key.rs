//! Ids of messages, made from their numbers.
//!
//! An id must not tell the number, and the number must be found by the id without an
//! index: random ids would be scattered over an index as large as the history, and each
//! message would cost a write somewhere in it. So the id is the number enciphered under a
//! random key of the store. The cipher is XTEA: its block is as long as an id. An id is
//! a name and no secret, so the cipher guards nothing but the count of messages.

use std::fmt;

use super::message::{MessageId, Seq};

const CYCLES: u32 = 32;
const DELTA: u32 = 0x9e37_79b9;

/// The key under which numbers become ids: one for each store, made when it is created.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct IdKey(pub [u32; 4]);

impl IdKey {
    pub fn random() -> Self {
        Self(rand::random())
    }

    /// Returns the key as a store keeps it.
    pub fn to_bytes(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        for (part, word) in bytes.chunks_exact_mut(4).zip(self.0) {
            part.copy_from_slice(&word.to_be_bytes());
        }
        bytes
    }

    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        let (words, _) = bytes.as_chunks::<4>();
        let mut key = [0; 4];
        for (word, part) in key.iter_mut().zip(words) {
            *word = u32::from_be_bytes(*part);
        }
        Self(key)
    }

    /// Returns the id of the message with this number.
    pub fn id(&self, seq: Seq) -> MessageId {
        let (mut left, mut right) = split(seq.0);
        let mut sum = 0_u32;
        for _ in 0..CYCLES {
            left = left.wrapping_add(self.round(right, sum, sum));
            sum = sum.wrapping_add(DELTA);
            right = right.wrapping_add(self.round(left, sum, sum >> 11));
        }
        MessageId(join(left, right))
    }

    /// Returns the number that has this id. Every id belongs to some number; only the
    /// store knows whether there is such a message.
    pub fn seq(&self, id: MessageId) -> Seq {
        let (mut left, mut right) = split(id.0);
        let mut sum = DELTA.wrapping_mul(CYCLES);
        for _ in 0..CYCLES {
            right = right.wrapping_sub(self.round(left, sum, sum >> 11));
            sum = sum.wrapping_sub(DELTA);
            left = left.wrapping_sub(self.round(right, sum, sum));
        }
        Seq(join(left, right))
    }

    fn round(&self, half: u32, sum: u32, word: u32) -> u32 {
        let mixed = ((half << 4) ^ (half >> 5)).wrapping_add(half);
        mixed ^ sum.wrapping_add(self.0[(word & 3) as usize])
    }
}

impl fmt::Debug for IdKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("IdKey(…)")
    }
}

fn split(block: u64) -> (u32, u32) {
    #[expect(clippy::cast_possible_truncation, reason = "each half has 32 bits")]
    ((block >> 32) as u32, block as u32)
}

fn join(left: u32, right: u32) -> u64 {
    u64::from(left) << 32 | u64::from(right)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cipher_agrees_with_published_examples() {
        let key = IdKey([0x0001_0203, 0x0405_0607, 0x0809_0a0b, 0x0c0d_0e0f]);
        for (plain, cipher) in [
            (0x4142_4344_4546_4748, 0x497d_f3d0_7261_2cb5),
            (0x4141_4141_4141_4141, 0xe78f_2d13_7443_41d8),
            (0x5a5b_6e27_8948_d77f, 0x4141_4141_4141_4141),
        ] {
            assert_eq!(key.id(Seq(plain)), MessageId(cipher));
            assert_eq!(key.seq(MessageId(cipher)), Seq(plain));
        }
    }

    #[test]
    fn every_number_is_found_by_its_id_and_a_key_is_kept_as_bytes() {
        let key = IdKey::random();
        assert_eq!(IdKey::from_bytes(key.to_bytes()), key);
        for seq in (0..1_000).chain([u64::MAX - 1, u64::MAX]) {
            assert_eq!(key.seq(key.id(Seq(seq))), Seq(seq));
        }
    }
}
