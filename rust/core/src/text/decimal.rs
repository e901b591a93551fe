//! Decimal digits of large integers, without asking an interpreter for them.

use super::MAX_INT_BITS;

/// So much fits a limb.
const LIMB: u64 = 1_000_000_000;

/// The decimal digits of a hexadecimal number, `-0x1f` or `1F`; `None` if it is none, or has more than [`MAX_INT_BITS`].
#[must_use]
pub fn decimal(hex: &[u8]) -> Option<String> {
    let (sign, hex) = match hex {
        [b'-', rest @ ..] => ("-", rest),
        _ => ("", hex),
    };
    let hex = hex.strip_prefix(b"0x").unwrap_or(hex);
    if hex.is_empty() || !hex.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let zeros = hex.iter().take_while(|digit| **digit == b'0').count();
    let limbs = limbs(&hex[zeros..])?;
    let (first, rest) = limbs.split_last()?;
    let rest = rest.iter().rev().map(|limb| format!("{limb:09}"));
    Some(format!("{sign}{first}{}", rest.collect::<String>()))
}

/// Nine decimal digits each, the lowest first.
fn limbs(hex: &[u8]) -> Option<Vec<u64>> {
    let digit = |at: u8| u64::from(char::from(at).to_digit(16).unwrap_or(0));
    let lead = hex.first().map_or(0, |first| digit(*first));
    let bits = (hex.len() as u64 * 4).saturating_sub(u64::from(lead.leading_zeros()) - 60);
    if lead > 0 && bits > MAX_INT_BITS {
        return None;
    }
    let mut limbs = vec![0];
    // Thirty-two bits at a time, the first fewer: a limb of thirty, moved up by them, fits 64.
    let (head, tail) = hex.split_at(hex.len() % 8);
    for part in std::iter::once(head).chain(tail.chunks(8)) {
        let mut carry = part.iter().fold(0, |sum, byte| sum << 4 | digit(*byte));
        let width = 4 * part.len();
        for limb in &mut limbs {
            let wide = (*limb << width) + carry;
            (*limb, carry) = (wide % LIMB, wide / LIMB);
        }
        while carry > 0 {
            limbs.push(carry % LIMB);
            carry /= LIMB;
        }
    }
    Some(limbs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_one_limb_and_of_two_are_spelled_as_by_the_standard_library() {
        let edges = [
            0,
            1,
            9,
            LIMB - 1,
            LIMB,
            LIMB + 1,
            1 << 32,
            u64::MAX / 3,
            u64::MAX,
        ];
        for number in edges
            .map(u128::from)
            .into_iter()
            .chain([u128::MAX, u128::MAX / 7])
        {
            assert_eq!(
                decimal(format!("{number:x}").as_bytes()),
                Some(number.to_string())
            );
            let negative = format!("-0x00{number:X}");
            assert_eq!(decimal(negative.as_bytes()), Some(format!("-{number}")));
        }
    }

    #[test]
    fn every_length_holds_what_multiplying_by_sixteen_gives() {
        let mut expected = vec![1_u8]; // decimal digits, the lowest first
        for zeros in 0..200 {
            let hex = format!("1{}", "0".repeat(zeros));
            let spelled = decimal(hex.as_bytes()).unwrap_or_default();
            let digits: String = expected
                .iter()
                .rev()
                .map(|d| char::from(b'0' + d))
                .collect();
            assert_eq!(spelled, digits);
            let mut carry = 0_u16;
            for digit in &mut expected {
                let wide = u16::from(*digit) * 16 + carry;
                (*digit, carry) = ((wide % 10) as u8, wide / 10);
            }
            while carry > 0 {
                expected.push((carry % 10) as u8);
                carry /= 10;
            }
        }
    }

    #[test]
    fn the_largest_that_is_taken_has_as_many_bits_as_the_limit() {
        let digits = MAX_INT_BITS as usize / 4;
        let fits = "f".repeat(digits);
        assert_eq!(
            decimal(fits.as_bytes()).map(|spelled| spelled.len()),
            Some(4215)
        );
        assert_eq!(decimal(format!("1{fits}").as_bytes()), None);
        assert_eq!(
            decimal(format!("000{fits}").as_bytes()).map(|s| s.len()),
            Some(4215)
        );
    }

    #[test]
    fn what_is_no_number_is_refused() {
        for hex in ["", "-", "0x", "g", "1 2", "--1", "0x-1"] {
            assert_eq!(decimal(hex.as_bytes()), None, "{hex}");
        }
    }
}
