//! Finding the library, its functions and its devices.
#![allow(unsafe_code, reason = "calls into libibverbs; docs/memory-safety.md")]

use std::error::Error;
use std::ffi::{CStr, OsStr, c_int};
use std::io;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

use te_topology::NicName;

use crate::error::{VerbsCall, VerbsError};
use crate::port::DeviceInfo;
use crate::sys;

#[derive(Debug)]
pub(super) struct Library {
    pub(super) call: sys::Functions,
    pub(super) register_iova2: Option<sys::RegisterIova2>,
    pub(super) register_dmabuf: Option<sys::RegisterDmabuf>,
    pub(super) query_gid_table: Option<sys::QueryGidTable>,
    _keeps: ManuallyDrop<libloading::Library>,
}

/// The error of a call that failed with this number.
pub(super) fn failed(call: VerbsCall, device: &str, errno: i32) -> VerbsError {
    let cause = io::Error::from_raw_os_error(errno).to_string().into();
    VerbsError { call, device: device.into(), errno: Some(errno), cause }
}

/// The number of the call that failed just now.
pub(super) fn last_errno() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}

/// The result of a call that answers 0, a number, the negative of one, or −1.
pub(super) fn checked(answer: c_int) -> Result<(), i32> {
    match answer {
        0 => Ok(()),
        -1 => Err(last_errno()),
        number => Err(number.saturating_abs()),
    }
}

/// An error and what it says of its causes.
fn with_sources(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text = format!("{text}: {cause}");
        next = cause.source();
    }
    text
}

impl Library {
    pub(super) fn load(file: &OsStr) -> Result<Self, VerbsError> {
        let absent = |error: libloading::Error| VerbsError {
            call: VerbsCall::Load,
            device: file.to_string_lossy().into(),
            errno: None,
            cause: with_sources(&error).into(),
        };
        // SAFETY: the constructors of libibverbs touch nothing of this process.
        let library = unsafe { libloading::Library::new(file) }.map_err(absent)?;
        // SAFETY: `file` is libibverbs, by the contract of `load_from`.
        let call = unsafe { sys::Functions::find(&library) }.map_err(absent)?;
        // SAFETY: a function of this name has this signature, in every version that has it.
        let register_iova2 = unsafe { library.get("ibv_reg_mr_iova2") }.ok().map(|found| *found);
        // SAFETY: as above.
        let register_dmabuf = unsafe { library.get("ibv_reg_dmabuf_mr") }.ok().map(|found| *found);
        // SAFETY: as above.
        let query_gid_table =
            unsafe { library.get("_ibv_query_gid_table") }.ok().map(|found| *found);
        // SAFETY: it takes nothing. It refuses where memory was registered before, which another
        // user of the library in this process may have done; then forking is that user's to care.
        let _ = unsafe { (call.ibv_fork_init)() };
        let _keeps = ManuallyDrop::new(library);
        Ok(Self { call, register_iova2, register_dmabuf, query_gid_table, _keeps })
    }

    pub(super) fn devices(&self) -> Result<Vec<DeviceInfo>, VerbsError> {
        let list = DeviceList::new(self)?;
        let names = (0..list.count).filter_map(|at| list.name(at));
        Ok(names.map(|name| DeviceInfo { name }).collect())
    }

    pub(super) fn open(&self, name: &NicName) -> Result<NonNull<sys::Context>, VerbsError> {
        let list = DeviceList::new(self)?;
        let fail = |errno| failed(VerbsCall::Open, &name.to_string(), errno);
        let mut all = 0..list.count;
        let at = all.find(|at| list.name(*at).as_ref() == Some(name));
        let device = list.device(at.ok_or_else(|| fail(libc::ENODEV))?);
        // SAFETY: the device is of the list, which lives until this function ends.
        let context = unsafe { (self.call.ibv_open_device)(device) };
        NonNull::new(context).ok_or_else(|| fail(last_errno()))
    }
}

/// A list of devices, as long as it is held.
struct DeviceList<'a> {
    library: &'a Library,
    /// None where the kernel knows no RDMA.
    first: Option<NonNull<*mut sys::Device>>,
    count: usize,
}

impl<'a> DeviceList<'a> {
    fn new(library: &'a Library) -> Result<Self, VerbsError> {
        let mut count = 0;
        // SAFETY: `count` is there to be written.
        let first = unsafe { (library.call.ibv_get_device_list)(&raw mut count) };
        let first = NonNull::new(first);
        let errno = last_errno();
        if first.is_none() && errno != libc::ENOSYS {
            return Err(failed(VerbsCall::List, "libibverbs", errno));
        }
        let count = if first.is_some() { usize::try_from(count).unwrap_or(0) } else { 0 };
        Ok(Self { library, first, count })
    }

    /// The device at `at`, which is less than the count.
    fn device(&self, at: usize) -> *mut sys::Device {
        assert!(at < self.count, "callers stay within the list");
        let first = self.first.expect("a list with a count has a start");
        // SAFETY: the list has `count` entries, and `at` is less.
        let place = unsafe { first.add(at) };
        // SAFETY: the entry is in the list, which lives as long as `self`.
        unsafe { place.read() }
    }

    /// The name of a device; none where it has one that no device may have.
    fn name(&self, at: usize) -> Option<NicName> {
        // SAFETY: the device is of the list, which lives as long as `self`.
        let name = unsafe { (self.library.call.ibv_get_device_name)(self.device(at)) };
        if name.is_null() {
            return None;
        }
        // SAFETY: the name ends with a zero and lives as long as the device.
        let name = unsafe { CStr::from_ptr(name) };
        NicName::parse(name.to_str().ok()?).ok()
    }
}

impl Drop for DeviceList<'_> {
    fn drop(&mut self) {
        if let Some(first) = self.first {
            // SAFETY: the list came from the library and is not used after this.
            unsafe { (self.library.call.ibv_free_device_list)(first.as_ptr()) };
        }
    }
}
