//! Character classes, rough and calibrated estimates.
