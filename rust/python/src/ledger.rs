//! Binding of `ullage_core::ledger`: the class `Ledger`.

use crate::errors::to_py;
use crate::text::Weights;
use crate::value::PyValue;
use pyo3::exceptions::{PyIndexError, PyTypeError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyInt, PyList, PyString, PyTuple, PyType};
use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use ullage_core::digest::{BlockDigest, MessageDigest};
use ullage_core::error::Error;
use ullage_core::ledger::{Anchor, Ledger as Core, Place};
use ullage_core::read::read_item;
use ullage_core::rounds::rounds;
use ullage_core::truncate::truncate_head;
use ullage_core::view::with_utf8;
use ullage_core::window::{Enough, keep_window};

/// Digests of a conversation, kept up to date as it grows.
#[pyclass(frozen, module = "ullage._core")]
pub(crate) struct Ledger {
    weights: Option<Py<Weights>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    core: Core,
    // Strong references: an address that is in use again can not pass for an old item.
    held: Vec<Py<PyAny>>,
    stale: HashSet<usize>,
}

type Digested = (MessageDigest, Vec<BlockDigest>);

impl Ledger {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic between two changes leaves counts that are merely out of date.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Digests all items or none; strings that only failed items named are forgotten.
    fn read_all(
        &self,
        py: Python<'_>,
        core: &mut Core,
        items: &[Bound<'_, PyAny>],
        indices: Option<&[usize]>,
    ) -> PyResult<Vec<Digested>> {
        let weights = self.weights.as_ref().map(|weights| &weights.get().inner);
        let known = core.strings.len();
        let mut read = Vec::with_capacity(items.len());
        for (at, item) in items.iter().enumerate() {
            let mut blocks = Vec::new();
            match read_item(PyValue::new(item), weights, &mut core.strings, &mut blocks) {
                Ok(message) => read.push((message, blocks)),
                Err(error) => {
                    core.strings.rollback(known);
                    return Err(to_py(py, &error, indices.map(|indices| indices[at])));
                }
            }
        }
        Ok(read)
    }

    fn extend_with(
        &self,
        py: Python<'_>,
        items: &[Bound<'_, PyAny>],
        numbered: bool,
    ) -> PyResult<usize> {
        let state = &mut *self.lock();
        let indices: Vec<usize> = (0..items.len()).collect();
        let indices = numbered.then_some(&indices[..]);
        let read = self.read_all(py, &mut state.core, items, indices)?;
        for (message, blocks) in read {
            state.core.push(message, &blocks);
        }
        state
            .held
            .extend(items.iter().map(|item| item.clone().unbind()));
        Ok(state.core.len())
    }
}

impl State {
    /// How many items at the head and at the tail are the same objects as last time.
    fn unchanged(&self, items: &[Bound<'_, PyAny>]) -> (usize, usize) {
        let (known, shorter) = (&self.held, self.held.len().min(items.len()));
        let same = |old: usize, new: usize| {
            known[old].as_ptr() == items[new].as_ptr() && !self.stale.contains(&old)
        };
        let head = (0..shorter).take_while(|&at| same(at, at)).count();
        let tail = (1..=shorter - head)
            .take_while(|&back| same(known.len() - back, items.len() - back))
            .count();
        (head, tail)
    }

    /// Cuts at `head` and returns what was cut.
    fn take(&mut self, head: usize) -> Vec<Digested> {
        let digested = |at| (*self.core.message(at), self.core.blocks(at).to_vec());
        let taken = (head..self.core.len()).map(digested).collect();
        self.core.truncate(head);
        taken
    }
}

/// An integer argument in a range: `TypeError` for what is none, `InvalidPolicy` outside.
fn number(name: &'static str, value: &Bound<'_, PyAny>, least: u64, most: u64) -> PyResult<u64> {
    if !value.is_instance_of::<PyInt>() {
        let kind = value.get_type().name()?;
        return Err(PyTypeError::new_err(format!(
            "{name} must be an integer, not {kind}"
        )));
    }
    if let Ok(number) = value.extract::<u64>()
        && (least..=most).contains(&number)
    {
        return Ok(number);
    }
    let limit = if most == u64::MAX {
        "must not be negative".to_owned()
    } else {
        format!("must be between {least} and {most}")
    };
    Err(crate::errors::policy_error(name, value, &limit))
}

fn index(core: &Core, at: i64) -> PyResult<usize> {
    core.check(at)
        .map_err(|error: Error| PyIndexError::new_err(error.to_string()))
}

/// As a slice understands it.
fn range(length: usize, start: i64, stop: Option<i64>) -> (usize, usize) {
    let length = i64::try_from(length).unwrap_or(i64::MAX);
    let clamp = |at: i64| {
        if at < 0 {
            (at + length).max(0)
        } else {
            at.min(length)
        }
    };
    let (start, stop) = (clamp(start), clamp(stop.unwrap_or(length)));
    let place = |at: i64| usize::try_from(at).unwrap_or(0);
    (place(start), place(start.max(stop)))
}

fn string<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(PyString::new(py, text).into_any()),
        Err(_) => PyBytes::new(py, bytes).call_method1("decode", ("utf-8", "surrogatepass")),
    }
}

/// An instance of one of the contract's named tuples.
fn named<'py, T>(
    py: Python<'py>,
    module: &str,
    name: &str,
    fields: T,
) -> PyResult<Bound<'py, PyAny>>
where
    T: pyo3::call::PyCallArgs<'py>,
{
    static CLASSES: PyOnceLock<Mutex<HashMap<String, Py<PyType>>>> = PyOnceLock::new();
    let classes = CLASSES.get_or_init(py, || Mutex::new(HashMap::new()));
    let known = classes
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .get(name)
        .map(|class| class.clone_ref(py));
    let class = if let Some(class) = known {
        class
    } else {
        let class: Py<PyType> = py
            .import(module)?
            .getattr(name)?
            .cast_into::<PyType>()?
            .unbind();
        let mut classes = classes.lock().unwrap_or_else(PoisonError::into_inner);
        classes.insert(name.to_owned(), class.clone_ref(py));
        class
    };
    class.bind(py).call1(fields)
}

