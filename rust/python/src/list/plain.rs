//! By the calls that every build has.

use pyo3::prelude::*;
use pyo3::types::PyList;

/// The items of a list from `first` on.
pub(crate) fn soon<'py>(
    list: &Bound<'py, PyList>,
    first: usize,
) -> impl ExactSizeIterator<Item = Bound<'py, PyAny>> {
    let items: Vec<_> = list.iter().skip(first).collect();
    items.into_iter()
}

/// Whether a list begins with these very objects.
pub(crate) fn begins_with(list: &Bound<'_, PyList>, held: &[Py<PyAny>]) -> bool {
    let same =
        |(at, known): (usize, &Py<PyAny>)| list.get_item(at).is_ok_and(|item| item.is(known));
    list.len() >= held.len() && held.iter().enumerate().all(same)
}
