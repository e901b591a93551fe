//! Tells which interpreter is built for: `Py_3_14`, `Py_GIL_DISABLED` and the like.

fn main() {
    pyo3_build_config::use_pyo3_cfgs();
}
