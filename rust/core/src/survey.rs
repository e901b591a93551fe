//! What fills a conversation: tokens by category, by tool and by file, the number of its messages, and what the levels would free.

mod free;
mod messages;

use crate::digest::{BlockDigest, BlockKind, MessageDigest, Role, message_flag};
use crate::error::Error;
use crate::ledger::Ledger;
use crate::rounds::rounds;
use crate::strings::Strings;
use crate::text::{Text, Weights};
use crate::units::{Map, saturate_len};
use crate::view::{Value, with_utf8};
use std::cmp::Reverse;

pub use free::{Freed, Limits};

/// How many categories there are: summary, user, assistant, thinking, calls, results, media, host text, other.
pub const CATEGORIES: usize = 9;

const PATH_KEYS: [&str; 4] = ["file_path", "path", "filename", "notebook_path"];

/// Paths that calls name, by the number of the call's block.
#[derive(Clone, Debug, Default)]
pub struct Paths {
    texts: Strings,
    // Blocks in ascending order, each with the number of its path.
    named: Vec<(u32, u32)>,
}

impl Paths {
    /// Notes the path of a block after all those noted before; an empty one is none.
    pub fn add(&mut self, block: u32, path: &[u8]) {
        if !path.is_empty() {
            self.named.push((block, self.texts.intern(path)));
        }
    }

    fn of(&self, block: u32) -> u32 {
        let place = self.named.binary_search_by_key(&block, |known| known.0);
        place.map_or(0, |place| self.named[place].1)
    }
}

/// Visits the paths that the calls of an item name, each with the place of its block.
pub fn each_path<V: Value>(item: V, blocks: &[BlockDigest], mut visit: impl FnMut(u32, Text<'_>)) {
    if !blocks.iter().any(BlockDigest::is_call) {
        return;
    }
    let message = if item.get("role").is_some() {
        Some(item)
    } else {
        item.get("message")
    };
    let content = message.and_then(|message| message.get("content"));
    let mut places = 0..saturate_len(blocks.len());
    let mut look = |block: V| {
        let Some(place) = places.next() else { return };
        if !blocks[place as usize].is_call() {
            return;
        }
        if let Some(path) = block.get("input").and_then(path_of) {
            path.with_text(|text| visit(place, text));
        }
    };
    if let Some(content) = content {
        content.each_item(&mut look);
    }
}

fn path_of<V: Value>(input: V) -> Option<V> {
    let texts = PATH_KEYS.iter().filter_map(|key| input.get(key));
    texts.into_iter().find(|value| value.is_text())
}

/// A tool result with the call that it answers.
#[derive(Clone, Copy, Debug)]
struct Found {
    tool: u32,
    tokens: u32,
    chars: u32,
    flags: u32,
    path: u32,
}

/// Calls, errors and tokens of a tool; uses and tokens of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// Its name or path, as it is stored.
    pub name: Vec<u8>,
    /// How often it was called or shown.
    pub calls: u64,
    /// How many of its results are errors.
    pub errors: u64,
    /// Tokens of its calls and results.
    pub tokens: u64,
}

/// What a survey says of a whole conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Tokens by category.
    pub categories: [u64; CATEGORIES],
    /// Rounds.
    pub rounds: usize,
    /// Tokens of the largest round.
    pub largest_round: u64,
    /// Messages that a user wrote.
    pub user_inputs: usize,
    /// Client calls without a result.
    pub open_calls: usize,
    /// Tools, the most tokens first.
    pub tools: Vec<Share>,
    /// Files, the most tokens first.
    pub files: Vec<Share>,
    /// Tokens of images and documents, and how many there are.
    pub media: (u64, usize),
}

/// A ledger with what it does not keep: paths of calls, and whether a message has parts that are no blocks.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    ledger: Ledger,
    paths: Paths,
    /// Whether something was left out that is no message.
    pub strange: bool,
}

impl Survey {
    /// Reads an item.
    ///
    /// # Errors
    /// As [`Ledger::read`].
    pub fn read<V: Value>(&mut self, item: V, weights: Option<&Weights>) -> Result<(), Error> {
        self.ledger.read(item, weights)?;
        let last = self.ledger.len() - 1;
        let first = self.ledger.message(last).first_block;
        let paths = &mut self.paths;
        each_path(item, self.ledger.blocks(last), |block, path| {
            with_utf8(path, |path| paths.add(first + block, path));
        });
        Ok(())
    }

    /// Adds a message with its blocks, and their paths, from other tables.
    pub fn copy(
        &mut self,
        message: MessageDigest,
        blocks: &[BlockDigest],
        from: &Strings,
        paths: &Paths,
    ) {
        let first = self.block_count();
        self.ledger.copy(message, blocks, from);
        let near = paths
            .named
            .partition_point(|known| known.0 < message.first_block);
        let end = message.first_block + message.block_count;
        for (block, path) in paths.named[near..].iter().take_while(|known| known.0 < end) {
            self.paths
                .add(first + block - message.first_block, paths.texts.get(*path));
        }
    }

