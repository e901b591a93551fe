//! Which messages hold images or documents.
