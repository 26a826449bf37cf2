//! A target made by hand that has no NIC: it shows an edited descriptor of a real engine, and hands
//! handshakes of NICs on to it with edited answers, so that bytes can really move.

use std::io::{self, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

use super::handshake::{Frame, HandshakeAnswer, HandshakeClient, descriptor, read_request};

/// How a message is framed and what is in it.
#[derive(Debug, Clone, PartialEq)]
pub enum RelayAnswer {
    /// As it should be, with this body.
    Json(Value),
    /// With a type byte, and these bytes as its body.
    Raw(u8, Vec<u8>),
    /// Without a type byte.
    Untyped(Vec<u8>),
    /// The connection is closed.
    Closed,
}

type EditDescriptor = dyn Fn(&mut Value) + Send + Sync;
type EditAnswer = dyn Fn(usize, &Value, Value) -> RelayAnswer + Send + Sync;

/// The running relay. Its threads end with the process.
pub struct Relay {
    name: String,
    state: Arc<State>,
}

struct State {
    /// The engine behind it.
    real: (String, u16),
    name: String,
    descriptor: Box<EditDescriptor>,
    answer: Box<EditAnswer>,
    questions: Mutex<Vec<Value>>,
}

impl std::fmt::Debug for Relay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Relay").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Relay {
    /// In front of the engine at this port of 127.0.0.1. `edit` changes its descriptor, `answer` makes of
    /// the number of a handshake, from 0, its question and the engine's answer what is answered.
    ///
    /// # Errors
    /// What the system says.
    pub fn start(
        port: u16,
        edit: impl Fn(&mut Value) + Send + Sync + 'static,
        answer: impl Fn(usize, &Value, Value) -> RelayAnswer + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let name = format!("127.0.0.1:{}", listener.local_addr()?.port());
        let state = Arc::new(State {
            real: (format!("127.0.0.1:{port}"), port),
            name: name.clone(),
            descriptor: Box::new(edit),
            answer: Box::new(answer),
            questions: Mutex::default(),
        });
        let serving = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = Arc::clone(&serving);
                std::thread::spawn(move || state.serve(stream));
            }
        });
        Ok(Self { name, state })
    }

    /// The name by which an engine opens it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The handshakes of NICs so far.
    pub fn questions(&self) -> Vec<Value> {
        self.state.questions.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl State {
    /// One message; whoever sends nonsense is closed.
    fn serve(&self, mut stream: TcpStream) {
        let Ok((kind, body)) = read_request(&mut stream) else { return };
        let answer = match kind {
            0 => self.handshake(&body),
            1 => {
                let mut shown = descriptor("127.0.0.1", self.real.1);
                shown["name"] = self.name.as_str().into();
                (self.descriptor)(&mut shown);
                RelayAnswer::Json(shown)
            }
            _ => RelayAnswer::Closed,
        };
        let frame = match answer {
            RelayAnswer::Json(value) => Frame::typed(kind, value.to_string().as_bytes()),
            RelayAnswer::Raw(kind, body) => Frame::typed(kind, &body),
            RelayAnswer::Untyped(body) => Frame::untyped(&body),
            RelayAnswer::Closed => return,
        };
        // Who asked may have gone away.
        let _ = stream.write_all(frame.bytes()).and_then(|()| stream.shutdown(Shutdown::Write));
    }

    fn handshake(&self, body: &[u8]) -> RelayAnswer {
        let Ok(question) = serde_json::from_slice::<Value>(body) else {
            return RelayAnswer::Closed;
        };
        let number = {
            let mut questions = self.questions.lock().unwrap_or_else(PoisonError::into_inner);
            questions.push(question.clone());
            questions.len() - 1
        };
        let mut asked = question.clone();
        let path = question["peer_nic_path"].as_str().unwrap_or_default();
        let nic = path.rsplit('@').next().unwrap_or_default();
        asked["peer_nic_path"] = format!("{}@{nic}", self.real.0).into();
        let real = HandshakeClient::new("127.0.0.1", self.real.1);
        let answer = real.ask(&Frame::typed(0, asked.to_string().as_bytes()));
        let Ok(HandshakeAnswer::Framed(_, body)) = answer else { return RelayAnswer::Closed };
        let Ok(mut answer) = serde_json::from_slice::<Value>(&body) else {
            return RelayAnswer::Closed;
        };
        if answer["local_nic_path"].as_str().is_some_and(|path| !path.is_empty()) {
            answer["local_nic_path"] = path.into();
        }
        (self.answer)(number, &question, answer)
    }
}
