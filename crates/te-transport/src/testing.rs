//! What proves a transport: the simulator, the fault injector and the conformance suite.
