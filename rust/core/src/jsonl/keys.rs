//! The keys of an object that has very many, so that a repeated one is found without looking at all of them.

use super::tape::{Kind, Node};
use crate::json::{key_hash, same_key};
use hashbrown::HashTable;

/// From so many members on a table is made; fewer are compared one by one.
pub(super) const MANY: usize = 64;

/// Tables of the objects that are being read, the innermost last.
#[derive(Debug, Default)]
pub(super) struct Keys(Vec<Table>);

#[derive(Debug)]
struct Table {
    // Node of the object.
    object: usize,
    places: HashTable<u32>,
    // First key that is not in the table yet.
    next: usize,
}

impl Keys {
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// The node of an equal key before this one; it is taken for dropped from now on.
    pub(super) fn earlier(
        &mut self,
        nodes: &[Node],
        bytes: &[u8],
        object: usize,
        key: usize,
    ) -> Option<usize> {
        let text = |at: usize| &bytes[nodes[at].start as usize..nodes[at].end as usize];
        let table = self.of(object);
        while table.next < key {
            let at = table.next;
            if nodes[at].kind == Kind::String {
                let again = |known: &u32| key_hash(text(*known as usize));
                table
                    .places
                    .insert_unique(key_hash(text(at)), at as u32, again);
            }
            table.next = nodes[at + 1].next as usize;
        }
        let wanted = text(key);
        let known = table.places.find_entry(key_hash(wanted), |known| {
            same_key(text(*known as usize), wanted)
        });
        Some(known.ok()?.remove().0 as usize)
    }

    fn of(&mut self, object: usize) -> &mut Table {
        // Nodes of what lay inside this object, and was closed, have higher numbers.
        self.0.retain(|table| table.object <= object);
        if self.0.last().is_none_or(|table| table.object < object) {
            self.0.push(Table {
                object,
                places: HashTable::new(),
                next: object + 1,
            });
        }
        let last = self.0.len() - 1;
        &mut self.0[last]
    }
}
