//! Which lines of a transcript are in the model's context: a fold over their heads in file order, where nothing but
//! compactions took something out of it.
//!
//! What boundaries say of themselves is read by the caller, who knows their form.

use super::{Index, Line};
use crate::digest::message_flag as flag;
use crate::units::{Map, Set};

/// Lines that take something out of the context in ways that this fold does not know.
const RECORDS: [&[u8]; 8] = [
    b"microcompact_boundary",
    b"snip_boundary",
    b"content-replacement",
    b"collapse-expand",
    b"collapse-commit",
    b"marble-origami-commit",
    b"collapse-snapshot",
    b"marble-origami-snapshot",
];
const BOUNDARY: &[u8] = b"compact_boundary";

/// The number of a string that no line of the index has.
pub const UNKNOWN: u32 = u32::MAX;

/// What a boundary says of itself; strings as numbers of the index.
#[derive(Clone, Debug, Default)]
pub struct Mark {
    /// Its line.
    pub at: u32,
    /// `logicalParentUuid`.
    pub parent: u32,
    /// Entries that were written together with it.
    pub group: Vec<u32>,
    /// Whether it needs no summary.
    pub replaced: bool,
    /// Entries that were kept, each by its uuid.
    pub kept: Vec<u32>,
    /// First and last entry of a kept segment.
    pub segment: (u32, u32),
    /// The entry that kept ones follow.
    pub anchor: u32,
}

/// The lines in context.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Context {
    /// In the order of the context.
    pub lines: Vec<u32>,
    /// Places among them of attachments.
    pub attachments: Vec<u32>,
    /// Those of which the usage is of a context before the newest boundary.
    pub unmeasured: Vec<u32>,
    /// How many entries were kept, by a boundary's word, that no line is.
    pub missing: usize,
}

impl Index {
    /// The lines before `stop` that are in the context; `None`: more than compactions changed it, or a boundary has no mark.
    #[must_use]
    pub fn context(&self, stop: usize, marks: &[Mark]) -> Option<Context> {
        let lines = &self.lines()[..stop.min(self.lines().len())];
        let marks: Map<u32, &Mark> = marks.iter().map(|mark| (mark.at, mark)).collect();
        let names = Names::of(self);
        let rows = (0..)
            .zip(lines)
            .map(|(at, line)| self.row(at, line, &names, &marks));
        let rows: Vec<Row<'_>> = rows.collect::<Option<_>>()?;
        let out = left_out(&rows);
        Fold::default().run(&rows, &out)
    }

    fn row<'a>(
        &self,
        at: u32,
        line: &Line,
        names: &Names,
        marks: &Map<u32, &'a Mark>,
    ) -> Option<Row<'a>> {
        let flags = self.message(line).map_or(0, |found| found.flags);
        let is = |number: u32, name: Option<u32>| Some(number) == name;
        let system = is(line.kind, names.system);
        // A boundary of another type counts in some places and not in others.
        let bounds = is(line.subtype, names.boundary);
        if bounds != system && (bounds || is(line.kind, names.boundary)) {
            return None;
        }
        let mark = if bounds { Some(*marks.get(&at)?) } else { None };
        let record = if system { line.subtype } else { line.kind };
        let typed = is(line.kind, names.user) && flags & flag::USER_INPUT != 0;
        let aside = flags & (flag::SIDECHAIN | flag::SYNTHETIC) != 0;
        Some(Row {
            at,
            uuid: line.uuid,
            parent: line.parent,
            attached: is(line.kind, names.attachment),
            speaks: [names.user, names.assistant, names.attachment].contains(&Some(line.kind)),
            strange: names.records.contains(&record),
            aside,
            summary: flags & flag::SUMMARY != 0,
            prompt: typed && !aside && flags & flag::SUMMARY == 0,
            mark,
        })
    }
}

