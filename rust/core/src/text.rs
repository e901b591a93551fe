//! Character classes, rough and calibrated estimates (TOK-1, TOK-2).
//!
//! A text is read once and leaves [`Features`]: counts of letters, words, digits, scripts. An estimate
//! is their sum weighted by [`Weights`], numbers fitted on real usage figures and kept as data.
//! The features know nothing of any tokenizer; only the weights do.

mod counter;
mod decimal;
mod escapes;
mod ids;
mod image;
mod json;
mod kernel;
mod lanes;
mod marks;
mod narrow;

pub use counter::Counter;
pub use decimal::decimal;
pub use escapes::string_escapes;
pub(crate) use ids::is_id;
pub use image::{image_size, image_tokens};
pub use json::{JsonTally, float_repr, string_json_length};

use crate::digest::{BLOCK_KINDS, ROLES};

/// A text as its owner stores it: Python's three widths, or UTF-8 in which lone surrogates may stand.
#[derive(Clone, Copy, Debug)]
pub enum Text<'a> {
    /// Bytes below 0x80 only.
    Ascii(&'a [u8]),
    /// One byte a code point, U+0000 to U+00FF.
    Latin1(&'a [u8]),
    /// One unit a code point, up to U+FFFF.
    Ucs2(&'a [u16]),
    /// One unit a code point.
    Ucs4(&'a [u32]),
    /// UTF-8, surrogates allowed (as JSON escapes can make them). Other invalid bytes count as one
    /// code point each and never fail.
    Wtf8(&'a [u8]),
}

impl<'a> From<&'a str> for Text<'a> {
    fn from(text: &'a str) -> Self {
        Self::Wtf8(text.as_bytes())
    }
}

impl Text<'_> {
    /// Length in code points.
    #[must_use]
    pub fn char_len(&self) -> usize {
        match self {
            Self::Ascii(bytes) | Self::Latin1(bytes) => bytes.len(),
            Self::Ucs2(units) => units.len(),
            Self::Ucs4(units) => units.len(),
            Self::Wtf8(bytes) => narrow::wtf8_len(bytes),
        }
    }

    /// Whether there is nothing in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.unit_len() == 0
    }

    /// How many bytes or wider units it is stored in; never less than its code points.
    fn unit_len(&self) -> usize {
        match self {
            Self::Ascii(bytes) | Self::Latin1(bytes) | Self::Wtf8(bytes) => bytes.len(),
            Self::Ucs2(units) => units.len(),
            Self::Ucs4(units) => units.len(),
        }
    }
}

/// Number of entries of [`Features`].
pub const FEATURES: usize = feature::NAMES.len();

/// Names and positions of the features, the contract between the engines and the weights.
pub mod feature {
    /// In the order of [`super::Features`]. The first [`SCRIPTS`] are counted on ASCII, the next on
    /// the script of other characters, the last four on JSON only.
    pub const NAMES: [&str; 44] = [
        "lower",
        "upper",
        "words",
        "words5",
        "words9",
        "words13",
        "glued_words",
        "humps",
        "caps",
        "rare",
        "digits",
        "numbers",
        "numbers4",
        "punctuation",
        "punctuation_runs",
        "open_runs",
        "repeats",
        "spaces",
        "gaps",
        "tabs",
        "tab_runs",
        "newlines",
        "newline_runs",
        "controls",
        "latin",
        "greek",
        "cyrillic",
        "arabic_hebrew",
        "indic",
        "kana",
        "cjk",
        "hangul",
        "cjk_punctuation",
        "latin_symbols",
        "typographic",
        "arrows",
        "box",
        "symbols",
        "other",
        "astral",
        "arguments",
        "argument_escapes",
        "structure",
        "escapes",
    ];
    /// Position of the first script.
    pub const SCRIPTS: usize = 24;
    /// Position of `arguments`: members of the outermost object or array.
    pub const ARGUMENTS: usize = 40;
    /// Position of `argument_escapes`: characters that JSON strings right inside it are longer than their text.
    pub const ARGUMENT_ESCAPES: usize = 41;
    /// Position of `structure`: quotes, colons, commas, brackets of what is nested deeper.
    pub const STRUCTURE: usize = 42;
    /// Position of `escapes`: the same as `argument_escapes`, deeper.
    pub const ESCAPES: usize = 43;
}

/// Counts of a text by character class; they add up over texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features(pub [u64; FEATURES]);

impl Default for Features {
    fn default() -> Self {
        Self([0; FEATURES])
    }
}

impl Features {
    /// Reads a text once.
    ///
    /// ```
    /// use ullage_core::text::{Features, feature};
    ///
    /// let found = Features::of("Größe 12".into());
    /// let count = |name| found.0[feature::NAMES.iter().position(|known| *known == name).unwrap()];
    /// assert_eq!(["lower", "upper", "latin", "digits", "spaces"].map(count), [2, 1, 2, 2, 1]);
    /// ```
    #[must_use]
    pub fn of(text: Text<'_>) -> Self {
        let mut counter = Counter::default();
        counter.text(text);
        counter.take()
    }
}

/// Tokens are weighed in this many parts.
pub const UNIT: u64 = 4096;
/// No feature may weigh more than 256 tokens: sums of texts below 2^40 characters stay below 2^64.
pub const MAX_WEIGHT: u32 = 1 << 20;

/// Containers inside containers that a JSON walk enters: no API takes tool input so deep.
pub const MAX_DEPTH: u32 = 128;
/// Larger integers are refused: their decimal text costs quadratic time.
pub const MAX_INT_BITS: u64 = 14_000;

/// How an image becomes tokens: patches of the image, scaled down where it is too large.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageRule {
    /// Side of a patch; each costs one token.
    pub patch_px: u32,
    /// Larger images are scaled down to this long side.
    pub max_edge_px: u32,
    /// And then to this many patches.
    pub max_tokens: u32,
    /// For an image whose size cannot be read.
    pub default_tokens: u32,
}

