//! Assistants that give work to others.
