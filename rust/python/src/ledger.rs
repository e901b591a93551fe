//! Binding of `ullage_core::ledger`: the class `Ledger`.

mod state;

use crate::arguments::{Given, NOT_NEGATIVE, number, whole};
use crate::errors::to_py;
use crate::list::soon;
use crate::text::{Weights, with_text};
use crate::tuples::{anchor, anchored, block, keep, message};
use crate::value::PyValue;
use pyo3::exceptions::{PyIndexError, PyTypeError};
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::{PyBytes, PyDict, PyList, PySet, PyString, PyTuple};
use state::{State, Unread};
use std::sync::{Mutex, MutexGuard, PoisonError};
use ullage_core::digest::{MORE_SHIFT, block_flag, block_more, message_flag};
use ullage_core::ledger::{Ledger as Core, Place, ResultRow};
use ullage_core::limits::{DROP_PERCENT, KEEP_MAX_TOKENS, KEEP_MIN_TEXT_MESSAGES, KEEP_MIN_TOKENS};
use ullage_core::read::read_plain;
use ullage_core::rounds::rounds;
use ullage_core::text::Weights as CoreWeights;
use ullage_core::truncate::truncate_head;
use ullage_core::units::saturate;
use ullage_core::view::with_utf8;
use ullage_core::window::{Enough, keep_window};

/// Digests of a conversation, kept up to date as it grows.
#[pyclass(frozen, module = "ullage._core")]
pub(crate) struct Ledger {
    weights: Option<Py<Weights>>,
    state: Mutex<State>,
}

impl Ledger {
    fn lock(&self, py: Python<'_>) -> MutexGuard<'_, State> {
        // A panic between two changes leaves counts that are merely out of date.
        let locked = self.state.lock_py_attached(py);
        locked.unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the core; what is asked may not touch Python.
    pub(crate) fn ask<R>(&self, py: Python<'_>, question: impl FnOnce(&Core) -> R) -> R {
        question(&self.lock(py).core)
    }

    fn weights(&self) -> Option<&CoreWeights> {
        self.weights.as_ref().map(|weights| &weights.get().inner)
    }

    fn add(&self, items: &Bound<'_, PyAny>) -> PyResult<usize> {
        let py = items.py();
        let added = if let Ok(list) = items.cast_exact::<PyList>() {
            self.lock(py).append(soon(list, 0), self.weights())
        } else {
            let items: Vec<_> = items.try_iter()?.collect::<PyResult<_>>()?;
            self.lock(py).append(items.iter().cloned(), self.weights())
        };
        added.map_err(|unread| numbered(py, unread))
    }

    fn place(&self, value: &Bound<'_, PyAny>) -> PyResult<usize> {
        let index = whole("index", value)?;
        let found = self.ask(value.py(), |core| core.check(index));
        found.map_err(|error| to_py(value.py(), &error, None))
    }
}

/// Of a plain message that was added: what `append_plain` returns.
type PlainlyAdded<'py> = (bool, Bound<'py, PyList>, u64, u64);

fn numbered(py: Python<'_>, (at, error): Unread) -> PyErr {
    to_py(py, &error, Some(at))
}

fn unnumbered(py: Python<'_>, (_, error): Unread) -> PyErr {
    to_py(py, &error, None)
}

/// A range as a slice understands it.
fn range(start: Given<'_, '_>, stop: Option<&Bound<'_, PyAny>>) -> PyResult<(i64, i64)> {
    let start = start.whole("start", 0)?;
    let stop = stop.map_or(Ok(i64::MAX), |stop| whole("stop", stop))?;
    Ok((start, stop))
}

fn clamped(core: &Core, (start, stop): (i64, i64)) -> (usize, usize) {
    let length = i64::try_from(core.len()).unwrap_or(i64::MAX);
    let clamp = |at: i64| {
        let place = if at < 0 {
            at.saturating_add(length)
        } else {
            at.min(length)
        };
        usize::try_from(place).unwrap_or(0)
    };
    let (start, stop) = (clamp(start), clamp(stop));
    (start, start.max(stop))
}

/// A tool result and its call, out of the ledger: ids and names are copied, since making a string may run Python code.
struct Row {
    place: Place,
    call: Option<Place>,
    id: Vec<u8>,
    tool: Vec<u8>,
    chars: u32,
    tokens: u32,
    flags: u64,
}

impl Row {
    fn of(row: ResultRow<'_>) -> Self {
        Self {
            place: row.place,
            call: row.call,
            id: row.id.to_vec(),
            tool: row.tool.to_vec(),
            chars: row.digest.chars,
            tokens: row.digest.tokens,
            flags: u64::from(row.digest.flags) | u64::from(row.digest.more) << MORE_SHIFT,
        }
    }

