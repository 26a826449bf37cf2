//! RDMA: one-sided reads and writes over reliable connections.
