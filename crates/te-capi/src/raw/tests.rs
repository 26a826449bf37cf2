//! What C may point to, and what it may not.

use super::*;

#[test]
fn a_null_pointer_is_an_error_where_something_is_expected() {
    let nothing = Text::inside(std::ptr::null());
    assert_eq!(nothing.optional("name").unwrap(), None);
    assert!(nothing.read("name").unwrap_err().to_string().contains("name is a null pointer"));
    assert!(In::<u64>::inside(std::ptr::null()).entries(1, "list").is_err());
    assert_eq!(In::<u64>::inside(std::ptr::null()).entries(0, "list").unwrap(), [0_u64; 0]);
    assert!(Out::<u64>::inside(std::ptr::null_mut()).put(1, "place").is_err());
    Out::<u64>::inside(std::ptr::null_mut()).put_if_wanted(1, "place").unwrap();
    assert!(Buffer(std::ptr::null_mut()).write(9, "text", "place").is_err());
}

#[test]
fn counts_that_no_array_has_and_odd_pointers_are_errors() {
    let list = [1_u64, 2];
    let all = In::inside(list.as_ptr());
    assert_eq!(all.entries(2, "list").unwrap(), list);
    for count in [usize::MAX, usize::MAX / 2, usize::MAX / 8 + 1] {
        assert!(all.entries(count, "list").unwrap_err().to_string().contains("entries"));
    }
    let odd = In::<u64>::inside(list.as_ptr().wrapping_byte_add(1));
    assert!(odd.entries(1, "list").unwrap_err().to_string().contains("not aligned"));
}

#[test]
fn a104_a_text_that_does_not_fit_is_cut_between_characters() {
    // A104, A120: a copy that is cut, always with a NUL; no byte beyond the place changes.
    let mut place = [0x55_u8; 8];
    let buffer = Buffer(place.as_mut_ptr().cast());
    buffer.write(4, "12ä", "place").unwrap();
    buffer.write(1, "xyz", "place").unwrap_or_default();
    assert_eq!(place, *b"\x002\x00UUUUU");
    assert!(buffer.write(0, "xyz", "place").is_err());
    assert_eq!(array::<4>("abcdef").map(|byte| byte.to_ne_bytes()[0]), *b"abc\0");
}

#[test]
fn text_that_is_no_utf8_is_an_error() {
    let text = Text::inside(c"\xff".as_ptr());
    assert!(text.read("name").unwrap_err().to_string().contains("name is no UTF-8"));
}

#[test]
fn a_lasting_value_is_replaced_once() {
    static PLACE: Lasting<u32> = Lasting::empty();
    assert_eq!(PLACE.get(), None);
    let one = PLACE.replace(None, 1);
    assert_eq!((*one, *PLACE.replace(None, 2)), (1, 1));
    assert_eq!(*PLACE.replace(Some(one), 3), 3);
    assert_eq!(PLACE.get(), Some(&3));
}
