//! Where images and documents keep their data.

use super::keys::{Fields, block};
use crate::digest::block_flag as flag;
use crate::text::{Text, image_size};
use crate::view::{Value, with_utf8};

type BlockFields<V> = Fields<V, 39>;

/// A document: the texts it is made of, or its data.
#[derive(Debug)]
pub(super) enum Source<V> {
    Texts(Vec<V>),
    Data(Option<V>),
}

/// What an image is and what limits it breaks.
#[derive(Debug, Default)]
pub(super) struct Image {
    pub(super) width: u32,
    pub(super) height: u32,
    pub(super) flags: u32,
}

const MIB: usize = 1 << 20;

/// Size in pixels (0 where unknown) and flags of an image block.
pub(super) fn image<V: Value>(fields: &BlockFields<V>) -> Image {
    let mut found = Image::default();
    with_image_data(fields, |data, known_format| {
        if !data.is_empty() {
            (found.width, found.height) = image_size(data);
        }
        let length = data.char_len();
        found.flags |= if known_format { 0 } else { flag::BAD_FORMAT };
        found.flags |= if length > 5 * MIB { flag::OVER_5MB } else { 0 };
        found.flags |= if length > 10 * MIB {
            flag::OVER_10MB
        } else {
            0
        };
    });
    let side = found.width.max(found.height);
    found.flags |= if side > 2000 { flag::OVER_2000PX } else { 0 };
    found.flags |= if side > 8000 { flag::OVER_8000PX } else { 0 };
    found
}

/// Looks at the base64 data of an image in the request, and whether its format is one that is taken.
fn with_image_data<V: Value>(fields: &BlockFields<V>, look: impl FnOnce(Text<'_>, bool)) {
    if let Some(source) = fields.get(block::SOURCE).filter(|source| source.is_map()) {
        let mut inner = Fields::EMPTY;
        block::fill(&mut inner, source);
        let base64 = inner
            .get(block::TYPE)
            .is_some_and(|value| value.is("base64"));
        if let Some(data) = inner.text(block::DATA).filter(|_| base64) {
            let known = inner.text(block::MEDIA_TYPE).is_some_and(is_format);
            data.with_text(|text| look(text, known));
        }
        return;
    }
    let Some(image) = fields.get(block::IMAGE_URL) else {
        return;
    };
    let url = if image.is_map() {
        image.get("url")
    } else {
        Some(image)
    };
    let Some(url) = url.filter(|url| url.is_text()) else {
        return;
    };
    url.with_text(|text| with_utf8(text, |bytes| data_url(bytes, look)));
}

fn is_format<V: Value>(value: V) -> bool {
    value.with_text(|text| with_utf8(text, format_known))
}

fn format_known(name: &[u8]) -> bool {
    matches!(
        name,
        b"image/jpeg" | b"image/png" | b"image/gif" | b"image/webp"
    )
}

/// The two parts of `data:media/type;base64,...`.
fn data_url(url: &[u8], look: impl FnOnce(Text<'_>, bool)) {
    let Some(rest) = url.strip_prefix(b"data:") else {
        return;
    };
    let Some(comma) = memchr::memchr(b',', rest) else {
        return;
    };
    let name = rest[..comma]
        .split(|byte| *byte == b';')
        .next()
        .unwrap_or(b"");
    look(Text::Wtf8(&rest[comma + 1..]), format_known(name));
}

/// The texts of a document that has some; else its base64 data, if it has any.
pub(super) fn document<V: Value>(fields: &BlockFields<V>) -> Source<V> {
    if let Some(source) = fields.get(block::SOURCE).filter(|source| source.is_map()) {
        let mut inner = Fields::EMPTY;
        block::fill(&mut inner, source);
        return texts(&inner).map_or(Source::Data(inner.text(block::DATA)), Source::Texts);
    }
    let file = fields.get(block::FILE).filter(|file| file.is_map());
    let data = match file {
        Some(file) => file.get("file_data"),
        None => fields.get(block::FILE_DATA),
    };
    Source::Data(data.filter(|data| data.is_text()))
}

fn texts<V: Value>(source: &BlockFields<V>) -> Option<Vec<V>> {
    let kind = source.get(block::TYPE)?;
    if kind.is("text") {
        return source.text(block::DATA).map(|data| vec![data]);
    }
    if !kind.is("content") {
        return None;
    }
    let Some(content) = source.get(block::CONTENT) else {
        return Some(Vec::new());
    };
    if content.is_text() {
        return Some(vec![content]);
    }
    let mut found = Vec::new();
    content.each_item(|part| {
        let text = if part.is_map() {
            part.get("text")
        } else {
            None
        };
        found.extend(text.filter(|text| text.is_text()));
    });
    Some(found)
}
