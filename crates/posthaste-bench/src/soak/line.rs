//! A connection that is opened again after the server or the load has closed it.

use std::io;
use std::net::SocketAddr;

use anyhow::{Context, ensure};
use serde::de::DeserializeOwned;

use super::record::Record;
use crate::http::Conn;

pub(super) struct Line {
    hub: SocketAddr,
    conn: Option<Conn>,
}

/// An answer that outlives the connection.
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) body: Vec<u8>,
}

impl Reply {
    pub(super) fn read<T: DeserializeOwned>(&self) -> anyhow::Result<T> {
        serde_json::from_slice(&self.body)
            .with_context(|| String::from_utf8_lossy(&self.body).into_owned())
    }
}

impl Line {
    pub(super) fn new(hub: SocketAddr) -> Self {
        Self { hub, conn: None }
    }

    /// The open connection, or a new one.
    pub(super) async fn conn(&mut self) -> io::Result<&mut Conn> {
        let conn = match self.conn.take() {
            Some(conn) => conn,
            None => Conn::open(self.hub).await?,
        };
        Ok(self.conn.insert(conn))
    }

    pub(super) fn close(&mut self) {
        self.conn = None;
    }

    /// Calls, once more on a new connection if the old one was closed meanwhile.
    pub(super) async fn call(&mut self, record: &Record, request: &[u8]) -> io::Result<Reply> {
        let reply = match self.try_call(request).await {
            Ok(reply) => reply,
            Err(_) => {
                record.count(|counts| counts.broken += 1);
                self.close();
                self.try_call(request).await?
            }
        };
        record.count(|counts| counts.calls += 1);
        Ok(reply)
    }

    async fn try_call(&mut self, request: &[u8]) -> io::Result<Reply> {
        let answer = self.conn().await?.call(request).await?;
        Ok(Reply { status: answer.status, body: answer.body.to_vec() })
    }

    /// The same for a call whose answer must be `status`.
    pub(super) async fn expect(
        &mut self,
        record: &Record,
        status: u16,
        request: &[u8],
    ) -> anyhow::Result<Reply> {
        let reply = self.call(record, request).await?;
        let told = String::from_utf8_lossy(&reply.body[..reply.body.len().min(300)]);
        ensure!(reply.status == status, "the hub answered {}: {told}", reply.status);
        Ok(reply)
    }
}
