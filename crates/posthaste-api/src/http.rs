//! HTTP clients of this program on the loopback interface.

use reqwest::redirect::Policy;

/// Begins a client that speaks plain HTTP with a hub, follows no redirect and uses no proxy.
///
/// It has the form of a client with TLS, because the hub's client of model providers has TLS
/// and a feature of a crate is on for all of its users. It trusts no certificate, so that no
/// command reads the system's certificates.
pub fn plain() -> reqwest::ClientBuilder {
    // Another part of the program may have installed one.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().no_proxy().redirect(Policy::none()).tls_certs_only([])
}