const DIGEST: &str = "ullage._reference.digest";

/// `MessageDigest(...)`.
pub(crate) fn message_tuple<'py>(
    py: Python<'py>,
    digest: &MessageDigest,
) -> PyResult<Bound<'py, PyAny>> {
    let fields = (
        digest.role as u8,
        digest.flags,
        digest.tokens,
        digest.rough,
        digest.first_block,
        digest.block_count,
        digest.response_id,
        digest.uuid,
        digest.usage,
        digest.timestamp,
    );
    named(py, DIGEST, "MessageDigest", fields)
}

fn block_tuple<'py>(py: Python<'py>, digest: &BlockDigest) -> PyResult<Bound<'py, PyAny>> {
    let fields = (
        digest.kind as u8,
        digest.flags,
        digest.tokens,
        digest.rough,
        digest.chars,
        digest.id,
        digest.name,
        digest.aux,
    );
    named(py, DIGEST, "BlockDigest", fields)
}

fn anchor_tuple<'py>(py: Python<'py>, found: &Anchor) -> PyResult<Bound<'py, PyAny>> {
    let fields = (found.first, found.last, found.covers, found.usage);
    named(py, "ullage._reference.ledger", "Anchor", fields)
}

fn items_of<'py>(items: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    if let Ok(list) = items.cast::<PyList>() {
        return Ok(list.iter().collect());
    }
    items.try_iter()?.collect()
}

#[pymethods]
impl Ledger {
    #[new]
    #[pyo3(signature = (weights=None, items=None))]
    fn new(
        py: Python<'_>,
        weights: Option<Py<Weights>>,
        items: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let made = Self {
            weights,
            state: Mutex::default(),
        };
        if let Some(items) = items {
            made.extend_with(py, &items_of(items)?, true)?;
        }
        Ok(made)
    }

    #[getter]
    fn version(&self) -> u64 {
        self.lock().core.version()
    }

    fn append(&self, item: Bound<'_, PyAny>) -> PyResult<usize> {
        let py = item.py();
        self.extend_with(py, &[item], false)
    }

    fn extend(&self, items: &Bound<'_, PyAny>) -> PyResult<usize> {
        self.extend_with(items.py(), &items_of(items)?, true)
    }

    fn replace(&self, index: i64, item: Bound<'_, PyAny>) -> PyResult<()> {
        let py = item.py();
        let state = &mut *self.lock();
        let at = self::index(&state.core, index)?;
        let mut read = self.read_all(py, &mut state.core, std::slice::from_ref(&item), None)?;
        if let Some((message, blocks)) = read.pop() {
            state.core.replace(at, message, &blocks);
        }
        state.held[at] = item.unbind();
        state.stale.remove(&at);
        Ok(())
    }

    fn truncate(&self, length: &Bound<'_, PyAny>) -> PyResult<()> {
        let state = &mut *self.lock();
        let length = number("length", length, 0, state.core.len() as u64)?;
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        state.core.truncate(length);
        state.held.truncate(length);
        state.stale.retain(|at| *at < length);
        Ok(())
    }

