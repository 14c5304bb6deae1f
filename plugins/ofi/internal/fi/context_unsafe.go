//go:build ofi && cgo

package fi

/*
#cgo pkg-config: libfabric
#cgo CFLAGS: -O2 -Wall -Wextra
#include <stdlib.h>
#include "shim.h"
*/
import "C"

import (
	"fmt"
	"unsafe"
)

// Missing is empty because libfabric is linked.
const Missing = ""

// Version returns the version of the loaded libfabric.
func Version() string { return versionText(uint32(C.fb_version())) }

func versionText(v uint32) string { return fmt.Sprintf("%d.%d", v>>16, v&0xffff) }

func codeError(code C.int) error {
	if code == 0 {
		return nil
	}
	return &Error{Code: int(-code), Text: C.GoString(C.fb_error(code))}
}

// List has libfabric's interfaces with reliable datagrams.
type List struct {
	c          *C.fb_list
	Interfaces []Interface
}

// NewList asks libfabric for its interfaces to a provider, or to all if provider is empty.
func NewList(provider string) (*List, error) {
	var name *C.char
	if provider != "" {
		name = C.CString(provider)
		defer C.free(unsafe.Pointer(name))
	}
	l := &List{}
	if err := codeError(C.fb_list_open(name, &l.c)); err != nil {
		return nil, err
	}
	var c C.fb_info
	for i := C.uint32_t(0); C.fb_list_at(l.c, i, &c) != 0; i++ {
		l.Interfaces = append(l.Interfaces, Interface{
			Provider: C.GoString(c.provider), Version: versionText(uint32(c.version)),
			Fabric: C.GoString(c.fabric), Domain: C.GoString(c.domain),
			Endpoint: C.GoString(&c.endpoint[0]), Protocol: C.GoString(&c.protocol[0]),
			Format: int(c.format), Address: C.GoBytes(c.address, C.int(c.address_size)),
			Inject: int(c.inject), Sends: int(c.transmits), Receives: int(c.receives),
			MaxMessage: uint64(c.max_message), MRMode: uint64(c.mr_mode),
		})
	}
	return l, nil
}

// Close frees the list.
func (l *List) Close() { C.fb_list_close(l.c) }

// Open opens the interface with this index.
func (l *List) Open(index int) (*Context, error) {
	c := &Context{}
	err := codeError(C.fb_open(l.c, C.uint32_t(index), &c.c))
	return c, err
}

// Context is an open interface. Any goroutine may call its methods, one at a time.
type Context struct{ c *C.fb_context }

// Close closes the interface. Destroy its workers first.
func (c *Context) Close() { C.fb_close(c.c) }

// ProcessDied tells the shim that the process of a peer has ended, which may have held a lock in
// shared memory. Any goroutine may call it.
func ProcessDied() { C.fb_process_died() }