    /// Adds all of another.
    pub fn join(&mut self, other: &Self) {
        for (at, message) in other.ledger.messages().iter().enumerate() {
            self.copy(
                *message,
                other.ledger.blocks(at),
                &other.ledger.strings,
                &other.paths,
            );
        }
        self.strange |= other.strange;
    }

    /// The digests.
    #[must_use]
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    fn block_count(&self) -> u32 {
        let last = self.ledger.messages().last();
        last.map_or(0, |last| last.first_block + last.block_count)
    }

    /// Everything that no setting decides.
    #[must_use]
    pub fn facts(&self) -> Facts {
        let ledger = &self.ledger;
        let starts = rounds(ledger, 0, ledger.len());
        let ends = starts
            .iter()
            .skip(1)
            .map(|end| *end as usize)
            .chain([ledger.len()]);
        let sizes = starts
            .iter()
            .zip(ends)
            .map(|(start, end)| ledger.tokens(*start as usize, end));
        let typed = |message: &&MessageDigest| message.has(message_flag::USER_INPUT);
        let mut facts = Facts {
            rounds: starts.len(),
            largest_round: sizes.max().unwrap_or(0),
            user_inputs: ledger.messages().iter().filter(typed).count(),
            open_calls: ledger.open_calls().len(),
            ..Facts::default()
        };
        self.add_blocks(&mut facts);
        facts
    }

    fn add_blocks(&self, facts: &mut Facts) {
        let (mut tools, mut files) = (Map::default(), Map::default());
        for (message, block) in self.blocks() {
            facts.categories[category(message, block)] += u64::from(block.tokens);
            if block.is_call() {
                let tool: &mut Share = tools.entry(block.name).or_default();
                tool.calls += 1;
                tool.tokens += u64::from(block.tokens);
            }
            if matches!(block.kind, BlockKind::Image | BlockKind::Document) {
                facts.media.0 += u64::from(block.tokens);
                facts.media.1 += 1;
            }
        }
        for found in self.results() {
            let tool = tools.entry(found.tool).or_default();
            tool.tokens += u64::from(found.tokens);
            tool.errors += u64::from(found.flags & crate::digest::block_flag::IS_ERROR != 0);
            if found.path != 0 {
                let file: &mut Share = files.entry(found.path).or_default();
                file.calls += 1;
                file.tokens += u64::from(found.tokens);
            }
        }
        facts.tools = listed(tools, &self.ledger.strings);
        facts.files = listed(files, &self.paths.texts);
    }

    fn blocks(&self) -> impl Iterator<Item = (&MessageDigest, &BlockDigest)> {
        let messages = self.ledger.messages().iter().enumerate();
        messages.flat_map(|(at, message)| {
            self.ledger
                .blocks(at)
                .iter()
                .map(move |block| (message, block))
        })
    }

    fn results(&self) -> impl Iterator<Item = Found> {
        let results = self
            .blocks()
            .filter(|(_, block)| block.kind == BlockKind::ToolResult);
        results.map(|(_, block)| {
            let call = self.ledger.calls_of(block.id).last();
            let (tool, path) = call.map_or((0, 0), |&(message, place)| {
                let first = self.ledger.message(message as usize).first_block;
                let name = self.ledger.blocks(message as usize)[place as usize].name;
                (name, self.paths.of(first + place))
            });
            let (tokens, chars, flags) = (block.tokens, block.chars, block.flags);
            Found {
                tool,
                tokens,
                chars,
                flags,
                path,
            }
        })
    }
}

fn category(message: &MessageDigest, block: &BlockDigest) -> usize {
    if message.has(message_flag::SUMMARY) {
        return 0;
    }
    match block.kind {
        BlockKind::Text if message.role == Role::Assistant => 2,
        BlockKind::Text if message.has(message_flag::USER_INPUT) => 1,
        BlockKind::Text if matches!(message.role, Role::User | Role::System) => 7,
        BlockKind::ToolUse | BlockKind::ServerToolUse => 4,
        BlockKind::ToolResult | BlockKind::ServerToolResult | BlockKind::SearchResult => 5,
        BlockKind::Thinking | BlockKind::RedactedThinking => 3,
        BlockKind::Image | BlockKind::Document => 6,
        _ => 8,
    }
}

/// By tokens, then by name.
fn listed(shares: Map<u32, Share>, names: &Strings) -> Vec<Share> {
    let named = shares.into_iter().map(|(name, share)| Share {
        name: names.get(name).to_vec(),
        ..share
    });
    let mut found: Vec<Share> = named.collect();
    found.sort_by(|a, b| (Reverse(a.tokens), &a.name).cmp(&(Reverse(b.tokens), &b.name)));
    found
}