/// Numbers of the words for lines, where the index has them.
struct Names {
    user: Option<u32>,
    assistant: Option<u32>,
    attachment: Option<u32>,
    system: Option<u32>,
    boundary: Option<u32>,
    records: Vec<u32>,
}

impl Names {
    fn of(index: &Index) -> Self {
        let find = |name: &[u8]| index.strings.find(name);
        Self {
            user: find(b"user"),
            assistant: find(b"assistant"),
            attachment: find(b"attachment"),
            system: find(b"system"),
            boundary: find(BOUNDARY),
            records: RECORDS.into_iter().filter_map(find).collect(),
        }
    }
}

/// One line, as far as the fold needs it.
#[derive(Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
struct Row<'a> {
    at: u32,
    uuid: u32,
    parent: u32,
    attached: bool,
    speaks: bool,
    strange: bool,
    aside: bool,
    summary: bool,
    prompt: bool,
    mark: Option<&'a Mark>,
}

// ---- what never counts ------------------------------------------------------------------------

/// For each line whether no context holds it: sub-agents, errors, rewound branches, unfinished compactions.
fn left_out(rows: &[Row<'_>]) -> Vec<bool> {
    let mut out: Vec<bool> = rows.iter().map(|row| row.aside).collect();
    // A rewind can take back a compaction, so branches come first.
    let tops = rewound(rows, &out);
    if !tops.is_empty() {
        leave_below(rows, tops, &mut out);
    }
    leave_unfinished(rows, &mut out);
    out
}

fn left<'r, 'a>(
    rows: &'r [Row<'a>],
    out: &'r [bool],
) -> impl DoubleEndedIterator<Item = &'r Row<'a>> {
    rows.iter().filter(|row| !out[row.at as usize])
}

