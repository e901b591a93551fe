//! Interned strings: ids, names, uuids. Equal strings have equal numbers.

use hashbrown::HashTable;
use std::hash::{BuildHasher, Hasher};

/// A table of byte strings (UTF-8 in which lone surrogates may stand), numbered from 1; 0 is none and empty.
#[derive(Clone, Debug, Default)]
pub struct Strings {
    bytes: Vec<u8>,
    // Where each string ends; string n lies between ends[n - 2] and ends[n - 1].
    ends: Vec<u32>,
    table: HashTable<u32>,
    // What was asked for last, by use.
    recent: [u32; 2],
}

/// What strings of one kind repeat: a result's id the id of the call before it, a tool's name the name before it.
#[derive(Clone, Copy, Debug)]
pub enum Use {
    /// An id of a call, which its result repeats.
    Id,
    /// A name of a tool.
    Name,
}

fn hash(text: &[u8]) -> u64 {
    // Ids come from outside: a hash that is merely fast would let them collide at will.
    let mut hasher = foldhash::quality::FixedState::default().build_hasher();
    hasher.write(text);
    hasher.finish()
}

impl Strings {
    /// How many numbers are taken, 0 included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len() + 1
    }

    /// Whether no string was interned.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The string with this number; empty for 0 and for a number that nobody has.
    #[must_use]
    pub fn get(&self, number: u32) -> &[u8] {
        slice(&self.bytes, &self.ends, number)
    }

    /// The number of a string, if it was interned.
    #[must_use]
    pub fn find(&self, text: &[u8]) -> Option<u32> {
        if text.is_empty() {
            return Some(0);
        }
        let (bytes, ends) = (&self.bytes, &self.ends);
        let found = self
            .table
            .find(hash(text), |&number| slice(bytes, ends, number) == text);
        found.copied()
    }

    /// The number of a string; a new one if it is new.
    ///
    /// ```
    /// use ullage_core::strings::Strings;
    ///
    /// let mut strings = Strings::default();
    /// let number = strings.intern(b"toolu_1");
    /// assert_eq!((strings.intern(b"toolu_1"), strings.intern(b"")), (number, 0));
    /// assert_eq!(strings.get(number), b"toolu_1");
    /// ```
    pub fn intern(&mut self, text: &[u8]) -> u32 {
        if text.is_empty() {
            return 0;
        }
        let (bytes, ends) = (&self.bytes, &self.ends);
        let hashed = hash(text);
        if let Some(&known) = self
            .table
            .find(hashed, |&number| slice(bytes, ends, number) == text)
        {
            return known;
        }
        self.bytes.extend_from_slice(text);
        self.ends.push(crate::units::saturate_len(self.bytes.len()));
        let number = crate::units::saturate_len(self.ends.len());
        let (bytes, ends) = (&self.bytes, &self.ends);
        self.table
            .insert_unique(hashed, number, |&number| hash(slice(bytes, ends, number)));
        number
    }

    /// As [`Strings::intern`], for a string that is often the one before of its use: comparing is cheaper than hashing.
    pub fn intern_again(&mut self, text: &[u8], r#use: Use) -> u32 {
        let before = self.recent[r#use as usize];
        // A number that was rolled back is nobody's: an empty text would seem to be its string.
        if !text.is_empty() && self.get(before) == text {
            return before;
        }
        let number = self.intern(text);
        self.recent[r#use as usize] = number;
        number
    }

    /// Makes room for so many more.
    pub fn reserve(&mut self, more: usize) {
        let (bytes, ends) = (&self.bytes, &self.ends);
        self.table
            .reserve(more, |&number| hash(slice(bytes, ends, number)));
        self.ends.reserve(more);
    }

    /// Forgets the newest strings, as after an item that could not be read.
    pub fn rollback(&mut self, length: usize) {
        while self.len() > length.max(1) {
            let number = crate::units::saturate_len(self.ends.len());
            let hashed = hash(self.get(number));
            if let Ok(entry) = self.table.find_entry(hashed, |&known| known == number) {
                entry.remove();
            }
            self.ends.pop();
            let end = self.ends.last().copied().unwrap_or(0);
            self.bytes.truncate(end as usize);
        }
    }
}

fn slice<'a>(bytes: &'a [u8], ends: &[u32], number: u32) -> &'a [u8] {
    let Some(place) = (number as usize).checked_sub(1) else {
        return &[];
    };
    let Some(&end) = ends.get(place) else {
        return &[];
    };
    let start = place.checked_sub(1).map_or(0, |before| ends[before]);
    &bytes[start as usize..end as usize]
}

#[cfg(test)]
mod tests {
    use super::{Strings, Use};

    #[test]
    fn equal_strings_have_equal_numbers() {
        let mut strings = Strings::default();
        assert_eq!(strings.intern(b""), 0);
        let (a, b) = (strings.intern(b"a"), strings.intern(b"bb"));
        assert_eq!((a, b, strings.intern(b"a")), (1, 2, 1));
        assert_eq!(
            (strings.get(1), strings.get(2), strings.get(9)),
            (&b"a"[..], &b"bb"[..], &b""[..])
        );
        assert_eq!((strings.find(b"bb"), strings.find(b"c")), (Some(2), None));
    }

    #[test]
    fn rollback_forgets_the_newest() {
        let mut strings = Strings::default();
        for n in 0..2_000_u32 {
            assert_eq!(strings.intern(n.to_string().as_bytes()), n + 1);
        }
        strings.rollback(11);
        assert_eq!((strings.find(b"9"), strings.find(b"10")), (Some(10), None));
        assert_eq!(strings.intern(b"x"), 11);
        assert_eq!(strings.get(11), b"x");
    }

    #[test]
    fn an_empty_text_is_no_string_that_was_rolled_back() {
        let mut strings = Strings::default();
        assert_eq!(strings.intern_again(b"toolu_1", Use::Id), 1);
        strings.rollback(1);
        assert_eq!(strings.intern_again(b"", Use::Id), 0);
        assert_eq!(strings.intern_again(b"toolu_2", Use::Id), 1);
        assert_eq!(strings.intern_again(b"toolu_2", Use::Id), 1);
    }
}
