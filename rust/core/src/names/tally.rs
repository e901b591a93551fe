//! Which names were used, by whom, how long ago and with which file or command: counted over many texts.

use super::{Kind, for_each_run, forms::named};
use crate::strings::Strings;
use crate::units::saturate_len;
use hashbrown::HashMap;
use std::cmp::Reverse;

/// What one use is worth, before it is divided by the weight's age.
const SCALE: i64 = 1_000_000;
/// Added to the age of a use, so that the newest does not outweigh all others.
const AGE_OFFSET: i64 = 5;
/// Distinct runs that are kept with the names in them; more than a long session repeats.
const MOST_RUNS: usize = 1 << 16;

/// Most authors that have weights of their own.
pub const MOST_AUTHORS: usize = 8;

/// The number of a kind that is none of [`Kind`]'s: a name that the caller found.
pub const GIVEN: u8 = 7;

#[derive(Clone, Copy, Debug)]
struct Use {
    index: i64,
    author: u8,
}

#[derive(Debug, Default)]
struct Named {
    kind: u8,
    home: u32, // 1 + its place; 0: none
    born: u32, // its place among all names that were used
    text: u32, // number of the text in which it was found last
    kinds: u8, // as which it was found there, by bit
    uses: Vec<Use>,
}

#[derive(Clone, Copy, Debug)]
struct Run {
    first: u32,
    names: u32,
    text: u32, // number of the text in which it stood last
}

/// Names with their uses.
#[derive(Debug, Default)]
pub struct Tally {
    weights: Vec<u32>,
    names: Strings,
    named: Vec<Named>, // by number - 1
    runs: Strings,
    run: Vec<Run>,           // by number - 1
    in_runs: Vec<(u32, u8)>, // number and kind of each name in a run
    homes: Vec<Box<str>>,
    used: u32,
    texts: u32,
}

/// One name as it is ranked; spellings of one path are one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ranked<'a> {
    /// The name.
    pub text: &'a str,
    /// The number of its kind.
    pub kind: u8,
    /// How often it was used.
    pub count: usize,
    /// The newest index.
    pub last: i64,
    /// What it is worth for its room.
    pub score: i64,
    /// Who used it with the greatest weight first.
    pub author: u8,
    /// Its file or command; empty: none.
    pub home: &'a str,
}

/// What a text is to the names in it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Source<'a> {
    /// Place of the author's weight.
    pub author: u8,
    /// Index of the message.
    pub index: i64,
    /// The file or command that symbols and options in it belong to; empty: none.
    pub home: &'a str,
    /// Whether they belong there even if they have a home already.
    pub moves: bool,
    /// Most hashes that it may name: more are a listing, and none counts; 0: any number.
    pub most_hashes: usize,
}

impl Tally {
    /// Counts with the weights of up to [`MOST_AUTHORS`] authors.
    #[must_use]
    pub fn new(weights: Vec<u32>) -> Self {
        Self {
            weights,
            ..Self::default()
        }
    }

    /// How many authors have a weight.
    #[must_use]
    pub fn authors(&self) -> usize {
        self.weights.len()
    }

    /// Counts each name in a text once.
    ///
    /// ```
    /// use ullage_core::names::tally::{Source, Tally};
    ///
    /// let mut tally = Tally::new(vec![8, 1]);
    /// tally.add("see src/a.py", Source::default());
    /// tally.add("src/a.py", Source { author: 1, index: 2, ..Source::default() });
    /// let found = tally.ranked(2, 10);
    /// assert_eq!((found[0].text, found[0].count, found[0].last), ("src/a.py", 2, 2));
    /// ```
    pub fn add(&mut self, text: &str, source: Source<'_>) {
        let mut found = self.found_in(text);
        let is_hash = |&(_, kind): &(u32, u8)| kind == Kind::Commit as u8;
        if source.most_hashes > 0
            && found.iter().filter(|&each| is_hash(each)).count() > source.most_hashes
        {
            found.retain(|each| !is_hash(each));
        }
        for &(number, kind) in &found {
            self.count(number, kind, source);
        }
        if !source.home.is_empty() {
            self.place(&found, source);
        }
    }

