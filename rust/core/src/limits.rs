//! Every default, with unit and reason.