    fn tuple<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let id = crate::text::string(py, &self.id)?;
        let tool = crate::text::string(py, &self.tool)?;
        let (at, block) = self.place;
        (
            id,
            at,
            block,
            self.call,
            tool,
            self.chars,
            self.tokens,
            self.flags,
        )
            .into_pyobject(py)
    }
}

fn size(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

#[pymethods]
impl Ledger {
    #[new]
    #[pyo3(signature = (weights=None, items=None))]
    fn new(weights: Option<Py<Weights>>, items: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let made = Self {
            weights,
            state: Mutex::default(),
        };
        items.map_or(Ok(0), |items| made.add(items))?;
        Ok(made)
    }

    // ---- changes

    #[getter]
    fn version(&self, py: Python<'_>) -> u64 {
        self.ask(py, Core::version)
    }

    fn append(&self, item: &Bound<'_, PyAny>) -> PyResult<usize> {
        let py = item.py();
        let item = std::iter::once(item.clone());
        let added = self.lock(py).append(item, self.weights());
        added.map_err(|unread| unnumbered(py, unread))
    }

    #[pyo3(signature = (item, calls, answered, own=""), text_signature = "($self, item, calls, answered, own='')")]
    fn append_plain<'py>(
        &self,
        item: &Bound<'py, PyAny>,
        calls: &Bound<'py, PyDict>,
        answered: &Bound<'py, PySet>,
        own: &str,
    ) -> PyResult<Option<PlainlyAdded<'py>>> {
        let Some(found) = read_plain(PyValue::new(item), own) else {
            return Ok(None);
        };
        let names: Vec<_> = found.names.iter().map(|name| name.owned()).collect();
        // From here on Python code may run: ids that are known may be instances of subclasses, which compare by their own methods.
        for (at, name) in names.iter().enumerate() {
            if calls.contains(name)? == found.answer || answered.contains(name)? {
                return Ok(None);
            }
            for before in &names[..at] {
                if name.eq(before)? {
                    return Ok(None);
                }
            }
        }
        self.append(item)?;
        let names = PyList::new(item.py(), names)?;
        Ok(Some((found.answer, names, found.longest, found.chars)))
    }

    fn extend(&self, items: &Bound<'_, PyAny>) -> PyResult<usize> {
        self.add(items)
    }

    fn replace(&self, index: &Bound<'_, PyAny>, item: &Bound<'_, PyAny>) -> PyResult<()> {
        let (py, at) = (item.py(), self.place(index)?);
        let replaced = self.lock(py).replace(at, item, self.weights());
        replaced.map(drop).map_err(|unread| unnumbered(py, unread))
    }

    fn truncate(&self, length: &Bound<'_, PyAny>) -> PyResult<()> {
        let wanted = usize::try_from(whole("length", length)?).ok();
        let mut state = self.lock(length.py());
        let most = state.core.len();
        let dropped = wanted
            .filter(|kept| *kept <= most)
            .map(|kept| state.truncate(kept));
        // What ends may run Python code, which may come back.
        drop(state);
        match dropped {
            Some(_) => Ok(()),
            None => number("length", length, (0, most as u64)).map(drop),
        }
    }

    fn sync(&self, items: &Bound<'_, PyAny>) -> PyResult<usize> {
        let (py, Ok(list)) = (items.py(), items.cast::<PyList>()) else {
            let kind = items.get_type().name()?;
            let said = format!("items must be a list, not {kind}");
            return Err(PyTypeError::new_err(said));
        };
        let synced = self.lock(py).sync(list, self.weights());
        let (read, dropped) = synced.map_err(|unread| numbered(py, unread))?;
        drop(dropped);
        Ok(read)
    }

    fn changed_since(&self, version: &Bound<'_, PyAny>) -> PyResult<usize> {
        let known = u64::try_from(whole("version", version)?);
        Ok(self.ask(version.py(), |core| match known {
            Ok(known) => core.changed_since(known),
            Err(_) => core.changed_since(0),
        }))
    }

    // ---- questions

    fn __len__(&self, py: Python<'_>) -> usize {
        self.ask(py, Core::len)
    }

    #[pyo3(signature = (start=Given::Unset, stop=None), text_signature = "($self, start=0, stop=None)")]
    fn tokens(
        &self,
        py: Python<'_>,
        start: Given<'_, '_>,
        stop: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<u64> {
        let wanted = range(start, stop)?;
        Ok(self.ask(py, |core| {
            let (start, stop) = clamped(core, wanted);
            core.tokens(start, stop)
        }))
    }

    fn message<'py>(&self, index: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let at = whole("index", index)?;
        let found = self.ask(index.py(), |core| {
            core.check(at).map(|at| *core.message(at))
        });
        message(
            index.py(),
            &found.map_err(|error| to_py(index.py(), &error, None))?,
        )
    }

    fn blocks<'py>(&self, index: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyList>> {
        let (py, at) = (index.py(), whole("index", index)?);
        let found = self.ask(py, |core| core.check(at).map(|at| core.blocks(at).to_vec()));
        let found = found.map_err(|error| to_py(py, &error, None))?;
        let tuples: PyResult<Vec<_>> = found.iter().map(|digest| block(py, digest)).collect();
        PyList::new(py, tuples?)
    }

    fn string<'py>(&self, r#ref: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let (py, wanted) = (r#ref.py(), whole("ref", r#ref)?);
        let found = self.ask(py, |core| {
            let known = u32::try_from(wanted).ok();
            let known = known.filter(|number| (*number as usize) < core.strings.len());
            known
                .map(|number| core.string(number).to_vec())
                .ok_or(core.strings.len())
        });
        match found {
            Ok(bytes) => crate::text::string(py, &bytes),
            Err(count) => Err(PyIndexError::new_err(format!("string {wanted} of {count}"))),
        }
    }

    #[pyo3(signature = (start=Given::Unset, stop=None), text_signature = "($self, start=0, stop=None)")]
    fn rounds(
        &self,
        py: Python<'_>,
        start: Given<'_, '_>,
        stop: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Vec<u32>> {
        let wanted = range(start, stop)?;
        Ok(self.ask(py, |core| {
            let (start, stop) = clamped(core, wanted);
            rounds(core, start, stop)
        }))
    }

    fn find_call(&self, tool_use_id: &Bound<'_, PyString>) -> Option<Place> {
        with_text(tool_use_id, |text| {
            with_utf8(text, |id| {
                self.ask(tool_use_id.py(), |core| core.find_call(id))
            })
        })
    }

    fn find_result(&self, tool_use_id: &Bound<'_, PyString>) -> Option<Place> {
        with_text(tool_use_id, |text| {
            with_utf8(text, |id| {
                self.ask(tool_use_id.py(), |core| core.find_result(id))
            })
        })
    }

    fn open_calls(&self, py: Python<'_>) -> Vec<Place> {
        self.ask(py, Core::open_calls)
    }

    fn media_indices(&self, py: Python<'_>) -> Vec<usize> {
        self.ask(py, Core::media_indices)
    }

    // ---- columns

    #[pyo3(signature = (start=Given::Unset), text_signature = "($self, start=0)")]
    fn results<'py>(&self, py: Python<'py>, start: Given<'_, 'py>) -> PyResult<Bound<'py, PyList>> {
        let wanted = range(start, None)?;
        let rows: Vec<Row> = self.ask(py, |core| {
            let (start, _) = clamped(core, wanted);
            core.result_rows(start).map(Row::of).collect()
        });
        let made = PyList::empty(py);
        for row in &rows {
            made.append(row.tuple(py)?)?;
        }
        Ok(made)
    }

    #[pyo3(signature = (start=Given::Unset, stop=None), text_signature = "($self, start=0, stop=None)")]
    fn roles<'py>(
        &self,
        py: Python<'py>,
        start: Given<'_, 'py>,
        stop: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let wanted = range(start, stop)?;
        let roles: Vec<u8> = self.ask(py, |core| {
            let (start, stop) = clamped(core, wanted);
            let messages = &core.messages()[start..stop];
            messages.iter().map(|message| message.role as u8).collect()
        });
        Ok(PyBytes::new(py, &roles))
    }

    #[pyo3(signature = (*kinds), text_signature = "($self, *kinds)")]
    fn with_kinds(&self, kinds: &Bound<'_, PyTuple>) -> PyResult<Vec<usize>> {
        let wanted: Vec<u8> = kinds.extract()?;
        Ok(self.ask(kinds.py(), |core| core.with_kinds(&wanted)))
    }

    #[pyo3(signature = (stop=None), text_signature = "($self, stop=None)")]
    fn whole_cuts(&self, py: Python<'_>, stop: Option<&Bound<'_, PyAny>>) -> PyResult<Vec<usize>> {
        let wanted = range(Given::Unset, stop)?;
        Ok(self.ask(py, |core| core.whole_cuts(clamped(core, wanted).1)))
    }

    // ---- anchored count

    #[pyo3(name = "anchor", signature = (cleared=Given::Unset), text_signature = "($self, cleared=0)")]
    fn newest_anchor<'py>(
        &self,
        py: Python<'py>,
        cleared: Given<'_, 'py>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let cleared = cleared.number("cleared", NOT_NEGATIVE, 0)?;
        let found = self.ask(py, |core| core.anchor(cleared));
        found.map(|found| anchor(py, &found)).transpose()
    }

    #[getter]
    fn overhead(&self, py: Python<'_>) -> Option<u64> {
        self.ask(py, Core::overhead)
    }

    #[pyo3(
        name = "anchored",
        signature = (freed=Given::Unset, cleared=Given::Unset),
        text_signature = "($self, freed=0, cleared=0)"
    )]
    fn anchored_count<'py>(
        &self,
        py: Python<'py>,
        freed: Given<'_, 'py>,
        cleared: Given<'_, 'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let freed = freed.number("freed", NOT_NEGATIVE, 0)?;
        let cleared = cleared.number("cleared", NOT_NEGATIVE, 0)?;
        let (total, estimated, found) = self.ask(py, |core| core.anchored(freed, cleared));
        anchored(py, total, estimated, found.as_ref())
    }

    // ---- plans

    #[pyo3(
        name = "keep_window",
        signature = (
            start, *, floor=Given::Unset, min_tokens=Given::Unset, max_tokens=Given::Unset,
            min_text_messages=Given::Unset
        ),
        text_signature = "($self, start, *, floor=0, min_tokens=10000, max_tokens=40000, min_text_messages=5)"
    )]
    fn keep<'py>(
        &self,
        start: &Bound<'py, PyAny>,
        floor: Given<'_, 'py>,
        min_tokens: Given<'_, 'py>,
        max_tokens: Given<'_, 'py>,
        min_text_messages: Given<'_, 'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = start.py();
        let length = self.ask(py, Core::len) as u64;
        let start = size(number("start", start, (0, length))?);
        let floor = size(floor.number("floor", (0, length), 0)?);
        let texts = u64::from(KEEP_MIN_TEXT_MESSAGES);
        let enough = Enough {
            min_tokens: min_tokens.number("min_tokens", NOT_NEGATIVE, KEEP_MIN_TOKENS)?,
            max_tokens: max_tokens.number("max_tokens", NOT_NEGATIVE, KEEP_MAX_TOKENS)?,
            min_text_messages: saturate(min_text_messages.number(
                "min_text_messages",
                NOT_NEGATIVE,
                texts,
            )?),
        };
        let kept = self.ask(py, |core| keep_window(core, start, floor, &enough));
        keep(py, kept)
    }

    #[pyo3(
        name = "truncate_head",
        signature = (gap_tokens, *, start=Given::Unset, share_percent=Given::Unset),
        text_signature = "($self, gap_tokens, *, start=0, share_percent=20)"
    )]
    fn cut_head(
        &self,
        py: Python<'_>,
        gap_tokens: Option<&Bound<'_, PyAny>>,
        start: Given<'_, '_>,
        share_percent: Given<'_, '_>,
    ) -> PyResult<usize> {
        let gap = gap_tokens.map(|gap| number("gap_tokens", gap, NOT_NEGATIVE));
        let gap = gap.transpose()?;
        let length = self.ask(py, Core::len) as u64;
        let start = size(start.number("start", (0, length), 0)?);
        let share = share_percent.number("share_percent", (1, 100), u64::from(DROP_PERCENT))?;
        Ok(self.ask(py, |core| truncate_head(core, gap, start, saturate(share))))
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        self.ask(py, |core| {
            let tokens = core.tokens(0, core.len());
            format!("Ledger({} messages, {tokens} tokens)", core.len())
        })
    }
}

/// Adds this file's names to the module.
pub(crate) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<Ledger>()?;
    // For the test that compares the vocabulary with the twin's.
    m.add("_MESSAGE_FLAGS", PyTuple::new(m.py(), message_flag::ALL)?)?;
    let first = block_flag::ALL
        .iter()
        .map(|&(name, bit)| (name, u64::from(bit)));
    let more = block_more::ALL
        .iter()
        .map(|&(name, bit)| (name, u64::from(bit) << MORE_SHIFT));
    let all: Vec<(&str, u64)> = first.chain(more).collect();
    m.add("_BLOCK_FLAGS", PyTuple::new(m.py(), all)?)
}