    fn invalidate(&self, index: i64) -> PyResult<()> {
        let state = &mut *self.lock();
        let at = self::index(&state.core, index)?;
        state.stale.insert(at);
        Ok(())
    }

    fn sync(&self, items: &Bound<'_, PyAny>) -> PyResult<usize> {
        let Ok(list) = items.cast::<PyList>() else {
            let kind = items.get_type().name()?;
            return Err(PyTypeError::new_err(format!(
                "items must be a list, not {kind}"
            )));
        };
        let items: Vec<Bound<'_, PyAny>> = list.iter().collect();
        let state = &mut *self.lock();
        let (head, tail) = state.unchanged(&items);
        if head == state.held.len() && head == items.len() {
            return Ok(0);
        }
        let (old_end, new_end) = (state.held.len() - tail, items.len() - tail);
        let known: HashMap<_, _> = (head..old_end)
            .filter(|at| !state.stale.contains(at))
            .map(|at| (state.held[at].as_ptr(), at))
            .collect();
        let wanted: Vec<usize> = (head..new_end)
            .filter(|at| !known.contains_key(&items[*at].as_ptr()))
            .collect();
        let fresh: Vec<_> = wanted.iter().map(|at| items[*at].clone()).collect();
        let read = self.read_all(list.py(), &mut state.core, &fresh, Some(&wanted))?;
        let mut fresh: HashMap<usize, Digested> = wanted.iter().copied().zip(read).collect();
        let taken = state.take(head);
        for (at, item) in items.iter().enumerate().take(new_end).skip(head) {
            let digested = fresh.remove(&at);
            let old = known.get(&item.as_ptr()).map(|old| &taken[old - head]);
            if let Some((message, blocks)) = digested.as_ref().or(old) {
                state.core.push(*message, blocks);
            }
        }
        for (message, blocks) in &taken[old_end - head..] {
            state.core.push(*message, blocks);
        }
        state.held = items.iter().map(|item| item.clone().unbind()).collect();
        state.stale.clear();
        Ok(wanted.len())
    }

    fn changed_since(&self, version: u64) -> usize {
        self.lock().core.changed_since(version)
    }

    fn __len__(&self) -> usize {
        self.lock().core.len()
    }

    #[pyo3(signature = (start=0, stop=None))]
    fn tokens(&self, start: i64, stop: Option<i64>) -> u64 {
        let core = &self.lock().core;
        let (start, stop) = range(core.len(), start, stop);
        core.tokens(start, stop)
    }

    #[pyo3(signature = (start=0, stop=None))]
    fn rough(&self, start: i64, stop: Option<i64>) -> u64 {
        let core = &self.lock().core;
        let (start, stop) = range(core.len(), start, stop);
        core.rough(start, stop)
    }

