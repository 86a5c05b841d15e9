//! Calls of models, with a server that speaks the formats of the providers.
