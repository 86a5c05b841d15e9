//! What another process writes, read as it comes, so that it never waits for us.

use std::io::Read;
use std::sync::Arc;
use std::thread::JoinHandle;

use parking_lot::Mutex;

pub(crate) struct Piped {
    text: Arc<Mutex<Vec<u8>>>,
    reading: JoinHandle<()>,
}

impl Piped {
    pub(crate) fn new(mut pipe: impl Read + Send + 'static) -> Self {
        let text = Arc::new(Mutex::new(Vec::new()));
        let reading = std::thread::spawn({
            let text = Arc::clone(&text);
            move || {
                let mut piece = [0; 8192];
                while let Ok(read @ 1..) = pipe.read(&mut piece) {
                    text.lock().extend_from_slice(&piece[..read]);
                }
            }
        });
        Self { text, reading }
    }

    pub(crate) fn until_now(&self) -> String {
        String::from_utf8_lossy(&self.text.lock()).into_owned()
    }

    /// All of it, when the other side has ended.
    pub(crate) fn all(self) -> String {
        self.reading.join().expect("no panic");
        String::from_utf8_lossy(&self.text.lock()).into_owned()
    }
}
