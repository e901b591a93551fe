//! Size of an image from the head of its base64, and what it costs.

use super::{ImageRule, Text};

/// Width and height in pixels; (0, 0) if the format is none of PNG, JPEG, GIF, WebP, or is broken.
#[must_use]
pub fn image_size(base64: Text<'_>) -> (u32, u32) {
    let head = Base64(base64);
    let found = if head.is(0, b"\x89PNG\r\n\x1a\n") {
        head.big(16, 4).zip(head.big(20, 4))
    } else if head.is(0, b"GIF8") {
        head.little(6, 2).zip(head.little(8, 2))
    } else if head.is(0, b"RIFF") && head.is(8, b"WEBP") {
        webp(head)
    } else if head.is(0, b"\xff\xd8") {
        jpeg(head)
    } else {
        None
    };
    // A side of 0 is no size.
    found
        .filter(|size| size.0 != 0 && size.1 != 0)
        .unwrap_or((0, 0))
}

/// Tokens of an image: patches after scaling down to the rule's edge and to its most patches.
#[must_use]
pub fn image_tokens(width: u32, height: u32, rule: &ImageRule) -> u32 {
    if width == 0 || height == 0 || rule.patch_px == 0 {
        return rule.default_tokens;
    }
    let long = width.max(height);
    // Patches grow with the edge: the largest edge that fits is found by halving.
    let (mut fits, mut fails) = (1, u64::from(long.min(rule.max_edge_px.max(1))) + 1);
    while fails - fits > 1 {
        let edge = u64::midpoint(fits, fails);
        if patches(width, height, edge, rule) <= u64::from(rule.max_tokens) {
            fits = edge;
        } else {
            fails = edge;
        }
    }
    patches(width, height, fits, rule) as u32
}

fn patches(width: u32, height: u32, edge: u64, rule: &ImageRule) -> u64 {
    let long = u64::from(width.max(height));
    let side = |px: u32| {
        (u64::from(px) * edge / long)
            .max(1)
            .div_ceil(u64::from(rule.patch_px))
    };
    side(width) * side(height)
}

/// Bytes of base64 text, readable at any position without decoding those before it.
#[derive(Clone, Copy)]
struct Base64<'a>(Text<'a>);

impl Base64<'_> {
    fn unit(self, at: usize) -> Option<u8> {
        match self.0 {
            Text::Ascii(units) | Text::Latin1(units) | Text::Wtf8(units) => units.get(at).copied(),
            Text::Ucs2(units) => units.get(at).and_then(|&unit| unit.try_into().ok()),
            Text::Ucs4(units) => units.get(at).and_then(|&unit| unit.try_into().ok()),
        }
    }

    fn sextet(self, at: usize) -> Option<u32> {
        Some(u32::from(match self.unit(at)? {
            byte @ b'A'..=b'Z' => byte - b'A',
            byte @ b'a'..=b'z' => byte - b'a' + 26,
            byte @ b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        }))
    }

    fn byte(self, at: usize) -> Option<u32> {
        // Byte 3k + r spans the sextets 4k + r and 4k + r + 1.
        let (first, part) = (at / 3 * 4 + at % 3, at % 3);
        let pair = self.sextet(first)? << 6 | self.sextet(first + 1)?;
        Some(pair >> (4 - 2 * part) & 0xFF)
    }

    fn big(self, at: usize, size: usize) -> Option<u32> {
        (at..at + size).try_fold(0_u32, |sum, at| Some(sum << 8 | self.byte(at)?))
    }

    fn little(self, at: usize, size: usize) -> Option<u32> {
        (at..at + size)
            .rev()
            .try_fold(0_u32, |sum, at| Some(sum << 8 | self.byte(at)?))
    }

    fn is(self, at: usize, bytes: &[u8]) -> bool {
        let mut pairs = bytes.iter().zip(at..);
        pairs.all(|(&byte, at)| self.byte(at) == Some(u32::from(byte)))
    }
}

fn webp(head: Base64<'_>) -> Option<(u32, u32)> {
    if head.is(12, b"VP8X") {
        let side = |at| Some(head.little(at, 3)? + 1);
        return side(24).zip(side(27));
    }
    if head.is(12, b"VP8L") {
        let bits = head.little(21, 4)?;
        return Some(((bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1));
    }
    if head.is(12, b"VP8 ") {
        let side = |at| Some(head.little(at, 2)? & 0x3FFF);
        return side(26).zip(side(28));
    }
    None
}

fn jpeg(head: Base64<'_>) -> Option<(u32, u32)> {
    let mut at = 2;
    loop {
        if head.byte(at)? != 0xFF {
            return None;
        }
        match head.byte(at + 1)? {
            0xFF => at += 1,
            0x01 | 0xD0..=0xD7 => at += 2,
            // All frame headers; C4, C8 and CC are tables and extensions.
            0xC0..=0xC3 | 0xC5..=0xC7 | 0xC9..=0xCB | 0xCD..=0xCF => {
                return head.big(at + 7, 2).zip(head.big(at + 5, 2));
            }
            // Image data or end before a frame header.
            0xD9 | 0xDA => return None,
            _ => at += 2 + head.big(at + 2, 2)?.max(2) as usize,
        }
    }
}
