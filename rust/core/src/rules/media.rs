//! Images (A21).

use super::facts::Facts;
use super::findings::{At, Findings, REQUEST};
use super::view::View;
use crate::digest::{BlockDigest, BlockKind, block_flag as flag};

/// More images than this in one request, and every one of them must keep to 2000 px per side.
const MANY_IMAGES: u64 = 20;

/// Counts over the whole request; images inside tool results included.
#[derive(Clone, Debug, Default)]
pub(crate) struct Media {
    images: u64,
    documents: u64,
}

impl Media {
    pub(crate) fn feed(&mut self, view: View<'_>, facts: &Facts, out: &mut Findings) {
        for (at, block) in view.each() {
            if block.kind == BlockKind::Document {
                self.documents += 1;
            } else if block.kind == BlockKind::Image || block.has(flag::NESTED_MEDIA) {
                self.image(at, block, facts, out);
            }
        }
    }

    fn image(&mut self, at: At, block: &BlockDigest, facts: &Facts, out: &mut Findings) {
        let nested = u64::from(block.aux & 0xFFFF);
        self.images += if block.kind == BlockKind::Image {
            1
        } else {
            nested
        };
        if block.has(flag::BAD_FORMAT) {
            out.error("A21", at, "image is not jpeg, png, gif or webp");
        }
        if block.has(flag::OVER_8000PX) {
            out.error("A21", at, "image has a side over 8000 px");
        }
        let over = if facts.image_mb < 10 {
            flag::OVER_5MB
        } else {
            flag::OVER_10MB
        };
        if block.has(over) {
            let detail = format!("image is over {} MB in base64", facts.image_mb);
            out.error("A21", at, detail);
        }
        if block.has(flag::OVER_2000PX) {
            out.large.push((out.at, at));
        }
    }

    pub(crate) fn finish(&self, facts: &Facts, out: &mut Findings) {
        if self.images > facts.image_limit {
            let detail = format!("{} images, the limit is {}", self.images, facts.image_limit);
            out.error("A21", REQUEST, detail);
        }
        let many = self.images + if facts.pdfs_count { self.documents } else { 0 };
        if many > MANY_IMAGES {
            let detail = format!("image has a side over 2000 px among more than {MANY_IMAGES}");
            for (_, at) in out.large.clone() {
                out.error("A21", at, detail.clone());
            }
        }
    }
}
