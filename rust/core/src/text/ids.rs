//! What ids are made of.

use super::lanes::{Lane, ends, lane, within};

/// Whether it is made of letters, digits, `_` and `-`, as the ids of all providers may be.
pub(crate) fn is_id(id: &[u8]) -> bool {
    let Some(last) = id.last_chunk() else {
        return match ends(id) {
            Some(both) => all_in_id(both),
            None => id.iter().all(|&byte| in_id(byte)),
        };
    };
    // The last sixteen overlap those before.
    let (chunks, _) = id.as_chunks();
    let rest = all_in_id(lane(last));
    chunks
        .iter()
        .fold(rest, |all, chunk| all & all_in_id(lane(chunk)))
}

fn all_in_id(bytes: Lane) -> bool {
    let is = |sign: u8| bytes.simd_eq(Lane::splat(sign.cast_signed()));
    let letters = within(bytes | Lane::splat(0x20), b'a', b'z');
    (letters | within(bytes, b'0', b'9') | is(b'_') | is(b'-')).all()
}

fn in_id(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

#[cfg(test)]
mod tests {
    use super::{in_id, is_id};

    #[test]
    fn each_byte_in_each_place() {
        for length in [1, 7, 15, 16, 17, 31, 32, 40] {
            for at in 0..length {
                for byte in 0..=u8::MAX {
                    let mut id = vec![b'a'; length];
                    id[at] = byte;
                    assert_eq!(is_id(&id), in_id(byte), "{byte} at {at} of {length}");
                }
            }
        }
    }
}
