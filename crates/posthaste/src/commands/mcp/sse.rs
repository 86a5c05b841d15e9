//! Server-sent events, as far as they carry messages: each event's data is one.

/// Reads a stream of events from pieces of any size.
#[derive(Default)]
pub(super) struct Events {
    /// The beginning of a line whose end has not come.
    rest: Vec<u8>,
    /// The data of an event whose end has not come.
    data: Vec<u8>,
}

impl Events {
    /// The data of every event that ends within this piece. Events without any,
    /// and comments, only keep the line alive.
    pub(super) fn feed(&mut self, piece: &[u8]) -> Vec<Vec<u8>> {
        let mut found = Vec::new();
        let mut parts = piece.split(|byte| *byte == b'\n');
        let last = parts.next_back().unwrap_or_default();
        for part in parts {
            self.rest.extend_from_slice(part);
            let line = std::mem::take(&mut self.rest);
            let line = line.strip_suffix(b"\r").unwrap_or(&line);
            if line.is_empty() {
                let data = std::mem::take(&mut self.data);
                found.extend((!data.is_empty()).then_some(data));
            } else if let Some(data) = line.strip_prefix(b"data:") {
                // Several lines of data are one text with ends of lines between
                // them, and between the words of JSON those are only space.
                if !self.data.is_empty() {
                    self.data.push(b' ');
                }
                self.data.extend_from_slice(data.strip_prefix(b" ").unwrap_or(data));
            }
        }
        self.rest.extend_from_slice(last);
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &[u8] = b": hello\n\nid: 1\nevent: message\ndata: {\"a\":\ndata: 1}\n\n\
        retry: 5\n\ndata:\n\ndata:[2]\r\n\r\ndata: never ended";

    #[test]
    fn each_event_is_one_text_however_it_is_cut() {
        for size in 1..=STREAM.len() {
            let mut events = Events::default();
            let found: Vec<_> = STREAM.chunks(size).flat_map(|piece| events.feed(piece)).collect();
            assert_eq!(found, [b"{\"a\": 1}".to_vec(), b"[2]".to_vec()], "in pieces of {size}");
        }
    }
}
