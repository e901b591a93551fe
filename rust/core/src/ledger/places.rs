//! Where the strings of one purpose stand: calls, results, pieces of a response.

use hashbrown::HashMap;

type Map<V> = HashMap<u32, V, foldhash::fast::FixedState>;

/// Message and block of one place.
pub type Place = (u32, u32);

/// No place: no ledger holds so many messages.
const NOWHERE: Place = (u32::MAX, 0);
/// More than one place.
const SEVERAL: Place = (u32::MAX, 1);

/// The places of each id, oldest first. Ids are small numbers, so that a table by number needs no search; nearly every
/// id stands in one place only, and takes 8 bytes.
#[derive(Clone, Debug, Default)]
pub(super) struct Places {
    one: Vec<Place>,
    many: Map<Vec<Place>>,
}

impl Places {
    pub(super) fn of(&self, id: u32) -> &[Place] {
        match self.one.get(id as usize) {
            None | Some(&NOWHERE) => &[],
            Some(&SEVERAL) => self.many.get(&id).map_or(&[], Vec::as_slice),
            Some(place) => std::slice::from_ref(place),
        }
    }

    pub(super) fn add(&mut self, id: u32, place: Place) {
        if id == 0 {
            return;
        }
        let at = id as usize;
        if at >= self.one.len() {
            self.one.resize(at + 1, NOWHERE);
        }
        match self.one[at] {
            NOWHERE => self.one[at] = place,
            SEVERAL => insert_sorted(self.many.entry(id).or_default(), place),
            only => {
                self.many.insert(id, vec![only.min(place), only.max(place)]);
                self.one[at] = SEVERAL;
            }
        }
    }

    pub(super) fn remove(&mut self, id: u32, place: Place) {
        let Some(one) = self.one.get_mut(id as usize).filter(|_| id != 0) else {
            return;
        };
        if *one != SEVERAL {
            *one = NOWHERE;
            return;
        }
        let places = self.many.entry(id).or_default();
        remove_sorted(places, &place);
        if let [last] = places[..] {
            *one = last;
            self.many.remove(&id);
        }
    }

    /// Forgets the room of ids that nothing has any more: those from `ids` on.
    pub(super) fn trim(&mut self, ids: usize) {
        self.one.truncate(ids);
    }
}

/// Nearly always at the end, so that one id shared by all messages stays cheap.
pub(super) fn insert_sorted<T: Ord>(list: &mut Vec<T>, item: T) {
    let at = list.partition_point(|known| *known < item);
    list.insert(at, item);
}

pub(super) fn remove_sorted<T: Ord>(list: &mut Vec<T>, item: &T) {
    if let Ok(at) = list.binary_search(item) {
        list.remove(at);
    }
}
