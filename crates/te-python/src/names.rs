//! The small types of Mooncake's module: directions and notifications.

use std::hash::{DefaultHasher, Hash, Hasher};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use te_compat::{Notify, Opcode};
use te_sync::Mutex;

use crate::numbers::Text;

/// The direction of a transfer.
#[pyclass(frozen, eq, module = "te_engine.compat", name = "TransferOpcode")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum TransferOpcode {
    /// From the peer's memory to ours.
    Read,
    /// From our memory to the peer's.
    Write,
}

impl TransferOpcode {
    pub(crate) fn op(self) -> Opcode {
        match self {
            Self::Read => Opcode::Read,
            Self::Write => Opcode::Write,
        }
    }
}

#[pymethods]
impl TransferOpcode {
    #[new]
    fn new(value: i64) -> PyResult<Self> {
        match value {
            0 => Ok(Self::Read),
            1 => Ok(Self::Write),
            other => Err(PyValueError::new_err(format!("{other} is no TransferOpcode"))),
        }
    }

    #[getter]
    fn name(&self) -> &'static str {
        match self {
            Self::Read => "Read",
            Self::Write => "Write",
        }
    }

    #[getter]
    fn value(&self) -> u8 {
        *self as u8
    }

    #[classattr]
    fn __members__(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
        let members = PyDict::new(py);
        members.set_item("Read", Self::Read)?;
        members.set_item("Write", Self::Write)?;
        Ok(members)
    }

    fn __int__(&self) -> u8 {
        self.value()
    }

    fn __index__(&self) -> u8 {
        self.value()
    }

    fn __hash__(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish()
    }

    fn __reduce__(slf: Bound<'_, Self>) -> (Bound<'_, PyAny>, (u8,)) {
        let kind = slf.py().get_type::<Self>();
        (kind.into_any(), (slf.get().value(),))
    }

    fn __repr__(&self) -> String {
        format!("<TransferOpcode.{}: {}>", self.name(), self.value())
    }

    fn __str__(&self) -> String {
        format!("TransferOpcode.{}", self.name())
    }
}

/// A notification: who sends it, and what.
#[pyclass(frozen, module = "te_engine.compat", name = "TransferNotify")]
#[derive(Debug, Default)]
pub(crate) struct TransferNotify {
    parts: Mutex<(String, String)>,
}

impl TransferNotify {
    pub(crate) fn of(notify: Notify) -> Self {
        Self { parts: Mutex::new((notify.name, notify.msg)) }
    }

    pub(crate) fn notify(&self) -> Notify {
        let (name, msg) = self.parts.lock().clone();
        Notify { name, msg }
    }
}

#[pymethods]
impl TransferNotify {
    #[new]
    #[pyo3(signature = (*given, **named))]
    fn new(
        given: &Bound<'_, pyo3::types::PyTuple>,
        named: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        use pyo3::exceptions::PyTypeError;
        if given.is_empty() && named.is_none() {
            return Ok(Self::default());
        }
        let mut texts = [None, None];
        for (place, value) in texts.iter_mut().zip(given.iter()) {
            *place = value.extract::<Text>()?.0;
        }
        for (key, value) in named.into_iter().flat_map(|named| named.iter()) {
            let index = match key.extract::<String>()?.as_str() {
                "name" => 0,
                "msg" => 1,
                _ => return Err(PyTypeError::new_err("the names are `name` and `msg`")),
            };
            texts[index] = value.extract::<Text>()?.0;
        }
        match texts {
            [Some(name), Some(msg)] if given.len() <= 2 => {
                Ok(Self { parts: Mutex::new((name, msg)) })
            }
            _ => Err(PyTypeError::new_err("either nothing, or `name` and `msg` are expected")),
        }
    }

    #[getter]
    fn name(&self) -> String {
        self.parts.lock().0.clone()
    }

    #[setter]
    fn set_name(&self, name: Text) -> PyResult<()> {
        let name = name.required()?.to_owned();
        self.parts.lock().0 = name;
        Ok(())
    }

    #[getter]
    fn msg(&self) -> String {
        self.parts.lock().1.clone()
    }

    #[setter]
    fn set_msg(&self, msg: Text) -> PyResult<()> {
        let msg = msg.required()?.to_owned();
        self.parts.lock().1 = msg;
        Ok(())
    }
}

/// An engine as an object to be handed on; nothing can be done with it from Python.
#[pyclass(frozen, module = "te_engine.compat", name = "InnerTransferEngine")]
pub(crate) struct InnerTransferEngine {
    pub(crate) _engine: te_compat::Engine,
}