    /// Counts a name that the caller found.
    pub fn add_name(&mut self, name: &str, author: u8, index: i64) {
        let number = self.number(name.as_bytes());
        let source = Source {
            author,
            index,
            ..Source::default()
        };
        if number > 0 {
            self.count(number, GIVEN, source);
        }
    }

    fn count(&mut self, number: u32, kind: u8, source: Source<'_>) {
        let name = &mut self.named[number as usize - 1];
        if name.uses.is_empty() {
            (name.kind, name.born) = (kind, self.used);
            self.used += 1;
        }
        name.uses.push(Use {
            index: source.index,
            author: source.author,
        });
    }

    fn place(&mut self, found: &[(u32, u8)], source: Source<'_>) {
        self.homes.push(source.home.into());
        let home = saturate_len(self.homes.len());
        let mut taken = false;
        for &(number, kind) in found {
            let name = &mut self.named[number as usize - 1];
            let at_home = kind == Kind::Symbol as u8 || kind == Kind::Option as u8;
            if at_home && (source.moves || name.home == 0) {
                name.home = home;
                taken = true;
            }
        }
        if !taken {
            self.homes.pop();
        }
    }

    fn number(&mut self, name: &[u8]) -> u32 {
        let number = self.names.intern(name);
        if number as usize > self.named.len() {
            self.named.push(Named::default());
        }
        number
    }

    /// Each name in a text once, in order of first use, with its kind; it is not counted.
    ///
    /// ```
    /// use ullage_core::names::{Kind, tally::Tally};
    ///
    /// let mut tally = Tally::default();
    /// let found = tally.names_in("see src/main.rs: cfg.Source, then src/main.rs --force");
    /// let kinds = [Kind::Path, Kind::Symbol, Kind::Option].map(|kind| kind as u8);
    /// assert_eq!(found, [("src/main.rs", kinds[0]), ("cfg.Source", kinds[1]), ("--force", kinds[2])]);
    /// ```
    pub fn names_in(&mut self, text: &str) -> Vec<(&str, u8)> {
        let found = self.found_in(text);
        let named = found.into_iter();
        named
            .map(|(number, kind)| (self.text(number), kind))
            .collect()
    }

    /// Number and kind of each name in a text once, in order of first use.
    fn found_in(&mut self, text: &str) -> Vec<(u32, u8)> {
        self.texts += 1;
        if self.run.len() > MOST_RUNS {
            (self.runs, self.run, self.in_runs) = Default::default();
        }
        let mut found = Vec::new();
        for_each_run(text, |run, seen| {
            let number = self.runs.intern(run.as_bytes()) as usize;
            if number > self.run.len() {
                self.read_run(run, seen);
            }
            let known = &mut self.run[number - 1];
            if known.text == self.texts {
                return;
            }
            known.text = self.texts;
            let (first, names) = (known.first as usize, known.names as usize);
            for at in first..first + names {
                let (number, kind) = self.in_runs[at];
                let name = &mut self.named[number as usize - 1];
                if name.text != self.texts {
                    (name.text, name.kinds) = (self.texts, 0);
                }
                if name.kinds & (1 << kind) == 0 {
                    name.kinds |= 1 << kind;
                    found.push((number, kind));
                }
            }
        });
        found
    }

    fn read_run(&mut self, run: &str, seen: u8) {
        let first = saturate_len(self.in_runs.len());
        named(run, seen, &mut |name, kind| {
            let number = self.number(name.as_bytes());
            self.in_runs.push((number, kind as u8));
        });
        let names = saturate_len(self.in_runs.len()) - first;
        self.run.push(Run {
            first,
            names,
            text: 0,
        });
    }

