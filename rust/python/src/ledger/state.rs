//! What a `Ledger` protects by its lock, and how it follows a list.
//!
//! No Python code runs in here, nor anything that could start some (the collector, the end of an object): it might come
//! back to the same ledger, or wait for a thread that waits for the lock.

use crate::list::{begins_with, soon};
use crate::value::PyValue;
use pyo3::prelude::*;
use pyo3::types::PyList;
use std::collections::HashMap;
use std::ops::Range;
use ullage_core::digest::{BlockDigest, MessageDigest};
use ullage_core::error::Error;
use ullage_core::ledger::Ledger as Core;
use ullage_core::text::Weights;

type Digested = (MessageDigest, Vec<BlockDigest>);

/// An item that could not be read, by its place in what was passed.
pub(super) type Unread = (usize, Error);

#[derive(Default)]
pub(super) struct State {
    pub(super) core: Core,
    // Strong references: an address that is in use again can not pass for an old item.
    held: Vec<Py<PyAny>>,
}

impl State {
    /// Appends all items or none; the new length. Whoever passes them holds them too: none ends in here.
    pub(super) fn append<'py>(
        &mut self,
        items: impl ExactSizeIterator<Item = Bound<'py, PyAny>>,
        weights: Option<&Weights>,
    ) -> Result<usize, Unread> {
        let (length, strings) = (self.core.len(), self.core.strings.len());
        self.core.reserve(items.len());
        self.held.reserve(items.len());
        for (at, item) in items.enumerate() {
            if let Err(error) = self.core.read(PyValue::new(&item), weights) {
                self.core.undo(length, strings);
                self.held.truncate(length);
                return Err((at, error));
            }
            self.held.push(item.unbind());
        }
        Ok(self.core.len())
    }

    /// Puts an item in the place of another, which is returned.
    pub(super) fn replace(
        &mut self,
        at: usize,
        item: &Bound<'_, PyAny>,
        weights: Option<&Weights>,
    ) -> Result<Py<PyAny>, Unread> {
        let length = self.core.len();
        self.read(std::slice::from_ref(item), weights)?;
        for (message, blocks) in self.take(length) {
            self.core.replace(at, message, &blocks);
        }
        Ok(std::mem::replace(&mut self.held[at], item.clone().unbind()))
    }

    /// Forgets the items from `length` on, and returns them.
    pub(super) fn truncate(&mut self, length: usize) -> Vec<Py<PyAny>> {
        self.core.truncate(length);
        self.held.split_off(length.min(self.held.len()))
    }

    /// Digests all items or none, at the end of the ledger.
    fn read(
        &mut self,
        items: &[Bound<'_, PyAny>],
        weights: Option<&Weights>,
    ) -> Result<(), Unread> {
        let (length, strings) = (self.core.len(), self.core.strings.len());
        self.core.reserve(items.len());
        for (at, item) in items.iter().enumerate() {
            if let Err(error) = self.core.read(PyValue::new(item), weights) {
                self.core.undo(length, strings);
                return Err((at, error));
            }
        }
        Ok(())
    }

    /// Takes the newest digests off again, oldest first.
    fn take(&mut self, from: usize) -> Vec<Digested> {
        let digested = |at| (*self.core.message(at), self.core.blocks(at).to_vec());
        let taken = (from..self.core.len()).map(digested).collect();
        self.core.undo(from, usize::MAX);
        taken
    }

    /// How many items at the head and at the tail are the same objects as last time.
    fn unchanged(&self, items: &[Bound<'_, PyAny>]) -> (usize, usize) {
        let (known, shorter) = (&self.held, self.held.len().min(items.len()));
        let same = |old: usize, new: usize| known[old].as_ptr() == items[new].as_ptr();
        let head = (0..shorter).take_while(|&at| same(at, at)).count();
        let tail = (1..=shorter - head)
            .map(|back| (known.len() - back, items.len() - back))
            .take_while(|&(old, new)| same(old, new))
            .count();
        (head, tail)
    }

    /// Makes the ledger that of `items`; how many were read, and the references that are no longer needed.
    pub(super) fn sync(
        &mut self,
        list: &Bound<'_, PyList>,
        weights: Option<&Weights>,
    ) -> Result<(usize, Vec<Py<PyAny>>), Unread> {
        if begins_with(list, &self.held) {
            let before = self.held.len();
            let added = self.append(soon(list, before), weights);
            return added
                .map(|length| (length - before, Vec::new()))
                .map_err(|(at, error)| (before + at, error));
        }
        let items: Vec<_> = list.iter().collect();
        let items = &items[..];
        let (head, tail) = self.unchanged(items);
        let (old_end, new_end) = (self.held.len() - tail, items.len() - tail);
        let known: HashMap<_, _> = (head..old_end)
            .map(|at| (self.held[at].as_ptr(), at))
            .collect();
        let old_place = |at: usize| known.get(&items[at].as_ptr()).copied();
        let wanted: Vec<usize> = (head..new_end)
            .filter(|&at| old_place(at).is_none())
            .collect();

        let before = self.core.len();
        let fresh: Vec<_> = wanted.iter().map(|&at| items[at].clone()).collect();
        self.read(&fresh, weights)
            .map_err(|(at, error)| (wanted[at], error))?;
        if head < before {
            self.rearrange(head, &wanted, old_end..before, old_place, new_end);
            self.core.trim();
        }
        let kept = items[head..].iter().map(|item| item.clone().unbind());
        let dropped = self.held.splice(head.., kept).collect();
        Ok((wanted.len(), dropped))
    }

    /// Puts what was read at the end, and what was there before, into the new order.
    fn rearrange(
        &mut self,
        head: usize,
        wanted: &[usize],
        tail: Range<usize>,
        old_place: impl Fn(usize) -> Option<usize>,
        new_end: usize,
    ) {
        let before = tail.end;
        let read = self.take(before);
        let taken = self.take(head);
        self.core.edited(head);
        let mut read = wanted.iter().zip(&read).peekable();
        for at in head..new_end {
            let new = read.next_if(|(place, _)| **place == at).map(|(_, new)| new);
            let old = old_place(at).map(|old| &taken[old - head]);
            if let Some((message, blocks)) = new.or(old) {
                self.core.push(*message, blocks);
            }
        }
        for (message, blocks) in &taken[tail.start - head..] {
            self.core.push(*message, blocks);
        }
    }
}
