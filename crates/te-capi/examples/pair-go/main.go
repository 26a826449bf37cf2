// Two engines of one process, in Go: one owns memory, the other writes into it and reads it back.
//
//	go build . && ./pair
//
// Memory that is registered must not be moved and must not be freed while it is: it comes from C, not
// from Go's heap.
package main

/*
#cgo pkg-config: transfer_engine
#include <stdlib.h>
#include "te_c.h"
*/
import "C"

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"unsafe"
)

const size = 16 << 20

// lastError is why the last call on this thread failed. The goroutine must not have changed its thread
// meanwhile.
func lastError(what string) error {
	var last C.te_error_t
	C.te_last_error(&last)
	return fmt.Errorf("%s: %s", what, C.GoString(&last.text[0]))
}

// engine is one transfer engine.
type engine struct {
	handle C.transfer_engine_t
}

func start() (*engine, error) {
	metadata, name := C.CString("P2PHANDSHAKE"), C.CString("127.0.0.1")
	defer C.free(unsafe.Pointer(metadata))
	defer C.free(unsafe.Pointer(name))
	handle := C.createTransferEngine(metadata, name, nil, 0, 1)
	if handle == nil {
		return nil, lastError("createTransferEngine")
	}
	return &engine{handle}, nil
}

func (e *engine) close() { C.destroyTransferEngine(e.handle) }

// allocate gives registered memory of C as bytes.
func (e *engine) allocate() ([]byte, error) {
	memory := C.calloc(1, size)
	if C.registerLocalMemory(e.handle, memory, size, nil, 1) != 0 {
		return nil, lastError("registerLocalMemory")
	}
	return unsafe.Slice((*byte)(memory), size), nil
}

func (e *engine) release(memory []byte) error {
	address := unsafe.Pointer(&memory[0])
	if C.unregisterLocalMemory(e.handle, address) != 0 {
		return lastError("unregisterLocalMemory") // it may be in use: do not free it
	}
	C.free(address)
	return nil
}

func (e *engine) address() (string, error) {
	var text [256]C.char
	if C.getLocalIpAndPort(e.handle, &text[0], C.size_t(len(text))) != 0 {
		return "", lastError("getLocalIpAndPort")
	}
	return C.GoString(&text[0]), nil
}

// move moves all of memory to or from a peer, and waits.
func (e *engine) move(opcode C.int, peer string, memory []byte) error {
	name := C.CString(peer)
	defer C.free(unsafe.Pointer(name))
	segment := C.openSegment(e.handle, name)
	if segment < 0 {
		return lastError("openSegment")
	}
	var address C.uint64_t
	if C.te_first_buffer_address(e.handle, name, &address) != 0 {
		return lastError("te_first_buffer_address")
	}
	batch := C.allocateBatchID(e.handle, 1)
	request := C.transfer_request_t{
		opcode: opcode, source: unsafe.Pointer(&memory[0]), target_id: segment,
		target_offset: address, length: C.uint64_t(len(memory)),
	}
	if C.submitTransfer(e.handle, batch, &request, 1) != 0 {
		return lastError("submitTransfer")
	}
	if C.te_wait(e.handle, batch, 30000, nil) != 0 {
		return lastError("te_wait")
	}
	var fault C.te_error_t
	failed := C.te_task_fault(e.handle, batch, 0, &fault) == 1
	C.freeBatchID(e.handle, batch)
	if failed {
		return errors.New(C.GoString(&fault.text[0]))
	}
	return nil
}

func run() error {
	runtime.LockOSThread() // for lastError
	owner, err := start()
	if err != nil {
		return err
	}
	defer owner.close()
	theirs, err := owner.allocate()
	if err != nil {
		return err
	}
	mover, err := start()
	if err != nil {
		return err
	}
	defer mover.close()
	ours, err := mover.allocate()
	if err != nil {
		return err
	}
	for place := range ours {
		ours[place] = byte(place * 7)
	}
	peer, err := owner.address()
	if err != nil {
		return err
	}
	if err := mover.move(C.OPCODE_WRITE, peer, ours); err != nil {
		return err
	}
	if !bytes.Equal(ours, theirs) {
		return errors.New("the bytes did not arrive")
	}
	for place := range ours {
		ours[place] = 0
	}
	if err := mover.move(C.OPCODE_READ, peer, ours); err != nil {
		return err
	}
	if !bytes.Equal(ours, theirs) {
		return errors.New("the bytes did not come back")
	}
	if err := mover.move(C.OPCODE_READ, "127.0.0.1:1", ours); err == nil {
		return errors.New("a peer that is not there was found")
	} else {
		fmt.Println("refused, as it should be:", err)
	}
	if err := owner.release(theirs); err != nil {
		return err
	}
	return mover.release(ours)
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("ok: 16 MiB went there and came back")
}