impl Default for ImageRule {
    /// The standard tier of the Anthropic API.
    fn default() -> Self {
        Self {
            patch_px: 28,
            max_edge_px: 1568,
            max_tokens: 1568,
            default_tokens: 1568,
        }
    }
}

/// The cost of thinking that the API keeps encrypted: a signature is as long as the text that it encrypts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HiddenRule {
    /// Characters of a signature without any text.
    pub free_chars: u32,
    /// For each further character, in 1/4096 token; 0: signatures tell nothing.
    pub per_char: u32,
}

impl HiddenRule {
    /// Weight of the text in this many characters of signature or encrypted data.
    #[must_use]
    pub fn weigh(&self, chars: u64) -> u64 {
        chars
            .saturating_sub(u64::from(self.free_chars))
            .saturating_mul(u64::from(self.per_char))
    }
}

/// Numbers of a calibrated estimate for one model family, in 1/4096 token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Weights {
    /// By [`feature::NAMES`].
    pub features: [u32; FEATURES],
    /// Overhead of a block, by block kind.
    pub blocks: [u32; BLOCK_KINDS],
    /// Overhead of a message, by role.
    pub messages: [u32; ROLES],
    /// For images.
    pub image: ImageRule,
    /// For thinking that is encrypted or shortened.
    pub hidden: HiddenRule,
}

impl Weights {
    /// Weight of the features, in 1/4096 token.
    #[must_use]
    pub fn weigh(&self, features: &Features) -> u64 {
        let products = self.features.iter().zip(features.0);
        products.fold(0, |sum, (&weight, count)| {
            sum.saturating_add(count.saturating_mul(u64::from(weight)))
        })
    }
}

/// Whole tokens of a weight in 1/4096 token, half up.
#[must_use]
pub fn whole_tokens(weight: u64) -> u64 {
    weight.saturating_add(UNIT / 2) / UNIT
}

/// Calibrated tokens of a text alone.
///
/// ```
/// use ullage_core::text::{FEATURES, HiddenRule, ImageRule, Text, Weights, estimate_text, feature};
///
/// let mut features = [0; FEATURES];
/// features[feature::NAMES.iter().position(|name| *name == "words").unwrap()] = 4096;
/// let weights = Weights {
///     features,
///     blocks: [0; 15],
///     messages: [0; 5],
///     image: ImageRule::default(),
///     hidden: HiddenRule::default(),
/// };
/// assert_eq!(estimate_text(Text::from("one token a word"), &weights), 4);
/// ```
#[must_use]
pub fn estimate_text(text: Text<'_>, weights: &Weights) -> u64 {
    whole_tokens(weights.weigh(&Features::of(text)))
}

/// TOK-1: four characters a token, rounded half up.
///
/// ```
/// use ullage_core::text::rough_tokens;
///
/// assert_eq!([5, 6].map(rough_tokens), [1, 2]);
/// ```
#[must_use]
pub fn rough_tokens(chars: u64) -> u64 {
    (chars + 2) / 4
}

#[cfg(test)]
mod tests;