    fn message<'py>(&self, py: Python<'py>, index: i64) -> PyResult<Bound<'py, PyAny>> {
        let digest = {
            let core = &self.lock().core;
            *core.message(self::index(core, index)?)
        };
        message_tuple(py, &digest)
    }

    fn blocks<'py>(&self, py: Python<'py>, index: i64) -> PyResult<Bound<'py, PyList>> {
        let digests = {
            let core = &self.lock().core;
            core.blocks(self::index(core, index)?).to_vec()
        };
        let tuples: PyResult<Vec<_>> = digests
            .iter()
            .map(|digest| block_tuple(py, digest))
            .collect();
        PyList::new(py, tuples?)
    }

    #[pyo3(name = "string")]
    fn string_of<'py>(&self, py: Python<'py>, r#ref: i64) -> PyResult<Bound<'py, PyAny>> {
        let core = &self.lock().core;
        let count = core.strings.len();
        let number_of = r#ref;
        match u32::try_from(number_of) {
            Ok(number) if (number as usize) < count => string(py, core.string(number)),
            _ => Err(PyIndexError::new_err(format!(
                "string {number_of} of {count}"
            ))),
        }
    }

    fn anchor<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let anchor = self.lock().core.anchor();
        anchor.map(|found| anchor_tuple(py, &found)).transpose()
    }

    #[pyo3(signature = (freed=None))]
    fn anchored<'py>(
        &self,
        py: Python<'py>,
        freed: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let freed = freed.map_or(Ok(0), |freed| number("freed", freed, 0, u64::MAX))?;
        let (total, estimated, anchor) = self.lock().core.anchored(freed);
        let anchor = anchor.map(|found| anchor_tuple(py, &found)).transpose()?;
        named(
            py,
            "ullage._reference.ledger",
            "AnchoredCount",
            (total, estimated, anchor),
        )
    }

    #[pyo3(signature = (start=0, stop=None))]
    fn rounds(&self, start: i64, stop: Option<i64>) -> Vec<u32> {
        let core = &self.lock().core;
        let (start, stop) = range(core.len(), start, stop);
        rounds(core, start, stop)
    }

    fn last_boundary(&self) -> Option<u32> {
        self.lock().core.last_boundary()
    }

    fn find_uuid(&self, uuid: &Bound<'_, PyString>) -> PyResult<Option<u32>> {
        crate::text::with_text(uuid, |text| {
            with_utf8(text, |uuid| self.lock().core.find_uuid(uuid))
        })
    }

    fn find_call(&self, tool_use_id: &Bound<'_, PyString>) -> PyResult<Option<Place>> {
        crate::text::with_text(tool_use_id, |text| {
            with_utf8(text, |id| self.lock().core.find_call(id))
        })
    }

    fn find_result(&self, tool_use_id: &Bound<'_, PyString>) -> PyResult<Option<Place>> {
        crate::text::with_text(tool_use_id, |text| {
            with_utf8(text, |id| self.lock().core.find_result(id))
        })
    }

    fn open_calls(&self) -> Vec<Place> {
        self.lock().core.open_calls()
    }

    #[pyo3(signature = (start, *, floor=None, min_tokens=None, max_tokens=None, min_text_messages=None))]
    fn keep_window<'py>(
        &self,
        start: &Bound<'py, PyAny>,
        floor: Option<&Bound<'py, PyAny>>,
        min_tokens: Option<&Bound<'py, PyAny>>,
        max_tokens: Option<&Bound<'py, PyAny>>,
        min_text_messages: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        use ullage_core::limits::{KEEP_MAX_TOKENS, KEEP_MIN_TEXT_MESSAGES, KEEP_MIN_TOKENS};
        let py = start.py();
        let length = self.lock().core.len() as u64;
        let given = |name, value: Option<&Bound<'py, PyAny>>, most, unset| {
            value.map_or(Ok(unset), |value| number(name, value, 0, most))
        };
        let start = number("start", start, 0, length)?;
        let floor = given("floor", floor, length, 0)?;
        let enough = Enough {
            min_tokens: given("min_tokens", min_tokens, u64::MAX, KEEP_MIN_TOKENS)?,
            max_tokens: given("max_tokens", max_tokens, u64::MAX, KEEP_MAX_TOKENS)?,
            min_text_messages: u32::try_from(given(
                "min_text_messages",
                min_text_messages,
                u64::MAX,
                u64::from(KEEP_MIN_TEXT_MESSAGES),
            )?)
            .unwrap_or(u32::MAX),
        };
        let place = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
        let kept = keep_window(&self.lock().core, place(start), place(floor), &enough);
        let fields = (kept.start, kept.tokens, kept.text_messages, kept.orphans);
        named(py, "ullage._reference.window", "KeepWindow", fields)
    }

    #[pyo3(signature = (gap_tokens, *, start=None, share_percent=None))]
    fn truncate_head(
        &self,
        gap_tokens: Option<&Bound<'_, PyAny>>,
        start: Option<&Bound<'_, PyAny>>,
        share_percent: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<usize> {
        let core = &self.lock().core;
        let gap = gap_tokens
            .map(|gap| number("gap_tokens", gap, 0, u64::MAX))
            .transpose()?;
        let start = start.map_or(Ok(0), |start| number("start", start, 0, core.len() as u64))?;
        let share = share_percent.map_or(Ok(20), |share| number("share_percent", share, 1, 100))?;
        let (start, share) = (
            usize::try_from(start).unwrap_or(0),
            u32::try_from(share).unwrap_or(20),
        );
        Ok(truncate_head(core, gap, start, share))
    }

    fn __repr__(&self) -> String {
        let core = &self.lock().core;
        format!(
            "Ledger({} messages, {} tokens)",
            core.len(),
            core.tokens(0, core.len())
        )
    }
}

/// Adds this file's names to the module.
pub(crate) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<Ledger>()?;
    let flags = |all: &[(&str, u32)]| -> PyResult<Py<PyTuple>> {
        Ok(PyTuple::new(
            m.py(),
            all.iter()
                .map(|(name, bit)| (*name, *bit))
                .collect::<Vec<_>>(),
        )?
        .unbind())
    };
    // For the test that compares the vocabulary with the twin's.
    m.add(
        "_MESSAGE_FLAGS",
        flags(ullage_core::digest::message_flag::ALL)?,
    )?;
    m.add("_BLOCK_FLAGS", flags(ullage_core::digest::block_flag::ALL)?)
}
