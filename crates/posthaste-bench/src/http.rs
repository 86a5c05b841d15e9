//! A connection that is cheap enough not to be measured itself.
//!
//! Requests are bytes that somebody prepared; of an answer only the status, the
//! length and the body are looked at. It speaks to two servers that this program
//! started and to nobody else, so it knows one answer at a time, with a
//! `content-length`, and calls everything else broken.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

/// Connections from one source address before the next is used: its ports end.
const PER_SOURCE: usize = 20_000;
const FIRST_ROOM: usize = 2 * 1024;

/// One keep-alive connection.
pub(crate) struct Conn {
    stream: TcpStream,
    buffer: Vec<u8>,
}

#[derive(Debug)]
pub(crate) struct Answer<'a> {
    pub(crate) status: u16,
    head: &'a [u8],
    pub(crate) body: &'a [u8],
}

impl Answer<'_> {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        header(std::str::from_utf8(self.head).ok()?, name)
    }

    /// What a person should see of an answer that was not expected.
    pub(crate) fn unexpected(&self) -> anyhow::Error {
        let start = &self.body[..self.body.len().min(300)];
        anyhow::anyhow!("the hub answered {}: {}", self.status, String::from_utf8_lossy(start))
    }
}

impl Conn {
    pub(crate) async fn open(to: SocketAddr) -> io::Result<Self> {
        Self::open_as(to, 0).await
    }

    /// The same as connection number `number` of very many.
    pub(crate) async fn open_as(to: SocketAddr, number: usize) -> io::Result<Self> {
        let socket = TcpSocket::new_v4()?;
        if number >= PER_SOURCE {
            let last = u8::try_from(1 + number / PER_SOURCE).map_err(io::Error::other)?;
            socket.bind(SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, 0, 0, last)), 0))?;
        }
        let stream = socket.connect(to).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: Vec::with_capacity(FIRST_ROOM) })
    }

    /// Sends `request` and does not wait for its answer.
    pub(crate) async fn ask(&mut self, request: &[u8]) -> io::Result<()> {
        self.buffer.clear();
        self.stream.write_all(request).await
    }

    /// Sends `request` and waits for its whole answer.
    pub(crate) async fn call(&mut self, request: &[u8]) -> io::Result<Answer<'_>> {
        self.ask(request).await?;
        self.answer().await
    }

    /// The whole answer to what was asked.
    pub(crate) async fn answer(&mut self) -> io::Result<Answer<'_>> {
        let head = loop {
            self.more().await?;
            if let Some(head) = Head::read(&self.buffer)? {
                break head;
            }
        };
        let end = head.end + head.length;
        self.buffer.reserve(end.saturating_sub(self.buffer.len()));
        while self.buffer.len() < end {
            self.more().await?;
        }
        if self.buffer.len() > end {
            return Err(io::Error::other("more than one answer"));
        }
        let (first, body) = self.buffer.split_at(head.end);
        Ok(Answer { status: head.status, head: first, body })
    }

    /// Sends `request`, whose answer has no end, and waits until `mark` has come.
    pub(crate) async fn follow(&mut self, request: &[u8], mark: &str) -> io::Result<()> {
        self.ask(request).await?;
        loop {
            self.more().await?;
            let text = String::from_utf8_lossy(&self.buffer);
            if !text.starts_with("HTTP/1.1 200 ") && text.contains("\r\n\r\n") {
                return Err(io::Error::other(format!("this is no stream: {text}")));
            }
            if text.contains(mark) {
                return Ok(());
            }
        }
    }

    /// The next piece of an answer without an end.
    pub(crate) async fn next_piece(&mut self) -> io::Result<&[u8]> {
        self.buffer.clear();
        self.more().await?;
        Ok(&self.buffer)
    }

    /// How much came unasked since the last look, which is thrown away; `None` when
    /// the server has closed.
    pub(crate) fn came(&mut self) -> Option<usize> {
        let mut came = 0;
        loop {
            self.buffer.clear();
            match self.stream.try_read_buf(&mut self.buffer) {
                Ok(0) => return None,
                Ok(more) => came += more,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Some(came),
                Err(_) => return None,
            }
        }
    }

    async fn more(&mut self) -> io::Result<()> {
        if self.buffer.len() == self.buffer.capacity() {
            self.buffer.reserve(FIRST_ROOM);
        }
        match self.stream.read_buf(&mut self.buffer).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Head {
    status: u16,
    /// Where the body begins.
    end: usize,
    length: usize,
}

impl Head {
    /// `None` while the head is not complete.
    fn read(bytes: &[u8]) -> io::Result<Option<Self>> {
        let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
            return Ok(None);
        };
        let broken = || io::Error::other("this is no answer of a server that we know");
        let head = std::str::from_utf8(&bytes[..end]).map_err(io::Error::other)?;
        let status = head.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)?.parse().ok());
        let status = status.ok_or_else(broken)?;
        let length = header(head, "content-length").and_then(|value| value.parse().ok());
        Ok(Some(Self { status, end: end + 4, length: length.ok_or_else(broken)? }))
    }
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.split("\r\n").skip(1).find_map(|line| {
        let (found, value) = line.split_once(':')?;
        found.eq_ignore_ascii_case(name).then(|| value.trim())
    })
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[test]
    fn a_head_is_read_when_it_is_complete() {
        let text = b"HTTP/1.1 201 Created\r\nContent-Length: 12\r\n\r\nabc";
        assert_eq!(Head::read(&text[..30]).expect("good so far"), None);
        let head = Head::read(text).expect("good").expect("complete");
        assert_eq!(head, Head { status: 201, end: 44, length: 12 });
    }

    #[test]
    fn an_answer_without_a_length_is_refused() {
        assert!(Head::read(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").is_err());
        assert!(Head::read(b"SMTP 220\r\n\r\n").is_err());
    }

    #[tokio::test]
    async fn an_answer_that_comes_in_pieces_is_put_together() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("bound");
        let server = async {
            let (mut socket, _) = listener.accept().await.expect("a client");
            let mut request = [0; 4];
            socket.read_exact(&mut request).await.expect("a request");
            for piece in ["HTTP/1.1 2", "00 OK\r\ncontent-le", "ngth: 5\r\n\r", "\nhel", "lo"] {
                socket.write_all(piece.as_bytes()).await.expect("sent");
                tokio::task::yield_now().await;
            }
            socket
        };
        let client = async {
            let mut conn = Conn::open(address).await.expect("connected");
            let answer = conn.call(b"ping").await.expect("an answer");
            (answer.status, answer.body.to_vec())
        };
        let (_, answer) = tokio::join!(server, client);
        assert_eq!(answer, (200, b"hello".to_vec()));
    }

    #[tokio::test]
    async fn a_stream_is_open_until_its_server_closes_it() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("bound");
        let mut conn = Conn::open(address).await.expect("connected");
        let (mut socket, _) = listener.accept().await.expect("a client");
        let head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n: ping\n\n";
        socket.write_all(head).await.expect("sent");
        conn.follow(b"hello", ": ping").await.expect("a stream");
        assert_eq!(conn.came(), Some(0));
        socket.write_all(b": pong\n\n").await.expect("sent");
        conn.stream.readable().await.expect("something");
        assert_eq!(conn.came(), Some(8));
        drop(socket);
        conn.stream.readable().await.expect("the end");
        assert_eq!(conn.came(), None);
    }
}
