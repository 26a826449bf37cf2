//! The rules of the fabric, one by one. What real verbs do as well is in the script; here is what
//! only the fake can do: hold, lose, fail and count.

mod bed;
mod faults;
mod holding;
mod resources;