    /// The names, those of most worth for their room first; ties by text.
    ///
    /// # Arguments
    /// `end` is the newest index, `most` how many are wanted.
    #[must_use]
    pub fn ranked(&self, end: i64, most: usize) -> Vec<Ranked<'_>> {
        let mut ranked: Vec<_> = self
            .spellings()
            .iter()
            .map(|same| self.rank(same, end))
            .collect();
        ranked.sort_unstable_by_key(|name| (Reverse(name.score), name.text));
        ranked.truncate(most);
        ranked
    }

    /// Each name with those that are other spellings of it; the longest of a path is first.
    fn spellings(&self) -> Vec<Vec<u32>> {
        let mut used: Vec<u32> = (1..=saturate_len(self.named.len()))
            .filter(|&number| !self.of(number).uses.is_empty())
            .collect();
        used.sort_unstable_by_key(|&number| self.of(number).born);
        let mut rows = Vec::with_capacity(used.len());
        let mut places: HashMap<&str, Vec<u32>, foldhash::fast::FixedState> = HashMap::default();
        for number in used {
            if self.of(number).kind == Kind::Path as u8 {
                places
                    .entry(tail(self.text(number)))
                    .or_default()
                    .push(number);
            } else {
                rows.push(vec![number, number]);
            }
        }
        for same in places.into_values() {
            self.divide(&same, &mut rows);
        }
        rows
    }

    /// Puts the longest of some paths in front of those that are its end; the others stand for themselves.
    fn divide(&self, same: &[u32], rows: &mut Vec<Vec<u32>>) {
        let longest = same.iter().copied().max_by_key(|&number| {
            let text = self.text(number);
            (text.chars().count(), text)
        });
        let Some(longest) = longest else { return };
        let mut row = vec![longest];
        for &number in same {
            if is_end(self.text(longest), self.text(number)) {
                row.push(number);
            } else {
                rows.push(vec![number, number]);
            }
        }
        rows.push(row);
    }

    /// A row of [`Tally::spellings`]: what it is called, then whose uses it has.
    fn rank(&self, row: &[u32], end: i64) -> Ranked<'_> {
        let name = self.of(row[0]);
        let text = self.text(row[0]);
        let now = end.saturating_add(AGE_OFFSET);
        let uses = || row[1..].iter().flat_map(|&number| &self.of(number).uses);
        let weight = |of: &Use| i64::from(self.weights[of.author as usize]);
        let worth = |of: &Use| (weight(of) * SCALE).div_euclid(now.saturating_sub(of.index).max(1));
        let shown = if name.kind == Kind::Path as u8 {
            tail(text)
        } else {
            text
        };
        let first = uses().reduce(|best, next| {
            if weight(next) > weight(best) {
                next
            } else {
                best
            }
        });
        Ranked {
            text,
            kind: name.kind,
            count: uses().count(),
            last: uses().map(|of| of.index).max().unwrap_or(0),
            score: uses().map(worth).sum::<i64>()
                / i64::from(saturate_len((shown.len() + 2).isqrt())),
            author: first.map_or(0, |of| of.author),
            home: (name.home as usize)
                .checked_sub(1)
                .map_or("", |place| &self.homes[place]),
        }
    }

    fn of(&self, number: u32) -> &Named {
        &self.named[number as usize - 1]
    }

    fn text(&self, number: u32) -> &str {
        // What was interned was a `str`.
        std::str::from_utf8(self.names.get(number)).unwrap_or("")
    }
}

/// A path's last two parts.
fn tail(path: &str) -> &str {
    let mut slashes = path.rmatch_indices('/');
    slashes.next();
    slashes.next().map_or(path, |(at, _)| &path[at + 1..])
}

/// Whether a path is the other's end, part by part.
fn is_end(longest: &str, text: &str) -> bool {
    longest == text
        || longest
            .strip_suffix(text)
            .is_some_and(|rest| rest.ends_with('/'))
}