/// Prompts of the user that have a later sibling.
fn rewound(rows: &[Row<'_>], out: &[bool]) -> Vec<u32> {
    let linked: Set<u32> = left(rows, out).map(|row| row.parent).collect();
    let (mut newest, mut found, mut segment) = (Map::default(), Vec::new(), 0);
    for row in left(rows, out) {
        segment += u32::from(row.mark.is_some());
        if !row.prompt || row.uuid == 0 {
            continue;
        }
        // Roots are siblings within a segment, but only where entries are linked at all.
        let key = (row.parent, if row.parent == 0 { segment } else { 0 });
        if let Some(older) = newest.insert(key, row)
            && (row.parent != 0 || linked.contains(&older.uuid))
        {
            found.push(older.at);
        }
    }
    found
}

fn leave_below(rows: &[Row<'_>], mut stack: Vec<u32>, out: &mut [bool]) {
    let mut children: Map<u32, Vec<u32>> = Map::default();
    for row in left(rows, out) {
        let logical = row.mark.map_or(0, |mark| mark.parent);
        let parent = if row.parent == 0 { logical } else { row.parent };
        if parent != 0 {
            children.entry(parent).or_default().push(row.at);
        }
    }
    while let Some(at) = stack.pop() {
        if !std::mem::replace(&mut out[at as usize], true) {
            stack.extend(children.remove(&rows[at as usize].uuid).unwrap_or_default());
        }
    }
}

/// Leaves out boundaries without a summary, and what was written with them: a crash came between.
fn leave_unfinished(rows: &[Row<'_>], out: &mut [bool]) {
    let known: Set<u32> = left(rows, out)
        .map(|row| row.uuid)
        .filter(|uuid| *uuid != 0)
        .collect();
    let (mut partial, mut broken) = (Set::default(), Vec::new());
    let mut summarized = false;
    for row in left(rows, out).rev() {
        let Some(mark) = row.mark else {
            summarized |= row.summary;
            continue;
        };
        let whole = summarized || mark.replaced;
        if !whole || !mark.group.iter().all(|uuid| known.contains(uuid)) {
            broken.push(row.at);
            partial.extend(mark.group.iter().copied());
        }
        summarized = false;
    }
    if !partial.is_empty() {
        broken.extend(
            left(rows, out)
                .filter(|row| partial.contains(&row.uuid))
                .map(|row| row.at),
        );
    }
    for at in broken {
        out[at as usize] = true;
    }
}

// ---- the fold ---------------------------------------------------------------------------------

#[derive(Default)]
struct Fold<'a> {
    context: Vec<Row<'a>>,
    newest: Option<Row<'a>>,
    // Kept entries wait until their anchor has been placed, whatever a client wrote before it.
    waiting: Vec<Row<'a>>,
    anchor: u32,
    // Whether the anchor is still to come.
    anchored: bool,
    // Where anchors stand.
    anchors: Map<u32, u32>,
    missing: usize,
}

impl<'a> Fold<'a> {
    fn run(mut self, rows: &[Row<'a>], out: &[bool]) -> Option<Context> {
        let named: Set<u32> = rows
            .iter()
            .filter_map(|row| Some(row.mark?.anchor))
            .collect();
        let anchors =
            left(rows, out).filter(|row| row.speaks && row.uuid != 0 && named.contains(&row.uuid));
        self.anchors = anchors.map(|row| (row.uuid, row.at)).collect();
        for row in left(rows, out) {
            if row.speaks {
                self.talk(*row);
            } else if row.strange {
                return None;
            } else if let Some(mark) = row.mark {
                self.boundary(*row, mark);
            }
        }
        self.place();
        Some(self.finish())
    }

    fn place(&mut self) {
        self.context.append(&mut self.waiting);
    }

    fn talk(&mut self, row: Row<'a>) {
        let waits = !self.waiting.is_empty();
        if waits && !row.summary && !self.anchored {
            self.place();
        }
        self.context.push(row);
        if row.uuid == self.anchor {
            self.place();
        }
    }

    fn boundary(&mut self, row: Row<'a>, mark: &'a Mark) {
        self.place();
        self.waiting = self.preserved(mark);
        self.context.clear();
        self.newest = Some(row);
        self.anchor = mark.anchor;
        self.anchored = self
            .anchors
            .get(&mark.anchor)
            .is_some_and(|at| *at > row.at);
        if self.anchor == row.uuid {
            self.place();
        }
    }

    fn preserved(&mut self, mark: &Mark) -> Vec<Row<'a>> {
        let named = (0..).zip(&self.context).filter(|(_, row)| row.uuid != 0);
        let places: Map<u32, usize> = named.map(|(at, row)| (row.uuid, at)).collect();
        if !mark.kept.is_empty() {
            let found = mark.kept.iter().filter_map(|uuid| places.get(uuid));
            let found: Vec<Row<'a>> = found.map(|at| self.context[*at]).collect();
            self.missing += mark.kept.len() - found.len();
            return found;
        }
        let (head, tail) = mark.segment;
        if let (Some(&head), Some(&tail)) = (places.get(&head), places.get(&tail)) {
            return self.context.get(head..=tail).unwrap_or_default().to_vec();
        }
        let lost = |uuid: &&u32| **uuid != 0 && !places.contains_key(*uuid);
        self.missing += [head, tail].iter().filter(lost).count();
        Vec::new()
    }

    fn finish(self) -> Context {
        let boundary = self.newest.map_or(0, |row| row.at);
        let kept: &[u32] = self
            .newest
            .and_then(|row| row.mark)
            .map_or(&[], |mark| &mark.kept);
        let kept: Set<u32> = kept.iter().copied().collect();
        let before = |row: &&Row<'_>| row.at < boundary || kept.contains(&row.uuid);
        let attached = (0..).zip(&self.context).filter(|(_, row)| row.attached);
        Context {
            lines: self.context.iter().map(|row| row.at).collect(),
            attachments: attached.map(|(place, _)| place).collect(),
            unmeasured: self
                .context
                .iter()
                .filter(before)
                .map(|row| row.at)
                .collect(),
            missing: self.missing,
        }
    }
}
