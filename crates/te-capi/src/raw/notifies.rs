//! Notifications on the heap of C: made here, and freed here by the same allocator.
//!
//! I1  The array has one entry more than there are notifications, whose pointers are null: freeing goes
//!     by that and not by the count that the caller gives back.
#![allow(unsafe_code, reason = "malloc and free for C; docs/memory-safety.md")]

use std::ffi::c_char;
use std::ptr;

use te_compat::{Code, Failure};

use crate::abi::NotifyMsg;
use crate::raw::cut;

/// What `getNotifsFromEngine` gave, as it comes back.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct Taken(*mut NotifyMsg);

/// An array for C with these names and texts; null for none.
///
/// # Errors
/// There is no memory for it.
pub(crate) fn hand_out(messages: &[(&str, &str)]) -> Result<*mut NotifyMsg, Failure> {
    if messages.is_empty() {
        return Ok(ptr::null_mut());
    }
    // SAFETY: `calloc` takes any sizes; it checks their product.
    let list = unsafe { libc::calloc(messages.len() + 1, size_of::<NotifyMsg>()) };
    let list: *mut NotifyMsg = list.cast();
    if list.is_null() {
        return Err(no_memory());
    }
    for (index, (name, text)) in messages.iter().enumerate() {
        let entry = NotifyMsg { name: c_text(name), msg: c_text(text) };
        // SAFETY: `index` is below the number of entries.
        let place = unsafe { list.add(index) };
        // SAFETY: inside the array, which nobody else has yet.
        unsafe { place.write(entry) };
        if entry.name.is_null() || entry.msg.is_null() {
            release(entry);
            // SAFETY: as above; the entries from here on are null.
            unsafe { place.write(NotifyMsg { name: ptr::null_mut(), msg: ptr::null_mut() }) };
            give_back(&Taken(list));
            return Err(no_memory());
        }
    }
    Ok(list)
}

/// Frees such an array, or nothing.
pub(crate) fn give_back(taken: &Taken) {
    if taken.0.is_null() {
        return;
    }
    for index in 0.. {
        // SAFETY: the array ends with an entry of null pointers (I1), and the loop before it.
        let place = unsafe { taken.0.add(index) };
        // SAFETY: as above.
        let entry = unsafe { place.read() };
        if entry.name.is_null() && entry.msg.is_null() {
            break;
        }
        release(entry);
    }
    // SAFETY: the caller gives back what `calloc` gave, once.
    unsafe { libc::free(taken.0.cast()) };
}

fn release(entry: NotifyMsg) {
    // SAFETY: null, or from `malloc`, and freed once.
    unsafe { libc::free(entry.name.cast()) };
    // SAFETY: as above.
    unsafe { libc::free(entry.msg.cast()) };
}

/// A copy with a NUL; null where there is no memory.
fn c_text(text: &str) -> *mut c_char {
    let kept = cut(text, text.len());
    // SAFETY: `malloc` takes any size.
    let copy: *mut c_char = unsafe { libc::malloc(kept.len() + 1) }.cast();
    if copy.is_null() {
        return copy;
    }
    // SAFETY: `copy` has one byte more than `kept`.
    unsafe { copy.copy_from_nonoverlapping(kept.as_ptr().cast(), kept.len()) };
    // SAFETY: the last byte of `copy`.
    let end = unsafe { copy.add(kept.len()) };
    // SAFETY: as above.
    unsafe { end.write(0) };
    copy
}

fn no_memory() -> Failure {
    Failure::new(Code::Memory, "memory", "there is no memory for the notifications")
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;

    use super::*;

    #[test]
    fn a115_notifications_are_copied_cut_at_a_nul_and_freed_by_their_end() {
        // A115: a malloc'd array; embedded NULs cut; null where there are none.
        assert!(hand_out(&[]).unwrap().is_null());
        give_back(&Taken(ptr::null_mut()));
        let list = hand_out(&[("done", "one\0two"), ("", "ä")]).unwrap();
        // SAFETY: two entries were handed out.
        let entries = unsafe { std::slice::from_raw_parts(list, 2) };
        let texts = entries.iter().flat_map(|entry| [entry.name, entry.msg]);
        // SAFETY: each ends with a NUL.
        let texts: Vec<&str> =
            texts.map(|t| unsafe { CStr::from_ptr(t) }.to_str().unwrap()).collect();
        assert_eq!(texts, ["done", "one", "", "ä"]);
        give_back(&Taken(list));
    }
}
