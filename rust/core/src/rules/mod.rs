//! The verifier: what a provider would refuse, over digests.
//!
//! A [`Verifier`] reads each message once. It keeps its small state every few messages, so that
//! after an edit only what comes after the edit is read again.

mod anthropic;
mod blocks;
mod cache;
mod deepseek;
mod facts;
mod findings;
mod local;
mod media;
mod mistral;
mod openai;
mod pairing;
mod placement;
mod server;
mod special;
mod view;

pub use facts::{Fact, Facts};
pub use findings::Violation;

use crate::digest::{MessageDigest, Role};
use crate::error::Error;
use crate::ledger::Ledger;
use anthropic::Anthropic;
use findings::Findings;
use openai::{Dialect, OpenAi};
use view::View;

/// One state in so many messages is kept: after an edit at most this many are read once more.
const STRIDE: usize = 64;
/// A state that remembers more calls than this is not kept: memory stays in proportion to the messages.
const KEPT_CALLS: usize = 512;

/// The rules of one provider family, as a state that messages are fed to.
#[derive(Clone, Debug)]
enum Family {
    Anthropic(Box<Anthropic>),
    OpenAi(Box<OpenAi>),
}

impl Family {
    fn new(provider: &str, facts: &Facts) -> Result<Self, Error> {
        let dialect = match provider {
            "anthropic" => return Ok(Self::Anthropic(Box::new(Anthropic::start(facts)))),
            "openai_chat" => Dialect::OpenAi,
            "mistral" => Dialect::Mistral,
            "deepseek" => Dialect::DeepSeek,
            "local" => Dialect::Local,
            _ => {
                return Err(Error::Argument {
                    name: "provider",
                    value: provider.to_owned(),
                    limit: "is not one that digests can be checked for",
                });
            }
        };
        Ok(Self::OpenAi(Box::new(OpenAi::start(dialect))))
    }

    /// Calls that the state remembers.
    fn calls(&self) -> usize {
        match self {
            Self::Anthropic(state) => state.calls(),
            Self::OpenAi(state) => state.calls(),
        }
    }

    /// Gives back the room of what it no longer remembers: a copy of a state has as much.
    fn shrink(&mut self) {
        match self {
            Self::Anthropic(state) => state.shrink(),
            Self::OpenAi(state) => state.shrink(),
        }
    }

    fn feed(&mut self, view: View<'_>, facts: &Facts, out: &mut Findings) {
        match self {
            Self::Anthropic(state) => state.feed(view, facts, out),
            Self::OpenAi(state) => state.feed(view, facts, out),
        }
    }

    fn finish(&self, view: View<'_>, facts: &Facts, out: &mut Findings) {
        match self {
            Self::Anthropic(state) => state.finish(view, facts, out),
            Self::OpenAi(state) => state.finish(view, facts, out),
        }
    }
}

/// Checks one ledger again and again, reading only what changed since the last time.
#[derive(Debug)]
pub struct Verifier {
    facts: Facts,
    out: Findings,
    state: Family,
    /// States before message 0 and before some that `STRIDE` divides, with the numbers of these.
    kept: Vec<(usize, Family)>,
    keeps: bool,
    upto: usize,
    version: u64,
    read: usize,
}

impl Verifier {
    /// A verifier for a ledger that is as it is now; later checks must be of the same ledger.
    ///
    /// ```
    /// use ullage_core::json::Json;
    /// use ullage_core::ledger::Ledger;
    /// use ullage_core::rules::{Facts, Verifier};
    ///
    /// let mut ledger = Ledger::default();
    /// let mut verifier = Verifier::new(&ledger, "anthropic", Facts::default())?;
    /// assert_eq!(verifier.check(&ledger)[0].detail, "there is no message");
    /// ledger.read(Json(br#"{"role": "user", "content": "Hi"}"#), None)?;
    /// assert_eq!(verifier.check(&ledger), []);
    /// verifier.check(&ledger);
    /// assert_eq!(verifier.read(), 0, "what did not change is not read again");
    /// # Ok::<(), ullage_core::error::Error>(())
    /// ```
    pub fn new(ledger: &Ledger, provider: &str, facts: Facts) -> Result<Self, Error> {
        let state = Family::new(provider, &facts)?;
        Ok(Self {
            out: Findings::new(&facts.skip),
            kept: vec![(0, state.clone())],
            state,
            facts,
            keeps: true,
            upto: 0,
            version: ledger.version(),
            read: 0,
        })
    }

    /// Messages that the last check read.
    pub fn read(&self) -> usize {
        self.read
    }

    /// All violations as of now, sorted by message, block, rule and detail.
    pub fn check(&mut self, ledger: &Ledger) -> Vec<Violation> {
        self.rewind(ledger.changed_since(self.version).min(ledger.len()));
        self.version = ledger.version();
        self.read = ledger.len() - self.upto;
        for index in self.upto..ledger.len() {
            self.feed(index, ledger);
        }
        self.upto = ledger.len();
        self.finish(ledger)
    }

    fn rewind(&mut self, index: usize) {
        if index >= self.upto {
            return;
        }
        let keep = self.kept.partition_point(|(at, _)| *at <= index).max(1);
        self.kept.truncate(keep);
        let (at, state) = &self.kept[keep - 1];
        (self.upto, self.state) = (*at, state.clone());
        self.out.rewind(self.upto);
    }

    fn feed(&mut self, index: usize, ledger: &Ledger) {
        let due =
            self.keeps && index.is_multiple_of(STRIDE) && index > self.kept[self.kept.len() - 1].0;
        if due && self.state.calls() <= KEPT_CALLS {
            self.state.shrink();
            self.kept.push((index, self.state.clone()));
        }
        let message = ledger.message(index);
        // Envelopes without a message are not on the wire.
        if message.role == Role::None {
            return;
        }
        self.out.at = index;
        let blocks = ledger.blocks(index);
        let view = View {
            index,
            message,
            blocks,
            ledger,
        };
        self.state.feed(view, &self.facts, &mut self.out);
    }

    fn finish(&mut self, ledger: &Ledger) -> Vec<Violation> {
        self.out.at = self.upto;
        let view = View {
            index: self.upto,
            message: &MessageDigest::default(),
            blocks: &[],
            ledger,
        };
        self.state.finish(view, &self.facts, &mut self.out);
        let each = self.out.found.iter().map(|(_, violation)| violation);
        let mut found: Vec<Violation> = each.cloned().collect();
        self.out.rewind(self.upto);
        found.sort_by(|a, b| place(a).cmp(&place(b)));
        found
    }
}

fn place(found: &Violation) -> (i64, i64, &str, &str) {
    (found.message, found.block, found.rule, &found.detail)
}

/// Checks a conversation against the rules of a provider: errors and warnings, sorted by place.
pub fn check(ledger: &Ledger, provider: &str, facts: Facts) -> Result<Vec<Violation>, Error> {
    let mut once = Verifier::new(ledger, provider, facts)?;
    once.keeps = false;
    Ok(once.check(ledger))
}
