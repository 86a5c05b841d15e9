//! The secrets of a server over HTTP: what the profile says of it beyond its place.
//!
//! Errors may name the URL, and a server may quote in its own what it was sent.

use reqwest::{Request, Url};

/// A shorter text is no secret, and stands in many sentences.
const SHORTEST: usize = 4;
/// Stands for a secret.
const HIDDEN: &str = "[hidden]";

#[derive(Default)]
pub(super) struct Secrets(Vec<String>);

impl Secrets {
    /// Returns the secrets in this URL, and in the headers of a request to it.
    pub(super) fn of(url: &str, request: &Request) -> Self {
        let mut all = url_secrets(url);
        // What stands before the host of the URL is in a header of the request.
        for value in request.headers().values() {
            let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
            all.extend(value.split_once(' ').map(|(_, token)| token.to_owned()));
            all.push(value);
        }
        all.retain(|secret| secret.len() >= SHORTEST);
        // A secret may be a part of another one.
        all.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        Self(all)
    }

    /// Returns a text without the secrets.
    pub(super) fn hide(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, secret| text.replace(secret, HIDDEN))
    }
}

fn url_secrets(written: &str) -> Vec<String> {
    let Ok(url) = Url::parse(written) else { return Vec::new() };
    let raw = written.split_once('?').map(|(_, query)| query.split('#').next().unwrap_or(query));
    let queries = url.query().into_iter().chain(raw);
    let mut all: Vec<String> = queries.clone().map(str::to_owned).collect();
    let values = queries.flat_map(|query| query.split('&'));
    all.extend(values.filter_map(|pair| Some(pair.split_once('=')?.1.to_owned())));
    all.extend(url.query_pairs().map(|(_, value)| value.into_owned()));
    all.extend(url.password().map(str::to_owned));
    all.extend(Some(url.username().to_owned()));
    all
}

#[cfg(test)]
mod tests {
    use reqwest::header::HeaderValue;

    use super::*;

    fn secrets(url: &str, headers: &[(&'static str, &str)]) -> Secrets {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut request = reqwest::Client::new().post(url).build().expect("a request");
        for (name, value) in headers {
            request.headers_mut().insert(*name, HeaderValue::try_from(*value).expect("a value"));
        }
        Secrets::of(url, &request)
    }

    #[test]
    fn what_the_url_and_the_headers_carry_is_hidden() {
        let url = "https://alice:geheim-1@x.example/mcp?key=geheim%2D2&v=1#end";
        let headers = [("authorization", "Bearer geheim-3"), ("x-key", "geheim 4")];
        let secrets = secrets(url, &headers);
        let text = format!(
            "no answer from {url}: you sent `geheim-1`, `geheim-2`, `Bearer geheim-3`, \
             `geheim-3` and `geheim 4`, alice"
        );
        let hidden = secrets.hide(&text);
        assert!(!hidden.contains("geheim") && !hidden.contains("alice"), "{hidden}");
        assert!(hidden.contains("@x.example/mcp?[hidden]#end"), "{hidden}");
        assert_eq!(secrets.hide("HTTP 401 and 1"), "HTTP 401 and 1", "`v=1` is no secret");
    }

    #[test]
    fn the_header_that_is_made_of_a_name_and_a_password_is_hidden() {
        let secrets = secrets("https://alice:geheim@x.example/mcp", &[]);
        assert_eq!(secrets.hide("Basic YWxpY2U6Z2VoZWlt"), "[hidden]");
        assert_eq!(secrets.hide("\"YWxpY2U6Z2VoZWlt\""), "\"[hidden]\"");
    }
}
