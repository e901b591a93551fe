//! Where the strings of one purpose stand: calls, results, pieces of a response, uuids.

use hashbrown::HashMap;

type Map<V> = HashMap<u32, V, foldhash::fast::FixedState>;

/// Message and block of one place.
pub type Place = (u32, u32);

/// The places of each id, oldest first. Nearly every id stands in one place only, and takes 12 bytes.
#[derive(Clone, Debug, Default)]
pub(super) struct Places {
    one: Map<Place>,
    // Ids that stand in several places; they are not in `one`.
    many: Map<Vec<Place>>,
}

impl Places {
    pub(super) fn of(&self, id: u32) -> &[Place] {
        if let Some(place) = self.one.get(&id) {
            return std::slice::from_ref(place);
        }
        self.many.get(&id).map_or(&[], Vec::as_slice)
    }

    pub(super) fn add(&mut self, id: u32, place: Place) {
        if id == 0 {
            return;
        }
        if let Some(places) = self.many.get_mut(&id) {
            insert_sorted(places, place);
        } else if let Some(only) = self.one.insert(id, place) {
            self.one.remove(&id);
            self.many.insert(id, vec![only.min(place), only.max(place)]);
        }
    }

    pub(super) fn remove(&mut self, id: u32, place: Place) {
        if self.one.remove(&id).is_some() {
            return;
        }
        let Some(places) = self.many.get_mut(&id) else {
            return;
        };
        remove_sorted(places, &place);
        if let [last] = places[..] {
            self.many.remove(&id);
            self.one.insert(id, last);
        }
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
