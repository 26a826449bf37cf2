//! Whole engines over a fake RDMA fabric, with real peer servers on loopback.

mod absence;
mod descriptor;
mod faults;
mod happy;
mod harness;
mod submit;
