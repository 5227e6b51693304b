//! Properties that hold of all inputs, tried on many that a seed replays.

mod binary;
mod chance;
mod item;
mod json;
