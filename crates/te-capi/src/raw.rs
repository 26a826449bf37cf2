//! The door for pointers: everything that a C caller points to is read and written here.
//!
//! The types of this file are what exported functions take. Each is one pointer, as C passes it; none
//! can be made in Rust, so that a value of them always comes with the promise of `transfer_engine_c.h`:
//! a text that is not null ends with a NUL, an array that is not null has the entries that its count
//! says, a place that is not null is writable, and all that until the call returns.
#![allow(unsafe_code, reason = "pointers of C callers; docs/memory-safety.md")]

use std::ffi::{CStr, c_char, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

use te_compat::{CallerMemory, Failure};

pub(crate) use self::notifies::{Taken, give_back, hand_out};
pub(crate) use self::plain::Plain;

mod notifies;
mod plain;

/// The promise about memory that engines are given by address: that of the header.
pub(crate) fn caller_memory() -> CallerMemory {
    // SAFETY: the addresses come from C, where no Rust reference to the bytes exists; `transfer_engine_c.h`
    // asks that registered memory is not replaced by other memory.
    unsafe { CallerMemory::promise() }
}

/// Text.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct Text(*const c_char);

impl Text {
    /// The text of a pointer that stands in a struct of the caller.
    pub(crate) fn inside(pointer: *const c_char) -> Self {
        Self(pointer)
    }

    /// The text; `what` names the argument.
    ///
    /// # Errors
    /// A null pointer, and bytes that are no UTF-8.
    pub(crate) fn read(&self, what: &str) -> Result<&str, Failure> {
        let text = self.optional(what)?;
        text.ok_or_else(|| invalid(what, "is a null pointer"))
    }

    /// As [`Self::read`], with `None` for a null pointer.
    pub(crate) fn optional(&self, what: &str) -> Result<Option<&str>, Failure> {
        if self.0.is_null() {
            return Ok(None);
        }
        // SAFETY: the caller promises a NUL at the end, and that nothing changes during the call.
        let text = unsafe { CStr::from_ptr(self.0) };
        let text = text.to_str().map_err(|_| invalid(what, "is no UTF-8"))?;
        Ok(Some(text))
    }
}

/// An address that is not read here.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Address(*const c_void);

impl Address {
    /// Its number.
    pub(crate) fn number(self) -> u64 {
        self.0.addr() as u64
    }
}

/// An array, or one value, to be read.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct In<T>(*const T);

impl<T: Plain> In<T> {
    /// The array of a pointer that stands in a struct of the caller.
    pub(crate) fn inside(pointer: *const T) -> Self {
        Self(pointer)
    }

    /// Whether it is a null pointer.
    pub(crate) fn is_null(&self) -> bool {
        self.0.is_null()
    }

    /// The first `count` entries; `what` names the argument.
    ///
    /// # Errors
    /// A null or odd pointer, and a count that no array can have.
    pub(crate) fn entries(&self, count: usize, what: &str) -> Result<&[T], Failure> {
        if count == 0 {
            return Ok(&[]);
        }
        check(self.0, count, what)?;
        // SAFETY: the caller promises `count` entries that do not change during the call; any bytes
        // are a value of a plain type; alignment and size were looked at.
        Ok(unsafe { std::slice::from_raw_parts(self.0, count) })
    }

    /// The one value.
    pub(crate) fn value(&self, what: &str) -> Result<T, Failure> {
        self.entries(1, what).map(|all| all[0])
    }
}

/// One place for an answer, or several.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct Out<T>(*mut T);

impl<T: Plain> Out<T> {
    /// The places of a pointer that stands in a struct of the caller.
    pub(crate) fn inside(pointer: *mut T) -> Self {
        Self(pointer)
    }

    /// Whether it is a null pointer.
    pub(crate) fn is_null(&self) -> bool {
        self.0.is_null()
    }

    /// What stands there, where the call reads it too.
    ///
    /// # Errors
    /// A null or odd pointer.
    pub(crate) fn now(&self, what: &str) -> Result<T, Failure> {
        check(self.0, 1, what)?;
        // SAFETY: a place of the caller, not null and aligned; any bytes are a value of a plain type.
        Ok(unsafe { self.0.read() })
    }

    /// Writes the answer.
    ///
    /// # Errors
    /// A null or odd pointer.
    pub(crate) fn put(&self, value: T, what: &str) -> Result<(), Failure> {
        self.put_all(&[value], what)
    }

    /// Writes the answer where the caller wants it.
    ///
    /// # Errors
    /// An odd pointer.
    pub(crate) fn put_if_wanted(&self, value: T, what: &str) -> Result<(), Failure> {
        if self.is_null() { Ok(()) } else { self.put(value, what) }
    }

    /// Writes several answers; the caller has room for them.
    ///
    /// # Errors
    /// A null or odd pointer.
    pub(crate) fn put_all(&self, values: &[T], what: &str) -> Result<(), Failure> {
        if values.is_empty() {
            return Ok(());
        }
        check(self.0, values.len(), what)?;
        // SAFETY: the caller promises as many writable places; ours are not among them.
        unsafe { self.0.copy_from_nonoverlapping(values.as_ptr(), values.len()) };
        Ok(())
    }
}

/// A place for text.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct Buffer(*mut c_char);

impl Buffer {
    /// Whether it is a null pointer.
    pub(crate) fn is_null(&self) -> bool {
        self.0.is_null()
    }

    /// Writes `text` and a NUL into `len` bytes; cuts it between two characters where it does not fit.
    ///
    /// # Errors
    /// A null pointer, and a place of no bytes.
    pub(crate) fn write(&self, len: usize, text: &str, what: &str) -> Result<(), Failure> {
        let Some(room) = len.checked_sub(1) else { return Err(invalid(what, "has no bytes")) };
        let kept = cut(text, room);
        check(self.0, kept.len() + 1, what)?;
        // SAFETY: the caller promises `len` writable bytes, and `kept` is shorter.
        unsafe { self.0.copy_from_nonoverlapping(kept.as_ptr().cast(), kept.len()) };
        // SAFETY: one past what was written is still inside the `len` bytes.
        let end = unsafe { self.0.add(kept.len()) };
        // SAFETY: as above.
        unsafe { end.write(0) };
        Ok(())
    }
}

/// What fits into `room` bytes without cutting a character, and up to the first NUL.
pub(crate) fn cut(text: &str, room: usize) -> &str {
    let whole = text.find('\0').map_or(text, |at| &text[..at]);
    &whole[..whole.floor_char_boundary(room)]
}

/// Text in an array of a struct, with a NUL, cut where it does not fit.
pub(crate) fn array<const N: usize>(text: &str) -> [c_char; N] {
    let mut array = [0; N];
    for (place, byte) in array.iter_mut().zip(cut(text, N - 1).bytes()) {
        *place = c_char::from_ne_bytes([byte]);
    }
    array
}

/// A value that is made once and never freed, and that another may take the place of.
#[derive(Debug)]
pub(crate) struct Lasting<T>(AtomicPtr<T>);

impl<T: Send + Sync + 'static> Lasting<T> {
    pub(crate) const fn empty() -> Self {
        Self(AtomicPtr::new(std::ptr::null_mut()))
    }

    /// The value, if there is one by now.
    pub(crate) fn get(&self) -> Option<&'static T> {
        // SAFETY: null, or from `Box::leak` below, and never freed.
        unsafe { self.0.load(Ordering::Acquire).as_ref() }
    }

    /// Puts `fresh` in the place of `old`, unless another thread was faster; gives what is there.
    pub(crate) fn replace(&self, old: Option<&'static T>, fresh: T) -> &'static T {
        let old = old.map_or(std::ptr::null_mut(), |old| std::ptr::from_ref(old).cast_mut());
        let fresh = Box::into_raw(Box::new(fresh));
        let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
        match self.0.compare_exchange(old, fresh, success, failure) {
            // SAFETY: just leaked, and never freed from now on.
            Ok(_) => unsafe { &*fresh },
            Err(there) => {
                // SAFETY: it was not published, so that nobody else has it.
                drop(unsafe { Box::from_raw(fresh) });
                // SAFETY: not null, because `old` was replaced; never freed.
                unsafe { &*there }
            }
        }
    }
}

fn check<T>(pointer: *const T, count: usize, what: &str) -> Result<(), Failure> {
    if pointer.is_null() {
        return Err(invalid(what, "is a null pointer"));
    }
    if !pointer.is_aligned() {
        return Err(invalid(what, "is not aligned"));
    }
    let bytes = count.checked_mul(size_of::<T>()).filter(|bytes| isize::try_from(*bytes).is_ok());
    match bytes.and_then(|bytes| pointer.addr().checked_add(bytes)) {
        Some(_) => Ok(()),
        None => Err(invalid(what, &format!("cannot have {count} entries"))),
    }
}

fn invalid(what: &str, why: &str) -> Failure {
    Failure::invalid("argument", format!("{what} {why}"))
}

#[cfg(test)]
mod tests;
